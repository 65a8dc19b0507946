"""TLS in front of a server's protocols other than Kafka's: HTTP. A protocol is made when the handshake is complete.

A context is chosen per accepted connection, so that reloaded stores count for the next one. Handshakes in progress have
the limits of a Kafka listener (network/handshakes); a connection beyond them is closed.
"""

import asyncio
import ssl
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, cast

from kvorum.network.handshakes import Handshakes
from kvorum.network.tls import TlsTransport, tls_scratch
from kvorum.runtime.logs import get_logger
from kvorum.security.errors import AuthenticationError
from kvorum.security.tls.server import TlsServer

PLAIN_BYTES: Final = 64 * 1024
"""Decrypted bytes that a protocol is given at once."""

log = get_logger("network")


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpTls:
    """TLS of the HTTP listeners of a process."""

    server: TlsServer
    handshake_timeout_ms: int = 10_000
    handshakes_max: int = 1_000
    handshakes_per_ip_max: int = 500


class TlsAcceptor:
    """Makes the protocols of accepted sockets: the factory of `loop.create_server`."""

    def __init__(self, make: Callable[[], asyncio.BaseProtocol], tls: HttpTls, listener: str) -> None:
        """`make` makes the protocol, an asyncio.Protocol, once a client has completed its handshake."""
        self._make = make
        self.tls = tls.server
        self.listener = listener
        self.scratch = tls_scratch()
        self._plain = memoryview(bytearray(PLAIN_BYTES))
        self._handshakes_max = tls.handshakes_max
        self.table = Handshakes(
            asyncio.get_running_loop(), tls.handshakes_max, tls.handshakes_per_ip_max, tls.handshake_timeout_ms
        )
        self.unserved: set[TlsTransport] = set()
        """Connections without a protocol: in their handshake, or after a failed one."""

    def __call__(self) -> asyncio.BufferedProtocol:
        """Return the protocol of a socket."""
        return _Handshake(self).transport

    @property
    def is_full(self) -> bool:
        """Whether no further connection may begin its handshake."""
        return len(self.table) >= self._handshakes_max

    def protocol(self) -> asyncio.BufferedProtocol:
        """Return the protocol of a connection whose handshake is complete."""
        return Delivery(cast(asyncio.Protocol, self._make()), self._plain)

    def close(self) -> None:
        """Cut the connections that have no protocol yet."""
        for transport in tuple(self.unserved):
            transport.abort()


class _Handshake:
    """One accepted connection until it has its protocol (TlsUser)."""

    __slots__ = ("_acceptor", "_address", "transport")

    def __init__(self, acceptor: TlsAcceptor) -> None:
        self._acceptor = acceptor
        self._address = "?"
        self.transport = TlsTransport(self, acceptor.scratch)

    @property
    def context(self) -> ssl.SSLContext:
        return self._acceptor.tls.context

    def connected(self, raw: asyncio.Transport) -> None:
        peer = raw.get_extra_info("peername")
        self._address = str(peer[0]) if peer else "?"
        if self._acceptor.is_full:
            log.warning("too many TLS handshakes, connection closed", **self._facts)
            raw.abort()
            return
        self._acceptor.unserved.add(self.transport)
        self._acceptor.table.begin(self)

    @property
    def host(self) -> str:
        return self._address

    def start(self) -> None:
        self.transport.start()

    def completed(self) -> asyncio.BufferedProtocol:
        tls = self._acceptor.tls
        cipher = self.transport.get_extra_info("cipher")[0]
        if not tls.permits(cipher):
            raise AuthenticationError(f"cipher suite {cipher} is not one of ssl.cipher.suites")
        tls.principal_of(self.transport.get_extra_info("peer_certificate"))
        self._release()
        return self._acceptor.protocol()

    def failed(self, reason: str) -> None:
        self._acceptor.table.end(self)
        if self.transport.has_received:
            is_handshake = self.transport in self._acceptor.unserved
            log.info("TLS handshake failed" if is_handshake else "TLS connection failed", **self._facts, reason=reason)

    def lost(self) -> None:
        self._release()

    def expire(self, time_ms: int) -> None:
        log.info("TLS handshake failed", **self._facts, reason=f"it was not complete after {time_ms} ms")
        self.transport.abort()

    @property
    def _facts(self) -> dict[str, str]:
        return {"client": self._address, "listener": self._acceptor.listener}

    def _release(self) -> None:
        self._acceptor.table.end(self)
        self._acceptor.unserved.discard(self.transport)


class Delivery(asyncio.BufferedProtocol):
    """Gives an asyncio.Protocol its bytes."""

    __slots__ = ("_inner", "_plain")

    def __init__(self, inner: asyncio.Protocol, plain: memoryview) -> None:
        """`plain` may be shared by all connections of an event loop."""
        self._inner = inner
        self._plain = plain

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """See asyncio.Protocol."""
        self._inner.connection_made(transport)

    def connection_lost(self, exc: Exception | None) -> None:
        """See asyncio.Protocol."""
        self._inner.connection_lost(exc)

    def get_buffer(self, sizehint: int) -> memoryview:
        """Return where the next bytes go."""
        return self._plain

    def buffer_updated(self, nbytes: int) -> None:
        """Pass a copy of the bytes on."""
        self._inner.data_received(bytes(self._plain[:nbytes]))

    def eof_received(self) -> bool | None:
        """See asyncio.Protocol."""
        return self._inner.eof_received()

    def pause_writing(self) -> None:
        """See asyncio.Protocol."""
        self._inner.pause_writing()

    def resume_writing(self) -> None:
        """See asyncio.Protocol."""
        self._inner.resume_writing()
