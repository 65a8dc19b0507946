"""Queries whose Python worker started too late are started again, as long as there are attempts left."""

import threading
from typing import Any

import pytest

from kvorum.pipelines.session.late_workers import ATTEMPTS_MAX, MESSAGE
from kvorum.pipelines.streams import State, Streams, StreamsBuilder, StreamsConfig, run

DEADLINE_SECONDS = 30


class Query:
    def __init__(self, error: Exception | None) -> None:
        self.error, self.name = error, "app-out"
        self.isActive = error is None

    def exception(self) -> Exception | None:
        return self.error

    def stop(self) -> None:
        self.isActive = False


class Topics:
    """Starts queries that fail with the given errors, one after the other."""

    def __init__(self, *errors: Exception | None) -> None:
        self.errors, self.started = list(errors), 0
        self.is_enough = threading.Event()

    def create_internal(self, queries: Any) -> None:
        pass

    def write(self, frame: Any, query: Any, trigger: Any) -> Query:
        self.started += 1
        made = Query(self.errors.pop(0))
        if not self.errors:
            self.is_enough.set()
        return made


def started(monkeypatch: pytest.MonkeyPatch, topics: Topics) -> Streams:
    monkeypatch.setattr(run, "WATCH_SECONDS", 0.001)
    monkeypatch.setattr(run.Compiler, "compile", lambda self, query: None)
    monkeypatch.setattr(Streams, "_topics", lambda self: topics)
    builder = StreamsBuilder()
    builder.stream("in").to("out", named="out")
    config = StreamsConfig(application_id="app", bootstrap_servers="b:9092", state_dir="/nowhere")
    streams = Streams(builder.build(), config)
    streams.start()
    return streams


def test_a_query_with_a_late_worker_is_restarted(monkeypatch: pytest.MonkeyPatch) -> None:
    late = RuntimeError(f"[X] {MESSAGE}.")
    topics = Topics(late, late, None)
    streams = started(monkeypatch, topics)
    assert topics.is_enough.wait(DEADLINE_SECONDS)
    assert not streams.await_termination(0)
    streams.close()
    assert (topics.started, streams.state()) == (3, State.NOT_RUNNING)


def test_a_query_is_started_a_limited_number_of_times(monkeypatch: pytest.MonkeyPatch) -> None:
    topics = Topics(*[RuntimeError(MESSAGE)] * ATTEMPTS_MAX)
    streams = started(monkeypatch, topics)
    with pytest.raises(RuntimeError, match=MESSAGE):
        streams.await_termination(DEADLINE_SECONDS)
    assert (topics.started, streams.state()) == (ATTEMPTS_MAX, State.ERROR)


def test_another_failure_ends_the_application(monkeypatch: pytest.MonkeyPatch) -> None:
    topics = Topics(RuntimeError("disk full"))
    with pytest.raises(RuntimeError, match="disk full"):
        started(monkeypatch, topics).await_termination(DEADLINE_SECONDS)
    assert topics.started == 1
