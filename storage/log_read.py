"""Reading a segment: a range of whole batches, and the look-ups by timestamp (Kafka's LogSegment)."""

from typing import NamedTuple

from kvorum.protocol.parts import FileSlice, Part
from kvorum.protocol.records import decode_records
from kvorum.storage.segment import Placed, Segment


class ReadInfo(NamedTuple):
    """Whole batches, in order; the first one may begin before the offset asked for. `size` in bytes."""

    parts: tuple[Part, ...]
    size: int


class TimestampOffset(NamedTuple):
    """A record found by its timestamp (ms), and the leader epoch of its batch (-1 for none)."""

    timestamp: int
    offset: int
    leader_epoch: int


NOTHING = ReadInfo((), 0)


def read_segment(
    segment: Segment, offset: int, max_bytes: int, upper_bound_offset: int, log_end_offset: int, min_one: bool
) -> ReadInfo | None:
    """Return a slice of whole batches from the one that holds `offset` (or is next behind it).

    None if the segment has none such. Ends below the bound, and within `max_bytes` unless `min_one` asks for the first
    batch whatever its size. Looks at the batches of one index interval at most.
    """
    first = segment.find_batch(offset)
    if first is None:
        return None
    if first.header.next_offset > upper_bound_offset:
        return NOTHING
    end = segment.size
    if upper_bound_offset < log_end_offset:
        beyond = segment.find_batch(upper_bound_offset)
        end = segment.size if beyond is None else beyond.position
    if end - first.position > max_bytes:
        end = _whole_batches_end(segment, first, first.position + max_bytes, min_one)
    size = end - first.position
    return ReadInfo((FileSlice(segment.file, first.position, size),), size) if size > 0 else NOTHING


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
