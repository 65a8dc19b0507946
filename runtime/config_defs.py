"""Every config of this cluster: those of Kafka 4.3, and Kvorum's under `kvorum.`, `metrics.` and `admin.`.

Sans-IO except for reading its own tables once at import: `kafka-configs.tsv` (the configs that Apache Kafka 4.3.0
describes, and its internal ones) and `kvorum-configs.tsv`. The tables are data: edit them, not this file.
`BROKER`, `TOPIC` and `GROUP` are read-only maps in the order of DescribeConfigs: by name.
"""

import difflib
import pkgutil
from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import Enum, IntEnum
from types import MappingProxyType

from kvorum.runtime.config_types import HIDDEN, ConfigType, InvalidValue, Rule, UnknownConfig, Value, parse, rule_of

TABLES = ("kafka-configs.tsv", "kvorum-configs.tsv")
NULL = "null"
LISTENER_PREFIX = "listener.name."
BROKER_STATE = "kvorum.broker.state"
"""Administrative state of a broker (docs/decisions/0024), stored in the metadata: any broker serves it."""
DECOMMISSION_THROTTLE = "kvorum.decommission.throttle"
KEPT_IN_METADATA = frozenset((BROKER_STATE, DECOMMISSION_THROTTLE))
"""Configs of a single broker that no node's own file may have, and that any broker answers for another."""
PER_LISTENER = frozenset(
    (
        "ssl.key.password",
        *(f"ssl.keystore.{name}" for name in ("certificate.chain", "key", "location", "password", "type")),
        *(f"ssl.truststore.{name}" for name in ("certificates", "location", "password", "type")),
    )
)
"""Configs that are set dynamically as `listener.name.NAME.KEY` only (Kafka's DYNAMIC_SECURITY_CONFIGS)."""
COORDINATOR_PARTITIONS = "kvorum.coordinator.partitions"
"""Number of partitions of an internal topic before some were added (broker/coordinator/runtime/placing). The
controller writes it with CreatePartitions; clients neither see nor replace it."""
SUGGESTIONS_MAX = 3

# Kafka hands these to plugins unread: any key below them is known.
PLUGIN_PREFIXES = ("rsm.config.", "rlmm.config.", "config.providers.", "client.metrics.")

# Replacements of configs that Kafka has removed. Reported instead of "unknown".
REMOVED: Mapping[str, str] = MappingProxyType(
    {
        "zookeeper.connect": "the controller quorum replaces ZooKeeper: set controller.quorum.voters and process.roles",
        "zookeeper.": "the controller quorum replaces ZooKeeper: set controller.quorum.voters",
        "replica.lag.max.messages": "only time determines whether a follower is in sync: replica.lag.time.max.ms",
        "replica.lag.time.ms": "renamed: replica.lag.time.max.ms",
        "log.message.format.version": "there is one record format (v2); remove the key",
        "message.format.version": "there is one record format (v2); remove the key",
        "inter.broker.protocol.version": "now the feature metadata.version, set at format time; remove the key",
        "control.plane.listener.name": "controllers have separate listeners: controller.listener.names",
        "broker.id.generation.enable": "ids are never generated: set node.id",
        "reserved.broker.max.id": "ids are never generated: set node.id",
        "log.message.timestamp.difference.max.ms": "replaced by log.message.timestamp.before.max.ms and .after.max.ms",
        "message.timestamp.difference.max.ms": "replaced by message.timestamp.before.max.ms and .after.max.ms",
        "log.message.downconversion.enable": "old record formats are no longer served; remove the key",
        "message.downconversion.enable": "old record formats are no longer served; remove the key",
        "host.name": "set listeners, as in listeners=PLAINTEXT://HOST:9092",
        "port": "set listeners, as in listeners=PLAINTEXT://:PORT",
        "advertised.host.name": "set advertised.listeners",
        "advertised.port": "set advertised.listeners",
        "offsets.commit.required.acks": "offsets are always committed with acks=all; remove the key",
        "delegation.token.master.key": "renamed: delegation.token.secret.key",
        "password.encoder.": "passwords are no longer stored encoded; remove the key",
        "controlled.shutdown.max.retries": "the controller decides when a broker may stop; remove the key",
        "controlled.shutdown.retry.backoff.ms": "the controller decides when a broker may stop; remove the key",
        "leader.imbalance.per.broker.percentage": "use leader.imbalance.check.interval.seconds",
        "group.coordinator.new.enable": "there is one group coordinator: set group.coordinator.rebalance.protocols",
        "group.share.enable": "now the feature share.version",
        "group.share.max.groups": "no longer limited; remove the key",
        "share.fetch.max.fetch.records": "now a client config: max.poll.records",
        "zookeeper.metadata.migration.enable": "migrate with Kafka 3.9 first; remove the key",
        "quota.producer.default": "quotas are dynamic: see kvorum quotas alter --help",
        "quota.consumer.default": "quotas are dynamic: see kvorum quotas alter --help",
        "auto.include.jmx.reporter": "there is no JMX; remove the key",
        "eligible.leader.replicas.enable": "now the feature eligible.leader.replicas.version",
    }
)


class Scope(IntEnum):
    """Type of resource that has a config; the number is ConfigResource.Type on the wire."""

    TOPIC = 2
    BROKER = 4
    GROUP = 32


class Mutability(Enum):
    """Whether a config can be changed in a running cluster, and its scope (KIP-226)."""

    READ_ONLY = "read-only"
    PER_BROKER = "per-broker"
    CLUSTER_WIDE = "cluster-wide"


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigDef:
    """One config: its facts, how to read it, and a sentence for people."""

    name: str
    type: ConfigType
    default: str | None
    """As text; None without a default (DescribeConfigs answers null)."""
    default_value: Value
    validator: Rule | None
    mutability: Mutability
    scope: Scope
    synonyms: tuple[str, ...]
    """Broker configs that decide this one, the first that is set wins (Kafka's ConfigSynonym); a name in hours or
    minutes is converted (`milliseconds_of`). For a broker config this is its own group; most have only themselves."""
    documentation: str
    internal: bool = False
    """Known, but not described to clients."""

    @property
    def sensitive(self) -> bool:
        """Return whether its value is a secret: never returned, never logged."""
        return self.type is ConfigType.PASSWORD

    @property
    def dynamic(self) -> bool:
        """Return whether it can be changed in a running cluster."""
        return self.mutability is not Mutability.READ_ONLY

    def parse(self, text: str) -> Value:
        """Return the value of this text. Raises InvalidValue (INVALID_CONFIG to a client), a secret's text hidden."""
        try:
            value = parse(self.name, self.type, text)
        except InvalidValue as error:
            raise InvalidValue(self.name, self.shown(text), error.reason) from None
        problem = self.validator.problem(value) if self.validator else None
        if problem is not None:
            raise InvalidValue(self.name, self.shown(text), problem)
        return value

    def shown(self, text: str) -> str:
        """Return the text as people and logs may see it."""
        return HIDDEN if self.sensitive else text


def read_tables() -> dict[tuple[Scope, str], ConfigDef]:
    """Read the tables beside this module."""
    found: dict[tuple[Scope, str], ConfigDef] = {}
    for table in TABLES:
        data = pkgutil.get_data("kvorum.runtime", table)
        assert data is not None, f"{table} is packaged beside its reader"
        header, *rows = data.decode().splitlines()
        columns = header.split("\t")
        for row in rows:
            definition = definition_of(dict(zip(columns, row.split("\t"), strict=True)))
            assert (definition.scope, definition.name) not in found, f"{definition.name} is a duplicate"
            found[definition.scope, definition.name] = definition
    return found


def definition_of(row: Mapping[str, str]) -> ConfigDef:
    """Make a definition of one row; a default that breaks its own rule is our mistake."""
    default = None if row["default"] == NULL else row["default"]
    kind = ConfigType[row["type"]]
    rule = rule_of(row["validator"])
    value = None if default is None else parse(row["name"], kind, default)
    assert value is None or rule is None or rule.problem(value) is None or row["validator"] == "nonempty", row
    scope = Scope[row["scope"]]
    return ConfigDef(
        name=row["name"],
        type=kind,
        default=default,
        default_value=value,
        validator=rule,
        mutability=Mutability(row["mutability"]),
        scope=scope,
        synonyms=tuple(filter(None, row["synonyms"].split(","))) or ((row["name"],) if scope is Scope.BROKER else ()),
        documentation=row["documentation"],
        internal=row["internal"] == "internal",
    )


_ALL = MappingProxyType(read_tables())
BROKER: Mapping[str, ConfigDef] = MappingProxyType(
    {name: _ALL[scope, name] for scope, name in sorted(_ALL) if scope is Scope.BROKER}
)
TOPIC: Mapping[str, ConfigDef] = MappingProxyType(
    {name: _ALL[scope, name] for scope, name in sorted(_ALL) if scope is Scope.TOPIC}
)
GROUP: Mapping[str, ConfigDef] = MappingProxyType(
    {name: _ALL[scope, name] for scope, name in sorted(_ALL) if scope is Scope.GROUP}
)
LIMITS_OF_LISTENERS = ("max.connection.creation.rate", "max.connections", "num.network.threads")
OF_A_LISTENER: Mapping[str, ConfigDef] = MappingProxyType(
    {
        name: replace(
            definition, mutability=Mutability.CLUSTER_WIDE if name in LIMITS_OF_LISTENERS else Mutability.PER_BROKER
        )
        for name, definition in BROKER.items()
    }
)
"""Of `listener.name.NAME.KEY`, by KEY: dynamic on a running broker, as in Kafka, independent of KEY."""


def broker_def(key: str) -> ConfigDef | None:
    """Return what defines a key of a node's config, also `listener.name.LISTENER[.MECHANISM].KEY`; None if nothing."""
    if key in BROKER:
        return BROKER[key]
    if not key.startswith(LISTENER_PREFIX):
        return None
    rest = key.removeprefix(LISTENER_PREFIX).split(".")
    # A mechanism such as scram-sha-256 may be between the listener and the key (KIP-103, sasl.jaas.config).
    return next((OF_A_LISTENER[base] for skip in (1, 2) if (base := ".".join(rest[skip:])) in BROKER), None)


def is_known(key: str) -> bool:
    """Return whether a node's config may have this key."""
    return broker_def(key) is not None or key.startswith(PLUGIN_PREFIXES)


def is_beginning(name: str) -> bool:
    """Return whether the names of some configs begin with this one and a dot."""
    start = f"{name}."
    known = (*BROKER, *REMOVED, *PLUGIN_PREFIXES)
    return start.startswith((LISTENER_PREFIX, *PLUGIN_PREFIXES)) or any(key.startswith(start) for key in known)


def successor(key: str) -> str | None:
    """Return what took the place of a key that Kafka no longer has, None if it never was one."""
    if key in REMOVED:
        return REMOVED[key]
    return next((REMOVED[prefix] for prefix in REMOVED if prefix.endswith(".") and key.startswith(prefix)), None)


def complaint(key: str, scope: Scope = Scope.BROKER) -> str:
    """Return a suggestion for an unknown key."""
    replaced = successor(key)
    if replaced is not None:
        return f"{key} was removed from Kafka: {replaced}"
    close = suggestions(key, scope)
    hint = f"; did you mean {' or '.join(close)}?" if close else ""
    return f"{key} is not a config of Kafka or Kvorum{hint}"


def advice(key: str, scope: Scope) -> str:
    """Return a suffix for Kafka's messages: the most similar key, in brackets, else nothing."""
    helps = successor(key) is not None or suggestions(key, scope)
    return f" ({complaint(key, scope)})" if helps else ""


def suggestions(key: str, scope: Scope = Scope.BROKER) -> list[str]:
    """Return the names an unknown key resembles, best first."""
    return difflib.get_close_matches(key, TOPIC if scope is Scope.TOPIC else BROKER, n=SUGGESTIONS_MAX, cutoff=0.75)


def validate_topic_configs(configs: Mapping[str, str]) -> dict[str, Value]:
    """Read a topic's overrides. Raises InvalidValue, which a client gets as INVALID_CONFIG.

    Checks each value and, as Kafka's LogConfig.validateValues, that min.compaction.lag.ms <= max.compaction.lag.ms.
    """
    values: dict[str, Value] = {}
    for name, text in configs.items():
        if name not in TOPIC:
            raise UnknownConfig(name, text, f"Unknown topic config name: {name}{advice(name, Scope.TOPIC)}")
        values[name] = TOPIC[name].parse(text)
    low, high = (
        values.get(name, TOPIC[name].default_value) for name in ("min.compaction.lag.ms", "max.compaction.lag.ms")
    )
    assert isinstance(low, int) and isinstance(high, int), "both are LONG with a default"
    if low > high:
        raise InvalidValue("min.compaction.lag.ms", str(low), f"it must not exceed max.compaction.lag.ms ({high})")
    return values


def validate_group_configs(configs: Mapping[str, str]) -> dict[str, Value]:
    """Read a group's configs. Raises InvalidValue, which a client gets as INVALID_CONFIG."""
    values: dict[str, Value] = {}
    for name, text in configs.items():
        if name not in GROUP:
            raise UnknownConfig(name, text, f"Unknown group config name: {name}")
        values[name] = GROUP[name].parse(text)
    return values


def is_value(definition: ConfigDef, text: str) -> bool:
    """Return whether a text is a valid value of this config."""
    try:
        definition.parse(text)
    except InvalidValue:
        return False
    return True


def milliseconds_of(name: str, value: int) -> int:
    """Convert the value of a synonym to the unit of the `.ms` config."""
    if name.endswith(".hours"):
        return value * 3_600_000
    return value * 60_000 if name.endswith(".minutes") else value
