"""`durable-length`, a small file in every log's folder: the synced length of the log.

    1                                   version
    recovery_point segment_base size    everything below the recovery point is synced; the segment to that size
    crc32c of the line before, in hex

It bounds the recovery point of the directory's checkpoint from above, so that a truncation is known before the next
append, and it shows tests what a machine without its page cache may lose. It is written without a sync of its own after
a flush (an older one only means a longer recovery), with one before a truncation.
"""

from typing import Final, NamedTuple

from crc32c import crc32c

from kvorum.runtime import failpoints
from kvorum.runtime.disk import Disk
from kvorum.storage.names import DURABLE_LENGTH, join

VERSION: Final = 1
FILE_SIZE: Final = 96
"""Fixed, blanks at the end: a newer record overwrites all of an older one."""


class DurableLength(NamedTuple):
    """The synced part of a log. Segments below `segment_base_offset` are synced whole, later ones not at all."""

    recovery_point: int
    segment_base_offset: int
    size: int


def encode(length: DurableLength) -> bytes:
    """Return the file's content."""
    line = " ".join(map(str, length))
    text = f"{VERSION}\n{line}\n{crc32c(line.encode()):08x}\n"
    assert len(text) <= FILE_SIZE, "three int64 fit"
    return text.ljust(FILE_SIZE).encode()


def decode(data: bytes) -> DurableLength:
    """Return the record. Raises ValueError if the file is torn or of another version."""
    lines = data.decode("ascii", errors="replace").split("\n")
    if len(lines) < 3 or lines[0] != str(VERSION) or lines[2].strip() != f"{crc32c(lines[1].encode()):08x}":
        raise ValueError("durable-length is damaged")
    values = [int(each) for each in lines[1].split()]
    if len(values) != len(DurableLength._fields) or min(values) < 0:
        raise ValueError("durable-length does not have three offsets")
    return DurableLength(*values)


def read(disk: Disk, folder: str) -> DurableLength | None:
    """Return a log's record; None without a file; nothing durable if it is damaged."""
    path = join(folder, DURABLE_LENGTH)
    if not disk.exists(path):
        return None
    try:
        return decode(disk.read(path))
    except ValueError:
        return DurableLength(0, 0, 0)


def write(disk: Disk, folder: str, length: DurableLength, *, sync: bool) -> None:
    """Write a log's record. Raises OSError."""
    failpoints.hit("durable-length.write.before")
    file = disk.open(join(folder, DURABLE_LENGTH), create=True)
    try:
        file.pwrite(encode(length), 0)
        failpoints.hit("durable-length.write.after")
        if sync:
            file.sync()
            failpoints.hit("durable-length.sync.after")
    finally:
        file.close()
