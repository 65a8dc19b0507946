"""Precedence of a listener's security settings (KIP-103), as Apache Kafka has it."""

import pytest

from kvorum.runtime.config import ConfigError, Settings
from kvorum.runtime.listeners import SecurityProtocol
from kvorum.security.principal import Principal
from kvorum.security.settings import ListenerSettings, broker_peer_listener, controller_peer_listener, super_users

JAAS = "org.apache.kafka.common.security.plain.PlainLoginModule required;"


def listener(protocol: SecurityProtocol = SecurityProtocol.SASL_SSL, **configs: object) -> ListenerSettings:
    keys = {key.replace("__", "-").replace("_", "."): value for key, value in configs.items()}
    return ListenerSettings(Settings.of(keys), "CLIENTS", protocol)


def test_a_key_of_listener_and_mechanism_wins_over_the_listeners_and_the_plain_one() -> None:
    plain = {"connections_max_reauth_ms": 1}
    of_listener = plain | {"listener_name_clients_connections_max_reauth_ms": 2}
    of_mechanism = of_listener | {"listener_name_clients_scram__sha__512_connections_max_reauth_ms": 3}
    found = [
        listener(**configs).int("connections.max.reauth.ms", mechanism)
        for configs, mechanism in ((plain, "PLAIN"), (of_listener, "PLAIN"), (of_mechanism, "SCRAM-SHA-512"))
    ]
    assert found == [1, 2, 3]
    assert listener(**of_mechanism).int("connections.max.reauth.ms", "PLAIN") == 2
    assert (
        ListenerSettings(listener(**of_mechanism).settings, "OTHER", SecurityProtocol.SASL_SSL).int(
            "connections.max.reauth.ms", "SCRAM-SHA-512"
        )
        == 1
    )


def test_the_login_of_a_server_counts_with_listener_and_mechanism_only() -> None:
    for key in ("sasl_jaas_config", "listener_name_clients_sasl_jaas_config"):
        assert listener(**{key: JAAS}).optional_str("sasl.jaas.config", "PLAIN") is None
    found = listener(listener_name_clients_plain_sasl_jaas_config=JAAS)
    assert found.optional_str("sasl.jaas.config", "PLAIN") == JAAS
    assert found.optional_str("sasl.jaas.config", "SCRAM-SHA-256") is None


def test_client_auth_of_a_sasl_listener_counts_with_the_listener_only() -> None:
    everywhere, own = {"ssl_client_auth": "required"}, {"listener_name_clients_ssl_client_auth": "required"}
    assert listener(SecurityProtocol.SSL, **everywhere).client_auth == "required"
    assert listener(SecurityProtocol.SASL_SSL, **everywhere).client_auth == "none"
    assert listener(SecurityProtocol.SASL_SSL, **own).client_auth == "required"


def test_clients_of_tls_authenticate_only_if_their_certificates_are_read() -> None:
    assert not listener(SecurityProtocol.PLAINTEXT).is_authenticated
    assert not listener(SecurityProtocol.SSL).is_authenticated
    assert listener(SecurityProtocol.SSL, ssl_client_auth="requested").is_authenticated
    assert listener(SecurityProtocol.SASL_PLAINTEXT).is_authenticated


def test_a_broker_finds_the_settings_of_a_controller_listener_that_it_does_not_have() -> None:
    settings = Settings.of(
        {
            "listeners": "INSIDE://127.0.0.1:1,OUTSIDE://127.0.0.1:2",
            "inter.broker.listener.name": "INSIDE",
            "controller.listener.names": "SAFE,OLD",
            "listener.security.protocol.map": "INSIDE:SASL_SSL,OUTSIDE:SSL,SAFE:SSL,OLD:PLAINTEXT",
            "ssl.keystore.location": "/all",
            "listener.name.safe.ssl.keystore.location": "/safe",
        }
    )
    controller, inside = controller_peer_listener(settings).settings, broker_peer_listener(settings).settings
    assert (controller.protocol, controller.str("ssl.keystore.location")) == (SecurityProtocol.SSL, "/safe")
    assert (inside.protocol, inside.str("ssl.keystore.location")) == (SecurityProtocol.SASL_SSL, "/all")


def test_an_error_names_the_key_in_full_and_hides_secrets() -> None:
    settings = listener(listener_name_clients_ssl_keystore_password="pa55word")
    error = settings.error("ssl.keystore.password", "is wrong")
    assert str(error) == "given: listener.name.clients.ssl.keystore.password=[hidden]: is wrong"
    assert "listener.name.clients.plain.sasl.jaas.config" in str(settings.error("sasl.jaas.config", "missing", "PLAIN"))


def test_super_users_are_separated_by_semicolons() -> None:
    assert super_users(Settings.of({"super.users": "User:CN=a,O=b; User:c"})) == {
        Principal("User", "CN=a,O=b"),
        Principal("User", "c"),
    }
    assert super_users(Settings.of({})) == frozenset()
    with pytest.raises(ConfigError, match="not of the form User:NAME"):
        super_users(Settings.of({"super.users": "alice"}))
