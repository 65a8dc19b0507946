"""Client quotas over the wire: list and change (KIP-546).

Source: Kafka's Admin.describeClientQuotas, alterClientQuotas; ClientQuotaEntity, ClientQuotaFilterComponent.
"""

from collections.abc import Mapping, Sequence
from enum import IntEnum
from typing import Final, NamedTuple

from kvorum.client.wire.cluster_client import ClusterClient, refuse
from kvorum.protocol.messages.alter_client_quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasResponse,
    OpData,
    RequestEntityData,
    RequestEntryData,
)
from kvorum.protocol.messages.describe_client_quotas import (
    ComponentData,
    DescribeClientQuotasRequest,
    DescribeClientQuotasResponse,
)

USER: Final = "user"
CLIENT_ID: Final = "client-id"
IP: Final = "ip"


class Match(IntEnum):
    """Match type of an entity's name (DescribeClientQuotasRequest)."""

    EXACT = 0
    DEFAULT = 1
    ANY = 2


class Quotas(NamedTuple):
    """The quotas of one entity: {type: name}, where None is the default of that type."""

    entity: dict[str, str | None]
    values: dict[str, float]


async def describe_quotas(
    cluster: ClusterClient, entity: Mapping[str, str | None], *, strict: bool = True
) -> list[Quotas]:
    """Return the quotas of entities of exactly these types; a name of None is any, of "" the default.

    Raises KafkaError, Unreachable.
    """
    components = []
    for kind, name in entity.items():
        match = Match.ANY if name is None else Match.EXACT if name else Match.DEFAULT
        components.append(ComponentData(entity_type=kind, match_type=match, match=name or None))
    request = DescribeClientQuotasRequest(components=components, strict=strict)
    answer = await cluster.ask(request, DescribeClientQuotasResponse)
    refuse(answer.error_code, answer.error_message)
    found = [
        Quotas(
            {part.entity_type: part.entity_name for part in entry.entity},
            {value.key: value.value for value in sorted(entry.values, key=lambda value: value.key)},
        )
        for entry in answer.entries or []
    ]
    return sorted(found, key=entity_key)


def entity_key(quotas: Quotas) -> list[tuple[str, str]]:
    """Return where an entity is in the order of all."""
    return sorted((kind, name or "") for kind, name in quotas.entity.items())


async def alter_quotas(
    cluster: ClusterClient,
    entity: Mapping[str, str | None],
    values: Mapping[str, float],
    removed: Sequence[str],
    *,
    validate_only: bool = False,
) -> None:
    """Set and remove quotas of one entity, {type: name or None for the default}. Raises KafkaError, Unreachable."""
    entry = RequestEntryData(
        entity=[RequestEntityData(entity_type=kind, entity_name=name) for kind, name in entity.items()],
        ops=[OpData(key=key, value=value) for key, value in values.items()]
        + [OpData(key=key, remove=True) for key in removed],
    )
    request = AlterClientQuotasRequest(entries=[entry], validate_only=validate_only)
    answer = await cluster.ask(request, AlterClientQuotasResponse)
    refuse(answer.entries[0].error_code, answer.entries[0].error_message)
