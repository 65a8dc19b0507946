"""One segment of a log: its `.log` file and the three indexes beside it (Kafka's LogSegment).

The active segment is written at its end; the others never change but by truncation. Files are opened on first use and
stay open until the segment is closed or deleted; the indexes of an inactive segment are read on first use and dropped
with `forget_indexes`. Everything raises OSError as the disk does: the log turns it into an offline directory.
"""

from collections.abc import Iterator
from typing import Final, NamedTuple

from kvorum.protocol.batch_header import HEADER_SIZE, MAGIC, NO_TIMESTAMP, BatchHeader, parse_header
from kvorum.runtime import failpoints
from kvorum.runtime.disk import Disk, File
from kvorum.storage.index import (
    OFFSET_ENTRY_SIZE,
    RELATIVE_OFFSET_MAX,
    TIME_ENTRY_SIZE,
    CorruptIndex,
    OffsetIndex,
    TimeIndex,
)
from kvorum.storage.names import INDEX_SUFFIX, LOG_SUFFIX, TIME_INDEX_SUFFIX, TXN_INDEX_SUFFIX, segment_file
from kvorum.storage.txn_index import TransactionIndex

SCAN_SIZE: Final = 8 * 1024
"""Bytes per read from batch to batch: an index interval and a bit."""


class CorruptSegment(Exception):
    """Bytes in a `.log` file that are not a valid batch."""


class Placed(NamedTuple):
    """A batch and its position in the segment's file."""

    position: int
    header: BatchHeader

    @property
    def end(self) -> int:
        """Position of the next batch."""
        return self.position + self.header.size


class Segment:
    """Offsets from `base_offset` on. `size`: bytes of whole batches in the file; nothing behind them counts."""

    __slots__ = (
        "_bytes_since_index_entry",
        "_disk",
        "_file",
        "_first_timestamp",
        "_max_timestamp",
        "_offset_index",
        "_offset_of_max_timestamp",
        "_time_index",
        "_txn_index",
        "base_offset",
        "created_ms",
        "folder",
        "has_txn_file",
        "index_interval_bytes",
        "size",
    )

    def __init__(
        self,
        disk: Disk,
        folder: str,
        base_offset: int,
        *,
        size: int,
        index_interval_bytes: int,
        created_ms: int,
        has_txn_file: bool = False,
    ) -> None:
        """Refer to files that exist (or, for a new segment, will with the first `open_file`)."""
        self._disk = disk
        self.folder = folder
        self.base_offset = base_offset
        self.size = size
        self.index_interval_bytes = index_interval_bytes
        self.created_ms = created_ms
        self._file: File | None = None
        self._offset_index: OffsetIndex | None = None
        self._time_index: TimeIndex | None = None
        self._txn_index: TransactionIndex | None = None
        self.has_txn_file = has_txn_file
        self._bytes_since_index_entry = 0
        self._first_timestamp: int | None = None
        self._max_timestamp: int | None = None
        self._offset_of_max_timestamp = -1

    def path(self, suffix: str) -> str:
        """Return the path of one of the segment's files."""
        return segment_file(self.folder, self.base_offset, suffix)

    def moved_to(self, folder: str) -> None:
        """Use the folder's new name; open files and memory are kept."""
        self.folder = folder
        if self._offset_index is not None:
            self._offset_index.path = self.path(INDEX_SUFFIX)
        if self._time_index is not None:
            self._time_index.path = self.path(TIME_INDEX_SUFFIX)
        if self._txn_index is not None:
            self._txn_index.path = self.path(TXN_INDEX_SUFFIX)

    @property
    def file(self) -> File:
        """The `.log`, opened on first use."""
        if self._file is None:
            self._file = self._disk.open(self.path(LOG_SUFFIX), create=True)
        return self._file

    @property
    def offset_index(self) -> OffsetIndex:
        """The offset index, read on first use; rebuilt from the log if it is missing or corrupt."""
        if self._offset_index is None:
            self._load_indexes()
        assert self._offset_index is not None
        return self._offset_index

    @property
    def time_index(self) -> TimeIndex:
        """The time index, as offset_index."""
        if self._time_index is None:
            self._load_indexes()
        assert self._time_index is not None
        return self._time_index

    def _load_indexes(self) -> None:
        """Read both, or rebuild both: they are written together."""
        offset_index = OffsetIndex(self.path(INDEX_SUFFIX), self.base_offset)
        time_index = TimeIndex(self.path(TIME_INDEX_SUFFIX), self.base_offset)
        try:
            offset_index.load(self._disk, self.size)
            time_index.load(self._disk)
        except (CorruptIndex, FileNotFoundError):
            self.rebuild_indexes()
            return
        self._offset_index, self._time_index = offset_index, time_index

    @property
    def txn_index(self) -> TransactionIndex:
        """The transaction index, read on first use. Raises CorruptSegment: only a recovery rebuilds it."""
        if self._txn_index is None:
            index = TransactionIndex(self.path(TXN_INDEX_SUFFIX), self.base_offset)
            if self.has_txn_file:
                try:
                    index.load(self._disk)
                except CorruptIndex as error:
                    raise CorruptSegment(str(error)) from error
            self._txn_index = index
        return self._txn_index

    @property
    def has_aborted_transactions(self) -> bool:
        """Whether the transaction index may have an entry; reads nothing."""
        return self.has_txn_file if self._txn_index is None else len(self._txn_index) > 0

    @property
    def max_timestamp(self) -> int:
        """The greatest timestamp in the segment (ms), NO_TIMESTAMP in an empty one."""
        self._load_max_timestamp()
        assert self._max_timestamp is not None
        return self._max_timestamp

    @property
    def offset_of_max_timestamp(self) -> int:
        """The last offset of the first batch that has it."""
        self._load_max_timestamp()
        return self._offset_of_max_timestamp

    def _load_max_timestamp(self) -> None:
        """Find it in the time index, and in the batches behind the index's last entry."""
        if self._max_timestamp is not None:
            return
        were_loaded = self._time_index is not None
        greatest, offset = self.time_index.last or (NO_TIMESTAMP, -1)
        for _, header in self.batches(self.start_position(max(offset, self.base_offset))):
            if header.max_timestamp > greatest:
                greatest, offset = header.max_timestamp, header.last_offset
        if not were_loaded:
            self._offset_index = self._time_index = None
        self._max_timestamp, self._offset_of_max_timestamp = greatest, offset

    @property
    def first_timestamp(self) -> int | None:
        """The max timestamp of the first batch, by which segment.ms counts; None in an empty segment."""
        if self._first_timestamp is None and self.size:
            self._first_timestamp = self.header_at(0).max_timestamp
        return self._first_timestamp

    @property
    def largest_timestamp(self) -> int:
        """The time by which retention.ms counts: the greatest timestamp, else when the file was changed."""
        return self.max_timestamp if self.max_timestamp >= 0 else self._disk.modified_ms(self.path(LOG_SUFFIX))

    def index_room(self, index_size_max: int) -> int:
        """Return how many more entries the indexes can take."""
        return min(
            index_size_max // OFFSET_ENTRY_SIZE - len(self.offset_index),
            index_size_max // TIME_ENTRY_SIZE - 1 - len(self.time_index),
        )

    def append(self, data: memoryview, headers: list[BatchHeader]) -> None:
        """Write batches whose offsets follow those in the segment, and update the indexes.

        Raises OSError. After any error, `truncate_to` the offset of the first batch removes the written bytes.
        """
        assert sum([header.size for header in headers]) == len(data), "the headers are those of the data"
        position = self.size
        if self._max_timestamp is None:
            self._load_max_timestamp()
        if self._offset_index is None:
            self._load_indexes()  # before the write: an error that follows it is harder to undo
        failpoints.hit("log.append.before")
        self.file.pwrite(data, position)
        self.size += len(data)
        failpoints.hit("log.append.after")
        if position == 0:
            self._first_timestamp = headers[0].max_timestamp
        for header in headers:
            self.index_batch(position, header)
            position += header.size

    def index_batch(self, position: int, header: BatchHeader) -> None:
        """Record a batch: its timestamp, and an index entry for every index.interval.bytes."""
        assert self._max_timestamp is not None, "loaded before a batch is indexed"
        if header.max_timestamp > self._max_timestamp:
            self._max_timestamp, self._offset_of_max_timestamp = header.max_timestamp, header.last_offset
        if self._bytes_since_index_entry > self.index_interval_bytes:
            self.offset_index.append(header.last_offset, position)
            self.time_index.maybe_append(self._max_timestamp, self._offset_of_max_timestamp)
            self._bytes_since_index_entry = 0
        self._bytes_since_index_entry += header.size

    def header_at(self, position: int) -> BatchHeader:
        """Return the header of the batch that begins there. Raises CorruptSegment if none does."""
        data = self.file.pread(HEADER_SIZE, position)
        return self._checked(data, 0, position)

    def _checked(self, data: bytes, place: int, position: int) -> BatchHeader:
        """Return the header at `place` of data read from the file. Raises CorruptSegment."""
        if len(data) - place < HEADER_SIZE:
            raise CorruptSegment(f"{self.path(LOG_SUFFIX)} ends within the batch at {position}")
        header = parse_header(data, place)
        is_batch = header.magic == MAGIC and header.size >= HEADER_SIZE and header.last_offset_delta >= 0
        first, last = header.base_offset - self.base_offset, header.last_offset - self.base_offset
        if not is_batch or first < 0 or last > RELATIVE_OFFSET_MAX:
            raise CorruptSegment(f"{self.path(LOG_SUFFIX)} has no batch at {position}")
        return header

    def batches(self, position: int = 0, end: int | None = None) -> Iterator[Placed]:
        """Yield the batches from the one that begins at `position` up to `end` (the segment's own if None).

        Reads headers only. Raises CorruptSegment where the chain breaks.
        """
        end = self.size if end is None else end
        data, start = b"", position
        while position < end:
            place = position - start
            if place < 0 or place + HEADER_SIZE > len(data):
                data, start, place = self.file.pread(SCAN_SIZE, position), position, 0
            header = self._checked(data, place, position)
            yield Placed(position, header)
            position += header.size

    def find_batch(self, offset: int) -> Placed | None:
        """Return the first batch whose last offset is not before `offset`; reads at most one index interval."""
        for placed in self.batches(self.start_position(offset)):
            if placed.header.last_offset >= offset:
                return placed
        return None

    def start_position(self, offset: int) -> int:
        """Return the position of a batch from which to look for this offset."""
        position = self.offset_index.lookup(offset)
        if not self._is_indexed_right(position):
            self.rebuild_indexes()
            position = self.offset_index.lookup(offset)
        return position

    def _last_position(self) -> int:
        """Return the position of the last indexed batch."""
        if not self._is_indexed_right(self.offset_index.last_position):
            self.rebuild_indexes()
        return self.offset_index.last_position

    def _is_indexed_right(self, position: int) -> bool:
        """Return whether the batch is at its indexed position, so that a damaged index does not mislead a reader."""
        indexed = self.offset_index.entry_at(position)
        if indexed is None:
            return True
        try:
            return self.header_at(position).last_offset == indexed
        except CorruptSegment:
            return False

    def next_offset(self) -> int:
        """Return one past the last offset, found from the last index entry on."""
        last = self.base_offset
        for _, header in self.batches(self._last_position()):
            last = header.next_offset
        return last

    def begin_rebuild(self) -> None:
        """Drop both indexes and the values derived from batches, before `index_batch` receives all batches again."""
        self._offset_index = OffsetIndex(self.path(INDEX_SUFFIX), self.base_offset)
        self._time_index = TimeIndex(self.path(TIME_INDEX_SUFFIX), self.base_offset)
        self._max_timestamp, self._offset_of_max_timestamp = NO_TIMESTAMP, -1
        self._bytes_since_index_entry = 0
        self._first_timestamp = None

    def begin_txn_rebuild(self) -> None:
        """Drop the transaction index, before all aborted transactions are added again."""
        self._txn_index = TransactionIndex(self.path(TXN_INDEX_SUFFIX), self.base_offset, has_file=self.has_txn_file)

    def rebuild_indexes(self) -> None:
        """Rebuild and save offset and time index from the batch headers. Raises CorruptSegment."""
        self.begin_rebuild()
        next_offset = self.base_offset
        for position, header in self.batches():
            is_last_right = (
                0 <= header.last_offset_delta <= RELATIVE_OFFSET_MAX - (header.base_offset - self.base_offset)
            )
            if header.base_offset < next_offset or not is_last_right:
                raise CorruptSegment(
                    f"{self.path(LOG_SUFFIX)}: offset {header.base_offset} at byte {position} "
                    f"cannot follow {next_offset - 1}"
                )
            next_offset = header.next_offset
            self.index_batch(position, header)
        self.save_indexes(with_last_timestamp=True)

    def truncate_to(self, offset: int) -> int:
        """Cut off the batch that holds `offset` and all behind it; return how many bytes that was."""
        placed = self.find_batch(offset)
        if placed is None:
            return 0
        removed = self.size - placed.position
        failpoints.hit("log.truncate.before")
        self.file.truncate(placed.position)
        failpoints.hit("log.truncate.after")
        self.size = placed.position
        self.offset_index.truncate_to(offset)
        self.time_index.truncate_to(offset)
        if self.has_aborted_transactions:
            self.txn_index.truncate_to(offset)
        self._bytes_since_index_entry = 0
        self._max_timestamp = None
        self._first_timestamp = None
        return removed

    def save_indexes(self, *, with_last_timestamp: bool = False, sync: bool = False) -> None:
        """Write the indexes; `with_last_timestamp` when the segment becomes inactive or the log is closed."""
        if self._txn_index is not None:
            self._txn_index.save(self._disk, sync=sync)
            self.has_txn_file = self.has_txn_file or len(self._txn_index) > 0
        if self._offset_index is None or self._time_index is None:
            return
        if with_last_timestamp and self.max_timestamp >= 0:
            self._time_index.maybe_append(self.max_timestamp, self._offset_of_max_timestamp)
        self._offset_index.save(self._disk, sync=sync)
        self._time_index.save(self._disk, sync=sync)

    def forget_indexes(self) -> None:
        """Free the memory of saved indexes; they are read again when they are needed."""
        self._offset_index = self._time_index = None
        if self._txn_index is not None and self._txn_index.is_saved:
            self._txn_index = None

    def trim(self) -> None:
        """Cut the file to its batches, if it was made longer than they are. Durable with the next sync."""
        if self.file.size() > self.size:
            failpoints.hit("log.trim.before")
            self.file.truncate(self.size)
            failpoints.hit("log.trim.after")

    def sync(self) -> None:
        """fdatasync the `.log`. Raises OSError: the segment must then not be used again."""
        failpoints.hit("log.sync.before")
        self.file.sync()
        failpoints.hit("log.sync.after")

    def close(self) -> None:
        """Release the file. Slices of it that were handed out can no longer be read."""
        if self._file is not None:
            self._file.close()
            self._file = None
