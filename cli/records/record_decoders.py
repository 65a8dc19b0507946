"""Keys and values of records as text: plain data, and the records of Kafka's own topics. Sans-IO.

A decoder takes a record and returns key and payload, None if there is nothing to print. An unreadable record is
reported instead of the key, and decoding continues. Source: Kafka's DumpLogSegments (ClusterMetadataLogMessageParser),
StringDecoder and its siblings; client/records/internal_records.
"""

import base64
import json
from collections.abc import Callable, Mapping
from struct import Struct
from typing import Any

from kvorum.broker.coordinator.records.codec import GROUP_SHAPES, TRANSACTION_SHAPES, Shape
from kvorum.client.records.internal_records import Unreadable, readable_record
from kvorum.protocol.records import Record
from kvorum.quorum.records import without_credential_keys

Decoder = Callable[[Record], tuple[str | None, str | None]]
Text = Callable[[bytes], str]

DELETED = "<DELETE>"
_INTEGER = Struct(">i")
_LONG = Struct(">q")


def number(struct: Struct, data: bytes) -> str:
    """Return a number's digits, or other bytes unchanged."""
    return str(struct.unpack(data)[0]) if len(data) == struct.size else repr(data)


TEXTS: Mapping[str, Text] = {
    "string": lambda data: data.decode(errors="replace"),
    "integer": lambda data: number(_INTEGER, data),
    "long": lambda data: number(_LONG, data),
    "bytes": lambda data: repr(data)[2:-1],
    "base64": lambda data: base64.b64encode(data).decode(),
}
"""Output formats of bytes, by name."""


def plain(key: Text, value: Text) -> Decoder:
    """Return the decoder of plain data."""

    def decode(record: Record) -> tuple[str | None, str | None]:
        return (
            None if record.key is None else key(record.key),
            None if record.value is None else value(record.value),
        )

    return decode


def compact(value: Any) -> str:
    """Return JSON as Kafka's tools print it, without blanks."""
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)


def coordinator(shapes: Mapping[int, Shape]) -> Decoder:
    """Return the decoder of a coordinator's topic."""

    def decode(record: Record) -> tuple[str | None, str | None]:
        try:
            key, value = readable_record(shapes, record)
        except Unreadable as error:
            return str(error), None
        return compact(key), DELETED if value is None else compact(value)

    return decode


def cluster_metadata(record: Record) -> tuple[str | None, str | None]:
    """Decode a record of the metadata log, which is JSON already: type, version, and the rest as its data.

    A credential is without its salt and keys.
    """
    try:
        found = dict(without_credential_keys(json.loads(record.value or b"")))
        shown = {"type": found.pop("type"), "version": found.pop("version", 0), "data": found}
    except (ValueError, AttributeError, KeyError, UnicodeDecodeError) as error:
        return None, f"Error at {record.offset}, skipping. {error!r}"
    return None, compact(shown)


offsets_decoder: Decoder = coordinator(GROUP_SHAPES)
transaction_log_decoder: Decoder = coordinator(TRANSACTION_SHAPES)
