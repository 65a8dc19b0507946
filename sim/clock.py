"""SimClock: runtime's Clock over a SimLoop's virtual time."""

from sim.loop import SimLoop

WALL_START_MS = 1_700_000_000_000
"""Virtual wall time begins on a day in November 2023."""


class SimClock:
    """See kvorum.runtime.clock.Clock. `wall_offset_ms` may be changed at any time: a host's wall clock jumps."""

    __slots__ = ("_loop", "wall_offset_ms")

    def __init__(self, loop: SimLoop, wall_offset_ms: int = 0) -> None:
        """Follow the loop's time."""
        self._loop = loop
        self.wall_offset_ms = wall_offset_ms

    def monotonic_ms(self) -> int:
        """See Clock."""
        return int(self._loop.time() * 1000)

    def wall_ms(self) -> int:
        """See Clock."""
        return WALL_START_MS + int(self._loop.time() * 1000) + self.wall_offset_ms
