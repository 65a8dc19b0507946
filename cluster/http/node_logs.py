"""Log files on a node's own disks, read by its admin process: segments, indexes, sizes.

The broker continues to write, roll and remove them. No file is opened for writing, and files that vanish are left out.
"""

from collections import defaultdict
from collections.abc import Sequence
from contextlib import closing
from struct import Struct
from typing import Final

from kvorum.admin.v1.partitions.segment_routes import LocalLog, LocalSegment
from kvorum.protocol.topic_partition import TopicPartition
from kvorum.runtime.disk import Disk
from kvorum.storage.names import (
    FUTURE_FOLDER_SUFFIX,
    INDEX_SUFFIX,
    LOG_SUFFIX,
    TIME_INDEX_SUFFIX,
    TXN_INDEX_SUFFIX,
    join,
    offset_of,
    parse_suffixed_folder,
)

TIME_ENTRY: Final = Struct(">qi")


class NodeLogs:
    """See the module (admin's LocalLogs)."""

    def __init__(self, disk: Disk, broker: int, directories: Sequence[str]) -> None:
        """Look into a broker's log directories."""
        self._disk = disk
        self._directories = directories
        self.broker = broker

    def logs(self, topic: str, partition: int) -> list[LocalLog]:
        """Return the logs of a partition. Raises OSError if a directory cannot be read."""
        wanted = TopicPartition(topic, partition)
        found = []
        for directory in self._directories:
            if not self._disk.is_dir(directory):
                continue  # a failed directory: its replicas are offline, the others' are listed
            for name in self._disk.listdir(directory):
                future = parse_suffixed_folder(name, FUTURE_FOLDER_SUFFIX) == wanted
                if future or name == str(wanted):
                    found.append(LocalLog(directory, future, self._segments(join(directory, name))))
        return found

    def _segments(self, folder: str) -> list[LocalSegment]:
        suffixes: dict[int, set[str]] = defaultdict(set)
        try:
            names = self._disk.listdir(folder)
        except FileNotFoundError:
            return []  # it was renamed to be deleted, or moved to another directory
        for name in names:
            offset = offset_of(name)
            if offset is not None:
                suffixes[offset].add(name[20:])
        found = [self._segment(folder, offset) for offset in sorted(suffixes) if LOG_SUFFIX in suffixes[offset]]
        return [each for each in found if each is not None]

    def _segment(self, folder: str, offset: int) -> LocalSegment | None:
        """Return one segment; None if its log was removed."""
        path = f"{folder}/{offset:020d}"
        size, time_index = self._size(path + LOG_SUFFIX), self._size(path + TIME_INDEX_SUFFIX)
        try:
            modified_ms = self._disk.modified_ms(path + LOG_SUFFIX)
        except FileNotFoundError:
            return None
        if size is None:
            return None
        return LocalSegment(
            base_offset=offset,
            size=size,
            modified_ms=modified_ms,
            index_size=self._size(path + INDEX_SUFFIX),
            time_index_size=time_index,
            txn_index_size=self._size(path + TXN_INDEX_SUFFIX),
            max_timestamp_ms=self._max_timestamp(path + TIME_INDEX_SUFFIX, time_index or 0),
        )

    def _size(self, path: str) -> int | None:
        try:
            return self._disk.size(path)
        except FileNotFoundError:
            return None

    def _max_timestamp(self, path: str, size: int) -> int | None:
        """Return the time of the last whole entry of a time index; None where it has none."""
        count = size // TIME_ENTRY.size
        if not count:
            return None
        try:
            with closing(self._disk.open(path)) as file:
                data = file.pread(TIME_ENTRY.size, (count - 1) * TIME_ENTRY.size)
        except FileNotFoundError:
            return None
        return int(TIME_ENTRY.unpack(data)[0]) if len(data) == TIME_ENTRY.size else None
