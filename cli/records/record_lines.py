"""Records from input lines: values, keys and values, or JSON as `consume -o json` prints it. Sans-IO.

JSON, one object per line; all members except the value are optional, unknown members are ignored:

    {"key": "k", "value": "v", "headers": [["name", "value"]], "timestamp": 1767225600000}

A key or value that is not text is {"base64": ...}.
"""

import base64
import binascii
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol

from kvorum.cli.records.record_sender import ANY_PARTITION, Header, ProducerRecord
from kvorum.cli.text_values import is_utf8

READ_BYTES: Final = 64 * 1024
RECORD_BYTES_MAX: Final = 1 << 30
"""No broker takes more; where the delimiter never comes, memory would hold all of a file."""


class InputFile(Protocol):
    """A file, a pipe, or a terminal."""

    def read1(self, size: int, /) -> bytes:
        """Return the available bytes, after a wait for some; none at the end."""


class RecordError(ValueError):
    """An invalid record, with its line."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordLineFormat:
    """Format of a record's text, and common fields of all records."""

    key_separator: bytes | None = None
    key: bytes | None = None
    """Fields of every record."""
    null_if_empty: bool = False
    """Whether an empty key or value is none at all: a tombstone."""
    headers: Sequence[Header] = ()
    timestamp: int | None = None
    partition: int = ANY_PARTITION

    def record(self, key: bytes | None, value: bytes | None) -> ProducerRecord:
        """Return a record of this key and value."""
        if self.null_if_empty:
            key, value = key or None, value or None
        return ProducerRecord(key, value, self.headers, self.partition, self.timestamp)

    def of_line(self, line: bytes) -> ProducerRecord:
        """Return a record of its text; where the separator is not in it, all of it is the value."""
        if self.key_separator is None:
            return self.record(self.key, line)
        key, found, value = line.partition(self.key_separator)
        return self.record(key, value) if found else self.record(self.key, line)

    def of_json(self, line: bytes, number: int) -> ProducerRecord:
        """Return a record of its JSON. Raises RecordError."""
        try:
            found = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise RecordError(f"record {number} is not JSON: {error}") from None
        if not isinstance(found, dict) or "value" not in found:
            raise RecordError(f"record {number} is not an object with a value")
        try:
            headers = [*self.headers, *headers_of(found.get("headers"))]
            key = bytes_of("key", found["key"]) if found.get("key") is not None else self.key
            made = self.record(key, bytes_of("value", found["value"]))
        except ValueError as error:
            raise RecordError(f"record {number}: {error}") from None
        timestamp = found.get("timestamp", self.timestamp) if self.timestamp is None else self.timestamp
        if timestamp is not None and (not isinstance(timestamp, int) or isinstance(timestamp, bool)):
            raise RecordError(f"record {number}: the timestamp must be a number of milliseconds, not {timestamp!r}")
        return made._replace(headers=headers, timestamp=None if timestamp is None or timestamp < 0 else timestamp)


def bytes_of(what: str, value: Any) -> bytes | None:
    """Return what JSON has as bytes: text, {"base64": text}, or nothing. Raises ValueError."""
    if value is None:
        return None
    if isinstance(value, str):
        return value.encode()
    if isinstance(value, dict) and value.keys() == {"base64"} and isinstance(value["base64"], str):
        try:
            return base64.b64decode(value["base64"], validate=True)
        except binascii.Error as error:
            raise ValueError(f"the {what} is not base64: {error}") from None
    raise ValueError(f'the {what} is neither a string nor {{"base64": ...}} nor null')


def headers_of(found: Any) -> list[Header]:
    """Return headers: [[name, value], ...] or {name: value}. Raises ValueError."""
    pairs = list(found.items()) if isinstance(found, dict) else [] if found is None else found
    if not isinstance(pairs, list) or not all(isinstance(each, list | tuple) and len(each) == 2 for each in pairs):
        raise ValueError("headers must be pairs of a name and a value")
    if not all(isinstance(name, str) and is_utf8(name) and "\0" not in name for name, _ in pairs):
        raise ValueError("a header's name must be a string without NUL")
    return [(name, bytes_of(f"header {name}", value)) for name, value in pairs]


def pieces(stream: InputFile, delimiter: bytes) -> Iterator[bytes]:
    """Yield the texts between delimiters, as soon as they are complete.

    Raises RecordError for a piece without an end.
    """
    pending = bytearray()
    while data := stream.read1(READ_BYTES):
        looked = max(0, len(pending) - len(delimiter) + 1)
        pending += data
        if pending.find(delimiter, looked) < 0:
            if len(pending) > RECORD_BYTES_MAX:
                raise RecordError(f"a record has more than {RECORD_BYTES_MAX} bytes")
            continue
        *whole, rest = bytes(pending).split(delimiter)
        pending = bytearray(rest)
        yield from whole
    if pending:
        yield bytes(pending)
