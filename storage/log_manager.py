"""All logs of a broker over its log directories (Kafka's LogManager).

    start                        lock the directories, open every log (recovery in threads, a few at a time)
    get_log, get_or_create, delete, logs
    flush_dirty, apply_retention, purge_deleted, expire_producers,
    checkpoint_recovery_points, checkpoint_log_start_offsets, checkpoint_high_watermarks
                                 duties; the broker calls them by the clock (see each for its config)
    shutdown                     close all logs, write the checkpoints, and last the clean-shutdown markers

Runs on one event loop. What syncs goes to a thread and holds `_disk_work`, so no two such works overlap and no file is
taken away under one; it goes on to its end though its caller is cancelled, and a shutdown waits for it. A disk error
takes the whole directory offline: its logs answer KAFKA_STORAGE_ERROR from then on, and `on_offline` is called once
with the directory's path, on the event loop.
"""

import asyncio
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

from kvorum.protocol.errors import ErrorCode, KafkaError
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
    read_partition_metadata,
    write_partition_metadata,
)
from kvorum.storage.log import Log
from kvorum.storage.log_config import LogConfig
from kvorum.storage.log_dir import LogDir
from kvorum.storage.log_duties import close_logs, offsets_of, write_checkpoint, write_last_words
from kvorum.storage.names import DELETE_FOLDER_SUFFIX, STRAY_FOLDER_SUFFIX, TopicPartition, join, marked_folder
from kvorum.storage.recovery import LogDirectoryError, OpenOptions, open_log
from kvorum.storage.tail import TailBudget

log = get_logger("storage")


class _Deleted(NamedTuple):
    """A folder renamed for deletion, the log that may still be read, and when it goes (ms, wall)."""

    directory: LogDir
    folder: str
    log: Log
    deadline_ms: int


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
        cluster_id: str | None = None,
    ) -> None:
        """Take the directories from log.dirs.

        `topic_config` answers a topic's configuration (default: the broker's).
        """
        self._disk = disk
        self._clock = clock
        self._settings = settings
        default_config = LogConfig.from_overrides({}, settings)
        self._topic_config = topic_config or (lambda topic: default_config)
        self._on_offline = on_offline
        self._cluster_id = cluster_id
        self._dirs = {path: LogDir(disk, path) for path in settings.list("log.dirs")}
        self._logs: dict[TopicPartition, Log] = {}
        self._dir_of: dict[TopicPartition, LogDir] = {}
        self._deleted: list[_Deleted] = []
        self._tail_budget = TailBudget()
        self._disk_work = asyncio.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._is_closed = False
        self._renames = 0

    @property
    def dirs(self) -> list[LogDir]:
        """The log directories, in the order of log.dirs."""
        return list(self._dirs.values())

    @property
    def previous_broker_epoch(self) -> int:
        """The broker epoch of the last process if it shut down cleanly in every directory, else -1 (KIP-966)."""
        epochs = {each.previous_broker_epoch if each.is_clean else NO_BROKER_EPOCH for each in self._dirs.values()}
        return epochs.pop() if len(epochs) == 1 else NO_BROKER_EPOCH

    async def start(self) -> None:
        """Open everything. A directory that fails goes offline; the others go on.

        Raises CheckpointError for a directory that is another process's, node's or cluster's: the node must not start.
        """
        self._loop = asyncio.get_running_loop()
        node_id = self._settings.int("node.id")
        for directory in self._dirs.values():
            try:
                directory.open(self._cluster_id, None if node_id < 0 else node_id)
            except OSError as error:
                self._take_offline(directory, error)
        async with asyncio.TaskGroup() as group:
            for directory in self._dirs.values():
                if directory.is_online:
                    group.create_task(self._open_all(directory))
        async with self._disk_work:
            await self._forget_deleted()

    async def _open_all(self, directory: LogDir) -> None:
        """Open a directory's logs, num.recovery.threads.per.data.dir at a time."""
        limit = asyncio.Semaphore(max(1, self._settings.int("num.recovery.threads.per.data.dir")))
        started_ms = self._clock.monotonic_ms()
        try:
            partitions = directory.partitions()
            for folder in directory.marked_folders():
                self._disk.remove_tree(folder)
        except OSError as error:
            self._take_offline(directory, error)
            return

        async def open_one(partition: TopicPartition) -> None:
            async with limit:
                if directory.is_online:
                    await self._open_existing(directory, partition)

        async with asyncio.TaskGroup() as group:
            for partition in partitions:
                group.create_task(open_one(partition))
        log.info(
            "logs opened",
            dir=directory.path,
            logs=len(partitions),
            clean=directory.is_clean,
            took_ms=self._clock.monotonic_ms() - started_ms,
        )

    async def _open_existing(self, directory: LogDir, partition: TopicPartition) -> None:
        """Open one log in a thread; what cannot be opened takes its directory offline."""
        config = self._topic_config(partition.topic)
        try:
            opened = await blocking.run(asyncio.get_running_loop(), self._open, directory, partition, config, None)
        except (OSError, LogDirectoryError, KafkaError) as error:
            self._take_offline(directory, error)
            return
        if partition in self._logs:
            opened.release()
            text = f"{partition} lies in two log directories, {self._dir_of[partition].path} and {directory.path}"
            self._take_offline(directory, LogDirectoryError(text))
        elif directory.is_online:
            self._add(directory, opened)

    def _open(self, directory: LogDir, partition: TopicPartition, config: LogConfig, topic_id: Uuid | None) -> Log:
        """Open or create a log's folder. Touches nothing of the manager: runs in a thread at start."""
        folder = join(directory.path, str(partition))
        known_id = read_partition_metadata(self._disk, folder) if topic_id is None else topic_id
        options = OpenOptions(
            recovery_point=directory.checkpoints[RECOVERY_POINTS].get(partition, 0),
            log_start_offset=directory.checkpoints[LOG_START_OFFSETS].get(partition, 0),
            is_clean=directory.is_clean,
            topic_id=known_id or ZERO_UUID,
            producer_id_expiration_ms=self._settings.int("producer.id.expiration.ms"),
            on_io_error=lambda error: self._io_failed(directory, error),
        )
        opened = open_log(
            self._disk,
            folder,
            partition,
            config,
            self._clock,
            tail_budget=self._tail_budget,
            options=options,
        )
        opened.high_watermark = directory.checkpoints[HIGH_WATERMARKS].get(partition, 0)
        return opened

    def _add(self, directory: LogDir, opened: Log) -> None:
        self._logs[opened.partition] = opened
        self._dir_of[opened.partition] = directory

    def _io_failed(self, directory: LogDir, error: Exception) -> None:
        """Take a directory offline on the event loop, also if its disk failed in a thread."""
        try:
            is_on_loop = asyncio.get_running_loop() is self._loop
        except RuntimeError:
            is_on_loop = False
        if is_on_loop or self._loop is None:
            self._take_offline(directory, error)
        else:
            self._loop.call_soon_threadsafe(self._take_offline, directory, error)

    def _take_offline(self, directory: LogDir, error: Exception) -> None:
        """Give a directory up: its logs fail from now on, and the listener is told, once."""
        if directory.failure is not None:
            return
        directory.failure = error
        log.error("log directory offline", dir=directory.path, error=error)
        for partition, each in self._logs.items():
            if self._dir_of[partition] is directory:
                each.abandon(error)
        if self._on_offline is not None:
            self._on_offline(directory.path, error)

    # Logs

    def get_log(self, partition: TopicPartition) -> Log | None:
        """Return the log, None if there is none here. It may be in an offline directory."""
        return self._logs.get(partition)

    def logs(self) -> Iterator[Log]:
        """Go through a copy of all logs."""
        return iter(list(self._logs.values()))

    def dir_of(self, partition: TopicPartition) -> LogDir | None:
        """Return the directory of a partition's log."""
        return self._dir_of.get(partition)

    def logs_in(self, directory: LogDir) -> list[Log]:
        """Return the logs of a directory."""
        return [each for partition, each in self._logs.items() if self._dir_of[partition] is directory]

    def get_or_create(self, partition: TopicPartition, topic_id: Uuid) -> Log:
        """Return the partition's log, made in the directory with the fewest logs if there is none.

        Raises KafkaError KAFKA_STORAGE_ERROR (every directory is offline, or the disk fails), INCONSISTENT_TOPIC_ID
        (the log that is there belongs to another topic of that name).
        """
        existing = self._logs.get(partition)
        if existing is not None:
            if existing.topic_id == ZERO_UUID:
                self._set_topic_id(existing, topic_id)
            if existing.topic_id != topic_id:
                text = f"the log of {partition} has topic id {existing.topic_id}, not {topic_id}"
                raise KafkaError(ErrorCode.INCONSISTENT_TOPIC_ID, text)
            return existing
        online = [each for each in self._dirs.values() if each.is_online]
        if not online:
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, "no log directory is online")
        directory = min(online, key=lambda each: sum(other is each for other in self._dir_of.values()))
        try:
            for offsets in directory.checkpoints.values():
                offsets.pop(partition, None)
            created = self._open(directory, partition, self._topic_config(partition.topic), topic_id)
            write_partition_metadata(self._disk, created.folder, topic_id)
        except (OSError, LogDirectoryError) as error:
            self._take_offline(directory, error)
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, f"{partition}: {error}") from error
        self._add(directory, created)
        return created

    def _set_topic_id(self, existing: Log, topic_id: Uuid) -> None:
        try:
            write_partition_metadata(self._disk, existing.folder, topic_id)
        except OSError as error:
            self._take_offline(self._dir_of[existing.partition], error)
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, f"{existing.partition}: {error}") from error
        existing.topic_id = topic_id

    def update_topic_config(self, topic: str, config: LogConfig) -> None:
        """Give the logs of a topic its new configuration."""
        for partition, each in self._logs.items():
            if partition.topic == topic:
                each.config = config

    async def delete(self, *partitions: TopicPartition) -> None:
        """Take logs away: unusable at once, the folders renamed, removed after file.delete.delay.ms.

        Waits for a sync under way. A log that is not there is fine, one in an offline directory is only forgotten.
        """
        await asyncio.shield(self._rename_away(partitions, DELETE_FOLDER_SUFFIX))

    async def set_aside_stray(self, *partitions: TopicPartition) -> None:
        """Rename folders of logs that the metadata does not know (`-stray`): they are kept for a person to look at."""
        await asyncio.shield(self._rename_away(partitions, STRAY_FOLDER_SUFFIX))

    def stray_logs(self, is_stray: Callable[[Log], bool]) -> list[TopicPartition]:
        """Return the partitions whose logs the caller calls strays (no such topic id here any more)."""
        return [partition for partition, each in self._logs.items() if is_stray(each)]

    async def _rename_away(self, partitions: Iterable[TopicPartition], suffix: str) -> None:
        found = {partition: each for partition in partitions if (each := self._logs.get(partition)) is not None}
        for partition, each in found.items():
            each.abandon(KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, f"{partition} is deleted"))
        if not found:
            return
        async with self._disk_work:
            if self._is_closed:
                return
            for partition, each in found.items():
                if self._logs.get(partition) is each:
                    self._rename_folder(partition, each, suffix)
                    await asyncio.sleep(0)
            await self._forget_deleted()

    def _rename_folder(self, partition: TopicPartition, found: Log, suffix: str) -> None:
        directory = self._dir_of.pop(partition)
        del self._logs[partition]
        self._renames += 1
        now_ms = self._clock.wall_ms()
        target = join(directory.path, marked_folder(partition, f"{now_ms:016x}{self._renames:016x}", suffix))
        if not directory.is_online:
            found.release()
            return
        try:
            self._disk.rename(found.folder, target)
            self._disk.sync_dir(directory.path)
        except OSError as error:
            self._take_offline(directory, error)
        delay_ms = found.config.file_delete_delay_ms
        folder = target if suffix == DELETE_FOLDER_SUFFIX else ""
        self._deleted.append(_Deleted(directory, folder, found, now_ms + delay_ms))

    async def _forget_deleted(self) -> None:
        """Have no checkpoint speak of a log that is gone: a topic made anew would begin where the old one did.

        With a log start above its end, the next start would drop all its records. Holds `_disk_work`.
        """
        for directory in self._dirs.values():
            present = {each.partition for each in self.logs_in(directory)}
            for name in (LOG_START_OFFSETS, HIGH_WATERMARKS):
                if not directory.checkpoints[name].keys() <= present:
                    await self._write_checkpoint(directory, name)

    # Duties

    async def flush_dirty(self, now_ms: int) -> None:
        """Sync rolled segments, and what is older than flush.ms. Called every second or so: a roll waits for it."""
        for each in self.logs():
            if each.is_flush_due(now_ms):
                await asyncio.shield(self._flush(each, now_ms))

    async def _flush(self, each: Log, now_ms: int) -> None:
        async with self._disk_work:
            if each.failure is not None:
                return
            try:
                plan = each.begin_flush(include_active=each.is_flush_ms_over(now_ms))
                await blocking.run(asyncio.get_running_loop(), plan.run)
                if each.failure is None:
                    each.complete_flush(plan)
            except OSError as error:
                directory = self._dir_of.get(each.partition)
                if directory is not None and each.failure is None:
                    self._take_offline(directory, error)
            except KafkaError as error:
                log.warning("flush stopped", partition=each.partition, error=error)

    def apply_retention(self, now_ms: int) -> int:
        """Drop old segments (log.retention.check.interval.ms); return how many. Their files go with purge_deleted."""
        deleted = 0
        for each in self.logs():
            if each.failure is None:
                try:
                    deleted += each.delete_old_segments(now_ms)
                except KafkaError as error:
                    log.warning("retention stopped", partition=each.partition, error=error)
        return deleted

    async def purge_deleted(self, now_ms: int) -> None:
        """Remove files and folders whose file.delete.delay.ms is over, in a thread."""
        await asyncio.shield(self._purge_deleted(now_ms))

    async def _purge_deleted(self, now_ms: int) -> None:
        async with self._disk_work:
            if self._is_closed:
                return
            loop = asyncio.get_running_loop()
            for each in self.logs():
                if each.failure is None and each.has_deleted_files(now_ms):
                    try:
                        await blocking.run(loop, each.purge_deleted, now_ms)
                    except KafkaError as error:
                        log.warning("removal of files stopped", partition=each.partition, error=error)
            due = [each for each in self._deleted if each.deadline_ms <= now_ms]
            self._deleted = [each for each in self._deleted if each.deadline_ms > now_ms]
            for deleted in due:
                deleted.log.release()
                if deleted.folder and deleted.directory.is_online:
                    try:
                        await blocking.run(loop, self._disk.remove_tree, deleted.folder)
                    except OSError as error:
                        self._take_offline(deleted.directory, error)

    def expire_producers(self, now_ms: int) -> None:
        """Forget idle producers (producer.id.expiration.check.interval.ms)."""
        for each in self.logs():
            each.remove_expired_producers(now_ms)

    async def checkpoint_recovery_points(self) -> None:
        """Write every directory's recovery points (log.flush.offset.checkpoint.interval.ms)."""
        await asyncio.shield(self._checkpoint(RECOVERY_POINTS))

    async def checkpoint_log_start_offsets(self) -> None:
        """Write every directory's log start offsets (log.flush.start.offset.checkpoint.interval.ms)."""
        await asyncio.shield(self._checkpoint(LOG_START_OFFSETS))

    async def checkpoint_high_watermarks(self) -> None:
        """Write every directory's high watermarks (replica.high.watermark.checkpoint.interval.ms)."""
        await asyncio.shield(self._checkpoint(HIGH_WATERMARKS))

    async def _checkpoint(self, name: str) -> None:
        async with self._disk_work:
            if not self._is_closed:
                for directory in self._dirs.values():
                    await self._write_checkpoint(directory, name)

    async def _write_checkpoint(self, directory: LogDir, name: str) -> None:
        """Write one checkpoint of a directory, as of now. Holds `_disk_work`."""
        if not directory.is_online:
            return
        offsets = offsets_of(name, self.logs_in(directory))
        try:
            await blocking.run(asyncio.get_running_loop(), write_checkpoint, self._disk, directory.path, name, offsets)
        except OSError as error:
            self._take_offline(directory, error)
        directory.checkpoints[name] = offsets

    async def shutdown(self, broker_epoch: int = NO_BROKER_EPOCH) -> None:
        """Close every log, write the checkpoints, and as the last thing mark each directory as cleanly shut down.

        A directory in which anything failed gets no mark. The locks are released.
        """
        async with self._disk_work:
            self._is_closed = True
            loop = asyncio.get_running_loop()
            for directory in self._dirs.values():
                logs = self.logs_in(directory)
                try:
                    if directory.is_online:
                        await blocking.run(loop, close_logs, logs)
                    if directory.is_online:
                        await blocking.run(loop, write_last_words, self._disk, directory.path, logs, broker_epoch)
                except (OSError, KafkaError) as error:
                    self._take_offline(directory, error)
                for each in logs:
                    each.abandon(KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, "the broker is shut down"))
                    each.release()
                directory.unlock()
            for deleted in self._deleted:
                deleted.log.release()
