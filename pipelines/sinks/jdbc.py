"""Records into a table of a database, with the options of Connect's JDBC sink.

`insert.mode: upsert` (the default here) is idempotent: a replayed micro-batch has the same result. `insert` is exactly
once by a table of our own in the same database (`kvorum_batches`), which is written in the same transaction as the
rows: such a micro-batch is one transaction of one task. `pk.mode` says where the key's columns come from: record_key,
record_value, kafka (topic, partition, offset), or none. A record without a value is a row's deletion if
`delete.enabled`, and is left out otherwise.
"""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from itertools import groupby
from typing import Any, ClassVar, Literal

import pyarrow as pa
from pydantic import BaseModel, Field, model_validator
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from kvorum.pipelines.bridge.whole import whole_input
from kvorum.pipelines.databases import dialect as databases
from kvorum.pipelines.databases.dialect import Connection, Cursor, DatabaseError, Dialect
from kvorum.pipelines.plugins import Context, WriteBatch
from kvorum.pipelines.sinks.writing import BatchSink, query_name, value_columns
from kvorum.pipelines.sources.options import DatabaseOptions, Names

KAFKA_COLUMNS = ("topic", "partition", "offset")
KAFKA_NAMES = ("__connect_topic", "__connect_partition", "__connect_offset")
WRITTEN = "rows bigint"
DELETED = "__deleted"
MARKS = "kvorum_batches"
FIRST_MARK = -1
"""The micro-batch before the first."""
ATTEMPTS = 5
"""Of a transaction that another one blocks; then the micro-batch fails, and is retried as a whole."""
PAUSE_SECONDS = 0.2

Mark = tuple[str, int]
"""A query and the number of its micro-batch."""


class JdbcSinkOptions(DatabaseOptions):
    """`sink: {type: jdbc, ...}`; `url`, `user`, `password` and `table` are short for Connect's names."""

    SHORT: ClassVar[Mapping[str, str]] = {**DatabaseOptions.SHORT, "table": "table.name.format"}

    table_name_format: str = Field(min_length=1)
    insert_mode: Literal["insert", "upsert"] = "upsert"
    pk_mode: Literal["none", "kafka", "record_key", "record_value"] = "record_value"
    pk_fields: Names = ()
    """With record_key: its fields (all, if none is named), or the one column that a key without fields becomes."""
    delete_enabled: bool = False
    auto_create: bool = False
    batch_size: int = Field(default=1000, ge=1, le=100_000)

    @model_validator(mode="after")
    def _fits(self) -> "JdbcSinkOptions":
        if self.insert_mode == "upsert" and self.pk_mode == "none":
            raise ValueError("upsert needs a key: pk.mode is none")
        if self.pk_mode == "record_value" and not self.pk_fields and self.insert_mode == "upsert":
            raise ValueError("pk.mode record_value requires pk.fields, the columns of the key")
        if self.delete_enabled and self.pk_mode != "record_key":
            raise ValueError("delete.enabled requires pk.mode record_key: a tombstone has only a key")
        if "${" in self.table_name_format:
            raise ValueError(
                "table.name.format: ${topic} is not supported: one table per pipeline, because columns differ"
            )
        return self


class JdbcSink(BatchSink):
    """Sink into a database table."""

    Options: ClassVar[type[BaseModel]] = JdbcSinkOptions

    def writer(self, frame: DataFrame, options: Any, context: Context) -> WriteBatch:
        """Return the function that writes rows. Raises DatabaseError, ValueError."""
        dialect = options.dialect()
        keys = key_columns(frame, options)
        fields = [field for field in table_rows(frame, options, keys).schema if field.name != DELETED]
        once = options.insert_mode == "insert" and context.delivery == "exactly_once"
        if options.auto_create:
            create_table(dialect, options.table_name_format, StructType(fields), tuple(keys))
        table = Table(
            name=options.table_name_format,
            columns=tuple(field.name for field in fields),
            keys=tuple(keys),
            upsert=options.insert_mode == "upsert",
            batch_rows=options.batch_size,
        )

        def save(batch: DataFrame, batch_id: int) -> None:
            mark = (query_name(batch.sparkSession, context), batch_id) if once else None
            task = whole_input(write_rows(dialect, table, mark))
            rows = table_rows(batch, options, keys)
            (rows.coalesce(1) if once or dialect.single_writer else rows).mapInArrow(task, WRITTEN).collect()

        return save


def key_columns(frame: DataFrame, options: Any) -> dict[str, Column]:
    """Return the key's columns by their names in the table. Raises ValueError for unknown fields."""
    names: Sequence[str] = options.pk_fields
    if options.pk_mode == "none":
        return {}
    if options.pk_mode == "kafka":
        return {name: F.col(column) for name, column in zip(names or KAFKA_NAMES, KAFKA_COLUMNS, strict=True)}
    part = options.pk_mode.removeprefix("record_")
    kind = frame.schema[part].dataType
    if part == "key" and not isinstance(kind, StructType):
        if len(names) != 1:
            raise ValueError("pk.fields: the key has no fields, give one name for its column")
        return {names[0]: F.col("key")}
    there = fields_of(frame, part)
    names = names or (there if part == "key" else ())
    missing = ", ".join(sorted(set(names) - set(there)))
    if missing:
        raise ValueError(f"pk.fields: the {part} has no {missing}, but {', '.join(sorted(there))}")
    return {name: F.col(part).getField(name) for name in names}


def fields_of(frame: DataFrame, part: str) -> list[str]:
    """Return the names of the fields of key or value. Raises ValueError if it has none."""
    kind = frame.schema[part].dataType
    if not isinstance(kind, StructType):
        raise ValueError(f"the {part} is {kind.simpleString()} and has no columns: give the source a {part} format")
    return kind.fieldNames()


def table_rows(frame: DataFrame, options: Any, keys: Mapping[str, Column]) -> DataFrame:
    """Return the rows of the table: key columns first, then the value's others; `DELETED` marks tombstones."""
    fields = zip(fields_of(frame, "value"), value_columns(frame), strict=True)
    others = [column for name, column in fields if name not in keys]
    rows = frame if options.delete_enabled else frame.where(F.col("value").isNotNull())
    deleted = F.col("value").isNull().alias(DELETED)
    return rows.select(deleted, *(column.alias(name) for name, column in keys.items()), *others)


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """Where rows are written, and how."""

    name: str
    columns: Sequence[str]
    keys: Sequence[str]
    upsert: bool
    batch_rows: int


def create_table(dialect: Dialect, name: str, schema: StructType, keys: Sequence[str]) -> None:
    """Create the table if it is missing. Raises DatabaseError for a column that the database has no type for."""
    columns = [(field.name, dialect.type_name(field.dataType)) for field in schema]
    with closing(dialect.connect(create=True)) as connection:
        connection.cursor().execute(databases.create_table(name, columns, keys))
        connection.commit()


def write_rows(
    dialect: Dialect, table: Table, mark: Mark | None
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """Return the function of a task (mapInArrow): it writes its rows and yields how many.

    With a mark, the end of the input must be the end of the micro-batch: `whole_input` checks it.
    """

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        parts = (
            batch.slice(start, table.batch_rows).to_pylist()
            for batch in batches
            for start in range(0, batch.num_rows, table.batch_rows)
        )
        with closing(dialect.connect()) as connection:
            if mark is None:
                count = in_parts(connection, dialect, table, parts)
            else:
                count = in_one(connection, dialect, table, parts, mark)
        yield pa.RecordBatch.from_pydict({"rows": [count]}, schema=pa.schema([("rows", pa.int64())]))

    return run


def in_parts(connection: Connection, dialect: Dialect, table: Table, parts: Iterator[list[dict[str, Any]]]) -> int:
    """Write in transactions of some rows each; for rows that may be written twice."""
    count = 0
    for rows in parts:
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
    connection: Connection, dialect: Dialect, table: Table, parts: Iterator[list[dict[str, Any]]], mark: Mark
) -> int:
    """Write all in one transaction with the micro-batch's mark, unless the mark says that it was written before.

    Another attempt at the same micro-batch, such as one whose executor was lost, waits at the mark for this one.
    """
    query, batch = mark
    count = 0
    columns, keys = ("query", "batch"), ("query",)
    with closing(connection.cursor()) as cursor:
        cursor.execute(databases.create_table(MARKS, (("query", "varchar(500)"), ("batch", "bigint")), keys))
        cursor.execute(dialect.upsert(MARKS, columns, keys, replace=False), (query, FIRST_MARK))
        cursor.execute(f'SELECT "batch" FROM "{MARKS}" WHERE "query" = {dialect.marker}', (query,))
        (written,) = cursor.fetchone()
        if written < batch:
            for rows in parts:
                execute(cursor, dialect, table, rows)
                count += len(rows)
            cursor.execute(dialect.upsert(MARKS, columns, keys), mark)
    connection.commit()
    return count


def execute(cursor: Cursor, dialect: Dialect, table: Table, rows: list[dict[str, Any]]) -> None:
    """Write or delete rows in their order: a key's last row stands."""
    for deleted, group in groupby(rows, key=lambda row: row[DELETED]):
        names = table.keys if deleted else table.columns
        if deleted:
            text = dialect.delete(table.name, table.keys)
        elif table.upsert:
            text = dialect.upsert(table.name, table.columns, table.keys)
        else:
            text = dialect.insert(table.name, table.columns)
        cursor.executemany(text, [[value_of(dialect, name, row[name]) for name in names] for row in group])


def value_of(dialect: Dialect, name: str, value: Any) -> Any:
    """Return a value of a column as the driver takes it. Raises DatabaseError."""
    try:
        return None if value is None else dialect.to_database(value)
    except ValueError as error:
        raise DatabaseError(f"column {name}: a value is not a valid one: {error}") from error
