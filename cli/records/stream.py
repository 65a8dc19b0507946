"""Sends a stream of records to a topic through an unmodified client, in a separate thread: for `make run`."""

import threading
from collections.abc import Callable, Iterator
from typing import Any

import click

Record = tuple[bytes | None, bytes]
"""Key and value."""

QUIET = {"log_level": 0}
"""No log lines of librdkafka on standard error: brokers are stopped and started here, and failures are counted."""
POLL_SECONDS = 0.1
"""Wait when the client's queue is full, before checking for a stop."""
STOP_SECONDS = 5.0
"""Records that are not acknowledged within this time of the stop are given up and reported."""


class Stream(threading.Thread):
    """Sends records until the input ends, or until a stop signal. Reports delivery failures itself."""

    def __init__(self, bootstrap: str, topic: str, records: Iterator[Record], make: Callable[..., Any]) -> None:
        """Prepare; `make` makes a client of its configuration (confluent_kafka.Producer)."""
        super().__init__(daemon=True)
        self._topic = topic
        self._records = records
        self._stopping = threading.Event()
        self.acknowledged = 0
        """Records that are in the topic."""
        self.failed = 0
        """Records that were rejected or given up; the first reason is printed at once, their number at the end."""
        # Idempotent, acks=all, keys placed as Java's clients place them.
        options: dict[str, Any] = {"bootstrap.servers": bootstrap, "enable.idempotence": True, "linger.ms": 5}
        self._producer = make(options | {"partitioner": "murmur2_random"} | QUIET)

    def run(self) -> None:
        """Send it all; the thread's body."""
        for key, value in self._records:
            if self._stopping.is_set() or not self._send(key, value):
                break
        self._finish()

    def stop(self) -> None:
        """Deliver the client's pending records, within STOP_SECONDS, and end."""
        self._stopping.set()
        if self.ident is not None:
            self.join()

    def _send(self, key: bytes | None, value: bytes) -> bool:
        """Hand one record to the client, when it has room; False if the stop came first."""
        from confluent_kafka import KafkaException

        while not self._stopping.is_set():
            try:
                self._producer.produce(self._topic, value, key, on_delivery=self._on_delivery)
            except BufferError:
                self._producer.poll(POLL_SECONDS)
                continue
            except KafkaException as error:  # only this record: it is too large
                self._on_delivery(error.args[0], None)
            self._producer.poll(0)
            return True
        return False

    def _on_delivery(self, error: object, message: object) -> None:
        if error is None:
            self.acknowledged += 1
            return
        self.failed += 1
        if self.failed == 1:
            click.echo(f"kvorum: a record was not delivered: {error}", err=True)

    def _finish(self) -> None:
        """Wait for records in flight: without a limit, or after the stop for STOP_SECONDS more."""
        left = len(self._producer)
        while left and not self._stopping.is_set():
            left = self._producer.flush(POLL_SECONDS)
        left = self._producer.flush(STOP_SECONDS)
        if left:
            self._producer.purge()
            self._producer.flush(POLL_SECONDS)
        if self.acknowledged and not self.failed and not self._stopping.is_set():
            click.echo(f"End of input: {self.acknowledged} records were delivered.")
        if self.failed:
            click.echo(f"kvorum: {self.failed} records were not delivered, {self.acknowledged} were", err=True)
