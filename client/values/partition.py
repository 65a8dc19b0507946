"""A partition, from the responses of Metadata, ListPartitionReassignments and ListOffsets."""

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Partition:
    """A partition of a topic. Replicas are broker ids, the preferred leader first."""

    topic: str
    partition: int
    leader: int | None
    """Broker id of the leader; None: the partition is offline."""
    leader_epoch: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    offline_replicas: tuple[int, ...] = ()
    replication_factor: int
    """Target number of replicas; replicas that a reassignment adds do not count until it is completed."""
    adding: tuple[int, ...] = ()
    """Replicas that a reassignment adds."""
    removing: tuple[int, ...] = ()
    """Replicas that a reassignment removes."""
    elr: tuple[int, ...] | None = None
    """Eligible leader replicas outside the ISR (KIP-966); None: not requested, or not supported by the cluster."""
    last_known_elr: tuple[int, ...] | None = None
    earliest_offset: int | None = None
    """None: not requested, or the leader did not respond."""
    latest_offset: int | None = None
    """High watermark; None as above."""

    @property
    def is_under_replicated(self) -> bool:
        """Return whether a replica is out of sync."""
        return len(self.isr) < self.replication_factor


def ids(found: Sequence[int] | None) -> tuple[int, ...] | None:
    """Return broker ids as a value; None: not available."""
    return None if found is None else tuple(found)
