"""Clients that must not be served: the error in the client, and the log line and the metric of the server."""

import re
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
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
    """A wrong setting of a client, or of the listener that it connects to."""

    listener: str
    mechanism: str | None
    line: str
    """Regular expression of the server's log line."""


LOGIN = "authentication failed .*mechanism={} .*reason=.*"
REJECTED = r"TLS handshake failed .*reason=.*the peer (rejected|does not trust|found) .*\(alert {}\)"
FAILURES = {
    "wrong password": Failure("SASL", "SCRAM-SHA-512", LOGIN.format("SCRAM-SHA-512")),
    "unknown user": Failure("SASL", "PLAIN", LOGIN.format("PLAIN")),
    "wrong CA": Failure("SASL", "PLAIN", REJECTED.format("(unknown_ca|bad_certificate|certificate_unknown)")),
    "expired certificate": Failure(
        "EXPIRED", "PLAIN", REJECTED.format("(certificate_expired|bad_certificate|certificate_unknown)")
    ),
    "wrong host name": Failure("OTHERHOST", "PLAIN", REJECTED.format("(bad_certificate|certificate_unknown)")),
    "no certificate": Failure("MTLS", None, "TLS handshake failed .*the client sent no certificate"),
    "certificate of another CA": Failure(
        "MTLS", None, "TLS handshake failed .*the peer's certificate does not verify: unable to get"
    ),
    "expired certificate of the client": Failure(
        "MTLS", None, "TLS handshake failed .*the peer's certificate does not verify: certificate has expired"
    ),
}


@pytest.fixture(scope="module")
def stranger(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    """Return a CA that nobody trusts."""
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
        case "certificate of another CA":
            return {"certificate": str(stranger.issue(USER))}
        case "expired certificate of the client":
            return {"certificate": str(node.authority.issue(USER, "expired-client", DAY, age=2 * DAY))}
    return {}


@pytest.mark.parametrize("failure", FAILURES)
@pytest.mark.parametrize("client", CLIENTS)
def test_a_failure_is_shown_on_both_sides(
    node: SecureNode, programs: ClientPrograms, stranger: Authority, client: str, failure: str
) -> None:
    listener, expected = FAILURES[failure].listener, FAILURES[failure]
    request = node.request(listener, expected.mechanism, **change_of(failure, node, stranger))
    lines, count = len(node.log_lines()), node.failures(listener)
    answer = programs.run(client, {**request, "topic": "refused", "values": ["x"]}, node.environment)
    found = [line for line in node.log_lines()[lines:] if "failed" in line or "closed" in line]
    with Path("/tmp/table24/measured").open("a") as file:
        print(
            client,
            "|",
            failure,
            "|",
            answer.kind,
            "|",
            repr(answer.text),
            "|",
            node.failures(listener) - count,
            "|",
            found[:2],
            file=file,
        )
    assert answer.kind
    eventually(
        lambda: [
            line
            for line in node.log_lines()[lines:]
            if re.search(expected.line, line) and f"listener={listener}" in line
        ],
        lambda: f"a line like {expected.line}: {node.log_lines()[lines:]}",
        10,
    )
    assert node.failures(listener) > count
