"""Files of the journal before its first write: folder, zero-filled segments, and a segment's beginning."""

from typing import Final

from kvorum.quorum.raft.journal_format import SEGMENT_HEADER_SIZE, encode_block, encode_segment_header
from kvorum.runtime.disk import Disk

SEGMENT_BYTES: Final = 8 * 1024 * 1024
"""Zero-filled ahead of use: fdatasync then writes data only, a twentieth of the p99 of a growing file."""
SPARE_NAME: Final = "spare.tmp"
"""The next segment during its preparation; a remainder of an earlier process is removed."""


def make_folder(disk: Disk, path: str) -> None:
    """Create a folder, and its parent, durably."""
    disk.mkdir(path)
    parent = path.rpartition("/")[0]
    for name in (parent, parent.rpartition("/")[0]):
        disk.sync_dir(name or "/")


def fill_with_zeros(disk: Disk, path: str, size: int) -> None:
    """Create a file of real zeros and sync it, so that later writes change no metadata."""
    file = disk.open(path, create=True)
    try:
        piece = bytes(min(size, 1024 * 1024))
        for position in range(0, size, len(piece)):
            file.pwrite(piece[: size - position], position)
        file.sync()
    finally:
        file.close()


def write_head(disk: Disk, path: str, number: int, head: list[bytes], sequence: int) -> int:
    """Write a segment's header and first block; return where the next one goes."""
    block = encode_block(head, sequence)
    file = disk.open(path)
    try:
        file.pwrite(encode_segment_header(number) + block, 0)
        file.sync()
    finally:
        file.close()
    return SEGMENT_HEADER_SIZE + len(block)
