"""How records are printed: kafka-console-consumer's formatters by Kafka's names of their classes.

Source: DefaultMessageFormatter, LoggingMessageFormatter, NoOpMessageFormatter, OffsetsMessageFormatter,
GroupMetadataMessageFormatter, TransactionLogMessageFormatter.
"""

import json
import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, BinaryIO

if TYPE_CHECKING:
    from confluent_kafka import Message

    from kvorum.cli.record_decoders import Decoder

Deserializer = Callable[[bytes], bytes]
NO_TIMESTAMP = 0
CREATE_TIME = 1
OFFSET_TYPES = frozenset({0, 1})
GROUP_TYPES = frozenset({2, 3, 4, 5, 6, 7, 8, 16})
"""The types of records of __consumer_offsets that a formatter prints."""


class FormatError(ValueError):
    """A formatter, property or deserializer that there is not, or a record it cannot print."""


def raw(data: bytes) -> bytes:
    """Return bytes as they are."""
    return data


def number(shape: str) -> Deserializer:
    """Return what prints a number of such a shape (struct)."""

    def read(data: bytes) -> bytes:
        try:
            return repr(struct.unpack(shape, data)[0]).encode()
        except struct.error as error:
            raise FormatError(f"{data!r} is no such number: {error}") from error

    return read


DESERIALIZERS: Mapping[str, Deserializer] = {
    "StringDeserializer": raw,
    "ByteArrayDeserializer": raw,
    "BytesDeserializer": raw,
    "IntegerDeserializer": number(">i"),
    "LongDeserializer": number(">q"),
    "ShortDeserializer": number(">h"),
    "DoubleDeserializer": number(">d"),
    "FloatDeserializer": number(">f"),
}
SWITCHES = ("timestamp", "key", "offset", "epoch", "partition", "headers", "value")
SEPARATORS = ("key.separator", "line.separator", "headers.separator", "null.literal")


def deserializer_of(name: str | None) -> Deserializer:
    """Return a deserializer by the name of its class, with or without its package. Raises FormatError."""
    if name is None:
        return raw
    found = DESERIALIZERS.get(name.rpartition(".")[2])
    if found is None:
        raise FormatError(f"there is no deserializer {name}; there are {', '.join(DESERIALIZERS)}")
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class DefaultFormatter:
    """What is printed of a record, and what stands between the parts."""

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
        if "epoch" in self.shown:
            epoch = message.leader_epoch()
            parts.append(b"Epoch:" + (b"-1" if epoch is None else str(epoch).encode()))
        if "headers" in self.shown:
            parts.append(self._headers(message))
        if "key" in self.shown:
            parts.append(self._text(self.key, message.key()))
        if "value" in self.shown:
            parts.append(self._text(self.value, message.value()))
        out.write(self.key_separator.join(parts) + self.line_separator)

    def _headers(self, message: "Message") -> bytes:
        found = message.headers() or []
        items = found.items() if isinstance(found, dict) else found
        shown = [f"{key}:".encode() + self._text(self.headers, value) for key, value in items]
        return self.headers_separator.join(shown) if shown else b"NO_HEADERS"

    def _text(self, deserializer: Deserializer, data: bytes | str | None) -> bytes:
        if data is None:
            return self.null_literal
        return deserializer(data.encode() if isinstance(data, str) else data)


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
        from kvorum.cli.record_decoders import DELETED, compact
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
    """Return what a client says as bytes."""
    return data.encode() if isinstance(data, str) else data


def default_formatter(properties: Mapping[str, str]) -> DefaultFormatter:
    """Read print.key=true and the like. Raises FormatError for a property that there is not."""
    known = {f"print.{name}" for name in SWITCHES} | set(SEPARATORS)
    known |= {f"{side}.deserializer" for side in ("key", "value", "headers")}
    unknown = sorted(
        key for key in properties if key not in known and not key.startswith(tuple(f"{k}." for k in known))
    )
    if unknown:
        raise FormatError(f"no such formatter property: {', '.join(unknown)}; there are {', '.join(sorted(known))}")
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


def formatter_of(name: str, properties: Mapping[str, str]) -> "DefaultFormatter | NoOpFormatter | DecodingFormatter":
    """Return a formatter by the name of its class, with or without its package. Raises FormatError."""
    match name.rpartition(".")[2]:
        case "DefaultMessageFormatter" | "default":
            return default_formatter(properties)
        case "NoOpMessageFormatter":
            return NoOpFormatter()
        case "OffsetsMessageFormatter" | "GroupMetadataMessageFormatter" as kind:
            from kvorum.cli.record_decoders import offsets_decoder

            types = OFFSET_TYPES if kind == "OffsetsMessageFormatter" else GROUP_TYPES
            return DecodingFormatter(decoder=offsets_decoder, types=types)
        case "TransactionLogMessageFormatter":
            from kvorum.cli.record_decoders import transaction_log_decoder

            return DecodingFormatter(decoder=transaction_log_decoder, types=frozenset({0}))
        case other:
            raise FormatError(f"there is no formatter {other}")
