"""`kvorum perf`: how fast a cluster takes and gives records, in the lines of Kafka's performance tests."""

from typing import Any

import click

from kvorum.cli.completion import topic_names
from kvorum.cli.connection.client import bootstrap_option, client_of, client_options, given_of
from kvorum.cli.connection.librdkafka import Watch, reached
from kvorum.cli.output import Exit, pairs

property_option = click.option(
    "-X", "--property", "properties", multiple=True, metavar="KEY=VALUE", help="Any librdkafka property."
)


@click.group()
def perf() -> None:
    """Measure produce and consume throughput, at full or limited speed.

    \b
    kvorum perf produce orders --records 1000000 --size 100
    kvorum perf consume orders --records 1000000
    """


@perf.command()
@click.argument("topic", shell_complete=topic_names)
@click.option("-n", "--records", type=click.IntRange(1), required=True, help="Number of records.")
@click.option("-s", "--size", type=click.IntRange(1), default=100, show_default=True, help="Bytes per record.")
@click.option("--throughput", type=float, default=-1, help="Records per second; -1: no limit.")
@click.option("--warmup", type=click.IntRange(0), default=0, help="Records that are excluded from the last line.")
@property_option
@bootstrap_option
def produce(
    topic: str, records: int, size: int, throughput: float, warmup: int, properties: tuple[str, ...], bootstrap: str
) -> None:
    """Write records of random letters. Exit code 1 if any was not acknowledged.

    \b
    kvorum perf produce orders --records 100000 --size 1000 -X acks=1 -X linger.ms=5
    """
    from confluent_kafka import Producer

    from kvorum.cli.perf.perf_run import Load, random_payloads, run_producer

    if warmup >= records:
        raise click.UsageError("--warmup must be less than --records")
    load = Load(topic=topic, count=records, throughput=throughput, warmup=warmup)
    own: dict[str, Any] = {"acks": "all", "client.id": "kvorum-perf"}
    watch = Watch()
    client: Any = client_of(Producer, client_options(bootstrap, own, pairs(properties, "--property")), watch)
    reached(client, watch, topic)
    if run_producer(client, load, random_payloads(size)).failed:
        raise SystemExit(Exit.FAILED)


@perf.command()
@click.argument("topic", shell_complete=topic_names)
@click.option("-n", "--records", type=click.IntRange(1), required=True, help="Number of records.")
@click.option("-g", "--group", help="Group id (default: a new one).")
@click.option(
    "--timeout", "timeout_ms", type=click.IntRange(1), default=10_000, show_default=True, help="Idle timeout in ms."
)
@click.option("--detailed", is_flag=True, help="Print a line every five seconds.")
@property_option
@bootstrap_option
def consume(
    topic: str,
    records: int,
    group: str | None,
    timeout_ms: int,
    detailed: bool,
    properties: tuple[str, ...],
    bootstrap: str,
) -> None:
    """Read records from the beginning. Exit code 1 if there were fewer.

    \b
    kvorum perf consume orders --records 100000
    """
    from confluent_kafka import Consumer

    from kvorum.cli.perf.perf_run import Reading, run_consumer
    from kvorum.cli.perf.perf_stats import DATE_FORMAT, REPORTING_MS
    from kvorum.runtime.chance import new_random

    own: dict[str, Any] = {
        "group.id": group or f"perf-consumer-{new_random().randrange(100_000)}",
        "auto.offset.reset": "earliest",
        "client.id": "kvorum-perf",
    }
    typed = given_of(own, {"group.id": "group"})
    watch = Watch()
    options = client_options(bootstrap, own, pairs(properties, "--property"), typed)
    consumer: Any = client_of(Consumer, options, watch)
    reached(consumer, watch, topic)
    reading = Reading(
        topics=[topic],
        count=records,
        timeout_ms=timeout_ms,
        reporting_ms=REPORTING_MS,
        detailed=detailed,
        date_format=DATE_FORMAT,
    )
    if run_consumer(consumer, reading).count < records:
        raise SystemExit(Exit.FAILED)
