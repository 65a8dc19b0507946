"""Client quotas by entity (org.apache.kafka.image.ClientQuotasImage). Sans-IO, immutable."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final, TypeAlias

from rpds import HashTrieMap

from kvorum.quorum.records import ClientQuota, MetadataRecord, QuotaEntity

USER: Final = "user"
CLIENT_ID: Final = "client-id"
IP: Final = "ip"

Entity: TypeAlias = tuple[tuple[str, str | None], ...]
"""Entity of a quota: (entity type, name) by type, each type once; the name None is the default of its type."""

NO_QUOTAS: Final[Mapping[str, float]] = MappingProxyType({})


def entity_of(parts: Iterable[tuple[str, str | None]]) -> Entity:
    """Return an entity whatever the order of its parts; of a type named twice the last name counts."""
    return tuple(sorted(dict(parts).items(), key=lambda part: part[0]))


def quota_record(entity: Entity, key: str, value: float | None) -> ClientQuota:
    """Return the record that sets a quota; None removes it."""
    parts = tuple(QuotaEntity(entity_type=kind, entity_name=name) for kind, name in entity)
    if value is None:
        return ClientQuota(entity=parts, key=key, remove=True)
    return ClientQuota(entity=parts, key=key, value=value)


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientQuotasImage:
    """All quotas by entity; entities without quotas are not included. The maps are unordered."""

    entities: HashTrieMap[Entity, HashTrieMap[str, float]] = field(default_factory=lambda: HashTrieMap())

    def of(self, entity: Entity) -> Mapping[str, float]:
        """Return the quotas of one entity by key, empty where it has none."""
        quotas = self.entities.get(entity)
        return NO_QUOTAS if quotas is None else quotas

    def sorted_entities(self) -> list[tuple[Entity, Mapping[str, float]]]:
        """Return all, the same way on every node: by types, then by names with the default first."""
        return sorted(self.entities.items(), key=lambda item: _order(item[0]))

    def to_records(self) -> Iterator[MetadataRecord]:
        """Write all quotas as records, by entity and key."""
        for entity, quotas in self.sorted_entities():
            for key, value in sorted(quotas.items()):
                yield quota_record(entity, key, value)


class ClientQuotasDelta:
    """Changed quotas since `image`: entity -> key -> value, None if removed."""

    __slots__ = ("changes", "image")

    def __init__(self, image: ClientQuotasImage) -> None:
        """Start from the present quotas."""
        self.image = image
        self.changes: dict[Entity, dict[str, float | None]] = {}

    @property
    def is_empty(self) -> bool:
        """Return whether nothing changed."""
        return not self.changes

    def replay(self, record: ClientQuota) -> None:
        """Apply one quota."""
        entity = entity_of((part.entity_type, part.entity_name) for part in record.entity)
        self.changes.setdefault(entity, {})[record.key] = None if record.remove else record.value

    def apply(self) -> ClientQuotasImage:
        """Make the quotas after the changes. Cost: what changed."""
        entities = self.image.entities
        for entity, changes in self.changes.items():
            quotas: HashTrieMap[str, float] = entities.get(entity) or HashTrieMap()
            for key, value in changes.items():
                quotas = quotas.discard(key) if value is None else quotas.insert(key, value)
            entities = entities.insert(entity, quotas) if quotas else entities.discard(entity)
        return ClientQuotasImage(entities=entities)


def _order(entity: Entity) -> tuple[tuple[str, bool, str], ...]:
    return tuple((kind, name is not None, name or "") for kind, name in entity)
