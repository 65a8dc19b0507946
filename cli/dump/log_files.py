"""Reads the files of a log: batches of a segment or snapshot, entries of an index.

It repairs nothing: truncated or damaged parts are shown unchanged.
"""

import os
from collections.abc import Iterator
from struct import Struct
from typing import BinaryIO, NamedTuple

from kvorum.protocol.batch_header import HEADER_SIZE, LEGACY_BATCH_LENGTH_MIN, LOG_OVERHEAD, BatchHeader, parse_header
from kvorum.protocol.errors import KafkaError
from kvorum.protocol.records import Record, crc_of, decode_records

MAGIC_POSITION = 16
MAGIC = 2
OFFSET_ENTRY = Struct(">ii")
TIME_ENTRY = Struct(">qi")


class FileProblem(Exception):
    """A file whose content does not match its name; the message has the reason."""


class Batch(NamedTuple):
    """A batch with its position in the file, and its bytes."""

    position: int
    header: BatchHeader
    data: memoryview

    @property
    def is_valid(self) -> bool:
        """Return whether the CRC matches the bytes."""
        return crc_of(self.data, 0, len(self.data)) == self.header.crc

    def records(self) -> list[Record]:
        """Return the records. Raises FileProblem where they cannot be read."""
        try:
            return decode_records(self.data)
        except (KafkaError, ValueError) as error:
            raise FileProblem(f"the batch at position {self.position}: {error}") from error


def batches(file: BinaryIO, start: int = 0, size_max: int | None = None) -> Iterator[Batch]:
    """Yield the whole batches of a file from a position on, within this number of bytes.

    Raises FileProblem: an old format.
    """
    end = file_size(file) if size_max is None else min(file_size(file), start + size_max)
    position = start
    while position + HEADER_SIZE <= end:
        file.seek(position)
        head = file.read(HEADER_SIZE)
        size = int.from_bytes(head[8:12], "big", signed=True) + LOG_OVERHEAD
        if size - LOG_OVERHEAD < LEGACY_BATCH_LENGTH_MIN or position + size > end:
            return
        if head[MAGIC_POSITION] != MAGIC:
            raise FileProblem(
                f"a batch of magic {head[MAGIC_POSITION]} at position {position}; only magic 2 is supported"
            )
        data = memoryview(head + file.read(size - HEADER_SIZE))
        yield Batch(position, parse_header(data), data)
        position += size


def file_size(file: BinaryIO) -> int:
    """Return how many bytes a file has."""
    return os.fstat(file.fileno()).st_size


def index_entries(path: str, base_offset: int) -> list[tuple[int, int]]:
    """Return (offset, position) of each entry of an offset index. Raises FileProblem, OSError."""
    return [
        (base_offset + offset, position) for offset, position in OFFSET_ENTRY.iter_unpack(whole(path, OFFSET_ENTRY))
    ]


def time_index_entries(path: str, base_offset: int) -> list[tuple[int, int]]:
    """Return (timestamp, offset) of each entry of a time index. Raises FileProblem, OSError."""
    return [(timestamp, base_offset + offset) for timestamp, offset in TIME_ENTRY.iter_unpack(whole(path, TIME_ENTRY))]


def whole(path: str, entry: Struct) -> bytes:
    """Return a file of such entries. Raises FileProblem if it has a part of one."""
    with open(path, "rb") as file:
        data = file.read()
    if len(data) % entry.size:
        raise FileProblem(f"Corrupt index found: {path} has {len(data)} bytes, not a multiple of {entry.size}")
    return data
