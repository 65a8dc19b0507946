"""Connects with TLS and SASL: the connection is handed to its protocol once both sides have authenticated.

SASL: SaslHandshake v1 and SaslAuthenticate v1, with correlation ids of its own (KIP-43, KIP-152).
"""

import asyncio
from collections.abc import Callable
from inspect import isawaitable
from typing import Final, TypeVar

from kvorum.network.channel_errors import AuthenticationFailed, ConnectionLost, Dialled
from kvorum.network.frame import FrameParser, scratch
from kvorum.network.link import stream
from kvorum.network.tls import TlsError, connect_tls
from kvorum.protocol.api import request_header_version, response_header_version
from kvorum.protocol.codec import decode, encode_bytes
from kvorum.protocol.errors import ErrorCode, ProtocolError
from kvorum.protocol.headers import RequestHeader, decode_response_header, encode_request_header
from kvorum.protocol.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from kvorum.protocol.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from kvorum.protocol.schema import Message
from kvorum.security.client import ClientSecurity, NewClient
from kvorum.security.errors import AuthenticationError

VERSION: Final = 1
RESPONSE_BYTES_MAX: Final = 512 * 1024
CLIENT_ID: Final = "kvorum"
CLOSED: Final = "the peer closed the connection during SASL authentication"

P = TypeVar("P", bound=asyncio.BaseProtocol)
M = TypeVar("M", bound=Message)


async def dial_securely(make: Callable[[], P], host: str, port: int, security: ClientSecurity) -> Dialled[P]:
    """Connect and authenticate; return the protocol that `make` made, connected. Raises ConnectionLost, OSError."""
    where = f"{host}:{port}"
    if security.sasl is None:
        return Dialled(await _connect(make, host, port, security))
    exchange = await _connect(SaslExchange, host, port, security)
    try:
        session_ms = await exchange.authenticate(security.sasl, host, where)
        protocol = make()
        exchange.transport.set_protocol(protocol)
        protocol.connection_made(exchange.transport)
    except BaseException:
        exchange.transport.abort()
        raise
    return Dialled(protocol, session_ms)


async def _connect(make: Callable[[], P], host: str, port: int, security: ClientSecurity) -> P:
    """Connect, with TLS if required."""
    if security.tls is None:
        return (await asyncio.get_running_loop().create_connection(make, host, port))[1]
    try:
        return await connect_tls(make, host, port, security.tls)
    except TlsError as error:
        raise AuthenticationFailed(f"{host}:{port} TLS handshake failed: {error}") from error


class SaslExchange(asyncio.BufferedProtocol):
    """The requests before the connection is authenticated, one at a time."""

    transport: asyncio.Transport

    def __init__(self) -> None:
        """Wait for a transport."""
        self._parser = FrameParser(RESPONSE_BYTES_MAX, scratch())
        self._answer: asyncio.Future[memoryview] | None = None
        self._correlation_id = 0
        self._is_lost = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Store the transport."""
        self.transport = stream(transport)

    def connection_lost(self, exc: Exception | None) -> None:
        """Fail the waiting request."""
        self._is_lost = True
        if self._answer is not None and not self._answer.done():
            self._answer.set_exception(ConnectionLost(CLOSED if exc is None else f"{CLOSED}: {exc}", maybe_sent=False))

    def get_buffer(self, sizehint: int) -> memoryview:
        """Return where the next bytes go."""
        return self._parser.writable()

    def buffer_updated(self, nbytes: int) -> None:
        """Deliver a response."""
        for frame in self._parser.received(nbytes):
            if self._answer is None or self._answer.done():
                self.transport.abort()
                return
            self._answer.set_result(frame)
        if self._parser.error is not None:
            self.transport.abort()

    async def authenticate(self, new_client: NewClient, host: str, where: str) -> int:
        """Run one exchange; return the lifetime of the session in milliseconds, 0: no limit. Raises ConnectionLost."""
        try:
            made = new_client(host)
            client = await made if isawaitable(made) else made
        except AuthenticationError as error:
            raise AuthenticationFailed(str(error)) from error
        handshake = await self._ask(SaslHandshakeRequest(mechanism=client.mechanism), SaslHandshakeResponse, where)
        if handshake.error_code != ErrorCode.NONE:
            enabled = ", ".join(handshake.mechanisms)
            raise AuthenticationFailed(f"{where} does not support SASL mechanism {client.mechanism}: it has {enabled}")
        token, session_ms = b"", 0
        try:
            while (message := client.evaluate(token)) or not client.is_complete:
                response = await self._ask(SaslAuthenticateRequest(auth_bytes=message), SaslAuthenticateResponse, where)
                if response.error_code != ErrorCode.NONE:
                    raise AuthenticationFailed(f"{where}: {response.error_message or 'SASL authentication failed'}")
                token, session_ms = response.auth_bytes, max(0, response.session_lifetime)
                if client.is_complete:
                    break
        except AuthenticationError as error:
            raise AuthenticationFailed(f"{where}: {error}") from error
        if self._is_lost:
            raise ConnectionLost(CLOSED, maybe_sent=False)
        return session_ms

    async def _ask(self, request: Message, response_class: type[M], where: str) -> M:
        """Send a request and return its response. Raises ConnectionLost."""
        if self._is_lost:
            raise ConnectionLost(CLOSED, maybe_sent=False)
        self._correlation_id += 1
        key = request.API_KEY
        header = RequestHeader(key, VERSION, self._correlation_id, CLIENT_ID)
        version = request_header_version(key, VERSION, request.FLEXIBLE_FROM)
        frame = encode_request_header(header, version) + encode_bytes(request, VERSION)
        self._answer = asyncio.get_running_loop().create_future()
        self.transport.write(len(frame).to_bytes(4, "big") + frame)
        received = await self._answer
        try:
            header_version = response_header_version(key, VERSION, response_class.FLEXIBLE_FROM)
            correlation_id, position = decode_response_header(received, header_version)
            if correlation_id != self._correlation_id:
                raise ProtocolError(f"correlation id {correlation_id}, expected {self._correlation_id}")
            answer = decode(response_class, VERSION, received[position:])
        except ProtocolError as error:
            raise AuthenticationFailed(f"{where}: unreadable answer to {type(request).__name__}: {error}") from error
        assert isinstance(answer, response_class)
        return answer
