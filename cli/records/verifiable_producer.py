"""`kvorum verifiable-producer`: numbers to records, each acknowledgement a line of JSON.

The events and their fields are those of Kafka's VerifiableProducer, in its order.
"""

import contextlib
import signal
import sys
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NoReturn, Protocol

import click

from kvorum.cli.completion import topic_names
from kvorum.cli.connection.client import bootstrap_option, client_of, client_options
from kvorum.cli.output import echo_json_line, pairs

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


def wall_ms() -> int:
    """Return the wall clock's time."""
    return time.time_ns() // 1_000_000


def event(name: str, **fields: object) -> None:
    """Print an event."""
    echo_json_line({"timestamp": wall_ms(), "name": name, **fields})


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

        def delivered(error: "KafkaError | None", message: "Message") -> None:
            if error is not None:
                event("producer_send_error", **shown, exception=error.name(), message=error.str())
                return
            self.acked += 1
            event("producer_send_success", **shown, partition=message.partition(), offset=message.offset())

        self.sent += 1
        while True:
            try:
                encoded = None if key is None else key.encode()
                self.client.produce(
                    self.load.topic, value.encode(), encoded, on_delivery=delivered, timestamp=timestamp
                )
                return
            except BufferError:
                self.client.poll(1.0)
            except KafkaException as error:
                delivered(error.args[0], None)  # type: ignore[arg-type]  # there is no message of a failure
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
        event("shutdown_complete")
        event(
            "tool_data",
            sent=self.sent,
            acked=self.acked,
            target_throughput=self.load.throughput,
            avg_throughput=self.acked / seconds,
        )
        return self.sent == self.acked


def interrupt(*_: object) -> NoReturn:
    """Handle a stop signal: records in flight are waited for."""
    raise KeyboardInterrupt


def run_producer(client: Client, load: Load) -> None:
    """Send until all is sent, or until SIGTERM or Ctrl-C; exit code 1 if something was not acknowledged."""
    signal.signal(signal.SIGTERM, interrupt)
    run = Run(client, load)
    event("startup_complete")
    with contextlib.suppress(KeyboardInterrupt):  # how one ends it
        run.send_all()
    if not run.finish():
        raise SystemExit(1)


@click.command("verifiable-producer")
@click.argument("topic", shell_complete=topic_names)
@click.option("-n", "--max-messages", type=int, default=-1, help="Number of records; -1: until stopped.")
@click.option("--throughput", type=int, default=-1, help="Records per second; -1: no limit.")
@click.option("--acks", type=click.Choice(["0", "1", "-1", "all"]), default="-1", show_default=True)
@click.option("--value-prefix", type=int, help="Values are PREFIX.NUMBER.")
@click.option("--repeating-keys", type=click.IntRange(1), help="Repeat the keys 0 to N-1.")
@click.option("--message-create-time", "create_time", type=int, default=-1, help="The first timestamp, in ms.")
@click.option("-X", "--property", "properties", multiple=True, metavar="KEY=VALUE", help="Any librdkafka property.")
@bootstrap_option
def verifiable_producer(
    topic: str,
    max_messages: int,
    throughput: int,
    acks: str,
    value_prefix: int | None,
    repeating_keys: int | None,
    create_time: int,
    properties: tuple[str, ...],
    bootstrap: str,
) -> None:
    """Produce 0, 1, 2, ... and print an event for each acknowledgement, as Kafka's VerifiableProducer does.

    \b
    kvorum verifiable-producer orders --max-messages 1000 --throughput 100
    """
    from confluent_kafka import Producer

    load = Load(
        topic=topic,
        max_messages=max_messages,
        throughput=throughput,
        value_prefix=value_prefix,
        create_time=None if create_time < 0 else create_time,
        repeating_keys=repeating_keys,
    )
    own = producer_properties(acks)
    client: Any = client_of(Producer, client_options(bootstrap, own, pairs(properties, "--property")))
    run_producer(client, load)


def producer_properties(acks: str) -> dict[str, Any]:
    """Return the properties of a verifiable producer: no retries."""
    return {"acks": "all" if acks == "-1" else acks, "retries": 0, "partitioner": "murmur2_random"}
