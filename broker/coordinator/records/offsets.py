"""Committed offsets: keys and values of the types OFFSET_COMMIT (1) and LEGACY_OFFSET_COMMIT (0)."""

from dataclasses import dataclass
from typing import ClassVar

from kvorum.protocol.schema import Field
from kvorum.protocol.uuids import ZERO_UUID, Uuid


@dataclass(slots=True, kw_only=True)
class OffsetCommitKey:
    """Group and partition of an offset."""

    group: str = ""
    topic: str = ""
    partition: int = 0
    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("group", "string", (0, 0)),
        Field("topic", "string", (0, 0)),
        Field("partition", "int32", (0, 0)),
    )


@dataclass(slots=True, kw_only=True)
class OffsetCommitValue:
    """A committed offset. Only v1 has an expiry; v4 has the topic's id."""

    offset: int = 0
    leader_epoch: int = -1
    metadata: str = ""
    commit_timestamp: int = 0
    expire_timestamp: int = -1
    topic_id: Uuid = ZERO_UUID
    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("offset", "int64", (0, 4)),
        Field("leader_epoch", "int32", (3, 4)),
        Field("metadata", "string", (0, 4)),
        Field("commit_timestamp", "int64", (0, 4)),
        Field("expire_timestamp", "int64", (1, 1)),
        Field("topic_id", "uuid", (4, 4), tag=0),
    )
