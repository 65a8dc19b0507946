"""Control records of a log as text, in the words of Kafka's DumpLogSegments. Sans-IO.

Source: ControlRecordType; the schemas LeaderChangeMessage, KRaftVersionRecord, VotersRecord of Apache Kafka 4.3.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from struct import Struct
from struct import error as StructError
from typing import ClassVar, Final

from kvorum.cli.records.record_decoders import compact
from kvorum.protocol.codec import decoder
from kvorum.protocol.errors import ProtocolError
from kvorum.protocol.records import Record
from kvorum.protocol.schema import Field
from kvorum.protocol.schema import Struct as Schema
from kvorum.protocol.struct_json import to_json
from kvorum.protocol.uuids import ZERO_UUID, Uuid

_KEY = Struct(">hh")
_MARKER = Struct(">hi")
_SNAPSHOT_HEADER = Struct(">hq")
_VERSION = Struct(">h")
TYPES: Final = {
    0: "ABORT",
    1: "COMMIT",
    2: "LEADER_CHANGE",
    3: "SNAPSHOT_HEADER",
    4: "SNAPSHOT_FOOTER",
    5: "KRAFT_VERSION",
    6: "KRAFT_VOTERS",
}


@dataclass(slots=True, kw_only=True)
class ElectionVoter:
    """A voter of an election; from version 1 on with its directory id."""

    voter_id: int = 0
    voter_directory_id: Uuid = ZERO_UUID
    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("voter_id", "int32", (0, 1)),
        Field("voter_directory_id", "uuid", (1, 1)),
    )


@dataclass(slots=True, kw_only=True)
class LeaderChange:
    """The elected leader and its voters."""

    version: int = 0
    leader_id: int = 0
    voters: list[ElectionVoter] = field(default_factory=list)
    granting_voters: list[ElectionVoter] = field(default_factory=list)
    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("version", "int16", (0, 1)),
        Field("leader_id", "int32", (0, 1)),
        Field("voters", "struct", (0, 1), array=True, struct=ElectionVoter),
        Field("granting_voters", "struct", (0, 1), array=True, struct=ElectionVoter),
    )


@dataclass(slots=True, kw_only=True)
class KRaftVersion:
    """The kraft.version in force from here on."""

    version: int = 0
    k_raft_version: int = 0
    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("version", "int16", (0, 0)),
        Field("k_raft_version", "int16", (0, 0)),
    )


@dataclass(slots=True, kw_only=True)
class Endpoint:
    """Endpoint of a voter."""

    name: str = ""
    host: str = ""
    port: int = 0
    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("name", "string", (0, 0)),
        Field("host", "string", (0, 0)),
        Field("port", "uint16", (0, 0)),
    )


@dataclass(slots=True, kw_only=True)
class VersionRange:
    """The versions a voter supports."""

    min_supported_version: int = 0
    max_supported_version: int = 0
    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("min_supported_version", "int16", (0, 0)),
        Field("max_supported_version", "int16", (0, 0)),
    )


@dataclass(slots=True, kw_only=True)
class Voter:
    """A voter of a dynamic quorum."""

    voter_id: int = 0
    voter_directory_id: Uuid = ZERO_UUID
    endpoints: list[Endpoint] = field(default_factory=list)
    k_raft_version_feature: VersionRange = field(default_factory=VersionRange)
    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("voter_id", "int32", (0, 0)),
        Field("voter_directory_id", "uuid", (0, 0)),
        Field("endpoints", "struct", (0, 0), array=True, struct=Endpoint),
        Field("k_raft_version_feature", "struct", (0, 0), struct=VersionRange),
    )


@dataclass(slots=True, kw_only=True)
class Voters:
    """The voters from this record on."""

    version: int = 0
    voters: list[Voter] = field(default_factory=list)
    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("version", "int16", (0, 0)),
        Field("voters", "struct", (0, 0), array=True, struct=Voter),
    )


STRUCTS: Final[Mapping[int, tuple[str, type[Schema]]]] = {
    2: ("LeaderChange:", LeaderChange),
    5: ("KRaftVersion", KRaftVersion),
    6: ("KRaftVoters", Voters),
}


def control_text(record: Record) -> str:
    """Return the content of a control record."""
    key, value = record.key or b"", record.value or b""
    try:
        _, kind = _KEY.unpack_from(key)
        if kind in STRUCTS:
            title, cls = STRUCTS[kind]
            (version,) = _VERSION.unpack_from(value)
            if not 0 <= version <= cls.FIELDS[0].versions[1]:
                return f" controlType: {TYPES[kind]}({kind}) of version {version}"
            found, _ = decoder(cls, version, True)(memoryview(value), 0, len(value))
            return f" {title} {compact(to_json(found, version))}"
        match TYPES.get(kind):
            case "ABORT" | "COMMIT" as name:
                return f" endTxnMarker: {name} coordinatorEpoch: {_MARKER.unpack_from(value)[1]}"
            case "SNAPSHOT_HEADER":
                version, timestamp = _SNAPSHOT_HEADER.unpack_from(value)
                return f" SnapshotHeader {compact({'version': version, 'lastContainedLogTimestamp': timestamp})}"
            case "SNAPSHOT_FOOTER":
                return f" SnapshotFooter {compact({'version': _VERSION.unpack_from(value)[0]})}"
            case _:
                return f" controlType: UNKNOWN({kind})"
    except (StructError, ProtocolError) as error:
        return f" controlType: UNKNOWN ({error})"
