"""The checkpoints of the log directories: their content, and when they are written.

Recovery points, log start offsets and high watermarks, one file each a directory, and the mark of a clean shutdown.
"""

import asyncio
from collections.abc import Iterable, Mapping, Sequence

from kvorum.protocol.topic_partition import TopicPartition
from kvorum.runtime import blocking, failpoints
from kvorum.runtime.disk import Disk
from kvorum.storage.checkpoints import (
    CLEANED_OFFSETS,
    HIGH_WATERMARKS,
    LOG_START_OFFSETS,
    NO_BROKER_EPOCH,
    RECOVERY_POINTS,
    encode_offsets,
    write_clean_shutdown,
    write_offsets,
)
from kvorum.storage.closed_logs import ClosedLog, describe_files, write_closed_logs
from kvorum.storage.damage import Lack
from kvorum.storage.log import Log
from kvorum.storage.log_dir import CHECKPOINTS, LogDir
from kvorum.storage.log_table import LogTable
from kvorum.storage.names import join


class DirectoryCheckpoints:
    """Checkpoints of the directories of a table."""

    def __init__(self, disk: Disk, table: LogTable) -> None:
        """Write nothing yet."""
        self._disk = disk
        self._table = table

    async def write_all(self, name: str) -> None:
        """Write the present checkpoints of this name of all directories; it continues if the caller is cancelled."""
        await asyncio.shield(self._write_all(name))

    async def _write_all(self, name: str) -> None:
        async with self._table.disk_work:
            if not self._table.is_closed:
                for directory in self._table.dirs:
                    await self._write(directory, name)

    async def drop_deleted_rows(self) -> None:
        """Do as `forget_deleted`, for a caller that does not hold `disk_work`; continues if the caller is cancelled."""
        await asyncio.shield(self._drop_deleted_rows())

    async def _drop_deleted_rows(self) -> None:
        async with self._table.disk_work:
            if not self._table.is_closed:
                await self.forget_deleted()

    async def forget_deleted(self) -> None:
        """Remove a deleted log from all checkpoints, so that a topic of the same name starts without them.

        With a log start above its end, the next start would drop all its records, and records counted as clean would
        be dirty. The caller holds `disk_work`.
        """
        for directory in self._table.dirs:
            for name in CHECKPOINTS:
                if not directory.checkpoints[name].keys() <= self._rows(directory, name).keys():
                    await self._write(directory, name)

    def _rows(self, directory: LogDir, name: str) -> dict[TopicPartition, int]:
        """Return the current checkpoint of a directory.

        Recovery points keep the rows of missing logs until the replica starts again: a broker that is stopped before
        must detect them at its next start.
        """
        rows = offsets_of(name, self._table.open_logs_in(directory))
        if name == RECOVERY_POINTS:
            gone = {key for key, lack in self._table.lacking.items() if lack is Lack.ALL}
            rows |= {key: offset for key, offset in directory.checkpoints[name].items() if key in gone}
        return rows

    async def _write(self, directory: LogDir, name: str) -> None:
        """Write one current checkpoint of a directory. Holds `disk_work`.

        Not before all its logs are open: the rows of the others would be lost.
        """
        if not directory.is_online or not directory.is_loaded:
            return
        loop = asyncio.get_running_loop()
        while True:
            offsets = self._rows(directory, name)
            try:
                await blocking.run(loop, write_checkpoint, self._disk, directory.path, name, offsets)
            except OSError as error:
                if not self._table.disk_failed(directory, error):
                    return  # the file is unchanged, and is written with the next change
            if name != CLEANED_OFFSETS or not directory.is_online or offsets == self._rows(directory, name):
                break
            # A cut lowered a cleaned offset and removed the file, then this write brought it back: write it again.
        directory.checkpoints[name] = offsets

    def is_cleaned_stale(self, directory: LogDir) -> bool:
        """Return whether the checkpoint of cleaned offsets differs from the logs."""
        is_in_use = directory.is_online and directory.is_loaded
        return is_in_use and directory.checkpoints[CLEANED_OFFSETS] != self._rows(directory, CLEANED_OFFSETS)


def offsets_of(name: str, logs: Iterable[Log]) -> dict[TopicPartition, int]:
    """Return the present checkpoint of this name for these logs."""
    match name:
        case _ if name == RECOVERY_POINTS:
            return {each.partition: each.recovery_point for each in logs}
        case _ if name == HIGH_WATERMARKS:
            return {each.partition: each.high_watermark for each in logs}
        case _ if name == CLEANED_OFFSETS:
            cleaned = {each.partition: each.cleaning.cleaned_offset for each in logs}
            return {partition: offset for partition, offset in cleaned.items() if offset is not None}
        case _:
            assert name == LOG_START_OFFSETS, "there are four checkpoints"
            # As in Kafka: a start that equals the first segment's name is left out.
            return {each.partition: each.log_start_offset for each in logs if each.starts_within_segment}


def write_checkpoint(disk: Disk, folder: str, name: str, offsets: Mapping[TopicPartition, int]) -> None:
    """Replace one checkpoint of a directory. Raises OSError."""
    write_offsets(disk, folder, name, encode_offsets(offsets))


def forget_cleaned(disk: Disk, directory: LogDir) -> None:
    """Remove the checkpoint of cleaned offsets: a log is about to be truncated below it. Durable. Raises OSError.

    Without it a start treats all logs as uncleaned, which costs work. With it new records after the truncation would
    count as clean: their tombstones could be removed before the older records that they delete.
    """
    failpoints.hit("cleaner.forget.before")
    disk.remove(join(directory.path, CLEANED_OFFSETS))
    disk.sync_dir(directory.path)
    failpoints.hit("cleaner.forget.after")
    directory.checkpoints[CLEANED_OFFSETS] = {}


def write_at_shutdown(
    disk: Disk, directory: LogDir, logs: Sequence[Log], broker_epoch: int, has_gone: bool = False
) -> None:
    """Write a directory's checkpoints, then its clean-shutdown mark. Raises OSError.

    `logs` are all its closed logs. Without a registration (`broker_epoch` -1) nothing was appended: the epoch of the
    last clean shutdown is kept, if there was one. A directory that is not loaded keeps its checkpoints, which have rows
    of logs that were never opened, and its mark if it had one; Kafka's LogManager.shutdown. `has_gone`: logs are lost
    that other replicas may depend on. The next start must detect that again, so there is no mark.
    """
    if directory.is_loaded:
        if cleaned := offsets_of(CLEANED_OFFSETS, logs):
            write_checkpoint(disk, directory.path, CLEANED_OFFSETS, cleaned)
        for name in (LOG_START_OFFSETS, HIGH_WATERMARKS, *(() if has_gone else (RECOVERY_POINTS,))):
            write_checkpoint(disk, directory.path, name, offsets_of(name, logs))
    if has_gone or not (directory.is_loaded or (directory.is_clean and not directory.had_damage)):
        return
    epoch = broker_epoch
    if broker_epoch == NO_BROKER_EPOCH and not directory.had_damage:
        epoch = directory.previous_broker_epoch
    if directory.is_loaded:
        closed = {
            each.partition: ClosedLog(each.log_end_offset, each.log_start_offset, describe_files(disk, each.folder))
            for each in logs
            if each.folder == join(directory.path, str(each.partition))
        }
        write_closed_logs(disk, directory.path, epoch, closed)
    write_clean_shutdown(disk, directory.path, epoch)
