"""Pieces of an answer that are sent one after another and never joined."""

from typing import NamedTuple, TypeAlias

from kvorum.runtime.disk import File


class FileSlice(NamedTuple):
    """Bytes that still lie in a file: only network/connection.py reads (or sends) them."""

    file: File
    position: int
    size: int


Part: TypeAlias = bytes | bytearray | memoryview | FileSlice


def part_size(part: Part) -> int:
    """Return the part's length in bytes."""
    return part.size if isinstance(part, FileSlice) else len(part)
