"""Quotas of a client entity (KIP-546). Source: Kafka's ClientQuotaEntity."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from kvorum.protocol.messages.describe_client_quotas import EntryData

USER: Final = "user"
CLIENT_ID: Final = "client-id"
IP: Final = "ip"


@dataclass(frozen=True, slots=True, kw_only=True)
class Quota:
    """The quotas of one entity."""

    entity: Mapping[str, str | None]
    """{user, client-id or ip: name}; None is the default of that type."""
    values: Mapping[str, float]
    """{quota: value}, such as producer_byte_rate, by name."""

    @property
    def entity_key(self) -> list[tuple[str, str]]:
        """Return the position of the entity in the order of all."""
        return sorted((kind, name or "") for kind, name in self.entity.items())


def quota_value(row: EntryData) -> Quota:
    """Return an entity of a DescribeClientQuotas response."""
    return Quota(
        entity={part.entity_type: part.entity_name for part in row.entity},
        values={value.key: value.value for value in sorted(row.values, key=lambda value: value.key)},
    )
