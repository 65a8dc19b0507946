"""Clients that must not be served: the error in the client, and the log line and the metric of the server."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import pytest

from tests.certificates import Authority
from tests.cluster.clients import eventually
from tests.cluster.secure_clients.client_programs import CLIENTS, ClientPrograms
from tests.cluster.secure_clients.secure_node import USER, SecureNode

pytestmark = pytest.mark.long
DAY = timedelta(days=1)


@dataclass(frozen=True, slots=True)
class Failure:
    """A wrong setting of a client, or of the listener that it connects to; regular expressions of the outcome."""

    listener: str
    mechanism: str | None
    line: str
    """In the server's log."""
    is_alert: bool = False
    """The line has the client's alert; SILENT clients send none."""


SILENT = ("aiokafka", "kafkajs")
"""Clients that close the connection without an alert when they reject a certificate."""
CLOSED = "TLS handshake failed .*the peer closed the connection"
LOGIN = "authentication failed .*mechanism={} .*reason="
ALERT = r"TLS handshake failed .*the peer (rejected|does not trust|found) .*\(alert {}\)"
OWN = "TLS handshake failed .*{}"
FAILURES = {
    "wrong password": Failure("SASL", "SCRAM-SHA-512", LOGIN.format("SCRAM-SHA-512") + '"wrong password of user'),
    "unknown user": Failure("SASL", "PLAIN", LOGIN.format("PLAIN") + ".*Invalid username or password: user 'mallory'"),
    "wrong CA": Failure(
        "SASL", "PLAIN", ALERT.format("(unknown_ca|bad_certificate|certificate_unknown)"), is_alert=True
    ),
    "expired": Failure(
        "EXPIRED", "PLAIN", ALERT.format("(certificate_expired|bad_certificate|certificate_unknown)"), is_alert=True
    ),
    "wrong host": Failure("OTHERHOST", "PLAIN", ALERT.format("(bad_certificate|certificate_unknown)"), is_alert=True),
    "no certificate": Failure("MTLS", None, OWN.format("the client sent no certificate")),
    "own of another CA": Failure("MTLS", None, OWN.format("does not verify: unable to get local issuer certificate")),
    "own expired": Failure("MTLS", None, OWN.format("does not verify: certificate has expired")),
}
INVALID_SCRAM = "invalid credentials with SASL mechanism SCRAM-SHA-512"
INVALID_PLAIN = "Authentication failed: Invalid username or password"
LIBRDKAFKA_TLS = "certificate verify failed"
KAFKA_PYTHON = dict.fromkeys(FAILURES, ("KafkaTimeoutError", "Unable to bootstrap"))
AIOKAFKA = dict.fromkeys(FAILURES, ("KafkaConnectionError", "Unable to bootstrap"))
JAVA = "org.apache.kafka.common.errors."
SEEN: Mapping[str, Mapping[str, tuple[str, str]]] = {
    "java": {
        "wrong password": (f"{JAVA}SaslAuthenticationException", INVALID_SCRAM),
        "unknown user": (f"{JAVA}SaslAuthenticationException", INVALID_PLAIN),
        "wrong CA": (f"{JAVA}SslAuthenticationException", "PKIX path"),
        "expired": (f"{JAVA}SslAuthenticationException", "validity check failed|NotAfter"),
        "wrong host": (f"{JAVA}SslAuthenticationException", "No .*name matching localhost found"),
        "no certificate": (f"{JAVA}SslAuthenticationException", "alert: certificate_required"),
        "own of another CA": (f"{JAVA}SslAuthenticationException", "alert: unknown_ca"),
        "own expired": (f"{JAVA}SslAuthenticationException", "alert: certificate_expired"),
    },
    "librdkafka": {
        "wrong password": ("_AUTHENTICATION", INVALID_SCRAM),
        "unknown user": ("_AUTHENTICATION", INVALID_PLAIN),
        "wrong CA": ("_SSL", LIBRDKAFKA_TLS),
        "expired": ("_SSL", LIBRDKAFKA_TLS),
        "wrong host": ("_SSL", LIBRDKAFKA_TLS),
        "no certificate": ("_TRANSPORT", "alert certificate required"),
        "own of another CA": ("_TRANSPORT", "alert unknown ca"),
        "own expired": ("_TRANSPORT", "alert certificate expired"),
    },
    "kafka-python": KAFKA_PYTHON,
    "aiokafka": AIOKAFKA,
    "franz-go": {
        "wrong password": ("*kerr.Error", INVALID_SCRAM),
        "unknown user": ("*kerr.Error", INVALID_PLAIN),
        "wrong CA": ("x509.UnknownAuthorityError", "signed by unknown authority"),
        "expired": ("x509.CertificateInvalidError", "certificate has expired"),
        "wrong host": ("x509.HostnameError", "valid for other.example, not localhost"),
        "no certificate": ("tls.alert", "certificate required"),
        "own of another CA": ("tls.alert", "unknown certificate authority"),
        "own expired": ("tls.alert", "expired certificate"),
    },
    "sarama": {
        "wrong password": ("*errors.errorString", INVALID_SCRAM),
        "unknown user": ("*errors.errorString", INVALID_PLAIN),
        "wrong CA": ("x509.UnknownAuthorityError", "signed by unknown authority"),
        "expired": ("x509.CertificateInvalidError", "certificate has expired"),
        "wrong host": ("x509.HostnameError", "valid for other.example, not localhost"),
        "no certificate": ("tls.alert", "certificate required"),
        "own of another CA": ("tls.alert", "unknown certificate authority"),
        "own expired": ("tls.alert", "expired certificate"),
    },
    "kafkajs": {
        "wrong password": ("KafkaJSSASLAuthenticationError", INVALID_SCRAM),
        "unknown user": ("KafkaJSSASLAuthenticationError", INVALID_PLAIN),
        "wrong CA": ("KafkaJSNumberOfRetriesExceeded", "unable to verify the first certificate"),
        "expired": ("KafkaJSNumberOfRetriesExceeded", "certificate has expired"),
        "wrong host": ("KafkaJSNumberOfRetriesExceeded", "Host: localhost. is not"),
        "no certificate": ("KafkaJSNumberOfRetriesExceeded", "alert certificate required"),
        "own of another CA": ("KafkaJSNumberOfRetriesExceeded", "alert unknown ca"),
        "own expired": ("KafkaJSNumberOfRetriesExceeded", "alert certificate expired"),
    },
    "kcat": {
        "wrong password": ("exit code 1", INVALID_SCRAM),
        "unknown user": ("exit code 1", INVALID_PLAIN),
        "wrong CA": ("exit code 1", LIBRDKAFKA_TLS),
        "expired": ("exit code 1", LIBRDKAFKA_TLS),
        "wrong host": ("exit code 1", LIBRDKAFKA_TLS),
        "no certificate": ("exit code 1", "alert certificate required"),
        "own of another CA": ("exit code 1", "alert unknown ca"),
        "own expired": ("exit code 1", "alert certificate expired"),
    },
}
"""Class and text of the error in each client. The Python clients do not pass the reason on; their logs have it."""


@pytest.fixture(scope="module")
def stranger(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    """Return a CA that is not in any trust store."""
    return Authority(tmp_path_factory.mktemp("stranger"), "stranger")


def change_of(failure: str, node: SecureNode, stranger: Authority) -> dict[str, Any]:
    """Return the wrong setting of the client."""
    match failure:
        case "wrong password":
            return {"password": "wrong"}
        case "unknown user":
            return {"username": "mallory"}
        case "wrong CA":
            return {"ca": str(stranger.file)}
        case "no certificate":
            return {"certificate": None}
        case "own of another CA":
            return {"certificate": str(stranger.issue(USER))}
        case "own expired":
            return {"certificate": str(node.authority.issue(USER, "expired-client", DAY, age=2 * DAY))}
    return {}


@pytest.mark.parametrize("failure", FAILURES)
@pytest.mark.parametrize("client", CLIENTS)
def test_a_failure_is_shown_on_both_sides(
    node: SecureNode, programs: ClientPrograms, stranger: Authority, client: str, failure: str
) -> None:
    expected = FAILURES[failure]
    listener, pattern = expected.listener, CLOSED if expected.is_alert and client in SILENT else expected.line
    request = node.request(listener, expected.mechanism, **change_of(failure, node, stranger))
    lines, count = len(node.log_lines()), node.failures(listener)
    answer = programs.run(client, {**request, "topic": "refused", "values": ["x"]}, node.environment)
    kind, text = SEEN[client][failure]
    assert answer.kind == kind and re.search(text, answer.text, re.S), answer

    def found() -> list[str]:
        new = [line for line in node.log_lines()[lines:] if f"listener={listener}" in line]
        return [line for line in new if re.search(pattern, line)]

    eventually(found, lambda: f"a line like {pattern}: {node.log_lines()[lines:]}", 10)
    assert node.failures(listener) > count
