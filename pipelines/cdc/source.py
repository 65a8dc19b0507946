"""The source `postgresql`: a streaming reader over the snapshot's chunks and ranges of the log.

In the driver, one process per query: what exists (`latestOffset`), what to read (`partitions`), what the checkpoint has
(`commit`). In the tasks: `read`. A batch is either chunks, one task each, or one range of the log, one task, since
order matters. Both can be read again until the checkpoint has the batch: chunks are files, and only `commit` moves the
slot.
"""

import json
import time
from collections.abc import Iterable, Iterator, MutableMapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import ClassVar

import pyarrow as pa
from pydantic import BaseModel
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.streaming.datasource import ReadLimit, ReadMaxBytes, SupportsTriggerAvailableNow
from pyspark.sql.types import StructField, StructType

from kvorum.pipelines import frames, plugins
from kvorum.pipelines.cdc import database, snapshot
from kvorum.pipelines.cdc import options as settings
from kvorum.pipelines.cdc.database import CaptureError, Connection
from kvorum.pipelines.cdc.events import Assembler, Batch, Origin, Record, Table
from kvorum.pipelines.cdc.options import Options
from kvorum.pipelines.cdc.pgoutput import Begin, decode, format_lsn, parse_line, parse_lsn
from kvorum.pipelines.cdc.snapshot import Chunk
from kvorum.pipelines.run.state import now_ms

NAME = "kvorum-postgresql"
SNAPSHOT_FOLDER = "postgresql"  # in the checkpoint: Spark's own folders there have other names
BATCH_ROWS = 4_000  # of an Arrow batch
BATCH_BYTES = 8 << 20
CREATE_TIME = 0  # timestampType: of the change, not of the log's append

SCHEMA = StructType([StructField(name, kind) for name, kind in frames.COLUMNS.items()])
Offset = dict[str, str | int]


class PostgresqlSource:
    """Changes of tables as records."""

    Options: ClassVar[type[BaseModel]] = settings.Options

    def read(self, spark: SparkSession, options: settings.Options, context: plugins.Context) -> DataFrame:
        """Return the stream of changes."""
        spark.dataSource.register(PostgresqlDataSource)
        secret = options.database_password
        password = {} if secret is None else {"password": secret.get_secret_value()}
        folder = options.snapshot_location or f"{context.checkpoint}/{SNAPSHOT_FOLDER}"
        given = options.model_copy(update={"snapshot_location": folder, "database_password": None})
        reader = spark.readStream.format(NAME).options(settings=given.model_dump_json(), **password)
        return frames.record_frame(reader.load())


class PostgresqlDataSource(DataSource):
    """The registration with Spark; options: settings (Options in JSON without the password), password."""

    def __init__(self, options: MutableMapping[str, str]) -> None:
        """Take the options."""
        super().__init__(options)
        given = {**json.loads(options["settings"]), "database_password": options.get("password")}
        self.settings = Options.model_validate(given)

    @classmethod
    def name(cls) -> str:
        """Return the format's name."""
        return NAME

    def schema(self) -> StructType:
        """Return the columns of a record frame."""
        return SCHEMA

    def streamReader(self, schema: StructType) -> "PostgresqlStreamReader":
        """Return the reader."""
        return PostgresqlStreamReader(self.settings)


@dataclass(frozen=True, slots=True, kw_only=True)
class Position:
    """The offset in Spark's checkpoint: chunks of the snapshot that are read, then the position in the log.

    Transactions that commit before `lsn` are read. The log begins when all chunks are read; until then `lsn` stays
    where the snapshot ends. `ts_ms` is the wall clock when the position was chosen: the events of the batch that ends
    here have it, in each attempt.
    """

    generation: str
    chunk: int
    chunks: int
    lsn: int
    ts_ms: int

    def to_json(self) -> Offset:
        """Return the offset that Spark stores."""
        return {**asdict(self), "lsn": format_lsn(self.lsn)}

    @classmethod
    def of_json(cls, offset: Offset) -> "Position":
        """Return the position of a stored offset."""
        return cls(**{**offset, "lsn": parse_lsn(str(offset["lsn"]))})  # type: ignore[arg-type]  # lsn alone is text

    def after_chunks(self, count: int, ts_ms: int) -> "Position":
        """Return the position some chunks on."""
        assert count > 0
        return replace(self, chunk=min(self.chunk + count, self.chunks), ts_ms=ts_ms)

    def at(self, lsn: int, ts_ms: int) -> "Position":
        """Return the position further in the log."""
        assert self.chunk == self.chunks and lsn > self.lsn
        return replace(self, lsn=lsn, ts_ms=ts_ms)


@dataclass(frozen=True, slots=True, kw_only=True)
class ChunkTask(InputPartition):
    """Rows of one chunk. `last`: the snapshot's last row is in it."""

    is_determined: ClassVar[bool] = True  # for the sink: each reading finds the same rows in the same order
    chunk: Chunk
    lsn: int
    taken_us: int
    ts_ms: int
    last: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class LogTask(InputPartition):
    """Transactions whose commit record starts in [start, end)."""

    is_determined: ClassVar[bool] = True
    start: int
    end: int
    ts_ms: int


class PostgresqlStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """In the driver it has a session that owns the slot; in a task it has options only."""

    def __init__(self, options: Options) -> None:
        """Connect to nothing yet. Raises CaptureError."""
        folder = str(options.snapshot_location).removeprefix("file://")
        if "://" in folder:
            raise CaptureError(f"snapshot.location {folder} is not a folder of a file system")
        self.options = options
        self.folder = Path(folder)
        self._connection: Connection | None = None
        self._target: int | None = None
        self._look_at = self._moved_at = time.monotonic()

    def initialOffset(self) -> Offset:
        """Return where a new query begins: the slot is made, and the tables are copied."""
        manifest = snapshot.prepare(self._session(), self.options, self.folder)
        return Position(
            generation=manifest.generation,
            chunk=0,
            chunks=len(manifest.chunks),
            lsn=manifest.lsn,
            ts_ms=manifest.taken_us // 1000,
        ).to_json()

    def getDefaultReadLimit(self) -> ReadLimit:
        """Return max.wal.bytes.per.trigger."""
        return ReadMaxBytes(self.options.max_wal_bytes_per_trigger)

    def prepareForTriggerAvailableNow(self) -> None:
        """Take the end of the log now for the end of this run."""
        self._target = database.flushed_lsn(self._session())

    def latestOffset(self, start: Offset, limit: ReadLimit) -> Offset:
        """Return where the next batch ends; `start` itself if there is nothing to read."""
        position = Position.of_json(start)
        size = limit.max_bytes if isinstance(limit, ReadMaxBytes) else None
        if position.chunk < position.chunks:
            count = position.chunks if size is None else max(1, size // self.options.snapshot_chunk_bytes)
            return position.after_chunks(count, now_ms()).to_json()
        end = self._end_of_log(position, size)
        return start if end is None else position.at(end, now_ms()).to_json()

    def partitions(self, start: Offset, end: Offset) -> Sequence[InputPartition]:
        """Return the tasks of a batch. Raises CaptureError if it cannot be read any more."""
        first, last = Position.of_json(start), Position.of_json(end)
        self._check(first)
        if first.chunk < last.chunk:
            return list(self._chunk_tasks(first, last))
        if first.lsn < last.lsn:
            return [LogTask(start=first.lsn, end=last.lsn, ts_ms=last.ts_ms)]
        return []

    def commit(self, end: Offset) -> None:
        """Delete the chunks that the checkpoint has, and advance the slot."""
        position, manifest = Position.of_json(end), snapshot.load(self.folder)
        for chunk in (manifest.chunks if manifest else [])[: position.chunk]:
            (self.folder / chunk.file).unlink(missing_ok=True)
        database.advance_slot(self._session(), self.options, position.lsn)

    def stop(self) -> None:
        """Close the session, and with it give up the slot."""
        if self._connection is not None:
            self._connection.close()

    def _session(self) -> Connection:
        """Return the session that owns the slot, a new one if the last one broke."""
        if self._connection is None or self._connection.closed:
            connection = database.connect(self.options)
            try:
                database.own(connection, self.options)
            except BaseException:
                connection.close()
                raise
            self._connection = connection
        return self._connection

    def _end_of_log(self, position: Position, size: int | None) -> int | None:
        """Return up to where the log is worth a batch, or None: then it was looked at poll.interval.ms ago at most."""
        last = self._target
        if last is None:
            time.sleep(max(0.0, self._look_at - time.monotonic()))
            last = database.flushed_lsn(self._session())
        end = last if size is None else min(last, position.lsn + size)
        if end > position.lsn and (
            self._target is not None or end < last or self._is_due() or self._news(position, end)
        ):
            self._moved_at = time.monotonic()
            return end
        self._look_at = time.monotonic() + self.options.poll_interval_ms / 1000
        return None

    def _is_due(self) -> bool:
        """Return whether the slot has to move although no captured table was changed."""
        return time.monotonic() - self._moved_at >= self.options.heartbeat_interval_ms / 1000

    def _news(self, position: Position, end: int) -> bool:
        """Return whether a captured table may have been changed from the position on."""
        self._check(position)
        data = database.first_change(self._session(), self.options, end)
        begin = None if data is None else decode(data)
        return begin is not None and not (isinstance(begin, Begin) and begin.commit_lsn >= end)

    def _check(self, position: Position) -> None:
        """Raise CaptureError unless the log can be read from the position on."""
        name = self.options.slot_name
        slot = database.find_slot(self._session(), name)
        if slot is None:
            reason = f"slot {name} does not exist"
        elif slot.lost:
            reason = f"slot {name} was left behind for so long that PostgreSQL removed its log (max_slot_wal_keep_size)"
        elif slot.confirmed_lsn > position.lsn:
            reason = (
                f"slot {name} is at {format_lsn(slot.confirmed_lsn)}: another client moved it, or the checkpoint is an "
                f"old copy"
            )
        else:
            return
        raise CaptureError(
            f"Changes from {format_lsn(position.lsn)} on are lost: {reason}. To continue, remove the checkpoint and "
            f"{self.folder}, drop the slot if it exists, and start with a new snapshot"
        )

    def _chunk_tasks(self, first: Position, last: Position) -> Iterator[ChunkTask]:
        manifest = snapshot.load(self.folder)
        if manifest is None or manifest.generation != first.generation:
            raise CaptureError(f"{self.folder} is not the snapshot of this checkpoint ({first.generation})")
        for number in range(first.chunk, last.chunk):
            yield ChunkTask(
                chunk=manifest.chunks[number],
                lsn=manifest.lsn,
                taken_us=manifest.taken_us,
                ts_ms=last.ts_ms,
                last=number == last.chunks - 1,
            )

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the records of a task, in their order."""
        if isinstance(partition, ChunkTask):
            return _batches(self._read_chunk(partition))
        assert isinstance(partition, LogTask)
        return _batches(self._read_log(partition))

    def _read_chunk(self, task: ChunkTask) -> Iterator[Record]:
        batch = Batch(options=self.options, version=plugins.own_version(), ts_ms=task.ts_ms)
        table = Table(task.chunk.table.relation, batch, lambda relation: task.chunk.table)
        left = task.chunk.rows
        with (self.folder / task.chunk.file).open("rb") as file:
            for line in file:
                left -= 1
                mark = "last" if task.last and left == 0 else "true"
                yield table.read(
                    parse_line(line), Origin(snapshot=mark, committed_us=task.taken_us, lsn=task.lsn, xid=None)
                )
        if left != 0:
            raise CaptureError(f"{task.chunk.file} does not contain the {task.chunk.rows} rows that were written")

    def _read_log(self, task: LogTask) -> Iterator[Record]:
        batch = Batch(options=self.options, version=plugins.own_version(), ts_ms=task.ts_ms)
        with database.connect(self.options) as asking, database.connect(self.options) as reading:
            assembler = Assembler(batch, partial(database.describe, asking), start=task.start, end=task.end)
            for lsn, data in database.peek(reading, self.options, task.end):
                yield from assembler.feed(lsn, decode(data))


def _batches(records: Iterable[Record]) -> Iterator[pa.RecordBatch]:
    """Yield records as columns; those that a row does not have are null."""
    schema = to_arrow_schema(SCHEMA, timezone="UTC")
    rows: list[dict[str, object]] = []
    size = 0
    for record in records:
        rows.append(
            {
                "key": record.key,
                "value": record.value,
                "topic": record.topic,
                "timestamp": record.timestamp_us,
                "timestampType": CREATE_TIME,
                "headers": [{"key": name, "value": value} for name, value in record.headers] or None,
            }
        )
        size += len(record.value or b"")
        if len(rows) == BATCH_ROWS or size >= BATCH_BYTES:
            yield pa.RecordBatch.from_pylist(rows, schema)
            rows, size = [], 0
    if rows:
        yield pa.RecordBatch.from_pylist(rows, schema)
