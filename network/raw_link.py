"""A long-lived outgoing connection that carries frames of our own (Raft) behind one private request.

Connects, sends the hello (a request with a private key), then frames; when it is lost it connects again, soon. One per
directed pair: the peer may answer over it, or over its own.
"""

import asyncio
from collections.abc import Callable
from random import Random
from typing import Final, Protocol

from kvorum.network.addresses import Address
from kvorum.network.dial import SETUP_TIMEOUT_MS, Backoff, ConnectionLost, dial, renewal_s
from kvorum.network.frame import PEER_RESERVED_BYTES_MAX, FrameParser, scratch
from kvorum.network.link import FrameLink, stream
from kvorum.network.router import PRIVATE_KEY_MIN
from kvorum.protocol.errors import ProtocolError
from kvorum.protocol.headers import RequestHeader, encode_request_header
from kvorum.runtime.logs import get_logger
from kvorum.security.client import PLAINTEXT, ClientSecurity

FRAME_BYTES_MAX: Final = 256 * 1024 * 1024
"""A larger frame from the peer closes the connection."""
BACKOFF_MS: Final = 20
BACKOFF_MAX_MS: Final = 200
"""Short: a restarted peer must be reached within an election timeout."""

log = get_logger("network")


class LinkListener(Protocol):
    """User of a RawLink. Called from the event loop."""

    def on_connected(self) -> None:
        """The hello is on its way; frames may be sent."""
        ...

    def on_frame(self, frame: memoryview) -> None:
        """A frame came, its length removed; the listener owns its bytes. Raises ProtocolError: closes."""
        ...

    def on_disconnected(self) -> None:
        """The connection was lost; another attempt follows."""
        ...

    def on_refused(self) -> None:
        """An attempt was refused: at the peer's own address, its process has ended. Another attempt follows."""
        ...


class LinkConnection(asyncio.BufferedProtocol):
    """One connection of a RawLink."""

    def __init__(self, owner: "RawLink", hello: bytes) -> None:
        """Send the hello as soon as there is a transport."""
        self._owner = owner
        self._hello = hello
        self._parser = FrameParser(FRAME_BYTES_MAX, scratch(), PEER_RESERVED_BYTES_MAX)
        self.link: FrameLink
        self.gone: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Send Hello."""
        host, port = transport.get_extra_info("peername", ("?", 0))[:2]
        self.link = FrameLink(stream(transport), f"{host}:{port}")
        self.link.send(self._hello)

    def connection_lost(self, exc: Exception | None) -> None:
        """Wake the link."""
        if not self.gone.done():
            self.gone.set_result(None)

    def get_buffer(self, sizehint: int) -> memoryview:
        """Return where the next bytes go."""
        return self._parser.writable()

    def buffer_updated(self, nbytes: int) -> None:
        """Pass frames on."""
        try:
            for frame in self._parser.received(nbytes):
                self._owner.listener.on_frame(frame)
            if self._parser.error is not None:
                raise self._parser.error
        except ProtocolError as error:
            log.warning("link closed", peer=self.link.peer_address, reason=error)
            self.link.abort()


class RawLink:
    """Frames to one peer. `start` once, `close` once; a frame that cannot be sent now is dropped, which is reported."""

    def __init__(
        self,
        where: Callable[[], Address | None],
        hello: bytes,
        listener: LinkListener,
        *,
        chance: Random,
        api_key: int = PRIVATE_KEY_MIN,
        api_version: int = 0,
        client_id: str | None = None,
        setup_timeout_ms: int = SETUP_TIMEOUT_MS,
        backoff_ms: int = BACKOFF_MS,
        backoff_max_ms: int = BACKOFF_MAX_MS,
        security: ClientSecurity = PLAINTEXT,
    ) -> None:
        """`where` returns the address (None: unknown at present); `hello` is the body of the private request."""
        assert api_key >= PRIVATE_KEY_MIN
        self.listener = listener
        self._where = where
        self._hello = encode_request_header(RequestHeader(api_key, api_version, 0, client_id), 1) + hello
        self._security = security
        self._setup_timeout_ms = setup_timeout_ms
        self._backoff_max_ms = backoff_max_ms
        self._backoff = Backoff(backoff_ms, backoff_max_ms, chance)
        self._chance = chance
        self._connection: LinkConnection | None = None
        self._task: asyncio.Task[None] | None = None
        self.failure: ConnectionLost | None = None
        """Why the last attempt failed, None while one is in progress or successful."""

    @property
    def connected(self) -> bool:
        """Return whether frames can be sent."""
        return self._connection is not None

    def start(self) -> None:
        """Start to connect."""
        assert self._task is None, "a link starts once"
        self._task = asyncio.get_running_loop().create_task(self._run())

    def send(self, *parts: bytes | bytearray | memoryview) -> bool:
        """Send one frame; False if it was dropped: not connected, or the peer takes nothing."""
        return self._connection is not None and self._connection.link.send(*parts)

    def reset(self) -> None:
        """Replace the current connection."""
        if self._connection is not None:
            self._connection.link.abort()

    async def close(self) -> None:
        """Disconnect permanently. No more callbacks. Idempotent."""
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            await asyncio.wait([task])
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.link.abort()
            await connection.gone

    async def _run(self) -> None:
        while True:
            address = self._where()
            if address is not None:
                try:
                    connection, session_ms = await dial(
                        lambda: LinkConnection(self, self._hello), *address, self._setup_timeout_ms, self._security
                    )
                except ConnectionLost as lost:
                    self.failure = lost
                    if lost.refused:
                        self.listener.on_refused()
                else:
                    await self._serve(connection, session_ms)
            await asyncio.sleep(self._backoff.next_ms() / 1000)

    async def _serve(self, connection: LinkConnection, session_ms: int) -> None:
        """Run until the connection is lost; it is replaced before its session ends."""
        self._connection = connection
        self.listener.on_connected()
        loop = asyncio.get_running_loop()
        began = loop.time()
        self.failure = None
        end = loop.call_later(renewal_s(session_ms, self._chance), connection.link.abort) if session_ms else None
        await asyncio.shield(connection.gone)
        if end is not None:
            end.cancel()
        self._connection = None
        if (loop.time() - began) * 1000 > self._backoff_max_ms:
            self._backoff.reset()  # a peer that accepts connections and drops them is not tried faster and faster
        else:
            self.failure = ConnectionLost("closed the connection at once", maybe_sent=False)
        self.listener.on_disconnected()
