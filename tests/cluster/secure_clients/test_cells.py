"""The table client x mechanism: each client produces 100 records and consumes them."""

import pytest

from tests.cluster.secure_clients.client_programs import CLIENTS, ClientPrograms
from tests.cluster.secure_clients.secure_node import MECHANISMS, SecureNode
from tests.unit.security.kerberos_realm import missing_tool

RECORDS = 100
COLUMNS = ("PLAINTEXT", "SSL", "MTLS", *MECHANISMS)
"""Listeners without SASL, and mechanisms over SASL_SSL."""
FAST = frozenset(
    {("librdkafka", "MTLS"), ("kafka-python", "SCRAM-SHA-512"), ("aiokafka", "OAUTHBEARER"), ("kcat", "GSSAPI")}
)
"""Cells of each run; the others are long."""


def cells() -> list[object]:
    return [
        pytest.param(name, column, marks=() if (name, column) in FAST else pytest.mark.long)
        for name, client in CLIENTS.items()
        for column in COLUMNS
        if column not in client.unsupported
    ]


@pytest.mark.parametrize(("client", "column"), cells())
def test_a_client_produces_and_consumes(node: SecureNode, programs: ClientPrograms, client: str, column: str) -> None:
    if column == "GSSAPI" and missing_tool() is not None:
        pytest.skip(missing_tool() or "")
    if column not in MECHANISMS:
        request = node.request(column)
    elif (client, column) == ("kcat", "OAUTHBEARER"):  # Debian's has unsigned tokens only
        request = node.request("UNSIGNED", column)
    else:
        request = node.request("SASL", column)
    topic = f"{client}-{column}"
    values = [f"{topic}-{number}" for number in range(RECORDS)]
    node.create_topic(topic)
    answer = programs.run(client, {**request, "topic": topic, "values": values}, node.environment)
    assert (answer.kind, answer.text) == ("", "")
    assert answer.values == values
