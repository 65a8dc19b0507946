"""Frames out of a stream of bytes: a 4-byte length, then the body. Sans-IO.

The caller reads into `writable()`, then calls `received(count)` and gets the completed frames. Small frames are read
into one scratch buffer, which may be shared by all connections of an event loop (nothing in it is kept over a call),
and copied once into their frame; large ones are read directly into their frame, never copied. A frame is a writable
memoryview over a bytearray without other users: Produce patches its batches in place and a log may keep slices. A frame
gets a part of its memory before its bytes arrive, unless the process is short of it (memory.py).
"""

from kvorum.network.memory import ConnectionMemory
from kvorum.protocol.errors import ProtocolError

LENGTH_SIZE = 4
SCRATCH_BYTES = 128 * 1024
"""One read of small requests; 64 to 256 KiB measured alike, smaller costs system calls."""
RESERVED_BYTES_MAX = 2 * 1024 * 1024
"""A frame starts with at most this memory, and doubles as its bytes arrive.

Above the batches clients send (max.request.size 1 MiB): growing costs five times what reading in one piece does.
"""
PEER_RESERVED_BYTES_MAX = 32 * 1024 * 1024
"""The same for answers of a Kvorum peer, whose lengths are trusted more."""
TLS_HANDSHAKE = b"\x16\x03"
"""The first bytes of a TLS client: type of record, and version."""
SPARSE_BYTES = 64 * 1024
"""Minimum growth of a frame.

If the connections of the process use much memory, it starts with only the received bytes, and grows by a quarter.
"""
SCRATCH_SHORT_BYTES = 4 * 1024
"""One read of small requests while they hold more than they may."""


def scratch() -> memoryview:
    """Return a buffer to read into; one an event loop is enough."""
    return memoryview(bytearray(SCRATCH_BYTES))


class FrameParser:
    """The reading side of one connection.

    Between frames `_body` is None and `_head` holds 0 to 3 bytes of a length. Inside a frame `_body` holds the
    `filled` bytes of it that came, of `_size` announced.
    """

    __slots__ = ("_body", "_head", "_memory", "_reserved_max", "_scratch", "_size", "bytes_max", "error", "filled")

    def __init__(
        self,
        bytes_max: int,
        scratch: memoryview,
        reserved_max: int = RESERVED_BYTES_MAX,
        memory: ConnectionMemory | None = None,
    ) -> None:
        """Reject frames above `bytes_max` (socket.request.max.bytes); reserve memory for lengths up to `reserved_max`.

        `memory`: memory of the process's connections, if it is limited.
        """
        assert len(scratch) > LENGTH_SIZE
        self.bytes_max = bytes_max
        self._reserved_max = reserved_max
        self._memory = memory
        self.error: ProtocolError | None = None
        """Set for a length that is negative or above the limit: nothing more can be read from this peer."""
        self._scratch = scratch
        self._head = b""
        self._body: bytearray | None = None
        self.filled = 0
        self._size = 0

    @property
    def pending(self) -> int:
        """Return the announced size of the frame that is not complete, 0 between frames."""
        return self._size if self._body is not None else 0

    @property
    def held(self) -> int:
        """Return the memory of the frame that is not complete, 0 between frames."""
        return len(self._body) if self._body is not None else 0

    def clear(self) -> None:
        """Release the memory of the frame that is not complete: nothing more is read."""
        self._body = None

    def writable(self) -> memoryview:
        """Return the buffer for the next bytes; valid until `received`, and to be released before."""
        body = self._body
        if body is None:
            head, scratch = self._head, self._scratch
            if self._memory is not None and self._memory.request_bytes > self._memory.request_bytes_max:
                scratch = scratch[:SCRATCH_SHORT_BYTES]
            if not head:
                return scratch
            scratch[: len(head)] = head
            return scratch[len(head) :]
        if len(body) == self.filled:
            is_free = self._memory is None or self._memory.is_free
            more = max(self.filled if is_free else self.filled // 4, min(SPARSE_BYTES, self._reserved_max))
            body += bytes(min(self._size - self.filled, more))
        return memoryview(body)[self.filled :]

    def received(self, count: int) -> list[memoryview]:
        """Take note that `count` bytes are in `writable()`; return the frames that are complete now.

        Look at `error` afterwards: what stood before a bad length is still returned.
        """
        assert self.error is None, "nothing is read behind a bad length"
        body = self._body
        if body is None:
            return self._split(len(self._head) + count)
        self.filled += count
        if self.filled < self._size:
            return []
        assert self.filled == self._size == len(body), "a frame is never read beyond its end"
        self._body = None
        return [memoryview(body)]

    def feed(self, data: bytes | bytearray | memoryview) -> list[memoryview]:
        """Add bytes from another buffer: for tests, and for transports that deliver bytes."""
        frames: list[memoryview] = []
        view = memoryview(data)
        while view and self.error is None:
            target = self.writable()
            count = min(len(target), len(view))
            target[:count] = view[:count]
            del target
            view = view[count:]
            frames += self.received(count)
        return frames

    def _split(self, end: int) -> list[memoryview]:
        """Split the first `end` bytes of the scratch buffer into frames, and keep the rest."""
        buffer = self._scratch
        frames: list[memoryview] = []
        position = 0
        while end - position >= LENGTH_SIZE:
            size = int.from_bytes(buffer[position : position + LENGTH_SIZE], "big", signed=True)
            if not 0 <= size <= self.bytes_max:
                self.error = ProtocolError(bad_length(size, self.bytes_max))
                return frames
            position += LENGTH_SIZE
            there = end - position
            if there < size:
                more = self._reserved_max if self._memory is None or self._memory.is_free else 0
                body = bytearray(max(there, min(size, more)))
                body[:there] = buffer[position:end]
                self._body, self.filled, self._size = body, there, size
                self._head = b""
                return frames
            frames.append(memoryview(bytearray(buffer[position : position + size])))
            position += size
        self._head = bytes(buffer[position:end])
        return frames


def bad_length(size: int, bytes_max: int) -> str:
    """Return the error message for a frame's length. If the length is text, the peer uses another protocol."""
    if size < 0:
        return f"a frame of negative length {size}"
    text = size.to_bytes(LENGTH_SIZE, "big")
    if text[:2] == TLS_HANDSHAKE:
        return "a TLS client on a plaintext listener"
    if all(0x20 <= byte < 0x7F for byte in text):
        return f"not Kafka's protocol: {text.decode()!r} instead of a frame length (an HTTP port?)"
    return f"a frame of {size} bytes exceeds the limit of {bytes_max} bytes"
