"""Several pipelines in one process: commands to it, and its end."""

import contextlib
import queue
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from kvorum.pipelines.run import host as module
from kvorum.pipelines.run import worker as worker_module
from kvorum.pipelines.run.control import Request
from kvorum.pipelines.run.host import STOP, Host
from kvorum.pipelines.run.process import Launch
from kvorum.pipelines.run.state import Folder, StateError
from kvorum.pipelines.session.build import Session
from kvorum.pipelines.session.machine import MachineError
from kvorum.pipelines.spec import from_data

SECONDS = 30.0


class FakeWorker:
    """Runs until it is stopped, or fails at once."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.stop_requested = False
        self.goes_on = threading.Event()

    def run(self) -> None:
        while not self.stop_requested and not self.goes_on.wait(0.01):
            pass


class Fixture:
    """A host in a thread of its own, and what it started."""

    def __init__(self, root: Path) -> None:
        self.requests: queue.Queue[Request] = queue.Queue(16)
        self.workers: dict[str, FakeWorker] = {}
        self.host = Host(root, Launch())
        self.thread = threading.Thread(target=self.host.run, args=(self.requests,))
        self.thread.start()

    def ask(self, command: str, name: str = "") -> dict[str, Any]:
        request = Request(command, name)
        self.requests.put(request)
        return request.answer.get(timeout=SECONDS)

    def is_over(self) -> bool:
        self.thread.join(SECONDS)
        return not self.thread.is_alive()


@pytest.fixture
def start_host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[], Fixture]]:
    """Return a function that starts a host whose workers do nothing."""
    found: list[Fixture] = []

    @contextlib.contextmanager
    def worker_in(folder: Folder, pipeline: str, launch: Launch, open_session: Callable[[], Session]) -> Iterator[Any]:
        if pipeline == "taken":
            raise StateError("pipeline 'taken' is already running")
        worker = found[0].workers[pipeline] = FakeWorker(pipeline)
        yield worker

    monkeypatch.setattr(module, "load", lambda path: path.parent.name)
    monkeypatch.setattr(worker_module, "worker_in", worker_in)

    def start() -> Fixture:
        for name in ("a", "b", "taken"):
            (tmp_path / name).mkdir()
        found.append(Fixture(tmp_path))
        return found[0]

    yield start
    for each in found:
        each.requests.put(STOP)
        assert each.is_over()


def test_pipelines_start_and_end_one_by_one(start_host: Callable[[], Fixture]) -> None:
    fixture = start_host()
    assert fixture.ask("start", "a")["pipelines"] == ["a"]
    assert fixture.ask("start", "b")["pipelines"] == ["a", "b"]
    assert fixture.ask("start", "taken") == {"error": "pipeline 'taken' is already running"}
    fixture.workers["a"].goes_on.set()
    fixture.host.threads[0].join(SECONDS)
    assert not fixture.workers["b"].stop_requested
    assert fixture.ask("start", "a")["pipelines"] == ["a", "b"]


def test_a_stop_ends_all_of_them(start_host: Callable[[], Fixture]) -> None:
    fixture = start_host()
    for name in ("a", "b"):
        fixture.ask("start", name)
    fixture.requests.put(STOP)
    assert fixture.is_over() and all(worker.stop_requested for worker in fixture.workers.values())


def test_more_pipelines_than_commands_that_may_wait_are_stopped(
    start_host: Callable[[], Fixture], monkeypatch: pytest.MonkeyPatch
) -> None:
    fixture = start_host()
    monkeypatch.setattr(module, "log_of", lambda folder: contextlib.nullcontext())
    names = [f"p{number}" for number in range(3 * fixture.requests.maxsize)]
    for name in names:
        fixture.ask("start", name)
    assert fixture.host.status()["pipelines"] == sorted(names)
    fixture.requests.put(STOP)
    assert fixture.is_over() and fixture.host.status()["pipelines"] == []


def fake_session() -> Any:
    spark = SimpleNamespace(sparkContext=SimpleNamespace(setLocalProperty=lambda key, value: None), stop=lambda: None)
    spark.newSession = lambda: spark
    return SimpleNamespace(spark=spark, choice=None)


PIPELINE = from_data({"name": "a", "source": {"type": "generator"}, "sink": {"type": "console"}})


def test_spark_starts_for_the_first_pipeline_before_its_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    built: list[str] = []
    monkeypatch.setattr(module, "build", lambda name, wanted: built.append(wanted.connector) or fake_session())
    monkeypatch.setattr(module, "load", lambda path: PIPELINE)
    host = Host(tmp_path, Launch())
    commands: queue.Queue[Request] = queue.Queue()
    commands.put(STOP)
    monkeypatch.setattr(Host, "stop", lambda host: host.threads[0].join(SECONDS))
    host.run(commands, "a")
    assert built == ["auto"]
    host.session(PIPELINE)
    host.session(PIPELINE)
    assert built == ["auto"]


def test_a_failure_to_start_spark_early_is_repeated_for_the_pipeline(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def build(name: str, wanted: object) -> Session:
        raise MachineError("java not found")

    monkeypatch.setattr(module, "build", build)
    host = Host(tmp_path, Launch())
    host.prepare("no spec")
    monkeypatch.setattr(module, "load", lambda path: PIPELINE)
    host.prepare("a")
    with pytest.raises(MachineError, match="java not found"):
        host.session(PIPELINE)


def test_nothing_that_sparks_start_can_wait_for_is_imported_before_it() -> None:
    code = "import sys, kvorum.pipelines.run.host; print(*({'pandas', 'kvorum.pipelines.run.worker'} & {*sys.modules}))"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, check=True).stdout.split() == []


def test_an_unexpected_exception_is_an_answer(
    start_host: Callable[[], Fixture], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "load", lambda path: 1 // 0)
    assert "zero" in start_host().ask("start", "a")["error"]


def test_without_pipelines_the_process_ends(start_host: Callable[[], Fixture], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "IDLE_SECONDS", 0.05)
    assert start_host().is_over()


def test_a_pipeline_is_not_started_in_a_context_that_has_ended(start_host: Callable[[], Fixture]) -> None:
    fixture = start_host()
    fixture.host._shared = SimpleNamespace(spark=None)  # type: ignore[assignment]  # whatever is asked of it raises
    assert fixture.ask("start", "a") == {"error": "the Spark context has ended, and so does its process"}
    assert fixture.is_over()


def test_a_host_that_reads_no_commands_is_killed_after_its_manager_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    killed: list[int] = []
    monkeypatch.setattr(module, "STOP_SECONDS", 0.02)
    monkeypatch.setattr(module.os, "read", lambda descriptor, count: b"")
    monkeypatch.setattr(module.os, "killpg", lambda group, number: killed.append(number))
    monkeypatch.setattr(module.sys, "stdin", SimpleNamespace(fileno=lambda: 0))
    full: queue.Queue[Request] = queue.Queue(1)
    full.put(STOP)
    module.watch_manager(full)
    assert killed == [signal.SIGKILL]
