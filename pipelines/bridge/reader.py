"""Reading of one task: the records of a range of offsets, as Arrow batches.

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
from typing import NamedTuple

import confluent_kafka
import pyarrow as pa
from confluent_kafka import Consumer, KafkaError, KafkaException, Message
from pyspark.sql.pandas.types import to_arrow_schema

from kvorum.pipelines.bridge import client
from kvorum.pipelines.bridge.columns import read_schema, record_batch
from kvorum.pipelines.bridge.lookup import report_loss
from kvorum.pipelines.bridge.offsets import OffsetRange
from kvorum.pipelines.bridge.options import ReadOptions

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
        report_loss(loss, is_error=self.options.fail_on_data_loss, log=logger.warning)
        if self.position < first < self.wanted.end:
            self.position = first
            consumer.assign([confluent_kafka.TopicPartition(self.wanted.topic, self.wanted.partition, first)])
        else:
            self.position, self.is_at_end = self.wanted.end, False


def read(options: ReadOptions, wanted: OffsetRange, *, is_streaming: bool) -> Iterator[pa.RecordBatch]:
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
