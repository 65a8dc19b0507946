"""The timers of one leadership of a coordinator's partition: once it is over none goes off.

Source: Kafka's CoordinatorTimer.
"""

from collections.abc import Callable

from kvorum.broker.replica.housekeeping import Deadlines
from kvorum.runtime.timers import Timer, Timers


class CoordinatorTimer:
    """Timers by key. Times are monotonic milliseconds."""

    __slots__ = ("_deadlines", "_is_over", "_timers")

    def __init__(self, now_ms: Callable[[], int]) -> None:
        """Start without timers."""
        self._timers = Timers()
        self._deadlines = Deadlines(self._timers, now_ms)
        self._is_over = False

    def __len__(self) -> int:
        """Return how many are set, those that were cancelled and not yet dropped among them."""
        return len(self._timers)

    def at(self, deadline_ms: int, callback: Callable[[], None]) -> Timer:
        """Call back at this time, unless `end` comes before."""

        def due() -> None:
            if not self._is_over:  # the leadership may end while timers that are due at the same time fire
                callback()

        timer = self._timers.at(deadline_ms, due)
        self._deadlines.arm()
        return timer

    def end(self) -> None:
        """Cancel all timers. Idempotent."""
        self._is_over = True
        self._deadlines.close()
