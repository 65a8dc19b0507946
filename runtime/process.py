"""Processes: pid files, death with the parent, limits, signals.

Linux.

A pid alone does not identify a process: the kernel reuses it later. A pid file holds only the pid, so that `kill $(cat
node.pid)` works; `node.pid.start` beside it holds `PID STARTTIME` (clock ticks since boot, field 22 of /proc/PID/stat),
which identifies the process.
"""

import contextlib
import ctypes
import os
import resource
import signal
import time
from dataclasses import dataclass

from kvorum.runtime.disk import OsDisk

PR_SET_PDEATHSIG = 1
PR_SET_NAME = 15
STATE_FIELD = 0  # of /proc/PID/stat, counted after the name in parentheses
THREADS_FIELD = 17
STARTTIME_FIELD = 19
START_ENDING = ".start"
PID_FILE_BYTES_MAX = 64


@dataclass(frozen=True, slots=True)
class ProcessId:
    """One process, distinct from a later one with the same pid."""

    pid: int
    start_time: int
    """Clock ticks since boot."""


def stat_fields(pid: int) -> list[str] | None:
    """Return the fields of /proc/PID/stat after the command's name; None without such a process."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            # The name may hold blanks and parentheses: the last ")" ends it.
            return file.read().rpartition(b")")[2].decode().split()
    except (FileNotFoundError, ProcessLookupError):
        return None


def identify(pid: int) -> ProcessId | None:
    """Return the process that has this pid now; None if none has, or it is dead and only not yet waited for."""
    fields = stat_fields(pid)
    if fields is None or is_dead(fields):
        return None
    return ProcessId(pid, int(fields[STARTTIME_FIELD]))


def is_dead(fields: list[str]) -> bool:
    """Return whether only the exit status of a process is left, from its stat_fields.

    The state is the first thread's. A killed process whose first thread has ended still holds its sockets, files and
    locks until its last thread has ended, which takes a while on a busy machine.
    """
    state, threads = fields[STATE_FIELD], int(fields[THREADS_FIELD])
    return state == "X" or (state == "Z" and threads <= 1)


def is_alive(process: ProcessId) -> bool:
    """Return whether this process still runs (also if it is stopped)."""
    return identify(process.pid) == process


def is_stopped(process: ProcessId) -> bool:
    """Return whether this process exists but is stopped (SIGSTOP)."""
    fields = stat_fields(process.pid)
    return is_alive(process) and fields is not None and fields[STATE_FIELD] == "T"


def write_pid_file(path: str) -> ProcessId:
    """Write this process into its pid file; a reader sees the old one or the new one. Raises OSError."""
    own = identify(os.getpid())
    assert own is not None, "this process runs"
    OsDisk().write_atomic(path + START_ENDING, f"{own.pid} {own.start_time}\n".encode())
    OsDisk().write_atomic(path, f"{own.pid}\n".encode())
    return own


def read_pid_file(path: str) -> ProcessId | None:
    """Return the process in a pid file, alive or not; None without a valid file."""
    pid, start = numbers_of(path), numbers_of(path + START_ENDING)
    if len(pid) != 1 or len(start) != 2 or pid[0] != start[0]:
        return None
    return ProcessId(start[0], start[1])


def numbers_of(path: str) -> list[int]:
    """Return the numbers a small file holds; none if it is not there or holds anything else."""
    try:
        with open(path, "rb") as file:
            words = file.read(PID_FILE_BYTES_MAX).split()
    except FileNotFoundError:
        return []
    return [int(word) for word in words] if all(word.isdigit() for word in words) else []


def living(path: str) -> ProcessId | None:
    """Return the living process a pid file names, or None."""
    process = read_pid_file(path)
    return process if process is not None and is_alive(process) else None


def remove_pid_file(path: str) -> None:
    """Remove the pid file if it names this process; another's is left alone."""
    process = read_pid_file(path)
    if process is not None and process.pid == os.getpid():
        for name in (path, path + START_ENDING):
            with contextlib.suppress(FileNotFoundError):
                os.unlink(name)


def send(process: ProcessId, number: signal.Signals) -> bool:
    """Send a signal to this process; False if it has ended.

    A pidfd is taken first and the start time checked after: the signal cannot reach a later owner of the pid.
    """
    try:
        fd = os.pidfd_open(process.pid)
    except ProcessLookupError:
        return False
    try:
        if not is_alive(process):
            return False
        signal.pidfd_send_signal(fd, number)
    except ProcessLookupError:
        return False
    finally:
        os.close(fd)
    return True


def die_with_parent(parent_pid: int, number: signal.Signals = signal.SIGKILL) -> None:
    """Set that the kernel sends this process a signal when its parent dies.

    Called first in a child.

    `parent_pid` is the parent's own pid: if it died before this call, the child has another parent now and the kernel
    would send nothing, so the child ends itself here. The kernel watches the parent's *thread*: start children from a
    thread that lives as long as the process. Raises OSError.
    """
    _prctl(PR_SET_PDEATHSIG, int(number))
    if os.getppid() != parent_pid:
        os.kill(os.getpid(), number)


def name_process(name: str) -> None:
    """Have `ps` and `top` show this process under a name (its first 15 bytes). Raises OSError."""
    _prctl(PR_SET_NAME, ctypes.c_char_p(name.encode()))


def _prctl(option: int, argument: "int | ctypes.c_char_p") -> None:
    """Call prctl(2). Raises OSError."""
    if ctypes.CDLL(None, use_errno=True).prctl(option, argument, 0, 0, 0) != 0:
        error = ctypes.get_errno()
        raise OSError(error, f"prctl({option}): {os.strerror(error)}")


def raise_open_files_limit() -> int:
    """Raise the limit of open files to the hard one and return it: a broker has a few files per partition."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    return hard


def age_ms() -> int:
    """Return the age of this process, according to the kernel, to a hundredth of a second."""
    own = identify(os.getpid())
    assert own is not None, "this process runs"
    started_s = own.start_time / os.sysconf("SC_CLK_TCK")
    return max(0, round((time.clock_gettime(time.CLOCK_BOOTTIME) - started_s) * 1000))


def thread_cpu_seconds() -> float:
    """Return the processor time of the calling thread, which an event loop measures for itself."""
    return time.thread_time()


def io_bytes() -> tuple[int, int] | None:
    """Return the bytes that this process read from and wrote to disks (/proc/self/io); None: not available.

    A kernel may be built without these counts, and a container may hide them. Source: Kafka's LinuxIoMetricsCollector.
    """
    try:
        with open("/proc/self/io", "rb") as file:
            rows = dict(line.split(b":", 1) for line in file.read().splitlines())
        return int(rows[b"read_bytes"]), int(rows[b"write_bytes"])
    except (OSError, KeyError, ValueError):
        return None


def trim_heap() -> None:
    """Return the C allocator's free memory to the operating system (glibc; other libraries do not keep as much)."""
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)
