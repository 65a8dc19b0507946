"""Damage found when a log is opened, and the mark of a log that lacks synced records.

`lacks-records`, a small file in the log's folder, is durable before any truncation, and is removed when the replica is
in use again: by then the controller does not rely on the former log (broker/replica/missing_logs). So the state
survives a stop in between.
"""

from enum import Enum
from typing import Final, NamedTuple

from kvorum.runtime import failpoints
from kvorum.runtime.disk import Disk
from kvorum.storage.names import join

LACKS_RECORDS: Final = "lacks-records"


class Lack(Enum):
    """The synced records that a log lacks."""

    NOTHING = "nothing"
    END = "end"
    """The newest: a leader has them still."""
    SEGMENTS = "segments"
    """Damage in front of other segments: followers do not fetch them again, so the log must restart."""
    ALL = "all"
    """The log's folder is missing."""


class Damage(NamedTuple):
    """Damage of a log as text, and the records that it lacks."""

    problem: str
    lack: Lack


def write_lack(disk: Disk, folder: str, lack: Lack) -> None:
    """Mark a log, durably. Raises OSError."""
    failpoints.hit("lacks-records.write.before")
    disk.write_atomic(join(folder, LACKS_RECORDS), f"{lack.value}\n".encode())
    failpoints.hit("lacks-records.write.after")


def read_lack(disk: Disk, folder: str) -> Lack:
    """Return the result of an earlier start. Raises OSError."""
    path = join(folder, LACKS_RECORDS)
    if not disk.exists(path):
        return Lack.NOTHING
    return Lack.SEGMENTS if disk.read(path).strip() == Lack.SEGMENTS.value.encode() else Lack.END


def remove_lack(disk: Disk, folder: str) -> None:
    """Remove the mark. Raises OSError."""
    disk.remove(join(folder, LACKS_RECORDS))
