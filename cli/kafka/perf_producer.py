"""`kafka-producer-perf-test`. Source: Kafka's ProducerPerformance."""

from typing import Any

import click

from kvorum.cli.completion import topic_names
from kvorum.cli.connection.client import client_of, read_properties
from kvorum.cli.kafka.common import Connection, Files, connection_options
from kvorum.cli.kafka.perf_options import (
    MultiValueCommand,
    collect_statistics,
    metric_lines,
    say_deprecated,
    with_servers,
)
from kvorum.cli.kafka.perf_payloads import payloads_of
from kvorum.cli.kafka.perf_producer_run import Load, run_producer
from kvorum.cli.kafka.perf_producer_stats import REPORTING_MS
from kvorum.cli.output import Exit, pairs, say

TRANSACTION_MS = 3_000
DEPRECATED = "Option {} has been deprecated and will be removed in a future version. Use {} instead."


@click.command("kafka-producer-perf-test", cls=MultiValueCommand)
@click.option("--topic", required=True, shell_complete=topic_names)
@click.option("--num-records", type=int, required=True)
@click.option("--throughput", type=float, required=True, help="Records per second, approximately; -1: no limit.")
@click.option("--record-size", type=int, help="Bytes.")
@click.option("--payload-file", help="File of payloads; each record has a random one.")
@click.option("--payload-monotonic", is_flag=True, help="Payloads are 0, 1, 2, ...")
@click.option("--payload-delimiter", default="\\n", help="Delimiter of the payload file (default: newline).")
@click.option("--command-property", multiple=True, metavar="KEY=VALUE...")
@click.option("--producer-props", multiple=True, metavar="KEY=VALUE...", help="Deprecated.")
@click.option("--producer.config", "producer_config", type=Files, help="Deprecated.")
@click.option("--transactional-id")
@click.option("--transaction-duration-ms", type=int)
@click.option("--warmup-records", type=int, default=0)
@click.option("--reporting-interval", type=click.IntRange(1), default=REPORTING_MS, help="ms.")
@click.option("--print-metrics", is_flag=True)
@connection_options()
def producer(connection: Connection, **options: Any) -> None:
    """Write records, and print the rate.

    \b
    kvorum kafka-producer-perf-test --topic orders --num-records 100000 --record-size 100 --throughput -1 \\
        --producer-props bootstrap.servers=localhost:9092 acks=all
    """
    from confluent_kafka import Producer

    check_numbers(options)
    say_deprecated(options, DEPRECATED)
    given = read_properties(options["producer_config"])
    given |= pairs(options["producer_props"] + options["command_property"], "--command-property")
    connection = with_servers(connection, given)
    transaction_ms = None
    places = (options["transactional_id"], given.get("transactional.id"), connection.properties.get("transactional.id"))
    named = next((each for each in places if each is not None), None)
    if named == "":
        raise click.UsageError("transactional.id must not be empty")
    if named is not None or options["transaction_duration_ms"] is not None:
        given["transactional.id"] = f"performance-producer-{random_id()}" if named is None else named
        transaction_ms = options["transaction_duration_ms"]
        transaction_ms = TRANSACTION_MS if transaction_ms is None else transaction_ms
    own: dict[str, Any] = {"client.id": "perf-producer-client", "acks": "all", "partitioner": "murmur2_random"}
    statistics = collect_statistics(own) if options["print_metrics"] else None
    client: Any = client_of(Producer, connection.client_options(own, given))
    load = Load(
        topic=options["topic"],
        count=options["num_records"],
        throughput=options["throughput"],
        warmup=max(0, options["warmup_records"]),
        transaction_ms=transaction_ms,
        reporting_ms=options["reporting_interval"],
    )
    failed = run_producer(client, load, payloads_of(options)).failed
    if statistics is not None:
        client.poll(1.0)  # the next ones are half a second later at most
        for line in metric_lines(statistics):
            say(line)
    if failed:
        raise SystemExit(Exit.FAILED)


def check_numbers(options: dict[str, Any]) -> None:
    """Reject an invalid test, with Kafka's messages."""
    if (
        sum((options["record_size"] is not None, options["payload_file"] is not None, options["payload_monotonic"]))
        != 1
    ):
        raise click.UsageError("exactly one of --record-size, --payload-file and --payload-monotonic is required")
    if options["num_records"] <= 0:
        raise click.UsageError("--num-records should be greater than zero")
    if options["warmup_records"] >= options["num_records"]:
        raise click.UsageError(
            "The value for --warmup-records must be strictly fewer than the number of records in the test, "
            "--num-records."
        )
    if options["record_size"] is not None and options["record_size"] <= 0:
        raise click.UsageError("--record-size should be greater than zero")
    if options["transaction_duration_ms"] is not None and options["transaction_duration_ms"] <= 0:
        raise click.UsageError("--transaction-duration-ms should be greater than zero")


def random_id() -> str:
    """Return a random id."""
    from kvorum.protocol.uuids import Uuid
    from kvorum.runtime.chance import random_uuid_bytes

    return str(Uuid(random_uuid_bytes()))
