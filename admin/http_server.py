"""The HTTP server below the admin application: how it runs, and what it answers to bytes that are no HTTP."""

import asyncio
from typing import Any, Final

from aiohttp import web
from aiohttp.web_protocol import RequestHandler
from aiohttp.web_request import BaseRequest

from kvorum.admin.problems import problem
from kvorum.protocol.errors import ErrorCode
from kvorum.runtime.logs import get_logger

SHUTDOWN_SECONDS: Final = 60.0
"""How long requests in flight may take when the server stops."""
REASON_CHARS_MAX: Final = 200

log = get_logger("admin")


class Protocol(RequestHandler):
    """One connection. A malformed request is one log line and a problem; the connection is closed."""

    def handle_error(
        self, request: BaseRequest, status: int = 500, exc: BaseException | None = None, message: str | None = None
    ) -> web.StreamResponse:
        """Answer what never became a request."""
        reason = " ".join((message or str(exc) or type(exc).__name__).split())[:REASON_CHARS_MAX]
        log.warning("malformed HTTP request", client=request.remote, status=status, reason=reason)
        if request.writer.output_size > 0:
            raise ConnectionError("the response has begun already")
        error = ErrorCode.UNKNOWN_SERVER_ERROR if status >= 500 else ErrorCode.INVALID_REQUEST
        refusal = problem(status, error.name, reason)
        refusal.force_close()
        return refusal


class Server(web.Server):
    """Makes a Protocol for each connection."""

    def __call__(self) -> RequestHandler:
        """Return the protocol of a connection."""
        return Protocol(self, loop=self._loop, **self._kwargs)


class Runner(web.AppRunner):
    """Runs the application. A request whose client has gone is cancelled."""

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
