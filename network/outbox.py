"""Answers of one connection on their way to the socket: in request order, and no faster than the client takes them.

A slot is reserved for every request whose answer is not there yet; what comes behind it waits. Files are read only when
their bytes can be sent: a client that does not read holds at most `outstanding_bytes_max` and one piece of a file.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Protocol

from kvorum.protocol.parts import FileSlice, Part

FILE_READ_BYTES = 256 * 1024
"""One read of a file. Between two of them the client must have taken enough."""
GATHERED_BYTES_MAX = 64 * 1024
"""Answers gathered for one system call."""


class Slot:
    """The place of one answer. `parts` is None until it is there; an empty list means that nothing is sent."""

    __slots__ = ("parts",)

    def __init__(self, parts: list[Part] | None = None) -> None:
        """Take the answer's place, or the answer."""
        self.parts = parts


class Watched(Protocol):
    """An answer whose sending is to be told."""

    slot: Slot | None
    """Its place; None: it goes with what is gathered."""

    def sent(self, turn_s: float, now_s: float) -> None:
        """It has gone: its turn came then, and it was over now."""
        ...


class Outbox:
    """The sending side of one connection.

    Not paused and no slot open: an answer goes to the socket at once. The caller calls `flush` when it has no more for
    the moment. `sent` counts bytes given to the socket.
    """

    __slots__ = ("_gathered", "_gathered_size", "_now_s", "_slots", "_transport", "_watched", "paused", "sent")

    def __init__(
        self, transport: asyncio.WriteTransport, outstanding_bytes_max: int, now_s: Callable[[], float]
    ) -> None:
        """Send over an open transport, which then says `pause` above so many bytes outstanding, `resume` below."""
        self._transport = transport
        self._now_s = now_s
        self._watched: list[Watched] = []
        transport.set_write_buffer_limits(high=outstanding_bytes_max)
        self._slots: deque[Slot] = deque()
        self._gathered: list[bytes | bytearray | memoryview] = []
        self._gathered_size = 0
        self.paused = False
        self.sent = 0

    def __len__(self) -> int:
        """Return how many answers are not sent, those that are not there yet included."""
        return len(self._slots)

    @property
    def newest(self) -> Slot | None:
        """The place of the answer that was given last, None if nothing of it waits."""
        return self._slots[-1] if self._slots else None

    def watch(self, answer: Watched) -> None:
        """Say when this answer, which was given just now, or has its slot, is sent."""
        self._watched.append(answer)

    def reserve(self) -> Slot:
        """Keep the next place for an answer that comes later: set its `parts`, then `flush`."""
        slot = Slot()
        self._slots.append(slot)
        return slot

    def send(self, parts: list[Part]) -> None:
        """Take the next answer. Raises OSError when a file cannot be read."""
        if self._slots or self.paused:
            self._slots.append(Slot(parts))
            return
        for index, part in enumerate(parts):
            if isinstance(part, FileSlice):
                self._slots.append(Slot(parts[index:]))
                self._drain()
                return
            self._gather(part)

    def flush(self) -> None:
        """Give the socket what can go. Raises OSError when a file cannot be read."""
        turn_s = self._now_s() if self._watched else 0.0
        if self._slots and not self.paused:
            self._drain()
        if self._gathered:
            self._write()
        if turn_s:
            self._tell(turn_s)

    def _tell(self, turn_s: float) -> None:
        """Tell those whose answers have gone since then. O(answers), of those that are looked at."""
        now_s, watched, self._watched = self._now_s(), self._watched, []
        for each in watched:
            if each.slot is not None and each.slot in self._slots:
                self._watched.append(each)
            else:
                each.sent(turn_s, now_s)

    def clear(self) -> None:
        """Forget everything: the connection is gone."""
        self._slots.clear()
        self._watched.clear()
        self._gathered.clear()
        self._gathered_size = 0

    def _drain(self) -> None:
        slots = self._slots
        while slots and not self.paused:
            parts = slots[0].parts
            if parts is None:
                return
            if len(parts) == 1 and isinstance(parts[0], bytes):  # as nearly all are
                slots.popleft()
                self._gather(parts[0])
                continue
            self._drain_answer(parts)
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

    def _read(self, part: FileSlice) -> FileSlice:
        """Send a slice of a file piece by piece; return what is left when the client is behind."""
        file, position, size = part
        while size and not self.paused:
            count = min(size, FILE_READ_BYTES)
            data = file.pread(count, position)
            if len(data) != count:
                raise OSError(f"{file.path} ends at {position + len(data)}, {count} bytes were promised at {position}")
            self._gather(data)
            position += count
            size -= count
        return FileSlice(file, position, size)

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
