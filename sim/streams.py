"""StreamNetwork: byte streams between simulated machines, behind a SimLoop's create_server and create_connection.

Production's asyncio code runs over it unmodified: it sees transports, `connection_made`, `data_received` (or the
buffered protocol), `pause_writing`, `connection_lost`. Bytes of one direction arrive in order after a seeded delay, cut
into seeded pieces. Only failures that TCP permits occur:

    cut(a, b)     bytes from machine a to b wait; connects wait; healing delivers late (unless `reset` comes first)
    freeze(a, b)  bytes on existing connections wait, new connections work: as with a proxy, or one of several
                  paths. With `abandon` a's ends break meanwhile: it retries on a new connection, and the bytes
                  already sent still arrive, after `thaw`
    slow(a, b, s) bytes from a to b take `s` seconds longer
    power_off(m)  a machine stops silently: nothing passes to or from it until `power_on` breaks its connections
    reset(a, b)   every connection between the two breaks; bytes in flight are lost
    kill(host)    a process ends: its listeners refuse, its connections break at the other end

A machine is a Host's name up to the first "/" ("node-1/broker" and "node-1/controller" are processes of one machine).
"""

import asyncio
import errno
import os
import random
from collections.abc import Callable
from typing import Final

from sim.loop import Host, SimLoop
from sim.transports import SimServer, SimTransport

LOCAL_NAMES: Final = ("127.0.0.1", "localhost", "0.0.0.0", "", "::1")
PORT_FIRST: Final = 40_000
PORT_LAST: Final = 65_535


def machine_of(host: Host | None) -> str:
    """Return the machine a process runs on."""
    return host.name.partition("/")[0] if host is not None else "test"


class StreamNetwork:
    """See the module. Sets itself as the loop's network."""

    def __init__(
        self, loop: SimLoop, rng: random.Random, *, delay_min_s: float = 0.0001, delay_max_s: float = 0.001
    ) -> None:
        """Start with nothing listening and nothing cut."""
        self.loop = loop
        self._rng = rng
        self._delays = (delay_min_s, delay_max_s)
        self._servers: dict[tuple[str, int], SimServer] = {}
        self._transports: dict[SimTransport, None] = {}
        self._cut: set[tuple[str, str]] = set()
        self._slow: dict[tuple[str, str], float] = {}
        self._dark: set[str] = set()
        self._held: dict[tuple[str, str], list[Callable[[], None]]] = {}
        self._frozen: dict[SimTransport, list[Callable[[], None]]] = {}
        self._port = PORT_FIRST
        self.pieces_bytes_max = 64 * 1024
        loop.streams = self

    def delay(self, way: tuple[str, str] | None = None) -> float:
        """Draw a delay in seconds for data from one machine to another."""
        low, high = self._delays
        drawn = low + (high - low) * self._rng.random()
        if self._slow and way in self._slow:
            return drawn + self._slow[way] * (0.5 + self._rng.random())
        return drawn

    def _is_blocked(self, way: tuple[str, str]) -> bool:
        return way in self._cut or (bool(self._dark) and (way[0] in self._dark or way[1] in self._dark))

    # Names.

    def _machine(self, name: str | None) -> str:
        return machine_of(self.loop.host) if not name or name in LOCAL_NAMES else name

    def listen(self, factory: Callable[[], asyncio.BaseProtocol], host: str | None, port: int | None) -> SimServer:
        """Listen on a port of the running process's machine. Raises OSError EADDRINUSE."""
        if not port:
            port = self._next_port()
        address = (machine_of(self.loop.host), port)
        present = self._servers.get(address)
        if present is not None and (present.host is None or present.host.alive):
            raise OSError(errno.EADDRINUSE, os.strerror(errno.EADDRINUSE))
        server = self._servers[address] = SimServer(self, address, self.loop.host)
        server.factory = factory
        return server

    def _next_port(self) -> int:
        """Return the next port; the first one follows the last, as in a kernel."""
        self._port = PORT_FIRST if self._port == PORT_LAST else self._port + 1
        return self._port

    def listener_at(self, address: tuple[str, int]) -> SimServer | None:
        """Return the listener of that address, if its process runs."""
        server = self._servers.get(address)
        return server if server is not None and (server.host is None or server.host.alive) else None

    def unlisten(self, server: SimServer) -> None:
        """Stop a listener."""
        if self._servers.get(server.address) is server:
            del self._servers[server.address]

    async def connect(
        self, factory: Callable[[], asyncio.BaseProtocol], name: str, port: int
    ) -> tuple[SimTransport, asyncio.BaseProtocol]:
        """Connect from the running process. Raises ConnectionRefusedError; waits while the way is cut."""
        here, there = machine_of(self.loop.host), self._machine(name)
        for way in ((here, there), (there, here)):
            await self._passage(way)
        server = self.listener_at((there, port))
        if server is None:
            raise ConnectionRefusedError(errno.ECONNREFUSED, os.strerror(errno.ECONNREFUSED))
        near = SimTransport(self, self.loop.host, (here, self._next_port()))
        far = SimTransport(self, server.host, server.address)
        near.peer, far.peer = far, near
        near.protocol = factory()
        self._transports[near] = self._transports[far] = None

        def accept() -> None:
            if far.lost:
                return  # reset on its way here
            if self.listener_at(server.address) is not server:
                self.break_connection(near, ConnectionResetError(errno.ECONNRESET, os.strerror(errno.ECONNRESET)))
                return
            far.protocol = server.factory()
            far.protocol.connection_made(far)

        far.protocol = asyncio.Protocol()
        self._schedule(near, accept)
        near.protocol.connection_made(near)
        return near, near.protocol

    async def _passage(self, way: tuple[str, str]) -> None:
        """Wait for one delay between two machines, longer during a cut."""
        passed: asyncio.Future[None] = self.loop.create_future()
        self._pass(way, lambda: self.loop.call_later(self.delay(way), self._resolve, passed))
        await passed

    @staticmethod
    def _resolve(future: asyncio.Future[None]) -> None:
        if not future.done():
            future.set_result(None)

    def _pass(self, way: tuple[str, str], action: Callable[[], object]) -> None:
        """Execute it now, or when the direction is healed, as the requesting process."""
        if not self._is_blocked(way):
            action()
            return
        host = self.loop.host

        def later() -> None:
            self.loop.call_at_host(host, self.loop.time(), action)

        self._held.setdefault(way, []).append(later)

    # Bytes.

    def carry(self, source: SimTransport, data: bytes | None) -> None:
        """Bring bytes (None: the end of the stream) to the other end, in seeded pieces."""
        if data is None:
            self._schedule(source, lambda: source.peer.arrive(None))
            return
        position = 0
        while position < len(data):
            size = self._rng.randint(1, self.pieces_bytes_max) if self._rng.random() < 0.2 else len(data)
            piece = data[position : position + size]
            position += len(piece)
            self._schedule(source, lambda piece=piece: source.peer.arrive(piece))  # type: ignore[misc]  # bound now

    def _schedule(self, source: SimTransport, action: Callable[[], None]) -> None:
        if self._frozen and source in self._frozen:
            self._frozen[source].append(action)
            return
        target = source.peer
        way = (source.name[0], target.name[0])

        def go() -> None:
            source.last_at = max(self.loop.time() + self.delay(way), source.last_at + 1e-7)
            self.loop.call_at_host(target.host, source.last_at, action)

        if self._is_blocked(way):
            self._held.setdefault(way, []).append(go)
        else:
            go()

    def release_bytes(self, source: SimTransport, size: int) -> None:
        """The reader took bytes: the window opens again, and its waiter continues one delay later."""
        source.on_way_bytes -= size
        if source.waits:
            self.loop.call_at_host(source.host, self.loop.time() + self.delay(), source.pump)

    def forget(self, transport: SimTransport) -> None:
        """A side has ended."""
        self._transports.pop(transport, None)

    def break_connection(self, transport: SimTransport, error: Exception | None) -> None:
        """End a connection: this side now, the other one when it learns of it."""
        peer = transport.peer
        transport.lose(error)
        reset = ConnectionResetError(errno.ECONNRESET, os.strerror(errno.ECONNRESET))
        self._schedule(transport, lambda: peer.lose(reset))

    # Faults.

    def cut(self, source: str, target: str) -> None:
        """Hold back everything from one machine to another."""
        self._cut.add((source, target))

    def heal(self, source: str, target: str) -> None:
        """Deliver the held bytes in order, and everything after them."""
        self._cut.discard((source, target))
        self._release((source, target))

    def _release(self, way: tuple[str, str]) -> None:
        if not self._is_blocked(way):
            for go in self._held.pop(way, []):
                go()

    def heal_all(self) -> None:
        """Heal every cut and every slow way."""
        self._slow.clear()
        for way in sorted(self._cut):
            self.heal(*way)

    def slow(self, source: str, target: str, seconds: float) -> None:
        """Delay everything between two machines by about this number of seconds; 0: no delay."""
        if seconds:
            self._slow[source, target] = seconds
        else:
            self._slow.pop((source, target), None)

    def freeze(self, source: str, target: str) -> list[SimTransport]:
        """Hold the bytes of the present connections from one machine to another; return the connections, for `thaw`."""
        ends = [each for each in self._transports if (each.name[0], each.peer.name[0]) == (source, target)]
        ends = [each for each in ends if each not in self._frozen]
        self._frozen.update((each, []) for each in ends)
        return ends

    def abandon(self, frozen: list[SimTransport]) -> None:
        """Break the sending ends of frozen connections: sent bytes stay in flight, and the break follows them."""
        for end in frozen:
            if end in self._frozen and not end.lost:
                error = ConnectionResetError(errno.ECONNRESET, os.strerror(errno.ECONNRESET))
                self.break_connection(end, error)

    def thaw(self, frozen: list[SimTransport]) -> None:
        """Let pass what frozen connections held back, in order, and everything after."""
        for end in frozen:
            for action in self._frozen.pop(end, []):
                self._schedule(end, action)

    def power_off(self, machine: str) -> None:
        """Make a machine fall silent: no reset, no refusal. Its processes are the caller's to end."""
        self._dark.add(machine)

    def power_on(self, machine: str) -> None:
        """Let it respond again: segments for its dead processes' connections get a reset."""
        self._dark.discard(machine)
        reset = ConnectionResetError(errno.ECONNRESET, os.strerror(errno.ECONNRESET))
        for transport in list(self._transports):
            if transport.name[0] == machine and transport.host is not None and not transport.host.alive:
                self.forget(transport)
                # After bytes sent in time: a cut or a frozen connection may deliver those still later.
                self._schedule(transport, lambda peer=transport.peer: peer.lose(reset))  # type: ignore[misc]  # bound now
        for way in sorted(self._held):
            if machine in way:
                self._release(way)

    def reset(self, one: str, other: str) -> None:
        """Break every connection between two machines; bytes in flight are lost."""
        self._held.pop((one, other), None)
        self._held.pop((other, one), None)
        error = ConnectionResetError(errno.ECONNRESET, os.strerror(errno.ECONNRESET))
        for transport in list(self._transports):
            if {transport.name[0], transport.peer.name[0]} == {one, other}:
                transport.lose(error)

    def kill(self, host: Host) -> None:
        """A process has died: its connections break at the other end, closed by its kernel."""
        host.alive = False
        if machine_of(host) in self._dark:
            return
        for transport in [transport for transport in self._transports if transport.host is host]:
            self.break_connection(transport, None)
        for server in [server for server in self._servers.values() if server.host is host]:
            self.unlisten(server)
