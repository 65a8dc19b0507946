"""Input that is no request: the connection is closed with one line, nothing is allocated, nobody else notices."""

import asyncio
import contextlib
import struct
import tracemalloc

import pytest

from kvorum.network.limits import ConnectionLimits
from kvorum.network.router import Handler
from kvorum.protocol.api import ApiKey
from kvorum.protocol.codec import encode_bytes
from kvorum.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from kvorum.protocol.messages.produce import ProduceRequest, ProduceResponse
from tests.unit.network.network_kit import channel_to, listener_of, metadata_handler, request_frame, run

REQUEST_BYTES_MAX = 1_000_000


def framed(body: bytes) -> bytes:
    return len(body).to_bytes(4, "big") + body


def header(api_key: int, version: int, flexible: bool = False) -> bytes:
    return struct.pack(">hhih", api_key, version, 1, -1) + (b"\0" if flexible else b"")


METADATA = request_frame(MetadataRequest(topics=[MetadataRequestTopic(name="topic-1")]), 9)
CASES = {
    "a frame above the limit": ((REQUEST_BYTES_MAX + 1).to_bytes(4, "big"), f"{REQUEST_BYTES_MAX + 1} bytes"),
    "the largest length there is": (b"\x7f\xff\xff\xff", "2147483647 bytes"),
    "a negative length": (b"\xff\xff\xff\xfe", "negative length -2"),
    "the smallest length there is": (b"\x80\0\0\0", "negative length -2147483648"),
    "HTTP": (b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n", "(an HTTP port?)"),
    "TLS": (bytes.fromhex("16030100c8010000c40303") + bytes(200), "a TLS client on a plaintext listener"),
    "an empty frame": (framed(b""), "0 bytes"),
    "a header of three bytes": (framed(b"\0\3\0"), "3 bytes"),
    "a header without client id": (framed(b"\0\3\0\1\0\0\0\1"), "header ends too early"),
    "a client id exceeds the frame": (framed(b"\0\3\0\1\0\0\0\1\x7f\xff"), "client id of 32767 bytes"),
    "a body cut off": (framed(METADATA[4:-2]), "MetadataRequest v9"),
    "no body at all": (framed(header(3, 1)), "MetadataRequest v1"),
    "a count beyond the bytes left": (framed(header(3, 1) + b"\x7f\xff\xff\xff"), "2147483647 entries"),
    "a negative count": (framed(header(3, 1) + b"\xff\xff\xff\xfe"), "-2 entries"),
    "a compact count beyond the bytes": (framed(header(3, 9, True) + b"\xff\xff\xff\xff\x0f"), "entries"),
    "a count of more than five bytes": (framed(header(3, 9, True) + b"\xff\xff\xff\xff\xff\xff\x0f"), "varint"),
    "a name beyond the bytes left": (framed(header(3, 1) + b"\0\0\0\1\x7f\xffab"), "32767 bytes"),
    "a null where there is none": (framed(header(3, 0) + b"\xff\xff\xff\xff"), "null"),
    "records exceeds the frame": (
        framed(header(0, 3) + b"\xff\xff\0\1\0\0\0\0\0\0\0\1\0\1t\0\0\0\1\0\0\0\0\x7f\xff\xff\xff"),
        "records: 2147483647 bytes",
    ),
    "a tagged field exceeds the frame": (framed(header(3, 9, True) + b"\0\0\0\0\1\0\x7f"), "127 bytes"),
    "an unknown API": (framed(header(999, 0)), "api key 999"),
    "a negative API": (framed(header(-1, 0)), "api key -1"),
    "an API not served here": (framed(header(ApiKey.BROKER_HEARTBEAT, 0) + bytes(30)), "api key 63"),
    "a private API": (framed(header(10_000, 0)), "api key 10000"),
    "a version not served": (framed(header(3, 14, True) + bytes(10)), "Metadata v14"),
    "a negative version": (framed(header(3, -1) + bytes(10)), "Metadata v-1"),
    "Produce of a version only listed": (framed(header(0, 2) + encode_bytes(ProduceRequest(), 3)), "Produce v2"),
}


@pytest.mark.parametrize("name", CASES)
def test_bad_input_closes_its_connection_with_one_line_and_another_client_is_served(
    name: str, log_lines: list[str]
) -> None:
    data, reason = CASES[name]
    handled: list[object] = []

    def note(ctx: object, request: object) -> MetadataResponse:
        handled.append(request)
        return MetadataResponse()

    async def main() -> None:
        listener = listener_of(
            metadata_handler(),
            Handler(ApiKey.PRODUCE, (3, 13), lambda ctx, request: ProduceResponse()),
            limits=ConnectionLimits(request_bytes_max=REQUEST_BYTES_MAX),
        )
        port = await listener.start()
        before = channel_to(port)
        await before.request(MetadataRequest())
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        host, own_port = writer.get_extra_info("sockname")[:2]
        writer.write(data + METADATA)  # what follows is not handled any more
        with contextlib.suppress(ConnectionError):  # closed with bytes unread
            assert await reader.read() == b""
        writer.close()
        after = channel_to(port)
        for channel in (before, after):
            answer = await channel.ask(MetadataRequest(), MetadataResponse)
            assert answer.cluster_id == "test-cluster"
            await channel.close()
        await listener.close()
        closed = [line for line in log_lines if "WARNING" in line or "ERROR" in line]
        assert len(closed) == 1
        assert f"client={host}:{own_port}" in closed[0]
        assert reason in closed[0]

    run(main)


def test_requests_before_the_bad_frame_get_responses() -> None:
    async def main() -> None:
        listener = listener_of(metadata_handler())
        reader, writer = await asyncio.open_connection("127.0.0.1", await listener.start())
        writer.write(METADATA + METADATA + b"\xff\xff\xff\xff")
        data = await reader.read()
        size = 4 + int.from_bytes(data[:4], "big")
        assert len(data) == 2 * size
        writer.close()
        await listener.close()

    run(main)


def test_a_large_count_and_a_large_frame_announced_reserve_no_memory() -> None:
    async def main() -> None:
        listener = listener_of(metadata_handler())
        port = await listener.start()
        tracemalloc.start()
        writers = []
        for data in (framed(header(3, 1) + b"\x7f\xff\xff\xff"), (100_000_000).to_bytes(4, "big") + b"abc"):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(data)
            writers.append(writer)
            if data[0] == 0:
                await reader.read()
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert peak < 8_000_000
        for writer in writers:
            writer.close()
        await listener.close()

    run(main)
