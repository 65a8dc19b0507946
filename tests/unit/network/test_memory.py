"""The bounds over all connections of a process: incomplete requests, unsent responses."""

import asyncio
import contextlib
import socket

import pytest

from kvorum.network.context import RequestContext
from kvorum.network.memory import READ_BYTES, SMALL_BYTES, STALLED_SECONDS, ConnectionMemory, MemoryShare
from kvorum.network.router import Handler
from kvorum.protocol.api import ApiKey
from kvorum.protocol.messages.metadata import MetadataRequest, MetadataResponse, MetadataResponseTopic
from kvorum.protocol.messages.produce import ProduceRequest, ProduceResponse
from tests.unit.network.network_kit import channel_to, listener_of, metadata_handler, request_frame, run, until

MIB = 1024 * 1024


class FakeConnection:
    def __init__(self) -> None:
        self.is_reading = True
        self.updates = 0
        self.dropped: list[str] = []
        self.share: MemoryShare

    def update_reading(self) -> None:
        self.updates += 1

    def drop(self, reason: str) -> None:
        self.dropped.append(reason)


def connections(memory: ConnectionMemory, count: int) -> list[FakeConnection]:
    found = [FakeConnection() for _ in range(count)]
    for each in found:
        each.share = MemoryShare(memory, each)
    return found


def test_of_too_many_incomplete_requests_the_first_is_read_and_the_others_wait_their_turn() -> None:
    async def main() -> None:
        memory = ConnectionMemory(request_bytes_max=MIB)
        first, second, third, fourth = connections(memory, 4)
        for each in (first, second):
            each.share.set_request(MIB // 2, 1, 0.0)
        assert not first.share.waits and not second.share.waits
        third.share.set_request(READ_BYTES, 1, 0.0)
        fourth.share.set_request(READ_BYTES, 1, 0.0)
        second.share.set_request(MIB // 2 + 1, 2, 0.0)
        first.share.set_request(MIB, 2, 0.0)
        assert [each.share.waits for each in (first, second, third, fourth)] == [False, True, True, True]
        first.share.set_request(0, 0, 0.0)  # it is complete
        assert [each.share.waits for each in (second, third, fourth)] == [False, True, True]
        second.share.set_request(0, 0, 0.0)
        assert [each.share.waits for each in (third, fourth)] == [False, False]
        assert (second.updates, third.updates, fourth.updates) == (1, 1, 1)
        for each in (second, third, fourth):
            each.share.close()
        assert memory.request_bytes == 0

    run(main)


@pytest.mark.patches
def test_a_stalled_request_closes_its_connection_while_others_wait(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("kvorum.network.memory.STALLED_SECONDS", 0.05)

    async def main() -> None:
        memory = ConnectionMemory(request_bytes_max=MIB)
        stalled, throttled, waiting = connections(memory, 3)
        throttled.is_reading = False
        throttled.share.set_request(1, 1, asyncio.get_running_loop().time())
        stalled.share.set_request(2 * MIB, 1, asyncio.get_running_loop().time())
        waiting.share.set_request(READ_BYTES, 1, asyncio.get_running_loop().time())
        assert waiting.share.waits
        await until(lambda: not waiting.share.waits)
        assert len(stalled.dropped) == 1 and throttled.dropped == waiting.dropped == []
        assert memory.request_bytes == READ_BYTES + 1

    assert STALLED_SECONDS > 1
    run(main)


def test_too_large_unsent_responses_close_the_connections_that_are_behind_for_longest() -> None:
    memory = ConnectionMemory(response_bytes_max=3 * MIB)
    first, second, third, fourth = connections(memory, 4)
    for each in (first, second, third):
        each.share.set_response(MIB)
    first.share.set_response(MIB - 1)  # it makes progress: the second is now the slowest
    fourth.share.set_response(MIB)
    assert [len(each.dropped) for each in (first, second, third, fourth)] == [0, 1, 0, 0]
    fourth.share.set_response(4 * MIB)
    assert len(fourth.dropped) == 1
    for each in (first, second, third, fourth):
        each.share.close()
        each.share.set_response(SMALL_BYTES)
    assert memory.response_bytes == 0


def test_large_requests_get_memory_as_their_bytes_arrive_while_others_are_served() -> None:
    async def main() -> None:
        memory = ConnectionMemory(request_bytes_max=8 * MIB)
        produced: list[int] = []

        def handle(ctx: RequestContext, request: ProduceRequest) -> ProduceResponse:
            produced.append(ctx.request_bytes)
            return ProduceResponse()

        listener = listener_of(Handler(ApiKey.PRODUCE, (3, 13), handle), metadata_handler(), memory=memory)
        port = await listener.start()
        clients = [socket.create_connection(("127.0.0.1", port)) for _ in range(40)]
        loop = asyncio.get_running_loop()
        for client in clients:
            client.setblocking(False)
            await loop.sock_sendall(client, (100 * MIB).to_bytes(4, "big") + bytes(100))
        await until(lambda: listener.connection_count == 40 and memory.request_bytes >= 4 * MIB)
        for client in clients:
            with contextlib.suppress(BlockingIOError):
                client.send(bytes(MIB))
        other = channel_to(port)
        for _ in range(20):
            await other.request(MetadataRequest())
            assert memory.request_bytes < 20 * MIB
        for client in clients:
            client.close()
        await until(lambda: memory.request_bytes == 0)
        await other.close()
        await listener.close()

    run(main)


def test_large_responses_that_clients_do_not_take_are_bounded_over_all_connections(log_lines: list[str]) -> None:
    async def main() -> None:
        memory = ConnectionMemory(response_bytes_max=10 * MIB)
        topics = [MetadataResponseTopic(name="x" * 30_000) for _ in range(200)]

        def handle(ctx: RequestContext, request: MetadataRequest) -> MetadataResponse:
            return MetadataResponse(topics=topics if ctx.client_id == "slow" else [])

        listener = listener_of(Handler(ApiKey.METADATA, (0, 13), handle), memory=memory)
        port = await listener.start()
        loop = asyncio.get_running_loop()
        clients = []
        request = b"".join(request_frame(MetadataRequest(), 9, number, "slow") for number in range(5))
        for _ in range(12):
            clients.append(socket.create_connection(("127.0.0.1", port)))
            clients[-1].setblocking(False)
            await loop.sock_sendall(clients[-1], request)
        other = channel_to(port)
        await until(lambda: any("connection closed" in line and "unsent responses" in line for line in log_lines))
        await other.request(MetadataRequest())
        assert 0 < memory.response_bytes <= 10 * MIB
        for client in clients:
            client.close()
        await until(lambda: listener.connection_count == 1)
        assert memory.response_bytes == 0
        await other.close()
        await listener.close()

    run(main)
