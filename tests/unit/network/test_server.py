"""A listener begins and ends."""

import asyncio
import os

import pytest

from kvorum.network.context import RequestContext
from kvorum.network.dial import ConnectionLost, is_refusing
from kvorum.network.router import Handler
from kvorum.network.server import Listener
from kvorum.protocol.api import ApiKey
from kvorum.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from kvorum.protocol.messages.metadata import MetadataRequest
from tests.unit.network.network_kit import (
    channel_to,
    listener_of,
    metadata_handler,
    read_frame,
    request_frame,
    run,
    until,
)


class Parked:
    def __init__(self) -> None:
        self.futures: list[asyncio.Future[InitProducerIdResponse]] = []

    def handle(self, ctx: RequestContext, request: InitProducerIdRequest) -> asyncio.Future[InitProducerIdResponse]:
        self.futures.append(asyncio.get_running_loop().create_future())
        return self.futures[-1]


def test_port_0_finds_a_free_port_and_a_port_in_use_is_an_error() -> None:
    async def main() -> None:
        listener = listener_of(metadata_handler())
        port = await listener.start()
        assert port == listener.port > 0
        with pytest.raises(OSError, match="in use"):
            await Listener("OTHER", "127.0.0.1", port, listener._router).start()
        await listener.close()
        again = Listener("AGAIN", "127.0.0.1", port, listener._router)
        assert await again.start() == port
        await again.close()

    run(main)


def test_no_host_is_every_address() -> None:
    async def main() -> None:
        listener = Listener("ANY", "", 0, listener_of(metadata_handler())._router)
        channel = channel_to(await listener.start())
        await channel.request(MetadataRequest())
        await channel.close()
        await listener.close()

    run(main)


def test_closing_lets_requests_in_hand_finish_and_takes_no_more() -> None:
    async def main() -> None:
        parked = Parked()
        listener = listener_of(Handler(ApiKey.INIT_PRODUCER_ID, (0, 5), parked.handle), metadata_handler())
        port = await listener.start()
        idle_reader, idle = await asyncio.open_connection("127.0.0.1", port)
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(request_frame(InitProducerIdRequest(), 4, 1))
        await until(lambda: parked.futures)
        closing = asyncio.create_task(listener.close())
        assert await idle_reader.read() == b""
        assert await is_refusing("127.0.0.1", port)
        writer.write(request_frame(MetadataRequest(), 9, 2))
        assert not closing.done()
        parked.futures[0].set_result(InitProducerIdResponse(producer_id=5))
        assert int.from_bytes((await read_frame(reader))[:4], "big") == 1
        with pytest.raises((asyncio.IncompleteReadError, ConnectionError)):
            await reader.readexactly(1)
        await closing
        idle.close()
        writer.close()

    run(main)


def test_closing_does_not_wait_for_ever() -> None:
    async def main() -> None:
        parked = Parked()
        listener = listener_of(Handler(ApiKey.INIT_PRODUCER_ID, (0, 5), parked.handle))
        channel = channel_to(await listener.start())
        asking = asyncio.create_task(channel.request(InitProducerIdRequest()))
        await until(lambda: parked.futures)
        await listener.close(grace_ms=20)
        assert listener.connection_count == 0
        with pytest.raises(ConnectionLost) as lost:
            await asking
        assert lost.value.maybe_sent
        await channel.close()

    run(main)


def test_sockets_are_not_inherited_by_child_processes() -> None:
    """A child that held the listening socket would let a dead broker's port accept."""

    def sockets() -> set[int]:
        links = ((int(fd), f"/proc/self/fd/{fd}") for fd in os.listdir("/proc/self/fd"))
        return {fd for fd, path in links if os.path.islink(path) and os.readlink(path).startswith("socket:")}

    async def main() -> None:
        before = sockets()
        listener = listener_of(metadata_handler())
        channel = channel_to(await listener.start())
        await channel.connect()
        found = sockets() - before
        assert len(found) >= 3
        assert not any(os.get_inheritable(fd) for fd in found)
        await channel.close()
        await listener.close()

    run(main)


def test_listeners_are_notified_of_every_closed_connection() -> None:
    async def main() -> None:
        gone: list[str] = []
        seen: list[str] = []

        def handle(ctx: RequestContext, request: InitProducerIdRequest) -> InitProducerIdResponse:
            seen.append(ctx.connection_id)
            return InitProducerIdResponse()

        handler = Handler(ApiKey.INIT_PRODUCER_ID, (0, 5), handle)
        listener = listener_of(handler, on_connection_closed=gone.append)
        port = await listener.start()
        for _ in range(2):
            channel = channel_to(port)
            await channel.request(InitProducerIdRequest())
            await channel.close()
        await until(lambda: len(gone) == 2)
        assert gone == seen
        assert len(set(seen)) == 2
        await listener.close()

    run(main)
