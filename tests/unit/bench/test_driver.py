"""The driver of the group figures against a peer that answers as it is told to."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from bench.heartbeats import Pace, good_heartbeats
from bench.links import Good, Link, Window
from bench.members import assignment, subscription
from bench.rebalance import is_shared_out
from bench.stalled import StalledError
from kvorum.protocol.api import ApiKey
from kvorum.protocol.codec import encode_bytes
from kvorum.protocol.consumer_protocol import subscribed_topics
from kvorum.protocol.headers import encode_response_header
from kvorum.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from tests.cluster.wire.raw import frame, request

VERSION = 4
BEATING = HeartbeatRequest(group_id="g", generation_id=1, member_id="m")
BEAT = request(BEATING, VERSION)


def answer(correlation_id: int, error_code: int = 0) -> bytes:
    """Return the body of a heartbeat's answer."""
    body = encode_bytes(HeartbeatResponse(error_code=error_code), VERSION)
    return encode_response_header(correlation_id, 1) + body


class Peer(asyncio.Protocol):
    """Answers each heartbeat, with an error from a place on; in pieces that fit no frame."""

    def __init__(self, good: int = 1_000_000, *, silent: bool = False) -> None:
        self.good, self.silent, self.seen = good, silent, 0
        self.has_seen_enough, self.is_gone = asyncio.Event(), asyncio.Event()
        self.received, self.rest = b"", b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport

    def connection_lost(self, exc: Exception | None) -> None:
        self.is_gone.set()

    def data_received(self, data: bytes) -> None:
        self.received += data
        while len(self.received) >= len(BEAT):
            beat, self.received = self.received[: len(BEAT)], self.received[len(BEAT) :]
            assert beat == BEAT
            self.seen += 1
            if self.seen > self.good:
                self.has_seen_enough.set()
            if not self.silent:
                self.rest += frame(answer(1, 27 if self.seen > self.good else 0))
        self.transport.write(self.rest[:-3])
        self.rest = self.rest[-3:]
        asyncio.get_running_loop().call_soon(self.finish)

    def finish(self) -> None:
        self.transport.write(self.rest)
        self.rest = b""


def against(work: Callable[[Link, Peer], Awaitable[None]], good: int = 1_000_000, *, silent: bool = False) -> None:
    """Do something over a connection to a peer."""

    async def main() -> None:
        peer = Peer(good, silent=silent)
        server = await asyncio.get_running_loop().create_server(lambda: peer, "127.0.0.1")
        async with server:
            async with await Link.to(server.sockets[0].getsockname()) as link:
                await work(link, peer)
            await peer.is_gone.wait()

    asyncio.run(main())


def test_answers_are_distinguished_by_their_codes() -> None:
    good = good_heartbeats()
    assert good(answer(1)) and good(answer(2)) and not good(answer(3, 27))
    codes = Good(ApiKey.HEARTBEAT, VERSION, lambda found: [0, 5])
    assert not codes(answer(1))


def test_a_window_limits_requests_in_flight_and_counts_failures() -> None:
    async def work(link: Link, peer: Peer) -> None:
        window = Window(link, [BEAT], 4, good_heartbeats())
        assert link.in_flight == 4
        await peer.has_seen_enough.wait()
        await window.stop()
        assert link.in_flight == 0
        assert window.answered == peer.seen and window.failed == peer.seen - 30

    against(work, good=30)


def test_the_pace_is_kept_and_each_answer_is_timed() -> None:
    async def work(link: Link, peer: Peer) -> None:
        pace = Pace([(link, BEAT)] * 10, 0.1)
        await pace.run(0.5)
        await link.idle()
        assert 0 < len(pace.latencies) == peer.seen <= 50 and pace.failed == 0
        assert all(each > 0 for each in pace.latencies)

    against(work)


def test_a_request_gets_a_response_or_the_peer_is_reported_as_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    async def requested(link: Link, peer: Peer) -> None:
        found = await link.ask(BEATING, VERSION)
        assert isinstance(found, HeartbeatResponse) and found.error_code == 0

    async def unanswered(link: Link, peer: Peer) -> None:
        with pytest.raises(StalledError):
            await link.ask(BEATING, VERSION)

    against(requested)
    monkeypatch.setattr("bench.links.ANSWER_SECONDS", 0.1)
    against(unanswered, silent=True)


def test_members_speak_the_consumer_protocol() -> None:
    assert subscribed_topics(subscription(["load", "more"], b"user data")) == ["load", "more"]
    assert assignment("load", [1, 2])[:14] == b"\0\0\0\0\0\1\0\4load\0\0"


@pytest.mark.parametrize(
    ("shares", "is_so"),
    [
        ([[0, 1], [2, 3]], True),
        ([[0, 1, 2], [3, 4]], False),
        ([[0, 1, 2], [3]], False),
        ([[0, 1], [1, 2]], False),
        ([[0, 1], [2]], False),
        ([[0, 1, 2, 3], []], False),
    ],
)
def test_everyone_has_its_share_when_nothing_is_left_over_or_given_twice(shares: list[list[int]], is_so: bool) -> None:
    assert is_shared_out(shares, 4) is is_so
