"""The headers of requests and responses, encoding and decoding.

A request's header: api key, api version, correlation id, client id (its length is always 16 bits), and tagged fields
from header version 2. A response's: the correlation id, and tagged fields from header version 1. The header version
follows from the message's version: api.request_header_version, api.response_header_version. Matches Kafka's
RequestHeader and ResponseHeader (KIP-482).
"""

import struct
from typing import NamedTuple

from kvorum.protocol.codec import read_varint_tail
from kvorum.protocol.errors import ProtocolError

_FIXED = struct.Struct(">hhi")
_LENGTH = struct.Struct(">h")
_CORRELATION_ID = struct.Struct(">i")
FIXED_SIZE = _FIXED.size


class RequestHeader(NamedTuple):
    """A request header."""

    api_key: int
    api_version: int
    correlation_id: int
    client_id: str | None


def peek_request(frame: memoryview) -> tuple[int, int, int]:
    """Return api key, api version, correlation id: the start of every header version. Raises ProtocolError."""
    if len(frame) < FIXED_SIZE:
        raise ProtocolError(f"request of {len(frame)} bytes is shorter than its header ({FIXED_SIZE})")
    key, version, correlation_id = _FIXED.unpack_from(frame)
    return key, version, correlation_id


def decode_client_id(frame: memoryview, header_version: int) -> tuple[str | None, int]:
    """Return the client id and the body's position, of a frame that peek_request has read. Raises ProtocolError."""
    try:
        (length,) = _LENGTH.unpack_from(frame, FIXED_SIZE)
        position = FIXED_SIZE + 2 + max(length, 0)
        if position > len(frame):
            raise ProtocolError(f"client id of {length} bytes exceeds the {len(frame) - FIXED_SIZE - 2} bytes left")
        # Kafka treats any negative length as null, and replaces invalid UTF-8.
        client_id = None if length < 0 else str(frame[FIXED_SIZE + 2 : position], "utf-8", "replace")
        if header_version >= 2:
            position = skip_tags(frame, position)
    except (struct.error, IndexError) as error:
        raise ProtocolError(f"a request header ends too early at {len(frame)} bytes") from error
    return client_id, position


def decode_request_header(frame: memoryview, header_version: int) -> tuple[RequestHeader, int]:
    """Return the header and the position of the body. Raises ProtocolError."""
    key, version, correlation_id = peek_request(frame)
    client_id, position = decode_client_id(frame, header_version)
    return RequestHeader(key, version, correlation_id, client_id), position


def encode_request_header(header: RequestHeader, header_version: int) -> bytes:
    """Return the header's bytes."""
    client_id = None if header.client_id is None else header.client_id.encode()
    parts = (
        _FIXED.pack(header.api_key, header.api_version, header.correlation_id),
        _LENGTH.pack(-1 if client_id is None else len(client_id)),
        client_id or b"",
        b"\0" if header_version >= 2 else b"",
    )
    return b"".join(parts)


def decode_response_header(frame: memoryview, header_version: int) -> tuple[int, int]:
    """Return the correlation id and the position of the body. Raises ProtocolError."""
    try:
        (correlation_id,) = _CORRELATION_ID.unpack_from(frame)
        return correlation_id, skip_tags(frame, 4) if header_version >= 1 else 4
    except (struct.error, IndexError) as error:
        raise ProtocolError(f"a response header ends too early at {len(frame)} bytes") from error


def encode_response_header(correlation_id: int, header_version: int) -> bytes:
    """Return the header's bytes."""
    return _CORRELATION_ID.pack(correlation_id) + (b"\0" if header_version >= 1 else b"")


def skip_tags(frame: memoryview, position: int) -> int:
    """Return the position behind a list of tagged fields. Raises ProtocolError, IndexError where it is cut."""
    count = frame[position]
    if count == 0:
        return position + 1
    count, position = _varint(frame, position)
    for _ in range(count):  # each step reads at least two bytes or raises, so the count is bounded by the frame
        _, position = _varint(frame, position)
        size, position = _varint(frame, position)
        position += size
        if position > len(frame):
            raise ProtocolError(f"tagged field of {size} bytes exceeds the frame")
    return position


def _varint(frame: memoryview, position: int) -> tuple[int, int]:
    value = frame[position]
    return (value, position + 1) if value < 0x80 else read_varint_tail(frame, position)
