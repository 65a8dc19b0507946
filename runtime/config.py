"""A node's configuration: Kafka's keys, their values, and where each came from.

`Settings` is frozen and parsed once: an accessor is a dictionary look-up. A request for a key that does not exist, or
with the accessor of another type, is a bug (assert); a wrong value is the operator's and raises ConfigError, with the
key, the value, its place and a suggestion. Files, environment and `--override` become Settings in config_files.

Configs that several keys decide are resolved here, and the accessors answer the outcome under the first name:

    log.retention.ms < log.retention.minutes < log.retention.hours      log.dirs < log.dir
    log.roll.ms < log.roll.hours                                        metadata.log.dir < the first of log.dirs
    log.roll.jitter.ms < log.roll.jitter.hours                          node.id < broker.id, and the reverse
    log.flush.interval.ms < log.flush.scheduler.interval.ms
"""

import builtins
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import IntEnum
from types import MappingProxyType
from typing import Self

from kvorum.runtime import config_defs
from kvorum.runtime.config_types import ConfigType, InvalidValue, Value, format_value

# Kafka's own groups (DynamicBrokerConfig.brokerConfigSynonyms); a value in another unit is converted to milliseconds.
TIME_GROUPS = ("log.retention.ms", "log.roll.ms", "log.roll.jitter.ms", "log.flush.interval.ms")
INTEGERS = (ConfigType.INT, ConfigType.SHORT, ConfigType.LONG)
TEXTS = (ConfigType.STRING, ConfigType.CLASS, ConfigType.PASSWORD)


class ConfigSource(IntEnum):
    """The layer a value comes from; the number is DescribeConfigs' ConfigSource on the wire. Lower layers win."""

    UNKNOWN = 0
    DYNAMIC_TOPIC_CONFIG = 1
    DYNAMIC_BROKER_CONFIG = 2
    DYNAMIC_DEFAULT_BROKER_CONFIG = 3
    STATIC_BROKER_CONFIG = 4
    DEFAULT_CONFIG = 5
    DYNAMIC_BROKER_LOGGER_CONFIG = 6
    CLIENT_METRICS_CONFIG = 7
    DYNAMIC_GROUP_CONFIG = 8


@dataclass(frozen=True, slots=True)
class Source:
    """Source of a value."""

    layer: ConfigSource
    where: str
    """For people: `node.properties:12`, `environment KAFKA_NODE_ID`, `--override`, `default`."""


DEFAULT = Source(ConfigSource.DEFAULT_CONFIG, "default")
GIVEN = Source(ConfigSource.STATIC_BROKER_CONFIG, "given")


@dataclass(frozen=True, slots=True)
class Entry:
    """One key's text in a configuration."""

    text: str
    source: Source = GIVEN


class ConfigError(Exception):
    """An invalid configuration: the key (empty: the file), its text, its source, and the rule."""

    def __init__(self, key: str, text: str | None, where: str, reason: str) -> None:
        """Store the four fields; a secret's text is [hidden]."""
        what = key if text is None else f"{key}={text}"
        super().__init__(": ".join(filter(None, (where, what, reason))))
        self.key = key
        self.text = text
        self.where = where
        self.reason = reason


class Settings:
    """The configuration of one node (or one of its listeners), frozen; equal when the same keys have the same texts."""

    __slots__ = ("_entries", "_sources", "_values")

    def __init__(self, entries: Mapping[builtins.str, Entry]) -> None:
        """Read every entry. Raises ConfigError for an unknown key or an invalid value."""
        self._entries: Mapping[builtins.str, Entry] = MappingProxyType(dict(entries))
        values: dict[builtins.str, Value] = {
            name: definition.default_value for name, definition in config_defs.BROKER.items()
        }
        for key, entry in entries.items():
            values[key] = _value_of(key, entry)
        self._sources: dict[builtins.str, Source] = {key: entry.source for key, entry in entries.items()}
        self._values = values
        self._resolve()

    @classmethod
    def of(cls, mapping: Mapping[builtins.str, object] | None = None, *, source: Source = GIVEN) -> Self:
        """Make settings of plain values: booleans, numbers, lists and texts all do; None means the default."""
        return cls(entries_of(mapping or {}, source))

    def with_overrides(self, mapping: Mapping[builtins.str, object], *, source: Source = GIVEN) -> Self:
        """Return new settings in which these win; None takes a key back to its default. Raises ConfigError."""
        kept = {key: entry for key, entry in self._entries.items() if mapping.get(key, "") is not None}
        return type(self)({**kept, **entries_of(mapping, source)})

    def with_entry(self, key: builtins.str, entry: Entry | None) -> Self:
        """Return new settings in which this is the key's entry; None takes it back to its default."""
        entries = {name: each for name, each in self._entries.items() if name != key}
        return type(self)(entries if entry is None else {**entries, key: entry})

    def for_listener(self, listener_name: builtins.str) -> Self:
        """Return the settings of this listener: `listener.name.NAME.KEY` replaces KEY (KIP-103)."""
        prefix = f"{config_defs.LISTENER_PREFIX}{listener_name.lower()}."
        own = {key.removeprefix(prefix): entry for key, entry in self._entries.items() if key.startswith(prefix)}
        known = {key: entry for key, entry in own.items() if config_defs.is_known(key)}
        return type(self)({**self._entries, **known}) if known else self

    def int(self, key: builtins.str) -> builtins.int:
        """Return an INT, SHORT or LONG."""
        value = self._value(key, *INTEGERS)
        assert isinstance(value, int), f"{key} has no value: ask optional_int"
        return value

    def optional_int(self, key: builtins.str) -> builtins.int | None:
        """Return an INT, SHORT or LONG, None where it is not set and has no default."""
        value = self._value(key, *INTEGERS)
        assert value is None or isinstance(value, int)
        return value

    def float(self, key: builtins.str) -> builtins.float:
        """Return a DOUBLE."""
        value = self._value(key, ConfigType.DOUBLE)
        assert isinstance(value, float), f"{key} has no value"
        return value

    def bool(self, key: builtins.str) -> builtins.bool:
        """Return a BOOLEAN."""
        value = self._value(key, ConfigType.BOOLEAN)
        assert isinstance(value, bool), f"{key} has no value"
        return value

    def str(self, key: builtins.str) -> builtins.str:
        """Return a STRING, CLASS or PASSWORD."""
        value = self._value(key, *TEXTS)
        assert isinstance(value, str), f"{key} has no value: ask optional_str"
        return value

    def optional_str(self, key: builtins.str) -> builtins.str | None:
        """Return a STRING, CLASS or PASSWORD, None where it is not set and has no default."""
        value = self._value(key, *TEXTS)
        assert value is None or isinstance(value, str)
        return value

    def list(self, key: builtins.str) -> builtins.list[builtins.str]:
        """Return a LIST, a fresh one; empty where it is not set."""
        value = self._value(key, ConfigType.LIST)
        assert value is None or isinstance(value, tuple)
        return [] if value is None else [*value]

    def source(self, key: builtins.str) -> Source:
        """Return where the value comes from: its own entry, that of the key that decided it, or the default."""
        assert key in self._values, f"unknown config {key}"
        return self._sources.get(key, DEFAULT)

    def raw(self, key: builtins.str) -> builtins.str | None:
        """Return the text of this very key, before synonyms: as written, else its default, as DescribeConfigs shows."""
        entry = self._entries.get(key)
        if entry is not None:
            return entry.text
        definition = config_defs.broker_def(key)
        assert definition is not None, f"unknown config {key}"
        return definition.default

    def explicit(self) -> Mapping[builtins.str, Entry]:
        """Return the explicitly set values, by key, without defaults. Read-only."""
        return self._entries

    def __iter__(self) -> Iterator[builtins.str]:
        """Go over every key there is a value for, written or default."""
        return iter(self._values)

    def __eq__(self, other: object) -> builtins.bool:
        """Return whether the same keys have the same texts, whatever their source."""
        return isinstance(other, Settings) and self._texts() == other._texts()

    def __hash__(self) -> builtins.int:
        """Hash as `==` compares."""
        return hash(tuple(sorted(self._texts().items())))

    def __repr__(self) -> builtins.str:
        """Show the explicitly set values, secrets hidden."""
        return f"Settings({', '.join(f'{key}={shown(key, entry.text)}' for key, entry in self._entries.items())})"

    def _texts(self) -> dict[builtins.str, builtins.str]:
        return {key: entry.text for key, entry in self._entries.items()}

    def _value(self, key: builtins.str, *kinds: ConfigType) -> Value:
        definition = config_defs.broker_def(key)
        assert definition is not None and key in self._values, f"unknown config {key}"
        assert definition.type in kinds, f"{key} is {definition.type.name}"
        return self._values[key]

    def _resolve(self) -> None:
        """Store the result of every group of synonyms under its first name."""
        for first in TIME_GROUPS:
            for name in config_defs.BROKER[first].synonyms:
                value = self._values[name]
                if value is not None:
                    assert isinstance(value, int), f"{name} is an integer"
                    milliseconds = config_defs.milliseconds_of(name, value)
                    self._decide(first, -1 if milliseconds < 0 else milliseconds, name)
                    break
        if self._values["log.dirs"] is None:
            self._decide("log.dirs", self._values["log.dir"], "log.dir")
        if self._values["metadata.log.dir"] is None:
            directories = self.list("log.dirs")
            self._decide("metadata.log.dir", directories[0] if directories else None, "log.dirs")
        for name, other in (("node.id", "broker.id"), ("broker.id", "node.id")):
            if name not in self._entries:
                self._decide(name, self._values[other], other)

    def _decide(self, key: builtins.str, value: Value, decider: builtins.str) -> None:
        self._values[key] = value
        if decider in self._sources:
            self._sources[key] = self._sources[decider]


def entries_of(mapping: Mapping[str, object], source: Source) -> dict[str, Entry]:
    """Write plain values as texts; None is left out."""
    entries: dict[str, Entry] = {}
    for key, value in mapping.items():
        if isinstance(value, list | tuple):
            value = tuple(str(item) for item in value)
        else:
            assert value is None or isinstance(value, bool | int | float | str), (
                f"{key}: {type(value)} is no config value"
            )
        text = format_value(value)
        if text is not None:
            entries[key] = Entry(text, source)
    return entries


def shown(key: str, text: str) -> str:
    """Return a value for people and logs: values of secret and unknown configs are hidden."""
    definition = config_defs.broker_def(key)
    return definition.shown(text) if definition else "[hidden]"


def _value_of(key: str, entry: Entry) -> Value:
    definition = config_defs.broker_def(key)
    if definition is None:
        if config_defs.is_known(key):
            return entry.text
        raise ConfigError("", None, entry.source.where, config_defs.complaint(key))
    try:
        return definition.parse(entry.text)
    except InvalidValue as error:
        rule = definition.validator
        meaning = f" (must be {rule.meaning})" if rule and rule.meaning not in error.reason else ""
        raise ConfigError(key, error.text, entry.source.where, error.reason + meaning) from None
