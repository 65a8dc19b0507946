"""What a listener and a channel tell the kernel about their sockets."""

import asyncio
import socket
import struct
from collections.abc import Mapping

import pytest

from kvorum.network.limits import ConnectionLimits
from kvorum.protocol.messages.metadata import MetadataRequest
from kvorum.runtime.config import Settings
from tests.unit.network.network_kit import channel_to, listener_of, metadata_handler, read_frame, request_frame, run

BUFFERS = (socket.SO_SNDBUF, socket.SO_RCVBUF)


def sizes_of(transport: asyncio.BaseTransport) -> list[int]:
    sock = transport.get_extra_info("socket")
    return [sock.getsockopt(socket.SOL_SOCKET, option) for option in BUFFERS]


async def accepted_sizes(settings: Mapping[str, object]) -> list[int]:
    """The buffers of a connection as the listener's side has them, after a request has gone over it."""
    listener = listener_of(metadata_handler(), limits=ConnectionLimits.of(Settings.of(settings)))
    reader, writer = await asyncio.open_connection("127.0.0.1", await listener.start())
    writer.write(request_frame(MetadataRequest(), 9))
    await read_frame(reader)
    assert listener._shared is not None
    (connection,) = listener._shared.by_activity
    sizes = sizes_of(connection._transport)  # type: ignore[attr-defined]
    writer.close()
    await listener.close()
    return sizes


def test_accepted_sockets_have_the_buffers_that_were_requested() -> None:
    async def main() -> None:
        requested = {"socket.send.buffer.bytes": 30_000, "socket.receive.buffer.bytes": 20_000}
        assert await accepted_sizes(requested) == [60_000, 40_000]

    run(main)


def test_unset_buffer_sizes_are_the_kernels() -> None:
    async def main() -> None:
        for settings in ({}, {"socket.send.buffer.bytes": -1, "socket.receive.buffer.bytes": -1}):
            sizes = await accepted_sizes(settings)
            assert 204_800 not in sizes  # Kafka's default of 102400, doubled
            assert min(sizes) > 2

    run(main)


@pytest.mark.parametrize("backlog", [7, 50])
def test_the_accept_backlog_is_configured(backlog: int) -> None:
    async def main() -> None:
        limits = ConnectionLimits.of(Settings.of({"socket.listen.backlog.size": backlog}))
        listener = listener_of(metadata_handler(), limits=limits)
        await listener.start()
        assert listener._server is not None
        info = listener._server.sockets[0].getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 104)
        (longest,) = struct.unpack_from("I", info, 28)  # tcpi_sacked: of a listening socket, its backlog
        assert longest == backlog
        await listener.close()

    run(main)


def test_a_channel_sets_its_receive_buffer_when_it_is_given_one() -> None:
    async def main() -> None:
        listener = listener_of(metadata_handler())
        port = await listener.start()
        channel, plain = channel_to(port, receive_buffer_bytes=20_000), channel_to(port)
        for each in (channel, plain):
            await each.request(MetadataRequest())
        sizes = []
        for each in (channel, plain):
            transport = (await each.connect())._transport
            assert transport is not None
            sizes.append(sizes_of(transport)[1])
        assert sizes[0] == 40_000 != sizes[1]
        for each in (channel, plain):
            await each.close()
        await listener.close()

    run(main)
