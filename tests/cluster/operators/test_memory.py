"""Clients that take no responses, or send half of a request, cost a broker bounded memory, which is given back."""

import asyncio
import contextlib
import os
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, TopicPartition

from kvorum.client.wire.cluster_client import ClusterClient
from kvorum.cluster.local.local import LocalCluster
from kvorum.network.addresses import parse_bootstrap
from kvorum.protocol.api import ApiKey, request_header_version
from kvorum.protocol.codec import decode_response, encode_bytes
from kvorum.protocol.headers import RequestHeader, encode_request_header
from kvorum.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from kvorum.protocol.messages.produce import PartitionProduceData, ProduceRequest, ProduceResponse, TopicProduceData
from kvorum.protocol.records import Record, build_batch
from kvorum.protocol.schema import Message
from tests.cluster.cgroups import memory_limit
from tests.cluster.clients import create_topic, eventually
from tests.cluster.conftest import clusters_in
from tests.cluster.nodes import addresses

MIB = 1024 * 1024
CLIENTS = 150
PARTITIONS = 8
NODE_BYTES_MAX = 300 * MIB
PRODUCERS = 60
PRODUCE_VERSION = 8
HEADER_BYTES = 4
"""A response header's size in that version."""
WRITE_BYTES = 64 * 1024
NOW_MS = 1_700_000_000_000


class Broker:
    """The broker of a cluster with one node."""

    def __init__(self, cluster: LocalCluster) -> None:
        name = cluster.plan.nodes[0].name
        self.address = addresses(cluster)[name]
        self.pid = cluster.processes(name)["broker"].pid

    @property
    def memory(self) -> int:
        """Return its resident memory in bytes."""
        lines = Path(f"/proc/{self.pid}/status").read_text().splitlines()
        return int(next(line for line in lines if line.startswith("VmRSS")).split()[1]) * 1024

    def connect(self) -> socket.socket:
        host, _, port = self.address.rpartition(":")
        return socket.create_connection((host, int(port)), timeout=30)

    def unread(self) -> int:
        """Return the bytes that its clients have sent and it has not read."""
        port = f":{int(self.address.rpartition(':')[2]):04X}"
        rows = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
        return sum(int(row[4].partition(":")[2], 16) for row in rows if row[1].endswith(port))

    def settled(self) -> int:
        """Return its memory once it has not changed between two looks."""
        seen = [-1]

        def unchanged() -> bool:
            seen.append(self.memory)
            return seen[-1] == seen[-2]

        eventually(unchanged, "the broker's memory does not change any more")
        return seen[-1]


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    with clusters_in(tmp_path_factory.mktemp("memory")) as start:
        found = Broker(start("single.yaml"))
        create_topic(found.address, "t", PARTITIONS, 1)
        asyncio.run(fill(found.address))
        yield found


def frame(message: Message, version: int) -> bytes:
    header = RequestHeader(message.API_KEY, version, 1, "test")
    body = encode_request_header(header, request_header_version(message.API_KEY, version, message.FLEXIBLE_FROM))
    body += encode_bytes(message, version)
    return len(body).to_bytes(4, "big") + body


def produce_request(*partitions: int) -> ProduceRequest:
    """Return a request with 900 kB of records for each partition."""
    records = memoryview(build_batch([Record(value=os.urandom(900_000), timestamp=NOW_MS)]))
    data = [PartitionProduceData(index=index, records=records) for index in partitions]
    return ProduceRequest(acks=-1, timeout=30_000, topic_data=[TopicProduceData(name="t", partition_data=data)])


async def fill(address: str) -> None:
    """Write 28 MB of records."""
    client = ClusterClient(parse_bootstrap(address))
    try:
        for index in [*range(PARTITIONS)] * 4:
            answer = await client.ask(produce_request(index), ProduceResponse, version_max=9)
            assert answer.responses[0].partition_responses[0].error_code == 0
    finally:
        await client.close()


async def describe(address: str) -> None:
    client = ClusterClient(parse_bootstrap(address))
    try:
        assert (await client.topic("t")).partitions
    finally:
        await client.close()


def large_fetch() -> bytes:
    """Return a request for all records, whatever their size."""
    partitions = [FetchPartition(partition=index, partition_max_bytes=50 * MIB) for index in range(PARTITIONS)]
    topic = FetchTopic(topic="t", partitions=partitions)
    return frame(FetchRequest(max_bytes=500 * MIB, min_bytes=1, topics=[topic]), 11)


def test_slow_consumers_cost_next_to_no_memory_and_others_are_served(broker: Broker) -> None:
    fetch = large_fetch()
    before = broker.settled()
    with contextlib.ExitStack() as stack:
        for _ in range(CLIENTS):
            client = stack.enter_context(broker.connect())
            client.sendall(fetch)
            assert client.recv(1)  # its response has begun
        assert broker.settled() - before < 40 * MIB, "each held 1.26 MB once"
        with broker.connect() as other:
            other.sendall(fetch)
            received = 0
            while received < 25 * MIB:
                received += len(other.recv(MIB))
    assert broker.settled() - before < 40 * MIB


def test_half_requests_cost_bounded_memory_that_is_given_back(broker: Broker) -> None:
    before = broker.settled()
    with contextlib.ExitStack() as stack:
        for _ in range(CLIENTS):
            client = stack.enter_context(broker.connect())
            client.sendall((100 * MIB).to_bytes(4, "big") + bytes(100))
            client.setblocking(False)
            with contextlib.suppress(BlockingIOError):
                client.send(bytes(MIB))
        eventually(lambda: broker.unread() > 10 * MIB, "the broker leaves requests in their sockets")
        assert broker.settled() - before < 120 * MIB
        asyncio.run(describe(broker.address))
    eventually(lambda: broker.memory - before < 60 * MIB, "the memory is given back")


async def produce_at_once(address: str, count: int) -> list[list[int]]:
    """Send a request of 7.2 MB on each of `count` connections at the same time; return the error codes of each."""
    request = frame(produce_request(*range(PARTITIONS)), PRODUCE_VERSION)
    host, _, port = address.rpartition(":")

    async def produce() -> list[int]:
        reader, writer = await asyncio.open_connection(host, int(port))
        for start in range(0, len(request), WRITE_BYTES):
            writer.write(request[start : start + WRITE_BYTES])
            await writer.drain()
        size = int.from_bytes(await reader.readexactly(4), "big")
        response = decode_response(ApiKey.PRODUCE, PRODUCE_VERSION, (await reader.readexactly(size))[HEADER_BYTES:])
        writer.close()
        return [each.error_code for topic in response.responses for each in topic.partition_responses]

    return await asyncio.gather(*(produce() for _ in range(count)))


def log_ends(address: str) -> list[int]:
    consumer = Consumer({"bootstrap.servers": address, "group.id": "g"})
    try:
        return [consumer.get_watermark_offsets(TopicPartition("t", index), 30)[1] for index in range(PARTITIONS)]
    finally:
        consumer.close()


def test_a_node_with_a_memory_limit_serves_slow_consumers_and_large_requests(tmp_path: Path) -> None:
    with memory_limit(NODE_BYTES_MAX) as limit, clusters_in(tmp_path) as start:
        broker = Broker(start("single.yaml", wrap=limit.wrap))
        assert broker.pid in limit.processes()
        create_topic(broker.address, "t", PARTITIONS, 1)
        asyncio.run(fill(broker.address))
        with contextlib.ExitStack() as stack:
            for _ in range(CLIENTS):
                client = stack.enter_context(broker.connect())
                client.sendall(large_fetch())
                assert client.recv(1)  # its response has begun
            answers = asyncio.run(produce_at_once(broker.address, PRODUCERS))
            asyncio.run(describe(broker.address))
        assert answers == [[0] * PARTITIONS] * PRODUCERS
        assert limit.limit_hits(), "the limit was never reached, so the test shows nothing"
        assert limit.oom_kills() == 0
        assert broker.pid in limit.processes()
        assert log_ends(broker.address) == [4 + PRODUCERS] * PARTITIONS
