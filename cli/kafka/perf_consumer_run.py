"""Loop of `kafka-consumer-perf-test` over librdkafka. Source: Kafka's ConsumerPerformance."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import click

from kvorum.cli.kafka.perf_consumer_stats import ConsumerStats, header_line
from kvorum.cli.kafka.perf_options import POLL_SECONDS, wall_ms
from kvorum.cli.output import warn

if TYPE_CHECKING:
    from confluent_kafka import Consumer

BATCH_MAX: Final = 500
"""Maximum number of records per poll: Kafka's max.poll.records."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumeLimits:
    """Records to read: their number, and the timeout for the next one."""

    topics: Sequence[str]
    count: int
    timeout_ms: int
    reporting_ms: int
    detailed: bool
    date_format: str


def run_consumer(consumer: "Consumer", reading: ConsumeLimits, *, header: bool = True) -> ConsumerStats:
    """Read, and print what Kafka's tool prints. Leaves the consumer closed."""
    if header:
        click.echo(header_line(detailed=reading.detailed))
    read = ConsumerStats(wall_ms())
    joining_ms, has = read.start_ms, False

    def on_assign(*_: object) -> None:
        nonlocal has
        if not has:
            read.add_join(int(wall_ms() - joining_ms))
            has = True

    def on_revoke(*_: object) -> None:
        nonlocal has, joining_ms
        joining_ms, has = wall_ms(), False

    consumer.subscribe(list(reading.topics), on_assign=on_assign, on_revoke=on_revoke)
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
