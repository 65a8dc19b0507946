"""Keys of an issuer: from a URL, a file, a discovery document; refreshed, kept while the issuer is away, limited."""

import asyncio
import json
import os
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from aiohttp import web

from kvorum.runtime.config import ConfigError
from kvorum.security.oauth.http import RESPONSE_BYTES_MAX, FetchError, WatchedFile, fetch, post
from kvorum.security.oauth.jwks import KeySetError
from kvorum.security.oauth.key_refresh import (
    IssuerDocument,
    IssuerKeys,
    KeySource,
    RefreshTimes,
    discovered_key_set,
    key_set_at,
    key_set_in,
)
from tests.unit.network import network_kit
from tests.unit.network.network_kit import run
from tests.unit.security.oauth.oauth_kit import ISSUER, key_set, signing_key

FAST = RefreshTimes(interval_ms=5, retry_ms=1, retry_max_ms=4)
NEVER = RefreshTimes(interval_ms=3_600_000)


class Issuer:
    """A source that may fail."""

    def __init__(self) -> None:
        self.keys = [signing_key()]
        self.error: Exception | None = None
        self.fetches = 0

    async def __call__(self) -> IssuerDocument:
        self.fetches += 1
        if self.error is not None:
            raise self.error
        return IssuerDocument(key_set(*self.keys))


def keys_of(source: KeySource, times: RefreshTimes = FAST, issuer: str | None = None) -> IssuerKeys:
    return IssuerKeys(source, times, lambda reason: ConfigError("the.key", None, "here", reason), issuer)


async def until(condition: Callable[[], object]) -> None:
    await network_kit.until(condition, lambda: asyncio.sleep(0.001))


def test_new_keys_are_found_at_the_interval() -> None:
    async def main() -> None:
        issuer = Issuer()
        keys = keys_of(issuer)
        await keys.start()
        assert keys.present.has("ES256-0")
        issuer.keys = [signing_key("ES256", 1)]
        await until(lambda: keys.present.has("ES256-1"))
        assert not keys.present.has("ES256-0")
        await keys.close()
        await keys.close()

    run(main)


@pytest.mark.parametrize("error", [FetchError("https://x did not respond"), KeySetError("it is no JSON")])
def test_the_last_good_keys_stay_while_the_issuer_is_away(error: Exception, log_lines: list[str]) -> None:
    async def main() -> None:
        issuer = Issuer()
        keys = keys_of(issuer)
        await keys.start()
        issuer.error = error
        await until(lambda: issuer.fetches > 5)
        assert keys.present.has("ES256-0")
        issuer.error, issuer.keys = None, [signing_key("ES256", 1)]
        await until(lambda: keys.present.has("ES256-1"))
        await keys.close()

    run(main)
    assert len([line for line in log_lines if "not refreshed" in line and str(error) in line]) == 1
    assert len([line for line in log_lines if "refreshed again" in line]) == 1


def test_an_unreachable_issuer_at_the_start_is_an_error_that_names_it() -> None:
    async def main() -> None:
        issuer = Issuer()
        issuer.error = FetchError("https://x did not respond")
        with pytest.raises(ConfigError, match=r"the\.key: https://x did not respond"):
            await keys_of(issuer).start()

    run(main)


def test_an_unknown_key_id_causes_one_fetch() -> None:
    async def main() -> None:
        issuer = Issuer()
        keys = keys_of(issuer, NEVER)
        await keys.start()
        issuer.keys.append(signing_key("ES256", 1))
        for _ in range(3):
            keys.report_missing("ES256-1")
        await until(lambda: keys.present.has("ES256-1"))
        keys.report_missing("another")
        keys.report_missing("ES256-1")
        for _ in range(10):
            await asyncio.sleep(0)
        assert issuer.fetches == 2
        await keys.close()

    run(main)


def test_a_file_is_read_again_when_it_has_changed(tmp_path: Path) -> None:
    async def main() -> None:
        path = tmp_path / "keys.json"
        path.write_bytes(key_set(signing_key()))
        file, looks = WatchedFile(str(path)), [0]
        source = key_set_in(file)

        async def counted() -> IssuerDocument | None:
            looks[0] += 1
            return await source()

        keys = keys_of(counted)
        await keys.start()
        before = keys.present
        assert await file.read() is None
        await until(lambda: looks[0] > 3)
        assert keys.present is before
        path.write_bytes(key_set(signing_key("ES256", 1)))
        os.utime(path, ns=(1, 1))
        await until(lambda: keys.present.has("ES256-1"))
        path.unlink()
        count = looks[0]
        await until(lambda: looks[0] > count + 3)
        assert keys.present.has("ES256-1")
        await keys.close()
        with pytest.raises(FetchError, match=r"keys\.json cannot be read: No such file"):
            await file.read()

    run(main)


class Provider:
    """An identity provider over HTTP."""

    def __init__(self) -> None:
        self.documents: dict[str, bytes] = {}
        self.url = ""

    async def get(self, request: web.Request) -> web.Response:
        found = self.documents.get(request.path)
        if request.path == "/moved":
            raise web.HTTPFound("/keys")
        if request.path == "/slow":
            await asyncio.sleep(10)
        return web.Response(status=404) if found is None else web.Response(body=found)

    @asynccontextmanager
    async def served(self) -> AsyncIterator["Provider"]:
        app = web.Application()
        app.router.add_route("*", "/{name:.*}", self.get)
        runner = web.AppRunner(app, shutdown_timeout=0.01)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        port = runner.addresses[0][1]
        self.url = f"http://127.0.0.1:{port}"
        try:
            yield self
        finally:
            await runner.cleanup()


def test_keys_are_fetched_from_a_url() -> None:
    async def main() -> None:
        async with Provider().served() as provider:
            provider.documents["/keys"] = key_set(signing_key())
            for path in ("/keys", "/moved"):
                keys = keys_of(key_set_at(provider.url + path, fetch), NEVER)
                await keys.start()
                assert keys.present.has("ES256-0")
                assert keys.issuer is None
                await keys.close()

    run(main)


def test_a_document_is_limited_in_size_and_time() -> None:
    async def main() -> None:
        async with Provider().served() as provider:
            provider.documents = {"/large": bytes(RESPONSE_BYTES_MAX + 1), "/most": bytes(RESPONSE_BYTES_MAX)}
            assert len(await fetch(f"{provider.url}/most")) == RESPONSE_BYTES_MAX
            with pytest.raises(FetchError, match="/large has more than"):
                await fetch(f"{provider.url}/large")
            with pytest.raises(FetchError, match="/none responded with status 404"):
                await fetch(f"{provider.url}/none")
            with pytest.raises(FetchError, match="/slow did not respond within 20 ms"):
                await fetch(f"{provider.url}/slow", timeout_ms=20)
            with pytest.raises(FetchError, match="/moved responded with status 302"):
                await post(f"{provider.url}/moved", {"a": "b"}, {})
        with pytest.raises(FetchError, match="cannot be fetched"):
            await fetch(f"{provider.url}/most")

    run(main)


def test_a_discovery_document_names_issuer_and_keys() -> None:
    async def main() -> None:
        async with Provider().served() as provider:
            document = {"issuer": ISSUER, "jwks_uri": f"{provider.url}/keys"}
            provider.documents = {"/keys": key_set(signing_key()), "/d": json.dumps(document).encode()}
            source = discovered_key_set(f"{provider.url}/d", fetch)
            for expected in (None, ISSUER):
                keys = keys_of(source, NEVER, expected)
                await keys.start()
                assert keys.present.has("ES256-0")
                assert keys.issuer == ISSUER
                await keys.close()
            with pytest.raises(ConfigError, match=r"the issuer is https://issuer\.test/, expected https://other/"):
                await keys_of(source, NEVER, "https://other/").start()
            for wrong in (b"{", b"[]", b'{"issuer":"x"}', b'{"issuer":"x","jwks_uri":"file:///etc/passwd"}'):
                provider.documents["/d"] = wrong
                with pytest.raises(ConfigError, match="/d"):
                    await keys_of(source).start()

    run(main)
