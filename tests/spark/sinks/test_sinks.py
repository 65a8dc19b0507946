"""Sinks through Spark: what each leaves behind, also when a micro-batch comes twice."""

import json
import shutil
import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pydantic import ValidationError
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from kvorum.pipelines import plugins
from kvorum.pipelines.frames import record_frame
from kvorum.pipelines.plugins import Context, Trigger

pytestmark = pytest.mark.long

SECONDS = 240
"""A limit, for a machine with much else to do."""

ROWS_OF_A_BATCH = "spark.sql.execution.arrow.maxRecordsPerBatch"
ALL = Trigger(arguments={"availableNow": True})


def lines(spark: SparkSession, folder: Path, *values: Mapping[str, Any] | None) -> DataFrame:
    """Return a stream of records made of files: key {id}, value the fields of `values` (None: a tombstone of id 1)."""
    folder.mkdir(exist_ok=True)
    text = "\n".join(json.dumps({"value": value, "key": {"id": (value or {"id": 1})["id"]}}) for value in values)
    (folder / f"{len(list(folder.iterdir()))}.json").write_text(text)
    schema = "key STRUCT<id: BIGINT>, value STRUCT<id: BIGINT, name: STRING, price: DECIMAL(10, 2), at: TIMESTAMP>"
    rows = spark.readStream.schema(schema).json(str(folder))
    return record_frame(rows, topic=F.lit("t"), partition=F.lit(0), offset=F.lit(7))


def write(frame: DataFrame, kind: str, options: Mapping[str, Any], checkpoint: Path, **context: Any) -> None:
    sink = plugins.sink(kind)
    given = Context(name="p", checkpoint=str(checkpoint), trigger=ALL, **context)
    query = sink.write(frame, sink.Options.model_validate(options), given)
    assert query is not None and query.name == "p"
    query.awaitTermination(SECONDS)
    assert not query.isActive and query.exception() is None


def forget_last(checkpoint: Path) -> None:
    """Leave the checkpoint as a kill between the sink's last step and the commit would."""
    last = max((path for path in (checkpoint / "commits").iterdir() if path.name.isdigit()), key=lambda p: int(p.name))
    last.unlink()
    (checkpoint / "commits" / f".{last.name}.crc").unlink(missing_ok=True)


def query(path: Path, statement: str) -> list[tuple[Any, ...]]:
    with closing(sqlite3.connect(path)) as connection:
        return connection.execute(statement).fetchall()


ONE = {"id": 1, "name": "one", "price": 1.1, "at": "2024-01-01T12:00:00Z"}
TWO = {"id": 2, "name": "zwei", "price": None, "at": None}


@pytest.mark.parametrize("file_format", ["json", "csv", "parquet"])
def test_files_hold_each_record_once(spark: SparkSession, tmp_path: Path, file_format: str) -> None:
    options = {"path": str(tmp_path / "out"), "format": file_format, "include": ["offset"], "partition_by": ["id"]}
    frame = lines(spark, tmp_path / "in", ONE, TWO, None)
    write(frame, "files", options, tmp_path / "checkpoint")
    forget_last(tmp_path / "checkpoint")
    write(frame, "files", options, tmp_path / "checkpoint")
    schema = "name STRING, price DECIMAL(10, 2), at TIMESTAMP, offset BIGINT, id BIGINT"
    found = spark.read.format(file_format).schema(schema).load(str(tmp_path / "out"))
    assert sorted((row.id, row.name, row.offset) for row in found.collect()) == [(1, "one", 7), (2, "zwei", 7)]
    assert (tmp_path / "out" / "id=1").is_dir()


def test_text_files_hold_values_as_lines(spark: SparkSession, tmp_path: Path) -> None:
    frame = lines(spark, tmp_path / "in", ONE)
    write(frame, "files", {"path": str(tmp_path / "out"), "format": "text"}, tmp_path / "checkpoint")
    (row,) = spark.read.text(str(tmp_path / "out")).collect()
    assert json.loads(row.value)["name"] == "one"


def jdbc(path: Path, **more: Any) -> dict[str, Any]:
    return {"url": f"sqlite:{path}", "table": "orders", "auto.create": True, "pk_fields": ["id"], **more}


def test_upserts_and_deletes_are_as_once(spark: SparkSession, tmp_path: Path) -> None:
    path = tmp_path / "out.db"
    options = jdbc(path, **{"pk.mode": "record_key", "delete.enabled": True})
    frame = lines(spark, tmp_path / "in", {**ONE, "name": "old"}, TWO, ONE)
    write(frame, "jdbc", options, tmp_path / "checkpoint")
    forget_last(tmp_path / "checkpoint")
    write(frame, "jdbc", options, tmp_path / "checkpoint")
    assert query(path, "SELECT * FROM orders ORDER BY id") == [
        (1, "one", 1.1, "2024-01-01 12:00:00"),
        (2, "zwei", None, None),
    ]
    write(lines(spark, tmp_path / "in", None), "jdbc", options, tmp_path / "checkpoint")
    assert query(path, "SELECT id FROM orders") == [(2,)]


def test_inserts_are_exactly_once_over_a_replay_and_begin_anew_with_a_checkpoint(
    spark: SparkSession, tmp_path: Path
) -> None:
    path, checkpoint = tmp_path / "out.db", tmp_path / "checkpoint"
    options = jdbc(path, **{"insert.mode": "insert", "pk.mode": "none", "pk_fields": []})
    frame = lines(spark, tmp_path / "in", ONE, ONE)
    write(frame, "jdbc", options, checkpoint)
    forget_last(checkpoint)
    write(frame, "jdbc", options, checkpoint)
    assert query(path, "SELECT count(*) FROM orders") == [(2,)]
    shutil.rmtree(checkpoint)
    write(frame, "jdbc", options, checkpoint)
    assert query(path, "SELECT count(*) FROM orders") == [(4,)]


def test_inserts_of_rows_that_end_in_the_middle_are_undone(spark: SparkSession, tmp_path: Path) -> None:
    """A step before the sink fails between two of its batches: what had come by then is not the micro-batch."""
    path, checkpoint, fault = tmp_path / "out.db", tmp_path / "checkpoint", tmp_path / "fault"
    options = jdbc(path, **{"insert.mode": "insert", "pk.mode": "none", "pk_fields": []})
    rows = lines(spark, tmp_path / "in", *({**TWO, "id": number, "name": "x" * 1_000} for number in range(2_000)))

    def step(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for number, batch in enumerate(batches):
            if number == 12 and fault.exists():
                raise OSError("as if a broker had gone")
            yield batch

    frame = rows.mapInArrow(step, rows.schema)
    fault.touch()
    spark.conf.set(ROWS_OF_A_BATCH, "100")  # a hundred of these rows are more than Spark keeps back (spark.buffer.size)
    try:
        with pytest.raises(StreamingQueryException):
            write(frame, "jdbc", options, checkpoint)
        fault.unlink()
        write(frame, "jdbc", options, checkpoint)
    finally:
        spark.conf.unset(ROWS_OF_A_BATCH)
    assert query(path, "SELECT count(*), count(DISTINCT id) FROM orders") == [(2_000, 2_000)]


def test_kafkas_coordinates_can_be_the_key(spark: SparkSession, tmp_path: Path) -> None:
    path = tmp_path / "out.db"
    options = jdbc(path, **{"pk.mode": "kafka", "pk_fields": []})
    write(lines(spark, tmp_path / "in", ONE, TWO), "jdbc", options, tmp_path / "checkpoint")
    assert query(path, "SELECT __connect_topic, __connect_offset, id FROM orders") == [("t", 7, 2)]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"pk_fields": ["nope"]}, "the value has no nope, but at, id, name, price"),
        ({"pk.mode": "record_key", "pk_fields": ["nope"]}, "the key has no nope, but id"),
    ],
)
def test_a_key_that_is_not_there_is_said(
    spark: SparkSession, tmp_path: Path, options: dict[str, Any], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        write(lines(spark, tmp_path / "in", ONE), "jdbc", jdbc(tmp_path / "x.db", **options), tmp_path / "c")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"insert.mode": "upsert", "pk.mode": "none"}, "upsert needs a key"),
        ({"delete.enabled": True}, "delete.enabled requires pk.mode record_key"),
        ({"table": "${topic}"}, "one table per pipeline"),
        ({"pk_fields": ""}, "requires pk.fields"),
    ],
)
def test_options_that_do_not_fit_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        plugins.sink("jdbc").Options.model_validate(jdbc(Path("x"), **options))


def test_the_console_shows_lines_of_json(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write(lines(spark, tmp_path / "in", ONE, TWO), "console", {"rows": 1}, tmp_path / "checkpoint")
    first, second = capsys.readouterr().out.splitlines()
    assert json.loads(first)["value"]["name"] == "one" and json.loads(first)["topic"] == "t"
    assert second == "... batch 0 has more than 1 records"
