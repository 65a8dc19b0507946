"""Large transfers over TLS with sockets: both ways, with slow readers and half-closed clients."""

import asyncio
import random
import socket
import ssl
import threading
from pathlib import Path
from typing import Any, cast

import pytest

from kvorum.network.connection import ServerConnection
from kvorum.network.context import RequestContext
from kvorum.network.limits import ConnectionLimits
from kvorum.network.memory import ROOMY_SHARE, ConnectionMemory
from kvorum.network.outbox import GATHERED_BYTES_MAX, PROBE_BYTES
from kvorum.network.router import Handler
from kvorum.network.server import Listener
from kvorum.network.tls import PIECE_BYTES
from kvorum.protocol.api import ApiKey
from kvorum.protocol.codec import decode_response
from kvorum.protocol.messages.fetch import FetchableTopicResponse, FetchRequest, FetchResponse, PartitionData
from kvorum.protocol.messages.metadata import MetadataRequest
from kvorum.protocol.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
    TopicProduceResponse,
)
from kvorum.protocol.parts import FileSlice
from kvorum.runtime.disk import OsDisk
from kvorum.security.client import ClientSecurity
from tests.tls_certificates import client_tls
from tests.unit.network.network_kit import channel_to, request_frame, run, until
from tests.unit.network.tls_kit import python_context, tls_listener

MIB = 1024 * 1024
RECORD_OVERHEAD = 22


def checksum(ctx: RequestContext, request: ProduceRequest) -> ProduceResponse:
    """Answer with the sum of the bytes."""
    rows = [
        PartitionProduceResponse(index=each.index, base_offset=sum(bytes(each.records or b"")))
        for topic in request.topic_data
        for each in topic.partition_data
    ]
    return ProduceResponse(responses=[TopicProduceResponse(name="t", partition_responses=rows)])


def produce_request(batches: list[bytes]) -> ProduceRequest:
    data = [PartitionProduceData(index=index, records=records) for index, records in enumerate(batches)]
    return ProduceRequest(acks=1, topic_data=[TopicProduceData(name="t", partition_data=data)])


def test_requests_and_responses_of_all_sizes_pass_a_channel(tmp_path: Path) -> None:
    async def main() -> None:
        chance = random.Random(5)
        data = chance.randbytes(3 * MIB)
        file = OsDisk().open(str(tmp_path / "log"), create=True)
        file.pwrite(data, 0)

        def fetch(ctx: RequestContext, request: FetchRequest) -> FetchResponse:
            row = PartitionData(records=(b"head", FileSlice(file, 0, request.max_bytes), b"tail"))
            return FetchResponse(responses=[FetchableTopicResponse(topic="t", partitions=[row])])

        listener = tls_listener(None, Handler(ApiKey.FETCH, (4, 18), fetch), Handler(ApiKey.PRODUCE, (3, 13), checksum))
        channel = channel_to(await listener.start(), security=ClientSecurity(tls=client_tls()))

        async def produce(sizes: list[int]) -> None:
            batches = [chance.randbytes(size) for size in sizes]
            response = await channel.ask(produce_request(batches), ProduceResponse, version=9)
            sums = [row.base_offset for row in response.responses[0].partition_responses]
            assert sums == [sum(batch) for batch in batches]

        async def consume(size: int) -> None:
            response = await channel.ask(FetchRequest(max_bytes=size), FetchResponse, version=11)
            (row,) = response.responses[0].partitions
            assert bytes(cast(Any, row.records)) == b"head" + data[:size] + b"tail"

        sizes = [1, 100, 16_383, 16_384, 16_385, PIECE_BYTES, 65_537, MIB, 3 * MIB]
        await asyncio.gather(
            *(produce([size]) for size in sizes),
            *(consume(size) for size in sizes),
            *(produce([chance.randrange(1, 200_000) for _ in range(7)]) for _ in range(5)),
            produce([10] * 2_000),
        )
        await channel.close()
        await listener.close()
        file.close()

    run(main)


class SlowReader:
    """A client in a thread that sends a request and reads nothing until it may."""

    def __init__(self, port: int, request: bytes) -> None:
        self.may_read = threading.Event()
        self.received = b""
        self._port, self._request = port, request

    def run(self) -> None:
        sock = socket.create_connection(("127.0.0.1", self._port), timeout=20)
        with sock, python_context().wrap_socket(sock, server_hostname="localhost") as wrapped:
            wrapped.sendall(self._request)
            self.may_read.wait(20)
            size = int.from_bytes(self._take(wrapped, 4), "big")
            self.received = self._take(wrapped, size)

    def _take(self, wrapped: ssl.SSLSocket, size: int) -> bytes:
        data = bytearray()
        while len(data) < size:
            piece = wrapped.recv(size - len(data))
            assert piece
            data += piece
        return bytes(data)


async def settled(listener: Listener) -> ServerConnection:
    """Wait until the one connection is behind, and nothing more is written."""
    await until(lambda: listener.connection_count == 1)
    await until(
        lambda: any(isinstance(each, ServerConnection) and each._outbox.paused for each in listener.connections())
    )
    (connection,) = listener.connections()
    assert isinstance(connection, ServerConnection)
    return connection


@pytest.mark.parametrize("is_roomy", [True, False])
def test_a_client_that_does_not_read_keeps_a_piece_of_a_file_in_memory(tmp_path: Path, is_roomy: bool) -> None:
    async def main() -> None:
        data = random.Random(1).randbytes(8 * MIB)
        file = OsDisk().open(str(tmp_path / "log"), create=True)
        file.pwrite(data, 0)

        def fetch(ctx: RequestContext, request: FetchRequest) -> FetchResponse:
            row = PartitionData(records=(FileSlice(file, 0, len(data)),))
            return FetchResponse(responses=[FetchableTopicResponse(topic="t", partitions=[row])])

        memory = ConnectionMemory()
        if not is_roomy:
            memory.response_bytes = memory.response_bytes_max // ROOMY_SHARE  # what others hold
        listener = tls_listener(None, Handler(ApiKey.FETCH, (4, 18), fetch), memory=memory)
        port = await listener.start()
        reader = SlowReader(port, request_frame(FetchRequest(), 11))
        task = asyncio.create_task(asyncio.to_thread(reader.run))
        connection = await settled(listener)
        held = connection._transport.get_write_buffer_size()
        piece = GATHERED_BYTES_MAX if is_roomy else PROBE_BYTES
        assert 0 < held <= piece + 10 * RECORD_OVERHEAD
        reader.may_read.set()
        await task
        answer: Any = decode_response(ApiKey.FETCH, 11, reader.received[4:])
        assert bytes(answer.responses[0].partitions[0].records) == data
        await listener.close()
        file.close()

    run(main)


def test_a_request_larger_than_all_buffers_waits_for_a_paused_server() -> None:
    """The server answers the first request later, and reads no more than its limits permit meanwhile."""

    async def main() -> None:
        futures: list[asyncio.Future[ProduceResponse]] = []

        def park(ctx: RequestContext, request: ProduceRequest) -> asyncio.Future[ProduceResponse]:
            futures.append(asyncio.get_running_loop().create_future())
            return futures[-1]

        listener = tls_listener(None, Handler(ApiKey.PRODUCE, (3, 13), park), limits=ConnectionLimits(in_flight_max=1))
        channel = channel_to(await listener.start(), security=ClientSecurity(tls=client_tls()))
        await channel.connect()
        (connection,) = listener.connections()
        requests = [asyncio.create_task(channel.request(produce_request([bytes(MIB)]), version=9)) for _ in range(20)]
        await until(lambda: not cast(ServerConnection, connection).is_reading)
        read = connection.peer.bytes_in
        assert read < 20 * MIB and len(futures) == 1
        for index in range(20):
            await until(lambda index=index: len(futures) == index + 1)
            futures[index].set_result(ProduceResponse())
        await asyncio.gather(*requests)
        await channel.close()
        await listener.close()

    run(main)


def test_a_client_that_ends_its_side_is_answered_with_close_notify() -> None:
    async def main() -> None:
        listener = tls_listener()
        port = await listener.start()

        def attempt() -> tuple[bytes, bytes]:
            sock = socket.create_connection(("127.0.0.1", port), timeout=10)
            wrapped = python_context().wrap_socket(sock, server_hostname="localhost", suppress_ragged_eofs=False)
            wrapped.sendall(request_frame(MetadataRequest(), 9))
            answer = wrapped.recv(65_536)
            with wrapped.unwrap() as raw:  # sends close_notify, and waits for the server's
                return answer, raw.recv(10)

        answer, rest = await asyncio.to_thread(attempt)
        assert b"test-cluster" in answer and rest == b""
        await until(lambda: listener.connection_count == 0)
        await listener.close()

    run(main)
