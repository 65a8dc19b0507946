"""One task's reading: the records of a range of offsets, as Arrow batches.

Offsets have gaps: compaction leaves some out, a transaction's end is a record that nobody gets, aborted records are
skipped. So a range has ended when a record at or after its end arrives, or the consumer tells that it has come to the
end of the partition there; never by count. What librdkafka fetches ahead waits in its own thread's queue, and a
stream's consumer is kept for the next micro-batch, which most often begins where it stands.
"""

import functools
import logging
import threading
import time
import uuid
from bisect import bisect_left
from collections import OrderedDict
from collections.abc import Iterator
from typing import NamedTuple

import confluent_kafka
import pyarrow as pa
from confluent_kafka import Consumer, KafkaError, KafkaException, Message

from kvorum.pipelines.bridge import client
from kvorum.pipelines.bridge.columns import arrow_schema, record_batch
from kvorum.pipelines.bridge.lookup import report_loss
from kvorum.pipelines.bridge.offsets import OffsetRange
from kvorum.pipelines.bridge.options import ReadOptions

BATCH_ROWS = 10_000  # Spark's own limit for an Arrow batch (spark.sql.execution.arrow.maxRecordsPerBatch)
BATCH_BYTES = 8 * 1024 * 1024  # a few large records make a batch, too
POLL_SECONDS = 0.2
WATERMARK_SECONDS = 15.0
KEPT_SECONDS = 120.0  # a trigger may come once a minute
IDLE_CONSUMERS = 8  # a worker's share of the partitions of a topic; each holds up to queued.max.messages.kbytes

GONE = {
    KafkaError.UNKNOWN_TOPIC_OR_PART,
    KafkaError.UNKNOWN_TOPIC_ID,
    KafkaError._UNKNOWN_TOPIC,
    KafkaError._UNKNOWN_PARTITION,
}
OUT_OF_RANGE = {KafkaError._AUTO_OFFSET_RESET, KafkaError.OFFSET_OUT_OF_RANGE}

logger = logging.getLogger("kvorum.pipelines.bridge")


class ReadTimeout(RuntimeError):
    """A record that should be there did not come."""


class Standing(NamedTuple):
    """Where a kept consumer stands."""

    settings: tuple[tuple[str, str], ...]
    topic: str
    partition: int
    position: int


class Pool:
    """A worker process's idle consumers, the last used kept for longest.

    A consumer fetches ahead while it is idle. Spark's workers outlive queries, so one that nobody comes back to is
    closed after `kept_seconds`, by a timer's thread; without idle consumers there is no timer.
    """

    def __init__(self, kept_seconds: float = KEPT_SECONDS) -> None:
        """Begin with none."""
        self.kept_seconds = kept_seconds
        self.idle: OrderedDict[Standing, tuple[Consumer, float]] = OrderedDict()  # the oldest first, with its deadline
        self._lock = threading.Lock()
        self._timer: threading.Timer | None = None

    def take(self, standing: Standing) -> Consumer | None:
        """Return the consumer that stands there, if there is one."""
        with self._lock:
            return self.idle.pop(standing, (None, 0.0))[0]

    def give(self, standing: Standing, consumer: Consumer) -> None:
        """Keep a consumer for who reads on from there."""
        with self._lock:
            surplus = [self.idle.pop(standing)] if standing in self.idle else []
            self.idle[standing] = (consumer, time.monotonic() + self.kept_seconds)
            while len(self.idle) > IDLE_CONSUMERS:
                surplus.append(self.idle.popitem(last=False)[1])
            self._wake_later()
        for closing, _ in surplus:
            closing.close()

    def _wake_later(self) -> None:
        """Have a timer for the oldest, unless there is one."""
        if self.idle and self._timer is None:
            deadline = next(iter(self.idle.values()))[1]
            self._timer = threading.Timer(max(0.0, deadline - time.monotonic()), self._expire)
            self._timer.daemon = True
            self._timer.start()

    def _expire(self) -> None:
        """Close idle readers."""
        surplus = []
        with self._lock:
            self._timer = None
            while self.idle and next(iter(self.idle.values()))[1] <= time.monotonic():
                surplus.append(self.idle.popitem(last=False)[1])
            self._wake_later()
        for closing, _ in surplus:
            closing.close()


@functools.cache
def pool() -> Pool:
    """Return this process's pool. A worker runs one task at a time."""
    return Pool()


class RangeReader:
    """Reads one range. States: reading until `position` has reached the end, or failed by an exception."""

    def __init__(self, options: ReadOptions, wanted: OffsetRange) -> None:
        """Stand at the start of the range."""
        self.options = options
        self.wanted = wanted
        self.position = wanted.start
        # Whether the next record that comes is the one at `position`: not after the last one read lay past the end.
        self.stands_at_end = True
        self.place = confluent_kafka.TopicPartition(wanted.topic, wanted.partition, wanted.start)
        self.schema = arrow_schema(options.include_headers)

    def batches(self, consumer: Consumer) -> Iterator[pa.RecordBatch]:
        """Read the range.

        Raises: OffsetsLost as failOnDataLoss says; ReadTimeout; KafkaException for what does not pass.
        """
        messages: list[Message] = []
        offsets: list[int] = []
        size = 0
        deadline = self.deadline()
        while self.position < self.wanted.end:
            fresh, numbers = self.next_messages(consumer, BATCH_ROWS - len(messages))
            if fresh:
                messages += fresh
                offsets += numbers
                size += sum(map(len, fresh))
            if fresh or self.position >= self.wanted.end:
                deadline = self.deadline()
            elif time.monotonic() > deadline:
                raise ReadTimeout(
                    f"{self.wanted}: no data at offset {self.position} for {self.options.poll_timeout_ms} ms"
                    " (kafkaConsumer.pollTimeoutMs): no leader, or the end offset does not exist or is not committed"
                )
            if messages and (len(messages) >= BATCH_ROWS or size >= BATCH_BYTES or not fresh):
                yield record_batch(messages, offsets, self.wanted, self.schema)
                messages, offsets, size = [], [], 0
                deadline = self.deadline()  # what Spark took to take the batch is not the cluster's fault
        if messages:
            yield record_batch(messages, offsets, self.wanted, self.schema)

    def deadline(self) -> float:
        """Return until when the next record must have come."""
        return time.monotonic() + self.options.poll_timeout_ms / 1000

    def next_messages(self, consumer: Consumer, limit: int) -> tuple[list[Message], list[int]]:
        """Return what has arrived, none past the end, and its offsets; if nothing has, wait for the first a moment."""
        fetched: list[Message] = consumer.consume(max(1, min(limit, self.wanted.end - self.position)), 0)
        if not fetched:
            first = consumer.poll(POLL_SECONDS)
            if first is None:
                return [], []
            fetched = [first]
        records = [message for message in fetched if message.error() is None]
        if len(records) < len(fetched):
            for message in fetched:
                if message.error() is not None:
                    self.on_error(consumer, message)
        if not records:
            return [], []
        numbers = [message.offset() or 0 for message in records]
        self.position = max(self.position, numbers[-1] + 1)
        if self.position > self.wanted.end:
            count = bisect_left(numbers, self.wanted.end)
            records, numbers = records[:count], numbers[:count]
            self.stands_at_end = False
        return records, numbers

    def on_error(self, consumer: Consumer, message: Message) -> None:
        """Judge what came instead of a record: the end of the partition, or an error."""
        error = message.error()
        assert error is not None, "called for errors only"
        code = error.code()
        if code == KafkaError._PARTITION_EOF:
            stands_at = message.offset() or 0
            if stands_at >= self.wanted.end:
                # All there is has been seen, and it ends behind the range: what was not seen is a gap.
                self.stands_at_end = stands_at == self.wanted.end
                self.position = max(self.position, self.wanted.end)
        elif code in OUT_OF_RANGE:
            self.on_out_of_range(consumer)
        elif code in GONE:
            self.report(f"{self.wanted} is not there any more (deleted?)")
            self.skip_to(self.wanted.end)
        elif not client.is_passing(error):
            raise KafkaException(error)

    def on_out_of_range(self, consumer: Consumer) -> None:
        """Go on where the partition begins now, unless the loss is an error."""
        low, high = consumer.get_watermark_offsets(self.place, WATERMARK_SECONDS)
        self.report(f"{self.wanted} is outside of what is there: {low} to {high}")
        if self.position < low < self.wanted.end:
            self.position = low
            consumer.assign([confluent_kafka.TopicPartition(self.wanted.topic, self.wanted.partition, low)])
        else:
            self.skip_to(self.wanted.end)

    def skip_to(self, offset: int) -> None:
        """Skip the records below an offset."""
        self.position = offset
        self.stands_at_end = False

    def report(self, what: str) -> None:
        """Raise, or only log, what was lost."""
        report_loss(what, is_error=self.options.fail_on_data_loss, log=logger.warning)


def read(options: ReadOptions, wanted: OffsetRange, *, is_streaming: bool) -> Iterator[pa.RecordBatch]:
    """Read a range in a task. A stream's consumer is kept for the next micro-batch; a batch's is closed."""
    settings = client.for_consumer(options.settings, options.settings.get("group.id", options.group_prefix))
    standing = Standing(tuple(sorted(settings.items())), wanted.topic, wanted.partition, wanted.start)
    consumer = pool().take(standing)
    reader = RangeReader(options, wanted)
    if consumer is None:
        own = {} if "group.id" in options.settings else {"group.id": f"{options.group_prefix}-{uuid.uuid4()}"}
        consumer = Consumer(settings | own)
        consumer.assign([reader.place])
    is_kept = False
    try:
        yield from reader.batches(consumer)
        if is_streaming and reader.stands_at_end:
            pool().give(standing._replace(position=wanted.end), consumer)
            is_kept = True
    finally:
        if not is_kept:
            consumer.close()
