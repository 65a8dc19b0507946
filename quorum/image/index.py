"""Which broker is in the ISR of what, and leads what: found without a walk over all partitions.

Sans-IO, persistent: an update costs what changed, older versions stay whole. Kafka's BrokersToIsrs, kept in the image.

Invariant: for each partition p and broker b, `p in in_isr[b]` exactly when `b in p.isr`, and `p in leads[p.leader]`,
where the leader of a partition without one is NO_LEADER; `imbalanced` holds those that their preferred leader does not
lead.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Generic, NamedTuple, TypeAlias, TypeVar

from rpds import HashTrieMap, HashTrieSet

from kvorum.protocol.uuids import Uuid
from kvorum.quorum.image.partition import PartitionRegistration
from kvorum.quorum.records import NO_LEADER


class TopicIdPartition(NamedTuple):
    """A partition by its topic's id."""

    topic_id: Uuid
    partition_id: int


K = TypeVar("K")
_ByBroker: TypeAlias = "HashTrieMap[int, HashTrieSet[TopicIdPartition]]"


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaIndex:
    """The three ways in; see the head of the module."""

    in_isr: _ByBroker = field(default_factory=lambda: HashTrieMap())
    leads: _ByBroker = field(default_factory=lambda: HashTrieMap())
    imbalanced: HashTrieSet[TopicIdPartition] = field(default_factory=lambda: HashTrieSet())

    def partitions_with_in_isr(self, broker_id: int) -> list[TopicIdPartition]:
        """Return the partitions with this broker in their ISR, in a stable order. Cost: n log n of the answer."""
        return sorted(self.in_isr.get(broker_id) or ())

    def partitions_led_by(self, broker_id: int) -> list[TopicIdPartition]:
        """Return the partitions that this broker leads, in a stable order. Cost: n log n of the answer."""
        return sorted(self.leads.get(broker_id) or ())

    def partitions_without_leader(self) -> list[TopicIdPartition]:
        """Return the partitions that nobody leads, in a stable order."""
        return self.partitions_led_by(NO_LEADER)

    def imbalanced_partitions(self) -> list[TopicIdPartition]:
        """Return the partitions that their preferred leader does not lead, in a stable order."""
        return sorted(self.imbalanced)

    def has_leaderships(self, broker_id: int) -> bool:
        """Tell whether this broker leads anything. Constant cost."""
        return broker_id in self.leads

    def leader_count(self, broker_id: int) -> int:
        """Return how many partitions it leads; NO_LEADER: how many are offline. Constant cost."""
        led = self.leads.get(broker_id)
        return 0 if led is None else len(led)


class ReplicaIndexBuilder:
    """Leads from one index to the next; used while a delta is applied, by one owner.

    It gathers first and then changes each broker's set once: fencing a broker with many partitions is one change of few
    sets.
    """

    def __init__(self, index: ReplicaIndex) -> None:
        """Start from an index, which stays as it is."""
        self._index = index
        self._in_isr: _Changes[int] = _Changes()
        self._leads: _Changes[int] = _Changes()
        self._imbalanced: _Changes[None] = _Changes()

    def update(
        self, topic_id: Uuid, partition_id: int, old: PartitionRegistration | None, new: PartitionRegistration | None
    ) -> None:
        """Note that a partition went from `old` (None: there was none) to `new` (None: there is none any more).

        Once a partition at most.
        """
        key = TopicIdPartition(topic_id, partition_id)
        old_isr, new_isr = old.isr if old else (), new.isr if new else ()
        if old_isr != new_isr:
            for broker_id in old_isr:
                if broker_id not in new_isr:
                    self._in_isr.remove(broker_id, key)
            for broker_id in new_isr:
                if broker_id not in old_isr:
                    self._in_isr.add(broker_id, key)
        old_leader, new_leader = old.leader if old else None, new.leader if new else None
        if old_leader != new_leader:
            if old_leader is not None:
                self._leads.remove(old_leader, key)
            if new_leader is not None:
                self._leads.add(new_leader, key)
        was, will_be = old is not None and old.is_imbalanced, new is not None and new.is_imbalanced
        if was and not will_be:
            self._imbalanced.remove(None, key)
        elif will_be and not was:
            self._imbalanced.add(None, key)

    def build(self) -> ReplicaIndex:
        """Return the new index."""
        return ReplicaIndex(
            in_isr=self._by_broker(self._index.in_isr, self._in_isr),
            leads=self._by_broker(self._index.leads, self._leads),
            imbalanced=self._imbalanced.applied(None, self._index.imbalanced),
        )

    def _by_broker(self, index: _ByBroker, changes: _Changes[int]) -> _ByBroker:
        for broker_id in changes.touched():
            partitions = changes.applied(broker_id, index.get(broker_id))
            index = index.insert(broker_id, partitions) if partitions else index.discard(broker_id)
        return index


class _Changes(Generic[K]):
    """What enters and leaves the sets of a map."""

    __slots__ = ("_added", "_removed")

    def __init__(self) -> None:
        self._added: dict[K, list[TopicIdPartition]] = {}
        self._removed: dict[K, list[TopicIdPartition]] = {}

    def add(self, owner: K, key: TopicIdPartition) -> None:
        """Note that a key enters."""
        self._added.setdefault(owner, []).append(key)

    def remove(self, owner: K, key: TopicIdPartition) -> None:
        """Note that a key leaves; it has to be there."""
        self._removed.setdefault(owner, []).append(key)

    def touched(self) -> set[K]:
        """Return whose sets change."""
        return self._added.keys() | self._removed.keys()

    def applied(self, owner: K, keys: HashTrieSet[TopicIdPartition] | None) -> HashTrieSet[TopicIdPartition]:
        """Return an owner's set after the changes. Cost: what changed."""
        keys = HashTrieSet() if keys is None else keys
        removed, added = self._removed.get(owner, ()), self._added.get(owner, ())
        if len(removed) > len(keys) // 2:
            gone = set(removed)
            assert len(gone) == len(removed), "a partition leaves once"
            kept = [key for key in keys if key not in gone]
            assert len(kept) == len(keys) - len(gone), "what leaves was there"
            keys = HashTrieSet(kept)
        else:
            for key in removed:
                keys = keys.remove(key)
        return keys.update(added) if added else keys
