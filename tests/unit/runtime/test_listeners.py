"""Listeners: what is bound, what is told, and by which protocol."""

import pytest

from kvorum.runtime import listeners
from kvorum.runtime.config import ConfigError, Settings
from kvorum.runtime.listeners import Endpoint, HttpEndpoint, SecurityProtocol

BASE: dict[str, object] = {
    "process.roles": "broker,controller",
    "listeners": "PLAINTEXT://:9092,CONTROLLER://127.0.0.1:9093",
    "controller.listener.names": "CONTROLLER",
}
PLAINTEXT = SecurityProtocol.PLAINTEXT


def settings(**changes: object) -> Settings:
    return Settings.of(BASE | {key.replace("_", "."): value for key, value in changes.items()})


def test_a_node_listens_for_clients_and_for_controllers_apart() -> None:
    client = Endpoint("PLAINTEXT", PLAINTEXT, "", 9092)
    controller = Endpoint("CONTROLLER", PLAINTEXT, "127.0.0.1", 9093)
    assert listeners.listeners(settings()) == [client, controller]
    assert listeners.broker_listeners(settings()) == [client]
    assert listeners.controller_listeners(settings()) == [controller]


@pytest.mark.parametrize(
    ("text", "host", "port"),
    [
        ("PLAINTEXT://localhost:1", "localhost", 1),
        ("plaintext://[::1]:2", "::1", 2),
        ("PLAINTEXT://[fe80::1%eth0]:3", "fe80::1%eth0", 3),
        ("PLAINTEXT://my-host.example:65535", "my-host.example", 65535),
        ("PLAINTEXT://:0", "", 0),
    ],
)
def test_a_listener_is_read_and_written(text: str, host: str, port: int) -> None:
    (endpoint,) = listeners.listeners(settings(listeners=text))
    assert endpoint == Endpoint("PLAINTEXT", PLAINTEXT, host, port)
    assert endpoint.url.lower() == text.lower()


def test_a_listener_without_a_host_is_advertised_with_the_default_one() -> None:
    (reported,) = listeners.advertised_listeners(settings(), "broker.example")
    assert reported == Endpoint("PLAINTEXT", PLAINTEXT, "broker.example", 9092)


def test_advertised_listeners_win_and_may_leave_some_out() -> None:
    config = settings(
        listeners="A://127.0.0.1:1,B://127.0.0.1:2,CONTROLLER://127.0.0.1:3",
        listener_security_protocol_map="A:PLAINTEXT,B:SASL_SSL,CONTROLLER:PLAINTEXT",
        advertised_listeners="B://b.example:20",
    )
    assert listeners.advertised_listeners(config) == [Endpoint("B", SecurityProtocol.SASL_SSL, "b.example", 20)]
    assert [each.port for each in listeners.advertised_controller_listeners(config)] == [3]


def test_a_controller_may_be_advertised_elsewhere() -> None:
    config = settings(advertised_listeners="PLAINTEXT://a:1,CONTROLLER://c.example:30")
    assert [each.url for each in listeners.advertised_controller_listeners(config)] == ["CONTROLLER://c.example:30"]
    assert [each.url for each in listeners.advertised_listeners(config)] == ["PLAINTEXT://a:1"]


def test_two_listeners_may_share_a_port_only_as_ipv4_and_ipv6() -> None:
    names = "A:PLAINTEXT,B:PLAINTEXT,CONTROLLER:PLAINTEXT"
    both = settings(listeners="A://127.0.0.1:1,B://[::1]:1", listener_security_protocol_map=names)
    assert [each.port for each in listeners.listeners(both)] == [1, 1]
    with pytest.raises(ConfigError, match="different port"):
        listeners.listeners(settings(listeners="A://127.0.0.1:1,B://127.0.0.2:1", listener_security_protocol_map=names))


def test_a_controller_listener_is_plaintext_by_itself_unless_tls_or_sasl_is_in_use() -> None:
    assert listeners.protocol_map(settings())["CONTROLLER"] is PLAINTEXT
    assert "CONTROLLER" not in listeners.protocol_map(settings(listeners="SSL://127.0.0.1:1"))
    explicit = settings(listener_security_protocol_map="PLAINTEXT:PLAINTEXT")
    assert listeners.protocol_map(explicit) == {"PLAINTEXT": PLAINTEXT}


@pytest.mark.parametrize(
    ("changes", "name"),
    [
        ({}, "PLAINTEXT"),
        ({"inter_broker_listener_name": "internal"}, "INTERNAL"),
        (
            {"listeners": "IN://127.0.0.1:1", "listener_security_protocol_map": "IN:PLAINTEXT,CONTROLLER:PLAINTEXT"},
            "IN",
        ),
        (
            {
                "listeners": "IN://127.0.0.1:1,PLAINTEXT://127.0.0.1:2",
                "listener_security_protocol_map": "IN:PLAINTEXT,PLAINTEXT:PLAINTEXT",
            },
            "PLAINTEXT",
        ),
    ],
)
def test_brokers_use_the_listener_that_is_named_or_fits(changes: dict[str, object], name: str) -> None:
    assert listeners.inter_broker_listener_name(settings(**changes)) == name


def test_voters_and_peers_are_read() -> None:
    config = settings(controller_quorum_voters="1@a:1,2@[::1]:2", kvorum_peer_addresses="1=127.0.0.1:10, 2=[::1]:20")
    assert listeners.voters(config) == {1: ("a", 1), 2: ("::1", 2)}
    assert listeners.peer_addresses(config) == {1: ("127.0.0.1", 10), 2: ("::1", 20)}
    assert listeners.voters(settings()) == listeners.peer_addresses(settings()) == {}


@pytest.mark.parametrize("text", ["1=a", "a=b:1", "1:2", "1=b:99999", "1=::1:5"])
def test_a_broken_peer_address_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="ID=HOST:PORT"):
        listeners.peer_addresses(settings(kvorum_peer_addresses=text))


@pytest.mark.parametrize(
    ("changes", "broker", "controller"),
    [
        ({}, None, None),
        ({"metrics_listener": "http://127.0.0.1:19291"}, ("127.0.0.1", 19291), ("127.0.0.1", 19391)),
        ({"metrics_listener": "http://127.0.0.1:0"}, ("127.0.0.1", 0), ("127.0.0.1", 0)),
        ({"metrics_listener": ":5", "kvorum_controller_metrics_listener": "http://h:6/"}, ("127.0.0.1", 5), ("h", 6)),
        ({"process_roles": "controller", "metrics_listener": "http://h:7"}, None, ("h", 7)),
    ],
)
def test_each_process_has_its_own_metrics_listener(
    changes: dict[str, object], broker: tuple[str, int] | None, controller: tuple[str, int] | None
) -> None:
    config = settings(**changes)
    if "process_roles" not in changes:
        assert listeners.metrics_listener(config, "broker") == (HttpEndpoint(*broker) if broker else None)
    assert listeners.metrics_listener(config, "controller") == (HttpEndpoint(*controller) if controller else None)


def test_admin_listeners_are_urls() -> None:
    config = settings(admin_listeners="http://127.0.0.1:18080,http://[::1]:0")
    assert [each.url for each in listeners.admin_listeners(config)] == ["http://127.0.0.1:18080", "http://[::1]:0"]
