"""A log directory on a disk of a few MiB that can be filled up and made read-only, seen by one node only.

It is a tmpfs in a mount namespace of the run's own. The directory's content is copied onto it; the node's writes are
gone with the namespace. From outside its files are under `/proc/PID/root`.
"""

import errno
import os
from dataclasses import dataclass
from typing import Final

from kvorum.chaos.faults.keeper import Keeper

FILLER: Final = "filler"
CHUNK_BYTES: Final = 64 * 1024

SETUP: Final = """
mkdir -p "$1" "$1.small"
mount -t tmpfs -o "size=$2" kvorum-small "$1.small"
cp -a "$1/." "$1.small/"
mount --move "$1.small" "$1"
rmdir "$1.small"
"""
READ_ONLY: Final = """
set -e
mkdir -p "$1.ro"
mount --bind "$1" "$1.ro"
mount -o remount,bind,ro "$1.ro"
mount --move "$1.ro" "$1"
rmdir "$1.ro"
"""
"""A read-only view laid over it: a remount is refused while files are open for writing, and those stay writable."""


@dataclass(slots=True)
class SmallDisk:
    """One directory of one node, on a disk of its own."""

    directory: str
    bytes: int
    keeper: Keeper

    @classmethod
    def mount(cls, directory: str, size: int) -> "SmallDisk":
        """Put a directory onto a disk of `size` bytes, for those in the namespace. Raises keeper.NotPermitted."""
        return cls(directory, size, Keeper.start("mount", SETUP, [directory, str(size)]))

    def outside(self, path: str) -> str:
        """Return the path by which this process reaches a node's path."""
        return f"/proc/{self.keeper.pid}/root{path}"

    def free_bytes(self) -> int:
        """Return what can still be written."""
        found = os.statvfs(self.outside(self.directory))
        return found.f_bavail * found.f_frsize

    def fill(self) -> None:
        """Leave no room."""
        fd = os.open(os.path.join(self.outside(self.directory), FILLER), os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        try:
            size = CHUNK_BYTES
            while size:
                try:
                    os.write(fd, bytes(size))
                except OSError as error:
                    if error.errno != errno.ENOSPC:
                        raise
                    size //= 2
        finally:
            os.close(fd)

    def empty(self) -> None:
        """Give the room back. Idempotent."""
        path = os.path.join(self.outside(self.directory), FILLER)
        if os.path.exists(path):
            os.remove(path)

    def make_read_only(self) -> None:
        """Let nothing new be opened for writing. Raises keeper.NotPermitted."""
        self.keeper.run("sh", "-c", READ_ONLY, "sh", self.directory)

    def make_writable(self) -> None:
        """Take the read-only view away, at once for new opens though files are open in it. Raises NotPermitted."""
        self.keeper.run("umount", "--lazy", self.directory)

    def close(self) -> None:
        """Give it up; the node's processes keep it until they end."""
        self.keeper.close()
