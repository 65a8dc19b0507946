"""Cleaning of one log (Kafka's Cleaner): the last offset of each key, then each segment without older records.

    build_map(job)      reads the dirty section, up to the first segment that must not change, or a full map
    groups(job)         which segments become one
    clean_group(...)    writes one segment of several, whole and durable; the swap is the caller's

All three are generators: they yield the bytes they have just read or written, 0 if only time has passed, every half
millisecond or so. The caller runs them off the event loop, throttles them, and stops them if the log is truncated or
deleted: they write only their own files, never the log's. Each raises OSError, CorruptSegment, KafkaError for
unreadable bytes.
"""

from collections.abc import Generator, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from kvorum.protocol.batch_header import HEADER_SIZE, MAGIC, BatchHeader, parse_header
from kvorum.protocol.records import crc_of
from kvorum.runtime.disk import Disk, File
from kvorum.storage.cleaner.batch_filter import BatchFilter, LastRecord, scanned
from kvorum.storage.cleaner.cleaned_segment import CleanedSegment
from kvorum.storage.cleaner.grouping import IndexSizes, Source, group_sources
from kvorum.storage.cleaner.offset_map import OffsetMap
from kvorum.storage.cleaner.transactions import CleanedTransactions
from kvorum.storage.log_config import LogConfig
from kvorum.storage.names import INDEX_SUFFIX, LOG_SUFFIX, TIME_INDEX_SUFFIX
from kvorum.storage.producer_replay import end_marker
from kvorum.storage.segment import CorruptSegment
from kvorum.storage.txn_index import AbortedTransaction

BATCHES_PER_STEP: Final = 100
"""Additional cost of a batch, for batches with few records."""
BUFFER_SIZE_MIN: Final = 4096

Steps = Generator[int, None, None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """A log to clean, in its state at the start of the cleaning."""

    folder: str
    sources: tuple[Source, ...]
    """From the first segment up to the first that must not change."""
    first_dirty_offset: int
    end_offset: int
    """The base offset of the first segment that must not change."""
    first_dirty_position: int
    """Position in its segment from which to search the first dirty offset."""
    aborted: tuple[AbortedTransaction, ...]
    """The aborted transactions that reach into the sources."""
    config: LogConfig
    now_ms: int


@dataclass(slots=True)
class CleanerStats:
    """Statistics of one cleaning."""

    map_bytes_read: int = 0
    map_records_read: int = 0
    bytes_read: int = 0
    bytes_written: int = 0
    records_read: int = 0
    records_kept: int = 0
    invalid_records: int = 0
    buffer_utilization: float = 0.0


@dataclass(slots=True)
class Cleaner:
    """Cleans one log after another, with one map. `io_buffer_size`: bytes per read and per write."""

    disk: Disk
    offset_map: OffsetMap
    io_buffer_size: int
    load_factor: float
    stats: CleanerStats = field(default_factory=CleanerStats)

    def build_map(self, job: Job) -> Steps:
        """Add the keys of the dirty section to the map; `offset_map.latest_offset` is the last processed one."""
        self.stats = CleanerStats()
        self.offset_map.clear()
        transactions = CleanedTransactions()
        transactions.expect([entry for entry in job.aborted if entry.last_offset >= job.first_dirty_offset])
        yield 0
        for source in job.sources:
            if source.next_base <= job.first_dirty_offset:
                continue
            is_full = yield from self._map_source(job, source, transactions)
            if is_full:
                break
        self.stats.buffer_utilization = self.offset_map.utilization

    @property
    def keys_max(self) -> int:
        """Maximum number of keys in the map: log.cleaner.io.buffer.load.factor of its slots."""
        return max(1, min(int(self.offset_map.slots * self.load_factor), self.offset_map.slots - 1))

    def _map_source(self, job: Job, source: Source, transactions: CleanedTransactions) -> Generator[int, None, bool]:
        """Add one segment's keys to the map; return whether it is full."""
        offset_map, keys_max = self.offset_map, self.keys_max
        is_first = source.base_offset <= job.first_dirty_offset
        steps = 0
        for chunk, position in self._chunks(source, job.first_dirty_position if is_first else 0):
            self.stats.map_bytes_read += len(chunk)
            yield len(chunk)
            for view, header in batches_in(chunk, source, position):
                self.stats.map_records_read += header.records_count
                steps += 1
                if steps % BATCHES_PER_STEP == 0:
                    yield 0
                if not self._has_no_keys(view, header, transactions):
                    for _, records in scanned(view, header):
                        for _, _, _, _, delta, key, _ in records:
                            offset = header.base_offset + delta
                            if key is None or offset < job.first_dirty_offset:
                                continue
                            if offset_map.size >= keys_max:
                                return True
                            offset_map.put(key, offset)
                            offset_map.latest_offset = offset
                        yield 0
                if header.last_offset >= job.first_dirty_offset:
                    offset_map.latest_offset = header.last_offset
        # There are no offsets between its last batch and the next segment.
        offset_map.latest_offset = max(offset_map.latest_offset, source.next_base - 1)
        return False

    def _has_no_keys(self, view: memoryview, header: BatchHeader, transactions: CleanedTransactions) -> bool:
        """Return whether a batch is a marker, or belongs to an aborted transaction."""
        if not header.is_control:
            return transactions.on_batch(header.last_offset, header.producer_id, header.is_transactional)
        marker = end_marker(view, 0)
        if marker is None:
            transactions.on_empty_marker(header.last_offset)
        elif marker.is_aborted:
            transactions.on_abort(header.last_offset, header.producer_id)
        else:
            transactions.on_commit(header.last_offset, header.producer_id)
        return True

    def groups(self, job: Job) -> list[tuple[Source, ...]]:
        """Return the sources up to the end of the map, in runs of which each becomes one segment."""
        sources = [source for source in job.sources if source.base_offset <= self.offset_map.latest_offset]
        return group_sources(sources, [self._index_sizes(source) for source in sources], job.config)

    def _index_sizes(self, source: Source) -> IndexSizes:
        sizes = []
        for suffix in (INDEX_SUFFIX, TIME_INDEX_SUFFIX):
            path = source.path.removesuffix(LOG_SUFFIX) + suffix
            sizes.append(self.disk.size(path) if self.disk.exists(path) else 0)
        return IndexSizes(offset_index=sizes[0], time_index=sizes[1])

    def begin(self, job: Job) -> BatchFilter:
        """Return what judges the batches of all groups: it carries the transactions from one to the next."""
        transactions = CleanedTransactions()
        transactions.expect(list(job.aborted))
        return BatchFilter(
            self.offset_map, transactions, now_ms=job.now_ms, delete_retention_ms=job.config.delete_retention_ms
        )

    def clean_group(
        self,
        job: Job,
        group: tuple[Source, ...],
        batch_filter: BatchFilter,
        producers: Mapping[int, LastRecord],
        target: CleanedSegment,
    ) -> Steps:
        """Write what stays of these segments into the target, and make it durable."""
        batch_filter.producers = producers
        last_source = next((source for source in reversed(group) if source.size), group[-1])
        steps = 0
        for source in group:
            for chunk, position in self._chunks(source, 0):
                self.stats.bytes_read += len(chunk)
                yield len(chunk)
                place = position
                for view, header in batches_in(chunk, source, position):
                    place += header.size
                    is_last = source is last_source and place == source.size
                    steps += 1
                    if steps % BATCHES_PER_STEP == 0:
                        yield 0
                    kept = yield from batch_filter.filtered(view, header, is_last)
                    if batch_filter.kept_transactions:
                        target.add_aborted(batch_filter.kept_transactions)
                        batch_filter.kept_transactions = []
                    if kept is not None and (written := target.append(kept, parse_header(kept))):
                        yield written
        if written := target.write():
            yield written
        target.finish()
        stats = self.stats
        stats.bytes_written += target.size
        stats.records_read, stats.records_kept = batch_filter.records_read, batch_filter.records_kept
        stats.invalid_records = batch_filter.invalid_records

    def _chunks(self, source: Source, position: int) -> Iterator[tuple[memoryview, int]]:
        """Yield a source's complete batches, about the buffer's size at a time, each with its position."""
        if position >= source.size:
            return
        file = self.disk.open(source.path)
        try:
            while position < source.size:
                chunk = read_batches(file, source, position, max(self.io_buffer_size, BUFFER_SIZE_MIN))
                yield chunk, position
                position += len(chunk)
        finally:
            file.close()


def read_batches(file: File, source: Source, position: int, size: int) -> memoryview:
    """Return the whole batches from a position on that fit into `size` bytes; one at least, however large it is."""
    data = file.pread(min(size, source.size - position), position)
    first_size = batch_size_at(memoryview(data), 0, source, position)
    if first_size > len(data):
        # Batches larger than the buffer are few: max.message.bytes was larger, or compression gained nothing.
        data = file.pread(first_size, position)
        if len(data) < first_size:
            raise CorruptSegment(f"{source.path} ends within the batch at {position}")
        return memoryview(data)
    view, end = memoryview(data), first_size
    while end + HEADER_SIZE <= len(view):
        following = batch_size_at(view, end, source, position + end)
        if end + following > len(view):
            break
        end += following
    return view[:end]


def batch_size_at(view: memoryview, place: int, source: Source, position: int) -> int:
    """Return the size of the batch that begins there. Raises CorruptSegment if none does that ends in its segment."""
    if len(view) - place < HEADER_SIZE:
        raise CorruptSegment(f"{source.path} ends within the batch at {position}")
    header = parse_header(view, place)
    if header.magic != MAGIC or header.size < HEADER_SIZE or position + header.size > source.size:
        raise CorruptSegment(f"{source.path} has no batch at {position}")
    return header.size


def batches_in(chunk: memoryview, source: Source, position: int) -> Iterator[tuple[memoryview, BatchHeader]]:
    """Yield each batch of a chunk with its header. Raises CorruptSegment for one that is damaged."""
    place = 0
    while place < len(chunk):
        header = parse_header(chunk, place)
        view = chunk[place : place + header.size]
        if crc_of(view, 0, header.size) != header.crc or header.records_count < 0:
            raise CorruptSegment(f"{source.path} has a damaged batch at {position + place}")
        yield view, header
        place += header.size
