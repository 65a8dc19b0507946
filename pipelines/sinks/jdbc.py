"""Records into a table of a database, with the options of Connect's JDBC sink.

`insert.mode: upsert` (the default here) is idempotent: a replayed micro-batch leaves what it left before. `insert` is
exactly once by a table of our own in the same database (`kvorum_batches`), which is written in the same transaction as
the rows: a micro-batch is one transaction of one task then. `pk.mode` says where the key's columns come from:
record_key, record_value, kafka (topic, partition, offset), or none. A record without a value is a row's deletion if
`delete.enabled`, and is left out otherwise.
"""

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Literal

from pydantic import BaseModel, Field, model_validator
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.types import StructType

from kvorum.pipelines.bridge.whole import whole_input
from kvorum.pipelines.databases.dialect import Dialect, dialect_of
from kvorum.pipelines.plugins import Context
from kvorum.pipelines.sinks.batches import query_id
from kvorum.pipelines.sinks.jdbc_writer import DELETED, Table, create_table, write_rows
from kvorum.pipelines.sinks.rows import value_columns
from kvorum.pipelines.sources.options import ConnectOptions, DatabaseUrl

KAFKA_COLUMNS = ("topic", "partition", "offset")
KAFKA_NAMES = ("__connect_topic", "__connect_partition", "__connect_offset")
WRITTEN = "rows bigint"


class JdbcSinkOptions(ConnectOptions):
    """`sink: {type: jdbc, ...}`; `url`, `user`, `password` and `table` are short for Connect's names."""

    SHORT: ClassVar[Mapping[str, str]] = {
        "url": "connection.url",
        "user": "connection.user",
        "password": "connection.password",
        "table": "table.name.format",
    }

    connection_url: DatabaseUrl
    connection_user: str | None = None
    connection_password: str | None = Field(default=None, repr=False)
    table_name_format: str = Field(min_length=1)
    insert_mode: Literal["insert", "upsert"] = "upsert"
    pk_mode: Literal["none", "kafka", "record_key", "record_value"] = "record_value"
    pk_fields: str | Sequence[str] = ()
    """With record_key: its fields (all, if none is named), or the one column that a key without fields becomes."""
    delete_enabled: bool = False
    auto_create: bool = False
    batch_size: int = Field(default=1000, ge=1, le=100_000)

    @model_validator(mode="after")
    def _fits(self) -> "JdbcSinkOptions":
        if self.insert_mode == "upsert" and self.pk_mode == "none":
            raise ValueError("upsert needs a key: pk.mode is none")
        if self.pk_mode == "record_value" and not self.keys and self.insert_mode == "upsert":
            raise ValueError("pk.mode record_value requires pk.fields, the columns of the key")
        if self.delete_enabled and self.pk_mode != "record_key":
            raise ValueError("delete.enabled requires pk.mode record_key: a tombstone has only a key")
        if "${" in self.table_name_format:
            raise ValueError(
                "table.name.format: ${topic} is not supported: one table per pipeline, because columns differ"
            )
        return self

    @property
    def keys(self) -> tuple[str, ...]:
        """Return pk.fields; Connect separates them by commas."""
        given = self.pk_fields
        return tuple(p.strip() for p in given.split(",") if p.strip()) if isinstance(given, str) else tuple(given)

    def dialect(self) -> Dialect:
        """Return the database. Raises DatabaseError."""
        return dialect_of(self.connection_url, self.connection_user, self.connection_password)


class JdbcSink:
    """Sink into a database table."""

    Options: ClassVar[type[BaseModel]] = JdbcSinkOptions

    def write(self, frame: DataFrame, options: Any, context: Context) -> StreamingQuery | None:
        """Start to write. Raises DatabaseError, ValueError."""
        dialect = options.dialect()
        keys = key_columns(frame, options)
        rows = table_rows(frame, options, keys)
        fields = [field for field in rows.schema if field.name != DELETED]
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

        def save(batch: DataFrame, mark: tuple[str, int] | None) -> None:
            one_task = mark is not None or dialect.single_writer
            task = whole_input(write_rows(dialect, table, mark))
            (batch.coalesce(1) if one_task else batch).mapInArrow(task, WRITTEN).collect()

        def save_batch(batch: DataFrame, batch_id: int) -> None:
            query = f"{context.name}-{query_id(batch.sparkSession, context.checkpoint)}" if once else ""
            save(batch, (query, batch_id) if once else None)

        if not frame.isStreaming:
            save(rows, None)
            return None
        writer = rows.writeStream.foreachBatch(save_batch).queryName(context.name)
        return context.trigger.apply(writer.option("checkpointLocation", context.checkpoint)).start()


def key_columns(frame: DataFrame, options: Any) -> dict[str, Column]:
    """Return the key's columns by their names in the table. Raises ValueError for what a record has not."""
    names: Sequence[str] = options.keys
    match options.pk_mode:
        case "none":
            return {}
        case "kafka":
            return {name: F.col(column) for name, column in zip(names or KAFKA_NAMES, KAFKA_COLUMNS, strict=True)}
        case "record_value":
            fields = {field.name for field in fields_of(frame, "value")}
            check_fields(names, fields, "value")
            return {name: F.col("value").getField(name) for name in names}
    kind = frame.schema["key"].dataType
    if isinstance(kind, StructType):
        names = names or tuple(field.name for field in kind)
        check_fields(names, {field.name for field in kind}, "key")
        return {name: F.col("key").getField(name) for name in names}
    if len(names) != 1:
        raise ValueError("pk.fields: the key has no fields, give one name for its column")
    return {names[0]: F.col("key")}


def fields_of(frame: DataFrame, part: str) -> StructType:
    """Return the fields of key or value. Raises ValueError if it has none."""
    kind = frame.schema[part].dataType
    if not isinstance(kind, StructType):
        raise ValueError(f"the {part} is {kind.simpleString()} and has no columns: give the source a {part} format")
    return kind


def check_fields(names: Sequence[str], there: set[str], part: str) -> None:
    """Raise ValueError for names that are not there."""
    missing = set(names) - there
    if missing:
        raise ValueError(f"pk.fields: the {part} has no {', '.join(sorted(missing))}, but {', '.join(sorted(there))}")


def table_rows(frame: DataFrame, options: Any, keys: dict[str, Column]) -> DataFrame:
    """Return the rows of the table: key columns first, then the value's others; `DELETED` marks tombstones."""
    fields_of(frame, "value")
    others = [
        column
        for field, column in zip(fields_of(frame, "value"), value_columns(frame), strict=True)
        if field.name not in keys
    ]
    deleted = F.col("value").isNull().alias(DELETED)
    rows = frame if options.delete_enabled else frame.where(F.col("value").isNotNull())
    return rows.select(deleted, *(column.alias(name) for name, column in keys.items()), *others)
