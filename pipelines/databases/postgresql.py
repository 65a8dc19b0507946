"""PostgreSQL, by psycopg 3 (`pip install 'psycopg[binary]'`).

Rows are read as PostgreSQL's text, in a session whose settings make that text exact, and converted here: psycopg's own
conversions change some values (months of an interval become days, digits in JSON become floats) and reject others
(infinity, years before 1 and after 9999). A type that Spark does not have is carried as PostgreSQL's text: time,
interval, uuid, json, arrays, ranges, enums, composite types, and numeric unless its precision fits Spark's decimals.

`timestamp` without a zone is read and compared as UTC, as Connect's JDBC source does by default.
"""

import re
from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

import psycopg
from pyspark.sql import types as T
from typing_extensions import override

from kvorum.pipelines.cdc import values
from kvorum.pipelines.databases.dialect import (
    DAYS,
    DECIMAL_DIGITS_MAX,
    TIMES_US,
    Connection,
    Convert,
    Cursor,
    DatabaseError,
    Dialect,
    Statement,
    exact_decimal,
    within,
)

CONNECT_SECONDS = "10"
SESSION = " ".join(f"-c {name}={value}" for name, value in values.SESSION.items())
PASSING = ("08", "40", "53", "55P03", "57P")
"""SQLSTATE: connection, rolled back because of another transaction, out of resources, lock timeout, shutting down."""
BYTES = re.compile(r"\\x([0-9a-f]*)")


def integer(text: str, bits: int, name: str) -> int:
    """Return an integer of a size. Raises ValueError, since a column may have got a larger type."""
    return within(int(text), range(-(1 << bits - 1), 1 << bits - 1), f"a {name}")


def boolean(text: str) -> bool:
    """Return a boolean. Raises ValueError."""
    if text not in ("t", "f"):
        raise ValueError("not a boolean")
    return text == "t"


def date(text: str) -> int:
    """Return a date as days since 1970. Raises ValueError for infinity and for years that Spark does not have."""
    return within(values.date_days(text), DAYS, "a date from year 1 to 9999")


def timestamp(text: str) -> int:
    """Return a time as microseconds since 1970. Raises ValueError for infinity and years that Spark does not have."""
    return within(values.timestamp_micros(text), TIMES_US, "a time from year 1 to 9999")


def binary(text: str) -> bytes:
    """Return bytes. Raises ValueError."""
    found = BYTES.fullmatch(text)
    if found is None:
        raise ValueError("not bytes in hexadecimal")
    return bytes.fromhex(found[1])


class Text(psycopg.adapt.Loader):
    """PostgreSQL's text of a value, as it is."""

    def load(self, data: Any) -> bytes:
        """Return a copy."""
        return bytes(data)


LONG = (T.LongType(), partial(integer, bits=64, name="bigint"))
TYPES: Mapping[int, tuple[T.DataType, Callable[[str], object]]] = {
    16: (T.BooleanType(), boolean),
    17: (T.BinaryType(), binary),
    20: LONG,
    21: (T.ShortType(), partial(integer, bits=16, name="smallint")),
    23: (T.IntegerType(), partial(integer, bits=32, name="int")),
    26: LONG,
    700: (T.FloatType(), float),
    701: (T.DoubleType(), float),
    1082: (T.DateType(), date),
    1114: (T.TimestampType(), timestamp),
    1184: (T.TimestampType(), timestamp),
}
"""{oid: what it is read as, the function from PostgreSQL's text}. numeric is in spark_type; all others are text."""
CONVERTERS = dict(TYPES.values())


@dataclass(frozen=True)
class Postgresql(Dialect):
    """PostgreSQL, through psycopg."""

    settings: Mapping[str, str]
    """Of libpq."""

    marker = "%s"
    single_writer = False
    type_names: ClassVar[Mapping[str, str]] = {
        "byte": "smallint",
        "short": "smallint",
        "integer": "integer",
        "long": "bigint",
        "float": "real",
        "double": "double precision",
        "decimal": "numeric",
        "boolean": "boolean",
        "binary": "bytea",
        "date": "date",
        "timestamp": "timestamp with time zone",
        "timestamp_ntz": "timestamp",
        "string": "text",
    }
    # Tables of the search path have no schema before them.
    tables_query = (
        "SELECT CASE WHEN table_schema = ANY (current_schemas(false)) THEN table_name"
        " ELSE table_schema || '.' || table_name END FROM information_schema.tables"
        " WHERE table_schema NOT IN ('pg_catalog', 'information_schema') ORDER BY 1"
    )

    @override
    def connect(self, *, create: bool = False) -> Connection:
        options: dict[str, Any] = {"connect_timeout": CONNECT_SECONDS, **self.settings, "client_encoding": "utf8"}
        options["options"] = f"{self.settings.get('options', '')} {SESSION}"  # of two with one name the last counts
        try:
            return psycopg.connect(**options)
        except psycopg.Error as error:
            where = f"{self.settings.get('host', 'the local socket')}/{self.settings.get('dbname', '')}"
            raise DatabaseError(f"{where}: {str(error).strip()}") from error

    @override
    def columns(self, connection: Connection, relation: str) -> list[tuple[str, T.DataType]]:
        try:
            with closing(connection.cursor()) as cursor:
                cursor.execute(f"SELECT * FROM {relation} LIMIT 0")
                found = enumerate(cursor.description or ())
                return [(each[0], spark_type(each[1], cursor.pgresult.fmod(index))) for index, each in found]
        except psycopg.Error as error:
            raise DatabaseError(str(error).strip()) from error
        finally:
            connection.rollback()

    @override
    def rows(self, connection: Connection, statement: Statement, count: int) -> Cursor:
        """A cursor with a name stays at the server, which sends `count` rows at a time. Values are bytes.

        The bytes are PostgreSQL's text of the value.
        """
        cursor = connection.cursor(name="kvorum")
        for each in psycopg.adapters.types:
            for oid in (each.oid, each.array_oid):
                if oid:
                    cursor.adapters.register_loader(oid, Text)
        cursor.adapters.register_loader(0, Text)  # types that psycopg does not know
        cursor.itersize = count
        cursor.execute(*statement)
        return cursor

    @override
    def converter(self, kind: T.DataType) -> Convert:
        exact = partial(exact_decimal, kind=kind) if isinstance(kind, T.DecimalType) else None
        convert: Callable[[str], object] = exact or CONVERTERS.get(kind, str)
        return lambda value: convert(value.decode())

    @override
    def shown(self, value: Any) -> str | int | float:
        return str(value.decode(errors="backslashreplace"))

    @override
    def as_offset(self, expression: str) -> str:
        """Text has the microseconds that JSON's numbers would lose."""
        return f"({expression})::text"

    @override
    def from_offset(self) -> str:
        """In a session in UTC, and in either type of timestamp, this reads what as_offset wrote."""
        return f"{self.marker}::timestamptz"

    @override
    def past(self, expression: str, delay_ms: int) -> str:
        """The statement's time, not the transaction's."""
        return f"{expression} <= statement_timestamp() - interval '{delay_ms} milliseconds'"

    @override
    def passing(self, error: BaseException) -> bool:
        """An error without a state is of the connection itself."""
        if isinstance(error, psycopg.OperationalError | psycopg.InterfaceError):
            return error.sqlstate is None or error.sqlstate.startswith(PASSING)
        return isinstance(error, psycopg.Error) and (error.sqlstate or "").startswith(PASSING)


def spark_type(oid: int, modifier: int) -> T.DataType:
    """Return what a type is read as, by its oid and its modifier (-1: none)."""
    if oid != values.NUMERIC or modifier < 0:
        return TYPES[oid][0] if oid in TYPES else T.StringType()
    precision, scale = (modifier - 4) >> 16, ((modifier - 4) & 0x7FF ^ 0x400) - 0x400  # the scale has a sign
    digits = max(precision, scale) if scale >= 0 else precision - scale
    return T.DecimalType(digits, max(scale, 0)) if digits <= DECIMAL_DIGITS_MAX else T.StringType()
