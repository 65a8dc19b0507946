"""One node's configuration, layer by layer: static settings with the dynamic configs of the metadata over them.

    this node's own > cluster-wide default > static settings > built-in default

A value that cannot be parsed, or that violates a rule with others, is ignored: an earlier release may have stored it.
Source: Kafka's DynamicBrokerConfig (KIP-226).
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final, NamedTuple

from kvorum.quorum.image.configs import CLUSTER_DEFAULT, ConfigsImage, ResourceType
from kvorum.runtime import config_defs
from kvorum.runtime.config import ConfigError, ConfigSource, Entry, Settings, Source, shown
from kvorum.runtime.config_defs import Mutability
from kvorum.runtime.config_relations import RELATIONS
from kvorum.runtime.config_types import InvalidValue

CLUSTER_LAYER: Final = Source(ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG, "cluster-wide dynamic config")
OWN_LAYER: Final = Source(ConfigSource.DYNAMIC_BROKER_CONFIG, "dynamic config of this broker")
DYNAMIC_LAYERS: Final = (CLUSTER_LAYER, OWN_LAYER)
"""The stronger last."""


class LeftOut(NamedTuple):
    """A dynamic config that does not count, and why."""

    key: str
    value: str
    """As people may see it."""
    layer: str
    reason: str


Refused = Mapping[tuple[str, str], str]
"""{(key, text): why}: values that were read, but that some part of the node could not take over."""
Texts = dict[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigLayers:
    """Layers of a node's configs (order in the module docstring)."""

    static: Settings
    settings: Settings
    """All layers together."""
    cluster: Mapping[str, str]
    own: Mapping[str, str]
    """The stored configs; `in_force` are the valid ones."""
    in_force: tuple[Mapping[str, str], Mapping[str, str]]
    """The dynamic values that count: cluster-wide ones, and this node's own."""
    left_out: tuple[LeftOut, ...]

    @classmethod
    def of(
        cls,
        static: Settings,
        configs: ConfigsImage,
        node_id: int,
        *,
        before: "ConfigLayers | None" = None,
        refused: Refused = MappingProxyType({}),
    ) -> "ConfigLayers":
        """Return the layers of a node from the metadata. O(dynamic configs of brokers).

        An invalid value is replaced by that of `before`; at a start (None) by the next layer's.
        """
        cluster, own = dynamic_layers(configs, node_id)
        previous = ({}, {}) if before is None else before.in_force
        left_out: list[LeftOut] = []
        kept: list[Texts] = []
        for values, layer, old in zip((cluster, own), DYNAMIC_LAYERS, previous, strict=True):
            texts: Texts = {}
            for key, text in values.items():
                try:
                    check_value(key, text, layer, refused)
                    texts[key] = text
                except ConfigError as error:
                    left_out.append(LeftOut(key, shown(key, text), layer.where, error.reason))
                    if key in old:
                        texts[key] = old[key]
            kept.append(texts)
        settings = settled(static, kept, previous, left_out)
        return cls(
            static=static,
            settings=settings,
            cluster=cluster,
            own=own,
            in_force=(MappingProxyType(kept[0]), MappingProxyType(kept[1])),
            left_out=tuple(left_out),
        )

    def changed(self, before: "ConfigLayers") -> frozenset[str]:
        """Return the keys whose value in force is another one than before."""
        return frozenset(
            key
            for key in {*before.settings, *self.settings}
            if _text(before.settings, key) != _text(self.settings, key)
        )

    def __iter__(self) -> Iterator[tuple[Mapping[str, str], ConfigSource]]:
        """Iterate over the layers, the strongest first."""
        static = {key: each.text for key, each in self.static.explicit().items()}
        for name, other in (("node.id", "broker.id"), ("broker.id", "node.id")):
            if name in static:  # one of the two keys sets both (Kafka's populateSynonyms)
                static.setdefault(other, static[name])
        yield self.own, ConfigSource.DYNAMIC_BROKER_CONFIG
        yield self.cluster, ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG
        yield static, ConfigSource.STATIC_BROKER_CONFIG


def dynamic_layers(configs: ConfigsImage, node_id: int) -> tuple[Mapping[str, str], Mapping[str, str]]:
    """Return the configs of all brokers, and of this one."""
    cluster = dict(configs.of(ResourceType.BROKER, CLUSTER_DEFAULT))
    own = dict(configs.of(ResourceType.BROKER, str(node_id)))
    return MappingProxyType(cluster), MappingProxyType(own)


def check_value(key: str, text: str, layer: Source, refused: Refused = MappingProxyType({})) -> None:
    """Raise ConfigError for a dynamic value that may not be, or is not readable."""
    definition = config_defs.broker_def(key)
    if definition is None or not definition.dynamic:
        raise ConfigError(key, None, layer.where, "it is not a dynamic config")
    if layer is CLUSTER_LAYER and definition.mutability is Mutability.PER_BROKER:
        raise ConfigError(key, None, layer.where, "it cannot be set for all brokers")
    if (key, text) in refused:
        raise ConfigError(key, shown(key, text), layer.where, refused[key, text])
    try:
        definition.parse(text)
    except InvalidValue as error:
        raise ConfigError(key, error.text, layer.where, error.reason) from None


def settled(
    static: Settings, kept: Sequence[Texts], previous: Sequence[Mapping[str, str]], left_out: list[LeftOut]
) -> Settings:
    """Return the settings with the dynamic values that satisfy the rules between keys.

    The values of a rule that is broken go back to those in force before; if that does not help, they do not count.
    """
    settings = overlaid(static, kept)
    for earlier in (previous, ({}, {})):
        for relation in RELATIONS:
            if not any(key in texts for texts in kept for key in relation.keys):
                continue
            try:
                relation.check(settings)
            except ConfigError as error:
                for texts, layer, old in zip(kept, DYNAMIC_LAYERS, earlier, strict=True):
                    left_out += taken_back(texts, relation.keys, layer, old, f"{error.key} {error.reason}")
                settings = overlaid(static, kept)
    return settings


def taken_back(
    texts: Texts, keys: Collection[str], layer: Source, old: Mapping[str, str], reason: str
) -> Iterator[LeftOut]:
    """Restore the former texts of a layer's keys; yield those that no longer apply."""
    for key in keys:
        if key in texts and texts[key] != old.get(key):
            yield LeftOut(key, shown(key, texts[key]), layer.where, reason)
            if key in old:
                texts[key] = old[key]
            else:
                del texts[key]


def overlaid(static: Settings, layers: Sequence[Mapping[str, str]]) -> Settings:
    """Return the settings with dynamic values over them, the last layer strongest."""
    entries = dict(static.explicit())
    for texts, layer in zip(layers, DYNAMIC_LAYERS, strict=True):
        entries |= {key: Entry(text, layer) for key, text in texts.items()}
    return type(static)(entries) if any(layers) else static


def _text(settings: Settings, key: str) -> str | None:
    """Return a key's text for comparison, None without the key."""
    return settings.raw(key) if config_defs.broker_def(key) is not None else None
