"""The `.snapshot` files of a log's producer state: written late, off the event loop; read when the log is truncated.

A snapshot named N holds the state before offset N. Snapshots that are not written yet are kept here, so the state can
be restored from them; a crash before the write costs only a longer replay, as long as the batches exist.
"""

from bisect import bisect_right, insort

from kvorum.runtime import failpoints
from kvorum.runtime.disk import Disk
from kvorum.storage.names import SNAPSHOT_SUFFIX, offset_of, segment_file


class Snapshots:
    """The snapshots of one log, by offset."""

    __slots__ = ("_disk", "_folder", "_offsets", "_unwritten")

    def __init__(self, disk: Disk, folder: str) -> None:
        """Find the existing snapshots."""
        self._disk = disk
        self._folder = folder
        names = disk.listdir(folder)
        self._offsets = sorted(offset for name in names if (offset := offset_of(name, SNAPSHOT_SUFFIX)) is not None)
        self._unwritten: dict[int, bytes] = {}

    def moved_to(self, folder: str) -> None:
        """Go by the folder's new name."""
        self._folder = folder

    @property
    def offsets(self) -> list[int]:
        """All of them, ascending."""
        return list(self._offsets)

    def latest(self, offset: int) -> int | None:
        """Return the last snapshot at or before this offset."""
        place = bisect_right(self._offsets, offset)
        return self._offsets[place - 1] if place else None

    def read(self, offset: int) -> bytes:
        """Return a snapshot's bytes. Raises OSError."""
        unwritten = self._unwritten.get(offset)
        return self._disk.read(self._path(offset)) if unwritten is None else unwritten

    def take(self, offset: int, data: bytes) -> None:
        """Store a new snapshot, to be written with the next flush."""
        if offset not in self._offsets:
            insort(self._offsets, offset)
        self._unwritten[offset] = data

    def unwritten(self) -> list[tuple[str, bytes]]:
        """Return (path, bytes) of the snapshots to write."""
        return [(self._path(offset), data) for offset, data in self._unwritten.items()]

    def is_unwritten(self, offset: int) -> bool:
        """Return whether a snapshot was taken there that is not durable yet."""
        return offset in self._unwritten

    def on_written(self, written: list[tuple[str, bytes]]) -> None:
        """Forget the bytes of what `unwritten` returned and was written since."""
        for path, data in written:
            offset = offset_of(path.rpartition("/")[2])
            if offset is not None and self._unwritten.get(offset) is data:
                del self._unwritten[offset]

    def on_void(self, written: list[tuple[str, bytes]]) -> None:
        """Remove a file that may have been written while it was removed here: it belongs to truncated batches."""
        for path, _ in written:
            if offset_of(path.rpartition("/")[2]) not in self._offsets:
                self._disk.remove(path)

    def remove_if(self, first: int, last: int) -> None:
        """Remove the snapshots of offsets within [first, last]."""
        failpoints.hit("producer-snapshot.remove.before")
        for offset in [offset for offset in self._offsets if first <= offset <= last]:
            self._offsets.remove(offset)
            self._unwritten.pop(offset, None)
            self._disk.remove(self._path(offset))
            failpoints.hit("producer-snapshot.remove.after")

    def _path(self, offset: int) -> str:
        """Return the file's path."""
        return segment_file(self._folder, offset, SNAPSHOT_SUFFIX)


def write_snapshots(disk: Disk, snapshots: list[tuple[str, bytes]]) -> None:
    """Write what `unwritten` returned. May run off the event loop."""
    for path, data in snapshots:
        failpoints.hit("producer-snapshot.write.before")
        disk.write_atomic(path, data)
        failpoints.hit("producer-snapshot.write.after")
