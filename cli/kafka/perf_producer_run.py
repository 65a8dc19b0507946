"""Loop of `kafka-producer-perf-test` over librdkafka. Source: Kafka's ProducerPerformance, ThroughputThrottler."""

import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import click

from kvorum.cli.kafka.perf_options import POLL_SECONDS, wall_ms
from kvorum.cli.kafka.perf_producer_stats import ProducerStats
from kvorum.cli.output import fail, warn

if TYPE_CHECKING:
    from confluent_kafka import KafkaError, Message, Producer

FLUSH_SECONDS: Final = 60.0
NOT_IN_TIME: Final = f"not within {FLUSH_SECONDS:g} s of the last one"


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """Load to send: number of records; a throughput below 0 means unlimited (records per second)."""

    topic: str
    count: int
    throughput: float = -1
    warmup: int = 0
    transaction_ms: int | None = None
    """Duration of a transaction; None: no transactions."""
    reporting_ms: int = 5_000


class Sender:
    """Sends a load, and counts acknowledgements. Latency is the time from the send to its acknowledgement."""

    def __init__(self, client: "Producer", load: Load) -> None:
        """Begin now."""
        self._client = client
        self._load = load
        self._started = time.monotonic()
        self.failed: dict[str, int] = {}
        """Number of records that were not acknowledged, by reason."""
        start_ms = wall_ms()
        self.all = ProducerStats(expected=load.count, start_ms=start_ms, reporting_ms=load.reporting_ms)
        self.steady: ProducerStats | None = None

    def run(self, payloads: Iterator[bytes]) -> None:
        """Send everything, and wait until it is acknowledged. Raises KafkaException."""
        load, client = self._load, self._client
        if load.transaction_ms is not None:
            client.init_transactions()
        opened: float | None = None
        for number in range(load.count):
            if load.transaction_ms is not None and opened is None:
                client.begin_transaction()
                opened = time.monotonic()
            if load.warmup and number == load.warmup:
                left = load.count - load.warmup
                self.steady = ProducerStats(
                    expected=left, start_ms=wall_ms(), is_steady=True, reporting_ms=load.reporting_ms
                )
                self.all.is_quiet = True
            self._send(next(payloads))
            if opened is not None and (time.monotonic() - opened) * 1_000 >= (load.transaction_ms or 0):
                client.commit_transaction()
                opened = None
            self._pause(number + 1)
        if opened is not None:
            client.commit_transaction()
        left = client.flush(FLUSH_SECONDS)
        if left:
            self.failed[NOT_IN_TIME] = left

    def _send(self, payload: bytes) -> None:
        sent, steady, size = time.monotonic(), self.steady, len(payload)

        def on_delivery(error: "KafkaError | None", _: "Message") -> None:
            if error is not None:
                self.failed[error.str()] = self.failed.get(error.str(), 0) + 1
                return
            latency_ms, now_ms = int((time.monotonic() - sent) * 1_000), wall_ms()
            for stats in (self.all, steady):
                for line in stats.record(latency_ms, size, now_ms) if stats is not None else ():
                    click.echo(line)

        while True:
            try:
                self._client.produce(self._load.topic, payload, on_delivery=on_delivery)
                return
            except BufferError:
                self._client.poll(POLL_SECONDS)

    def _pause(self, sent: int) -> None:
        """Bring acknowledgements, until the next record is due."""
        self._client.poll(0)
        if self._load.throughput <= 0:
            return
        due = self._started + sent / self._load.throughput
        while (left := due - time.monotonic()) > 0:
            self._client.poll(left)

    def lines(self) -> list[str]:
        """Return the last lines."""
        now_ms = wall_ms()
        return [stats.total_line(now_ms) for stats in (self.all, self.steady) if stats is not None]


def run_producer(client: "Producer", load: Load, payloads: Iterator[bytes]) -> Sender:
    """Send a load and print what Kafka's tool prints; what could not be sent at all ends the command."""
    from confluent_kafka import KafkaException

    if load.warmup:
        click.echo(
            f"Warmup first {load.warmup} records. Steady state results will print after the complete test summary."
        )
    sender = Sender(client, load)
    try:
        sender.run(payloads)
    except KafkaException as error:
        fail(error.args[0].str())
    for line in sender.lines():
        click.echo(line)
    for reason, count in sender.failed.items():
        warn(f"{count} records were not acknowledged: {reason}")
    return sender
