"""SimLoop and StreamNetwork: virtual time, hosts that die and pause, production's network code over streams."""

import asyncio
import gc
import random
import sys
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from kvorum.network.addresses import AddressBook
from kvorum.network.router import Router
from kvorum.network.server import Listener
from kvorum.quorum.raft.transport import RaftTransport
from kvorum.runtime import blocking
from sim.loop import START_S, Host, SimLoop, Stuck
from sim.streams import StreamNetwork
from sim.transports import WINDOW_BYTES


def made(seed: int = 1) -> tuple[SimLoop, StreamNetwork]:
    loop = SimLoop(random.Random(seed))
    return loop, StreamNetwork(loop, random.Random(seed + 1))


def on(loop: SimLoop, host: Host, work: Callable[[], Coroutine[Any, Any, Any]]) -> None:
    """Start a task in a process."""
    loop.call_at_host(host, loop.time(), lambda: loop.create_task(work()))


def test_time_jumps_to_the_next_timer() -> None:
    loop, _ = made()

    async def sleep() -> float:
        await asyncio.sleep(3600)
        async with asyncio.timeout(1):
            await asyncio.sleep(0.5)
        return loop.time()

    assert loop.run_until_complete(sleep()) == pytest.approx(START_S + 3600.5)


def test_waiting_for_nothing_is_an_error() -> None:
    loop, _ = made()
    with pytest.raises(Stuck):
        loop.run_until_complete(loop.create_future())


def test_off_loop_work_takes_time_and_carries_its_exception() -> None:
    loop, _ = made()

    def fail() -> None:
        raise OSError("disk")

    async def work() -> None:
        before = loop.time()
        assert await blocking.run(loop, lambda: 5) == 5
        assert loop.time() > before
        with pytest.raises(OSError, match="disk"):
            await blocking.run(loop, fail)

    loop.run_until_complete(work())


def test_a_dead_host_does_nothing_more_and_a_paused_one_catches_up_in_order() -> None:
    loop, _ = made()
    seen: list[tuple[str, int]] = []
    hosts = {name: Host(name) for name in ("dead", "paused", "well")}
    for name, host in hosts.items():
        for second in range(1, 5):
            loop.call_at_host(host, loop.time() + second, lambda name=name, second=second: seen.append((name, second)))  # type: ignore[misc]
    loop.run_for(1.5)
    hosts["dead"].alive, hosts["paused"].paused = False, True
    loop.run_for(2.0)
    loop.resume(hosts["paused"])
    loop.run_for(2.0)
    assert [second for name, second in seen if name == "dead"] == [1]
    assert [second for name, second in seen if name == "paused"] == [1, 2, 3, 4]
    assert seen.index(("paused", 2)) > seen.index(("well", 3))


async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while data := await reader.read(10_000):
        writer.write(data)
        await writer.drain()
    writer.close()


async def serve() -> None:
    loop = asyncio.get_running_loop()

    def protocol() -> asyncio.StreamReaderProtocol:
        return asyncio.StreamReaderProtocol(asyncio.StreamReader(loop=loop), echo, loop=loop)

    await loop.create_server(protocol, None, 9092)


async def talk(size: int) -> bytes:
    reader, writer = await asyncio.open_connection("server", 9092)
    sent = random.Random(3).randbytes(size)
    writer.write(sent)
    writer.write_eof()
    got = await reader.read(-1)
    writer.close()
    assert got == sent
    return got


@pytest.mark.parametrize("size", [1, 1000, 3 * WINDOW_BYTES])
def test_streams_carry_bytes_in_order_for_any_division(size: int) -> None:
    loop, _ = made()
    on(loop, Host("server"), serve)
    results: list[bytes] = []

    async def client() -> None:
        results.append(await talk(size))

    on(loop, Host("client"), client)
    assert loop.run_until(lambda: bool(results), limit_s=60.0)


def test_a_closed_port_refuses_and_a_cut_link_waits() -> None:
    loop, network = made()
    outcome: list[str] = []

    async def attempt() -> None:
        try:
            async with asyncio.timeout(5):
                _, writer = await asyncio.open_connection("server", 9092)
            outcome.append("connected")
            writer.close()
        except ConnectionRefusedError:
            outcome.append("refused")
        except TimeoutError:
            outcome.append("timeout")

    client = Host("client")
    on(loop, client, attempt)
    loop.run_for(1.0)
    network.cut("client", "server")
    on(loop, client, attempt)
    loop.run_for(6.0)
    network.heal_all()
    on(loop, Host("server"), serve)
    loop.run_for(0.1)
    on(loop, client, attempt)
    loop.run_for(1.0)
    assert outcome == ["refused", "timeout", "connected"]


def test_a_killed_process_resets_its_peers() -> None:
    loop, network = made()
    server, ends = Host("server"), []
    on(loop, server, serve)

    async def client() -> None:
        reader, writer = await asyncio.open_connection("server", 9092)
        writer.write(b"x")
        assert await reader.read(1) == b"x"
        try:
            ends.append(await reader.read(1))
        except ConnectionResetError:
            ends.append(b"reset")

    on(loop, Host("client"), client)
    loop.run_for(1.0)
    network.kill(server)
    loop.run_for(1.0)
    assert ends == [b"reset"]


class Owner:
    """Stands for a QuorumNode behind a RaftTransport."""

    def __init__(self) -> None:
        self.events: list[tuple[str, int]] = []
        self.frames: list[tuple[int, bytes]] = []

    def connected(self, peer: int) -> None:
        self.events.append(("connected", peer))

    def disconnected(self, peer: int) -> None:
        self.events.append(("disconnected", peer))

    def refused(self, peer: int) -> None:
        self.events.append(("refused", peer))

    def receive(self, peer: int, frame: bytes | memoryview) -> None:
        self.frames.append((peer, bytes(frame)))


def test_raft_frames_ride_the_listener_over_simulated_streams() -> None:
    """Production's listener, links and transport, three voters, one killed: its peers are refused, the rest goes on."""
    loop, network = made()
    owners = {node: Owner() for node in (1, 2, 3)}
    hosts = {node: Host(f"node-{node}/controller") for node in owners}
    transports: dict[int, RaftTransport] = {}

    async def start(node: int) -> None:
        peers = [peer for peer in owners if peer != node]
        book = AddressBook({peer: (f"node-{peer}", 9093) for peer in peers})
        transport = transports[node] = RaftTransport(
            node_id=node, cluster_id="c", addresses=book, peers=peers, chance=random.Random(node)
        )
        transport.attach(owners[node])
        listener = Listener("CONTROLLER", "", 9093, Router([], upgrades=transport.upgrades))
        await listener.start()
        transport.start()

    for node in owners:
        on(loop, hosts[node], lambda node=node: start(node))  # type: ignore[misc]
    assert loop.run_until(lambda: all(len(set(owner.events)) >= 2 for owner in owners.values()), limit_s=5.0)
    loop.run_for(1.0)
    for size in (1, 100_000, 9_000_000):
        loop.call_at_host(hosts[1], loop.time(), transports[1].send, 2, bytes(size))
    assert loop.run_until(lambda: len(owners[2].frames) == 3, limit_s=60.0)
    assert [len(frame) for _, frame in owners[2].frames] == [1, 100_000, 9_000_000]
    network.kill(hosts[3])
    loop.run_for(2.0)
    assert ("refused", 3) in owners[1].events and ("refused", 3) in owners[2].events
    assert ("disconnected", 3) in owners[1].events
    assert ("disconnected", 2) not in owners[1].events
    assert not loop.errors


class Told(asyncio.Protocol):
    """Notes how its connection ended."""

    def __init__(self, ends: list[str]) -> None:
        self.ends = ends

    def connection_lost(self, exc: Exception | None) -> None:
        self.ends.append(type(exc).__name__)


def test_a_machine_without_power_is_silent_and_breaks_its_connections_when_it_is_back() -> None:
    loop, network = made()
    server = Host("server/broker")
    ends: list[str] = []

    async def listen() -> None:
        await loop.create_server(asyncio.Protocol, None, 9092)

    async def connect() -> None:
        try:
            async with asyncio.timeout(5):
                await loop.create_connection(lambda: Told(ends), "server", 9092)
        except (TimeoutError, ConnectionRefusedError) as error:
            ends.append(type(error).__name__)

    on(loop, server, listen)
    on(loop, Host("client"), connect)
    loop.run_for(1.0)
    network.power_off("server")
    network.kill(server)
    on(loop, Host("other"), connect)
    loop.run_for(10.0)
    assert ends == ["TimeoutError"]
    network.power_on("server")
    loop.run_for(1.0)
    on(loop, Host("another"), connect)
    loop.run_for(1.0)
    assert ends == ["TimeoutError", "ConnectionResetError", "ConnectionRefusedError"]


def test_a_connection_that_was_reset_before_it_was_accepted_reaches_no_server() -> None:
    """A listener that counted it would wait for its end for ever."""
    loop, network = made()
    made_at_server: list[asyncio.BaseTransport] = []
    ends: list[str] = []

    class Server(asyncio.Protocol):
        def connection_made(self, transport: asyncio.BaseTransport) -> None:
            made_at_server.append(transport)

    async def listen() -> None:
        await loop.create_server(Server, None, 9092)

    async def connect() -> None:
        await loop.create_connection(lambda: Told(ends), "server", 9092)

    on(loop, Host("server"), listen)
    loop.run_for(1.0)
    network.slow("client", "server", 1.0)
    on(loop, Host("client"), connect)
    loop.run_until_complete(asyncio.sleep(0))
    while not network.freeze("client", "server"):
        loop.run_for(0.01)
    network.reset("client", "server")
    network.thaw([*network._frozen])
    loop.run_for(5.0)
    assert ends == ["ConnectionResetError"] and made_at_server == []


def test_a_slow_link_takes_longer_one_way_only() -> None:
    loop, network = made()
    on(loop, Host("server"), serve)
    took: list[float] = []

    async def client() -> None:
        before = loop.time()
        await talk(10)
        took.append(loop.time() - before)

    on(loop, Host("client"), client)
    loop.run_for(1.0)
    network.slow("server", "client", 1.0)
    on(loop, Host("client"), client)
    loop.run_for(20.0)
    network.heal_all()
    on(loop, Host("client"), client)
    loop.run_for(1.0)
    assert took[0] < 0.1 and 0.5 < took[1] < 6.0 and took[2] < 0.1


def test_a_process_that_ends_itself_does_not_end_the_loop() -> None:
    loop, _ = made()
    seen: list[str] = []
    victim, other = Host("victim"), Host("other")

    async def end() -> None:
        victim.alive = False
        seen.append("ended")
        raise SystemExit

    async def go_on() -> None:
        await asyncio.sleep(1)
        seen.append("went on")

    on(loop, victim, end)
    on(loop, other, go_on)
    loop.run_for(2.0)
    assert seen == ["ended", "went on"]


def test_remaining_tasks_end_with_the_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    """A finally clause that needs a running loop, and waits in it, is none of the garbage collector's affairs."""
    ignored: list[object] = []
    monkeypatch.setattr(sys, "unraisablehook", lambda what: ignored.append(what.exc_value))
    loop, ended = SimLoop(random.Random(1)), []

    async def hang() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            asyncio.get_running_loop()
            ended.append("began to end")
            await asyncio.wait([asyncio.ensure_future(asyncio.sleep(1.0))])
            ended.append("never reached")

    loop.call_soon(lambda: loop.create_task(hang()))
    loop.run_for(1.0)
    loop.close()
    gc.collect()
    assert ended == ["began to end"] and ignored == []
