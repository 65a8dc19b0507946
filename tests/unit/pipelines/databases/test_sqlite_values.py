"""The table of SQLite's declared types and storage classes: a value is read exactly, or its row alone says why not."""

import datetime
import json
import math
import sqlite3
from contextlib import closing
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path

import pytest
from pyspark.sql.types import (
    BinaryType,
    BooleanType,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    LongType,
    StringType,
    TimestampType,
)

from kvorum.pipelines.databases.dialect import DatabaseError, identifier
from kvorum.pipelines.sources.jdbc import MESSAGE, ROW, JdbcSourceOptions, JdbcStream, JdbcStreamReader

UTC = datetime.UTC


@dataclass(frozen=True, slots=True)
class Wrong:
    """The row fails with this reason; `shown` is its value in the dead letter."""

    shown: object
    reason: str


NO_TIME = "not a time of ISO 8601 from year 1 to 9999"
TEXT_FOR_INTEGER = "stored as TEXT, not an INTEGER"
# (the declared type, the value in SQL, the type that it is read as, the value or why there is none)
TABLE: list[tuple[str, str, DataType, object]] = [
    ("INTEGER", "-9223372036854775808", LongType(), -9223372036854775808),
    ("INTEGER", "2.5", LongType(), Wrong(2.5, "stored as REAL, not an INTEGER")),
    ("BIGINT", "9223372036854775808", LongType(), Wrong(9.223372036854775808e18, "stored as REAL, not an INTEGER")),
    ("INT", "'12x'", LongType(), Wrong("12x", TEXT_FOR_INTEGER)),
    ("INT", "x'31'", LongType(), Wrong("x'31'", "stored as BLOB, not an INTEGER")),
    ("REAL", "0.1", DoubleType(), 0.1),
    ("REAL", "2", DoubleType(), 2.0),
    ("REAL", "9e999", DoubleType(), math.inf),
    ("DOUBLE PRECISION", "'1_0'", DoubleType(), Wrong("1_0", "stored as TEXT, not a REAL")),
    ("FLOAT", "'nan'", DoubleType(), Wrong("nan", "stored as TEXT, not a REAL")),
    ("NUMERIC", "9007199254740992", DoubleType(), 9007199254740992.0),
    ("NUMERIC", "9007199254740993", DoubleType(), Wrong(9007199254740993, "stored as INTEGER, not a REAL")),
    ("DECIMAL(10,2)", "1.1", DecimalType(10, 2), Decimal("1.10")),
    ("DECIMAL(10,2)", "7", DecimalType(10, 2), Decimal("7.00")),
    ("DECIMAL(10,2)", "1.005", DecimalType(10, 2), Wrong(1.005, "not a decimal(10,2)")),
    ("DECIMAL(4,2)", "123.4", DecimalType(4, 2), Wrong(123.4, "not a decimal(4,2)")),
    ("DECIMAL(10,2)", "9e999", DecimalType(10, 2), Wrong("inf", "stored as REAL, not a number")),
    ("DECIMAL(10,2)", "'1_0'", DecimalType(10, 2), Wrong("1_0", "stored as TEXT, not a number")),
    ("DECIMAL(38,18)", "12345678901.5", DecimalType(38, 18), Decimal("12345678901.500000000000000000")),
    ("DECIMAL(38,18)", "1e19", DecimalType(38, 18), Decimal("10000000000000000000.000000000000000000")),
    ("TEXT DECIMAL(38,18)", "'12345678901234567890.123456789012345678'", DecimalType(38, 18),
     Decimal("12345678901234567890.123456789012345678")),
    ("DECIMAL(2,5)", "0.5", DoubleType(), 0.5),
    ("BOOLEAN", "0", BooleanType(), False),
    ("BOOLEAN", "1", BooleanType(), True),
    ("BOOLEAN", "'false'", BooleanType(), False),
    ("BOOLEAN", "'True'", BooleanType(), True),
    ("BOOLEAN", "'no'", BooleanType(), Wrong("no", "TEXT that is not 0, 1, false or true")),
    ("BOOLEAN", "2", BooleanType(), Wrong(2, "INTEGER that is not 0, 1, false or true")),
    ("BOOLEAN", "0.5", BooleanType(), Wrong(0.5, "REAL that is not 0, 1, false or true")),
    ("TEXT", "'ä \U0001f600'", StringType(), "ä \U0001f600"),
    ("TEXT", "''", StringType(), ""),
    ("TEXT", "x'616263'", StringType(), Wrong("x'616263'", "stored as BLOB, not TEXT")),
    ("TEXT", "CAST(x'61ff' AS TEXT)", StringType(), Wrong("a\\xff", "stored as TEXT that is not UTF-8, not TEXT")),
    ("VARCHAR(3)", "'longer'", StringType(), "longer"),
    ("JSON", "'{\"n\": 1.10}'", StringType(), '{"n": 1.10}'),
    ("", "5", StringType(), "5"),
    ("", "0.1", StringType(), "0.1"),
    ("", "'5'", StringType(), "5"),
    ("", "x'00'", StringType(), Wrong("x'00'", "stored as BLOB, not TEXT")),
    ("TIME", "'24:00:00'", StringType(), "24:00:00"),
    ("BLOB", "x'00ff'", BinaryType(), b"\x00\xff"),
    ("BLOB", "'abc'", BinaryType(), Wrong("abc", "stored as TEXT, not a BLOB")),
    ("BLOB", "5", BinaryType(), Wrong(5, "stored as INTEGER, not a BLOB")),
    ("DATE", "'2024-02-29'", DateType(), datetime.date(2024, 2, 29)),
    ("DATE", "'2024-02-29 00:00:00'", DateType(), datetime.date(2024, 2, 29)),
    ("DATE", "86400000", DateType(), datetime.date(1970, 1, 2)),
    ("DATE", "'2024-02-29 01:00:00'", DateType(),
     Wrong("2024-02-29 01:00:00", "has a time of day, which a DATE does not have")),
    ("DATE", "'2023-02-29'", DateType(), Wrong("2023-02-29", NO_TIME)),
    ("DATE", "'-4713-11-24'", DateType(), Wrong("-4713-11-24", NO_TIME)),
    ("TIMESTAMP", "'2024-03-01 12:00:00.123456'", TimestampType(),
     datetime.datetime(2024, 3, 1, 12, 0, 0, 123456, tzinfo=UTC)),
    ("TIMESTAMP", "'2024-03-01T12:00:00+02:00'", TimestampType(), datetime.datetime(2024, 3, 1, 10, tzinfo=UTC)),
    ("TIMESTAMP", "'2024-03-01 12:00:00.1234567'", TimestampType(),
     Wrong("2024-03-01 12:00:00.1234567", "finer than microseconds")),
    ("TIMESTAMP", "'2024-03-01 12:00:00.123456000'", TimestampType(),
     datetime.datetime(2024, 3, 1, 12, 0, 0, 123456, tzinfo=UTC)),
    ("TIMESTAMP", "'yesterday'", TimestampType(), Wrong("yesterday", NO_TIME)),
    ("DATETIME", "-62135596800000", TimestampType(), datetime.datetime(1, 1, 1, tzinfo=UTC)),
    ("DATETIME", "253402300799999", TimestampType(),
     datetime.datetime(9999, 12, 31, 23, 59, 59, 999_000, tzinfo=UTC)),
    ("DATETIME", "253402300800000", TimestampType(), Wrong(253402300800000, "not a time from year 1 to 9999")),
    ("DATETIME", "'0001-01-01 00:00:00+01:00'", TimestampType(),
     Wrong("0001-01-01 00:00:00+01:00", "not a time from year 1 to 9999")),
    ("DATETIME", "2460371.5", TimestampType(),  # a Julian day
     Wrong(2460371.5, "stored as REAL, not TEXT (ISO 8601) or an INTEGER (milliseconds)")),
]  # fmt: skip


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "v.db"


def execute(path: Path, *statements: str) -> None:
    with closing(sqlite3.connect(path)) as connection:
        for statement in statements:
            connection.execute(statement)
        connection.commit()


def reader(path: Path, table: str, **more: object) -> JdbcStreamReader:
    given = {"url": f"sqlite:{path}", "table": table, "mode": "bulk", **more}
    stream = JdbcStream({"settings": JdbcSourceOptions.model_validate(given).model_dump_json()})
    return stream.streamReader(stream.schema())


def rows(source: JdbcStreamReader, start: dict[str, object], end: dict[str, object]) -> list[dict[str, object]]:
    return [row for part in source.partitions(start, end) for batch in source.read(part) for row in batch.to_pylist()]


@pytest.mark.parametrize(("declared", "literal", "kind", "expected"), TABLE)
def test_a_value_is_read_exactly_or_its_row_fails(
    path: Path, declared: str, literal: str, kind: DataType, expected: object
) -> None:
    execute(path, f"CREATE TABLE v (id INTEGER, v {declared})", f"INSERT INTO v VALUES (1, {literal}), (2, NULL)")
    source = reader(path, "v")
    assert source._schema["v"].dataType == kind
    found, null = rows(source, {"polls": 0}, {"polls": 1})
    assert null == {"id": 2, "v": None, MESSAGE: None, ROW: None}, "the other row is read"
    if isinstance(expected, Wrong):
        assert found[MESSAGE] == f"column v: {expected.shown}: {expected.reason} (row with id 1)"
        assert json.loads(str(found[ROW])) == {"id": 1, "v": expected.shown}
    else:
        assert (found["v"], type(found["v"]), found[MESSAGE]) == (expected, type(expected), None)


def test_a_row_says_all_that_is_wrong_with_it(path: Path) -> None:
    execute(path, "CREATE TABLE v (a INTEGER, b BOOLEAN)", f"INSERT INTO v VALUES ('{'x' * 200}', 'y')")
    (row,) = rows(reader(path, "v"), {"polls": 0}, {"polls": 1})
    first, second = str(row[MESSAGE]).split("; ")
    assert first == f"column a: {'x' * 60}...: {TEXT_FOR_INTEGER}"
    assert second == f"column b: y: TEXT that is not 0, 1, false or true (row with a {'x' * 60}...)"
    assert json.loads(str(row[ROW])) == {"a": "x" * 200, "b": "y"}, "the dead letter has the whole values"


def test_names_of_any_characters_are_columns_and_tables(path: Path) -> None:
    names = ["a.b", 'qu"ote', "b lank", "100%", "?", "üñí"]
    columns = ", ".join(f"{identifier(name)} INTEGER" for name in names)
    execute(path, f'CREATE TABLE "t.x" ({columns})', 'INSERT INTO "t.x" VALUES (1, 2, 3, 4, 5, 6)')
    source = reader(path, '"t.x"', mode="incrementing", incrementing="a.b")
    end = source.latestOffset({}, source.getDefaultReadLimit())
    assert end == {"incrementing": 1}
    (row,) = rows(source, {}, end)
    assert [row[name] for name in names] == [1, 2, 3, 4, 5, 6]


def test_a_column_that_is_gone_is_named(path: Path) -> None:
    """SQLite itself takes an unknown name in double quotes for a text."""
    execute(path, "CREATE TABLE v (a INTEGER, b TEXT)", "INSERT INTO v VALUES (1, 'x')")
    source = reader(path, "v")
    execute(path, "ALTER TABLE v DROP COLUMN b")
    with pytest.raises(DatabaseError, match='column b is not in "v" any more'):
        rows(source, {"polls": 0}, {"polls": 1})
