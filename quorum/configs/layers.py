"""One node's configuration, layer by layer: its static settings, and what the metadata set dynamically over them.

    this node's own > cluster-wide default > static settings > built-in default

A value that cannot be read is left out: the controller has checked it, so it was written by a release that knew better.
Source: Kafka's DynamicBrokerConfig (KIP-226).
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final, NamedTuple

from kvorum.quorum.image.configs import CLUSTER_DEFAULT, ConfigsImage, ResourceType
from kvorum.runtime import config_defs
from kvorum.runtime.config import ConfigError, ConfigSource, Settings, Source
from kvorum.runtime.config_defs import Mutability

CLUSTER_LAYER: Final = Source(ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG, "cluster-wide dynamic config")
OWN_LAYER: Final = Source(ConfigSource.DYNAMIC_BROKER_CONFIG, "dynamic config of this broker")


class LeftOut(NamedTuple):
    """A dynamic config that does not count, and why."""

    key: str
    layer: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigLayers:
    """See the head of the module."""

    static: Settings
    settings: Settings
    """All layers together."""
    cluster: Mapping[str, str]
    own: Mapping[str, str]
    left_out: tuple[LeftOut, ...]

    @classmethod
    def of(cls, static: Settings, configs: ConfigsImage, node_id: int) -> "ConfigLayers":
        """Return the layers of a node by what the metadata say. O(dynamic configs of brokers)."""
        cluster, own = dynamic_layers(configs, node_id)
        settings, left_out = static, list[LeftOut]()
        for values, layer in ((cluster, CLUSTER_LAYER), (own, OWN_LAYER)):
            for key, text in values.items():
                try:
                    settings = overlaid(settings, key, text, layer)
                except ConfigError as error:
                    left_out.append(LeftOut(key, layer.where, error.reason))
        return cls(static=static, settings=settings, cluster=cluster, own=own, left_out=tuple(left_out))

    def changed(self, before: "ConfigLayers") -> frozenset[str]:
        """Return the keys whose value in force is another one than before."""
        return frozenset(
            key
            for key in {*before.settings, *self.settings}
            if _text(before.settings, key) != _text(self.settings, key)
        )

    def __iter__(self) -> Iterator[tuple[Mapping[str, str], ConfigSource]]:
        """Go over what each layer says, the strongest first."""
        static = {key: each.text for key, each in self.static.explicit().items()}
        for name, other in (("node.id", "broker.id"), ("broker.id", "node.id")):
            if name in static:  # one of the two says both (Kafka's populateSynonyms)
                static.setdefault(other, static[name])
        yield self.own, ConfigSource.DYNAMIC_BROKER_CONFIG
        yield self.cluster, ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG
        yield static, ConfigSource.STATIC_BROKER_CONFIG


def dynamic_layers(configs: ConfigsImage, node_id: int) -> tuple[Mapping[str, str], Mapping[str, str]]:
    """Return what is set for all brokers, and for this one."""
    cluster = dict(configs.of(ResourceType.BROKER, CLUSTER_DEFAULT))
    own = dict(configs.of(ResourceType.BROKER, str(node_id)))
    return MappingProxyType(cluster), MappingProxyType(own)


def overlaid(settings: Settings, key: str, text: str, layer: Source) -> Settings:
    """Return the settings with a dynamic value over them. Raises ConfigError if it may not be, or is not readable."""
    definition = config_defs.broker_def(key)
    if definition is None or not definition.dynamic:
        raise ConfigError(key, None, layer.where, "it is not known as a dynamic config")
    if layer is CLUSTER_LAYER and definition.mutability is Mutability.PER_BROKER:
        raise ConfigError(key, None, layer.where, "it cannot be set for all brokers")
    return settings.with_overrides({key: text}, source=layer)


def _text(settings: Settings, key: str) -> str | None:
    """Return a key's text for comparison, None where the key is not there."""
    return settings.raw(key) if config_defs.broker_def(key) is not None else None
