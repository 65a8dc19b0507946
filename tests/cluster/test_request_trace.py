"""A request trace that is switched on and off in a running broker by an unmodified admin client."""

import json
from pathlib import Path

import pytest
from confluent_kafka import KafkaException, Producer
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType

from kvorum.cluster.local import LocalCluster
from tests.cluster.clients import create_topic, eventually
from tests.cluster.conftest import Start

pytestmark = pytest.mark.cluster
KEY = "kvorum.request.trace"


def wish(bootstrap: str, value: str) -> None:
    """Set the trace of broker 1. Raises KafkaException."""
    entry = ConfigEntry(KEY, value, incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ResourceType.BROKER, "1", incremental_configs=[entry])
    admin = AdminClient({"bootstrap.servers": bootstrap})
    for future in admin.incremental_alter_configs([resource]).values():
        future.result(30)


def lines(cluster: LocalCluster) -> list[dict[str, object]]:
    """Return the broker's log, a JSON object a line."""
    log = Path(cluster.node(cluster.plan.nodes[0].name).log("broker"))
    return [json.loads(line) for line in log.read_text().splitlines() if line.startswith("{")]


def traced(cluster: LocalCluster) -> list[dict[str, object]]:
    return [line for line in lines(cluster) if line["message"] == "request traced"]


def test_a_clients_requests_are_traced_until_the_count_is_used_up(start_cluster: Start) -> None:
    cluster = start_cluster("single.yaml", environment={"KVORUM_LOG_FORMAT": "json"})
    bootstrap = cluster.plan.bootstrap
    create_topic(bootstrap, "orders", 1, 1)
    with pytest.raises(KafkaException, match="client-id=NAME"):
        wish(bootstrap, "everybody")
    wish(bootstrap, "client-id=billing,count=10")
    eventually(lambda: [line for line in lines(cluster) if line["message"] == "request trace"], "the trace begun")
    for client in ("shipping", "billing"):
        producer = Producer({"bootstrap.servers": bootstrap, "client.id": client, "acks": "all"})
        for number in range(10):
            producer.produce("orders", b"%d" % number)
            assert producer.flush(30) == 0
    eventually(lambda: len(traced(cluster)) == 10, lambda: f"ten are traced: {traced(cluster)}")
    found = traced(cluster)
    assert {line["client_id"] for line in found} == {"billing"}
    left = sorted(int(str(line["left"])) for line in found)  # four to six of them before the first Produce
    assert left == [*range(10)]
    assert [line for line in lines(cluster) if line["message"] == "request trace is over"]
    (first, *_) = [line for line in found if line["api"] == "Produce"]
    assert first["errors"] == "NONE:1"
    assert all(float(str(first[stage])) > 0 for stage in ("queue_ms", "decode_ms", "handle_ms", "encode_ms"))
    assert int(str(first["bytes_in"])) > 50 and int(str(first["bytes_out"])) > 20
    wish(bootstrap, "")
    wish(bootstrap, "address=127.0.0.1,count=1")
    admin = AdminClient({"bootstrap.servers": bootstrap})
    eventually(lambda: admin.list_topics(timeout=30) and len(traced(cluster)) == 11, "one more, of anybody here")
