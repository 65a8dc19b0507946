"""Reloads the key and trust stores of a process: when a file changes in place, and when a dynamic config names others.

Files are compared in a thread at an interval. A reload that fails keeps what is in use, with one WARNING per change.
"""

import asyncio
from collections.abc import Iterable
from typing import Final

from kvorum.runtime import blocking
from kvorum.runtime.logs import get_logger
from kvorum.security.errors import SecurityConfigError
from kvorum.security.tls.reload import ReloadableContext
from kvorum.security.tls.settings import TlsSettings

INTERVAL_KEY: Final = "kvorum.ssl.reload.interval.ms"

log = get_logger("security")


class StoreWatch:
    """The stores of all TLS contexts of a process. `start` once, `close` once, in one event loop."""

    def __init__(self, contexts: Iterable[tuple[str, ReloadableContext]], interval_ms: int) -> None:
        """`contexts` have the name of their listener; an interval of 0: files are compared on request only."""
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

    def replace(self, listener: str, settings: TlsSettings) -> None:
        """Load other stores for a listener."""
        self._wanted[listener] = settings
        self._wake.set()

    async def check(self, listener: str, settings: TlsSettings) -> None:
        """Raise SecurityConfigError if `replace` with these stores would fail."""
        loop = asyncio.get_running_loop()
        for name, context in self._contexts:
            if name == listener:
                await blocking.run(loop, context.check, settings.key_store, settings.trust_store)

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
            for listener, error in (await blocking.run(loop, self._reload, wanted)).items():
                if error is None:
                    log.info("key and trust stores reloaded", listener=listener)
                else:
                    log.warning("key and trust stores not reloaded, the former ones stay", listener=listener, reason=error)

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
