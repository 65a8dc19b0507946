"""Limits of TLS handshakes: half-open ones disturb no one, and everything has an end."""

import asyncio
import ssl
from collections.abc import Callable
from typing import cast

import pytest

from kvorum.network.connection_counts import ConnectionCounts, CreationRate
from kvorum.network.handshakes import CROWDED_MS, Handshake, Handshakes
from kvorum.network.limits import ConnectionLimits
from kvorum.network.server import Listener
from kvorum.network.shared import Authentication
from kvorum.protocol.messages.metadata import MetadataRequest
from kvorum.security.client import ClientSecurity
from tests.tls_certificates import client_tls
from tests.unit.network.network_kit import channel_to, request_frame, run, until
from tests.unit.network.test_tls import failures
from tests.unit.network.tls_kit import Counted, python_context, tls_listener, try_handshake

Connections = list[tuple[asyncio.StreamReader, asyncio.StreamWriter]]


class VirtualLoop:
    """Time and timers."""

    def __init__(self) -> None:
        self.now = 0.0
        self.timers: list[VirtualTimer] = []

    def time(self) -> float:
        return self.now

    def call_at(self, when: float, callback: Callable[[], None]) -> "VirtualTimer":
        self.timers.append(VirtualTimer(when, callback))
        return self.timers[-1]

    def advance(self, to: float) -> None:
        while due := sorted((each for each in self.timers if each.due <= to), key=lambda each: each.due):
            self.timers.remove(due[0])
            self.now = max(self.now, due[0].due)
            if not due[0].cancelled:
                due[0].callback()
        self.now = to


class VirtualTimer:
    def __init__(self, due: float, callback: Callable[[], None]) -> None:
        self.due, self.callback, self.cancelled = due, callback, False

    def when(self) -> float:
        return self.due

    def cancel(self) -> None:
        self.cancelled = True


class Peer:
    """A handshake as the table sees it."""

    def __init__(self, host: str) -> None:
        self.host = host
        self.events: list[object] = []

    def start(self) -> None:
        self.events.append("start")

    def expire(self, time_ms: int) -> None:
        self.events.append(time_ms)


def table_of(at_once_max: int, timeout_ms: int = 10_000, per_host_max: int = 1_000) -> tuple[Handshakes, VirtualLoop]:
    loop = VirtualLoop()
    return Handshakes(cast(asyncio.AbstractEventLoop, loop), at_once_max, per_host_max, timeout_ms), loop


def begin(table: Handshakes, count: int, host: str = "192.0.2.1") -> list[Peer]:
    peers = [Peer(host) for _ in range(count)]
    for peer in peers:
        table.begin(cast(Handshake, peer))
    return peers


def end(table: Handshakes, peer: Peer) -> None:
    table.end(cast(Handshake, peer))


def test_a_handshake_has_its_time() -> None:
    table, loop = table_of(10)
    (early,) = begin(table, 1)
    loop.advance(3.0)
    late, complete = begin(table, 2)
    end(table, complete)
    end(table, complete)
    loop.advance(9.999)
    assert early.events == ["start"]
    loop.advance(10.0)
    assert (early.events, late.events) == (["start", 10_000], ["start"])
    loop.advance(13.0)
    assert (late.events, complete.events, len(table)) == (["start", 10_000], ["start"], 0)


def test_handshakes_beyond_the_limit_wait_in_order() -> None:
    table, _ = table_of(2)
    first, second, third, fourth, gone = begin(table, 5)
    assert len(table) == 5
    assert (second.events, third.events) == (["start"], [])
    end(table, gone)
    end(table, second)
    assert (third.events, fourth.events) == (["start"], [])
    end(table, first)
    assert fourth.events == ["start"]
    assert gone.events == []


def test_half_open_handshakes_make_room_soon_while_others_wait() -> None:
    table, loop = table_of(2)
    half_open = begin(table, 2)
    loop.advance(0.5)
    (waiting,) = begin(table, 1)
    loop.advance(0.999)
    assert waiting.events == []
    loop.advance(1.0)
    assert [peer.events for peer in half_open] == [["start", CROWDED_MS], ["start"]]
    assert waiting.events == ["start"]
    loop.advance(9.999)
    assert half_open[1].events == ["start"]
    loop.advance(10.0)
    assert half_open[1].events == ["start", 10_000]


def test_a_crowd_of_half_open_handshakes_is_worked_off() -> None:
    table, loop = table_of(10)
    crowd = begin(table, 95)
    (last,) = begin(table, 1)
    loop.advance(9.5)
    assert last.events == ["start"]
    loop.advance(30.0)
    assert len(table) == 0
    assert {len(peer.events) for peer in crowd} == {2}


def started(peers: list[Peer]) -> int:
    return sum(bool(peer.events) for peer in peers)


def test_one_address_cannot_have_all_handshakes() -> None:
    table, loop = table_of(10, per_host_max=4)
    crowd, other = begin(table, 50, "192.0.2.1"), begin(table, 3, "192.0.2.2")
    assert (started(crowd), started(other), len(table)) == (4, 3, 53)
    end(table, crowd[0])
    end(table, other[0])
    assert (started(crowd), started(other)) == (5, 3)
    loop.advance(60.0)
    assert len(table) == 0
    assert all(peer.events[0] == "start" for peer in crowd)


def test_addresses_that_wait_take_turns() -> None:
    table, _ = table_of(1)
    (present,), crowd, other = begin(table, 1, "192.0.2.3"), begin(table, 50, "192.0.2.1"), begin(table, 1, "192.0.2.2")
    end(table, present)
    assert (started(crowd), started(other)) == (1, 0)
    end(table, crowd[0])
    assert (started(crowd), started(other)) == (1, 1)


async def half_open(port: int, count: int, data: bytes = b"") -> Connections:
    opened = []
    for _ in range(count):
        opened.append(await asyncio.open_connection("127.0.0.1", port))
        opened[-1][1].write(data)
    return opened


def close(opened: Connections) -> None:
    for _, writer in opened:
        writer.close()


HALF_A_HELLO = bytes.fromhex("16 03 01 02 00 01 00 01 fc 03 03")
REQUEST = request_frame(MetadataRequest(), 9)


@pytest.mark.parametrize("data", [b"", HALF_A_HELLO])
def test_300_half_open_handshakes_do_not_disturb_others_and_end(log_lines: list[str], data: bytes) -> None:
    async def main() -> None:
        counted = Counted()
        listener = tls_listener(limits=ConnectionLimits(handshake_timeout_ms=1_500), metrics=counted)
        port = await listener.start()
        opened = await half_open(port, 300, data)
        channel = channel_to(port, security=ClientSecurity(tls=client_tls()))
        for _ in range(10):
            await channel.request(MetadataRequest())
        assert listener.connection_count == 301
        await until(lambda: listener.connection_count == 1, lambda: asyncio.sleep(0.02))
        assert failures(log_lines) == ["it was not complete after 1500 ms"] * 300
        assert counted.outcomes == [Authentication.SUCCEEDED] + [Authentication.FAILED] * 300
        await channel.request(MetadataRequest())
        await channel.close()
        close(opened)
        await listener.close()
        assert counted.open == 0

    run(main)


def test_waiting_connections_get_their_turn() -> None:
    async def main() -> None:
        limits = ConnectionLimits(handshakes_max=2)
        listener = tls_listener(limits=limits)
        port = await listener.start()
        opened = await half_open(port, 2, HALF_A_HELLO)
        await until(lambda: listener.connection_count == 2)
        channels = [channel_to(port, seed, security=ClientSecurity(tls=client_tls())) for seed in range(5)]
        requests = asyncio.gather(*(channel.request(MetadataRequest()) for channel in channels))
        await until(lambda: listener.connection_count == 7)
        assert not requests.done()
        close(opened)
        await requests
        for channel in channels:
            await channel.close()
        await listener.close()

    run(main)


def test_limits_on_connections_apply_before_the_handshake() -> None:
    async def main() -> None:
        counted = Counted()
        listener = tls_listener(counts=ConnectionCounts(connections_max=1), metrics=counted)
        port = await listener.start()
        (first,) = await half_open(port, 1, HALF_A_HELLO)
        await until(lambda: listener.connection_count == 1)
        answer = await try_handshake(port, python_context(), REQUEST)
        assert isinstance(answer, OSError) and not isinstance(answer, ssl.SSLCertVerificationError)
        assert counted.refusals == ["max.connections"]
        first[1].close()
        await until(lambda: listener.connection_count == 0)
        assert isinstance(await try_handshake(port, python_context(), REQUEST), bytes)
        await until(lambda: listener.connection_count == 0)
        await listener.close()

    run(main)


def test_a_connection_above_the_creation_rate_waits_before_its_handshake() -> None:
    async def main() -> None:
        counts = ConnectionCounts(creation_rate_max=5)
        listener = tls_listener(counts=counts)
        port = await listener.start()
        counts.rate = CreationRate(5)
        counts.rate._next_s = asyncio.get_running_loop().time()
        began = asyncio.get_running_loop().time()
        answers = await asyncio.gather(*(try_handshake(port, python_context(), REQUEST) for _ in range(3)))
        assert all(isinstance(answer, bytes) for answer in answers), answers
        assert asyncio.get_running_loop().time() - began >= 0.55
        await listener.close()

    run(main)


def test_the_idle_sweep_sees_handshakes(log_lines: list[str]) -> None:
    async def main() -> None:
        listener = tls_listener(limits=ConnectionLimits(idle_ms=50))
        ((reader, writer),) = await half_open(await listener.start(), 1, HALF_A_HELLO)
        assert await reader.read() == b""
        assert any("idle connection closed" in line for line in log_lines)
        writer.close()
        await listener.close()

    run(main)


def test_a_listener_that_closes_does_not_wait_for_handshakes() -> None:
    async def main() -> None:
        listener = tls_listener(limits=ConnectionLimits(handshakes_max=1))
        opened = await half_open(await listener.start(), 3, HALF_A_HELLO)
        await until(lambda: listener.connection_count == 3)
        await listener.close()
        assert listener.connection_count == 0
        close(opened)

    run(main)


def test_a_connection_that_ends_without_a_byte_is_no_failure(log_lines: list[str]) -> None:
    """Health checks connect and close."""

    async def main() -> None:
        counted = Counted()
        listener = tls_listener(metrics=counted)
        port = await listener.start()
        close(await half_open(port, 1))
        (cut,) = await half_open(port, 1, HALF_A_HELLO)
        await until(lambda: counted.open == 1)
        cut[1].close()
        await until(lambda: counted.open == 0)
        assert failures(log_lines) == ["the peer closed the connection"]
        assert counted.outcomes == [Authentication.FAILED]
        await listener.close()

    run(main)


def test_handshakes_are_connections_of_their_listener() -> None:
    async def main() -> None:
        gone: list[str] = []
        listener: Listener = tls_listener(on_connection_closed=gone.append)
        ((_, writer),) = await half_open(await listener.start(), 1, HALF_A_HELLO)
        await until(lambda: listener.connection_count == 1)
        (connection,) = listener.connections()
        assert (connection.busy, connection.queued, connection.peer.requests) == (False, 0, 0)
        assert connection.address.startswith("127.0.0.1:")
        assert listener.queued_requests == 0
        listener.refuse(cut=True)
        await until(lambda: listener.connection_count == 0)
        assert gone == [connection.peer.connection_id]
        writer.close()
        await listener.close()

    run(main)
