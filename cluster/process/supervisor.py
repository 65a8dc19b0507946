"""The `node` process: forks the node's roles as separate processes and keeps them running.

    STARTING -> RUNNING -> STOPPING -> done

A controller never shares the broker's event loop: a busy broker must not delay an election. Children die with this
process (PR_SET_PDEATHSIG), whatever ends it. A crashed child is restarted after a growing delay; one that ended because
of a full disk, once there is room. One that refuses to start (exit codes for configuration and data) ends the node like
SIGTERM, which is a controlled shutdown: the broker first, since it needs a controller to hand over its leaderships,
then the controller. So does one that ended in order by itself (a controlled shutdown over HTTP, a signal only to it),
with the exit code of a stopped node: a node with only one of its roles is never intended. Blocking calls only, no event
loop: a supervisor must use nearly no resources.
"""

import os
import select
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from types import FrameType

from kvorum.cluster.local.paths import NodePaths
from kvorum.cluster.process import readiness
from kvorum.cluster.process.exits import DiskFullFlag, Exit, restart_helps
from kvorum.cluster.process.fork import ForkProcess, Work
from kvorum.runtime.disk import Disk, OsDisk
from kvorum.runtime.logs import get_logger
from kvorum.runtime.process import remove_pid_file, write_pid_file

log = get_logger("cluster")

RESTART_DELAYS_SECONDS = (0.1, 0.5, 2.0, 5.0, 10.0)
"""Before the first, second, ... restart in a row; the last one repeats."""
ROOM_BYTES_MIN = 64 * 1024 * 1024
"""Less free space than this, or than a quarter of a smaller file system, is a full disk to a role that ended for it."""
ROOM_CHECK_SECONDS = 5.0
STEADY_SECONDS = 60.0
"""A child that ran this long has not crashed in a row."""


@dataclass(slots=True)
class Child:
    """One role's process."""

    role: str
    work: Work
    log_path: str | None
    prepare: Callable[[], None] = lambda: None
    """Runs in the supervisor before each start: loads the required modules."""
    folders: tuple[str, ...] = ()
    """Directories with the role's data."""
    process: ForkProcess | None = None
    ready_fd: int | None = None
    ready: bool = False
    started_at: float = 0.0
    crashes: int = 0
    restart_at: float | None = None
    full_note: DiskFullFlag = field(default_factory=DiskFullFlag)
    waits_for_room: bool = False
    """Whether it ended for a full disk: it is started again once there is room."""
    stop_requested: bool = False
    parent_pid: int = field(default_factory=os.getpid)

    def start(self) -> None:
        """Start the process, with a readiness pipe."""
        reading, writing = os.pipe()
        environment = os.environ | {readiness.VARIABLE: str(writing), "KVORUM_PARENT_PID": str(self.parent_pid)}
        output = None
        if self.log_path is not None:
            output = os.open(self.log_path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)
        self.full_note.leave(False)
        DiskFullFlag.own = self.full_note
        try:
            self.prepare()
            self.process = ForkProcess(f"kvorum {self.role}", self.work, output, writing, environment)
        finally:
            os.close(writing)
            if output is not None:
                os.close(output)
        self.ready_fd, self.restart_at, self.started_at = reading, None, time.monotonic()

    def signal(self, number: int) -> None:
        """Send a signal if the process runs."""
        if self.process is not None:
            self.process.send_signal(number)

    def forget_ready_pipe(self) -> None:
        """Close the reading end."""
        if self.ready_fd is not None:
            os.close(self.ready_fd)
            self.ready_fd = None


class Supervisor:
    """The node process's loop."""

    def __init__(
        self,
        paths: NodePaths,
        children: list[Child],
        on_ready: Callable[[], None] = readiness.announce,
        disk: Disk | None = None,
    ) -> None:
        """Store the children in their start order; they stop in the opposite order."""
        self._paths = paths
        self._children = children
        self._on_ready = on_ready
        self._stopping = False
        self._exit: int | None = None
        self._refusal: int = Exit.DONE
        self._disk = disk or OsDisk()
        self._wakeup, self._wakeup_writer = os.pipe()

    def run(self) -> int:
        """Run until a stop signal, or until a child ended in order or must not run. Returns the exit code."""
        os.set_blocking(self._wakeup_writer, False)
        signal.set_wakeup_fd(self._wakeup_writer, warn_on_full_buffer=False)
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._stop)
        signal.signal(signal.SIGCHLD, lambda number, frame: None)
        write_pid_file(self._paths.pid("node"))
        try:
            for child in self._children:
                child.start()
            while self._exit is None:
                self._step()
            return self._exit
        finally:
            for child in self._children:
                child.signal(signal.SIGKILL)
            remove_pid_file(self._paths.pid("node"))

    def _stop(self, number: int, frame: FrameType | None) -> None:
        """Store the signal; the loop acts on it."""
        self._stopping = True

    def _step(self) -> None:
        """Wait for one thing to happen, then deal with all that has."""
        pipes = [child.ready_fd for child in self._children if child.ready_fd is not None]
        restarts = [child.restart_at for child in self._children if child.restart_at is not None]
        timeout = max(0.0, min(restarts) - time.monotonic()) if restarts else None
        readable, _, _ = select.select([self._wakeup, *pipes], [], [], timeout)
        if self._wakeup in readable:
            os.read(self._wakeup, 4096)
        for child in self._children:
            if child.ready_fd in readable:
                self._read_reports(child)
            if child.process is not None and (code := child.process.poll()) is not None:
                self._handle_exit(child, code)
            if child.restart_at is not None and child.restart_at <= time.monotonic() and not self._stopping:
                self._restart(child)
        if self._stopping:
            self._stop_next()

    def _read_reports(self, child: Child) -> None:
        """A child spoke on its pipe, or closed it."""
        assert child.ready_fd is not None
        reports = readiness.read_lines(child.ready_fd)
        for reason in reports.waiting:
            readiness.report(f"{child.role}: {reason}")
        for reason in reports.refused:
            readiness.report_refusal(f"{child.role}: {reason}")
        if reports.ready is None:
            return
        child.ready = child.ready or reports.ready
        child.forget_ready_pipe()
        if all(each.ready for each in self._children):
            self._on_ready()

    def _handle_exit(self, child: Child, code: int) -> None:
        """A child has ended: plan its restart, or end the node with it."""
        child.process = None
        if self._stopping:
            return
        if code == Exit.DONE:
            log.warning("role stopped, node stops", node=self._paths.name, role=child.role)
            self._stopping = True
            return
        full = self._full_folder(child) if code == Exit.DATA_REFUSED else None
        if full is not None or (code == Exit.DATA_REFUSED and child.full_note.is_left):
            log.error(
                "disk full, role restarts when space is free",
                node=self._paths.name,
                role=child.role,
                code=code,
                folder=full or ", ".join(child.folders),
                wanted_bytes=ROOM_BYTES_MIN,
            )
            child.waits_for_room = True
            child.restart_at = time.monotonic() + ROOM_CHECK_SECONDS
            return
        if not restart_helps(code):
            log.error("role start failed, node stops", node=self._paths.name, role=child.role, code=code)
            self._refusal = code
            self._stopping = True
            return
        if time.monotonic() - child.started_at > STEADY_SECONDS:
            child.crashes = 0
        delay = RESTART_DELAYS_SECONDS[min(child.crashes, len(RESTART_DELAYS_SECONDS) - 1)]
        child.crashes += 1
        child.restart_at = time.monotonic() + delay
        log.error("role crashed", node=self._paths.name, role=child.role, code=code, restart_in_seconds=delay)

    def _restart(self, child: Child) -> None:
        """Start a role again, unless it waits for room on a disk that is still full."""
        if child.waits_for_room and self._full_folder(child) is not None:
            child.restart_at = time.monotonic() + ROOM_CHECK_SECONDS
            return
        child.waits_for_room = False
        child.start()

    def _full_folder(self, child: Child) -> str | None:
        """Return a folder of a role whose disk is full; None if none is."""
        for folder in child.folders:
            try:
                free, total = self._disk.free_bytes(folder), self._disk.total_bytes(folder)
            except OSError:
                continue  # no message: the role's own exit code is used
            if free < min(ROOM_BYTES_MIN, total // 4):
                return folder
        return None

    def _stop_next(self) -> None:
        """Stop the last child that still runs; without any, the node is done."""
        for child in reversed(self._children):
            child.restart_at = None
            if child.process is not None:
                if not child.stop_requested:
                    child.stop_requested = True
                    child.signal(signal.SIGTERM)
                return
        self._exit = self._refusal
