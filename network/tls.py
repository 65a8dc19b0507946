"""TLS between the transport of a socket and a protocol.

TlsTransport is the protocol of the one and the transport of the other. The protocol's connection_made is called when
the handshake is complete. States:

    waiting      connected; the handshake may not begin yet: nothing is read
    handshake    bytes go to OpenSSL only
    open         bytes are decrypted into the protocol's buffers, and its bytes are encrypted when they are written
    lingering    the handshake failed and the alert was sent: bytes are discarded until the peer closes; a socket that
                 is closed with unread bytes is reset, and the peer would not receive the alert
    closed       close_notify was sent, or the connection was aborted

OpenSSL never does I/O: bytes pass through two buffers in memory, in pieces, as each of them keeps the memory of its
largest piece. Chosen over the event loop's own TLS, which sends no alert and reports no reason when a handshake fails.
"""

import asyncio
import ssl
from collections.abc import Callable, Iterable
from contextlib import suppress
from enum import Enum, auto
from typing import Any, Final, Protocol, TypeAlias, TypeVar, cast

from kvorum.network.link import stream
from kvorum.security.errors import AuthenticationError
from kvorum.security.tls.client import ClientTls
from kvorum.security.tls.failures import CLOSED, failure_reason, is_plaintext

SCRATCH_BYTES: Final = 128 * 1024
"""One read of a socket."""
ENCRYPTED_BYTES_MAX: Final = 64 * 1024
"""Received bytes that OpenSSL is given at once. Larger pieces are not faster, smaller ones are slower."""
PIECE_BYTES: Final = 32 * 1024
"""Bytes that are encrypted before they are taken from OpenSSL's buffer: two records. Larger pieces are not faster."""
JOINED_BYTES_MAX: Final = 16 * 1024
"""Smaller parts of one write are joined: each write of its own is a record."""
CONTROL_BYTES_MAX: Final = 64 * 1024
"""Answers to key updates that a peer does not read; beyond it the connection is closed."""
LINGER_SECONDS: Final = 1.0
LINGER_BYTES_MAX: Final = 1024 * 1024
Read: TypeAlias = Callable[[int, memoryview], int]
"""SSLObject.read into a buffer."""
P = TypeVar("P", bound=asyncio.BaseProtocol)
ALERT_INTERNAL_ERROR: Final = bytes.fromhex("15 03 03 00 02 02 50")
"""Kafka's answer to bytes that are not TLS; OpenSSL sends none."""


class TlsError(ConnectionError):
    """TLS failed; the text is the reason."""


class State(Enum):
    """See the module."""

    WAITING = auto()
    HANDSHAKE = auto()
    OPEN = auto()
    LINGERING = auto()
    CLOSED = auto()


class TlsUser(Protocol):
    """User of a transport until its handshake is complete. Called from the event loop."""

    @property
    def context(self) -> ssl.SSLContext:
        """The context for this connection; requested once."""
        ...

    def connected(self, raw: asyncio.Transport) -> None:
        """The socket is connected; `TlsTransport.start` begins the handshake."""
        ...

    def completed(self) -> asyncio.BufferedProtocol:
        """Return the protocol; the handshake is complete. Raises AuthenticationError: the peer is refused."""
        ...

    def failed(self, reason: str) -> None:
        """TLS failed, in the handshake or later; the connection will be lost."""
        ...

    def lost(self) -> None:
        """The connection was lost before the handshake was complete."""
        ...


class TlsTransport(asyncio.BufferedProtocol):
    """One connection."""

    __slots__ = (
        *(
            "_control_bytes",
            "_goes_on",
            "_incoming",
            "_inner",
            "_is_paused",
            "_is_write_paused",
            "_lingered",
            "_outgoing",
        ),
        *("_raw", "_scratch", "_server_hostname", "_ssl", "_state", "_user", "error", "has_received"),
    )

    def __init__(self, user: TlsUser, scratch: memoryview, server_hostname: str | None = None) -> None:
        """Wait for the socket's transport. A client names the host of the server.

        `scratch` may be shared by all connections of an event loop: nothing in it is kept over a call.
        """
        self._user = user
        self._scratch = scratch
        self._server_hostname = server_hostname
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._ssl: ssl.SSLObject | None = None
        self._raw: asyncio.Transport
        self._inner: asyncio.BufferedProtocol | None = None
        self._state = State.WAITING
        self._is_paused = self._is_write_paused = self._goes_on = False
        self._control_bytes = self._lingered = 0
        self.has_received = False
        """Whether the peer has sent anything."""
        self.error: TlsError | None = None
        """Why the connection ends, if TLS is the reason."""

    def start(self) -> None:
        """Begin the handshake. A server's OpenSSL object is made when bytes arrive: waiting peers cost nothing."""
        if self._state is not State.WAITING:
            return
        self._state = State.HANDSHAKE
        if self._server_hostname is not None:
            self._shake()
        elif self._incoming.pending:
            asyncio.get_running_loop().call_soon(self.buffer_updated, 0)
        self._raw.resume_reading()

    # The protocol of the socket's transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Wait for `start`."""
        self._raw = stream(transport)
        self._raw.pause_reading()
        self._user.connected(self._raw)

    def connection_lost(self, exc: Exception | None) -> None:
        """Report the loss."""
        self._state = State.CLOSED
        inner = self._inner
        if inner is None:
            self._user.lost()
        else:
            inner.connection_lost(self.error or exc)

    def get_buffer(self, sizehint: int) -> memoryview:
        """Return where the next encrypted bytes go."""
        return self._scratch

    def buffer_updated(self, nbytes: int) -> None:
        """Decrypt received bytes."""
        scratch, incoming = self._scratch, self._incoming
        self.has_received = True
        if self._state is State.OPEN:
            for start in range(0, nbytes, ENCRYPTED_BYTES_MAX):
                incoming.write(scratch[start : min(start + ENCRYPTED_BYTES_MAX, nbytes)])
                self._deliver()
        elif self._state is State.HANDSHAKE:
            incoming.write(scratch[:nbytes])
            self._shake()
        elif self._state is State.WAITING:
            incoming.write(scratch[:nbytes])
            self._raw.pause_reading()
        elif self._state is State.LINGERING:
            self._lingered += nbytes
            if self._lingered > LINGER_BYTES_MAX:
                self.abort()

    def eof_received(self) -> bool:
        """The peer has ended its side; without close_notify that is no error, as frames have lengths."""
        if self._state is State.OPEN:
            self._ended()
            return True
        if self._state is State.HANDSHAKE or self._state is State.WAITING:
            self._fail(CLOSED)
        return False

    def pause_writing(self) -> None:
        """The socket is full."""
        self._is_write_paused = True
        if self._inner is not None:
            self._inner.pause_writing()

    def resume_writing(self) -> None:
        """The socket's buffer is empty."""
        self._is_write_paused = False
        self._control_bytes = 0
        if self._inner is not None:
            self._inner.resume_writing()

    # The handshake

    def _shake(self) -> None:
        """Continue the handshake with the bytes that came."""
        if self._ssl is None:
            self._ssl = self._user.context.wrap_bio(
                self._incoming, self._outgoing, self._server_hostname is None, self._server_hostname
            )
        try:
            self._ssl.do_handshake()
        except ssl.SSLWantReadError:
            self._flush()
            return
        except ssl.SSLError as error:
            has_alert = self._outgoing.pending > 0
            self._flush()
            if is_plaintext(error) and not has_alert and self._server_hostname is None:
                self._raw.write(ALERT_INTERNAL_ERROR)
            self._fail(failure_reason(error))
            return
        self._flush()
        try:
            inner = self._user.completed()
        except AuthenticationError as error:
            self._fail(str(error))
            return
        self._open(inner)

    def _open(self, inner: asyncio.BufferedProtocol) -> None:
        self._state = State.OPEN
        inner.connection_made(cast(asyncio.Transport, self))
        # Not before: a protocol expects it behind connection_made.
        self._inner = inner
        if self._is_write_paused:
            inner.pause_writing()
        if self._incoming.pending:
            self._deliver()

    def _fail(self, reason: str) -> None:
        """End a connection without a protocol, so that the peer receives the alert. Idempotent."""
        if self._state in (State.LINGERING, State.CLOSED):
            return
        self.error = TlsError(reason)
        self._state = State.LINGERING
        self._user.failed(reason)
        if not self.has_received or self._raw.is_closing():
            self._raw.abort()
            return
        self._raw.write_eof()
        self._raw.resume_reading()
        asyncio.get_running_loop().call_later(LINGER_SECONDS, self.abort)

    # Data

    def _deliver(self) -> None:
        """Decrypt what has arrived into the protocol's buffers, until it is empty or the protocol pauses."""
        tls, incoming = self._ssl, self._incoming
        assert tls is not None
        read = cast(Read, tls.read)
        has_more = True
        while has_more and self._state is State.OPEN and not self._is_paused:
            inner = self._inner
            assert inner is not None
            view = cast(memoryview, inner.get_buffer(-1))
            size, filled, ended = len(view), 0, False
            failure: ssl.SSLError | None = None
            try:
                while filled < size:
                    count = read(size - filled, view[filled:] if filled else view)
                    filled += count
                    ended = count == 0
                    if ended or not (incoming.pending or tls.pending()):
                        has_more = False
                        break
            except ssl.SSLWantReadError:
                has_more = False
            except ssl.SSLError as error:
                has_more, failure = False, error
            del view  # a protocol may resize the buffer below it
            if filled:
                inner.buffer_updated(filled)
            if failure is not None:
                self._break(failure)
            elif ended:
                self._ended()
        if self._outgoing.pending:
            self._answer()

    def _answer(self) -> None:
        """Send what OpenSSL answers by itself (key updates); a peer that does not read them is cut off."""
        if self._is_write_paused:
            self._control_bytes += self._outgoing.pending
            if self._control_bytes > CONTROL_BYTES_MAX:
                self.error = TlsError("the peer does not read the answers to its key updates")
                self._user.failed(str(self.error))
                self.abort()
                return
        self._flush()

    def _ended(self) -> None:
        """The peer has sent close_notify, or the end of its stream."""
        if self._state is State.OPEN and self._inner is not None and not self._inner.eof_received():
            self.close()

    def _break(self, error: ssl.SSLError) -> None:
        """A record was invalid, or the peer sent an alert."""
        if self._state is not State.OPEN:
            return
        reason = failure_reason(error)
        self.error = TlsError(reason)
        if reason is not CLOSED:
            self._user.failed(reason)
        self._flush()
        self._state = State.CLOSED
        self._raw.close()

    def _flush(self) -> None:
        """Give OpenSSL's bytes to the socket."""
        if self._outgoing.pending:
            self._raw.write(self._outgoing.read())

    def _go_on(self) -> None:
        self._goes_on = False
        if self._state is State.OPEN and not self._is_paused:
            self._deliver()
            if self._state is State.OPEN and not self._is_paused:
                self._raw.resume_reading()

    # The transport of the protocol

    def write(self, data: bytes | bytearray | memoryview) -> None:
        """Encrypt and send bytes."""
        tls = self._ssl
        if self._state is not State.OPEN or tls is None:
            return
        if len(data) > PIECE_BYTES:
            self.writelines((data,))
        elif data:
            try:
                tls.write(data)
            except ssl.SSLError as error:
                self._break(error)
                return
            self._raw.write(self._outgoing.read())

    def writelines(self, parts: Iterable[bytes | bytearray | memoryview]) -> None:
        """Encrypt and send bytes, small parts in common records."""
        if self._state is not State.OPEN:
            return
        encrypted: list[bytes] = []
        small: list[bytes | bytearray | memoryview] = []
        small_bytes = 0
        try:
            for part in parts:
                size = len(part)
                if size < JOINED_BYTES_MAX:
                    small.append(part)
                    small_bytes += size
                    if small_bytes < PIECE_BYTES:
                        continue
                if small:
                    self._encrypt(b"".join(small), encrypted)
                    small.clear()
                    small_bytes = 0
                if size >= JOINED_BYTES_MAX:
                    self._encrypt(part, encrypted)
            if small_bytes:
                self._encrypt(b"".join(small), encrypted)
        except ssl.SSLError as error:
            self._break(error)
            return
        self._raw.writelines(encrypted)

    def _encrypt(self, data: bytes | bytearray | memoryview, encrypted: list[bytes]) -> None:
        """Append the records of these bytes. Raises ssl.SSLError."""
        tls, outgoing = self._ssl, self._outgoing
        assert tls is not None
        if len(data) <= PIECE_BYTES:
            tls.write(data)
            encrypted.append(outgoing.read())
            return
        view = memoryview(data)
        for start in range(0, len(view), PIECE_BYTES):
            tls.write(view[start : start + PIECE_BYTES])
            encrypted.append(outgoing.read())

    def pause_reading(self) -> None:
        """Pass nothing on until `resume_reading`."""
        if self._state is State.OPEN:
            self._is_paused = True
            self._raw.pause_reading()

    def resume_reading(self) -> None:
        """Pass bytes on again, first those that have been read already; never within this call."""
        self._is_paused = False
        if self._state is not State.OPEN or self._goes_on or self._ssl is None:
            return
        if self._incoming.pending or self._ssl.pending():
            self._goes_on = True
            asyncio.get_running_loop().call_soon(self._go_on)
        else:
            self._raw.resume_reading()

    def get_write_buffer_size(self) -> int:
        """Return the encrypted bytes that the socket has not accepted."""
        return self._raw.get_write_buffer_size()

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        """See asyncio.WriteTransport; counted are encrypted bytes."""
        self._raw.set_write_buffer_limits(high, low)

    def is_closing(self) -> bool:
        """Return whether no more is written."""
        return self._state is not State.OPEN or self._raw.is_closing()

    def get_protocol(self) -> asyncio.BufferedProtocol | None:
        """Return the protocol."""
        return self._inner

    def set_protocol(self, protocol: asyncio.BufferedProtocol) -> None:
        """Replace the protocol; it is given the bytes from now on."""
        self._inner = protocol

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        """Return `sslcontext`, `ssl_object`, `cipher`, `peer_certificate` (DER), or what the socket's transport has."""
        if self._ssl is None or name not in SOURCES:
            return self._raw.get_extra_info(name, default)
        found = SOURCES[name](self._ssl)
        return default if found is None else found

    def close(self) -> None:
        """Send close_notify after the bytes that were written, and close."""
        if self._state is State.OPEN and self._ssl is not None:
            self._state = State.CLOSED
            with suppress(ssl.SSLError):  # it waits for the peer's close_notify; ours is written
                self._ssl.unwrap()
            self._flush()
        elif self._state is State.LINGERING:
            return
        self._state = State.CLOSED
        self._raw.close()

    def abort(self) -> None:
        """Close at once."""
        self._state = State.CLOSED
        self._raw.abort()


SOURCES: Final[dict[str, Callable[[ssl.SSLObject], object]]] = {
    "sslcontext": lambda tls: tls.context,
    "ssl_object": lambda tls: tls,
    "cipher": lambda tls: tls.cipher(),
    "peer_certificate": lambda tls: tls.getpeercert(True),
}


def tls_scratch() -> memoryview:
    """Return a buffer to read encrypted bytes into; one an event loop is enough."""
    return memoryview(bytearray(SCRATCH_BYTES))


async def connect_tls(make: Callable[[], P], host: str, port: int, tls: ClientTls) -> P:
    """Connect, verify the server, and return the protocol that `make` made. Raises OSError, TlsError among them."""
    loop = asyncio.get_running_loop()
    handshake = ClientHandshake(make, tls, host)
    try:
        await loop.create_connection(lambda: handshake.transport, host, port)
        return cast(P, await handshake.done)
    except asyncio.CancelledError:
        handshake.cancel()
        raise


class ClientHandshake:
    """A client's side: `done` becomes the connected protocol, or raises TlsError."""

    __slots__ = ("_is_connected", "_make", "_reason", "_tls", "done", "transport")

    def __init__(self, make: Callable[[], asyncio.BaseProtocol], tls: ClientTls, server_hostname: str) -> None:
        """Wait for a connection; `make` makes the protocol once the server is verified."""
        self._make = make
        self._tls = tls
        self._reason = CLOSED
        self._is_connected = False
        self.done: asyncio.Future[asyncio.BaseProtocol] = asyncio.get_running_loop().create_future()
        self.transport = TlsTransport(self, tls_scratch(), server_hostname)

    @property
    def context(self) -> ssl.SSLContext:
        """See TlsUser."""
        return self._tls.context

    def connected(self, raw: asyncio.Transport) -> None:
        """See TlsUser."""
        self._is_connected = True
        self.transport.start()

    def completed(self) -> asyncio.BufferedProtocol:
        """See TlsUser."""
        cipher = self.transport.get_extra_info("cipher")[0]
        if not self._tls.permits(cipher):
            raise AuthenticationError(f"the server chose {cipher}, which is not one of ssl.cipher.suites")
        protocol = cast(asyncio.BufferedProtocol, self._make())
        if not self.done.done():
            self.done.set_result(protocol)
        return protocol

    def failed(self, reason: str) -> None:
        """See TlsUser. `done` waits until the transport is closed: its event loop may end right after."""
        self._reason = reason

    def lost(self) -> None:
        """See TlsUser."""
        if not self.done.done():
            self.done.set_exception(TlsError(self._reason))

    def cancel(self) -> None:
        """Give up: close, and report nothing."""
        self.done.cancel()
        if self._is_connected:
            self.transport.abort()
