"""AlterClientQuotas (49): v0-v1 (KIP-546, ClientQuotaControlManager).

Each entity succeeds or fails alone; the successful ones are one change. An entity is a user, a client id, both, or an
address (KIP-612); a name that is null is the default of its type. An equal value is not written again. Order of the
checks: duplicate keys, duplicate entity, types and names, their combination, then each key and its value. Added by
Kvorum: a value is a finite number (a record cannot contain another), a name has at most NAME_BYTES_MAX.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from math import isfinite
from types import MappingProxyType
from typing import Final

from kvorum.protocol.errors import ErrorCode, KafkaError
from kvorum.protocol.messages.alter_client_quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasResponse,
    RequestEntryData,
    ResponseEntityData,
    ResponseEntryData,
)
from kvorum.quorum.controller.context import Context
from kvorum.quorum.controller.result import Result
from kvorum.quorum.image.client_quotas import CLIENT_ID, IP, USER, Entity, entity_of, quota_record
from kvorum.quorum.records import MetadataRecord

RECORDS_MAX: Final = 10_000
"""Quotas that one request may change (Kafka's MAX_RECORDS_PER_USER_OP)."""
NAME_BYTES_MAX: Final = 32_767
"""Size of an entity's name: Kafka's longest string."""
FRACTION_MAX: Final = 1e-6
"""Tolerance of an integer."""


class Kind(Enum):
    """Type of a quota's value (ConfigDef.Type): an integer up to a maximum, or any number."""

    DOUBLE = None
    INT = 2.0**31 - 1
    LONG = 2.0**63


CLIENT_QUOTAS: Final[Mapping[str, Kind]] = MappingProxyType(
    {
        "producer_byte_rate": Kind.LONG,
        "consumer_byte_rate": Kind.LONG,
        "request_percentage": Kind.DOUBLE,
        "controller_mutation_rate": Kind.DOUBLE,
    }
)
"""Quotas of users and client ids."""
IP_QUOTAS: Final[Mapping[str, Kind]] = MappingProxyType({"connection_creation_rate": Kind.INT})
"""Quotas of addresses."""


@dataclass(frozen=True, slots=True, kw_only=True)
class QuotaAlterations:
    """The request, with the facts that only the network layer knows."""

    request: AlterClientQuotasRequest
    unresolved: frozenset[str] = frozenset()
    """The names of ip entities that are neither addresses nor hosts that can be resolved."""


def alter_client_quotas(context: Context, alterations: QuotaAlterations) -> Result[AlterClientQuotasResponse]:
    """Set and remove quotas; with `validate_only`, return only the result.

    Raises KafkaError POLICY_VIOLATION: more than RECORDS_MAX changes.
    """
    records: list[MetadataRecord] = []
    outcomes: dict[Entity, KafkaError | None] = {}
    for entry in alterations.request.entries:
        entity = entity_of((part.entity_type, part.entity_name) for part in entry.entity)
        if entity in outcomes or len({op.key for op in entry.ops}) < len(entry.ops):
            outcomes[entity] = KafkaError(ErrorCode.INVALID_REQUEST, f"Ignoring duplicate entity {shown(entity)}")
            continue
        try:
            records += _changes(context, entity, entry, alterations.unresolved)
            outcomes[entity] = None
        except KafkaError as error:
            outcomes[entity] = error
    if len(records) > RECORDS_MAX:
        raise KafkaError(ErrorCode.POLICY_VIOLATION, "Unable to perform excessively large batch operation.")
    response = AlterClientQuotasResponse(entries=[answer_row(entity, error) for entity, error in outcomes.items()])
    return Result(records=[] if alterations.request.validate_only else records, response=response)


def answer_row(entity: Entity, error: KafkaError | None) -> ResponseEntryData:
    """Return the answer for one entity."""
    return ResponseEntryData(
        error_code=ErrorCode.NONE if error is None else error.code,
        error_message=None if error is None else error.message,
        entity=[ResponseEntityData(entity_type=kind, entity_name=name) for kind, name in entity],
    )


def shown(entity: Entity) -> str:
    """Return an entity as Kafka's messages write it."""
    parts = ", ".join(f"{kind}={'null' if name is None else name}" for kind, name in entity)
    return f"ClientQuotaEntity(entries={{{parts}}})"


def _changes(
    context: Context, entity: Entity, entry: RequestEntryData, unresolved: frozenset[str]
) -> list[MetadataRecord]:
    """Return the records of one entity. Raises KafkaError INVALID_REQUEST."""
    _check_names(entity)
    known = _keys_of(entity, unresolved)
    current = context.image.client_quotas.of(entity)
    records: list[MetadataRecord] = []
    for op in entry.ops:
        if op.remove:
            if op.key in current:
                records.append(quota_record(entity, op.key, None))
            continue
        _check_value(known, op.key, op.value)
        if current.get(op.key) != op.value:
            records.append(quota_record(entity, op.key, op.value))
    return records


def _check_names(entity: Entity) -> None:
    if not entity:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "Invalid empty client quota entity")
    for kind, name in entity:
        if kind not in (USER, CLIENT_ID, IP):
            raise KafkaError(ErrorCode.INVALID_REQUEST, f"Unhandled client quota entity type: {kind}")
        if name == "":
            raise KafkaError(ErrorCode.INVALID_REQUEST, f"Empty {kind} not supported")
        if name is not None and len(name.encode()) > NAME_BYTES_MAX:
            raise KafkaError(ErrorCode.INVALID_REQUEST, f"A {kind} has at most {NAME_BYTES_MAX} bytes")


def _keys_of(entity: Entity, unresolved: frozenset[str]) -> Mapping[str, Kind]:
    """Return what quotas an entity may have. Raises KafkaError INVALID_REQUEST for types that do not go together."""
    names = dict(entity)
    if IP not in names:
        return CLIENT_QUOTAS
    if len(names) > 1:
        # Kafka's text, a blank short.
        message = "Invalid quota entity combination, IP entity shouldnot be combined with User or ClientId"
        raise KafkaError(ErrorCode.INVALID_REQUEST, message)
    if names[IP] in unresolved:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"{names[IP]} is not a valid IP or resolvable host.")
    return IP_QUOTAS


def _check_value(known: Mapping[str, Kind], key: str, value: float) -> None:
    """Raise KafkaError INVALID_REQUEST for what cannot be a quota."""
    kind = known.get(key)
    if kind is None:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"Invalid configuration key {key}")
    if value <= 0:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"Quota {key} must be greater than 0")
    if kind.value is not None and value > kind.value:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"Proposed value for {key} is too large for a {kind.name}.")
    if not isfinite(value):
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"Quota {key} must be a finite number")
    if kind.value is not None and value % 1.0 > FRACTION_MAX:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"{key} cannot be a fractional value.")
