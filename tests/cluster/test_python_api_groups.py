"""Groups, records, quotas, transactions and reassignments of the Python API on three nodes, one cluster for all."""

import asyncio
from collections.abc import Iterator

import pytest
from confluent_kafka import Consumer, Producer

from kvorum.client import (
    Cluster,
    ErrorCode,
    IsolationLevel,
    KafkaError,
    NewRecord,
    ResetTarget,
    SyncCluster,
)
from kvorum.client import TopicPartition as Partition
from tests.cluster.clients import eventually
from tests.cluster.conftest import clusters_in

SECONDS = 30


@pytest.fixture(scope="module")
def bootstrap(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with clusters_in(tmp_path_factory.mktemp("api")) as start:
        yield start("three-nodes.yaml", "group.initial.rebalance.delay.ms=0").plan.bootstrap


@pytest.fixture(scope="module")
def cluster(bootstrap: str) -> Iterator[SyncCluster]:
    with SyncCluster.connect(bootstrap) as found:
        yield found


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_a_group_is_described_with_its_lag_and_reset(cluster: SyncCluster, bootstrap: str, protocol: str) -> None:
    topic = group_id = f"read-{protocol}"
    cluster.topics.create(topic, partitions=2, replication_factor=3)
    cluster.records.produce_many(topic, [NewRecord(value=b"x", partition=number % 2) for number in range(10)])
    first, second = Partition(topic, 0), Partition(topic, 1)
    settings = {"group.protocol": protocol, "auto.offset.reset": "earliest", "enable.auto.commit": False}
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": group_id, **settings})
    consumer.subscribe([topic])
    assert len(consumer.consume(10, SECONDS)) == 10
    consumer.commit(asynchronous=False)
    group = cluster.groups.describe(group_id)
    (member,) = group.members
    assert (group.type, group.state, member.assignment) == (protocol, "Stable", (first, second))
    assert member.topics == (topic,) and member.protocol == protocol
    cluster.records.produce(topic, b"late", partition=0)
    assert [(each.topic_partition, each.lag) for each in cluster.groups.lags(group)] == [(first, 1), (second, 0)]
    assert cluster.groups.total_lags([group_id])[group_id].lag == 1
    with pytest.raises(KafkaError) as refused:
        cluster.groups.reset_offsets(group_id, ResetTarget(to="earliest"))
    assert refused.value.code is ErrorCode.NON_EMPTY_GROUP
    if protocol == "classic":
        assert [each.error for each in cluster.groups.remove_all_members(group_id, reason="test")] == [None]
    consumer.close()
    eventually(lambda: cluster.groups.state(group_id) == "Empty", "no member")
    resets = cluster.groups.reset_offsets(group_id, ResetTarget(shift_by=-2), dry_run=True)
    assert [(each.before, each.after) for each in resets] == [(5, 3), (5, 3)]
    assert [each.error for each in cluster.groups.reset_offsets(group_id, ResetTarget(to="latest"))] == [None, None]
    assert {each: found.offset for each, found in cluster.groups.offsets(group_id).items()} == {first: 6, second: 5}
    assert cluster.groups.delete_offsets(group_id, [second]) == {second: None}
    assert [*cluster.groups.offsets(group_id)] == [first]
    assert group_id in [each.group_id for each in cluster.groups.list(states=["Empty"], types=[protocol])]
    cluster.groups.delete(group_id)
    assert group_id not in [each.group_id for each in cluster.groups.list()]


def test_records_are_written_and_read(cluster: SyncCluster, bootstrap: str) -> None:
    cluster.topics.create("records", partitions=3, replication_factor=3)
    written = cluster.records.produce("records", "1", key="k", headers={"h": b"x"}, timestamp_ms=1_000)
    results = cluster.records.produce_many(
        "records", [NewRecord(value=b"2", key="k", timestamp_ms=2_000)], acks=1, compression="gzip"
    )
    assert (written.offset, results[0].partition, results[0].error) == (0, written.partition, None)
    eventually(lambda: len(list(cluster.records.read("records"))) == 2, "replicas of the records")
    records = list(cluster.records.read("records"))
    assert [(each.key, each.value) for each in records] == [(b"k", b"1"), (b"k", b"2")]
    assert (records[0].timestamp_ms, records[0].headers) == (1_000, (("h", b"x"),))
    assert [each.value for each in cluster.records.read("records", start_ms=1_500)] == [b"2"]
    assert [each.value for each in cluster.records.read("records", end_ms=1_500)] == [b"1"]
    assert [each.value for each in cluster.records.read_newest("records", 1)] == [b"2"]
    cluster.topics.create("small", configs={"max.message.bytes": "100"})
    with pytest.raises(KafkaError) as refused:
        cluster.records.produce("small", b"x" * 1000)
    assert refused.value.code is ErrorCode.MESSAGE_TOO_LARGE

    async def follow() -> bytes | None:
        async with Cluster.connect(bootstrap) as found:
            reading = found.records.read("records", start="latest", follow=True)
            coming = asyncio.ensure_future(anext(reading))
            while not coming.done():
                await found.records.produce("records", b"new")
                await asyncio.wait([coming], timeout=0.2)
            return (await coming).value

    assert asyncio.run(follow()) == b"new"


def test_transactions_are_described_and_terminated(cluster: SyncCluster, bootstrap: str) -> None:
    cluster.topics.create("txn", partitions=1, replication_factor=3)
    producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": "app", "linger.ms": 0})
    producer.init_transactions(SECONDS)
    producer.begin_transaction()
    producer.produce("txn", b"open", partition=0)
    assert producer.flush(SECONDS) == 0
    place = Partition("txn", 0)
    transaction = cluster.transactions.describe("app")
    assert (transaction.state, transaction.partitions) == ("Ongoing", (place,))
    assert [each.transactional_id for each in cluster.transactions.list(states=["Ongoing"])] == ["app"]
    (state,) = cluster.transactions.producers(place)
    assert (state.producer_id, state.transaction_start_offset) == (transaction.producer_id, 0)
    assert cluster.transactions.find_hanging("txn", open_for_ms=0) == [], "its coordinator knows it"
    assert list(cluster.records.read("txn", isolation=IsolationLevel.READ_COMMITTED)) == []
    cluster.transactions.force_terminate("app")
    eventually(lambda: cluster.transactions.producers(place)[0].transaction_start_offset is None, "the abort")
    assert list(cluster.records.read("txn", isolation=IsolationLevel.READ_COMMITTED)) == []
    assert [each.value for each in cluster.records.read("txn")] == [b"open"]
    with pytest.raises(KafkaError) as refused:
        cluster.transactions.force_terminate("missing")
    assert refused.value.code is ErrorCode.TRANSACTIONAL_ID_NOT_FOUND


def test_quotas_are_altered(cluster: SyncCluster) -> None:
    entity = {"user": "alice", "client-id": None}
    cluster.quotas.alter(entity, {"producer_byte_rate": 1_048_576.0, "request_percentage": 50.0})
    (quota,) = eventually(lambda: cluster.quotas.list({"user": "alice"}, strict=False), "the quota")
    assert dict(quota.entity) == entity and quota.values["request_percentage"] == 50.0
    cluster.quotas.alter(entity, remove=list(quota.values))
    eventually(lambda: not cluster.quotas.list(), "no quota")


def test_a_partition_is_reassigned(cluster: SyncCluster) -> None:
    cluster.topics.create("moved", assignments={0: [1, 2]})
    place = Partition("moved", 0)
    cluster.records.produce("moved", b"x" * 1000)
    plan = {place: [3, 1]}
    cluster.reassignments.throttle(10_000_000, plan)
    assert [each.topic for each in cluster.reassignments.throttles().topics] == ["moved"]
    assert cluster.reassignments.alter(plan) == {}
    progress = eventually(
        lambda: next(filter(lambda it: it.is_completed, [cluster.reassignments.verify(plan)]), None), "3"
    )
    assert (progress.partitions[0].replicas, progress.unthrottled_topics) == ((3, 1), ("moved",))
    eventually(lambda: not cluster.reassignments.throttles().topics, "no throttle")
    error = cluster.reassignments.alter({place: [9]})[place]
    assert error.code is ErrorCode.INVALID_REPLICA_ASSIGNMENT
    assert cluster.reassignments.cancel([place]) == {}
