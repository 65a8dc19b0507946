"""The two sparse indexes of a segment, in Kafka's format to the bit (OffsetIndex, TimeIndex).

`.index`: 8 bytes per entry, offset relative to the base and position in the `.log` of the batch that ends with this
offset. `.timeindex`: 12 bytes per entry, the greatest timestamp so far and the relative offset where it was reached.
Both ascend strictly. Entries are kept in memory while in use and written by `save` (at roll, flush and close): after a
crash they are rebuilt from the log, so a Produce never writes them. Files are never preallocated.
"""

import sys
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from operator import ge
from struct import Struct
from typing import Final

from kvorum.protocol.batch_header import NO_TIMESTAMP
from kvorum.runtime import failpoints
from kvorum.runtime.disk import Disk

OFFSET_ENTRY_SIZE: Final = 8
TIME_ENTRY_SIZE: Final = 12
RELATIVE_OFFSET_MAX: Final = 2**31 - 1
"""A relative offset is an int32 in Kafka: a segment rolls before it would not fit."""

_TIME_ENTRY: Final = Struct(">qi")


class CorruptIndex(Exception):
    """An index file that cannot be correct; it is rebuilt from the log."""


def _is_ascending(values: Sequence[int]) -> bool:
    """Return whether each value is greater than the one before it."""
    return not any(map(ge, values, values[1:]))


class OffsetIndex:
    """Positions by offset, of one segment."""

    __slots__ = ("_base_offset", "_offsets", "_positions", "_saved", "path")

    def __init__(self, path: str, base_offset: int) -> None:
        """Start empty; `load` reads the file."""
        self.path = path
        self._base_offset = base_offset
        self._offsets = array("I")
        self._positions = array("I")
        self._saved = 0

    def __len__(self) -> int:
        """Return how many entries there are."""
        return len(self._offsets)

    def load(self, disk: Disk, log_size: int) -> None:
        """Read the file. Raises CorruptIndex; FileNotFoundError if it is missing."""
        data = disk.read(self.path)
        if len(data) % OFFSET_ENTRY_SIZE:
            raise CorruptIndex(f"{self.path} has {len(data)} bytes, not a multiple of {OFFSET_ENTRY_SIZE}")
        words = array("I", data)
        if sys.byteorder == "little":
            words.byteswap()
        offsets, positions = words[::2], words[1::2]
        if not _is_ascending(offsets) or not _is_ascending(positions):
            raise CorruptIndex(f"the entries of {self.path} do not ascend")
        if positions and (positions[-1] >= log_size or offsets[-1] > RELATIVE_OFFSET_MAX):
            raise CorruptIndex(f"{self.path} points past the end of its log")
        self._offsets, self._positions, self._saved = offsets, positions, len(offsets)

    def append(self, offset: int, position: int) -> None:
        """Add the batch at `position` that ends with `offset`."""
        relative = offset - self._base_offset
        assert 0 <= relative <= RELATIVE_OFFSET_MAX, "the segment rolls before its offsets overflow"
        assert not self._offsets or relative > self._offsets[-1], "index offsets ascend"
        self._offsets.append(relative)
        self._positions.append(position)

    def lookup(self, offset: int) -> int:
        """Return the position from which to look for this offset: that of the last entry not behind it, or 0."""
        place = bisect_right(self._offsets, offset - self._base_offset)
        return self._positions[place - 1] if place else 0

    def entry_at(self, position: int) -> int | None:
        """Return the last offset of the batch that has an entry with exactly this position, or None."""
        place = bisect_right(self._positions, position)
        if not place or self._positions[place - 1] != position:
            return None
        return self._base_offset + self._offsets[place - 1]

    def position_floor(self, position: int) -> int:
        """Return the greatest indexed position not behind this one, or 0: a place where a batch begins."""
        place = bisect_right(self._positions, position)
        return self._positions[place - 1] if place else 0

    def offset_from(self, position: int) -> int | None:
        """Return the last offset of the first indexed batch at or after this position, None without one."""
        place = bisect_left(self._positions, position)
        return self._base_offset + self._offsets[place] if place < len(self._positions) else None

    @property
    def last_position(self) -> int:
        """The position of the last entry, or 0."""
        return self._positions[-1] if self._positions else 0

    def truncate_to(self, offset: int) -> None:
        """Drop the entries of this offset and behind it."""
        while self._offsets and self._offsets[-1] >= offset - self._base_offset:
            self._offsets.pop()
            self._positions.pop()
        self._saved = min(self._saved, len(self._offsets))

    def clear(self) -> None:
        """Drop all entries."""
        del self._offsets[:], self._positions[:]
        self._saved = 0

    def save(self, disk: Disk, *, sync: bool = False) -> None:
        """Rewrite the file with exactly the entries."""
        offsets, positions = self._offsets[self._saved :], self._positions[self._saved :]
        words = array("I", bytes(len(offsets) * OFFSET_ENTRY_SIZE))
        words[::2], words[1::2] = offsets, positions
        if sys.byteorder == "little":
            words.byteswap()
        save_entries(disk, self.path, words.tobytes(), self._saved * OFFSET_ENTRY_SIZE, sync)
        self._saved = len(self._offsets)


class TimeIndex:
    """Offsets by timestamp (ms), of one segment."""

    __slots__ = ("_base_offset", "_offsets", "_saved", "_timestamps", "path")

    def __init__(self, path: str, base_offset: int) -> None:
        """Start empty; `load` reads the file."""
        self.path = path
        self._base_offset = base_offset
        self._timestamps = array("q")
        self._offsets = array("I")
        self._saved = 0

    def __len__(self) -> int:
        """Return how many entries there are."""
        return len(self._timestamps)

    def load(self, disk: Disk) -> None:
        """Read the file. Raises CorruptIndex; FileNotFoundError if it is missing."""
        data = disk.read(self.path)
        if len(data) % TIME_ENTRY_SIZE:
            raise CorruptIndex(f"{self.path} has {len(data)} bytes, not a multiple of {TIME_ENTRY_SIZE}")
        rows = list(_TIME_ENTRY.iter_unpack(data))
        timestamps = array("q", [row[0] for row in rows])
        if not _is_ascending(timestamps) or any(row[1] < 0 for row in rows):
            raise CorruptIndex(f"the entries of {self.path} do not ascend")
        offsets = array("I", [row[1] for row in rows])
        if not _is_ascending(offsets):
            raise CorruptIndex(f"the entries of {self.path} do not ascend")
        self._timestamps, self._offsets, self._saved = timestamps, offsets, len(timestamps)

    def maybe_append(self, timestamp: int, offset: int) -> None:
        """Add an entry if its timestamp is greater than the last entry's.

        An empty index counts as one whose last entry has NO_TIMESTAMP, as in Kafka: a segment without a timestamp, or
        only with timestamps before 1970, has no entries.
        """
        if timestamp <= (self._timestamps[-1] if self._timestamps else NO_TIMESTAMP):
            return
        relative = offset - self._base_offset
        assert 0 <= relative <= RELATIVE_OFFSET_MAX, "the segment rolls before its offsets overflow"
        if self._offsets and relative <= self._offsets[-1]:
            return
        self._timestamps.append(timestamp)
        self._offsets.append(relative)

    def lookup(self, timestamp: int) -> int:
        """Return an offset before which no record has this timestamp or a greater one."""
        place = bisect_right(self._timestamps, timestamp - 1)
        return self._base_offset + (self._offsets[place - 1] if place else 0)

    @property
    def last(self) -> tuple[int, int] | None:
        """The last entry as (timestamp, offset), None if there is none."""
        return (self._timestamps[-1], self._base_offset + self._offsets[-1]) if self._timestamps else None

    def truncate_to(self, offset: int) -> None:
        """Drop the entries of this offset and behind it."""
        while self._offsets and self._offsets[-1] >= offset - self._base_offset:
            self._offsets.pop()
            self._timestamps.pop()
        self._saved = min(self._saved, len(self._offsets))

    def clear(self) -> None:
        """Drop all entries."""
        del self._offsets[:], self._timestamps[:]
        self._saved = 0

    def save(self, disk: Disk, *, sync: bool = False) -> None:
        """Rewrite the file with exactly the entries."""
        rows = zip(self._timestamps[self._saved :], self._offsets[self._saved :], strict=True)
        data = b"".join(_TIME_ENTRY.pack(timestamp, offset) for timestamp, offset in rows)
        save_entries(disk, self.path, data, self._saved * TIME_ENTRY_SIZE, sync)
        self._saved = len(self._timestamps)


def save_entries(disk: Disk, path: str, data: bytes, position: int, sync: bool) -> None:
    """Write the entries after `position`, and end the file there: those before it are saved already."""
    failpoints.hit("index.write.before")
    file = disk.open(path, create=True)
    try:
        if data:
            file.pwrite(data, position)
        failpoints.hit("index.write.after")
        if file.size() != position + len(data):
            file.truncate(position + len(data))
        failpoints.hit("index.truncate.after")
        if sync:
            file.sync()
            failpoints.hit("index.sync.after")
    finally:
        file.close()
