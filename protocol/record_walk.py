"""One pass over the records of a batch: checks and facts for a leader. Sans-IO, the hottest loop.

Kafka reads every record of a Produce (DefaultRecord.readFrom). In plain Python that is half a microsecond per record.
Two things make it cheap: nothing is sliced or copied, and a *run* of records of one shape (equal lengths, hence equal
positions of every length in them) is checked one column at a time: `data[place::stride]` is that byte of every record,
and comparing two byte strings is cheap. The checks are the same on both paths; only records of varying length have the
full cost.
"""

from collections.abc import Collection
from typing import Final, NamedTuple, TypeAlias

from kvorum.protocol.varints import read_varint

RUN_RECORDS_MIN: Final = 8
"""Shorter runs are walked record by record: the columns would cost more."""
RUN_PAUSE_RECORDS: Final = 16
"""Number of records that are visited singly after a run that was too short."""

INT_SHIFT_MAX: Final = 28
LONG_SHIFT_MAX: Final = 63
"""An int's varint has at most five bytes, a long's ten (Kafka's ByteUtils)."""

# The zigzag varints of offset deltas 0, 1, 2, ...: one byte up to 63, two up to 8191.
ONE_BYTE_DELTAS: Final = 64
TWO_BYTE_DELTAS: Final = 8192
_DELTAS_ONE: Final = bytes(2 * delta for delta in range(ONE_BYTE_DELTAS))
_DELTAS_LOW: Final = bytes((2 * delta & 0x7F) | 0x80 for delta in range(TWO_BYTE_DELTAS))
_DELTAS_HIGH: Final = bytes(2 * delta >> 7 for delta in range(TWO_BYTE_DELTAS))
_CONTINUED: Final = bytes(range(128))
"""Bytes that do not continue a varint."""


class Walk(NamedTuple):
    """Result of a scan. Timestamps are deltas to the batch's base timestamp, in ms."""

    timestamp_delta_min: int
    timestamp_delta_max: int
    has_null_key: bool
    is_sequential: bool
    """Whether the offset deltas are 0, 1, 2, ..."""


class _Shape(NamedTuple):
    """Positions of a record's parts in the data."""

    constant: list[int]
    """Every byte of every length: what records of one shape have in common."""
    timestamp: range
    offset: range


def walk(data: bytes, count: int) -> Walk:
    """Check `count` records that fill `data` exactly. Raises ValueError with the error."""
    place = index = try_run_at = 0
    low, high = 2**63, -(2**63)
    has_null_key = False
    is_sequential = True
    try:
        while index < count:
            first = index
            place, index, start, least, most, has_nulls, ascends = _walk_singles(data, place, index, count, try_run_at)
            if first == 0 and index == count and place == len(data):
                return Walk(least, most, has_nulls, ascends)  # all in one go, as a single record always is
            low, high = min(low, least), max(high, most)
            has_null_key |= has_nulls
            is_sequential &= ascends
            run = 0
            if index < count and is_sequential:
                stride = place - start
                run, run_low, run_high = _run(data, start, stride, index - 1, count)
                if run:
                    low, high = min(low, run_low), max(high, run_high)
                    place, index = start + run * stride, index - 1 + run
            try_run_at = index if run else index + RUN_PAUSE_RECORDS
    except IndexError as error:
        raise ValueError(f"record {index} or a later one exceeds the batch") from error
    if place != len(data):
        raise ValueError(f"{len(data) - place} bytes remain after the last of {count} records")
    return Walk(low, high, has_null_key, is_sequential)


_Singles: TypeAlias = tuple[int, int, int, int, int, bool, bool]
"""End of a walk, with its findings.

Position and index after the last record, that record's own position, the lowest and the highest timestamp delta,
whether there is a null key, whether offsets are sequential. Not a NamedTuple, which costs as much as a record.
"""


def _walk_singles(data: bytes, place: int, index: int, count: int, try_run_at: int) -> _Singles:
    """Walk record by record until all are, or one from `try_run_at` on has the length of the one before it.

    Raises IndexError, ValueError. All in one body, varints of one and two bytes read in place: calls cost more than
    the work. Lengths stay zigzag: an odd one is negative, an even one twice the number.
    """
    size = len(data)
    timestamps: list[int] = []
    last_timestamp = last_length = -1
    start = place
    has_null_key = False
    is_sequential = True
    while index < count:
        start = place
        length = data[place]
        place += 1
        if length >= 0x80:
            if (more := data[place]) < 0x80:
                length = length & 0x7F | more << 7
                place += 1
            else:
                length, place = _read_zigzag(data, place - 1)
        end = place + (length >> 1)
        if length & 1 or end > size:
            raise ValueError(f"record {index} exceeds the batch")
        timestamp = data[place + 1]
        place += 2
        if timestamp >= 0x80:
            timestamp, place = _read_zigzag(data, place - 1, LONG_SHIFT_MAX)
        if timestamp != last_timestamp:
            timestamps.append(timestamp)
            last_timestamp = timestamp
        offset = data[place]
        place += 1
        if offset >= 0x80:
            if (more := data[place]) < 0x80:
                offset = offset & 0x7F | more << 7
                place += 1
            else:
                offset, place = _read_zigzag(data, place - 1)
        if offset != index << 1:
            is_sequential = False
        field = data[place]
        place += 1
        if field >= 0x80:
            field, place = _read_zigzag(data, place - 1)
        if field & 1:
            has_null_key = True
        else:
            place += field >> 1
        field = data[place]
        place += 1
        if field >= 0x80:
            if (more := data[place]) < 0x80:
                field = field & 0x7F | more << 7
                place += 1
            else:
                field, place = _read_zigzag(data, place - 1)
        if not field & 1:
            place += field >> 1
        place = place + 1 if data[place] == 0 else _walk_headers(data, place, end)
        if place != end:
            raise ValueError(f"record {index} is longer or shorter than its fields")
        index += 1
        if length == last_length and index >= try_run_at:
            break
        last_length = length
    return place, index, start, *_bounds(timestamps), has_null_key, is_sequential


def _read_zigzag(data: bytes, place: int, shift_max: int = INT_SHIFT_MAX) -> tuple[int, int]:
    """Return (zigzag number, next place) of a varint of any width its type allows. Raises IndexError, ValueError."""
    value = shift = 0
    while True:
        byte = data[place]
        place += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, place
        shift += 7
        if shift > shift_max:
            raise ValueError("a varint is too long")


def _bounds(zigzags: Collection[int]) -> tuple[int, int]:
    """Return the least and the greatest of the numbers behind these zigzag ones."""
    if len(zigzags) == 1:
        for zigzag in zigzags:
            value = (zigzag >> 1) ^ -(zigzag & 1)
            return value, value
    values = [(zigzag >> 1) ^ -(zigzag & 1) for zigzag in zigzags]
    return min(values), max(values)


def _walk_headers(data: bytes, place: int, end: int) -> int:
    """Return the place behind the headers. Raises IndexError, ValueError."""
    count, place = _read_zigzag(data, place)
    if count & 1 or count >> 1 > end - place:
        raise ValueError("invalid number of headers")
    for _ in range(count >> 1):
        length = data[place]
        place += 1
        if length >= 0x80:
            length, place = _read_zigzag(data, place - 1)
        if length & 1:
            raise ValueError("a header without a key")
        place += length >> 1
        length = data[place]
        place += 1
        if length >= 0x80:
            length, place = _read_zigzag(data, place - 1)
        if not length & 1:
            place += length >> 1
        if place > end:
            raise ValueError("a header exceeds its record")
    return place


def _varint_end(data: bytes, place: int) -> int:
    """Return the place behind the varint that begins here."""
    while data[place] >= 0x80:
        place += 1
    return place + 1


def _shape(data: bytes, start: int) -> _Shape:
    """Return the shape of a record that _walk_singles found whole."""
    place = _varint_end(data, start)
    constant = [*range(start, place)]
    timestamp = place + 1
    offset = _varint_end(data, timestamp)
    place = _varint_end(data, offset)
    shape = _Shape(constant, range(timestamp, offset), range(offset, place))
    fields_left = 2
    is_in_headers = False
    while fields_left:
        length, behind = read_varint(data, place)
        constant += range(place, behind)
        place = behind + max(length, 0)
        fields_left -= 1
        if not fields_left and not is_in_headers:
            is_in_headers = True
            count, behind = read_varint(data, place)
            constant += range(place, behind)
            place = behind
            fields_left = 2 * count
    return shape


def _leading(column: bytes) -> int:
    """Return how many bytes at the head are the same."""
    return len(column) - len(column.lstrip(column[:1]))


def _run(data: bytes, start: int, stride: int, index: int, count: int) -> tuple[int, int, int]:
    """Return (records, least, greatest timestamp delta) of the run of one shape that starts here; 0 for none worth it.

    The record at `start` has been walked and has offset delta `index`.
    """
    run = min(count - index, (len(data) - start) // stride)
    if index < TWO_BYTE_DELTAS:
        run = min(run, (ONE_BYTE_DELTAS if index < ONE_BYTE_DELTAS else TWO_BYTE_DELTAS) - index)
    if run < RUN_RECORDS_MIN or index >= TWO_BYTE_DELTAS or data[start] != data[start + stride]:
        return 0, 0, 0
    shape = _shape(data, start)
    end = start + run * stride
    for place in shape.constant:
        column = data[place:end:stride]
        if column.count(column[0]) != len(column):
            run = _leading(column)
            end = start + run * stride
    if run < RUN_RECORDS_MIN:
        return 0, 0, 0
    offsets = [data[place:end:stride] for place in shape.offset]
    if index < ONE_BYTE_DELTAS:
        expected = [_DELTAS_ONE[index : index + run]]
    else:
        expected = [_DELTAS_LOW[index : index + run], _DELTAS_HIGH[index : index + run]]
    if offsets != expected:
        return 0, 0, 0
    return _timestamps([data[place:end:stride] for place in shape.timestamp], run)


def _timestamps(columns: list[bytes], run: int) -> tuple[int, int, int]:
    """Return (run, least, greatest timestamp delta), or zeros if the varints' widths change within the run."""
    if not columns[-1].isascii() or any(len(column.translate(None, _CONTINUED)) != run for column in columns[:-1]):
        return 0, 0, 0
    if len(columns) == 1:
        return run, *_bounds(set(columns[0]))
    deltas = [read_varint(bytes(row), 0)[0] for row in set(zip(*columns, strict=True))]
    return run, min(deltas), max(deltas)
