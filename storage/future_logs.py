"""Future logs: copies of logs in another directory of the same broker, which will replace them (KIP-113).

    create    the folder `topic-N.<32 hex digits>-future`, empty
    promote   the copy's folder becomes `topic-N`, the log's `topic-N.<...>-delete`; in the table the copy is the log
    remove    the copy is dropped: its folder is renamed for deletion

broker/replica decides on the content of a copy and on its promotion. A copy is opened at a start like a log, and its
move continues.

The order of a promotion limits the states after a crash: the copy is synced, then it gets the name, then the log loses
it. In between both have the name, and the next start keeps the one in the directory of the metadata: the controller was
informed of the move before (KIP-858). Source: Kafka's LogManager.replaceCurrentWithFutureLog.
"""

import asyncio
from collections.abc import Callable
from typing import Final, TypeAlias

from kvorum.protocol.errors import ErrorCode, KafkaError
from kvorum.protocol.topic_partition import TopicPartition
from kvorum.protocol.uuids import Uuid
from kvorum.runtime import blocking, failpoints
from kvorum.runtime.clock import Clock
from kvorum.runtime.disk import Disk
from kvorum.runtime.logs import get_logger
from kvorum.storage.checkpoints import sync_partition_metadata, write_partition_metadata
from kvorum.storage.damage import remove_lack
from kvorum.storage.directory_checkpoints import DirectoryCheckpoints
from kvorum.storage.log import Log
from kvorum.storage.log_config import LogConfig
from kvorum.storage.log_dir import LogDir
from kvorum.storage.log_opening import LogOpening
from kvorum.storage.log_removal import LogRemoval
from kvorum.storage.log_syncs import LogSyncs
from kvorum.storage.log_table import LogTable
from kvorum.storage.names import FOLDER_NAME_MAX, STRAY_FOLDER_SUFFIX, future_folder, join
from kvorum.storage.recovery import LogDirectoryError

log = get_logger("storage")

ANY_UNIQUE: Final = "0" * 32

CatchUp: TypeAlias = Callable[[Log, Log], bool]
"""(log, future): appends the missing records."""


def is_name_too_long(partition: TopicPartition) -> bool:
    """Return whether a future log's folder name would be too long (KAFKA-4893)."""
    return len(future_folder(partition, ANY_UNIQUE)) > FOLDER_NAME_MAX


class FutureLogs:
    """Future logs of a table, on the event loop."""

    def __init__(
        self,
        disk: Disk,
        table: LogTable,
        opening: LogOpening,
        removal: LogRemoval,
        syncs: LogSyncs,
        checkpoints: DirectoryCheckpoints,
        clock: Clock,
        topic_config: Callable[[str], LogConfig],
    ) -> None:
        """Start with those found at the start."""
        self._disk = disk
        self._table = table
        self._opening = opening
        self._removal = removal
        self._syncs = syncs
        self._checkpoints = checkpoints
        self._clock = clock
        self._count = 0
        self._topic_config = topic_config

    def get(self, partition: TopicPartition) -> Log | None:
        """Return a partition's future log, None if there is none."""
        _, found = self._table.futures.get(partition, (None, None))
        return found

    def dir_of(self, partition: TopicPartition) -> LogDir | None:
        """Return the directory of a future log."""
        place, _ = self._table.futures.get(partition, (None, None))
        return place

    def keys(self) -> list[TopicPartition]:
        """Return the partitions that have one."""
        return list(self._table.futures)

    async def create(self, partition: TopicPartition, topic_id: Uuid, directory: LogDir) -> Log:
        """Create an empty one with a durable topic id. Raises KafkaError KAFKA_STORAGE_ERROR."""
        assert partition not in self._table.futures, "a partition has one future log at most"
        directory.forget(partition)
        self._count += 1
        unique = f"{self._clock.wall_ms():016x}{self._count:016x}"
        folder = join(directory.path, future_folder(partition, unique))
        try:
            config = self._topic_config(partition.topic)
            created = self._opening.open(directory, partition, config, topic_id, folder)
            write_partition_metadata(self._disk, folder, topic_id)
        except (OSError, LogDirectoryError) as error:
            self._table.disk_failed(directory, error)
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, f"{partition}: {error}") from error
        self._table.futures[partition] = (directory, created)
        self._table.preferred.pop(partition, None)
        async with self._table.disk_work:
            await self._sync_topic_id(directory, created)
        if created.failure is not None:
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, f"{partition}: {created.failure}")
        return created

    async def _sync_topic_id(self, directory: LogDir, each: Log) -> None:
        """Make a copy's topic id durable, whatever its folder's name is by now. Holds `disk_work`."""
        if each.is_topic_id_durable or each.failure is not None:
            return
        try:
            await blocking.run(asyncio.get_running_loop(), sync_partition_metadata, self._disk, each.folder)
            each.is_topic_id_durable = True
        except OSError as error:
            self._table.take_offline(directory, error)

    async def remove(self, *partitions: TopicPartition) -> None:
        """Drop them. A missing one is ignored; one in an offline directory is only removed from the table."""
        found = [each for partition in partitions if (each := self.get(partition)) is not None]
        for each in found:
            each.abandon(KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, f"the future log of {each.partition} is given up"))
        if found:
            await asyncio.shield(self._remove(found))

    async def _remove(self, found: list[Log]) -> None:
        async with self._table.disk_work:
            if self._table.is_closed:
                return
            for each in found:
                place = self._table.place_of(each)
                if place is not None and self.get(each.partition) is each:
                    del self._table.futures[each.partition]
                    self._removal.rename_folder(place, each)
                    await asyncio.sleep(0)
            await self._checkpoints.forget_deleted()

    async def settle(
        self,
        is_stray: Callable[[Log], bool],
        is_assigned: Callable[[Log, LogDir], bool],
        is_counted_on: Callable[[Log], bool] = lambda each: False,
    ) -> None:
        """Resolve copies that changed while the process was down.

        Once, with the first metadata image.

        Strays are removed. A copy whose log is in no directory, all being online, replaces it if it `is_assigned` to
        its own, as in Kafka: the log's directory was removed permanently. Otherwise it is renamed and kept for the
        operator. One that might be elected because of its lost log waits until the controller knows of the loss
        (`take_over`).
        """
        strays = [key for key in self.keys() if (each := self.get(key)) is not None and is_stray(each)]
        await self.remove(*strays)
        if not all(each.is_online for each in self._table.dirs):
            return
        async with self._table.disk_work:
            for key in [key for key in self.keys() if self._table.get(key) is None]:
                place, each = self._table.futures[key]
                if not is_assigned(each, place):
                    log.warning("future log without a log set aside", partition=key, dir=place.path)
                    del self._table.futures[key]
                    self._removal.rename_folder(place, each, STRAY_FOLDER_SUFFIX)
                elif not is_counted_on(each):
                    self._replace_lost(key)

    async def take_over(self, partition: TopicPartition) -> None:
        """Replace a log that is in no directory, all being online, by its future log."""
        async with self._table.disk_work:
            found = self._table.get(partition) is None and partition in self._table.futures
            if found and not self._table.is_closed and all(each.is_online for each in self._table.dirs):
                self._replace_lost(partition)

    def _replace_lost(self, partition: TopicPartition) -> None:
        place, each = self._table.futures.pop(partition)
        log.warning("lost log replaced by its future log", partition=partition, dir=place.path)
        try:
            self._name_as_log(place, each)
            self._table.add(place, each)
        except OSError as error:
            each.release()
            self._table.take_offline(place, error)

    def _name_as_log(self, place: LogDir, each: Log) -> None:
        folder = join(place.path, str(each.partition))
        # A start may have left a mark; the copy has caught up since, or it is the only log.
        remove_lack(self._disk, each.folder)
        self._disk.rename(each.folder, folder)
        each.moved_to(folder)
        failpoints.hit("log.promote.renamed")
        self._disk.sync_dir(place.path)

    def forget_failed(self) -> list[TopicPartition]:
        """Forget those whose directory is offline; return whose they were. They are found again when it works again."""
        failed = [key for key, (place, _) in self._table.futures.items() if not place.is_online]
        for key in failed:
            _, each = self._table.futures.pop(key)
            each.release()
        return failed

    async def promote(self, partition: TopicPartition, catch_up: CatchUp, take: Callable[[Log], None]) -> bool:
        """Replace the log by the future log; return whether that was done.

        `catch_up(log, future)` appends missing batches to the copy, or returns False: not now. It is called before the
        copy is synced and after, and from the second call on nothing suspends until `take(future)` has been called.
        Continues if the caller is cancelled. A disk that fails takes its directory offline.
        """
        return await asyncio.shield(self._promote(partition, catch_up, take))

    async def _promote(self, partition: TopicPartition, catch_up: CatchUp, take: Callable[[Log], None]) -> bool:
        async with self._table.disk_work:
            future, target = self.get(partition), self.dir_of(partition)
            current, source = self._table.get(partition), self._table.dir_of(partition)
            if self._table.is_closed or future is None or target is None or current is None or source is None:
                return False
            if not catch_up(current, future):
                return False
            await self._sync_topic_id(target, future)
            # No sync of the log ends meanwhile: everything it has synced, the copy will have synced.
            await self._syncs.sync_whole(future)
            if self.get(partition) is not future or self._table.get(partition) is not current:
                return False
            if future.failure is not None or current.failure is not None or not catch_up(current, future):
                return False
            _take_over(future, current)
            failpoints.hit("log.promote.before")
            try:
                self._name_as_log(target, future)
            except OSError as error:
                self._table.take_offline(target, error)
                return False
            failpoints.hit("log.promote.synced")
            del self._table.futures[partition]
            self._table.remove(partition)
            self._table.add(target, future)
            take(future)
            current.abandon(KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, f"{partition} moved to another directory"))
            self._removal.rename_folder(source, current)
            failpoints.hit("log.promote.after")
            await self._checkpoints.forget_deleted()
            log.debug("replica moved", partition=partition, source=source.path, target=target.path)
            return True


def _take_over(future: Log, current: Log) -> None:
    """Copy the state that is in no batch to a copy that has reached the log's end."""
    assert future.log_end_offset == current.log_end_offset, "a copy to the end"
    future.epoch_cache.take_over(current.epoch_cache, future.log_start_offset)
    future.producers.take_over(current.producers)
    future.producers.take_snapshot(future.log_end_offset)
    future.cleaning.cleaned_offset = current.cleaning.cleaned_offset
    future.high_watermark = current.high_watermark
