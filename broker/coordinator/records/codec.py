"""Keys and values to bytes and back: two bytes of type or version, then the struct as Kafka's generator lays it out.

A key begins with its record's type, a value with its version. Sans-IO. Source: Kafka's CoordinatorRecordSerde,
CoordinatorRecordType, MessageUtil.toVersionPrefixedBytes.
"""

from collections.abc import Mapping
from enum import IntEnum
from struct import error as StructError
from typing import Final, NamedTuple, TypeVar, cast

from kvorum.broker.coordinator.records.classic import GroupMetadataKey, GroupMetadataValue
from kvorum.broker.coordinator.records.consumer import (
    ConsumerGroupMemberMetadataValue,
    ConsumerGroupMetadataValue,
    ConsumerGroupPartitionMetadataValue,
    CurrentMemberAssignmentValue,
    GroupKey,
    MemberKey,
    RegularExpressionKey,
    RegularExpressionValue,
    TargetAssignmentMemberValue,
    TargetAssignmentMetadataValue,
)
from kvorum.broker.coordinator.records.offsets import OffsetCommitKey, OffsetCommitValue
from kvorum.broker.coordinator.records.transactions import TransactionLogKey, TransactionLogValue
from kvorum.broker.coordinator.runtime.words import CoordinatorRecord
from kvorum.protocol.codec import decoder, encoder
from kvorum.protocol.errors import ErrorCode, KafkaError, ProtocolError
from kvorum.protocol.schema import Struct

T = TypeVar("T", bound=Struct)

NEVER: Final = 2**15
"""No version is as high: a struct that is never flexible."""


class GroupRecordType(IntEnum):
    """Types of the records in __consumer_offsets; those of share and streams groups are not known here."""

    LEGACY_OFFSET_COMMIT = 0
    OFFSET_COMMIT = 1
    GROUP_METADATA = 2
    CONSUMER_GROUP_METADATA = 3
    CONSUMER_GROUP_PARTITION_METADATA = 4
    CONSUMER_GROUP_MEMBER_METADATA = 5
    CONSUMER_GROUP_TARGET_ASSIGNMENT_METADATA = 6
    CONSUMER_GROUP_TARGET_ASSIGNMENT_MEMBER = 7
    CONSUMER_GROUP_CURRENT_MEMBER_ASSIGNMENT = 8
    CONSUMER_GROUP_REGULAR_EXPRESSION = 16


TRANSACTION_LOG: Final = 0
"""The one type of record in __transaction_state."""


class Shape(NamedTuple):
    """Format of a record type: the newest version of a value, and its first flexible version."""

    key: type[Struct]
    value: type[Struct]
    newest: int
    flexible_from: int


Type = GroupRecordType
GROUP_SHAPES: Final[Mapping[int, Shape]] = {
    Type.LEGACY_OFFSET_COMMIT: Shape(OffsetCommitKey, OffsetCommitValue, 0, NEVER),
    Type.OFFSET_COMMIT: Shape(OffsetCommitKey, OffsetCommitValue, 4, 4),
    Type.GROUP_METADATA: Shape(GroupMetadataKey, GroupMetadataValue, 4, 4),
    Type.CONSUMER_GROUP_METADATA: Shape(GroupKey, ConsumerGroupMetadataValue, 0, 0),
    Type.CONSUMER_GROUP_PARTITION_METADATA: Shape(GroupKey, ConsumerGroupPartitionMetadataValue, 0, 0),
    Type.CONSUMER_GROUP_MEMBER_METADATA: Shape(MemberKey, ConsumerGroupMemberMetadataValue, 0, 0),
    Type.CONSUMER_GROUP_TARGET_ASSIGNMENT_METADATA: Shape(GroupKey, TargetAssignmentMetadataValue, 0, 0),
    Type.CONSUMER_GROUP_TARGET_ASSIGNMENT_MEMBER: Shape(MemberKey, TargetAssignmentMemberValue, 0, 0),
    Type.CONSUMER_GROUP_CURRENT_MEMBER_ASSIGNMENT: Shape(MemberKey, CurrentMemberAssignmentValue, 0, 0),
    Type.CONSUMER_GROUP_REGULAR_EXPRESSION: Shape(RegularExpressionKey, RegularExpressionValue, 0, 0),
}
TRANSACTION_SHAPES: Final[Mapping[int, Shape]] = {TRANSACTION_LOG: Shape(TransactionLogKey, TransactionLogValue, 1, 1)}


class Decoded(NamedTuple):
    """A decoded record. A value of None is a tombstone."""

    type: int
    key: Struct
    value: Struct | None


class UnknownRecordType(Exception):
    """A record of a type that this release does not know: written by another one, to be stepped over."""


def encode_key(record_type: int, key: Struct) -> bytes:
    """Return a key's bytes."""
    return _prefixed(record_type, key, 0, flexible=False)


def encode_value(shape: Shape, value: Struct, version: int) -> bytes:
    """Return a value's bytes in a version the shape has."""
    assert isinstance(value, shape.value) and 0 <= version <= shape.newest, "a value of this type and version"
    return _prefixed(version, value, version, flexible=version >= shape.flexible_from)


def group_record(
    record_type: GroupRecordType, key: Struct, value: Struct | None, version: int = 0
) -> CoordinatorRecord:
    """Return a record of __consumer_offsets; None as the value forgets the key."""
    shape = GROUP_SHAPES[record_type]
    assert isinstance(key, shape.key), "a key of this type"
    return CoordinatorRecord(
        encode_key(record_type, key), None if value is None else encode_value(shape, value, version)
    )


def transaction_record(
    key: TransactionLogKey, value: TransactionLogValue | None, version: int = 1
) -> CoordinatorRecord:
    """Return a record of __transaction_state."""
    encoded = None if value is None else encode_value(TRANSACTION_SHAPES[TRANSACTION_LOG], value, version)
    return CoordinatorRecord(encode_key(TRANSACTION_LOG, key), encoded)


def decode_record(shapes: Mapping[int, Shape], record: CoordinatorRecord) -> Decoded:
    """Decode a record. Raises UnknownRecordType; ProtocolError if the bytes do not match their type."""
    record_type = _prefix(record.key)
    shape = shapes.get(record_type)
    if shape is None:
        raise UnknownRecordType(f"type {record_type}")
    key = _read(shape.key, record.key, 0, flexible=False)
    if record.value is None:
        return Decoded(record_type, key, None)
    version = _prefix(record.value)
    if not 0 <= version <= shape.newest:
        raise ProtocolError(f"{shape.value.__name__} of version {version}; the newest known version is {shape.newest}")
    return Decoded(record_type, key, _read(shape.value, record.value, version, flexible=version >= shape.flexible_from))


def _prefixed(prefix: int, struct: Struct, version: int, *, flexible: bool) -> bytes:
    """Return the bytes.

    Raises KafkaError UNKNOWN_SERVER_ERROR, as in Kafka, if a client's name exceeds the 32,767 bytes of a record's
    field, which is possible in requests.
    """
    out = bytearray(prefix.to_bytes(2, "big", signed=True))
    try:
        encoder(type(struct), version, flexible)(struct, out, [])
    except StructError as error:
        text = f"a field of a {type(struct).__name__} is too long to be serialized"
        raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, text) from error
    return bytes(out)


def _prefix(data: bytes) -> int:
    if len(data) < 2:
        raise ProtocolError(f"{len(data)} bytes are too short for a type and a version")
    return int.from_bytes(data[:2], "big", signed=True)


def _read(cls: type[T], data: bytes, version: int, *, flexible: bool) -> T:
    view = memoryview(data)
    try:
        found, _ = decoder(cls, version, flexible)(view, 2, len(view))
    except (StructError, IndexError) as error:
        raise ProtocolError(f"{cls.__name__} v{version} ends too early, at {len(view)} bytes") from error
    return cast(T, found)
