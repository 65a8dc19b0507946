"""SQLite as a source and as a sink, without Spark: types, positions, rows, and what is written twice."""

import datetime
import decimal
import sqlite3
from contextlib import closing
from math import inf, nan
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows
from pyspark.sql.types import (
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from kvorum.pipelines.databases.dialect import DatabaseError
from kvorum.pipelines.databases.sqlite import Sqlite, spark_type
from kvorum.pipelines.databases.url import dialect_of, postgresql_settings
from kvorum.pipelines.sinks.jdbc import DELETED, Table, create_table, write_rows
from kvorum.pipelines.sources.jdbc import MESSAGE, JdbcSourceOptions, JdbcStream, JdbcStreamReader
from kvorum.pipelines.sources.jdbc import ROW as FAILED_ROW
from tests.unit.pipelines.databases.attempts import insert_at_once

TABLE = """
CREATE TABLE "or ders" (
  id INTEGER PRIMARY KEY, name VARCHAR(20), price DECIMAL(10, 2), weight REAL, paid BOOLEAN, day DATE,
  changed TIMESTAMP, picture BLOB
)"""
ROW = (1, "one", 1.1, 0.5, 1, "2024-02-29", "2024-03-01 12:00:00.250", b"\x00\xff")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "shop.db"
    with closing(sqlite3.connect(path)) as connection:
        connection.execute(TABLE)
        connection.commit()
    return path


def run(path: Path, statement: str, *rows: tuple[object, ...]) -> list[tuple[object, ...]]:
    with closing(sqlite3.connect(path)) as connection:
        if rows:
            connection.executemany(statement, rows)
            found = []
        else:
            found = connection.execute(statement).fetchall()
        connection.commit()
    return found


def insert(path: Path, *rows: tuple[object, ...]) -> None:
    run(path, f'INSERT INTO "or ders" VALUES ({", ".join("?" * len(ROW))})', *rows)


def reader(path: Path, mode: str, **more: object) -> JdbcStreamReader:
    columns = {"incrementing": "id", "timestamp": "changed"}
    table = {} if "query" in more else {"table": "or ders"}
    given = {"url": f"jdbc:sqlite:{path}", "mode": mode, "poll_interval_ms": 0, **columns, **table, **more}
    stream = JdbcStream({"settings": JdbcSourceOptions.model_validate(given).model_dump_json()})
    return stream.streamReader(stream.schema())


def read(reader: JdbcStreamReader, start: dict[str, object], end: dict[str, object]) -> list[dict[str, object]]:
    found = [row for part in reader.partitions(start, end) for batch in reader.read(part) for row in batch.to_pylist()]
    assert [(row.pop(MESSAGE), row.pop(FAILED_ROW)) for row in found] == [(None, None)] * len(found)
    return found


def ids(reader: JdbcStreamReader, start: dict[str, object], end: dict[str, object]) -> list[object]:
    return [row["id"] for row in read(reader, start, end)]


ALL = ReadAllAvailable()


def test_every_type_comes_as_what_its_column_says(path: Path) -> None:
    insert(path, ROW, (2, *[None] * 7))
    source = reader(path, "incrementing")
    first, second = read(source, {}, source.latestOffset({}, ALL))
    assert first == {
        "id": 1,
        "name": "one",
        "price": decimal.Decimal("1.10"),
        "weight": 0.5,
        "paid": True,
        "day": datetime.date(2024, 2, 29),
        "changed": datetime.datetime(2024, 3, 1, 12, 0, 0, 250_000, tzinfo=datetime.UTC),
        "picture": b"\x00\xff",
    }
    assert second == {"id": 2, **dict.fromkeys(list(first)[1:])}


@pytest.mark.parametrize(
    ("declared", "kind"),
    [
        ("BIGINT", LongType()),
        ("varchar(20)", StringType()),
        ("decimal(12,4)", DecimalType(12, 4)),
        ("NUMERIC(5)", DecimalType(5, 0)),
        ("NUMERIC", DoubleType()),
        ("double precision", DoubleType()),
        ("DATETIME", TimestampType()),
        ("timestamp with time zone", TimestampType()),
        ("bool", BooleanType()),
        ("date", DateType()),
        ("BLOB", BinaryType()),
        ("", StringType()),
    ],
)
def test_a_declared_type_is_read_by_name_or_affinity(declared: str, kind: object) -> None:
    assert spark_type(declared) == kind


def test_incrementing_reads_what_is_new_once(path: Path) -> None:
    source = reader(path, "incrementing")
    assert source.latestOffset({}, ALL) == {}
    insert(path, ROW, (5, *ROW[1:]))
    first = source.latestOffset({}, ALL)
    assert first == {"incrementing": 5} and ids(source, {}, first) == [1, 5]
    assert source.latestOffset(first, ALL) == first and source.partitions(first, first) == []
    insert(path, (3, *ROW[1:]), (6, *ROW[1:]))
    second = source.latestOffset(first, ALL)
    assert ids(source, first, second) == [6], "an id below the last one is not new, as with Connect"


def test_a_batch_holds_so_many_rows(path: Path) -> None:
    insert(path, *((number, *ROW[1:]) for number in range(10)))
    source = reader(path, "incrementing", batch_max_rows=4)
    assert source.getDefaultReadLimit() == ReadMaxRows(4)
    offset: dict[str, object] = {}
    sizes = []
    while (end := source.latestOffset(offset, ReadMaxRows(4))) != offset:
        sizes.append(len(ids(source, offset, end)))
        offset = end
    assert sizes == [4, 4, 2]


def test_available_now_reads_what_was_there_when_it_began(path: Path) -> None:
    insert(path, ROW)
    source = reader(path, "incrementing")
    source.prepareForTriggerAvailableNow()
    insert(path, (2, *ROW[1:]))
    end = source.latestOffset({}, ALL)
    assert end == {"incrementing": 1} and source.latestOffset(end, ALL) == end
    empty = reader(path, "incrementing", query='SELECT * FROM "or ders" WHERE id > 50')
    empty.prepareForTriggerAvailableNow()
    insert(path, (99, *ROW[1:]))
    assert empty.latestOffset({}, ALL) == {}


def at(number: int, changed: object) -> tuple[object, ...]:
    return (number, *ROW[1:6], changed, None)


def test_timestamp_reads_changes_and_not_the_future(path: Path) -> None:
    insert(path, at(1, "2024-01-01 00:00:00"), at(2, "2024-01-02 00:00:00"), at(3, "2999-01-01 00:00:00"), at(4, None))
    source = reader(path, "timestamp")
    first = source.latestOffset({}, ALL)
    assert first == {"timestamp": "2024-01-02 00:00:00"} and ids(source, {}, first) == [1, 2]
    run(path, "UPDATE \"or ders\" SET changed = '2024-01-03 00:00:00' WHERE id = 1")
    assert ids(source, first, source.latestOffset(first, ALL)) == [1]


def test_timestamp_and_incrementing_miss_no_row_of_the_same_time(path: Path) -> None:
    same = "2024-01-01 00:00:00"
    insert(path, *(at(number, same) for number in range(1, 6)))
    source = reader(path, "timestamp+incrementing")
    first = source.latestOffset({}, ReadMaxRows(3))
    assert first == {"timestamp": same, "incrementing": 3} and ids(source, {}, first) == [1, 2, 3]
    rest = source.latestOffset(first, ReadMaxRows(3))
    assert ids(source, first, rest) == [4, 5]
    run(path, "UPDATE \"or ders\" SET changed = '2024-01-02 00:00:00' WHERE id = 2")
    assert ids(source, rest, source.latestOffset(rest, ALL)) == [2]


def test_the_first_time_that_is_not_null_counts(path: Path) -> None:
    insert(path, at(1, None), at(2, "2024-01-05 00:00:00"))
    run(path, "UPDATE \"or ders\" SET day = '2024-01-01'")
    source = reader(path, "timestamp", timestamp="changed, day")
    end = source.latestOffset({}, ALL)
    assert end == {"timestamp": "2024-01-05 00:00:00"} and ids(source, {}, end) == [1, 2]


def test_rows_wait_for_the_delay(path: Path) -> None:
    now = datetime.datetime.now(datetime.UTC).replace(tzinfo=None)
    old = (now - datetime.timedelta(hours=2)).isoformat(sep=" ")
    insert(path, at(1, old), at(2, now.isoformat(sep=" ")))
    source = reader(path, "timestamp", timestamp_delay_interval_ms=3_600_000)
    assert source.latestOffset({}, ALL) == {"timestamp": old}


def test_milliseconds_are_times_too(path: Path) -> None:
    insert(path, at(1, 1_700_000_000_123))
    source = reader(path, "timestamp")
    end = source.latestOffset({}, ALL)
    assert end == {"timestamp": 1_700_000_000_123}
    (row,) = read(source, {}, end)
    assert row["changed"] == datetime.datetime(2023, 11, 14, 22, 13, 20, 123_000, tzinfo=datetime.UTC)


def test_an_initial_time_leaves_out_what_was_before(path: Path) -> None:
    insert(path, at(1, "2024-01-01 00:00:00"), at(2, "2024-01-03 00:00:00"))
    source = reader(path, "timestamp+incrementing", timestamp_initial="2024-01-02 00:00:00")
    start = source.initialOffset()
    assert ids(source, start, source.latestOffset(start, ALL)) == [2]


def test_bulk_reads_everything_at_each_poll(path: Path) -> None:
    insert(path, ROW)
    source = reader(path, "bulk", poll_interval_ms=3_600_000)
    start = source.initialOffset()
    first = source.latestOffset(start, ALL)
    assert first != start and ids(source, start, first) == [1]
    assert source.latestOffset(first, ALL) == first, "not before its time"
    again = reader(path, "bulk")
    again.prepareForTriggerAvailableNow()
    end = again.latestOffset(first, ALL)
    assert ids(again, first, end) == [1] and again.latestOffset(end, ALL) == end


def test_a_query_is_a_table(path: Path) -> None:
    insert(path, ROW, (2, *ROW[1:]))
    source = reader(path, "incrementing", query='SELECT id, price * 2 AS twice FROM "or ders";')
    assert read(source, {}, {"incrementing": 1}) == [{"id": 1, "twice": "2.2"}]


def test_what_does_not_exist_is_said(tmp_path: Path, path: Path) -> None:
    with pytest.raises(DatabaseError, match="unable to open database file"):
        Sqlite(str(tmp_path / "none.db")).connect()
    with pytest.raises(DatabaseError, match="there is no column ID2 in"):
        reader(path, "incrementing", incrementing="ID2")
    with pytest.raises(DatabaseError, match="no such table: nope"):
        reader(path, "incrementing", table="nope")
    with pytest.raises(DatabaseError, match=r"no such table: ordres; did you mean 'or ders'\?"):
        reader(path, "incrementing", table="ordres")
    with pytest.raises(DatabaseError, match="unsupported scheme 'mysql'"):
        dialect_of("jdbc:mysql://host/db")
    with pytest.raises(DatabaseError, match="a file is required"):
        dialect_of("sqlite::memory:")


def test_urls_are_jdbcs_or_the_drivers_own() -> None:
    for url in ("jdbc:sqlite:/data/x.db", "sqlite:/data/x.db", "sqlite:////data/x.db"):
        assert dialect_of(url) == Sqlite("/data/x.db")
    jdbc = postgresql_settings("postgresql://db:5433/shop?user=me&ssl=true", None, "secret")
    assert jdbc == {
        "host": "db",
        "port": "5433",
        "dbname": "shop",
        "user": "me",
        "password": "secret",
        "sslmode": "require",
    }
    own = postgresql_settings("postgresql://me:p%40ss@db/shop", None, None)
    assert own == {"host": "db", "dbname": "shop", "user": "me", "password": "p@ss"}


SCHEMA = StructType(
    [StructField("id", LongType()), StructField("name", StringType()), StructField("at", TimestampType())]
)
NOON = datetime.datetime(2024, 1, 1, 12, tzinfo=datetime.UTC)


def batch(*rows: tuple[object, ...]) -> pa.RecordBatch:
    names = (DELETED, "id", "name", "at")
    return pa.RecordBatch.from_pylist([dict(zip(names, row, strict=True)) for row in rows])


def write(path: Path, mark: tuple[str, int] | None, *batches: pa.RecordBatch, upsert: bool = True) -> int:
    dialect = Sqlite(str(path))
    table = Table(name="out", columns=("id", "name", "at"), keys=("id",) if upsert else (), upsert=upsert, batch_rows=2)
    create_table(dialect, "out", SCHEMA, table.keys)
    (result,) = write_rows(dialect, table, mark)(iter(batches))
    return int(result.to_pylist()[0]["rows"])


def test_a_keys_last_row_stands_and_tombstones_delete(path: Path) -> None:
    rows = batch((False, 1, "a", NOON), (False, 2, "b", None), (False, 1, "c", NOON), (True, 2, None, None))
    for _ in range(2):  # twice is as once
        assert write(path, None, rows) == 4
        assert run(path, "SELECT * FROM out") == [(1, "c", "2024-01-01 12:00:00")]


def test_a_new_table_keeps_names_and_every_digit(path: Path) -> None:
    number = decimal.Decimal("12345678901234567890.123456789012345678")
    schema = StructType([StructField("the.id", LongType()), StructField("100%", DecimalType(38, 18))])
    dialect, names = Sqlite(str(path)), tuple(schema.fieldNames())
    table = Table(name='"t.x"', columns=names, keys=("the.id",), upsert=True, batch_rows=2)
    create_table(dialect, table.name, schema, table.keys)
    rows = pa.RecordBatch.from_pylist([{DELETED: False, "the.id": 1, "100%": number}])
    for _ in range(2):
        list(write_rows(dialect, table, None)(iter([rows])))
    source = reader(path, "bulk", table=table.name)
    assert read(source, {"polls": 0}, {"polls": 1}) == [{"the.id": 1, "100%": number}]


def test_a_number_that_sqlite_would_store_as_null_is_rejected(path: Path) -> None:
    run(path, "CREATE TABLE numbers (id INTEGER, n REAL)")
    table = Table(name="numbers", columns=("id", "n"), keys=(), upsert=False, batch_rows=2)
    rows = pa.RecordBatch.from_pylist([{DELETED: False, "id": n, "n": value} for n, value in enumerate((inf, nan))])
    with pytest.raises(DatabaseError, match="column n: a value is not a valid one: NaN, which SQLite would store as"):
        list(write_rows(Sqlite(str(path)), table, None)(iter([rows])))
    assert run(path, "SELECT * FROM numbers") == []


def test_inserts_are_written_once_by_the_mark_of_their_batch(path: Path) -> None:
    rows = batch((False, 1, "a", NOON), (False, 1, "b", NOON), (False, 3, "c", NOON))
    assert write(path, ("q", 0), rows, upsert=False) == 3
    assert write(path, ("q", 0), rows, upsert=False) == 0, "a batch that is replayed is in already"
    assert write(path, ("q", 1), batch((False, 4, "d", None)), upsert=False) == 1
    assert write(path, ("new checkpoint", 0), batch((False, 5, "e", None)), upsert=False) == 1
    assert run(path, "SELECT count(*), count(DISTINCT id) FROM out") == [(5, 4)]


def test_attempts_at_once_insert_once(path: Path) -> None:
    """The second has begun before the first has ended: it waits, and finds that all is in."""
    dialect, rows = Sqlite(str(path)), batch((False, 1, "a", NOON), (False, 2, "b", NOON))
    table = Table(name="out", columns=("id", "name", "at"), keys=(), upsert=False, batch_rows=2)
    create_table(dialect, "out", SCHEMA, ())
    assert insert_at_once(dialect, table, rows) == [0, 2]
    assert run(path, "SELECT count(*) FROM out") == [(2,)]


def test_what_fails_in_the_middle_leaves_nothing_of_its_batch(path: Path) -> None:
    def failing() -> object:
        yield batch((False, 1, "a", NOON))
        raise RuntimeError("killed")

    dialect = Sqlite(str(path))
    table = Table(name="out", columns=("id", "name", "at"), keys=(), upsert=False, batch_rows=2)
    create_table(dialect, "out", SCHEMA, ())
    with pytest.raises(RuntimeError, match="killed"):
        list(write_rows(dialect, table, ("q", 0))(failing()))  # type: ignore[arg-type]
    assert run(path, "SELECT count(*) FROM out") == [(0,)]
    assert write(path, ("q", 0), batch((False, 1, "a", NOON)), upsert=False) == 1


def test_a_lock_passes_and_a_missing_table_does_not(path: Path) -> None:
    dialect = Sqlite(str(path))
    assert dialect.passing(sqlite3.OperationalError("database is locked"))
    assert not dialect.passing(sqlite3.OperationalError("no such table: x"))
