"""Transactions of the public API on a cluster in memory."""

import pytest

from kvorum.client import Cluster, KafkaError, TopicPartition
from kvorum.protocol.messages.describe_transactions import TopicData
from tests.unit.admin.fake import NOW_MS
from tests.unit.admin.managed import ManagedCluster
from tests.unit.admin.test_roles_and_transactions import begin
from tests.unit.client.kit import with_api

T0 = TopicPartition("t", 0)


def test_transactions_are_listed_and_described() -> None:
    async def run(cluster: Cluster, fake: ManagedCluster) -> None:
        begin(fake)
        transactions = cluster.transactions
        assert {(each.transactional_id, each.producer_id) for each in await transactions.list()} == {("known", 1)}
        assert await transactions.list(states=["Empty"]) == []
        found, unreachable = await transactions.list_available(states=["Ongoing"])
        assert ({each.transactional_id for each in found}, unreachable) == ({"known"}, [])
        one = await transactions.describe("known")
        assert (one.state, one.producer_epoch, one.start_time_ms, one.partitions) == ("Ongoing", 2, NOW_MS, (T0,))
        with pytest.raises(KafkaError, match="TRANSACTIONAL_ID_NOT_FOUND"):
            await transactions.describe("none")
        with pytest.raises(KafkaError, match="TRANSACTIONAL_ID_NOT_FOUND"):
            await transactions.force_terminate("none")

    with_api(run)


def test_partitions_of_a_transaction_are_sorted() -> None:
    """Apache Kafka returns them in the order of a hash set."""

    async def run(cluster: Cluster, fake: ManagedCluster) -> None:
        begin(fake)
        fake.transactions["known"].topics = [
            TopicData(topic="u", partitions=[0]),
            TopicData(topic="t", partitions=[1, 0]),
        ]
        found = (await cluster.transactions.describe("known")).partitions
        assert found == (T0, TopicPartition("t", 1), TopicPartition("u", 0))

    with_api(run)


def test_a_transaction_is_terminated_with_a_timeout_that_the_brokers_accept() -> None:
    async def run(cluster: Cluster, fake: ManagedCluster) -> None:
        begin(fake)
        for timeout_ms, max_ms in ((10_000, 15_000), (2**31 - 1, 900_000)):
            fake.transactions["known"].transaction_timeout, fake.transaction_max_timeout_ms = timeout_ms, max_ms
            await cluster.transactions.force_terminate("known")
        assert fake.fenced_ids == ["known", "known"]

    with_api(run)


def test_a_hanging_transaction_is_found_and_aborted() -> None:
    async def run(cluster: Cluster, fake: ManagedCluster) -> None:
        begin(fake)
        transactions = cluster.transactions
        producers = await transactions.producers(T0)
        assert [(each.producer_id, each.transaction_start_offset) for each in producers] == [(1, 3), (9, 5), (8, None)]
        (hanging,) = await transactions.find_hanging("t", now_ms=NOW_MS)
        assert (hanging.topic_partition, hanging.start_offset, hanging.producer.producer_id) == (T0, 5, 9)
        assert await transactions.find_hanging(open_for_ms=NOW_MS, now_ms=NOW_MS) == []
        with pytest.raises(KafkaError, match="INVALID_TXN_STATE"):
            await transactions.abort(T0, 77)
        with pytest.raises(KafkaError, match="INVALID_TXN_STATE"):
            await transactions.abort(T0, -1)
        await transactions.abort(T0, hanging.start_offset)
        (marker,) = fake.ended
        assert (marker.producer_id, marker.producer_epoch, marker.transaction_result) == (9, 4, False)
        assert marker.coordinator_epoch == 0

    with_api(run)
