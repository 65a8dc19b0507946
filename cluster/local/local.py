"""The nodes of a cluster on this machine: start, stop, kill, pause, resume, and their state.

Every step uses pid files, so it does not matter which process started a node: a foreground `up`, a detached one, or a
test. A starting node has none for a tenth of a second: only its starter knows it then.
"""

import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from itertools import groupby

from kvorum.cluster.local.formatting import (
    CONTROLLER_FOLDERS,
    format_node,
    new_directory_id,
    undo_format,
    unmounted_hint,
)
from kvorum.cluster.local.paths import PROCESSES, ClusterPaths, NodePaths
from kvorum.cluster.local.plan import (
    BrokenPlan,
    ClusterPlan,
    NoCluster,
    PortUnusable,
    read_plan,
    write_node_configs,
    write_plan,
)
from kvorum.cluster.local.plan import ClusterError as ClusterError
from kvorum.cluster.local.plan_recovery import rebuild_plan, refuse_remains
from kvorum.cluster.local.port_check import port_problem
from kvorum.cluster.process import readiness
from kvorum.protocol.uuids import Uuid
from kvorum.quorum.records import MetadataRecord
from kvorum.runtime.config import Settings
from kvorum.runtime.config_files import load_node
from kvorum.runtime.disk import Disk, OsDisk
from kvorum.runtime.listeners import voters
from kvorum.runtime.logs import UNEXPECTED
from kvorum.runtime.process import ProcessId, identify, living, send

START_SECONDS = 60.0
"""Default timeout of a start: afterwards a node is late, which does not end it."""
STOP_SECONDS = 60.0
"""A controlled shutdown that takes longer is ended with SIGKILL, with a message."""
GONE_SECONDS = 60.0
"""The maximum time from SIGKILL to a process's end: the kernel may have much of its to clear away."""

STOP_REPORT_SECONDS = 3.0
"""A node that takes longer to stop is reported; then after twice as long, and so on."""
STOP_ORDER = ("admin", "broker", "controller")
"""The order in which a supervisor stops its children."""
LOG_END_BYTES = 4096
"""The last line of a log is searched in this number of bytes."""
TRACEBACK = "Traceback (most recent call last)"
METADATA_FOLDERS = frozenset(CONTROLLER_FOLDERS)
"""Contents of a log directory besides partitions of topics."""
LAST_STEPS_SECONDS = 10.0
"""From the removal of its pid file to a process's end; also the limit of a stop after other nodes had to be killed."""


@dataclass(slots=True)
class LocalCluster:
    """A cluster in a folder of this machine. `detached` nodes outlive this process; others die with it."""

    paths: ClusterPaths
    plan: ClusterPlan
    detached: bool = False
    start_seconds: float = START_SECONDS
    stop_seconds: float = STOP_SECONDS
    environment: dict[str, str] = field(default_factory=dict)
    wrap: Callable[[str, list[str]], list[str]] | None = None
    """Returns the command line to run instead of a node's, which must end in the command (exec):
    for tests that start nodes in namespaces or with another environment."""
    on_waiting: Callable[[str, str], None] = lambda name, reason: None
    """Called with a node and why it is not ready yet, while it is waited for."""
    on_stopping: Callable[[str, str], None] = lambda name, reason: None
    """Called with a node that is slow to stop, and which of its processes it waits for."""
    refusals: dict[str, str] = field(default_factory=dict)
    """{node: why it did not start}, as its processes reported it."""
    _started: dict[str, "subprocess.Popen[bytes]"] = field(default_factory=dict)

    @classmethod
    def create(
        cls, folder: str, plan: ClusterPlan, detached: bool = False, bootstrap: Sequence[MetadataRecord] = ()
    ) -> "LocalCluster":
        """Create the cluster in a folder: configurations, identities, and `bootstrap`, records of its first metadata.

        An existing one is kept unchanged.

        Raises ClusterError if there are data, but no readable cluster.json.
        """
        paths = ClusterPaths(os.path.abspath(folder))
        disk = OsDisk()
        found = read_plan(disk, paths)
        if found is None:
            refuse_remains(disk, paths, plan)
            check_ports(plan, [node.name for node in plan.nodes])
            write_node_configs(disk, paths, plan)
            every = [
                load_node(paths.node(node.name).config, environment={}, has_secrets=False).settings
                for node in plan.nodes
            ]
            controllers = [each.int("node.id") for each in every if "controller" in each.list("process.roles")]
            directories = {node_id: new_directory_id() for node_id in controllers}
            with ExitStack() as undo:
                for settings in every:
                    # Directory ids of voters elsewhere are unknown: the voters agree on them at first start.
                    all_known = voters(settings).keys() <= directories.keys()
                    known = directories if all_known else None
                    formatted = format_node(disk, settings, plan.cluster_id, known, bootstrap=bootstrap)
                    undo.callback(undo_format, disk, settings, formatted)
                disk.write_atomic(paths.never_started_file, b"")
                write_plan(disk, paths, plan)
                undo.pop_all()
        return cls(paths, found or plan, detached)

    @classmethod
    def set_aside_unstarted(cls, folder: str) -> str | None:
        """Move a cluster whose nodes were never ready out of its folder; return its new path, None without one.

        So an edited file takes effect after a first start that failed. Only a cluster without any partition of a topic,
        all in its folder and without a running process, is moved. Raises ClusterError, OSError.
        """
        paths, disk = ClusterPaths(os.path.abspath(folder)), OsDisk()
        plan = read_plan(disk, paths)
        if plan is None or not disk.exists(paths.never_started_file):
            return None
        cluster = cls(paths, plan)
        if any(cluster.processes(node.name) for node in plan.nodes) or not is_empty_cluster(disk, paths, plan):
            return None
        aside = os.path.join(paths.folder, f"never-started-{plan.cluster_id}")
        disk.mkdir(aside)
        for path in (*(paths.node(node.name).folder for node in plan.nodes), paths.cluster, paths.never_started_file):
            if disk.exists(path):
                os.rename(path, os.path.join(aside, os.path.basename(path)))
        return aside

    @classmethod
    def rebuild(cls, folder: str, plan: ClusterPlan, detached: bool = False) -> "LocalCluster":
        """Write cluster.json from the nodes' folders if it is missing or broken; `plan` has the expected nodes.

        Raises ClusterError if it is readable, or if a node or a directory is missing.
        """
        paths, disk = ClusterPaths(os.path.abspath(folder)), OsDisk()
        with suppress(BrokenPlan):
            if read_plan(disk, paths) is not None:
                raise ClusterError(f"{paths.cluster} is complete: start the cluster without --rebuild")
        found = rebuild_plan(disk, paths, plan)
        if not any(disk.exists(paths.node(node.name).config) for node in found.nodes):
            write_node_configs(disk, paths, found)
        write_plan(disk, paths, found)
        return cls(paths, found, detached)

    @classmethod
    def open(cls, folder: str, detached: bool = False) -> "LocalCluster":
        """Return the cluster that was made in a folder. Raises ClusterError."""
        paths = ClusterPaths(os.path.abspath(folder))
        plan = read_plan(OsDisk(), paths)
        if plan is None:
            refuse_remains(OsDisk(), paths)
            raise NoCluster(f"there is no cluster in {folder} (no {os.path.basename(paths.cluster)})")
        return cls(paths, plan, detached)

    def node(self, name: str) -> NodePaths:
        """Return a node's folder. Raises ClusterError for a name the cluster has not."""
        names = [node.name for node in self.plan.nodes]
        if name not in names:
            raise ClusterError(f"there is no node {name!r}; there are {', '.join(names)}")
        return self.paths.node(name)

    def format_lost(self, name: str) -> dict[str, Uuid]:
        """Format the lost (removed) directories of a stopped node: {directory: its new directory id}.

        A controller's stays out of the quorum until it is re-admitted. Raises FormatError.
        """
        if self.processes(name):
            raise ClusterError(f"{name} is running; stop it first")
        settings = load_node(self.node(name).config, environment={}, has_secrets=False).settings
        formatted = format_node(OsDisk(), settings, self.plan.cluster_id, ignore_formatted=True)
        return {each.folder: each.directory_id for each in formatted}

    def processes(self, name: str) -> dict[str, ProcessId]:
        """Return the living processes of a node: {"node" | "broker" | "controller" | "admin": process}.

        One that was started here is included from its start to its end, with a pid file or without.
        """
        return self._child_process(name) | self._with_pid_file(name)

    def _with_pid_file(self, name: str) -> dict[str, ProcessId]:
        paths = self.node(name)
        found = {process: living(paths.pid(process)) for process in PROCESSES}
        return {process: pid for process, pid in found.items() if pid is not None}

    def _child_process(self, name: str) -> dict[str, ProcessId]:
        started = self._started.get(name)
        found = None if started is None or started.poll() is not None else identify(started.pid)
        return {} if found is None else {"node": found}

    def start(self, *names: str, timeout_seconds: float | None = None) -> dict[str, str]:
        """Start nodes (all, when none is named) that do not run, and wait: {name: "ready" | "died" | "late"}."""
        wanted = names or tuple(node.name for node in self.plan.nodes)
        self._require_configs(wanted)
        pipes = [(name, self._spawn(name)) for name in wanted if "node" not in self._with_pid_file(name)]
        return self.wait(pipes, self.start_seconds if timeout_seconds is None else timeout_seconds)

    def wait(
        self, pipes: Iterable[tuple[str, int]], timeout_seconds: float, interrupt: int | None = None
    ) -> dict[str, str]:
        """Wait for started nodes (readiness.wait_all); store their reports."""
        pipes = list(pipes)
        for name, _ in pipes:
            self.refusals.pop(name, None)
        outcome = readiness.wait_all(pipes, timeout_seconds, interrupt, self.on_waiting, self.refusals.__setitem__)
        if any(what != "died" for what in outcome.values()):  # one that is late may be ready later
            with suppress(FileNotFoundError):
                os.unlink(self.paths.never_started_file)
        return outcome

    def start_without_waiting(self, *names: str) -> list[tuple[str, int]]:
        """Start nodes; return (name, pipe) for readiness.wait_all."""
        self._require_configs(names)
        return [(name, self._spawn(name)) for name in names if "node" not in self._with_pid_file(name)]

    def _require_configs(self, names: Iterable[str]) -> None:
        """Raise ClusterError for a node without its configuration, before any node is started."""
        for name in names:
            path = self.node(name).config
            if not os.path.isfile(path):
                hint = unmounted_hint(self.node(name).folder)
                raise ClusterError(f"{name} cannot be started: {path} is missing; {hint}")

    def _spawn(self, name: str) -> int:
        """Start a node's supervisor; return its readiness pipe."""
        paths = self.node(name)
        ended = self._started.pop(name, None)
        if ended is not None:
            # Its pid file is missing: it is about to end, or it is being started already.
            try:
                ended.wait(LAST_STEPS_SECONDS)
            except subprocess.TimeoutExpired:
                self._started[name] = ended
                raise ClusterError(f"{name} is being started already") from None
        reading, writing = os.pipe()
        command = [
            sys.executable,
            "-m",
            "kvorum.cluster.process.child",
            "node",
            "--config",
            paths.config,
            "--dir",
            paths.folder,
        ]
        if self.wrap is not None:
            command = self.wrap(name, command)
        environment = {**os.environ, **self.environment, readiness.VARIABLE: str(writing)}
        environment.pop("KVORUM_PARENT_PID", None)
        if not self.detached:
            environment["KVORUM_PARENT_PID"] = str(os.getpid())
        output = os.open(paths.log("node"), os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)
        try:
            self._started[name] = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                pass_fds=(writing,),
                env=environment,
                # Ctrl-C reaches the process that runs the cluster, which then stops it in order
                start_new_session=True,
            )
        finally:
            os.close(writing)
            os.close(output)
        return reading

    def kill(self, name: str, *roles: str) -> list[ProcessId]:
        """kill -9 all processes of a node, the supervisor first (it would restart them), or only the roles named.

        They have ended when this returns. A new child without a pid file has no resources yet, and ends with its
        supervisor.
        """
        reached = self._signal(name, signal.SIGKILL, roles)
        wait_for_all(reached)
        if not roles:
            # A child that wrote its pid file since then dies with the supervisor, but must be waited for.
            late = self._signal(name, signal.SIGKILL, roles)
            wait_for_all(late)
            reached += late
        self._reap(name)
        return reached

    def pause(self, name: str, *roles: str) -> list[ProcessId]:
        """SIGSTOP the node's processes."""
        return self._signal(name, signal.SIGSTOP, roles)

    def resume(self, name: str, *roles: str) -> list[ProcessId]:
        """SIGCONT the node's processes."""
        return self._signal(name, signal.SIGCONT, roles)

    def _signal(self, name: str, number: signal.Signals, roles: tuple[str, ...]) -> list[ProcessId]:
        processes = self.processes(name)
        return [pid for role, pid in processes.items() if (not roles or role in roles) and send(pid, number)]

    def stop(self, *names: str, timeout_seconds: float | None = None) -> list[str]:
        """SIGTERM nodes (all if none is named) and wait for their controlled shutdown. Return those that were killed.

        Nodes without a controller stop first, then nodes with both roles, then controllers without a broker: a broker
        that shuts down needs an active controller. After a kill the next nodes have LAST_STEPS_SECONDS.
        """
        wanted = names or tuple(node.name for node in self.plan.nodes)
        running = {name: processes["node"] for name in wanted if "node" in (processes := self.processes(name))}
        for pid in running.values():
            send(pid, signal.SIGCONT)
        deadline = time.monotonic() + (self.stop_seconds if timeout_seconds is None else timeout_seconds)
        killed = []
        for _, group in groupby(sorted(running, key=self._stop_rank), self._stop_rank):
            ends = {name: running[name] for name in group}
            for pid in ends.values():
                send(pid, signal.SIGTERM)
            late = self._wait_for_ends(ends, deadline)
            for name in late:
                self.kill(name)
            if late:
                deadline = time.monotonic() + LAST_STEPS_SECONDS
            killed += late
        for name in wanted:
            self._reap(name)
        return killed

    def _stop_rank(self, name: str) -> tuple[bool, bool]:
        roles = self.plan.node(name).roles
        return "broker" not in roles, "controller" in roles

    def _wait_for_ends(self, running: dict[str, ProcessId], deadline: float) -> list[str]:
        """Wait until these nodes have ended, and report those that are slow. Return those that run at the deadline."""
        pause = STOP_REPORT_SECONDS
        while running:
            until = min(deadline, time.monotonic() + pause)
            running = {n: pid for n, pid in running.items() if not wait_for_exit(pid, until - time.monotonic())}
            if time.monotonic() >= deadline:
                break
            for name in running:
                self.on_stopping(name, self._slowest_process(name))
            pause *= 2
        return list(running)

    def _slowest_process(self, name: str) -> str:
        """Return the process that a node's supervisor waits for, and the last line of its log."""
        paths, found = self.node(name), self.processes(name)
        role = next((each for each in STOP_ORDER if each in found), "node")
        line = last_line(paths.log(role))
        return f"its {role} process is still running; last log line: {line or 'nothing'} ({paths.log(role)})"

    def _reap(self, name: str) -> None:
        process = self._started.pop(name, None)
        if process is not None and process.poll() is None:
            self._started[name] = process

    def unexpected_exceptions(self) -> list[str]:
        """Return the lines of all nodes' logs that report an exception no handler expected: each is a bug."""
        logs = [(node.name, process) for node in self.plan.nodes for process in PROCESSES]
        return [
            f"{name} {process}: {line}"
            for name, process in logs
            for line in unexpected_lines(self.node(name).log(process))
        ]

    def exit_code(self, name: str) -> int | None:
        """Return the exit code of a node's supervisor; None for one that was not started here, or is alive."""
        process = self._started.get(name)
        try:
            return None if process is None else process.wait(LAST_STEPS_SECONDS)
        except subprocess.TimeoutExpired:
            return None

    def pid_of(self, name: str, role: str) -> int:
        """Return the pid of a node's process. Raises ClusterError when it does not run."""
        found = self.processes(name).get(role)
        if found is None:
            raise ClusterError(f"{name} has no running {role}")
        return found.pid


def check_ports(plan: ClusterPlan, names: Sequence[str]) -> None:
    """Raise PortUnusable for the first listener of these nodes that cannot be bound."""
    for name in names:
        problem = port_problem(Settings.of(dict(plan.node(name).properties)))
        if problem is not None:
            raise PortUnusable(problem.of_node(name), problem.listener.label)


def is_empty_cluster(disk: Disk, paths: ClusterPaths, plan: ClusterPlan) -> bool:
    """Return whether all directories of a cluster are in its folder and none contains a partition of a topic."""
    for node in plan.nodes:
        own = paths.node(node.name)
        directories = split(node.properties.get("log.dirs", own.data))
        directories += split(node.properties.get("metadata.log.dir", "")) + split(node.properties.get("log.dir", ""))
        for directory in directories:
            if os.path.commonpath([own.folder, os.path.abspath(directory)]) != own.folder:
                return False
            if not disk.is_dir(directory):
                continue
            folders = {each for each in disk.listdir(directory) if disk.is_dir(os.path.join(directory, each))}
            if folders - METADATA_FOLDERS:
                return False
    return True


def split(text: str) -> list[str]:
    """Return the parts of a list config."""
    return [part.strip() for part in text.split(",") if part.strip()]


def unexpected_lines(path: str) -> list[str]:
    """Return the lines of one log that report an unexpected exception, or a traceback of Python's."""
    try:
        with open(path, errors="replace") as file:
            return [line.rstrip() for line in file if any(text in line for text in (UNEXPECTED, TRACEBACK))]
    except FileNotFoundError:
        return []


def last_line(path: str) -> str:
    """Return the last line of a log, or an empty text."""
    try:
        with open(path, "rb") as file:
            file.seek(max(0, file.seek(0, os.SEEK_END) - LOG_END_BYTES))
            return file.read().decode(errors="replace").rstrip().rpartition("\n")[2]
    except FileNotFoundError:
        return ""


def wait_for_all(processes: list[ProcessId]) -> None:
    """Wait for the end of these killed processes, at most GONE_SECONDS each."""
    for process in processes:
        wait_for_exit(process, GONE_SECONDS)


def wait_for_exit(process: ProcessId, timeout_seconds: float) -> bool:
    """Wait for the end of this process; False if it still exists at the timeout."""
    try:
        fd = os.pidfd_open(process.pid)
    except ProcessLookupError:
        return True
    try:
        if identify(process.pid) != process:
            return True
        poller = select.poll()
        poller.register(fd, select.POLLIN)
        return bool(poller.poll(max(0.0, timeout_seconds) * 1000))
    finally:
        os.close(fd)
