"""Unused files of a log that may still be read: renamed to `.deleted` at once, removed later.

The delay is file.delete.delay.ms; a FileSlice handed out before stays readable that long. After a restart they are
removed at once.
"""

from dataclasses import dataclass
from typing import Final

from kvorum.runtime import failpoints
from kvorum.runtime.disk import Disk
from kvorum.storage.names import (
    DELETED_SUFFIX,
    INDEX_SUFFIX,
    LOG_SUFFIX,
    TIME_INDEX_SUFFIX,
    TXN_INDEX_SUFFIX,
    join,
    offset_of,
)
from kvorum.storage.segment import Segment

SUFFIXES: Final = (LOG_SUFFIX, INDEX_SUFFIX, TIME_INDEX_SUFFIX, TXN_INDEX_SUFFIX)


@dataclass(slots=True, eq=False)
class _Waiting:
    """A segment whose files carry the suffix, and when they may go (ms, wall)."""

    segment: Segment
    deadline_ms: int


class DeletedFiles:
    """Files of one log that wait for their removal."""

    __slots__ = ("_disk", "_waiting")

    def __init__(self, disk: Disk) -> None:
        """Start with nothing waiting."""
        self._disk = disk
        self._waiting: list[_Waiting] = []

    def __len__(self) -> int:
        """Return how many segments wait."""
        return len(self._waiting)

    def add(self, segment: Segment, deadline_ms: int) -> None:
        """Rename a segment's files; they stay readable where they are open. Raises OSError."""
        for suffix in SUFFIXES:
            path = segment.path(suffix)
            if self._disk.exists(path):
                self._disk.rename(path, path + DELETED_SUFFIX)
                failpoints.hit("log.delete.renamed")
        self._waiting.append(_Waiting(segment, deadline_ms))

    def moved_to(self, folder: str) -> None:
        """Go by the folder's new name."""
        for waiting in self._waiting:
            waiting.segment.moved_to(folder)

    def is_due(self, now_ms: int) -> bool:
        """Return whether the delay of any file has passed."""
        return any(waiting.deadline_ms <= now_ms for waiting in self._waiting)

    def purge(self, now_ms: int) -> None:
        """Close and remove files whose delay has passed. Raises OSError."""
        for waiting in [waiting for waiting in self._waiting if waiting.deadline_ms <= now_ms]:
            self._waiting.remove(waiting)  # in place: the event loop may add to it while this runs in a thread
            failpoints.hit("log.purge.before")
            waiting.segment.close()
            for suffix in SUFFIXES:
                self._disk.remove(waiting.segment.path(suffix) + DELETED_SUFFIX)
                failpoints.hit("log.purge.removed")

    def close(self) -> None:
        """Release all open files and leave the rest to the next start."""
        for waiting in self._waiting:
            waiting.segment.close()


def leftover_segments(disk: Disk, folder: str) -> list[int]:
    """Return the base offsets of the segments that an earlier process left waiting."""
    found = (offset_of(name, LOG_SUFFIX + DELETED_SUFFIX) for name in disk.listdir(folder))
    return [offset for offset in found if offset is not None]


def remove_leftovers(disk: Disk, folder: str) -> None:
    """Remove the waiting files of an earlier process."""
    for name in disk.listdir(folder):
        offset = offset_of(name)
        if offset is not None and name[20:].removesuffix(DELETED_SUFFIX) in SUFFIXES and name.endswith(DELETED_SUFFIX):
            disk.remove(join(folder, name))
