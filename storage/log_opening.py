"""Opening logs: all of a directory's at the start, in threads and a few at a time, or one that is new."""

import asyncio
from collections.abc import Callable

from kvorum.protocol.errors import KafkaError
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
)
from kvorum.storage.directory_checkpoints import forget_cleaned
from kvorum.storage.log import Log
from kvorum.storage.log_config import LogConfig
from kvorum.storage.log_dir import LogDir
from kvorum.storage.log_table import LogTable
from kvorum.storage.names import TopicPartition, join
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

    async def open_all(self, directory: LogDir) -> None:
        """Open a directory's logs, num.recovery.threads.per.data.dir at a time."""
        limit = asyncio.Semaphore(self._threads_max)
        started_ms = self._clock.monotonic_ms()
        try:
            partitions, futures = directory.partitions(), directory.future_folders()
            for folder in directory.marked_folders():
                self._disk.remove_tree(folder)
        except OSError as error:
            if not self._table.disk_failed(directory, error):
                raise
            return

        async def open_one(partition: TopicPartition) -> None:
            async with limit:
                if directory.is_online:
                    await self._open_existing(directory, partition)

        async def open_future(folder: str, partition: TopicPartition) -> None:
            async with limit:
                if directory.is_online:
                    await self._open_future(directory, folder, partition)

        async with asyncio.TaskGroup() as group:
            for partition in partitions:
                group.create_task(open_one(partition))
            for folder, partition in futures.items():
                group.create_task(open_future(folder, partition))
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
            opened = await blocking.run(asyncio.get_running_loop(), self.open, directory, partition, config, None)
        except (OSError, LogDirectoryError, KafkaError) as error:
            if not self._table.disk_failed(directory, error):
                raise  # the start fails: a log that is there must not be taken for one that is not
            return
        first, other = self._table.get(partition), self._table.dir_of(partition)
        if first is not None and other is not None:
            if directory.is_online and ZERO_UUID not in (first.topic_id, opened.topic_id):
                self._table.rivals.append((directory, opened))
                return
            opened.release()
            text = f"{partition} lies in two log directories, {other.path} and {directory.path}"
            self._table.take_offline(directory, LogDirectoryError(text))
        elif directory.is_online:
            self._table.add(directory, opened)

    async def _open_future(self, directory: LogDir, folder: str, partition: TopicPartition) -> None:
        """Open one future log in a thread, to be gone on with."""
        config = self._topic_config(partition.topic)
        try:
            loop = asyncio.get_running_loop()
            opened = await blocking.run(loop, self.open, directory, partition, config, None, folder)
            if directory.is_online and partition not in self._table.futures:
                self._table.futures[partition] = (directory, opened)
                return
            opened.release()
            if directory.is_online:  # one is enough, and a copy is nobody's only one
                await blocking.run(loop, self._disk.remove_tree, folder)
        except (OSError, LogDirectoryError, KafkaError) as error:
            if not self._table.disk_failed(directory, error):
                raise

    def open(
        self,
        directory: LogDir,
        partition: TopicPartition,
        config: LogConfig,
        topic_id: Uuid | None,
        folder: str | None = None,
    ) -> Log:
        """Open or create a log's folder, and leave the table as it is: it runs in a thread at the start.

        `folder` is a future log's. Without `topic_id` the folder says it.
        Raises OSError, LogDirectoryError, KafkaError.
        """
        folder = folder or join(directory.path, str(partition))
        known_id = read_partition_metadata(self._disk, folder) if topic_id is None else topic_id
        options = OpenOptions(
            recovery_point=directory.checkpoints[RECOVERY_POINTS].get(partition, 0),
            log_start_offset=directory.checkpoints[LOG_START_OFFSETS].get(partition, 0),
            is_clean=directory.is_clean,
            topic_id=known_id or ZERO_UUID,
            producer_id_expiration_ms=self._producer_id_expiration_ms,
            on_io_error=lambda error: self._table.io_failed(directory, error),
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
        opened.high_watermark = directory.checkpoints[HIGH_WATERMARKS].get(partition, 0)
        cleaned_offset = directory.checkpoints[CLEANED_OFFSETS].get(partition)
        if cleaned_offset is not None and cleaned_offset <= opened.log_end_offset:
            opened.cleaning.cleaned_offset = cleaned_offset
        opened.cleaning.on_cut = lambda: forget_cleaned(self._disk, directory)
        return opened
