"""The record of a committed offset, the most frequent one in __consumer_offsets: its bytes, and their content.

The bytes equal those of records.codec for the same structs, without iterating over their fields. Special cases (a
tombstone, an explicit expiry, long metadata) use records.codec. Sans-IO.
"""

from struct import Struct
from struct import error as StructError
from typing import Final, NamedTuple

from kvorum.broker.coordinator.group.words import OffsetKey
from kvorum.broker.coordinator.records.codec import GROUP_SHAPES, GroupRecordType, encode_value, group_record
from kvorum.broker.coordinator.records.offsets import OffsetCommitKey, OffsetCommitValue
from kvorum.broker.coordinator.runtime.words import CoordinatorRecord
from kvorum.protocol.uuids import ZERO_UUID

OFFSET_COMMIT: Final = GroupRecordType.OFFSET_COMMIT
SHAPE: Final = GROUP_SHAPES[OFFSET_COMMIT]
VERSION: Final = 4
EXPIRING_VERSION: Final = 1
"""The only version with its own expiry, which clients up to OffsetCommit v4 could set."""
NO_EXPIRY: Final = -1
SHORT_MAX: Final = 126
"""The longest metadata whose length, plus one, is one byte."""

_TYPE_AND_LENGTH: Final = Struct(">hh").pack
_LENGTH: Final = Struct(">h").pack
_PARTITION: Final = Struct(">i").pack
_PLACE: Final = Struct(">hqiB").pack
"""Version, offset, leader epoch, length of the metadata plus one."""
_TIME: Final = Struct(">q").pack
_NO_TAGS: Final = b"\0"
_TOPIC_ID: Final = bytes((1, 0, 16))
"""One tagged field: number 0, of 16 bytes."""


class Commit(NamedTuple):
    """Contents of an OFFSET_COMMIT record."""

    group_id: str
    key: OffsetKey
    value: OffsetCommitValue
    """Value of version 4, which has no expiry. Immutable."""


def commit_record(group_id: str, topic: str, partition: int, value: OffsetCommitValue | None) -> CoordinatorRecord:
    """Return the record of an offset, or the tombstone that forgets it; a plain one has its Commit as its content.

    Raises KafkaError as codec.group_record.
    """
    if value is not None and value.expire_timestamp == NO_EXPIRY:
        try:
            key = _key(group_id.encode(), topic.encode(), partition)
        except StructError:
            pass  # a name is too long: the code below reports it
        else:
            return CoordinatorRecord(key, _value(value), Commit(group_id, OffsetKey(topic, partition), value))
    struct = OffsetCommitKey(group=group_id, topic=topic, partition=partition)
    is_expiring = value is not None and value.expire_timestamp != NO_EXPIRY
    return group_record(OFFSET_COMMIT, struct, value, EXPIRING_VERSION if is_expiring else VERSION)


def _key(group: bytes, topic: bytes, partition: int) -> bytes:
    return _TYPE_AND_LENGTH(OFFSET_COMMIT, len(group)) + group + _LENGTH(len(topic)) + topic + _PARTITION(partition)


def _value(value: OffsetCommitValue) -> bytes:
    metadata = value.metadata.encode()
    if len(metadata) > SHORT_MAX:
        return encode_value(SHAPE, value, VERSION)
    topic_id = value.topic_id
    tags = _NO_TAGS if topic_id == ZERO_UUID else _TOPIC_ID + topic_id
    place = _PLACE(VERSION, value.offset, value.leader_epoch, len(metadata) + 1)
    return place + metadata + _TIME(value.commit_timestamp) + tags
