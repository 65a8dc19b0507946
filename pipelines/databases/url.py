"""The dialect of a database by its URL."""

from urllib.parse import parse_qsl, unquote, urlsplit

from kvorum.pipelines.databases.dialect import DatabaseError, Dialect
from kvorum.pipelines.databases.sqlite import Sqlite


def dialect_of(url: str, user: str | None = None, password: str | None = None) -> Dialect:
    """Return the dialect of a database by its URL. Raises DatabaseError for one there is none for."""
    plain = url.removeprefix("jdbc:")
    scheme, _, path = plain.partition(":")
    if scheme.lower() == "sqlite":
        path = path.removeprefix("///")  # SQLAlchemy's form: three slashes, then the path
        if not path or path == ":memory:":
            raise DatabaseError(f"{url}: a file is required; an in-memory database is not visible to other processes")
        return Sqlite(path)
    if scheme.lower() in ("postgresql", "postgres"):
        try:  # a driver that is not installed matters only to its users
            from kvorum.pipelines.databases.postgresql import Postgresql
        except ModuleNotFoundError as error:
            raise DatabaseError("PostgreSQL needs psycopg: pip install 'psycopg[binary]'") from error
        return Postgresql(postgresql_settings(plain, user, password))
    raise DatabaseError(f"{url}: unsupported scheme {scheme.lower()!r}; use sqlite or postgresql")


def postgresql_settings(url: str, user: str | None, password: str | None) -> dict[str, str]:
    """Return libpq's settings of a URL in JDBC's or libpq's form. Raises DatabaseError."""
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError as error:
        raise DatabaseError(f"{url}: {error}") from error
    given = {"sslmode" if key == "ssl" else key: value for key, value in parse_qsl(parts.query)}  # ssl: JDBC's name
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
