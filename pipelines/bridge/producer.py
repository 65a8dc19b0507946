"""At-least-once writing of one task: rows are produced batch by batch, and acknowledged when the task ends.

A worker process keeps its producer for the next task. Only failures are reported; a task succeeds if there were none
and the queue is empty.
"""

import time
from collections import Counter, OrderedDict
from collections.abc import Iterable

import pyarrow as pa
from confluent_kafka import KafkaError, KafkaException, Message, Producer

from kvorum.pipelines.bridge import client
from kvorum.pipelines.bridge.columns import outgoing
from kvorum.pipelines.bridge.options import WriteOptions

FLUSH_SECONDS = 330.0  # librdkafka reports a record as failed after delivery.timeout.ms (300 s)
QUEUE_SECONDS = 330.0  # the same for a full queue
QUEUE_POLL_SECONDS = 0.05
KEPT_PRODUCERS = 4


class DeliveryFailed(RuntimeError):
    """Records were not acknowledged. The message has the first error."""


class Writer:
    """A producer, and the number of its failures by partition and error."""

    def __init__(self, settings: client.Settings) -> None:
        """Create the producer, which connects in the background. Raises OptionError for invalid settings."""
        failures = self.failures = Counter[str]()

        def on_delivery(error: KafkaError | None, message: Message) -> None:  # no cycle with the producer
            if error is not None:
                failures[f"to {message.topic()}-{message.partition()}: {error}"] += 1

        try:
            self.producer = Producer({**settings, "delivery.report.only.error": True, "on_delivery": on_delivery})
        except KafkaException as error:
            raise client.refused(error) from None

    def produce(self, batches: Iterable[pa.RecordBatch], topic: str | None) -> int:
        """Queue rows and return their number; wait while the queue is full.

        Raises: DeliveryFailed after a failure, or if the queue stays full.
        """
        produce, count = self.producer.produce, 0
        for batch in batches:
            rows, is_plain = outgoing(batch, topic)
            for name, value, key, partition, timestamp_ms, headers in rows:
                # Keyword arguments would halve the speed.
                more = {} if is_plain else {"timestamp": timestamp_ms, "headers": headers}
                try:
                    produce(name, value, key, partition, **more)
                except BufferError:
                    self._wait_for_room()
                    produce(name, value, key, partition, **more)
            self.producer.poll(0)
            self._raise_failure()
            count += batch.num_rows
        return count

    def _wait_for_room(self) -> None:
        deadline = time.monotonic() + QUEUE_SECONDS
        full = len(self.producer)
        while len(self.producer) >= full:
            self.producer.poll(QUEUE_POLL_SECONDS)
            self._raise_failure()
            if time.monotonic() > deadline:
                raise DeliveryFailed(f"{full} records are queued and none was acknowledged for {QUEUE_SECONDS:.0f} s")

    def flush(self) -> None:
        """Wait until all queued records are acknowledged. Raises DeliveryFailed if one was not."""
        left = self.producer.flush(FLUSH_SECONDS)
        self._raise_failure()
        if left:
            raise DeliveryFailed(f"{left} records were not acknowledged within {FLUSH_SECONDS:.0f} s")

    def _raise_failure(self) -> None:
        if self.failures:
            count, first = self.failures.total(), next(iter(self.failures))
            self.failures.clear()
            raise DeliveryFailed(f"{count} records were not written; the first, {first}")


_idle: OrderedDict[tuple[tuple[str, str], ...], Writer] = OrderedDict()
"""This process's producers by their settings; their queues are empty. A worker runs one task at a time."""


def check(options: WriteOptions) -> None:
    """Raise OptionError for settings that librdkafka rejects."""
    Writer(client.for_producer(options.settings))


def write(options: WriteOptions, batches: Iterable[pa.RecordBatch]) -> int:
    """Write a task's rows; return their number when all are acknowledged. Raises DeliveryFailed."""
    settings = client.for_producer(options.settings)
    key = tuple(sorted(settings.items()))
    writer = _idle.pop(key, None) or Writer(settings)
    count = writer.produce(batches, options.topic)
    writer.flush()
    _idle[key] = writer
    while len(_idle) > KEPT_PRODUCERS:
        _idle.popitem(last=False)
    return count
