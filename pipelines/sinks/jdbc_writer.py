"""The JDBC sink's task: Arrow batches into a table, in their order, in transactions."""

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from itertools import groupby
from typing import Any

import pyarrow as pa
from pyspark.sql.types import StructType

from kvorum.pipelines.databases import statements
from kvorum.pipelines.databases.dialect import Connection, Cursor, DatabaseError, Dialect, identifier

DELETED = "__deleted"
MARKS = "kvorum_batches"
ATTEMPTS = 5
"""Of a transaction that another one stood in the way of; then the micro-batch fails, and is tried again as a whole."""
PAUSE_SECONDS = 0.2


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """Where rows go, and how."""

    name: str
    columns: Sequence[str]
    keys: Sequence[str]
    upsert: bool
    batch_rows: int


NEVER = -1
"""The micro-batch before the first."""

Mark = tuple[str, int]
"""A query and the number of its micro-batch."""


def create_table(dialect: Dialect, name: str, schema: StructType, keys: Sequence[str]) -> None:
    """Make the table if there is none. Raises DatabaseError for a column that the database has no type for."""
    columns = [(field.name, dialect.type_name(field.dataType, key=field.name in keys)) for field in schema]
    with closing(dialect.connect(create=True)) as connection:
        connection.cursor().execute(statements.create(name, columns, keys))
        connection.commit()


def write_rows(
    dialect: Dialect, table: Table, mark: Mark | None
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """Return what a task runs (mapInArrow): it writes its rows and yields how many.

    With a mark, rows that end are all there are: who cannot be sure of that takes the task through `whole_input`.
    """

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        with closing(dialect.connect()) as connection:
            count = (
                in_one(connection, dialect, table, batches, mark)
                if mark
                else in_parts(connection, dialect, table, batches)
            )
        yield pa.RecordBatch.from_pydict({"rows": [count]}, schema=pa.schema([("rows", pa.int64())]))

    return run


def in_parts(connection: Connection, dialect: Dialect, table: Table, batches: Iterator[pa.RecordBatch]) -> int:
    """Write in transactions of some rows each; for what may be written twice."""
    count = 0
    for rows in parts(batches, table.batch_rows):
        for attempt in range(ATTEMPTS):
            try:
                with closing(connection.cursor()) as cursor:
                    execute(cursor, dialect, table, rows)
                connection.commit()
                break
            except Exception as error:
                connection.rollback()
                if attempt == ATTEMPTS - 1 or not dialect.passing(error):
                    raise
                time.sleep(PAUSE_SECONDS * 2**attempt)
        count += len(rows)
    return count


def in_one(
    connection: Connection, dialect: Dialect, table: Table, batches: Iterator[pa.RecordBatch], mark: Mark
) -> int:
    """Write all in one transaction with the micro-batch's mark, unless the mark says that it was written before.

    Other attempts at the same wait at the mark until this one has ended: one that its executor has left behind, say.
    """
    query, batch = mark
    count = 0
    with closing(connection.cursor()) as cursor:
        cursor.execute(statements.create(MARKS, (("query", "varchar(500)"), ("batch", "bigint")), ("query",)))
        cursor.execute(statements.hold(dialect, MARKS, ("query", "batch"), ("query",)), (query, NEVER))
        where = identifier("query")
        cursor.execute(f"SELECT batch FROM {identifier(MARKS)} WHERE {where} = {dialect.marker}", (query,))
        (written,) = cursor.fetchone()
        if written < batch:
            for rows in parts(batches, table.batch_rows):
                execute(cursor, dialect, table, rows)
                count += len(rows)
            cursor.execute(statements.upsert(dialect, MARKS, ("query", "batch"), ("query",)), (query, batch))
    connection.commit()
    return count


def parts(batches: Iterator[pa.RecordBatch], size: int) -> Iterator[list[dict[str, Any]]]:
    """Yield rows, so many at a time."""
    for batch in batches:
        for start in range(0, batch.num_rows, size):
            yield batch.slice(start, size).to_pylist()


def execute(cursor: Cursor, dialect: Dialect, table: Table, rows: list[dict[str, Any]]) -> None:
    """Write or delete rows in their order: a key's last row stands."""
    make = (
        statements.upsert(dialect, table.name, table.columns, table.keys)
        if table.upsert
        else statements.insert(dialect, table.name, table.columns)
    )
    for deleted, group in groupby(rows, key=lambda row: row[DELETED]):
        names = table.keys if deleted else table.columns
        text = statements.delete(dialect, table.name, table.keys) if deleted else make
        cursor.executemany(text, [[value_of(dialect, name, row[name]) for name in names] for row in group])


def value_of(dialect: Dialect, name: str, value: Any) -> Any:
    """Return a value of a column as the driver takes it. Raises DatabaseError."""
    try:
        return None if value is None else dialect.to_database(value)
    except ValueError as error:
        raise DatabaseError(f"column {name}: a value is not a valid one: {error}") from error
