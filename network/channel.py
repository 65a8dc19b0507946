"""Requests to one peer over one connection, pipelined: the client's side.

    channel = Channel(host, port, client_id="broker-1", chance=random)
    response = await channel.request(MetadataRequest(topics=None), timeout_ms=30_000)

The connection is opened when the first request needs it, sends ApiVersions, and sends each request in the highest
version that both sides support. A lost one is reopened by the next request, not before a growing delay has passed.
ChannelError.maybe_sent: the failed request may have been executed. A request that times out closes the connection, as
in Kafka's NetworkClient: responses are in order, so the later ones would be blocked. Before the session of a connection
ends (KIP-368), new requests use another one; it closes when its last response is in.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from random import Random
from typing import Final, TypeVar, cast

from kvorum.network.addresses import Address
from kvorum.network.dial import (
    SETUP_TIMEOUT_MS,
    AuthenticationFailed,
    Backoff,
    ChannelError,
    ConnectionLost,
    ForeignPeer,
    RequestTimedOut,
    dial,
    renewal_s,
)
from kvorum.network.frame import PEER_RESERVED_BYTES_MAX, FrameParser, scratch
from kvorum.network.link import stream
from kvorum.network.traffic import Traffic
from kvorum.protocol.api import ApiKey, request_header_version, response_header_version
from kvorum.protocol.codec import decode, encode, message_class
from kvorum.protocol.errors import ErrorCode, KafkaError, ProtocolError
from kvorum.protocol.headers import RequestHeader, decode_response_header, encode_request_header
from kvorum.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from kvorum.protocol.parts import FileSlice
from kvorum.protocol.schema import Message
from kvorum.runtime.logs import get_logger
from kvorum.runtime.sockets import KERNELS_CHOICE, set_buffers
from kvorum.security.client import PLAINTEXT, ClientSecurity

RESPONSE_BYTES_MAX: Final = 256 * 1024 * 1024
"""A larger answer closes the connection; above any fetch.max.bytes in use."""
IN_FLIGHT_MAX: Final = 1_000
"""Requests sent and not answered; one more is an error of the caller."""
REQUEST_TIMEOUT_MS: Final = 30_000
"""request.timeout.ms."""
BACKOFF_MS: Final = 50
BACKOFF_MAX_MS: Final = 1_000
"""reconnect.backoff.ms, reconnect.backoff.max.ms."""
CORRELATION_IDS: Final = 1 << 31
SOFTWARE_NAME: Final = "kvorum"
SOFTWARE_VERSION: Final = "0.1.0"

log = get_logger("network")

M = TypeVar("M", bound=Message)


class Pending:
    """A request that was sent."""

    __slots__ = ("future", "response_class", "version")

    def __init__(self, future: asyncio.Future[Message], response_class: type[Message], version: int) -> None:
        """Store the waiter and the parser of the answer."""
        self.future = future
        self.response_class = response_class
        self.version = version


class ClientConnection(asyncio.BufferedProtocol):
    """One connection to a peer: writes requests, matches answers by correlation id."""

    __slots__ = (
        *("_client_id", "_correlation_id", "_on_lost", "_parser", "_pending", "_receive_buffer_bytes", "_traffic"),
        *("_is_retired", "_transport", "lost", "session_end", "versions"),
    )

    def __init__(
        self,
        client_id: str | None,
        on_lost: Callable[["ClientConnection"], None],
        receive_buffer_bytes: int = KERNELS_CHOICE,
        traffic: Traffic | None = None,
    ) -> None:
        """Wait for a transport; `on_lost` is called once when the connection is lost."""
        self._traffic = traffic
        self._client_id = client_id
        self._on_lost = on_lost
        self._receive_buffer_bytes = receive_buffer_bytes
        self._parser = FrameParser(RESPONSE_BYTES_MAX, scratch(), PEER_RESERVED_BYTES_MAX)
        self._pending: dict[int, Pending] = {}
        self._correlation_id = 0
        self._transport: asyncio.Transport | None = None
        self.versions: Mapping[int, tuple[int, int]] = {}
        self._is_retired = False
        self.session_end: asyncio.TimerHandle | None = None
        """Retires it before its session ends."""
        self.lost: str | None = None
        """Why the connection was lost, None while it is open."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin."""
        self._transport = stream(transport)
        set_buffers(transport.get_extra_info("socket"), receive_bytes=self._receive_buffer_bytes)

    @property
    def usable(self) -> bool:
        """Return whether a request can be sent."""
        return self.lost is None and self._transport is not None and not self._transport.is_closing()

    def connection_lost(self, exc: Exception | None) -> None:
        """Fail all waiting requests."""
        reason = self.lost or (f"connection lost: {exc}" if exc is not None else "the peer closed the connection")
        self.lost = reason
        pending, self._pending = self._pending, {}
        for each in pending.values():
            if not each.future.done():
                each.future.set_exception(ConnectionLost(reason, maybe_sent=True))
        self._on_lost(self)

    def get_buffer(self, sizehint: int) -> memoryview:
        """Return where the next bytes go."""
        return self._parser.writable()

    def buffer_updated(self, nbytes: int) -> None:
        """Process received bytes."""
        try:
            for frame in self._parser.received(nbytes):
                if self._traffic is not None:
                    self._traffic.received(len(frame))
                self._take(frame)
            if self._parser.error is not None:
                raise self._parser.error
        except ProtocolError as error:
            self.close(f"unreadable answer: {error}")

    def _take(self, frame: memoryview) -> None:
        """Deliver an answer to its waiter. Raises ProtocolError."""
        correlation_id = int.from_bytes(frame[:4], "big", signed=True)
        pending = self._pending.pop(correlation_id, None)
        if pending is None:
            raise ProtocolError(f"response with unknown correlation id {correlation_id}")
        if pending.future.done():
            return  # cancelled
        cls, version = pending.response_class, pending.version
        header_version = response_header_version(cls.API_KEY, version, cls.FLEXIBLE_FROM)
        if cls is ApiVersionsResponse and version > 0:
            # A peer that does not support the version answers in v0.
            version = version if int.from_bytes(frame[4:6], "big") != ErrorCode.UNSUPPORTED_VERSION else 0
        try:
            _, position = decode_response_header(frame, header_version)
            response = decode(cls, version, frame[position:])
        except ProtocolError as error:
            pending.future.set_exception(ConnectionLost(f"unreadable answer: {error}", maybe_sent=True))
            raise
        pending.future.set_result(response)
        if self._is_retired:
            self.retire()

    def send(self, message: Message, version: int) -> "asyncio.Future[Message]":
        """Send a request; returns a future of the response. Raises ConnectionLost(maybe_sent=False)."""
        transport = self._transport
        if transport is None or not self.usable:
            raise ConnectionLost(self.lost or "the connection is closing", maybe_sent=False)
        if len(self._pending) >= IN_FLIGHT_MAX:
            raise ConnectionLost(f"{IN_FLIGHT_MAX} requests are in flight", maybe_sent=False)
        cls = type(message)
        self._correlation_id = correlation_id = (self._correlation_id + 1) % CORRELATION_IDS
        header = RequestHeader(cls.API_KEY, version, correlation_id, self._client_id)
        parts: list[bytes | bytearray | memoryview] = [
            encode_request_header(header, request_header_version(cls.API_KEY, version, cls.FLEXIBLE_FROM))
        ]
        for part in encode(message, version):
            assert not isinstance(part, FileSlice), "requests carry bytes"
            parts.append(part)
        size = sum(len(part) for part in parts)
        parts.insert(0, size.to_bytes(4, "big"))
        future: asyncio.Future[Message] = asyncio.get_running_loop().create_future()
        self._pending[correlation_id] = Pending(future, message_class(cls.API_KEY, "Response"), version)
        transport.writelines(parts)
        if self._traffic is not None:
            self._traffic.sent(size)
        return future

    def retire(self) -> None:
        """Close when all responses are in; no further request is sent."""
        self._is_retired = True
        if not self._pending:
            self.close("the session ends")

    def close(self, reason: str) -> None:
        """Abandon the connection; waiting requests get the reason."""
        self.lost = self.lost or reason
        if self._transport is not None:
            self._transport.abort()


class Channel:
    """Requests to one peer. Owned by one event loop."""

    def __init__(
        self,
        host: str | Callable[[], Address | None],
        port: int = 0,
        *,
        client_id: str | None,
        chance: Random,
        on_lost: Callable[[], None] | None = None,
        on_refused: Callable[[], None] | None = None,
        setup_timeout_ms: int = SETUP_TIMEOUT_MS,
        backoff_ms: int = BACKOFF_MS,
        backoff_max_ms: int = BACKOFF_MAX_MS,
        receive_buffer_bytes: int = KERNELS_CHOICE,
        traffic: Traffic | None = None,
        check: Callable[["ClientConnection", Address], Awaitable[None]] | None = None,
        security: ClientSecurity = PLAINTEXT,
    ) -> None:
        """Connect to a fixed address, or to the one that the callable returns (None: unknown at present).

        `on_lost`: an established connection was lost. `on_refused`: an attempt was refused. `traffic` counts. `check`
        accepts each new connection before it is used, or raises ChannelError (ClusterCheck).
        """
        self._traffic = traffic
        self._check = check
        self._security = security
        self._where = host if not isinstance(host, str) else None
        self._address: Address | None = (host, port) if isinstance(host, str) else None
        self._client_id = client_id
        self._lost_callback = on_lost
        self._refused_callback = on_refused
        self._setup_timeout_ms = setup_timeout_ms
        self._receive_buffer_bytes = receive_buffer_bytes
        self._backoff = Backoff(backoff_ms, backoff_max_ms, chance)
        self._chance = chance
        self._not_before = 0.0
        self._connection: ClientConnection | None = None
        self._retired: set[ClientConnection] = set()
        """Connections that wait for responses to earlier requests; each is closed by a response or a timeout."""
        self._connecting: asyncio.Task[ClientConnection] | None = None
        self._closed = False

    @property
    def connected(self) -> bool:
        """Return whether requests can be sent at once."""
        return self._connection is not None and self._connection.usable

    @property
    def connection(self) -> ClientConnection | None:
        """Return the connection for a request, None if it must be opened first."""
        return self._connection if self.connected else None

    @property
    def versions(self) -> Mapping[int, tuple[int, int]]:
        """Return {api key: (first, last)} of the peer, empty while not connected."""
        return self._connection.versions if self._connection is not None else {}

    async def request(
        self, message: Message, *, timeout_ms: int = REQUEST_TIMEOUT_MS, version: int | None = None
    ) -> Message:
        """Send a request and return its response; prefer `ask`, which knows the class of the response.

        Raises ChannelError; KafkaError(UNSUPPORTED_VERSION) without a common version. Cancelling it drops the response;
        the peer may still execute the request.
        """
        loop = asyncio.get_running_loop()
        due = loop.time() + timeout_ms / 1000
        connection = self._connection
        if connection is None or not connection.usable:
            try:
                async with asyncio.timeout_at(due):
                    connection = await self.connect()
            except TimeoutError as error:
                raise RequestTimedOut(too_late(message, timeout_ms), maybe_sent=False) from error
        if version is None:
            version = common_version(type(message), connection.versions)
        future = connection.send(message, version)
        # Not asyncio.timeout: followers send requests all the time, and a timer alone costs a quarter of one.
        timer = loop.call_at(due, give_up, connection, future, message, timeout_ms)
        try:
            return await future
        finally:
            timer.cancel()

    async def ask(
        self, message: Message, response: type[M], *, timeout_ms: int = REQUEST_TIMEOUT_MS, version: int | None = None
    ) -> M:
        """Send a request; the response is an instance of `response`. Raises the errors of `request`."""
        answer = await self.request(message, timeout_ms=timeout_ms, version=version)
        assert isinstance(answer, response)
        return answer

    async def connect(self) -> ClientConnection:
        """Return the connection, made if there is none; several callers share one attempt. Raises ConnectionLost."""
        if self._closed:
            raise ConnectionLost("the channel is closed", maybe_sent=False)
        if self._connection is not None and self._connection.usable:
            return self._connection
        if self._connecting is None:
            self._connecting = asyncio.get_running_loop().create_task(self._connect())
            self._connecting.add_done_callback(self._attempted)
        attempt = self._connecting
        # Not `await attempt`: if `close` cancels it, a CancelledError here could be the caller's own too, and a caller
        # whose cancellation became a ConnectionLost would never stop.
        await asyncio.wait((attempt,))
        if attempt.cancelled():
            raise ConnectionLost("the channel is closed", maybe_sent=False)
        return attempt.result()

    async def close(self) -> None:
        """Close; waiting requests get ConnectionLost. Idempotent."""
        self._closed = True
        if self._connecting is not None:
            self._connecting.cancel()
            await asyncio.wait([self._connecting])
        for connection in (*self._retired, *([] if self._connection is None else [self._connection])):
            connection.close("the channel is closed")

    async def _connect(self) -> ClientConnection:
        loop = asyncio.get_running_loop()
        delay = self._not_before - loop.time()
        if delay > 0:
            await asyncio.sleep(delay)
        address = self._where() if self._where is not None else self._address
        if address is None:
            self._delay_next(loop)
            raise ConnectionLost("the address of the peer is unknown", maybe_sent=False)
        connection: ClientConnection | None = None
        try:
            make = partial(ClientConnection, self._client_id, self._lost, self._receive_buffer_bytes, self._traffic)
            connection, session_ms = await dial(make, *address, self._setup_timeout_ms, self._security)
            async with asyncio.timeout(self._setup_timeout_ms / 1000):
                connection.versions = await negotiate(connection)
                if self._check is not None:
                    await self._check(connection, address)
        except (ChannelError, TimeoutError) as error:
            self._delay_next(loop)
            if connection is not None:
                connection.close(f"first requests: {error}")
            refused = isinstance(error, ConnectionLost) and error.refused
            if refused and self._refused_callback is not None:
                self._refused_callback()
            if isinstance(error, ForeignPeer | AuthenticationFailed):
                raise
            raise ConnectionLost(str(error) or "ApiVersions timed out", maybe_sent=False, refused=refused) from error
        except asyncio.CancelledError:
            if connection is not None:
                connection.close("the channel is closed")
            raise
        if connection.lost is not None:
            raise ConnectionLost(connection.lost, maybe_sent=False)
        self._backoff.reset()
        self._connection = connection
        if session_ms:
            connection.session_end = loop.call_later(renewal_s(session_ms, self._chance), self._retire, connection)
        return connection

    def _retire(self, connection: ClientConnection) -> None:
        """Use another connection from now on: the session of this one ends."""
        if connection is self._connection:
            self._connection = None
        self._retired.add(connection)
        connection.retire()

    def _delay_next(self, loop: asyncio.AbstractEventLoop) -> None:
        self._not_before = loop.time() + self._backoff.next_ms() / 1000

    def _attempted(self, task: asyncio.Task[ClientConnection]) -> None:
        self._connecting = None
        if not task.cancelled():
            task.exception()  # retrieved: the requester of the connection has it

    def _lost(self, connection: ClientConnection) -> None:
        self._retired.discard(connection)
        if connection.session_end is not None:
            connection.session_end.cancel()
        if connection is not self._connection:
            return
        self._connection = None
        if not self._closed:
            log.debug("connection lost", address=self._address, reason=connection.lost)
            if self._lost_callback is not None:
                self._lost_callback()


def too_late(message: Message, timeout_ms: int) -> str:
    """Return the missing part."""
    return f"{type(message).__name__}: no response in {timeout_ms} ms"


def give_up(connection: ClientConnection, future: "asyncio.Future[Message]", message: Message, timeout_ms: int) -> None:
    """Fail a waiter whose time is up, and close: later answers would be blocked."""
    if not future.done():
        reason = too_late(message, timeout_ms)
        future.set_exception(RequestTimedOut(reason, maybe_sent=True))
        connection.close(reason)


async def negotiate(connection: ClientConnection) -> Mapping[int, tuple[int, int]]:
    """Send ApiVersions, newest version first, and return {api key: (first, last)}. Raises ConnectionLost."""
    request = ApiVersionsRequest(client_software_name=SOFTWARE_NAME, client_software_version=SOFTWARE_VERSION)
    version = ApiVersionsRequest.VERSIONS[1]
    for _ in range(2):
        response = cast(ApiVersionsResponse, await connection.send(request, version))
        offered = {api.api_key: (api.min_version, api.max_version) for api in response.api_keys}
        if response.error_code == ErrorCode.NONE:
            return offered
        if response.error_code != ErrorCode.UNSUPPORTED_VERSION:
            break
        version = min(version, offered.get(ApiKey.API_VERSIONS, (0, 0))[1])
    raise ConnectionLost(f"ApiVersions returned error {response.error_code}", maybe_sent=False)


def common_version(cls: type[Message], offered: Mapping[int, tuple[int, int]]) -> int:
    """Return the newest version of a request that both sides know. Raises KafkaError(UNSUPPORTED_VERSION)."""
    first, last = offered.get(cls.API_KEY, (1, 0))
    version = min(last, cls.VERSIONS[1])
    if version < max(first, cls.VERSIONS[0]):
        offer = f": the peer supports {first} to {last}" if last >= first else " is not served"
        raise KafkaError(ErrorCode.UNSUPPORTED_VERSION, f"{cls.__name__}{offer}")
    return version


async def connect(host: str, port: int, *, client_id: str | None, chance: Random) -> Channel:
    """Return a channel that is connected. Raises ConnectionLost."""
    channel = Channel(host, port, client_id=client_id, chance=chance)
    await channel.connect()
    return channel
