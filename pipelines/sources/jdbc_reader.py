"""The JDBC source as a data source of Spark's: positions in the driver, rows in a task, as Arrow batches."""

import json
import time
from collections.abc import Iterator, Mapping, MutableMapping, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxRows, SupportsTriggerAvailableNow
from pyspark.sql.types import StringType, StructField, StructType

from kvorum.pipelines.databases.dialect import Connection, DatabaseError, Dialect, OffsetValue, dialect_of
from kvorum.pipelines.databases.statements import Growth, Position
from kvorum.pipelines.faults import meant

FETCH_ROWS = 2000
"""Rows of an Arrow batch: a few MB of ordinary ones."""

POLLS = "polls"
TIMESTAMP = "timestamp"
INCREMENTING = "incrementing"
MESSAGE = "__kvorum_message"
"""Column of the rows: null, or why a value of the row cannot be read."""
ROW = "__kvorum_row"
"""Column of the rows: null, or the row in JSON as the database has it, if a value cannot be read."""
SHOWN_CHARACTERS_MAX = 100
"""Of a value in a message."""
Offset = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """Table or query to read, and limits per batch."""

    relation: str
    mode: str
    incrementing: str | None
    timestamps: Sequence[str]
    initial: str | None
    delay_ms: int
    poll_ms: int
    rows_max: int

    def text(self) -> str:
        """Return them as an option's text."""
        return json.dumps(asdict(self))

    def growth(self, dialect: Dialect) -> Growth:
        """Return how the table grows."""
        return Growth(
            dialect=dialect,
            relation=self.relation,
            timestamps=self.timestamps,
            incrementing=self.incrementing,
            delay_ms=self.delay_ms,
        )

    @property
    def names(self) -> list[str]:
        """Return what an offset's values are called, in their order."""
        return [TIMESTAMP] * bool(self.timestamps) + [INCREMENTING] * (self.incrementing is not None)


def short(value: object) -> str:
    """Return a value for a message."""
    text = str(value)
    return text if len(text) <= SHOWN_CHARACTERS_MAX else text[:SHOWN_CHARACTERS_MAX] + "..."


class JdbcStream(DataSource):
    """The source's registration; options: url, user, password, settings."""

    def __init__(self, options: MutableMapping[str, str]) -> None:
        """Take the options."""
        super().__init__(options)
        self.settings = Settings(**json.loads(options["settings"]))
        self.dialect = dialect_of(options["url"], options.get("user") or None, options.get("password"))

    @classmethod
    def name(cls) -> str:
        """Return the format's name."""
        return "kvorum-jdbc"

    def schema(self) -> StructType:
        """Return the columns of the table as it is now. Raises DatabaseError."""
        with closing(self.dialect.connect()) as connection:
            try:
                columns = self.dialect.columns(connection, self.settings.relation)
            except DatabaseError as error:
                raise DatabaseError(f"{error}{self.hint(connection)}") from error
        wanted = [*self.settings.timestamps, *filter(None, [self.settings.incrementing])]
        missing = set(wanted) - {column.name for column in columns}
        if missing:
            names = ", ".join(column.name for column in columns)
            raise DatabaseError(f"there is no column {', '.join(sorted(missing))} in {self.settings.relation}: {names}")
        given = [column.name for column in columns]
        double = sorted({name for name in given if given.count(name) > 1 or name in (MESSAGE, ROW)})
        if double:
            raise DatabaseError(f"column {', '.join(double)} occurs twice or is reserved: rename it (AS) in a query")
        fields = [StructField(column.name, column.type, column.nullable) for column in columns]
        return StructType([*fields, StructField(MESSAGE, StringType()), StructField(ROW, StringType())])

    def hint(self, connection: Connection) -> str:
        """Return which table was probably meant, where it is a table that is read and there is none of its name."""
        if self.settings.relation.startswith("("):
            return ""
        name = self.settings.relation.replace('"', "")
        there = self.dialect.tables(connection)
        return "" if name in there else meant(name, there)

    def streamReader(self, schema: StructType) -> "JdbcStreamReader":
        """Return the reader."""
        return JdbcStreamReader(self.dialect, self.settings, schema)


@dataclass(frozen=True, slots=True)
class JdbcPartition(InputPartition):
    """The rows of a micro-batch after `start` and up to `end`, all of them: in one task they stay in order."""

    start: Position | None
    end: Position | None
    # What the sink is told (bridge/layout): whether another reading finds the same rows. By time it does, but for those
    # that were changed since, which have left the range and come in a later one. By id, or whole, a changed row stays:
    # a plan that reads the range in two tasks could write it in both.
    is_determined: bool


class JdbcStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Positions and rows of one table. Exists in the driver's Python process and, separately, in each task."""

    def __init__(self, dialect: Dialect, settings: Settings, schema: StructType) -> None:
        """Take what to read; the first look happens at the first call."""
        self._dialect = dialect
        self._settings = settings
        self._growth = settings.growth(dialect)
        self._schema = schema
        self._converters = {
            field.name: dialect.converter(field.dataType) for field in schema if field.name not in (MESSAGE, ROW)
        }
        self._columns = list(self._converters)
        self._polled_at: float | None = None
        self._target: Offset | None = None
        self._once = False

    def initialOffset(self) -> Offset:
        """Return where a new pipeline begins."""
        if self._settings.mode == "bulk":
            return {POLLS: 0}
        if self._settings.initial is None or not self._settings.timestamps:
            return {}
        values: list[OffsetValue] = [self._settings.initial]
        if self._settings.incrementing is not None:
            values.append(-(2**63))
        return self._offset(tuple(values))

    def getDefaultReadLimit(self) -> ReadLimit:
        """Return the limit of a micro-batch: rows, more of them only if many have the same time."""
        return ReadAllAvailable() if self._settings.mode == "bulk" else ReadMaxRows(self._settings.rows_max)

    def latestOffset(self, start: Offset, limit: ReadLimit) -> Offset:
        """Return how far the next micro-batch reads."""
        if self._settings.mode == "bulk":
            return self._next_poll(start)
        after = self._position(start)
        target = None if self._target is None else self._position(self._target)
        if self._once and target is None:
            return start
        with closing(self._dialect.connect()) as connection:
            if isinstance(limit, ReadMaxRows):
                found = self._find(connection, after, target, limit.max_rows - 1)
                if found is not None:
                    return self._offset(found)
            found = self._find(connection, after, target, None)
        return start if found is None else self._offset(found)

    def reportLatestOffset(self) -> Offset | None:
        """Return where the table ends now."""
        if self._settings.mode == "bulk":
            return None
        with closing(self._dialect.connect()) as connection:
            found = self._find(connection, None, None, None)
        return None if found is None else self._offset(found)

    def prepareForTriggerAvailableNow(self) -> None:
        """Note what there is: rows that come later are for the next run."""
        self._once = True
        self._target = self.reportLatestOffset()

    def partitions(self, start: Offset, end: Offset) -> Sequence[InputPartition]:
        """Return the one partition of a micro-batch."""
        return (
            []
            if start == end
            else [JdbcPartition(self._position(start), self._position(end), bool(self._settings.timestamps))]
        )

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the rows."""
        assert isinstance(partition, JdbcPartition)
        statement = self._growth.rows(partition.start, partition.end)
        with (
            closing(self._dialect.connect()) as connection,
            closing(self._dialect.rows(connection, statement.text, statement.parameters, FETCH_ROWS)) as cursor,
        ):
            rows = cursor.fetchmany(FETCH_ROWS)
            found = [column[0] for column in cursor.description or ()]
            missing = [name for name in self._columns if name not in found]
            if missing:
                raise DatabaseError(f"column {', '.join(missing)} is not in {self._settings.relation} any more")
            indexes = [found.index(name) for name in self._columns]
            while rows:
                yield self._batch([[row[index] for row in rows] for index in indexes])
                rows = cursor.fetchmany(FETCH_ROWS)

    def _batch(self, columns: Sequence[Sequence[Any]]) -> pa.RecordBatch:
        """Return rows, given by columns. A value that cannot be read is null, and the row says why."""
        reasons: dict[int, list[str]] = {}
        converted = [
            self._converted(name, values, reasons) for name, values in zip(self._columns, columns, strict=True)
        ]
        count = len(columns[0])
        shown = {row: self._shown([column[row] for column in columns]) for row in reasons}
        converted.append([self._message(reasons[row], shown[row]) if row in reasons else None for row in range(count)])
        converted.append(
            [json.dumps(shown[row], ensure_ascii=False) if row in reasons else None for row in range(count)]
        )
        shape = to_arrow_schema(self._schema, timezone="UTC")
        arrays = [pa.array(values, type=field.type) for values, field in zip(converted, shape, strict=True)]
        return pa.RecordBatch.from_arrays(arrays, schema=shape)

    def _converted(self, name: str, values: Sequence[Any], reasons: dict[int, list[str]]) -> list[Any]:
        """Return the values of a column; `reasons` gets those of the rows whose value cannot be read."""
        convert = self._converters[name]
        try:
            return [None if value is None else convert(value) for value in values]
        except ValueError:
            pass  # one by one
        converted: list[Any] = []
        for row, value in enumerate(values):
            try:
                converted.append(None if value is None else convert(value))
            except ValueError as error:
                converted.append(None)
                reasons.setdefault(row, []).append(f"column {name}: {short(self._dialect.shown(value))}: {error}")
        return converted

    def _shown(self, row: Sequence[Any]) -> dict[str, str | int | float | None]:
        values = (None if value is None else self._dialect.shown(value) for value in row)
        return dict(zip(self._columns, values, strict=True))

    def _message(self, reasons: Sequence[str], shown: Mapping[str, object]) -> str:
        """Return what is wrong with a row, and which row it is: by its position, else by its first column."""
        names = [*self._settings.timestamps, *filter(None, [self._settings.incrementing])] or self._columns[:1]
        return f"{'; '.join(reasons)} (row with {', '.join(f'{name} {short(shown[name])}' for name in names)})"

    def _find(self, connection: Any, start: Position | None, end: Position | None, skip: int | None) -> Position | None:
        statement = self._growth.beyond(start, end, skip)
        with closing(connection.cursor()) as cursor:
            cursor.execute(statement.text, statement.parameters)
            row = cursor.fetchone()
        connection.rollback()
        return None if row is None else tuple(map(self._dialect.offset_value, row))

    def _next_poll(self, start: Offset) -> Offset:
        """Bulk: one poll more, if it is time; with available-now the one."""
        now = time.monotonic()
        due = self._polled_at is None or (not self._once and now - self._polled_at >= self._settings.poll_ms / 1000)
        if not due:
            return start
        self._polled_at = now
        return {POLLS: start[POLLS] + 1}

    def _offset(self, position: Position) -> Offset:
        return dict(zip(self._settings.names, position, strict=True))

    def _position(self, offset: Mapping[str, Any]) -> Position | None:
        if self._settings.mode == "bulk" or not offset:
            return None
        return tuple(offset[name] for name in self._settings.names)
