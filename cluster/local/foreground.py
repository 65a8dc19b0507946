"""Running a cluster from one process: `dev` and `up` without --detach.

All nodes are children of this process and end with it. Commands (`kvorum nodes start ...`, the end of `kvorum down`)
arrive over a Unix socket in the cluster's folder, one JSON line each way, so that a node started later is a child of
this process too. The process that starts or runs a cluster holds the lock of its folder (`hold`): there is no second
one.
"""

import json
import os
import selectors
import signal
import socket
import struct
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from types import FrameType

from kvorum.cluster.local.local import ClusterError, LocalCluster, wait_for_exit
from kvorum.cluster.local.paths import ClusterPaths
from kvorum.cluster.process.exits import Exit, restart_helps
from kvorum.runtime.disk import OsDisk
from kvorum.runtime.logs import get_logger
from kvorum.runtime.process import identify

ORDER_BYTES_MAX = 4096
ORDER_SECONDS = 5.0
"""A client that sends no whole order in this time, or does not take the answer, is left alone."""
SIGNALLED = 128
"""A start that a signal ended has this exit code plus the signal's number, as in a shell."""

ORPHAN_SECONDS = 2.0
"""Nodes die with the process that runs them, very soon, but not in the same instant."""
RUNNING = "is already running or starting; stop it with: kvorum down --dir {folder}"
EXIT_CODE = "exit_code"
"""In the answer to an order that failed, besides the nodes: the exit code for it."""
PEER = struct.Struct("3i")
"""SO_PEERCRED: pid, uid, gid of the listening process."""

log = get_logger("cluster")


class ClusterRunError(ClusterError):
    """Another process starts or runs the cluster in this folder."""


@contextmanager
def hold(folder: str) -> Iterator[None]:
    """Hold the lock for running the cluster in a folder, which is created. Raises ClusterRunError, OSError."""
    paths = ClusterPaths(os.path.abspath(folder))
    disk = OsDisk()
    disk.mkdir(paths.folder)
    with disk.lock(paths.lock) as held:
        if not held:
            raise ClusterRunError(f"the cluster in {folder} {RUNNING.format(folder=folder)}")
        yield


def check_down(cluster: LocalCluster) -> None:
    """Refuse to take over nodes that run: they are not this process's children. Raises ClusterRunError."""
    deadline = time.monotonic() + ORPHAN_SECONDS
    running = []
    for node in cluster.plan.nodes:
        processes = cluster.processes(node.name).values()
        if not all(wait_for_exit(process, max(0.0, deadline - time.monotonic())) for process in processes):
            running.append(node.name)
    if running:
        folder = cluster.paths.folder
        raise ClusterRunError(f"{', '.join(running)} of {folder} {RUNNING.format(folder=folder)}")


def run_until_signal(
    cluster: LocalCluster,
    on_ready: Callable[[dict[str, str], Sequence[int]], None],
    before_stop: Callable[[], object] = lambda: None,
) -> int:
    """Start all nodes, call `on_ready` with the outcome of each, run until SIGINT or SIGTERM, stop all in order.

    `on_ready` also gets the received signals: if it takes long, it must check for the first one itself. The caller
    holds the folder (`hold`). Returns the exit code: 1 if a node is not up, or the node's own if a restart would not
    help. Raises ClusterRunError when one of the nodes runs.
    """
    check_down(cluster)
    with _signals() as (wakeup, signals), _control_socket(cluster.paths) as server:
        try:
            outcome = _start(cluster, [node.name for node in cluster.plan.nodes], wakeup)
            if signals:
                return SIGNALLED + signals[0]
            on_ready(outcome, signals)
            if all(each == "ready" for each in outcome.values()):
                _serve(cluster, server, wakeup, signals)
                return 0
            return exit_code_of(cluster, outcome)
        finally:
            before_stop()
            cluster.stop()


def exit_code_of(cluster: LocalCluster, outcome: dict[str, str]) -> int:
    """Return the code to end with after a start: 0 if all nodes are ready."""
    if all(what == "ready" for what in outcome.values()):
        return Exit.DONE
    codes = [cluster.exit_code(name) for name, what in outcome.items() if what == "died"]
    return next((code for code in codes if code and not restart_helps(code)), Exit.CRASHED)


@contextmanager
def _signals() -> Iterator[tuple[int, list[int]]]:
    """Note SIGINT and SIGTERM: (a pipe that can be read once one came, those that came)."""
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    received: list[int] = []

    def note(number: int, frame: FrameType | None) -> None:
        received.append(number)

    before = {number: signal.signal(number, note) for number in (signal.SIGINT, signal.SIGTERM)}
    signal.set_wakeup_fd(writing, warn_on_full_buffer=False)
    try:
        yield reading, received
    finally:
        signal.set_wakeup_fd(-1)
        for number, handler in before.items():
            signal.signal(number, handler)
        os.close(reading)
        os.close(writing)


@contextmanager
def _near(paths: ClusterPaths) -> Iterator[str]:
    """Return a short path of the control socket: an address may have 107 bytes, the path of a folder thousands."""
    folder = os.open(paths.folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield f"/proc/self/fd/{folder}/{os.path.basename(paths.control)}"
    finally:
        os.close(folder)


@contextmanager
def _control_socket(paths: ClusterPaths) -> Iterator[socket.socket]:
    """Accept commands on a socket. The folder is locked, so an existing socket belongs to a killed process."""
    with _near(paths) as path, socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as server:
        with suppress(FileNotFoundError):
            os.unlink(path)
        server.bind(path)
        server.listen(8)
        try:
            yield server
        finally:
            with suppress(FileNotFoundError):
                os.unlink(path)


def _start(cluster: LocalCluster, names: list[str], wakeup: int) -> dict[str, str]:
    """Start nodes and wait for them, no longer than until a signal comes."""
    return cluster.wait(cluster.start_without_waiting(*names), cluster.start_seconds, wakeup)


def _serve(cluster: LocalCluster, server: socket.socket, wakeup: int, signals: list[int]) -> None:
    """Execute commands until the stop command."""
    with selectors.DefaultSelector() as selector:
        selector.register(server, selectors.EVENT_READ)
        selector.register(wakeup, selectors.EVENT_READ)
        while not signals:
            ready = [key.fileobj for key, _ in selector.select()]
            if wakeup in ready:
                continue
            try:
                if not _serve_client(cluster, server, wakeup):
                    return
            except OSError as error:  # a client disconnected, or was too slow: this does not affect the cluster
                log.warning("control request failed", reason=repr(error))


def _serve_client(cluster: LocalCluster, server: socket.socket, wakeup: int) -> bool:
    """Execute one client's command; return whether to continue. Raises OSError."""
    client, _ = server.accept()
    with client:
        client.settimeout(ORDER_SECONDS)
        with client.makefile("rb") as orders:
            order = orders.readline(ORDER_BYTES_MAX)
        answer, go_on = _obey(cluster, order, wakeup)
        try:
            client.sendall(json.dumps(answer).encode() + b"\n")
        except OSError:
            if go_on:
                raise
        return go_on


def _obey(cluster: LocalCluster, line: bytes, wakeup: int) -> tuple[dict[str, str], bool]:
    """Execute one command; return the answer and whether to continue.

    The answer is {node: outcome}, with EXIT_CODE if one failed, or {"error": reason}.
    """
    try:
        order = json.loads(line)
        if order == {"end": True}:
            return {}, False
        outcome = _start(cluster, order["start"], wakeup)
        answer = {name: with_reason(what, cluster.refusals.get(name)) for name, what in outcome.items()}
        code = exit_code_of(cluster, outcome)
        return answer if code == Exit.DONE else answer | {EXIT_CODE: str(int(code))}, True
    except (ValueError, KeyError, TypeError) as error:
        return {"error": f"no order: {error}"}, True
    except (ClusterError, OSError) as error:
        return {"error": str(error)}, True


def with_reason(what: str, reason: str | None) -> str:
    """Return a node's outcome for sending: "ready", "late", "died", or one of the last two with a reason."""
    return what if what == "ready" or reason is None else f"{what}: {reason}"


def request_start(cluster: LocalCluster, names: list[str]) -> dict[str, str] | None:
    """Start nodes through the process that runs the cluster; None without one.

    Raises ClusterError.

    That process waits for them with its configured limit, and this one for its response with the limit of the cluster
    here.
    """
    return _request(cluster, {"start": names})


def end_foreground(cluster: LocalCluster) -> None:
    """Stop the process that runs the cluster, if there is one, and wait for its end. Raises ClusterError."""
    _request(cluster, {"end": True}, wait_for_end=True)


def _request(cluster: LocalCluster, order: dict[str, object], wait_for_end: bool = False) -> dict[str, str] | None:
    with _near(cluster.paths) as path, socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as client:
        try:
            client.connect(path)
        except (FileNotFoundError, ConnectionRefusedError):
            return None
        client.settimeout(cluster.start_seconds + ORDER_SECONDS)
        try:
            pid = PEER.unpack(client.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, PEER.size))[0]
            runner = identify(pid)
            client.sendall(json.dumps(order).encode() + b"\n")
            with client.makefile("rb") as answers:
                answer: dict[str, str] = json.loads(answers.readline())
        except (OSError, ValueError) as error:
            raise ClusterError(f"the process that runs the cluster did not respond: {error}") from error
    if wait_for_end and runner is not None and not wait_for_exit(runner, cluster.stop_seconds):
        raise ClusterError(f"the process that runs the cluster (pid {runner.pid}) did not exit")
    return answer
