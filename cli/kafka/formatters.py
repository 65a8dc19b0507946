"""Output formats of records: kafka-console-consumer's formatters by Kafka's class names.

Source: DefaultMessageFormatter, LoggingMessageFormatter, NoOpMessageFormatter, OffsetsMessageFormatter,
GroupMetadataMessageFormatter, TransactionLogMessageFormatter.
"""

import json
import re
import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, BinaryIO, Protocol

import click

from kvorum.cli.output import warn
from kvorum.cli.perf.java_numbers import java_double, java_float

if TYPE_CHECKING:
    from confluent_kafka import Message

    from kvorum.cli.records.record_decoders import Decoder

Deserializer = Callable[[bytes], bytes]
NO_TIMESTAMP = 0
CREATE_TIME = 1
OFFSET_TYPES = frozenset({0, 1})
GROUP_TYPES = frozenset({2, 3, 4, 5, 6, 7, 8, 16})
"""The types of records of __consumer_offsets that a formatter prints."""


class FormatError(ValueError):
    """A formatter that there is not, or a record it cannot print."""


class Formatter(Protocol):
    """Writes records."""

    def write(self, message: "Message", out: BinaryIO) -> None:
        """Write one record. Raises FormatError."""


def raw(data: bytes) -> bytes:
    """Return bytes unchanged."""
    return data


def number(shape: str, written: Callable[[Any], str] = str) -> Deserializer:
    """Return what prints a number of such a shape (struct)."""

    def read(data: bytes) -> bytes:
        try:
            return written(struct.unpack(shape, data)[0]).encode()
        except struct.error as error:
            raise FormatError(f"{data!r} cannot be decoded as a number: {error}") from error

    return read


def text(data: bytes) -> bytes:
    """Return UTF-8; invalid bytes are U+FFFD, as in Java's strings."""
    return data.decode(errors="replace").encode()


def boolean(data: bytes) -> bytes:
    """Return true or false."""
    if data not in (b"\0", b"\1"):
        raise FormatError(f"{data!r} is not a boolean: one byte, 0 or 1")
    return b"true" if data == b"\1" else b"false"


def uuid(data: bytes) -> bytes:
    """Return a UUID, which is a text with its five groups of hexadecimal digits, as Java writes it."""
    shown = data.decode(errors="replace")
    groups = shown.split("-")
    if len(groups) != len(UUID_DIGITS) or not all(re.fullmatch("[0-9a-fA-F]{1,16}", each) for each in groups):
        raise FormatError(f"{shown!r} is not a UUID")
    pairs = zip(groups, UUID_DIGITS, strict=True)
    return "-".join(each.lower()[-digits:].zfill(digits) for each, digits in pairs).encode()


def void(data: bytes) -> bytes:
    """Refuse everything: a void has no bytes."""
    raise FormatError("Data should be null for a VoidDeserializer.")


def printable(data: bytes) -> bytes:
    """Return bytes as Kafka's Bytes.toString writes them: what cannot be printed by its digits."""
    return "".join(chr(each) if 32 <= each <= 126 and each != 92 else f"\\x{each:02X}" for each in data).encode()


def buffer(data: bytes) -> bytes:
    """Return the text of Java's ByteBuffer.toString()."""
    return f"java.nio.HeapByteBuffer[pos=0 lim={len(data)} cap={len(data)}]".encode()


UUID_DIGITS = (8, 4, 4, 4, 12)
DESERIALIZERS: Mapping[str, Deserializer] = {
    "StringDeserializer": text,
    "ByteArrayDeserializer": raw,
    "BytesDeserializer": printable,
    "ByteBufferDeserializer": buffer,
    "IntegerDeserializer": number(">i"),
    "LongDeserializer": number(">q"),
    "ShortDeserializer": number(">h"),
    "DoubleDeserializer": number(">d", java_double),
    "FloatDeserializer": number(">f", java_float),
    "BooleanDeserializer": boolean,
    "UUIDDeserializer": uuid,
    "VoidDeserializer": void,
}
"""By name. An array of bytes is printed unchanged; Java's tool prints its identity."""
SWITCHES = ("timestamp", "key", "offset", "delivery", "epoch", "partition", "headers", "value")
SEPARATORS = ("key.separator", "line.separator", "headers.separator", "null.literal")


def deserializer_of(name: str | None) -> Deserializer:
    """Return a deserializer by the name of its class, with or without its package; an unknown one is reported."""
    if name is None:
        return raw
    found = DESERIALIZERS.get(name.rpartition(".")[2])
    if found is None:
        warn(f"unknown deserializer {name}, bytes are printed as they are; there are {', '.join(DESERIALIZERS)}")
    return found or raw


@dataclass(frozen=True, slots=True, kw_only=True)
class DefaultFormatter:
    """Parts of a record to print, and their separators."""

    shown: frozenset[str]
    key_separator: bytes
    line_separator: bytes
    headers_separator: bytes
    null_literal: bytes
    key: Deserializer
    value: Deserializer
    headers: Deserializer

    def write(self, message: "Message", out: BinaryIO) -> None:
        """Write one record."""
        parts: list[bytes] = []
        if "timestamp" in self.shown:
            kind, timestamp = message.timestamp()
            name = "CreateTime" if kind == CREATE_TIME else "LogAppendTime"
            parts.append(b"NO_TIMESTAMP" if kind == NO_TIMESTAMP else f"{name}:{timestamp}".encode())
        if "partition" in self.shown:
            parts.append(f"Partition:{message.partition()}".encode())
        if "offset" in self.shown:
            parts.append(f"Offset:{message.offset()}".encode())
        for name in ("delivery", "epoch"):  # which Kafka's tool does not hand to its formatters
            if name in self.shown:
                parts.append(f"{name.capitalize()}:NOT_PRESENT".encode())
        if "headers" in self.shown:
            parts.append(self._headers(message))
        if "key" in self.shown:
            parts.append(self._text(self.key, message.key()))
        if "value" in self.shown:
            parts.append(self._text(self.value, message.value()))
        if parts:
            out.write(self.key_separator.join(parts) + self.line_separator)

    def _headers(self, message: "Message") -> bytes:
        found = message.headers() or []
        items = found.items() if isinstance(found, dict) else found
        shown = [f"{key}:".encode() + self._text(self.headers, value) for key, value in items]
        return self.headers_separator.join(shown) if shown else b"NO_HEADERS"

    def _text(self, deserializer: Deserializer, data: bytes | str | None) -> bytes:
        if data is None:  # null markers go through the deserializer in Kafka too
            return deserializer(self.null_literal)
        return deserializer(data.encode() if isinstance(data, str) else data)


@dataclass(frozen=True, slots=True, kw_only=True)
class LoggingFormatter:
    """Prints records, and each again as a line on standard error."""

    inner: DefaultFormatter

    def write(self, message: "Message", out: BinaryIO) -> None:
        """Write one record, and log it."""
        self.inner.write(message, out)
        kind, timestamp = message.timestamp()
        name = "CreateTime" if kind == CREATE_TIME else "LogAppendTime"
        when = "" if kind == NO_TIMESTAMP else f"{name}:{timestamp}, "
        key, value = as_bytes(message.key()), as_bytes(message.value())
        shown = "key:null " if key is None else f"key:{key.decode(errors='replace')}, "
        body = "null" if value is None else value.decode(errors="replace")
        click.echo(f"{when}{shown}value:{body}", err=True)


class NoOpFormatter:
    """Prints nothing."""

    def write(self, message: "Message", out: BinaryIO) -> None:
        """Write nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DecodingFormatter:
    """Prints the records of a coordinator's topic as JSON; those of other types are left out, as Kafka does."""

    decoder: "Decoder"
    types: frozenset[int]

    def write(self, message: "Message", out: BinaryIO) -> None:
        """Write one record."""
        from kvorum.cli.records.record_decoders import DELETED, compact
        from kvorum.protocol.records import Record

        key, payload = self.decoder(Record(key=as_bytes(message.key()), value=as_bytes(message.value())))
        if key is None or not key.startswith("{"):
            return
        shown = json.loads(key)
        shown["type"] = int(shown["type"])
        if shown["type"] not in self.types:
            return
        value = None
        if payload is not None and payload != DELETED:
            value = json.loads(payload)
            value["version"] = int(value["version"])
        out.write(compact({"key": shown, "value": value}).encode() + b"\n")


def as_bytes(data: bytes | str | None) -> bytes | None:
    """Return a client's value as bytes."""
    return data.encode() if isinstance(data, str) else data


def default_formatter(properties: Mapping[str, str]) -> DefaultFormatter:
    """Read print.key=true and the like; an unknown property is reported and ignored."""
    known = {f"print.{name}" for name in SWITCHES} | set(SEPARATORS)
    known |= {f"{side}.deserializer" for side in ("key", "value", "headers")}
    for key in properties:
        if key not in known and not key.startswith(tuple(f"{each}." for each in known)):
            warn(f"unknown formatter property {key}; there are {', '.join(sorted(known))}")
    switches = {name: properties.get(f"print.{name}", str(name == "value")).strip().lower() for name in SWITCHES}
    return DefaultFormatter(
        shown=frozenset(name for name, wanted in switches.items() if wanted == "true"),
        key_separator=properties.get("key.separator", "\t").encode(),
        line_separator=properties.get("line.separator", "\n").encode(),
        headers_separator=properties.get("headers.separator", ",").encode(),
        null_literal=properties.get("null.literal", "null").encode(),
        key=deserializer_of(properties.get("key.deserializer")),
        value=deserializer_of(properties.get("value.deserializer")),
        headers=deserializer_of(properties.get("headers.deserializer")),
    )


def formatter_of(name: str, properties: Mapping[str, str]) -> Formatter:
    """Return a formatter by the name of its class, with or without its package. Raises FormatError."""
    match name.rpartition(".")[2]:
        case "DefaultMessageFormatter" | "default":
            return default_formatter(properties)
        case "LoggingMessageFormatter":
            return LoggingFormatter(inner=default_formatter(properties))
        case "NoOpMessageFormatter":
            return NoOpFormatter()
        case "OffsetsMessageFormatter" | "GroupMetadataMessageFormatter" as kind:
            from kvorum.cli.records.record_decoders import offsets_decoder

            types = OFFSET_TYPES if kind == "OffsetsMessageFormatter" else GROUP_TYPES
            return DecodingFormatter(decoder=offsets_decoder, types=types)
        case "TransactionLogMessageFormatter":
            from kvorum.cli.records.record_decoders import transaction_log_decoder

            return DecodingFormatter(decoder=transaction_log_decoder, types=frozenset({0}))
        case other:
            raise FormatError(f"unknown formatter {other}")
