"""The tables of configs hold Kafka 4.3's facts, and know what is not a config."""

import pytest

from kvorum.runtime import config_defs
from kvorum.runtime.config_defs import BROKER, REMOVED, TOPIC, ConfigDef, Mutability, Scope
from kvorum.runtime.config_types import HIDDEN, ConfigType, InvalidValue

EVERY = [*BROKER.values(), *TOPIC.values()]

# name: (type, default, mutability), as a running Apache Kafka 4.3.0 describes them.
BROKER_FACTS = {
    "auto.create.topics.enable": (ConfigType.BOOLEAN, "true", Mutability.READ_ONLY),
    "broker.heartbeat.interval.ms": (ConfigType.INT, "2000", Mutability.READ_ONLY),
    "broker.session.timeout.ms": (ConfigType.INT, "9000", Mutability.READ_ONLY),
    "compression.type": (ConfigType.STRING, "producer", Mutability.CLUSTER_WIDE),
    "connections.max.idle.ms": (ConfigType.LONG, "600000", Mutability.READ_ONLY),
    "controller.quorum.election.timeout.ms": (ConfigType.INT, "1000", Mutability.READ_ONLY),
    "controller.quorum.fetch.timeout.ms": (ConfigType.INT, "2000", Mutability.READ_ONLY),
    "default.replication.factor": (ConfigType.INT, "1", Mutability.READ_ONLY),
    "fetch.max.bytes": (ConfigType.INT, "57671680", Mutability.READ_ONLY),
    "log.cleaner.io.max.bytes.per.second": (ConfigType.DOUBLE, "1.7976931348623157E308", Mutability.CLUSTER_WIDE),
    "log.flush.interval.messages": (ConfigType.LONG, "9223372036854775807", Mutability.CLUSTER_WIDE),
    "log.message.timestamp.after.max.ms": (ConfigType.LONG, "3600000", Mutability.CLUSTER_WIDE),
    "log.retention.hours": (ConfigType.INT, "168", Mutability.READ_ONLY),
    "log.retention.ms": (ConfigType.LONG, None, Mutability.CLUSTER_WIDE),
    "log.segment.bytes": (ConfigType.INT, "1073741824", Mutability.CLUSTER_WIDE),
    "max.connections.per.ip": (ConfigType.INT, "2147483647", Mutability.CLUSTER_WIDE),
    "message.max.bytes": (ConfigType.INT, "1048588", Mutability.CLUSTER_WIDE),
    "metadata.log.max.record.bytes.between.snapshots": (ConfigType.LONG, "20971520", Mutability.READ_ONLY),
    "min.insync.replicas": (ConfigType.INT, "1", Mutability.CLUSTER_WIDE),
    "num.partitions": (ConfigType.INT, "1", Mutability.READ_ONLY),
    "num.recovery.threads.per.data.dir": (ConfigType.INT, "2", Mutability.CLUSTER_WIDE),
    "offsets.topic.replication.factor": (ConfigType.SHORT, "3", Mutability.READ_ONLY),
    "replica.lag.time.max.ms": (ConfigType.LONG, "30000", Mutability.READ_ONLY),
    "socket.request.max.bytes": (ConfigType.INT, "104857600", Mutability.READ_ONLY),
    "ssl.keystore.location": (ConfigType.STRING, None, Mutability.PER_BROKER),
    "ssl.keystore.password": (ConfigType.PASSWORD, None, Mutability.PER_BROKER),
    "transaction.state.log.min.isr": (ConfigType.INT, "2", Mutability.READ_ONLY),
    "unclean.leader.election.enable": (ConfigType.BOOLEAN, "false", Mutability.CLUSTER_WIDE),
}

# name: (type, default, what decides it when the topic does not say)
TOPIC_FACTS = {
    "cleanup.policy": (ConfigType.LIST, "delete", ("log.cleanup.policy",)),
    "compression.type": (ConfigType.STRING, "producer", ("compression.type",)),
    "delete.retention.ms": (ConfigType.LONG, "86400000", ("log.cleaner.delete.retention.ms",)),
    "file.delete.delay.ms": (ConfigType.LONG, "60000", ("log.segment.delete.delay.ms",)),
    "flush.messages": (ConfigType.LONG, "9223372036854775807", ("log.flush.interval.messages",)),
    "flush.ms": (
        ConfigType.LONG,
        "9223372036854775807",
        ("log.flush.interval.ms", "log.flush.scheduler.interval.ms"),
    ),
    "max.message.bytes": (ConfigType.INT, "1048588", ("message.max.bytes",)),
    "min.cleanable.dirty.ratio": (ConfigType.DOUBLE, "0.5", ("log.cleaner.min.cleanable.ratio",)),
    "min.insync.replicas": (ConfigType.INT, "1", ("min.insync.replicas",)),
    "remote.storage.enable": (ConfigType.BOOLEAN, "false", ()),
    "retention.bytes": (ConfigType.LONG, "-1", ("log.retention.bytes",)),
    "retention.ms": (
        ConfigType.LONG,
        "604800000",
        ("log.retention.ms", "log.retention.minutes", "log.retention.hours"),
    ),
    "segment.bytes": (ConfigType.INT, "1073741824", ("log.segment.bytes",)),
    "segment.index.bytes": (ConfigType.INT, "10485760", ("log.index.size.max.bytes",)),
    "segment.jitter.ms": (ConfigType.LONG, "0", ("log.roll.jitter.ms", "log.roll.jitter.hours")),
    "segment.ms": (ConfigType.LONG, "604800000", ("log.roll.ms", "log.roll.hours")),
}


@pytest.mark.parametrize("name", BROKER_FACTS)
def test_broker_configs_are_kafkas(name: str) -> None:
    definition = BROKER[name]
    assert (definition.type, definition.default, definition.mutability) == BROKER_FACTS[name]
    assert definition.scope is Scope.BROKER


@pytest.mark.parametrize("name", TOPIC_FACTS)
def test_topic_configs_are_kafkas(name: str) -> None:
    definition = TOPIC[name]
    assert (definition.type, definition.default, definition.synonyms) == TOPIC_FACTS[name]
    assert definition.dynamic and definition.scope is Scope.TOPIC


def test_no_value_of_a_single_node_is_left_in_the_defaults() -> None:
    assert BROKER["node.id"].default == BROKER["broker.id"].default == "-1"
    assert BROKER["advertised.listeners"].default is BROKER["log.dirs"].default is None
    assert BROKER["controller.quorum.voters"].default == BROKER["process.roles"].default == ""
    assert BROKER["listeners"].default == "PLAINTEXT://:9092"


def test_as_many_configs_are_described_as_kafka_describes() -> None:
    ours = ("kvorum.", "admin.", "metrics.listener")
    assert sum(not each.internal and not each.name.startswith(ours) for each in BROKER.values()) == 340
    assert sum(not each.internal for each in TOPIC.values()) == 33


@pytest.mark.parametrize("definition", EVERY, ids=lambda each: f"{each.scope.name}-{each.name}")
def test_every_config_is_documented_and_its_default_obeys_its_own_rule(definition: ConfigDef) -> None:
    assert definition.documentation.endswith((".", "..."))
    if definition.default is not None:
        assert definition.parse(definition.default) == definition.default_value
    for name in definition.synonyms:
        assert name in BROKER


@pytest.mark.parametrize(
    ("scope", "name", "text"),
    [
        (Scope.TOPIC, "cleanup.policy", "compact,shrink"),
        (Scope.TOPIC, "cleanup.policy", "delete,delete"),
        (Scope.TOPIC, "compression.type", "brotli"),
        (Scope.TOPIC, "compression.gzip.level", "0"),
        (Scope.TOPIC, "message.timestamp.type", "createtime"),
        (Scope.TOPIC, "min.insync.replicas", "0"),
        (Scope.TOPIC, "segment.bytes", "1048575"),
        (Scope.TOPIC, "segment.ms", "0"),
        (Scope.TOPIC, "retention.ms", "-2"),
        (Scope.TOPIC, "max.message.bytes", "-1"),
        (Scope.TOPIC, "min.cleanable.dirty.ratio", "1.1"),
        (Scope.TOPIC, "unclean.leader.election.enable", "maybe"),
        (Scope.TOPIC, "leader.replication.throttled.replicas", "0-1"),
        (Scope.BROKER, "process.roles", "broker,zookeeper"),
        (Scope.BROKER, "num.partitions", "0"),
        (Scope.BROKER, "fetch.max.bytes", "1023"),
        (Scope.BROKER, "security.inter.broker.protocol", "TLS"),
        (Scope.BROKER, "num.replica.fetchers", "0"),
        (Scope.BROKER, "kvorum.fast.fencing", "on"),
    ],
)
def test_values_kafka_refuses_are_refused(scope: Scope, name: str, text: str) -> None:
    definition = (TOPIC if scope is Scope.TOPIC else BROKER)[name]
    with pytest.raises(InvalidValue, match=name):
        definition.parse(text)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("cleanup.policy", ""),
        ("cleanup.policy", "compact,delete"),
        ("retention.ms", "-1"),
        ("retention.bytes", "-5"),
        ("segment.bytes", "1048576"),
        ("internal.segment.bytes", "1024"),
        ("min.cleanable.dirty.ratio", "0"),
        ("compression.gzip.level", "-1"),
        ("follower.replication.throttled.replicas", "*"),
    ],
)
def test_values_kafka_accepts_are_accepted(name: str, text: str) -> None:
    TOPIC[name].parse(text)


def test_a_secret_is_never_in_a_message() -> None:
    definition = BROKER["ssl.keystore.password"]
    assert definition.sensitive
    assert definition.shown("hunter2") == HIDDEN


def test_a_topics_overrides_are_checked_together() -> None:
    assert config_defs.validate_topic_configs({"retention.ms": "5", "cleanup.policy": "compact"}) == {
        "retention.ms": 5,
        "cleanup.policy": ("compact",),
    }
    with pytest.raises(InvalidValue, match=r"max\.compaction\.lag\.ms"):
        config_defs.validate_topic_configs({"min.compaction.lag.ms": "10", "max.compaction.lag.ms": "9"})
    with pytest.raises(InvalidValue, match=r"^Unknown topic config name: retention\.msec .*retention\.ms"):
        config_defs.validate_topic_configs({"retention.msec": "1"})


@pytest.mark.parametrize(
    "key",
    [
        "node.id",
        "listener.name.internal.ssl.keystore.location",
        "listener.name.internal.scram-sha-256.sasl.jaas.config",
        "listener.name.client.max.connections",
        "rsm.config.bucket",
    ],
)
def test_known_keys_are_known(key: str) -> None:
    assert config_defs.is_known(key)


@pytest.mark.parametrize(
    "key", ["nodeid", "listener.name.internal.nothing", "retention.ms", "kvorum.", "listener.name."]
)
def test_other_keys_are_not(key: str) -> None:
    assert not config_defs.is_known(key)


@pytest.mark.parametrize(
    ("key", "message"),
    [
        ("zookeeper.connect", "controller.quorum.voters"),
        ("zookeeper.session.timeout.ms", "controller.quorum.voters"),
        ("replica.lag.max.messages", "replica.lag.time.max.ms"),
        ("log.message.format.version", "one record format"),
        ("inter.broker.protocol.version", "metadata.version"),
        ("control.plane.listener.name", "controller.listener.names"),
        ("port", "listeners"),
        ("log.retention.hour", "did you mean log.retention.hours"),
        ("min.in.sync.replicas", "did you mean min.insync.replicas"),
        ("completely.other.thing", "not a config"),
    ],
)
def test_an_unknown_key_is_reported_with_a_suggestion(key: str, message: str) -> None:
    assert message in config_defs.complaint(key)
    assert key in config_defs.complaint(key)


def test_no_removed_config_is_still_there() -> None:
    assert [key for key in REMOVED if key in BROKER or key in TOPIC] == []
