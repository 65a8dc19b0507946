"""The table client x mechanism: each client produces 100 records and consumes them."""

from pathlib import Path

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


DOCUMENT = Path(__file__).parents[3] / "docs" / "security.md"


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


def test_the_documented_table_is_that_of_the_tests() -> None:
    table = DOCUMENT.read_text().partition("\n## Clients\n")[2].partition("\n- ")[0]
    header, _, *rows = [
        [cell.strip() for cell in line.strip("|").split("|")] for line in table.splitlines() if line.startswith("|")
    ]
    assert header == ["client", *("mTLS" if column == "MTLS" else column for column in COLUMNS)]
    assert rows == [
        [name, *("no" if column in client.unsupported else "yes" for column in COLUMNS)]
        for name, client in CLIENTS.items()
    ]
