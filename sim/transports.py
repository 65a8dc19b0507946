"""One end of a simulated connection, and a listening socket: what asyncio's protocols see of a StreamNetwork."""

import asyncio
from collections import deque
from collections.abc import Callable, Iterable
from typing import Any, Final, Protocol, cast

from sim.loop import Host, SimLoop

WINDOW_BYTES: Final = 256 * 1024
"""Bytes on the way or unread; more waits in the sender's buffer, as with a socket's buffers."""
HIGH_WATER_BYTES: Final = 64 * 1024
"""asyncio's default before pause_writing."""


class Network(Protocol):
    """Interface of the network for connection ends."""

    loop: SimLoop

    def unlisten(self, server: "SimServer") -> None:
        """Stop a listener."""
        ...

    def listener_at(self, address: tuple[str, int]) -> "SimServer | None":
        """Return the listener of that address."""
        ...

    def carry(self, source: "SimTransport", data: bytes | None) -> None:
        """Bring bytes (None: the end of the stream) to the other end."""
        ...

    def release_bytes(self, source: "SimTransport", size: int) -> None:
        """The reader took bytes."""
        ...

    def forget(self, transport: "SimTransport") -> None:
        """A side has ended."""
        ...

    def break_connection(self, transport: "SimTransport", error: Exception | None) -> None:
        """End a connection."""
        ...


class _Socket:
    """The part of a socket's interface that servers use."""

    def __init__(self, name: tuple[str, int]) -> None:
        self._name = name

    def getsockname(self) -> tuple[str, int]:
        return self._name


class SimServer:
    """Result of create_server."""

    def __init__(self, network: Network, address: tuple[str, int], host: Host | None) -> None:
        """Listen as (machine, port)."""
        self._network = network
        self.address = address
        self.host = host
        self.factory: Callable[[], asyncio.BaseProtocol]
        self.sockets = [_Socket(address)]

    def close(self) -> None:
        """Stop accepting. Idempotent."""
        self._network.unlisten(self)

    def is_serving(self) -> bool:
        """Return whether connections are accepted."""
        return self._network.listener_at(self.address) is self

    async def wait_closed(self) -> None:
        """Return at once: connections have their own ends."""


class SimTransport(asyncio.Transport):
    """One end of a connection."""

    def __init__(self, network: Network, host: Host | None, name: tuple[str, int]) -> None:
        """`peer` and `protocol` are set when both ends exist."""
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
        """Close after the written data is sent."""
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
        """Half-close: the rest of the buffer is sent first."""
        self._eof_sent = True
        if not self._unsent:
            self._network.carry(self, None)

    # The network's side.

    @property
    def waits(self) -> bool:
        """Whether there are bytes for which the window has no room."""
        return bool(self._unsent) and not self.lost

    def pump(self) -> None:
        """Hand over as much as the window takes."""
        if self.lost:
            return
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
        """Receive bytes (None: end of stream) from the network."""
        if not self.lost:
            self._arrived.append(data)
            self.deliver()

    def deliver(self) -> None:
        """Pass received data to the protocol, unless it has paused."""
        while self._arrived and self._reading and not self.lost:
            data = self._arrived.popleft()
            if data is None:
                keep_open = cast(asyncio.Protocol, self.protocol).eof_received()
                if not keep_open:
                    self.close()
                return
            self._give(data)
            self._network.release_bytes(self.peer, len(data))

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
            del buffer  # the protocol may resize the buffer that it lent
            protocol.buffer_updated(count)

    def lose(self, error: Exception | None) -> None:
        """End this side: connection_lost comes soon."""
        if self.lost:
            return
        self.lost = True
        self._network.forget(self)
        loop = self._network.loop
        loop.call_at_host(self.host, loop.time(), self.protocol.connection_lost, error)
