"""What the fuzzer feeds: each target takes bytes and returns the outcome's name, or raises when a promise is broken.

The outcome's name (a refusal's text without its numbers) tells the fuzzer that it has seen something new.
"""

import asyncio
import io
import re
import zlib
from collections.abc import Callable
from typing import Any

import crc32c

from kvorum.network.connection import ServerConnection
from kvorum.network.connection_counts import ConnectionCounts
from kvorum.network.frame import scratch
from kvorum.network.limits import ConnectionLimits, RequestBudget
from kvorum.network.router import Handler, Router
from kvorum.network.shared import Shared
from kvorum.protocol.api import ApiKey
from kvorum.protocol.batch_header import HEADER_SIZE
from kvorum.protocol.codec import decode_request, decode_response, encode_bytes, message_class
from kvorum.protocol.errors import KafkaError, ProtocolError
from kvorum.protocol.records import decode_records
from kvorum.runtime.listeners import SecurityProtocol
from kvorum.storage.log_config import LogConfig
from kvorum.storage.validator import validate_produce, validate_replicated

CRC_POSITION = 17
CRC_FROM = 21
NOW_MS = 1_700_000_000_000
CONFIGS = (
    LogConfig(),
    LogConfig(compression_type="zstd"),
    LogConfig(message_timestamp_type="LogAppendTime"),
    LogConfig(cleanup_policy=frozenset({"compact"}), max_message_bytes=2000),
)


def kind_of(error: Exception) -> str:
    """Return an error's text without what differs from input to input."""
    return re.sub(r"'[^']*'|b'[^']*'|-?\d+", "#", f"{type(error).__name__}: {error}")[:160]


def decoder(side: str) -> Callable[[bytes], str]:
    """Return the target of one side's decoder; its input is api key, version (two bytes each), body.

    Promise: only ProtocolError is raised; and what is read can be written, and reads as the same bytes again.
    """
    decode = decode_request if side == "Request" else decode_response

    def target(data: bytes) -> str:
        api_key, version = int.from_bytes(data[:2], "big"), int.from_bytes(data[2:4], "big")
        try:
            cls = message_class(api_key, side)
        except ProtocolError as error:
            return kind_of(error)
        if not cls.VERSIONS[0] <= version <= cls.VERSIONS[1]:
            return "version"
        try:
            message = decode(api_key, version, memoryview(bytearray(data))[4:])
        except ProtocolError as error:
            return f"{api_key} v{version} {kind_of(error)}"
        written = encode_bytes(message, version)
        assert encode_bytes(decode(api_key, version, written), version) == written, "what was read reads differently"
        return f"{api_key} v{version} read"

    return target


class Pipe:
    """A transport in memory: keeps what is written, and takes the calls a connection makes."""

    def __init__(self) -> None:
        """Open."""
        self.written = io.BytesIO()
        self.closing = False
        self.reading = True

    def get_extra_info(self, name: str, default: object = None) -> object:
        """Return a peer's address; there is no socket."""
        return ("192.0.2.1", 7) if name == "peername" else default

    def set_write_buffer_limits(self, high: int) -> None:
        """Never pause."""

    def is_closing(self) -> bool:
        """Return whether it was closed."""
        return self.closing

    def write(self, data: bytes) -> None:
        """Keep the bytes."""
        assert not self.closing, "written to after it was closed"
        self.written.write(data)

    def writelines(self, parts: list[bytes]) -> None:
        """Keep the bytes."""
        for part in parts:
            self.write(part)

    def close(self) -> None:
        """Close."""
        self.closing = True

    def abort(self) -> None:
        """Close."""
        self.closing = True

    def get_write_buffer_size(self) -> int:
        return 0

    def pause_reading(self) -> None:
        """Deliver nothing until resumed."""
        assert self.reading and not self.closing
        self.reading = False

    def resume_reading(self) -> None:
        """Deliver again."""
        assert not self.reading and not self.closing
        self.reading = True


def empty_response(ctx: Any, request: Any) -> Any:
    """Return the response of the request's API, without content."""
    return message_class(request.API_KEY, "Response")()


class Connections:
    """A router with a handler for every API, and connections over pipes to it."""

    def __init__(self, loop: asyncio.AbstractEventLoop, handle: Any = None, **options: Any) -> None:
        """Serve every version of every API the codec knows."""
        handlers = [Handler(key, message_class(key, "Request").VERSIONS, handle or empty_response) for key in ApiKey]
        self._loop = loop
        self.shared = Shared(
            loop=loop,
            router=Router(handlers),
            listener="FUZZ",
            security_protocol=SecurityProtocol.PLAINTEXT,
            limits=ConnectionLimits(request_bytes_max=100_000),
            counts=ConnectionCounts(),
            budget=RequestBudget(50_000),
            scratch=scratch()[:4096],
            **options,
        )

    def target(self, data: bytes) -> str:
        """Send a stream of frames in pieces, then end it.

        Promise: nothing is raised; answers are whole frames with the correlation ids asked for, in order; and after
        the end nothing of the connection is left.
        """
        pipe = Pipe()
        connection = ServerConnection(self.shared)
        connection.connection_made(pipe)  # type: ignore[arg-type]
        position = 0
        step = 1 + zlib.crc32(data) % 5000
        while position < len(data) and not pipe.closing:
            if pipe.reading:
                view = connection.get_buffer(-1)
                count = min(len(view), step, len(data) - position)
                view[:count] = data[position : position + count]
                del view
                connection.buffer_updated(count)
                position += count
            else:
                self._turn()
                if not pipe.reading and not connection._muting.is_on:
                    break
        for _ in range(3):
            self._turn()
        closed = pipe.closing
        connection.connection_lost(None)
        assert self.shared.budget.taken == 0, "bytes of the budget are lost"
        assert self.shared.counts.total == 0, "a connection is counted for ever"
        assert not self.shared.by_activity
        return f"connection {'closed' if closed else 'open'} {self._check(data, pipe.written.getvalue())}"

    def _turn(self) -> None:
        self._loop.call_soon(self._loop.stop)
        self._loop.run_forever()

    def _check(self, data: bytes, written: bytes) -> str:
        requested = frames_of(data)
        answers = frames_of(written)
        assert sum(len(answer) + 4 for answer in answers) == len(written), "an answer was cut"
        assert len(answers) <= len(requested)
        for request, answer in zip(requested, answers, strict=False):
            assert request[4:8] == answer[:4], "an answer to something else"
        return str(min(len(answers), 3))


def frames_of(data: bytes) -> list[bytes]:
    """Cut whole frames; what is left over or senseless ends it."""
    frames = []
    position = 0
    while position + 4 <= len(data):
        size = int.from_bytes(data[position : position + 4], "big", signed=True)
        if size < 0 or position + 4 + size > len(data):
            break
        frames.append(data[position + 4 : position + 4 + size])
        position += 4 + size
    return frames


def with_crc(batch: bytes) -> bytes:
    """Return the batch with the CRC it should have, so that the checks behind it are reached."""
    if len(batch) < HEADER_SIZE:
        return batch
    fixed = bytearray(batch)
    fixed[8:12] = (len(batch) - 12).to_bytes(4, "big")
    fixed[CRC_POSITION:CRC_FROM] = crc32c.crc32c(bytes(fixed[CRC_FROM:])).to_bytes(4, "big")
    return bytes(fixed)


def validator(data: bytes) -> str:
    """Validate a produced batch; the first byte chooses the topic's configuration.

    Promise: only KafkaError is raised; what is accepted has a right CRC, and its records can be read.
    """
    config = CONFIGS[data[0] % len(CONFIGS)] if data else CONFIGS[0]
    try:
        found = validate_produce(memoryview(bytearray(data[1:])), config, NOW_MS)
    except KafkaError as error:
        return kind_of(error)
    header = found.header
    assert header.crc == crc32c.crc32c(bytes(found.view[CRC_FROM : header.size])), "accepted with a wrong CRC"
    records = list(decode_records(found.view))
    assert len(records) == header.records_count, "accepted with another number of records"
    return f"accepted {header.attributes & 7}"


def replicated(data: bytes) -> str:
    """Check batches as a follower does. Promise: only KafkaError is raised."""
    try:
        headers = validate_replicated(memoryview(bytearray(data)), 0, None)
    except KafkaError as error:
        return kind_of(error)
    return f"replicated {min(len(headers), 3)}"
