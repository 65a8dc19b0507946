"""Brokers that answer as a test has them, behind the listener that real ones have: in the order they are asked."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

from kvorum.client.wire.cluster_client import ClusterClient
from kvorum.network.addresses import Address
from kvorum.network.cluster_check import ClusterCheck
from kvorum.network.context import RequestContext
from kvorum.network.router import Handler, Router, supported_apis
from kvorum.network.server import Listener
from kvorum.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from kvorum.protocol.schema import Message

Answer = Callable[[Any], Message | Awaitable[Message]]
WAIT_S = 10
"""Whatever a test waits for comes long before."""


class TestBroker:
    """Serves the classes of requests it has answers for. What it was asked is in `asked`."""

    __test__ = False

    def __init__(self, answers: dict[type[Message], Answer]) -> None:
        self.requested: list[Message] = []
        self.over: list[str] = []
        """The connection that each came over."""
        self._changed = asyncio.Event()
        served = {int(kind.API_KEY): kind.VERSIONS for kind in (ApiVersionsRequest, *answers)}

        def versions(_: RequestContext, __: ApiVersionsRequest) -> ApiVersionsResponse:
            return ApiVersionsResponse(api_keys=supported_apis(served))

        handlers = [Handler(ApiVersionsRequest.API_KEY, ApiVersionsRequest.VERSIONS, versions)]
        handlers += [Handler(kind.API_KEY, kind.VERSIONS, self._handle(answer)) for kind, answer in answers.items()]
        self._listener = Listener("PLAINTEXT", "127.0.0.1", 0, Router(handlers))
        self.address: Address = ("127.0.0.1", 0)

    def _handle(self, answer: Answer) -> Callable[[RequestContext, Any], Any]:
        def handle(ctx: RequestContext, request: Any) -> Any:
            self.requested.append(request)
            self.over.append(ctx.connection_id)
            self._changed.set()
            return answer(request)

        return handle

    def count(self, kind: type[Message]) -> int:
        """Return how many requests of a class came."""
        return sum(type(each) is kind for each in self.requested)

    async def until(self, check: Callable[[], bool]) -> None:
        """Wait until a request made it true."""
        async with asyncio.timeout(WAIT_S):
            while not check():
                self._changed.clear()
                await self._changed.wait()

    @asynccontextmanager
    async def serving(self) -> AsyncIterator[Address]:
        """Listen on a free port; whoever waits for an answer at the end loses the connection, as when a broker dies."""
        self.address = ("127.0.0.1", await self._listener.start())
        try:
            yield self.address
        finally:
            await self._listener.close(grace_ms=0)


@asynccontextmanager
async def client_of(
    *brokers: TestBroker, timeout_ms: int = 60_000, check: ClusterCheck | None = None
) -> AsyncIterator[ClusterClient]:
    """Return a client of these, which listen."""
    cluster = ClusterClient([each.address for each in brokers], timeout_ms=timeout_ms, check=check)
    try:
        yield cluster
    finally:
        await cluster.close()
