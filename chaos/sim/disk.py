"""SimDisk: runtime's Disk in memory, that forgets in a crash what was not synced.

What survives `crash()`: of each file the bytes as of its last `sync`, and of the writes since then, by chance, none,
the first few (the last of them torn at a sector), or any of them; of each folder the names as of its last `sync_dir`,
and by chance the first few of the changes since. That is what runtime.disk promises, and no more.

It can also fail: `fail(operation, errno)` for the next call, `capacity` for ENOSPC, and `power(steps)`: so many more
mutating operations happen, then PowerLost is raised, which stops whoever was writing in the middle of a persistence
step.
"""

import contextlib
import errno
import os
import random
from collections.abc import Iterator
from typing import Final

from typing_extensions import Buffer

SECTOR: Final = 512


class PowerLost(BaseException):
    """The machine stopped in the middle of an operation; no handler of the dead process sees this."""


class Inode:
    """A file's content: what is seen, what is durable, and the writes between the two."""

    __slots__ = ("durable", "live", "pending")

    def __init__(self) -> None:
        """Start empty."""
        self.live = bytearray()
        self.durable = bytearray()
        self.pending: list[tuple[int, bytes | None]] = []
        """(position, data), or (size, None) for a truncation."""


def _put(target: bytearray, position: int, data: bytes) -> None:
    if len(target) < position:
        target.extend(bytes(position - len(target)))
    target[position : position + len(data)] = data


def _resize(target: bytearray, size: int) -> None:
    if size < len(target):
        del target[size:]
    else:
        target.extend(bytes(size - len(target)))


class SimFile:
    """An open file of one life of the disk."""

    __slots__ = ("_disk", "_inode", "_life", "path")

    def __init__(self, disk: "SimDisk", inode: Inode, path: str) -> None:
        """Open it."""
        self._disk = disk
        self._inode = inode
        self._life = disk.life
        self.path = path

    def _check(self) -> None:
        assert self._life == self._disk.life, "a file handle survived a crash"

    def pread(self, size: int, position: int) -> bytes:
        """See File."""
        self._check()
        self._disk.before("pread", self.path)
        return bytes(self._inode.live[position : position + size])

    def pwrite(self, data: Buffer, position: int) -> None:
        """See File."""
        self._check()
        self._disk.before("pwrite", self.path)
        copy = bytes(data)
        self._disk.charge(max(0, position + len(copy) - len(self._inode.live)))
        _put(self._inode.live, position, copy)
        self._inode.pending.append((position, copy))
        self._disk.bytes_written += len(copy)

    def sync(self) -> None:
        """See File."""
        self._check()
        self._disk.before("sync", self.path)
        self._disk.make_durable(self._inode)

    def truncate(self, size: int) -> None:
        """See File."""
        self._check()
        self._disk.before("truncate", self.path)
        _resize(self._inode.live, size)
        self._inode.pending.append((size, None))

    def size(self) -> int:
        """See File."""
        self._check()
        return len(self._inode.live)

    def fileno(self) -> int:
        """See File."""
        return -1

    def close(self) -> None:
        """See File."""


NameChange = list[tuple[str, Inode | None]]
"""Names set or (None) removed in one step."""


class SimDisk:
    """See the module. Folders are names too: one whose own name is not durable is gone with all that is in it."""

    def __init__(self, rng: random.Random) -> None:
        """Start empty."""
        self._rng = rng
        self._files: dict[str, Inode] = {}
        self._folders: set[str] = {"", "/", "."}
        self._durable_files: dict[str, Inode] = {}
        self._durable_folders: set[str] = set(self._folders)
        self._changes: dict[str, list[NameChange]] = {}
        self._new_folders: set[str] = set()
        self._locks: set[str] = set()
        self._failures: dict[str, int] = {}
        self._steps_left: int | None = None
        self.life = 0
        self.capacity: int | None = None
        self.counts: dict[str, int] = {}
        self.bytes_written = 0
        self.modified: dict[str, int] = {}

    # Faults.

    def fail(self, operation: str, number: int = errno.EIO) -> None:
        """Make the next call of pread, pwrite, sync, truncate, rename, remove, sync_dir or open raise OSError."""
        self._failures[operation] = number

    def repair(self) -> None:
        """Take back failures that were asked for and have not happened."""
        self._failures.clear()

    def power(self, steps: int | None) -> None:
        """Let so many more mutating operations happen; None for no limit."""
        self._steps_left = steps

    def before(self, operation: str, path: str) -> None:
        """Count an operation; raise what is due."""
        self.counts[operation] = self.counts.get(operation, 0) + 1
        if operation != "pread" and self._steps_left is not None:
            if self._steps_left == 0:
                raise PowerLost
            self._steps_left -= 1
        if operation in self._failures:
            number = self._failures.pop(operation)
            raise OSError(number, os.strerror(number), path)

    def charge(self, size: int) -> None:
        """Account for growth. Raises OSError ENOSPC."""
        if self.capacity is not None and size:
            used = sum(len(inode.live) for inode in self._files.values())
            if used + size > self.capacity:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def make_durable(self, inode: Inode) -> None:
        """Apply the pending writes to the durable content."""
        for position, data in inode.pending:
            if data is None:
                _resize(inode.durable, position)
            else:
                _put(inode.durable, position, data)
        inode.pending.clear()

    def crash(self) -> None:
        """Lose power: see the module for what is left. Open files are dead, locks are free."""
        self.life += 1
        self._locks.clear()
        self._steps_left = None
        self._failures.clear()
        for folder in sorted(self._changes):
            changes = self._changes[folder]
            for change in changes[: self._rng.randint(0, len(changes))]:
                self._apply(self._durable_files, change)
        self._changes.clear()
        for folder in sorted(self._new_folders):
            if self._rng.random() < 0.5 and folder.rpartition("/")[0] in self._durable_folders:
                self._durable_folders.add(folder)
        self._new_folders.clear()
        self._folders = {f for f in self._durable_folders if self._reachable(f)}
        self._durable_folders = set(self._folders)
        self._files = {p: i for p, i in self._durable_files.items() if p.rpartition("/")[0] in self._folders}
        self._durable_files = dict(self._files)
        for inode in self._files.values():
            self._lose(inode)

    def _reachable(self, folder: str) -> bool:
        while folder not in ("", "/", "."):
            if folder not in self._durable_folders:
                return False
            folder = folder.rpartition("/")[0]
        return True

    def _lose(self, inode: Inode) -> None:
        pending, rng = inode.pending, self._rng
        kept: list[tuple[int, bytes | None]] = []
        fate = rng.random() if pending else 0.0
        if fate > 0.6:
            kept = pending[: rng.randint(0, len(pending))]
        elif fate > 0.4:
            kept = [write for write in pending if rng.random() < 0.5]
        if kept and rng.random() < 0.7:
            position, data = kept.pop()
            if data is not None:
                kept.extend(self._torn(position, data))
        inode.pending = kept
        self.make_durable(inode)
        inode.live = bytearray(inode.durable)

    def _torn(self, position: int, data: bytes) -> list[tuple[int, bytes | None]]:
        """Return the sectors of a write that made it: a prefix, or any."""
        pieces: list[tuple[int, bytes | None]] = []
        start = 0
        while start < len(data):
            end = min(len(data), start + SECTOR - (position + start) % SECTOR)
            pieces.append((position + start, data[start:end]))
            start = end
        if self._rng.random() < 0.5:
            return pieces[: self._rng.randint(0, len(pieces))]
        return [piece for piece in pieces if self._rng.random() < 0.5]

    def flip_bit(self, path: str, position: int, bit: int = 0) -> None:
        """Damage a byte, durably."""
        inode = self._files[path]
        self.make_durable(inode)
        inode.live[position] ^= 1 << bit
        inode.durable = bytearray(inode.live)

    # Names.

    @staticmethod
    def _apply(files: dict[str, Inode], change: NameChange) -> None:
        for path, inode in change:
            if inode is None:
                files.pop(path, None)
            else:
                files[path] = inode

    def _change(self, change: NameChange) -> None:
        self._apply(self._files, change)
        self._changes.setdefault(change[-1][0].rpartition("/")[0], []).append(change)

    def open(self, path: str, *, create: bool = False) -> SimFile:
        """See Disk."""
        inode = self._files.get(path)
        if inode is None:
            if not create or path.rpartition("/")[0] not in self._folders:
                raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
            self.before("open", path)
            inode = Inode()
            self._change([(path, inode)])
        return SimFile(self, inode, path)

    def read(self, path: str) -> bytes:
        """See Disk."""
        return self.open(path).pread(1 << 62, 0)

    def write_atomic(self, path: str, data: Buffer) -> None:
        """See Disk."""
        temporary = path + ".tmp"
        file = self.open(temporary, create=True)
        file.truncate(0)
        file.pwrite(data, 0)
        file.sync()
        self.rename(temporary, path)
        self.sync_dir(path.rpartition("/")[0])

    def exists(self, path: str) -> bool:
        """See Disk."""
        return path in self._files or path in self._folders

    def is_dir(self, path: str) -> bool:
        """See Disk."""
        return path in self._folders

    def size(self, path: str) -> int:
        """See Disk."""
        return self.open(path).size()

    def modified_ms(self, path: str) -> int:
        """See Disk. What `modified` says; 0 otherwise."""
        self.open(path)
        return self.modified.get(path, 0)

    def listdir(self, path: str) -> list[str]:
        """See Disk."""
        if path not in self._folders:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
        prefix = path + "/"
        names = {name[len(prefix) :].partition("/")[0] for name in self._files if name.startswith(prefix)}
        names |= {name[len(prefix) :].partition("/")[0] for name in self._folders if name.startswith(prefix)}
        return sorted(names - {""})

    def mkdir(self, path: str) -> None:
        """See Disk."""
        while path not in self._folders:
            self.before("mkdir", path)
            self._folders.add(path)
            self._new_folders.add(path)
            path = path.rpartition("/")[0]

    def rename(self, source: str, target: str) -> None:
        """See Disk. Of folders only the files move; none of ours renames a folder with folders in it."""
        self.before("rename", source)
        if source in self._files:
            self._change([(source, None), (target, self._files[source])])
            return
        if source not in self._folders:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), source)
        self._folders.add(target)
        self._new_folders.add(target)
        for path in [path for path in self._files if path.startswith(source + "/")]:
            self._change([(path, None), (target + path[len(source) :], self._files[path])])
        self._folders.discard(source)

    def remove(self, path: str) -> None:
        """See Disk."""
        if path in self._files:
            self.before("remove", path)
            self._change([(path, None)])

    def remove_tree(self, path: str) -> None:
        """See Disk. Durable at once: tests remove trees between lives."""
        for name in [name for name in self._files if name.startswith(path + "/")]:
            del self._files[name]
            self._durable_files.pop(name, None)
        for folder in [f for f in self._folders if f == path or f.startswith(path + "/")]:
            self._folders.discard(folder)
            self._durable_folders.discard(folder)
            self._new_folders.discard(folder)
            self._changes.pop(folder, None)

    def sync_dir(self, path: str) -> None:
        """See Disk."""
        self.before("sync_dir", path)
        if path not in self._folders:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
        for change in self._changes.pop(path, []):
            self._apply(self._durable_files, change)
        for folder in [f for f in self._new_folders if f.rpartition("/")[0] == path]:
            self._new_folders.discard(folder)
            self._durable_folders.add(folder)

    @contextlib.contextmanager
    def lock(self, path: str) -> Iterator[bool]:
        """See Disk."""
        if path in self._locks:
            yield False
            return
        self._locks.add(path)
        life = self.life
        try:
            yield True
        finally:
            if life == self.life:
                self._locks.discard(path)

    def free_bytes(self, path: str) -> int:
        """See Disk."""
        used = sum(len(inode.live) for inode in self._files.values())
        return (self.capacity if self.capacity is not None else 1 << 40) - used
