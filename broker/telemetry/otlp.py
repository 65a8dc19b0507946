"""Decodes client metrics in OpenTelemetry's MetricsData: numbers with a name and attributes. Sans-IO.

Of the protobuf messages (opentelemetry/proto/metrics/v1) only fields that lead to a number are read, others are
skipped:

    MetricsData 1 -> ResourceMetrics 2 -> ScopeMetrics 2 -> Metric {1: name, 5: Gauge, 7: Sum}
    Gauge {1: points}    Sum {1: points, 2: temporality}
    NumberDataPoint {4: double, 6: int, 7: attributes}
    KeyValue {1: key, 2: AnyValue {1: text, 2: bool, 3: int, 4: double}}

Histograms and summaries, which no Kafka client sends, are ignored. A message may have a megabyte, and this runs on the
event loop: at most `points_max` points of a message are read.
"""

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from enum import IntEnum
from typing import Final, TypeAlias

TEXT_CHARS_MAX: Final = 200
"""Length of a name, of a key and of a value: longer ones are truncated. Kafka's longest names have half of it."""
ATTRIBUTES_MAX: Final = 16
"""Attributes of one point: more are omitted."""
DELTA: Final = 1
VARINT_BYTES_MAX: Final = 10

Value: TypeAlias = int | memoryview
DOUBLE: Final = struct.Struct("<d")


class Wire(IntEnum):
    """Wire type of a field."""

    VARINT = 0
    FIXED64 = 1
    BYTES = 2
    FIXED32 = 5


class Malformed(Exception):
    """These bytes are no MetricsData."""


@dataclass(frozen=True, slots=True)
class Point:
    """One number; `is_delta`: the increase since the last push."""

    name: str
    attributes: tuple[tuple[str, str], ...]
    value: float
    is_delta: bool


def points_of(data: bytes, points_max: int) -> tuple[list[Point], bool]:
    """Return the points, and whether there are more than `points_max`, which are left out. Raises Malformed."""
    found: list[Point] = []
    for point in _points(memoryview(data)):
        if len(found) == points_max:
            return found, True
        found.append(point)
    return found, False


def _points(data: memoryview) -> Iterator[Point]:
    for resource_metrics in _messages(data, 1):
        for scope_metrics in _messages(resource_metrics, 2):
            for metric in _messages(scope_metrics, 2):
                yield from _points_of_metric(metric)


def _points_of_metric(metric: memoryview) -> Iterator[Point]:
    name = ""
    kinds: list[memoryview] = []
    for number, value in _fields(metric):
        if number == 1:
            name = _text(value)
        elif number in (5, 7):
            kinds.append(_bytes(value))
    for kind in kinds:
        is_delta = any(number == 2 and value == DELTA for number, value in _fields(kind))
        for point in _messages(kind, 1):
            found = _point(name, point, is_delta)
            if found is not None:
                yield found


def _point(name: str, data: memoryview, is_delta: bool) -> Point | None:
    attributes: list[tuple[str, str]] = []
    number_read: float | None = None
    for number, value in _fields(data):
        if number == 4:
            number_read = _double(value)
        elif number == 6:
            number_read = float(_signed(_integer(value)))
        elif number == 7 and len(attributes) < ATTRIBUTES_MAX:
            attributes.append(_attribute(_bytes(value)))
    return None if number_read is None else Point(name, tuple(sorted(attributes)), number_read, is_delta)


def _attribute(data: memoryview) -> tuple[str, str]:
    key = text = ""
    for number, value in _fields(data):
        if number == 1:
            key = _text(value)
        elif number == 2:
            for kind, inner in _fields(_bytes(value)):
                if kind == 1:
                    text = _text(inner)
                elif kind == 2:
                    text = "true" if inner else "false"
                elif kind == 3:
                    text = str(_signed(_integer(inner)))
                elif kind == 4:
                    text = str(_double(inner))
    return key, text


def _messages(data: memoryview, wanted: int) -> Iterator[memoryview]:
    return (_bytes(value) for number, value in _fields(data) if number == wanted)


def _fields(data: memoryview) -> Iterator[tuple[int, Value]]:
    """Yield (field number, value): an integer for all but bytes; fixed64 as raw bytes. Raises Malformed."""
    position, end = 0, len(data)
    while position < end:
        tag, position = _varint(data, position)
        number, wire = tag >> 3, tag & 7
        if wire == Wire.VARINT:
            value, position = _varint(data, position)
            yield number, value
            continue
        if wire == Wire.BYTES:
            size, position = _varint(data, position)
        elif wire == Wire.FIXED64:
            size = 8
        elif wire == Wire.FIXED32:
            size = 4
        else:
            raise Malformed(f"unsupported wire type {wire}")
        if size > end - position:
            raise Malformed("truncated field")
        content = data[position : position + size]
        position += size
        yield number, content if wire == Wire.BYTES else int.from_bytes(content, "little")


def _varint(data: memoryview, position: int) -> tuple[int, int]:
    """Return (value, position behind it). Raises Malformed."""
    value = 0
    for shift in range(0, 7 * VARINT_BYTES_MAX, 7):
        if position >= len(data):
            raise Malformed("truncated number")
        byte = data[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, position
    raise Malformed("a varint has more than ten bytes")


def _bytes(value: Value) -> memoryview:
    if isinstance(value, int):
        raise Malformed("found a number, expected a message")
    return value


def _integer(value: Value) -> int:
    if not isinstance(value, int):
        raise Malformed("found a message, expected a number")
    return value


def _signed(value: int) -> int:
    """Read 64 bits as two's complement."""
    value &= (1 << 64) - 1
    return value - (1 << 64) if value >> 63 else value


def _double(value: Value) -> float:
    number: float = DOUBLE.unpack((_integer(value) & ((1 << 64) - 1)).to_bytes(8, "little"))[0]
    return number


def _text(value: Value) -> str:
    """Return a text, cut at TEXT_CHARS_MAX."""
    return bytes(_bytes(value)[: 4 * TEXT_CHARS_MAX]).decode(errors="replace")[:TEXT_CHARS_MAX]
