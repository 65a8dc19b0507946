"""The namespaces of the public API on a cluster in memory: one test each."""

import asyncio

import pytest

from kvorum.client import (
    AdminState,
    Cluster,
    ErrorCode,
    KafkaError,
    OffsetSpec,
    ResourceType,
    TopicPartition,
    TopicPartitionReplica,
    UpgradeType,
)
from kvorum.client.wire.cluster_client import METADATA_TOPIC
from kvorum.protocol.records import Record
from tests.unit.admin.admin_state_cluster import AdminStateCluster
from tests.unit.admin.fake import NOW_MS
from tests.unit.admin.managed import ManagedCluster
from tests.unit.admin.test_metadata_routes import begin
from tests.unit.client.kit import with_api

A0, A1 = TopicPartition("a", 0), TopicPartition("a", 1)


def test_partitions() -> None:
    async def run(cluster: Cluster, fake: ManagedCluster) -> None:
        fake.place("a", [1, 2], [2, 1])
        for number in range(3):
            fake.logs["a"][0].append(Record(value=b"x", timestamp=NOW_MS + number))
        partitions = cluster.partitions
        assert (await partitions.list_offsets([A0, A1]))[A0].offset == 3
        assert (await partitions.list_offsets([A0], NOW_MS + 1))[A0].offset == 1
        assert (await partitions.list_offsets([A0], NOW_MS + 9))[A0].offset is None
        with pytest.raises(ValueError, match="OffsetSpec"):
            await partitions.list_offsets([A0], -2)
        with pytest.raises(KafkaError, match="UNKNOWN_TOPIC_OR_PARTITION"):
            await partitions.list_offsets([TopicPartition("b", 0)])

        deleted = await partitions.delete_records({A0: 2, A1: 5})
        refused = deleted[A1]
        assert deleted[A0] == 2 and isinstance(refused, KafkaError) and refused.code is ErrorCode.OFFSET_OUT_OF_RANGE
        assert (await partitions.delete_records({A0: None}))[A0] == 3
        with pytest.raises(ValueError, match="None for all"):
            await partitions.delete_records({A0: -1})
        assert (await partitions.list_offsets([A0], OffsetSpec.EARLIEST))[A0].offset == 3

        fake.leaders["a", 0] = 2
        elected = await partitions.elect_leaders([A0, A1])
        error = elected[A1]
        assert elected[A0] is None and error is not None and error.code is ErrorCode.ELECTION_NOT_NEEDED

        await partitions.add("a", 3)
        assert len((await cluster.topics.describe("a")).partitions) == 3

    with_api(run)


def test_configs() -> None:
    async def run(cluster: Cluster, fake: ManagedCluster) -> None:
        fake.place("a", [1])
        await cluster.configs.alter(ResourceType.TOPIC, "a", set={"retention.ms": "1000", "segment.ms": "1000"})
        await cluster.configs.alter(ResourceType.TOPIC, "a", delete=["segment.ms"])
        (found,) = await cluster.configs.describe(ResourceType.TOPIC, "a")
        assert (found.name, found.value, found.source) == ("retention.ms", "1000", "DYNAMIC_TOPIC_CONFIG")
        assert not found.is_default
        assert await cluster.configs.describe_many(ResourceType.TOPIC, ["a"]) == {"a": [found]}
        assert await cluster.configs.list(ResourceType.TOPIC) == ["a"]
        with pytest.raises(KafkaError, match="INVALID_REQUEST: nothing to change"):
            await cluster.configs.alter(ResourceType.TOPIC, "a")
        fake.layers[4, "1"] = [[("ssl.key.password", "secret", 4)]]
        (secret,) = await cluster.configs.describe(ResourceType.BROKER, 1)
        many = await cluster.configs.describe_many(ResourceType.BROKER, [1, 99])
        refused = many["99"]
        assert many["1"] == [secret]
        assert isinstance(refused, KafkaError) and refused.code is ErrorCode.BROKER_ID_NOT_REGISTERED
        assert secret.is_sensitive and secret.value is None and secret.synonyms[0].value is None

    with_api(run)


def test_brokers_and_cluster() -> None:
    async def run(cluster: Cluster, fake: ManagedCluster) -> None:
        fake.fenced.add(3)
        assert [(each.id, each.is_fenced) for each in await cluster.brokers.list()] == [
            *((1, False), (2, False), (3, True), (4, False))
        ]
        assert (await cluster.brokers.describe(2)).port == 9002
        with pytest.raises(KafkaError, match="BROKER_ID_NOT_REGISTERED"):
            await cluster.brokers.describe(9)
        described = await cluster.metadata.cluster()
        assert described.brokers == tuple(await cluster.brokers.list()) and described.cluster_id

    with_api(run)


def test_a_broker_is_decommissioned() -> None:
    async def run() -> None:
        fake = AdminStateCluster((2, [1, 2], [1, 2]))
        brokers = Cluster(fake).brokers
        await brokers.begin_maintenance(1)
        assert (await brokers.state(1)).state is AdminState.MAINTENANCE
        await brokers.end_maintenance(1)
        await brokers.decommission(1, throttle_bytes_per_second=5_000)
        state = await brokers.state(1)
        assert (state.state, state.left, state.throttle_bytes_per_second) == (AdminState.MOVING, 1, 5_000)
        await brokers.recommission(1)
        await brokers.decommission(1)
        fake.rows = [(2, [2], [2])]
        with pytest.raises(KafkaError, match="stop it first"):
            await brokers.unregister(1)
        fake.fenced.add(1)
        await brokers.unregister(1)
        assert fake.forgotten == [1]

    asyncio.run(run())


def test_a_cluster_without_administrative_states() -> None:
    async def run(cluster: Cluster, fake: ManagedCluster) -> None:
        fake.has_admin_states = False
        with pytest.raises(KafkaError) as refused:
            await cluster.brokers.decommission(1)
        assert refused.value.code is ErrorCode.UNSUPPORTED_VERSION

    with_api(run)


def test_quorum_and_features() -> None:
    async def run(cluster: Cluster, fake: ManagedCluster) -> None:
        assert (await cluster.quorum.describe()).leader_id == 101
        levels = {each.name: each.finalized for each in await cluster.features.list()}
        assert levels == {"metadata.version": 30, "transaction.version": 1}
        await cluster.features.update({"transaction.version": 2})
        await cluster.features.update({"transaction.version": 0}, upgrade_type=UpgradeType.SAFE_DOWNGRADE)
        with pytest.raises(KafkaError, match="INVALID_UPDATE_VERSION"):
            await cluster.features.update({"transaction.version": 9})
        assert fake.levels["transaction.version"] == 0

    with_api(run)


def test_log_dirs() -> None:
    async def run(cluster: Cluster, fake: ManagedCluster) -> None:
        fake.place("a", [1, 2])
        replica = TopicPartitionReplica("a", 0, 1)
        (first, second) = await cluster.log_dirs.list([1])
        assert (first.broker, first.path, [str(each.topic_partition) for each in first.replicas]) == (1, "/a", ["a-0"])
        assert not second.replicas and first.error is None
        assert len(await cluster.log_dirs.list()) == 8 and not await cluster.log_dirs.list([])
        wanted = {replica: "/b", TopicPartitionReplica("a", 0, 2): "/nowhere"}
        errors = await cluster.log_dirs.move(wanted)
        assert errors[replica] is None and str(errors[TopicPartitionReplica("a", 0, 2)]) == "LOG_DIR_NOT_FOUND"
        (move,) = await cluster.log_dirs.moves()
        assert (move.replica, move.current, move.target) == (replica, "/a", "/b")
        assert await cluster.log_dirs.cancel_moves([A1]) == {}
        assert await cluster.log_dirs.cancel_moves() == {replica: None}
        assert not await cluster.log_dirs.moves()

    with_api(run)


def test_a_metadata_log_that_brokers_do_not_serve() -> None:
    async def run(cluster: Cluster, fake: ManagedCluster) -> None:
        fake.logs.pop(METADATA_TOPIC, None)
        with pytest.raises(KafkaError) as refused:
            await cluster.metadata.tree()
        assert refused.value.code is ErrorCode.UNSUPPORTED_VERSION

    with_api(run)


def test_the_metadata_tree() -> None:
    async def run(cluster: Cluster, fake: ManagedCluster) -> None:
        begin(fake)
        leader = "/image/topics/byName/orders/0/leader"
        assert await cluster.metadata.tree(leader) == "2"
        assert await cluster.metadata.tree(leader, at=3) == "1"
        assert isinstance(await cluster.metadata.tree(), dict)
        with pytest.raises(LookupError):
            await cluster.metadata.tree("/nowhere")
        with pytest.raises(KafkaError, match="OFFSET_OUT_OF_RANGE"):
            await cluster.metadata.tree(at=6)

    with_api(run)
