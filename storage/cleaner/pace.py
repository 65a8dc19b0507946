"""Shared state of a broker's cleaners: settings, the common rate, and whether they continue."""

import asyncio
from typing import Final

from kvorum.storage.cleaner.settings import CleanerConfig
from kvorum.storage.cleaner.throttle import Throttle

BYTES_AT_ONCE_MIN: Final = 64 * 1024
BYTES_AT_ONCE_MAX: Final = 8 * 1024 * 1024


class Pace:
    """Rate limit of all cleaners of a broker. `is_running` until `stop`; `config` are the current settings."""

    __slots__ = ("_wake", "config", "is_running", "throttle")

    def __init__(self, config: CleanerConfig) -> None:
        """Start with no bytes charged to the rate."""
        self.config = config
        self.throttle = Throttle(config.bytes_per_second_max)
        self.is_running = True
        self._wake = asyncio.Event()

    @property
    def bytes_at_once(self) -> int:
        """Number of bytes that a cleaner may process before it pays: those of a tenth of a second, within limits."""
        return int(min(max(self.config.bytes_per_second_max / 10, BYTES_AT_ONCE_MIN), BYTES_AT_ONCE_MAX))

    def configure(self, config: CleanerConfig) -> None:
        """Apply settings, and wake paused cleaners."""
        self.config = config
        self.throttle.set_rate(config.bytes_per_second_max)
        self._wake_all()

    def stop(self) -> None:
        """Stop all cleaners, paused ones at once."""
        self.is_running = False
        self._wake_all()

    async def pause(self, seconds: float) -> None:
        """Wait, or until settings change or the broker stops."""
        try:
            async with asyncio.timeout(seconds):
                await self._wake.wait()
        except TimeoutError:
            return

    def _wake_all(self) -> None:
        self._wake.set()
        self._wake = asyncio.Event()
