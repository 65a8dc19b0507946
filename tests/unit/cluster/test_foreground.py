"""One process at a time runs a cluster; what its clients do to their sockets is none of the cluster's business."""

import json
import os
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from kvorum.cluster.local import foreground
from kvorum.cluster.local.foreground import ClusterRunError, end_foreground, hold, request_start
from kvorum.cluster.local.local import ClusterError
from kvorum.cluster.local.paths import ClusterPaths
from kvorum.cluster.process import readiness


class FakeCluster:
    """Nodes that are ready at once."""

    start_seconds = stop_seconds = 60.0

    def __init__(self, folder: Path) -> None:
        self.paths = ClusterPaths(str(folder))
        self.requested: list[str] = []
        self.started = threading.Event()
        self.go_on: Callable[[], object] = lambda: None
        self.waiting: list[tuple[str, str]] = []
        self.refusals: dict[str, str] = {}

    def on_waiting(self, name: str, reason: str) -> None:
        self.waiting.append((name, reason))

    def start_without_waiting(self, *names: str) -> list[tuple[str, int]]:
        if "none" in names:
            raise ClusterError("there is no node 'none'")
        self.requested += names
        self.started.set()
        self.go_on()
        pipes = []
        for name in names:
            reading, writing = os.pipe()
            os.write(writing, readiness.WAITING + b"for controllers\n" + readiness.READY)
            os.close(writing)
            pipes.append((name, reading))
        return pipes

    def wait(self, pipes: list[tuple[str, int]], seconds: float, interrupt: int) -> dict[str, str]:
        return readiness.wait_all(pipes, seconds, interrupt, self.on_waiting)


class Serving:
    """foreground's loop in a thread, without signals."""

    def __init__(self, cluster: FakeCluster) -> None:
        self.cluster: Any = cluster
        self.wakeup, self.writer = os.pipe()
        self.reported: list[int] = []
        self.thread = threading.Thread(target=self._run)
        self.listening = threading.Event()

    def _run(self) -> None:
        with foreground._control_socket(self.cluster.paths) as server:
            self.listening.set()
            foreground._serve(self.cluster, server, self.wakeup, self.reported)

    def end(self) -> None:
        self.reported.append(15)
        os.write(self.writer, b"\0")
        self.thread.join(30)
        assert not self.thread.is_alive()


@contextmanager
def serving(folder: Path) -> Iterator[Serving]:
    folder.mkdir(parents=True, exist_ok=True)
    serves = Serving(FakeCluster(folder))
    serves.thread.start()
    assert serves.listening.wait(30)
    try:
        yield serves
    finally:
        serves.end()


def test_a_folder_is_held_by_one_and_free_again_afterwards(tmp_path: Path) -> None:
    folder = str(tmp_path / "new" / "folder")
    with (
        hold(folder),
        pytest.raises(ClusterRunError, match="already running or starting; stop it with: kvorum down"),
        hold(folder),
    ):
        pass
    with hold(folder):
        pass


def test_an_order_is_carried_out_and_a_wrong_one_is_answered(tmp_path: Path) -> None:
    with serving(tmp_path) as serves:
        assert request_start(serves.cluster, ["node-1"]) == {"node-1": "ready"}
        assert serves.cluster.waiting == [("node-1", "for controllers")], "whoever runs the cluster reports it"
        assert request_start(serves.cluster, ["none"]) == {"error": "there is no node 'none'"}
        for line in (b"nonsense\n", b"{}\n", b'{"start": 5}\n', b"\n"):
            assert "no order" in json.loads(talk(serves, line))["error"]
        assert request_start(serves.cluster, ["node-2"]) == {"node-2": "ready"}


def talk(serves: Serving, line: bytes) -> bytes:
    with connect(serves) as client, client.makefile("rb") as answers:
        client.sendall(line)
        return answers.readline()


def connect(serves: Serving) -> socket.socket:
    client = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    client.connect(serves.cluster.paths.control)
    return client


def test_a_client_that_left_before_the_response_ends_nothing(tmp_path: Path) -> None:
    with serving(tmp_path) as serves:
        client = connect(serves)
        serves.cluster.go_on = client.close
        client.sendall(b'{"start": ["node-1"]}\n')
        assert serves.cluster.started.wait(30)
        serves.cluster.go_on = lambda: None
        assert request_start(serves.cluster, ["node-2"]) == {"node-2": "ready"}


def test_a_silent_client_ends_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(foreground, "ORDER_SECONDS", 0.05)
    with serving(tmp_path) as serves, connect(serves):
        assert request_start(serves.cluster, ["node-1"]) == {"node-1": "ready"}
        assert serves.cluster.waiting == [("node-1", "for controllers")], "whoever runs the cluster reports it"


def test_an_order_to_end_ends_the_loop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    waited: list[int] = []
    monkeypatch.setattr(foreground, "wait_for_exit", lambda process, seconds: waited.append(process.pid) or True)
    with serving(tmp_path) as serves:
        end_foreground(serves.cluster)
        serves.thread.join(30)
        assert not serves.thread.is_alive()
    assert waited == [os.getpid()]
    end_foreground(serves.cluster)  # nobody is there: nothing to do
    assert request_start(serves.cluster, ["node-1"]) is None


def test_a_folder_with_a_long_path_takes_orders_too(tmp_path: Path) -> None:
    deep = tmp_path.joinpath(*["a-folder-with-a-rather-long-name"] * 6)
    assert len(str(deep)) > 150
    with serving(deep) as serves:
        assert request_start(serves.cluster, ["node-1"]) == {"node-1": "ready"}
        assert serves.cluster.waiting == [("node-1", "for controllers")], "whoever runs the cluster reports it"


def test_waiting_for_readiness_ends_when_it_is_interrupted(tmp_path: Path) -> None:
    wakeup, waker = os.pipe()
    slow, writer = os.pipe()
    os.write(waker, b"\0")
    assert readiness.wait_all([("node-1", slow)], 60, wakeup) == {"node-1": "late"}
    assert os.read(wakeup, 1) == b"\0"
    for fd in (wakeup, waker, writer):
        os.close(fd)
