"""Embedded protocol of classic consumers: subscriptions and assignments, as bytes. Sans-IO.

A version that is newer than the newest known is read, and written, as that. Source: Kafka's ConsumerProtocol,
ConsumerProtocolSubscription.json, ConsumerProtocolAssignment.json (v0-v3).
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from struct import error as StructError
from typing import ClassVar, Final, TypeVar, cast

from kvorum.broker.coordinator.group.words import Assignment
from kvorum.protocol.codec import decoder, encoder
from kvorum.protocol.errors import ProtocolError
from kvorum.protocol.schema import Field, Struct
from kvorum.protocol.uuids import Uuid
from kvorum.quorum.image.topics import TopicsImage

T = TypeVar("T", bound=Struct)
NEWEST: Final = 3


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
class Subscription:
    """A consumer's subscription."""

    topics: list[str] = field(default_factory=list)
    user_data: bytes | None = None
    owned_partitions: list[TopicPartitions] = field(default_factory=list)
    generation_id: int = -1
    rack_id: str | None = None
    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("topics", "string", (0, 3), array=True),
        Field("user_data", "bytes", (0, 3), nullable=(0, 3)),
        Field("owned_partitions", "struct", (1, 3), array=True, struct=TopicPartitions),
        Field("generation_id", "int32", (2, 3)),
        Field("rack_id", "string", (3, 3), nullable=(3, 3)),
    )


@dataclass(slots=True, kw_only=True)
class EmbeddedAssignment:
    """A consumer's assignment."""

    assigned_partitions: list[TopicPartitions] = field(default_factory=list)
    user_data: bytes | None = None
    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("assigned_partitions", "struct", (0, 3), array=True, struct=TopicPartitions),
        Field("user_data", "bytes", (0, 3), nullable=(0, 3)),
    )


def version_of(data: bytes) -> int:
    """Return the version of a consumer, limited to the versions known here. Raises ProtocolError."""
    if len(data) < 2:
        raise ProtocolError(f"{len(data)} bytes are too short for a version")
    version = int.from_bytes(data[:2], "big", signed=True)
    if version < 0:
        raise ProtocolError(f"unsupported version {version} of the embedded protocol")
    return min(version, NEWEST)


def spoken_version(data: bytes) -> int:
    """Return the version to write to a consumer in: of one whose words cannot be read, the first."""
    try:
        return version_of(data)
    except ProtocolError:
        return 0


def _read(cls: type[T], data: bytes) -> T:
    view = memoryview(data)
    try:
        found, _ = decoder(cls, version_of(data), False)(view, 2, len(view))
    except (StructError, IndexError, UnicodeDecodeError) as error:
        raise ProtocolError(f"{cls.__name__} cannot be decoded: {error}") from error
    return cast(T, found)


def read_subscription(data: bytes) -> Subscription:
    """Read the subscription of a consumer. Raises ProtocolError."""
    return _read(Subscription, data)


def read_assignment(data: bytes) -> EmbeddedAssignment:
    """Read a consumer's assignment; empty bytes mean none. Raises ProtocolError."""
    return _read(EmbeddedAssignment, data) if data else EmbeddedAssignment()


def write_assignment(partitions: Mapping[Uuid, Iterable[int]], topics: TopicsImage, version: int) -> bytes:
    """Write an assignment in this version; deleted topics are left out."""
    rows = []
    for topic_id, numbers in partitions.items():
        topic = topics.topic_by_id(topic_id)
        if topic is not None:
            rows.append(TopicPartitions(topic=topic.name, partitions=sorted(numbers)))
    rows.sort(key=lambda row: row.topic)
    out = bytearray(version.to_bytes(2, "big", signed=True))
    encoder(EmbeddedAssignment, version, False)(EmbeddedAssignment(assigned_partitions=rows), out, [])
    return bytes(out)


def by_topic_id(rows: Iterable[TopicPartitions], topics: TopicsImage) -> Assignment:
    """Return partitions by topic id; deleted topics are omitted."""
    found: dict[Uuid, frozenset[int]] = {}
    for row in rows:
        topic = topics.topic(row.topic)
        if topic is not None:
            found[topic.topic_id] = frozenset(row.partitions) | found.get(topic.topic_id, frozenset())
    return found
