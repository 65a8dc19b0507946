"""A client that sends whatever bytes it is told to: frames made by hand, batches made by hand, answers as they come."""

import socket
import struct
import time
from types import TracebackType

from kvorum.protocol.api import request_header_version, response_header_version
from kvorum.protocol.batch_header import CRC_POSITION, HEADER_SIZE, LOG_OVERHEAD
from kvorum.protocol.codec import decode, encode_bytes, message_class
from kvorum.protocol.errors import ProtocolError
from kvorum.protocol.headers import RequestHeader, decode_response_header, encode_request_header
from kvorum.protocol.records import crc_of
from kvorum.protocol.schema import Message

ANSWER_SECONDS = 20.0
QUIET_SECONDS = 0.3
"""How long to listen before it counts as "no answer, and still open"; only for requests that are not complete."""
HEADER = struct.Struct(">qiibIhiqqqhii")


def frame(body: bytes) -> bytes:
    """Put the length in front."""
    return struct.pack(">i", len(body)) + body


def request_header(api_key: int, version: int, correlation_id: int = 1, header_version: int | None = None) -> bytes:
    """Return the header that goes with an API and version, or the one asked for."""
    if header_version is None:
        try:
            flexible_from = message_class(api_key, "Request").FLEXIBLE_FROM
            header_version = request_header_version(api_key, version, flexible_from)
        except ProtocolError:
            header_version = 1
    return encode_request_header(RequestHeader(api_key, version, correlation_id, "raw"), header_version)


def request(message: Message, version: int, correlation_id: int = 1) -> bytes:
    """Return a whole, valid frame."""
    return frame(request_header(message.API_KEY, version, correlation_id) + encode_bytes(message, version))


def by_hand(api_key: int, version: int, body: bytes, header_version: int | None = None) -> bytes:
    """Return a frame with a valid header (unless told otherwise) before a body made by hand."""
    return frame(request_header(api_key, version, header_version=header_version) + body)


def answer_of(body: bytes, api_key: int, version: int) -> Message:
    """Decode an answer's header and body."""
    cls = message_class(api_key, "Response")
    view = memoryview(body)
    _, position = decode_response_header(view, response_header_version(api_key, version, cls.FLEXIBLE_FROM))
    return decode(cls, version, view[position:])


class Raw:
    """One connection."""

    def __init__(self, host: str, port: int) -> None:
        self._socket = socket.create_connection((host, port), ANSWER_SECONDS)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._correlation_id = 1

    def __enter__(self) -> "Raw":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the connection."""
        self._socket.close()

    def send(self, data: bytes) -> None:
        """Send bytes; those that a peer which has closed no longer takes are lost without a word."""
        try:
            self._socket.sendall(data)
        except (BrokenPipeError, ConnectionResetError):
            return  # what the peer did is seen by reading

    def receive(self, seconds: float = ANSWER_SECONDS) -> bytes | None:
        """Return the next frame, without its length; None when the connection was closed. Raises TimeoutError."""
        deadline = time.monotonic() + seconds
        head = self._exactly(4, deadline)
        return None if head is None else self._exactly(int.from_bytes(head, "big"), deadline)

    def _exactly(self, count: int, deadline: float) -> bytes | None:
        data = b""
        while len(data) < count:
            self._socket.settimeout(max(0.001, deadline - time.monotonic()))
            try:
                more = self._socket.recv(count - len(data))
            except ConnectionResetError:
                return None
            if not more:
                return None
            data += more
        return data

    def ask(self, message: Message, version: int) -> Message | None:
        """Send a request; return its answer, None when the connection was closed instead."""
        self._correlation_id += 1
        self.send(request(message, version, self._correlation_id))
        body = self.receive()
        if body is None:
            return None
        assert int.from_bytes(body[:4], "big") == self._correlation_id, "the answer to another request"
        return answer_of(body, message.API_KEY, version)


def batch(
    payload: bytes,
    count: int = 1,
    *,
    attributes: int = 0,
    magic: int = 2,
    base_offset: int = 0,
    last_offset_delta: int | None = None,
    batch_length: int | None = None,
    base_timestamp: int = -1,
    max_timestamp: int | None = None,
    producer: tuple[int, int, int] = (-1, -1, -1),
    crc_off_by: int = 0,
) -> bytes:
    """Return a batch whose header says whatever it is told to; `producer` is (id, epoch, base sequence)."""
    length = HEADER_SIZE - LOG_OVERHEAD + len(payload) if batch_length is None else batch_length
    last = count - 1 if last_offset_delta is None else last_offset_delta
    latest = base_timestamp if max_timestamp is None else max_timestamp
    places = (base_offset, length, -1, magic, 0, attributes, last, base_timestamp, latest, *producer, count)
    data = bytearray(HEADER.pack(*places)) + payload
    crc = (crc_of(memoryview(data), 0, len(data)) + crc_off_by) & 0xFFFFFFFF
    data[CRC_POSITION : CRC_POSITION + 4] = crc.to_bytes(4, "big")
    return bytes(data)


def signed_varint(value: int) -> bytes:
    """Return a zigzag varint."""
    rest = value << 1 if value >= 0 else (-value << 1) - 1
    found = bytearray()
    while rest > 0x7F:
        found.append(rest & 0x7F | 0x80)
        rest >>= 7
    return bytes(found) + bytes([rest])


def record(
    key: bytes | None = b"k",
    value: bytes | None = b"v",
    *,
    index: int = 0,
    timestamp_delta: int = 0,
    headers: bytes = b"\0",
    length: bytes | None = None,
    tail: bytes = b"",
) -> bytes:
    """Return one record; `headers` and `length` as bytes, already varints; `tail` counts into its length."""
    body = b"\0" + signed_varint(timestamp_delta) + signed_varint(index)
    for part in (key, value):
        body += signed_varint(-1) if part is None else signed_varint(len(part)) + part
    body += headers + tail
    return (signed_varint(len(body)) if length is None else length) + body
