"""The checkpoints of the log directories: what they say of their logs, and when it is written.

Recovery points, log start offsets and high watermarks, one file each a directory, and the mark of a clean shutdown.
"""

import asyncio
from collections.abc import Iterable, Mapping, Sequence

from kvorum.runtime import blocking
from kvorum.runtime.disk import Disk
from kvorum.storage.checkpoints import (
    HIGH_WATERMARKS,
    LOG_START_OFFSETS,
    RECOVERY_POINTS,
    encode_offsets,
    write_clean_shutdown,
    write_offsets,
)
from kvorum.storage.log import Log
from kvorum.storage.log_dir import LogDir
from kvorum.storage.log_table import LogTable
from kvorum.storage.names import TopicPartition


class DirectoryCheckpoints:
    """Of the directories of a table."""

    def __init__(self, disk: Disk, table: LogTable) -> None:
        """Write nothing yet."""
        self._disk = disk
        self._table = table

    async def write_all(self, name: str) -> None:
        """Write every directory's checkpoint of this name, as of now; it goes on though the caller is cancelled."""
        await asyncio.shield(self._write_all(name))

    async def _write_all(self, name: str) -> None:
        async with self._table.disk_work:
            if not self._table.is_closed:
                for directory in self._table.dirs:
                    await self._write(directory, name)

    async def forget_deleted(self) -> None:
        """Have no checkpoint speak of a log that is gone: a topic made anew would begin where the old one did.

        With a log start above its end, the next start would drop all its records. The caller holds `disk_work`.
        """
        for directory in self._table.dirs:
            present = {each.partition for each in self._table.logs_in(directory)}
            for name in (LOG_START_OFFSETS, HIGH_WATERMARKS):
                if not directory.checkpoints[name].keys() <= present:
                    await self._write(directory, name)

    async def _write(self, directory: LogDir, name: str) -> None:
        """Write one checkpoint of a directory, as of now. Holds `disk_work`."""
        if not directory.is_online:
            return
        offsets = offsets_of(name, self._table.logs_in(directory))
        try:
            await blocking.run(asyncio.get_running_loop(), write_checkpoint, self._disk, directory.path, name, offsets)
        except OSError as error:
            self._table.take_offline(directory, error)
        directory.checkpoints[name] = offsets


def offsets_of(name: str, logs: Iterable[Log]) -> dict[TopicPartition, int]:
    """Return what a checkpoint of this name says of these logs, as of now."""
    match name:
        case _ if name == RECOVERY_POINTS:
            return {each.partition: each.recovery_point for each in logs}
        case _ if name == HIGH_WATERMARKS:
            return {each.partition: each.high_watermark for each in logs}
        case _:
            assert name == LOG_START_OFFSETS, "there are three checkpoints"
            # As Kafka: a start that the first segment's name says already is left out.
            return {each.partition: each.log_start_offset for each in logs if each.starts_within_segment}


def write_checkpoint(disk: Disk, folder: str, name: str, offsets: Mapping[TopicPartition, int]) -> None:
    """Replace one checkpoint of a directory. Raises OSError."""
    write_offsets(disk, folder, name, encode_offsets(offsets))


def write_last_words(disk: Disk, folder: str, logs: Sequence[Log], broker_epoch: int) -> None:
    """Write a directory's checkpoints, then its clean-shutdown mark. Raises OSError."""
    for name in (RECOVERY_POINTS, LOG_START_OFFSETS, HIGH_WATERMARKS):
        write_checkpoint(disk, folder, name, offsets_of(name, logs))
    write_clean_shutdown(disk, folder, broker_epoch)
