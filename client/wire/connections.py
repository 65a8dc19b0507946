"""A client's connections to brokers: a shared one for quick requests, and separate ones for long requests.

A broker responds in order, and a request that times out closes the connection for all waiting requests. So a request
that may wait (for a commit, the controller, new records, or a quota) uses a separate connection.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from random import Random
from typing import Final, TypeVar

from kvorum.network.addresses import Address
from kvorum.network.channel import Channel, common_version
from kvorum.network.cluster_check import ClusterCheck
from kvorum.network.dial import ChannelError, ConnectionLost, RequestTimedOut
from kvorum.protocol.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from kvorum.protocol.messages.describe_client_quotas import DescribeClientQuotasRequest
from kvorum.protocol.messages.describe_cluster import DescribeClusterRequest
from kvorum.protocol.messages.describe_configs import DescribeConfigsRequest
from kvorum.protocol.messages.describe_groups import DescribeGroupsRequest
from kvorum.protocol.messages.describe_log_dirs import DescribeLogDirsRequest
from kvorum.protocol.messages.describe_producers import DescribeProducersRequest
from kvorum.protocol.messages.describe_quorum import DescribeQuorumRequest
from kvorum.protocol.messages.describe_topic_partitions import DescribeTopicPartitionsRequest
from kvorum.protocol.messages.describe_transactions import DescribeTransactionsRequest
from kvorum.protocol.messages.fetch import FetchRequest
from kvorum.protocol.messages.fetch_snapshot import FetchSnapshotRequest
from kvorum.protocol.messages.find_coordinator import FindCoordinatorRequest
from kvorum.protocol.messages.list_config_resources import ListConfigResourcesRequest
from kvorum.protocol.messages.list_groups import ListGroupsRequest
from kvorum.protocol.messages.list_offsets import ListOffsetsRequest
from kvorum.protocol.messages.list_partition_reassignments import ListPartitionReassignmentsRequest
from kvorum.protocol.messages.list_transactions import ListTransactionsRequest
from kvorum.protocol.messages.metadata import MetadataRequest
from kvorum.protocol.messages.offset_fetch import OffsetFetchRequest
from kvorum.protocol.messages.offset_for_leader_epoch import OffsetForLeaderEpochRequest
from kvorum.protocol.schema import Message
from kvorum.security.client import PLAINTEXT, ClientSecurity

M = TypeVar("M", bound=Message)

QUICK: Final[frozenset[type[Message]]] = frozenset(
    {
        ConsumerGroupDescribeRequest,
        DescribeClientQuotasRequest,
        DescribeClusterRequest,
        DescribeConfigsRequest,
        DescribeGroupsRequest,
        DescribeLogDirsRequest,
        DescribeProducersRequest,
        DescribeTopicPartitionsRequest,
        DescribeTransactionsRequest,
        ListConfigResourcesRequest,
        ListGroupsRequest,
        ListOffsetsRequest,
        ListTransactionsRequest,
        MetadataRequest,
        OffsetForLeaderEpochRequest,
    }
)
"""Requests that a broker answers from its own state."""
READS: Final = QUICK | {
    DescribeQuorumRequest,
    FetchRequest,
    FetchSnapshotRequest,
    FindCoordinatorRequest,
    ListPartitionReassignmentsRequest,
    OffsetFetchRequest,
}
"""Requests that may be repeated because they change nothing. Requests in neither set may change something, and wait."""
OWN_MAX: Final = 32
"""Connections to one broker with a waiting request; further requests wait for one of them."""
IDLE_MAX: Final = 4
"""Number of these that are kept for reuse."""


@dataclass(slots=True)
class _RequestConnections:
    """The connections to one broker that belong to one request each while it is under way."""

    room: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(OWN_MAX))
    idle: list[Channel] = field(default_factory=list)


class Connections:
    """See the module. Owned by one event loop; close it."""

    __slots__ = ("_busy", "_chance", "_check", "_client_id", "_own", "_security", "_shared")

    def __init__(
        self,
        client_id: str,
        chance: Random,
        check: ClusterCheck | None = None,
        security: ClientSecurity = PLAINTEXT,
    ) -> None:
        """Start without connections. Each is opened when needed, and used if `check` accepts it."""
        self._security = security
        self._check = check
        self._client_id = client_id
        self._chance = chance
        self._shared: dict[Address, Channel] = {}
        self._own: dict[Address, _RequestConnections] = {}
        self._busy: set[Channel] = set()

    async def ask(
        self, address: Address, request: Message, response: type[M], *, timeout_ms: int, version_max: int | None = None
    ) -> M:
        """Send a request to a broker over the connection that fits it. Raises ChannelError, KafkaError."""
        if type(request) in QUICK:
            return await send_request(self.shared_channel(address), request, response, timeout_ms, version_max)
        async with self.own(address, timeout_ms) as channel:
            return await send_request(channel, request, response, timeout_ms, version_max)

    def shared_channel(self, address: Address) -> Channel:
        """Return the shared connection for quick requests."""
        channel = self._shared.get(address)
        if channel is None:
            channel = self._shared[address] = self._create_channel(address)
        return channel

    @asynccontextmanager
    async def own(self, address: Address, timeout_ms: int) -> AsyncIterator[Channel]:
        """Use a separate connection; if a response is still pending it is closed. Raises ChannelError."""
        own = self._own.setdefault(address, _RequestConnections())
        try:
            async with asyncio.timeout(timeout_ms / 1000):
                await own.room.acquire()
        except TimeoutError as error:
            reason = f"{OWN_MAX} requests are already waiting for a response"
            raise RequestTimedOut(reason, maybe_sent=False) from error
        channel = own.idle.pop() if own.idle else self._create_channel(address)
        self._busy.add(channel)
        answered = False
        try:
            yield channel
            answered = True
        finally:
            self._busy.discard(channel)
            own.room.release()
            if answered and len(own.idle) < IDLE_MAX:
                own.idle.append(channel)
            else:
                await channel.close()

    async def close(self) -> None:
        """Close all; waiting requests get ConnectionLost."""
        idle = [channel for own in self._own.values() for channel in own.idle]
        await asyncio.gather(*(channel.close() for channel in (*self._shared.values(), *idle, *self._busy)))

    def _create_channel(self, address: Address) -> Channel:
        return Channel(
            *address, client_id=self._client_id, chance=self._chance, check=self._check, security=self._security
        )


async def send_request(
    channel: Channel, request: Message, response: type[M], timeout_ms: int, version_max: int | None
) -> M:
    """Send a request in the newest version up to one. Raises ChannelError, KafkaError UNSUPPORTED_VERSION."""
    version = None
    if version_max is not None:
        version = min(common_version(type(request), (await channel.connect()).versions), version_max)
    return await channel.ask(request, response, timeout_ms=timeout_ms, version=version)


def may_repeat(request: Message, error: ChannelError) -> bool:
    """Return whether the request may be repeated on another broker although this one may have received it.

    A broker that did not respond to a quick request will not respond. With a request that waits for other nodes it may
    have progressed as far as any broker, unless it has died.
    """
    if not error.maybe_sent:
        return True
    return type(request) in (READS if isinstance(error, ConnectionLost) else QUICK)
