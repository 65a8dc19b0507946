"""Sources through Spark: what each gives, and where it goes on."""

import json
import re
import sqlite3
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, Row, SparkSession

from kvorum.pipelines import frames, plugins
from kvorum.pipelines.bridge.layout import Undetermined, layout_of
from kvorum.pipelines.plugins import Context
from tests.spark.late_workers import retry_late_worker

pytestmark = pytest.mark.long

SECONDS = 240
"""A limit, for a machine with much else to do."""


def read(spark: SparkSession, kind: str, options: Mapping[str, Any], **context: Any) -> DataFrame:
    source = plugins.source(kind)
    given = Context(name="p", checkpoint="", **context)
    frame = source.read(spark, source.Options.model_validate(options), given)
    assert frame.isStreaming and tuple(frame.columns)[: len(frames.COLUMNS)] == tuple(frames.COLUMNS)
    return frame


Layout = tuple[int, str] | None


def layout_or_none(frame: DataFrame) -> Layout:
    """Return None for a frame whose rows may be distributed differently by another run."""
    try:
        return layout_of(frame)
    except Undetermined:
        return None


def rows(frame: DataFrame, folder: Path, layouts: list[Layout] | None = None) -> list[Row]:
    """Return what a frame gives up to now, and remember it in the folder's checkpoint."""
    found: list[Row] = []

    def take(batch: DataFrame, _: int) -> None:
        found.extend(batch.collect())
        if layouts is not None:
            layouts.extend([layout_or_none(batch), layout_or_none(batch)])

    writer = frame.writeStream.foreachBatch(take)
    writer = writer.option("checkpointLocation", str(folder / "checkpoint")).trigger(availableNow=True)
    assert retry_late_worker(lambda: writer.start().awaitTermination(SECONDS))
    return found


def test_jdbc_reads_a_table_and_goes_on_where_it_stood(spark: SparkSession, tmp_path: Path) -> None:
    path = tmp_path / "shop.db"
    options = {
        "url": f"jdbc:sqlite:{path}",
        "table": "orders",
        "mode": "incrementing",
        "incrementing.column.name": "id",
        "topic.prefix": "shop-",
        "batch.max.rows": "2",
        "key_columns": ["id"],
    }
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE orders (id INTEGER PRIMARY KEY, topic TEXT, key REAL)")
        connection.executemany("INSERT INTO orders VALUES (?, ?, ?)", [(n, f"n{n}", n / 2) for n in range(1, 6)])
        connection.commit()
        layouts: list[Layout] = []
        first = rows(read(spark, "jdbc", options), tmp_path, layouts)
        assert set(layouts) == {None}, "a changed row keeps its id: such batches are staged"
        assert [row.value.asDict() for row in first] == [{"id": n, "topic": f"n{n}", "key": n / 2} for n in range(1, 6)]
        assert {(row.key.id == row.value.id, row.topic, row.headers) for row in first} == {(True, "shop-orders", None)}
        connection.execute("INSERT INTO orders VALUES (6, 'new', NULL)")
        connection.commit()
    second = rows(read(spark, "jdbc", options), tmp_path)
    assert [tuple(row.value) for row in second] == [(6, "new", None)]


def test_jdbc_rows_that_cannot_be_read_fail_alone(spark: SparkSession, tmp_path: Path) -> None:
    path = tmp_path / "shop.db"
    options = {"url": f"sqlite:{path}", "table": '"my.orders"', "mode": "bulk", "key_columns": ["the.id"]}
    with closing(sqlite3.connect(path)) as connection:
        connection.execute('CREATE TABLE "my.orders" ("the.id" INTEGER PRIMARY KEY, "pa`id" BOOLEAN, "ä b" INTEGER)')
        connection.execute("INSERT INTO \"my.orders\" VALUES (1, 'maybe', 2.5), (2, 1, 3)")
        connection.commit()
    frame = read(spark, "jdbc", options)
    bad, good = rows(frame, tmp_path)
    reason = "column ä b: 2.5: stored as REAL, not an INTEGER (row with the.id 1)"
    assert (bad.value, bad.topic, bad._failure.stage) == (None, "my.orders", frames.VALUE_CONVERTER)
    assert bad._failure.message == f"column pa`id: maybe: TEXT that is not 0, 1, false or true; {reason}"
    assert json.loads(bad._failure.value) == {"the.id": 1, "pa`id": "maybe", "ä b": 2.5}, "for the dead letter"
    assert json.loads(good._origin.value) == {"the.id": 2, "pa`id": True, "ä b": 3}, "if a transform rejects it"
    assert good._failure is None and good.key.asDict() == {"the.id": 2}
    assert good.value.asDict() == {"the.id": 2, "pa`id": True, "ä b": 3}
    with pytest.raises(StreamingQueryException, match=re.escape(reason)):
        rows(frames.first_failed(frame), tmp_path / "fail")
    assert [row.value for row in rows(frames.well(frame), tmp_path / "skip")] == [good.value]


def test_jdbc_by_time_needs_no_staging(spark: SparkSession, tmp_path: Path) -> None:
    path = tmp_path / "shop.db"
    options = {
        "url": f"jdbc:sqlite:{path}",
        "table": "orders",
        "mode": "timestamp+incrementing",
        "incrementing.column.name": "id",
        "timestamp.column.name": "changed",
        "batch.max.rows": "2",
    }
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE orders (id INTEGER PRIMARY KEY, changed TIMESTAMP)")
        connection.executemany("INSERT INTO orders VALUES (?, ?)", [(n, f"2024-01-0{n} 00:00:00") for n in range(1, 6)])
        connection.commit()
    layouts: list[Layout] = []
    assert len(rows(read(spark, "jdbc", options), tmp_path, layouts)) == 5
    assert None not in layouts and layouts[::2] == layouts[1::2], "a replay reads the same"
    assert len({*layouts}) == 3, "each of the three batches reads other rows"


@pytest.mark.parametrize(
    ("file_format", "text", "options", "value"),
    [
        ("text", "a\nb\n", {}, ["a", "b"]),
        ("json", '{"id": 1, "at": "2024-01-01T00:00:00Z"}\n', {}, [{"at": "2024-01-01T00:00:00Z", "id": 1}]),
        ("json", '{"id": 1, "x": 2}\n', {"schema": "id BIGINT"}, [{"id": 1}]),
        (
            "csv",
            "id,name\n7,x\n",
            {"schema": "id INT, name STRING", "header": True},
            [{"id": 7, "name": "x"}],
        ),
    ],
)
def test_files_are_read_once(
    spark: SparkSession, tmp_path: Path, file_format: str, text: str, options: dict[str, Any], value: list[Any]
) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    (folder / "1").write_text(text)
    given = {"path": str(folder), "format": file_format, **options}
    found = [row.value for row in rows(read(spark, "files", given), tmp_path)]
    assert [each.asDict() if isinstance(each, Row) else each for each in found] == value
    assert rows(read(spark, "files", given), tmp_path) == []


BAD_LINES = [
    ("text", b"a\n\xff\nb\n", {}, ["a", "b"], {b"\xff": "string: the bytes are not UTF-8"}),
    (
        "json",
        b'{"id": 1}\n\n{"id": "x"}\nno\n{"id": 2}\n',
        {},
        [1, 2],
        {b'{"id": "x"}': 'json: field id: "x" is not an integer (bigint)', b"no": "json: not JSON at character 0: "},
    ),
    (
        "csv",
        b"1,1.50\n2,1.005\nx\n3,\n",
        {},
        [1, 3],
        {b"2,1.005": "csv: field price: 1.005 is not decimal(4,2)", b"x": "csv: not a line of 2 values: id, price"},
    ),
    (
        "csv",
        b"id,price\n1,1.50\n2,1.005\nx\n3,\n",
        {"header": True},
        [1, 3],
        {b"2,1.005": "csv: field price: 1.005 is not decimal(4,2)", b"x": "csv: not a line of 2 values: id, price"},
    ),
]


@pytest.mark.parametrize(
    ("file_format", "text", "options", "good", "bad"), BAD_LINES, ids=["text", "json", "csv", "header"]
)
def test_lines_that_are_not_of_their_format_fail(
    spark: SparkSession,
    tmp_path: Path,
    file_format: str,
    text: bytes,
    options: dict[str, Any],
    good: list[Any],
    bad: dict[bytes, str],
) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    (folder / "1").write_bytes(text)
    schema = {} if file_format == "text" else {"schema": "id BIGINT, price DECIMAL(4,2)"}
    given = {"path": str(folder), "format": file_format, "topic": "t", **schema, **options}
    found = rows(read(spark, "files", given), tmp_path)
    values = [row.value for row in found if row["_failure"] is None]
    assert [value.id if isinstance(value, Row) else value for value in values] == good
    failed = {bytes(row["_failure"].value): row["_failure"].message for row in found if row["_failure"] is not None}
    assert failed.keys() == bad.keys() and all(failed[line].startswith(reason) for line, reason in bad.items())


def test_parquet_has_its_columns_and_its_time(spark: SparkSession, tmp_path: Path) -> None:
    folder = str(tmp_path / "in")
    spark.sql("SELECT 1 AS id, TIMESTAMP '2024-01-01 00:00:00' AS at").write.parquet(folder)
    options = {"path": folder, "format": "parquet", "timestamp": "at", "topic": "t"}
    frame = read(spark, "files", options)
    (row,) = rows(frame, tmp_path)
    assert (row.value.id, row.topic, row.timestamp) == (1, "t", row.value.at)


def test_the_generator_makes_the_same_records_in_every_run(spark: SparkSession, tmp_path: Path) -> None:
    options = {"rate": 10, "per_batch": True, "count": 7, "keys": 3, "size": 40}
    runs = []
    for run in ("a", "b"):
        frame = read(spark, "generator", options, parallelism=1)
        runs.append([(row.key, row.value.id, row.value.text) for row in rows(frame, tmp_path / run)])
    assert runs[0] == runs[1] and [row[:2] for row in runs[0]] == [(str(n % 3), n) for n in range(7)]
    assert {len(row[2]) for row in runs[0]} == {40} and len({row[2] for row in runs[0]}) == 7


@pytest.mark.parametrize(
    ("kind", "options", "message"),
    [
        ("topics", {"bootstrap": "b"}, "one of topics, pattern and assign"),
        ("topics", {"bootstrap": "b", "topics": ["a"], "topic": "b"}, "Extra inputs"),
        (
            "jdbc",
            {"url": "sqlite:x", "mode": "incrementing", "table": "t"},
            r"needs incrementing \(incrementing.column.name\)",
        ),
        ("jdbc", {"url": "sqlite:x", "mode": "timestamp", "table": "t"}, r"needs timestamp \(timestamp.column.name\)"),
        ("jdbc", {"url": "sqlite:x", "mode": "bulk", "table": "t", "query": "q"}, "either table"),
        ("jdbc", {"url": "sqlite:x", "mode": "bulk", "table": "a,b"}, "one table per pipeline"),
        ("generator", {"rate": 0}, "greater than or equal to 1"),
        ("files", {"path": "x", "format": "xml"}, "Input should be"),
        ("files", {"path": "x", "format": "json", "header": True}, "header is for format csv, not json"),
    ],
)
def test_options_that_do_not_fit_are_refused(kind: str, options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        plugins.source(kind).Options.model_validate(options)
