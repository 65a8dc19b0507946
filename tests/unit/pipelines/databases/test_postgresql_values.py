"""The table of PostgreSQL's types: every value is read exactly, or its row alone says why it cannot be."""

import datetime
import decimal
import json
import math
import uuid
from collections.abc import Iterator
from dataclasses import dataclass

import pytest
from pyspark.sql.types import (
    BinaryType,
    BooleanType,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    ShortType,
    StringType,
    TimestampType,
)

from kvorum.pipelines.databases.dialect import DatabaseError, identifier
from kvorum.pipelines.databases.url import dialect_of
from kvorum.pipelines.sources.jdbc import MESSAGE, ROW, JdbcSourceOptions, JdbcStream
from tests.unit.pipelines.cdc.conftest import Server, postgresql

__all__ = ["postgresql"]  # the fixture
UTC = datetime.UTC


@dataclass(frozen=True, slots=True)
class Wrong:
    """The row fails; the value as it is shown, and the reason."""

    shown: str
    reason: str


TEXT = StringType()
NO_DATE = "not a date from year 1 to 9999"
NO_TIME = "not a time from year 1 to 9999"
# (the column's type, the value in SQL, the type that it is read as, the value or why there is none)
TABLE: list[tuple[str, str, DataType, object]] = [
    ("smallint", "-32768", ShortType(), -32768),
    ("integer", "2147483647", IntegerType(), 2147483647),
    ("bigint", "-9223372036854775808", LongType(), -9223372036854775808),
    ("oid", "4294967295", LongType(), 4294967295),
    ("real", "'0.1'", FloatType(), 0.10000000149011612),
    ("real", "'-Infinity'", FloatType(), -math.inf),
    ("double precision", "'0.1'", DoubleType(), 0.1),
    ("double precision", "'1.7976931348623157e308'", DoubleType(), 1.7976931348623157e308),
    ("double precision", "'5e-324'", DoubleType(), 5e-324),
    ("double precision", "'NaN'", DoubleType(), math.nan),
    ("boolean", "false", BooleanType(), False),
    # Numbers
    ("numeric", "10000000000", TEXT, "10000000000"),
    ("numeric", "12345678901.5", TEXT, "12345678901.5"),
    ("numeric", "'1234567890123456789012345678901234567890.0000000000000000000100'", TEXT,
     "1234567890123456789012345678901234567890.0000000000000000000100"),
    ("numeric", "1::numeric / 3", TEXT, "0.33333333333333333333"),
    ("numeric", "'NaN'", TEXT, "NaN"),
    ("numeric", "'-Infinity'", TEXT, "-Infinity"),
    ("numeric(10, 2)", "'-12345678.90'", DecimalType(10, 2), decimal.Decimal("-12345678.90")),
    ("numeric(10, 2)", "'NaN'", DecimalType(10, 2), Wrong("NaN", "not a decimal(10,2)")),
    ("numeric(38, 18)", "'99999999999999999999.999999999999999999'", DecimalType(38, 18),
     decimal.Decimal("99999999999999999999.999999999999999999")),
    ("numeric(38)", "'-" + "9" * 38 + "'", DecimalType(38, 0), decimal.Decimal("-" + "9" * 38)),
    ("numeric(39, 1)", "'" + "9" * 38 + ".5'", TEXT, "9" * 38 + ".5"),
    ("numeric(5, -3)", "12345678", DecimalType(8, 0), decimal.Decimal(12346000)),  # PostgreSQL itself rounds
    ("numeric(30, -9)", "'" + "9" * 30 + "000000000'", TEXT, "9" * 30 + "000000000"),
    ("numeric(2, 5)", "0.00012", DecimalType(5, 5), decimal.Decimal("0.00012")),
    ("money", "'-1234567.89'", TEXT, "-$1,234,567.89"),
    # Times
    ("date", "'0001-01-01'", DateType(), datetime.date(1, 1, 1)),
    ("date", "'9999-12-31'", DateType(), datetime.date(9999, 12, 31)),
    ("date", "'1582-10-10'", DateType(), datetime.date(1582, 10, 10)),
    ("date", "'0044-03-15 BC'", DateType(), Wrong("0044-03-15 BC", NO_DATE)),
    ("date", "'10000-01-01'", DateType(), Wrong("10000-01-01", NO_DATE)),
    ("date", "'infinity'", DateType(), Wrong("infinity", NO_DATE)),
    ("timestamp", "'2024-02-29 23:59:59.999999'", TimestampType(),
     datetime.datetime(2024, 2, 29, 23, 59, 59, 999_999, tzinfo=UTC)),
    ("timestamp", "'0001-01-01'", TimestampType(), datetime.datetime(1, 1, 1, tzinfo=UTC)),
    ("timestamp", "'1969-12-31 23:59:59.000001'", TimestampType(),
     datetime.datetime(1969, 12, 31, 23, 59, 59, 1, tzinfo=UTC)),
    ("timestamp", "'-infinity'", TimestampType(), Wrong("-infinity", NO_TIME)),
    ("timestamp", "'10000-01-01'", TimestampType(), Wrong("10000-01-01 00:00:00", NO_TIME)),
    ("timestamptz", "'9999-12-31 23:59:59.999999+00'", TimestampType(),
     datetime.datetime(9999, 12, 31, 23, 59, 59, 999_999, tzinfo=UTC)),
    ("timestamptz", "'2024-03-31 02:30:00+05:30'", TimestampType(), datetime.datetime(2024, 3, 30, 21, tzinfo=UTC)),
    ("timestamptz", "'0001-01-01 00:00:00+01'", TimestampType(), Wrong("0001-12-31 23:00:00+00 BC", NO_TIME)),
    ("time", "'24:00:00'", TEXT, "24:00:00"),
    ("time", "'07:08:09.1'", TEXT, "07:08:09.1"),
    ("timetz", "'24:00:00+15:59:59'", TEXT, "24:00:00+15:59:59"),
    ("interval", "'1 year 2 months 3 days 04:05:06.7'", TEXT, "P1Y2M3DT4H5M6.7S"),
    ("interval", "'1 month -1 day'", TEXT, "P1M-1D"),
    # Text and bytes
    ("text", r"E' \t\n''\\ \"ä\U0001F600 '", TEXT, " \t\n'\\ \"ä\U0001f600 "),
    ("text", "''", TEXT, ""),
    ("char(5)", "'ab'", TEXT, "ab   "),
    ('"char"', "'x'", TEXT, "x"),
    ("bytea", r"'\x00ff5c'", BinaryType(), b"\x00\xff\\"),
    ("bytea", "''", BinaryType(), b""),
    ("bit(4)", "B'0101'", TEXT, "0101"),
    ("uuid", "'A0EEBC99-9C0B-4EF8-BB6D-6BB9BD380A11'", TEXT, "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11"),
    ("xml", "'<a> b</a>'", TEXT, "<a> b</a>"),
    ("json", """'{"a": 1.000000000000000000000001, "a":  12345678901234567890}'""", TEXT,
     '{"a": 1.000000000000000000000001, "a":  12345678901234567890}'),
    ("jsonb", """'{"n": 1.10000000000000000000000001, "e": 1e30}'""", TEXT,
     '{"e": 1000000000000000000000000000000, "n": 1.10000000000000000000000001}'),
    ("jsonb", "'null'", TEXT, "null"),
    ("inet", "'10.1.2.3/8'", TEXT, "10.1.2.3/8"),
    ("cidr", "'2001:db8::/32'", TEXT, "2001:db8::/32"),
    ("macaddr", "'08-00-2b-01-02-03'", TEXT, "08:00:2b:01:02:03"),
    ("point", "'(1.5,-2)'", TEXT, "(1.5,-2)"),
    ("tsvector", "'a:1 b'", TEXT, "'a':1 'b'"),
    # Types made of others
    ("integer[]", "'{1,NULL,-3}'", TEXT, "{1,NULL,-3}"),
    ("integer[]", "'[0:1]={1,2}'", TEXT, "[0:1]={1,2}"),
    ("text[]", """ARRAY[['a,b', 'NULL'], [NULL, '"']]""", TEXT, r'{{"a,b","NULL"},{NULL,"\""}}'),
    ("numeric[]", "'{1.10,NaN}'", TEXT, "{1.10,NaN}"),
    ("date[]", "'{infinity,2024-01-01}'", TEXT, "{infinity,2024-01-01}"),
    ("int4range", "'[1,5]'", TEXT, "[1,6)"),
    ("numrange", "'(,1.10]'", TEXT, "(,1.10]"),
    ("tstzrange", "'[2024-01-01 00:00+02,)'", TEXT, '["2023-12-31 22:00:00+00",)'),
    ("int4multirange", "'{[1,2),[5,7)}'", TEXT, "{[1,2),[5,7)}"),
    ("mood", "'so so'", TEXT, "so so"),
    ("mood[]", "'{\"so so\",ok}'", TEXT, '{"so so",ok}'),
    ("pair", "ROW(1.50, 'a,\"b')", TEXT, '(1.50,"a,""b")'),
    ("pair", "ROW(NULL, '')", TEXT, '(,"")'),
    ("cents", "12.34", DecimalType(6, 2), decimal.Decimal("12.34")),
]  # fmt: skip


@pytest.fixture(scope="module")
def url(postgresql: Server) -> str:
    """Return a database whose settings, if they applied, would change texts and round numbers."""
    name = f"t{uuid.uuid4().hex[:8]}"
    with postgresql.connect() as connection:
        connection.execute(f"CREATE DATABASE {name}".encode())
        for setting in (
            "datestyle = 'SQL, DMY'",
            "intervalstyle = 'postgres_verbose'",
            "timezone = 'Asia/Kolkata'",
            "extra_float_digits = -15",
            "bytea_output = 'escape'",
        ):
            connection.execute(f"ALTER DATABASE {name} SET {setting}".encode())
    with postgresql.connect(name) as connection:
        connection.execute("CREATE TYPE mood AS ENUM ('ok', 'so so')")
        connection.execute("CREATE TYPE pair AS (a numeric, b text)")
        connection.execute("CREATE DOMAIN cents AS numeric(6, 2)")
    return f"jdbc:postgresql://127.0.0.1:{postgresql.port}/{name}?user=kvorum"


def execute(url: str, *statements: str) -> None:
    connection = dialect_of(url).connect()
    for statement in statements:
        connection.cursor().execute(statement)
    connection.commit()
    connection.close()


def stream(url: str, **more: object) -> JdbcStream:
    options = JdbcSourceOptions.model_validate({"url": url, "mode": "bulk", **more})
    return JdbcStream({"settings": options.model_dump_json()})


def rows(source: JdbcStream) -> Iterator[dict[str, object]]:
    reader = source.streamReader(source.schema())
    for part in reader.partitions({"polls": 0}, {"polls": 1}):
        for batch in reader.read(part):
            yield from batch.to_pylist()


@pytest.mark.parametrize(("declared", "literal", "kind", "expected"), TABLE)
def test_a_value_is_read_exactly_or_its_row_fails(
    url: str, declared: str, literal: str, kind: DataType, expected: object
) -> None:
    execute(
        url,
        "DROP TABLE IF EXISTS v",
        f"CREATE TABLE v (id int, v {declared})",
        f"INSERT INTO v VALUES (1, {literal}), (2, NULL)",
    )
    source = stream(url, table="v")
    assert source.schema()["v"].dataType == kind
    found, null = rows(source)
    assert null == {"id": 2, "v": None, MESSAGE: None, ROW: None}, "the other row is read"
    if isinstance(expected, Wrong):
        assert found[MESSAGE] == f"column v: {expected.shown}: {expected.reason} (row with id 1)"
        assert json.loads(str(found[ROW])) == {"id": "1", "v": expected.shown}
    elif isinstance(expected, float) and math.isnan(expected):
        assert isinstance(found["v"], float) and math.isnan(found["v"])
    else:
        assert (found["v"], type(found["v"]), found[MESSAGE]) == (expected, type(expected), None)


def test_names_of_any_characters_are_columns_and_tables(url: str) -> None:
    names = ["a.b", 'qu"ote', "b lank", "100%", "%s", "üñí", "ID", "id"]
    columns = ", ".join(f"{identifier(name)} int" for name in names)
    execute(
        url,
        'DROP TABLE IF EXISTS "t.%s"',
        f'CREATE TABLE "t.%s" ({columns})',
        'INSERT INTO "t.%s" VALUES (1, 2, 3, 4, 5, 6, 7, 8)',
    )
    source = stream(url, table='public."t.%s"', mode="incrementing", incrementing="a.b")
    reader = source.streamReader(source.schema())
    end = reader.latestOffset({}, reader.getDefaultReadLimit())
    assert end == {"incrementing": 1}
    (row,) = [row for part in reader.partitions({}, end) for batch in reader.read(part) for row in batch.to_pylist()]
    assert [row[name] for name in names] == list(range(1, 9))
    assert reader.partitions(end, reader.latestOffset(end, reader.getDefaultReadLimit())) == []


@pytest.mark.parametrize(
    ("declared", "values", "position"),
    [
        ("numeric", ("1e30", "1e30 + 1.5"), "1000000000000000000000000000001.5"),
        ("uuid", ("gen_random_uuid()", "'ffffffff-ffff-ffff-ffff-ffffffffffff'"),
         "ffffffff-ffff-ffff-ffff-ffffffffffff"),
        ("timestamptz", ("'2024-01-01'", "'2024-01-01 00:00:00.000001+00'"), "2024-01-01 00:00:00.000001+00:00"),
    ],
)  # fmt: skip
def test_a_position_of_another_type_than_a_number_survives_json(
    url: str, declared: str, values: tuple[str, str], position: str
) -> None:
    execute(url, "DROP TABLE IF EXISTS p", f"CREATE TABLE p (id {declared})")
    source = stream(url, table="p", mode="incrementing", incrementing="id")
    reader = source.streamReader(source.schema())
    for value in values:
        execute(url, f"INSERT INTO p VALUES ({value})")
    end = json.loads(json.dumps(reader.latestOffset({}, reader.getDefaultReadLimit())))
    assert end == {"incrementing": position}
    assert sum(batch.num_rows for part in reader.partitions({}, end) for batch in reader.read(part)) == 2
    assert reader.latestOffset(end, reader.getDefaultReadLimit()) == end


def test_a_table_that_is_altered_while_it_is_read(url: str) -> None:
    execute(url, "DROP TABLE IF EXISTS t", "CREATE TABLE t (a int, b text)", "INSERT INTO t VALUES (1, 'x')")
    source = stream(url, table="t")
    reader = source.streamReader(source.schema())
    (part,) = reader.partitions({"polls": 0}, {"polls": 1})
    execute(url, "ALTER TABLE t ADD c int", "ALTER TABLE t ALTER a TYPE bigint", "UPDATE t SET a = 3000000000")
    (row,) = (row for batch in reader.read(part) for row in batch.to_pylist())
    assert row["b"] == "x" and row[MESSAGE] == "column a: 3000000000: not a int (row with a 3000000000)"
    execute(url, "ALTER TABLE t DROP b")
    with pytest.raises(DatabaseError, match='column b is not in "t" any more'):
        list(reader.read(part))


def test_two_columns_of_one_name_are_rejected(url: str) -> None:
    with pytest.raises(DatabaseError, match=r"column a occurs twice or is reserved: rename it \(AS\) in a query"):
        stream(url, query="SELECT 1 AS a, 2 AS a").schema()
