"""The short way of Produce answers, to the byte, what the ordinary one does, and leaves the same logs behind."""

import asyncio
import random
from pathlib import Path
from typing import Any

import pytest
from manager_kit import World, brokers, fetch, follower_params, settled, target, topic

from kvorum.broker.api import produce
from kvorum.broker.api.produce_lane import ProduceLane
from kvorum.network.authorizer import Operation, ResourceType
from kvorum.network.connection import ServerConnection
from kvorum.network.connection_counts import ConnectionCounts
from kvorum.network.context import RequestContext
from kvorum.network.limits import ConnectionLimits, RequestBudget
from kvorum.network.router import Handler, Router
from kvorum.network.shared import Shared
from kvorum.protocol.api import ApiKey, request_header_version
from kvorum.protocol.codec import encode_bytes
from kvorum.protocol.compression import Codec
from kvorum.protocol.headers import RequestHeader, encode_request_header
from kvorum.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from kvorum.protocol.records import Record, build_batch
from kvorum.protocol.uuids import Uuid
from kvorum.quorum import records
from kvorum.quorum.image.configs import ResourceType as ConfigOf
from kvorum.runtime.listeners import SecurityProtocol
from kvorum.storage.names import TopicPartition

TOPICS = {name: Uuid(bytes([70 + number]) * 16) for number, name in enumerate(("orders", "pairs", "stamped"))}
"""orders: this broker alone; pairs: with a follower; stamped: LogAppendTime."""
CLIENTS = 4
"""Each has a partition of its own in every topic: between connections there is no order."""
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
        self.slow = 0
        self.metadata = world.cache
        self.replica_manager = world.manager
        self.authorizer = self
        self.lane = ProduceLane(self) if has_lane else None  # type: ignore[arg-type]
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
        return produce.handle(ctx, request, self)  # type: ignore[arg-type]

    def authorize(self, ctx: RequestContext, operation: Operation, kind: ResourceType, name: str) -> bool:
        return not self.refused

    def throttle(self, ctx: RequestContext, *, produced: int = 0, fetched: int = 0) -> int:
        ctx.throttle_ms = self.throttle_ms
        return ctx.throttle_ms

    def connection(self) -> tuple[ServerConnection, Wire]:
        made, wire = ServerConnection(self.shared), Wire()
        made.connection_made(wire)
        return made, wire

    async def follow(self) -> None:
        """Be the follower of `pairs`, up to the end of its logs."""
        for _ in range(2):
            for index in range(CLIENTS):
                log = self.world.manager.hosted.by_name[TopicPartition("pairs", index)].log
                assert log is not None
                asked = target(log.log_end_offset, topic="pairs", partition=index, topic_id=TOPICS["pairs"])
                await fetch(self.world, asked, params=follower_params())
        await settled()

    def logs(self) -> dict[str, bytes]:
        folder = Path(self.world.settings.list("log.dirs")[0])
        return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*.log"))}


async def a_broker(folder: Path, *, has_lane: bool) -> Broker:
    world = await World(folder).start()
    made = [*brokers(1, 2), *topic("orders", topic_id=TOPICS["orders"], partitions=CLIENTS)]
    made += topic("pairs", topic_id=TOPICS["pairs"], partitions=CLIENTS, replicas=(1, 2))
    made += topic("stamped", topic_id=TOPICS["stamped"], partitions=CLIENTS)
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
    """A frame; each of `data` is a topic of its own."""
    message = ProduceRequest(
        acks=acks,
        timeout=1000,
        topic_data=[
            TopicProduceData(
                name=name,
                topic_id=TOPICS.get(name, Uuid(b"?" * 16)),
                partition_data=[PartitionProduceData(index=index, records=batch)],
            )
            for name, index, batch in data
        ],
    )
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
        return request(self.number, self.version, (name, index, data), **more)


@pytest.mark.parametrize("seed", range(40))
def test_answers_and_logs_are_those_of_the_ordinary_way(tmp_path: Path, seed: int) -> None:
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
