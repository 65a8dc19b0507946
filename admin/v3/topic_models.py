"""Models of topics, partitions and replicas in Confluent's REST API."""

from typing import Literal

from pydantic import Field

from kvorum.admin.v3.models import Collection, Relationship, Resource


class TopicData(Resource):
    """A topic."""

    kind: Literal["KafkaTopic"] = "KafkaTopic"
    topic_name: str
    is_internal: bool
    replication_factor: int
    partitions_count: int
    partitions: Relationship
    configs: Relationship
    partition_reassignments: Relationship
    authorized_operations: list[str] = Field(description="Operations permitted to the caller, if requested")


class TopicDataList(Collection):
    """All topics, by name."""

    kind: Literal["KafkaTopicList"] = "KafkaTopicList"
    data: list[TopicData]


class PartitionData(Resource):
    """A partition; `leader` is null if it has none."""

    kind: Literal["KafkaPartition"] = "KafkaPartition"
    topic_name: str
    partition_id: int
    leader: Relationship | None
    replicas: Relationship
    reassignment: Relationship


class PartitionDataList(Collection):
    """A topic's partitions."""

    kind: Literal["KafkaPartitionList"] = "KafkaPartitionList"
    data: list[PartitionData]


class PartitionWithOffsetsData(Resource):
    """Log start and log end offset of a partition."""

    kind: Literal["KafkaPartitionWithOffsets"] = "KafkaPartitionWithOffsets"
    topic_name: str
    partition_id: int
    earliest_offset: int
    latest_offset: int


class ReplicaData(Resource):
    """A partition's replica on one broker."""

    kind: Literal["KafkaReplica"] = "KafkaReplica"
    topic_name: str
    partition_id: int
    broker_id: int
    is_leader: bool
    is_in_sync: bool
    broker: Relationship


class ReplicaDataList(Collection):
    """Replicas of a partition, or on a broker."""

    kind: Literal["KafkaReplicaList"] = "KafkaReplicaList"
    data: list[ReplicaData]


class ReassignmentData(Resource):
    """A partition whose replicas are moving."""

    kind: Literal["KafkaReassignment"] = "KafkaReassignment"
    topic_name: str
    partition_id: int
    adding_replicas: list[int]
    removing_replicas: list[int]
    replicas: Relationship


class ReassignmentDataList(Collection):
    """Current reassignments."""

    kind: Literal["KafkaReassignmentList"] = "KafkaReassignmentList"
    data: list[ReassignmentData]
