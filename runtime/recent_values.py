"""Average and maximum of recent values: Kafka's Avg and Max with the default `metrics.sample.window.ms`. Sans-IO."""

from collections import deque
from typing import Final

WINDOW_S: Final = 30.0
WINDOWS: Final = 2
"""metrics.num.samples: values of the last 30 to 60 s count."""


class RecentValues:
    """Sums of the newest windows. Memory does not depend on the number of values."""

    __slots__ = ("_windows",)

    def __init__(self) -> None:
        """Start empty."""
        self._windows: deque[tuple[float, int, float, float]] = deque(maxlen=WINDOWS)
        """Start of the window, count, sum, maximum."""

    def add(self, value: float, now_s: float) -> None:
        """Add a value; `now_s` is monotonic."""
        if self._windows and now_s < self._windows[-1][0] + WINDOW_S:
            began_s, count, total, largest = self._windows.pop()
            self._windows.append((began_s, count + 1, total + value, max(largest, value)))
        else:
            self._windows.append((now_s, 1, value, value))

    def average(self, now_s: float) -> float | None:
        """Return the average, None without recent values."""
        recent = self._recent(now_s)
        return sum(each[2] for each in recent) / sum(each[1] for each in recent) if recent else None

    def maximum(self, now_s: float) -> float | None:
        """Return the maximum, None without recent values."""
        return max((each[3] for each in self._recent(now_s)), default=None)

    def _recent(self, now_s: float) -> list[tuple[float, int, float, float]]:
        return [each for each in self._windows if now_s < each[0] + WINDOWS * WINDOW_S]
