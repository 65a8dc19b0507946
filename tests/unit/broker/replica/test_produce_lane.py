"""The short way of Produce answers, to the byte, what the ordinary one does, and leaves the same logs behind."""

import asyncio
import random
from collections.abc import Callable, Coroutine
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from kvorum.broker.api import produce, produce_lane
from kvorum.broker.api.produce_frames import head_size, parts_behind, unsigned_size
from kvorum.broker.api.produce_heads import HEAD_BYTES_MAX, HEADS_MAX
from kvorum.broker.api.produce_lane import RUN_MAX, SLICE_BYTES, ProduceLane
from kvorum.network.authorizer import NoQuotas, Operation, ResourceType
from kvorum.network.connection import ServerConnection
from kvorum.network.connection_counts import ConnectionCounts
from kvorum.network.context import RequestContext
from kvorum.network.limits import ConnectionLimits, RequestBudget
from kvorum.network.metrics import RegistryMetrics
from kvorum.network.request_times import STAGES
from kvorum.network.router import Handler, Router
from kvorum.network.shared import Shared
from kvorum.protocol.api import ApiKey, request_header_version
from kvorum.protocol.codec import decode_response, encode_bytes
from kvorum.protocol.compression import Codec
from kvorum.protocol.errors import ErrorCode
from kvorum.protocol.headers import RequestHeader, encode_request_header
from kvorum.protocol.messages.produce import PartitionProduceData, ProduceRequest, ProduceResponse, TopicProduceData
from kvorum.protocol.records import Record, build_batch
from kvorum.protocol.topic_partition import TopicPartition
from kvorum.protocol.uuids import Uuid
from kvorum.quorum import records
from kvorum.quorum.image.configs import ResourceType as ConfigOf
from kvorum.runtime import metric_names as names
from kvorum.runtime.listeners import SecurityProtocol
from kvorum.runtime.metrics import Metrics
from kvorum.security.principal import ANONYMOUS, Principal
from tests.unit.broker.replica.manager_kit import World, brokers, fetch, follower_params, settled, target, topic, until

TOPICS = {name: Uuid(bytes([70 + number]) * 16) for number, name in enumerate(("orders", "pairs", "stamped"))}
"""orders: this broker alone; pairs: with a follower; stamped: LogAppendTime."""
CLIENTS = 4
PARTITIONS = 2 * CLIENTS
"""Each client has two of its own in every topic: between connections there is no order."""
NOW_MS = 1_700_000_000_000


class Wire(asyncio.Transport):
    """A transport that keeps what it is given."""

    def __init__(self) -> None:
        super().__init__()
        self.written = bytearray()
        self.ended = False

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return ("10.0.0.1", 5) if name == "peername" else default

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        pass

    def get_write_buffer_size(self) -> int:
        return 0

    def pause_reading(self) -> None:
        pass

    def resume_reading(self) -> None:
        pass

    def is_closing(self) -> bool:
        return self.ended

    def write(self, data: Any) -> None:
        self.written += data

    def writelines(self, parts: Any) -> None:
        self.written += b"".join(parts)

    def close(self) -> None:
        self.ended = True

    abort = close


class Broker:
    """What the handler of Produce asks, on real logs, with or without the short way."""

    def __init__(self, world: World, *, has_lane: bool) -> None:
        self.world = world
        self.refused = False
        self.throttle_ms = 0
        self.produced: list[int] = []
        self.quotas = NoQuotas()
        self.slow = 0
        self.seen: list[Principal] = []
        self.metadata = world.cache
        self.replica_manager = world.manager
        self.authorizer = self
        self.lane = ProduceLane(self, self.replica_manager) if has_lane else None  # type: ignore[arg-type]
        self.shared = Shared(
            loop=asyncio.get_running_loop(),
            router=Router([Handler(ApiKey.PRODUCE, (3, 13), self.handle)], lane=self.lane),
            listener="PLAINTEXT",
            security_protocol=SecurityProtocol.PLAINTEXT,
            limits=ConnectionLimits(),
            counts=ConnectionCounts(),
            budget=RequestBudget(),
        )

    def handle(self, ctx: RequestContext, request: ProduceRequest) -> Any:
        self.slow += 1
        self.seen.append(ctx.principal)
        return produce.handle(ctx, request, self)  # type: ignore[arg-type]

    def authorize(self, ctx: RequestContext, operation: Operation, kind: ResourceType, name: str) -> bool:
        return not self.refused

    def throttle(self, ctx: RequestContext, *, produced: int = 0, exempt: bool = False) -> int:
        self.produced.append(produced)
        ctx.throttle_ms = self.throttle_ms
        return ctx.throttle_ms

    def connection(self) -> tuple[ServerConnection, Wire]:
        made, wire = ServerConnection(self.shared), Wire()
        made.connection_made(wire)
        return made, wire

    async def follow(self) -> None:
        """Be the follower of `pairs`, up to the end of its logs."""
        for _ in range(2):
            for index in range(PARTITIONS):
                log = self.world.manager.hosted.by_name[TopicPartition("pairs", index)].log
                assert log is not None
                requested = target(log.log_end_offset, topic="pairs", partition=index, topic_id=TOPICS["pairs"])
                await fetch(self.world, requested, params=follower_params())
        await settled()

    def logs(self) -> dict[str, bytes]:
        folder = Path(self.world.settings.list("log.dirs")[0])
        return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*.log"))}


async def a_broker(folder: Path, *, has_lane: bool) -> Broker:
    world = await World(folder).start()
    made = [*brokers(1, 2), *topic("orders", topic_id=TOPICS["orders"], partitions=PARTITIONS)]
    made += topic("pairs", topic_id=TOPICS["pairs"], partitions=PARTITIONS, replicas=(1, 2))
    made += topic("stamped", topic_id=TOPICS["stamped"], partitions=PARTITIONS)
    stamped = {"resource_type": ConfigOf.TOPIC, "resource_name": "stamped"}
    made.append(records.Config(**stamped, name="message.timestamp.type", value="LogAppendTime"))
    made.append(records.Config(**stamped, name="max.message.bytes", value="10000"))
    await world.metadata(*made)
    return Broker(world, has_lane=has_lane)


def feed(connection: ServerConnection, data: bytes) -> None:
    while data:
        buffer = connection.get_buffer(-1)
        count = min(len(buffer), len(data))
        buffer[:count] = data[:count]
        del buffer
        connection.buffer_updated(count)
        data = data[count:]


def request(
    number: int, version: int, *data: tuple[str, int, bytes | None], acks: int = 1, client_id: str = "me"
) -> bytes:
    """A frame."""
    topics: dict[str, TopicProduceData] = {}
    for name, index, records_ in data:
        named = topics.setdefault(name, TopicProduceData(name=name, topic_id=TOPICS.get(name, Uuid(b"?" * 16))))
        named.partition_data.append(PartitionProduceData(index=index, records=records_))
    message = ProduceRequest(acks=acks, timeout=1000, topic_data=[*topics.values()])
    header = RequestHeader(ApiKey.PRODUCE, version, number, client_id)
    body = encode_request_header(header, request_header_version(ApiKey.PRODUCE, version, message.FLEXIBLE_FROM))
    body += encode_bytes(message, version)
    return len(body).to_bytes(4, "big") + body


def batch(*values: bytes, **fields: Any) -> bytes:
    return bytes(build_batch([Record(value, b"key", NOW_MS) for value in values], **fields))


class Client:
    """Sends, over one connection, what one client of a kind does, and now and then anything else."""

    def __init__(self, chance: random.Random, partition: int) -> None:
        self.chance = chance
        self.partition = partition
        self.producer_id = 60 + partition
        self.version = chance.choice([6, 7, 8, 9, 10, 11, 12, 13])
        self.acks = chance.choice([0, 1, 1, -1, -1])
        self.sequence = 0
        self.last = batch(b"first")
        self.number = 0

    def frame(self) -> bytes:
        chance = self.chance
        self.number += 1
        name = chance.choice(["orders", "orders", "pairs", "stamped"])
        index = self.partition
        data = self.last = batch(b"x" * chance.randrange(300))
        more = {"acks": self.acks}
        kind = chance.randrange(45) if self.acks else 99  # an error of acks=0 ends the connection
        if kind < 6:
            name = "orders"
            data = batch(*[b"v"] * 2, producer_id=self.producer_id, producer_epoch=0, base_sequence=self.sequence)
            if kind < 5:
                self.sequence += 2
            elif self.sequence:  # again
                data = batch(
                    *[b"v"] * 2, producer_id=self.producer_id, producer_epoch=0, base_sequence=self.sequence - 2
                )
        elif kind == 6:
            data = data[:-1] + bytes([data[-1] ^ 1])
        elif kind == 7:
            name, data = "stamped", batch(b"v" * 20_000)
        elif kind == 8:
            data = batch(b"v" * 200, codec=Codec.LZ4)
        elif kind == 9:
            data = batch(b"v", producer_id=self.producer_id, producer_epoch=0, base_sequence=900)
        elif kind == 10:
            name = "unknown"
        elif kind == 11:
            index = 9
        elif kind == 12:
            data = batch(b"v", producer_id=50, producer_epoch=0, base_sequence=0, is_transactional=True)
        elif kind == 13:
            return request(self.number, self.version, ("orders", index, data), ("pairs", index, data), **more)
        elif kind == 14:
            return request(self.number, self.version, (name, index, None), **more)
        elif kind == 15:
            return request(self.number, 3, (name, index, data), **more)
        elif kind == 16:
            more["acks"] = 7
        elif kind == 17:
            data += data
        if chance.random() < 0.4:
            second = batch(b"y" * chance.randrange(300))
            if self.acks:
                second = chance.choice([second] * 5 + [second[:-1], b"", data])
            both = [(name, index, data), (name, index + CLIENTS if kind != 18 else index, second)]
            return request(self.number, self.version, *chance.sample(both, 2), **more)
        return request(self.number, self.version, (name, index, data), **more)


@pytest.mark.parametrize("seed", range(40))
def test_answers_and_logs_are_those_of_the_ordinary_way(
    tmp_path: Path, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every second time with slices so small that most turns bring more than one."""
    if seed % 2:
        monkeypatch.setattr(produce_lane, "SMALL_BYTES", 150)
        monkeypatch.setattr(produce_lane, "SLICE_BYTES", 400)
    folders = [tmp_path / "ordinary", tmp_path / "short"]
    for folder in folders:
        folder.mkdir()

    async def main() -> None:
        both = [await a_broker(folder, has_lane=folder is folders[1]) for folder in folders]
        connections = [[broker.connection() for _ in range(CLIENTS)] for broker in both]
        chance = random.Random(seed)
        clients = [Client(chance, number) for number in range(CLIENTS)]
        for _ in range(30):
            # What one turn brings, in pieces that are no frames.
            for number in chance.sample(range(CLIENTS), chance.randrange(1, CLIENTS + 1)):
                data = b"".join(clients[number].frame() for _ in range(chance.randrange(1, 6)))
                cut = chance.randrange(len(data))
                for each in connections:
                    feed(each[number][0], data[:cut])
                    feed(each[number][0], data[cut:])
            await settled()
            if chance.random() < 0.5:
                for broker in both:
                    await broker.follow()
        for broker in both:
            await broker.follow()
        written = [[bytes(wire.written) for _, wire in each] for each in connections]
        assert written[0] == written[1]
        assert [wire.ended for _, wire in connections[0]] == [wire.ended for _, wire in connections[1]]
        assert both[1].slow <= both[0].slow - 20, "many went the short way"
        for broker in both:
            await broker.world.close()
        assert both[0].logs() == both[1].logs()

    asyncio.run(main())


def with_lane(folder: Path, journey: Callable[[Broker, ServerConnection, Wire], Coroutine[Any, Any, None]]) -> None:
    """Make a journey with a broker that has the short way, and one connection."""

    async def main() -> None:
        broker = await a_broker(folder, has_lane=True)
        connection, wire = broker.connection()
        await journey(broker, connection, wire)
        await broker.world.close()

    asyncio.run(main())


def answers(wire: Wire, version: int) -> list[tuple[int, ProduceResponse]]:
    """Return (correlation id, answer) of all that was written, and forget it."""
    found, data = [], bytes(wire.written)
    wire.written.clear()
    while data:
        size = int.from_bytes(data[:4], "big")
        body = data[4 : 4 + size]
        place = 5 if version >= ProduceResponse.FLEXIBLE_FROM else 4
        answer = decode_response(ApiKey.PRODUCE, version, memoryview(body[place:]))
        assert isinstance(answer, ProduceResponse)
        found.append((int.from_bytes(body[:4], "big"), answer))
        data = data[4 + size :]
    return found


def codes(wire: Wire, version: int) -> list[int]:
    return [
        row.error_code
        for _, each in answers(wire, version)
        for row in (part for topic_ in each.responses for part in topic_.partition_responses)
    ]


def orders(number: int, version: int = 9, **more: Any) -> bytes:
    return request(number, version, ("orders", 0, batch(b"v")), **more)


def test_the_first_request_goes_the_ordinary_way_and_its_like_do_not(tmp_path: Path) -> None:
    async def journey(broker: Broker, connection: ServerConnection, wire: Wire) -> None:
        for number in range(5):
            feed(connection, orders(number))
            await settled()
        assert broker.slow == 1
        feed(connection, orders(5, 10) + orders(6, client_id="other") + orders(7, acks=-1))
        assert broker.slow == 4
        await settled()
        assert [number for number, _ in answers(wire, 9)] == [*range(8)]

    with_lane(tmp_path, journey)


def test_a_revoked_write_permission_is_effective_at_once(tmp_path: Path) -> None:
    async def journey(broker: Broker, connection: ServerConnection, wire: Wire) -> None:
        feed(connection, orders(0))
        broker.refused = True
        feed(connection, orders(1))
        await settled()
        broker.refused = False
        feed(connection, orders(2))
        await settled()
        assert codes(wire, 9) == [0, ErrorCode.TOPIC_AUTHORIZATION_FAILED, 0]

    with_lane(tmp_path, journey)


def test_another_principal_is_authorized_again(tmp_path: Path) -> None:
    async def journey(broker: Broker, connection: ServerConnection, wire: Wire) -> None:
        feed(connection, orders(0))
        connection.peer.principal = Principal("User", "alice")
        feed(connection, orders(1))
        await settled()
        assert broker.slow == 2
        assert broker.seen == [ANONYMOUS, Principal("User", "alice")]

    with_lane(tmp_path, journey)


def test_a_deleted_or_recreated_topic_is_detected(tmp_path: Path) -> None:
    async def journey(broker: Broker, connection: ServerConnection, wire: Wire) -> None:
        feed(connection, orders(0, 13) + orders(1, 13))
        await settled()
        await broker.world.metadata(records.RemoveTopic(topic_id=TOPICS["orders"]))
        feed(connection, orders(2, 13))
        await settled()
        await broker.world.metadata(*topic("orders", topic_id=Uuid(b"n" * 16)))
        feed(connection, orders(3, 13))
        await settled()
        assert codes(wire, 13) == [0, 0, ErrorCode.UNKNOWN_TOPIC_ID, ErrorCode.UNKNOWN_TOPIC_ID]

    with_lane(tmp_path, journey)


def test_a_former_leader_reports_the_new_one(tmp_path: Path) -> None:
    async def journey(broker: Broker, connection: ServerConnection, wire: Wire) -> None:
        frame = request(0, 10, ("pairs", 0, batch(b"v")))
        feed(connection, frame)
        await settled()
        change = records.PartitionChange(topic_id=TOPICS["pairs"], partition_id=0, leader=2)
        await broker.world.metadata(change)
        feed(connection, frame)
        await settled()
        first, second = (answer for _, answer in answers(wire, 10))
        row = second.responses[0].partition_responses[0]
        assert first.responses[0].partition_responses[0].error_code == 0
        assert row.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
        assert row.current_leader is not None and row.current_leader.leader_id == 2

    with_lane(tmp_path, journey)


def test_a_throttled_client_gets_its_throttle_time_and_is_not_read(tmp_path: Path) -> None:
    async def journey(broker: Broker, connection: ServerConnection, wire: Wire) -> None:
        feed(connection, orders(0))
        broker.throttle_ms = 60_000
        feed(connection, orders(1))
        await settled()
        broker.throttle_ms = 0
        feed(connection, orders(2))
        await settled()
        assert [each.throttle_time for _, each in answers(wire, 9)] == [0, 60_000]
        assert connection.queued == 1

    with_lane(tmp_path, journey)


def test_waits_for_followers_are_remote_time_and_others_local_time(tmp_path: Path) -> None:
    async def journey(broker: Broker, connection: ServerConnection, wire: Wire) -> None:
        loop, reported = asyncio.get_running_loop(), Metrics()
        broker.shared.metrics = network = RegistryMetrics(reported, loop.time)
        alone, both = (request(0, 9, (name, 0, batch(b"v")), acks=-1) for name in ("orders", "pairs"))
        for frame in (alone, both):
            feed(connection, frame)
            await settled()
            await broker.follow()
        stages = network._answers["Produce", 9, 0].stages
        local, remote = (stages[STAGES.index(name)] for name in (names.LOCAL_TIME, names.REMOTE_TIME))
        for each in stages:
            each._windows.clear()  # of those two, which went the ordinary way
        feed(connection, alone)
        await settled()
        now_ms = loop.time() * 1000
        assert remote.collect(now_ms)["0.999"] == 0 < local.collect(now_ms)["0.50"]
        feed(connection, both)
        since = loop.time()
        await until(lambda: loop.time() > since + 0.05)
        await broker.follow()
        now_ms = loop.time() * 1000
        assert remote.collect(now_ms)["0.999"] > 40 > local.collect(now_ms)["0.999"]
        sizes = stages[STAGES.index(names.REQUEST_BYTES)].collect(now_ms)
        assert sizes["0.50"] == pytest.approx(len(alone) - 4, rel=0.05)
        assert broker.slow == 2 and codes(wire, 9) == [0] * 4

    with_lane(tmp_path, journey)


def test_quotas_count_the_whole_request_on_either_way(tmp_path: Path) -> None:
    async def journey(broker: Broker, connection: ServerConnection, wire: Wire) -> None:
        frames = [orders(0), orders(1), orders(2)]
        for frame in frames:
            feed(connection, frame)
            await settled()
        assert broker.slow == 1
        assert broker.produced == [len(frame) - 4 for frame in frames]

    with_lane(tmp_path, journey)


def test_while_time_is_a_quota_every_request_goes_the_ordinary_way(tmp_path: Path) -> None:
    async def journey(broker: Broker, connection: ServerConnection, wire: Wire) -> None:
        for timed, slow in ((False, 1), (False, 1), (True, 2), (False, 2)):
            broker.quotas = SimpleNamespace(timed=timed)  # type: ignore[assignment]
            feed(connection, orders(0))
            await settled()
            assert broker.slow == slow
        assert codes(wire, 9) == [0] * 4

    with_lane(tmp_path, journey)


def test_acks_all_below_the_minimum_and_out_of_time_are_answered_as_such(tmp_path: Path) -> None:
    async def journey(broker: Broker, connection: ServerConnection, wire: Wire) -> None:
        frame = request(0, 9, ("pairs", 0, batch(b"v")), acks=-1)
        feed(connection, frame)
        await broker.follow()
        feed(connection, frame + frame)
        await settled()
        assert codes(wire, 9) == [0] and broker.slow == 1
        broker.world.clock.now_ms += 2_000
        await until(lambda: wire.written)
        assert codes(wire, 9) == [ErrorCode.REQUEST_TIMED_OUT] * 2

    with_lane(tmp_path, journey)


def test_answers_of_a_connection_that_is_gone_are_dropped(tmp_path: Path) -> None:
    async def journey(broker: Broker, connection: ServerConnection, wire: Wire) -> None:
        feed(connection, orders(0))
        await settled()
        wire.written.clear()
        feed(connection, orders(1))
        connection.connection_lost(None)
        await settled()
        assert not wire.written
        log = broker.world.manager.hosted.by_name[TopicPartition("orders", 0)].log
        assert log is not None and log.log_end_offset == 2, "what was received is written"

    with_lane(tmp_path, journey)


def test_a_version_that_never_was_is_not_taken_for_one_that_looks_alike(tmp_path: Path) -> None:
    async def journey(broker: Broker, connection: ServerConnection, wire: Wire) -> None:
        feed(connection, orders(0, 9))
        await settled()
        frame = bytearray(orders(1, 9))
        frame[4 + 2] = 1  # version 265
        feed(connection, bytes(frame))
        await settled()
        assert wire.ended and broker.slow == 1
        log = broker.world.manager.hosted.by_name[TopicPartition("orders", 0)].log
        assert log is not None and log.log_end_offset == 1

    with_lane(tmp_path, journey)


def test_more_than_a_run_holds_is_appended_in_order(tmp_path: Path) -> None:
    async def journey(broker: Broker, connection: ServerConnection, wire: Wire) -> None:
        others = [broker.connection() for _ in range(4)]
        for each, _ in others:
            feed(each, orders(0))
        await settled()
        for each, own in others:
            own.written.clear()
            feed(each, b"".join(orders(number) for number in range(90)))
        await settled()
        found = [
            (number, answer.responses[0].partition_responses[0].base_offset)
            for _, own in others
            for number, answer in answers(own, 9)
        ]
        assert [number for number, _ in found] == [*range(90)] * 4
        assert sorted(offset for _, offset in found) == [*range(4, 4 + 360)]
        for place in range(4):
            offsets = [offset for _, offset in found[90 * place : 90 * place + 90]]
            assert offsets == sorted(offsets)
        assert RUN_MAX < 360 and broker.slow == 4

    with_lane(tmp_path, journey)


def large(number: int, *partitions: int) -> bytes:
    data = [("orders", index, batch(b"v" * (SLICE_BYTES // 2 + 1))) for index in partitions]
    return request(number, 9, *data)


def test_a_small_record_is_answered_before_an_earlier_large_batch(tmp_path: Path) -> None:
    async def journey(broker: Broker, connection: ServerConnection, wire: Wire) -> None:
        small, own = broker.connection()
        feed(connection, large(0, 1))
        feed(small, orders(0))
        await settled()
        own.written.clear()
        wire.written.clear()
        feed(connection, large(1, 1, 2) + large(2, 1, 2, 3, 4))
        feed(small, orders(1))
        order: list[int] = []
        while len(order) < 3:
            await asyncio.sleep(0)
            order += [10 + number for number, _ in answers(own, 9)] + [number for number, _ in answers(wire, 9)]
        assert order == [11, 1, 2] and broker.slow == 2

    with_lane(tmp_path, journey)


def test_large_batches_are_not_starved_by_small_records(tmp_path: Path) -> None:
    async def journey(broker: Broker, connection: ServerConnection, wire: Wire) -> None:
        small, _ = broker.connection()
        feed(connection, large(0, 1))
        feed(small, orders(0))
        await settled()
        wire.written.clear()
        feed(connection, large(1, 1, 2, 3, 4))
        for number in range(20):
            feed(small, orders(number))
            await asyncio.sleep(0)
        assert [number for number, _ in answers(wire, 9)] == [1]

    with_lane(tmp_path, journey)


def test_records_for_a_topic_that_is_gone_before_their_turn_are_refused(tmp_path: Path) -> None:
    async def journey(broker: Broker, connection: ServerConnection, wire: Wire) -> None:
        feed(connection, request(0, 13, ("orders", 1, batch(b"v"))))
        await settled()
        wire.written.clear()
        feed(connection, request(1, 13, ("orders", 1, batch(b"v"))))
        nothing = SimpleNamespace(topics=SimpleNamespace(by_id={}))
        broker.metadata = SimpleNamespace(image=nothing)  # type: ignore[assignment]
        await settled()
        assert codes(wire, 13) == [ErrorCode.UNKNOWN_TOPIC_ID]

    with_lane(tmp_path, journey)


def test_cached_request_heads_of_a_connection_are_limited(tmp_path: Path) -> None:
    async def journey(broker: Broker, connection: ServerConnection, wire: Wire) -> None:
        for number in range(HEADS_MAX + 10):
            feed(connection, orders(number, client_id=f"client-{number}"))
        assert sum(map(len, connection.lane_memory.values())) == 10
        await settled()
        assert codes(wire, 9) == [0] * (HEADS_MAX + 10)

    with_lane(tmp_path, journey)


@pytest.mark.parametrize("sizes", [[61], [200], [61, 70_000, 99], [16_383 - 1, 16_384], [61] * 130])
@pytest.mark.parametrize("version", [7, 9])
def test_partitions_are_found_only_where_nothing_but_they_is_left(sizes: list[int], version: int) -> None:
    data = [("orders", number * 7, bytes([number % 256]) * size) for number, size in enumerate(sizes)]
    frame = request(1, version, *data)[4:]
    parts = [(index, memoryview(each)) for _, index, each in data]
    size = head_size(memoryview(frame), parts, version >= 9)
    found = parts_behind(memoryview(frame), size, version >= 9)
    assert found == parts
    for count in (1, 2, 3, 60, len(frame) - size):
        assert parts_behind(memoryview(frame)[:-count], size, version >= 9) is None
    for more in (b"\0", b"\0\0\0", b"\1"):
        assert parts_behind(memoryview(frame + more), size, version >= 9) is None
    for tag in (-1, -2, -3) if version >= 9 else ():
        tagged = bytearray(frame)
        tagged[tag] = 1
        assert parts_behind(memoryview(tagged), size, True) is None
    short = request(1, version, *data, ("orders", 9_999, b"x" * 60))[4:]
    assert parts_behind(memoryview(short), size, version >= 9) is None


def test_an_oversized_varint_count_is_invalid() -> None:
    frame = request(1, 9, ("orders", 0, batch(b"v")))[4:]
    parts = [(0, memoryview(batch(b"v")))]
    size = head_size(memoryview(frame), parts, True)
    assert frame[size] == 2, "one partition"
    for more in (4, 5, 100_000):
        count = bytes([0x82, *[0x80] * (more - 1), 0])
        found = parts_behind(memoryview(frame[:size] + count + frame[size + 1 :]), size, True)
        assert (found == parts) if more == 4 else found is None


def test_a_long_head_is_not_remembered(tmp_path: Path) -> None:
    async def journey(broker: Broker, connection: ServerConnection, wire: Wire) -> None:
        for number in range(3):
            feed(connection, orders(number, client_id="c" * HEAD_BYTES_MAX))
            await settled()
        assert broker.slow == 3 and not connection.lane_memory
        assert codes(wire, 9) == [0, 0, 0]

    with_lane(tmp_path, journey)


@pytest.mark.parametrize("number", [0, 1, 127, 128, 16_383, 16_384, 2**21 - 1, 2**21])
def test_the_size_of_a_number(number: int) -> None:
    assert unsigned_size(number) == len(encode_uvarint(number))


def encode_uvarint(number: int) -> bytes:
    found = bytearray()
    while number >= 0x80:
        found.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*found, number])
