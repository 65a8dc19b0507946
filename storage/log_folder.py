"""Contents of a log's folder when it is opened, and creation of an empty log."""

from typing import Final

from kvorum.protocol.records import crc_of
from kvorum.runtime import failpoints
from kvorum.runtime.clock import Clock
from kvorum.runtime.disk import Disk
from kvorum.storage import durable_length
from kvorum.storage.durable_length import DurableLength
from kvorum.storage.epoch_cache import EpochCache
from kvorum.storage.index import OFFSET_ENTRY_SIZE
from kvorum.storage.log_config import LogConfig
from kvorum.storage.log_types import LogParts
from kvorum.storage.names import (
    INDEX_SUFFIX,
    LEADER_EPOCH_CHECKPOINT,
    LOG_SUFFIX,
    OFFSET_MAX,
    SNAPSHOT_SUFFIX,
    TEMPORARY_SUFFIX,
    TIME_INDEX_SUFFIX,
    TXN_INDEX_SUFFIX,
    join,
    offset_of,
)
from kvorum.storage.producer_state import ProducerState
from kvorum.storage.segment import CorruptSegment, Segment
from kvorum.storage.segment_check import valid_batches
from kvorum.storage.segment_creation import create_segment
from kvorum.storage.segments import Segments
from kvorum.storage.snapshots import Snapshots

SEGMENT_WITHOUT_INDEX_MAX: Final = 256 * 1024
"""Size up to which a segment is read completely instead of rebuilding its index."""
INDEX_SUFFIXES: Final = (INDEX_SUFFIX, TIME_INDEX_SUFFIX, TXN_INDEX_SUFFIX)


def find_segments(disk: Disk, folder: str, config: LogConfig, clock: Clock) -> list[Segment]:
    """Return the folder's segments in order; unfinished files and indexes without a log are removed."""
    names = disk.listdir(folder)
    bases = sorted(offset for name in names if (offset := offset_of(name, LOG_SUFFIX)) is not None)
    for name in names:
        offset = offset_of(name)
        is_orphan = offset is not None and offset not in bases and name[20:] in INDEX_SUFFIXES
        if is_orphan or is_own_temporary(name):
            disk.remove(join(folder, name))
    segments = []
    for base in bases:
        size = disk.size(join(folder, f"{base:020d}{LOG_SUFFIX}"))
        interval = config.index_interval_bytes
        segments.append(
            Segment(
                disk,
                folder,
                base,
                size=size,
                index_interval_bytes=interval,
                created_ms=clock.wall_ms(),
                has_txn_file=f"{base:020d}{TXN_INDEX_SUFFIX}" in names,
            )
        )
    return segments


def is_own_temporary(name: str) -> bool:
    """Return whether this file may be left over from an atomic write."""
    written = name.removesuffix(TEMPORARY_SUFFIX)
    return written != name and (written == LEADER_EPOCH_CHECKPOINT or offset_of(written, SNAPSHOT_SUFFIX) is not None)


def new_parts(disk: Disk, folder: str, config: LogConfig, clock: Clock, offset: int) -> LogParts:
    """Begin an empty log at this offset."""
    snapshots = Snapshots(disk, folder)
    snapshots.remove_if(0, OFFSET_MAX)
    failpoints.hit("log.create.before")
    # First, so that no folder with a segment is ever without: the checkpoint may have a deleted namesake's point.
    durable = DurableLength(offset, offset, 0)
    durable_length.write(disk, folder, durable, sync=False)
    segment = create_segment(disk, folder, offset, config.index_interval_bytes, clock.wall_ms(), config.init_file_size)
    failpoints.hit("log.create.after")
    return LogParts(Segments([segment]), offset, offset, durable, EpochCache(), ProducerState(offset), snapshots)


def read_epochs(disk: Disk, folder: str) -> EpochCache | None:
    """Return the saved leader epochs, None where they are missing or damaged."""
    path = join(folder, LEADER_EPOCH_CHECKPOINT)
    if not disk.exists(path):
        return None
    try:
        return EpochCache.parse(disk.read(path).decode("ascii"))
    except ValueError:
        return None


def find_broken(disk: Disk, segments: Segments, end_offset: int, *, gaps_below: int) -> list[Segment]:
    """Return the segments below an offset that do not reach the next one's base, or whose batches do not.

    After a segment whose base is less than `gaps_below` there may be a gap. Of each segment only the last index
    interval is read, and of the index the last entry, so that a start after a crash is fast. Raises OSError.
    """

    def is_whole(segment: Segment, position: int) -> bool:
        try:
            reaches_next = checked_end(segment, position) == segments.next_base(segment)
            return reaches_next or segment.base_offset < gaps_below
        except CorruptSegment:
            return False

    found = []
    for segment in segments:
        if segment.base_offset >= end_offset:
            break
        position = last_indexed(disk, segment)
        if position is None or not is_whole(segment, position):
            # The index may be wrong: it is checked, and rebuilt if necessary.
            try:
                is_broken = not is_whole(segment, segment.start_position(OFFSET_MAX))
            except CorruptSegment:
                is_broken = True
            if is_broken:
                found.append(segment)
            segment.forget_indexes()
        segment.close()  # it is opened again on first use
    return found


def last_indexed(disk: Disk, segment: Segment) -> int | None:
    """Return the position of the last entry of a segment's offset index on disk; None where it should have one."""
    path = segment.path(INDEX_SUFFIX)
    size = disk.size(path) // OFFSET_ENTRY_SIZE * OFFSET_ENTRY_SIZE if disk.exists(path) else 0
    if not size:
        return 0 if segment.size <= SEGMENT_WITHOUT_INDEX_MAX else None
    file = disk.open(path)
    try:
        return int.from_bytes(file.pread(4, size - 4), "big")
    finally:
        file.close()


def repair_segment(segment: Segment) -> None:
    """Truncate a segment at its first invalid batch and rebuild its indexes. Raises OSError."""
    size = 0
    for (position, header), _ in valid_batches(segment):
        size = position + header.size
    if size < segment.file.size():
        segment.file.truncate(size)
    segment.size = size
    segment.sync()
    segment.rebuild_indexes()


def lacks_first_epoch(segments: Segments, epochs: EpochCache, start: int) -> bool:
    """Return whether saved epochs begin after the first record, at or after the log start offset `start`.

    This happens if the log start offset rose, the epochs were saved, and a crash lost the new start.
    """
    for segment in segments.from_offset(start):
        placed = segment.find_batch(start)
        if placed is not None:
            offset = max(placed.header.base_offset, start)
            return placed.header.partition_leader_epoch >= 0 and epochs.epoch_for_offset(offset) is None
    return False


def assign_epochs(segments: Segments, epochs: EpochCache) -> None:
    """Read the leader epochs from every batch: the checkpoint is missing, damaged or begins too late."""
    epochs.clear()
    for segment in segments:
        for _, header in segment.batches():
            if header.partition_leader_epoch >= 0:
                epochs.assign(header.partition_leader_epoch, header.base_offset)


def checked_end(segment: Segment, start: int) -> int:
    """Return one past the last offset of a segment, with the CRC of its batches from a position on verified.

    Raises CorruptSegment, OSError.
    """
    end_offset = segment.base_offset
    for position, header in segment.batches(start):
        if crc_of(memoryview(segment.file.pread(header.size, position)), 0, header.size) != header.crc:
            raise CorruptSegment(f"{segment.path(LOG_SUFFIX)} has a damaged batch at {position}")
        end_offset = header.next_offset
    return end_offset
