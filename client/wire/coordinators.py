"""Requests to the coordinator of a group or a transactional id, repeated while it moves or loads.

Source: Kafka's CoordinatorStrategy, AdminApiDriver, and the handlers of its Admin that use them.
"""

import asyncio
from collections.abc import Awaitable, Callable
from enum import IntEnum
from typing import Final, Generic, NamedTuple, TypeVar

from kvorum.client.wire.cluster_client import ClusterClient, refuse
from kvorum.network.addresses import Address
from kvorum.protocol.errors import ErrorCode
from kvorum.protocol.messages.find_coordinator import Coordinator, FindCoordinatorRequest, FindCoordinatorResponse
from kvorum.protocol.schema import Message

RETRIES: Final = 30
RETRY_PAUSE_SECONDS: Final = 0.5
"""Pause between retries while a coordinator moves or loads, for some 15 s."""
RETRIED: Final = frozenset(
    {
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.LEADER_NOT_AVAILABLE,
        ErrorCode.CONCURRENT_TRANSACTIONS,
    }
)

M = TypeVar("M", bound=Message)
T = TypeVar("T")


class KeyType(IntEnum):
    """Type of a coordinator (FindCoordinatorRequest.CoordinatorType)."""

    GROUP = 0
    TRANSACTION = 1


class CoordinatorResponse(NamedTuple, Generic[M]):
    """A response and its broker."""

    coordinator_id: int
    address: Address
    answer: M


async def with_retries(ask: Callable[[], Awaitable[T]], code_of: Callable[[T], int]) -> T:
    """Return the first answer without a retriable code, the last one if all have one."""
    for _ in range(RETRIES - 1):
        answer = await ask()
        if code_of(answer) not in RETRIED:
            return answer
        await asyncio.sleep(RETRY_PAUSE_SECONDS)
    return await ask()


async def find_coordinator(cluster: ClusterClient, kind: KeyType, key: str) -> tuple[int, Address]:
    """Return the coordinator of a key, by id and address. Raises KafkaError COORDINATOR_NOT_AVAILABLE, Unreachable."""
    # Both the field of one key (before v4) and that of several: the version that is spoken takes its own.
    request = FindCoordinatorRequest(key=key, key_type=kind, coordinator_keys=[key])

    async def ask() -> Coordinator:
        answer = await cluster.ask(request, FindCoordinatorResponse)
        return answer.coordinators[0] if answer.coordinators else single(answer)

    row = await with_retries(ask, lambda row: row.error_code)
    refuse(row.error_code, row.error_message or f"the coordinator of {key!r}")
    return row.node_id, (row.host, row.port)


def single(answer: FindCoordinatorResponse) -> Coordinator:
    """Return the one coordinator that an answer before v4 has."""
    return Coordinator(
        node_id=answer.node_id,
        host=answer.host,
        port=answer.port,
        error_code=answer.error_code,
        error_message=answer.error_message,
    )


async def ask_group_coordinator(
    cluster: ClusterClient,
    group_id: str,
    request: Message,
    response: type[M],
    code_of: Callable[[M], int],
    *,
    version_max: int | None = None,
) -> CoordinatorResponse[M]:
    """Send a request to a group's coordinator, which is looked up again if it moved; return the last response."""

    async def ask() -> CoordinatorResponse[M]:
        coordinator_id, address = await find_coordinator(cluster, KeyType.GROUP, group_id)
        answer = await cluster.ask(request, response, address, version_max=version_max)
        return CoordinatorResponse(coordinator_id, address, answer)

    return await with_retries(ask, lambda found: code_of(found.answer))
