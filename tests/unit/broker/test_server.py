"""A whole broker in this process: start, journeys over real sockets, end. The controller is real but for Raft."""

import asyncio
import errno
import socket
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from kvorum.broker import server
from kvorum.broker.channels import PeerChannels
from kvorum.broker.server import BrokerServer, NotFormatted, World
from kvorum.network.channel import Channel
from kvorum.network.cluster_check import ClusterCheck, EndpointType
from kvorum.network.connection_counts import UNLIMITED
from kvorum.network.dial import ForeignPeer
from kvorum.network.server import Listener
from kvorum.protocol.errors import ErrorCode
from kvorum.protocol.messages.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from kvorum.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from kvorum.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from kvorum.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from kvorum.protocol.messages.init_producer_id import InitProducerIdRequest
from kvorum.protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from kvorum.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from kvorum.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from kvorum.protocol.records import Record, build_batch, decode_records
from kvorum.protocol.uuids import METADATA_TOPIC_ID, Uuid
from kvorum.quorum.raft.memory_log import MemoryLog
from kvorum.quorum.server import ControllerServer
from kvorum.runtime.chance import new_random
from kvorum.runtime.clock import SystemClock
from kvorum.runtime.config import Settings
from kvorum.runtime.disk import OsDisk
from kvorum.runtime.metrics import Metrics
from kvorum.storage.checkpoints import CLEAN_SHUTDOWN, MetaProperties, write_meta_properties

CLUSTER_ID = "a-cluster-of-this-test"
CONTROLLER_ID = 100
LATEST = -1


class Cluster:
    """One controller and as many brokers as a test wants."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.disk = OsDisk()
        self.faults: list[BaseException] = []
        self.brokers: dict[int, BrokerServer] = {}
        self.channels: list[Channel] = []
        self.controller_port = 0
        self.starts = 0

    async def start_controller(self) -> None:
        where = self.formatted("controller", CONTROLLER_ID)
        values = {"node.id": CONTROLLER_ID, "process.roles": "controller", "listeners": "CONTROLLER://127.0.0.1:0"}
        settings = self.settings(values, where)
        log = MemoryLog(node_id=CONTROLLER_ID)
        addresses: dict[int, tuple[str, int]] = {}
        self.controller = ControllerServer(
            settings,
            self.disk,
            SystemClock(),
            new_random(1),
            log,
            cluster_id=CLUSTER_ID,
            on_fault=self.faults.append,
            voter_addresses=lambda listener: addresses,
        )
        await self.controller.start()
        log.elect()
        self.listener = Listener("CONTROLLER", "127.0.0.1", 0, self.controller.router)
        self.controller_port = await self.listener.start()
        addresses[CONTROLLER_ID] = ("127.0.0.1", self.controller_port)

    async def start_broker(self, broker_id: int, **more: object) -> BrokerServer:
        """Start a broker, for the first time or again, and wait until it is unfenced."""
        where = self.formatted(f"broker-{broker_id}", broker_id)
        self.starts += 1
        values = {"node.id": broker_id, "process.roles": "broker", "listeners": "PLAINTEXT://127.0.0.1:0", **more}
        world = World(
            disk=self.disk,
            clock=SystemClock(),
            chance=new_random(self.starts),  # each start is an incarnation of its own
            metrics=Metrics(),
            on_fault=self.faults.append,
        )
        broker = self.brokers[broker_id] = BrokerServer(self.settings(values, where), world)
        await broker.start()
        await broker.ready()
        return broker

    def settings(self, values: dict[str, object], where: str) -> Settings:
        voters = f"{CONTROLLER_ID}@127.0.0.1:{self.controller_port or 1}"
        return Settings.of(
            {
                "controller.listener.names": "CONTROLLER",
                "controller.quorum.voters": voters,
                "log.dirs": where,
                "broker.heartbeat.interval.ms": 100,
                **values,
            }
        )

    def formatted(self, name: str, node_id: int) -> str:
        where = str(self.folder / name)
        if not self.disk.exists(where):
            self.disk.mkdir(where)
            write_meta_properties(self.disk, where, MetaProperties(CLUSTER_ID, node_id, Uuid(bytes([node_id]) * 16)))
        return where

    async def ask(self, broker_id: int, request: Any, version: int | None = None) -> Any:
        """Send a request to a broker over a connection of its own."""
        port = self.brokers[broker_id].ports["PLAINTEXT"]
        channel = Channel("127.0.0.1", port, client_id="test", chance=new_random(2))
        try:
            return await channel.request(request, version=version)
        finally:
            await channel.close()

    async def stop(self) -> None:
        for broker in self.brokers.values():
            await broker.shutdown()
        await self.listener.close()
        await self.controller.close()
        assert self.faults == []


def run(folder: Path, story: Callable[[Cluster], Awaitable[None]]) -> None:
    async def whole() -> None:
        async with asyncio.timeout(30):
            cluster = Cluster(folder)
            await cluster.start_controller()
            try:
                await story(cluster)
            finally:
                await cluster.stop()

    asyncio.run(whole())


async def until(condition: Callable[[], Awaitable[bool]]) -> None:
    for _ in range(1000):
        if await condition():
            return
        await asyncio.sleep(0.01)
    raise AssertionError("it never came to be")


def creation(name: str, partitions: int = 1, factor: int = 1, **configs: str) -> CreateTopicsRequest:
    wanted = [CreatableTopicConfig(name=key.replace("_", "."), value=value) for key, value in configs.items()]
    topic = CreatableTopic(name=name, num_partitions=partitions, replication_factor=factor, configs=wanted)
    return CreateTopicsRequest(topics=[topic], timeout=10_000)


def produce(name: str, *values: bytes, acks: int = -1) -> ProduceRequest:
    batch = bytes(build_batch([Record(value=value, timestamp=1) for value in values]))
    data = [TopicProduceData(name=name, partition_data=[PartitionProduceData(index=0, records=batch)])]
    return ProduceRequest(acks=acks, timeout=10_000, topic_data=data)


def fetch(name: str, offset: int = 0) -> FetchRequest:
    requested = FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=1 << 20)
    return FetchRequest(
        topics=[FetchTopic(topic=name, topic_id=METADATA_TOPIC_ID, partitions=[requested])],
        max_wait=5_000,
        min_bytes=1,
        max_bytes=1 << 20,
    )


def fetched(answer: Any) -> list[bytes | None]:
    (row,) = answer.responses[0].partitions
    assert row.error_code == 0
    return [record.value for record in decode_records(row.records)]


def only_code(answer: Any) -> int:
    return int(answer.responses[0].partition_responses[0].error_code)


async def led(cluster: Cluster, broker_id: int, name: str) -> int:
    """The leader of a topic's first partition as this broker tells it, -1 while it does not know."""
    answer = await cluster.ask(broker_id, MetadataRequest(topics=[MetadataRequestTopic(name=name)]), 9)
    return int(answer.topics[0].partitions[0].leader_id) if answer.topics[0].error_code == 0 else -1


def test_a_topic_is_made_written_and_read_through_one_broker(tmp_path: Path) -> None:
    async def story(cluster: Cluster) -> None:
        broker = await cluster.start_broker(1)
        assert broker.not_ready() is None
        created = await cluster.ask(1, creation("orders", 2))
        assert (created.topics[0].error_code, created.topics[0].num_partitions) == (0, 2)
        await until(lambda: is_led(cluster, "orders"))
        assert only_code(await cluster.ask(1, produce("orders", b"a", b"b"), 9)) == 0
        assert fetched(await cluster.ask(1, fetch("orders"), 12)) == [b"a", b"b"]
        first = await cluster.ask(1, InitProducerIdRequest(transactional_id=None, producer_id=-1, producer_epoch=-1))
        second = await cluster.ask(1, InitProducerIdRequest(transactional_id=None, producer_id=-1, producer_epoch=-1))
        assert (first.error_code, second.producer_id - first.producer_id) == (0, 1)

    run(tmp_path, story)


async def is_led(cluster: Cluster, name: str) -> bool:
    return await led(cluster, 1, name) == 1


def test_written_data_exists_after_a_restart_and_the_clean_shutdown_is_known(tmp_path: Path) -> None:
    async def story(cluster: Cluster) -> None:
        broker = await cluster.start_broker(1)
        await cluster.ask(1, creation("orders"))
        await until(lambda: is_led(cluster, "orders"))
        await cluster.ask(1, produce("orders", b"a"), 9)
        epoch = broker.broker.log_manager.previous_broker_epoch
        assert epoch == -1
        await broker.shutdown()
        again = await cluster.start_broker(1)
        assert again.broker.log_manager.previous_broker_epoch > 0
        await until(lambda: is_led(cluster, "orders"))
        assert fetched(await cluster.ask(1, fetch("orders"), 12)) == [b"a"]

    run(tmp_path, story)


def test_a_broker_starts_without_a_directory_that_cannot_be_read(tmp_path: Path) -> None:
    """Its disk answers no read of what is there."""

    async def story(cluster: Cluster) -> None:
        folders = [tmp_path / name for name in ("works", "broken")]
        for number, folder in enumerate(folders):
            cluster.disk.mkdir(str(folder))
            identity = MetaProperties(CLUSTER_ID, 1, Uuid(bytes([0x70 + number]) * 16))
            write_meta_properties(cluster.disk, str(folder), identity)
        (tmp_path / "broken" / "meta.properties").unlink()
        (tmp_path / "broken" / "meta.properties").mkdir()
        dirs = {"log.dirs": ",".join(map(str, folders)), "metadata.log.dir": str(folders[0])}
        broker = await cluster.start_broker(1, **dirs)
        assert [each.is_online for each in broker.broker.log_manager.dirs] == [True, False]

    run(tmp_path, story)


def test_acks_all_reaches_every_replica_and_a_leader_that_goes_hands_over(tmp_path: Path) -> None:
    async def story(cluster: Cluster) -> None:
        for broker_id in (1, 2, 3):
            await cluster.start_broker(broker_id)
        await cluster.ask(1, creation("orders", 1, 3, min_insync_replicas="2"))

        async def has_leader() -> bool:
            return await led(cluster, 1, "orders") > 0

        await until(has_leader)
        leader = await led(cluster, 1, "orders")
        await until(lambda: is_written(cluster, leader, b"a"))
        others = [broker_id for broker_id in (1, 2, 3) if broker_id != leader]
        await cluster.brokers.pop(leader).shutdown()

        async def moved() -> bool:
            return await led(cluster, others[0], "orders") in others

        await until(moved)
        heir = await led(cluster, others[0], "orders")
        assert fetched(await cluster.ask(heir, fetch("orders"), 12))[0] == b"a"
        await until(lambda: is_written(cluster, heir, b"b"))

    run(tmp_path, story)


async def is_written(cluster: Cluster, broker_id: int, value: bytes) -> bool:
    return only_code(await cluster.ask(broker_id, produce("orders", value), 9)) == 0


def test_configs_take_effect_without_a_restart(tmp_path: Path) -> None:
    async def story(cluster: Cluster) -> None:
        await cluster.start_broker(1)
        await cluster.ask(1, creation("orders"))
        await until(lambda: is_led(cluster, "orders"))
        assert only_code(await cluster.ask(1, produce("orders", b"x" * 500), 9)) == 0
        change = AlterableConfig(name="max.message.bytes", config_operation=0, value="200")
        resource = AlterConfigsResource(resource_type=2, resource_name="orders", configs=[change])
        altered = await cluster.ask(1, IncrementalAlterConfigsRequest(resources=[resource]))
        assert altered.responses[0].error_code == 0

        async def too_large() -> bool:
            return only_code(await cluster.ask(1, produce("orders", b"x" * 500), 9)) == ErrorCode.MESSAGE_TOO_LARGE

        await until(too_large)

    run(tmp_path, story)


def test_limits_of_the_listeners_take_effect_without_a_restart(tmp_path: Path) -> None:
    """The broker's own and those of one listener, set for all brokers; taking them away brings the file's back."""

    async def story(cluster: Cluster) -> None:
        broker = await cluster.start_broker(1, **{"max.connection.creation.rate": 1000})
        limits = {"max.connection.creation.rate": "7", "listener.name.plaintext.max.connections": "5"}

        async def alter(operation: int) -> None:
            changes = [AlterableConfig(name=k, config_operation=operation, value=v) for k, v in limits.items()]
            resource = AlterConfigsResource(resource_type=4, resource_name="", configs=changes)
            altered = await cluster.ask(1, IncrementalAlterConfigsRequest(resources=[resource]))
            assert altered.responses[0].error_code == 0

        async def in_force(rate: int, connections: int) -> bool:
            counts = broker._counts
            return (counts.rate.per_second, counts.by_listener) == (rate, {"PLAINTEXT": connections})

        assert await in_force(1000, UNLIMITED)
        await alter(0)
        await until(lambda: in_force(7, 5))
        await alter(1)
        await until(lambda: in_force(1000, UNLIMITED))

    run(tmp_path, story)


def test_a_brokers_queue_and_its_followers_sockets_are_as_configured(tmp_path: Path) -> None:
    async def story(cluster: Cluster) -> None:
        requested = {"queued.max.requests": 9, "replica.socket.receive.buffer.bytes": 30_000}
        broker = await cluster.start_broker(1, **requested)
        assert broker._queue.requests_max == 9
        check = ClusterCheck(broker.broker.cluster_id, EndpointType.BROKER)
        channels = PeerChannels(broker.broker.settings, broker.broker.metadata, check, new_random(1))
        await cluster.start_broker(2)
        await until(lambda: knows(broker, 2))
        channel = channels.open(2)
        transport = (await channel.connect())._transport
        assert transport is not None
        size = transport.get_extra_info("socket").getsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF)
        assert size == 60_000  # the kernel doubles what it is told
        await channel.close()

    run(tmp_path, story)


def test_a_broker_of_another_cluster_is_sent_nothing(tmp_path: Path) -> None:
    """A follower must not truncate, nor a coordinator end a transaction, by what another cluster's broker answers."""

    async def story(cluster: Cluster) -> None:
        broker = await cluster.start_broker(1)
        await cluster.start_broker(2)
        await until(lambda: knows(broker, 2))
        check = ClusterCheck("another", EndpointType.BROKER)
        channel = PeerChannels(broker.broker.settings, broker.broker.metadata, check, new_random(1)).open(2)
        with pytest.raises(ForeignPeer, match=broker.broker.cluster_id):
            await channel.connect()
        await channel.close()

    run(tmp_path, story)


async def knows(broker: BrokerServer, other: int) -> bool:
    return broker.broker.metadata.node(other, "PLAINTEXT") is not None


def test_a_topic_deleted_while_a_broker_was_down_leaves_its_place_to_a_new_one(tmp_path: Path) -> None:
    async def story(cluster: Cluster) -> None:
        await cluster.start_broker(1)
        await cluster.start_broker(2)
        await cluster.ask(2, creation("orders", 2, 2))
        await until(lambda: is_written_anywhere(cluster, b"old"))
        await cluster.brokers.pop(1).shutdown()
        deletion = DeleteTopicsRequest(topics=[DeleteTopicState(name="orders")], timeout=10_000)
        assert (await cluster.ask(2, deletion, 6)).responses[0].error_code == 0
        await cluster.start_broker(1)
        assert (await cluster.ask(2, creation("orders", 2, 2))).topics[0].error_code == 0
        await until(lambda: is_written_anywhere(cluster, b"new"))
        leader = await led(cluster, 1, "orders")
        assert fetched(await cluster.ask(leader, fetch("orders"), 12)) == [b"new"]
        assert any(name.endswith("-stray") for name in cluster.disk.listdir(str(tmp_path / "broker-1")))

    run(tmp_path, story)


async def is_written_anywhere(cluster: Cluster, value: bytes) -> bool:
    leader = await led(cluster, next(iter(cluster.brokers)), "orders")
    return leader in cluster.brokers and await is_written(cluster, leader, value)


def test_the_metadata_log_is_read_through_a_broker(tmp_path: Path) -> None:
    async def story(cluster: Cluster) -> None:
        await cluster.start_broker(1)
        await cluster.ask(1, creation("orders"))
        await until(lambda: is_led(cluster, "orders"))
        requested = ListOffsetsPartition(partition_index=0, timestamp=LATEST, current_leader_epoch=-1)
        request = ListOffsetsRequest(topics=[ListOffsetsTopic(name="__cluster_metadata", partitions=[requested])])
        end = (await cluster.ask(1, request, 7)).topics[0].partitions[0].offset
        assert end > 4
        (row,) = (await cluster.ask(1, fetch("__cluster_metadata"), 13)).responses[0].partitions
        assert (row.error_code, row.high_watermark >= end) == (0, True)
        assert b'"name":"orders"' in bytes(row.records)
        waiting = asyncio.ensure_future(read_metadata_until(cluster, row.high_watermark, b'"name":"bills"'))
        await cluster.ask(1, creation("bills"))
        await waiting

    run(tmp_path, story)


async def read_metadata_until(cluster: Cluster, offset: int, text: bytes) -> None:
    """Fetch the metadata log from there on until a batch has this text; other records may come before."""
    async with asyncio.timeout(60):
        while True:
            (row,) = (await cluster.ask(1, fetch("__cluster_metadata", offset), 12)).responses[0].partitions
            if text in bytes(row.records):
                return
            offset = max(offset, row.high_watermark if row.records else offset)


def test_a_directory_that_is_nobodys_is_not_taken(tmp_path: Path) -> None:
    async def story() -> None:
        settings = Settings.of(
            {
                "node.id": 1,
                "controller.listener.names": "CONTROLLER",
                "controller.quorum.voters": "100@127.0.0.1:1",
                "log.dirs": str(tmp_path / "nothing"),
            }
        )
        world = World(
            disk=OsDisk(), clock=SystemClock(), chance=new_random(1), metrics=Metrics(), on_fault=lambda error: None
        )
        broker = BrokerServer(settings, world)
        with pytest.raises(NotFormatted):
            await broker.start()
        assert broker.not_ready() == "opening its logs"
        await broker.shutdown()

    asyncio.run(story())


@pytest.mark.parametrize("kind", ["not there", "empty", "failing"])
def test_of_several_directories_one_that_is_nobodys_is_named_and_one_that_fails_is_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    """As Kafka: what was never formatted is a mistake in log.dirs, a disk that fails is not."""
    ours, nobodys = tmp_path / "ours", tmp_path / "nobodys"
    ours.mkdir()
    disk = OsDisk()
    write_meta_properties(disk, str(ours), MetaProperties(CLUSTER_ID, 1, Uuid(bytes([1]) * 16)))
    if kind != "not there":
        nobodys.mkdir()
    if kind == "failing":
        plain = OsDisk.listdir

        def listdir(self: OsDisk, path: str) -> list[str]:
            if path == str(nobodys):
                raise OSError(errno.EIO, "a failing disk")
            return plain(self, path)

        monkeypatch.setattr(OsDisk, "listdir", listdir)
    settings = Settings.of(
        {
            "node.id": 1,
            "controller.listener.names": "CONTROLLER",
            "controller.quorum.voters": "100@127.0.0.1:1",
            "log.dirs": f"{ours},{nobodys}",
        }
    )

    async def story() -> None:
        world = World(
            disk=disk, clock=SystemClock(), chance=new_random(1), metrics=Metrics(), on_fault=lambda error: None
        )
        broker = BrokerServer(settings, world)
        if kind == "failing":
            broker._build()
        else:
            with pytest.raises(NotFormatted, match=f"^{nobodys} has no meta.properties"):
                await broker.start()
        await broker.shutdown()

    asyncio.run(story())


def test_a_part_that_does_not_stop_is_left_behind_and_its_directory_is_not_marked_clean(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(server, "CLOSE_SECONDS_MAX", 0.05)
    monkeypatch.setattr(server, "CLOSE_REPORT_SECONDS", 0.01)

    async def story(cluster: Cluster) -> None:
        broker = await cluster.start_broker(1)
        parts = broker.parts
        assert parts is not None
        marks = [Path(each.path) / CLEAN_SHUTDOWN for each in parts.log_manager.dirs]
        stop_replicas = parts.replica_manager.shutdown

        async def hang() -> None:
            await asyncio.Event().wait()

        monkeypatch.setattr(type(parts.replica_manager), "shutdown", lambda self: hang())
        await cluster.brokers.pop(1).shutdown()
        assert "replicas" in broker.not_stopped
        assert "the broker's stop waits part=replicas" in capfd.readouterr().err
        assert marks and not [mark for mark in marks if mark.exists()]
        monkeypatch.undo()
        await stop_replicas()

    run(tmp_path, story)
