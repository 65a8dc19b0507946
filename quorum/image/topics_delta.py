"""Changes of topics (org.apache.kafka.image.TopicsDelta, TopicDelta, LocalReplicaChanges). Sans-IO."""

from __future__ import annotations

from dataclasses import dataclass, field

import msgspec

from kvorum.protocol.topic_partition import TopicPartition
from kvorum.protocol.uuids import Uuid
from kvorum.quorum.image.index import ReplicaIndexBuilder
from kvorum.quorum.image.partition import PartitionRegistration, SharedDirectories
from kvorum.quorum.image.topics import TopicImage, TopicsImage, collision_key
from kvorum.quorum.records import Partition, PartitionChange, RemoveTopic, Topic
from kvorum.quorum.steps import Steps, finish, pieces


class PartitionInfo(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A partition after the delta, with its topic's id."""

    topic_id: Uuid
    partition: PartitionRegistration


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalReplicaChanges:
    """One broker's changes in a delta, in this order: deletes, then leaders, then followers.

    `deletes` maps to the id of the topic the replica belonged to: a topic deleted and made again in one delta is in
    `deletes` with its old id and in `leaders` or `followers` with its new one. `elected_leaders` are those of `leaders`
    that are in a new leader epoch; the others changed otherwise (ISR, replicas).
    """

    deletes: dict[TopicPartition, Uuid] = field(default_factory=dict)
    elected_leaders: dict[TopicPartition, PartitionInfo] = field(default_factory=dict)
    leaders: dict[TopicPartition, PartitionInfo] = field(default_factory=dict)
    followers: dict[TopicPartition, PartitionInfo] = field(default_factory=dict)
    arrivals: set[TopicPartition] = field(default_factory=set)
    """Those of `leaders` and `followers` of which this broker had no replica before."""

    @property
    def is_empty(self) -> bool:
        """Return whether there is nothing to do."""
        return not (self.deletes or self.leaders or self.followers)


class TopicDelta:
    """Changes of one topic since `image`; `partition_changes` has the new state of each changed partition."""

    __slots__ = ("_directories", "image", "partition_changes")

    def __init__(self, image: TopicImage, directories: SharedDirectories) -> None:
        """Start from the present topic, empty if it is new."""
        self._directories = directories
        self.image = image
        self.partition_changes: dict[int, PartitionRegistration] = {}

    @property
    def name(self) -> str:
        """The topic's name."""
        return self.image.name

    @property
    def topic_id(self) -> Uuid:
        """The topic's id."""
        return self.image.topic_id

    def partition(self, partition_id: int) -> PartitionRegistration | None:
        """Return a partition after the changes."""
        return self.partition_changes.get(partition_id) or self.image.partitions.get(partition_id)

    def replay(self, record: Partition | PartitionChange) -> None:
        """Apply a new partition, or a change of an existing one."""
        if isinstance(record, Partition):
            self.partition_changes[record.partition_id] = PartitionRegistration.from_record(record, self._directories)
            return
        before = self.partition(record.partition_id)
        assert before is not None, f"a change of {self.name}-{record.partition_id}, which is not there"
        self.partition_changes[record.partition_id] = before.merge(record)

    def applied(self) -> Steps[TopicImage]:
        """Make the topic after the changes. Cost: what changed."""
        partitions = self.image.partitions
        for piece in pieces(self.partition_changes.items()):
            partitions = partitions.update(piece)
            yield
        return TopicImage(name=self.image.name, topic_id=self.image.topic_id, partitions=partitions)

    def add_local_changes(self, broker_id: int, changes: LocalReplicaChanges) -> Steps[None]:
        """Classify the changes by this broker's actions."""
        for piece in pieces(self.partition_changes.items()):
            for partition_id, partition in piece:
                before = self.image.partitions.get(partition_id)
                if broker_id not in partition.replicas:
                    if before is not None and broker_id in before.replicas:
                        changes.deletes[TopicPartition(self.name, partition_id)] = self.topic_id
                elif before is None or before.partition_epoch != partition.partition_epoch:
                    key = TopicPartition(self.name, partition_id)
                    info = PartitionInfo(topic_id=self.topic_id, partition=partition)
                    if before is None or broker_id not in before.replicas:
                        changes.arrivals.add(key)
                    if partition.leader != broker_id:
                        changes.followers[key] = info
                        continue
                    changes.leaders[key] = info
                    if before is None or before.leader_epoch != partition.leader_epoch:
                        changes.elected_leaders[key] = info
            yield


class TopicsDelta:
    """Changes of topics since `image`."""

    __slots__ = ("_directories", "changed_topics", "deleted_topics", "image")

    def __init__(self, image: TopicsImage) -> None:
        """Start from the present topics."""
        self.image = image
        self.changed_topics: dict[Uuid, TopicDelta] = {}
        self.deleted_topics: dict[Uuid, TopicImage] = {}
        """Deleted topics of `image`, in their last state."""
        self._directories: SharedDirectories = {}

    @property
    def is_empty(self) -> bool:
        """Return whether nothing changed."""
        return not (self.changed_topics or self.deleted_topics)

    @property
    def created_topics(self) -> list[TopicDelta]:
        """The topics that were not there before."""
        return [delta for topic_id, delta in self.changed_topics.items() if topic_id not in self.image.by_id]

    def replay_topic(self, record: Topic) -> None:
        """Apply a new topic."""
        assert record.topic_id not in self.changed_topics, f"topic id {record.topic_id} is taken"
        assert record.topic_id not in self.image.by_id, f"topic id {record.topic_id} is taken"
        namesake = self.image.by_name.get(record.name)
        assert namesake is None or namesake.topic_id in self.deleted_topics, f"topic name {record.name} is taken"
        topic = TopicImage(name=record.name, topic_id=record.topic_id)
        self.changed_topics[record.topic_id] = TopicDelta(topic, self._directories)

    def replay_partition(self, record: Partition | PartitionChange) -> None:
        """Apply a new partition or a change of one."""
        delta = self.changed_topics.get(record.topic_id)
        if delta is None:
            assert record.topic_id not in self.deleted_topics, f"topic {record.topic_id} is deleted"
            before = self.image.by_id[record.topic_id]
            delta = self.changed_topics[record.topic_id] = TopicDelta(before, self._directories)
        delta.replay(record)

    def replay_remove(self, record: RemoveTopic) -> str:
        """Record the removal of a topic; return its name."""
        delta = self.changed_topics.pop(record.topic_id, None)
        before = self.image.by_id.get(record.topic_id)
        if before is not None:
            assert record.topic_id not in self.deleted_topics, f"topic {record.topic_id} is deleted already"
            self.deleted_topics[record.topic_id] = before
            return before.name
        assert delta is not None, f"there is no topic {record.topic_id} to remove"
        return delta.name

    def applied(self) -> Steps[TopicsImage]:
        """Make the topics after the changes. Cost: what changed."""
        by_id, by_name = self.image.by_id, self.image.by_name
        index = ReplicaIndexBuilder(self.image.index)
        partition_count = self.image.partition_count
        collisions = self.image.collisions
        for topic_id, topic in self.deleted_topics.items():
            by_id = by_id.remove(topic_id)
            by_name = by_name.remove(topic.name)
            collisions = collisions.discard(collision_key(topic.name))
            partition_count -= len(topic.partitions)
            for piece in pieces(topic.partitions.items()):
                for partition_id, partition in piece:
                    index.update(topic_id, partition_id, partition, None)
                yield
        for topic_id, delta in self.changed_topics.items():
            topic = yield from delta.applied()
            by_id = by_id.insert(topic_id, topic)
            by_name = by_name.insert(topic.name, topic)
            if topic_id not in self.image.by_id and "_" in (key := collision_key(topic.name)):
                collisions = collisions.insert(key, topic.name)
            partition_count += len(topic.partitions) - len(delta.image.partitions)
            before = delta.image.partitions
            for piece in pieces(delta.partition_changes.items()):
                for partition_id, partition in piece:
                    index.update(topic_id, partition_id, before.get(partition_id), partition)
                yield
        replica_index = yield from index.build()
        return TopicsImage(
            by_id=by_id,
            by_name=by_name,
            index=replica_index,
            collisions=collisions,
            partition_count=partition_count,
        )

    def local_changes(self, broker_id: int) -> LocalReplicaChanges:
        """Return this broker's actions. Cost: the changes."""
        changes = LocalReplicaChanges()
        finish(self.add_local_changes(broker_id, changes))
        return changes

    def add_local_changes(self, broker_id: int, changes: LocalReplicaChanges) -> Steps[None]:
        """As local_changes, in steps: tens of thousands of changes are sorted in a tenth of a second."""
        for topic_id, topic in self.deleted_topics.items():
            for piece in pieces(topic.partitions.items()):
                for partition_id, partition in piece:
                    if broker_id in partition.replicas:
                        changes.deletes[TopicPartition(topic.name, partition_id)] = topic_id
                yield
        for delta in self.changed_topics.values():
            yield from delta.add_local_changes(broker_id, changes)
