"""A Toxiproxy server, an echo server behind it, and pings that tell what a fault does to them."""

import socket
import threading
import time
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from kvorum.chaos.faults.links import Links
from kvorum.chaos.faults.ports import PortBlock
from kvorum.chaos.faults.topology import Direction, Proxy
from kvorum.chaos.faults.toxiproxy import ToxiproxyServer

PING_SECONDS_MAX = 60.0


@pytest.fixture
def ports() -> Iterator[PortBlock]:
    """A block of ports of the test's own."""
    block = PortBlock.take()
    yield block
    block.release()


@pytest.fixture
def server(toxiproxy_program: str, ports: PortBlock, tmp_path: Path) -> Iterator[ToxiproxyServer]:
    """A running Toxiproxy server without proxies."""
    running = ToxiproxyServer(toxiproxy_program, ports.next(), str(tmp_path / "toxiproxy.log"))
    running.start()
    yield running
    running.stop()


@dataclass(slots=True)
class Echo:
    """Sends back what it hears, a thread a connection; remembers all of it."""

    listener: socket.socket
    heard: list[bytes] = field(default_factory=list)

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.listener.getsockname()[1]}"

    def serve(self) -> None:
        while True:
            try:
                connection, _ = self.listener.accept()
            except OSError:
                return
            threading.Thread(target=self.answer, args=(connection,), daemon=True).start()

    def answer(self, connection: socket.socket) -> None:
        with closing(connection):
            try:
                while data := connection.recv(65536):
                    self.heard.append(data)
                    connection.sendall(data)
            except OSError:
                return

    def all(self) -> bytes:
        return b"".join(self.heard)


@pytest.fixture
def echo() -> Iterator[Echo]:
    """An echo server."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        found = Echo(listener)
        thread = threading.Thread(target=found.serve, daemon=True)
        thread.start()
        yield found
        listener.shutdown(socket.SHUT_RDWR)
    thread.join(5)


@dataclass(slots=True)
class Client:
    """One connection through the proxy."""

    connection: socket.socket

    def ping(self, data: bytes = b"ping", seconds: float = 5.0) -> float:
        """Send and wait for the echo; return the seconds it took. Raises OSError (TimeoutError, ConnectionError)."""
        started = time.monotonic()
        self.connection.settimeout(seconds)
        self.connection.sendall(data)
        self.read(len(data), seconds)
        return time.monotonic() - started

    def best_ping(self, under: float, data: bytes = b"ping") -> float:
        """Ping until one took less than `under` seconds; return the shortest. A busy machine delays some, not all."""
        best, deadline = self.ping(data), time.monotonic() + PING_SECONDS_MAX
        while best >= under and time.monotonic() < deadline:
            best = min(best, self.ping(data))
        return best

    def read(self, size: int, seconds: float = 5.0) -> bytes:
        """Read so many bytes. Raises OSError: too late, or closed before."""
        self.connection.settimeout(seconds)
        found = b""
        while len(found) < size:
            data = self.connection.recv(size - len(found))
            if not data:
                raise ConnectionError("closed by the peer")
            found += data
        return found


@dataclass(slots=True)
class Link:
    """One proxied link to the echo server."""

    links: Links
    proxied: Proxy
    opened: list[socket.socket] = field(default_factory=list)

    @property
    def name(self) -> str:
        return self.proxied.name

    def connect(self) -> Client:
        """Connect through the proxy. Raises ConnectionRefusedError."""
        connection = socket.create_connection(("127.0.0.1", self.proxied.listen_port), timeout=5)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.opened.append(connection)
        return Client(connection)


@pytest.fixture
def link(server: ToxiproxyServer, echo: Echo, ports: PortBlock) -> Iterator[Link]:
    """A link from a to b through a proxy."""
    proxied = Proxy(Direction("a", "b"), ports.next(), echo.address)
    links = Links(server.api, [proxied])
    links.open()
    found = Link(links, proxied)
    yield found
    for connection in found.opened:
        connection.close()
