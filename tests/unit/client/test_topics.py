"""Topics in the public API."""

import pytest

from kvorum.client import Cluster, CreatedTopic, ErrorCode, KafkaError, NewTopic
from tests.unit.admin.managed import ManagedCluster
from tests.unit.client.kit import with_api


def test_a_topic_is_created_listed_described_and_deleted() -> None:
    async def run(cluster: Cluster, fake: ManagedCluster) -> None:
        created = await cluster.topics.create(
            "orders", partitions=2, replication_factor=3, configs={"retention.ms": "60000"}
        )
        assert (created.partition_count, created.replication_factor) == (2, 3)
        (listed,) = await cluster.topics.list("ord*")
        assert (listed.name, len(listed.partitions), listed.replication_factor) == ("orders", 2, 3)
        assert listed.configs is None and listed.partitions[0].latest_offset is None
        assert await cluster.topics.get("orders") == listed
        topic = await cluster.topics.describe("orders")
        assert topic.topic_id == created.topic_id and topic.configs == {"retention.ms": "60000"}
        first = topic.partitions[0]
        assert (first.partition, first.leader, first.replicas, first.isr) == (0, 1, (1, 2, 3), (1, 2, 3))
        assert (first.earliest_offset, first.latest_offset, first.elr) == (0, 0, None)
        fake.isrs["orders", 0] = [1]
        assert (await cluster.topics.describe("orders")).under_replicated_count == 1
        with pytest.raises(KafkaError) as refused:
            await cluster.topics.create("orders")
        assert refused.value.code is ErrorCode.TOPIC_ALREADY_EXISTS

    with_api(run)


def test_many_topics_are_created_with_one_request() -> None:
    async def run(cluster: Cluster, _: ManagedCluster) -> None:
        found = await cluster.topics.create_many(
            [NewTopic(name="a", partitions=3), NewTopic(name="b", replication_factor=9)]
        )
        made, refused = found["a"], found["b"]
        assert isinstance(made, CreatedTopic) and made.partition_count == 3
        assert isinstance(refused, KafkaError) and refused.code is ErrorCode.INVALID_REPLICATION_FACTOR

    with_api(run)


def test_a_missing_topic_has_no_metadata_and_a_topic_shows_its_authorized_operations() -> None:
    async def run(cluster: Cluster, fake: ManagedCluster) -> None:
        fake.add("a")
        for topic in (
            await cluster.topics.get("a", authorized_operations=True),
            *await cluster.topics.list(authorized_operations=True),
        ):
            assert topic.authorized_operations == ()
        with pytest.raises(KafkaError, match="UNKNOWN_TOPIC_OR_PARTITION"):
            await cluster.topics.get("b")

    with_api(run)
