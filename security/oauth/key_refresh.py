"""The keys of an issuer, kept current: fetched at the start, at an interval, and when a token names an unknown key.

A fetch that fails is repeated with growing pauses; the last good keys stay in use.
"""

import asyncio
import json
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Final, NamedTuple, TypeAlias

from kvorum.runtime.config import ConfigError
from kvorum.runtime.logs import get_logger
from kvorum.security.oauth.http import FetchError, WatchedFile
from kvorum.security.oauth.jwks import KeySet, KeySetError, MissingKeyIds

FILE_INTERVAL_MS: Final = 1_000
"""Interval at which the time of a file is compared."""

log = get_logger("security")


class IssuerDocument(NamedTuple):
    """The keys of an issuer as it publishes them."""

    key_set: bytes
    issuer: str | None = None
    """Its name, if it publishes it."""


Fetch: TypeAlias = Callable[[str], Awaitable[bytes]]
"""Returns the document at a URL. Raises FetchError."""
KeySource: TypeAlias = Callable[[], Awaitable[IssuerDocument | None]]
"""Returns the newest document, None if it has not changed. Raises FetchError."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RefreshTimes:
    """Times of fetches, in milliseconds."""

    interval_ms: int = 3_600_000
    retry_ms: int = 100
    retry_max_ms: int = 10_000


class IssuerKeys:
    """The keys of one issuer. `start` once, `close` once."""

    def __init__(
        self, source: KeySource, times: RefreshTimes, error: Callable[[str], ConfigError], issuer: str | None = None
    ) -> None:
        """Fetch from `source`; `error` makes the error of a start that fails; `issuer` is the expected name."""
        self._source = source
        self._times = times
        self._error = error
        self.issuer = issuer
        """The name of the issuer, None if it is not known."""
        self._expected_issuer = issuer
        self._missing = MissingKeyIds()
        self._wake = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self.present: KeySet

    async def start(self, *, required: bool = True) -> None:
        """Fetch the keys for the first time. Raises ConfigError.

        Without `required` a failure is retried in the background, and until then no token is valid.
        """
        try:
            await self._refresh()
        except (FetchError, KeySetError) as error:
            if required:
                raise self._error(str(error)) from None
            self.present = KeySet([])
            log.warning("keys of the token issuer not available", reason=error)
            self._wake.set()
        self._task = asyncio.get_running_loop().create_task(self._run())

    async def close(self) -> None:
        """Stop. Idempotent."""
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            await asyncio.wait([task])

    def report_missing(self, key_id: str) -> None:
        """Fetch the keys because of an unknown key id, unless that was done just now."""
        if self._missing.must_fetch(key_id, asyncio.get_running_loop().time()):
            self._wake.set()

    async def _run(self) -> None:
        pause_ms, failures = self._times.interval_ms, 0
        while True:
            with suppress(TimeoutError):
                async with asyncio.timeout(pause_ms / 1000):
                    await self._wake.wait()
            self._wake.clear()
            try:
                await self._refresh()
            except (FetchError, KeySetError) as error:
                pause_ms = min(self._times.retry_max_ms, self._times.retry_ms << min(failures, 30))
                if failures == 0:
                    log.warning("keys of the token issuer not refreshed; the last ones stay in use", reason=error)
                failures += 1
            else:
                if failures:
                    log.info("keys of the token issuer refreshed again", failures=failures)
                pause_ms, failures = self._times.interval_ms, 0

    async def _refresh(self) -> None:
        """Fetch once. Raises FetchError, KeySetError."""
        found = await self._source()
        if found is None:
            return
        if self._expected_issuer is not None and found.issuer not in (None, self._expected_issuer):
            raise KeySetError(f"the issuer is {found.issuer}, expected {self._expected_issuer}")
        keys = KeySet.parse(found.key_set)
        self.present, self.issuer = keys, self._expected_issuer or found.issuer
        log.debug("keys of the token issuer read", keys=len(keys))


def key_set_at(url: str, fetch: Fetch) -> KeySource:
    """Return the source of a key set's URL."""

    async def source() -> IssuerDocument:
        return IssuerDocument(await fetch(url))

    return source


def key_set_in(file: WatchedFile) -> KeySource:
    """Return the source of a key set in a file."""

    async def source() -> IssuerDocument | None:
        data = await file.read()
        return None if data is None else IssuerDocument(data)

    return source


def discovered_key_set(url: str, fetch: Fetch) -> KeySource:
    """Return the source of a key set that an OpenID Connect discovery document names."""

    async def source() -> IssuerDocument:
        try:
            found = json.loads(await fetch(url))
        except (ValueError, RecursionError):
            raise KeySetError(f"{url} is not JSON") from None
        names = ("issuer", "jwks_uri")
        issuer, address = (found.get(name) if isinstance(found, dict) else None for name in names)
        if not isinstance(issuer, str) or not isinstance(address, str):
            raise KeySetError(f"{url} is not a discovery document: it needs issuer and jwks_uri")
        if not address.startswith(("https://", "http://")):
            raise KeySetError(f"{url}: jwks_uri is not a URL of http or https")
        return IssuerDocument(await fetch(address), issuer)

    return source
