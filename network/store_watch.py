"""Reloads the key and trust stores of a process: when a file changes in place, and when a dynamic config names others.

Files are compared in a thread at an interval. A reload that fails keeps what is in use, with one WARNING per change.
"""

import asyncio
from collections.abc import Collection, Iterable
from dataclasses import replace
from typing import Final

from kvorum.runtime import blocking
from kvorum.runtime.config import Settings
from kvorum.runtime.config_defs import LISTENER_PREFIX, PER_LISTENER
from kvorum.runtime.logs import get_logger
from kvorum.security.errors import SecurityConfigError
from kvorum.security.outgoing import tls_settings
from kvorum.security.settings import ListenerSettings
from kvorum.security.tls.reload import ReloadableContext
from kvorum.security.tls.settings import TlsSettings

INTERVAL_KEY: Final = "kvorum.ssl.reload.interval.ms"

log = get_logger("security")


class StoreWatch:
    """The stores of all TLS contexts of a process. `start` once, `close` once, in one event loop."""

    def __init__(
        self,
        listeners: Iterable[ListenerSettings],
        contexts: Iterable[tuple[str, ReloadableContext]],
        interval_ms: int,
    ) -> None:
        """`contexts` have the name of their listener; an interval of 0: files are compared on request only."""
        self._listeners = tuple(listeners)
        self._contexts = tuple(contexts)
        self._interval_s = interval_ms / 1000 or None
        self._wanted: dict[str, TlsSettings] = {}
        """Stores to load, by listener."""
        self._wake = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begin to watch."""
        assert self._task is None, "a watch starts once"
        self._task = asyncio.get_running_loop().create_task(self._run())

    def look(self) -> None:
        """Compare the files now."""
        self._wake.set()

    def take_over(self, settings: Settings, keys: Collection[str]) -> None:
        """Load the stores of listeners for which one of these keys has changed; also where only a file did."""
        for listener in self._listeners_of(keys):
            self._wanted[listener.listener] = tls_settings(replace(listener, settings=settings))
            self._wake.set()

    async def check(self, settings: Settings, keys: Collection[str]) -> None:
        """Check whether `take_over` would succeed. Raises ConfigError."""
        loop = asyncio.get_running_loop()
        for listener in self._listeners_of(keys):
            changed = replace(listener, settings=settings)
            wanted = tls_settings(changed)
            try:
                for name, context in self._contexts:
                    if name == listener.listener:
                        await blocking.run(loop, context.check, wanted.key_store, wanted.trust_store)
            except SecurityConfigError as error:
                raise changed.error(error.key, error.reason) from None
        self.look()

    def _listeners_of(self, keys: Collection[str]) -> list[ListenerSettings]:
        """Return the listeners whose stores these keys concern."""
        found = []
        for listener in self._listeners:
            prefix = f"{LISTENER_PREFIX}{listener.listener.lower()}."
            if any(key.removeprefix(prefix) in PER_LISTENER for key in keys if key.startswith(prefix)):
                found.append(listener)
        return found

    async def close(self) -> None:
        """Stop. Idempotent."""
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            await asyncio.wait([task])

    async def _run(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            try:
                async with asyncio.timeout(self._interval_s):
                    await self._wake.wait()
            except TimeoutError:
                pass
            self._wake.clear()
            wanted, self._wanted = self._wanted, {}
            outcomes: dict[str | None, list[str]] = {}
            try:
                reloaded = await blocking.run(loop, self._reload, wanted)
            except Exception as error:  # the next change is still looked at
                log.unexpected("key store reload", error)
                continue
            for listener, problem in reloaded.items():
                outcomes.setdefault(None if problem is None else str(problem), []).append(listener)
            for reason, names in outcomes.items():
                if reason is None:
                    log.info("key and trust stores reloaded", listeners=",".join(names))
                else:
                    log.warning(
                        "key and trust stores not reloaded, the former ones stay",
                        listeners=",".join(names),
                        reason=reason,
                    )

    def _reload(self, wanted: dict[str, TlsSettings]) -> dict[str, SecurityConfigError | None]:
        """Reload what was requested or has changed; return {listener: why it failed}."""
        found: dict[str, SecurityConfigError | None] = {}
        for listener, context in self._contexts:
            settings = wanted.get(listener)
            has_changed = context.changed()
            if settings is None and not has_changed:
                continue
            try:
                if settings is None:
                    context.reload()
                else:
                    context.reload(settings.key_store, settings.trust_store)
            except SecurityConfigError as error:
                found[listener] = found.get(listener) or error
            else:
                found.setdefault(listener, None)
        return found
