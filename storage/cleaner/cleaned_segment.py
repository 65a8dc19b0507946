"""The segment that a cleaning writes: `.log.cleaned` and its indexes (Kafka's UnifiedLog.createNewCleanedSegment).

`finish` makes the bytes durable. Their further processing is in storage.cleaner.swap.
"""

from typing import Final

from typing_extensions import Buffer

from kvorum.protocol.batch_header import NO_TIMESTAMP, BatchHeader
from kvorum.runtime import failpoints
from kvorum.runtime.disk import Disk
from kvorum.storage.index import OffsetIndex, TimeIndex
from kvorum.storage.names import (
    CLEANED_SUFFIX,
    INDEX_SUFFIX,
    LOG_SUFFIX,
    TIME_INDEX_SUFFIX,
    TXN_INDEX_SUFFIX,
    segment_file,
)
from kvorum.storage.txn_index import AbortedTransaction, TransactionIndex

SIDE_SUFFIXES: Final = (INDEX_SUFFIX, TIME_INDEX_SUFFIX, TXN_INDEX_SUFFIX)


class CleanedSegment:
    """One such segment. Raises OSError as the disk does."""

    __slots__ = (
        "_buffer",
        "_buffer_size",
        "_buffered",
        "_bytes_since_index_entry",
        "_disk",
        "_file",
        "_folder",
        "_index_interval_bytes",
        "_max_timestamp",
        "_offset_index",
        "_offset_of_max_timestamp",
        "_time_index",
        "_txn_index",
        "base_offset",
        "has_txn_file",
        "size",
    )

    def __init__(
        self,
        disk: Disk,
        folder: str,
        base_offset: int,
        *,
        index_interval_bytes: int,
        buffer_size: int,
        has_txn_file: bool,
    ) -> None:
        """Create empty files of that name; those of an earlier attempt are removed.

        `has_txn_file`: a transaction index is needed even without an entry, since the segment of this name has one,
        which must not outlive it.
        """
        self._disk = disk
        self._folder = folder
        self.base_offset = base_offset
        self.size = 0
        self._index_interval_bytes = index_interval_bytes
        self._buffer_size = buffer_size
        failpoints.hit("cleaner.create.before")
        # The log first: without it the others are nothing.
        for suffix in (LOG_SUFFIX, *SIDE_SUFFIXES):
            disk.remove(self._path(suffix))
        self._file = disk.open(self._path(LOG_SUFFIX), create=True)
        failpoints.hit("cleaner.create.after")
        self._offset_index = OffsetIndex(self._path(INDEX_SUFFIX), base_offset)
        self._time_index = TimeIndex(self._path(TIME_INDEX_SUFFIX), base_offset)
        self._txn_index = TransactionIndex(self._path(TXN_INDEX_SUFFIX), base_offset)
        self.has_txn_file = has_txn_file
        self._buffer: list[Buffer] = []
        self._buffered = 0
        self._bytes_since_index_entry = 0
        self._max_timestamp = NO_TIMESTAMP
        self._offset_of_max_timestamp = -1

    def _path(self, suffix: str) -> str:
        return segment_file(self._folder, self.base_offset, suffix) + CLEANED_SUFFIX

    def append(self, batch: Buffer, header: BatchHeader) -> int:
        """Append a batch; return the bytes that were written to the disk for it, often none."""
        if header.max_timestamp > self._max_timestamp:
            self._max_timestamp, self._offset_of_max_timestamp = header.max_timestamp, header.last_offset
        if self._bytes_since_index_entry > self._index_interval_bytes:
            self._offset_index.append(header.last_offset, self.size + self._buffered)
            self._time_index.maybe_append(self._max_timestamp, self._offset_of_max_timestamp)
            self._bytes_since_index_entry = 0
        self._bytes_since_index_entry += header.size
        self._buffer.append(batch)
        self._buffered += header.size
        return self.write() if self._buffered >= self._buffer_size else 0

    def add_aborted(self, entries: list[AbortedTransaction]) -> None:
        """Put aborted transactions into the index, in the order of their markers."""
        for entry in entries:
            self._txn_index.append(entry)

    def write(self) -> int:
        """Write buffered bytes; return their number."""
        if not self._buffer:
            return 0
        data = b"".join(map(bytes, self._buffer))
        failpoints.hit("cleaner.write.before")
        self._file.pwrite(data, self.size)
        failpoints.hit("cleaner.write.after")
        self.size += len(data)
        self._buffer, self._buffered = [], 0
        return len(data)

    def finish(self) -> None:
        """Write the rest, and make everything durable except the names."""
        self.write()
        if self._max_timestamp >= 0:
            self._time_index.maybe_append(self._max_timestamp, self._offset_of_max_timestamp)
        failpoints.hit("cleaner.sync.before")
        self._file.sync()
        failpoints.hit("cleaner.sync.log.after")
        self._offset_index.save(self._disk, sync=True)
        self._time_index.save(self._disk, sync=True)
        self.has_txn_file = self.has_txn_file or len(self._txn_index) > 0
        if self.has_txn_file:
            self._disk.open(self._path(TXN_INDEX_SUFFIX), create=True).close()
            self._txn_index.save(self._disk, sync=True)
        failpoints.hit("cleaner.sync.after")

    def close(self) -> None:
        """Release the file. Idempotent."""
        self._file.close()
