"""The HTTP server of the admin application, with its responses to malformed requests."""

import asyncio
from typing import TYPE_CHECKING, Any, Final

from aiohttp import web
from aiohttp.web_protocol import RequestHandler
from aiohttp.web_request import BaseRequest

from kvorum.admin.http.problems import Refusal, problem
from kvorum.protocol.errors import ErrorCode
from kvorum.runtime.logs import get_logger

if TYPE_CHECKING:
    from kvorum.network.tls_acceptor import HttpTls, TlsAcceptor

SHUTDOWN_SECONDS: Final = 60.0
"""Time limit of requests in flight when the server stops."""
HEAD_SECONDS_MAX: Final = 30.0
"""Request line and headers must arrive in this time after their first byte. A new connection has as long to begin."""
REASON_CHARS_MAX: Final = 200

log = get_logger("admin")


class Protocol(RequestHandler):
    """One connection. A malformed request is one log line and a problem; the connection is closed.

    A connection whose request head does not arrive in HEAD_SECONDS_MAX is closed too, after a 408.
    """

    _head_timer: asyncio.TimerHandle | None = None
    _has_data = False
    """Bytes of a head have come."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Wait for the first head."""
        super().connection_made(transport)
        self._await_head()

    def data_received(self, data: bytes) -> None:
        """Watch the time that a head takes."""
        waits_for_head = self._waiter is not None and not self._waiter.done()
        count, self._has_data = self._request_count, True
        super().data_received(data)
        if self._request_count != count:
            self._stop_head_timer()
        elif waits_for_head and self._head_timer is None:
            self._await_head()

    def connection_lost(self, exc: BaseException | None) -> None:
        """Watch no longer."""
        self._stop_head_timer()
        super().connection_lost(exc)

    def _await_head(self) -> None:
        self._head_timer = asyncio.get_running_loop().call_later(HEAD_SECONDS_MAX, self._close_late)

    def _stop_head_timer(self) -> None:
        self._has_data = False
        if self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None

    def _close_late(self) -> None:
        """Respond with 408 and close. A connection that sent nothing is closed without a response."""
        self._head_timer = None
        transport = self.transport
        if transport is None:
            return
        if self._has_data:
            reason = f"the request's headers did not arrive in {HEAD_SECONDS_MAX:g} s"
            client = transport.get_extra_info("peername")
            log.warning("slow HTTP request rejected", client=client[0] if client else "?", reason=reason)
            transport.write(as_bytes(problem(408, ErrorCode.REQUEST_TIMED_OUT.name, reason)))
        self.force_close()

    def handle_error(
        self, request: BaseRequest, status: int = 500, exc: BaseException | None = None, message: str | None = None
    ) -> web.StreamResponse:
        """Respond to a malformed request."""
        reason = " ".join((message or str(exc) or type(exc).__name__).split())[:REASON_CHARS_MAX]
        log.warning("malformed HTTP request rejected", client=request.remote, status=status, reason=reason)
        if request.writer.output_size > 0:
            raise ConnectionError("the response has already started")
        error = ErrorCode.UNKNOWN_SERVER_ERROR if status >= 500 else ErrorCode.INVALID_REQUEST
        refusal = problem(status, error.name, reason)
        refusal.force_close()
        return refusal


def as_bytes(refusal: Refusal) -> bytes:
    """Return an error as bytes if there is no parsed request; the connection is closed after it."""
    body = refusal.text or ""
    head = (
        f"HTTP/1.1 {refusal.status} {refusal.reason}",
        f"Content-Type: {refusal.content_type}",
        f"Content-Length: {len(body.encode())}",
        "Connection: close",
    )
    return "\r\n".join((*head, "", body)).encode()


class Server(web.Server):
    """Makes a Protocol for each connection."""

    def __call__(self) -> RequestHandler:
        """Return the protocol of a connection."""
        return Protocol(self, loop=self._loop, **self._kwargs)


class TlsSite(web.TCPSite):
    """A listening address, with TLS if it is given."""

    def __init__(self, runner: web.AppRunner, host: str, port: int, tls: "HttpTls | None" = None) -> None:
        """Prepare; nothing is opened yet."""
        super().__init__(runner, host, port)
        self._tls = tls
        self._acceptor: TlsAcceptor | None = None

    async def start(self) -> None:
        """Listen. Raises OSError."""
        if self._tls is None:
            await super().start()
            return
        # Loaded only if needed: certificates require a large library.
        from kvorum.network.tls_acceptor import TlsAcceptor

        await web.BaseSite.start(self)
        make = self._runner.server
        assert make is not None, "the runner is set up"
        self._acceptor = TlsAcceptor(make, self._tls, "HTTP")
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(self._acceptor, self._host, self._port, backlog=self._backlog)

    async def stop(self) -> None:
        """Stop listening, and cut handshakes."""
        if self._acceptor is not None:
            self._acceptor.close()
        await super().stop()

    @property
    def name(self) -> str:
        """Return the URL."""
        return super().name.replace("http:", "https:", 1) if self._tls is not None else super().name


class Runner(web.AppRunner):
    """Runs the application. The request of a disconnected client is cancelled."""

    async def _make_server(self) -> web.Server:
        made = await super()._make_server()
        options: dict[str, Any] = made._kwargs
        return Server(
            made.request_handler,
            request_factory=made.request_factory,
            handler_cancellation=made.handler_cancellation,
            loop=asyncio.get_running_loop(),
            **options,
        )


def runner_of(app: web.Application, shutdown_seconds: float = SHUTDOWN_SECONDS) -> Runner:
    """Return what runs the application."""
    return Runner(
        app, access_log=None, handle_signals=False, handler_cancellation=True, shutdown_timeout=shutdown_seconds
    )
