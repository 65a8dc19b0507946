"""Damage to the files of a stopped node, as by a machine crash: unsynced bytes are lost, bits flip.

A killed process loses nothing that it wrote: the kernel has it. `lose_unsynced` applies the worst effect of a power
failure to each partition's log, by the length that the broker recorded as synced (storage/durable_length.py). A
controller's journal acknowledges only synced data and needs no such damage; it is not changed.
"""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from random import Random
from typing import Final

from kvorum.chaos.faults.events import FaultError
from kvorum.quorum.raft.journal_replay import SUFFIX as JOURNAL_SUFFIX
from kvorum.runtime.disk import OsDisk
from kvorum.storage import durable_length
from kvorum.storage.durable_length import DurableLength
from kvorum.storage.names import (
    DELETE_FOLDER_SUFFIX,
    LOG_SUFFIX,
    SNAPSHOT_SUFFIX,
    STRAY_FOLDER_SUFFIX,
    offset_of,
    segment_file,
)

JOURNAL: Final = "journal"
"""Means a controller's Raft journal in the position of a partition."""


class NothingToDamage(FaultError):
    """There is no file, or no byte in it, to damage."""


@dataclass(frozen=True, slots=True)
class LostTail:
    """The lost part of one log."""

    folder: str
    synced: DurableLength
    lost_bytes: int
    """Number of records."""


@dataclass(frozen=True, slots=True)
class FlippedBit:
    """A flipped bit."""

    path: str
    position: int
    """The byte."""
    bit: int


def lose_unsynced(directories: Sequence[str]) -> list[LostTail]:
    """Truncate every log in these directories to its synced part; return those that lost records. Raises OSError.

    A log without a durable-length file (another broker's) is unchanged.
    """
    found = []
    for directory in directories:
        for name in sorted(os.listdir(directory)):
            folder = os.path.join(directory, name)
            if os.path.isdir(folder) and not name.endswith((DELETE_FOLDER_SUFFIX, STRAY_FOLDER_SUFFIX)):
                lost = lose_unsynced_of(folder)
                if lost is not None and lost.lost_bytes:
                    found.append(lost)
    return found


def lose_unsynced_of(folder: str) -> LostTail | None:
    """Truncate one log; return None if it has no durable-length file. Raises OSError."""
    synced = durable_length.read(OsDisk(), folder)
    if synced is None:
        return None
    lost = 0
    for name in sorted(os.listdir(folder)):
        path, offset = os.path.join(folder, name), offset_of(name)
        if offset is None:
            continue
        if name.endswith(SNAPSHOT_SUFFIX):
            # A producer snapshot has the state before its offset: after the cut it is obsolete.
            if offset > synced.recovery_point:
                os.remove(path)
        elif offset > synced.segment_base_offset:
            lost += os.path.getsize(path) if name.endswith(LOG_SUFFIX) else 0
            os.remove(path)
        elif offset == synced.segment_base_offset and name.endswith(LOG_SUFFIX):
            beyond = os.path.getsize(path) - synced.size
            if beyond > 0:
                os.truncate(path, synced.size)
                lost += beyond
    return LostTail(folder, synced, lost)


def segment_of(directories: Sequence[str], partition: str, rng: Random) -> str:
    """Return the path of a segment of a partition ("orders-0") that holds bytes, by chance where there are several.

    Raises NothingToDamage.
    """
    if os.path.basename(partition) != partition:  # a path might lead to the logs of another cluster
        raise NothingToDamage(f"{partition!r} is not a partition")
    folders = [path for path in (os.path.join(each, partition) for each in directories) if os.path.isdir(path)]
    bases = [
        (folder, offset)
        for folder in folders
        for name in sorted(os.listdir(folder))
        if name.endswith(LOG_SUFFIX) and (offset := offset_of(name)) is not None
    ]
    paths = [path for folder, base in bases if os.path.getsize(path := segment_file(folder, base, LOG_SUFFIX))]
    if not paths:
        raise NothingToDamage(f"{partition} has no segment with data in {', '.join(directories)}")
    return rng.choice(paths)


def journal_of(folder: str) -> str:
    """Return the path of a Raft journal's newest segment. Raises NothingToDamage."""
    names = sorted(name for name in os.listdir(folder) if name.endswith(JOURNAL_SUFFIX))
    if not names:
        raise NothingToDamage(f"{folder} has no journal")
    return os.path.join(folder, names[-1])


def used_size(path: str) -> int:
    """Return where the zeros at a file's end begin: a journal's segment is filled with them ahead of use."""
    with open(path, "rb") as file:
        return len(file.read().rstrip(b"\0"))


def flip_bits(path: str, count: int, rng: Random, position: int | None = None) -> list[FlippedBit]:
    """Flip this number of bits, each anywhere in the used part of the file (or in the byte at `position`).

    Raises NothingToDamage, OSError.
    """
    size = used_size(path)
    if not size:
        raise NothingToDamage(f"{path} is empty")
    if position is not None and position >= (end := os.path.getsize(path)):
        raise NothingToDamage(f"{path} has {end} bytes, position {position} does not exist")
    found = []
    with open(path, "r+b", buffering=0) as file:
        for _ in range(count):
            at = rng.randrange(size) if position is None else position
            bit = rng.randrange(8)
            byte = os.pread(file.fileno(), 1, at)
            os.pwrite(file.fileno(), bytes([byte[0] ^ (1 << bit)]), at)
            found.append(FlippedBit(path, at, bit))
        os.fsync(file.fileno())
    return found
