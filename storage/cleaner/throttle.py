"""Rate limit of cleaner I/O (Kafka's Throttler): log.cleaner.io.max.bytes.per.second. Sans-IO."""

from typing import Final

WAIT_SECONDS_MIN: Final = 0.02
"""Shorter pauses are accumulated."""
RATE_MIN: Final = 1.0


class Throttle:
    """Limits the rate of bytes. Each caller waits for the total of all callers, so that the rate is shared."""

    __slots__ = ("_paid_at", "_rate")

    def __init__(self, rate: float) -> None:
        """Start with nothing charged; `rate` in bytes per second."""
        self._rate = max(rate, RATE_MIN)
        self._paid_at = 0.0

    def set_rate(self, rate: float) -> None:
        """Continue at another rate; earlier charges are dropped."""
        if max(rate, RATE_MIN) != self._rate:
            self._rate = max(rate, RATE_MIN)
            self._paid_at = 0.0

    def charge(self, size: int, now: float) -> None:
        """Count bytes at this time (seconds)."""
        self._paid_at = max(self._paid_at, now) + size / self._rate

    def wait(self, now: float) -> float:
        """Return how many seconds to wait before the next bytes."""
        wait = self._paid_at - now
        return wait if wait >= WAIT_SECONDS_MIN else 0.0
