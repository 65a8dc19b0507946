"""Parts of a Produce frame on the fast path: the head (everything before the partitions), and the partitions."""

from struct import Struct
from typing import Final

from kvorum.protocol.batch_header import HEADER_SIZE
from kvorum.protocol.codec import read_varint_tail, write_varint
from kvorum.protocol.errors import ProtocolError
from kvorum.protocol.messages.produce import ProduceRequest

FLEXIBLE_FROM: Final = ProduceRequest.FLEXIBLE_FROM
HEAD_POSITION: Final = 8
"""Behind api key, version and correlation id."""
PARTITIONS_MAX: Final = 10_000
"""Partitions of one request on the fast path."""
INT: Final = Struct(">i")
TAGS: Final = b"\0\0"
"""No tagged fields of the topic, and none of the request."""

Parts = list[tuple[int, memoryview]]
"""Index and records of each partition."""


def parts_behind(frame: memoryview, position: int, is_flexible: bool) -> Parts | None:
    """Return the partitions whose count is at this position, if nothing else follows them.

    None if something follows (tagged fields, another topic), if the lengths are inconsistent, or if records are too
    short for a batch.
    """
    try:
        return _flexible(frame, position) if is_flexible else _plain(frame, position)
    except (IndexError, ProtocolError):  # the general path reports the error
        return None


def _flexible(frame: memoryview, position: int) -> Parts | None:
    end = len(frame) - len(TAGS)
    count, position = _unsigned(frame, position)
    if not 0 < count - 1 <= PARTITIONS_MAX or bytes(frame[end:]) != TAGS:
        return None
    parts: Parts = []
    for _ in range(count - 1):
        index = int.from_bytes(frame[position : position + 4], "big", signed=True)
        size, position = _unsigned(frame, position + 4)
        size -= 1
        if size < HEADER_SIZE or position + size >= end or frame[position + size]:
            return None
        parts.append((index, frame[position : position + size]))
        position += size + 1
    return parts if position == end else None


def _plain(frame: memoryview, position: int) -> Parts | None:
    end = len(frame)
    count, position = _int(frame, position)
    if not 0 < count <= PARTITIONS_MAX:
        return None
    parts: Parts = []
    for _ in range(count):
        index, position = _int(frame, position)
        size, position = _int(frame, position)
        if size < HEADER_SIZE or position + size > end:
            return None
        parts.append((index, frame[position : position + size]))
        position += size
    return parts if position == end else None


def _int(frame: memoryview, position: int) -> tuple[int, int]:
    if position + 4 > len(frame):
        raise IndexError
    return INT.unpack_from(frame, position)[0], position + 4


def _unsigned(frame: memoryview, position: int) -> tuple[int, int]:
    """Return (number, next place) of an unsigned varint. Raises IndexError, ProtocolError."""
    value = frame[position]
    return (value, position + 1) if value < 0x80 else read_varint_tail(frame, position)


def head_size(frame: memoryview, parts: Parts, is_flexible: bool) -> int:
    """Return the position of the partitions in a frame that ends with them, as far as the sizes show it."""
    size = len(frame)
    if not is_flexible:
        return size - INT.size - sum([2 * INT.size + len(records) for _, records in parts])
    size -= unsigned_size(len(parts) + 1) + len(TAGS)
    return size - sum([INT.size + unsigned_size(len(records) + 1) + len(records) + 1 for _, records in parts])


def unsigned_size(number: int) -> int:
    """Return how many bytes an unsigned varint takes."""
    found = bytearray()
    write_varint(found, number)
    return len(found)
