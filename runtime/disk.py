"""All file I/O goes through a Disk: production uses the operating system, the simulator's loses unsynced data.

Guarantees of a Disk after a crash (exactly those of the simulator): bytes exist after `File.sync` returned; a created,
renamed or removed name has its new state after `sync_dir` on its folder returned. Later changes may exist, may be
missing, may be torn.
"""

import contextlib
import errno
import fcntl
import os
from collections.abc import Callable, Hashable, Iterator
from typing import Final, Protocol, TypeVar

from typing_extensions import Buffer

from kvorum.runtime import failpoints

T = TypeVar("T")

FULL_ERRNOS: Final = frozenset({errno.ENOSPC, errno.EDQUOT})
"""Errors of a full disk, which ends when space is freed."""
PROCESS_ERRNOS: Final = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.EAGAIN, errno.EINTR})
"""The process or the machine lacks descriptors or memory for a while: the disk has not failed.

Every other errno (EIO, ENOSPC, EROFS, EDQUOT, ENODEV, ...) is the disk's.
"""
RESERVED_DESCRIPTORS: Final = 32
"""Kept for the files of a data directory, which are opened, used and closed while connections take all others."""


def is_process_error(error: BaseException | None) -> bool:
    """Return whether an operation failed because of missing descriptors or memory, so that it may be retried."""
    return isinstance(error, OSError) and error.errno in PROCESS_ERRNOS


class DescriptorReserve:
    """Descriptors held open on /dev/null. One is given up where an `open` finds none left. Thread-safe."""

    __slots__ = ("_held", "size")

    def __init__(self) -> None:
        """Hold none: only a process that serves connections fills it."""
        self._held: list[int] = []
        self.size = 0

    def fill(self, size: int | None = None) -> None:
        """Hold `size` descriptors (by default as many as before), or as many as there are."""
        self.size = self.size if size is None else size
        while len(self._held) < self.size:
            try:
                self._held.append(os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC))
            except OSError:
                return  # none is left: the next close retries

    @contextlib.contextmanager
    def opened(self, path: str, flags: int) -> Iterator[int]:
        """Open a file for a while. Raises OSError."""
        fd = self.open(path, flags)
        try:
            yield fd
        finally:
            self.close(fd)

    def close(self, fd: int) -> None:
        """Close a descriptor, which the reserve takes if it is short of one."""
        os.close(fd)
        self.fill()

    def open(self, path: str, flags: int) -> int:
        """Open a file, with a reserved descriptor if there is no other. Raises OSError."""
        return self.used_by(lambda: os.open(path, flags | os.O_CLOEXEC, 0o644))

    def used_by(self, call: Callable[[], T]) -> T:
        """Return the result of a call; if no descriptor is free, release a reserved one, and call again."""
        while True:
            try:
                return call()
            except OSError as error:
                if error.errno not in (errno.EMFILE, errno.ENFILE) or not self._held:
                    raise
                with contextlib.suppress(IndexError):  # another thread may have taken the last one
                    os.close(self._held.pop())


reserve: Final = DescriptorReserve()
"""The instance of this process."""


class File(Protocol):
    """An open file, addressed by position only: no cursor is shared."""

    path: str

    def pread(self, size: int, position: int) -> bytes:
        """Return up to `size` bytes from `position`; fewer only at the end of the file."""
        ...

    def pwrite(self, data: Buffer, position: int) -> None:
        """Write all of `data` at `position`. Raises OSError; how much was written is then unknown."""
        ...

    def sync(self) -> None:
        """fdatasync. Raises OSError: the file must then be given up, never synced again."""
        ...

    def truncate(self, size: int) -> None:
        """Cut (or extend with zeros) to `size`; durable after the next sync."""
        ...

    def size(self) -> int:
        """Return the current length in bytes."""
        ...

    def fileno(self) -> int:
        """Return the descriptor, for sendfile; -1 without one (simulator)."""
        ...

    def close(self) -> None:
        """Release the descriptor. Idempotent."""
        ...


class Disk(Protocol):
    """A file system, seen by one node. Paths are plain strings."""

    @property
    def is_shared(self) -> bool:
        """Whether other processes of this machine see the same files under the same paths."""
        ...

    def open(self, path: str, *, create: bool = False) -> File:
        """Open for reading and writing. Raises FileNotFoundError unless `create`."""
        ...

    def read(self, path: str) -> bytes:
        """Return the whole file. Raises FileNotFoundError."""
        ...

    def write_atomic(self, path: str, data: Buffer, *, private: bool = False) -> None:
        """Replace the file as one step that survives a crash: temporary name, sync, rename, sync of the folder.

        `private`: only its owner can read it.
        """
        ...

    def exists(self, path: str) -> bool:
        """Return whether a file or folder of that name exists."""
        ...

    def is_dir(self, path: str) -> bool:
        """Return whether the name is a folder."""
        ...

    def identity(self, path: str) -> Hashable:
        """Return a value that is equal for all paths of a file or folder (links, mounts). Raises FileNotFoundError."""
        ...

    def size(self, path: str) -> int:
        """Return a file's length in bytes."""
        ...

    def modified_ms(self, path: str) -> int:
        """Return the time of the last change, wall milliseconds."""
        ...

    def listdir(self, path: str) -> list[str]:
        """Return the names in a folder, sorted. Raises FileNotFoundError."""
        ...

    def mkdir(self, path: str) -> None:
        """Create the folder and its parents; an existing one is fine."""
        ...

    def rename(self, source: str, target: str) -> None:
        """Rename a file or folder, replacing a file of the target's name. Durable after sync_dir."""
        ...

    def remove(self, path: str) -> None:
        """Remove a file; a missing one is fine. Durable after sync_dir."""
        ...

    def remove_tree(self, path: str) -> None:
        """Remove a folder with its content (a link, never its target); a missing one is ignored."""
        ...

    def sync_dir(self, path: str) -> None:
        """Make created, renamed and removed names in this folder durable."""
        ...

    def lock(self, path: str) -> contextlib.AbstractContextManager[bool]:
        """Hold the lock of a `.lock` file until the context (or the process) ends; yields False if another has it."""
        ...

    def free_bytes(self, path: str) -> int:
        """Return the bytes free on the folder's file system."""
        ...

    def total_bytes(self, path: str) -> int:
        """Return the size in bytes of the folder's file system, taken and free."""
        ...


class OsFile:
    """A descriptor of the operating system."""

    __slots__ = ("_fd", "path")

    def __init__(self, fd: int, path: str) -> None:
        """Take ownership of an open descriptor."""
        self._fd = fd
        self.path = path

    def pread(self, size: int, position: int) -> bytes:
        """Read at a position; repeat short reads before the end of the file."""
        data = os.pread(self._fd, size, position)
        while len(data) < size:
            more = os.pread(self._fd, size - len(data), position + len(data))
            if not more:
                break
            data += more
        return data

    def pwrite(self, data: Buffer, position: int) -> None:
        """See File."""
        written = os.pwrite(self._fd, data, position)
        size = memoryview(data).nbytes
        while written < size:
            written += os.pwrite(self._fd, memoryview(data).cast("B")[written:], position + written)

    def sync(self) -> None:
        """See File."""
        _sync(os.fdatasync, self._fd)

    def truncate(self, size: int) -> None:
        """See File."""
        os.ftruncate(self._fd, size)

    def size(self) -> int:
        """See File."""
        return os.fstat(self._fd).st_size

    def fileno(self) -> int:
        """See File."""
        return self._fd

    def close(self) -> None:
        """See File."""
        if self._fd >= 0:
            reserve.close(self._fd)
            self._fd = -1


class OsDisk:
    """The operating system's files."""

    is_shared: Final = True

    def open(self, path: str, *, create: bool = False) -> File:
        """See Disk."""
        return OsFile(reserve.open(path, os.O_RDWR | (os.O_CREAT if create else 0)), path)

    def read(self, path: str) -> bytes:
        """See Disk."""
        with reserve.opened(path, os.O_RDONLY) as fd, os.fdopen(fd, "rb", closefd=False) as file:
            return file.read()

    def write_atomic(self, path: str, data: Buffer, *, private: bool = False) -> None:
        """See Disk."""
        temporary = path + ".tmp"
        with reserve.opened(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC) as fd:
            if private:
                os.fchmod(fd, 0o600)
            view = memoryview(data).cast("B")
            while view:
                view = view[os.write(fd, view) :]
            failpoints.hit("file.replace.written")
            _sync(os.fsync, fd)
        failpoints.hit("file.replace.synced")
        os.replace(temporary, path)
        failpoints.hit("file.replace.renamed")
        self.sync_dir(os.path.dirname(path) or ".")

    def exists(self, path: str) -> bool:
        """See Disk."""
        return os.path.exists(path)

    def is_dir(self, path: str) -> bool:
        """See Disk."""
        return os.path.isdir(path)

    def identity(self, path: str) -> Hashable:
        """See Disk."""
        found = os.stat(path)
        return found.st_dev, found.st_ino

    def size(self, path: str) -> int:
        """See Disk."""
        return os.stat(path).st_size

    def modified_ms(self, path: str) -> int:
        """See Disk."""
        return os.stat(path).st_mtime_ns // 1_000_000

    def listdir(self, path: str) -> list[str]:
        """See Disk."""
        names = sorted(reserve.used_by(lambda: os.listdir(path)))
        reserve.fill()
        return names

    def mkdir(self, path: str) -> None:
        """See Disk."""
        os.makedirs(path, exist_ok=True)

    def rename(self, source: str, target: str) -> None:
        """See Disk."""
        os.replace(source, target)

    def remove(self, path: str) -> None:
        """See Disk."""
        with contextlib.suppress(FileNotFoundError):
            os.unlink(path)

    def remove_tree(self, path: str) -> None:
        """See Disk. A link is removed, never its target."""
        if os.path.islink(path):
            self.remove(path)
            return
        for folder, names, files in os.walk(path, topdown=False, onerror=_raise_unless_missing):
            for name in files:
                self.remove(os.path.join(folder, name))
            for name in names:
                entry = os.path.join(folder, name)
                if os.path.islink(entry):
                    self.remove(entry)
                else:
                    os.rmdir(entry)
        with contextlib.suppress(FileNotFoundError):
            os.rmdir(path)

    def sync_dir(self, path: str) -> None:
        """See Disk."""
        with reserve.opened(path, os.O_RDONLY | os.O_DIRECTORY) as fd:
            _sync(os.fsync, fd)

    @contextlib.contextmanager
    def lock(self, path: str) -> Iterator[bool]:
        """See Disk. flock: the kernel drops it with the process, however that ends."""
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            try:
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                yield False
            else:
                yield True
        finally:
            os.close(fd)

    def free_bytes(self, path: str) -> int:
        """See Disk."""
        stat = os.statvfs(path)
        return stat.f_bavail * stat.f_frsize

    def total_bytes(self, path: str) -> int:
        """See Disk."""
        stat = os.statvfs(path)
        return stat.f_blocks * stat.f_frsize


def _sync(sync: Callable[[int], None], fd: int) -> None:
    """Sync a file. A sync that failed is never tried again, so that its errors are the disk's, whatever they are."""
    try:
        sync(fd)
    except OSError as error:
        if not is_process_error(error):
            raise
        raise OSError(errno.EIO, f"sync failed: {error.strerror}") from error


def _raise_unless_missing(error: OSError) -> None:
    """Raise the error of a walk over a folder, which would otherwise treat it as empty."""
    if not isinstance(error, FileNotFoundError):
        raise error
