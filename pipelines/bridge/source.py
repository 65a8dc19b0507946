"""The data source `kvorum`: how Spark plans topics as tables and streams, and how a task reads a range of offsets.

Spark pickles the readers to its tasks, so they hold options only; clients are created where they are used. Topics are
written by bridge/sink, not by `frame.write.format("kvorum")`.

Offsets have gaps: compaction removes records, the end of a transaction is a record that no consumer receives, aborted
records are skipped. A range has therefore ended when a record at or after its end arrives or the consumer reports the
end of the partition there; records are not counted. A stream's consumer is kept for the next micro-batch, which usually
starts at its position, and librdkafka fetches ahead in the meantime.
"""

import functools
import logging
import threading
import time
import uuid
from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import confluent_kafka
import pyarrow as pa
from confluent_kafka import Consumer, KafkaError, KafkaException, Message
from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader, InputPartition
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)
from pyspark.sql.types import StructType

from kvorum.pipelines.bridge import client, offsets, options
from kvorum.pipelines.bridge.client import OptionError
from kvorum.pipelines.bridge.columns import read_schema, record_batch
from kvorum.pipelines.bridge.lookup import Lookup
from kvorum.pipelines.bridge.offsets import BEGUN_AT, LATEST, OffsetRange, Offsets, OffsetsLost
from kvorum.pipelines.bridge.options import ReadOptions

FORMAT = "kvorum"
IDLE_SECONDS_MIN = 0.01
IDLE_SECONDS_MAX = 0.25
"""Spark requests the latest offset again at once: an idle query would poll the brokers 60 times a second. Without new
records each response waits twice as long as the last."""

BATCH_ROWS = 10_000  # Spark's own limit for an Arrow batch (spark.sql.execution.arrow.maxRecordsPerBatch)
BATCH_BYTES = 8 * 1024 * 1024
POLL_SECONDS = 0.2
WATERMARK_SECONDS = 15.0
KEPT_SECONDS = 120.0  # a trigger may come once a minute
IDLE_CONSUMERS = 8  # per worker process; each holds up to queued.max.messages.kbytes

GONE = {
    *(KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError.UNKNOWN_TOPIC_ID),
    *(KafkaError._UNKNOWN_TOPIC, KafkaError._UNKNOWN_PARTITION),
}
OUT_OF_RANGE = {KafkaError._AUTO_OFFSET_RESET, KafkaError.OFFSET_OUT_OF_RANGE}

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


@dataclass
class BatchReader(DataSourceReader):
    """Reads from one set of offsets to another."""

    options: ReadOptions

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
            yield from read_range(self.options, partition, is_streaming=False)


class StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Plans micro-batches in the driver's Python process, and reads their ranges in tasks."""

    def __init__(self, read_options: ReadOptions) -> None:
        """Keep the options."""
        self.options = read_options
        self.begun_at: Offsets | None = None
        self.final: Offsets | None = None  # the end of a query with the trigger available-now
        self.idle_seconds = 0.0

    @functools.cached_property
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
        return ReadAllAvailable()

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        """Return the end of the next micro-batch, or `start` if there is none yet."""
        begin = offsets.from_json(start)
        end = self.final if self.final is not None else self._latest()
        loss = offsets.lost(begin, end)
        if loss is not None:
            _report_loss(self.options, loss)
        is_first = BEGUN_AT not in start and begin == self.begun_at
        if isinstance(limit, ReadMaxRows):
            end = offsets.limited(begin, end, limit.max_rows)
        if end == begin and not is_first:
            if self.final is None:
                self.idle_seconds = min(max(2 * self.idle_seconds, IDLE_SECONDS_MIN), IDLE_SECONDS_MAX)
                time.sleep(self.idle_seconds)
            return start
        self.idle_seconds = 0.0
        return offsets.to_json(end) | ({BEGUN_AT: start} if is_first else {})

    def prepareForTriggerAvailableNow(self) -> None:
        """Record the present ends: nothing later is read."""
        self.final = self._latest()

    def reportLatestOffset(self) -> dict[str, Any] | None:
        """Return the present ends, for the query's progress."""
        return offsets.to_json(self._latest())

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[InputPartition]:
        """Return one range per task of a micro-batch. The same start, end and options always give the same tasks."""
        begin = offsets.from_json(end.get(BEGUN_AT, start))
        return list(_task_ranges(self.options, begin, offsets.from_json(end)))

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Read the range of a task."""
        assert isinstance(partition, OffsetRange), partition
        return read_range(self.options, partition, is_streaming=True)

    def _latest(self) -> Offsets:
        """Return the ends of all partitions, new ones included."""
        partitions = self.lookup.partitions(self.options.topics, must_exist=self.options.fail_on_data_loss)
        return self.lookup.everywhere(partitions, LATEST, is_read_committed=self.options.is_read_committed)


def _report_loss(read_options: ReadOptions, what: str) -> None:
    """Raise OffsetsLost or log, as failOnDataLoss says."""
    message = f"some records may have been lost: {what}"
    if read_options.fail_on_data_loss:
        raise OffsetsLost(f"{message}. To continue, set option failOnDataLoss to false.")
    logger.warning(message)


def _task_ranges(read_options: ReadOptions, start: Offsets, end: Offsets) -> list[OffsetRange]:
    return offsets.split(
        offsets.ranges(start, end),
        min_partitions=read_options.min_partitions,
        max_records=read_options.max_records_per_partition,
    )


class ReadTimeout(RuntimeError):
    """A record that must exist was not received in time."""


class ConsumerKey(NamedTuple):
    """Settings and position of an idle consumer."""

    settings: tuple[tuple[str, str], ...]
    topic: str
    partition: int
    position: int


class ConsumerPool:
    """The idle consumers of a worker process.

    Spark's workers outlive queries, so a consumer that is not used again is closed after `kept_seconds`, by a timer.
    """

    def __init__(self, kept_seconds: float = KEPT_SECONDS) -> None:
        """Create an empty pool."""
        self._kept_seconds = kept_seconds
        self._idle: dict[ConsumerKey, tuple[Consumer, threading.Timer]] = {}  # the oldest first
        self._lock = threading.Lock()

    def take(self, key: ConsumerKey) -> Consumer | None:
        """Return and remove the consumer with this key, or None."""
        with self._lock:
            found = self._idle.pop(key, None)
        if found is None:
            return None
        found[1].cancel()
        return found[0]

    def give(self, key: ConsumerKey, consumer: Consumer) -> None:
        """Keep a consumer for a task that continues at its position."""
        timer = threading.Timer(self._kept_seconds, self._expire, (key, consumer))
        timer.daemon = True
        surplus = [self.take(key)]
        with self._lock:
            self._idle[key] = consumer, timer
            oldest = next(iter(self._idle))
            is_full = len(self._idle) > IDLE_CONSUMERS
        timer.start()
        surplus += [self.take(oldest)] if is_full else []
        for closing in surplus:
            if closing is not None:
                closing.close()

    def _expire(self, key: ConsumerKey, consumer: Consumer) -> None:
        with self._lock:
            is_idle = key in self._idle and self._idle[key][0] is consumer
            if is_idle:
                del self._idle[key]
        if is_idle:
            consumer.close()


@functools.cache
def pool() -> ConsumerPool:
    """Return this process's pool. A worker runs one task at a time."""
    return ConsumerPool()


class RangeReader:
    """Reads one range, until `position` has reached its end."""

    def __init__(self, options: ReadOptions, wanted: OffsetRange) -> None:
        """Start at the beginning of the range."""
        self.options = options
        self.wanted = wanted
        self.position = wanted.start
        self.is_at_end = True  # whether the consumer's next record is the one at `position`
        self.schema = to_arrow_schema(read_schema(options.include_headers), timezone="UTC")

    def batches(self, consumer: Consumer) -> Iterator[pa.RecordBatch]:
        """Read the range. Raises OffsetsLost (failOnDataLoss), ReadTimeout, KafkaException for lasting errors."""
        messages, offsets, size = list[Message](), list[int](), 0
        last = time.monotonic()  # without the time in which Spark processes a batch
        while self.position < self.wanted.end:
            received, numbers = self._next_messages(consumer, BATCH_ROWS - len(messages))
            messages += received
            offsets += numbers
            size += sum(map(len, received))
            if received or self.position >= self.wanted.end:
                last = time.monotonic()
            elif time.monotonic() > last + self.options.poll_timeout_ms / 1000:
                raise ReadTimeout(
                    f"{self.wanted}: no data at offset {self.position} for {self.options.poll_timeout_ms} ms"
                    " (kafkaConsumer.pollTimeoutMs): no leader, or the end offset does not exist or is not committed"
                )
            if messages and (len(messages) >= BATCH_ROWS or size >= BATCH_BYTES or not received):
                yield record_batch(messages, offsets, self.wanted, self.schema)
                messages, offsets, size = [], [], 0
                last = time.monotonic()
        if messages:
            yield record_batch(messages, offsets, self.wanted, self.schema)

    def _next_messages(self, consumer: Consumer, limit: int) -> tuple[list[Message], list[int]]:
        """Return received records below the end, and their offsets. Waits POLL_SECONDS if there are none."""
        fetched: list[Message] = consumer.consume(max(1, min(limit, self.wanted.end - self.position)), 0)
        if not fetched:
            first = consumer.poll(POLL_SECONDS)
            fetched = [] if first is None else [first]
        records = [message for message in fetched if message.error() is None]
        if len(records) < len(fetched):
            for message in fetched:
                if message.error() is not None:
                    self._on_error(consumer, message)
        if not records:
            return [], []
        numbers = [message.offset() or 0 for message in records]
        self.position = max(self.position, numbers[-1] + 1)
        if self.position > self.wanted.end:
            count = bisect_left(numbers, self.wanted.end)
            records, numbers = records[:count], numbers[:count]
            self.is_at_end = False
        return records, numbers

    def _on_error(self, consumer: Consumer, message: Message) -> None:
        """Handle an event without a record: the end of the partition, or an error."""
        error = message.error()
        assert error is not None, "called for errors only"
        code = error.code()
        if code == KafkaError._PARTITION_EOF:
            end = message.offset() or 0
            if end >= self.wanted.end:  # all records of the range were received: the others do not exist
                self.is_at_end = end == self.wanted.end
                self.position = max(self.position, self.wanted.end)
        elif code in OUT_OF_RANGE:
            where = confluent_kafka.TopicPartition(self.wanted.topic, self.wanted.partition)
            low, high = consumer.get_watermark_offsets(where, WATERMARK_SECONDS)
            self._lose(f"{self.wanted} is outside of what is there: {low} to {high}", consumer, low)
        elif code in GONE:
            self._lose(f"{self.wanted} is not there any more (deleted?)", consumer, self.wanted.end)
        elif not client.is_passing(error):
            raise KafkaException(error)

    def _lose(self, loss: str, consumer: Consumer, first: int) -> None:
        """Raise OffsetsLost, or continue at the partition's first record if the range has it."""
        _report_loss(self.options, loss)
        if self.position < first < self.wanted.end:
            self.position = first
            consumer.assign([confluent_kafka.TopicPartition(self.wanted.topic, self.wanted.partition, first)])
        else:
            self.position, self.is_at_end = self.wanted.end, False


def read_range(options: ReadOptions, wanted: OffsetRange, *, is_streaming: bool) -> Iterator[pa.RecordBatch]:
    """Read a range in a task. A stream's consumer is kept for the next micro-batch."""
    settings = client.for_consumer(options.settings, options.settings.get("group.id", options.group_prefix))
    key = ConsumerKey(tuple(sorted(settings.items())), wanted.topic, wanted.partition, wanted.start)
    consumer = pool().take(key)
    reader = RangeReader(options, wanted)
    if consumer is None:
        own = {} if "group.id" in options.settings else {"group.id": f"{options.group_prefix}-{uuid.uuid4()}"}
        consumer = Consumer(settings | own)
        consumer.assign([confluent_kafka.TopicPartition(wanted.topic, wanted.partition, wanted.start)])
    is_kept = False
    try:
        yield from reader.batches(consumer)
        if is_streaming and reader.is_at_end:
            pool().give(key._replace(position=wanted.end), consumer)
            is_kept = True
    finally:
        if not is_kept:
            consumer.close()
