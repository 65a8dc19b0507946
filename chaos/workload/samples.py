"""Merges several brokers' states of partitions at different times into one sequence of changes: pure.

The highest leader epoch counts. If several brokers have the same epoch, the leader's own answer counts: the leader
acknowledges, by the ISR that it knows. The sequence never returns to an earlier leader epoch.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from kvorum.chaos.faults.observer import PartitionView


@dataclass(slots=True)
class Samples:
    """The last response of every responding broker, and the state derived so far."""

    views: dict[str, PartitionView] = field(default_factory=dict)
    """{"orders-0": the present state}."""
    count: int = 0
    """Number of responses so far."""
    with_elr: bool = False
    """Some answer had eligible leader replicas, perhaps an empty list."""
    _views: dict[int, Mapping[str, PartitionView]] = field(default_factory=dict)

    def take(self, broker: int, views: Mapping[str, PartitionView]) -> list[tuple[str, PartitionView]]:
        """Process a broker's response; return the changes, by partition."""
        self.count += 1
        self._views[broker] = views
        changed: list[tuple[str, PartitionView]] = []
        for name in sorted(views):
            view = self._best(name)
            before = self.views.get(name)
            if view != before and (before is None or view.leader_epoch >= before.leader_epoch):
                self.views[name] = view
                changed.append((name, view))
        return changed

    def silent(self, broker: int) -> None:
        """A broker does not respond: discard its last response."""
        self._views.pop(broker, None)

    def _best(self, name: str) -> PartitionView:
        reported = [(broker, views[name]) for broker, views in sorted(self._views.items()) if name in views]
        return max(reported, key=lambda each: (each[1].leader_epoch, each[0] == each[1].leader))[1]
