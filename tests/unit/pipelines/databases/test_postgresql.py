"""PostgreSQL as a source and as a sink, without Spark, on a real server."""

import datetime
import decimal
import json
import threading
import uuid
from collections.abc import Iterator
from contextlib import closing

import psycopg
import pyarrow as pa
import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable
from pyspark.sql.types import LongType, StringType, StructField, StructType, TimestampType

from kvorum.pipelines.databases.dialect import DatabaseError, Dialect
from kvorum.pipelines.databases.url import dialect_of
from kvorum.pipelines.sinks.jdbc import DELETED, Table, create_table, write_rows
from kvorum.pipelines.sources.jdbc import MESSAGE, ROW, JdbcSourceOptions, JdbcStream, JdbcStreamReader
from tests.unit.pipelines.cdc.conftest import Server, postgresql
from tests.unit.pipelines.databases.attempts import insert_at_once

__all__ = ["postgresql"]  # the fixture
ALL = ReadAllAvailable()


@pytest.fixture
def url(postgresql: Server) -> Iterator[str]:
    name = f"t{uuid.uuid4().hex[:8]}"
    with postgresql.connect() as connection:
        connection.execute(f"CREATE DATABASE {name}".encode())
    yield f"jdbc:postgresql://127.0.0.1:{postgresql.port}/{name}?user=kvorum"


def execute(url: str, *statements: str) -> list[tuple[object, ...]]:
    with closing(dialect_of(url).connect()) as connection, closing(connection.cursor()) as cursor:
        for statement in statements:
            cursor.execute(statement)
        found = cursor.fetchmany(1000) if cursor.description else []
        connection.commit()
    return found


def reader(url: str, table: str, mode: str, **more: object) -> JdbcStreamReader:
    given = {"url": url, "mode": mode, "incrementing": "id", "timestamp": "at", "poll_interval_ms": 0, **more}
    given |= {} if "query" in more else {"table": table}
    stream = JdbcStream({"settings": JdbcSourceOptions.model_validate(given).model_dump_json()})
    return stream.streamReader(stream.schema())


def read(reader: JdbcStreamReader, start: dict[str, object], end: dict[str, object]) -> list[dict[str, object]]:
    found = [row for part in reader.partitions(start, end) for batch in reader.read(part) for row in batch.to_pylist()]
    assert [(row.pop(MESSAGE), row.pop(ROW)) for row in found] == [(None, None)] * len(found)
    return found


def test_every_type_comes_as_what_its_column_is(url: str) -> None:
    execute(
        url,
        """CREATE TABLE every (id bigserial PRIMARY KEY, s smallint, i integer, r real, d double precision,
        n numeric(10, 2), free numeric, b boolean, t text, v varchar(5), c bytea, day date, at timestamptz,
        plain timestamp, u uuid, j jsonb, a int[])""",
        """INSERT INTO every VALUES (7, 1, 2, 0.5, 0.25, 1.1, 3.14159, true, 'ä', 'abc', '\\x00ff', '2024-02-29',
        '2024-03-01 12:00:00.123456+02', '2024-03-01 12:00:00', '00000000-0000-0000-0000-000000000001',
        '{"a": [1]}', '{1,2}')""",
        "INSERT INTO every (id) VALUES (8)",
    )
    source = reader(url, "every", "incrementing")
    first, second = read(source, {}, source.latestOffset({}, ALL))
    zone = datetime.UTC
    assert first == {
        "id": 7,
        "s": 1,
        "i": 2,
        "r": 0.5,
        "d": 0.25,
        "n": decimal.Decimal("1.10"),
        "free": "3.14159",
        "b": True,
        "t": "ä",
        "v": "abc",
        "c": b"\x00\xff",
        "day": datetime.date(2024, 2, 29),
        "at": datetime.datetime(2024, 3, 1, 10, 0, 0, 123456, tzinfo=zone),
        "plain": datetime.datetime(2024, 3, 1, 12, tzinfo=zone),
        "u": "00000000-0000-0000-0000-000000000001",
        "j": '{"a": [1]}',
        "a": "{1,2}",
    }
    assert second == {"id": 8, **dict.fromkeys(list(first)[1:])}


@pytest.mark.parametrize("kind", ["timestamp", "timestamptz"])
def test_a_time_keeps_its_microseconds_as_an_offset(url: str, kind: str) -> None:
    execute(
        url,
        f"CREATE TABLE t (id int, at {kind})",
        "INSERT INTO t VALUES (1, '2024-01-01 00:00:00.000001'), (2, '2024-01-01 00:00:00.000002'), (3, NULL)",
    )
    source = reader(url, "t", "timestamp")
    first = json.loads(json.dumps(source.latestOffset({}, ALL)))
    assert [row["id"] for row in read(source, {}, first)] == [1, 2]
    assert source.latestOffset(first, ALL) == first
    execute(url, "UPDATE t SET at = '2024-01-01 00:00:00.000003' WHERE id = 1")
    assert [row["id"] for row in read(source, first, source.latestOffset(first, ALL))] == [1]
    execute(url, "UPDATE t SET at = now() + interval '1 day' WHERE id = 3")
    assert len(read(source, {}, source.latestOffset({}, ALL))) == 2, "what lies ahead is not read yet"


def test_time_and_id_and_a_query_with_a_percent_sign(url: str) -> None:
    execute(
        url,
        "CREATE TABLE t (id int, at timestamptz DEFAULT '2024-01-01', name text)",
        "INSERT INTO t (id, name) VALUES (1, 'ab'), (2, 'b'), (3, 'ac')",
    )
    source = reader(url, "", "timestamp+incrementing", query="SELECT * FROM t WHERE name LIKE 'a%'")
    first = source.latestOffset({}, ALL)
    assert first["incrementing"] == 3 and [row["id"] for row in read(source, {}, first)] == [1, 3]
    execute(url, "INSERT INTO t (id, name) VALUES (4, 'ad')")
    assert [row["id"] for row in read(source, first, source.latestOffset(first, ALL))] == [4]


def test_a_server_that_is_not_there_passes_and_a_table_does_not(url: str) -> None:
    dialect = dialect_of(url)
    with pytest.raises(DatabaseError, match=r"127.0.0.1/x: connection.*refused") as raised:
        dialect_of("postgresql://127.0.0.1:1/x").connect()
    assert isinstance(raised.value.__cause__, psycopg.OperationalError) and dialect.passing(raised.value.__cause__)
    with pytest.raises(DatabaseError, match='relation "nope" does not exist'):
        reader(url, "nope", "bulk")
    execute(url, "CREATE TABLE orders (id int)", "CREATE SCHEMA shop", "CREATE TABLE shop.customers (id int)")
    for name, meant in (
        ("ordres", "orders"),
        ("shop.custmers", "shop.customers"),
        ("sohp.customers", "shop.customers"),
    ):
        with pytest.raises(DatabaseError, match=rf"does not exist(.|\n)*; did you mean '{meant}'\?$"):
            reader(url, name, "bulk")
    with pytest.raises(psycopg.Error) as refused:
        execute(url, "SELECT * FROM nope")
    assert not dialect.passing(refused.value)


SCHEMA = StructType(
    [StructField("id", LongType()), StructField("name", StringType()), StructField("at", TimestampType())]
)


def batch(*rows: tuple[object, ...]) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist([dict(zip((DELETED, "id", "name", "at"), row, strict=True)) for row in rows])


def write(dialect: Dialect, rows: pa.RecordBatch, mark: tuple[str, int] | None = None, upsert: bool = True) -> int:
    table = Table(name="public.out", columns=("id", "name", "at"), keys=("id",), upsert=upsert, batch_rows=100)
    create_table(dialect, table.name, SCHEMA, table.keys)
    (result,) = write_rows(dialect, table, mark)(iter([rows]))
    return int(result.to_pylist()[0]["rows"])


def test_upserts_are_as_once_and_inserts_have_a_mark(url: str) -> None:
    dialect, noon = dialect_of(url), datetime.datetime(2024, 1, 1, 12, tzinfo=datetime.UTC)
    rows = batch((False, 1, "a", noon), (False, 2, "b", None), (False, 1, "c", noon), (True, 2, None, None))
    for _ in range(2):
        write(dialect, rows)
        assert execute(url, "SELECT id, name, at FROM out") == [(1, "c", noon)]
    fresh = batch((False, 10, "x", None))
    assert write(dialect, fresh, ("q", 7), upsert=False) == 1
    assert write(dialect, fresh, ("q", 7), upsert=False) == 0


def test_what_is_read_as_text_is_written_as_the_type_it_was(url: str) -> None:
    """Names of any characters, too."""
    columns = '"the.id" int PRIMARY KEY, "100%" numeric, "s pan" interval, "a""b" int[], j jsonb, m money, u uuid'
    execute(
        url,
        f'CREATE TABLE "t.from" ({columns})',
        f'CREATE TABLE "t.to" ({columns})',
        """INSERT INTO "t.from" VALUES (1, 'NaN', '1 month 2 days', '[0:1]={1,NULL}', '{"n": 1.100000000000000000001}',
        1234.5, gen_random_uuid()), (2, 12345678901234567890123456789.5, NULL, '{}', 'null', -1, NULL)""",
    )
    source = reader(url, '"t.from"', "bulk")
    found = read(source, {"polls": 0}, {"polls": 1})
    table = Table(name='"t.to"', columns=tuple(found[0]), keys=("the.id",), upsert=True, batch_rows=100)
    rows = pa.RecordBatch.from_pylist([{DELETED: False, **row} for row in found])
    for _ in range(2):
        list(write_rows(dialect_of(url), table, None)(iter([rows])))
    assert read(reader(url, '"t.to"', "bulk"), {"polls": 0}, {"polls": 1}) == found
    deleted = pa.RecordBatch.from_pylist([{DELETED: True, **row} for row in found])
    list(write_rows(dialect_of(url), table, None)(iter([deleted])))
    assert execute(url, 'SELECT count(*) FROM "t.to"') == [(0,)]


def test_attempts_at_once_insert_once(url: str) -> None:
    """The second has begun before the first has ended: it waits, and finds that all is in."""
    dialect, rows = dialect_of(url), batch((False, 1, "a", None), (False, 2, "b", None))
    table = Table(name="out", columns=("id", "name", "at"), keys=(), upsert=False, batch_rows=100)
    create_table(dialect, "out", SCHEMA, ())
    assert insert_at_once(dialect, table, rows) == [0, 2]
    assert execute(url, "SELECT count(*) FROM out") == [(2,)]


def test_writers_that_stand_in_each_others_way_come_through(url: str) -> None:
    """Two tasks change the same rows in opposite order: the database ends one of them, which tries again."""
    dialect = dialect_of(url)
    write(dialect, batch((False, 0, "", None)))
    up = batch(*((False, number, "up", None) for number in range(300)))
    down = batch(*((False, number, "down", None) for number in reversed(range(300))))
    threads = [threading.Thread(target=write, args=(dialect, rows)) for rows in (up, down) * 3]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert execute(url, "SELECT count(*) FROM out") == [(300,)]
