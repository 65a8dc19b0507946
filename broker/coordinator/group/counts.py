"""Counters of one broker's group coordinators since its start. Sans-IO.

Separate from the metrics that show them: a shard lives for one leadership, a count for the process. Source: the sensors
of Kafka's GroupCoordinatorMetrics; as there, a commit counts when it is decided on.
"""

from dataclasses import dataclass


@dataclass(slots=True)
class GroupCounts:
    """Numbers of offsets, and of rebalances."""

    offsets_committed: int = 0
    offsets_expired: int = 0
    offsets_deleted: int = 0
    """By OffsetDelete and DeleteGroups; those of deleted topics do not count."""
    classic_rebalances_completed: int = 0
    """Generations whose assignment was committed."""
    consumer_rebalances: int = 0
    """Epochs that consumer groups rose by because members read something else, or topics changed."""
