"""Removal of logs: the folder is renamed at once and removed after file.delete.delay.ms, or kept as a stray.

The log itself returns KAFKA_STORAGE_ERROR from then on, but slices that were read stay readable until its folder is
removed.
"""

import asyncio
from collections.abc import Callable, Iterable
from typing import NamedTuple, TypeAlias

from kvorum.protocol.errors import ErrorCode, KafkaError
from kvorum.protocol.topic_partition import TopicPartition
from kvorum.runtime import blocking, failpoints
from kvorum.runtime.clock import Clock
from kvorum.runtime.disk import Disk
from kvorum.runtime.logs import get_logger
from kvorum.storage.directory_checkpoints import DirectoryCheckpoints
from kvorum.storage.log import Log
from kvorum.storage.log_dir import LogDir
from kvorum.storage.log_table import LogTable
from kvorum.storage.names import DELETE_FOLDER_SUFFIX, STRAY_FOLDER_SUFFIX, join, marked_folder
from kvorum.storage.recovery import LogDirectoryError

IsStray: TypeAlias = Callable[[Log], bool]
"""Whether the metadata do not give this log to the broker."""
IsAssigned: TypeAlias = Callable[[Log, LogDir], bool]
"""Whether this is the log's directory in the metadata."""

log = get_logger("storage")


class _Deleted(NamedTuple):
    """A folder renamed for deletion, the log that may still be read, and when it goes (ms, wall)."""

    directory: LogDir
    folder: str
    log: Log
    deadline_ms: int


class LogRemoval:
    """Removal of the logs of a table."""

    def __init__(self, disk: Disk, clock: Clock, table: LogTable, checkpoints: DirectoryCheckpoints) -> None:
        """Start without removals."""
        self._disk = disk
        self._clock = clock
        self._table = table
        self._checkpoints = checkpoints
        self._deleted: list[_Deleted] = []
        self._renames = 0

    async def rename_away(self, partitions: Iterable[TopicPartition], suffix: str) -> None:
        """Remove logs from the table and rename their folders with this suffix.

        Continues if the caller is cancelled.
        """
        await asyncio.shield(self._rename_away(partitions, suffix))

    async def _rename_away(self, partitions: Iterable[TopicPartition], suffix: str) -> None:
        found = {partition: each for partition in partitions if (each := self._table.get(partition)) is not None}
        for partition, each in found.items():
            each.abandon(KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, f"{partition} is deleted"))
        if not found:
            return
        async with self._table.disk_work:
            if self._table.is_closed:
                return
            for partition, each in found.items():
                if self._table.get(partition) is each:
                    self.rename_folder(self._table.remove(partition), each, suffix)
                    await asyncio.sleep(0)
            await self._checkpoints.forget_deleted()

    def rename_folder(self, directory: LogDir, found: Log, suffix: str = DELETE_FOLDER_SUFFIX) -> None:
        """Rename the folder of a log that is no longer in a table. Holds `disk_work`."""
        partition = found.partition
        self._renames += 1
        now_ms = self._clock.wall_ms()
        target = join(directory.path, marked_folder(partition, f"{now_ms:016x}{self._renames:016x}", suffix))
        if not directory.is_online:
            found.release()
            return
        try:
            failpoints.hit("log.remove.before")
            self._disk.rename(found.folder, target)
            failpoints.hit("log.remove.renamed")
            self._disk.sync_dir(directory.path)
            failpoints.hit("log.remove.after")
        except OSError as error:
            self._table.disk_failed(directory, error)
        delay_ms = found.config.file_delete_delay_ms
        folder = target if suffix == DELETE_FOLDER_SUFFIX else ""
        self._deleted.append(_Deleted(directory, folder, found, now_ms + delay_ms))

    async def settle_rivals(self, is_stray: IsStray, is_assigned: IsAssigned) -> None:
        """Resolve two logs of one partition in two directories: rename a stray, keep the other.

        Of two of the same topic the one that `is_assigned` to its directory is kept: a crash interrupted the
        replacement of the other. If neither is, the second one's directory goes offline until an operator acts. Called
        once, with the first metadata image, before any log is used.
        """
        rivals, self._table.rivals = self._table.rivals, []
        for directory, rival in rivals:
            partition = rival.partition
            first, place = self._table.get(partition), self._table.dir_of(partition)
            if first is not None and place is not None and first.topic_id == rival.topic_id and not is_stray(rival):
                await self._settle_twins((place, first), (directory, rival), is_assigned)
                continue
            if first is not None and is_stray(rival):
                place = self._table.remove(partition)
                self._table.add(directory, rival)
                kept = (place, first)
            else:
                kept = (directory, rival)
            await self.rename_away([partition], STRAY_FOLDER_SUFFIX)
            if self._table.get(partition) is None:  # a shutdown leaves folders where they are
                self._table.add(*kept)

    async def _settle_twins(
        self, first: tuple[LogDir, Log], second: tuple[LogDir, Log], is_assigned: IsAssigned
    ) -> None:
        partition = first[1].partition
        assert self._disk.identity(first[1].folder) != self._disk.identity(second[1].folder), "two logs, two folders"
        kept = next((each for each in (first, second) if is_assigned(each[1], each[0])), None)
        if kept is not None:  # a log with later writes is not the source of a copy
            kept = max(kept, second if kept is first else first, key=lambda each: reach_of(each[1]))
        if kept is None or not kept[0].is_online:
            second[1].release()
            text = f"{partition} is in two log directories, {first[0].path} and {second[0].path}"
            self._table.take_offline(second[0], LogDirectoryError(text))
            return
        place, given_up = second if kept is first else first
        log.warning(
            "stale copy of a moved replica set aside", partition=partition, source=place.path, target=kept[0].path
        )
        self._table.remove(partition)
        self._table.add(*kept)
        async with self._table.disk_work:
            self.rename_folder(place, given_up)

    async def purge(self, now_ms: int) -> None:
        """Remove the files of dropped segments, and the folders of deleted logs, whose delay is over, in a thread.

        Continues if the caller is cancelled.
        """
        await asyncio.shield(self._purge(now_ms))

    async def _purge(self, now_ms: int) -> None:
        async with self._table.disk_work:
            if self._table.is_closed:
                return
            loop = asyncio.get_running_loop()
            for each in self._table.all_logs():
                if each.failure is None and each.retention.has_deleted_files(now_ms):
                    try:
                        await blocking.run(loop, each.purge_deleted, now_ms)
                    except KafkaError as error:
                        log.warning("removal of files failed", partition=each.partition, error=error)
            due = [each for each in self._deleted if each.deadline_ms <= now_ms]
            self._deleted = [each for each in self._deleted if each.deadline_ms > now_ms]
            for deleted in due:
                deleted.log.release()
                if deleted.folder and deleted.directory.is_online:
                    try:
                        failpoints.hit("log.remove.purge.before")
                        await blocking.run(loop, self._disk.remove_tree, deleted.folder)
                        failpoints.hit("log.remove.purge.after")
                    except OSError as error:
                        if not self._table.disk_failed(deleted.directory, error):
                            self._deleted.append(deleted)

    def release(self) -> None:
        """Close the files of all that was taken away: the process ends, and the next one removes them."""
        for deleted in self._deleted:
            deleted.log.release()


def reach_of(each: Log) -> tuple[int, int]:
    """Return the sort key for two copies of one log: the last epoch and its end offset."""
    return (-1 if each.latest_epoch is None else each.latest_epoch, each.log_end_offset)
