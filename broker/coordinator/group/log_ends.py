"""Log end offsets of partitions without a replica on this broker: requested from their leaders in the background.

A group's lag needs the end of every partition that the group reads, and its coordinator has replicas of only some of
them.

    a scrape finds partitions without a replica here --want--> rounds, ROUND_MS apart, while scrapes continue
    a round: by leader --ListOffsets (latest), PARTITIONS_MAX at a time, one request in flight per leader--> known

Without scrapes no requests are sent and no value is stored. A returned end is valid for FRESH_MS; if a partition's
leader is missing or does not respond, the end is unknown afterwards: no value is better than a stale one.
"""

import asyncio
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from typing import Final, Protocol, TypeVar

from kvorum.broker.replica.tasks import spawn
from kvorum.broker.replica.types import CONSUMER_REPLICA_ID, LATEST_TIMESTAMP
from kvorum.network.dial import ChannelError
from kvorum.protocol.errors import KafkaError
from kvorum.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from kvorum.protocol.schema import Message
from kvorum.protocol.topic_partition import TopicPartition
from kvorum.quorum.records import NO_LEADER
from kvorum.runtime.clock import Clock
from kvorum.runtime.logs import get_logger

log = get_logger("coordinator")

M = TypeVar("M", bound=Message)

ROUND_MS: Final = 5_000
"""The default commit interval of consumers: a lag is not more precise than the committed offset."""
FRESH_MS: Final = 15_000
"""Three rounds: one that is late, or one leader's answer that is lost, leaves no gap."""
WANTED_MS: Final = 300_000
"""Rounds end this long after the last scrape: longer than any scrape interval."""
PARTITIONS_MAX: Final = 1_000
"""In one request: a leader looks them up in some milliseconds, in one turn of its event loop."""
TIMEOUT_MS: Final = 5_000


class LeaderChannel(Protocol):
    """A channel to one broker."""

    async def ask(self, message: Message, response: type[M], *, timeout_ms: int) -> M:
        """Return the broker's answer. Raises ChannelError, KafkaError."""
        ...

    async def close(self) -> None:
        """Close."""
        ...


class LogEnds:
    """Cache of log end offsets. One per broker; limited to the partitions of a scrape."""

    def __init__(
        self,
        clock: Clock,
        leader_of: Callable[[TopicPartition], int | None],
        open_channel: Callable[[int], LeaderChannel],
    ) -> None:
        """Create it empty. `leader_of` returns a partition's leader, None if it was deleted."""
        self._clock = clock
        self._leader_of = leader_of
        self._open_channel = open_channel
        self._channels: dict[int, LeaderChannel] = {}
        self._silent: set[int] = set()
        """Brokers whose last request failed: logged once."""
        self._wanted: frozenset[TopicPartition] = frozenset()
        self._wanted_ms = 0
        self._known: dict[TopicPartition, tuple[int, int]] = {}
        """The high watermark, and the time of its response."""
        self._task: asyncio.Task[None] | None = None
        self._is_closed = False

    def end(self, key: TopicPartition) -> int | None:
        """Return a partition's high watermark if its leader returned it within FRESH_MS, else None."""
        offset, reported_ms = self._known.get(key, (0, None))
        return None if reported_ms is None or self._clock.monotonic_ms() - reported_ms > FRESH_MS else offset

    def want(self, keys: Iterable[TopicPartition]) -> None:
        """Keep these up to date from now on, and no others. Rounds begin at once if there are none."""
        self._wanted, self._wanted_ms = frozenset(keys), self._clock.monotonic_ms()
        if self._wanted and self._task is None and not self._is_closed:
            self._task = spawn("log-ends", self._rounds())

    async def close(self) -> None:
        """Stop sending requests. Idempotent."""
        self._is_closed = True
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])
        await self._leave(self._channels.keys())

    async def _rounds(self) -> None:
        while self._wanted and self._clock.monotonic_ms() - self._wanted_ms <= WANTED_MS:
            await self._round()
            await asyncio.sleep(ROUND_MS / 1000)
        self._known = {}
        self._task = None
        await self._leave(self._channels.keys())

    async def _round(self) -> None:
        self._known = {key: known for key, known in self._known.items() if key in self._wanted}
        leaders = self._by_leader()
        await self._leave(self._channels.keys() - leaders.keys())
        async with asyncio.TaskGroup() as requests:
            for broker_id, keys in leaders.items():
                requests.create_task(self._ask(broker_id, keys))

    def _by_leader(self) -> dict[int, list[TopicPartition]]:
        """Return the wanted partitions by leader, without those that have no leader."""
        found: dict[int, list[TopicPartition]] = {}
        for key in sorted(self._wanted):
            leader = self._leader_of(key)
            if leader is not None and leader != NO_LEADER:
                found.setdefault(leader, []).append(key)
        return found

    async def _ask(self, broker_id: int, keys: Sequence[TopicPartition]) -> None:
        """Request the log ends of a leader's partitions. A failed request is repeated in the next round."""
        channel = self._channels.get(broker_id)
        if channel is None:
            channel = self._channels[broker_id] = self._open_channel(broker_id)
        for some in pieces(keys, PARTITIONS_MAX):
            try:
                response = await channel.ask(request_of(some), ListOffsetsResponse, timeout_ms=TIMEOUT_MS)
            except (ChannelError, KafkaError) as error:
                if broker_id not in self._silent:
                    self._silent.add(broker_id)
                    log.info("log end offsets not available from leader", broker=broker_id, reason=error)
                return
            self._silent.discard(broker_id)
            self._take(response)

    def _take(self, response: ListOffsetsResponse) -> None:
        now_ms = self._clock.monotonic_ms()
        for topic in response.topics:
            for row in topic.partitions:
                key = TopicPartition(topic.name, row.partition_index)
                if not row.error_code:
                    self._known[key] = row.offset, now_ms
                # Rejected: it is not the leader now, or does not know the high watermark yet. Its earlier value
                # expires.

    async def _leave(self, broker_ids: Iterable[int]) -> None:
        for broker_id in tuple(broker_ids):
            self._silent.discard(broker_id)
            await self._channels.pop(broker_id).close()


def pieces(keys: Sequence[TopicPartition], size: int) -> Iterator[list[TopicPartition]]:
    """Split keys into lists of limited size."""
    rest = iter(keys)
    while some := list(islice(rest, size)):
        yield some


def request_of(keys: Iterable[TopicPartition]) -> ListOffsetsRequest:
    """Return the question for the high watermarks of partitions."""
    topics: dict[str, ListOffsetsTopic] = {}
    for key in keys:
        row = ListOffsetsPartition(partition_index=key.partition, timestamp=LATEST_TIMESTAMP)
        topics.setdefault(key.topic, ListOffsetsTopic(name=key.topic)).partitions.append(row)
    return ListOffsetsRequest(replica_id=CONSUMER_REPLICA_ID, topics=list(topics.values()))
