"""Reading segments: a range of whole batches, and the look-ups by timestamp (Kafka's LocalLog.read, LogSegment)."""

from collections.abc import Iterable
from typing import Final, NamedTuple

from kvorum.protocol.parts import FileSlice, Part
from kvorum.protocol.records import decode_records
from kvorum.storage.segment import Placed, Segment


class ReadInfo(NamedTuple):
    """Complete batches, in order; the first one can begin before the requested offset. `size` in bytes."""

    parts: tuple[Part, ...]
    size: int


class TimestampOffset(NamedTuple):
    """A record found by its timestamp (ms), and the leader epoch of its batch (-1 for none)."""

    timestamp: int
    offset: int
    leader_epoch: int


NOTHING = ReadInfo((), 0)
SEGMENTS_PER_READ_MAX: Final = 256
"""For this number of header-only batches a read takes some milliseconds."""


def read_segments(
    segments: Iterable[Segment],
    offset: int,
    max_bytes: int,
    upper_bound_offset: int,
    log_end_offset: int,
    min_one: bool,
) -> ReadInfo:
    """Return slices of whole batches, starting with the one that contains `offset` (or the next one).

    Ends below the bound, and within `max_bytes` unless `min_one` requires the first batch whatever its size. Ends with
    its segment too, as in Kafka, except if it starts with a batch that has lost its records to compaction: then it
    continues to the next segment that starts with another batch. Our cleaner leaves such a batch in every segment where
    Kafka's leaves an empty file, and librdkafka treats a response without records as too small: it doubles
    the requested size each time, and finally fails (MSG_SIZE_TOO_LARGE).

    Reads the batches of one index interval at most, and one of each further segment.
    """
    parts: list[Part] = []
    left = max_bytes
    for segment in segments:
        first = segment.find_batch(offset) if segment.base_offset < offset else next(segment.batches(), None)
        if first is None:
            continue
        end = _read_end(segment, first, left, upper_bound_offset, log_end_offset, min_one)
        size = end - first.position
        if size <= 0:
            break
        parts.append(FileSlice(segment.file, first.position, size))
        left -= size
        if first.header.records_count or end < segment.size or len(parts) == SEGMENTS_PER_READ_MAX:
            break
    return ReadInfo(tuple(parts), max_bytes - left) if parts else NOTHING


def _read_end(
    segment: Segment, first: Placed, max_bytes: int, upper_bound_offset: int, log_end_offset: int, min_one: bool
) -> int:
    """Return the position at which a read that begins with this batch ends; the batch's own if it may not be read."""
    if first.header.next_offset > upper_bound_offset:
        return first.position
    end = segment.size
    if upper_bound_offset < log_end_offset and first.end < end:
        beyond = segment.find_batch(upper_bound_offset)
        end = segment.size if beyond is None else beyond.position
    if end - first.position > max_bytes:
        end = _whole_batches_end(segment, first, first.position + max_bytes, min_one)
    return end


def _whole_batches_end(segment: Segment, first: Placed, limit: int, min_one: bool) -> int:
    """Return the position of a batch's end at or before the limit, at most an index interval below it."""
    if first.end > limit:
        return first.end if min_one else first.position
    indexed = segment.offset_index.position_floor(limit)
    if indexed > first.end:
        return indexed
    end = first.end
    for placed in segment.batches(first.end, limit):
        if placed.end > limit:
            break
        end = placed.end
    return end


def find_timestamp(segment: Segment, timestamp: int, start_offset: int) -> TimestampOffset | None:
    """Return the first record of at least this timestamp and this offset in the segment."""
    start = max(segment.time_index.lookup(timestamp), start_offset)
    for position, header in segment.batches(segment.start_position(start)):
        if header.max_timestamp < timestamp or header.last_offset < start_offset:
            continue
        for record in decode_records(memoryview(segment.file.pread(header.size, position))):
            if record.timestamp >= timestamp and record.offset >= start_offset:
                return TimestampOffset(record.timestamp, record.offset, header.partition_leader_epoch)
    return None


def find_max_timestamp(segment: Segment) -> TimestampOffset | None:
    """Return the first record that has the segment's greatest timestamp."""
    greatest = segment.max_timestamp
    for position, header in segment.batches(segment.start_position(segment.offset_of_max_timestamp)):
        if header.max_timestamp == greatest:
            for record in decode_records(memoryview(segment.file.pread(header.size, position))):
                if record.timestamp == greatest:
                    return TimestampOffset(record.timestamp, record.offset, header.partition_leader_epoch)
    return None
