"""Messages to bytes and back: one class per message, for all versions.

Each (struct, version) pair is compiled once, at first use, to straight-line Python from its FIELDS (from kio's schema
of Kafka's messages, see tools/generate_messages.py). kio's own native reader is not used on the wire: it reserves
memory for an array before it checks the remaining bytes, so a count of two thousand million in a five-byte frame ends
the process. Here a count is first compared with the remaining bytes.

Decoding raises ProtocolError for anything malformed; invalid UTF-8 in a string becomes U+FFFD, as in Kafka.
Records fields are slices of the given buffer and live with it.
"""

import functools
import struct
from collections.abc import Callable
from importlib import import_module
from typing import Protocol, TypeAlias, cast

from typing_extensions import Buffer

from kvorum.protocol.errors import ProtocolError
from kvorum.protocol.parts import Part, part_size
from kvorum.protocol.schema import Field, Message, Struct
from kvorum.protocol.source import decoder_source, encoder_source
from kvorum.protocol.uuids import Uuid

Decoder: TypeAlias = Callable[[memoryview, int, int], tuple[Struct, int]]
Splices: TypeAlias = list[tuple[int, Part]]
"""Parts to send between the bytes of the rest: (position in the rest, part)."""


class Encoder(Protocol):
    """Writes a struct behind `out`; parts of records go to `splices`."""

    def __call__(self, message: Struct, out: bytearray, splices: Splices) -> None:
        """Encode. Raises on a value the version cannot carry: our fault."""
        ...


def read_varint_tail(buffer: memoryview, position: int) -> tuple[int, int]:
    """Return the unsigned varint of more than one byte at `position`, and the position behind it."""
    value = 0
    for shift in (0, 7, 14, 21, 28):
        byte = buffer[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, position
    raise ProtocolError("a varint of more than 5 bytes")


def write_varint(out: bytearray, value: int) -> None:
    """Append an unsigned varint."""
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)


def write_records(out: bytearray, splices: Splices, records: object) -> None:
    """Append record bytes: small ones are copied, large ones and parts are spliced in when sent."""
    for part in cast(tuple[Part, ...], records) if isinstance(records, tuple) else (memoryview(cast(Buffer, records)),):
        if isinstance(part, bytes | bytearray | memoryview) and len(part) < SPLICE_BYTES_MIN:
            out += part
        else:
            splices.append((len(out), part))


def records_size(records: object) -> int:
    """Return the length of a records value."""
    if isinstance(records, tuple):
        return sum(part_size(part) for part in records)
    return memoryview(cast(Buffer, records)).nbytes


SPLICE_BYTES_MIN = 4096
"""Below this a copy is cheaper than another piece in the system call's list."""


def fail(text: str) -> None:
    """Reject malformed bytes."""
    raise ProtocolError(text)


@functools.cache
def decoder(cls: type[Struct], version: int, flexible: bool) -> Decoder:
    """Return the reader of one struct at one version."""
    names = _names(cls, version, flexible, "d", decoder)
    names |= {"varint": read_varint_tail, "fail": fail, "Uuid": Uuid, "cls": cls}
    exec(compile(decoder_source(cls, version, flexible, names), f"<decode {cls.__name__} v{version}>", "exec"), names)
    return cast(Decoder, names["decode"])


@functools.cache
def encoder(cls: type[Struct], version: int, flexible: bool) -> Encoder:
    """Return the writer of one struct at one version."""
    names = _names(cls, version, flexible, "e", encoder)
    names |= {"write_varint": write_varint, "write_records": write_records, "records_size": records_size}
    exec(compile(encoder_source(cls, version, flexible, names), f"<encode {cls.__name__} v{version}>", "exec"), names)
    return cast(Encoder, names["encode"])


def _names(
    cls: type[Struct], version: int, flexible: bool, prefix: str, make: Callable[[type[Struct], int, bool], object]
) -> dict[str, object]:
    """Return the helpers of the nested structs and the names used by the generated source."""
    names: dict[str, object] = {"struct": struct}
    for field in fields_of(cls, version):
        if field.struct is not None:
            names[f"{prefix}_{field.struct.__name__}"] = make(field.struct, version, flexible)
    return names


def fields_of(cls: type[Struct], version: int) -> list[Field]:
    """Return the fields a version has, in wire order."""
    return [field for field in cls.FIELDS if field.versions[0] <= version <= field.versions[1]]


def decode(cls: type[Message], version: int, buffer: Buffer) -> Message:
    """Read a whole message body. Raises ProtocolError. Bytes behind it are ignored, as Kafka does."""
    view = memoryview(buffer)
    read = decoder(cls, version, version >= cls.FLEXIBLE_FROM)
    try:
        message, _ = read(view, 0, len(view))
    except (struct.error, IndexError) as error:
        raise ProtocolError(f"{cls.__name__} v{version} ends too early at {len(view)} bytes") from error
    return cast(Message, message)


def encode(message: Message, version: int) -> list[Part]:
    """Return the body as parts in order; one part unless it carries large records."""
    cls = type(message)
    out = bytearray()
    splices: Splices = []
    encoder(cls, version, version >= cls.FLEXIBLE_FROM)(message, out, splices)
    if not splices:
        return [out]
    view = memoryview(out)
    parts: list[Part] = []
    start = 0
    for position, part in splices:
        if position > start:
            parts.append(view[start:position])
        parts.append(part)
        start = position
    if start < len(out):
        parts.append(view[start:])
    return parts


def encode_bytes(message: Message, version: int) -> bytes:
    """Return the body joined; for messages without parts in files."""
    return b"".join(cast(list[bytes], encode(message, version)))


@functools.cache
def message_class(api_key: int, side: str) -> type[Message]:
    """Return the class of an API's "Request" or "Response". Raises ProtocolError for an unknown key."""
    from kvorum.protocol.api import ApiKey

    try:
        key = ApiKey(api_key)
    except ValueError:
        raise ProtocolError(f"unknown api key {api_key}") from None
    module = import_module(f"kvorum.protocol.messages.{key.name.lower()}")
    name = "".join(part.capitalize() for part in key.name.split("_")) + side
    return cast(type[Message], getattr(module, name))


def decode_request(api_key: int, version: int, buffer: Buffer) -> Message:
    """Read a request body."""
    return decode(message_class(api_key, "Request"), version, buffer)


def decode_response(api_key: int, version: int, buffer: Buffer) -> Message:
    """Read a response body."""
    return decode(message_class(api_key, "Response"), version, buffer)
