"""The statements that differ between databases in names only: a table read from a position on, rows written.

A position is the values of the columns by which a table grows, in the order in which they count: (timestamp,),
(id,), or (timestamp, id). SQL compares such rows as we need it: by the first that differs.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from kvorum.pipelines.databases.dialect import Dialect, OffsetValue, identifier, quoted

Position = tuple[OffsetValue, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Statement:
    """SQL and its parameters."""

    text: str
    parameters: Sequence[object] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Growth:
    """How a table grows, and the statements that follow it."""

    dialect: Dialect
    relation: str
    """A quoted table, or a query in parentheses with a name."""
    timestamps: Sequence[str] = ()
    """Columns; the first that is not null counts, as in Connect."""
    incrementing: str | None = None
    delay_ms: int = 0

    @property
    def timestamp(self) -> str | None:
        """Return the SQL of a row's time."""
        names = [column(self.dialect, name) for name in self.timestamps]
        return None if not names else names[0] if len(names) == 1 else f"COALESCE({', '.join(names)})"

    @property
    def columns(self) -> list[str]:
        """Return the SQL of a position's values."""
        both = (self.timestamp, None if self.incrementing is None else column(self.dialect, self.incrementing))
        return [each for each in both if each is not None]

    @property
    def _relation(self) -> str:
        return escaped(self.dialect, self.relation)

    def beyond(self, start: Position | None, end: Position | None, skip: int | None = None) -> Statement:
        """Return the query of the last position in (start, end], or with `skip` of the one so many rows after start."""
        shown = [self.dialect.as_offset(column) if column == self.timestamp else column for column in self.columns]
        where, parameters = self._between(start, end)
        order = ", ".join(column if skip is not None else f"{column} DESC" for column in self.columns)
        text = f"SELECT {', '.join(shown)} FROM {self._relation}{where} ORDER BY {order} LIMIT 1 OFFSET {skip or 0}"
        return Statement(text=text, parameters=parameters)

    def rows(self, start: Position | None, end: Position | None) -> Statement:
        """Return the query of the rows in (start, end], in the order in which they came."""
        where, parameters = self._between(start, end)
        order = f" ORDER BY {', '.join(self.columns)}" if self.columns else ""
        return Statement(text=f"SELECT * FROM {self._relation}{where}{order}", parameters=parameters)

    def _between(self, start: Position | None, end: Position | None) -> tuple[str, list[object]]:
        conditions: list[str] = []
        parameters: list[object] = []
        left = ", ".join(self.columns)
        time = self.timestamp
        marks = ", ".join(
            self.dialect.from_offset(column) if column == time else self.dialect.marker for column in self.columns
        )
        for position, sign in ((start, ">"), (end, "<=")):
            if position is not None:
                conditions.append(f"({left}) {sign} ({marks})")
                parameters += position
        conditions += [f"{column} IS NOT NULL" for column in self.columns]
        if time is not None and end is None:
            conditions.append(self.dialect.past(time, self.delay_ms))
        return (f" WHERE {' AND '.join(conditions)}" if conditions else ""), parameters


def escaped(dialect: Dialect, text: str) -> str:
    """Return SQL without parameters as a part of a statement: where parameters are written %s, a % is doubled."""
    return text.replace("%", "%%") if dialect.marker == "%s" else text


def column(dialect: Dialect, name: str) -> str:
    """Return the SQL of a column's name in a statement with parameters."""
    return escaped(dialect, identifier(name))


def columns_of(dialect: Dialect, names: Sequence[str]) -> str:
    """Return the SQL of column names, separated by commas."""
    return ", ".join(column(dialect, name) for name in names)


def insert(dialect: Dialect, table: str, columns: Sequence[str]) -> str:
    """Return the statement that adds a row."""
    marks = ", ".join([dialect.marker] * len(columns))
    return f"INSERT INTO {escaped(dialect, quoted(table))} ({columns_of(dialect, columns)}) VALUES ({marks})"


def upsert(dialect: Dialect, table: str, columns: Sequence[str], keys: Sequence[str]) -> str:
    """Return the statement that adds a row, or makes the one with its key equal to it. Twice is as once."""
    others = [column(dialect, name) for name in columns if name not in keys]
    changes = ", ".join(f"{name} = excluded.{name}" for name in others)
    action = f"UPDATE SET {changes}" if others else "NOTHING"
    return f"{insert(dialect, table, columns)} ON CONFLICT ({columns_of(dialect, keys)}) DO {action}"


def hold(dialect: Dialect, table: str, columns: Sequence[str], keys: Sequence[str]) -> str:
    """Return the statement that adds a row, or leaves the one with its key as it is. Other writers of it wait."""
    others = [column(dialect, name) for name in columns if name not in keys]
    same = ", ".join(f"{name} = {escaped(dialect, quoted(table))}.{name}" for name in others)
    return f"{insert(dialect, table, columns)} ON CONFLICT ({columns_of(dialect, keys)}) DO UPDATE SET {same}"


def delete(dialect: Dialect, table: str, keys: Sequence[str]) -> str:
    """Return the statement that removes the row with a key."""
    where = " AND ".join(f"{column(dialect, key)} = {dialect.marker}" for key in keys)
    return f"DELETE FROM {escaped(dialect, quoted(table))} WHERE {where}"


def create(table: str, columns: Sequence[tuple[str, str]], keys: Sequence[str]) -> str:
    """Return the statement that makes a table if there is none; `columns` are names and the database's types."""
    lines = [f"{identifier(name)} {kind}" for name, kind in columns]
    if keys:
        lines.append(f"PRIMARY KEY ({', '.join(map(identifier, keys))})")
    return f"CREATE TABLE IF NOT EXISTS {quoted(table)} ({', '.join(lines)})"
