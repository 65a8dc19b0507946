"""What Kafka's KafkaConfig.validateValues refuses, and what only Kvorum does; each error names the key to change."""

import pytest

from kvorum.runtime.config import ConfigError, Settings
from kvorum.runtime.config_checks import check_node

COMBINED: dict[str, object] = {
    "process.roles": "broker,controller",
    "node.id": 1,
    "listeners": "PLAINTEXT://127.0.0.1:19091,CONTROLLER://127.0.0.1:19191",
    "controller.listener.names": "CONTROLLER",
    "controller.quorum.voters": "1@127.0.0.1:19191",
    "log.dirs": "/data",
}
BROKER = COMBINED | {"process.roles": "broker", "node.id": 2, "listeners": "PLAINTEXT://127.0.0.1:19092"}
CONTROLLER = COMBINED | {"process.roles": "controller", "listeners": "CONTROLLER://127.0.0.1:19191"}


@pytest.mark.parametrize("base", [COMBINED, BROKER, CONTROLLER], ids=["combined", "broker", "controller"])
def test_a_sound_node_passes_without_a_warning(base: dict[str, object]) -> None:
    assert check_node(Settings.of(base)) == []


PROTOCOLS = "listener.security.protocol.map"
REFUSED = [
    (BROKER, {"group.consumer.assignors": "uniform,org.example.Mine"}, "group.consumer.assignors"),
    (BROKER, {"group.consumer.assignors": ""}, "group.consumer.assignors"),
    (BROKER, {"replica.selector.class": "org.example.Mine"}, "replica.selector.class"),
    (BROKER, {"group.consumer.session.timeout.ms": 1000}, "group.consumer.session.timeout.ms"),
    (BROKER, {"group.consumer.heartbeat.interval.ms": 20_000}, "group.consumer.heartbeat.interval.ms"),
    (BROKER, {"group.consumer.min.assignment.interval.ms": 2000}, "group.consumer.assignment.interval.ms"),
    (
        BROKER,
        {"group.consumer.heartbeat.interval.ms": 45_000, "group.consumer.max.heartbeat.interval.ms": 45_000},
        "group.consumer.heartbeat.interval.ms",
    ),
    (BROKER, {"group.max.session.timeout.ms": 5000}, "group.max.session.timeout.ms"),
    (BROKER, {"kvorum.broker.state": "maintenance"}, "kvorum.broker.state"),
    (BROKER, {"kvorum.decommission.throttle": 1000}, "kvorum.decommission.throttle"),
    (COMBINED, {"process.roles": None}, "process.roles"),
    (COMBINED, {"node.id": None}, "node.id"),
    (COMBINED, {"node.id": -2}, "node.id"),
    (COMBINED, {"broker.id": 5}, "broker.id"),
    (COMBINED, {"controller.quorum.voters": None}, "controller.quorum.voters"),
    (COMBINED, {"controller.quorum.voters": "2@127.0.0.1:19191"}, "controller.quorum.voters"),
    (COMBINED, {"controller.quorum.voters": "1@0.0.0.0:19191"}, "controller.quorum.voters"),
    (COMBINED, {"controller.quorum.voters": "1@127.0.0.1:1,1@127.0.0.1:2"}, "controller.quorum.voters"),
    (BROKER, {"node.id": 1}, "controller.quorum.voters"),
    (COMBINED, {"controller.listener.names": None}, "controller.listener.names"),
    (
        BROKER,
        {"controller.listener.names": "OTHER", "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT"},
        "controller.listener.names",
    ),
    (BROKER, {"listeners": "PLAINTEXT://127.0.0.1:1,CONTROLLER://127.0.0.1:2"}, "listeners"),
    (CONTROLLER, {"listeners": "PLAINTEXT://127.0.0.1:1,CONTROLLER://127.0.0.1:2"}, "listeners"),
    (COMBINED, {"listeners": "PLAINTEXT://127.0.0.1:1"}, "listeners"),
    (COMBINED, {"listeners": "CONTROLLER://127.0.0.1:1"}, "listeners"),
    (COMBINED, {"listeners": "PLAINTEXT://127.0.0.1:1,CONTROLLER://127.0.0.1:1"}, "listeners"),
    (COMBINED, {"listeners": "PLAINTEXT://127.0.0.1:1,plaintext://127.0.0.1:3,CONTROLLER://127.0.0.1:2"}, "listeners"),
    (COMBINED, {"listeners": "nonsense,CONTROLLER://127.0.0.1:2"}, "listeners"),
    (COMBINED, {"listeners": "INTERNAL://127.0.0.1:1,CONTROLLER://127.0.0.1:2"}, "listeners"),
    (COMBINED, {"listeners": "PLAINTEXT://127.0.0.1:70000,CONTROLLER://127.0.0.1:2"}, "listeners"),
    (COMBINED, {"listeners": "PLAINTEXT://0.0.0.0:1,CONTROLLER://127.0.0.1:2"}, "listeners"),
    (COMBINED, {"advertised.listeners": "PLAINTEXT://0.0.0.0:1"}, "advertised.listeners"),
    (COMBINED, {"advertised.listeners": "SSL://127.0.0.1:1"}, "advertised.listeners"),
    (COMBINED, {"inter.broker.listener.name": "OTHER"}, "inter.broker.listener.name"),
    (COMBINED, {"inter.broker.listener.name": "CONTROLLER"}, "inter.broker.listener.name"),
    (
        COMBINED,
        {"inter.broker.listener.name": "PLAINTEXT", "security.inter.broker.protocol": "PLAINTEXT"},
        "inter.broker.listener.name",
    ),
    (COMBINED, {"security.inter.broker.protocol": "SSL"}, "inter.broker.listener.name"),
    (COMBINED, {"listener.security.protocol.map": "PLAINTEXT:TLS"}, "listener.security.protocol.map"),
    (CONTROLLER, {"listeners": "CONTROLLER://:19191"}, "listeners"),
    (CONTROLLER, {"listeners": "CONTROLLER://10.0.0.1:19191"}, "listeners"),
    (CONTROLLER, {"listeners": "CONTROLLER://10.0.0.1:1", PROTOCOLS: "CONTROLLER:SASL_PLAINTEXT"}, "listeners"),
    (COMBINED, {"admin.listeners": "http://0.0.0.0:18080"}, "admin.listeners"),
    (COMBINED, {"admin.listeners": "https://0.0.0.0:18080"}, "admin.listeners"),
    (COMBINED, {"admin.listeners": "ftp://127.0.0.1:18080"}, "admin.listeners"),
    *(
        (COMBINED, {"kvorum.connect.urls": url}, "kvorum.connect.urls")
        for url in (
            "127.0.0.1:8083",
            "ftp://127.0.0.1:8083",
            "http://127.0.0.1:8083,http://",
            "http://127.0.0.1:70000",
            "http://127.0.0.1:0",
            "http://user:secret@127.0.0.1:8083",
            "http://127.0.0.1:8083/a/../b",
            "http://127.0.0.1:8083/?a=b",
        )
    ),
    (COMBINED, {"controller.quorum.voters": "1@127.0.0.1:1,2@10.0.0.2:1"}, "controller.quorum.voters"),
    (COMBINED, {"metrics.listener": "19291"}, "metrics.listener"),
    (COMBINED, {"kvorum.peer.addresses": "1:127.0.0.1:5"}, "kvorum.peer.addresses"),
    (COMBINED, {"log.roll.ms": 0}, "log.roll.ms"),
    (COMBINED, {"log.retention.ms": 0}, "log.retention.ms"),
    (COMBINED, {"replica.fetch.wait.max.ms": 30_001}, "replica.fetch.wait.max.ms"),
    (COMBINED, {"replica.lag.time.max.ms": 400}, "replica.fetch.wait.max.ms"),
    (COMBINED, {"broker.heartbeat.interval.ms": 9_000}, "broker.heartbeat.interval.ms"),
    (COMBINED, {"connections.max.idle.ms": 100}, "connection.failed.authentication.delay.ms"),
    (COMBINED, {"queued.max.request.bytes": 1_000}, "queued.max.request.bytes"),
    (COMBINED, {"max.connections.per.ip": 0}, "max.connections.per.ip"),
    (COMBINED, {"log.cleaner.threads": 128}, "log.cleaner.dedupe.buffer.size"),
    (
        COMBINED,
        {"log.cleaner.min.compaction.lag.ms": 10, "log.cleaner.max.compaction.lag.ms": 9},
        "log.cleaner.min.compaction.lag.ms",
    ),
]


@pytest.mark.parametrize(("base", "change", "key"), REFUSED)
def test_invalid_combinations_are_refused_with_the_key_to_change(
    base: dict[str, object], change: dict[str, object], key: str
) -> None:
    with pytest.raises(ConfigError) as error:
        check_node(Settings.of(base | change))
    assert error.value.key == key
    assert error.value.reason


ACCEPTED: list[tuple[dict[str, object], dict[str, object]]] = [
    (COMBINED, {"listeners": "PLAINTEXT://127.0.0.1:0,CONTROLLER://127.0.0.1:0"}),
    (COMBINED, {"listeners": "PLAINTEXT://:9092,CONTROLLER://localhost:9093"}),
    (
        COMBINED,
        {
            "listeners": "PLAINTEXT://0.0.0.0:1,CONTROLLER://127.0.0.1:2",
            "advertised.listeners": "PLAINTEXT://a.example:9",
        },
    ),
    (
        COMBINED,
        {
            "listeners": "IN://127.0.0.1:1,OUT://127.0.0.1:2,CONTROLLER://127.0.0.1:3",
            "listener.security.protocol.map": "IN:PLAINTEXT,OUT:PLAINTEXT,CONTROLLER:PLAINTEXT",
            "inter.broker.listener.name": "in",
        },
    ),
    (COMBINED, {"controller.quorum.voters": None, "controller.quorum.bootstrap.servers": "127.0.0.1:19191"}),
    (COMBINED, {PROTOCOLS: "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,SSL:SSL"}),
    (COMBINED, {"broker.id": 1}),
    *(
        (CONTROLLER, {"listeners": "CONTROLLER://:19191", PROTOCOLS: f"CONTROLLER:{name}"})
        for name in ("SSL", "SASL_SSL")
    ),
    (COMBINED, {"queued.max.request.bytes": -1}),
    (COMBINED, {"max.connections.per.ip": 0, "max.connections.per.ip.overrides": "127.0.0.1:5"}),
    (COMBINED, {"connections.max.idle.ms": -1}),
    (COMBINED, {"metrics.listener": "http://0.0.0.0:9100", "admin.listeners": "http://[::1]:80"}),
    (COMBINED, {"admin.listeners": "http://0.0.0.0:18080", "kvorum.admin.tokens.file": "/etc/tokens"}),
    (COMBINED, {"admin.listeners": "https://0.0.0.0:18080", "kvorum.admin.roles": "User:alice=admin; User:*=read"}),
    (COMBINED, {"kvorum.connect.urls": "http://127.0.0.1:8083,https://connect.example/rest/,http://[::1]:8083"}),
]


@pytest.mark.parametrize(("base", "change"), ACCEPTED)
def test_valid_combinations_are_accepted(base: dict[str, object], change: dict[str, object]) -> None:
    assert check_node(Settings.of(base | change)) == []


@pytest.mark.parametrize(
    ("base", "change", "message"),
    [
        (COMBINED, {"controller.quorum.voters": "1@127.0.0.1:19191,2@127.0.0.1:2"}, "2 controllers tolerate"),
        (BROKER, {"controller.quorum.voters": "1@10.0.0.1:19191"}, "cannot connect to PLAINTEXT://127.0.0.1:19092"),
        (CONTROLLER, {"admin.listeners": "http://127.0.0.1:18080"}, "only a controller"),
        (COMBINED, {"kvorum.peer.addresses": "2=127.0.0.1:5"}, "for tests"),
        (
            CONTROLLER,
            {"listeners": "CONTROLLER://10.0.0.1:1", "kvorum.allow.plaintext.controllers": True},
            "not encrypted",
        ),
        (COMBINED, {"authorizer.class.name": "a.b.Authorizer"}, "every client may do everything"),
    ],
)
def test_risky_configs_cause_warnings(base: dict[str, object], change: dict[str, object], message: str) -> None:
    (warning,) = check_node(Settings.of(base | change))
    assert message in warning
