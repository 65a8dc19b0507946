"""One fetcher a leader, made with its first partition, closed after its last. Source: Kafka's ReplicaFetcherManager."""

import asyncio
from collections.abc import Callable, Iterable, Iterator
from itertools import chain

from kvorum.broker.replica.fetcher import ReplicaFetcher
from kvorum.broker.replica.figures import Figures
from kvorum.broker.replica.follower import Follower
from kvorum.broker.replica.log_view import SyncLogs
from kvorum.broker.replica.partition import Partition
from kvorum.broker.replica.replication_quota import ReplicationQuota
from kvorum.broker.replica.tasks import spawn
from kvorum.broker.replica.types import NO_LEADER
from kvorum.network.channel import Channel
from kvorum.protocol.topic_partition import TopicPartition
from kvorum.runtime.clock import Clock
from kvorum.runtime.config import Settings


class FetcherManager:
    """Owns the fetchers, one per leader."""

    def __init__(
        self,
        *,
        broker_id: int,
        settings: Settings,
        broker_epoch: Callable[[], int],
        open_channel: Callable[[int], Channel],
        clock: Clock,
        on_advanced: Callable[[Follower], None],
        figures: Figures,
        sync: SyncLogs,
        quota: ReplicationQuota,
    ) -> None:
        """See ReplicaFetcher for the arguments."""
        self._broker_id = broker_id
        self._settings = settings
        self._broker_epoch = broker_epoch
        self._open_channel = open_channel
        self._clock = clock
        self._on_advanced = on_advanced
        self._figures = figures
        self._sync = sync
        self._quota = quota
        self._fetchers: dict[int, ReplicaFetcher] = {}
        self._leader_of: dict[TopicPartition, int] = {}
        self._closing: set[asyncio.Task[None]] = set()

    def follow(self, partitions: Iterable[Partition]) -> None:
        """Fetch these from their present leaders; those without a leader wait for metadata."""
        added: dict[int, dict[TopicPartition, Follower]] = {}
        for partition in partitions:
            self._forget(partition.topic_partition)
            if partition.leader_id != NO_LEADER:
                follower = Follower(partition, self._settings.int("replica.fetch.backoff.ms"))
                added.setdefault(partition.leader_id, {})[partition.topic_partition] = follower
                self._leader_of[partition.topic_partition] = partition.leader_id
        for leader_id, followers in added.items():
            self._fetcher(leader_id).add(followers)
        self._close_idle()

    def stop(self, keys: Iterable[TopicPartition]) -> None:
        """Stop fetching these; idempotent."""
        for key in keys:
            self._forget(key)
        self._close_idle()

    def is_following(self, key: TopicPartition) -> bool:
        """Return whether a partition is fetched."""
        return key in self._leader_of

    def followers(self) -> Iterator[Follower]:
        """Iterate over all followed partitions, by leader. The set must not change meanwhile."""
        return chain.from_iterable(fetcher.followers.values() for fetcher in self._fetchers.values())

    async def close(self) -> None:
        """Stop all."""
        for leader_id in tuple(self._fetchers):
            self._close(leader_id)
        self._leader_of.clear()
        if self._closing:
            await asyncio.wait(tuple(self._closing))

    def _forget(self, key: TopicPartition) -> None:
        leader_id = self._leader_of.pop(key, None)
        if leader_id is not None:
            self._fetchers[leader_id].remove(key)

    def _fetcher(self, leader_id: int) -> ReplicaFetcher:
        fetcher = self._fetchers.get(leader_id)
        if fetcher is None:
            fetcher = self._fetchers[leader_id] = ReplicaFetcher(
                broker_id=self._broker_id,
                leader_id=leader_id,
                settings=self._settings,
                broker_epoch=self._broker_epoch,
                open_channel=self._open_channel,
                now_ms=self._clock.monotonic_ms,
                on_advanced=self._on_advanced,
                figures=self._figures,
                sync=self._sync,
                quota=self._quota,
            )
            fetcher.start()
        return fetcher

    def _close_idle(self) -> None:
        for leader_id, fetcher in tuple(self._fetchers.items()):
            if not fetcher.followers:
                self._close(leader_id)

    def _close(self, leader_id: int) -> None:
        closing = spawn(f"fetcher-{leader_id}-close", self._fetchers.pop(leader_id).close())
        self._closing.add(closing)
        closing.add_done_callback(self._closing.discard)
