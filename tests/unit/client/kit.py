"""Runs a test with the public API on a cluster in memory."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from kvorum.client import Cluster
from tests.unit.admin.managed import ManagedCluster


def with_api(test: Callable[[Cluster, ManagedCluster], Coroutine[Any, Any, None]]) -> None:
    """Run a test with a connected cluster, and the fake one behind it."""

    async def run() -> None:
        fake = ManagedCluster()
        async with Cluster(fake) as cluster:
            await test(cluster, fake)

    asyncio.run(run())
