"""A security configuration that cannot work is refused before the start: one line with key, reason and advice."""

from pathlib import Path

import pytest

from kvorum.runtime.config import ConfigError, Settings
from kvorum.runtime.listeners import SecurityProtocol
from kvorum.security.config_checks import check_security, is_host_of, warnings_of
from kvorum.security.oauth.config_keys import KEYS_URL
from kvorum.security.settings import ListenerSettings
from tests.certificates import Authority

PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"
SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule"
LOGIN = f'{PLAIN} required username="node" password="s3cret" user_node="s3cret";'
MECHANISMS = "listener.name.inside.sasl.enabled.mechanisms"
JAAS = "listener.name.inside.plain.sasl.jaas.config"


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("certificates"))


@pytest.fixture(scope="module")
def sound(authority: Authority) -> dict[str, object]:
    """Return a sound combined node: CONTROLLER over mTLS, INSIDE over SASL_SSL."""
    return {
        "process.roles": "broker,controller",
        "node.id": 1,
        "listeners": "INSIDE://127.0.0.1:1,CONTROLLER://127.0.0.1:2",
        "controller.listener.names": "CONTROLLER",
        "controller.quorum.voters": "1@127.0.0.1:2",
        "listener.security.protocol.map": "INSIDE:SASL_SSL,CONTROLLER:SSL",
        "inter.broker.listener.name": "INSIDE",
        "sasl.mechanism.inter.broker.protocol": "PLAIN",
        MECHANISMS: "PLAIN,SCRAM-SHA-512",
        JAAS: LOGIN,
        "listener.name.controller.ssl.client.auth": "required",
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(authority.issue("node-1")),
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(authority.file),
    }


HTTPS: dict[str, object] = {"metrics.listener": "https://127.0.0.1:3"}
HTTP_KEYSTORE, HTTP_TRUSTSTORE = (f"listener.name.http.ssl.{kind}.location" for kind in ("keystore", "truststore"))
USERS: dict[str, object] = {"kvorum.admin.roles": "User:alice=admin"}


def test_a_sound_node_passes_without_a_warning(sound: dict[str, object]) -> None:
    assert check_security(Settings.of(sound)) == []


def test_https_with_users_passes_without_a_warning(sound: dict[str, object]) -> None:
    assert check_security(Settings.of(sound | HTTPS | USERS | {"admin.listeners": "https://127.0.0.1:4"})) == []


def test_a_certificate_for_another_host_causes_a_warning(sound: dict[str, object]) -> None:
    other = sound | {"advertised.listeners": "INSIDE://kafka-1.example:1,CONTROLLER://127.0.0.1:2"}
    (warning,) = check_security(Settings.of(other))
    assert "for localhost, 127.0.0.1; make one with: kvorum certs node NAME --host kafka-1.example" in warning


@pytest.mark.parametrize(
    ("host", "is_accepted"),
    [("kafka-1.example", True), ("KAFKA-1.example", True), ("a.b.example", False), ("b", True), ("10.0.0.1", True)],
)
def test_a_wildcard_stands_for_one_label(host: str, is_accepted: bool) -> None:
    assert is_host_of(host, ("*.example", "b", "10.0.0.1")) is is_accepted


def test_a_broker_checks_the_controllers_listener_that_it_connects_to(sound: dict[str, object]) -> None:
    broker = sound | {"process.roles": "broker", "listeners": "INSIDE://127.0.0.1:1"}
    assert check_security(Settings.of(broker)) == []
    wrong = broker | {"listener.name.controller.ssl.truststore.location": "/does/not/exist"}
    with pytest.raises(ConfigError, match=r"listener.name.controller.ssl.truststore.location=/does/not/exist"):
        check_security(Settings.of(wrong))


@pytest.mark.parametrize(
    ("change", "key", "reason"),
    [
        ({"ssl.keystore.location": None}, "ssl.keystore.location", "is not set"),
        ({"ssl.keystore.location": "/no/such.pem"}, "ssl.keystore.location", "/no/such.pem cannot be read"),
        ({"ssl.keystore.type": "PKCS12"}, "ssl.keystore.location", "ssl.keystore.password"),
        ({"ssl.truststore.location": "/no/ca.pem"}, "ssl.truststore.location", "/no/ca.pem cannot be read"),
        ({"ssl.cipher.suites": "TLS_NONE"}, "ssl.cipher.suites", "TLS_NONE is not supported"),
        ({"ssl.principal.mapping.rules": "RULE:("}, "ssl.principal.mapping.rules", "RULE:("),
        ({JAAS: None}, JAAS, "is not set"),
        ({JAAS: "nonsense"}, JAAS, "control flag"),
        ({JAAS: LOGIN.replace(PLAIN, SCRAM)}, JAAS, "PLAIN requires"),
        ({JAAS: f'{PLAIN} required user_node="s3cret";'}, JAAS, "has no username"),
        ({JAAS: LOGIN.replace('user_node="s3cret"', "")}, JAAS, "add user_node"),
        ({MECHANISMS: ""}, MECHANISMS, "at least one mechanism"),
        ({MECHANISMS: "PLAIN,MD5"}, MECHANISMS, "MD5 is not supported"),
        ({MECHANISMS: "SCRAM-SHA-512"}, MECHANISMS, "does not contain PLAIN"),
        ({"sasl.mechanism.inter.broker.protocol": "SCRAM-SHA-512"}, JAAS.replace("plain", "scram-sha-512"), "not set"),
        ({"super.users": "node"}, "super.users", "User:NAME"),
        (HTTPS | {"listener.name.http.ssl.keystore.location": "/no.pem"}, HTTP_KEYSTORE, "/no.pem cannot be read"),
        (HTTPS | {"listener.name.http.ssl.truststore.location": "/no.pem"}, HTTP_TRUSTSTORE, "/no.pem cannot be read"),
        (USERS | {"sasl.oauthbearer.jwks.endpoint.url": "file:/no/keys"}, KEYS_URL, "/no/keys cannot be read"),
    ],
)
def test_settings_that_cannot_work_are_refused(
    sound: dict[str, object], change: dict[str, object], key: str, reason: str
) -> None:
    with pytest.raises(ConfigError) as error:
        check_security(Settings.of({name: text for name, text in (sound | change).items() if text is not None}))
    assert (error.value.key, reason in error.value.reason) == (key, True), str(error.value)
    assert "s3cret" not in str(error.value) and "\n" not in str(error.value)


def test_a_chain_of_another_authority_is_refused(sound: dict[str, object], tmp_path: Path) -> None:
    other = Authority(tmp_path, "other-ca")
    with pytest.raises(ConfigError, match=r"does not verify with ssl\.truststore"):
        check_security(Settings.of(sound | {"ssl.truststore.location": str(other.file)}))


@pytest.mark.parametrize(
    ("change", "warning"),
    [
        ({"sasl.jaas.config": LOGIN}, "sasl.jaas.config is ignored"),
        ({"listener.name.inside.sasl.jaas.config": LOGIN}, "listener.name.inside.sasl.jaas.config is ignored"),
        ({"ssl.client.auth": "required"}, "ssl.client.auth is ignored for listener INSIDE"),
        ({"listener.name.controller.ssl.client.auth": "none"}, "every client can act as a node"),
        (
            {
                **USERS,
                "admin.listeners": "https://127.0.0.1:3",
                "listeners": "INSIDE://127.0.0.1:1,CONTROLLER://127.0.0.1:2,OPEN://127.0.0.1:4",
                "listener.security.protocol.map": "INSIDE:SASL_SSL,CONTROLLER:SSL,OPEN:PLAINTEXT",
                "inter.broker.listener.name": "OPEN",
            },
            "the admin API cannot check passwords",
        ),
    ],
)
def test_unwise_settings_cause_warnings(sound: dict[str, object], change: dict[str, object], warning: str) -> None:
    (found,) = check_security(Settings.of(sound | change))
    assert warning in found and "s3cret" not in found


def test_client_certificates_without_a_trust_store_cause_a_warning(sound: dict[str, object]) -> None:
    settings = Settings.of(sound | {"listener.name.inside.ssl.client.auth": "required"})
    listener = ListenerSettings(settings, "INSIDE", SecurityProtocol.SASL_SSL)
    assert not any("public CAs" in warning for warning in warnings_of(settings, [listener], set()))
    bare = settings.with_overrides({"ssl.truststore.location": None, "ssl.truststore.type": None})
    listener = ListenerSettings(bare, "INSIDE", SecurityProtocol.SASL_SSL)
    (warning,) = warnings_of(bare, [listener], set())
    assert warning.startswith("listener INSIDE: ssl.client.auth=required without ssl.truststore.location: certificates")
