"""`kafka-consumer-perf-test`. Source: Kafka's ConsumerPerformance."""

from typing import Any

import click

from kvorum.cli.completion import topic_names
from kvorum.cli.connection.client import client_of, read_properties
from kvorum.cli.connection.client_properties import BLACKLIST, INTERNAL_TOPICS
from kvorum.cli.kafka.common import Connection, Files, connection_options
from kvorum.cli.kafka.perf_consumer_run import ConsumeLimits, run_consumer
from kvorum.cli.kafka.perf_consumer_stats import DATE_FORMAT, DateFormatError, date_text
from kvorum.cli.kafka.perf_options import (
    MultiValueCommand,
    collect_statistics,
    metric_lines,
    say_deprecated,
    with_servers,
)
from kvorum.cli.kafka.perf_producer_stats import REPORTING_MS
from kvorum.cli.output import pairs, say

DEPRECATED = "Warning: {} is deprecated. Use {} instead."


@click.command("kafka-consumer-perf-test", cls=MultiValueCommand)
@click.option("--topic", shell_complete=topic_names)
@click.option("--include", metavar="REGEX", help="Topics that match this pattern.")
@click.option("--num-records", type=click.IntRange(1))
@click.option("--messages", type=click.IntRange(1), help="Deprecated.")
@click.option("--group", help="Group id (default: a new one).")
@click.option("--fetch-size", type=click.IntRange(1), default=1024 * 1024)
@click.option("--from-latest", is_flag=True)
@click.option("--socket-buffer-size", type=click.IntRange(0), default=2 * 1024 * 1024)
@click.option("--consumer.config", "consumer_config", type=Files, help="Deprecated.")
@click.option("--command-property", multiple=True, metavar="KEY=VALUE...")
@click.option("--print-metrics", is_flag=True)
@click.option("--show-detailed-stats", is_flag=True)
@click.option("--timeout", type=click.IntRange(0), default=10_000, help="Idle timeout in ms.")
@click.option("--reporting-interval", type=click.IntRange(1), default=REPORTING_MS, help="ms.")
@click.option("--date-format", default=DATE_FORMAT, help="Date format, as for Java's SimpleDateFormat.")
@click.option("--hide-header", is_flag=True)
@connection_options()
def consumer(connection: Connection, **options: Any) -> None:
    """Read records, and print the rate.

    \b
    kvorum kafka-consumer-perf-test --bootstrap-server localhost:9092 --topic orders --num-records 100000
    """
    from confluent_kafka import Consumer

    from kvorum.runtime.chance import new_random

    if (options["topic"] is None) == (options["include"] is None):
        raise click.UsageError("Exactly one of the following arguments is required: [topic], [include]")
    counts = [each for each in (options["num_records"], options["messages"]) if each is not None]
    if len(counts) != 1:
        raise click.UsageError("Exactly one of the following arguments is required: [messages], [num-records]")
    try:
        date_text(0, options["date_format"])
    except DateFormatError as error:
        raise click.UsageError(str(error)) from None
    say_deprecated(options, DEPRECATED)
    given = read_properties(options["consumer_config"]) | pairs(options["command_property"], "--command-property")
    connection = with_servers(connection, given)
    own: dict[str, Any] = {"client.id": "perf-consumer-client"}
    statistics = collect_statistics(own) if options["print_metrics"] else None
    own_group = f"perf-consumer-{new_random().randrange(100_000)}"
    fixed: dict[str, Any] = {
        "group.id": own_group if options["group"] is None else options["group"],
        "socket.receive.buffer.bytes": options["socket_buffer_size"],
        "max.partition.fetch.bytes": options["fetch_size"],
        "auto.offset.reset": "latest" if options["from_latest"] else "earliest",
        "check.crcs": False,
    }
    if options["include"] is not None:
        own[BLACKLIST] = INTERNAL_TOPICS
    client: Any = client_of(Consumer, connection.client_options(own, given, fixed))
    reading = ConsumeLimits(
        topics=[options["topic"]] if options["topic"] is not None else [f"^({options['include']})$"],
        count=counts[0],
        timeout_ms=options["timeout"],
        reporting_ms=options["reporting_interval"],
        detailed=options["show_detailed_stats"],
        date_format=options["date_format"],
    )
    run_consumer(client, reading, header=not options["hide_header"])
    for line in metric_lines(statistics) if statistics is not None else ():
        say(line)
