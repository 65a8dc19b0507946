"""Java's deserializers by class name: bytes of a key, value or header as kafka-console-consumer prints them. Sans-IO.

Source: org.apache.kafka.common.serialization.
"""

import re
import struct
from collections.abc import Callable, Mapping
from typing import Any

from kvorum.cli.kafka.java_numbers import java_double, java_float
from kvorum.cli.output import warn

Deserializer = Callable[[bytes], bytes]


class FormatError(ValueError):
    """An unknown formatter, or a record that cannot be printed."""


def raw(data: bytes) -> bytes:
    """Return bytes unchanged."""
    return data


def number(shape: str, write: Callable[[Any], str] = str) -> Deserializer:
    """Return the deserializer of numbers with a struct format."""

    def read(data: bytes) -> bytes:
        try:
            return write(struct.unpack(shape, data)[0]).encode()
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
    """Return a UUID with its five groups of hexadecimal digits, as Java writes it."""
    digits = data.decode(errors="replace")
    groups = digits.split("-")
    if len(groups) != len(UUID_DIGITS) or not all(re.fullmatch("[0-9a-fA-F]{1,16}", each) for each in groups):
        raise FormatError(f"{digits!r} is not a UUID")
    pairs = zip(groups, UUID_DIGITS, strict=True)
    return "-".join(each.lower()[-width:].zfill(width) for each, width in pairs).encode()


def void(data: bytes) -> bytes:
    """Refuse everything: a void has no bytes."""
    raise FormatError("Data should be null for a VoidDeserializer.")


def printable(data: bytes) -> bytes:
    """Return bytes as Kafka's Bytes.toString writes them: bytes that are not printable as hexadecimal digits."""
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


def deserializer_of(name: str | None) -> Deserializer:
    """Return a deserializer by the name of its class, with or without its package; an unknown one is reported."""
    if name is None:
        return raw
    found = DESERIALIZERS.get(name.rpartition(".")[2])
    if found is None:
        warn(f"unknown deserializer {name}, bytes are printed as they are; there are {', '.join(DESERIALIZERS)}")
    return found or raw


def as_bytes(data: bytes | str | None) -> bytes | None:
    """Return a client's value as bytes."""
    return data.encode() if isinstance(data, str) else data
