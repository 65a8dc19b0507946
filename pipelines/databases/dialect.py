"""Databases: what SQLite and PostgreSQL do differently (Dialect), and the statements of a source and of a sink.

Drivers are Python's (DB-API), not Java's: pip installs them, and they run in the Python workers, where offsets are read
and rows become Arrow batches (docs/decisions/0016). URLs are JDBC's or the drivers' own: `jdbc:sqlite:/path` or
`sqlite:/path`, `jdbc:postgresql://host:port/database` or `postgresql://...`.
"""

import decimal
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass
from typing import Any, ClassVar, TypeAlias

from pyspark.sql.types import DataType, DecimalType

Connection: TypeAlias = Any
"""DB-API's; psycopg's and sqlite3's have no common type."""
Cursor: TypeAlias = Any
OffsetValue = str | int | float
"""A value of a position in a table that survives JSON and comes back exactly."""
Position = tuple[OffsetValue, ...]
"""Values of the columns by which a table grows, the most significant first: (timestamp,), (id,), or (timestamp, id).

SQL compares such rows as needed: by the first value that differs.
"""
Statement = tuple[str, Sequence[object]]
"""SQL and its parameters."""
Convert = Callable[[Any], object]
"""From a driver's value to the one in an Arrow column. Raises ValueError with the reason, for this value only."""

DECIMAL_DIGITS_MAX = 38
"""Of Spark's decimals."""
DAYS = range(-719_162, 2_932_897)
"""0001-01-01 to 9999-12-31 in days since 1970: the range of Spark's dates."""
DAY_US = 86_400_000_000
TIMES_US = range(DAYS.start * DAY_US, DAYS.stop * DAY_US)
"""Spark's timestamps, in microseconds since 1970."""
TABLES_MAX = 10_000
"""Table names that are compared with a misspelt one."""


class DatabaseError(Exception):
    """An error of a database or its URL."""


class Dialect(ABC):
    """One database, reached with the settings it was made with. Can be pickled: each task opens its own connection."""

    marker: ClassVar[str]
    """How a parameter is written in a statement."""
    single_writer: ClassVar[bool]
    """Whether one connection at a time can write."""
    type_names: ClassVar[Mapping[str, str]]
    """{Spark's type: the type of a new table's column}."""
    tables_query: ClassVar[str]
    """Names of the tables and views, in the form that `quoted` takes."""

    @abstractmethod
    def connect(self, *, create: bool = False) -> Connection:
        """Open a connection, not in autocommit. `create`: create a database that is a file. Raises DatabaseError."""

    @abstractmethod
    def columns(self, connection: Connection, relation: str) -> list[tuple[str, DataType]]:
        """Return names and types of a quoted table, or of a query in parentheses with a name. Raises DatabaseError."""

    @abstractmethod
    def rows(self, connection: Connection, statement: Statement, count: int) -> Cursor:
        """Run a query whose result may be larger than memory; `count` rows are fetched at a time."""

    @abstractmethod
    def converter(self, kind: DataType) -> Convert:
        """Return the function that makes Arrow values of this type from the values of `rows` that are not None.

        It returns the value exactly or raises ValueError. Dates are days and timestamps microseconds since 1970.
        """

    @abstractmethod
    def shown(self, value: Any) -> str | int | float:
        """Return a value of `rows` for a message or JSON, also one that no Arrow column of its type can hold."""

    @abstractmethod
    def past(self, expression: str, delay_ms: int) -> str:
        """Return the SQL condition that a timestamp is at least so long ago."""

    @abstractmethod
    def passing(self, error: BaseException) -> bool:
        """Return whether another attempt may succeed: after a lost connection, a lock, a deadlock."""

    def to_database(self, value: Any) -> Any:
        """Return a value of an Arrow batch as the driver takes it. Raises ValueError for a value it would alter."""
        return value

    def as_offset(self, expression: str) -> str:
        """Return the SQL that reads a timestamp as an OffsetValue."""
        return expression

    def from_offset(self) -> str:
        """Return the SQL of a parameter that is compared with a timestamp."""
        return self.marker

    def offset_value(self, value: Any) -> OffsetValue:
        """Return a value of a position as the driver read it: a number, else text that the database reads again."""
        if isinstance(value, bytes):
            name = self.type_names["binary"]
            raise DatabaseError(f"a {name} column cannot be a position: use a number, a time or text")
        return value if isinstance(value, int | float | str) else str(value)

    def tables(self, connection: Connection) -> list[str]:
        """Return the names of tables and views, for a message about a missing one."""
        with closing(connection.cursor()) as cursor:
            cursor.execute(self.tables_query)
            return [name for (name,) in cursor.fetchmany(TABLES_MAX)]

    def type_name(self, kind: DataType) -> str:
        """Return the type of a new table's column. Raises DatabaseError if the database has none."""
        name = self.type_names.get(kind.typeName())
        if name is None:
            raise DatabaseError(f"no column for {kind.simpleString()}: use Flatten, or ReplaceField to leave it out")
        return f"{name}({kind.precision}, {kind.scale})" if isinstance(kind, DecimalType) else name

    def escaped(self, sql: str) -> str:
        """Return SQL without parameters as a part of a statement: where parameters are written %s, a % is doubled."""
        return sql.replace("%", "%%") if self.marker == "%s" else sql

    def column(self, name: str) -> str:
        """Return the SQL of a column's name in a statement with parameters."""
        return self.escaped(identifier(name))

    def insert(self, table: str, columns: Sequence[str]) -> str:
        """Return the statement that adds a row."""
        marks = ", ".join([self.marker] * len(columns))
        return f"INSERT INTO {self.escaped(quoted(table))} ({self._list(columns)}) VALUES ({marks})"

    def upsert(self, table: str, columns: Sequence[str], keys: Sequence[str], *, replace: bool = True) -> str:
        """Return the statement that adds a row, or makes the one with its key equal to it. Twice has the same result.

        Without `replace` an existing row keeps its values; as it is locked, other writers of it wait.
        """
        source = "excluded" if replace else self.escaped(quoted(table))
        others = [self.column(name) for name in columns if name not in keys]
        changes = ", ".join(f"{name} = {source}.{name}" for name in others)
        action = f"UPDATE SET {changes}" if changes else "NOTHING"
        return f"{self.insert(table, columns)} ON CONFLICT ({self._list(keys)}) DO {action}"

    def delete(self, table: str, keys: Sequence[str]) -> str:
        """Return the statement that removes the row with a key."""
        where = " AND ".join(f"{self.column(key)} = {self.marker}" for key in keys)
        return f"DELETE FROM {self.escaped(quoted(table))} WHERE {where}"

    def _list(self, names: Sequence[str]) -> str:
        return ", ".join(map(self.column, names))


@dataclass(frozen=True, slots=True, kw_only=True)
class Growth:
    """How a table grows, and the queries that follow it."""

    dialect: Dialect
    relation: str
    """A quoted table, or a query in parentheses with a name."""
    timestamps: Sequence[str] = ()
    """Columns; the first that is not null counts, as in Connect."""
    incrementing: str | None = None
    delay_ms: int = 0

    @property
    def names(self) -> list[str]:
        """Return the columns that a position is made of."""
        return [*self.timestamps, *([] if self.incrementing is None else [self.incrementing])]

    @property
    def parts(self) -> list[str]:
        """Return the names of a position's values in an offset."""
        return ["timestamp"] * bool(self.timestamps) + ["incrementing"] * (self.incrementing is not None)

    @property
    def timestamp(self) -> str | None:
        """Return the SQL of a row's time."""
        names = [self.dialect.column(name) for name in self.timestamps]
        return f"COALESCE({', '.join(names)})" if len(names) > 1 else names[0] if names else None

    @property
    def columns(self) -> list[str]:
        """Return the SQL of a position's values."""
        number = [] if self.incrementing is None else [self.dialect.column(self.incrementing)]
        return number if self.timestamp is None else [self.timestamp, *number]

    def beyond(self, start: Position | None, end: Position | None, skip: int | None = None) -> Statement:
        """Return the query of the last position in (start, end], or with `skip` of the one so many rows after start."""
        shown = [self.dialect.as_offset(column) if column == self.timestamp else column for column in self.columns]
        order = ", ".join(column if skip is not None else f"{column} DESC" for column in self.columns)
        return self._query(", ".join(shown), start, end, f" ORDER BY {order} LIMIT 1 OFFSET {skip or 0}")

    def rows(self, start: Position | None, end: Position | None) -> Statement:
        """Return the query of the rows in (start, end], in the order in which they came."""
        return self._query("*", start, end, f" ORDER BY {', '.join(self.columns)}" if self.columns else "")

    def _query(self, shown: str, start: Position | None, end: Position | None, order: str) -> Statement:
        conditions, parameters = list[str](), list[object]()
        time = self.timestamp
        markers = (self.dialect.from_offset() if column == time else self.dialect.marker for column in self.columns)
        row, marks = ", ".join(self.columns), ", ".join(markers)
        for position, sign in ((start, ">"), (end, "<=")):
            if position is not None:
                conditions.append(f"({row}) {sign} ({marks})")
                parameters += position
        conditions += [f"{column} IS NOT NULL" for column in self.columns]
        if time is not None and end is None:
            conditions.append(self.dialect.past(time, self.delay_ms))
        where = f" WHERE {' AND '.join(conditions)}" if conditions else ""
        return f"SELECT {shown} FROM {self.dialect.escaped(self.relation)}{where}{order}", parameters


def create_table(table: str, columns: Sequence[tuple[str, str]], keys: Sequence[str]) -> str:
    """Return the statement that creates a missing table; `columns` are names and the database's types."""
    lines = [f"{identifier(name)} {kind}" for name, kind in columns]
    if keys:
        lines.append(f"PRIMARY KEY ({', '.join(map(identifier, keys))})")
    return f"CREATE TABLE IF NOT EXISTS {quoted(table)} ({', '.join(lines)})"


def identifier(name: str) -> str:
    """Return a name as one SQL identifier."""
    return '"' + name.replace('"', '""') + '"'


def name_parts(name: str) -> list[str]:
    """Return the parts of a table name: `schema.table` has two, `schema."a.b"` has a dot in its second."""
    parts: list[str] = []
    for part in re.findall(r'(?:^|\.)("(?:[^"]|"")+"(?=\.|$)|[^.]*)', name):
        is_quoted = len(part) > 1 and part[0] == part[-1] == '"'
        parts.append(part[1:-1].replace('""', '"') if is_quoted else part)
    return parts


def quoted(name: str) -> str:
    """Return a table name as SQL, each of its parts an identifier."""
    return ".".join(map(identifier, name_parts(name)))


def exact_decimal(text: str, kind: DecimalType) -> decimal.Decimal:
    """Return a number's text as a decimal of this type. Raises ValueError if it would not be the same number."""
    exact = decimal.Context(prec=kind.precision, traps=[decimal.Inexact, decimal.InvalidOperation])
    with suppress(decimal.DecimalException):
        number = exact.quantize(decimal.Decimal(text), decimal.Decimal(1).scaleb(-kind.scale))
        if number.is_finite():
            return number
    raise ValueError(f"not a {kind.simpleString()}")


def within(number: object, limits: range, what: str) -> int:
    """Return a number. Raises ValueError if it is outside the limits, or text that is no number (infinity)."""
    if not isinstance(number, int) or number not in limits:
        raise ValueError(f"not {what}")
    return number
