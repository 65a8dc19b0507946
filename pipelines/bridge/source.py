"""The data source `kvorum`: how Spark plans and reads topics as tables and streams.

Spark pickles the readers to its tasks, so they hold options only; clients are created where they are used. Topics are
written by bridge/sink, not by `frame.write.format("kvorum")`.
"""

import logging
import time
from collections.abc import Iterator
from functools import cached_property
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    ReadMinRows,
    SupportsTriggerAvailableNow,
)
from pyspark.sql.types import StructType

from kvorum.pipelines.bridge import offsets, options, reader
from kvorum.pipelines.bridge.client import OptionError
from kvorum.pipelines.bridge.columns import read_schema
from kvorum.pipelines.bridge.lookup import Lookup, report_loss
from kvorum.pipelines.bridge.offsets import BEGUN_AT, LATEST, OffsetRange, Offsets
from kvorum.pipelines.bridge.options import ReadOptions

FORMAT = "kvorum"
IDLE_SECONDS_MIN = 0.01
IDLE_SECONDS_MAX = 0.25
"""Spark requests the latest offset again at once: an idle query would poll the brokers 60 times a second. Without new
records each response waits twice as long as the last."""

logger = logging.getLogger("kvorum.pipelines.bridge")


class KvorumDataSource(DataSource):
    """Topics with the columns and options of Spark's own Kafka source."""

    @classmethod
    def name(cls) -> str:
        """Return the name for format()."""
        return FORMAT

    def schema(self) -> StructType:
        """Return the columns."""
        return read_schema(self.options.get("includeHeaders", "false").strip().lower() == "true")

    def reader(self, schema: StructType) -> DataSourceReader:
        """Return the reader of a batch. Raises OptionError."""
        self._check_schema(schema)
        return BatchReader(options.reading(self.options, is_streaming=False))

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        """Return the reader of a stream. Raises OptionError."""
        self._check_schema(schema)
        return StreamReader(options.reading(self.options, is_streaming=True))

    def _check_schema(self, schema: StructType) -> None:
        if schema.simpleString() != read_schema(len(schema.fields) > 7).simpleString():
            raise OptionError(f"the columns of a topic are fixed, remove the schema: {schema.simpleString()}")


class BatchReader(DataSourceReader):
    """Reads from one set of offsets to another."""

    def __init__(self, read_options: ReadOptions) -> None:
        """Keep the options."""
        self.options = read_options

    def partitions(self) -> list[InputPartition]:
        """Return one range per task."""
        lookup = Lookup(self.options.settings)
        partitions = lookup.partitions(self.options.topics)
        start = lookup.resolve(self.options.start, partitions, self.options)
        end = lookup.resolve(self.options.end, partitions, self.options)
        return list(_task_ranges(self.options, start, end))

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Read the range of a task. Spark passes a partition of another type when there is nothing to read."""
        if isinstance(partition, OffsetRange):
            yield from reader.read(self.options, partition, is_streaming=False)


class StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Plans micro-batches in the driver's Python process, and reads their ranges in tasks."""

    def __init__(self, read_options: ReadOptions) -> None:
        """Keep the options."""
        self.options = read_options
        self.begun_at: Offsets | None = None
        self.final: Offsets | None = None  # the end of a query with the trigger available-now
        self.waiting_since = time.monotonic()
        self.idle_seconds = 0.0

    @cached_property
    def lookup(self) -> Lookup:
        """The planner's client, which is never pickled."""
        return Lookup(self.options.settings)

    def initialOffset(self) -> dict[str, Any]:
        """Return the start of a new query. Spark calls again when it plans the first micro-batch: same result."""
        if self.begun_at is None:
            partitions = self.lookup.partitions(self.options.topics)
            self.begun_at = self.lookup.resolve(self.options.start, partitions, self.options)
        return offsets.to_json(self.begun_at)

    def getDefaultReadLimit(self) -> ReadLimit:
        """Return the limit of the options."""
        if self.options.max_offsets_per_trigger is not None:
            return ReadMaxRows(self.options.max_offsets_per_trigger)
        if self.options.min_offsets_per_trigger is not None:
            return ReadMinRows(self.options.min_offsets_per_trigger)
        return ReadAllAvailable()

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        """Return the end of the next micro-batch, or `start` if there is none yet."""
        begin = offsets.from_json(start)
        end = self.final if self.final is not None else self._latest()
        loss = offsets.lost(begin, end)
        if loss is not None:
            report_loss(loss, is_error=self.options.fail_on_data_loss, log=logger.warning)
        is_first = BEGUN_AT not in start and begin == self.begun_at
        if not is_first and not isinstance(limit, ReadAllAvailable) and self._is_below_minimum(begin, end):
            return start
        if isinstance(limit, ReadMaxRows):
            end = offsets.limited(begin, end, limit.max_rows)
        if end == begin and not is_first:
            if self.final is None:
                self.idle_seconds = min(max(2 * self.idle_seconds, IDLE_SECONDS_MIN), IDLE_SECONDS_MAX)
                time.sleep(self.idle_seconds)
            return start
        self.idle_seconds = 0.0
        self.waiting_since = time.monotonic()
        result = offsets.to_json(end)
        return result | {BEGUN_AT: start} if is_first else result

    def _is_below_minimum(self, begin: Offsets, end: Offsets) -> bool:
        """Return whether there is less than minOffsetsPerTrigger and maxTriggerDelay has not passed."""
        low = self.options.min_offsets_per_trigger
        if low is None or self.final is not None:
            return False
        waited_ms = (time.monotonic() - self.waiting_since) * 1000
        return offsets.available(begin, end) < low and waited_ms < self.options.max_trigger_delay_ms

    def prepareForTriggerAvailableNow(self) -> None:
        """Record the present ends: nothing later is read."""
        self.final = self._latest()

    def reportLatestOffset(self) -> dict[str, Any] | None:
        """Return the present ends, for the query's progress."""
        return offsets.to_json(self._latest())

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[InputPartition]:
        """Return one range per task of a micro-batch. The same start, end and options always give the same tasks."""
        begin = offsets.begun_at(end)
        begin = offsets.from_json(start) if begin is None else begin
        return list(_task_ranges(self.options, begin, offsets.from_json(end)))

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Read the range of a task."""
        assert isinstance(partition, OffsetRange), partition
        return reader.read(self.options, partition, is_streaming=True)

    def _latest(self) -> Offsets:
        """Return the ends of all partitions, new ones included."""
        partitions = self.lookup.partitions(self.options.topics, must_exist=self.options.fail_on_data_loss)
        return self.lookup.everywhere(partitions, LATEST, is_read_committed=self.options.is_read_committed)


def _task_ranges(read_options: ReadOptions, start: Offsets, end: Offsets) -> list[OffsetRange]:
    return offsets.split(
        offsets.ranges(start, end),
        min_partitions=read_options.min_partitions,
        max_records=read_options.max_records_per_partition,
    )
