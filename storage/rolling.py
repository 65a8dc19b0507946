"""When a log starts a new segment, and the size of a write before that (LogSegment.shouldRoll). Sans-IO."""

from typing import Final, NamedTuple

from crc32c import crc32c

from kvorum.protocol.batch_header import NO_TIMESTAMP, BatchHeader
from kvorum.storage.index import RELATIVE_OFFSET_MAX
from kvorum.storage.log_config import INT64_MAX, LogConfig
from kvorum.storage.segment import Segment


class Room(NamedTuple):
    """Capacity of an active segment: bytes, batches, last offset and max timestamp."""

    size: int
    batches: int
    last_offset: int
    max_timestamp: int


NO_ROOM: Final = Room(0, 0, -1, NO_TIMESTAMP - 1)


def must_roll(segment: Segment, config: LogConfig, header: BatchHeader, size: int, now_ms: int) -> bool:
    """Return whether this batch begins a new segment.

    An empty segment takes one batch even if segment.index.bytes has no room for an index entry: the first batch of a
    segment needs none. Kafka replaces such a segment by another one at the same base offset.
    """
    if header.last_offset - segment.base_offset > RELATIVE_OFFSET_MAX:
        return True
    if segment.size == 0:
        return False
    if segment.index_room(config.segment_index_bytes) <= 0:
        return True
    if segment.size + size > config.segment_bytes:
        return True
    first_timestamp = segment.first_timestamp
    if first_timestamp is not None and first_timestamp >= 0:
        waited_ms = header.max_timestamp - first_timestamp
    else:
        waited_ms = now_ms - segment.created_ms
    return waited_ms > open_ms(segment, config)


def room_in(segment: Segment, config: LogConfig, now_ms: int, size_max: int) -> Room:
    """Return the part that can be written to a segment at once, so that each batch is where it would be alone.

    The conditions of `must_roll`, for many batches at once; at most `size_max` bytes.
    """
    if segment.size == 0:
        return NO_ROOM  # its first batch determines how long it stays open
    first_timestamp = segment.first_timestamp
    if first_timestamp is not None and first_timestamp >= 0:
        timestamp_max = first_timestamp + open_ms(segment, config)
    else:
        is_over = now_ms - segment.created_ms > open_ms(segment, config)
        timestamp_max = NO_TIMESTAMP - 1 if is_over else INT64_MAX
    return Room(
        size=min(config.segment_bytes - segment.size, size_max),
        batches=segment.index_room(config.segment_index_bytes),
        last_offset=segment.base_offset + RELATIVE_OFFSET_MAX,
        max_timestamp=timestamp_max,
    )


def open_ms(segment: Segment, config: LogConfig) -> int:
    """Return how long a segment stays open: segment.ms, less its own share of segment.jitter.ms.

    This spreads the rolls of logs that were created together.
    """
    jitter_ms = min(config.segment_jitter_ms, config.segment_ms_max)
    share_ms = crc32c(segment.path("").encode()) % jitter_ms if jitter_ms else 0
    return config.segment_ms_max - share_ms
