"""The latest lines of a process's log, in memory for requests over HTTP. Its size is limited."""

import threading
from collections import deque
from typing import Final, NamedTuple

LINES_MAX: Final = 1_000
"""The maximum of one request; some hours of an ordinary process."""
BYTES_MAX: Final = 1024 * 1024
"""Size limit of the text: a line may have many fields. Python's objects take two or three times as much."""


class LogLine(NamedTuple):
    """One event, with facts that are plain values already."""

    seconds: float
    """Since 1970."""
    level: int
    room: str
    message: str
    facts: dict[str, object]


class LogRing:
    """Keeps the newest lines. Lines come from any thread, and from a finalizer while another is added."""

    def __init__(self, lines_max: int = LINES_MAX, bytes_max: int = BYTES_MAX) -> None:
        """Create it empty; the newest line is kept whatever its size."""
        self._lines_max = lines_max
        self._bytes_max = bytes_max
        self._lines: deque[tuple[LogLine, int]] = deque()
        self._bytes = 0
        self._dropped = 0
        self._lock = threading.RLock()

    def add(self, line: LogLine, size: int) -> None:
        """Add a line with its original length; the oldest lines are dropped if there is no room."""
        with self._lock:
            self._lines.append((line, size))
            self._bytes += size
            while len(self._lines) > self._lines_max or (self._bytes > self._bytes_max and len(self._lines) > 1):
                self._bytes -= self._lines.popleft()[1]
                self._dropped += 1

    def newest(self, count: int, level: int = 0) -> tuple[list[LogLine], int]:
        """Return the last lines from a level on, newest last, and the number of older ones that were dropped."""
        with self._lock:
            kept, dropped = list(self._lines), self._dropped
        found = [line for line, _ in kept if line.level >= level]
        return found[max(0, len(found) - count) :], dropped
