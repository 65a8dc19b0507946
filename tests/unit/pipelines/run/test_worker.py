"""The states of a pipeline's process, without Spark."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from kvorum.pipelines.run import worker as module
from kvorum.pipelines.run.control import Request
from kvorum.pipelines.run.process import Launch
from kvorum.pipelines.run.state import Folder, State
from kvorum.pipelines.run.worker import Worker, worker_in
from kvorum.pipelines.session.build import Session
from kvorum.pipelines.session.connector import Choice
from kvorum.pipelines.spec import from_data

PIPELINE = {
    "name": "numbers",
    "source": {"type": "generator"},
    "sink": {"type": "console"},
}


class FakeQuery:
    """Active until it is stopped or ends by itself."""

    def __init__(self) -> None:
        self.isActive = True
        self.name = "numbers"

    def exception(self) -> None:
        return None

    def stop(self) -> None:
        self.isActive = False


class Compiling:
    """Stands for run/compile.py: each start gives a new query."""

    def __init__(self) -> None:
        self.queries: list[FakeQuery] = []

    def validate(self, pipeline: object) -> None:
        return None

    def context_of(self, *parts: object) -> None:
        return None

    def start(self, *parts: object) -> FakeQuery:
        self.queries.append(FakeQuery())
        return self.queries[-1]


def test_a_resume_right_after_a_pause_starts_the_query_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    compiling = Compiling()
    monkeypatch.setattr(module, "compiling", compiling)
    session = Session(spark=SimpleNamespace(), choice=Choice(connector="kvorum", reason="a test"))  # type: ignore[arg-type]
    looks = 0

    def look(worker: Worker, query: object) -> None:
        nonlocal looks
        looks += 1
        if looks == 1:  # both wait when the worker looks for commands
            worker.requests.put(Request("pause", ""))
            worker.obey(worker.requests.get())
            worker.obey(Request("resume", ""))
        elif looks == 2:
            compiling.queries[-1].isActive = False  # it has read all there was

    monkeypatch.setattr(Worker, "look", look)
    monkeypatch.setattr(Worker, "reach", lambda worker, ends: None)
    progress: Any = SimpleNamespace(look=lambda query: None, data=dict, line=str)
    with worker_in(Folder(tmp_path, "numbers"), from_data(PIPELINE), Launch(), lambda: session) as worker:
        worker.progress = progress
        assert worker.run() == 0
    assert worker.status.state is State.FINISHED
    assert len(compiling.queries) == 2, "the pause stopped the first one"
