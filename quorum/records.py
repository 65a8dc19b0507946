"""The records of the metadata log: one struct per kind of change, written as readable JSON.

Sans-IO. A record is `{"type":"Topic","version":0,...}`; `type` is the struct's name and `version` the newest version of
that struct its fields need. A node that meets an unknown type or version stops: if it skipped a record, its image would
differ from all others. New fields need a new version and a `metadata.version` that gates them. Kinds and field names
are those of Kafka's metadata records (org.apache.kafka.common.metadata); the bytes are ours.

Further kinds (ACLs) are additional structs in `MetadataRecord`.
"""

from collections.abc import Mapping
from functools import lru_cache
from types import MappingProxyType
from typing import Any, Final, TypeAlias

import msgspec
from msgspec import UNSET, UnsetType

from kvorum.protocol.uuids import Uuid

RECORD_SIZE_MAX: Final = 1024 * 1024
"""Bytes of one encoded record. The largest in sight, a Partition or RegisterBroker, has a few KiB; a batch 8 MiB."""

NO_LEADER: Final = -1
"""The leader of a partition that has none (LeaderConstants.NO_LEADER)."""

RECOVERED: Final = 0
RECOVERING: Final = 1
"""LeaderRecoveryState: RECOVERING from an unclean election until the leader reports the end (KIP-704)."""


class UnknownRecord(Exception):
    """Bytes that this release cannot decode: unknown type, newer version, or damaged.

    The node stops, it never skips one.
    """


class Record(
    msgspec.Struct, frozen=True, kw_only=True, tag_field="type", tag=True, forbid_unknown_fields=True, gc=False
):
    """Common fields: the type (the struct's name, written first) and the version of its fields."""

    version: int = 0


class Endpoint(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Endpoint of a broker: the advertised address of one listener; `security_protocol` is Kafka's number (0..3)."""

    name: str
    host: str
    port: int
    security_protocol: int = 0


class FeatureRange(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The levels of one feature that a broker supports, both ends included."""

    name: str
    min_supported: int
    max_supported: int


class RegisterBroker(Record, frozen=True, kw_only=True):
    """A broker's incarnation: replaces the former registration of this id (KIP-631).

    `broker_epoch` is the offset at which the batch with this record begins, so it is unique and grows. In a snapshot,
    and of an incarnation that registers again, `failed_log_dirs` are those that failed since it came.
    """

    broker_id: int
    broker_epoch: int
    incarnation_id: Uuid
    endpoints: tuple[Endpoint, ...]
    features: tuple[FeatureRange, ...] = ()
    rack: str | None = None
    fenced: bool = True
    in_controlled_shutdown: bool = False
    log_dirs: tuple[Uuid, ...] = ()
    previous_broker_epoch: int = -1
    cordoned_log_dirs: tuple[Uuid, ...] | None = None
    failed_log_dirs: tuple[Uuid, ...] | msgspec.UnsetType = msgspec.UNSET


class UnregisterBroker(Record, frozen=True, kw_only=True):
    """The broker is permanently removed; `broker_epoch` guards against removing a later incarnation."""

    broker_id: int
    broker_epoch: int


class BrokerRegistrationChange(Record, frozen=True, kw_only=True):
    """Change of a registration by a heartbeat or a session timeout; None means unchanged."""

    broker_id: int
    broker_epoch: int
    fenced: bool | None = None
    in_controlled_shutdown: bool | None = None
    log_dirs: tuple[Uuid, ...] | None = None
    cordoned_log_dirs: tuple[Uuid, ...] | None = None


class Topic(Record, frozen=True, kw_only=True):
    """A new topic, without partitions yet."""

    name: str
    topic_id: Uuid


class RemoveTopic(Record, frozen=True, kw_only=True):
    """The topic is deleted with its partitions and configs."""

    topic_id: Uuid


class Partition(Record, frozen=True, kw_only=True):
    """A whole partition: new, or in a snapshot. `directories` goes with `replicas`, one for one."""

    topic_id: Uuid
    partition_id: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    leader: int
    leader_epoch: int = 0
    partition_epoch: int = 0
    leader_recovery_state: int = RECOVERED
    removing_replicas: tuple[int, ...] = ()
    adding_replicas: tuple[int, ...] = ()
    directories: tuple[Uuid, ...] = ()
    elr: tuple[int, ...] = ()
    last_known_elr: tuple[int, ...] = ()


class PartitionChange(Record, frozen=True, kw_only=True):
    """Change of a partition; a field that is UNSET (absent in JSON) is unchanged.

    Its partition epoch grows by one. Where `leader` is set, even to the same one, its leader epoch grows by one too.
    """

    topic_id: Uuid
    partition_id: int
    isr: tuple[int, ...] | UnsetType = UNSET
    leader: int | UnsetType = UNSET
    leader_recovery_state: int | UnsetType = UNSET
    replicas: tuple[int, ...] | UnsetType = UNSET
    removing_replicas: tuple[int, ...] | UnsetType = UNSET
    adding_replicas: tuple[int, ...] | UnsetType = UNSET
    directories: tuple[Uuid, ...] | UnsetType = UNSET
    elr: tuple[int, ...] | UnsetType = UNSET
    last_known_elr: tuple[int, ...] | UnsetType = UNSET


class Config(Record, frozen=True, kw_only=True):
    """One config of one resource (ConfigResource.Type; the name "" is the cluster-wide default); None removes it."""

    resource_type: int
    resource_name: str
    name: str
    value: str | None


class Feature(Record, frozen=True, kw_only=True):
    """The finalized level of a feature; 0 is «not in use»."""

    name: str
    level: int


class ProducerIds(Record, frozen=True, kw_only=True):
    """A block of producer ids was assigned to a broker; `next_producer_id` is the first free one."""

    broker_id: int
    broker_epoch: int
    next_producer_id: int


class QuotaEntity(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Component of a quota entity: "user", "client-id" or "ip", and its name; null is the default of that type."""

    entity_type: str
    entity_name: str | None


class ClientQuota(Record, frozen=True, kw_only=True):
    """One quota of one entity (KIP-546); `remove`: it has none under that key any more."""

    entity: tuple[QuotaEntity, ...]
    key: str
    value: float = 0.0
    remove: bool = False


class UserScramCredential(Record, frozen=True, kw_only=True):
    """The SCRAM credential of a user for one mechanism (ScramMechanism's number); replaces an earlier one."""

    name: str
    mechanism: int
    salt: bytes
    stored_key: bytes
    server_key: bytes
    iterations: int

    def __repr__(self) -> str:
        """Return the text without salt and keys: records are logged and shown in errors."""
        return f"UserScramCredential(name={self.name!r}, mechanism={self.mechanism}, iterations={self.iterations})"


class RemoveUserScramCredential(Record, frozen=True, kw_only=True):
    """The user has no credential for this mechanism any more."""

    name: str
    mechanism: int


class DelegationToken(Record, frozen=True, kw_only=True):
    """A delegation token, new or with another expiration; principals as "User:name", times in wall milliseconds.

    Its HMAC is not stored (security/delegation_tokens).
    """

    owner: str
    requester: str
    renewers: tuple[str, ...]
    issue_timestamp: int
    max_timestamp: int
    expiration_timestamp: int
    token_id: str


class RemoveDelegationToken(Record, frozen=True, kw_only=True):
    """The token was expired or removed."""

    token_id: str


class NoOp(Record, frozen=True, kw_only=True):
    """Nothing: a new controller's first word, and the sign of life of an idle log."""


class BeginTransaction(Record, frozen=True, kw_only=True):
    """The following records are one atomic change (KIP-868)."""

    name: str = ""


class EndTransaction(Record, frozen=True, kw_only=True):
    """The change since BeginTransaction is whole."""


class AbortTransaction(Record, frozen=True, kw_only=True):
    """The change since BeginTransaction does not count."""

    reason: str = ""


MetadataRecord: TypeAlias = (
    RegisterBroker
    | UnregisterBroker
    | BrokerRegistrationChange
    | Topic
    | RemoveTopic
    | Partition
    | PartitionChange
    | Config
    | Feature
    | ProducerIds
    | ClientQuota
    | UserScramCredential
    | RemoveUserScramCredential
    | DelegationToken
    | RemoveDelegationToken
    | NoOp
    | BeginTransaction
    | EndTransaction
    | AbortTransaction
)

RECORD_TYPES: Final[tuple[type[Record], ...]] = (
    RegisterBroker,
    UnregisterBroker,
    BrokerRegistrationChange,
    Topic,
    RemoveTopic,
    Partition,
    PartitionChange,
    Config,
    Feature,
    ProducerIds,
    ClientQuota,
    UserScramCredential,
    RemoveUserScramCredential,
    DelegationToken,
    RemoveDelegationToken,
    NoOp,
    BeginTransaction,
    EndTransaction,
    AbortTransaction,
)

CREDENTIAL_KEYS: Final = frozenset(("salt", "stored_key", "server_key"))
"""Fields of a UserScramCredential that are shown nowhere."""

UUIDS_REMEMBERED_MAX: Final = 4_096
"""Each partition has a topic id, each replica a directory id. Sharing makes a snapshot with 300,000 of them
faster to write and read, and leaves only a few objects for Python's garbage collector."""

LATEST_VERSIONS: Mapping[str, int] = MappingProxyType({kind.__name__: 0 for kind in RECORD_TYPES})
"""The newest version of each type that this release reads and writes."""


class _Head(msgspec.Struct, frozen=True):
    """The two fields that every record of every release has."""

    type: str
    version: int = 0


def _encode_uuid(value: object) -> str:
    assert isinstance(value, Uuid), f"no field of a record is a {type(value)}"
    return _format_uuid(value)


def _decode_uuid(kind: type, value: object) -> Uuid:
    assert kind is Uuid, f"no field of a record is a {kind}"
    if not isinstance(value, str):
        raise ValueError(f"a UUID must be text, not {value!r}")
    return _parse_uuid(value)


_format_uuid: Final = lru_cache(UUIDS_REMEMBERED_MAX)(Uuid.__str__)
_parse_uuid: Final = lru_cache(UUIDS_REMEMBERED_MAX)(Uuid.parse)
_ENCODER: Final = msgspec.json.Encoder(enc_hook=_encode_uuid)
_DECODER: Final = msgspec.json.Decoder(MetadataRecord, dec_hook=_decode_uuid)
_HEAD_DECODER: Final = msgspec.json.Decoder(_Head)


def encode(record: MetadataRecord) -> bytes:
    """Return the record's value in the log: one line of JSON, type and version first, equal bytes for equal records."""
    assert record.version <= LATEST_VERSIONS[type(record).__name__], f"{record} has a newer version"
    data = _ENCODER.encode(record)
    assert len(data) <= RECORD_SIZE_MAX, f"a {type(record).__name__} of {len(data)} bytes passes {RECORD_SIZE_MAX}"
    return data


def decode(data: bytes | bytearray | memoryview) -> MetadataRecord:
    """Return the record of these bytes.

    Raises:
        UnknownRecord: of unknown type, of a newer version, or inconsistent with its type; the node stops.
    """
    try:
        record: MetadataRecord = _DECODER.decode(data)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise UnknownRecord(_why(data, error)) from error
    if record.version != 0 and not 0 <= record.version <= LATEST_VERSIONS[type(record).__name__]:
        raise UnknownRecord(_newer(type(record).__name__, record.version))
    return record


def without_credential_keys(fields: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return a record's fields, including `type`, as they may be shown: without the salt and keys of a credential."""
    if fields.get("type") != UserScramCredential.__name__:
        return fields
    return {key: value for key, value in fields.items() if key not in CREDENTIAL_KEYS}


def _why(data: bytes | bytearray | memoryview, error: Exception) -> str:
    """Return the error for bytes that did not decode, from their head if they have one."""
    try:
        head = _HEAD_DECODER.decode(data)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return f"no metadata record: {error}"
    if head.type not in LATEST_VERSIONS:
        return f"unknown metadata record type {head.type!r}: written by a newer release"
    if not 0 <= head.version <= LATEST_VERSIONS[head.type]:
        return _newer(head.type, head.version)
    return f"damaged metadata record of type {head.type!r}: {error}"


def _newer(name: str, version: int) -> str:
    return f"metadata record {name} has version {version}, this release reads up to {LATEST_VERSIONS[name]}"
