"""`kafka-producer-perf-test` and `kafka-consumer-perf-test`. Source: Kafka's ProducerPerformance, ConsumerPerformance.

The clients are librdkafka's: Java-only properties are reported and ignored, and --print-metrics prints the figures of
librdkafka.
"""

import json
import os
import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import click

from kvorum.cli.completion import topic_names
from kvorum.cli.connection.client import client_of
from kvorum.cli.connection.client_properties import BLACKLIST, INTERNAL_TOPICS
from kvorum.cli.kafka.common import Connection, Files, Remembering, connected, one_of_two, read_properties
from kvorum.cli.output import Exit, fail, pairs, say
from kvorum.cli.perf.perf_run import (
    Load,
    Reading,
    chosen_payloads,
    counted_payloads,
    metric_lines,
    random_payloads,
    run_consumer,
    run_producer,
)
from kvorum.cli.perf.perf_stats import DATE_FORMAT, REPORTING_MS, DateFormatError, date_text

TRANSACTION_MS = 3_000
MANY = ("--producer-props", "--command-property")
"""Options that take several words, up to the next option."""
PRODUCERS_WORDS = "Option {} has been deprecated and will be removed in a future version. Use {} instead."
CONSUMERS_WORDS = "Warning: {} is deprecated. Use {} instead."
RENAMED = {
    "producer_props": ("--producer-props", "--command-property"),
    "producer_config": ("--producer.config", "--command-config"),
    "consumer_config": ("--consumer.config", "--command-config"),
    "messages": ("--messages", "--num-records"),
}


class ManyWords(Remembering):
    """A command some of whose options take several words."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Repeat such an option before each of its words."""
        found: list[str] = []
        many = ""
        for word in args:
            if word.startswith("--"):
                many = word if word in MANY else ""
                found += [] if many else [word]
            else:
                found += [many, word] if many else [word]
        return super().parse_args(ctx, found)


def say_deprecated(options: dict[str, Any], words: str) -> None:
    """Report deprecated names (KIP-1147), and reject both names at once."""
    params = click.get_current_context().params
    for name, (old, new) in RENAMED.items():
        if options.get(name):
            one_of_two(new, params.get(new.removeprefix("--").replace("-", "_")), old, options[name])
            say(words.format(old, new))


def with_servers(connection: Connection, given: dict[str, str]) -> Connection:
    """Return the cluster's address: from --bootstrap-server, else from a property."""
    context = click.get_current_context()
    servers = given.pop("bootstrap.servers", None)
    return connection if context.params["bootstrap_server"] or servers is None else replace(connection, where=servers)


@click.command("kafka-producer-perf-test", cls=ManyWords)
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
@connected()
def producer(connection: Connection, **options: Any) -> None:
    """Write records, and print the rate.

    \b
    kvorum kafka-producer-perf-test --topic orders --num-records 100000 --record-size 100 --throughput -1 \\
        --producer-props bootstrap.servers=localhost:9092 acks=all
    """
    from confluent_kafka import Producer

    check_numbers(options)
    say_deprecated(options, PRODUCERS_WORDS)
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
    statistics: dict[str, Any] = {}
    own: dict[str, Any] = {"client.id": "perf-producer-client", "acks": "all", "partitioner": "murmur2_random"}
    if options["print_metrics"]:
        own |= {"statistics.interval.ms": 500, "stats_cb": lambda text: statistics.update(json.loads(text))}
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
    if options["print_metrics"]:
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


def payloads_of(options: dict[str, Any]) -> Iterator[bytes]:
    """Return the requested payloads."""
    if options["payload_monotonic"]:
        return counted_payloads()
    if options["record_size"] is not None:
        return random_payloads(options["record_size"])
    return chosen_payloads(read_payloads(options["payload_file"], options["payload_delimiter"]))


def read_payloads(path: str, delimiter: str) -> list[bytes]:
    """Read the payloads of a file: text between what matches the delimiter, a regular expression (Java's Scanner)."""
    say(f"Reading payloads from: {os.path.abspath(path)}")
    try:
        with open(path, encoding="utf-8", errors="replace", newline="") as file:
            text = file.read()
    except FileNotFoundError:
        text = ""
    if not text:
        fail("File does not exist or empty file provided.")
    try:
        pattern = re.compile("\n" if delimiter == "\\n" else delimiter)
    except re.error as error:
        raise click.UsageError(f"--payload-delimiter {delimiter}: {error}") from None
    if pattern.match(""):
        raise click.UsageError("--payload-delimiter must not match the empty string")
    ends = [match.span() for match in pattern.finditer(text)]
    starts = [0, *(end for _, end in ends)]
    found = [text[start:end].encode() for start, (end, _) in zip(starts, ends, strict=False)]
    if starts[-1] < len(text):
        found.append(text[starts[-1] :].encode())
    if ends and ends[0][0] == 0:  # an empty text before the first delimiter is no payload
        found = found[1:]
    say(f"Number of records read: {len(found)}")
    if not found:
        raise click.UsageError("There is no payload in the file.")
    return found


def random_id() -> str:
    """Return a random id."""
    from kvorum.protocol.uuids import Uuid
    from kvorum.runtime.chance import random_uuid_bytes

    return str(Uuid(random_uuid_bytes()))


@click.command("kafka-consumer-perf-test", cls=ManyWords)
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
@connected()
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
    say_deprecated(options, CONSUMERS_WORDS)
    given = read_properties(options["consumer_config"]) | pairs(options["command_property"], "--command-property")
    connection = with_servers(connection, given)
    statistics: dict[str, Any] = {}
    own: dict[str, Any] = {"client.id": "perf-consumer-client"}
    if options["print_metrics"]:
        own |= {"statistics.interval.ms": 500, "stats_cb": lambda text: statistics.update(json.loads(text))}
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
    reading = Reading(
        topics=[options["topic"]] if options["topic"] is not None else [f"^({options['include']})$"],
        count=counts[0],
        timeout_ms=options["timeout"],
        reporting_ms=options["reporting_interval"],
        detailed=options["show_detailed_stats"],
        date_format=options["date_format"],
    )
    run_consumer(client, reading, header=not options["hide_header"])
    for line in metric_lines(statistics) if options["print_metrics"] else ():
        say(line)
