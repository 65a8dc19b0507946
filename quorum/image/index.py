"""Indexes of partitions by ISR member and leader: lookups without iteration over all partitions.

Sans-IO, persistent: an update costs what changed, older versions stay valid. Kafka's BrokersToIsrs, as part of the
image.

Invariant: for each partition p and broker b, `p in in_isr[b]` exactly when `b in p.isr`, and `p in leads[p.leader]`,
where the leader of a partition without one is NO_LEADER; `eligible[b]` has those with b in their ELR, or as the last
leader they wait for; `imbalanced` holds those that their preferred leader does not lead, `reassigning` those whose
replicas are being added or removed.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final, Generic, TypeAlias, TypeVar

from rpds import HashTrieMap

from kvorum.protocol.uuids import Uuid
from kvorum.quorum.image.partition import PartitionRegistration
from kvorum.quorum.image.partition_set import PartitionSet, TopicIdPartition
from kvorum.quorum.records import NO_LEADER
from kvorum.quorum.steps import Steps

NO_PARTITIONS: Final = PartitionSet()

K = TypeVar("K")
_ByBroker: TypeAlias = "HashTrieMap[int, PartitionSet]"


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaIndex:
    """The five indexes; see the module docstring.

    The result is in order; cost: n log n of the answer's topics.

    A broker without any partition is not in the maps.
    """

    in_isr: _ByBroker = field(default_factory=lambda: HashTrieMap())
    leads: _ByBroker = field(default_factory=lambda: HashTrieMap())
    eligible: _ByBroker = field(default_factory=lambda: HashTrieMap())
    imbalanced: PartitionSet = NO_PARTITIONS
    reassigning: PartitionSet = NO_PARTITIONS

    def partitions_with_in_isr(self, broker_id: int) -> Steps[Iterator[TopicIdPartition]]:
        """Find the partitions with this broker in their ISR."""
        return self.in_isr.get(broker_id, NO_PARTITIONS).in_order()

    def partitions_with_eligible(self, broker_id: int) -> Steps[Iterator[TopicIdPartition]]:
        """Find the partitions with this broker in their ELR, or as the last leader they wait for."""
        return self.eligible.get(broker_id, NO_PARTITIONS).in_order()

    def partitions_led_by(self, broker_id: int) -> Steps[Iterator[TopicIdPartition]]:
        """Find the partitions that this broker leads."""
        return self.leads.get(broker_id, NO_PARTITIONS).in_order()

    def partitions_without_leader(self) -> Steps[Iterator[TopicIdPartition]]:
        """Find the partitions without a leader."""
        return self.partitions_led_by(NO_LEADER)

    def imbalanced_partitions(self) -> Steps[Iterator[TopicIdPartition]]:
        """Find the partitions that their preferred leader does not lead."""
        return self.imbalanced.in_order()

    def reassigning_partitions(self) -> Steps[Iterator[TopicIdPartition]]:
        """Find the partitions whose reassignment is under way."""
        return self.reassigning.in_order()

    def has_leaderships(self, broker_id: int) -> bool:
        """Return whether this broker leads any partition. Constant cost."""
        return broker_id in self.leads

    def leader_count(self, broker_id: int) -> int:
        """Return how many partitions it leads; NO_LEADER: how many are offline. Constant cost."""
        return len(self.leads.get(broker_id, NO_PARTITIONS))


class ReplicaIndexBuilder:
    """Leads from one index to the next; used while a delta is applied, by one owner.

    It gathers first and then changes each broker's set once: fencing a broker with many partitions is one change of few
    sets. `build` once.
    """

    def __init__(self, index: ReplicaIndex) -> None:
        """Start from an index, which is not changed."""
        self._index = index
        self._in_isr: _Changes[int] = _Changes()
        self._leads: _Changes[int] = _Changes()
        self._eligible: _Changes[int] = _Changes()
        self._imbalanced: _Changes[None] = _Changes()
        self._reassigning: _Changes[None] = _Changes()

    def update(
        self, topic_id: Uuid, partition_id: int, old: PartitionRegistration | None, new: PartitionRegistration | None
    ) -> None:
        """Record that a partition changed from `old` (None: it is new) to `new` (None: it was deleted).

        At most once per partition.
        """
        key = TopicIdPartition(topic_id, partition_id)
        self._in_isr.move(old.isr if old else (), new.isr if new else (), key)
        self._eligible.move(old.eligible if old else (), new.eligible if new else (), key)
        old_leader, new_leader = old.leader if old else None, new.leader if new else None
        if old_leader != new_leader:
            if old_leader is not None:
                self._leads.remove(old_leader, key)
            if new_leader is not None:
                self._leads.add(new_leader, key)
        was, will_be = old is not None and old.is_imbalanced, new is not None and new.is_imbalanced
        if was != will_be:
            (self._imbalanced.add if will_be else self._imbalanced.remove)(None, key)
        was, will_be = old is not None and old.is_reassigning, new is not None and new.is_reassigning
        if was != will_be:
            (self._reassigning.add if will_be else self._reassigning.remove)(None, key)

    def build(self) -> Steps[ReplicaIndex]:
        """Make the new index."""
        in_isr = yield from self._by_broker(self._index.in_isr, self._in_isr)
        leads = yield from self._by_broker(self._index.leads, self._leads)
        eligible = yield from self._by_broker(self._index.eligible, self._eligible)
        imbalanced = yield from self._imbalanced.applied(None, self._index.imbalanced)
        reassigning = yield from self._reassigning.applied(None, self._index.reassigning)
        return ReplicaIndex(
            in_isr=in_isr, leads=leads, eligible=eligible, imbalanced=imbalanced, reassigning=reassigning
        )

    def _by_broker(self, index: _ByBroker, changes: _Changes[int]) -> Steps[_ByBroker]:
        for broker_id in changes.touched():
            partitions = yield from changes.applied(broker_id, index.get(broker_id, NO_PARTITIONS))
            index = index.insert(broker_id, partitions) if partitions else index.discard(broker_id)
        return index


class _Changes(Generic[K]):
    """Additions and removals of a map's sets, by owner."""

    __slots__ = ("_added", "_removed")

    def __init__(self) -> None:
        self._added: dict[K, dict[Uuid, list[int]]] = {}
        self._removed: dict[K, dict[Uuid, list[int]]] = {}

    def add(self, owner: K, key: TopicIdPartition) -> None:
        """Add a partition."""
        self._added.setdefault(owner, {}).setdefault(key.topic_id, []).append(key.partition_id)

    def remove(self, owner: K, key: TopicIdPartition) -> None:
        """Remove a partition, which must exist."""
        self._removed.setdefault(owner, {}).setdefault(key.topic_id, []).append(key.partition_id)

    def move(self, before: Sequence[K], after: Sequence[K], key: TopicIdPartition) -> None:
        """Record the old and the new owner of a partition."""
        if before == after:
            return
        for owner in before:
            if owner not in after:
                self.remove(owner, key)
        for owner in after:
            if owner not in before:
                self.add(owner, key)

    def touched(self) -> set[K]:
        """Return whose sets change."""
        return self._added.keys() | self._removed.keys()

    def applied(self, owner: K, partitions: PartitionSet) -> Steps[PartitionSet]:
        """Make an owner's set after the changes. Cost: what changed."""
        return partitions.changed(self._removed.get(owner, {}), self._added.get(owner, {}))
