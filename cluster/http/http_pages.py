"""Minimal HTTP/1.1 for the pages of Prometheus, load balancers and the admin process.

A connection serves one request after the other until the client closes it, or is idle for a while. Bodies are not
accepted: a request with one gets 400, and the connection is closed. Source: RFC 9112.

Pages support GET. A section handles everything below its prefix: methods, parameters, access, and missing pages.
"""

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Final

from kvorum.cluster.http.stream_server import StreamServer
from kvorum.runtime.logs import get_logger

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
ONCE: Final = ("authorization", "host", "origin", "sec-fetch-dest", "sec-fetch-site")
"""Headers for access control: with two copies, the checked one might not be the intended one."""
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
    keep_alive: bool
    query: str = ""
    """Behind the question mark, as it came."""
    headers: Mapping[str, str] = field(default_factory=dict)
    """By their names in lower case; of repeated ones the last."""


class BadRequest(Exception):
    """A request that is answered with an error, and then the connection is closed."""

    def __init__(self, status: HTTPStatus, reason: str) -> None:
        """Store the status and the message."""
        super().__init__(reason)
        self.status = status


Page = Callable[[], Awaitable[Answer]]
Section = Callable[[Request], Awaitable[Answer]]


class HttpServer:
    """Serves pages by their path. `start` once, `close` once or more."""

    def __init__(
        self, host: str, port: int, pages: Mapping[str, Page], sections: Mapping[str, Section] | None = None
    ) -> None:
        """Prepare; nothing is opened yet. `sections` are by path prefix."""
        self._host = host
        self._port = port
        self._pages = pages
        self._sections = dict(sections or {})
        self._server = StreamServer(self._serve, connections_max=CONNECTIONS_MAX, line_bytes_max=HEAD_BYTES_MAX)

    async def start(self) -> None:
        """Listen. Raises OSError."""
        await self._server.start(self._host, self._port)

    async def close(self) -> None:
        """Stop listening, and cut every connection."""
        await self._server.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer a connection's requests until it ends."""
        try:
            while await self._answer_next(reader, writer):
                pass
        except (OSError, TimeoutError, asyncio.IncompleteReadError) as error:
            log.debug("http connection ended", reason=repr(error))

    async def _answer_next(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        """Answer one request; return whether the connection continues."""
        try:
            async with asyncio.timeout(IDLE_SECONDS):
                request = parse(await reader.readuntil(END_OF_HEAD))
            answer, keep_alive, with_body = await self._page(request), request.keep_alive, request.method != "HEAD"
        except asyncio.LimitOverrunError:
            reason = f"more than {HEAD_BYTES_MAX} bytes of headers"
            answer = refused(writer, HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE, reason)
            keep_alive, with_body = False, True
        except BadRequest as error:
            answer, keep_alive, with_body = refused(writer, error.status, str(error)), False, True
        writer.write(head_of(answer, keep_alive) + (answer.body if with_body else b""))
        async with asyncio.timeout(WRITE_SECONDS):
            await writer.drain()
        return keep_alive

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
            return await page()
        except Exception as error:  # a page that fails must not end a broker: its reader and the log get the error
            log.unexpected("page", error, path=request.path)
            return Answer(HTTPStatus.INTERNAL_SERVER_ERROR, TEXT, b"see the log\n")


def refused(writer: asyncio.StreamWriter, status: HTTPStatus, reason: str) -> Answer:
    """Log a malformed request, and return its answer: problem details (RFC 9457)."""
    peer = writer.get_extra_info("peername")
    log.warning("malformed HTTP request", client=peer[0] if peer else "?", status=int(status), reason=reason)
    said = {"type": "about:blank", "title": status.phrase, "status": int(status), "detail": reason}
    return Answer(status, PROBLEM, json.dumps(said).encode())


def parse(head: bytes) -> Request:
    """Read a request's head. Raises BadRequest."""
    first, *lines = head[: -len(END_OF_HEAD)].decode("latin-1").lstrip("\r\n").split("\r\n")
    match first.split(" "):
        case [method, target, ("HTTP/1.0" | "HTTP/1.1") as version] if target.startswith("/"):
            pass
        case _:
            raise BadRequest(HTTPStatus.BAD_REQUEST, "not an HTTP/1 request line")
    headers: dict[str, str] = {}
    for line in lines:
        name, colon, value = line.partition(":")
        if not colon or not name or name != name.strip():
            raise BadRequest(HTTPStatus.BAD_REQUEST, "a header line without a name")
        if name.lower() in ONCE and name.lower() in headers:
            raise BadRequest(HTTPStatus.BAD_REQUEST, f"duplicate header {name.lower()}")
        headers[name.lower()] = value.strip()
    if "transfer-encoding" in headers or headers.get("content-length", "0") != "0":
        raise BadRequest(HTTPStatus.BAD_REQUEST, "requests with a body are not supported")
    wishes = [each.strip() for each in headers.get("connection", "").lower().split(",")]
    keep_alive = "close" not in wishes if version == "HTTP/1.1" else "keep-alive" in wishes
    path, _, query = target.partition("?")
    return Request(method, path, keep_alive, query, headers)


def allow(*methods: str) -> tuple[str, str]:
    """Return the Allow header of a path."""
    return "Allow", ", ".join(methods)


def as_json(status: int, body: object, *headers: tuple[str, str]) -> Answer:
    """Return an answer in JSON."""
    return Answer(status, JSON, json.dumps(body).encode() + b"\n", headers)


def head_of(answer: Answer, keep_alive: bool) -> bytes:
    """Return the status line and headers of an answer."""
    lines = [
        f"HTTP/1.1 {int(answer.status)} {HTTPStatus(answer.status).phrase}",
        f"Content-Type: {answer.content_type}",
        f"Content-Length: {len(answer.body)}",
        f"Connection: {'keep-alive' if keep_alive else 'close'}",
        *(f"{name}: {value}" for name, value in answer.headers),
    ]
    return "\r\n".join([*lines, "", ""]).encode("latin-1")
