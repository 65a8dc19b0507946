"""One connection to one leader: fetches for all partitions that follow it, one request at a time, by long poll.

Each round: partitions whose position is out of range request the leader's range (ListOffsets); the others go into one
fetch of the incremental session; rows are handled in order. Partitions take turns: the leader moves those with records
to the end of its order, so no partition starves another. A round looks only at partitions whose request may change
(`_unsettled`): new or answered ones, those in a back-off, and those that changed by themselves.

A waiting poll does not contain partitions added in between. It is cancelled with its connection, and a new one contains
all: a new leader has its followers within milliseconds instead of replica.fetch.wait.max.ms.
"""

import asyncio
from collections import defaultdict
from collections.abc import Callable
from typing import Protocol, TypeVar

from kvorum.broker.replica.fetch_session_client import FetchSessionClient, FollowerFetch, SessionLimits
from kvorum.broker.replica.figures import Figures
from kvorum.broker.replica.follower import Follower, FollowerPhase, Outcome
from kvorum.broker.replica.log_view import SyncLogs
from kvorum.broker.replica.replication_quota import ReplicationQuota
from kvorum.broker.replica.tasks import spawn
from kvorum.broker.replica.types import EARLIEST_TIMESTAMP, LATEST_TIMESTAMP
from kvorum.network.dial import ChannelError
from kvorum.protocol.errors import ErrorCode, KafkaError
from kvorum.protocol.messages.fetch import FetchResponse, PartitionData
from kvorum.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from kvorum.protocol.schema import Message
from kvorum.protocol.topic_partition import TopicPartition
from kvorum.runtime.config import Settings
from kvorum.runtime.logs import first_names, get_logger

log = get_logger("broker")
M = TypeVar("M", bound=Message)

RENEW_DELAY_MS = 2
"""Delay between a new partition and the cancellation of the waiting poll: the rest of the same delta is included."""


class LeaderChannel(Protocol):
    """Interface of network.channel.Channel for a fetcher."""

    async def ask(self, message: Message, response: type[M], *, timeout_ms: int) -> M:
        """Send a request and return its answer. Raises ChannelError, KafkaError."""
        ...

    async def close(self) -> None:
        """Close; waiting requests get ConnectionLost."""
        ...


class Unsettles:
    """Marks a partition for inspection when it changes by itself: its log start by retention, its role by metadata."""

    __slots__ = ("_key", "_unsettled")

    def __init__(self, key: TopicPartition, unsettled: dict[TopicPartition, None]) -> None:
        """Note `key` in `unsettled`."""
        self._key = key
        self._unsettled = unsettled

    def wake(self) -> None:
        """See Watcher."""
        self._unsettled[self._key] = None


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
        quota: ReplicationQuota,
    ) -> None:
        """`open_channel` opens a channel to a broker; `on_advanced` is called after each successful row.

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
        self._quota = quota
        self._holds_back = False
        """Whether partitions were left out of the last round because of the quota."""
        self._unsynced: dict[TopicPartition, None] = {}
        """Appended with flush.messages set: they need a sync before the next fetch reports them to the leader."""
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
        self._unsettled: dict[TopicPartition, None] = {}
        """Partitions whose entry in the session's last request may have to change."""
        self._watches: dict[TopicPartition, Unsettles] = {}
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
        """Start to fetch."""
        self._task = spawn(f"fetcher-{self.leader_id}", self._run())

    def add(self, followers: dict[TopicPartition, Follower]) -> None:
        """Fetch these partitions as well, from now on."""
        for key, follower in followers.items():
            self.remove(key)
            self.followers[key] = follower
            self._watches[key] = Unsettles(key, self._unsettled)
            self._note_unsynced(key, follower)
        self._wake.set()
        if self._is_polling and self._renewal is None:
            loop = asyncio.get_running_loop()
            self._renewal = loop.call_later(RENEW_DELAY_MS / 1000, self._renew, self._polls)

    def remove(self, key: TopicPartition) -> Follower | None:
        """Stop fetching it. A response in flight is ignored."""
        follower = self.followers.pop(key, None)
        if follower is not None:
            follower.partition.watchers.remove(self._watches.pop(key))
        self._unsettled[key] = None
        return follower

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
                # The next fetch confirms the records to the leader. A failed disk removes its replicas.
                unsynced, self._unsynced = self._unsynced, {}
                await self._sync(unsynced)
            now_ms = self._now_ms()
            if resetting := self._settle(now_ms):
                await self._reset(resetting)
            elif self._session.requested:
                await self._fetch()
            else:
                await self._wait(now_ms)

    def _settle(self, now_ms: int) -> list[Follower]:
        """Add all ready partitions, and no others, to the session's request.

        Return those that need the leader's range.
        """
        resetting: list[Follower] = []
        quota = self._quota
        exceeded, self._holds_back = bool(quota.throttled) and quota.is_exceeded(now_ms), False
        if exceeded:
            self._unsettled.update((key, None) for key in self.followers if quota.is_throttled(*key))
        unsettled = tuple(self._unsettled)
        self._unsettled.clear()
        for key in unsettled:
            follower = self.followers.get(key)
            if follower is None:
                self._session.ask(key, None)
                continue
            follower.partition.watchers.add(self._watches[key])
            if follower.is_ready(FollowerPhase.FETCHING, now_ms):
                # No throttle takes a replica out of the ISR.
                held_back = exceeded and quota.is_throttled(*key) and not follower.is_in_sync
                self._session.ask(key, None if held_back else self._follower_fetch(follower))
                if held_back:
                    self._holds_back, self._unsettled[key] = True, None
                continue
            self._session.ask(key, None)
            if follower.is_ready(FollowerPhase.RESETTING, now_ms):
                resetting.append(follower)
            if follower.phase is not FollowerPhase.AWAITING_METADATA and follower.log is not None:
                self._unsettled[key] = None  # it will be ready, in time
        return resetting

    async def _wait(self, now_ms: int) -> None:
        """Wait until a back-off ends, the quota may allow more, or the partitions change."""
        delayed = (self.followers.get(key) for key in self._unsettled)
        dues = [each.not_before_ms for each in delayed if each is not None and each.not_before_ms is not None]
        if self._holds_back:
            dues.append(now_ms + self._backoff_ms)
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

    async def _fetch(self) -> None:
        """Send one fetch and handle its rows."""
        request = self._session.request(self._broker_epoch())
        self._polls += 1
        self._is_polling, self._is_given_up = True, False
        try:
            response = await self._connected().ask(request, FetchResponse, timeout_ms=self._timeout_ms)
        except (ChannelError, KafkaError) as error:
            if self._is_given_up:
                self._session.reset()
                return
            if not self._is_failing:
                # Not once per attempt: a dead leader is retried until the metadata name another.
                log.info("fetch from leader failed", leader=self.leader_id, error=error)
            self._is_failing = True
            self._session.reset()
            self._delay_all(ErrorCode.NETWORK_EXCEPTION)
            return
        finally:
            self._is_polling = False
        if self._is_failing:
            log.info("fetch from leader resumed", leader=self.leader_id)
            self._is_failing = False
        rows = self._session.response(response)
        if isinstance(rows, ErrorCode):
            log.info("fetch session ended", leader=self.leader_id, error=rows.name)
            if rows not in SESSION_ERRORS:
                self._delay_all(rows)
            return
        notable: dict[str, list[TopicPartition]] = defaultdict(list)
        for key, row in rows:
            self._unsettled[key] = None
            outcome = self._handle(key, self._session.requested[key], row)
            if outcome in NOTABLE:
                notable[NOTABLE[outcome]].append(key)
        for message, keys in notable.items():
            log.info(message, leader=self.leader_id, partitions=len(keys), first=first_names(keys))

    def _delay_all(self, error: ErrorCode) -> None:
        """Delay all requested partitions by their back-off."""
        now_ms = self._now_ms()
        for key in self._session.requested:
            follower = self.followers.get(key)
            if follower is not None:
                follower.delay(error, now_ms)
                self._unsettled[key] = None

    def _follower_fetch(self, follower: Follower) -> FollowerFetch:
        offset, epoch, start = follower.fetch_position()
        topic_id = follower.partition.topic_id
        return FollowerFetch(topic_id, offset, follower.leader_epoch, epoch, start, self._fetch_bytes_max)

    def _handle(self, key: TopicPartition, requested: FollowerFetch, row: PartitionData) -> Outcome:
        follower = self.followers.get(key)
        if follower is None or follower.leader_epoch != requested.current_leader_epoch:
            return Outcome.IGNORED
        if follower.partition.topic_id != requested.topic_id:
            # The topic was recreated: name, leader, epoch and offset may all equal those of the old topic.
            return Outcome.IGNORED
        try:
            outcome = follower.on_fetched(requested.fetch_offset, row, self._now_ms())
        except KafkaError as error:
            log.error("fetched records not appended", partition=key, leader=self.leader_id, error=error)
            follower.delay(error.code, self._now_ms())
            return Outcome.DELAYED
        match outcome:
            case Outcome.APPENDED:
                self._note_unsynced(key, follower)
                records = row.records
                size = len(records) if isinstance(records, memoryview) else 0
                self._figures.replication_bytes_in.add(size)
                if self._broker_id in follower.partition.adding_replicas:
                    self._figures.reassignment_bytes_in.add(size)
                if self._quota.throttled and self._quota.is_throttled(*key):
                    self._quota.note(size, self._now_ms())
                # To the end of the line: the next full request begins with the others.
                self.followers[key] = self.followers.pop(key)
                self._on_advanced(follower)
            case Outcome.NOTHING_NEW:
                self._on_advanced(follower)
            case Outcome.TRUNCATED:
                end_offset = follower.fetch_position()[0]
                log.debug("log truncated", partition=key, leader=self.leader_id, end_offset=end_offset)
            case Outcome.OUT_OF_RANGE | Outcome.FENCED:
                log.debug("fetch rejected", partition=key, leader=self.leader_id, outcome=outcome.value)
            case Outcome.DELAYED:
                error_name = follower.last_error.name if follower.last_error is not None else ""
                log.debug("fetch retried", partition=key, leader=self.leader_id, error=error_name)
            case Outcome.IGNORED:
                pass
        return outcome

    def _note_unsynced(self, key: TopicPartition, follower: Follower) -> None:
        if follower.log is not None and follower.log.is_sync_due:
            self._unsynced[key] = None

    async def _reset(self, followers: list[Follower]) -> None:
        """Query the leader's log ranges, and leave RESETTING with them."""
        ends = await self._offsets(followers, LATEST_TIMESTAMP)
        starts = await self._offsets(followers, EARLIEST_TIMESTAMP)
        for follower in followers:
            key = follower.partition.topic_partition
            end, start = ends.get(key, ErrorCode.NETWORK_EXCEPTION), starts.get(key, ErrorCode.NETWORK_EXCEPTION)
            if isinstance(end, ErrorCode):
                follower.on_leader_range_error(end, self._now_ms())
                continue
            if isinstance(start, ErrorCode):
                follower.on_leader_range_error(start, self._now_ms())
                continue
            try:
                follower.on_leader_range(start.offset, start.leader_epoch, end.offset)
            except KafkaError as error:
                follower.delay(error.code, self._now_ms())
                continue
            log.warning(
                "fetch offset reset to the leader's range",
                partition=key,
                leader=self.leader_id,
                start=start.offset,
                end=end.offset,
            )

    async def _offsets(
        self, followers: list[Follower], timestamp: int
    ) -> dict[TopicPartition, ListOffsetsPartitionResponse | ErrorCode]:
        """Return the leader's ListOffsets rows; empty if the request failed."""
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
            TopicPartition(topic.name, row.partition_index): ErrorCode(row.error_code) if row.error_code else row
            for topic in response.topics
            for row in topic.partitions
        }


NOTABLE = {
    Outcome.TRUNCATED: "logs truncated to the leader's logs",
    Outcome.OUT_OF_RANGE: "fetch offsets out of the leader's range",
    Outcome.FENCED: "fetches rejected, leader epoch is stale",
}
"""Outcomes with a log line at INFO: one per response, for all its partitions."""
SESSION_ERRORS = frozenset(
    {
        ErrorCode.FETCH_SESSION_ID_NOT_FOUND,
        ErrorCode.INVALID_FETCH_SESSION_EPOCH,
        ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR,
    }
)
"""The next full request creates a new session, so no back-off is needed."""
