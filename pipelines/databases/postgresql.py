"""PostgreSQL, by psycopg 3 (`pip install 'psycopg[binary]'`).

The session's time zone is UTC: `timestamp` without a zone is read and compared as UTC, as Connect's JDBC source does by
default. Types that Spark has none for (uuid, json, arrays, ranges, enums...) are read as their text.
"""

import datetime
import decimal
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    MapType,
    ShortType,
    StringType,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from kvorum.pipelines.databases.dialect import TABLES_MAX, Column, Connection, Cursor, DatabaseError

CONNECT_SECONDS = "10"
DECIMAL_DIGITS_MAX = 38
# {type's oid: what it is read as}; the rest is text. A numeric without precision gets room on both sides of the point.
TYPES: Mapping[int, DataType] = {
    16: BooleanType(),
    17: BinaryType(),
    20: LongType(),
    21: ShortType(),
    23: IntegerType(),
    26: LongType(),
    700: FloatType(),
    701: DoubleType(),
    1082: DateType(),
    1114: TimestampType(),
    1184: TimestampType(),
}
NUMERIC = 1700
UNBOUNDED = DecimalType(DECIMAL_DIGITS_MAX, 18)
NAMES: Mapping[str, str] = {
    "byte": "smallint",
    "short": "smallint",
    "integer": "integer",
    "long": "bigint",
    "float": "real",
    "double": "double precision",
    "boolean": "boolean",
    "binary": "bytea",
    "date": "date",
    "string": "text",
}
PASSING = ("08", "40", "53", "55P03", "57P")
"""SQLSTATE: connection, rolled back for another's sake, out of resources, lock not available, shutting down."""


@dataclass(frozen=True, slots=True)
class Postgresql:
    """See Dialect."""

    settings: Mapping[str, str]
    marker: str = "%s"
    single_writer: bool = False

    def connect(self, *, create: bool = False) -> Connection:
        """See Dialect."""
        try:
            import psycopg
        except ImportError as error:
            raise DatabaseError("PostgreSQL needs psycopg: pip install 'psycopg[binary]'") from error
        options: dict[str, Any] = {"connect_timeout": CONNECT_SECONDS, "options": "-c TimeZone=UTC", **self.settings}
        try:
            connection: Any = psycopg.connect(**options)
        except psycopg.Error as error:
            where = f"{self.settings.get('host', 'the local socket')}/{self.settings.get('dbname', '')}"
            raise DatabaseError(f"{where}: {str(error).strip()}") from error
        return connection  # type: ignore[no-any-return]

    def columns(self, connection: Connection, relation: str) -> list[Column]:
        """See Dialect."""
        import psycopg

        cursor = connection.cursor()
        try:
            cursor.execute(f"SELECT * FROM {relation} LIMIT 0")
            return [
                Column(name=each[0], type=spark_type(each[1], each[4], each[5])) for each in cursor.description or ()
            ]
        except psycopg.Error as error:
            raise DatabaseError(str(error).strip()) from error
        finally:
            cursor.close()
            connection.rollback()

    def tables(self, connection: Connection) -> list[str]:
        """See Dialect. Those of the search path have no schema before them."""
        cursor = connection.cursor()
        cursor.execute(
            "SELECT CASE WHEN table_schema = ANY (current_schemas(false)) THEN table_name"
            " ELSE table_schema || '.' || table_name END FROM information_schema.tables"
            " WHERE table_schema NOT IN ('pg_catalog', 'information_schema') ORDER BY 1"
        )
        return [name for (name,) in cursor.fetchmany(TABLES_MAX)]

    def rows(self, connection: Connection, statement: str, parameters: Sequence[Any], count: int) -> Cursor:
        """See Dialect. A cursor with a name stays at the server, which sends `count` rows at a time."""
        cursor: Any = connection.cursor(name="kvorum")  # type: ignore[call-arg]
        cursor.itersize = count
        cursor.execute(statement, parameters)
        return cursor  # type: ignore[no-any-return]

    def from_database(self, value: Any, kind: DataType) -> Any:
        """See Dialect."""
        match kind:
            case TimestampType() if isinstance(value, datetime.datetime) and value.tzinfo is None:
                return value.replace(tzinfo=datetime.UTC)
            case DecimalType():
                return value.quantize(decimal.Decimal(1).scaleb(-kind.scale), rounding=decimal.ROUND_HALF_EVEN)
            case StringType() if not isinstance(value, str):
                return text_of(value)
            case BinaryType():
                return bytes(value)
            case _:
                return value

    def to_database(self, value: Any) -> Any:
        """See Dialect."""
        return value

    def as_offset(self, expression: str) -> str:
        """See Dialect. Text has the microseconds that JSON's numbers would lose."""
        return f"({expression})::text"

    def from_offset(self, expression: str) -> str:
        """See Dialect. In a session in UTC, and in either type of timestamp, this reads what as_offset wrote."""
        return f"{self.marker}::timestamptz"

    def past(self, expression: str, delay_ms: int) -> str:
        """See Dialect. The statement's time, not the transaction's."""
        return f"{expression} <= statement_timestamp() - interval '{delay_ms} milliseconds'"

    def type_name(self, kind: DataType, *, key: bool) -> str:
        """See Dialect."""
        match kind:
            case TimestampType():
                return "timestamp with time zone"
            case TimestampNTZType():
                return "timestamp"
            case DecimalType():
                return f"numeric({kind.precision}, {kind.scale})"
            case StructType() | ArrayType() | MapType():
                raise DatabaseError(
                    f"no column for {kind.simpleString()}: use Flatten, or ReplaceField to leave it out"
                )
            case _ if kind.typeName() in NAMES:
                return NAMES[kind.typeName()]
            case _:
                raise DatabaseError(f"no column for {kind.simpleString()}")

    def passing(self, error: BaseException) -> bool:
        """See Dialect. An error without a state is of the connection itself."""
        import psycopg

        if isinstance(error, psycopg.OperationalError | psycopg.InterfaceError):
            return error.sqlstate is None or error.sqlstate.startswith(PASSING)
        return isinstance(error, psycopg.Error) and (error.sqlstate or "").startswith(PASSING)


def spark_type(oid: int, precision: int | None, scale: int | None) -> DataType:
    """Return what a type is read as."""
    if oid != NUMERIC:
        return TYPES.get(oid, StringType())
    if precision is None:
        return UNBOUNDED
    return DecimalType(min(precision, DECIMAL_DIGITS_MAX), min(scale or 0, DECIMAL_DIGITS_MAX))


def text_of(value: Any) -> str:
    """Return a value that Spark has no type for as text: JSON as JSON, the rest as Python writes it."""
    return json.dumps(value, default=str) if isinstance(value, dict | list) else str(value)
