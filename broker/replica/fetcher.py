"""One connection to one leader: fetches for all partitions that follow it, one request at a time, by long poll.

Each round: partitions whose position is out of range ask the leader for its range (ListOffsets); the others go into one
fetch of the incremental session; rows are handled in order. What is ready goes by turns, and the leader moves who got
records to the end of its order, so no partition starves another.

A poll that waits does not know of partitions added meanwhile; it is given up with its connection, and a new one asks
for all: a new leader's followers are there within milliseconds instead of replica.fetch.wait.max.ms later.
"""

import asyncio
from collections.abc import Callable
from typing import Protocol, TypeVar

from kvorum.broker.replica.fetch_session_client import Asked, FetchSessionClient, SessionLimits
from kvorum.broker.replica.figures import Figures
from kvorum.broker.replica.follower import Follower, FollowerPhase, Outcome
from kvorum.broker.replica.log_view import SyncLogs
from kvorum.broker.replica.tasks import spawn
from kvorum.broker.replica.types import EARLIEST_TIMESTAMP, LATEST_TIMESTAMP
from kvorum.network.dial import ChannelError
from kvorum.protocol.errors import ErrorCode, KafkaError
from kvorum.protocol.messages.fetch import FetchResponse, PartitionData
from kvorum.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from kvorum.protocol.schema import Message
from kvorum.runtime.config import Settings
from kvorum.runtime.logs import get_logger
from kvorum.storage.names import TopicPartition

log = get_logger("broker")
M = TypeVar("M", bound=Message)

RENEW_DELAY_MS = 2
"""So long after a partition was added the waiting poll is given up: the rest of the same delta comes along."""


class LeaderChannel(Protocol):
    """What a fetcher needs of network.channel.Channel."""

    async def ask(self, message: Message, response: type[M], *, timeout_ms: int) -> M:
        """Send a request and return its answer. Raises ChannelError, KafkaError."""
        ...

    async def close(self) -> None:
        """Close; who waits gets ConnectionLost."""
        ...


class ReplicaFetcher:
    """Follows one leader. Times are monotonic milliseconds."""

    def __init__(
        self,
        *,
        broker_id: int,
        leader_id: int,
        settings: Settings,
        broker_epoch: Callable[[], int],
        open_channel: Callable[[int], LeaderChannel],
        now_ms: Callable[[], int],
        on_advanced: Callable[[Follower], None],
        figures: Figures,
        sync: SyncLogs,
    ) -> None:
        """`open_channel` makes a channel to a broker; `on_advanced` is called after each row that went well.

        `sync` is LogManager's.
        """
        self._broker_id = broker_id
        self.leader_id = leader_id
        self._broker_epoch = broker_epoch
        self._open_channel = open_channel
        self._now_ms = now_ms
        self._on_advanced = on_advanced
        self._figures = figures
        self._sync = sync
        self._unsynced: dict[TopicPartition, None] = {}
        """Appended to, and flush.messages wants a sync before the leader hears of it."""
        self._fetch_bytes_max = settings.int("replica.fetch.max.bytes")
        self._backoff_ms = settings.int("replica.fetch.backoff.ms")
        wait_ms = settings.int("replica.fetch.wait.max.ms")
        self._timeout_ms = max(settings.int("replica.socket.timeout.ms"), wait_ms)
        self._session = FetchSessionClient(
            SessionLimits(
                broker_id,
                wait_ms,
                settings.int("replica.fetch.min.bytes"),
                settings.int("replica.fetch.response.max.bytes"),
            )
        )
        self.followers: dict[TopicPartition, Follower] = {}
        self._channel: LeaderChannel | None = None
        self._is_failing = False
        self._wake = asyncio.Event()
        self._is_polling = False
        self._is_given_up = False
        """The poll that waits, by `_renew`."""
        self._polls = 0
        self._renewal: asyncio.TimerHandle | None = None
        self._task: asyncio.Task[None] | None = None
        self._closing: set[asyncio.Task[None]] = set()

    def start(self) -> None:
        """Begin to fetch."""
        self._task = spawn(f"fetcher-{self.leader_id}", self._run())

    def add(self, followers: dict[TopicPartition, Follower]) -> None:
        """Fetch these too, from now on."""
        self.followers.update(followers)
        for key, follower in followers.items():
            self._note_unsynced(key, follower)
        self._wake.set()
        if self._is_polling and self._renewal is None:
            loop = asyncio.get_running_loop()
            self._renewal = loop.call_later(RENEW_DELAY_MS / 1000, self._renew, self._polls)

    def remove(self, key: TopicPartition) -> Follower | None:
        """Fetch it no more. An answer on its way is ignored."""
        return self.followers.pop(key, None)

    async def close(self) -> None:
        """Stop, and close the connection."""
        if self._renewal is not None:
            self._renewal.cancel()
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])
        self._drop_channel()
        if self._closing:
            await asyncio.wait(tuple(self._closing))

    async def _run(self) -> None:
        while True:
            self._wake.clear()
            while self._unsynced:
                # The next fetch tells the leader that the records are here. A disk that fails takes its replicas along.
                unsynced, self._unsynced = self._unsynced, {}
                await self._sync(unsynced)
            now_ms = self._now_ms()
            resetting = [each for each in self.followers.values() if each.is_ready(FollowerPhase.RESETTING, now_ms)]
            if resetting:
                await self._reset(resetting)
                continue
            if not any(each.is_ready(FollowerPhase.FETCHING, now_ms) for each in self.followers.values()):
                await self._wait(now_ms)
                continue
            await self._fetch(now_ms)

    async def _wait(self, now_ms: int) -> None:
        """Wait until a back-off ends or the partitions change."""
        dues = [each.not_before_ms for each in self.followers.values() if each.not_before_ms is not None]
        timeout = max(1, min(dues) - now_ms) / 1000 if dues else None
        try:
            async with asyncio.timeout(timeout):
                await self._wake.wait()
        except TimeoutError:
            return

    def _renew(self, number: int) -> None:
        """Give up the poll that waits, if it is still the same."""
        self._renewal = None
        if self._is_polling and self._polls == number:
            self._is_given_up = True
            self._drop_channel()

    def _drop_channel(self) -> None:
        channel, self._channel = self._channel, None
        if channel is not None:
            closing = spawn("fetcher-channel-close", channel.close())
            self._closing.add(closing)
            closing.add_done_callback(self._closing.discard)

    def _connected(self) -> LeaderChannel:
        if self._channel is None:
            self._channel = self._open_channel(self.leader_id)
        return self._channel

    async def _fetch(self, now_ms: int) -> None:
        """Send one fetch and handle its rows."""
        wanted = {
            key: self._asked(each)
            for key, each in self.followers.items()
            if each.is_ready(FollowerPhase.FETCHING, now_ms)
        }
        request = self._session.request(wanted, self._broker_epoch())
        self._polls += 1
        self._is_polling, self._is_given_up = True, False
        try:
            response = await self._connected().ask(request, FetchResponse, timeout_ms=self._timeout_ms)
        except (ChannelError, KafkaError) as error:
            if self._is_given_up:
                self._session.reset()
                return
            if not self._is_failing:
                # Not once an attempt: a dead leader is asked again and again until metadata names another.
                log.info("fetch from leader failed", leader=self.leader_id, error=error)
            self._is_failing = True
            self._session.reset()
            self._delay(wanted, ErrorCode.NETWORK_EXCEPTION)
            return
        finally:
            self._is_polling = False
        if self._is_failing:
            log.info("fetching from leader again", leader=self.leader_id)
            self._is_failing = False
        rows = self._session.response(response)
        if isinstance(rows, ErrorCode):
            log.info("fetch session ended", leader=self.leader_id, error=rows.name)
            if rows not in SESSION_ERRORS:
                self._delay(wanted, rows)
            return
        for key, row in rows:
            self._handle(key, wanted[key], row)

    def _asked(self, follower: Follower) -> Asked:
        offset, epoch, start = follower.fetch_position()
        topic_id = follower.partition.topic_id
        return Asked(topic_id, offset, follower.leader_epoch, epoch, start, self._fetch_bytes_max)

    def _handle(self, key: TopicPartition, asked: Asked, row: PartitionData) -> None:
        follower = self.followers.get(key)
        if follower is None or follower.leader_epoch != asked.current_leader_epoch:
            return
        if follower.partition.topic_id != asked.topic_id:
            # Made anew meanwhile: name, leader, epoch and offset may all be those of the old topic.
            return
        try:
            outcome = follower.on_fetched(asked.fetch_offset, row, self._now_ms())
        except KafkaError as error:
            log.error("fetched records were not appended", partition=key, leader=self.leader_id, error=error)
            follower.delay(error.code, self._now_ms())
            return
        match outcome:
            case Outcome.APPENDED:
                self._note_unsynced(key, follower)
                records = row.records
                self._figures.replication_bytes_in.add(len(records) if isinstance(records, memoryview) else 0)
                # To the end of the line: the next full request begins with the others.
                self.followers[key] = self.followers.pop(key)
                self._on_advanced(follower)
            case Outcome.NOTHING_NEW:
                self._on_advanced(follower)
            case Outcome.TRUNCATED:
                end_offset = follower.fetch_position()[0]
                log.info("truncated to the leader's log", partition=key, leader=self.leader_id, end_offset=end_offset)
            case Outcome.OUT_OF_RANGE | Outcome.FENCED:
                log.info("fetch position refused", partition=key, leader=self.leader_id, outcome=outcome.value)
            case Outcome.DELAYED:
                error_name = follower.last_error.name if follower.last_error is not None else ""
                log.debug("fetch is tried again", partition=key, leader=self.leader_id, error=error_name)
            case Outcome.IGNORED:
                return

    def _note_unsynced(self, key: TopicPartition, follower: Follower) -> None:
        if follower.log is not None and follower.log.is_sync_due:
            self._unsynced[key] = None

    def _delay(self, keys: dict[TopicPartition, Asked], error: ErrorCode) -> None:
        now_ms = self._now_ms()
        for key in keys:
            follower = self.followers.get(key)
            if follower is not None:
                follower.delay(error, now_ms)

    async def _reset(self, followers: list[Follower]) -> None:
        """Ask the leader where its logs start and end, and leave RESETTING by that."""
        ends = await self._offsets(followers, LATEST_TIMESTAMP)
        starts = await self._offsets(followers, EARLIEST_TIMESTAMP)
        for follower in followers:
            key = follower.partition.topic_partition
            end, start = ends.get(key, ErrorCode.NETWORK_EXCEPTION), starts.get(key, ErrorCode.NETWORK_EXCEPTION)
            if isinstance(end, ErrorCode) or isinstance(start, ErrorCode):
                follower.on_leader_range_error(end if isinstance(end, ErrorCode) else ErrorCode(start), self._now_ms())
                continue
            try:
                follower.on_leader_range(start, end)
            except KafkaError as error:
                follower.delay(error.code, self._now_ms())
                continue
            log.warning(
                "position reset to the leader's range", partition=key, leader=self.leader_id, start=start, end=end
            )

    async def _offsets(self, followers: list[Follower], timestamp: int) -> dict[TopicPartition, int | ErrorCode]:
        """Return what the leader says of each; an empty answer where it cannot be asked."""
        topics: dict[str, ListOffsetsTopic] = {}
        for follower in followers:
            topic, index = follower.partition.topic_partition
            row = ListOffsetsPartition(
                partition_index=index, current_leader_epoch=follower.leader_epoch, timestamp=timestamp
            )
            topics.setdefault(topic, ListOffsetsTopic(name=topic)).partitions.append(row)
        request = ListOffsetsRequest(replica_id=self._broker_id, topics=list(topics.values()), timeout=self._timeout_ms)
        try:
            response = await self._connected().ask(request, ListOffsetsResponse, timeout_ms=self._timeout_ms)
        except (ChannelError, KafkaError) as error:
            log.info("ListOffsets to leader failed", leader=self.leader_id, error=error)
            self._session.reset()
            return {}
        return {
            TopicPartition(topic.name, row.partition_index): (
                ErrorCode(row.error_code) if row.error_code else row.offset
            )
            for topic in response.topics
            for row in topic.partitions
        }


SESSION_ERRORS = frozenset(
    {
        ErrorCode.FETCH_SESSION_ID_NOT_FOUND,
        ErrorCode.INVALID_FETCH_SESSION_EPOCH,
        ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR,
    }
)
"""A full request mends these at once."""
