"""The last batches appended, kept in memory: most reads are at the log's end, and then need no system call.

Each log keeps its own ring; the rings of a broker together hold only the latest appends: an append leaves its ring once
enough bytes (or appends) followed it, in any logs. Bytes are copied once, so no network buffer is pinned. A read of
more than MEMORY_READ_BYTES_MAX returns slices of the file: a consumer that does not take its response must not keep in
memory what the ring has dropped.
"""

from collections import deque
from typing import Final, NamedTuple

from kvorum.protocol.batch_header import BatchHeader
from kvorum.protocol.parts import FileSlice, Part
from kvorum.runtime.disk import File

BROKER_BYTES_MAX: Final = 64 * 1024 * 1024
BROKER_APPENDS_MAX: Final = 16 * 1024
"""Limits of all rings of a broker together; the second bounds the overhead of small appends."""
LOG_BYTES_MAX: Final = 1024 * 1024
LOG_BATCHES_MAX: Final = 256
"""One log's ring: a follower or consumer that lags by more reads the file."""
MEMORY_READ_BYTES_MAX: Final = 16 * 1024
"""A larger read is of slices of the file, which a client that is behind does not keep in memory."""
LARGE_BATCH_BYTES: Final = 32 * 1024
"""Sending such a batch from memory costs less than reading it from the file; of smaller ones, one read is cheaper."""


class TailBatch(NamedTuple):
    """One batch, the offsets it covers, and its position in the file; `append_number` counts the ring's appends."""

    base_offset: int
    next_offset: int
    data: memoryview
    append_number: int
    file: File
    position: int


class TailBudget:
    """The appends that rings still hold, oldest first."""

    __slots__ = ("_appends", "appends_max", "bytes_max", "size")

    def __init__(self, bytes_max: int = BROKER_BYTES_MAX, appends_max: int = BROKER_APPENDS_MAX) -> None:
        """Start with nothing held."""
        self.bytes_max = bytes_max
        self.appends_max = appends_max
        self.size = 0
        self._appends: deque[tuple[Tail, int, int]] = deque()

    def charge(self, tail: "Tail", append_number: int, size: int) -> None:
        """Count an append, and drop the oldest until all fit."""
        self.size += size
        self._appends.append((tail, append_number, size))
        while self.size > self.bytes_max or len(self._appends) > self.appends_max:
            oldest, number, oldest_size = self._appends.popleft()
            self.size -= oldest_size
            oldest.drop_through(number)


class Tail:
    """The ring of one log: batches without a gap up to the log end."""

    __slots__ = ("_append_number", "_batches", "_budget", "size")

    def __init__(self, budget: TailBudget) -> None:
        """Start empty."""
        self._budget = budget
        self._batches: deque[TailBatch] = deque()
        self._append_number = 0
        self.size = 0

    def append(self, data: memoryview, headers: list[BatchHeader], file: File, position: int) -> None:
        """Store the batches just written to a file, the first one at `position`."""
        self._append_number += 1
        if len(data) > LOG_BYTES_MAX:
            self.clear()
            return
        copy = memoryview(bytes(data))
        start = 0
        batches, number = self._batches, self._append_number
        for header in headers:
            end = start + header.size
            batch = copy[start:end]
            batches.append(TailBatch(header.base_offset, header.next_offset, batch, number, file, position + start))
            start = end
        self.size += len(data)
        while self.size > LOG_BYTES_MAX or len(batches) > LOG_BATCHES_MAX:
            self.size -= len(batches.popleft().data)
        self._budget.charge(self, self._append_number, len(data))

    def drop_through(self, append_number: int) -> None:
        """Drop the remaining batches of appends up to this one."""
        batches = self._batches
        while batches and batches[0].append_number <= append_number:
            self.size -= len(batches.popleft().data)

    def clear(self) -> None:
        """Remove everything: the log was truncated, or an append is too large to keep."""
        self._batches.clear()
        self.size = 0

    def read(self, offset: int, max_bytes: int, upper_bound_offset: int, min_one: bool) -> list[Part] | None:
        """Return the batches from the one that holds `offset` on, all below the bound, as many as fit.

        None if the ring does not reach back so far. `min_one`: the first is returned even if it does not fit.
        """
        batches = self._batches
        if not batches or offset < batches[0].base_offset:
            return None
        first = len(batches)
        while first and batches[first - 1].next_offset > offset:
            first -= 1
        parts: list[Part] = []
        left = max_bytes
        for index in range(first, len(batches)):
            batch = batches[index]
            size = len(batch.data)
            if batch.next_offset > upper_bound_offset or (size > left and (parts or not min_one)):
                break
            parts.append(batch.data)
            left -= size
        if max_bytes - left <= MEMORY_READ_BYTES_MAX:
            return parts
        return self._slices(first, len(parts))

    def _slices(self, first: int, count: int) -> list[Part]:
        """Return this number of batches as slices of their files.

        A large batch has its data beside it, for a client that is not behind; adjacent small ones are one slice.
        """
        slices: list[Part] = []
        for index in range(first, first + count):
            batch = self._batches[index]
            file, position, size = batch.file, batch.position, len(batch.data)
            last = slices[-1] if slices else None
            if size >= LARGE_BATCH_BYTES:
                slices.append(FileSlice(file, position, size, batch.data))
            elif isinstance(last, FileSlice) and last.data is None and is_followed_by(last, file, position):
                slices[-1] = FileSlice(file, last.position, last.size + size)
            else:
                slices.append(FileSlice(file, position, size))
        return slices


def is_followed_by(part: FileSlice, file: File, position: int) -> bool:
    """Return whether a slice ends where another one begins."""
    return part.file is file and part.position + part.size == position
