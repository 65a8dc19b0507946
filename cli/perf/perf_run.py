"""Performance tests over librdkafka: the loops behind `kvorum perf` and Kafka's two scripts.

Source: Kafka's ProducerPerformance, ConsumerPerformance, ThroughputThrottler.
"""

import random
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import click

from kvorum.cli.output import fail, warn
from kvorum.cli.perf.perf_stats import Read, Sent, header_line

if TYPE_CHECKING:
    from confluent_kafka import Consumer, KafkaError, Message, Producer

FLUSH_SECONDS: Final = 60.0
NOT_IN_TIME: Final = f"not within {FLUSH_SECONDS:g} s of the last one"
POLL_SECONDS: Final = 0.1
BATCH_MAX: Final = 500
"""Maximum number of records per poll: Kafka's max.poll.records."""
POOL_BYTES: Final = 1 << 20
"""Random letters are drawn once, and payloads cut out of them: to draw each would measure the drawing."""


def wall_ms() -> float:
    """Return the wall clock's time."""
    return time.time_ns() / 1e6


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


def random_payloads(size: int) -> Iterator[bytes]:
    """Yield payloads of capital letters, the same in every run."""
    chance = random.Random(0)
    pool = bytes(chance.choices(range(65, 91), k=max(POOL_BYTES, 2 * size)))
    while True:
        place = chance.randrange(len(pool) - size)
        yield pool[place : place + size]


def chosen_payloads(payloads: Sequence[bytes]) -> Iterator[bytes]:
    """Yield one of these, by chance, the same in every run."""
    chance = random.Random(0)
    while True:
        yield chance.choice(payloads)


def counted_payloads() -> Iterator[bytes]:
    """Yield 0, 1, 2, ..."""
    number = 0
    while True:
        yield b"%d" % number
        number += 1


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
        self.all = Sent(expected=load.count, start_ms=start_ms, reporting_ms=load.reporting_ms)
        self.steady: Sent | None = None

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
                self.steady = Sent(expected=left, start_ms=wall_ms(), is_steady=True, reporting_ms=load.reporting_ms)
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

        def delivered(error: "KafkaError | None", _: "Message") -> None:
            if error is not None:
                self.failed[error.str()] = self.failed.get(error.str(), 0) + 1
                return
            latency_ms, now_ms = int((time.monotonic() - sent) * 1_000), wall_ms()
            for stats in (self.all, steady):
                for line in stats.record(latency_ms, size, now_ms) if stats is not None else ():
                    click.echo(line)

        while True:
            try:
                self._client.produce(self._load.topic, payload, on_delivery=delivered)
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """Records to read: their number, and the timeout for the next one."""

    topics: Sequence[str]
    count: int
    timeout_ms: int
    reporting_ms: int
    detailed: bool
    date_format: str


def run_consumer(consumer: "Consumer", reading: Reading, *, header: bool = True) -> Read:
    """Read, and print what Kafka's tool prints. Leaves the consumer closed."""
    if header:
        click.echo(header_line(detailed=reading.detailed))
    read = Read(wall_ms())
    joining_ms, has = read.start_ms, False

    def assigned(*_: object) -> None:
        nonlocal has
        if not has:
            read.joined(int(wall_ms() - joining_ms))
            has = True

    def revoked(*_: object) -> None:
        nonlocal has, joining_ms
        joining_ms, has = wall_ms(), False

    consumer.subscribe(list(reading.topics), on_assign=assigned, on_revoke=revoked)
    try:
        last_ms, said = wall_ms(), set[str]()
        while read.count < reading.count and wall_ms() - last_ms <= reading.timeout_ms:
            found = consumer.consume(BATCH_MAX, POLL_SECONDS)
            now_ms = wall_ms()
            for message in found:
                error = message.error()
                if error is not None:
                    if error.str() not in said:
                        warn(error.str())
                    said.add(error.str())
                    continue
                last_ms = now_ms
                read.count += 1
                read.size += len(message.key() or b"") + len(message.value() or b"")
            if found and read.is_due(now_ms, reading.reporting_ms):
                line = read.progress_line(now_ms, reading.date_format)
                if reading.detailed:
                    click.echo(line)
        end_ms = wall_ms()
    finally:
        consumer.close()
    if read.count < reading.count:
        click.echo(
            "WARNING: Exiting before consuming the expected number of records: timeout "
            f"({reading.timeout_ms} ms) exceeded. You can use the --timeout option to increase the timeout."
        )
    if not reading.detailed:
        click.echo(read.total_line(end_ms, reading.date_format))
    return read


def metric_lines(statistics: Mapping[str, Any]) -> list[str]:
    """Return librdkafka's figures, one per line, in the layout of Kafka's ToolsUtils.printMetrics."""
    rows = [
        (f"librdkafka-{statistics.get('type', 'client')}:{name}:{{client-id={statistics.get('client_id')}}}", value)
        for name, value in sorted(statistics.items())
        if isinstance(value, int | float)
    ]
    width = max([len(name) for name, _ in rows] + [len("Metric Name")])
    head = f"\n{'Metric Name':<{width}}   Value"
    return [head, *(f"{name:<{width}} : {value:.3f}" for name, value in rows)]
