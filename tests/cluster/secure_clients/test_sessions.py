"""Sessions that end after some seconds (connections.max.reauth.ms), and clients that produce for longer."""

import pytest

from kvorum.runtime import metric_names as names
from tests.cluster.secure_clients.client_programs import ClientPrograms
from tests.cluster.secure_clients.secure_node import SESSION_MS, SecureNode

pytestmark = pytest.mark.long
SECONDS = 2.5 * SESSION_MS / 1000
RECORDS = 50
LATENCY_MS_MAX = 60_000
WITHOUT_REAUTHENTICATION = frozenset({"aiokafka"})
"""Clients that connect again when the server has closed the connection after the end of the session.

kafkajs is not here: sessions shorter than its reauthenticationThreshold (10 s) are renewed with each request.
"""
METRICS = (names.SUCCESSFUL_REAUTHENTICATION, names.FAILED_REAUTHENTICATION, names.EXPIRED_CONNECTIONS_KILLED)


@pytest.mark.parametrize("client", ["java", "librdkafka", "franz-go", "sarama", "kafka-python", "aiokafka"])
def test_a_client_outlives_its_session(node: SecureNode, programs: ClientPrograms, client: str) -> None:
    topic = f"sessions-of-{client}"
    values = [f"{topic}-{number}" for number in range(RECORDS)]
    node.create_topic(topic)
    before = [node.metric(name, "SESSIONS") for name in METRICS]
    request = node.request("SESSIONS", "SCRAM-SHA-512", topic=topic, values=values, seconds=SECONDS)
    answer = programs.run(client, request, node.environment)
    again, failed, killed = (node.metric(name, "SESSIONS") - old for name, old in zip(METRICS, before, strict=True))
    assert (answer.kind, answer.text, answer.values) == ("", "", values)
    assert failed == 0
    if client in WITHOUT_REAUTHENTICATION:
        assert again == 0 < killed
    else:
        assert killed == 0 < again
        assert 0 < node.metric(names.REAUTHENTICATION_LATENCY_AVG, "SESSIONS") < LATENCY_MS_MAX
