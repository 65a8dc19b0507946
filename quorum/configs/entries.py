"""Entries of DescribeConfigs: effective value, source and synonyms.

A value comes from the first of its synonyms that is set, layer by layer: the topic's own, this broker's dynamic
one, the cluster-wide dynamic one, the static one, the default. As in Kafka, synonyms count from the first that
bears the config's main name on: a retention set as log.retention.hours shows as a default of retention.ms, with the
right value.
Source: Kafka's ConfigHelper and DynamicBrokerConfig.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, TypeAlias

from kvorum.quorum.configs.layers import ConfigLayers
from kvorum.quorum.image import client_metrics
from kvorum.runtime import config_defs
from kvorum.runtime.config import ConfigSource, Settings
from kvorum.runtime.config_defs import BROKER, COORDINATOR_PARTITIONS, GROUP, TOPIC, ConfigDef, Scope, milliseconds_of
from kvorum.runtime.config_types import ConfigType, InvalidValue, Value, format_value, parse

REQUIRED: Final = ("node.id", "process.roles")
"""Configs without a default in Kafka; none is returned."""

Said: TypeAlias = tuple[tuple[Mapping[str, str], ConfigSource], ...]
"""Values in a node's layers, the strongest first; built once for all configs of a resource."""


@dataclass(frozen=True, slots=True)
class Synonym:
    """One layer's word on a config."""

    name: str
    value: str | None
    source: ConfigSource


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigEntry:
    """One config as DescribeConfigs answers it; the value of a secret is None."""

    name: str
    value: str | None
    read_only: bool
    source: ConfigSource
    sensitive: bool
    synonyms: tuple[Synonym, ...]
    type: ConfigType
    documentation: str


class TopicEntries:
    """The configs of topics, for one request: what all topics share is made once."""

    __slots__ = ("_inherited",)

    def __init__(self, layers: ConfigLayers) -> None:
        """Use the node's present layers."""
        said = tuple(layers)
        self._inherited = {
            name: entry(
                definition,
                inherited(layers.settings, definition),
                broker_synonyms(said, definition),
                read_only=False,
            )
            for name, definition in TOPIC.items()
        }

    def of(self, overrides: Mapping[str, str]) -> Iterator[ConfigEntry]:
        """Yield every config of a topic with these overrides, by name."""
        for name, shared in self._inherited.items():
            definition = TOPIC[name]
            if name == COORDINATOR_PARTITIONS:
                continue  # the controller's own: a client that copies or resets configs must not touch it
            if name in overrides:
                own = Synonym(name, hidden(definition, overrides[name]), ConfigSource.DYNAMIC_TOPIC_CONFIG)
                value = canonical(definition, overrides[name])
                yield entry(definition, value, (own, *shared.synonyms), read_only=False)
            elif not definition.internal:
                yield shared


def broker_entries(layers: ConfigLayers) -> Iterator[ConfigEntry]:
    """Yield every config of this node, by name; also those of its listeners and others it was given."""
    settings, said = layers.settings, tuple(layers)
    for name in sorted({*BROKER, *settings.explicit()}):
        definition = config_defs.broker_def(name)
        if definition is None or (definition.internal and not (definition.dynamic and name in settings.explicit())):
            continue
        if name in BROKER:
            synonyms = broker_synonyms(said, definition)
            yield entry(definition, broker_value(settings, definition), synonyms, read_only=not definition.dynamic)
        else:
            text = settings.raw(name)
            own = Synonym(name, hidden(definition, text), settings.source(name).layer)
            read_only = not BROKER[definition.name].dynamic
            yield replace(entry(definition, text, (own,), read_only=read_only), name=name)
    unknown = {name for values, _ in said for name in values if config_defs.broker_def(name) is None}
    for name in sorted(unknown):
        yield unknown_entry(name, [source for values, source in said if name in values])


def unknown_entry(name: str, sources: Sequence[ConfigSource]) -> ConfigEntry:
    """Return the entry of an unknown dynamic config, perhaps a plug-in's: sensitive, because it may be a secret."""
    return ConfigEntry(
        name=name,
        value=None,
        read_only=True,
        source=sources[0],
        sensitive=True,
        synonyms=tuple(Synonym(name, None, source) for source in sources),
        type=ConfigType.UNKNOWN,
        documentation="",
    )


def cluster_default_entries(values: Mapping[str, str]) -> Iterator[ConfigEntry]:
    """Yield the dynamic configs of all brokers, by name."""
    layer = ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG
    for name, value in sorted(values.items()):
        definition = config_defs.broker_def(name)
        if definition is None:
            yield unknown_entry(name, [layer])
            continue
        synonyms = (Synonym(name, hidden(definition, value), layer),)
        yield entry(definition, value, synonyms, read_only=not definition.dynamic)


def kept_entries(overrides: Mapping[str, str]) -> Iterator[ConfigEntry]:
    """Yield a broker's configs that exist in the metadata only, by name, from its dynamic ones."""
    for name in sorted(config_defs.KEPT_IN_METADATA):
        definition = BROKER[name]
        text = overrides.get(name)
        source = ConfigSource.DEFAULT_CONFIG if text is None else ConfigSource.DYNAMIC_BROKER_CONFIG
        value = definition.default if text is None else text
        yield entry(definition, value, (Synonym(name, value, source),), read_only=False)


def group_entries(layers: ConfigLayers, overrides: Mapping[str, str]) -> Iterator[ConfigEntry]:
    """Yield every config of a group with these overrides, by name (Kafka's ConfigHelper, KIP-848)."""
    said = tuple(layers)
    for name, definition in GROUP.items():
        synonyms, value = broker_synonyms(said, definition), inherited(layers.settings, definition)
        if name in overrides:
            value = canonical(definition, overrides[name])
            synonyms = (Synonym(name, value, ConfigSource.DYNAMIC_GROUP_CONFIG), *synonyms)
        yield entry(definition, value, synonyms, read_only=False)


def client_metrics_entries(overrides: Mapping[str, str]) -> Iterator[ConfigEntry]:
    """Yield every config of a subscription to clients' metrics, by name (KIP-714)."""
    for name, definition in client_metrics.DEFINITIONS.items():
        text = overrides.get(name)
        value = format_value(parse(name, definition.type, definition.default if text is None else text))
        source = ConfigSource.DEFAULT_CONFIG if text is None else ConfigSource.CLIENT_METRICS_CONFIG
        yield ConfigEntry(
            name=name,
            value=value,
            read_only=False,
            source=source,
            sensitive=False,
            synonyms=() if text is None else (Synonym(name, value, source),),
            type=definition.type,
            documentation=definition.documentation,
        )


def broker_synonyms(said: Said, definition: ConfigDef) -> tuple[Synonym, ...]:
    """Return the values of a config in the broker's layers and the defaults, the strongest first."""
    names = definition.synonyms
    if not names:
        return ()
    found = [
        Synonym(name, hidden(definition, value), source)
        for values, source in said
        for name in names
        if (value := values.get(name)) is not None
    ]
    for name in names:
        default = BROKER[name].default
        if default is not None and name not in REQUIRED and not BROKER[name].internal:
            found.append(Synonym(name, hidden(definition, default), ConfigSource.DEFAULT_CONFIG))
    # Synonyms before the first one of the main name are ignored (Kafka drops them; see the head of the module).
    main_name = definition.name if definition.scope is Scope.BROKER else names[0]
    first = next((place for place, synonym in enumerate(found) if synonym.name == main_name), len(found))
    return tuple(found[first:])


def inherited(settings: Settings, definition: ConfigDef) -> str | None:
    """Return the value a topic config takes from the broker: that of the first synonym that is set, in its own unit."""
    for name in definition.synonyms:
        source = BROKER[name]
        text = settings.raw(name)
        if text is None:
            continue
        if source.type in (ConfigType.INT, ConfigType.LONG) and name.endswith((".hours", ".minutes")):
            return format_value(milliseconds(name, source.parse(text)))
        return canonical(source, text)
    return definition.default


def milliseconds(name: str, value: Value) -> int:
    """Return a number of hours or minutes in ms; a negative one means no limit and is -1."""
    assert isinstance(value, int), f"{name} is an integer"
    converted = milliseconds_of(name, value)
    return -1 if value < 0 else converted


def broker_value(settings: Settings, definition: ConfigDef) -> str | None:
    """Return a broker config's value as text in its canonical form, None for null."""
    if definition.name in ("node.id", "broker.id"):
        return str(settings.int(definition.name))
    text = settings.raw(definition.name)
    return None if text is None else canonical(definition, text)


def canonical(definition: ConfigDef, text: str) -> str | None:
    """Return a value as Kafka writes it back: lists without blanks, booleans in lower case, the rest as given."""
    if definition.type is ConfigType.DOUBLE:
        return text.strip()
    try:
        return format_value(definition.parse(text))
    except InvalidValue:
        return text  # written by a release with other limits: shown unchanged


def hidden(definition: ConfigDef, value: str | None) -> str | None:
    """Return the value, None for a secret."""
    return None if definition.sensitive else value


def entry(definition: ConfigDef, value: str | None, synonyms: tuple[Synonym, ...], *, read_only: bool) -> ConfigEntry:
    """Return a config's entry; its source is that of its strongest synonym."""
    return ConfigEntry(
        name=definition.name,
        value=hidden(definition, value),
        read_only=read_only,
        source=synonyms[0].source if synonyms else ConfigSource.DEFAULT_CONFIG,
        sensitive=definition.sensitive,
        synonyms=synonyms,
        type=definition.type,
        documentation=definition.documentation,
    )
