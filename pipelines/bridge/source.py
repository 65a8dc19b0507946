"""The data source `kvorum`: what Spark calls to plan, to read and to write.

Objects of this module travel: Spark pickles the readers and writers to its tasks, so they hold options only, and a
client is made where it is used.
"""

import logging
import time
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import (
    DataSource,
    DataSourceArrowWriter,
    DataSourceReader,
    DataSourceStreamArrowWriter,
    DataSourceStreamReader,
    InputPartition,
    WriterCommitMessage,
)
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    ReadMinRows,
    SupportsTriggerAvailableNow,
)
from pyspark.sql.types import StructType

from kvorum.pipelines.bridge import offsets, options, producer, reader
from kvorum.pipelines.bridge.client import OptionError
from kvorum.pipelines.bridge.columns import check_written, read_schema
from kvorum.pipelines.bridge.lookup import Lookup, report_loss
from kvorum.pipelines.bridge.offsets import BEGUN_AT, LATEST, OffsetRange, Offsets
from kvorum.pipelines.bridge.options import ReadOptions, WriteOptions

FORMAT = "kvorum"
IDLE_SECONDS_MIN = 0.01
IDLE_SECONDS_MAX = 0.25
"""Spark asks for the latest offset again at once: without new records the answer waits, twice as long each time."""

logger = logging.getLogger("kvorum.pipelines.bridge")


class KvorumDataSource(DataSource):
    """Topics as tables and streams, with the columns and options of Spark's own Kafka source and sink."""

    @classmethod
    def name(cls) -> str:
        """Return the name for format()."""
        return FORMAT

    def schema(self) -> StructType:
        """Return the columns that are read."""
        return read_schema(self.options.get("includeHeaders", "false").strip().lower() == "true")

    def reader(self, schema: StructType) -> DataSourceReader:
        """Return what reads a batch."""
        self.refuse_other(schema)
        return BatchReader(options.reading(self.options, is_streaming=False))

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        """Return what reads a stream."""
        self.refuse_other(schema)
        return StreamReader(options.reading(self.options, is_streaming=True))

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceArrowWriter:
        """Return what writes a batch, at least once."""
        if overwrite:
            raise OptionError("mode overwrite is not supported, a topic is append-only: use mode append")
        write_options = checked(options.writing(self.options), schema)
        producer.check(write_options)
        return BatchWriter(write_options)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamArrowWriter:
        """Return what writes a stream, at least once."""
        return StreamWriter(checked(options.writing(self.options), schema))

    def refuse_other(self, schema: StructType) -> None:
        """Raise an OptionError if the caller wants other columns than there are."""
        if schema.simpleString() != read_schema(len(schema.fields) > 7).simpleString():
            raise OptionError(f"the columns of a topic are fixed, remove the schema: {schema.simpleString()}")


def checked(write_options: WriteOptions, schema: StructType) -> WriteOptions:
    """Return the options if a frame of this schema can be written with them."""
    check_written(schema, write_options.topic)
    return write_options


class BatchReader(DataSourceReader):
    """Reads from one set of offsets to another."""

    def __init__(self, read_options: ReadOptions) -> None:
        """Hold the options."""
        self.options = read_options

    def partitions(self) -> list[InputPartition]:
        """Plan the tasks."""
        lookup = Lookup(self.options.settings)
        partitions = lookup.partitions(self.options.topics)
        start = lookup.resolve(self.options.start, partitions, self.options)
        end = lookup.resolve(self.options.end, partitions, self.options)
        return list(pieces(self.options, start, end))

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Read one task's range. Spark hands over a partition of another kind when there is nothing to read."""
        if isinstance(partition, OffsetRange):
            yield from reader.read(self.options, partition, is_streaming=False)


class StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Plans micro-batches in the driver's Python process, and reads their ranges in tasks."""

    def __init__(self, read_options: ReadOptions) -> None:
        """Begin without connections."""
        self.options = read_options
        self.lookup: Lookup | None = None  # made where planning happens, never sent
        self.begun_at: Offsets | None = None
        self.final: Offsets | None = None  # where a query ends that takes what is available now
        self.waiting_since = time.monotonic()
        self.idle_seconds = 0.0

    def initialOffset(self) -> dict[str, Any]:
        """Return where a new query starts. Spark asks again when it plans the first micro-batch: the same answer."""
        if self.begun_at is None:
            partitions = self.asked().partitions(self.options.topics)
            self.begun_at = self.asked().resolve(self.options.start, partitions, self.options)
        return offsets.to_json(self.begun_at)

    def getDefaultReadLimit(self) -> ReadLimit:
        """Return the limit that the options give."""
        if self.options.max_offsets_per_trigger is not None:
            return ReadMaxRows(self.options.max_offsets_per_trigger)
        if self.options.min_offsets_per_trigger is not None:
            return ReadMinRows(self.options.min_offsets_per_trigger)
        return ReadAllAvailable()

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        """Return where the next micro-batch ends; the start itself if there is to be none."""
        begin = offsets.from_json(start)
        end = self.final if self.final is not None else self.latest()
        loss = offsets.lost(begin, end)
        if loss is not None:
            report_loss(loss, is_error=self.options.fail_on_data_loss, log=logger.warning)
        is_first = BEGUN_AT not in start and begin == self.begun_at
        if not is_first and not isinstance(limit, ReadAllAvailable) and self.is_worth_waiting(begin, end):
            return start
        if isinstance(limit, ReadMaxRows):
            end = offsets.limited(begin, end, limit.max_rows)
        if end == begin and not is_first:
            self.wait_idle()
            return start
        self.idle_seconds = 0.0
        self.waiting_since = time.monotonic()
        result = offsets.to_json(end)
        if is_first:
            result[BEGUN_AT] = start
        return result

    def is_worth_waiting(self, begin: Offsets, end: Offsets) -> bool:
        """Return whether there is less than minOffsetsPerTrigger and maxTriggerDelay has not passed."""
        low = self.options.min_offsets_per_trigger
        if low is None or self.final is not None:
            return False
        waited_ms = (time.monotonic() - self.waiting_since) * 1000
        return offsets.available(begin, end) < low and waited_ms < self.options.max_trigger_delay_ms

    def wait_idle(self) -> None:
        """Wait before an answer without new records: an idle query would poll the brokers 60 times a second."""
        if self.final is None:
            self.idle_seconds = min(max(2 * self.idle_seconds, IDLE_SECONDS_MIN), IDLE_SECONDS_MAX)
            time.sleep(self.idle_seconds)

    def prepareForTriggerAvailableNow(self) -> None:
        """Take down where everything ends now: nothing later is read."""
        self.final = self.latest()

    def reportLatestOffset(self) -> dict[str, Any] | None:
        """Return where everything ends now, for the query's progress."""
        return offsets.to_json(self.latest())

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[InputPartition]:
        """Plan one micro-batch. The same start, end and options always give the same tasks."""
        begin = offsets.begun_at(end)
        return list(pieces(self.options, offsets.from_json(start) if begin is None else begin, offsets.from_json(end)))

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Read one task's range."""
        assert isinstance(partition, OffsetRange), partition
        return reader.read(self.options, partition, is_streaming=True)

    def latest(self) -> Offsets:
        """Return where all partitions end, new ones among them."""
        partitions = self.asked().partitions(self.options.topics, must_exist=self.options.fail_on_data_loss)
        return self.asked().everywhere(partitions, LATEST, is_read_committed=self.options.is_read_committed)

    def asked(self) -> Lookup:
        """Return the planner's client."""
        if self.lookup is None:
            self.lookup = Lookup(self.options.settings)
        return self.lookup


def pieces(read_options: ReadOptions, start: Offsets, end: Offsets) -> list[OffsetRange]:
    """Return one range for each task."""
    return offsets.split(
        offsets.ranges(start, end),
        min_partitions=read_options.min_partitions,
        max_records=read_options.max_records_per_partition,
    )


class BatchWriter(DataSourceArrowWriter):
    """Writes a batch, at least once."""

    def __init__(self, write_options: WriteOptions) -> None:
        """Hold the options."""
        self.options = write_options

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Write one task's rows; they are acknowledged when this returns."""
        producer.write(self.options, iterator)
        return WriterCommitMessage()


class StreamWriter(DataSourceStreamArrowWriter):
    """Writes a stream's micro-batches, at least once."""

    def __init__(self, write_options: WriteOptions) -> None:
        """Hold the options."""
        self.options = write_options

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Write one task's rows; they are acknowledged when this returns."""
        producer.write(self.options, iterator)
        return WriterCommitMessage()
