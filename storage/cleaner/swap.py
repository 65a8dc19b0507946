"""Replacement of segments by a cleaned one, and completion of an unfinished swap at a start.

    X.log.cleaned                  being written: removed at the start
    X.index.swap, X.log.cleaned    before the offer: removed
    X.log.swap                     offered, durable: the swap is completed: every segment from X on up to the end of the
    offered one is removed, and it gets the name X.log

Names change in this order, and a disk keeps the order of renames in one folder. So after a power loss the log is either
in the state before or in the state after the swap. Source: Kafka's LocalLog.replaceSegments, LogLoader.
"""

from kvorum.protocol.batch_header import HEADER_SIZE, parse_header
from kvorum.runtime import failpoints
from kvorum.runtime.disk import Disk
from kvorum.storage.cleaner.cleaned_segment import SIDE_SUFFIXES
from kvorum.storage.names import CLEANED_SUFFIX, LOG_SUFFIX, SWAP_SUFFIX, join, offset_of, segment_file


def prepare(disk: Disk, folder: str, base_offset: int) -> None:
    """Rename all but the log of a written segment for the swap, durably: no name may be there later than the log's own.

    Raises OSError.
    """
    failpoints.hit("cleaner.swap.before")
    for suffix in SIDE_SUFFIXES:
        path = segment_file(folder, base_offset, suffix)
        if disk.exists(path + CLEANED_SUFFIX):
            disk.rename(path + CLEANED_SUFFIX, path + SWAP_SUFFIX)
            failpoints.hit("cleaner.swap.index.renamed")
    disk.sync_dir(folder)
    failpoints.hit("cleaner.swap.prepared")


def offer(disk: Disk, folder: str, base_offset: int) -> None:
    """Rename its log for the swap: once that name is durable, the swap will be completed. Raises OSError."""
    path = segment_file(folder, base_offset, LOG_SUFFIX)
    disk.rename(path + CLEANED_SUFFIX, path + SWAP_SUFFIX)
    failpoints.hit("cleaner.swap.offered")


def discard(disk: Disk, folder: str, base_offset: int) -> None:
    """Give up a segment that is not offered: nothing of it is left. Raises OSError."""
    for state in (SWAP_SUFFIX, CLEANED_SUFFIX):
        for suffix in (LOG_SUFFIX, *SIDE_SUFFIXES):
            disk.remove(segment_file(folder, base_offset, suffix) + state)


def take_place(disk: Disk, folder: str, base_offset: int) -> None:
    """Rename an offered segment, the log last, over an existing one of that name.

    Raises OSError.

    The offered segment has every side file that the old one had, so none of the old ones remains.
    """
    for suffix in (*SIDE_SUFFIXES, LOG_SUFFIX):
        path = segment_file(folder, base_offset, suffix)
        if disk.exists(path + SWAP_SUFFIX):
            disk.rename(path + SWAP_SUFFIX, path)
            failpoints.hit("cleaner.replace.renamed")


def withdraw(disk: Disk, folder: str) -> None:
    """Withdraw an offered segment that is not swapped: the log is about to be truncated. Durable."""
    names = [name for name in disk.listdir(folder) if is_of_cleaning(name, SWAP_SUFFIX)]
    for name in sorted(names, key=lambda name: not name.endswith(LOG_SUFFIX + SWAP_SUFFIX)):
        disk.remove(join(folder, name))
        failpoints.hit("cleaner.withdraw.removed")
    if names:
        disk.sync_dir(folder)


def is_of_cleaning(name: str, state: str) -> bool:
    """Return whether a file belongs to a segment that is being cleaned, in this state."""
    return any(offset_of(name, suffix + state) is not None for suffix in (LOG_SUFFIX, *SIDE_SUFFIXES))


def settle(disk: Disk, folder: str) -> None:
    """Complete or discard the cleaning of a process that died. Raises OSError."""
    names = disk.listdir(folder)
    offered = sorted(offset for name in names if (offset := offset_of(name, LOG_SUFFIX + SWAP_SUFFIX)) is not None)
    for name in names:
        is_incomplete = is_of_cleaning(name, SWAP_SUFFIX) and offset_of(name) not in offered
        if is_of_cleaning(name, CLEANED_SUFFIX) or is_incomplete:
            disk.remove(join(folder, name))
            failpoints.hit("cleaner.settle.removed")
    for base_offset in offered:
        _complete(disk, folder, base_offset)


def _complete(disk: Disk, folder: str, base_offset: int) -> None:
    """Complete a swap; idempotent."""
    failpoints.hit("cleaner.settle.before")
    end_offset = _end_offset(disk, segment_file(folder, base_offset, LOG_SUFFIX) + SWAP_SUFFIX, base_offset)
    for name in disk.listdir(folder):
        offset = offset_of(name, LOG_SUFFIX)
        if offset is not None and base_offset < offset < end_offset:
            for suffix in (LOG_SUFFIX, *SIDE_SUFFIXES):
                disk.remove(segment_file(folder, offset, suffix))
            failpoints.hit("cleaner.settle.old.removed")
    disk.sync_dir(folder)
    failpoints.hit("cleaner.settle.synced")
    take_place(disk, folder, base_offset)
    disk.sync_dir(folder)
    failpoints.hit("cleaner.settle.after")


def _end_offset(disk: Disk, path: str, base_offset: int) -> int:
    """Return one past the last offset of an offered segment, from the headers of its batches."""
    file = disk.open(path)
    try:
        position, size, end_offset = 0, file.size(), base_offset + 1
        while position + HEADER_SIZE <= size:
            header = parse_header(file.pread(HEADER_SIZE, position))
            if header.size < HEADER_SIZE or header.last_offset < base_offset:
                break
            end_offset = max(end_offset, header.next_offset)
            position += header.size
        return end_offset
    finally:
        file.close()
