"""Sets of partitions whose cost depends on the number of topics, not of partitions.

Sans-IO, persistent.

For each topic a number, whose bit p means partition p (they are numbered from 0 on without gaps). Fencing a broker with
60,000 replicas of 1,000 topics changes 1,000 entries; that many single keys would be tens of megabytes of small
objects, created, visited and freed repeatedly.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from heapq import merge
from typing import Final, NamedTuple

from rpds import HashTrieMap

from kvorum.protocol.uuids import Uuid
from kvorum.quorum.steps import Steps, pieces

RUN_COUNT: Final = 500
"""Topics that are sorted in one step."""
FEW_COUNT: Final = 16
"""Up to here copying an integer for each bit costs less than room for all of them."""


class TopicIdPartition(NamedTuple):
    """A partition by its topic's id."""

    topic_id: Uuid
    partition_id: int


PartitionsByTopic = Mapping[Uuid, list[int]]


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionSet:
    """Immutable set of partitions by topic. Topics without partitions are not included."""

    topics: HashTrieMap[Uuid, int] = field(default_factory=lambda: HashTrieMap())
    count: int = 0

    def __len__(self) -> int:
        """Return how many partitions there are. Constant cost."""
        return self.count

    def __iter__(self) -> Iterator[TopicIdPartition]:
        """Yield them in no order."""
        for topic_id, numbers in self.topics.items():
            for partition_id in _partitions(numbers):
                yield TopicIdPartition(topic_id, partition_id)

    def in_order(self) -> Steps[Iterator[TopicIdPartition]]:
        """Find them by topic id and number; the topics are sorted in runs, which are merged as the answer is read."""
        runs: list[list[Uuid]] = []
        for piece in pieces(self.topics, RUN_COUNT):
            runs.append(sorted(piece))
            yield
        return (
            TopicIdPartition(topic_id, partition_id)
            for topic_id in merge(*runs)
            for partition_id in _partitions(self.topics[topic_id])
        )

    def changed(self, removed: PartitionsByTopic, added: PartitionsByTopic) -> Steps[PartitionSet]:
        """Make the set without the one and with the other: what leaves has to be there, what enters must not be."""
        topics, count = self.topics, self.count
        for piece in pieces({**removed, **added}, RUN_COUNT):
            for topic_id in piece:
                leaving, entering = removed.get(topic_id, ()), added.get(topic_id, ())
                before, out, new = topics.get(topic_id, 0), _numbers(leaving), _numbers(entering)
                assert out & ~before == 0 and out.bit_count() == len(leaving), "what leaves was there, and leaves once"
                assert new & before == 0 and new.bit_count() == len(entering), "what enters was not there"
                after = before ^ out ^ new
                topics = topics.insert(topic_id, after) if after else topics.discard(topic_id)
                count += len(entering) - len(leaving)
            yield
        return PartitionSet(topics=topics, count=count)


def _numbers(partition_ids: Sequence[int]) -> int:
    """Return the number in which these bits are set."""
    if len(partition_ids) <= FEW_COUNT:
        number = 0
        for partition_id in partition_ids:
            number |= 1 << partition_id
        return number
    bits = bytearray(max(partition_ids, default=0) // 8 + 1)
    for partition_id in partition_ids:
        bits[partition_id >> 3] |= 1 << (partition_id & 7)
    return int.from_bytes(bits, "little")


def _partitions(numbers: int) -> Iterator[int]:
    """Yield the bits that are set, in order."""
    for place, byte in enumerate(numbers.to_bytes((numbers.bit_length() + 7) // 8, "little")):
        while byte:
            lowest = byte & -byte
            yield place * 8 + lowest.bit_length() - 1
            byte ^= lowest
