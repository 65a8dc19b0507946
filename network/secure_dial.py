"""Connects with TLS and SASL: the connection is handed to its protocol once both sides have authenticated.

SASL: SaslHandshake v1 and SaslAuthenticate v1, with correlation ids of its own (KIP-43, KIP-152).
"""

import asyncio
from collections.abc import Callable
from typing import Final, TypeVar

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
from kvorum.security.client import ClientSecurity
from kvorum.security.errors import AuthenticationError
from kvorum.security.sasl.mechanism import SaslClient

VERSION: Final = 1
RESPONSE_BYTES_MAX: Final = 512 * 1024
CLIENT_ID: Final = "kvorum"

P = TypeVar("P", bound=asyncio.BaseProtocol)
M = TypeVar("M", bound=Message)


async def dial_securely(make: Callable[[], P], host: str, port: int, security: ClientSecurity) -> P:
    """Connect and authenticate; return the protocol that `make` made, connected.

    Raises OSError, and AuthenticationError: one side did not accept the other.
    """
    if security.sasl is None:
        return await _connect(make, host, port, security)
    exchange = await _connect(SaslExchange, host, port, security)
    try:
        await exchange.authenticate(security.sasl())
        protocol = make()
        exchange.transport.set_protocol(protocol)
        protocol.connection_made(exchange.transport)
    except BaseException:
        exchange.transport.abort()
        raise
    return protocol


async def _connect(make: Callable[[], P], host: str, port: int, security: ClientSecurity) -> P:
    """Connect, with TLS if required."""
    if security.tls is None:
        return (await asyncio.get_running_loop().create_connection(make, host, port))[1]
    try:
        return await connect_tls(make, host, port, security.tls, host)
    except TlsError as error:
        raise AuthenticationError(f"TLS handshake failed: {error}") from error


class SaslExchange(asyncio.BufferedProtocol):
    """The requests before the connection is authenticated, one at a time."""

    transport: asyncio.Transport

    def __init__(self) -> None:
        """Wait for a transport."""
        self._parser = FrameParser(RESPONSE_BYTES_MAX, scratch())
        self._answer: asyncio.Future[memoryview] | None = None
        self._correlation_id = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Store the transport."""
        self.transport = stream(transport)

    def connection_lost(self, exc: Exception | None) -> None:
        """Fail the waiting request."""
        if self._answer is not None and not self._answer.done():
            self._answer.set_exception(
                ConnectionResetError("the peer closed the connection during SASL authentication")
            )

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

    async def authenticate(self, client: SaslClient) -> None:
        """Run one exchange. Raises AuthenticationError, OSError."""
        handshake = await self._ask(SaslHandshakeRequest(mechanism=client.mechanism), SaslHandshakeResponse)
        if handshake.error_code != ErrorCode.NONE:
            enabled = ", ".join(handshake.mechanisms)
            raise AuthenticationError(f"SASL mechanism {client.mechanism} is not enabled there; enabled are {enabled}")
        token = b""
        while (message := client.evaluate(token)) or not client.is_complete:
            response = await self._ask(SaslAuthenticateRequest(auth_bytes=message), SaslAuthenticateResponse)
            if response.error_code != ErrorCode.NONE:
                raise AuthenticationError(response.error_message or "SASL authentication failed")
            if client.is_complete:
                return
            token = response.auth_bytes

    async def _ask(self, request: Message, response_class: type[M]) -> M:
        """Send a request and return its response. Raises AuthenticationError, OSError."""
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
            raise AuthenticationError(f"unreadable answer to {type(request).__name__}: {error}") from error
        assert isinstance(answer, response_class)
        return answer
