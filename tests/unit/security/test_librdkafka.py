"""Properties of Java clients serve librdkafka too; confluent_kafka itself is the judge of the names."""

from pathlib import Path

import pytest
import trustme
from confluent_kafka import Producer

from kvorum.runtime.config import ConfigError
from kvorum.security.librdkafka import librdkafka_security

LOGIN = 'org.apache.kafka.common.security.scram.ScramLoginModule required username="u" password="p\\"w";'


@pytest.fixture(scope="module")
def stores(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder, ca = tmp_path_factory.mktemp("stores"), trustme.CA()
    ca.cert_pem.write_to_path(str(folder / "ca.pem"))
    leaf = ca.issue_cert("client.example")
    key = leaf.private_key_pem.bytes().decode()
    if "BEGIN RSA" in key or "BEGIN EC" in key:
        from cryptography.hazmat.primitives import serialization

        loaded = serialization.load_pem_private_key(key.encode(), None)
        form = (serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
        key = loaded.private_bytes(*form).decode()
    (folder / "client.pem").write_text(key + "".join(each.bytes().decode() for each in leaf.cert_chain_pems))
    return folder


def accepted(properties: dict[str, str]) -> dict[str, str]:
    """Return the properties for librdkafka after it has accepted them."""
    found = librdkafka_security(properties)
    Producer({**found, "bootstrap.servers": "127.0.0.1:1", "log_level": 0})
    return found


def test_a_login_becomes_user_and_password() -> None:
    found = accepted(
        {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "SCRAM-SHA-512", "sasl.jaas.config": LOGIN}
    )
    assert found == {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "SCRAM-SHA-512",
        "sasl.username": "u",
        "sasl.password": 'p"w',
    }


def test_stores_in_pem_are_the_files(stores: Path) -> None:
    found = accepted(
        {
            "security.protocol": "SSL",
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": str(stores / "ca.pem"),
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": str(stores / "client.pem"),
            "ssl.endpoint.identification.algorithm": "",
        }
    )
    assert found == {
        "security.protocol": "SSL",
        "ssl.ca.location": str(stores / "ca.pem"),
        "ssl.certificate.location": str(stores / "client.pem"),
        "ssl.key.location": str(stores / "client.pem"),
        "ssl.endpoint.identification.algorithm": "none",
    }


def test_properties_of_librdkafka_pass(stores: Path) -> None:
    found = accepted(
        {
            "security.protocol": "sasl_ssl",
            "sasl.mechanisms": "PLAIN",
            "sasl.username": "u",
            "sasl.password": "p",
            "ssl.ca.location": str(stores / "ca.pem"),
            "enable.ssl.certificate.verification": "false",
        }
    )
    assert (found["sasl.username"], found["sasl.password"], found["sasl.mechanism"]) == ("u", "p", "PLAIN")
    assert (found["ssl.ca.location"], found["security.protocol"]) == (str(stores / "ca.pem"), "SASL_SSL")


def test_a_delegation_token_is_refused_with_the_reason() -> None:
    login = LOGIN.replace("required", 'required tokenauth="true"')
    with pytest.raises(ConfigError, match="librdkafka does not support delegation tokens"):
        librdkafka_security(
            {"security.protocol": "SASL_SSL", "sasl.mechanism": "SCRAM-SHA-256", "sasl.jaas.config": login}
        )


def test_other_properties_are_left_alone() -> None:
    assert librdkafka_security({"acks": "all", "bootstrap.servers": "a:1"}) == {}
