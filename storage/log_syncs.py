"""Syncs logs off the event loop: periodically (flush.ms, rolled segments), and before the response to an append.

A response delayed by flush.messages waits in `sync`. The first caller to get the disk syncs all logs with waiters, each
in a thread, so the others find their records synced at their turn: many waiters, one fdatasync.
"""

import asyncio
from collections.abc import Callable, Collection

from kvorum.protocol.errors import KafkaError
from kvorum.protocol.topic_partition import TopicPartition
from kvorum.runtime import blocking
from kvorum.runtime.logs import get_logger
from kvorum.storage.log import Log
from kvorum.storage.log_flush import FlushPlan
from kvorum.storage.log_table import LogTable

log = get_logger("storage")


class LogSyncs:
    """For the logs of a table. A sync runs to its end even if its caller is cancelled."""

    def __init__(self, table: LogTable, on_flush: Callable[[float], None] | None) -> None:
        """`on_flush` is called on the event loop with the seconds that each sync of a log took off it."""
        self._table = table
        self._on_flush = on_flush
        self._wanted: dict[Log, None] = {}
        """Logs with a requested `sync` that has not begun, in order. At most the number of logs."""
        self._unsynced: set[Log] = set()
        """Logs whose last sync failed because of missing descriptors or memory."""

    async def flush_dirty(self, now_ms: int) -> None:
        """Sync everything that is due (wall ms): rolled segments, and whole logs by flush.ms.

        Release the waiters.

        Whole logs by flush.messages as well, if they have no waiter: a smaller value was configured since the append.
        """
        for each in self._table.all_logs():
            if each.durability.is_flush_due(now_ms):
                await asyncio.shield(self._flush_due(each, now_ms))
            if each.retention.is_waiting and each.failure is None and not each.cleaning.is_in_progress:
                self._drop_what_waited(each, now_ms)

    def _drop_what_waited(self, each: Log, now_ms: int) -> None:
        try:
            each.delete_old_segments(now_ms)
        except KafkaError as error:
            log.warning("retention failed", partition=each.partition, error=error)

    async def _flush_due(self, each: Log, now_ms: int) -> None:
        async with self._table.disk_work:
            await self._flush(each, include_active=each.durability.is_flush_ms_over(now_ms) or each.is_sync_due)

    async def sync(self, partitions: Collection[TopicPartition]) -> set[TopicPartition]:
        """Sync everything appended to these logs so far.

        Returns the partitions whose sync failed: the disk failed, or the log was removed. If a log was replaced by its
        copy meanwhile, the copy is synced.
        """
        found = {partition: self._table.get(partition) for partition in partitions}
        logs = [each for each in found.values() if each is not None]
        self._wanted.update(dict.fromkeys(logs))
        await asyncio.shield(self._sync_wanted(logs))
        failed = {
            partition
            for partition, each in found.items()
            if each is None or each.failure is not None or each in self._unsynced
        }
        moved = {partition for partition in failed if self._has_moved(partition, found[partition])}
        return failed - moved | (await self.sync(moved) if moved else set())

    def _has_moved(self, partition: TopicPartition, each: Log | None) -> bool:
        """Return whether another log has replaced that of the partition: of the same topic, and thus a copy."""
        now = self._table.get(partition)
        return each is not None and now is not None and now is not each and now.topic_id == each.topic_id

    async def _sync_wanted(self, logs: list[Log]) -> None:
        async with self._table.disk_work:
            # None of them is left: another caller has synced them, and started after they were requested.
            if self._wanted.keys().isdisjoint(logs):
                return
            wanted, self._wanted = self._wanted, {}
            await asyncio.gather(*[self._flush(each, include_active=True) for each in wanted])

    async def sync_whole(self, each: Log) -> None:
        """Sync everything appended to one log so far. Holds `disk_work`."""
        await self._flush(each, include_active=True)

    async def _flush(self, each: Log, *, include_active: bool) -> None:
        """Sync one log in a thread. A disk that fails takes the directory offline. Holds `disk_work`."""
        self._unsynced.discard(each)
        if each.failure is not None:
            return
        loop = asyncio.get_running_loop()
        plan: FlushPlan | None = None
        try:
            plan = each.begin_flush(include_active=include_active)
            began = loop.time()
            await blocking.run(loop, plan.run)
            if self._on_flush is not None:
                self._on_flush(loop.time() - began)
            if each.failure is None:
                each.complete_flush(plan)
        except OSError as error:
            directory = self._table.place_of(each)
            if directory is None or each.failure is not None:
                return
            if not self._table.disk_failed(directory, error):
                self._unsynced.add(each)
                if plan is not None:
                    each.abort_flush(plan)
        except KafkaError as failure:
            if each.failure is None:
                self._unsynced.add(each)
            log.warning("flush failed", partition=each.partition, error=failure)
