"""StreamNetwork: byte streams between simulated machines, behind a SimLoop's create_server and create_connection.

Production's asyncio code runs over it unmodified: it sees transports, `connection_made`, `data_received` (or the
buffered protocol), `pause_writing`, `connection_lost`. Bytes of one direction arrive in order after a seeded delay, cut
into seeded pieces. What can go wrong is what TCP lets go wrong:

    cut(a, b)     bytes from machine a to b wait; connecting waits; healing delivers late (or `reset` was called before)
    reset(a, b)   every connection between the two breaks; what is under way is lost
    kill(host)    a process dies: its listeners refuse, its connections break at the other end

A machine is a Host's name up to the first "/" ("node-1/broker" and "node-1/controller" are processes of one machine).
"""

import asyncio
import errno
import os
import random
from collections import deque
from collections.abc import Callable, Iterable
from typing import Any, Final, cast

from kvorum.chaos.sim.loop import Host, SimLoop

WINDOW_BYTES: Final = 256 * 1024
"""Bytes on the way or unread; more waits in the sender's buffer, as with a socket's buffers."""
HIGH_WATER_BYTES: Final = 64 * 1024
"""asyncio's default before pause_writing."""
LOCAL_NAMES: Final = ("127.0.0.1", "localhost", "0.0.0.0", "", "::1")
PORT_FIRST: Final = 40_000


def machine_of(host: Host | None) -> str:
    """Return the machine a process runs on."""
    return host.name.partition("/")[0] if host is not None else "test"


class _Socket:
    """As much of a socket as servers are asked for."""

    def __init__(self, name: tuple[str, int]) -> None:
        self._name = name

    def getsockname(self) -> tuple[str, int]:
        return self._name


class SimServer:
    """What create_server returns."""

    def __init__(self, network: "StreamNetwork", address: tuple[str, int], host: Host | None) -> None:
        """Listen as (machine, port)."""
        self._network = network
        self.address = address
        self.host = host
        self.factory: Callable[[], asyncio.BaseProtocol]
        self.sockets = [_Socket(address)]

    def close(self) -> None:
        """Accept no more. Idempotent."""
        self._network.unlisten(self)

    def is_serving(self) -> bool:
        """Tell whether connections are accepted."""
        return self._network.listening(self.address) is self

    async def wait_closed(self) -> None:
        """Return at once: connections have their own ends."""


class SimTransport(asyncio.Transport):
    """One end of a connection."""

    def __init__(self, network: "StreamNetwork", host: Host | None, name: tuple[str, int]) -> None:
        """`peer` and `protocol` are set when both ends are there."""
        super().__init__({})
        self._network = network
        self.host = host
        self.name = name
        self.peer: SimTransport
        self.protocol: asyncio.BaseProtocol
        self.lost = False
        self._closing = False
        self._eof_sent = False
        self._unsent: deque[bytes] = deque()
        self._unsent_bytes = 0
        self.on_way_bytes = 0
        self._arrived: deque[bytes | None] = deque()
        self._reading = True
        self._high = HIGH_WATER_BYTES
        self._low = HIGH_WATER_BYTES // 4
        self._paused_writing = False
        self.last_at = 0.0

    # asyncio.Transport.

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        """See asyncio: peername and sockname."""
        return {"peername": self.peer.name, "sockname": self.name}.get(name, default)

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        """See asyncio."""
        self.protocol = protocol

    def get_protocol(self) -> asyncio.BaseProtocol:
        """See asyncio."""
        return self.protocol

    def is_closing(self) -> bool:
        """See asyncio."""
        return self._closing or self.lost

    def close(self) -> None:
        """Close after what was written."""
        if not self.is_closing():
            self._closing = True
            if not self._unsent:
                self._finish()

    def abort(self) -> None:
        """Close at once; the peer is reset."""
        if not self.lost:
            self._closing = True
            self._unsent.clear()
            self._unsent_bytes = 0
            self._network.break_connection(self, None)

    def _finish(self) -> None:
        """Send the end of the stream, and be done."""
        self._network.carry(self, None)
        self.lose(None)

    def pause_reading(self) -> None:
        """See asyncio."""
        self._reading = False

    def resume_reading(self) -> None:
        """See asyncio."""
        if not self._reading:
            self._reading = True
            self._network.loop.call_soon(self.deliver)

    def is_reading(self) -> bool:
        """See asyncio."""
        return self._reading and not self.is_closing()

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        """See asyncio."""
        self._high = HIGH_WATER_BYTES if high is None else high
        self._low = self._high // 4 if low is None else low

    def get_write_buffer_size(self) -> int:
        """Return the bytes that the network has not taken."""
        return self._unsent_bytes

    def get_write_buffer_limits(self) -> tuple[int, int]:
        """See asyncio."""
        return self._low, self._high

    def write(self, data: bytes | bytearray | memoryview) -> None:
        """Send bytes; they are copied."""
        assert not self._eof_sent
        if self.is_closing() or not data:
            return
        self._unsent.append(bytes(data))
        self._unsent_bytes += len(self._unsent[-1])
        self.pump()
        if self._unsent_bytes > self._high and not self._paused_writing:
            self._paused_writing = True
            self.protocol.pause_writing()

    def writelines(self, list_of_data: Iterable[bytes | bytearray | memoryview]) -> None:
        """Send all."""
        self.write(b"".join(list_of_data))

    def can_write_eof(self) -> bool:
        """See asyncio."""
        return True

    def write_eof(self) -> None:
        """Half-close: what is left of the buffer goes first."""
        self._eof_sent = True
        if not self._unsent:
            self._network.carry(self, None)

    # The network's side.

    def pump(self) -> None:
        """Hand over as much as the window takes."""
        waited = bool(self._unsent)
        while self._unsent and self.on_way_bytes < WINDOW_BYTES:
            data = self._unsent.popleft()
            room = WINDOW_BYTES - self.on_way_bytes
            if len(data) > room:
                self._unsent.appendleft(data[room:])
                data = data[:room]
            self._unsent_bytes -= len(data)
            self.on_way_bytes += len(data)
            self._network.carry(self, data)
        if self._paused_writing and self._unsent_bytes <= self._low and not self.lost:
            self._paused_writing = False
            self.protocol.resume_writing()
        if waited and not self._unsent and not self.lost:
            if self._closing:
                self._finish()
            elif self._eof_sent:
                self._network.carry(self, None)

    def arrive(self, data: bytes | None) -> None:
        """Take bytes (None: the end) off the network."""
        if not self.lost:
            self._arrived.append(data)
            self.deliver()

    def deliver(self) -> None:
        """Give the protocol what has arrived, unless it has paused."""
        while self._arrived and self._reading and not self.lost:
            data = self._arrived.popleft()
            if data is None:
                keep_open = cast(asyncio.Protocol, self.protocol).eof_received()
                if not keep_open:
                    self.close()
                return
            self._give(data)
            self._network.taken(self.peer, len(data))

    def _give(self, data: bytes) -> None:
        protocol = self.protocol
        if not isinstance(protocol, asyncio.BufferedProtocol):
            cast(asyncio.Protocol, protocol).data_received(data)
            return
        while data and not self.lost:
            buffer = memoryview(cast(memoryview, protocol.get_buffer(len(data)))).cast("B")
            count = min(len(buffer), len(data))
            buffer[:count] = data[:count]
            data = data[count:]
            del buffer  # the protocol may resize what it lent
            protocol.buffer_updated(count)

    def lose(self, error: Exception | None) -> None:
        """End this side: connection_lost comes soon."""
        if self.lost:
            return
        self.lost = True
        self._network.forget(self)
        loop = self._network.loop
        loop.call_at_host(self.host, loop.time(), self.protocol.connection_lost, error)


class StreamNetwork:
    """See the module. Installs itself into the loop."""

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
        self._held: dict[tuple[str, str], list[Callable[[], None]]] = {}
        self._port = PORT_FIRST
        self.pieces_bytes_max = 64 * 1024
        loop.streams = self

    def delay(self) -> float:
        """Draw a delay in seconds."""
        low, high = self._delays
        return low + (high - low) * self._rng.random()

    # Names.

    def _machine(self, name: str | None) -> str:
        return machine_of(self.loop.host) if not name or name in LOCAL_NAMES else name

    def listen(self, factory: Callable[[], asyncio.BaseProtocol], host: str | None, port: int | None) -> SimServer:
        """Listen on a port of the running process's machine. Raises OSError EADDRINUSE."""
        if not port:
            self._port += 1
            port = self._port
        address = (machine_of(self.loop.host), port)
        present = self._servers.get(address)
        if present is not None and (present.host is None or present.host.alive):
            raise OSError(errno.EADDRINUSE, os.strerror(errno.EADDRINUSE))
        server = self._servers[address] = SimServer(self, address, self.loop.host)
        server.factory = factory
        return server

    def listening(self, address: tuple[str, int]) -> SimServer | None:
        """Return who listens there, if it is alive."""
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
        server = self.listening((there, port))
        if server is None:
            raise ConnectionRefusedError(errno.ECONNREFUSED, os.strerror(errno.ECONNREFUSED))
        self._port += 1
        near = SimTransport(self, self.loop.host, (here, self._port))
        far = SimTransport(self, server.host, server.address)
        near.peer, far.peer = far, near
        near.protocol = factory()
        self._transports[near] = self._transports[far] = None

        def accept() -> None:
            if self.listening(server.address) is not server:
                self.break_connection(near, ConnectionResetError(errno.ECONNRESET, os.strerror(errno.ECONNRESET)))
                return
            far.protocol = server.factory()
            far.protocol.connection_made(far)

        far.protocol = asyncio.Protocol()
        self._schedule(near, accept)
        near.protocol.connection_made(near)
        return near, near.protocol

    async def _passage(self, way: tuple[str, str]) -> None:
        """Wait for one delay on a way, longer while it is cut."""
        passed: asyncio.Future[None] = self.loop.create_future()
        self._pass(way, lambda: self.loop.call_later(self.delay(), self._resolve, passed))
        await passed

    @staticmethod
    def _resolve(future: asyncio.Future[None]) -> None:
        if not future.done():
            future.set_result(None)

    def _pass(self, way: tuple[str, str], action: Callable[[], object]) -> None:
        """Do it now, or when the way is healed, as the process that asked."""
        if way not in self._cut:
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
        target = source.peer

        def go() -> None:
            source.last_at = max(self.loop.time() + self.delay(), source.last_at + 1e-7)
            self.loop.call_at_host(target.host, source.last_at, action)

        way = (source.name[0], target.name[0])
        if way in self._cut:
            self._held.setdefault(way, []).append(go)
        else:
            go()

    def taken(self, source: SimTransport, size: int) -> None:
        """The reader took bytes: the window opens again, one delay later."""

        def opened() -> None:
            source.on_way_bytes -= size
            if not source.lost:
                source.pump()

        self.loop.call_at_host(source.host, self.loop.time() + self.delay(), opened)

    def forget(self, transport: SimTransport) -> None:
        """A side has ended."""
        self._transports.pop(transport, None)

    def break_connection(self, transport: SimTransport, error: Exception | None) -> None:
        """End a connection: this side now, the other when it learns of it."""
        peer = transport.peer
        transport.lose(error)
        reset = ConnectionResetError(errno.ECONNRESET, os.strerror(errno.ECONNRESET))
        self._schedule(transport, lambda: peer.lose(reset))

    # Faults.

    def cut(self, source: str, target: str) -> None:
        """Hold back everything from one machine to another."""
        self._cut.add((source, target))

    def heal(self, source: str, target: str) -> None:
        """Let pass what was held back, in order, and everything after."""
        self._cut.discard((source, target))
        for go in self._held.pop((source, target), []):
            go()

    def heal_all(self) -> None:
        """Heal every cut."""
        for way in sorted(self._cut):
            self.heal(*way)

    def reset(self, one: str, other: str) -> None:
        """Break every connection between two machines; what is under way is lost."""
        self._held.pop((one, other), None)
        self._held.pop((other, one), None)
        error = ConnectionResetError(errno.ECONNRESET, os.strerror(errno.ECONNRESET))
        for transport in list(self._transports):
            if {transport.name[0], transport.peer.name[0]} == {one, other}:
                transport.lose(error)

    def kill(self, host: Host) -> None:
        """A process has died: its connections break at the other end, as its kernel says so."""
        host.alive = False
        for transport in [transport for transport in self._transports if transport.host is host]:
            self.break_connection(transport, None)
        for server in [server for server in self._servers.values() if server.host is host]:
            self.unlisten(server)
