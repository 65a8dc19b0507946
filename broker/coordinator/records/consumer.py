"""A consumer group (KIP-848): keys and values of the types 3 to 8 and 16."""

from dataclasses import dataclass, field
from typing import ClassVar

from kvorum.protocol.schema import Field
from kvorum.protocol.uuids import ZERO_UUID, Uuid


@dataclass(slots=True, kw_only=True)
class GroupKey:
    """A group: key of CONSUMER_GROUP_METADATA (3), _PARTITION_METADATA (4) and _TARGET_ASSIGNMENT_METADATA (6)."""

    group_id: str = ""
    FIELDS: ClassVar[tuple[Field, ...]] = (Field("group_id", "string", (0, 0)),)


@dataclass(slots=True, kw_only=True)
class MemberKey:
    """A member: key of its subscription (5), its target assignment (7) and its current one (8)."""

    group_id: str = ""
    member_id: str = ""
    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("group_id", "string", (0, 0)),
        Field("member_id", "string", (0, 0)),
    )


@dataclass(slots=True, kw_only=True)
class RegularExpressionKey:
    """A subscribed pattern: key of CONSUMER_GROUP_REGULAR_EXPRESSION (16)."""

    group_id: str = ""
    regular_expression: str = ""
    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("group_id", "string", (0, 0)),
        Field("regular_expression", "string", (0, 0)),
    )


@dataclass(slots=True, kw_only=True)
class ConsumerGroupMetadataValue:
    """The group epoch (3), and a hash of the topics it was made with."""

    epoch: int = 0
    metadata_hash: int = 0
    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("epoch", "int32", (0, 0)),
        Field("metadata_hash", "int64", (0, 0), tag=0),
    )


@dataclass(slots=True, kw_only=True)
class PartitionRacks:
    """The racks of a partition's replicas."""

    partition: int = 0
    racks: list[str] = field(default_factory=list)
    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("partition", "int32", (0, 0)),
        Field("racks", "string", (0, 0), array=True),
    )


@dataclass(slots=True, kw_only=True)
class TopicMetadata:
    """A topic as earlier releases remembered it."""

    topic_id: Uuid = ZERO_UUID
    topic_name: str = ""
    num_partitions: int = 0
    partition_metadata: list[PartitionRacks] = field(default_factory=list)
    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("topic_id", "uuid", (0, 0)),
        Field("topic_name", "string", (0, 0)),
        Field("num_partitions", "int32", (0, 0)),
        Field("partition_metadata", "struct", (0, 0), array=True, struct=PartitionRacks),
    )


@dataclass(slots=True, kw_only=True)
class ConsumerGroupPartitionMetadataValue:
    """The topics of the group (4): written by earlier releases, forgotten when met."""

    topics: list[TopicMetadata] = field(default_factory=list)
    FIELDS: ClassVar[tuple[Field, ...]] = (Field("topics", "struct", (0, 0), array=True, struct=TopicMetadata),)


@dataclass(slots=True, kw_only=True)
class ClassicProtocol:
    """A protocol a classic member named."""

    name: str = ""
    metadata: bytes = b""
    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("name", "string", (0, 0)),
        Field("metadata", "bytes", (0, 0)),
    )


@dataclass(slots=True, kw_only=True)
class ClassicMemberMetadata:
    """Classic-protocol metadata of a consumer group member."""

    session_timeout_ms: int = 0
    supported_protocols: list[ClassicProtocol] = field(default_factory=list)
    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("session_timeout_ms", "int32", (0, 0)),
        Field("supported_protocols", "struct", (0, 0), array=True, struct=ClassicProtocol),
    )


@dataclass(slots=True, kw_only=True)
class ConsumerGroupMemberMetadataValue:
    """A member's subscription (5)."""

    instance_id: str | None = None
    rack_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    subscribed_topic_names: list[str] = field(default_factory=list)
    subscribed_topic_regex: str | None = None
    rebalance_timeout_ms: int = -1
    server_assignor: str | None = None
    classic_member_metadata: ClassicMemberMetadata | None = field(default_factory=ClassicMemberMetadata)
    """None: the member uses the consumer protocol. Kafka's default value is not used by any member."""
    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("instance_id", "string", (0, 0), nullable=(0, 0)),
        Field("rack_id", "string", (0, 0), nullable=(0, 0)),
        Field("client_id", "string", (0, 0)),
        Field("client_host", "string", (0, 0)),
        Field("subscribed_topic_names", "string", (0, 0), array=True),
        Field("subscribed_topic_regex", "string", (0, 0), nullable=(0, 0)),
        Field("rebalance_timeout_ms", "int32", (0, 0)),
        Field("server_assignor", "string", (0, 0), nullable=(0, 0)),
        Field("classic_member_metadata", "struct", (0, 0), nullable=(0, 0), tag=0, struct=ClassicMemberMetadata),
    )


@dataclass(slots=True, kw_only=True)
class TargetAssignmentMetadataValue:
    """The epoch of the target assignment (6)."""

    assignment_epoch: int = 0
    assignment_timestamp: int = 0
    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("assignment_epoch", "int32", (0, 0)),
        Field("assignment_timestamp", "int64", (0, 0), tag=0),
    )


@dataclass(slots=True, kw_only=True)
class TopicPartitions:
    """Partitions of a topic, in a target."""

    topic_id: Uuid = ZERO_UUID
    partitions: list[int] = field(default_factory=list)
    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("topic_id", "uuid", (0, 0)),
        Field("partitions", "int32", (0, 0), array=True),
    )


@dataclass(slots=True, kw_only=True)
class TargetAssignmentMemberValue:
    """A member's target assignment (7)."""

    topic_partitions: list[TopicPartitions] = field(default_factory=list)
    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("topic_partitions", "struct", (0, 0), array=True, struct=TopicPartitions),
    )


@dataclass(slots=True, kw_only=True)
class AssignedPartitions:
    """Partitions of a topic that a member has, and since which epoch each."""

    topic_id: Uuid = ZERO_UUID
    partitions: list[int] = field(default_factory=list)
    assignment_epochs: list[int] | None = None
    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("topic_id", "uuid", (0, 0)),
        Field("partitions", "int32", (0, 0), array=True),
        Field("assignment_epochs", "int32", (0, 0), nullable=(0, 0), tag=0, array=True),
    )


@dataclass(slots=True, kw_only=True)
class CurrentMemberAssignmentValue:
    """Current assignment (8). `state`: 0 STABLE, 1 UNREVOKED_PARTITIONS, 2 UNRELEASED_PARTITIONS, 127 UNKNOWN."""

    member_epoch: int = 0
    previous_member_epoch: int = 0
    state: int = 0
    assigned_partitions: list[AssignedPartitions] = field(default_factory=list)
    partitions_pending_revocation: list[AssignedPartitions] = field(default_factory=list)
    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("member_epoch", "int32", (0, 0)),
        Field("previous_member_epoch", "int32", (0, 0)),
        Field("state", "int8", (0, 0)),
        Field("assigned_partitions", "struct", (0, 0), array=True, struct=AssignedPartitions),
        Field("partitions_pending_revocation", "struct", (0, 0), array=True, struct=AssignedPartitions),
    )


@dataclass(slots=True, kw_only=True)
class RegularExpressionValue:
    """The topics of a pattern (16), at a metadata version and a time."""

    topics: list[str] = field(default_factory=list)
    version: int = 0
    timestamp: int = 0
    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("topics", "string", (0, 0), array=True),
        Field("version", "int64", (0, 0)),
        Field("timestamp", "int64", (0, 0)),
    )
