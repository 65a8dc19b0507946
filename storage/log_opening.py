"""Opening logs: all logs of a directory at the start, a few at a time in threads, or a new one."""

import asyncio
from collections.abc import Awaitable, Callable, Hashable

from kvorum.protocol.errors import ErrorCode, KafkaError
from kvorum.protocol.topic_partition import TopicPartition
from kvorum.protocol.uuids import ZERO_UUID, Uuid
from kvorum.runtime import blocking
from kvorum.runtime.clock import Clock
from kvorum.runtime.config import Settings
from kvorum.runtime.disk import Disk
from kvorum.runtime.logs import get_logger
from kvorum.storage.checkpoints import (
    CLEANED_OFFSETS,
    HIGH_WATERMARKS,
    LOG_START_OFFSETS,
    RECOVERY_POINTS,
    read_partition_metadata,
    sync_partition_metadata,
    write_partition_metadata,
)
from kvorum.storage.damage import Damage, Lack
from kvorum.storage.directory_checkpoints import forget_cleaned
from kvorum.storage.log import Log
from kvorum.storage.log_config import LogConfig
from kvorum.storage.log_dir import FOLDERS_NAMED_MAX, LogDir
from kvorum.storage.log_table import LogTable
from kvorum.storage.names import join
from kvorum.storage.recovery import LogDirectoryError, OpenOptions, open_log
from kvorum.storage.tail import TailBudget

log = get_logger("storage")


class LogOpening:
    """Opens the logs of a table."""

    def __init__(
        self,
        disk: Disk,
        clock: Clock,
        settings: Settings,
        table: LogTable,
        topic_config: Callable[[str], LogConfig],
        tail_budget: TailBudget | None = None,
    ) -> None:
        """`topic_config` answers a topic's configuration."""
        self._disk = disk
        self._clock = clock
        self._table = table
        self._topic_config = topic_config
        self._threads_max = max(1, settings.int("num.recovery.threads.per.data.dir"))
        self._producer_id_expiration_ms = settings.int("producer.id.expiration.ms")
        self._tail_budget = TailBudget() if tail_budget is None else tail_budget
        self._folders: dict[Hashable, str] = {}
        """The path of each folder that was found at the start, by its identity."""
        self._unfinished: dict[asyncio.Future[Log], None] = {}
        """Openings in threads whose log is in no table (yet, or because the start was cancelled)."""

    async def open_all(self, directory: LogDir) -> None:
        """Open a directory's logs, num.recovery.threads.per.data.dir at a time; it `is_loaded` when all are open."""
        limit = asyncio.Semaphore(self._threads_max)
        started_ms = self._clock.monotonic_ms()
        try:
            folders = directory.find_folders()
            for folder in folders.deleted:
                self._disk.remove_tree(folder)
            logs = [each for each in folders.logs.items() if self._is_first(each[0])]
            futures = [each for each in folders.futures.items() if self._is_first(each[0])]
        except OSError as error:
            if not self._table.disk_failed(directory, error):
                raise
            return

        async def open_one(
            open_: Callable[[LogDir, str, TopicPartition], Awaitable[None]], folder: str, partition: TopicPartition
        ) -> None:
            async with limit:
                if directory.is_online:
                    await open_(directory, folder, partition)

        async with asyncio.TaskGroup() as group:
            for open_, found in ((self._open_existing, logs), (self._open_future, futures)):
                for folder, partition in found:
                    group.create_task(open_one(open_, folder, partition))
        directory.is_loaded = directory.is_online
        log.info(
            "logs opened",
            dir=directory.path,
            logs=len(logs),
            clean=directory.is_clean,
            took_ms=self._clock.monotonic_ms() - started_ms,
        )

    def _is_first(self, folder: str) -> bool:
        """Return whether a folder was not found under another path before: a link to it is not a second log."""
        first = self._folders.setdefault(self._disk.identity(folder), folder)
        if first != folder:
            log.warning("folder ignored, it is a link to another folder", folder=folder, same_as=first)
        return first == folder

    async def _open_existing(self, directory: LogDir, folder: str, partition: TopicPartition) -> None:
        """Open one log in a thread; what cannot be opened takes its directory offline."""
        config = self._topic_config(partition.topic)
        try:
            opened = await self._open_in_thread(directory, partition, config, folder)
        except (OSError, LogDirectoryError, KafkaError) as error:
            if not self._table.disk_failed(directory, error):
                raise  # the start fails: an existing log must not be treated as missing
            return
        first, other = self._table.get(partition), self._table.dir_of(partition)
        if first is not None and other is not None:
            if directory.is_online and ZERO_UUID not in (first.topic_id, opened.topic_id):
                self._table.rivals.append((directory, opened))
                return
            opened.release()
            text = f"{partition} is in two log directories, {other.path} and {directory.path}"
            self._table.take_offline(directory, LogDirectoryError(text))
        elif directory.is_online:
            self._table.add(directory, opened)

    async def _open_future(self, directory: LogDir, folder: str, partition: TopicPartition) -> None:
        """Open one future log in a thread, for its move to continue."""
        config = self._topic_config(partition.topic)
        try:
            opened = await self._open_in_thread(directory, partition, config, folder)
            if directory.is_online and partition not in self._table.futures:
                self._table.futures[partition] = (directory, opened)
                return
            opened.release()
            if directory.is_online:  # one is enough, and a copy is never the only one
                await blocking.run(asyncio.get_running_loop(), self._disk.remove_tree, folder)
        except (OSError, LogDirectoryError, KafkaError) as error:
            if not self._table.disk_failed(directory, error):
                raise

    async def create(self, partition: TopicPartition, topic_id: Uuid, named: Uuid) -> None:
        """Create the log of a partition that has none, in the directory `place_for` returns, and add it to the table.

        Its files are created and synced in a thread: on a busy disk each waits for the file system's journal. Raises
        KafkaError KAFKA_STORAGE_ERROR (every directory is offline, or the disk fails).
        """
        directory = self._table.place_for(partition, named)
        if directory is None:
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, "no log directory is online")
        directory.forget(partition)
        config = self._topic_config(partition.topic)
        self._table.arriving[partition] = directory
        try:
            loop = asyncio.get_running_loop()
            work = blocking.run(loop, self._create_files, directory, partition, config, topic_id)
            created = await self._finish(work)
        except (OSError, LogDirectoryError) as error:
            self._table.disk_failed(directory, error)
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, f"{partition}: {error}") from error
        finally:
            del self._table.arriving[partition]
        if directory.failure is not None:
            created.release()
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, f"{partition}: {directory.failure}")
        created.is_topic_id_durable = True
        self._table.add(directory, created)
        self._table.preferred.pop(partition, None)
        self._table.lacking.pop(partition, None)

    def _create_files(self, directory: LogDir, partition: TopicPartition, config: LogConfig, topic_id: Uuid) -> Log:
        created = self.open(directory, partition, config, topic_id)
        write_partition_metadata(self._disk, created.folder, topic_id)
        sync_partition_metadata(self._disk, created.folder)
        return created

    async def _open_in_thread(
        self, directory: LogDir, partition: TopicPartition, config: LogConfig, folder: str
    ) -> Log:
        """Open a log in a thread."""
        return await self._finish(
            blocking.run(asyncio.get_running_loop(), self.open, directory, partition, config, None, folder)
        )

    async def _finish(self, work: asyncio.Future[Log]) -> Log:
        """Return the log that a thread opens; where the caller is cancelled, `close` waits for the thread."""
        self._unfinished[work] = None
        try:
            opened = await asyncio.shield(work)
        except Exception:
            del self._unfinished[work]
            raise
        del self._unfinished[work]
        return opened

    def _note_damage(self, directory: LogDir, folder: str, partition: TopicPartition, damage: Damage) -> None:
        """Store the damage of a log. Called in its thread; a future log is never the only copy."""
        level = log.warning if damage.lack is Lack.NOTHING else log.error
        level("a log is damaged and is repaired", folder=folder, problem=damage.problem)
        directory.had_damage = True
        if damage.lack is not Lack.NOTHING and folder == join(directory.path, str(partition)):
            self._table.lacking[partition] = damage.lack

    def note_missing(self, directory: LogDir) -> None:
        """Store the former logs of a directory that are now in none, once all are open."""
        known = {*(each.partition for each in self._table.all_logs()), *self._table.futures}
        known |= {each.partition for _, each in self._table.rivals}
        missing = sorted(directory.recorded_logs() - known)
        self._table.lacking |= dict.fromkeys(missing, Lack.ALL)
        if missing and directory.closed_logs is not None:
            directory.had_damage = True
            names = ", ".join(map(str, missing[:FOLDERS_NAMED_MAX]))
            log.error("log folders missing", dir=directory.path, count=len(missing), logs=names)

    async def close(self) -> None:
        """Wait for the threads of a cancelled or failed start, and release the logs they opened."""
        for found in await asyncio.gather(*self._unfinished, return_exceptions=True):
            if isinstance(found, Log):
                found.release()

    def open(
        self,
        directory: LogDir,
        partition: TopicPartition,
        config: LogConfig,
        topic_id: Uuid | None,
        folder: str | None = None,
    ) -> Log:
        """Open or create a log's folder without a change of the table: at the start it runs in a thread.

        `folder` is that of a future log. Without `topic_id` it is read from the folder.
        Raises OSError, LogDirectoryError, KafkaError.
        """
        folder = folder or join(directory.path, str(partition))
        known_id = read_partition_metadata(self._disk, folder) if topic_id is None else topic_id
        recovery_point = directory.checkpoints[RECOVERY_POINTS].get(partition, 0)
        high_watermark = directory.checkpoints[HIGH_WATERMARKS].get(partition, 0)
        closed = directory.closed_log(partition)
        start = directory.checkpoints[LOG_START_OFFSETS].get(partition, 0)
        options = OpenOptions(
            recovery_point=recovery_point,
            log_start_offset=start if closed is None else max(start, closed.log_start_offset),
            is_clean=directory.is_clean,
            topic_id=known_id or ZERO_UUID,
            producer_id_expiration_ms=self._producer_id_expiration_ms,
            on_io_error=lambda error: self._table.io_failed(directory, error),
            closed=closed,
            recorded_end=max(recovery_point, high_watermark),
            cleaned_offset=directory.checkpoints[CLEANED_OFFSETS].get(partition, 0),
            on_damage=lambda damage: self._note_damage(directory, folder, partition, damage),
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
        # No log gets a record before its id is synced.
        opened.is_topic_id_durable = topic_id is None and known_id is not None and opened.log_end_offset > 0
        opened.high_watermark = high_watermark
        cleaned_offset = directory.checkpoints[CLEANED_OFFSETS].get(partition)
        if cleaned_offset is not None and cleaned_offset <= opened.log_end_offset:
            opened.cleaning.cleaned_offset = cleaned_offset
        opened.cleaning.on_cut = lambda: forget_cleaned(self._disk, directory)
        return opened
