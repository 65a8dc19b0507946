"""A process's listeners with faults in front of their handlers, in an event loop of the test's own."""

import asyncio
import random
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest
import uvloop

from kvorum.cluster.fault_injection.injection import Injection
from kvorum.network.channel import Channel
from kvorum.network.context import RequestContext
from kvorum.network.router import Handler, Router, supported_apis
from kvorum.network.server import Listener
from kvorum.protocol.api import ApiKey
from kvorum.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from kvorum.protocol.messages.list_groups import ListGroupsRequest, ListGroupsResponse
from kvorum.protocol.messages.metadata import MetadataRequest, MetadataResponse

WAIT_S = 30.0
VERSIONS = {int(ApiKey.METADATA): (9, 13), int(ApiKey.LIST_GROUPS): (3, 5)}


@dataclass(slots=True)
class Served:
    """Two listeners of one process: METADATA is answered at once, LIST_GROUPS when `release` is called."""

    injection: Injection
    listeners: dict[str, Listener] = field(default_factory=dict)
    channels: list[Channel] = field(default_factory=list)
    handled: list[str] = field(default_factory=list)
    parked: list["asyncio.Future[ListGroupsResponse]"] = field(default_factory=list)

    def channel(self, listener: str = "PLAINTEXT", client_id: str = "test") -> Channel:
        port = self.listeners[listener].port
        made = Channel("127.0.0.1", port, client_id=client_id, chance=random.Random(1))
        self.channels.append(made)
        return made

    async def metadata(self, channel: Channel, timeout_ms: int = 10_000) -> MetadataResponse:
        return await channel.ask(MetadataRequest(topics=None), MetadataResponse, timeout_ms=timeout_ms)

    def on_metadata(self, ctx: RequestContext, request: MetadataRequest) -> MetadataResponse:
        self.handled.append(f"metadata {ctx.client_id}")
        return MetadataResponse(cluster_id="test")

    def on_list_groups(self, ctx: RequestContext, request: ListGroupsRequest) -> "asyncio.Future[ListGroupsResponse]":
        self.handled.append(f"groups {ctx.client_id}")
        self.parked.append(asyncio.get_running_loop().create_future())
        return self.parked[-1]

    def on_versions(self, ctx: RequestContext, request: ApiVersionsRequest) -> ApiVersionsResponse:
        return ApiVersionsResponse(api_keys=supported_apis(VERSIONS | {int(ApiKey.API_VERSIONS): (0, 4)}))


@asynccontextmanager
async def serving(injection: Injection) -> AsyncIterator[Served]:
    served = Served(injection)
    router = Router(
        [
            Handler(ApiKey.API_VERSIONS, (0, 4), served.on_versions),
            Handler(ApiKey.METADATA, VERSIONS[ApiKey.METADATA], served.on_metadata),
            Handler(ApiKey.LIST_GROUPS, VERSIONS[ApiKey.LIST_GROUPS], served.on_list_groups, abandon=True),
        ]
    )
    router.interpose(injection.around)
    try:
        for name in ("PLAINTEXT", "OTHER"):
            served.listeners[name] = Listener(name, "127.0.0.1", 0, router)
            await served.listeners[name].start()
            injection.opened(served.listeners[name])
        yield served
    finally:
        injection.clear()
        for channel in served.channels:
            await channel.close()
        for listener in served.listeners.values():
            await listener.close()


Scenario = Callable[[Served], Coroutine[Any, Any, None]]


@pytest.fixture
def play() -> Callable[[Scenario], None]:
    """Run a scenario against a process's listeners, on the production loop; one that hangs fails."""

    def run(scenario: Scenario) -> None:
        async def main() -> None:
            async with asyncio.timeout(WAIT_S), serving(Injection()) as served:
                await scenario(served)

        uvloop.run(main())

    return run
