"""Time, as a thing that is handed in.

Monotonic milliseconds drive timers and deadlines; wall milliseconds serve record timestamps and retention only.
Inside an event loop, tasks and timers use the loop's own time (`loop.call_later`, `asyncio.timeout`): the simulator
replaces the loop, so both move together.
"""

import mmap
import os
import time
from typing import Protocol

TEST_CLOCK = "KVORUM_TEST_CLOCK"
"""Path of a file with 8 bytes: offset of the wall clock (ms, little-endian, signed), which a test may change."""
OFFSET_BYTES = 8


class Clock(Protocol):
    """Interface of time in production and in the simulator."""

    def monotonic_ms(self) -> int:
        """Milliseconds since an arbitrary start; never goes back."""
        ...

    def wall_ms(self) -> int:
        """Milliseconds since the epoch, as record timestamps count; may jump."""
        ...


class SystemClock:
    """The machine's own clocks. `wall_offset_ms` shifts the wall clock, and so does the file that TEST_CLOCK names."""

    __slots__ = ("_test_offset", "wall_offset_ms")

    def __init__(self, wall_offset_ms: int = 0) -> None:
        """Start with the wall clock shifted by this number of milliseconds.

        Raises OSError where TEST_CLOCK names no file.
        """
        self.wall_offset_ms = wall_offset_ms
        self._test_offset = shared_offset(os.environ.get(TEST_CLOCK, ""))

    def monotonic_ms(self) -> int:
        """See Clock."""
        return time.monotonic_ns() // 1_000_000

    def wall_ms(self) -> int:
        """See Clock."""
        wall_ms = time.time_ns() // 1_000_000 + self.wall_offset_ms
        if self._test_offset is None:
            return wall_ms
        return wall_ms + int.from_bytes(self._test_offset[:OFFSET_BYTES], "little", signed=True)


def precise_seconds() -> float:
    """Return a time for durations, with the precision of the machine; an event loop's own has a millisecond.

    For display only, never for decisions: the simulator does not control it.
    """
    return time.perf_counter()


def shared_offset(path: str) -> mmap.mmap | None:
    """Map the file that a test writes the wall clock's offset into; None without a path. Raises OSError, ValueError."""
    if not path:
        return None
    with open(path, "rb") as file:
        return mmap.mmap(file.fileno(), OFFSET_BYTES, access=mmap.ACCESS_READ)
