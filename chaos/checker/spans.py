"""A fault of a history, from its begin to its end, as the rules look at it."""

from typing import NamedTuple


class FaultSpan(NamedTuple):
    """A fault from its begin to its end (NEVER where it has none)."""

    id: int
    fault: str
    targets: tuple[str, ...]
    brokers: frozenset[int]
    """Ids of the nodes whose broker it hit."""
    lossy: bool
    begin: float
    end: float
    lost_by: float
    """Where it is lossy: data written after this was not touched by it."""
    story: str
    partitions: frozenset[str] = frozenset()
    """Where it is lossy: those of which data was lost, with a log directory; empty: all that the brokers had."""

    def lost_of(self, partition: str) -> bool:
        """Return whether it lost data of a partition."""
        return self.lossy and (not self.partitions or partition in self.partitions)
