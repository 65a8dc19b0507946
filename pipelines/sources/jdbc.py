"""Rows of a table or of a query, existing and new ones, as Connect's JDBC source finds them.

Modes, with Connect's names and meaning:

    bulk                      every row, at each poll
    incrementing              rows with an id above the last one: sees new rows, not changed ones
    timestamp                 rows with a time after the last one: sees changes; the same time twice can be missed
    timestamp+incrementing    both: rows after the last (time, id)

A row that was changed twice between polls is seen once, and a deleted one never: the source `postgresql` sees both.
One task reads the rows of a micro-batch in order. Offsets are the last row's time and id.
"""

import json
import time
from collections.abc import Iterator, Mapping, MutableMapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import pyarrow as pa
from pydantic import BaseModel, Field, model_validator
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxRows, SupportsTriggerAvailableNow
from pyspark.sql.types import StringType, StructField, StructType

from kvorum.pipelines import frames
from kvorum.pipelines.databases.dialect import Convert, DatabaseError, Growth, Position, name_parts, quoted
from kvorum.pipelines.faults import meant, shown
from kvorum.pipelines.plugins import Context
from kvorum.pipelines.sources.options import DatabaseOptions, Names

BATCH_ROWS = 10_000
FETCH_ROWS = 2000
"""Rows of an Arrow batch: a few MB of ordinary ones."""
POLLS = "polls"
MESSAGE = "__kvorum_message"
"""Column of the rows: null, or why a value of the row cannot be read."""
ROW = "__kvorum_row"
"""Column of the rows: null, or the row in JSON as the database has it, if a value cannot be read."""
Offset = dict[str, Any]


class JdbcSourceOptions(DatabaseOptions):
    """`source: {type: jdbc, ...}`; `url` is short for connection.url, `table` for table.whitelist, and so on."""

    SHORT: ClassVar[Mapping[str, str]] = {
        **DatabaseOptions.SHORT,
        "table": "table.whitelist",
        "incrementing": "incrementing.column.name",
        "timestamp": "timestamp.column.name",
    }

    table_whitelist: str | None = None
    """One table; another table is another pipeline, since its columns are others."""
    query: str | None = None
    mode: Literal["bulk", "incrementing", "timestamp", "timestamp+incrementing"]
    incrementing_column_name: str | None = None
    timestamp_column_name: Names = ()
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
        if "timestamp" in self.mode and not self.timestamp_column_name:
            raise ValueError(f"mode {self.mode} needs timestamp (timestamp.column.name)")
        if self.table_whitelist is not None and "," in self.table_whitelist:
            raise ValueError("one table per pipeline, because columns differ")
        return self

    def growth(self) -> Growth:
        """Return how the table or query grows. Raises DatabaseError."""
        table = self.table_whitelist
        relation = quoted(table) if table is not None else f"({str(self.query).strip().rstrip(';')}) AS kvorum_query"
        return Growth(
            dialect=self.dialect(),
            relation=relation,
            timestamps=self.timestamp_column_name if "timestamp" in self.mode else (),
            incrementing=self.incrementing_column_name if "incrementing" in self.mode else None,
            delay_ms=self.timestamp_delay_interval_ms,
        )


class JdbcSource:
    """Source of a database table or query."""

    Options: ClassVar[type[BaseModel]] = JdbcSourceOptions

    def read(self, spark: SparkSession, options: Any, context: Context) -> DataFrame:
        """Return the rows: value a struct of the columns, key null or a struct of some. Raises DatabaseError."""
        spark.dataSource.register(JdbcStream)
        password = {"password": options.connection_password} if options.connection_password else {}
        settings = options.model_dump_json(exclude={"connection_password"})
        rows = spark.readStream.format(JdbcStream.name()).options(settings=settings, **password).load()
        return _records(rows, options.key_columns, options.topic_prefix + name_parts(options.table_whitelist or "")[-1])


def _records(rows: DataFrame, key_columns: Sequence[str], topic: str) -> DataFrame:
    """Return rows as records; one with a value that cannot be read is a failure, with the row in JSON as it came."""
    names = rows.columns
    missing = sorted(set(key_columns) - set(names))
    if missing:
        raise ValueError(f"key_columns: there is no column {', '.join(missing)}; there are {', '.join(names[:-2])}")
    # By number, since a name may have dots, quotes and blanks, which Spark reads as more than a name.
    numbered = rows.toDF(*(f"c{index}" for index in range(len(names))))
    columns = {name: F.col(f"c{index}").alias(name) for index, name in enumerate(names)}
    message = columns.pop(MESSAGE)
    row = F.coalesce(columns.pop(ROW), F.to_json(F.struct(*columns.values()), {"ignoreNullFields": "false"}))
    name = F.lit(topic or None).cast("string").alias("topic")
    no_key = F.lit(None).cast("binary").alias("key")
    origin = F.struct(no_key, row.cast("binary").alias("value"), name)  # of dead letters, a transform's as well
    numbered = numbered.withColumn(frames.ORIGIN, origin)
    failure = frames.failure(numbered, message.isNotNull(), stage=frames.VALUE_CONVERTER, message=message)
    return frames.record_frame(
        numbered.select(
            F.struct(*(columns[name] for name in key_columns)).alias("key") if key_columns else no_key,
            F.when(message.isNull(), F.struct(*columns.values())).alias("value"),
            name,
            frames.ORIGIN,
            frames.fenced(failure).alias(frames.FAILURE),
        )
    )


class JdbcStream(DataSource):
    """The registration with Spark; options: settings (JdbcSourceOptions in JSON without the password), password."""

    def __init__(self, options: MutableMapping[str, str]) -> None:
        """Take the options."""
        super().__init__(options)
        given = {**json.loads(options["settings"]), "connection_password": options.get("password")}
        self.settings = JdbcSourceOptions.model_validate(given)

    @classmethod
    def name(cls) -> str:
        """Return the format's name."""
        return "kvorum-jdbc"

    def schema(self) -> StructType:
        """Return the columns of the table as it is now. Raises DatabaseError."""
        growth = self.settings.growth()
        relation, dialect = growth.relation, growth.dialect
        with closing(dialect.connect()) as connection:
            try:
                columns = dialect.columns(connection, relation)
            except DatabaseError as error:
                table = relation.replace('"', "")
                tables = [] if self.settings.table_whitelist is None else dialect.tables(connection)
                hint = "" if table in tables else meant(table, tables)
                raise DatabaseError(f"{error}{hint}") from error
        names = [name for name, _ in columns]
        missing = ", ".join(sorted(set(growth.names) - set(names)))
        if missing:
            raise DatabaseError(f"there is no column {missing} in {relation}: {', '.join(names)}")
        double = ", ".join(sorted({name for name in names if names.count(name) > 1 or name in (MESSAGE, ROW)}))
        if double:
            raise DatabaseError(f"column {double} occurs twice or is reserved: rename it (AS) in a query")
        columns += [(MESSAGE, StringType()), (ROW, StringType())]
        return StructType([StructField(name, kind) for name, kind in columns])

    def streamReader(self, schema: StructType) -> "JdbcStreamReader":
        """Return the reader."""
        return JdbcStreamReader(self.settings, schema)


@dataclass(frozen=True, slots=True)
class JdbcPartition(InputPartition):
    """The rows of a micro-batch after `start` and up to `end`, all of them: in one task they stay in order."""

    start: Position | None
    end: Position | None
    # For the sink (bridge/layout): whether another reading finds the same rows. By time it does, except rows that were
    # changed since, which are in a later range. By id, or in bulk, a changed row stays in the range.
    is_determined: bool


class JdbcStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Positions and rows of one table. Exists in the driver's Python process and, separately, in each task."""

    def __init__(self, settings: JdbcSourceOptions, schema: StructType) -> None:
        """Take what to read; connections are opened later."""
        self._settings = settings
        self._growth = settings.growth()
        self._dialect = self._growth.dialect
        self._schema = schema
        self._is_bulk = settings.mode == "bulk"
        self._polled_at: float | None = None
        self._target: Offset | None = None
        self._once = False

    def initialOffset(self) -> Offset:
        """Return where a new pipeline begins."""
        if self._is_bulk:
            return {POLLS: 0}
        initial = self._settings.timestamp_initial
        if initial is None or not self._growth.timestamps:
            return {}
        return self._offset((initial,) if self._growth.incrementing is None else (initial, -(2**63)))

    def getDefaultReadLimit(self) -> ReadLimit:
        """Return the limit of a micro-batch: rows, more of them only if many have the same time."""
        return ReadAllAvailable() if self._is_bulk else ReadMaxRows(self._settings.batch_max_rows)

    def latestOffset(self, start: Offset, limit: ReadLimit) -> Offset:
        """Return how far the next micro-batch reads."""
        if self._is_bulk:
            return self._next_poll(start)
        if self._once and self._target is None:
            return start
        after, target = self._position(start), self._position(self._target or {})
        found = self._find(after, target, *([limit.max_rows - 1] if isinstance(limit, ReadMaxRows) else []), None)
        return start if found is None else self._offset(found)

    def reportLatestOffset(self) -> Offset | None:
        """Return where the table ends now."""
        found = None if self._is_bulk else self._find(None, None, None)
        return None if found is None else self._offset(found)

    def prepareForTriggerAvailableNow(self) -> None:
        """Set the end of the run: later rows are read by the next run."""
        self._once = True
        self._target = self.reportLatestOffset()

    def partitions(self, start: Offset, end: Offset) -> Sequence[InputPartition]:
        """Return the one partition of a micro-batch."""
        if start == end:
            return []
        return [JdbcPartition(self._position(start), self._position(end), bool(self._growth.timestamps))]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the rows."""
        assert isinstance(partition, JdbcPartition)
        statement = self._growth.rows(partition.start, partition.end)
        fields = [field for field in self._schema if field.name not in (MESSAGE, ROW)]
        converters = {field.name: self._dialect.converter(field.dataType) for field in fields}
        with (
            closing(self._dialect.connect()) as connection,
            closing(self._dialect.rows(connection, statement, FETCH_ROWS)) as cursor,
        ):
            while rows := cursor.fetchmany(FETCH_ROWS):
                found = [column[0] for column in cursor.description or ()]
                columns = dict(zip(found, zip(*rows, strict=True), strict=True))
                missing = [name for name in converters if name not in columns]
                if missing:
                    raise DatabaseError(f"column {', '.join(missing)} is not in {self._growth.relation} any more")
                yield self._batch({name: columns[name] for name in converters}, converters)

    def _batch(self, columns: Mapping[str, Sequence[Any]], converters: Mapping[str, Convert]) -> pa.RecordBatch:
        """Return rows, given by columns. A value that cannot be read is null, and the row says why."""
        reasons: dict[int, list[str]] = {}
        converted = {name: self._converted(name, converters[name], values, reasons) for name, values in columns.items()}
        count = len(next(iter(columns.values())))
        converted[MESSAGE], converted[ROW] = [None] * count, [None] * count
        for row, wrong in reasons.items():
            raw = {name: values[row] for name, values in columns.items()}
            texts = {name: None if value is None else self._dialect.shown(value) for name, value in raw.items()}
            names = self._growth.names or list(columns)[:1]  # its position, else its first column
            where = ", ".join(f"{name} {shown(texts[name])}" for name in names)
            converted[MESSAGE][row] = f"{'; '.join(wrong)} (row with {where})"
            converted[ROW][row] = json.dumps(texts, ensure_ascii=False)
        shape = to_arrow_schema(self._schema, timezone="UTC")
        arrays = [pa.array(converted[field.name], type=field.type) for field in shape]
        return pa.RecordBatch.from_arrays(arrays, schema=shape)

    def _converted(
        self, name: str, convert: Convert, values: Sequence[Any], reasons: dict[int, list[str]]
    ) -> list[Any]:
        """Return the values of a column; `reasons` gets those of the rows whose value cannot be read."""
        try:
            return [None if value is None else convert(value) for value in values]
        except ValueError:
            pass  # one by one
        converted: list[Any] = [None] * len(values)
        for row, value in enumerate(values):
            try:
                converted[row] = None if value is None else convert(value)
            except ValueError as error:
                reasons.setdefault(row, []).append(f"column {name}: {shown(self._dialect.shown(value))}: {error}")
        return converted

    def _find(self, start: Position | None, end: Position | None, *skips: int | None) -> Position | None:
        """Return the position so many rows after the start of a range, or its last (None): the first that exists."""
        with closing(self._dialect.connect()) as connection, closing(connection.cursor()) as cursor:
            for skip in skips:
                cursor.execute(*self._growth.beyond(start, end, skip))
                row = cursor.fetchone()
                if row is not None:
                    return tuple(map(self._dialect.offset_value, row))
        return None

    def _next_poll(self, start: Offset) -> Offset:
        """Bulk: one poll more when it is due; with available-now only one."""
        now, pause = time.monotonic(), self._settings.poll_interval_ms / 1000
        if self._polled_at is not None and (self._once or now - self._polled_at < pause):
            return start
        self._polled_at = now
        return {POLLS: start[POLLS] + 1}

    def _offset(self, position: Position) -> Offset:
        return dict(zip(self._growth.parts, position, strict=True))

    def _position(self, offset: Mapping[str, Any]) -> Position | None:
        return None if self._is_bulk or not offset else tuple(offset[part] for part in self._growth.parts)
