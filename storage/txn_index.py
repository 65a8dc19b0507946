"""The transaction index of a segment, binary compatible with Kafka's (TransactionIndex, AbortedTxn).

`.txnindex`: 34 bytes for each aborted transaction whose marker is in the segment: version, producer id, first and last
offset (the marker's), and the last stable offset when the marker was written. Last offsets ascend strictly, and no
entry's last stable offset is after its marker's end. A read of committed data returns the aborted transactions in its
range, and the client skips them: without an entry aborted data would be visible.

The file exists once there is an entry. Entries are kept in memory while in use and written by `save`, as those of the
other indexes: after a crash they are rebuilt from the log.
"""

from struct import Struct
from typing import Final, NamedTuple

from kvorum.runtime.disk import Disk
from kvorum.storage.index import CorruptIndex, save_entries

ENTRY_VERSION: Final = 0
_ENTRY: Final = Struct(">hqqqq")
ENTRY_SIZE: Final = _ENTRY.size
_LAST_OFFSET_POSITION: Final = 18


class AbortedTransaction(NamedTuple):
    """One entry; offsets are absolute, `last_offset` is the marker's."""

    producer_id: int
    first_offset: int
    last_offset: int
    last_stable_offset: int


class TransactionIndex:
    """The aborted transactions of one segment."""

    __slots__ = ("_data", "_file_size", "_saved", "base_offset", "path")

    def __init__(self, path: str, base_offset: int, *, has_file: bool = False) -> None:
        """Start empty; `load` reads the file. With `has_file` there is one of before, to be replaced by `save`."""
        self.path = path
        self.base_offset = base_offset
        self._data = bytearray()
        self._saved = 0
        self._file_size = 1 if has_file else 0

    def __len__(self) -> int:
        """Return how many entries there are."""
        return len(self._data) // ENTRY_SIZE

    @property
    def entries(self) -> list[AbortedTransaction]:
        """All of them, in the order of their markers."""
        return [AbortedTransaction(*values[1:]) for values in _ENTRY.iter_unpack(self._data)]

    def load(self, disk: Disk) -> None:
        """Read the file, if there is one. Raises CorruptIndex for what cannot be such an index."""
        try:
            data = disk.read(self.path)
        except FileNotFoundError:
            data = b""
        if len(data) % ENTRY_SIZE:
            raise CorruptIndex(f"{self.path} has {len(data)} bytes, not a multiple of {ENTRY_SIZE}")
        previous = self.base_offset - 1
        for version, producer_id, first_offset, last_offset, last_stable_offset in _ENTRY.iter_unpack(data):
            if version != ENTRY_VERSION or producer_id < 0 or not 0 <= first_offset < last_offset:
                raise CorruptIndex(f"{self.path} has an invalid entry")
            if last_offset <= previous or not 0 <= last_stable_offset <= last_offset + 1:
                raise CorruptIndex(f"the entries of {self.path} do not ascend, or are outside the log")
            previous = last_offset
        self._data = bytearray(data)
        self._saved = self._file_size = len(data)

    @property
    def last_offset(self) -> int | None:
        """The last entry's marker, None without an entry."""
        return self._last_offset_at(len(self) - 1) if self._data else None

    def append(self, entry: AbortedTransaction) -> None:
        """Add the transaction that a marker behind all others has aborted. Raises CorruptIndex for any other marker."""
        last = self.last_offset
        if entry.last_offset <= (self.base_offset - 1 if last is None else last):
            raise CorruptIndex(f"{self.path}: the marker at offset {entry.last_offset} does not follow {last}")
        self._data += _ENTRY.pack(ENTRY_VERSION, *entry)

    def collect_aborted(self, fetch_offset: int, upper_bound_offset: int) -> tuple[list[AbortedTransaction], bool]:
        """Return the transactions with an offset in [fetch_offset, upper_bound_offset), and whether these are all.

        They are if some marker was written when everything below the bound was stable; else the next segment may have
        more.
        """
        found = []
        for place in range(self._place_of(fetch_offset), len(self)):
            values = _ENTRY.unpack_from(self._data, place * ENTRY_SIZE)
            entry = AbortedTransaction(*values[1:])
            if entry.first_offset < upper_bound_offset:
                found.append(entry)
            if entry.last_stable_offset >= upper_bound_offset:
                return found, True
        return found, False

    def truncate_to(self, offset: int) -> None:
        """Drop the entries whose markers are at or after this offset."""
        del self._data[self._place_of(offset) * ENTRY_SIZE :]
        self._saved = min(self._saved, len(self._data))

    @property
    def is_saved(self) -> bool:
        """Whether the file has exactly the entries."""
        return self._saved == len(self._data) == self._file_size

    def save(self, disk: Disk, *, sync: bool = False) -> None:
        """Update the file to exactly these entries; without entries no file is created."""
        if not self.is_saved:
            save_entries(disk, self.path, bytes(self._data[self._saved :]), self._saved, sync)
            self._saved = self._file_size = len(self._data)

    def _place_of(self, offset: int) -> int:
        """Return the number of the first entry whose marker is not before this offset."""
        low, high = 0, len(self)
        while low < high:
            middle = (low + high) // 2
            if self._last_offset_at(middle) < offset:
                low = middle + 1
            else:
                high = middle
        return low

    def _last_offset_at(self, place: int) -> int:
        start = place * ENTRY_SIZE + _LAST_OFFSET_POSITION
        return int.from_bytes(self._data[start : start + 8], "big")
