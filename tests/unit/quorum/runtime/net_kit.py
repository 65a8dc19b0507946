"""Controllers over MemoryLogs behind real listeners on loopback, and loaders: real time, real files."""

import asyncio
import contextlib
import random
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from pathlib import Path
from typing import Any, TypeVar

from kvorum.network.addresses import Address
from kvorum.network.authorizer import AllowAll, Authorizer
from kvorum.network.server import Listener
from kvorum.quorum.controller_channel import ControllerChannel, ControllerNodes
from kvorum.quorum.image import MetadataDelta, MetadataImage
from kvorum.quorum.loader import MetadataLoader
from kvorum.quorum.publisher import LoaderManifest
from kvorum.quorum.raft.memory_log import MemoryLog
from kvorum.quorum.server import ControllerServer
from kvorum.runtime.clock import SystemClock
from kvorum.runtime.disk import OsDisk
from tests.unit.quorum.runtime.runtime_kit import CLUSTER_ID, settings

T = TypeVar("T")

OTHER_CLUSTER_ID = "bm90IHRoaXMgb25lISEhIQ"
LIMIT_S = 40
"""No wait here takes longer, or the test has failed."""


def within_limit(work: Coroutine[Any, Any, T]) -> T:
    """Run a test's coroutine."""

    async def limited() -> T:
        async with asyncio.timeout(LIMIT_S):
            return await work

    return asyncio.run(limited())


class Follower:
    """A publisher that keeps what it was shown."""

    def __init__(self) -> None:
        self.seen: list[tuple[LoaderManifest, list[str]]] = []
        self.image = MetadataImage()

    def on_metadata_update(self, delta: MetadataDelta, image: MetadataImage, manifest: LoaderManifest) -> None:
        assert delta.apply(image.offset, image.epoch).same_content(image)
        assert delta.image.same_content(self.image), "the delta leads from the last image to this one"
        self.image = image
        self.seen.append((manifest, [topic.name for topic in image.topics.sorted_topics()]))


class Controller:
    """One controller process's inside."""

    def __init__(
        self, node_id: int, path: Path, authorizer: Authorizer, cluster_id: str = CLUSTER_ID, **changes: object
    ) -> None:
        self.log = MemoryLog(node_id=node_id)
        self.faults: list[BaseException] = []
        self.addresses: dict[int, Address] = {}
        self.server = ControllerServer(
            settings(**changes),
            OsDisk(),
            SystemClock(),
            random.Random(node_id),
            self.log,
            cluster_id=cluster_id,
            on_fault=self.faults.append,
            directory=str(path / f"controller-{node_id}"),
            authorizer=authorizer,
            voter_addresses=lambda listener: self.addresses,
        )
        self.listener = Listener(
            "CONTROLLER", "127.0.0.1", 0, self.server.router, on_connection_closed=self.server.on_connection_closed
        )

    async def start(self) -> Address:
        await self.server.start()
        return "127.0.0.1", await self.listener.start()

    async def close(self) -> None:
        await self.listener.close(grace_ms=100)
        await self.server.close()
        assert not self.faults, self.faults


class Net:
    """So many controllers, none elected, that know each other's addresses."""

    def __init__(self, path: Path, controllers: list[Controller], known: dict[int, Address]) -> None:
        self.path = path
        self.controllers = controllers
        self.known = known
        self.faults: list[BaseException] = []

    def nodes(self) -> ControllerNodes:
        return ControllerNodes(self.known, CLUSTER_ID)

    def channel(self, nodes: ControllerNodes | None = None) -> ControllerChannel:
        return ControllerChannel(nodes or self.nodes(), settings(), client_id="test", chance=random.Random(7))

    def loader(self, broker_id: int, nodes: ControllerNodes | None = None, **changes: object) -> MetadataLoader:
        return MetadataLoader(
            settings(**changes),
            OsDisk(),
            SystemClock(),
            nodes or self.nodes(),
            node_id=broker_id,
            cluster_id=CLUSTER_ID,
            chance=random.Random(broker_id),
            on_fault=self.faults.append,
            directory=str(self.path / f"broker-{broker_id}"),
        )


@contextlib.asynccontextmanager
async def running(
    path: Path,
    count: int = 1,
    authorizer: Authorizer | None = None,
    cluster_id: str = CLUSTER_ID,
    **changes: object,
) -> AsyncIterator[Net]:
    """Start controllers 1 to `count` of a cluster."""
    controllers = [
        Controller(number, path, authorizer or AllowAll(), cluster_id, **changes) for number in range(1, count + 1)
    ]
    known = {number: await controller.start() for number, controller in enumerate(controllers, 1)}
    for controller in controllers:
        controller.addresses.update(known)
    try:
        yield Net(path, controllers, known)
    finally:
        for controller in controllers:
            await controller.close()


async def eventually(condition: Callable[[], bool]) -> None:
    """Wait until it holds; the test's own limit ends a wait in vain."""
    holds = condition()
    while not holds:
        await asyncio.sleep(0.005)
        holds = condition()


async def closing(loader: MetadataLoader, work: Awaitable[T]) -> T:
    """Await, then close the loader whatever came of it."""
    try:
        return await work
    finally:
        await loader.close()
