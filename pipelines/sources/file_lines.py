"""Positions and lines of one file that grows: which bytes are complete lines, and which file a position belongs to.

A position is a byte offset behind a line's terminator (LF, CRLF or CR, as in Kafka Connect's FileStreamSourceTask). A
last line without a terminator is not complete. A CR at the end of the data is not complete either: an LF may follow.
UTF-8 has neither byte inside of a character, so lines are found in bytes.

A file is recognised by its inode and by a checksum of the bytes before the position.
"""

import re
import zlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Final

BLOCK_BYTES: Final = 1 << 16
"""Of one read while the end of a micro-batch is searched."""
TAIL_BYTES: Final = 1024
"""Bytes before a position that its checksum covers: some lines of a log, read with one system call."""
LINE_BYTES_MAX: Final = 64 << 20
"""A longer line is a failed record. Brokers accept 1 MB by default; the limit bounds a task's memory."""

TERMINATOR: Final = re.compile(rb"\r\n|\n|\r(?=[^\n])")
Read = Callable[[int, int], bytes]
"""Returns the bytes from one position to another."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FilePosition:
    """The source offset, as Spark's checkpoint stores it: lines of the file before `position` are read.

    The first two are Kafka Connect's.
    """

    filename: str
    position: int = 0
    inode: int | None = None
    """None: no file was found yet."""
    tail: int | None = 0
    """Checksum of the bytes before `position`. None: the position was set by hand."""
    start: int = 0
    """Where the micro-batch that ends at `position` starts, in the same file."""


def tail_of(read: Read, position: int) -> int:
    """Return the checksum of the bytes before a position."""
    return zlib.crc32(read(max(0, position - TAIL_BYTES), position))


def complete(data: bytes) -> int:
    """Return how many bytes are complete lines."""
    last = max(data.rfind(b"\n"), data.rfind(b"\r", 0, max(len(data) - 1, 0)))
    return last + 1


def end_of_lines(read: Read, position: int, size: int, bytes_max: int) -> int:
    """Return where the last complete line of at most `bytes_max` bytes ends, or a longer first one.

    Returns the position if no line is complete.
    """
    limit = high = min(size, position + bytes_max)
    while high > position:
        low = max(position, high - BLOCK_BYTES)
        end = complete(read(low, min(high + 1, limit)))  # a CR at a block's end needs the byte after it
        if end:
            return low + end
        high = low
    low = max(position, limit - 1)
    while limit < size:
        limit = min(size, limit + BLOCK_BYTES)
        matched = TERMINATOR.search(read(low, limit))
        if matched is not None:
            return low + matched.end()
        low = limit - 1
    return position


Lines = tuple[list[int], list[bytes | None]]
"""Lines in their order: where each starts, and its bytes without terminator; None for one above LINE_BYTES_MAX."""


def lines_of(chunks: Iterable[bytes], start: int, line_bytes_max: int = LINE_BYTES_MAX) -> Iterator[Lines]:
    """Yield the lines of chunks that start at a position and together are complete lines."""
    kept, dropped, position = b"", 0, start
    for chunk in chunks:
        data = kept + chunk
        end = complete(data)
        if end:
            yield _split(data[:end], position, dropped, line_bytes_max)
            position, dropped = position + dropped + end, 0
        kept = data[end:]
        if len(kept) > line_bytes_max + 1:
            dropped, kept = dropped + len(kept) - 1, kept[-1:]  # the last byte may be the CR of a CRLF
    if kept:  # ends with a CR that no LF follows
        yield _split(kept, position, dropped, line_bytes_max)


def _split(data: bytes, position: int, dropped: int, line_bytes_max: int) -> Lines:
    """Return the lines of complete ones; `dropped` bytes of the first were not kept."""
    positions, values = list[int](), list[bytes | None]()
    for raw in data.splitlines(keepends=True):
        value = raw.rstrip(b"\r\n")
        positions.append(position)
        values.append(value if dropped + len(value) <= line_bytes_max else None)
        position, dropped = position + dropped + len(raw), 0
    return positions, values
