"""Scans the records of a batch for compaction: the key, whether there is a value, and the position of each record.

Only keys are copied. `decode_records` would create an object per record and cost four times as much. Sans-IO.
"""

from typing import TypeAlias

from kvorum.protocol.varints import append_varint, read_varint

Scanned: TypeAlias = tuple[int, int, int, int, int, bytes | None, bool]
"""One record: (start, rest, end, timestamp delta, offset delta, key, whether it has a value).

Its bytes are data[start:end]; the fields after the timestamp start at `rest`. A plain tuple, since there are millions.
"""


def scan(data: bytes, place: int, count: int) -> list[Scanned]:
    """Return the next `count` records from `place` on.

    Raises IndexError, ValueError where the bytes are no records.
    """
    size = len(data)
    found: list[Scanned] = []
    for _ in range(count):
        start = place
        length = data[place]
        place += 1
        if length >= 0x80:
            length, place = read_varint(data, place - 1)
        else:
            length = (length >> 1) ^ -(length & 1)
        end = place + length
        if length < 0 or end > size:
            raise ValueError("a record exceeds its batch")
        timestamp = data[place + 1]
        place += 2
        if timestamp >= 0x80:
            timestamp, place = read_varint(data, place - 1)
        else:
            timestamp = (timestamp >> 1) ^ -(timestamp & 1)
        rest = place
        offset = data[place]
        place += 1
        if offset >= 0x80:
            offset, place = read_varint(data, place - 1)
        else:
            offset = (offset >> 1) ^ -(offset & 1)
        field = data[place]
        place += 1
        if field >= 0x80:
            field, place = read_varint(data, place - 1)
        else:
            field = (field >> 1) ^ -(field & 1)
        key = None
        if field >= 0:
            key = data[place : place + field]
            place += field
        if place >= end:
            raise ValueError("a key exceeds its record")
        # A null value has the length -1: the zigzag varint 1, and any other odd one is negative too.
        found.append((start, rest, end, timestamp, offset, key, not data[place] & 1))
        place = end
    return found


def with_timestamp_delta(data: bytes, record: Scanned, delta: int) -> bytes:
    """Return a record's bytes with another timestamp delta; all else stays."""
    _, rest, end, *_ = record
    body = bytearray(1)
    append_varint(body, delta)
    body += data[rest:end]
    head = bytearray()
    append_varint(head, len(body))
    return bytes(head + body)
