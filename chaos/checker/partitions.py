"""Derived state per partition, and each process's position in it."""

from array import array
from bisect import bisect_left
from typing import NamedTuple

from kvorum.chaos.checker.sends import NEVER, NOWHERE


class Step(NamedTuple):
    """A step of a reader to an offset that is not the next one: a gap, a skip or a step back.

    `since` is the begin of the poll that returned `source`, `t` the end of the one that returned `target`.
    """

    source: int
    target: int
    process: int
    op: int
    since: float
    t: float
    internal: bool
    subscribed: bool


class UnknownRead(NamedTuple):
    """A polled value that was not sent before that line. `began` and `t` are the poll's begin and end."""

    offset: int
    value: int
    epoch: int
    op: int
    process: int
    began: float
    t: float
    reader: int
    flags: int


class Partition:
    """One partition: the senders of its values, its log, and its readers."""

    __slots__ = (
        "elsewhere",
        "final_elsewhere",
        "final_from_start",
        "final_max",
        "final_t",
        "index",
        "known_offsets",
        "known_times",
        "lag_max",
        "name",
        "read_count",
        "read_max",
        "steps",
        "unknown_reads",
        "writers",
    )

    def __init__(self, name: str, index: int) -> None:
        """Create it without records."""
        self.name = name
        self.index = index
        self.writers: dict[int, int] = {}
        """Row by value."""
        self.elsewhere: set[tuple[int, int]] = set()
        """(row, offset) of values met at one more offset than their first."""
        self.final_elsewhere: dict[tuple[int, int], float] = {}
        """Of these, the values of final reads at the offset, and their times."""
        self.unknown_reads: list[UnknownRead] = []
        self.steps: list[Step] = []
        self.final_from_start = False
        """A final reader began at the beginning, so values missing in the final reads are not in the log."""
        self.final_max = NOWHERE
        self.final_t = NEVER
        """Time at which the final reads passed it: records missing there were lost. NEVER without final reads."""
        self.known_offsets = array("q")
        self.known_times = array("d")
        """When it was first known that the log reaches an offset; both grow."""
        self.read_count = 0
        self.read_max = NOWHERE
        """The highest offset an ok poll returned."""
        self.lag_max = 0.0

    @property
    def offset_max(self) -> int:
        """The highest offset that is certainly taken by now, NOWHERE for none."""
        return self.known_offsets[-1] if self.known_offsets else NOWHERE

    def know(self, offset: int, t: float) -> None:
        """Record that the log had reached this offset by now."""
        known = self.known_offsets
        if not known or offset > known[-1]:
            known.append(offset)
            self.known_times.append(t)

    def lag(self, position: int, t: float) -> float:
        """Return how long, at `t`, the log had been known to reach beyond a reader's position. Seconds."""
        at = bisect_left(self.known_offsets, position + 1)
        return max(0.0, t - self.known_times[at]) if at < len(self.known_offsets) else 0.0


class Session:
    """A process's place in each partition it reads, by partition number."""

    __slots__ = ("_polled", "lag_max", "positions", "read_committed", "since", "subscribed")

    def __init__(self, read_committed: bool) -> None:
        """Create a reader without positions."""
        self.read_committed = read_committed
        self.subscribed = False
        self.positions: dict[int, int] = {}
        self.since: dict[int, float] = {}
        """When the poll that led to the position began."""
        self.lag_max = 0.0
        self._polled = 0.0

    def assign(self, kept: frozenset[int], *, subscribed: bool, rewound: bool) -> None:
        """Forget the place in every partition that is not kept, or in all of them."""
        self.subscribed = subscribed
        self.positions = {} if rewound else {i: at for i, at in self.positions.items() if i in kept}
        self.since = {i: t for i, t in self.since.items() if i in self.positions}

    def advance(self, last: dict[int, int], t: float, partitions: list[Partition]) -> None:
        """Store the positions after an ok poll that began at `t`; the old lag was greatest at the previous poll."""
        for index, position in last.items():
            if index in self.positions:
                self._lag(partitions[index], self._polled)
            self.positions[index] = position
            self.since[index] = t
            self._lag(partitions[index], t)
        self._polled = t

    def finish(self, partitions: list[Partition]) -> None:
        """Store the remaining lag at the last poll."""
        for index in self.positions:
            self._lag(partitions[index], self._polled)

    def _lag(self, partition: Partition, t: float) -> None:
        lag = partition.lag(self.positions[partition.index], t)
        if lag > self.lag_max:
            self.lag_max = lag
        if lag > partition.lag_max:
            partition.lag_max = lag
