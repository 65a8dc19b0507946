"""Security properties of clients: Java's and librdkafka's names mean the same, a misspelt one is refused."""

from pathlib import Path

import pytest

from kvorum.runtime.config import ConfigError
from kvorum.runtime.listeners import SecurityProtocol
from kvorum.security.client_properties import client_settings, java_properties, shown_properties
from kvorum.security.errors import SecurityConfigError
from kvorum.security.jaas import parse_jaas

SECRET = 'pa"55\\word'


def test_properties_of_java_are_taken_as_they_are() -> None:
    given = {"security.protocol": "SASL_SSL", "ssl.truststore.location": "/ca.p12", "acks": "all"}
    assert java_properties(given) == {"security.protocol": "SASL_SSL", "ssl.truststore.location": "/ca.p12"}


def test_properties_of_librdkafka_mean_the_same(tmp_path: Path) -> None:
    (tmp_path / "crt").write_text("CERTIFICATE")
    (tmp_path / "key").write_text("KEY")
    found = java_properties(
        {
            "security.protocol": "sasl_ssl",
            "sasl.mechanisms": "SCRAM-SHA-512",
            "sasl.username": "alice",
            "sasl.password": SECRET,
            "ssl.ca.location": "/ca.pem",
            "ssl.certificate.location": str(tmp_path / "crt"),
            "ssl.key.location": str(tmp_path / "key"),
            "ssl.endpoint.identification.algorithm": "none",
        }
    )
    module = parse_jaas(found.pop("sasl.jaas.config"))
    assert module.options == {"username": "alice", "password": SECRET}
    assert found == {
        "security.protocol": "sasl_ssl",
        "sasl.mechanism": "SCRAM-SHA-512",
        "ssl.truststore.location": "/ca.pem",
        "ssl.truststore.type": "PEM",
        "ssl.keystore.certificate.chain": "CERTIFICATE",
        "ssl.keystore.key": "KEY",
        "ssl.keystore.type": "PEM",
        "ssl.endpoint.identification.algorithm": "",
    }


def test_settings_have_protocol_and_mechanism() -> None:
    found = client_settings({"security.protocol": "ssl", "enable.ssl.certificate.verification": "False"})
    assert (found.settings.protocol, found.verifies_server) == (SecurityProtocol.SSL, False)
    assert found.settings.str("ssl.endpoint.identification.algorithm") == "https"
    assert client_settings({}).settings.protocol is SecurityProtocol.PLAINTEXT


@pytest.mark.parametrize(
    ("properties", "message"),
    [
        ({"ssl.truststore.locatoin": "/x"}, "did you mean ssl.truststore.location"),
        ({"sasl.mechanizm": "PLAIN"}, "did you mean sasl.mechanism"),
        ({"security.protocol": "TLS"}, "TLS is not one of PLAINTEXT, SSL"),
        ({"sasl.mechanism": "PLAIN", "sasl.username": "u"}, "sasl.password: must be set with sasl.username"),
        ({"sasl.mechanism": "PLAIN", "sasl.mechanisms": "PLAIN"}, "the same meaning"),
        ({"ssl.key.location": "/does/not/exist"}, "ssl.key.location: /does/not/exist cannot be read"),
        ({"sasl.password": "${env:KVORUM_NO_SUCH}", "sasl.username": "u"}, "KVORUM_NO_SUCH is not set"),
        ({"enable.ssl.certificate.verification": "maybe"}, "neither true nor false"),
    ],
)
def test_invalid_properties_are_refused_in_one_line(properties: dict[str, str], message: str) -> None:
    with pytest.raises(ConfigError) as error:
        client_settings(properties)
    assert message in str(error.value) and "\n" not in str(error.value)


def test_a_value_may_refer_to_a_secret(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "secrets.properties").write_text("a=1\nmine=of the file\n")
    (tmp_path / "password").write_text("of the folder\n")
    monkeypatch.setenv("KVORUM_TEST_PASSWORD", "of the environment")
    values = (
        "${env:KVORUM_TEST_PASSWORD}",
        f"${{file:{tmp_path}/secrets.properties:mine}}",
        f"${{directory:{tmp_path}:password}}",
    )
    found = [java_properties({"ssl.key.password": value})["ssl.key.password"] for value in values]
    assert found == ["of the environment", "of the file", "of the folder"]
    with pytest.raises(SecurityConfigError, match="has no key yours"):
        java_properties({"ssl.key.password": f"${{file:{tmp_path}/secrets.properties:yours}}"})


def test_a_client_has_further_config_providers(tmp_path: Path) -> None:
    (tmp_path / "password").write_text("of the folder")
    properties = {
        "config.providers": "mounted",
        "config.providers.mounted.class": "org.apache.kafka.common.config.provider.DirectoryConfigProvider",
        "config.providers.mounted.param.allowed.paths": str(tmp_path),
        "ssl.key.password": f"${{mounted:{tmp_path}:password}}",
    }
    assert java_properties(properties) == {"ssl.key.password": "of the folder"}
    with pytest.raises(SecurityConfigError, match=r"ssl.key.password: .* is not below one of allowed.paths"):
        java_properties(properties | {"ssl.key.password": "${mounted:/etc:passwd}"})
    with pytest.raises(ConfigError, match=r"config.providers.mounted.class: no.Such cannot be loaded"):
        client_settings(properties | {"config.providers.mounted.class": "no.Such"})


def test_secrets_are_hidden_and_references_are_shown() -> None:
    given = {"sasl.password": SECRET, "ssl.key.password": "${env:KEY}", "ssl.key.pem": "KEY", "sasl.username": "u"}
    assert dict(shown_properties(given)) == {
        "sasl.password": "[hidden]",
        "ssl.key.password": "${env:KEY}",
        "ssl.key.pem": "[hidden]",
        "sasl.username": "u",
    }
