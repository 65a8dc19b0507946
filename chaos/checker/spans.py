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
    """Of a lossy fault: data written after this time was not affected."""
    story: str
    partitions: frozenset[str] = frozenset()
    """Of a lossy fault: the partitions that lost data, with a log directory; empty: all partitions of the brokers."""

    def has_loss_of(self, partition: str) -> bool:
        """Return whether a partition lost data by the fault."""
        return self.lossy and (not self.partitions or partition in self.partitions)
