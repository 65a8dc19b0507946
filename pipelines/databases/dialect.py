"""Interface for the differences between databases, and the lookup by URL.

Drivers are Python's (DB-API), not Java's: pip brings them, and they run in the Python workers, where offsets are read
and rows become Arrow batches (docs/pipelines/README.md says what that costs). URLs are JDBC's or the drivers' own:
`jdbc:sqlite:/path` or `sqlite:/path`, `jdbc:postgresql://host:port/database` or `postgresql://...`.
"""

import decimal
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol
from urllib.parse import parse_qsl, unquote, urlsplit

from pyspark.sql.types import DataType, DecimalType

OffsetValue = str | int | float
"""A value of a position in a table that survives JSON and comes back exactly."""

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
"""Of whose names one is looked for that is like a misspelt one."""


class DatabaseError(Exception):
    """An error of a database or its URL."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """A column of a table or of a query's result."""

    name: str
    type: DataType
    nullable: bool = True


class Cursor(Protocol):
    """DB-API's."""

    description: Sequence[Sequence[Any]] | None

    def execute(self, statement: str, parameters: Sequence[Any] = ..., /) -> Any:
        """Run one statement."""
        ...

    def executemany(self, statement: str, parameters: Sequence[Sequence[Any]], /) -> Any:
        """Run one statement for each row of parameters, in their order."""
        ...

    def fetchone(self) -> Any:
        """Return the next row, or None."""
        ...

    def fetchmany(self, size: int, /) -> list[Any]:
        """Return the next rows."""
        ...

    def close(self) -> None:
        """End it."""
        ...


class Connection(Protocol):
    """DB-API's."""

    def cursor(self) -> Cursor:
        """Return a new cursor."""
        ...

    def commit(self) -> None:
        """Make the transaction last."""
        ...

    def rollback(self) -> None:
        """Undo the transaction."""
        ...

    def close(self) -> None:
        """End it; an open transaction is undone."""
        ...


class Dialect(Protocol):
    """One database, reached with the settings it was made with. Can be pickled: tasks connect for themselves."""

    @property
    def marker(self) -> str:
        """Return how a parameter stands in a statement."""
        ...

    @property
    def single_writer(self) -> bool:
        """Whether one connection at a time can write."""
        ...

    def connect(self, *, create: bool = False) -> Connection:
        """Open a connection, not in autocommit. `create`: a database that is a file is made. Raises DatabaseError."""
        ...

    def columns(self, connection: Connection, relation: str) -> list[Column]:
        """Return the columns of a table (quoted) or of a query in parentheses with a name."""
        ...

    def tables(self, connection: Connection) -> list[str]:
        """Return the tables and views there are, as `quoted` takes them: for a message about one that is not."""
        ...

    def rows(self, connection: Connection, statement: str, parameters: Sequence[Any], count: int) -> Cursor:
        """Run a query whose result may be larger than memory; `count` rows are fetched at a time."""
        ...

    def converter(self, kind: DataType) -> Convert:
        """Return the function that makes Arrow values of this type from the values of `rows` that are not None.

        It returns the value exactly or raises ValueError. Dates are days and timestamps microseconds since 1970.
        """
        ...

    def shown(self, value: Any) -> str | int | float:
        """Return a value of `rows` for a message or JSON, also one that no Arrow column of its type can hold."""
        ...

    def to_database(self, value: Any) -> Any:
        """Return a value of an Arrow batch as the driver takes it. Raises ValueError for what would be altered."""
        ...

    def as_offset(self, expression: str) -> str:
        """Return the SQL that reads a timestamp as an OffsetValue."""
        ...

    def from_offset(self, expression: str) -> str:
        """Return the SQL of a parameter that is compared with this timestamp expression."""
        ...

    def offset_value(self, value: Any) -> OffsetValue:
        """Return a value of a position as the driver read it. Raises DatabaseError for a type that JSON cannot hold."""
        ...

    def past(self, expression: str, delay_ms: int) -> str:
        """Return the SQL condition that a timestamp is at least so long ago."""
        ...

    def type_name(self, kind: DataType, *, key: bool) -> str:
        """Return the type of a new table's column. Raises DatabaseError for what it has no column for."""
        ...

    def passing(self, error: BaseException) -> bool:
        """Whether the same may succeed when it is tried again: a lost connection, a lock, a deadlock."""
        ...


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
    try:
        number = exact.quantize(decimal.Decimal(text), decimal.Decimal(1).scaleb(-kind.scale))
    except decimal.DecimalException:
        number = None
    if number is None or not number.is_finite():
        raise ValueError(f"not a {kind.simpleString()}")
    return number


def within(number: int, limits: range, what: str) -> int:
    """Return the number. Raises ValueError if it is outside the limits."""
    if number not in limits:
        raise ValueError(f"not {what}")
    return number


def dialect_of(url: str, user: str | None = None, password: str | None = None) -> Dialect:
    """Return the dialect of a database by its URL. Raises DatabaseError for one there is none for."""
    # Imported here: a driver that is not installed must not matter to who does not use it.
    plain = url.removeprefix("jdbc:")
    scheme = plain.partition(":")[0].lower()
    if scheme == "sqlite":
        from kvorum.pipelines.databases.sqlite import Sqlite

        path = plain.partition(":")[2]
        path = path.removeprefix("///")  # SQLAlchemy's form: three slashes, then the path
        if not path or path == ":memory:":
            raise DatabaseError(f"{url}: a file is required; an in-memory database is not visible to other processes")
        return Sqlite(path)
    if scheme in ("postgresql", "postgres"):
        from kvorum.pipelines.databases.postgresql import Postgresql

        return Postgresql(postgresql_settings(plain, user, password))
    raise DatabaseError(f"{url}: unsupported scheme {scheme!r}; use sqlite or postgresql")


def postgresql_settings(url: str, user: str | None, password: str | None) -> dict[str, str]:
    """Return libpq's settings of a URL in JDBC's or libpq's form. Raises DatabaseError."""
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError as error:
        raise DatabaseError(f"{url}: {error}") from error
    names = {"ssl": "sslmode"}  # JDBC's name for it
    given = {names.get(key, key): value for key, value in parse_qsl(parts.query)}
    if given.get("sslmode") == "true":
        given["sslmode"] = "require"
    found = {
        "host": unquote(parts.hostname or ""),
        "port": str(port or ""),
        "dbname": unquote(parts.path.lstrip("/")),
        "user": user or unquote(parts.username or ""),
        "password": password or unquote(parts.password or ""),
    }
    return {key: value for key, value in found.items() if value} | given
