"""Client quotas: list and change (KIP-546).

Source: Kafka's Admin.describeClientQuotas, alterClientQuotas; ClientQuotaFilterComponent.
"""

from collections.abc import Iterable, Mapping, Sequence
from enum import IntEnum
from types import MappingProxyType
from typing import Final

from kvorum.client.values.quota import Quota, quota_value
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

ALL: Final[Mapping[str, str | None]] = MappingProxyType({})
NO_QUOTAS: Final[Mapping[str, float]] = MappingProxyType({})
DEFAULT: Final = ""
"""Name of a type's default in a filter, where None is any name."""


class Match(IntEnum):
    """Match type of an entity's name (DescribeClientQuotasRequest)."""

    EXACT = 0
    DEFAULT = 1
    ANY = 2


class Quotas:
    """Client quotas of a cluster. All methods raise KafkaError and Unreachable."""

    def __init__(self, client: ClusterClient) -> None:
        """Use this client."""
        self._client = client

    async def list(self, entity: Mapping[str, str | None] = ALL, *, strict: bool | None = None) -> Sequence[Quota]:
        """Return the quotas of the entities that match, by entity; without `entity` of all.

        `entity`: {type: name}; a name of None matches any, "" the default of the type. `strict`: only entities of
        exactly these types, which is the default where types are given.
        """
        request = DescribeClientQuotasRequest(
            components=[component(kind, name) for kind, name in entity.items()],
            strict=bool(entity) if strict is None else strict,
        )
        answer = await self._client.ask(request, DescribeClientQuotasResponse)
        refuse(answer.error_code, answer.error_message)
        return sorted(map(quota_value, answer.entries or ()), key=lambda quota: quota.entity_key)

    async def alter(
        self,
        entity: Mapping[str, str | None],
        values: Mapping[str, float] = NO_QUOTAS,
        *,
        remove: Iterable[str] = (),
        validate_only: bool = False,
    ) -> None:
        """Set and remove quotas of one entity, {type: name or None for the default}; other quotas are unchanged."""
        entry = RequestEntryData(
            entity=[RequestEntityData(entity_type=kind, entity_name=name) for kind, name in entity.items()],
            ops=[OpData(key=key, value=value) for key, value in values.items()]
            + [OpData(key=key, remove=True) for key in remove],
        )
        request = AlterClientQuotasRequest(entries=[entry], validate_only=validate_only)
        answer = await self._client.ask(request, AlterClientQuotasResponse)
        refuse(answer.entries[0].error_code, answer.entries[0].error_message)


def component(kind: str, name: str | None) -> ComponentData:
    """Return the filter of one type of entity."""
    match = Match.ANY if name is None else Match.DEFAULT if name == DEFAULT else Match.EXACT
    return ComponentData(entity_type=kind, match_type=match, match=name or None)
