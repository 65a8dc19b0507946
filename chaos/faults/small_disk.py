"""A log directory on a disk of a few MiB that can be filled and made read-only; only one node sees it.

It is a tmpfs in a mount namespace of the run. The directory's content is copied onto it; the node's writes are
lost with the namespace. From outside its files are under `/proc/PID/root`.
"""

import errno
import os
from dataclasses import dataclass
from typing import Final

from kvorum.chaos.faults.namespace_holder import NamespaceHolder

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
    """One directory of one node, on its own disk."""

    directory: str
    bytes: int
    holder: NamespaceHolder

    @classmethod
    def mount(cls, directory: str, size: int) -> "SmallDisk":
        """Mount a disk of `size` bytes over a directory, for processes in the namespace. Raises NotPermitted."""
        return cls(directory, size, NamespaceHolder.start("mount", SETUP, [directory, str(size)]))

    def outside(self, path: str) -> str:
        """Return the path by which this process reaches a node's path."""
        return f"/proc/{self.holder.pid}/root{path}"

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
        """Remove the filling. Idempotent."""
        path = os.path.join(self.outside(self.directory), FILLER)
        if os.path.exists(path):
            os.remove(path)

    def make_read_only(self) -> None:
        """Make it read-only for opens. Raises NotPermitted."""
        self.holder.run("sh", "-c", READ_ONLY, "sh", self.directory)

    def make_writable(self) -> None:
        """End the read-only mode, at once for new opens although files are open. Raises NotPermitted."""
        self.holder.run("umount", "--lazy", self.directory)

    def close(self) -> None:
        """Release it; the node's processes keep it until they end."""
        self.holder.close()
