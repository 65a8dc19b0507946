"""A request trace that is switched on and off in a running broker by an unmodified admin client."""

import json
from pathlib import Path

import pytest
from confluent_kafka import KafkaException, Producer
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, NewTopic, ResourceType

from kvorum.cluster.local.local import LocalCluster
from tests.cluster.clients import create_topic, eventually
from tests.cluster.conftest import Start

KEY = "kvorum.request.trace"


def wish(bootstrap: str, value: str) -> None:
    """Set the trace of broker 1. Raises KafkaException."""
    entry = ConfigEntry(KEY, value, incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ResourceType.BROKER, "1", incremental_configs=[entry])
    admin = AdminClient({"bootstrap.servers": bootstrap})
    for future in admin.incremental_alter_configs([resource]).values():
        future.result(30)


def lines(cluster: LocalCluster, role: str = "broker") -> list[dict[str, object]]:
    """Return the log of the broker, or the controller, a JSON object a line."""
    log = Path(cluster.node(cluster.plan.nodes[0].name).log(role))
    return [json.loads(line) for line in log.read_text().splitlines() if line.startswith("{")]


def traced(cluster: LocalCluster, role: str = "broker") -> list[dict[str, object]]:
    return [line for line in lines(cluster, role) if line["message"] == "request traced"]


def test_a_clients_requests_are_traced_until_the_count_is_used_up(start_cluster: Start) -> None:
    cluster = start_cluster("single.yaml", environment={"KVORUM_LOG_FORMAT": "json"})
    bootstrap = cluster.plan.bootstrap
    create_topic(bootstrap, "orders", 1, 1)
    with pytest.raises(KafkaException, match="client-id=NAME"):
        wish(bootstrap, "everybody")
    wish(bootstrap, "client-id=billing,count=10")
    eventually(
        lambda: [line for line in lines(cluster) if line["message"] == "request trace configured"], "the trace begun"
    )
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
    assert [line for line in lines(cluster) if line["message"] == "request trace ended"]
    (first, *_) = [line for line in found if line["api"] == "Produce"]
    assert first["errors"] == "NONE:1"
    assert all(float(str(first[stage])) > 0 for stage in ("queue_ms", "decode_ms", "handle_ms", "encode_ms"))
    assert int(str(first["bytes_in"])) > 50 and int(str(first["bytes_out"])) > 20
    wish(bootstrap, "")
    wish(bootstrap, "address=127.0.0.1,count=1")
    admin = AdminClient({"bootstrap.servers": bootstrap})
    eventually(lambda: admin.list_topics(timeout=30) and len(traced(cluster)) == 11, "one more, of anybody here")
    assert_a_forwarded_request_is_traced_on_both_sides(cluster)


def assert_a_forwarded_request_is_traced_on_both_sides(cluster: LocalCluster) -> None:
    """CreateTopics, which a broker passes on: its correlation id leads from the broker's line to the controller's."""
    bootstrap = cluster.plan.bootstrap
    begun = len([line for line in lines(cluster, "controller") if line["message"] == "request trace configured"])
    wish(bootstrap, "client-id=maker")
    for role in ("broker", "controller"):
        eventually(
            lambda role=role: any(line.get("whose") == "client-id=maker" for line in lines(cluster, role)),
            f"the trace begun on the {role}",
        )
    assert begun > 0, "the controller heeded the others, too"
    maker = AdminClient({"bootstrap.servers": bootstrap, "client.id": "maker"})
    maker.create_topics([NewTopic("made", 1, 1)], operation_timeout=30)["made"].result(30)
    inside = eventually(
        lambda: [line for line in traced(cluster, "controller") if line.get("inside") == "CreateTopics"], "both lines"
    )
    (outside,) = [line for line in traced(cluster) if line["api"] == "CreateTopics"]
    (found,) = inside
    assert (found["api"], found["inside_client_id"], found["inside_client"]) == ("Envelope", "maker", "127.0.0.1")
    assert found["inside_correlation_id"] == outside["correlation_id"]
    assert float(str(found["wait_ms"])) <= float(str(outside["wait_ms"])), "the broker waits for the controller"
