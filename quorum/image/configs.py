"""The dynamic configs of topics and brokers, and effective values (Kafka's ConfigurationsImage). Sans-IO."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from types import MappingProxyType
from typing import Final, NamedTuple

from rpds import HashTrieMap

from kvorum.quorum.records import Config, MetadataRecord
from kvorum.quorum.steps import Steps, pieces


class ResourceType(IntEnum):
    """ConfigResource.Type on the wire."""

    UNKNOWN = 0
    TOPIC = 2
    BROKER = 4
    BROKER_LOGGER = 8
    CLIENT_METRICS = 16
    GROUP = 32


CLUSTER_DEFAULT: Final = ""
"""Name of the BROKER resource for all brokers."""

NO_CONFIGS: Final[Mapping[str, str]] = MappingProxyType({})


class ConfigSource(IntEnum):
    """Source of a value, as in DescribeConfigs (ConfigEntry.ConfigSource)."""

    DYNAMIC_TOPIC_CONFIG = 1
    DYNAMIC_BROKER_CONFIG = 2
    DYNAMIC_DEFAULT_BROKER_CONFIG = 3
    STATIC_BROKER_CONFIG = 4
    DEFAULT_CONFIG = 5


class ConfigResource(NamedTuple):
    """A config resource: a ResourceType's number, and a name ("" of BROKER: all brokers)."""

    resource_type: int
    name: str


class EffectiveValue(NamedTuple):
    """A value in effect, the source that decided it, and the key it was found under."""

    value: str
    source: ConfigSource
    key: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigsImage:
    """All dynamic configs by resource; resources without configs are not included. The maps are unordered."""

    resources: HashTrieMap[ConfigResource, HashTrieMap[str, str]] = field(default_factory=lambda: HashTrieMap())

    def of(self, resource_type: int, name: str) -> Mapping[str, str]:
        """Return the configs of one resource, empty where it has none."""
        configs = self.resources.get(ConfigResource(resource_type, name))
        return NO_CONFIGS if configs is None else configs

    def topic(self, name: str) -> Mapping[str, str]:
        """Return a topic's overrides."""
        return self.of(ResourceType.TOPIC, name)

    def broker_value(self, keys: Sequence[str], broker_id: int | None) -> EffectiveValue | None:
        """Return the first of `broker_values`, None without any."""
        return next(self.broker_values(keys, broker_id), None)

    def broker_values(self, keys: Sequence[str], broker_id: int | None) -> Iterator[EffectiveValue]:
        """Yield the brokers' dynamic values of these keys, the highest precedence first.

        First the broker's own (None: of no broker in particular), then the cluster-wide ones.
        """
        levels: list[tuple[str, ConfigSource]] = [(CLUSTER_DEFAULT, ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG)]
        if broker_id is not None:
            levels.insert(0, (str(broker_id), ConfigSource.DYNAMIC_BROKER_CONFIG))
        for name, source in levels:
            configs = self.of(ResourceType.BROKER, name)
            for key in keys:
                value = configs.get(key)
                if value is not None:
                    yield EffectiveValue(value, source, key)

    def to_records(self) -> Iterator[MetadataRecord]:
        """Write all configs as records, by resource and name."""
        for resource, configs in sorted(self.resources.items(), key=lambda item: item[0]):
            for name, value in sorted(configs.items()):
                yield Config(resource_type=resource.resource_type, resource_name=resource.name, name=name, value=value)


class ConfigsDelta:
    """Changed configs since `image`: resource -> name -> value, None if removed."""

    __slots__ = ("changes", "image")

    def __init__(self, image: ConfigsImage) -> None:
        """Start from the present configs."""
        self.image = image
        self.changes: dict[ConfigResource, dict[str, str | None]] = {}

    @property
    def is_empty(self) -> bool:
        """Return whether nothing changed."""
        return not self.changes

    def replay(self, record: Config) -> None:
        """Apply one value."""
        resource = ConfigResource(record.resource_type, record.resource_name)
        self.changes.setdefault(resource, {})[record.name] = record.value

    def replay_remove_topic(self, name: str) -> None:
        """Record the removal of a topic with its configs."""
        resource = ConfigResource(ResourceType.TOPIC, name)
        self.changes.pop(resource, None)
        existing = self.image.resources.get(resource)
        if existing is not None:
            self.changes[resource] = dict.fromkeys(existing)

    def applied(self) -> Steps[ConfigsImage]:
        """Make the configs after the changes. Cost: what changed."""
        resources = self.image.resources
        for piece in pieces(self.changes.items()):
            for resource, changes in piece:
                configs: HashTrieMap[str, str] = resources.get(resource) or HashTrieMap()
                for name, value in changes.items():
                    configs = configs.discard(name) if value is None else configs.insert(name, value)
                resources = resources.insert(resource, configs) if configs else resources.discard(resource)
            yield
        return ConfigsImage(resources=resources)
