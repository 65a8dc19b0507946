"""The topics and their partitions (org.apache.kafka.image.TopicsImage, TopicImage). Sans-IO, immutable."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from rpds import HashTrieMap

from kvorum.protocol.uuids import Uuid
from kvorum.quorum.image.index import ReplicaIndex
from kvorum.quorum.image.partition import PartitionRegistration
from kvorum.quorum.image.partition_set import TopicIdPartition
from kvorum.quorum.records import MetadataRecord, Topic


def collision_key(name: str) -> str:
    """Return a topic's name with '.' and '_' unified."""
    return name.replace(".", "_")


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicImage:
    """One topic: `partitions` by their number, 0 to count - 1."""

    name: str
    topic_id: Uuid
    partitions: HashTrieMap[int, PartitionRegistration] = field(default_factory=lambda: HashTrieMap())

    def partition(self, partition_id: int) -> PartitionRegistration | None:
        """Return a partition, None if it does not exist."""
        return self.partitions.get(partition_id)

    def sorted_partitions(self) -> list[tuple[int, PartitionRegistration]]:
        """Return (number, partition) in order. Cost: the topic's size."""
        return sorted(self.partitions.items(), key=lambda item: item[0])

    def to_records(self) -> Iterator[MetadataRecord]:
        """Write the topic as records."""
        yield Topic(name=self.name, topic_id=self.topic_id)
        for partition_id, partition in self.sorted_partitions():
            yield partition.to_record(self.topic_id, partition_id)


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicsImage:
    """All topics, by id and by name, and the index from brokers to partitions. The maps are unordered."""

    by_id: HashTrieMap[Uuid, TopicImage] = field(default_factory=lambda: HashTrieMap())
    by_name: HashTrieMap[str, TopicImage] = field(default_factory=lambda: HashTrieMap())
    index: ReplicaIndex = field(default_factory=ReplicaIndex)
    collisions: HashTrieMap[str, str] = field(default_factory=lambda: HashTrieMap())
    """The names with a '.' or '_', by their unified form (as in metric names)."""
    partition_count: int = 0

    def colliding_topic(self, name: str) -> str | None:
        """Return a topic whose name is this one where '.' and '_' are the same (Kafka's Topic.hasCollision)."""
        return self.collisions.get(collision_key(name))

    def topic(self, name: str) -> TopicImage | None:
        """Return the topic of this name."""
        return self.by_name.get(name)

    def topic_by_id(self, topic_id: Uuid) -> TopicImage | None:
        """Return the topic of this id."""
        return self.by_id.get(topic_id)

    def partition(self, topic_id: Uuid, partition_id: int) -> PartitionRegistration | None:
        """Return a partition by its topic's id and its number."""
        topic = self.by_id.get(topic_id)
        return None if topic is None else topic.partitions.get(partition_id)

    def existing(self, key: TopicIdPartition) -> tuple[TopicImage, PartitionRegistration]:
        """Return the topic and partition of a key that the index gave."""
        topic = self.by_id[key.topic_id]
        return topic, topic.partitions[key.partition_id]

    def sorted_topics(self) -> list[TopicImage]:
        """Return the topics by name. Cost: n log n."""
        return sorted(self.by_name.values(), key=lambda topic: topic.name)

    def parts(self) -> list[object]:
        """Return the large maps of the image, so that they can be freed one by one."""
        index = self.index
        by_broker = (each for found in (index.in_isr, index.leads, index.eligible) for each in found.values())
        return [self.by_id, self.by_name, self.collisions, index.imbalanced, index.reassigning, *by_broker]

    def to_records(self) -> Iterator[MetadataRecord]:
        """Write all topics as records, by name."""
        for topic in self.sorted_topics():
            yield from topic.to_records()
