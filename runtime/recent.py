"""Numbers of the last seconds: count, mean, maximum. Sans-IO, handed the time."""

from collections import deque
from dataclasses import dataclass

SLOT_MS = 1_000


@dataclass(slots=True)
class Slot:
    """Values of one second."""

    second: int
    count: int = 0
    total: float = 0.0
    largest: float = 0.0


class Recent:
    """Values of the last seconds. Memory: one slot per second. Values are not negative."""

    __slots__ = ("_slots", "seconds")

    def __init__(self, seconds: int) -> None:
        """Keep this number of seconds."""
        self.seconds = seconds
        self._slots: deque[Slot] = deque()

    def add(self, value: float, now_ms: int) -> None:
        """Add a number; `now_ms` is monotonic."""
        second = now_ms // SLOT_MS
        if not self._slots or self._slots[-1].second != second:
            self._slots.append(Slot(second))
            self._forget(second)
        slot = self._slots[-1]
        slot.count += 1
        slot.total += value
        slot.largest = max(slot.largest, value)

    def mean(self, now_ms: int) -> float:
        """Return the mean, 0 of nothing."""
        self._forget(now_ms // SLOT_MS)
        count = sum(slot.count for slot in self._slots)
        return sum(slot.total for slot in self._slots) / count if count else 0.0

    def largest(self, now_ms: int) -> float:
        """Return the largest, 0 of nothing."""
        self._forget(now_ms // SLOT_MS)
        return max((slot.largest for slot in self._slots), default=0.0)

    def total(self, now_ms: int) -> float:
        """Return the sum."""
        self._forget(now_ms // SLOT_MS)
        return sum(slot.total for slot in self._slots)

    def rate(self, now_ms: int) -> float:
        """Return the sum per second."""
        return self.total(now_ms) / self.seconds

    def _forget(self, second: int) -> None:
        while self._slots and self._slots[0].second <= second - self.seconds:
            self._slots.popleft()
