"""PostgreSQL, by psycopg 3 (`pip install 'psycopg[binary]'`).

Rows are read as PostgreSQL's text, in a session whose settings make that text exact, and converted here: psycopg's own
conversions change some values (months of an interval become days, digits in JSON become floats) and reject others
(infinity, years before 1 and after 9999). A type that Spark does not have is carried as PostgreSQL's text: time,
interval, uuid, json, arrays, ranges, enums, composite types, and numeric unless its precision fits Spark's decimals.

`timestamp` without a zone is read and compared as UTC, as Connect's JDBC source does by default.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
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

from kvorum.pipelines.cdc import values
from kvorum.pipelines.databases.dialect import (
    DAYS,
    DECIMAL_DIGITS_MAX,
    TABLES_MAX,
    TIMES_US,
    Column,
    Connection,
    Convert,
    Cursor,
    DatabaseError,
    OffsetValue,
    exact_decimal,
    within,
)

CONNECT_SECONDS = "10"
SESSION = " ".join(f"-c {name}={value}" for name, value in values.SESSION.items())
# {type's oid: what it is read as}; the rest is text, numeric is in spark_type.
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
INTEGER_BITS: Mapping[type[DataType], int] = {ShortType: 16, IntegerType: 32, LongType: 64}
BYTES = re.compile(r"\\x([0-9a-f]*)")
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
        options: dict[str, Any] = {"connect_timeout": CONNECT_SECONDS, **self.settings, "client_encoding": "utf8"}
        options["options"] = f"{self.settings.get('options', '')} {SESSION}"  # of two with one name the last counts
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
            result: Any = cursor.pgresult  # type: ignore[attr-defined]
            return [
                Column(name=each[0], type=spark_type(each[1], result.fmod(index)))
                for index, each in enumerate(cursor.description or ())
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
        """See Dialect. A cursor with a name stays at the server, which sends `count` rows at a time. Values are bytes.

        The bytes are PostgreSQL's text of the value.
        """
        import psycopg

        class Text(psycopg.adapt.Loader):
            def load(self, data: Any) -> bytes:
                return bytes(data)

        cursor: Any = connection.cursor(name="kvorum")  # type: ignore[call-arg]
        for each in psycopg.adapters.types:
            for oid in (each.oid, each.array_oid):
                if oid:
                    cursor.adapters.register_loader(oid, Text)
        cursor.adapters.register_loader(0, Text)  # types that psycopg does not know
        cursor.itersize = count
        cursor.execute(statement, parameters)
        return cursor  # type: ignore[no-any-return]

    def converter(self, kind: DataType) -> Convert:
        """See Dialect."""
        convert = text_converter(kind)
        return lambda value: convert(value.decode())

    def shown(self, value: Any) -> str | int | float:
        """See Dialect."""
        return str(value.decode(errors="backslashreplace"))

    def to_database(self, value: Any) -> Any:
        """See Dialect."""
        return value

    def as_offset(self, expression: str) -> str:
        """See Dialect. Text has the microseconds that JSON's numbers would lose."""
        return f"({expression})::text"

    def from_offset(self, expression: str) -> str:
        """See Dialect. In a session in UTC, and in either type of timestamp, this reads what as_offset wrote."""
        return f"{self.marker}::timestamptz"

    def offset_value(self, value: Any) -> OffsetValue:
        """See Dialect. What is not a number here (numeric, uuid, date) is text, which PostgreSQL reads again."""
        if isinstance(value, bytes):
            raise DatabaseError("a bytea column cannot be a position: use a number, a time or text")
        return value if isinstance(value, int | float | str) else str(value)

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


def spark_type(oid: int, modifier: int) -> DataType:
    """Return what a type is read as, by its oid and its modifier (-1: none)."""
    if oid != values.NUMERIC or modifier < 0:
        return TYPES.get(oid, StringType())
    precision, scale = (modifier - 4) >> 16, ((modifier - 4) & 0x7FF ^ 0x400) - 0x400  # the scale has a sign
    digits = max(precision, scale) if scale >= 0 else precision - scale
    return DecimalType(digits, max(scale, 0)) if digits <= DECIMAL_DIGITS_MAX else StringType()


def text_converter(kind: DataType) -> Callable[[str], object]:
    """Return the function from PostgreSQL's text to an Arrow value."""
    match kind:
        case ShortType() | IntegerType() | LongType():
            bits = INTEGER_BITS[type(kind)]
            limits = range(-(1 << bits - 1), 1 << bits - 1)
            return lambda text: within(int(text), limits, f"a {kind.simpleString()}")
        case FloatType() | DoubleType():
            return float
        case BooleanType():
            return boolean
        case DecimalType():
            return partial(exact_decimal, kind=kind)
        case DateType():
            return date
        case TimestampType():
            return timestamp
        case BinaryType():
            return binary
        case _:
            return str


def boolean(text: str) -> bool:
    """Return a boolean. Raises ValueError."""
    if text not in ("t", "f"):
        raise ValueError("not a boolean")
    return text == "t"


def date(text: str) -> int:
    """Return a date as days since 1970. Raises ValueError for infinity and for years that Spark does not have."""
    days = values.date_days(text)
    return within(days if isinstance(days, int) else DAYS.stop, DAYS, "a date from year 1 to 9999")


def timestamp(text: str) -> int:
    """Return a time as microseconds since 1970. Raises ValueError for infinity and years that Spark does not have."""
    micros = values.timestamp_micros(text)
    return within(micros if isinstance(micros, int) else TIMES_US.stop, TIMES_US, "a time from year 1 to 9999")


def binary(text: str) -> bytes:
    """Return bytes. Raises ValueError."""
    found = BYTES.fullmatch(text)
    if found is None:
        raise ValueError("not bytes in hexadecimal")
    return bytes.fromhex(found[1])
