"""A heap of deadlines, sans-IO: `advance(now_ms)` calls due timers, in order of deadline, then of insertion.

Cancelled timers are removed when they may be half of the heap: a session that each heartbeat renews costs one entry.
"""

import heapq
import itertools
from collections.abc import Callable
from typing import Final

SWEPT_FROM: Final = 64
"""A heap up to this length is not compacted."""


class Timer:
    """One deadline; `cancel` is O(1), the heap forgets it when it comes up, or is swept."""

    __slots__ = ("callback", "deadline_ms")

    def __init__(self, deadline_ms: int, callback: Callable[[], None]) -> None:
        """Store callback and deadline."""
        self.deadline_ms = deadline_ms
        self.callback: Callable[[], None] | None = callback

    def cancel(self) -> None:
        """Never call back. Idempotent."""
        self.callback = None


class Timers:
    """The deadlines of one machine."""

    __slots__ = ("_heap", "_numbers", "_swept_length")

    def __init__(self) -> None:
        """Start empty."""
        self._heap: list[tuple[int, int, Timer]] = []
        self._numbers = itertools.count()
        self._swept_length = SWEPT_FROM

    def __len__(self) -> int:
        """Return how many there are, some cancelled ones included: at most as many as were wanted, and a few."""
        return len(self._heap)

    def at(self, deadline_ms: int, callback: Callable[[], None]) -> Timer:
        """Call back once `advance` reaches the deadline."""
        if len(self._heap) >= self._swept_length:
            self._sweep()
        timer = Timer(deadline_ms, callback)
        heapq.heappush(self._heap, (deadline_ms, next(self._numbers), timer))
        return timer

    def _sweep(self) -> None:
        """Remove cancelled timers. O(1) for each that was added since the last time."""
        self._heap = [entry for entry in self._heap if entry[2].callback is not None]
        heapq.heapify(self._heap)
        self._swept_length = max(SWEPT_FROM, 2 * len(self._heap))

    def next_deadline_ms(self) -> int | None:
        """Return the earliest deadline still wanted, or None."""
        while self._heap and self._heap[0][2].callback is None:
            heapq.heappop(self._heap)
        return self._heap[0][0] if self._heap else None

    def advance(self, now_ms: int) -> int:
        """Call everything due at or before `now_ms`; return the number. Callbacks may add timers; due ones run too."""
        fired = 0
        while (deadline := self.next_deadline_ms()) is not None and deadline <= now_ms:
            timer = heapq.heappop(self._heap)[2]
            callback, timer.callback = timer.callback, None
            assert callback is not None, "next_deadline_ms skips the cancelled"
            callback()
            fired += 1
        return fired
