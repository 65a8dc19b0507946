"""Rows of a table or of a query, those there are and those that come, as Connect's JDBC source finds them.

Modes, with Connect's names and meaning:

    bulk                      every row, at each poll
    incrementing              rows with an id above the last one: sees what is new, not what is changed
    timestamp                 rows with a time after the last one: sees changes; the same time twice can be missed
    timestamp+incrementing    both: rows after the last (time, id)

A row that was changed twice between polls is seen once, and a deleted one never: that is what the source `postgresql`
is for. Rows come in one task, in the order in which the table grew. Offsets are the last row's time and id.
"""

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Literal

from pydantic import BaseModel, Field, model_validator
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from kvorum.pipelines import frames
from kvorum.pipelines.databases.dialect import Dialect, dialect_of, name_parts, quoted
from kvorum.pipelines.plugins import Context
from kvorum.pipelines.sources.jdbc_reader import MESSAGE, ROW, JdbcStream, Settings
from kvorum.pipelines.sources.options import ConnectOptions, DatabaseUrl

BATCH_ROWS = 10_000


class JdbcSourceOptions(ConnectOptions):
    """`source: {type: jdbc, ...}`; `url` is short for connection.url, `table` for table.whitelist, and so on."""

    SHORT: ClassVar[Mapping[str, str]] = {
        "url": "connection.url",
        "user": "connection.user",
        "password": "connection.password",
        "table": "table.whitelist",
        "incrementing": "incrementing.column.name",
        "timestamp": "timestamp.column.name",
    }

    connection_url: DatabaseUrl
    connection_user: str | None = None
    connection_password: str | None = Field(default=None, repr=False)
    table_whitelist: str | None = None
    """One table; another table is another pipeline, since its columns are others."""
    query: str | None = None
    mode: Literal["bulk", "incrementing", "timestamp", "timestamp+incrementing"]
    incrementing_column_name: str | None = None
    timestamp_column_name: str | Sequence[str] = ()
    """Several: the first that is not null counts."""
    timestamp_initial: str | None = None
    """Only rows after it, at the first start: a time as the database writes it."""
    timestamp_delay_interval_ms: int = Field(default=0, ge=0)
    """How old a row must be: time for the transactions that write rows with earlier times to end."""
    poll_interval_ms: int = Field(default=5000, ge=0)
    """Bulk's pause; the other modes look at each trigger."""
    batch_max_rows: int = Field(default=BATCH_ROWS, ge=1)
    topic_prefix: str = ""
    """Before the table's name in the records' topic; with a query, the topic itself."""
    key_columns: Sequence[str] = ()
    """Columns that are the record's key; Connect leaves it null, for ValueToKey."""

    @model_validator(mode="after")
    def _complete(self) -> "JdbcSourceOptions":
        if (self.table_whitelist is None) == (self.query is None):
            raise ValueError("give either table (table.whitelist) or query")
        if "incrementing" in self.mode and self.incrementing_column_name is None:
            raise ValueError(f"mode {self.mode} needs incrementing (incrementing.column.name)")
        if "timestamp" in self.mode and not self.timestamps:
            raise ValueError(f"mode {self.mode} needs timestamp (timestamp.column.name)")
        if self.table_whitelist is not None and "," in self.table_whitelist:
            raise ValueError("one table per pipeline, because columns differ")
        return self

    @property
    def timestamps(self) -> tuple[str, ...]:
        """Return the columns of the time; Connect separates them by commas."""
        given = self.timestamp_column_name
        return tuple(part.strip() for part in given.split(",")) if isinstance(given, str) else tuple(given)

    def dialect(self) -> Dialect:
        """Return the database. Raises DatabaseError."""
        return dialect_of(self.connection_url, self.connection_user, self.connection_password)

    @property
    def relation(self) -> str:
        """Return what is read from, in SQL."""
        if self.table_whitelist is not None:
            return quoted(self.table_whitelist)
        return f"({str(self.query).strip().rstrip(';')}) AS kvorum_query"

    @property
    def topic(self) -> str:
        """Return the topic of the records."""
        return self.topic_prefix + name_parts(self.table_whitelist or "")[-1]


class JdbcSource:
    """Source of a database table or query."""

    Options: ClassVar[type[BaseModel]] = JdbcSourceOptions

    def read(self, spark: SparkSession, options: Any, context: Context) -> DataFrame:
        """Return the rows: value a struct of the columns, key null or a struct of some. Raises DatabaseError."""
        settings = Settings(
            relation=options.relation,
            mode=options.mode,
            incrementing=options.incrementing_column_name if "incrementing" in options.mode else None,
            timestamps=options.timestamps if "timestamp" in options.mode else (),
            initial=options.timestamp_initial,
            delay_ms=options.timestamp_delay_interval_ms,
            poll_ms=options.poll_interval_ms,
            rows_max=options.batch_max_rows,
        )
        spark.dataSource.register(JdbcStream)
        secret = {"password": options.connection_password} if options.connection_password else {}
        stream = spark.readStream.format(JdbcStream.name()).options(
            url=options.connection_url, user=options.connection_user or "", settings=settings.text(), **secret
        )
        return records(stream.load(), options.key_columns, options.topic)


def records(rows: DataFrame, key_columns: Sequence[str], topic: str) -> DataFrame:
    """Return rows as records; one with a value that cannot be read is a failure, with the row in JSON as it came."""
    names = rows.columns
    missing = sorted(set(key_columns) - set(names))
    if missing:
        raise ValueError(
            f"key_columns: there is no column {', '.join(sorted(missing))}; there are {', '.join(names[:-2])}"
        )
    # By number, since a name may have dots, quotes and blanks, which Spark reads as more than a name.
    numbered = rows.toDF(*(f"c{index}" for index in range(len(names))))
    columns = {name: F.col(f"c{index}").alias(name) for index, name in enumerate(names)}
    message = columns.pop(MESSAGE)
    failed = message.isNotNull()
    row = F.coalesce(columns.pop(ROW), F.to_json(F.struct(*columns.values()), {"ignoreNullFields": "false"}))
    origin = F.struct(  # of dead letters, also of records that a transform rejects
        F.lit(None).cast("binary").alias("key"),
        row.cast("binary").alias("value"),
        F.lit(topic or None).cast("string").alias("topic"),
    )
    key = F.struct(*(columns[name] for name in key_columns)) if key_columns else F.lit(None).cast("binary")
    value = F.when(~failed, F.struct(*columns.values()))
    numbered = numbered.withColumn(frames.ORIGIN, origin)
    failure = frames.failure(numbered, failed, stage=frames.VALUE_CONVERTER, message=message)
    return frames.record_frame(
        numbered.select(
            key.alias("key"),
            value.alias("value"),
            F.lit(topic or None).cast("string").alias("topic"),
            frames.ORIGIN,
            frames.fenced(failure).alias(frames.FAILURE),
        )
    )
