"""Requests about many groups, with limited concurrency."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from functools import partial
from typing import Final, TypeVar

from kvorum.client.wire.cluster_client import Unreachable
from kvorum.protocol.errors import KafkaError
from kvorum.runtime.logs import get_logger

GROUPS_AT_ONCE: Final = 16
"""Concurrent groups: the coordinators serve other clients meanwhile."""

T = TypeVar("T")
log = get_logger("admin")


async def run_limited(tasks: Iterable[Callable[[], Awaitable[T]]]) -> list[T]:
    """Return the result of each, with limited concurrency."""
    slots = asyncio.Semaphore(GROUPS_AT_ONCE)

    async def run(task: Callable[[], Awaitable[T]]) -> T:
        async with slots:
            return await task()

    return await asyncio.gather(*(run(each) for each in tasks))


async def query_groups(ids: Iterable[str], query: Callable[[str], Awaitable[T]]) -> dict[str, T]:
    """Query each group, with limited concurrency. A group is omitted if its coordinator rejects or does not respond."""

    async def query_one(group_id: str) -> tuple[str, T] | None:
        try:
            return group_id, await query(group_id)
        except (KafkaError, Unreachable) as error:
            log.info("group not available from its coordinator", group=group_id, error=error)
            return None

    return dict(filter(None, await run_limited(partial(query_one, each) for each in ids)))
