"""SQLite, by Python's own driver.

A column's declared type says what is read: INTEGER, TEXT, REAL and BLOB by their affinity, and BOOLEAN, DATE, DATETIME
or TIMESTAMP, DECIMAL(p, s) by their names. SQLite stores any value in any column, so a value whose storage class is not
that of the declared type fails; it is not converted. Times are ISO 8601 text in UTC, as CURRENT_TIMESTAMP writes it, or
milliseconds since 1970 as an integer, and are compared as they are stored.
"""

import datetime
import decimal
import math
import re
import sqlite3
from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

from pyspark.sql import types as T
from typing_extensions import override

from kvorum.pipelines.databases.dialect import (
    DAY_US,
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

BUSY_SECONDS = 30.0
"""For how long another writer is waited for."""

DOUBLE_DIGITS = 15
"""Decimal digits that a double holds exactly."""
DECIMAL = re.compile(r"(?:DECIMAL|NUMERIC)\s*\(\s*(\d+)\s*(?:,\s*(\d+)\s*)?\)")
NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?", re.ASCII)
FRACTION = re.compile(r"[.,]\d{6}(\d+)")
TIME = "a time from year 1 to 9999"
EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
MICROSECOND = datetime.timedelta(microseconds=1)


class InvalidText(bytes):
    """Stored as text, but not UTF-8."""


STORAGE = {str: "TEXT", InvalidText: "TEXT that is not UTF-8", bytes: "BLOB", int: "INTEGER", float: "REAL"}
"""Names of storage classes, by the type of the driver's value."""


def text_of(data: bytes) -> str | InvalidText:
    """Return stored text; the driver would raise for the whole row if it is not UTF-8."""
    try:
        return data.decode()
    except UnicodeDecodeError:
        return InvalidText(data)


def stored(value: Any, wanted: str, *kinds: type) -> Any:
    """Return a value of one of the storage classes. Raises ValueError for one that the declared type does not hold."""
    if type(value) not in kinds:
        raise ValueError(f"stored as {STORAGE[type(value)]}, not {wanted}")
    return value


def real(value: Any) -> float:
    """Return a value of a column of floating-point numbers. Raises ValueError, for large integers too."""
    is_exact = isinstance(value, int) and float(value) == value
    return float(value if is_exact else stored(value, "a REAL", float))


def boolean(value: Any) -> bool:
    """Return 0, 1, or the words false and true. Raises ValueError for others."""
    found = {0: False, 1: True, "false": False, "true": True}.get(value.lower() if isinstance(value, str) else value)
    if found is None or isinstance(value, float):
        raise ValueError(f"{STORAGE[type(value)]} that is not 0, 1, false or true")
    return found


def number(value: Any, kind: T.DecimalType) -> decimal.Decimal:
    """Return a decimal. A REAL is its shortest text: 0.1 is not the double's 55 digits. Raises ValueError."""
    digits = str(value)
    return exact_decimal(digits if NUMBER.fullmatch(digits) else stored(value, "a number"), kind)


def instant(value: Any) -> int:
    """Return a stored time as microseconds since 1970. Raises ValueError."""
    if isinstance(value, int):
        return within(value * 1000, TIMES_US, TIME)
    written = stored(value, "TEXT (ISO 8601) or an INTEGER (milliseconds)", str)
    finer = FRACTION.search(written)
    if finer and finer[1].strip("0"):
        raise ValueError("finer than microseconds")
    try:
        found = datetime.datetime.fromisoformat(written)
    except ValueError as error:
        raise ValueError("not a time of ISO 8601 from year 1 to 9999") from error
    micros = ((found if found.tzinfo else found.replace(tzinfo=datetime.UTC)) - EPOCH) // MICROSECOND
    return within(micros, TIMES_US, TIME)


def date(value: Any) -> int:
    """Return a stored date as days since 1970. Raises ValueError, also for a time other than midnight."""
    days, rest = divmod(instant(value), DAY_US)
    if rest:
        raise ValueError("has a time of day, which a DATE does not have")
    return days


CONVERTERS: Mapping[T.DataType, Convert] = {
    T.LongType(): lambda value: stored(value, "an INTEGER", int),
    T.DoubleType(): real,
    T.StringType(): lambda value: str(stored(value, "TEXT", str, int, float)),
    T.BinaryType(): lambda value: stored(value, "a BLOB", bytes),
    T.BooleanType(): boolean,
    T.DateType(): date,
    T.TimestampType(): instant,
}
"""Each raises ValueError for a value that the declared type does not hold. Text is a number's shortest text."""


@dataclass(frozen=True)
class Sqlite(Dialect):
    """SQLite, through Python's sqlite3."""

    path: str

    marker = "?"
    single_writer = True
    type_names: ClassVar[Mapping[str, str]] = {
        **dict.fromkeys(("byte", "short", "integer", "long", "void"), "INTEGER"),
        **dict.fromkeys(("float", "double"), "REAL"),
        **dict.fromkeys(("timestamp", "timestamp_ntz"), "TIMESTAMP"),
        "decimal": "DECIMAL",
        "date": "DATE",
        "boolean": "BOOLEAN",
        "binary": "BLOB",
        "string": "TEXT",
    }
    tables_query = "SELECT name FROM sqlite_master WHERE type IN ('table', 'view') ORDER BY name"

    @override
    def connect(self, *, create: bool = False) -> Connection:
        mode = "rwc" if create else "rw"
        try:
            where = f"{Path(self.path).resolve().as_uri()}?mode={mode}"
            return sqlite3.connect(where, timeout=BUSY_SECONDS, uri=True)
        except sqlite3.Error as error:
            raise DatabaseError(f"{self.path}: {error}") from error

    @override
    def columns(self, connection: Connection, relation: str) -> list[tuple[str, T.DataType]]:
        """A view of the connection's own shows the declared types through a query."""
        try:
            with closing(connection.cursor()) as cursor:
                cursor.execute("DROP VIEW IF EXISTS temp.kvorum_look")
                cursor.execute(f"CREATE TEMP VIEW kvorum_look AS SELECT * FROM {relation}")
                cursor.execute("SELECT name, type FROM pragma_table_info('kvorum_look', 'temp')")
                return [(name, spark_type(declared)) for name, declared in cursor.fetchmany(10_000)]
        except sqlite3.Error as error:
            raise DatabaseError(f"{self.path}: {error}") from error
        finally:
            connection.rollback()

    @override
    def rows(self, connection: Connection, statement: Statement, count: int) -> Cursor:
        connection.text_factory = text_of
        return connection.execute(*statement)

    @override
    def converter(self, kind: T.DataType) -> Convert:
        return partial(number, kind=kind) if isinstance(kind, T.DecimalType) else CONVERTERS[kind]

    @override
    def shown(self, value: Any) -> str | int | float:
        """A blob is written as SQLite's literal."""
        match value:
            case InvalidText():
                return value.decode(errors="backslashreplace")
            case bytes():
                return f"x'{value.hex()}'"
            case float() if not math.isfinite(value):
                return str(value)
            case _:
                assert isinstance(value, int | float | str)
                return value

    @override
    def to_database(self, value: Any) -> Any:
        match value:
            case datetime.datetime():
                utc = value.astimezone(datetime.UTC).replace(tzinfo=None) if value.tzinfo else value
                return utc.isoformat(sep=" ")
            case datetime.date():
                return value.isoformat()
            case decimal.Decimal():
                return str(value)
            case float() if math.isnan(value):
                raise ValueError("NaN, which SQLite would store as NULL")
            case _:
                return value

    @override
    def past(self, expression: str, delay_ms: int) -> str:
        seconds = f"CASE typeof({expression}) WHEN 'text' THEN (julianday({expression}) - 2440587.5) * 86400.0"
        now = "(julianday('now') - 2440587.5) * 86400.0"
        return f"{seconds} ELSE {expression} / 1000.0 END <= {now} - {delay_ms / 1000.0!r}"

    @override
    def type_name(self, kind: T.DataType) -> str:
        """Affinity NUMERIC would make a double of a long decimal; TEXT keeps every digit."""
        is_long = isinstance(kind, T.DecimalType) and kind.precision > DOUBLE_DIGITS
        return ("TEXT " if is_long else "") + super().type_name(kind)

    @override
    def passing(self, error: BaseException) -> bool:
        return isinstance(error, sqlite3.OperationalError) and ("locked" in str(error) or "busy" in str(error))


AFFINITIES: Mapping[T.DataType, tuple[str, ...]] = {
    T.LongType(): ("INT",),
    T.StringType(): ("CHAR", "CLOB", "TEXT", "JSON", "UUID"),
    T.BinaryType(): ("BLOB",),
    T.DoubleType(): ("REAL", "FLOA", "DOUB", "DEC", "NUM"),
}
"""SQLite's rules of affinity in their order: a part of the declared type decides."""


def spark_type(declared: str) -> T.DataType:
    """Return what a declared type is read as: by name, else by its affinity."""
    name = declared.upper()
    exact = DECIMAL.search(name)
    if name.startswith(("TIMESTAMP", "DATETIME")):
        return T.TimestampType()
    if name == "DATE":
        return T.DateType()
    if name.startswith("BOOL"):
        return T.BooleanType()
    if exact and int(exact[2] or 0) <= int(exact[1]) <= DECIMAL_DIGITS_MAX and int(exact[1]):
        return T.DecimalType(int(exact[1]), int(exact[2] or 0))
    found = (kind for kind, parts in AFFINITIES.items() if any(part in name for part in parts))
    return next(found, T.StringType())  # an expression's column has no type, and text can hold whatever comes
