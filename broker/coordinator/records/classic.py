"""A classic group: key and value of the type GROUP_METADATA (2)."""

from dataclasses import dataclass, field
from typing import ClassVar

from kvorum.protocol.schema import Field


@dataclass(slots=True, kw_only=True)
class GroupMetadataKey:
    """The group."""

    group: str = ""
    FIELDS: ClassVar[tuple[Field, ...]] = (Field("group", "string", (0, 0)),)


@dataclass(slots=True, kw_only=True)
class MemberMetadata:
    """One member when the generation was complete. Timeouts in ms; bytes are the client's own."""

    member_id: str = ""
    group_instance_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    rebalance_timeout: int = 0
    session_timeout: int = 0
    subscription: bytes = b""
    assignment: bytes = b""
    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("member_id", "string", (0, 4)),
        Field("group_instance_id", "string", (3, 4), nullable=(3, 4)),
        Field("client_id", "string", (0, 4)),
        Field("client_host", "string", (0, 4)),
        Field("rebalance_timeout", "int32", (1, 4)),
        Field("session_timeout", "int32", (0, 4)),
        Field("subscription", "bytes", (0, 4)),
        Field("assignment", "bytes", (0, 4)),
    )


@dataclass(slots=True, kw_only=True)
class GroupMetadataValue:
    """A complete generation."""

    protocol_type: str = ""
    generation: int = 0
    protocol: str | None = None
    leader: str | None = None
    current_state_timestamp: int = -1
    members: list[MemberMetadata] = field(default_factory=list)
    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("protocol_type", "string", (0, 4)),
        Field("generation", "int32", (0, 4)),
        Field("protocol", "string", (0, 4), nullable=(0, 4)),
        Field("leader", "string", (0, 4), nullable=(0, 4)),
        Field("current_state_timestamp", "int64", (2, 4)),
        Field("members", "struct", (0, 4), array=True, struct=MemberMetadata),
    )
