"""A heap of deadlines, sans-IO: `advance(now_ms)` calls what has come due, in order of deadline, then of insertion."""

import heapq
import itertools
from collections.abc import Callable


class Timer:
    """One deadline; `cancel` is O(1), the heap forgets it when it comes up."""

    __slots__ = ("callback", "deadline_ms")

    def __init__(self, deadline_ms: int, callback: Callable[[], None]) -> None:
        """Hold what to call and when."""
        self.deadline_ms = deadline_ms
        self.callback: Callable[[], None] | None = callback

    def cancel(self) -> None:
        """Never call back. Idempotent."""
        self.callback = None


class Timers:
    """The deadlines of one machine."""

    __slots__ = ("_heap", "_numbers")

    def __init__(self) -> None:
        """Start empty."""
        self._heap: list[tuple[int, int, Timer]] = []
        self._numbers = itertools.count()

    def at(self, deadline_ms: int, callback: Callable[[], None]) -> Timer:
        """Call back once `advance` reaches the deadline."""
        timer = Timer(deadline_ms, callback)
        heapq.heappush(self._heap, (deadline_ms, next(self._numbers), timer))
        return timer

    def next_deadline_ms(self) -> int | None:
        """Return the earliest deadline still wanted, or None."""
        while self._heap and self._heap[0][2].callback is None:
            heapq.heappop(self._heap)
        return self._heap[0][0] if self._heap else None

    def advance(self, now_ms: int) -> int:
        """Call everything due at or before `now_ms`; return how many. A callback may add timers, due ones run too."""
        fired = 0
        while (deadline := self.next_deadline_ms()) is not None and deadline <= now_ms:
            timer = heapq.heappop(self._heap)[2]
            callback, timer.callback = timer.callback, None
            assert callback is not None, "next_deadline_ms skips the cancelled"
            callback()
            fired += 1
        return fired
