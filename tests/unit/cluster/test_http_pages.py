"""HTTP of a process's own pages: what is answered, what is refused, and what ends a connection."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from kvorum.cluster.http import http_pages
from kvorum.cluster.http.http_pages import CONNECTIONS_MAX, HEAD_BYTES_MAX, Answer, HttpServer, Request
from kvorum.cluster.local.ports import free_ports

Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]
Open = Callable[[], Awaitable[Streams]]


def serving(go: Callable[[Open], Awaitable[None]]) -> None:
    """Run `go` against a server with a page that answers and one that fails."""

    async def hello(request: Request) -> Answer:
        return Answer(200, "text/plain", b"hello")

    async def broken(request: Request) -> Answer:
        raise ValueError("a fault of ours")

    async def main() -> None:
        port = free_ports(["127.0.0.1"])[0]
        server = HttpServer("127.0.0.1", port, {"/hello": hello, "/broken": broken})
        await server.start()
        opened: list[Streams] = []

        async def connect() -> Streams:
            opened.append(await asyncio.open_connection("127.0.0.1", port))
            return opened[-1]

        try:
            async with asyncio.timeout(20):
                await go(connect)
        finally:
            for _, writer in opened:
                writer.close()
            await server.close()

    asyncio.run(main())


async def ask(streams: Streams, request: bytes) -> tuple[int, dict[str, str], bytes]:
    """Send, and read one whole answer."""
    reader, writer = streams
    writer.write(request)
    lines = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
    headers = {name: value for name, _, value in (line.partition(": ") for line in lines[1:] if line)}
    size = 0 if request.startswith(b"HEAD") else int(headers["Content-Length"])
    return int(lines[0].split(" ")[1]), headers, await reader.readexactly(size)


async def ended(streams: Streams) -> bool:
    return await streams[0].read() == b""


def test_a_connection_serves_one_request_after_the_other_until_instructed_to_close() -> None:
    async def go(connect: Open) -> None:
        streams = await connect()
        for empty_line in (b"", b"\r\n"):
            status, headers, body = await ask(streams, empty_line + b"GET /hello?x=1 HTTP/1.1\r\nHost: a\r\n\r\n")
            assert (status, headers["Connection"], body) == (200, "keep-alive", b"hello")
        status, headers, body = await ask(streams, b"HEAD /hello HTTP/1.1\r\nHost: a\r\n\r\n")
        assert (status, headers["Content-Length"], body) == (200, "5", b"")
        assert (await ask(streams, b"GET /hello HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"))[2] == b"hello"
        assert await ended(streams)

    serving(go)


@pytest.mark.parametrize(
    "header",
    [b"Upgrade: h2c\r\nConnection: Upgrade, HTTP2-Settings", b"Expect: 100-continue", b"Content-Length: 0", b"X: \xe9"],
)
def test_headers_without_a_use_here_are_ignored(header: bytes) -> None:
    async def go(connect: Open) -> None:
        streams = await connect()
        for _ in range(2):
            found = await ask(streams, b"GET /hello HTTP/1.1\r\nHost: a\r\n" + header + b"\r\n\r\n")
            assert (found[0], found[1]["Connection"]) == (200, "keep-alive")

    serving(go)


@pytest.mark.parametrize("header", [b"", b"Connection: Keep-Alive\r\n"])
def test_http_1_0_closes(header: bytes) -> None:
    async def go(connect: Open) -> None:
        streams = await connect()
        status, headers, body = await ask(streams, b"GET /hello HTTP/1.0\r\n" + header + b"\r\n")
        assert (status, headers["Connection"], body) == (200, "close", b"hello")
        assert await ended(streams)

    serving(go)


@pytest.mark.parametrize(
    ("request_bytes", "status"),
    [
        (b"GET /nowhere HTTP/1.1\r\nHost: a\r\n\r\n", 404),
        (b"POST /hello HTTP/1.1\r\nHost: a\r\n\r\n", 405),
        (b"GET /broken HTTP/1.1\r\nHost: a\r\n\r\n", 500),
    ],
)
@pytest.mark.unexpected("page:")
def test_a_page_that_cannot_be_got_leaves_the_connection_open(request_bytes: bytes, status: int) -> None:
    async def go(connect: Open) -> None:
        streams = await connect()
        assert (await ask(streams, request_bytes))[0] == status
        assert (await ask(streams, b"GET /hello HTTP/1.1\r\nHost: a\r\n\r\n"))[0] == 200

    serving(go)


@pytest.mark.parametrize(
    ("request_bytes", "status"),
    [
        (b"GET /hello HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nabc", 400),
        (b"GET /hello HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n", 400),
        (b"GET /hello HTTP/1.1\r\nno colon\r\n\r\n", 400),
        (b"GET /hello HTTP/1.1\r\n\r\n", 400),
        (b"GET /hello HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: gzip\r\n\r\n", 501),
        (b"HEAD /hello HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nabc", 400),
        (b"GET http://a/hello HTTP/1.1\r\nHost: a\r\n\r\n", 400),
        (b"CONNECT a:1 HTTP/1.1\r\nHost: a\r\n\r\n", 400),
        (b"\r\n\r\n", 400),
        (b"GET /hello HTTP/2\r\n\r\n", 400),
        (b"GET /hello HTTP/9.9\r\nHost: a\r\n\r\n", 400),
        (b"\x16\x03\x01\r\n\r\n", 400),
        (b"GET /hello HTTP/1.1\r\nHost: a\r\nX: " + b"x" * HEAD_BYTES_MAX + b"\r\n\r\n", 431),
    ],
)
def test_an_unsupported_request_is_refused_and_closes_the_connection(request_bytes: bytes, status: int) -> None:
    async def go(connect: Open) -> None:
        streams = await connect()
        found, headers, _ = await ask(streams, request_bytes)
        assert (found, headers["Connection"]) == (status, "close")

    serving(go)


def test_one_connection_too_many_is_closed_and_a_silent_one_does_not_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    async def go(connect: Open) -> None:
        open_ones = [await connect() for _ in range(CONNECTIONS_MAX)]
        await ask(open_ones[-1], b"GET /hello HTTP/1.1\r\nHost: a\r\n\r\n")  # all of them are accepted by now
        assert await ended(await connect())
        for each in open_ones:
            assert await ended(each)
        assert (await ask(await connect(), b"GET /hello HTTP/1.1\r\nHost: a\r\n\r\n"))[0] == 200

    monkeypatch.setattr(http_pages, "IDLE_SECONDS", 1.5)
    serving(go)
