"""Responses of one connection: in request order, and at the rate of the client.

A slot is reserved for every request without a response; later responses wait. Nothing is sent while earlier bytes wait
in the transport. Slices of files are read and written in pieces; of a piece that the socket does not accept only a part
is kept, and the rest is read again. So a client that does not read uses little memory.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Protocol

from kvorum.network.memory import ConnectionMemory
from kvorum.protocol.parts import FileSlice, Part
from kvorum.runtime.disk import File
from kvorum.runtime.sockets import descriptor_of, send_now

GATHERED_BYTES_MAX = 64 * 1024
"""Responses joined for one system call, and one read of a file: larger pieces are not faster."""
DIRECT_BYTES_MIN = 16 * 1024
"""Slices of files below are gathered with what surrounds them. An unsent piece below is kept."""
DIRECT_BYTES_MAX = 256 * 1024
"""The largest piece of a file that is read at once. Pieces double up to it while the socket accepts whole pieces; the
rest of a piece is read again."""
WAITING_BYTES_MAX = 1024 * 1024
"""Memory of responses that wait for an earlier one: beyond it, further requests of the connection wait."""
GATHERED_PARTS_MAX = 64
"""Parts in one system call that does not go through the transport."""
KEPT_BYTES = 512 * 1024
PROBE_BYTES = 8 * 1024
"""Bytes of a file, left with the transport when the socket is full: it sends them and reports when it is writable.

The larger number while few clients are slow: a client that is slightly too slow then costs fewer iterations.
"""


def pread(file: File, size: int, position: int) -> bytes:
    """Read a piece of a slice. Raises OSError, also where the file is shorter than the slice."""
    data = file.pread(size, position)
    if len(data) != size:
        raise OSError(f"{file.path} ends at {position + len(data)}, expected {size} bytes at {position}")
    return data


def memory_of(parts: list[Part]) -> int:
    """Return the bytes of an answer that are in memory. O(parts)."""
    size = 0
    for part in parts:
        if not isinstance(part, FileSlice):
            size += len(part)
    return size


def drop_data(parts: list[Part]) -> None:
    """Keep file slices of a waiting response in the file, and copy views of larger buffers."""
    for index, part in enumerate(parts):
        if isinstance(part, FileSlice):
            if part.data is not None:
                parts[index] = part.without_data()
        elif isinstance(part, memoryview) and len(part) <= GATHERED_BYTES_MAX:
            parts[index] = bytes(part)


class Slot:
    """The slot of one response.

    `parts` is None until it is available; an empty list means that nothing is sent.

    `size` is the memory of the parts that the outbox counts.
    """

    __slots__ = ("parts", "size")

    def __init__(self, parts: list[Part] | None = None) -> None:
        """Use the slot for a response, or for its parts."""
        self.parts = parts
        self.size = 0


class Watched(Protocol):
    """A response whose transmission is reported."""

    slot: Slot | None
    """Its slot; None: it is part of the gathered bytes."""

    def sent(self, turn_s: float, now_s: float) -> None:
        """It was sent: the start and the end of sending."""
        ...


class Outbox:
    """The sending side of one connection.

    Not paused and no slot open: a response goes to the socket at once. The caller calls `flush` when it has no more for
    now. `sent` counts bytes written to the socket.
    """

    __slots__ = (
        *("_gathered", "_gathered_size", "_memory", "_now_s", "_slots", "_socket_fd", "_transport", "_watched"),
        *("paused", "sent", "waiting_bytes"),
    )

    def __init__(
        self, transport: asyncio.WriteTransport, now_s: Callable[[], float], memory: ConnectionMemory | None = None
    ) -> None:
        """Send over an open transport; set `paused` between its pause_writing and resume_writing.

        `memory`: memory of the process's connections.
        """
        self._transport = transport
        self._memory = memory
        self._now_s = now_s
        self._watched: list[Watched] = []
        is_plain = transport.get_extra_info("sslcontext") is None
        self._socket_fd = descriptor_of(transport.get_extra_info("socket")) if is_plain else -1
        transport.set_write_buffer_limits(high=0)
        self._slots: deque[Slot] = deque()
        self._gathered: list[bytes | bytearray | memoryview] = []
        self._gathered_size = 0
        self.paused = False
        self.sent = 0
        self.waiting_bytes = 0
        """Memory of answers that wait: for an earlier answer, or for the client."""

    def __len__(self) -> int:
        """Return how many answers are not sent, those that are not there yet included."""
        return len(self._slots)

    @property
    def newest(self) -> Slot | None:
        """The place of the answer that was given last, None if nothing of it waits."""
        return self._slots[-1] if self._slots else None

    def watch(self, answer: Watched) -> None:
        """Call back when this answer, which was given just now, or has its slot, is sent."""
        self._watched.append(answer)

    def reserve(self) -> Slot:
        """Reserve the next slot for a later response: set its `parts`, then `flush`."""
        slot = Slot()
        self._slots.append(slot)
        return slot

    @property
    def held(self) -> int:
        """Return the counted memory of unsent answers."""
        return self.waiting_bytes + self._transport.get_write_buffer_size() if self.paused else self.waiting_bytes

    def place(self, slot: Slot, parts: list[Part]) -> None:
        """Store a response in its slot; `flush` follows."""
        if self.paused or self._slots[0] is not slot:
            drop_data(parts)
        slot.parts = parts
        slot.size = memory_of(parts)
        self.waiting_bytes += slot.size

    def send(self, parts: list[Part]) -> None:
        """Add the next response. Raises OSError when a file cannot be read."""
        if self._slots or self.paused:
            self.place(self.reserve(), parts)
            return
        for index, part in enumerate(parts):
            if isinstance(part, FileSlice):
                self._slots.append(Slot(parts[index:]))
                self._drain()
                return
            self._gather(part)

    def flush(self) -> None:
        """Write as much as possible to the socket. Raises OSError when a file cannot be read."""
        turn_s = self._now_s() if self._watched else 0.0
        if self._slots and not self.paused:
            self._drain()
        if self._gathered:
            self._write()
        if turn_s:
            self._tell(turn_s)

    def _tell(self, turn_s: float) -> None:
        """Notify the listeners of responses sent since then. O(sampled responses)."""
        now_s, watched, self._watched = self._now_s(), self._watched, []
        for each in watched:
            if each.slot is not None and each.slot in self._slots:
                self._watched.append(each)
            else:
                each.sent(turn_s, now_s)

    def clear(self) -> None:
        """Drop everything: the connection was lost."""
        self._slots.clear()
        self.waiting_bytes = 0
        self._watched.clear()
        self._gathered.clear()
        self._gathered_size = 0

    def _drain(self) -> None:
        slots = self._slots
        while slots and not self.paused:
            slot = slots[0]
            parts = slot.parts
            if parts is None:
                return
            if len(parts) == 1 and isinstance(parts[0], bytes):  # as nearly all are
                slots.popleft()
                self.waiting_bytes -= slot.size
                self._gather(parts[0])
                continue
            self._drain_answer(parts)
            self.waiting_bytes -= slot.size
            slot.size = memory_of(parts)
            self.waiting_bytes += slot.size
            if not parts:
                slots.popleft()

    def _drain_answer(self, parts: list[Part]) -> None:
        """Send an answer's parts and take them off the list, until the client is behind."""
        done = 0
        for part in parts:
            if self.paused:
                break
            if isinstance(part, FileSlice):
                left = self._read(part)
                if left.size:
                    parts[done] = left
                    break
            else:
                self._gather(part)
            done += 1
        del parts[:done]
        if self.paused:
            drop_data(parts)

    def _read(self, part: FileSlice) -> FileSlice:
        """Send a slice of a file piece by piece; return the rest if the client is slow."""
        file, position, size, data = part
        direct_bytes_max = GATHERED_BYTES_MAX
        # With TLS the transport keeps all that the socket does not accept.
        is_cramped = self._socket_fd < 0 and self._memory is not None and not self._memory.is_roomy
        piece_bytes_max = PROBE_BYTES if is_cramped else GATHERED_BYTES_MAX
        while size and not self.paused:
            is_direct = size >= DIRECT_BYTES_MIN and self._is_direct()
            count = min(size, direct_bytes_max if is_direct else piece_bytes_max)
            piece: bytes | memoryview
            if data is None:
                piece = pread(file, count, position)
            elif is_direct:
                piece = data[part.size - size :]
            else:
                piece = bytes(data[part.size - size : part.size - size + count])  # a view would keep all of an append
            sent = len(piece)
            if is_direct:
                sent = self._send_directly(piece)
                direct_bytes_max = min(2 * direct_bytes_max, DIRECT_BYTES_MAX)
                if self.paused:
                    break
                if sent < len(piece):  # the socket is full: the transport reports when it is writable
                    count = KEPT_BYTES if self._memory is not None and self._memory.is_roomy else PROBE_BYTES
                    count = min(count, size - sent)
                    kept = pread(file, count, position + sent) if data is None else bytes(piece[sent : sent + count])
                    sent += count
                    self._gather(kept)
                    self._write()
            else:
                self._gather(piece)
                if is_cramped and self._gathered:
                    self._write()
            position += sent
            size -= sent
        return FileSlice(file, position, size)

    def _is_direct(self) -> bool:
        """Return whether bytes may be written past the transport: its buffer is empty and it is open."""
        return (
            self._socket_fd >= 0
            and len(self._gathered) < GATHERED_PARTS_MAX
            and not self._transport.get_write_buffer_size()
            and not self._transport.is_closing()
        )

    def _send_directly(self, data: bytes | memoryview) -> int:
        """Write gathered bytes and then data of a file; return how much of the data the socket accepted."""
        gathered, size = self._gathered, self._gathered_size
        count = send_now(self._socket_fd, [*gathered, data])
        self._gathered = []
        self._gathered_size = 0
        if count < size:
            self.sent += count
            self._gather(b"".join(gathered)[count:])
            self._write()
            return 0
        self.sent += count
        return count - size

    def _gather(self, data: bytes | bytearray | memoryview) -> None:
        self._gathered.append(data)
        self._gathered_size += len(data)
        if self._gathered_size >= GATHERED_BYTES_MAX:
            self._write()

    def _write(self) -> None:
        gathered = self._gathered
        self.sent += self._gathered_size
        self._gathered_size = 0
        if len(gathered) == 1:
            self._transport.write(gathered[0])
            gathered.clear()
        else:
            self._gathered = []
            self._transport.writelines(gathered)
