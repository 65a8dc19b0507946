"""A pipeline from its file to a topic's records: transforms, bad records, commands, failures; three real nodes."""

import json
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from kvorum.pipelines import plugins
from kvorum.pipelines.plugins import Context, PluginError
from kvorum.pipelines.run import compile as compiling
from kvorum.pipelines.run import control, failures
from kvorum.pipelines.run.process import Launch
from kvorum.pipelines.run.state import Folder, State, Status
from kvorum.pipelines.run.worker import worker_in
from kvorum.pipelines.session.build import Session
from kvorum.pipelines.session.connector import choose
from kvorum.pipelines.sinks.writing import BatchSink, WriteBatch
from kvorum.pipelines.spec import Pipeline, from_data, load
from tests.spark.conftest import TopicFactory
from tests.unit.pipelines.run.topics import consume, produce, values

pytestmark = pytest.mark.long

SECONDS = 300.0
SHIPPED = Path(__file__).parent.parent.parent.parent / "configs" / "pipelines"
SCHEMA = "id BIGINT, name STRING"
GOOD = [(f"k{n}", json.dumps({"id": n, "name": f"n{n}"})) for n in range(5)]
BAD = ("bad", "{not json")


def topic_to_topic(bootstrap: str, source: str, target: str, **more: Any) -> dict[str, Any]:
    return {
        "name": f"p-{source}",
        "source": {
            "type": "topics",
            "bootstrap": bootstrap,
            "topics": [source],
            "key": "string",
            "value": {"format": "json", "schema": SCHEMA},
        },
        "transforms": [{"type": "InsertField$Value", "static.field": "by", "static.value": "kvorum"}],
        "sink": {"type": "topics", "bootstrap": bootstrap, "topic": target, "value": "json"},
        "trigger": "available-now",
        **more,
    }


@contextmanager
def running(spark: SparkSession, data: Mapping[str, Any] | Pipeline, root: Path, **launch: Any) -> Iterator[Folder]:
    """Run a pipeline in a thread, with the session that is there; it is stopped at the end if it still runs."""
    pipeline = data if isinstance(data, Pipeline) else from_data(data)
    folder = Folder(root, pipeline.name)
    session = Session(spark=spark, choice=choose("kvorum", None, {}))
    with worker_in(folder, pipeline, Launch(**launch), lambda: session) as worker:
        thread = threading.Thread(target=worker.run)
        thread.start()
        try:
            yield folder
        finally:
            worker.stop_requested = True
            thread.join(SECONDS)
            assert not thread.is_alive()


def until(folder: Folder, fits: Callable[[Status], bool]) -> Status:
    deadline = time.monotonic() + SECONDS
    while True:
        status = folder.status()
        assert status is not None
        if fits(status) or time.monotonic() > deadline:
            assert fits(status), status
            return status
        time.sleep(0.05)


def run(spark: SparkSession, data: Mapping[str, Any], root: Path, **launch: Any) -> Status:
    """Run a pipeline to its end."""
    with running(spark, data, root, **launch) as folder:
        return until(folder, lambda status: status.state in (State.FINISHED, State.FAILED))


def test_bad_records_go_to_the_dead_letter_topic_with_the_failure_in_headers(
    spark: SparkSession, bootstrap: str, make_topic: TopicFactory, tmp_path: Path
) -> None:
    source, target, dead = make_topic(), make_topic(), make_topic()
    produce(bootstrap, source, *GOOD[:2], BAD, *GOOD[2:])
    errors = {"tolerance": "dead-letter", "topic": dead}
    data = topic_to_topic(bootstrap, source, target, errors=errors)
    status = run(spark, data, tmp_path)
    assert status.state is State.FINISHED, status.trace
    assert (status.progress["records_in"], status.progress["lag"]) == (6, 0)
    assert values(consume(bootstrap, target, 5)) == [
        json.dumps({"id": n, "name": f"n{n}", "by": "kvorum"}, separators=(",", ":")) for n in range(5)
    ]
    (letter,) = consume(bootstrap, dead, 1)
    assert (letter.key(), letter.value()) == (b"bad", b"{not json")
    headers = {key.removeprefix("__connect.errors."): value.decode() for key, value in letter.headers() or ()}
    message = headers.pop("exception.message")
    assert message and headers.pop("exception.stacktrace").endswith(message)
    assert headers == {
        "topic": source,
        "partition": "0",
        "offset": "2",
        "connector.name": data["name"],
        "task.id": "0",
        "stage": "VALUE_CONVERTER",
        "exception.class.name": "org.apache.kafka.connect.errors.DataException",
    }


@pytest.mark.parametrize("kind", ["files", "file-stream", "jdbc", "topics"])
def test_dead_letters_are_written_by_the_query_of_the_sink(
    spark: SparkSession,
    bootstrap: str,
    make_topic: TopicFactory,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    kind: str,
) -> None:
    """Each record is read once. A failure between the two sinks repeats the micro-batch, and writes nothing twice."""
    source, dead, target = make_topic(), make_topic(), make_topic()
    produce(bootstrap, source, *GOOD, BAD)
    out = tmp_path / "out"
    sinks: Mapping[str, Mapping[str, Any]] = {
        "files": {"path": str(out), "format": "parquet", "partition_by": ["by"]},
        "file-stream": {"file": str(out)},
        "jdbc": {"url": f"sqlite:///{out}", "table": "t", "insert.mode": "insert", "pk.mode": "none"},
        "topics": {"topic": target, "bootstrap": f"{bootstrap},{bootstrap}", "value": "json"},  # as another cluster
    }
    options = {"auto.create": True} if kind == "jdbc" else {}
    errors = {"tolerance": "dead-letter", "topic": dead, "headers": False, "bootstrap": bootstrap}
    data = topic_to_topic(bootstrap, source, "", sink={"type": kind, **sinks[kind], **options}, errors=errors)
    sink_class: Any = type(plugins.sink(kind))
    writer, failing = sink_class.writer, [True]

    def failing_writer(self: BatchSink, frame: DataFrame, options: Any, context: Context, *folder: str) -> WriteBatch:
        write: WriteBatch = writer(self, frame, options, context, *folder)

        def write_or_fail(batch: DataFrame, batch_id: int) -> None:
            """Fail before the first micro-batch is written, and after the second."""
            if batch_id or not failing:
                write(batch, batch_id)
            if failing:
                failing.pop()
                raise RuntimeError("_ALL_BROKERS_DOWN")

        return write if context.name.endswith("-dead-letters") else write_or_fail

    monkeypatch.setattr(sink_class, "writer", failing_writer)
    monkeypatch.setattr(failures, "PAUSE_SECONDS", 0.01)
    status = run(spark, data, tmp_path)
    assert (status.state, status.restarts, status.progress["records_in"]) == (State.FINISHED, 1, 6), status.trace
    failing.append(True)
    produce(bootstrap, source, ("k5", json.dumps({"id": 5, "name": "n5"})), BAD)
    status = run(spark, data, tmp_path)
    assert (status.state, status.restarts, status.progress["records_in"]) == (State.FINISHED, 1, 2), status.trace
    match kind:
        case "files":
            found = [row.asDict() for row in spark.read.parquet(str(out)).collect()]
        case "file-stream":
            found = [json.loads(line) for line in out.read_text(encoding="utf-8").splitlines()]
        case "jdbc":
            with closing(sqlite3.connect(out)) as connection:
                rows = connection.execute('SELECT "id", "name", "by" FROM "t"').fetchall()
            found = [dict(zip(("id", "name", "by"), row, strict=True)) for row in rows]
        case _:
            found = [json.loads(value) for value in values(consume(bootstrap, target, 6))]
    wanted = [{"id": n, "name": f"n{n}", "by": "kvorum"} for n in range(6)]
    assert sorted(found, key=lambda row: row["id"]) == wanted
    letters = consume(bootstrap, dead, 2)
    assert [(letter.value(), letter.headers()) for letter in letters] == [(b"{not json", None)] * 2


def test_a_checkpoint_is_continued_with_its_connector(
    spark: SparkSession, bootstrap: str, make_topic: TopicFactory, tmp_path: Path
) -> None:
    source = make_topic()
    pipeline = from_data(topic_to_topic(bootstrap, source, make_topic()))
    context = compiling.context_of(pipeline, str(tmp_path / "checkpoint"), "kvorum")
    assert compiling.connector_of(spark, pipeline, context) == "kvorum"
    other = replace(context, connector="spark")
    assert compiling.connector_of(spark, pipeline, other) == "kvorum", "auto takes the checkpoint's"
    with pytest.raises(PluginError, match="was written with connector kvorum; set connector: kvorum, or use a new"):
        compiling.connector_of(spark, pipeline.model_copy(update={"connector": "spark"}), other)
    other = replace(other, checkpoint=str(tmp_path / "other"))
    assert compiling.connector_of(spark, pipeline, other) == "spark"
    with pytest.raises(PluginError, match="was written with connector spark"):
        compiling.connector_of(spark, pipeline, replace(other, connector="kvorum"))


@pytest.mark.parametrize("tolerance", ["skip", "fail"])
def test_a_bad_record_is_left_out_or_fails_the_pipeline_at_once(
    spark: SparkSession, bootstrap: str, make_topic: TopicFactory, tmp_path: Path, tolerance: str
) -> None:
    source, target = make_topic(), make_topic()
    produce(bootstrap, source, BAD, *GOOD)
    status = run(spark, topic_to_topic(bootstrap, source, target, errors={"tolerance": tolerance}), tmp_path)
    if tolerance == "skip":
        assert status.state is State.FINISHED and len(consume(bootstrap, target, 5)) == 5
    else:
        assert status.state is State.FAILED and status.restarts == 0
        assert "VALUE_CONVERTER: org.apache.kafka.connect.errors.DataException" in str(status.trace)
        assert f"(record {source}-0 at offset 0)" in str(status.trace)
        assert consume(bootstrap, target, 0) == []


def test_a_pipeline_is_paused_goes_on_and_is_stopped(
    spark: SparkSession, bootstrap: str, make_topic: TopicFactory, tmp_path: Path
) -> None:
    source, target = make_topic(), make_topic()
    data = topic_to_topic(bootstrap, source, target, trigger="100ms")
    produce(bootstrap, source, *GOOD)
    with running(spark, data, tmp_path) as folder:
        status = until(folder, lambda status: status.progress.get("records_in") == 5)
        assert status.state is State.RUNNING and status.connector
        assert len(consume(bootstrap, target, 5)) == 5
        assert control.ask(tmp_path, folder.name, "pause")["state"] == "PAUSED"
        produce(bootstrap, source, *GOOD)
        assert len(consume(bootstrap, target, 5)) == 5, "nothing comes while it is paused"
        assert control.ask(tmp_path, folder.name, "resume")["wanted"] == "RUNNING"
        assert len(consume(bootstrap, target, 10)) == 10
        until(folder, lambda status: status.progress["records_in"] == 10 and status.progress["lag"] == 0)
        found = control.ask(tmp_path, folder.name, "offsets")
        assert "10" in json.dumps(found["sources"])
        assert control.ask(tmp_path, folder.name, "stop")["state"] == "STOPPED"
    final = folder.status()
    assert final is not None and final.state is State.STOPPED
    assert run(spark, {**data, "trigger": "available-now"}, tmp_path).progress["records_in"] == 0
    assert len(consume(bootstrap, target, 10)) == 10


def test_a_pipeline_started_paused_waits(
    spark: SparkSession, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    data = {
        "name": "waiting",
        "source": {"type": "generator", "rate": 3, "per_batch": True, "count": 3},
        "sink": {"type": "console"},
        "trigger": "available-now",
    }
    with running(spark, data, tmp_path, paused=True) as folder:
        until(folder, lambda status: status.state is State.PAUSED)
        assert '"id":' not in capfd.readouterr().out
        control.ask(tmp_path, "waiting", "resume")
        until(folder, lambda status: status.state is State.FINISHED)
    assert capfd.readouterr().out.count('"id":') == 3


def test_the_first_pipeline_of_the_docs_prints_its_ten_records(
    spark: SparkSession, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    with running(spark, load(SHIPPED / "first.yaml"), tmp_path) as folder:
        # Batches go on, with nothing new in them: whoever looks late sees what they were asked for counted as well.
        until(folder, lambda status: status.progress.get("records_in", 0) >= 10)
        assert control.ask(tmp_path, "first", "stop")["state"] == "STOPPED"
    assert capfd.readouterr().out.count('"greeting":"hello"') == 10


def test_a_failure_that_passes_is_tried_again_and_one_that_lasts_is_not(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = {
        "name": "again",
        "source": {"type": "generator", "rate": 1, "per_batch": True, "count": 1},
        "sink": {"type": "console"},
        "trigger": "available-now",
    }
    start, left = compiling.start, [RuntimeError("_ALL_BROKERS_DOWN"), RuntimeError("Connection refused")]

    def failing(*arguments: Any) -> Any:
        if left:
            raise left.pop()
        return start(*arguments)

    monkeypatch.setattr(compiling, "start", failing)
    monkeypatch.setattr(failures, "PAUSE_SECONDS", 0.01)
    status = run(spark, data, tmp_path)
    assert (status.state, status.restarts, status.trace) == (State.FINISHED, 2, None)
    left[:] = [RuntimeError("_ALL_BROKERS_DOWN")] * 3
    status = run(spark, data, tmp_path, retries=2)
    assert (status.state, status.restarts) == (State.FAILED, 2) and "_ALL_BROKERS_DOWN" in str(status.trace)
    left[:] = [ValueError("pk.fields")]
    status = run(spark, data, tmp_path)
    assert (status.state, status.restarts) == (State.FAILED, 0)


@pytest.mark.parametrize(
    ("source", "sink", "line"),
    [
        (
            {"type": "jdbc", "url": "sqlite:{}/shop.db", "table": "ordres", "mode": "bulk"},
            {"type": "console"},
            "source jdbc: {}/shop.db: no such table: ordres; did you mean 'orders'?",
        ),
        (
            {"type": "generator", "rate": 1, "per_batch": True, "count": 1},
            {"type": "jdbc", "url": "sqlite:{}/shop.db", "table": "nosuch", "pk.fields": "id"},
            "sink jdbc: OperationalError: no such table: nosuch",
        ),
    ],
    ids=["a data source of Python's", "a batch written by Python"],
)
def test_a_failure_comes_down_to_one_line(
    spark: SparkSession, tmp_path: Path, source: dict[str, Any], sink: dict[str, Any], line: str
) -> None:
    with closing(sqlite3.connect(tmp_path / "shop.db")) as shop:
        shop.execute("CREATE TABLE orders (id INTEGER PRIMARY KEY)")
    for end in (source, sink):
        end.update({"url": end["url"].format(tmp_path)} if "url" in end else {})
    data = {"name": "one-line", "source": source, "sink": sink, "trigger": "available-now"}
    status = run(spark, data, tmp_path, retries=0)
    assert (status.state, status.reason) == (State.FAILED, line.format(tmp_path))
    assert "Traceback" in str(status.trace)


def test_a_schema_may_change_between_runs(spark: SparkSession, tmp_path: Path) -> None:
    """Each run reads on where the last one stood, with the schema of its own file."""
    (tmp_path / "in").mkdir()

    def out(schema: str, *records: dict[str, Any]) -> list[dict[str, Any]]:
        number = len(list((tmp_path / "in").iterdir()))
        (tmp_path / "in" / str(number)).write_text("".join(json.dumps(each) + "\n" for each in records))
        data = {
            "name": "changing",
            "source": {"type": "files", "path": str(tmp_path / "in"), "value": {"format": "json", "schema": schema}},
            "sink": {"type": "files", "path": str(tmp_path / "out"), "format": "text", "value": "json"},
            "trigger": "available-now",
        }
        status = run(spark, data, tmp_path)
        assert status.state is State.FINISHED and status.progress["records_in"] == len(records), status.trace
        rows = spark.read.text(str(tmp_path / "out")).collect()
        return sorted((json.loads(row.value) for row in rows), key=lambda each: int(each["id"]))

    old, new = {"id": 1, "name": "a"}, {"id": 3, "name": "c", "city": "x"}
    assert out("id BIGINT, name STRING", old) == [old]
    added = out("id BIGINT, name STRING, city STRING", {**old, "id": 2}, new)
    assert added == [old, {**old, "id": 2, "city": None}, new]
    removed = out("id BIGINT, city STRING", {"id": 4, "city": "y"}, {**new, "id": 5})
    assert removed == [*added, {"id": 4, "city": "y"}, {"id": 5, "city": "x"}]
