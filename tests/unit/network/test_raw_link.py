"""Frames of our own: hello, hand-over, both directions, refusal, reconnecting."""

import asyncio
import random
from typing import Any

from kvorum.network.context import RequestContext
from kvorum.network.link import LINK_OUTSTANDING_BYTES_MAX
from kvorum.network.raw_link import RawLink
from kvorum.network.router import PRIVATE_KEY_MIN, supported_apis
from kvorum.network.server import Listener
from kvorum.network.upgrade import UpgradeLink
from kvorum.protocol.errors import ProtocolError
from kvorum.protocol.messages.metadata import MetadataRequest
from tests.unit.network.network_kit import listener_of, metadata_handler, request_frame, run, until


class Sink:
    """The server's end: answers each frame reversed."""

    def __init__(self, link: UpgradeLink, ctx: RequestContext, hello: memoryview) -> None:
        self.link = link
        self.hello = bytes(hello)
        self.client_id = ctx.client_id
        self.frames: list[bytes] = []
        self.closed = 0

    def on_frame(self, frame: memoryview) -> None:
        if bytes(frame) == b"bad":
            raise ProtocolError("a bad frame")
        self.frames.append(bytes(frame))
        self.link.send(bytes(frame)[::-1], b"!")

    def on_closed(self) -> None:
        self.closed += 1


class Peer:
    """The client's end: notes what happens."""

    def __init__(self) -> None:
        self.events: list[Any] = []

    def on_connected(self) -> None:
        self.events.append("connected")

    def on_frame(self, frame: memoryview) -> None:
        self.events.append(bytes(frame))

    def on_disconnected(self) -> None:
        self.events.append("disconnected")

    def on_refused(self) -> None:
        self.events.append("refused")


class Sinks:
    """Takes connections over; refuses a hello of `stranger`."""

    def __init__(self) -> None:
        self.all: list[Sink] = []

    def upgrade(self, link: UpgradeLink, ctx: RequestContext, hello: memoryview) -> Sink:
        if hello == b"stranger":
            raise ProtocolError("not a voter")
        self.all.append(Sink(link, ctx, hello))
        return self.all[-1]


def link_to(port: int, peer: Peer, hello: bytes = b"voter 1") -> RawLink:
    return RawLink(lambda: ("127.0.0.1", port), hello, peer, chance=random.Random(1), client_id="node-1")


def test_frames_flow_both_ways_after_the_hello_and_a_lost_link_reconnects() -> None:
    async def main() -> None:
        sinks = Sinks()
        listener = listener_of(metadata_handler(), upgrades={PRIVATE_KEY_MIN: sinks.upgrade})
        port = await listener.start()
        peer = Peer()
        link = link_to(port, peer)
        assert not link.send(b"too early")
        link.start()
        await until(lambda: link.connected)
        assert link.send(b"ab", b"c")
        assert link.send(bytes(3_000_000))
        await until(lambda: len(peer.events) == 3)
        assert peer.events == ["connected", b"cba!", bytes(3_000_000) + b"!"]
        assert (sinks.all[0].hello, sinks.all[0].client_id) == (b"voter 1", "node-1")
        await listener.close(grace_ms=10)
        await until(lambda: "refused" in peer.events, lambda: asyncio.sleep(0.001))
        assert peer.events[3] == "disconnected"
        assert sinks.all[0].closed == 1
        assert not link.send(b"nobody")
        again = Listener("AGAIN", "127.0.0.1", port, listener._router)
        await again.start()
        await until(lambda: link.connected, lambda: asyncio.sleep(0.001))
        link.send(b"xyz")
        await until(lambda: peer.events[-1] == b"zyx!")
        link.reset()
        await until(lambda: len(sinks.all) == 3, lambda: asyncio.sleep(0.001))
        count = len(peer.events)
        await link.close()
        await until(lambda: sinks.all[2].closed == 1)
        assert "disconnected" not in peer.events[count:]
        await again.close()

    run(main)


def test_a_foreign_hello_and_a_bad_frame_close_the_connection(log_lines: list[str]) -> None:
    async def main() -> None:
        sinks = Sinks()
        listener = listener_of(metadata_handler(), upgrades={PRIVATE_KEY_MIN: sinks.upgrade})
        port = await listener.start()
        stranger = Peer()
        link = link_to(port, stranger, b"stranger")
        link.start()
        await until(lambda: "disconnected" in stranger.events)
        await link.close()
        assert sinks.all == []
        peer = Peer()
        link = link_to(port, peer)
        link.start()
        await until(lambda: link.connected)
        link.send(b"bad")
        await until(lambda: "disconnected" in peer.events)
        assert sinks.all[0].closed == 1
        await link.close()
        await listener.close()

    run(main)
    closed = [line for line in log_lines if "connection closed" in line]
    assert "not a voter" in closed[0]
    assert any("a bad frame" in line for line in closed)


def test_a_private_request_is_unknown_to_a_listener_without_it_and_never_listed() -> None:
    async def main() -> None:
        listener = listener_of(metadata_handler())
        peer = Peer()
        link = link_to(await listener.start(), peer)
        link.start()
        await until(lambda: "disconnected" in peer.events)
        await link.close()
        await listener.close()

    run(main)
    assert supported_apis({PRIVATE_KEY_MIN: (0, 0)}) == []


def test_a_private_request_may_follow_answered_ones() -> None:
    async def main() -> None:
        sinks = Sinks()
        listener = listener_of(metadata_handler(), upgrades={PRIVATE_KEY_MIN: sinks.upgrade})
        reader, writer = await asyncio.open_connection("127.0.0.1", await listener.start())
        hello = PRIVATE_KEY_MIN.to_bytes(2, "big") + bytes(6) + b"\xff\xff" + b"hi"
        writer.write(request_frame(MetadataRequest(), 0) + len(hello).to_bytes(4, "big") + hello + b"\0\0\0\2ab")
        await reader.readexactly(int.from_bytes(await reader.readexactly(4), "big"))
        assert await reader.readexactly(7) == b"\0\0\0\3ba!"
        assert sinks.all[0].hello == b"hi"
        writer.close()
        await until(lambda: sinks.all[0].closed)
        await listener.close()

    run(main)


def test_a_peer_that_takes_nothing_gets_no_more_than_the_limit() -> None:
    async def main() -> None:
        sinks = Sinks()
        listener = listener_of(upgrades={PRIVATE_KEY_MIN: sinks.upgrade})
        _, writer = await asyncio.open_connection("127.0.0.1", await listener.start(), limit=1024)
        hello = PRIVATE_KEY_MIN.to_bytes(2, "big") + bytes(6) + b"\xff\xff"
        writer.write(len(hello).to_bytes(4, "big") + hello)
        await until(lambda: sinks.all)
        block = bytes(8 * 1024 * 1024)
        sent = 0
        while sinks.all[0].link.send(block):
            sent += len(block)
            assert sent < 2 * LINK_OUTSTANDING_BYTES_MAX
        writer.write(b"\0\0\0\2ab")  # and is still heard
        await until(lambda: sinks.all[0].frames)
        writer.transport.abort()
        await listener.close(grace_ms=10)

    run(main)
