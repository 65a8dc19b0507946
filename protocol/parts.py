"""Pieces of an answer that are sent one after another and never joined."""

from typing import NamedTuple, TypeAlias

from kvorum.runtime.disk import File


class FileSlice(NamedTuple):
    """Bytes of a file: only network/outbox.py reads them. `data` has the same bytes if they are in memory."""

    file: File
    position: int
    size: int
    data: memoryview | None = None

    def without_data(self) -> "FileSlice":
        """Return the slice without its copy in memory."""
        return FileSlice(self.file, self.position, self.size)


Part: TypeAlias = bytes | bytearray | memoryview | FileSlice


def part_size(part: Part) -> int:
    """Return the part's length in bytes."""
    return part.size if isinstance(part, FileSlice) else len(part)
