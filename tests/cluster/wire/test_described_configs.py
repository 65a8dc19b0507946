"""What DescribeConfigs says of a fresh topic and broker is what Apache Kafka 4.3.0 says, but for what is named here.

The fixture, tests/data/kafka-4.3-describe-configs.json, is written by tools/record_kafka_answers.py: each row is name,
value, type, source, read only, sensitive, and the synonyms as (name, value, source).
"""

import json
from pathlib import Path

from kvorum.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from tests.cluster.wire.configs import BROKER, TOPIC, describe
from tests.cluster.wire.world import Json, World

FIXTURE: dict[str, Json] = json.loads(
    (Path(__file__).parent.parent.parent / "data" / "kafka-4.3-describe-configs.json").read_text()
)
OF_THE_MACHINE = {"log.dirs", "listeners", "controller.quorum.voters", "metrics.listener", "admin.listeners"}
"""Paths and ports: only there on both sides."""
OTHERWISE = {
    "broker.id": "Kafka copies node.id into it",
}
OWN_PREFIXES = ("kvorum.", "admin.", "metrics.listener")


def compared(rows: list[Json]) -> dict[str, Json]:
    """Return the rows to compare by name."""
    left_out = OF_THE_MACHINE | set(OTHERWISE)
    return {name: rest for name, *rest in rows if name not in left_out and not name.startswith(OWN_PREFIXES)}


def names(rows: list[Json]) -> set[str]:
    """Return every name that is Kafka's too."""
    return {name for name, *_ in rows if not name.startswith(OWN_PREFIXES)}


def test_a_fresh_topics_configs_are_kafkas(address: tuple[str, int]) -> None:
    world = World(*address, case="configs-of-a-fresh-topic")
    found = describe(world, TOPIC, world.topic().name)
    assert names(found) == names(FIXTURE["topic"])
    assert compared(found) == compared(FIXTURE["topic"])


def test_a_topics_own_configs_are_reported_as_in_kafka(address: tuple[str, int]) -> None:
    world = World(*address, case="configs-of-a-topic-with-its-own")
    found = describe(world, TOPIC, world.topic(retention_ms="1000", cleanup_policy="compact").name)
    assert compared(found) == compared(FIXTURE["topic with retention.ms=1000, cleanup.policy=compact"])


def test_a_new_clusters_dynamic_defaults_equal_kafkas(address: tuple[str, int]) -> None:
    """It begins with eligible leader replicas (KIP-966), and with them min.insync.replicas is set for the cluster."""
    world = World(*address)
    found = describe(world, BROKER, "")
    assert found == FIXTURE["cluster"]
    assert [(name, value) for name, value, *_ in found] == [("min.insync.replicas", "1")]
    with world.connect() as connection:
        reported = connection.ask(ApiVersionsRequest(client_software_name="raw", client_software_version="1"), 4)
    assert isinstance(reported, ApiVersionsResponse)
    finalized = {each.name: [each.min_version_level, each.max_version_level] for each in reported.finalized_features}
    for name in ("eligible.leader.replicas.version", "metadata.version"):
        assert finalized[name] == FIXTURE["finalized features"][name]


def test_a_brokers_configs_are_kafkas(address: tuple[str, int]) -> None:
    found = describe(World(*address), BROKER, "1")
    assert names(found) == names(FIXTURE["broker"])
    assert compared(found) == compared(FIXTURE["broker"])
