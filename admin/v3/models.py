"""Models of Confluent's REST API; names and kinds are defined by that API."""

from typing import Literal

from pydantic import BaseModel, Field


class ErrorResponse(BaseModel):
    """An error (format of /v3)."""

    error_code: int = Field(examples=[40403])
    message: str


class Relationship(BaseModel):
    """Link to a related resource."""

    related: str


class ResourceMetadata(BaseModel):
    """Link and name of a resource."""

    self: str
    resource_name: str | None = Field(examples=["crn:///kafka=CLUSTER/topic=orders"])


class CollectionMetadata(BaseModel):
    """Links of a list. There is never a next page."""

    self: str
    next: None = None


class ClusterData(BaseModel):
    """A cluster."""

    kind: Literal["KafkaCluster"] = "KafkaCluster"
    metadata: ResourceMetadata
    cluster_id: str
    controller: Relationship | None
    acls: Relationship
    brokers: Relationship
    broker_configs: Relationship
    consumer_groups: Relationship
    topics: Relationship
    partition_reassignments: Relationship


class ClusterDataList(BaseModel):
    """The cluster of this server."""

    kind: Literal["KafkaClusterList"] = "KafkaClusterList"
    metadata: CollectionMetadata
    data: list[ClusterData]


class BrokerData(BaseModel):
    """A broker."""

    kind: Literal["KafkaBroker"] = "KafkaBroker"
    metadata: ResourceMetadata
    cluster_id: str
    broker_id: int
    host: str | None
    port: int | None
    rack: str | None
    configs: Relationship
    partition_replicas: Relationship


class BrokerDataList(BaseModel):
    """Brokers."""

    kind: Literal["KafkaBrokerList"] = "KafkaBrokerList"
    metadata: CollectionMetadata
    data: list[BrokerData]


class ConfigSynonymData(BaseModel):
    """A source of a config's value, in order of precedence."""

    name: str
    value: str | None
    source: str


class ConfigData(BaseModel):
    """Common fields of all configs."""

    metadata: ResourceMetadata
    cluster_id: str
    name: str
    value: str | None
    is_default: bool
    is_read_only: bool
    is_sensitive: bool
    source: str
    synonyms: list[ConfigSynonymData]


class TopicConfigData(ConfigData):
    """A topic's config."""

    kind: Literal["KafkaTopicConfig"] = "KafkaTopicConfig"
    topic_name: str


class TopicConfigDataList(BaseModel):
    """Configs of topics."""

    kind: Literal["KafkaTopicConfigList"] = "KafkaTopicConfigList"
    metadata: CollectionMetadata
    data: list[TopicConfigData]


class BrokerConfigData(ConfigData):
    """A broker's config."""

    kind: Literal["KafkaBrokerConfig"] = "KafkaBrokerConfig"
    broker_id: int


class BrokerConfigDataList(BaseModel):
    """Configs of brokers."""

    kind: Literal["KafkaBrokerConfigList"] = "KafkaBrokerConfigList"
    metadata: CollectionMetadata
    data: list[BrokerConfigData]


class ClusterConfigData(ConfigData):
    """A dynamic config of all brokers."""

    kind: Literal["KafkaClusterConfig"] = "KafkaClusterConfig"
    config_type: Literal["BROKER"] = "BROKER"


class ClusterConfigDataList(BaseModel):
    """Dynamic configs of all brokers."""

    kind: Literal["KafkaClusterConfigList"] = "KafkaClusterConfigList"
    metadata: CollectionMetadata
    data: list[ClusterConfigData]


class TopicData(BaseModel):
    """A topic."""

    kind: Literal["KafkaTopic"] = "KafkaTopic"
    metadata: ResourceMetadata
    cluster_id: str
    topic_name: str
    is_internal: bool
    replication_factor: int
    partitions_count: int
    partitions: Relationship
    configs: Relationship
    partition_reassignments: Relationship
    authorized_operations: list[str] = Field(description="Operations permitted to the caller, if requested")


class TopicDataList(BaseModel):
    """All topics, by name."""

    kind: Literal["KafkaTopicList"] = "KafkaTopicList"
    metadata: CollectionMetadata
    data: list[TopicData]


class PartitionData(BaseModel):
    """A partition; `leader` is null if it has none."""

    kind: Literal["KafkaPartition"] = "KafkaPartition"
    metadata: ResourceMetadata
    cluster_id: str
    topic_name: str
    partition_id: int
    leader: Relationship | None
    replicas: Relationship
    reassignment: Relationship


class PartitionDataList(BaseModel):
    """A topic's partitions."""

    kind: Literal["KafkaPartitionList"] = "KafkaPartitionList"
    metadata: CollectionMetadata
    data: list[PartitionData]


class PartitionWithOffsetsData(BaseModel):
    """Log start and log end offset of a partition."""

    kind: Literal["KafkaPartitionWithOffsets"] = "KafkaPartitionWithOffsets"
    metadata: ResourceMetadata
    cluster_id: str
    topic_name: str
    partition_id: int
    earliest_offset: int
    latest_offset: int


class ReplicaData(BaseModel):
    """A partition's replica on one broker."""

    kind: Literal["KafkaReplica"] = "KafkaReplica"
    metadata: ResourceMetadata
    cluster_id: str
    topic_name: str
    partition_id: int
    broker_id: int
    is_leader: bool
    is_in_sync: bool
    broker: Relationship


class ReplicaDataList(BaseModel):
    """Replicas of a partition, or on a broker."""

    kind: Literal["KafkaReplicaList"] = "KafkaReplicaList"
    metadata: CollectionMetadata
    data: list[ReplicaData]


class ReassignmentData(BaseModel):
    """A partition whose replicas are moving."""

    kind: Literal["KafkaReassignment"] = "KafkaReassignment"
    metadata: ResourceMetadata
    cluster_id: str
    topic_name: str
    partition_id: int
    adding_replicas: list[int]
    removing_replicas: list[int]
    replicas: Relationship


class ReassignmentDataList(BaseModel):
    """Current reassignments."""

    kind: Literal["KafkaReassignmentList"] = "KafkaReassignmentList"
    metadata: CollectionMetadata
    data: list[ReassignmentData]


class ConsumerGroupData(BaseModel):
    """A consumer group."""

    kind: Literal["KafkaConsumerGroup"] = "KafkaConsumerGroup"
    metadata: ResourceMetadata
    cluster_id: str
    consumer_group_id: str
    is_simple: bool = Field(description="It has committed offsets and never had members")
    partition_assignor: str
    state: str = Field(examples=["STABLE"])
    type: str = Field(examples=["CLASSIC", "CONSUMER"])
    is_mixed_consumer_group: bool = Field(description="Some members use the classic protocol")
    coordinator: Relationship
    consumers: Relationship
    lag_summary: Relationship


class ConsumerGroupDataList(BaseModel):
    """Consumer groups, by id."""

    kind: Literal["KafkaConsumerGroupList"] = "KafkaConsumerGroupList"
    metadata: CollectionMetadata
    data: list[ConsumerGroupData]


class ConsumerData(BaseModel):
    """A member of a group."""

    kind: Literal["KafkaConsumer"] = "KafkaConsumer"
    metadata: ResourceMetadata
    cluster_id: str
    consumer_group_id: str
    consumer_id: str
    instance_id: str | None
    client_id: str
    assignments: Relationship


class ConsumerDataList(BaseModel):
    """A group's members."""

    kind: Literal["KafkaConsumerList"] = "KafkaConsumerList"
    metadata: CollectionMetadata
    data: list[ConsumerData]


class ConsumerAssignmentData(BaseModel):
    """A partition assigned to a member."""

    kind: Literal["KafkaConsumerAssignment"] = "KafkaConsumerAssignment"
    metadata: ResourceMetadata
    cluster_id: str
    consumer_group_id: str
    consumer_id: str
    topic_name: str
    partition_id: int
    partition: Relationship
    lag: Relationship


class ConsumerAssignmentDataList(BaseModel):
    """The partitions assigned to a member."""

    kind: Literal["KafkaConsumerAssignmentList"] = "KafkaConsumerAssignmentList"
    metadata: CollectionMetadata
    data: list[ConsumerAssignmentData]


class ConsumerLagData(BaseModel):
    """Lag of a group in a partition; the consumer is empty if the partition is not assigned."""

    kind: Literal["KafkaConsumerLag"] = "KafkaConsumerLag"
    metadata: ResourceMetadata
    cluster_id: str
    consumer_group_id: str
    topic_name: str
    partition_id: int
    consumer_id: str
    instance_id: str | None
    client_id: str
    current_offset: int
    log_end_offset: int
    lag: int


class ConsumerLagDataList(BaseModel):
    """A group's lags."""

    kind: Literal["KafkaConsumerLagList"] = "KafkaConsumerLagList"
    metadata: CollectionMetadata
    data: list[ConsumerLagData]


class ConsumerGroupLagSummaryData(BaseModel):
    """Total lag of a group and its largest lag."""

    kind: Literal["KafkaConsumerGroupLagSummary"] = "KafkaConsumerGroupLagSummary"
    metadata: ResourceMetadata
    cluster_id: str
    consumer_group_id: str
    max_lag_consumer_id: str
    max_lag_instance_id: str | None
    max_lag_client_id: str
    max_lag_topic_name: str
    max_lag_partition_id: int
    max_lag: int
    total_lag: int
    max_lag_consumer: Relationship
    max_lag_partition: Relationship
