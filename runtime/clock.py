"""Time, as a thing that is handed in.

Monotonic milliseconds drive timers and deadlines; wall milliseconds serve record timestamps and retention only.
Inside an event loop, tasks and timers use the loop's own time (`loop.call_later`, `asyncio.timeout`): the simulator
replaces the loop, so both move together.
"""

import time
from typing import Protocol


class Clock(Protocol):
    """What production and the simulator both offer."""

    def monotonic_ms(self) -> int:
        """Milliseconds since an arbitrary start; never goes back."""
        ...

    def wall_ms(self) -> int:
        """Milliseconds since the epoch, as record timestamps count; may jump."""
        ...


class SystemClock:
    """The machine's own clocks. `wall_offset_ms` shifts the wall clock for tests of clock jumps."""

    __slots__ = ("wall_offset_ms",)

    def __init__(self, wall_offset_ms: int = 0) -> None:
        """Start with the wall clock shifted by so many milliseconds."""
        self.wall_offset_ms = wall_offset_ms

    def monotonic_ms(self) -> int:
        """See Clock."""
        return time.monotonic_ns() // 1_000_000

    def wall_ms(self) -> int:
        """See Clock."""
        return time.time_ns() // 1_000_000 + self.wall_offset_ms
