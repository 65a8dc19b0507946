"""One task's writing at least once: rows are produced batch by batch, and acknowledged when the task ends.

A worker process keeps its producer for the next task. Reports come for failures only; that there were none, and
that nothing is left in the queue, is what makes a task succeed.
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

FLUSH_SECONDS = 330.0  # librdkafka gives a record up after delivery.timeout.ms (300 s) and reports it
QUEUE_SECONDS = 330.0  # the same for a queue that does not empty
QUEUE_POLL_SECONDS = 0.05
KEPT_PRODUCERS = 4


class DeliveryFailed(RuntimeError):
    """Records were not acknowledged. The message has the first one's error."""


class Reports:
    """Counts a producer's reports of failure."""

    def __init__(self) -> None:
        """Begin with none."""
        self.failed = 0
        self.first: KafkaError | None = None
        self.where = ""

    def on_delivery(self, error: KafkaError | None, message: Message) -> None:
        """Take a report."""
        if error is not None:
            self.failed += 1
            if self.first is None:
                self.first, self.where = error, f"{message.topic()}-{message.partition()}"

    def take(self) -> tuple[int, KafkaError | None, str]:
        """Return what was reported since the last time: how many failed, the first one's error and partition."""
        taken = self.failed, self.first, self.where
        self.failed, self.first, self.where = 0, None, ""
        return taken


class Writer:
    """A producer and its reports."""

    def __init__(self, settings: client.Settings) -> None:
        """Make a producer; it connects by itself. Raises: OptionError if librdkafka refuses the settings."""
        self.reports = Reports()
        reports = {"delivery.report.only.error": True, "on_delivery": self.reports.on_delivery}
        try:
            self.producer = Producer({**settings, **reports})
        except KafkaException as error:
            raise client.refused(error) from None

    def produce(self, rows: Outgoing, topic: str | None) -> None:
        """Queue rows; waits while the queue is full.

        Raises: DeliveryFailed when something failed meanwhile, or the queue does not empty.
        """
        produce = self.producer.produce
        is_plain = rows.timestamps_ms is None and rows.headers is None  # then arguments by name cost half the speed
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
        """Wait until the queue takes another record."""
        deadline = time.monotonic() + QUEUE_SECONDS
        full = len(self.producer)
        while len(self.producer) >= full:
            self.producer.poll(QUEUE_POLL_SECONDS)
            if self.reports.failed:
                self.raise_failure()
            if time.monotonic() > deadline:
                raise DeliveryFailed(f"{full} records are queued and none was acknowledged for {QUEUE_SECONDS:.0f} s")

    def flush(self) -> None:
        """Wait until everything queued is acknowledged.

        Raises: DeliveryFailed if something was not.
        """
        left = self.producer.flush(FLUSH_SECONDS)
        if self.reports.failed:
            self.raise_failure()
        if left:
            raise DeliveryFailed(f"{left} records were not acknowledged within {FLUSH_SECONDS:.0f} s")

    def raise_failure(self) -> None:
        """Say what failed."""
        failed, first, where = self.reports.take()
        raise DeliveryFailed(f"{failed} records were not written; the first, to {where}: {first}")


class Kept:
    """A worker process's producers."""

    def __init__(self) -> None:
        """Begin with none."""
        self.writers: OrderedDict[tuple[tuple[str, str], ...], Writer] = OrderedDict()

    def take(self, settings: client.Settings) -> Writer:
        """Return a producer with these settings, out of the store: it is put back when its task has succeeded."""
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
    """Raise an OptionError if librdkafka refuses the settings."""
    Writer(client.for_producer(options.settings))


def write(options: WriteOptions, batches: Iterable[pa.RecordBatch]) -> int:
    """Write a task's rows and return how many there were; all are acknowledged.

    Raises: DeliveryFailed, with how many were not and why the first was not.
    """
    settings = client.for_producer(options.settings)
    writer = kept().take(settings)
    count = 0
    for batch in batches:
        writer.produce(outgoing(batch, options.topic), options.topic)
        count += batch.num_rows
    writer.flush()
    kept().give(settings, writer)
    return count
