"""Topics: those that exist, and those to create."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from kvorum.client.partitions.replication import NOTHING, ReassignmentMap, replication_factor
from kvorum.client.values.partition import Partition
from kvorum.network.authorizer import Operation
from kvorum.protocol.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreatableTopicResult,
)
from kvorum.protocol.messages.metadata import MetadataResponsePartition, MetadataResponseTopic
from kvorum.protocol.topic_partition import TopicPartition
from kvorum.protocol.uuids import Uuid

UNSET = -1
"""Partitions or replication factor left to the cluster's defaults (KIP-464)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Topic:
    """A topic with its partitions, by number."""

    name: str
    topic_id: Uuid
    """Zero on clusters without topic ids (before Kafka 2.8)."""
    is_internal: bool
    partitions: tuple[Partition, ...]
    configs: Mapping[str, str] | None = None
    """Configs that are set on the topic itself; None: not requested."""
    authorized_operations: tuple[str, ...] | None = None
    """Kafka's names of the operations that are permitted to the caller (KIP-430); None: not requested."""

    @property
    def replication_factor(self) -> int:
        """Return the largest target number of replicas of a partition."""
        return max((each.replication_factor for each in self.partitions), default=0)

    @property
    def under_replicated_count(self) -> int:
        """Return the number of partitions with a replica out of sync."""
        return sum(each.is_under_replicated for each in self.partitions)

    @property
    def offline_count(self) -> int:
        """Return the number of partitions without a leader."""
        return sum(each.leader is None for each in self.partitions)


@dataclass(frozen=True, slots=True, kw_only=True)
class NewTopic:
    """A topic to create. None: the cluster's default (num.partitions, default.replication.factor)."""

    name: str
    partitions: int | None = None
    replication_factor: int | None = None
    assignments: Mapping[int, Sequence[int]] | None = None
    """Replicas per partition, the preferred leader first; instead of the two numbers."""
    configs: Mapping[str, str | None] = field(default_factory=dict)
    """Clusters reject null values."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CreatedTopic:
    """A topic that was created, or would be (`validate_only`). None: the cluster does not return it."""

    name: str
    topic_id: Uuid
    partition_count: int | None
    replication_factor: int | None


def topic_value(
    row: MetadataResponseTopic, moving: ReassignmentMap = NOTHING, *, authorized_operations: bool = False
) -> Topic:
    """Return a topic of a Metadata response; `moving`: the current reassignments."""
    name = row.name or ""
    return Topic(
        name=name,
        topic_id=row.topic_id,
        is_internal=row.is_internal,
        partitions=tuple(
            partition_value(name, each, moving) for each in sorted(row.partitions, key=lambda it: it.partition_index)
        ),
        authorized_operations=operation_names(row.topic_authorized_operations) if authorized_operations else None,
    )


def operation_names(bits: int) -> tuple[str, ...]:
    """Return the operations of a bit field: one bit per operation (KIP-430)."""
    return tuple(each.name for each in Operation if bits >> each & 1)


def partition_value(topic: str, row: MetadataResponsePartition, moving: ReassignmentMap = NOTHING) -> Partition:
    """Return a partition of a Metadata response; `moving`: the current reassignments."""
    partition = Partition(
        topic=topic,
        partition=row.partition_index,
        leader=row.leader_id if row.leader_id >= 0 else None,
        leader_epoch=row.leader_epoch,
        replicas=tuple(row.replica_nodes),
        isr=tuple(row.isr_nodes),
        offline_replicas=tuple(row.offline_replicas),
        replication_factor=len(row.replica_nodes),
    )
    return with_reassignment(partition, moving)


def with_reassignment(partition: Partition, moving: ReassignmentMap) -> Partition:
    """Return a partition with its reassignment, if it is among these."""
    found = moving.get(TopicPartition(partition.topic, partition.partition))
    if found is None:
        return partition
    factor = replication_factor(partition.replicas, found)
    return replace(partition, replication_factor=factor, adding=found.adding, removing=found.removing)


def creatable_topic(topic: NewTopic) -> CreatableTopic:
    """Return a topic in the format of CreateTopics."""
    given = topic.assignments or {}
    return CreatableTopic(
        name=topic.name,
        num_partitions=UNSET if topic.partitions is None else topic.partitions,
        replication_factor=UNSET if topic.replication_factor is None else topic.replication_factor,
        assignments=[CreatableReplicaAssignment(partition_index=p, broker_ids=list(ids)) for p, ids in given.items()],
        configs=[CreatableTopicConfig(name=key, value=value) for key, value in topic.configs.items()],
    )


def created_topic_of(row: CreatableTopicResult) -> CreatedTopic:
    """Return a topic of a CreateTopics response."""
    return CreatedTopic(
        name=row.name,
        topic_id=row.topic_id,
        partition_count=row.num_partitions if row.num_partitions >= 0 else None,
        replication_factor=row.replication_factor if row.replication_factor >= 0 else None,
    )
