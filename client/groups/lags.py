"""Lags of many groups: offsets from the coordinators, and log ends from the leaders, once for all groups."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Final, NamedTuple, TypeVar

from kvorum.client.groups.groups import Committed, Groups, Listed
from kvorum.client.groups.members import Described
from kvorum.client.partitions.offsets import Spec, list_offsets
from kvorum.client.wire.cluster_client import Unreachable
from kvorum.protocol.errors import ErrorCode, KafkaError
from kvorum.protocol.topic_partition import TopicPartition
from kvorum.runtime.logs import get_logger

GROUPS_AT_ONCE: Final = 16
"""Concurrent groups: the coordinators serve other clients meanwhile."""

T = TypeVar("T")
log = get_logger("admin")


class GroupLag(NamedTuple):
    """A group's total lag over its committed partitions; `unknown` are those without a known log end."""

    lag: int
    partitions: int
    unknown: int
    topics: frozenset[str]
    """Topics with committed offsets."""


class Membership(NamedTuple):
    """The number of members of a group, and the topics they subscribe to or have partitions of."""

    members: int
    topics: frozenset[str]


async def in_turn(asks: Iterable[Callable[[], Awaitable[T]]]) -> list[T]:
    """Return the result of each, with limited concurrency."""
    turn = asyncio.Semaphore(GROUPS_AT_ONCE)

    async def one(ask: Callable[[], Awaitable[T]]) -> T:
        async with turn:
            return await ask()

    return await asyncio.gather(*(one(each) for each in asks))


async def of_each(ids: Iterable[str], ask: Callable[[str], Awaitable[T]]) -> dict[str, T]:
    """Query each group, with limited concurrency. A group is omitted if its coordinator rejects or does not respond."""

    async def one(group_id: str) -> tuple[str, T] | None:
        try:
            return group_id, await ask(group_id)
        except (KafkaError, Unreachable) as error:
            log.info("group not available from its coordinator", group=group_id, error=error)
            return None

    return dict(filter(None, await in_turn(partial(one, each) for each in ids)))


async def lags_of(groups: Groups, ids: Sequence[str]) -> dict[str, GroupLag]:
    """Return the lag of each group, without groups that are not available. Raises Unreachable."""
    committed = await of_each(ids, groups.committed)
    places = sorted({place for places in committed.values() for place in places})
    found = await list_offsets(groups.cluster, dict.fromkeys(places, int(Spec.LATEST)), attempts=1)
    ends = {place: each.offset for place, each in found.items() if each.error is ErrorCode.NONE}
    return {group_id: lag_in(places, ends) for group_id, places in committed.items()}


def lag_in(committed: Mapping[TopicPartition, Committed], ends: Mapping[TopicPartition, int]) -> GroupLag:
    """Sum up one group's lag."""
    known = [max(0, ends[place] - mine.offset) for place, mine in committed.items() if place in ends]
    topics = frozenset(place.topic for place in committed)
    return GroupLag(sum(known), len(known), len(committed) - len(known), topics)


async def memberships_of(groups: Groups, rows: Iterable[Listed]) -> dict[str, Membership]:
    """Return the membership of each group, with one request per coordinator and protocol.

    Groups whose coordinator does not answer are left out.
    """
    batches: dict[tuple[int, str], list[str]] = {}
    for row in rows:
        batches.setdefault((row.coordinator_id, row.type), []).append(row.group_id)

    async def described(coordinator: int, kind: str, ids: Sequence[str]) -> list[Described]:
        try:
            return await groups.described_at(coordinator, kind, ids)
        except (KafkaError, Unreachable) as error:
            log.info("members of groups not available", coordinator=coordinator, error=error)
            return []

    found = await in_turn(partial(described, coordinator, kind, ids) for (coordinator, kind), ids in batches.items())
    return {group.group_id: membership_of(group) for answer in found for group in answer}


def membership_of(group: Described) -> Membership:
    """Sum up the members of one group."""
    subscribed = {topic for member in group.members for topic in member.topics}
    assigned = {place.topic for member in group.members for place in member.assignment}
    return Membership(len(group.members), frozenset(subscribed | assigned))
