"""Models of consumer groups in Confluent's REST API."""

from typing import Literal

from pydantic import Field

from kvorum.admin.v3.models import Collection, Relationship, Resource


class ConsumerGroupData(Resource):
    """A consumer group."""

    kind: Literal["KafkaConsumerGroup"] = "KafkaConsumerGroup"
    consumer_group_id: str
    is_simple: bool = Field(description="It has committed offsets and never had members")
    partition_assignor: str
    state: str = Field(examples=["STABLE"])
    type: str = Field(examples=["CLASSIC", "CONSUMER"])
    is_mixed_consumer_group: bool = Field(description="Some members use the classic protocol")
    coordinator: Relationship
    consumers: Relationship
    lag_summary: Relationship


class ConsumerGroupDataList(Collection):
    """Consumer groups, by id."""

    kind: Literal["KafkaConsumerGroupList"] = "KafkaConsumerGroupList"
    data: list[ConsumerGroupData]


class ConsumerData(Resource):
    """A member of a group."""

    kind: Literal["KafkaConsumer"] = "KafkaConsumer"
    consumer_group_id: str
    consumer_id: str
    instance_id: str | None
    client_id: str
    assignments: Relationship


class ConsumerDataList(Collection):
    """A group's members."""

    kind: Literal["KafkaConsumerList"] = "KafkaConsumerList"
    data: list[ConsumerData]


class ConsumerAssignmentData(Resource):
    """A partition assigned to a member."""

    kind: Literal["KafkaConsumerAssignment"] = "KafkaConsumerAssignment"
    consumer_group_id: str
    consumer_id: str
    topic_name: str
    partition_id: int
    partition: Relationship
    lag: Relationship


class ConsumerAssignmentDataList(Collection):
    """The partitions assigned to a member."""

    kind: Literal["KafkaConsumerAssignmentList"] = "KafkaConsumerAssignmentList"
    data: list[ConsumerAssignmentData]


class ConsumerLagData(Resource):
    """Lag of a group in a partition; the consumer is empty if the partition is not assigned."""

    kind: Literal["KafkaConsumerLag"] = "KafkaConsumerLag"
    consumer_group_id: str
    topic_name: str
    partition_id: int
    consumer_id: str
    instance_id: str | None
    client_id: str
    current_offset: int
    log_end_offset: int
    lag: int


class ConsumerLagDataList(Collection):
    """A group's lags."""

    kind: Literal["KafkaConsumerLagList"] = "KafkaConsumerLagList"
    data: list[ConsumerLagData]


class ConsumerGroupLagSummaryData(Resource):
    """Total lag of a group and its largest lag."""

    kind: Literal["KafkaConsumerGroupLagSummary"] = "KafkaConsumerGroupLagSummary"
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
