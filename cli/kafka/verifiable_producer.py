"""The loop of `kafka-verifiable-producer`: numbers to records, each acknowledgement a line of JSON.

The events and their fields are those of Kafka's VerifiableProducer, in its order.
"""

import contextlib
import signal
import sys
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from kvorum.cli.kafka.verifiable_events import print_event, raise_interrupt

if TYPE_CHECKING:
    from confluent_kafka import KafkaError, Message

FLUSH_SECONDS = 60.0
FOREVER = sys.maxsize


class Client(Protocol):
    """Interface of a producer (confluent_kafka.Producer)."""

    def produce(self, topic: str, value: bytes, key: bytes | None, *, on_delivery: Any, timestamp: int) -> None:
        """Send a record."""

    def poll(self, seconds: float) -> int:
        """Yield acknowledgements, after a wait of at most this time for the first."""

    def flush(self, seconds: float) -> int:
        """Wait until all is acknowledged; return how many records are not."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """Load to send. A throughput of -1 means unlimited (records per second)."""

    topic: str
    max_messages: int = -1
    throughput: int = -1
    value_prefix: int | None = None
    create_time: int | None = None
    repeating_keys: int | None = None

    def key(self, number: int) -> str | None:
        """Return the key of the so-many-th record."""
        return None if self.repeating_keys is None else str(number % self.repeating_keys)

    def value(self, number: int) -> str:
        """Return its value."""
        return str(number) if self.value_prefix is None else f"{self.value_prefix}.{number}"


@dataclass(slots=True)
class Run:
    """One run: sends, and counts the results."""

    client: Client
    load: Load
    sent: int = 0
    acked: int = 0
    started: float = field(default_factory=time.monotonic)

    def send_all(self) -> None:
        """Send the records, as fast as permitted."""
        wanted = FOREVER if self.load.max_messages < 0 else self.load.max_messages
        while self.sent < wanted:
            self.send(self.sent)
            self.client.poll(self.pause_seconds())

    def send(self, number: int) -> None:
        """Hand over one record."""
        from confluent_kafka import KafkaException

        key, value = self.load.key(number), self.load.value(number)
        shown = {"key": key, "value": value, "topic": self.load.topic}
        timestamp = 0
        if self.load.create_time is not None:
            timestamp = self.load.create_time + round((time.monotonic() - self.started) * 1000)

        def on_delivery(error: "KafkaError | None", message: "Message") -> None:
            if error is not None:
                print_event("producer_send_error", **shown, exception=error.name(), message=error.str())
                return
            self.acked += 1
            print_event("producer_send_success", **shown, partition=message.partition(), offset=message.offset())

        self.sent += 1
        while True:
            try:
                encoded = None if key is None else key.encode()
                self.client.produce(
                    self.load.topic, value.encode(), encoded, on_delivery=on_delivery, timestamp=timestamp
                )
                return
            except BufferError:
                self.client.poll(1.0)
            except KafkaException as error:
                on_delivery(error.args[0], None)  # type: ignore[arg-type]  # there is no message of a failure
                return

    def pause_seconds(self) -> float:
        """Return how long to wait for acknowledgements before the next record is due."""
        if self.load.throughput <= 0:
            return 0.0
        due = self.started + self.sent / self.load.throughput
        return max(0.0, due - time.monotonic())

    def finish(self) -> bool:
        """Wait for records in flight, print the last events; return whether all were acknowledged."""
        self.client.flush(FLUSH_SECONDS)
        seconds = max(time.monotonic() - self.started, 1e-9)
        print_event("shutdown_complete")
        print_event(
            "tool_data",
            sent=self.sent,
            acked=self.acked,
            target_throughput=self.load.throughput,
            avg_throughput=self.acked / seconds,
        )
        return self.sent == self.acked


def run_producer(client: Client, load: Load) -> None:
    """Send until all is sent, or until SIGTERM or Ctrl-C; exit code 1 if something was not acknowledged."""
    signal.signal(signal.SIGTERM, raise_interrupt)
    run = Run(client, load)
    print_event("startup_complete")
    with contextlib.suppress(KeyboardInterrupt):  # how one ends it
        run.send_all()
    if not run.finish():
        raise SystemExit(1)


def producer_properties(acks: str) -> dict[str, Any]:
    """Return the properties of a verifiable producer: no retries."""
    return {"acks": "all" if acks == "-1" else acks, "retries": 0, "partitioner": "murmur2_random"}
