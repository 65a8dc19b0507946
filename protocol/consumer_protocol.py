"""Kafka's consumer protocol: subscriptions and assignments of the members of classic groups. Sans-IO.

    subscription   version int16, topics, user data; v1: owned partitions; v2: generation id; v3: rack id
    assignment     version int16, partitions, user data

A version above the newest known one is read, and written, as the newest. The coordinator does not interpret these bytes
for classic groups: invalid ones concern the members only. Source: Kafka's ConsumerProtocol,
ConsumerProtocolSubscription.json, ConsumerProtocolAssignment.json (v0-v3).
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from struct import error as StructError
from typing import ClassVar, Final, TypeVar, cast

from kvorum.protocol.codec import decoder, encoder
from kvorum.protocol.errors import ProtocolError
from kvorum.protocol.schema import Field, Struct
from kvorum.protocol.topic_partition import TopicPartition

T = TypeVar("T", bound=Struct)
CONSUMER_PROTOCOL: Final = "consumer"
"""Protocol type of consumers' groups."""
NEWEST: Final = 3
OWNED_PARTITIONS_VERSION: Final = 1
GENERATION_VERSION: Final = 2
RACK_VERSION: Final = 3


@dataclass(slots=True, kw_only=True)
class TopicPartitions:
    """Partitions of a topic, by its name."""

    topic: str = ""
    partitions: list[int] = field(default_factory=list)
    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("topic", "string", (0, 3)),
        Field("partitions", "int32", (0, 3), array=True),
    )


@dataclass(slots=True, kw_only=True)
class TopicNames:
    """The beginning of a subscription, which all versions have."""

    topics: list[str] = field(default_factory=list)
    FIELDS: ClassVar[tuple[Field, ...]] = (Field("topics", "string", (0, 3), array=True),)


@dataclass(slots=True, kw_only=True)
class ConsumerSubscription:
    """A member's subscription; `user_data` belongs to its assignor."""

    topics: list[str] = field(default_factory=list)
    user_data: bytes | None = None
    owned_partitions: list[TopicPartitions] = field(default_factory=list)
    generation_id: int = -1
    rack_id: str | None = None
    FIELDS: ClassVar[tuple[Field, ...]] = (
        *TopicNames.FIELDS,
        Field("user_data", "bytes", (0, 3), nullable=(0, 3)),
        Field("owned_partitions", "struct", (OWNED_PARTITIONS_VERSION, 3), array=True, struct=TopicPartitions),
        Field("generation_id", "int32", (GENERATION_VERSION, 3)),
        Field("rack_id", "string", (RACK_VERSION, 3), nullable=(RACK_VERSION, 3)),
    )


@dataclass(slots=True, kw_only=True)
class ConsumerAssignment:
    """A member's assignment; `user_data` belongs to its assignor."""

    assigned_partitions: list[TopicPartitions] = field(default_factory=list)
    user_data: bytes | None = None
    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("assigned_partitions", "struct", (0, 3), array=True, struct=TopicPartitions),
        Field("user_data", "bytes", (0, 3), nullable=(0, 3)),
    )

    @property
    def topic_partitions(self) -> list[TopicPartition]:
        """Return the partitions one by one, in their order."""
        return [TopicPartition(row.topic, each) for row in self.assigned_partitions for each in row.partitions]


def read_version(data: bytes) -> int:
    """Return the version of a subscription or assignment, at most the newest known one. Raises ProtocolError."""
    if len(data) < 2:
        raise ProtocolError(f"{len(data)} bytes are too short for a version")
    version = int.from_bytes(data[:2], "big", signed=True)
    if version < 0:
        raise ProtocolError(f"unsupported version {version} of the consumer protocol")
    return min(version, NEWEST)


def assignment_version(subscription: bytes) -> int:
    """Return the version of a member's assignment: that of its subscription, 0 if this is invalid."""
    try:
        return read_version(subscription)
    except ProtocolError:
        return 0


def read_subscription(data: bytes) -> ConsumerSubscription:
    """Read a member's subscription. Raises ProtocolError."""
    return _read(ConsumerSubscription, data)


def read_assignment(data: bytes) -> ConsumerAssignment:
    """Read a member's assignment; no bytes mean no partitions. Raises ProtocolError."""
    return _read(ConsumerAssignment, data) if data else ConsumerAssignment()


def subscribed_topics(subscription: bytes) -> list[str] | None:
    """Return the topics of a subscription, whatever its client wrote after them; None if they cannot be read."""
    try:
        return _read(TopicNames, subscription).topics
    except ProtocolError:
        return None


def write_assignment(rows: Iterable[TopicPartitions], version: int) -> bytes:
    """Return an assignment as bytes of this version, without user data."""
    out = bytearray(version.to_bytes(2, "big", signed=True))
    message = ConsumerAssignment(assigned_partitions=list(rows))
    encoder(ConsumerAssignment, version, False)(message, out, [])
    return bytes(out)


def _read(cls: type[T], data: bytes) -> T:
    view = memoryview(data)
    try:
        found, _ = decoder(cls, read_version(data), False)(view, 2, len(view))
    except (StructError, IndexError) as error:
        raise ProtocolError(f"{cls.__name__} cannot be decoded: {error}") from error
    return cast(T, found)
