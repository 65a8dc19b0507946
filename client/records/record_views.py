"""Formats of a record's bytes in JSON, and for an expression.

Sans-IO.

string   UTF-8, invalid ones replaced         json     the JSON value, rejected if invalid
hex      two digits per byte                    base64   for programs
size     only the number of bytes              auto     json for an object or list, else string, else base64
int32, int64, float, double, uuid              the format of Kafka's serializers (serdes), else auto
internal                                       auto, for the coordinators' own topics (internal_records)
text     string, base64 if not UTF-8: the original text, also of JSON, whose numbers could change when parsed
"""

import base64
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Final

import msgspec

from kvorum.client.records import serdes
from kvorum.client.records.internal_records import SHAPES_OF, DecodedRecord, Unreadable, readable_record
from kvorum.protocol.records import Record

JSON_DEPTH_MAX: Final = 64
"""Deeper JSON is shown as text: what reads the answer would have to go as deep."""


class Format(Enum):
    """Format in which bytes are shown."""

    AUTO = "auto"
    TEXT = "text"
    STRING = "string"
    JSON = "json"
    HEX = "hex"
    BASE64 = "base64"
    SIZE = "size"
    INT32 = "int32"
    INT64 = "int64"
    FLOAT = "float"
    DOUBLE = "double"
    UUID = "uuid"
    INTERNAL = "internal"


FORMATS: Final = tuple(each.value for each in Format if each is not Format.INTERNAL)
"""Accepted format names."""
TYPED: Final = tuple(Format(each) for each in serdes.TYPES)


class NoJson(Exception):
    """Bytes that are not JSON, or JSON that is nested too deep."""


def json_of(data: bytes) -> object:
    """Return the JSON value. Raises NoJson."""
    try:
        found = msgspec.json.decode(data)
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise NoJson(str(error)) from error
    if depth_of(found, JSON_DEPTH_MAX) > JSON_DEPTH_MAX:
        raise NoJson(f"nested deeper than {JSON_DEPTH_MAX}")
    return found


def depth_of(value: object, enough: int) -> int:
    """Return how deep lists and objects are nested; no further than one beyond `enough`."""
    level: list[object] = [value]
    for depth in range(enough + 1):
        nested = [each for each in level if isinstance(each, list | dict)]
        if not nested:
            return depth
        level = [inner for each in nested for inner in (each.values() if isinstance(each, dict) else each)]
    return enough + 1


def format_bytes(data: bytes | None, form: Format) -> tuple[object, Format]:
    """Return bytes as JSON can carry them, and in which form; null is null in all of them. Never raises."""
    if data is None:
        return None, form
    match form:
        case Format.STRING:
            return data.decode(errors="replace"), form
        case Format.HEX:
            return data.hex(), form
        case Format.BASE64:
            return base64.b64encode(data).decode(), form
        case Format.SIZE:
            return None, form
        case Format.JSON:
            try:
                return json_of(data), form
            except NoJson:
                return format_bytes(data, Format.AUTO)
        case Format.TEXT:
            return as_text(data)
        case Format.AUTO | Format.INTERNAL:
            return guess_format(data)
        case _:
            found = serdes.read(form.value, data)
            return format_bytes(data, Format.AUTO) if found is None else (found, form)


def guess_format(data: bytes) -> tuple[object, Format]:
    """Return bytes in the form they seem to be in."""
    if data[:1] in (b"{", b"["):
        try:
            return json_of(data), Format.JSON
        except NoJson:
            pass
    return as_text(data)


def as_text(data: bytes) -> tuple[str, Format]:
    """Return bytes as the text they are, else in base64."""
    try:
        return data.decode(), Format.STRING
    except UnicodeDecodeError:
        return base64.b64encode(data).decode(), Format.BASE64


def header_name(name: str) -> str:
    """Return a header's key as JSON can carry it: bytes that are no UTF-8 are replaced."""
    return name.encode(errors="surrogateescape").decode(errors="replace")


@dataclass(frozen=True, slots=True)
class RecordView:
    """The formats of a topic's keys and values."""

    topic: str = ""
    key: Format = Format.AUTO
    value: Format = Format.AUTO

    def format_record(self, record: Record) -> tuple[tuple[object, Format], tuple[object, Format]]:
        """Return key and value as JSON can carry them, and in which form each. Never raises."""
        decoded = self._decode(record)
        key, value = format_bytes(record.key, self.key), format_bytes(record.value, self.value)
        if decoded is not None and self.key is Format.AUTO:
            key = (decoded.key, Format.INTERNAL)
        if decoded is not None and self.value is Format.AUTO:
            value = (decoded.value, Format.INTERNAL)
        return key, value

    def parse_side(self, record: Record, name: str) -> object:
        """Return key or value as an expression sees it."""
        form, data = (self.key, record.key) if name == "key" else (self.value, record.value)
        if form in TYPED and data is not None:
            return format_bytes(data, form)[0]
        decoded = self._decode(record) if form is Format.AUTO else None
        if decoded is not None:
            return decoded.key if name == "key" else decoded.value
        return parse_value(data)

    def _decode(self, record: Record) -> DecodedRecord | None:
        """Return the decoded record of a coordinator; None of any other, and of an unreadable one."""
        shapes = SHAPES_OF.get(self.topic)
        if shapes is None or Format.AUTO not in (self.key, self.value):
            return None
        try:
            return readable_record(shapes, record)
        except Unreadable:
            return None


PLAIN: Final = RecordView()


class RecordSubject:
    """A record as a subject of expressions (expression.Subject); each part is decoded at most once."""

    __slots__ = ("_roots", "_view", "partition", "record")

    def __init__(self, partition: int, record: Record, view: RecordView = PLAIN) -> None:
        """Look at this record of this partition."""
        self.partition = partition
        self.record = record
        self._view = view
        self._roots: dict[str, object] = {}

    def root(self, name: str) -> object:
        """Return key, value, headers, partition, offset or timestamp."""
        if name not in self._roots:
            self._roots[name] = self._decode(name)
        return self._roots[name]

    def text(self, name: str) -> str | None:
        """Return the original text of key or value."""
        data = self.record.key if name == "key" else self.record.value
        return None if data is None else data.decode(errors="replace")

    def _decode(self, name: str) -> object:
        match name:
            case "key" | "value":
                return self._view.parse_side(self.record, name)
            case "headers":
                return headers_of(self.record)
            case "partition":
                return self.partition
            case "offset":
                return self.record.offset
            case _:
                assert name == "timestamp", f"a record has no {name}"
                return self.record.timestamp


def parse_value(data: bytes | None) -> object:
    """Return the JSON value, the text without JSON, None for null."""
    if data is None:
        return None
    try:
        return json_of(data)
    except NoJson:
        return data.decode(errors="replace")


def headers_of(record: Record) -> Mapping[str, object]:
    """Return {key: value as text}; of several with one key the last, as Kafka's Headers.lastHeader."""
    return {
        header_name(name): None if value is None else value.decode(errors="replace") for name, value in record.headers
    }
