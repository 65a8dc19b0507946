"""librdkafka pushes its metrics to where a subscription asks for them, and /metrics tells them (KIP-714)."""

from typing import Any

from confluent_kafka import Producer
from kafka.admin import ConfigResource, ConfigResourceType, KafkaAdminClient

from kvorum.runtime import metric_names as names
from tests.cluster.clients import create_topic, eventually
from tests.cluster.conftest import Start
from tests.cluster.test_observability import scrape, urls

CHOSEN = "client_id=pusher,client_software_name=confluent-kafka-.*"


def subscribe(bootstrap: str, name: str, configs: dict[str, Any]) -> None:
    """Set a subscription, and see that it is listed and described."""
    admin = KafkaAdminClient(bootstrap_servers=bootstrap.split(","))
    try:
        kind = ConfigResourceType.CLIENT_METRICS
        assert admin.alter_configs([ConfigResource(kind, name, configs)]) == {"client_metrics": {name: "OK"}}

        def reported() -> bool:
            found = admin.describe_configs([ConfigResource(kind, name)])["client_metrics"][name]
            return {key: each["value"] for key, each in found.items()} == configs

        eventually(reported, "the subscription")
        assert admin.list_config_resources(["CLIENT_METRICS"]) == {"client_metrics": [name]}
        refused = admin.alter_configs([ConfigResource(kind, name, {"interval.ms": "99"})])["client_metrics"][name]
        assert "interval must be between 100 and 3600000" in refused
    finally:
        admin.close()


def test_a_producers_metrics_are_pushed_and_reported(start_cluster: Start) -> None:
    cluster = start_cluster("single.yaml", "kvorum.client.metrics.enable=true")
    bootstrap = cluster.plan.bootstrap
    (node,) = cluster.plan.nodes
    base = urls(cluster, node.name)[0]
    subscribe(bootstrap, "producers", {"metrics": "*", "interval.ms": "200", "match": CHOSEN})
    create_topic(bootstrap, "orders", 1, 1)
    found = produce_until_told(bootstrap, base)
    assert all(each.startswith("org.apache.kafka.") for each in found), found
    pushed = scrape(base)
    assert pushed[names.CLIENT_METRICS_EXPORTS, ()] > 0
    assert pushed[names.CLIENT_METRICS_EXPORT_ERRORS, ()] == 0
    eventually(lambda: not of_pusher(base), "its numbers to go with the client", 30)


def produce_until_told(bootstrap: str, base: str) -> dict[str, float]:
    """Produce until /metrics tells of it; the producer is gone afterwards, with its connections."""
    producer = Producer({"bootstrap.servers": bootstrap, "client.id": "pusher", "linger.ms": 0})

    def reported() -> dict[str, float]:
        producer.produce("orders", b"x")
        producer.poll(0.05)
        return of_pusher(base)

    return eventually(reported, "a metric of the producer's", 30)


def of_pusher(base: str) -> dict[str, float]:
    """Return what is told of the client `pusher`, by metric."""
    rows = ((dict(labels), value) for (name, labels), value in scrape(base).items() if name == names.CLIENT_METRIC)
    return {labels["metric"]: value for labels, value in rows if labels["client_id"] == "pusher"}
