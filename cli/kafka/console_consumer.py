"""`kafka-console-consumer`. Source: Kafka's ConsoleConsumer."""

import sys
import time
from typing import TYPE_CHECKING, Any, BinaryIO

import click

from kvorum.cli.completion import group_names, topic_names
from kvorum.cli.connection.client import client_of, options_from_user, read_properties
from kvorum.cli.connection.librdkafka import exit_code_of
from kvorum.cli.kafka.common import Connection, Files, connection_options
from kvorum.cli.kafka.console_consumer_options import check, consumer_properties, is_offset
from kvorum.cli.kafka.deserializers import FormatError
from kvorum.cli.kafka.formatters import Formatter, formatter_of
from kvorum.cli.kafka.option_checks import key_values
from kvorum.cli.output import fail, say

if TYPE_CHECKING:
    from confluent_kafka import Consumer

POLL_SECONDS = 1.0
NO_LIMIT = -1


@click.command("kafka-console-consumer")
@click.option("--topic", shell_complete=topic_names)
@click.option("--include", metavar="REGEX", help="Topics that match this pattern.")
@click.option("--group", shell_complete=group_names)
@click.option("--from-beginning", is_flag=True, help="Start at the first record if the group has no committed offset.")
@click.option("--offset", help="earliest, latest or a number; with --partition.")
@click.option("--partition", type=click.IntRange(0))
@click.option("--max-messages", type=int, default=NO_LIMIT, help="-1: no limit.")
@click.option("--timeout-ms", type=int, default=NO_LIMIT, help="Exit after this time without a record; -1: never.")
@click.option(
    "--isolation-level", type=click.Choice(["read_committed", "read_uncommitted"]), default="read_uncommitted"
)
@click.option("--formatter", default="org.apache.kafka.tools.consumer.DefaultMessageFormatter", show_default=True)
@click.option("--formatter-property", multiple=True, metavar="KEY=VALUE")
@click.option("--property", "property_", multiple=True, metavar="KEY=VALUE", help="Deprecated: --formatter-property.")
@click.option("--formatter-config", type=Files)
@click.option("--key-deserializer")
@click.option("--value-deserializer")
@click.option("--skip-message-on-error", is_flag=True)
@click.option("--enable-systest-events", is_flag=True, hidden=True)
@click.option("--command-property", multiple=True, metavar="KEY=VALUE", help="Consumer properties.")
@click.option("--consumer-property", multiple=True, metavar="KEY=VALUE", help="Deprecated: --command-property.")
@click.option("--consumer.config", "consumer_config", type=Files, help="Deprecated: --command-config.")
@connection_options()
def console_consumer(connection: Connection, **options: Any) -> None:
    """Print the records of topics, values as lines.

    \b
    kvorum kafka-console-consumer --bootstrap-server localhost:9092 --topic orders --from-beginning \\
        --formatter-property print.key=true
    """
    from confluent_kafka import Consumer

    check(options)
    properties = read_properties(options["formatter_config"])
    for side in ("key", "value"):
        if options[f"{side}_deserializer"]:
            properties[f"{side}.deserializer"] = options[f"{side}_deserializer"]
    properties |= key_values(options["formatter_property"] + options["property_"])
    try:
        formatter = formatter_of(options["formatter"], properties)
    except FormatError as error:
        raise click.UsageError(str(error)) from None
    from_file = connection.properties | read_properties(options["consumer_config"])
    given = key_values(options["command_property"] + options["consumer_property"])
    own = consumer_properties(options, from_file, given)
    typed = options_from_user(own, {"isolation.level": "isolation_level", "group.id": "group"})
    consumer = client_of(Consumer, connection.client_options(own, from_file | given, typed))
    consume(consumer, formatter, options)


def start(consumer: "Consumer", options: dict[str, Any]) -> None:
    """Begin: with one partition, or as a member of a group."""
    from confluent_kafka import OFFSET_BEGINNING, OFFSET_END, TopicPartition

    if options["partition"] is None:
        pattern = options["include"]
        consumer.subscribe([options["topic"]] if pattern is None else [f"^({pattern})$"])
        return
    offset = options["offset"]
    if offset is not None and is_offset(offset):
        place = int(offset)
    else:
        earliest = options["from_beginning"] or (offset is not None and offset.lower() == "earliest")
        place = OFFSET_BEGINNING if earliest else OFFSET_END
    consumer.assign([TopicPartition(options["topic"], options["partition"], place)])


def consume(consumer: "Consumer", formatter: Formatter, options: dict[str, Any]) -> None:
    """Print records until the limit, the timeout, or Ctrl-C; print their number."""
    from confluent_kafka import KafkaException

    count = Count()
    try:
        start(consumer, options)
        read(consumer, formatter, options, count)
    except KafkaException as error:
        fail(error.args[0].str(), exit_code_of(error.args[0]))
    except KeyboardInterrupt:
        pass  # the usual end of a consumer without a limit
    finally:
        consumer.close()
        click.echo(f"Processed a total of {count.records} messages", err=True)
        if options["enable_systest_events"]:
            say("shutdown_complete")


class Count:
    """Number of received records, printed or not."""

    def __init__(self) -> None:
        """Start without records."""
        self.records = 0


def read(consumer: "Consumer", formatter: Formatter, options: dict[str, Any], count: Count) -> None:
    """Print records as they come. Raises KafkaException."""
    from confluent_kafka import KafkaError

    timeout_ms = None if options["timeout_ms"] < 0 else options["timeout_ms"]
    wait = POLL_SECONDS if timeout_ms is None else min(POLL_SECONDS, timeout_ms / 1000)
    # A missing topic is waited for, as in Kafka's tool; the client continues with other brokers.
    absent = (KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError._UNKNOWN_TOPIC, KafkaError._UNKNOWN_PARTITION)
    passing = (KafkaError._TRANSPORT, *absent)
    out: BinaryIO = sys.stdout.buffer
    last = time.monotonic()
    while count.records != options["max_messages"]:
        message = consumer.poll(wait)
        error = None if message is None else message.error()
        if message is None or (error is not None and error.code() in passing):
            if timeout_ms is not None and (time.monotonic() - last) * 1000 >= timeout_ms:
                click.echo(f"no record was received for {timeout_ms} ms", err=True)
                return
            continue
        if error is not None:
            fail(error.str(), exit_code_of(error))
        count.records, last = count.records + 1, time.monotonic()
        try:
            formatter.write(message, out)
        except FormatError as problem:
            if not options["skip_message_on_error"]:
                fail(str(problem))
            click.echo(f"kvorum: record skipped: {problem}", err=True)
        out.flush()
