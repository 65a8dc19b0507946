"""Reading a segment where nothing may be trusted: every batch of its file is checked. For recovery."""

from collections.abc import Iterator
from typing import Final

from kvorum.protocol.batch_header import HEADER_SIZE, MAGIC, parse_header
from kvorum.protocol.records import crc_of
from kvorum.storage.index import RELATIVE_OFFSET_MAX
from kvorum.storage.log_config import INT64_MAX
from kvorum.storage.segment import Placed, Segment

RECOVERY_READ_SIZE: Final = 1024 * 1024
"""Bytes per read where every byte is checked."""


def valid_batches(segment: Segment) -> Iterator[tuple[Placed, memoryview]]:
    """Yield every batch of the *file* with its bytes, CRC and ascending offsets checked, up to the first bad one.

    Only for recovery: everything after the last one is truncated.
    """
    file_size = segment.file.size()
    position, next_offset = 0, segment.base_offset
    data, start = memoryview(b""), 0
    while position + HEADER_SIZE <= file_size:
        place = position - start
        if place + HEADER_SIZE > len(data):
            data, start, place = memoryview(segment.file.pread(RECOVERY_READ_SIZE, position)), position, 0
        header = parse_header(data, place)
        size = header.size
        if header.magic != MAGIC or size < HEADER_SIZE or position + size > file_size:
            return
        if header.base_offset < next_offset or header.last_offset_delta < 0 or header.records_count < 0:
            return
        if header.last_offset - segment.base_offset > RELATIVE_OFFSET_MAX or header.next_offset > INT64_MAX:
            return
        if place + size > len(data):
            data = memoryview(segment.file.pread(max(RECOVERY_READ_SIZE, size), position))
            start, place = position, 0
        if crc_of(data, place, size) != header.crc:
            return
        yield Placed(position, header), data[place : place + size]
        position += size
        next_offset = header.next_offset
