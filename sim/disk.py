"""SimDisk: runtime's Disk in memory, which loses unsynced data in a crash.

After `crash()` each file has the bytes of its last `sync`, and of later writes, at random, none, the first few
(the last of them torn at a sector), or any of them; each folder has the names of its last `sync_dir`, and at random the
first few of the changes since. This is exactly the contract of runtime.disk.

`kill()` ends the writing process, and loses nothing. The disk can also fail: `fail(operation, errno)` for the next
call, `capacity` for ENOSPC, `broken` for everything below a folder, and `power(steps)`: after that number of mutating
operations PowerLoss is raised, which stops the writer in the middle of a persistence step.
"""

import contextlib
import errno
import os
import random
from collections.abc import Callable, Iterator
from typing import Final, NamedTuple

from typing_extensions import Buffer

from sim.inode import Inode, put, resize


class PowerLoss(BaseException):
    """The machine stopped in the middle of an operation; no handler of the dead process sees this."""


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
        with memoryview(self._inode.live) as content:
            return bytes(content[position : position + size])

    def pwrite(self, data: Buffer, position: int) -> None:
        """See File."""
        self._check()
        self._disk.before("pwrite", self.path)
        copy = bytes(data)
        self._disk.charge(max(0, position + len(copy) - len(self._inode.live)))
        put(self._inode.live, position, copy)
        self._inode.pending.append((position, copy))
        self._disk.bytes_written += len(copy)

    def sync(self) -> None:
        """See File."""
        self._check()
        self._disk.before("sync", self.path)
        self._inode.make_durable()

    def truncate(self, size: int) -> None:
        """See File."""
        self._check()
        self._disk.before("truncate", self.path)
        resize(self._inode.live, size)
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


class FolderMove(NamedTuple):
    """A folder gets another name, with all that is in it."""

    source: str
    target: str

    def new_path(self, path: str) -> str:
        """Return a path's new name, if it is in the folder."""
        return self.target + path[len(self.source) :] if path.startswith(self.source + "/") else path


NameChange = list[tuple[str, Inode | None]] | FolderMove
"""Names set or (None) removed in one step, or a folder renamed."""


class SimDisk:
    """See the module. Folders are names: a folder whose own name is not durable is lost with its content.

    Tests use it from several threads: names are copied before they are looked at.
    """

    is_shared: Final = False

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
        self.alarm: tuple[int, Callable[[], None]] | None = None
        """(operations, action): called once, right before the operation after this number, reads included."""
        self.broken: set[str] = set()
        """Folders below which every operation fails with EIO, in all lives, until they are taken out of here."""
        self.life = 0
        self.capacity: int | None = None
        self.counts: dict[str, int] = {}
        self.bytes_written = 0
        self.modification_times: dict[str, int] = {}

    # Faults.

    def fail(self, operation: str, number: int = errno.EIO) -> None:
        """Make the next call of pread, pwrite, sync, truncate, rename, remove, sync_dir or open raise OSError."""
        self._failures[operation] = number

    def repair(self) -> None:
        """Withdraw requested failures that have not happened."""
        self._failures.clear()

    def power(self, steps: int | None) -> None:
        """Permit this number of further mutating operations; None for no limit."""
        self._steps_left = steps

    def before(self, operation: str, path: str) -> None:
        """Count an operation; raise an injected error."""
        if self.alarm is not None:
            left, action = self.alarm
            self.alarm = (left - 1, action) if left else None
            if not left:
                action()
        self.counts[operation] = self.counts.get(operation, 0) + 1
        self._reach(path)
        if operation != "pread" and self._steps_left is not None:
            if self._steps_left == 0:
                raise PowerLoss
            self._steps_left -= 1
        if operation in self._failures:
            number = self._failures.pop(operation)
            raise OSError(number, os.strerror(number), path)

    def _reach(self, path: str) -> None:
        if any(path == folder or path.startswith(f"{folder}/") for folder in self.broken):
            raise OSError(errno.EIO, os.strerror(errno.EIO), path)

    def charge(self, size: int) -> None:
        """Account for growth. Raises OSError ENOSPC."""
        if self.capacity is not None and size:
            used = sum(len(inode.live) for inode in list(self._files.values()))
            if used + size > self.capacity:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def crash(self) -> None:
        """Lose power: see the module for the remaining data. Open files are invalid, locks are free."""
        self.life += 1
        self._locks.clear()
        self._steps_left = None
        self._failures.clear()
        for folder in sorted(self._changes):
            changes = self._changes[folder]
            for change in changes[: self._rng.randint(0, len(changes))]:
                self._apply_durably(change)
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
            inode.lose(self._rng)

    def kill(self) -> None:
        """End the process that used it: its open files are invalid and its locks free; all writes remain."""
        self.life += 1
        self._locks.clear()

    def _reachable(self, folder: str) -> bool:
        while folder not in ("", "/", "."):
            if folder not in self._durable_folders:
                return False
            folder = folder.rpartition("/")[0]
        return True

    def peek(self, path: str, position: int = 0) -> bytes | None:
        """Return a file's bytes from a position on, for observers; None without the file."""
        inode = self._files.get(path)
        return None if inode is None else bytes(memoryview(inode.live)[position:])

    def wipe(self) -> None:
        """Replace it by an empty disk."""
        self.broken.clear()
        self.crash()
        for folder in sorted(self._folders - {"", "/", "."}):
            self.remove_tree(folder)

    def flip_bit(self, path: str, position: int, bit: int = 0) -> None:
        """Damage a byte, durably."""
        inode = self._files[path]
        inode.make_durable()
        inode.live[position] ^= 1 << bit
        inode.durable = bytearray(inode.live)

    # Names.

    @staticmethod
    def _apply(files: dict[str, Inode], change: NameChange) -> None:
        if isinstance(change, FolderMove):
            for path in [path for path in files if path.startswith(change.source + "/")]:
                files[change.new_path(path)] = files.pop(path)
            return
        for path, inode in change:
            if inode is None:
                files.pop(path, None)
            else:
                files[path] = inode

    def _apply_durably(self, change: NameChange) -> None:
        self._apply(self._durable_files, change)
        if isinstance(change, FolderMove) and change.source in self._durable_folders:
            self._durable_folders.discard(change.source)
            self._durable_folders.add(change.target)

    def _change(self, change: NameChange) -> None:
        self._apply(self._files, change)
        name = change.target if isinstance(change, FolderMove) else change[-1][0]
        self._changes.setdefault(name.rpartition("/")[0], []).append(change)

    def open(self, path: str, *, create: bool = False) -> SimFile:
        """See Disk."""
        self._reach(path)
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

    def write_atomic(self, path: str, data: Buffer, *, private: bool = False) -> None:
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

    def identity(self, path: str) -> str:
        """See Disk. There are no links."""
        return path

    def size(self, path: str) -> int:
        """See Disk."""
        return self.open(path).size()

    def modified_ms(self, path: str) -> int:
        """See Disk. The value of `modified`; 0 otherwise."""
        self.open(path)
        return self.modification_times.get(path, 0)

    def listdir(self, path: str) -> list[str]:
        """See Disk."""
        self._reach(path)
        return self.names_in(path)

    def names_in(self, path: str) -> list[str]:
        """Return the names in a folder, broken or not, for outside observers. Raises FileNotFoundError."""
        if path not in self._folders:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
        prefix = path + "/"
        names = {name[len(prefix) :].partition("/")[0] for name in list(self._files) if name.startswith(prefix)}
        names |= {name[len(prefix) :].partition("/")[0] for name in list(self._folders) if name.startswith(prefix)}
        return sorted(names - {""})

    def mkdir(self, path: str) -> None:
        """See Disk."""
        self._reach(path)
        while path not in self._folders:
            self.before("mkdir", path)
            pending = self._changes.get(path.rpartition("/")[0], [])
            if any(isinstance(change, FolderMove) and change.source == path for change in pending):
                # The old folder of this name and the new one never mix: the journal keeps their order.
                self.sync_dir(path.rpartition("/")[0])
            self._folders.add(path)
            self._new_folders.add(path)
            path = path.rpartition("/")[0]

    def rename(self, source: str, target: str) -> None:
        """See Disk. The code never renames a folder that contains folders, or into another folder."""
        self.before("rename", source)
        if source in self._files:
            self._change([(source, None), (target, self._files[source])])
            return
        if source not in self._folders:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), source)
        move = FolderMove(source, target)
        self._change(move)
        inside = self._changes.pop(source, [])
        if inside:
            self._changes[target] = [
                [(move.new_path(path), inode) for path, inode in change]
                for change in inside
                if not isinstance(change, FolderMove)
            ]
        self._folders.add(target)
        self._folders.discard(source)
        if source in self._new_folders:
            self._new_folders.discard(source)
            self._new_folders.add(target)

    def remove(self, path: str) -> None:
        """See Disk."""
        if path in self._files:
            self.before("remove", path)
            self._change([(path, None)])

    def remove_tree(self, path: str) -> None:
        """See Disk. Durable at once: tests remove trees between lives."""
        self._reach(path)
        for name in [name for name in list(self._files) if name.startswith(path + "/")]:
            del self._files[name]
            self._durable_files.pop(name, None)
        for folder in [f for f in list(self._folders) if f == path or f.startswith(path + "/")]:
            self._folders.discard(folder)
            self._durable_folders.discard(folder)
            self._new_folders.discard(folder)
            self._changes.pop(folder, None)

    def sync_dir(self, path: str) -> None:
        """See Disk."""
        path = path.rstrip("/")
        self.before("sync_dir", path)
        if path not in self._folders:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
        for change in self._changes.pop(path, []):
            self._apply_durably(change)
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
        used = sum(len(inode.live) for inode in list(self._files.values()))
        return self.total_bytes(path) - used

    def total_bytes(self, path: str) -> int:
        """See Disk."""
        return self.capacity if self.capacity is not None else 1 << 40
