"""Interface for the differences between databases, and the lookup by URL.

Drivers are Python's (DB-API), not Java's: pip brings them, and they run in the Python workers, where offsets are read
and rows become Arrow batches (docs/pipelines/README.md says what that costs). URLs are JDBC's or the drivers' own:
`jdbc:sqlite:/path` or `sqlite:/path`, `jdbc:postgresql://host:port/database` or `postgresql://...`.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol
from urllib.parse import parse_qsl, unquote, urlsplit

from pyspark.sql.types import DataType

OffsetValue = str | int | float
"""A value of a position in a table that survives JSON and comes back exactly."""


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

    def from_database(self, value: Any, kind: DataType) -> Any:
        """Return a value that is not None as Arrow takes it for a column of this type."""
        ...

    def to_database(self, value: Any) -> Any:
        """Return a value of an Arrow batch as the driver takes it."""
        ...

    def as_offset(self, expression: str) -> str:
        """Return the SQL that reads a timestamp as an OffsetValue."""
        ...

    def from_offset(self, expression: str) -> str:
        """Return the SQL of a parameter that is compared with this timestamp expression."""
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


def quoted(name: str) -> str:
    """Return a name as SQL's identifier; `schema.table` is two."""
    return ".".join('"' + part.replace('"', '""') + '"' for part in name.split("."))


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
