"""SQLite, by Python's own driver.

A column's declared type says what is read (SQLite itself would take anything anywhere): INTEGER, TEXT, REAL and BLOB by
their affinity, and BOOLEAN, DATE, DATETIME or TIMESTAMP, DECIMAL(p, s) by their names. Times are ISO 8601 text in UTC,
as CURRENT_TIMESTAMP writes it, or milliseconds since 1970 as an integer, and are compared as they are stored.
"""

import datetime
import decimal
import re
import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    LongType,
    MapType,
    StringType,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from kvorum.pipelines.databases.dialect import TABLES_MAX, Column, Connection, Cursor, DatabaseError

BUSY_SECONDS = 30.0
"""For how long another writer is waited for."""

DECIMAL_DIGITS_MAX = 38
DECIMAL = re.compile(r"(?:DECIMAL|NUMERIC)\s*\(\s*(\d+)\s*(?:,\s*(\d+)\s*)?\)")
TIMES = ("TIMESTAMP", "DATETIME")


@dataclass(frozen=True, slots=True)
class Sqlite:
    """See Dialect."""

    path: str
    marker: str = "?"
    single_writer: bool = True

    def connect(self, *, create: bool = False) -> Connection:
        """See Dialect."""
        mode = "rwc" if create else "rw"
        try:
            where = f"{Path(self.path).resolve().as_uri()}?mode={mode}"
            connection: Any = sqlite3.connect(where, timeout=BUSY_SECONDS, uri=True)
        except sqlite3.Error as error:
            raise DatabaseError(f"{self.path}: {error}") from error
        return connection  # type: ignore[no-any-return]

    def columns(self, connection: Connection, relation: str) -> list[Column]:
        """See Dialect. A view of the connection's own shows the declared types through a query."""
        cursor = connection.cursor()
        try:
            cursor.execute("DROP VIEW IF EXISTS temp.kvorum_look")
            cursor.execute(f"CREATE TEMP VIEW kvorum_look AS SELECT * FROM {relation}")
            cursor.execute("SELECT name, type FROM pragma_table_info('kvorum_look', 'temp')")
            return [Column(name=name, type=spark_type(declared)) for name, declared in cursor.fetchmany(10_000)]
        except sqlite3.Error as error:
            raise DatabaseError(f"{self.path}: {error}") from error
        finally:
            cursor.close()
            connection.rollback()

    def tables(self, connection: Connection) -> list[str]:
        """See Dialect."""
        cursor = connection.cursor()
        cursor.execute("SELECT name FROM sqlite_master WHERE type IN ('table', 'view') ORDER BY name")
        return [name for (name,) in cursor.fetchmany(TABLES_MAX)]

    def rows(self, connection: Connection, statement: str, parameters: Sequence[Any], count: int) -> Cursor:
        """See Dialect. SQLite computes rows as they are fetched."""
        cursor = connection.cursor()
        cursor.execute(statement, parameters)
        return cursor

    def from_database(self, value: Any, kind: DataType) -> Any:
        """See Dialect."""
        match kind:
            case TimestampType():
                return instant(value)
            case DateType():
                return instant(value).date()
            case BooleanType():
                return bool(value)
            case DecimalType():
                # REAL holds 0.1 as a double: what people see is its shortest text.
                exact = decimal.Decimal(str(value))
                return exact.quantize(decimal.Decimal(1).scaleb(-kind.scale), rounding=decimal.ROUND_HALF_EVEN)
            case StringType():
                return value.decode() if isinstance(value, bytes) else str(value)
            case BinaryType():
                return value.encode() if isinstance(value, str) else value
            case DoubleType():
                return float(value)
            case _:
                return value

    def to_database(self, value: Any) -> Any:
        """See Dialect."""
        match value:
            case datetime.datetime():
                utc = value.astimezone(datetime.UTC).replace(tzinfo=None) if value.tzinfo else value
                return utc.isoformat(sep=" ")
            case datetime.date():
                return value.isoformat()
            case decimal.Decimal():
                return str(value)
            case _:
                return value

    def as_offset(self, expression: str) -> str:
        """See Dialect."""
        return expression

    def from_offset(self, expression: str) -> str:
        """See Dialect."""
        return self.marker

    def past(self, expression: str, delay_ms: int) -> str:
        """See Dialect."""
        seconds = f"CASE typeof({expression}) WHEN 'text' THEN (julianday({expression}) - 2440587.5) * 86400.0"
        now = "(julianday('now') - 2440587.5) * 86400.0"
        return f"{seconds} ELSE {expression} / 1000.0 END <= {now} - {delay_ms / 1000.0!r}"

    def type_name(self, kind: DataType, *, key: bool) -> str:
        """See Dialect."""
        match kind:
            case TimestampType() | TimestampNTZType():
                return "TIMESTAMP"
            case DecimalType():
                return f"DECIMAL({kind.precision}, {kind.scale})"
            case DateType():
                return "DATE"
            case BooleanType():
                return "BOOLEAN"
            case BinaryType():
                return "BLOB"
            case StringType():
                return "TEXT"
            case StructType() | ArrayType() | MapType():
                raise DatabaseError(
                    f"no column for {kind.simpleString()}: use Flatten, or ReplaceField to leave it out"
                )
            case _:
                return "REAL" if kind.typeName() in ("float", "double") else "INTEGER"

    def passing(self, error: BaseException) -> bool:
        """See Dialect."""
        return isinstance(error, sqlite3.OperationalError) and ("locked" in str(error) or "busy" in str(error))


def spark_type(declared: str) -> DataType:
    """Return what a declared type is read as: by name, else by SQLite's rules of affinity, in their order."""
    name = declared.upper()
    exact = DECIMAL.search(name)
    if any(name.startswith(word) for word in TIMES):
        return TimestampType()
    if name == "DATE":
        return DateType()
    if name.startswith("BOOL"):
        return BooleanType()
    if exact and int(exact[1]) <= DECIMAL_DIGITS_MAX:
        return DecimalType(int(exact[1]), int(exact[2] or 0))
    if "INT" in name:
        return LongType()
    if any(word in name for word in ("CHAR", "CLOB", "TEXT", "JSON", "UUID")):
        return StringType()
    if "BLOB" in name:
        return BinaryType()
    if any(word in name for word in ("REAL", "FLOA", "DOUB", "DEC", "NUM")):
        return DoubleType()
    return StringType()  # an expression's column has no type, and text can hold whatever comes


def instant(value: Any) -> datetime.datetime:
    """Return a stored time. Raises ValueError for text that is no ISO 8601."""
    if isinstance(value, int | float):
        return datetime.datetime.fromtimestamp(value / 1000, datetime.UTC)
    found = datetime.datetime.fromisoformat(value)
    return found if found.tzinfo else found.replace(tzinfo=datetime.UTC)
