"""A listener with a few handlers, and a bare socket to speak to it."""

import asyncio
import random
import warnings
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

import uvloop

from kvorum.network.channel import Channel
from kvorum.network.limits import ConnectionLimits
from kvorum.network.router import Handler, Router, supported_apis
from kvorum.network.server import Listener
from kvorum.protocol.api import ApiKey, request_header_version
from kvorum.protocol.codec import encode_bytes
from kvorum.protocol.headers import RequestHeader, encode_request_header
from kvorum.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from kvorum.protocol.messages.metadata import MetadataRequest, MetadataResponse
from kvorum.protocol.schema import Message

WAIT_S = 30.0


def run(main: Callable[[], Coroutine[Any, Any, None]]) -> None:
    """Run on uvloop, as production does; a test that hangs fails."""

    async def limited() -> None:
        async with asyncio.timeout(WAIT_S):
            await main()

    runner = asyncio.Runner(loop_factory=uvloop.new_event_loop)
    with warnings.catch_warnings():
        try:
            runner.run(limited())
        except BaseException:
            warnings.simplefilter("ignore")  # what a failed test left open warns, and uvloop would close for ever
            raise
        finally:
            runner.close()


def request_frame(message: Message, version: int, correlation_id: int = 1, client_id: str | None = "test") -> bytes:
    """Return a whole frame."""
    header = RequestHeader(message.API_KEY, version, correlation_id, client_id)
    body = encode_request_header(header, request_header_version(message.API_KEY, version, message.FLEXIBLE_FROM))
    body += encode_bytes(message, version)
    return len(body).to_bytes(4, "big") + body


async def read_frame(reader: asyncio.StreamReader) -> bytes:
    return await reader.readexactly(int.from_bytes(await reader.readexactly(4), "big"))


def api_versions_handler(served: dict[int, tuple[int, int]]) -> Handler:
    def handle(ctx: object, request: ApiVersionsRequest) -> ApiVersionsResponse:
        return ApiVersionsResponse(api_keys=supported_apis(served))

    return Handler(ApiKey.API_VERSIONS, (0, 4), handle)


def metadata_handler(name: str = "test-cluster") -> Handler:
    def handle(ctx: object, request: MetadataRequest) -> MetadataResponse:
        return MetadataResponse(cluster_id=name)

    return Handler(ApiKey.METADATA, (0, 13), handle)


def listener_of(*handlers: Handler, limits: ConnectionLimits | None = None, **options: Any) -> Listener:
    """Return a listener on a free port of the loopback address, ApiVersions included."""
    served = {handler.api_key: handler.versions for handler in handlers} | {int(ApiKey.API_VERSIONS): (0, 4)}
    upgrades, quotas = options.pop("upgrades", None), options.get("quotas")
    router = Router([api_versions_handler(served), *handlers], upgrades=upgrades, quotas=quotas)
    return Listener("PLAINTEXT", "127.0.0.1", 0, router, limits=limits, **options)


def channel_to(port: int, seed: int = 1, **options: Any) -> Channel:
    return Channel("127.0.0.1", port, client_id="test", chance=random.Random(seed), **options)


async def until(condition: Callable[[], object], wait: Callable[[], Awaitable[object]] | None = None) -> None:
    """Let the loop turn until the condition holds (the test's own limit ends it)."""
    while not condition():
        await (wait() if wait is not None else asyncio.sleep(0))
