"""HTTP/1.1 for the pages of Prometheus, load balancers and the admin process: h11 on asyncio's streams.

A connection serves one request after the other until the client closes it, or is idle for a while. Bodies are not
accepted: a request with one gets 400, and the connection is closed.

Pages support GET. A section handles everything below its prefix: methods, parameters, access, and missing pages.
"""

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field, replace
from http import HTTPStatus
from typing import TYPE_CHECKING, Final

import h11

from kvorum.cluster.http.stream_server import StreamServer
from kvorum.runtime.logs import get_logger

if TYPE_CHECKING:
    from kvorum.network.tls_acceptor import HttpTls

log = get_logger("cluster")

HEAD_BYTES_MAX: Final = 16 * 1024
"""Request line and headers; a longer one is answered 431."""
IDLE_SECONDS: Final = 75.0
"""A connection without a complete request for this time is closed; Prometheus scrapes every 15 to 60 s."""
WRITE_SECONDS: Final = 30.0
"""An answer that is not taken in this time ends the connection."""
CONNECTIONS_MAX: Final = 64
"""One more is closed at once."""
TEXT: Final = "text/plain; charset=utf-8"
JSON: Final = "application/json; charset=utf-8"
PROBLEM: Final = "application/problem+json"
GOT: Final = ("GET", "HEAD")
ONCE: Final = ("authorization", "origin", "sec-fetch-dest", "sec-fetch-site")
"""Headers for access control: with two copies, the checked one might not be the intended one. h11 checks Host."""
END_OF_HEAD: Final = b"\r\n\r\n"


@dataclass(frozen=True, slots=True)
class Answer:
    """A response."""

    status: int
    content_type: str
    body: bytes
    headers: tuple[tuple[str, str], ...] = ()
    """Besides those of every answer."""


@dataclass(frozen=True, slots=True)
class Request:
    """The used parts of a request."""

    method: str
    path: str
    query: str = ""
    """Behind the question mark, as it came."""
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    """By their names in lower case; of repeated ones the last."""
    certificate: bytes | None = field(default=None, repr=False)
    """Of the client, as DER; it has been verified."""
    address: str = "?"


Page = Callable[[Request], Awaitable[Answer]]


class HttpServer:
    """Serves pages by their path. `start` once, `close` once or more."""

    def __init__(
        self,
        host: str,
        port: int,
        pages: Mapping[str, Page],
        sections: Mapping[str, Page] | None = None,
        tls: "HttpTls | None" = None,
    ) -> None:
        """Prepare; nothing is opened yet. `sections` are by path prefix."""
        self._host = host
        self._port = port
        self._pages = pages
        self._sections = dict(sections or {})
        self._server = StreamServer(
            self._serve, connections_max=CONNECTIONS_MAX, line_bytes_max=HEAD_BYTES_MAX, tls=tls
        )

    async def start(self) -> None:
        """Listen. Raises OSError."""
        await self._server.start(self._host, self._port)

    async def close(self) -> None:
        """Stop listening, and cut every connection."""
        await self._server.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer a connection's requests until it ends."""
        connection = h11.Connection(h11.SERVER, max_incomplete_event_size=HEAD_BYTES_MAX)
        try:
            while await self._answer_next(connection, reader, writer):
                connection.start_next_cycle()
        except (OSError, TimeoutError, asyncio.IncompleteReadError) as error:
            log.debug("http connection ended", reason=repr(error))

    async def _answer_next(
        self, connection: h11.Connection, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> bool:
        """Answer one request; return whether the connection continues."""
        keep_alive = with_body = True
        try:
            async with asyncio.timeout(IDLE_SECONDS):
                head = await reader.readuntil(END_OF_HEAD)
            head = head.lstrip(b"\r\n") or head  # to h11, nothing is the end of the connection
            with_body = not head.startswith(b"HEAD ")
            request, peer = parse(connection, head), writer.get_extra_info("peername")
            certificate = writer.get_extra_info("peer_certificate")
            address = str(peer[0]) if peer else "?"
            answer = await self._page(replace(request, certificate=certificate, address=address))
        except asyncio.LimitOverrunError:
            answer, keep_alive = reject(writer, 431, f"more than {HEAD_BYTES_MAX} bytes of headers"), False
        except h11.RemoteProtocolError as error:
            answer, keep_alive = reject(writer, error.error_status_hint, str(error)), False
        writer.write(encode(connection, answer, keep_alive=keep_alive, with_body=with_body))
        async with asyncio.timeout(WRITE_SECONDS):
            await writer.drain()
        return keep_alive and connection.our_state is h11.DONE

    async def _page(self, request: Request) -> Answer:
        section = next((found for prefix, found in self._sections.items() if request.path.startswith(prefix)), None)
        page = self._pages.get(request.path)
        if section is None and page is None:
            there = ", ".join((*self._pages, *(f"{prefix}..." for prefix in self._sections)))
            return Answer(HTTPStatus.NOT_FOUND, TEXT, f"there are {there}\n".encode())
        if section is None and request.method not in GOT:
            return Answer(HTTPStatus.METHOD_NOT_ALLOWED, TEXT, b"GET and HEAD only\n", (allow(*GOT),))
        try:
            if section is not None:
                return await section(request)
            assert page is not None, "looked at above"
            return await page(request)
        except Exception as error:  # a page that fails must not end a broker: its reader and the log get the error
            log.unexpected("page", error, path=request.path)
            return Answer(HTTPStatus.INTERNAL_SERVER_ERROR, TEXT, b"see the log\n")


def reject(writer: asyncio.StreamWriter, status: int, reason: str) -> Answer:
    """Log a malformed request, and return its answer: problem details (RFC 9457)."""
    peer = writer.get_extra_info("peername")
    log.warning("malformed HTTP request", client=peer[0] if peer else "?", status=status, reason=reason)
    problem = {"type": "about:blank", "title": HTTPStatus(status).phrase, "status": status, "detail": reason}
    return Answer(status, PROBLEM, json.dumps(problem).encode())


def parse(connection: h11.Connection, head: bytes) -> Request:
    """Read a request's head, without empty lines before it. Raises h11.RemoteProtocolError."""
    connection.receive_data(head)
    request = connection.next_event()
    if not isinstance(request, h11.Request) or request.http_version not in (b"1.0", b"1.1"):
        raise h11.RemoteProtocolError("not an HTTP/1 request")
    if not isinstance(connection.next_event(), h11.EndOfMessage):
        raise h11.RemoteProtocolError("requests with a body are not supported")
    headers: dict[str, str] = {}
    for name, value in request.headers:
        key = name.decode()
        if key in ONCE and key in headers:
            raise h11.RemoteProtocolError(f"duplicate header {key}")
        headers[key] = value.decode("latin-1")
    path, _, query = request.target.decode().partition("?")
    if not path.startswith("/"):
        raise h11.RemoteProtocolError("the request target must be a path")
    return Request(request.method.decode(), path, query, headers)


def encode(connection: h11.Connection, answer: Answer, *, keep_alive: bool, with_body: bool) -> bytes:
    """Return an answer's bytes; h11 adds Connection: close where the request had it."""
    headers = [
        ("Content-Type", answer.content_type),
        ("Content-Length", str(len(answer.body))),
        ("Connection", "keep-alive" if keep_alive else "close"),
        *answer.headers,
    ]
    events: list[h11.Event] = [
        h11.Response(status_code=answer.status, headers=headers, reason=HTTPStatus(answer.status).phrase),
        h11.Data(data=answer.body if with_body else b""),
        h11.EndOfMessage(),
    ]
    return b"".join(connection.send(event) or b"" for event in events)


def allow(*methods: str) -> tuple[str, str]:
    """Return the Allow header of a path."""
    return "Allow", ", ".join(methods)


def as_json(status: int, body: object, *headers: tuple[str, str]) -> Answer:
    """Return an answer in JSON."""
    return Answer(status, JSON, json.dumps(body).encode() + b"\n", headers)
