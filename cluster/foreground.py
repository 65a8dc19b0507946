"""Running a cluster from one process: `dev` and `up` without --detach.

All nodes are this process's children and die with it. Orders (`kvorum nodes start ...`) come over a Unix socket in the
cluster's folder, one JSON line each way, so that a node started later is a child of this process too.
"""

import json
import os
import selectors
import signal
import socket
from collections.abc import Callable
from contextlib import suppress
from types import FrameType

from kvorum.cluster.local import ClusterError, LocalCluster

ORDER_BYTES_MAX = 4096
START_SECONDS = 60.0


def run_until_told(
    cluster: LocalCluster,
    on_ready: Callable[[dict[str, str]], None],
    before_stop: Callable[[], object] = lambda: None,
) -> int:
    """Start all nodes, call `on_ready` with what became of each, run until SIGINT or SIGTERM, stop all in order."""
    wakeup, wakeup_writer = os.pipe()
    os.set_blocking(wakeup_writer, False)
    signal.set_wakeup_fd(wakeup_writer, warn_on_full_buffer=False)
    told: list[int] = []

    def note(number: int, frame: FrameType | None) -> None:
        told.append(number)

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, note)
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as server:
        with suppress(FileNotFoundError):
            os.unlink(cluster.paths.control)
        server.bind(cluster.paths.control)
        server.listen(8)
        try:
            outcome = cluster.start(timeout_seconds=START_SECONDS)
            on_ready(outcome)
            if all(each == "ready" for each in outcome.values()):
                _serve(cluster, server, wakeup, told)
                return 0
            return 1
        finally:
            before_stop()
            cluster.stop()
            with suppress(FileNotFoundError):
                os.unlink(cluster.paths.control)


def _serve(cluster: LocalCluster, server: socket.socket, wakeup: int, told: list[int]) -> None:
    """Take orders until told to end."""
    with selectors.DefaultSelector() as selector:
        selector.register(server, selectors.EVENT_READ)
        selector.register(wakeup, selectors.EVENT_READ)
        while not told:
            for key, _ in selector.select():
                if key.fileobj is server:
                    client, _ = server.accept()
                    with client:
                        client.settimeout(5.0)
                        client.sendall(json.dumps(_obey(cluster, client.recv(ORDER_BYTES_MAX))).encode() + b"\n")
                else:
                    os.read(wakeup, 4096)


def _obey(cluster: LocalCluster, line: bytes) -> dict[str, str]:
    """Carry out one order; the answer is {node: outcome} or {"error": why}."""
    try:
        order = json.loads(line)
        return cluster.start(*order["start"], timeout_seconds=START_SECONDS)
    except (ValueError, KeyError, TypeError) as error:
        return {"error": f"no order: {error}"}
    except ClusterError as error:
        return {"error": str(error)}


def ask_foreground(cluster: LocalCluster, names: list[str]) -> dict[str, str] | None:
    """Have the process that runs the cluster start nodes; None if none runs it in the foreground."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as client:
        try:
            client.connect(cluster.paths.control)
        except (FileNotFoundError, ConnectionRefusedError):
            return None
        client.settimeout(START_SECONDS + 5)
        client.sendall(json.dumps({"start": names}).encode())
        with client.makefile("rb") as answers:
            answer: dict[str, str] = json.loads(answers.readline())
            return answer
