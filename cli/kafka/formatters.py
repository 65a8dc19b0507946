"""Output formats of records: kafka-console-consumer's formatters by Kafka's class names.

Source: DefaultMessageFormatter, LoggingMessageFormatter, NoOpMessageFormatter.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, BinaryIO, Protocol

import click

from kvorum.cli.kafka.deserializers import Deserializer, FormatError, as_bytes, deserializer_of
from kvorum.cli.output import warn

if TYPE_CHECKING:
    from confluent_kafka import Message

NO_TIMESTAMP = 0
CREATE_TIME = 1
SWITCHES = ("timestamp", "key", "offset", "delivery", "epoch", "partition", "headers", "value")
SEPARATORS = ("key.separator", "line.separator", "headers.separator", "null.literal")


class Formatter(Protocol):
    """Writes records."""

    def write(self, message: "Message", out: BinaryIO) -> None:
        """Write one record. Raises FormatError."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DefaultFormatter:
    """Parts of a record to print, and their separators."""

    parts: frozenset[str]
    key_separator: bytes
    line_separator: bytes
    headers_separator: bytes
    null_literal: bytes
    key: Deserializer
    value: Deserializer
    headers: Deserializer

    def write(self, message: "Message", out: BinaryIO) -> None:
        """Write one record."""
        texts: list[bytes] = []
        if "timestamp" in self.parts:
            texts.append((timestamp_text(message) or "NO_TIMESTAMP").encode())
        if "partition" in self.parts:
            texts.append(f"Partition:{message.partition()}".encode())
        if "offset" in self.parts:
            texts.append(f"Offset:{message.offset()}".encode())
        for name in ("delivery", "epoch"):  # which Kafka's tool does not hand to its formatters
            if name in self.parts:
                texts.append(f"{name.capitalize()}:NOT_PRESENT".encode())
        if "headers" in self.parts:
            texts.append(self._headers(message))
        if "key" in self.parts:
            texts.append(self._text(self.key, message.key()))
        if "value" in self.parts:
            texts.append(self._text(self.value, message.value()))
        if texts:
            out.write(self.key_separator.join(texts) + self.line_separator)

    def _headers(self, message: "Message") -> bytes:
        found = message.headers() or []
        items = found.items() if isinstance(found, dict) else found
        texts = [f"{key}:".encode() + self._text(self.headers, value) for key, value in items]
        return self.headers_separator.join(texts) if texts else b"NO_HEADERS"

    def _text(self, deserializer: Deserializer, data: bytes | str | None) -> bytes:
        found = as_bytes(data)
        return deserializer(self.null_literal if found is None else found)  # the literal too, as in Kafka


@dataclass(frozen=True, slots=True, kw_only=True)
class LoggingFormatter:
    """Prints records, and each again as a line on standard error."""

    inner: DefaultFormatter

    def write(self, message: "Message", out: BinaryIO) -> None:
        """Write one record, and log it."""
        self.inner.write(message, out)
        timestamp = timestamp_text(message)
        key, value = as_bytes(message.key()), as_bytes(message.value())
        when = "" if timestamp is None else f"{timestamp}, "
        key_text = "key:null " if key is None else f"key:{key.decode(errors='replace')}, "
        value_text = "null" if value is None else value.decode(errors="replace")
        click.echo(f"{when}{key_text}value:{value_text}", err=True)


class NoOpFormatter:
    """Prints nothing."""

    def write(self, message: "Message", out: BinaryIO) -> None:
        """Write nothing."""


def timestamp_text(message: "Message") -> str | None:
    """Return the timestamp of a record with its type, None if it has none."""
    kind, timestamp = message.timestamp()
    if kind == NO_TIMESTAMP:
        return None
    return f"{'CreateTime' if kind == CREATE_TIME else 'LogAppendTime'}:{timestamp}"


def default_formatter(properties: Mapping[str, str]) -> DefaultFormatter:
    """Read print.key=true and the like; an unknown property is reported and ignored."""
    known = {f"print.{name}" for name in SWITCHES} | set(SEPARATORS)
    known |= {f"{side}.deserializer" for side in ("key", "value", "headers")}
    for key in properties:
        if key not in known and not key.startswith(tuple(f"{each}." for each in known)):
            warn(f"unknown formatter property {key}; there are {', '.join(sorted(known))}")
    switches = {name: properties.get(f"print.{name}", str(name == "value")).strip().lower() for name in SWITCHES}
    return DefaultFormatter(
        parts=frozenset(name for name, wanted in switches.items() if wanted == "true"),
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
        case kind:
            from kvorum.cli.kafka.coordinator_formatters import COORDINATOR_FORMATTERS

            if kind not in COORDINATOR_FORMATTERS:
                raise FormatError(f"unknown formatter {kind}")
            return COORDINATOR_FORMATTERS[kind]
