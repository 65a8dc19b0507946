"""Damage that a log's opening found, and the mark of a log that lacks records which had been synced.

`lacks-records`, a small file of ours in the log's folder, is durable before anything is cut, and goes when the replica
is in use again: by then the controller does not count on what the log had (broker/replica/missing_logs). So a broker
that is stopped in between does not forget.
"""

from enum import Enum
from typing import Final, NamedTuple

from kvorum.runtime import failpoints
from kvorum.runtime.disk import Disk
from kvorum.storage.names import join

LACKS_RECORDS: Final = "lacks-records"


class Lack(Enum):
    """Which synced records a log does not have any more."""

    NOTHING = "nothing"
    END = "end"
    """The newest: a leader has them still."""
    SEGMENTS = "segments"
    """Damage in front of other segments: followers do not fetch them again, so the log must restart."""
    ALL = "all"
    """The log's folder is gone."""


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
    """Return what an earlier start found. Raises OSError."""
    path = join(folder, LACKS_RECORDS)
    if not disk.exists(path):
        return Lack.NOTHING
    return Lack.SEGMENTS if disk.read(path).strip() == Lack.SEGMENTS.value.encode() else Lack.END


def remove_lack(disk: Disk, folder: str) -> None:
    """Take the mark off. Raises OSError."""
    disk.remove(join(folder, LACKS_RECORDS))
