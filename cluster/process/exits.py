"""Exit codes of the processes: whether a restart can help."""

import errno
import mmap
import os
from collections.abc import Iterator
from enum import IntEnum

from kvorum.runtime.disk import FULL_ERRNOS, is_process_error


class Exit(IntEnum):
    """Codes above 63 as sysexits.h names them."""

    DONE = 0
    CRASHED = 1
    USAGE = 64
    DATA_REFUSED = 65
    """Data that must not be started on: another cluster's id, a damaged journal, a disk that failed or is full."""
    BUSY = 69
    """Another process has the directory or the port."""
    FATAL = 70
    """A broken invariant: an unknown metadata record, two different batches at one offset."""
    CONFIG = 78


def restart_helps(code: int) -> bool:
    """Return whether a supervisor should restart a child that ended with this code (negative: by that signal)."""
    return code not in (Exit.DONE, Exit.USAGE, Exit.DATA_REFUSED, Exit.BUSY, Exit.FATAL, Exit.CONFIG)


class DiskFullFlag:
    """One bit from a role's process to its supervisor: it ended because a disk was full.

    Shared memory, because a full disk accepts no file, and Exit.DATA_REFUSED has other reasons too.
    """

    own: "DiskFullFlag | None" = None
    """The bit of this process: set before the fork."""

    def __init__(self) -> None:
        """Start with the bit cleared."""
        self._memory = mmap.mmap(-1, 1)

    @property
    def is_left(self) -> bool:
        """Whether the process left it."""
        return self._memory[0] == 1

    def leave(self, is_full: bool) -> None:
        """Set or clear it."""
        self._memory[0] = int(is_full)


def leave_full_note(error: BaseException) -> None:
    """Record for the supervisor whether this process ends because of a full disk."""
    if DiskFullFlag.own is not None:
        DiskFullFlag.own.leave(any(failure.errno in FULL_ERRNOS for failure in _disk_errors(error)))


def folder_problem(error: OSError, folder: str) -> str:
    """Return in one line why a process cannot start with its folder, and what to do."""
    path, reason = error.filename or folder, error.strerror or str(error)
    if error.errno in FULL_ERRNOS:
        return f"the disk of {path} is full ({reason}): free space there"
    if error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
        return (
            f"{path} cannot be written by user id {os.geteuid()} ({reason}): choose another folder or change this one"
        )
    if error.errno in (errno.ENOTDIR, errno.EEXIST, errno.ENOENT):
        return f"{path} cannot be created ({reason}): choose another"
    return f"{path}: {reason}"


def fault_exit(error: BaseException, folder: str) -> tuple[Exit, str]:
    """Return the exit code and the message for a process that ends with this error.

    `folder` is its data directory. An error of its disk is not a broken invariant; missing descriptors or memory are
    available again after a restart.
    """
    failure = next(_disk_errors(error), None)
    if failure is None:
        return Exit.FATAL, f"{type(error).__name__}: {error}"
    if is_process_error(failure):
        return Exit.CRASHED, f"{folder}: {failure.strerror}; raise the limits of this process if it happens again"
    if failure.errno in FULL_ERRNOS:
        return Exit.DATA_REFUSED, f"the disk of {folder} is full ({failure.strerror}): free space there"
    return Exit.DATA_REFUSED, f"the disk of {folder} failed: {failure}"


def _disk_errors(error: BaseException | None) -> Iterator[OSError]:
    """Iterate over an error and its causes from file operations; connections raise OSErrors as well."""
    while error is not None:
        if isinstance(error, OSError) and not isinstance(error, ConnectionError | TimeoutError):
            yield error
        error = error.__cause__
