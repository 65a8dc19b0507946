"""All logs of a broker over its log directories (Kafka's LogManager).

    start                        lock the directories, open every log (recovery in threads, a few at a time)
    get_log, get_or_create, delete, logs
    sync                         before the response to an append that flush.messages requires to be synced
    flush_dirty, apply_retention, purge_deleted, expire_producers,
    checkpoint_recovery_points, checkpoint_log_start_offsets, checkpoint_high_watermarks
                                 periodic work, called by the broker (see each for its config)
    shutdown                     close all logs, write the checkpoints, and last the clean-shutdown markers

The parts: log_table (the logs), log_opening, log_syncs, log_removal, directory_checkpoints, and the cleaner, which runs
independently.

Runs on one event loop. Syncs run in a thread and hold the table's `disk_work`, so that they do not overlap and no file
is removed during one; they run to their end even if the caller is cancelled, and a shutdown waits for them. A disk
error takes the whole directory offline: its logs return KAFKA_STORAGE_ERROR from then on, and `on_offline` is called
once with the directory's path, on the event loop.
"""

import asyncio
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from random import Random
from typing import Final, NoReturn

from kvorum.protocol.errors import ErrorCode, KafkaError
from kvorum.protocol.topic_partition import TopicPartition
from kvorum.protocol.uuids import ZERO_UUID, Uuid
from kvorum.runtime import blocking
from kvorum.runtime.clock import Clock
from kvorum.runtime.config import Settings
from kvorum.runtime.disk import Disk
from kvorum.runtime.logs import get_logger
from kvorum.storage.checkpoints import (
    HIGH_WATERMARKS,
    LOG_START_OFFSETS,
    NO_BROKER_EPOCH,
    RECOVERY_POINTS,
    sync_partition_metadata,
    write_partition_metadata,
)
from kvorum.storage.cleaner.hosts import OpenHost, open_host
from kvorum.storage.cleaner.manager import LogCleaner
from kvorum.storage.damage import Lack, remove_lack
from kvorum.storage.directory_checkpoints import DirectoryCheckpoints, write_at_shutdown
from kvorum.storage.future_logs import FutureLogs
from kvorum.storage.log import Log
from kvorum.storage.log_config import LogConfig
from kvorum.storage.log_dir import LogDir
from kvorum.storage.log_opening import LogOpening
from kvorum.storage.log_removal import IsAssigned, IsStray, LogRemoval
from kvorum.storage.log_syncs import LogSyncs
from kvorum.storage.log_table import LogTable
from kvorum.storage.names import DELETE_FOLDER_SUFFIX, STRAY_FOLDER_SUFFIX
from kvorum.storage.recovery import LogDirectoryError
from kvorum.storage.tail import TailBudget

ALL_DIRECTORIES: Final = "*"
PREFERRED_MAX: Final = 100_000
"""Directories of logs that do not exist yet: as many as a large reassignment names."""

log = get_logger("storage")


class LogManager:
    """See the module."""

    def __init__(
        self,
        disk: Disk,
        clock: Clock,
        settings: Settings,
        *,
        topic_config: Callable[[str], LogConfig] | None = None,
        on_offline: Callable[[str, Exception], None] | None = None,
        on_flush: Callable[[float], None] | None = None,
        cluster_id: str | None = None,
        tail_budget: TailBudget | None = None,
    ) -> None:
        """Use the directories of log.dirs.

        `topic_config` returns a topic's configuration (default: the broker's). `on_flush` is called after each sync of
        a log with the seconds it took (Kafka's LogFlushRateAndTimeMs); both callbacks on the event loop.
        """
        self._disk = disk
        self._clock = clock
        self._settings = settings
        default_config = LogConfig.from_overrides({}, settings)
        self._topic_config = topic_config or (lambda topic: default_config)
        self._cluster_id = cluster_id
        paths = dict.fromkeys(settings.list("log.dirs"))
        self._table = LogTable([LogDir(disk, path) for path in paths], on_offline)
        self._disk_work = self._table.disk_work
        self._opening = LogOpening(disk, clock, settings, self._table, self._topic_config, tail_budget)
        self._checkpoints = DirectoryCheckpoints(disk, self._table)
        self._removal = LogRemoval(disk, clock, self._table, self._checkpoints)
        self._syncs = LogSyncs(self._table, on_flush)
        self.futures = FutureLogs(
            *(disk, self._table, self._opening, self._removal, self._syncs, self._checkpoints, clock),
            self._topic_config,
        )

    @property
    def dirs(self) -> list[LogDir]:
        """The log directories, in the order of log.dirs."""
        return list(self._table.dirs)

    @property
    def previous_broker_epoch(self) -> int:
        """The broker epoch of the last process if it shut down cleanly in every directory, else -1 (KIP-966).

        Also -1 if any log was found damaged since.
        """
        epochs = {each.previous_broker_epoch for each in self._table.dirs}
        is_whole = not any(each.had_damage for each in self._table.dirs)
        return epochs.pop() if len(epochs) == 1 and is_whole else NO_BROKER_EPOCH

    async def start(self) -> None:
        """Open everything.

        A directory that fails goes offline; the others continue.

        Raises CheckpointError for a directory of another process, node or cluster: the node must not start. May be
        cancelled at any point; `shutdown` follows.
        """
        self._table.begin()
        node_id = self._settings.int("node.id")
        for directory in self._table.dirs:
            try:
                directory.open(self._cluster_id, None if node_id < 0 else node_id)
            except OSError as error:
                if not self._table.disk_failed(directory, error):
                    raise
        async with asyncio.TaskGroup() as group:
            for directory in self._table.dirs:
                if directory.is_online:
                    group.create_task(self._opening.open_all(directory))
        for directory in self._table.dirs:
            if directory.is_loaded:
                self._opening.note_missing(directory)
        await self._checkpoints.drop_deleted_rows()

    # Logs

    def get_log(self, partition: TopicPartition) -> Log | None:
        """Return the log, None if there is none here. It may be in an offline directory."""
        return self._table.get(partition)

    def logs(self) -> Iterator[Log]:
        """Go through a copy of all logs."""
        return self._table.logs()

    def dir_of(self, partition: TopicPartition) -> LogDir | None:
        """Return the directory of a partition's log."""
        return self._table.dir_of(partition)

    def logs_in(self, directory: LogDir) -> list[Log]:
        """Return the logs of a directory."""
        return self._table.logs_in(directory)

    def get_or_create(self, partition: TopicPartition, topic_id: Uuid, named: Uuid = ZERO_UUID) -> Log:
        """Return the partition's log; create it if it does not exist.

        A new log is created in the requested directory (`prefer`), else in the directory that is `named`, if it is
        online, else in the one with the fewest logs.

        Raises KafkaError KAFKA_STORAGE_ERROR (every directory is offline, or the disk fails), INCONSISTENT_TOPIC_ID
        (the log that is there belongs to another topic of that name).
        """
        existing = self._table.get(partition)
        if existing is not None:
            self._forget_lack(existing)
            if existing.topic_id == ZERO_UUID:
                self._set_topic_id(existing, topic_id)
            if existing.topic_id != topic_id:
                text = f"the log of {partition} has topic id {existing.topic_id}, not {topic_id}"
                raise KafkaError(ErrorCode.INCONSISTENT_TOPIC_ID, text)
            return existing
        if partition in self._table.arriving:
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, f"the log of {partition} is being created")
        directory = self._table.place_for(partition, named)
        if directory is None:
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, "no log directory is online")
        try:
            directory.forget(partition)
            created = self._opening.open(directory, partition, self._topic_config(partition.topic), topic_id)
            write_partition_metadata(self._disk, created.folder, topic_id)
        except (OSError, LogDirectoryError) as error:
            self._table.disk_failed(directory, error)
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, f"{partition}: {error}") from error
        self._table.add(directory, created)
        self._table.preferred.pop(partition, None)
        self._table.lacking.pop(partition, None)
        return created

    async def create(self, partition: TopicPartition, topic_id: Uuid, named: Uuid = ZERO_UUID) -> Log:
        """Return the log of a partition that has none yet, as `get_or_create`, with its topic id durable.

        Its files are created and synced in a thread. Raises KafkaError KAFKA_STORAGE_ERROR.
        """
        await self._opening.create(partition, topic_id, named)
        return self.get_or_create(partition, topic_id)

    def lack_of(self, partition: TopicPartition) -> Lack:
        """Return the records that a partition's log lacks; NOTHING once `get_or_create` has returned it."""
        return self._table.lacking.get(partition, Lack.NOTHING)

    def _forget_lack(self, existing: Log) -> None:
        if self._table.lacking.pop(existing.partition, None) is not None:
            try:
                remove_lack(self._disk, existing.folder)
            except OSError as error:
                self._io_failed(existing, error)

    def _set_topic_id(self, existing: Log, topic_id: Uuid) -> None:
        try:
            write_partition_metadata(self._disk, existing.folder, topic_id)
        except OSError as error:
            self._io_failed(existing, error)
        existing.topic_id = topic_id
        existing.is_topic_id_durable = False

    def _io_failed(self, existing: Log, error: OSError) -> NoReturn:
        directory = self._table.dir_of(existing.partition)
        assert directory is not None, "a log of the table is in a directory"
        self._table.disk_failed(directory, error)
        raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, f"{existing.partition}: {error}") from error

    async def sync_topic_id(self, found: Log) -> None:
        """Make a log's topic id durable, in a thread.

        Called before the first append to the log.

        A log that loses its id in a power failure would be accepted for any topic of its name: its records, if the page
        cache was written, would become those of a recreated topic. Raises KafkaError KAFKA_STORAGE_ERROR.
        """
        directory = self._table.dir_of(found.partition)
        if found.is_topic_id_durable or directory is None:
            return
        try:
            await blocking.run(asyncio.get_running_loop(), sync_partition_metadata, self._disk, found.folder)
        except OSError as error:
            self._table.disk_failed(directory, error)
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, f"{found.partition}: {error}") from error
        if found.failure is not None:
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, f"{found.partition}: {found.failure}")
        found.is_topic_id_durable = True

    def make_cleaner(self, settings: Settings, chance: Random, open_host: OpenHost = open_host) -> LogCleaner:
        """Return the log cleaner; the caller starts it after the logs and closes it before them."""
        return LogCleaner(self._disk, self._clock, self._table, self._checkpoints, settings, chance, open_host)

    def update_topic_config(self, topic: str, config: LogConfig) -> None:
        """Set the new configuration of a topic's logs."""
        for each in self._table.all_logs():
            if each.partition.topic == topic:
                each.config = config

    def raise_min_isr(self, minimums: Mapping[str, int]) -> None:
        """Increase the configuration of logs: {topic: min.insync.replicas}; lower values are ignored."""
        for each in self._table.all_logs():
            minimum = minimums.get(each.partition.topic, 0)
            if minimum > each.config.min_insync_replicas:
                each.config = replace(each.config, min_insync_replicas=minimum)

    async def delete(self, *partitions: TopicPartition) -> None:
        """Take logs away: unusable at once, the folders renamed, removed after file.delete.delay.ms.

        Waits for a sync under way. A log that is not there is fine, one in an offline directory is only forgotten.
        """
        await self.futures.remove(*partitions)
        await self._removal.rename_away(partitions, DELETE_FOLDER_SUFFIX)

    async def set_aside_stray(self, *partitions: TopicPartition) -> None:
        """Rename folders of logs that the metadata does not know (`-stray`): they are kept for a person to look at."""
        await self._removal.rename_away(partitions, STRAY_FOLDER_SUFFIX)

    async def settle_rivals(self, is_stray: IsStray, is_assigned: IsAssigned = lambda each, place: False) -> None:
        """Resolve logs of one partition in two directories: see LogRemoval."""
        await self._removal.settle_rivals(is_stray, is_assigned)

    def directory(self, path: str) -> LogDir | None:
        """Return the log directory of this path, online or not; None if log.dirs has none."""
        return next((each for each in self._table.dirs if each.path == path), None)

    def prefer(self, partition: TopicPartition, directory: LogDir) -> None:
        """Set the directory in which a log is created; no effect if it exists there.

        Forgotten with the process, as in Kafka, and when PREFERRED_MAX others are remembered.
        """
        if directory in (self._table.dir_of(partition), self.futures.dir_of(partition)):
            return
        if len(self._table.preferred) < PREFERRED_MAX or partition in self._table.preferred:
            self._table.preferred[partition] = directory

    def cordon(self, paths: Collection[str]) -> None:
        """Create no new logs in these directories; ALL_DIRECTORIES means all (cordoned.log.dirs, KIP-1066)."""
        self._table.cordoned = frozenset(each.path for each in self._table.dirs if paths_hold(paths, each.path))

    def cordoned_ids(self) -> list[Uuid]:
        """Return the ids of the cordoned directories that are online."""
        return [each.directory_id for each in self._table.dirs if each.is_online and self.is_cordoned(each)]

    def is_cordoned(self, directory: LogDir) -> bool:
        """Return whether it gets no new logs."""
        return directory.path in self._table.cordoned

    def stray_logs(self, is_stray: Callable[[Log], bool]) -> list[TopicPartition]:
        """Return the partitions whose logs are strays for the caller (their topic id does not exist any more)."""
        return [each.partition for each in self._table.logs() if is_stray(each)]

    async def sync(self, partitions: Collection[TopicPartition]) -> set[TopicPartition]:
        """Sync all appended records of these logs, off the loop: flush.messages' part of an append.

        Returns the partitions whose sync failed (respond with KAFKA_STORAGE_ERROR): the disk failed, or the log was
        removed. Many callers share one sync. It waits for other work on the disk: checkpoints, removals.
        """
        return await self._syncs.sync(partitions)

    # Periodic work

    async def flush_dirty(self, now_ms: int) -> None:
        """Sync rolled segments, and records older than flush.ms. Called about every second: a roll waits for it."""
        await self._syncs.flush_dirty(now_ms)

    def apply_retention(self, now_ms: int) -> int:
        """Drop old segments (log.retention.check.interval.ms); return how many. Their files go with purge_deleted.

        A log that is being cleaned has its turn when that is done.
        """
        deleted = 0
        for each in self._table.all_logs():
            if each.failure is None and not each.cleaning.is_in_progress:
                try:
                    deleted += each.delete_old_segments(now_ms)
                except KafkaError as error:
                    log.warning("retention failed", partition=each.partition, error=error)
        return deleted

    async def purge_deleted(self, now_ms: int) -> None:
        """Remove files and folders whose file.delete.delay.ms is over, in a thread."""
        await self._removal.purge(now_ms)

    def expire_producers(self, now_ms: int) -> None:
        """Forget idle producers (producer.id.expiration.check.interval.ms)."""
        for each in self._table.logs():
            each.producers.expire(now_ms)

    async def checkpoint_recovery_points(self) -> None:
        """Write every directory's recovery points (log.flush.offset.checkpoint.interval.ms)."""
        await self._checkpoints.write_all(RECOVERY_POINTS)

    async def checkpoint_log_start_offsets(self) -> None:
        """Write every directory's log start offsets (log.flush.start.offset.checkpoint.interval.ms)."""
        await self._checkpoints.write_all(LOG_START_OFFSETS)

    async def checkpoint_high_watermarks(self) -> None:
        """Write every directory's high watermarks (replica.high.watermark.checkpoint.interval.ms)."""
        await self._checkpoints.write_all(HIGH_WATERMARKS)

    async def shutdown(self, broker_epoch: int = NO_BROKER_EPOCH, *, is_clean: bool = True) -> None:
        """Close every log, write the checkpoints, and finally mark each directory as cleanly shut down.

        A directory with any failure gets no mark. One whose logs were not all opened keeps the checkpoints and
        the mark that it had before the start: nothing was appended. Without `is_clean` (appends may still happen)
        no directory gets a mark or checkpoints. The locks are released.
        """
        await self._opening.close()
        async with self._disk_work:
            self._table.is_closed = True
            loop = asyncio.get_running_loop()
            for directory in self._table.dirs:
                logs = self._table.open_logs_in(directory)
                try:
                    if directory.is_online and directory.is_loaded:
                        await blocking.run(loop, close_logs, logs)
                    if directory.is_online and directory.is_open and is_clean:
                        has_gone = Lack.ALL in self._table.lacking.values()
                        await blocking.run(loop, write_at_shutdown, self._disk, directory, logs, broker_epoch, has_gone)
                except (OSError, KafkaError) as error:
                    self._table.take_offline(directory, error)
                for each in logs:
                    each.abandon(KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, "the broker is shut down"))
                    each.release()
                directory.unlock()
            self._removal.release()


def paths_hold(paths: Collection[str], path: str) -> bool:
    """Return whether a setting contains a path; it may be ALL_DIRECTORIES."""
    return ALL_DIRECTORIES in paths or path in paths


def close_logs(logs: Sequence[Log]) -> None:
    """Close logs cleanly. Raises KafkaError KAFKA_STORAGE_ERROR at the first whose disk fails."""
    for each in logs:
        each.close()
