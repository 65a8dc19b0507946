"""The HTTP server below the admin application: a request whose head trickles in."""

import asyncio
import json

import pytest
from aiohttp import web

from kvorum.admin.http import http_server

REQUEST = b"GET /slow HTTP/1.1\r\nHost: x\r\n\r\n"


class Served:
    """A server with one route, which answers after a while, and a connection to it."""

    def __init__(self) -> None:
        app = web.Application()
        app.router.add_get("/slow", self._slow)
        app.router.add_post("/body", self._body)
        self.answers = asyncio.Event()
        self.answers.set()
        self._runner = http_server.runner_of(app, 0.1)

    async def _slow(self, request: web.Request) -> web.Response:
        await self.answers.wait()
        return web.Response(text="done")

    async def _body(self, request: web.Request) -> web.Response:
        return web.Response(text=await request.text())

    async def __aenter__(self) -> "Served":
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", 0)
        await site.start()
        self.reader, self.writer = await asyncio.open_connection(*self._runner.addresses[0][:2])
        return self

    async def __aexit__(self, *error: object) -> None:
        self.writer.close()
        await self._runner.cleanup()

    async def read_answer(self) -> bytes:
        head = await self.reader.readuntil(b"\r\n\r\n")
        length = next(line for line in head.split(b"\r\n") if line.lower().startswith(b"content-length"))
        return head + await self.reader.readexactly(int(length.partition(b":")[2]))


@pytest.fixture(autouse=True)
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_server, "HEAD_SECONDS_MAX", 0.3)


async def trickle(served: Served) -> bytes:
    """Send a head a byte at a time, and not all of it; return what the server answered before it closed."""
    for byte in b"GET / HTTP/1.1\r\nX-Long: aaaa":
        served.writer.write(bytes([byte]))
        await asyncio.sleep(0.001)
    return await served.reader.read()


def assert_late(answer: bytes) -> None:
    head, _, body = answer.partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 408 Request Timeout\r\nContent-Type: application/problem+json")
    assert json.loads(body)["error"] == "REQUEST_TIMED_OUT"


@pytest.mark.parametrize("earlier", [0, 1])
def test_a_head_that_trickles_in_is_answered_408_on_a_new_connection_and_on_one_in_use(earlier: int) -> None:
    async def story() -> None:
        async with Served() as served:
            for _ in range(earlier):
                served.writer.write(REQUEST)
                assert (await served.read_answer()).endswith(b"done")
            assert_late(await trickle(served))

    asyncio.run(asyncio.wait_for(story(), 30))


def test_a_connection_that_sends_nothing_is_closed_without_an_answer() -> None:
    async def story() -> None:
        async with Served() as served:
            assert await served.reader.read() == b""

    asyncio.run(asyncio.wait_for(story(), 30))


def test_only_the_head_has_a_limit() -> None:
    """Neither the handler, nor the body, nor the time between two requests."""

    async def story() -> None:
        async with Served() as served:
            served.answers.clear()
            served.writer.write(REQUEST)
            await asyncio.sleep(0.5)
            served.answers.set()
            assert (await served.read_answer()).endswith(b"done")
            await asyncio.sleep(0.5)
            served.writer.write(b"POST /body HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\na")
            await asyncio.sleep(0.5)
            served.writer.write(b"b")
            assert (await served.read_answer()).endswith(b"ab")

    asyncio.run(asyncio.wait_for(story(), 30))
