"""The TLS layer between a socket's transport and a protocol, without sockets: bytes pass in any pieces."""

import asyncio
import ssl
from collections.abc import Callable
from typing import Any, cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kvorum.network.tls import ALERT_INTERNAL_ERROR, CONTROL_BYTES_MAX, LINGER_BYTES_MAX, TlsTransport, tls_scratch
from kvorum.security.errors import AuthenticationError
from tests.tls_certificates import client_tls, server_tls
from tests.unit.network.network_kit import run

SCRATCH = tls_scratch()


class Socket:
    """The transport of a socket, whose bytes the test moves."""

    def __init__(self) -> None:
        self.sent = bytearray()
        self.is_reading = True
        self.is_full = False
        self.buffered = 0
        self.closed = ""

    def write(self, data: bytes) -> None:
        if not self.closed:
            self.sent += data
            self.buffered += len(data) if self.is_full else 0

    def writelines(self, parts: list[bytes]) -> None:
        self.write(b"".join(parts))

    def pause_reading(self) -> None:
        self.is_reading = False

    def resume_reading(self) -> None:
        self.is_reading = True

    def get_write_buffer_size(self) -> int:
        return self.buffered

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        self.high = high

    def is_closing(self) -> bool:
        return bool(self.closed)

    def write_eof(self) -> None:
        self.closed = "half"

    def close(self) -> None:
        self.closed = "closed"

    def abort(self) -> None:
        self.closed = "aborted"

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return {"peername": ("10.0.0.1", 7)}.get(name, default)


class Recorder(asyncio.BufferedProtocol):
    """A protocol with buffers of given sizes that may pause after each read."""

    def __init__(self, sizes: list[int] | None = None, pauses: bool = False) -> None:
        self.sizes = sizes or [65_536]
        self.reads = 0
        self.pauses = pauses
        self.received = bytearray()
        self.events: list[object] = []
        self.transport: TlsTransport
        self.buffer = bytearray()
        self.keep_open = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(TlsTransport, transport)
        self.events.append("made")
        self.transport.set_write_buffer_limits(high=0)

    def get_buffer(self, sizehint: int) -> memoryview:
        self.buffer = bytearray(self.sizes[self.reads % len(self.sizes)])
        return memoryview(self.buffer)

    def buffer_updated(self, nbytes: int) -> None:
        self.reads += 1
        self.buffer.append(0)  # resizes: no view of it is left
        self.received += self.buffer[:nbytes]
        if self.pauses:
            self.transport.pause_reading()

    def eof_received(self) -> bool:
        self.events.append("eof")
        return self.keep_open

    def pause_writing(self) -> None:
        self.events.append("pause")

    def resume_writing(self) -> None:
        self.events.append("resume")

    def connection_lost(self, exc: Exception | None) -> None:
        self.events.append(("lost", None if exc is None else str(exc)))


class Side:
    """One end: the user of a TlsTransport and its socket."""

    def __init__(self, context: ssl.SSLContext, protocol: Recorder, hostname: str | None = None) -> None:
        self.context = context
        self.protocol = protocol
        self.events: list[str] = []
        self.refusal: AuthenticationError | None = None
        self.transport = TlsTransport(self, SCRATCH, hostname)
        self.socket = Socket()
        self.transport.connection_made(cast(asyncio.Transport, self.socket))

    def connected(self, raw: asyncio.Transport) -> None:
        self.transport.start()

    def completed(self) -> asyncio.BufferedProtocol:
        self.events.append("completed")
        if self.refusal is not None:
            raise self.refusal
        return self.protocol

    def failed(self, reason: str) -> None:
        self.events.append(f"failed: {reason}")

    def lost(self) -> None:
        self.events.append("lost")

    def receive(self, data: bytes) -> None:
        """The socket has these bytes."""
        while data:
            buffer = self.transport.get_buffer(-1)
            count = min(len(buffer), len(data))
            buffer[:count] = data[:count]
            self.transport.buffer_updated(count)
            data = data[count:]


class Wire:
    """Both ends, and the bytes between them."""

    def __init__(self, server: Recorder | None = None, client: Recorder | None = None, **options: Any) -> None:
        self.client = Side(client_tls(**options).context, client or Recorder(), "localhost")
        self.server = Side(SERVER.context, server or Recorder())

    def move(self, size: Callable[[], int] = lambda: 1 << 30) -> None:
        """Carry bytes both ways until there are none, in pieces."""
        sides = (self.client, self.server)
        while any(a.socket.sent and b.socket.is_reading for a, b in (sides, sides[::-1])):
            for a, b in (sides, sides[::-1]):
                if a.socket.sent and b.socket.is_reading:
                    count = size()
                    data = bytes(a.socket.sent[:count])
                    del a.socket.sent[:count]
                    b.receive(data)


SERVER = server_tls()


async def turn() -> None:
    await asyncio.sleep(0)


def test_the_protocol_is_connected_after_the_handshake() -> None:
    async def main() -> None:
        wire = Wire()
        assert wire.server.protocol.events == []
        wire.move()
        for side in (wire.client, wire.server):
            assert side.events == ["completed"]
            assert side.protocol.events == ["made"]
            transport = side.protocol.transport
            assert transport.get_extra_info("peername") == ("10.0.0.1", 7)
            assert transport.get_extra_info("sslcontext") is side.context
            assert transport.get_extra_info("cipher")[1] == "TLSv1.3"
            assert transport.get_extra_info("none", 5) == 5
        assert wire.server.protocol.transport.get_extra_info("peer_certificate") is None
        assert wire.client.protocol.transport.get_extra_info("peer_certificate")[:1] == b"\x30"

    run(main)


PIECES = st.one_of(st.integers(1, 300), st.integers(1, 70_000), st.integers(15_000, 17_000))
MESSAGE = st.lists(st.integers(0, 150_000), min_size=1, max_size=4)


@settings(max_examples=60, deadline=None)
@given(
    writes=st.lists(st.tuples(st.booleans(), MESSAGE), min_size=1, max_size=6),
    pieces=st.lists(PIECES, min_size=1, max_size=10),
    buffers=st.lists(st.one_of(st.integers(1, 40), st.integers(1, 200_000)), min_size=1, max_size=5),
    pauses=st.booleans(),
    seed=st.binary(min_size=1, max_size=8),
)
def test_bytes_arrive_as_they_were_written(
    writes: list[tuple[bool, list[int]]], pieces: list[int], buffers: list[int], pauses: bool, seed: bytes
) -> None:
    """In any pieces on the wire, into buffers of any size, with pauses, both ways, as write and as writelines."""
    large = any(size < 100 for size in buffers)

    async def main() -> None:
        wire = Wire(Recorder(buffers, pauses), Recorder(buffers, pauses))
        turns = iter(range(1 << 30))

        def size() -> int:
            return pieces[next(turns) % len(pieces)] * (100 if large else 1)

        wire.move(size)
        expected: dict[Side, bytearray] = {wire.client: bytearray(), wire.server: bytearray()}
        for is_client, message in writes:
            side, other = (wire.client, wire.server) if is_client else (wire.server, wire.client)
            parts = [(seed * (length // len(seed) + 1))[: length // (20 if large else 1)] for length in message]
            expected[other] += b"".join(parts)
            if len(parts) == 1:
                side.protocol.transport.write(memoryview(parts[0]))
            else:
                side.protocol.transport.writelines(parts)
            wire.move(size)
        while any(side.protocol.received != data for side, data in expected.items()):
            before = [len(side.protocol.received) for side in expected]
            for side in expected:
                side.protocol.transport.resume_reading()
                assert len(side.protocol.received) in before  # never within the call
            await turn()
            wire.move(size)
            assert before != [len(side.protocol.received) for side in expected], "bytes are stuck"

    run(main)


def test_a_paused_protocol_gets_nothing_and_the_socket_is_not_read() -> None:
    async def main() -> None:
        wire = Wire()
        wire.move()
        server, client = wire.server, wire.client
        server.protocol.transport.pause_reading()
        assert not server.socket.is_reading
        client.protocol.transport.write(b"x" * 100_000)
        server.receive(bytes(client.socket.sent))  # was read already
        client.socket.sent.clear()
        assert not server.protocol.received
        server.protocol.transport.resume_reading()
        server.protocol.transport.pause_reading()
        await turn()
        assert not server.protocol.received
        server.protocol.transport.resume_reading()
        server.protocol.transport.resume_reading()
        await turn()
        assert len(server.protocol.received) == 100_000
        assert server.socket.is_reading

    run(main)


def test_a_full_socket_pauses_the_protocol() -> None:
    async def main() -> None:
        wire = Wire()
        wire.move()
        server = wire.server
        assert server.socket.high == 0
        server.socket.is_full = True
        server.protocol.transport.write(b"x" * 50_000)
        assert server.protocol.transport.get_write_buffer_size() > 50_000
        server.transport.pause_writing()
        server.transport.resume_writing()
        assert server.protocol.events == ["made", "pause", "resume"]

    run(main)


def test_a_socket_that_is_full_in_the_handshake_pauses_the_protocol_behind_connection_made() -> None:
    async def main() -> None:
        wire = Wire()
        wire.server.transport.pause_writing()
        wire.move()
        assert wire.server.protocol.events == ["made", "pause"]

    run(main)


def test_small_parts_share_records_and_large_ones_are_not_joined() -> None:
    async def main() -> None:
        wire = Wire()
        wire.move()
        transport, sent = wire.server.protocol.transport, wire.server.socket.sent
        transport.writelines([b"x" * 10] * 1_000)
        assert len(sent) - 10_000 < 100
        sent.clear()
        transport.writelines([b"", b""])
        transport.write(b"")
        assert not sent

    run(main)


def test_close_sends_close_notify_and_the_peer_sees_an_orderly_end() -> None:
    async def main() -> None:
        wire = Wire()
        wire.move()
        server, client = wire.server, wire.client
        server.protocol.transport.write(b"last")
        server.protocol.transport.close()
        assert server.socket.closed == "closed"
        assert server.protocol.transport.is_closing()
        server.protocol.transport.write(b"too late")
        server.protocol.transport.close()
        wire.move()
        assert client.protocol.received == b"last"
        assert client.protocol.events == ["made", "eof"]
        assert client.socket.closed == "closed"
        client.transport.connection_lost(None)
        assert client.protocol.events[-1] == ("lost", None)

    run(main)


@pytest.mark.parametrize("orderly", [True, False])
def test_a_half_closed_peer_gets_the_rest_if_the_protocol_wants_so(orderly: bool) -> None:
    async def main() -> None:
        server_protocol = Recorder()
        server_protocol.keep_open = True
        wire = Wire(server_protocol)
        wire.move()
        server, client = wire.server, wire.client
        if orderly:
            ssl_object = client.transport.get_extra_info("ssl_object")
            with pytest.raises(ssl.SSLWantReadError):
                ssl_object.unwrap()
            client.transport._flush()
            wire.move()
        else:
            assert server.transport.eof_received()
        assert server_protocol.events == ["made", "eof"]
        server_protocol.transport.write(b"rest")
        assert server.socket.sent and not server.socket.closed

    run(main)


def test_abort_sends_nothing() -> None:
    async def main() -> None:
        wire = Wire()
        wire.move()
        wire.server.protocol.transport.abort()
        assert (wire.server.socket.closed, bytes(wire.server.socket.sent)) == ("aborted", b"")

    run(main)


def test_a_changed_record_ends_the_connection_with_an_alert() -> None:
    async def main() -> None:
        wire = Wire()
        wire.move()
        server, client = wire.server, wire.client
        client.protocol.transport.write(b"good")
        wire.move()
        client.protocol.transport.write(b"bad")
        client.socket.sent[-1] ^= 1
        wire.move()
        assert server.protocol.received == b"good"
        assert server.events[-1] == "failed: a record was changed on its way"
        assert server.socket.closed == "closed"
        server.transport.connection_lost(None)
        assert server.protocol.events[-1] == ("lost", "a record was changed on its way")
        assert client.events[-1].startswith("failed: ") and "alert bad record mac" in client.events[-1]

    run(main)


@pytest.mark.parametrize(
    ("data", "reason", "answer"),
    [
        (b"\0\0\0\x20\0\x12\0\3" + b"x" * 30, "not TLS: a plaintext peer", ALERT_INTERNAL_ERROR),
        (b"GET / HTTP/1.1\r\n\r\n", "an HTTP request, not TLS", ALERT_INTERNAL_ERROR),
        (b"\x16\x03\x01\x00\x05\x01\x00\x00\x01\x00", None, b"\x15\x03"),
    ],
)
def test_bytes_that_are_not_tls_are_answered_with_an_alert(data: bytes, reason: str | None, answer: bytes) -> None:
    async def main() -> None:
        server = Side(SERVER.context, Recorder())
        server.receive(data)
        assert bytes(server.socket.sent[: len(answer)]) == answer
        assert server.socket.closed == "half"
        assert len(server.events) == 1 and server.events[0].startswith(f"failed: {reason or ''}")
        # What the peer still sends is discarded, to some extent: a reset would take the alert from it.
        server.receive(b"x" * 1_000)
        assert server.socket.closed == "half"
        server.receive(b"x" * LINGER_BYTES_MAX)
        assert server.socket.closed == "aborted"
        server.transport.connection_lost(None)
        assert server.events[-1] == "lost"

    run(main)


def test_a_refused_principal_ends_the_handshake() -> None:
    async def main() -> None:
        wire = Wire()
        wire.server.refusal = AuthenticationError("no rule matches")
        wire.move()
        assert wire.server.events == ["completed", "failed: no rule matches"]
        assert wire.server.socket.closed == "half"
        assert wire.server.protocol.events == []

    run(main)


def test_a_peer_that_closes_in_the_handshake() -> None:
    async def main() -> None:
        wire = Wire()
        hello = bytes(wire.client.socket.sent)
        wire.server.receive(hello[:20])
        assert not wire.server.transport.eof_received()
        assert wire.server.events == ["failed: the peer closed the connection"]
        silent = Side(SERVER.context, Recorder())
        silent.transport.eof_received()
        assert not silent.transport.has_received
        assert silent.socket.closed == "aborted"

    run(main)


def test_renegotiation_is_refused() -> None:
    async def main() -> None:
        from kvorum.security.tls.settings import TLS_1_2

        wire = Wire(enabled_protocols=(TLS_1_2,))
        wire.move()
        for side in (wire.client, wire.server):
            assert side.context.options & ssl.OP_NO_RENEGOTIATION
        assert wire.server.protocol.transport.get_extra_info("cipher")[1] == "TLSv1.2"

    run(main)


def test_key_updates_of_a_peer_that_reads_no_answers_end_the_connection() -> None:
    async def main() -> None:
        wire = Wire()
        wire.move()
        server = wire.server
        server.transport.pause_writing()
        server.socket.is_full = True
        server.transport._outgoing.write(b"x" * (CONTROL_BYTES_MAX // 2))
        server.transport._answer()
        assert not server.socket.closed
        server.transport._outgoing.write(b"x" * CONTROL_BYTES_MAX)
        server.transport._answer()
        assert server.socket.closed == "aborted"
        assert server.events[-1] == "failed: the peer does not read the answers to its key updates"

    run(main)
