"""HTTPS of both HTTP servers: handshakes, client certificates, plaintext peers, reload and limits."""

import asyncio
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import aiohttp
import pytest
from aiohttp import web

from kvorum.admin.http.http_server import TlsSite, runner_of
from kvorum.cluster.http.http_pages import Answer, HttpServer, Request
from kvorum.network.tls_acceptor import HttpTls
from kvorum.security.tls.server import TlsServer
from kvorum.security.tls.settings import ClientAuth
from tests.tls_certificates import OTHER_CA, issued, key_store, renewed, server_tls
from tests.unit.network.tls_kit import python_context

TEXT = "x" * 300_000


@asynccontextmanager
async def pages_server(tls: HttpTls) -> AsyncIterator[int]:
    """The server of brokers and controllers (h11)."""

    async def page(request: Request) -> Answer:
        principal = tls.server.principal_of(request.certificate)
        return Answer(200, "text/plain", f"{principal} {TEXT}".encode())

    server = HttpServer("127.0.0.1", 0, {"/": page}, tls=tls)
    port = await server._server.start("127.0.0.1", 0)
    try:
        yield port
    finally:
        await server.close()


@asynccontextmanager
async def admin_server(tls: HttpTls) -> AsyncIterator[int]:
    """The server of the admin API (aiohttp)."""

    async def page(request: web.Request) -> web.Response:
        assert request.transport is not None and request.secure
        principal = tls.server.principal_of(request.transport.get_extra_info("peer_certificate"))
        return web.Response(text=f"{principal} {TEXT}")

    app = web.Application()
    app.router.add_get("/", page)
    runner = runner_of(app)
    await runner.setup()
    await TlsSite(runner, "127.0.0.1", 0, tls).start()
    try:
        yield runner.addresses[0][1]
    finally:
        await runner.cleanup()


SERVERS = pytest.mark.parametrize("serve", [pages_server, admin_server])


def run(serve: object, tls: HttpTls, test: Callable[[int], Awaitable[None]]) -> None:
    async def main() -> None:
        async with asyncio.timeout(30), serve(tls) as port:  # type: ignore[operator]
            await test(port)

    asyncio.run(main())


async def get(port: int, context: ssl.SSLContext | None = None, scheme: str = "https") -> str:
    """Return the page without its long part."""
    async with (
        aiohttp.ClientSession() as session,
        session.get(f"{scheme}://localhost:{port}/", ssl=context or python_context()) as answer,
    ):
        text = await answer.text()
        assert answer.status == 200 and text.endswith(TEXT)
        return text.removesuffix(TEXT).strip()


def https(tls: TlsServer | None = None, **limits: int) -> HttpTls:
    return HttpTls(server=tls or server_tls(), **limits)


@SERVERS
def test_pages_are_served_over_tls(serve: object) -> None:
    async def test(port: int) -> None:
        assert await get(port) == "User:ANONYMOUS"
        async with aiohttp.ClientSession() as session:  # several requests of one connection
            for _ in range(3):
                async with session.get(f"https://localhost:{port}/", ssl=python_context()) as answer:
                    assert len(await answer.read()) > len(TEXT)
        with pytest.raises(aiohttp.ClientConnectorCertificateError):
            await get(port, python_context(ca=OTHER_CA))

    run(serve, https(), test)


@SERVERS
def test_a_client_certificate_is_verified_and_named(serve: object) -> None:
    tls = https(server_tls(client_auth=ClientAuth.REQUESTED, principal_mapping_rules="RULE:^CN=(.*?),.*$/$1/,DEFAULT"))

    async def test(port: int) -> None:
        assert await get(port, python_context(issued("x", common_name="alice"))) == "User:alice"
        assert await get(port) == "User:ANONYMOUS"
        with pytest.raises((aiohttp.ClientError, OSError)):
            await get(port, python_context(issued("x", common_name="alice", ca=OTHER_CA)))

    run(serve, tls, test)


@SERVERS
def test_a_certificate_without_a_principal_ends_the_handshake(serve: object) -> None:
    tls = https(server_tls(client_auth=ClientAuth.REQUESTED, principal_mapping_rules="RULE:^CN=nobody$/nobody/"))

    async def test(port: int) -> None:
        with pytest.raises((aiohttp.ClientError, OSError)):
            await get(port, python_context(issued("x", common_name="alice")))
        assert await get(port) == "User:ANONYMOUS"

    run(serve, tls, test)


@SERVERS
def test_plain_http_at_a_tls_port_ends_quickly(serve: object, capfd: pytest.CaptureFixture[str]) -> None:
    async def test(port: int) -> None:
        loop = asyncio.get_running_loop()
        began = loop.time()
        with pytest.raises((aiohttp.ClientError, OSError)):
            await get(port, scheme="http")
        assert loop.time() - began < 5
        assert await get(port) == "User:ANONYMOUS"

    run(serve, https(), test)
    assert "an HTTP request, not TLS" in capfd.readouterr().err


@SERVERS
def test_new_stores_count_for_the_next_connection_and_open_ones_remain(serve: object) -> None:
    old, tls = issued("localhost", common_name="old"), server_tls(issued("localhost", common_name="old"))

    async def test(port: int) -> None:
        async with aiohttp.ClientSession() as session:
            async with session.get(f"https://localhost:{port}/", ssl=python_context()) as answer:
                await answer.read()
            before = tls.context
            tls.reload(key_store=key_store(renewed("localhost", common_name="old")))
            assert tls.context is not before
            async with session.get(f"https://localhost:{port}/", ssl=python_context()) as answer:
                await answer.read()
        _, writer = await asyncio.open_connection("127.0.0.1", port, ssl=python_context(), server_hostname="localhost")
        found = writer.get_extra_info("ssl_object").getpeercert(True)
        assert found != ssl.PEM_cert_to_DER_cert(old.cert_chain_pems[0].bytes().decode())
        writer.close()

    run(serve, https(tls), test)


@SERVERS
def test_handshakes_are_bounded_in_number_and_time(serve: object) -> None:
    async def test(port: int) -> None:
        half_open = [await asyncio.open_connection("127.0.0.1", port) for _ in range(2)]
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        assert await closed(reader), "one more than permitted"
        for each, _ in half_open:
            assert await closed(each), "not complete in time"
        assert await get(port) == "User:ANONYMOUS"
        for _, each in (*half_open, (reader, writer)):
            each.close()

    run(serve, https(handshakes_max=2, handshake_timeout_ms=300), test)


@SERVERS
def test_a_server_ends_although_a_handshake_is_half_open(serve: object) -> None:
    async def main() -> None:
        async with asyncio.timeout(20):
            async with serve(https()) as port:  # type: ignore[operator]
                reader, writer = await asyncio.open_connection("127.0.0.1", port)
                await get(port)
            assert await closed(reader)
            writer.close()

    asyncio.run(main())


async def closed(reader: asyncio.StreamReader) -> bool:
    try:
        return await reader.read(1) == b""
    except ConnectionError:
        return True
