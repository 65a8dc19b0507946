"""At-least-once writing of one task: rows are produced batch by batch, and acknowledged when the task ends.

A worker process keeps its producer for the next task. Only failures are reported; a task succeeds if there were none
and the queue is empty.
"""

import functools
import time
from collections import OrderedDict
from collections.abc import Iterable

import pyarrow as pa
from confluent_kafka import KafkaError, KafkaException, Message, Producer

from kvorum.pipelines.bridge import client
from kvorum.pipelines.bridge.columns import Outgoing, outgoing
from kvorum.pipelines.bridge.options import WriteOptions

FLUSH_SECONDS = 330.0  # librdkafka reports a record as failed after delivery.timeout.ms (300 s)
QUEUE_SECONDS = 330.0  # the same for a full queue
QUEUE_POLL_SECONDS = 0.05
KEPT_PRODUCERS = 4


class DeliveryFailed(RuntimeError):
    """Records were not acknowledged. The message has the first error."""


class Reports:
    """Counts a producer's failures."""

    def __init__(self) -> None:
        """Begin with none."""
        self.failed = 0
        self.first: KafkaError | None = None
        self.where = ""

    def on_delivery(self, error: KafkaError | None, message: Message) -> None:
        """Handle a report."""
        if error is not None:
            self.failed += 1
            if self.first is None:
                self.first, self.where = error, f"{message.topic()}-{message.partition()}"

    def take(self) -> tuple[int, KafkaError | None, str]:
        """Return and reset the number of failures, and the first one's error and partition."""
        taken = self.failed, self.first, self.where
        self.failed, self.first, self.where = 0, None, ""
        return taken


class Writer:
    """A producer and its reports."""

    def __init__(self, settings: client.Settings) -> None:
        """Create the producer, which connects in the background. Raises OptionError for invalid settings."""
        self.reports = Reports()
        reports = {"delivery.report.only.error": True, "on_delivery": self.reports.on_delivery}
        try:
            self.producer = Producer({**settings, **reports})
        except KafkaException as error:
            raise client.refused(error) from None

    def produce(self, rows: Outgoing, topic: str | None) -> None:
        """Queue rows; wait while the queue is full. Raises DeliveryFailed after a failure, or if it stays full."""
        produce = self.producer.produce
        is_plain = rows.timestamps_ms is None and rows.headers is None  # keyword arguments would halve the speed
        for name, value, key, partition, timestamp_ms, headers in rows.rows(topic):
            more = {} if is_plain else {"timestamp": timestamp_ms, "headers": headers}
            try:
                produce(name, value, key, partition, **more)
            except BufferError:
                self.wait_for_room()
                produce(name, value, key, partition, **more)
        self.producer.poll(0)
        if self.reports.failed:
            self.raise_failure()

    def wait_for_room(self) -> None:
        """Wait until the queue has room."""
        deadline = time.monotonic() + QUEUE_SECONDS
        full = len(self.producer)
        while len(self.producer) >= full:
            self.producer.poll(QUEUE_POLL_SECONDS)
            if self.reports.failed:
                self.raise_failure()
            if time.monotonic() > deadline:
                raise DeliveryFailed(f"{full} records are queued and none was acknowledged for {QUEUE_SECONDS:.0f} s")

    def flush(self) -> None:
        """Wait until all queued records are acknowledged. Raises DeliveryFailed if one was not."""
        left = self.producer.flush(FLUSH_SECONDS)
        if self.reports.failed:
            self.raise_failure()
        if left:
            raise DeliveryFailed(f"{left} records were not acknowledged within {FLUSH_SECONDS:.0f} s")

    def raise_failure(self) -> None:
        """Raise DeliveryFailed with the number of failures and the first error."""
        failed, first, where = self.reports.take()
        raise DeliveryFailed(f"{failed} records were not written; the first, to {where}: {first}")


class Kept:
    """A worker process's producers."""

    def __init__(self) -> None:
        """Begin with none."""
        self.writers: OrderedDict[tuple[tuple[str, str], ...], Writer] = OrderedDict()

    def take(self, settings: client.Settings) -> Writer:
        """Return a producer with these settings. It is given back when its task has succeeded."""
        return self.writers.pop(tuple(sorted(settings.items())), None) or Writer(settings)

    def give(self, settings: client.Settings, writer: Writer) -> None:
        """Keep a producer whose queue is empty."""
        self.writers[tuple(sorted(settings.items()))] = writer
        while len(self.writers) > KEPT_PRODUCERS:
            self.writers.popitem(last=False)


@functools.cache
def kept() -> Kept:
    """Return this process's producers. A worker runs one task at a time."""
    return Kept()


def check(options: WriteOptions) -> None:
    """Raise OptionError for settings that librdkafka rejects."""
    Writer(client.for_producer(options.settings))


def write(options: WriteOptions, batches: Iterable[pa.RecordBatch]) -> int:
    """Write a task's rows; return their number when all are acknowledged. Raises DeliveryFailed."""
    settings = client.for_producer(options.settings)
    writer = kept().take(settings)
    count = 0
    for batch in batches:
        writer.produce(outgoing(batch, options.topic), options.topic)
        count += batch.num_rows
    writer.flush()
    kept().give(settings, writer)
    return count
