"""`kafka-console-consumer`. Source: Kafka's ConsoleConsumer, ConsoleConsumerOptions, DefaultMessageFormatter."""

import secrets
import sys
import time
from typing import TYPE_CHECKING, Any, BinaryIO, Protocol

import click

from kvorum.cli.client import client_of
from kvorum.cli.completion import group_names, topic_names
from kvorum.cli.consume import exit_of
from kvorum.cli.kafka.common import Connection, Files, connected, read_properties
from kvorum.cli.kafka.formatters import FormatError, formatter_of
from kvorum.cli.output import fail, pairs

if TYPE_CHECKING:
    from confluent_kafka import Consumer, Message

POLL_SECONDS = 1.0
GROUP_DIGITS = 100_000
OFFSET_MAX = 2**63 - 1


class Formatter(Protocol):
    """Writes records."""

    def write(self, message: "Message", out: BinaryIO) -> None:
        """Write one record."""


@click.command("kafka-console-consumer")
@click.option("--topic", shell_complete=topic_names)
@click.option("--include", "--whitelist", "include", metavar="REGEX", help="Topics that match, instead of one.")
@click.option("--group", shell_complete=group_names)
@click.option("--from-beginning", is_flag=True, help="Where the group has no offset: from the first record.")
@click.option("--offset", help="earliest, latest or a number; with --partition.")
@click.option("--partition", type=click.IntRange(0))
@click.option("--max-messages", type=click.IntRange(1))
@click.option("--timeout-ms", type=click.IntRange(0), help="End after so long without a record.")
@click.option(
    "--isolation-level", type=click.Choice(["read_committed", "read_uncommitted"]), default="read_uncommitted"
)
@click.option("--formatter", default="org.apache.kafka.tools.consumer.DefaultMessageFormatter", show_default=True)
@click.option("--formatter-property", "--property", "properties", multiple=True, metavar="KEY=VALUE")
@click.option("--formatter-config", type=Files)
@click.option("--key-deserializer")
@click.option("--value-deserializer")
@click.option("--skip-message-on-error", is_flag=True)
@click.option("--enable-systest-events", is_flag=True, hidden=True)
@click.option("--command-property", "--consumer-property", "given", multiple=True, metavar="KEY=VALUE")
@click.option("--consumer.config", "consumer_config", type=Files, hidden=True)
@connected()
def console_consumer(connection: Connection, **options: Any) -> None:
    """Print the records of topics, values as lines.

    \b
    kvorum kafka-console-consumer --bootstrap-server localhost:9092 --topic orders --from-beginning \\
        --formatter-property print.key=true
    """
    from confluent_kafka import Consumer

    check(options)
    properties = read_properties(options["formatter_config"]) | pairs(options["properties"], "--formatter-property")
    for side in ("key", "value"):
        if options[f"{side}_deserializer"] is not None:
            properties[f"{side}.deserializer"] = options[f"{side}_deserializer"]
    try:
        formatter = formatter_of(options["formatter"], properties)
    except FormatError as error:
        raise click.UsageError(str(error)) from None
    given = read_properties(options["consumer_config"]) | pairs(options["given"], "--command-property")
    own = {
        "group.id": f"console-consumer-{secrets.randbelow(GROUP_DIGITS)}",
        "auto.offset.reset": "earliest" if options["from_beginning"] else "latest",
        "isolation.level": options["isolation_level"],
        "enable.auto.commit": options["group"] is not None,
        "client.id": "console-consumer",
    }
    given |= {"group.id": options["group"]} if options["group"] is not None else {}
    consumer = client_of(Consumer, connection.client_options(own, given))
    consume(consumer, formatter, options)


def check(options: dict[str, Any]) -> None:
    """Refuse options that do not go together, as Kafka does."""
    if (options["topic"] is None) == (options["include"] is None):
        raise click.UsageError("Exactly one of --include/--topic is required.")
    if options["partition"] is not None:
        if options["topic"] is None:
            raise click.UsageError("The topic is required when partition is specified.")
        if options["group"] is not None:
            raise click.UsageError("Options group and partition cannot be specified together.")
    if options["offset"] is not None:
        if options["partition"] is None:
            raise click.UsageError("The partition is required when offset is specified.")
        if options["from_beginning"]:
            raise click.UsageError("Options from-beginning and offset cannot be specified together.")
        if options["offset"] not in ("earliest", "latest") and not is_offset(options["offset"]):
            raise click.UsageError(
                f"The provided offset value '{options['offset']}' is incorrect. Valid values are 'earliest', 'latest', "
                "or a non-negative long."
            )


def is_offset(text: str) -> bool:
    """Tell whether a text is a number that an offset can be."""
    return text.isdecimal() and len(text) <= len(str(OFFSET_MAX)) and int(text) <= OFFSET_MAX


def start(consumer: "Consumer", options: dict[str, Any]) -> None:
    """Begin: with one partition, or as a member of a group."""
    from confluent_kafka import OFFSET_BEGINNING, OFFSET_END, TopicPartition

    if options["partition"] is None:
        pattern = options["include"]
        consumer.subscribe([options["topic"]] if pattern is None else [f"^({pattern.replace(',', '|')})$"])
        return
    offset = options["offset"]
    if offset is not None and is_offset(offset):
        place = int(offset)
    else:
        place = OFFSET_BEGINNING if options["from_beginning"] or offset == "earliest" else OFFSET_END
    consumer.assign([TopicPartition(options["topic"], options["partition"], place)])


def consume(consumer: "Consumer", formatter: Formatter, options: dict[str, Any]) -> None:
    """Print records until there are enough, none comes for too long, or Ctrl-C; say how many there were."""
    from confluent_kafka import KafkaError, KafkaException

    timeout_ms, count = options["timeout_ms"], 0
    wait = POLL_SECONDS if timeout_ms is None else min(POLL_SECONDS, timeout_ms / 1000)
    out = sys.stdout.buffer
    try:
        start(consumer, options)
        last = time.monotonic()
        while count != options["max_messages"]:
            message = consumer.poll(wait)
            error = None if message is None else message.error()
            if message is None or (error is not None and error.code() == KafkaError._TRANSPORT):
                if timeout_ms is not None and (time.monotonic() - last) * 1000 >= timeout_ms:
                    click.echo(f"no record came for {timeout_ms} ms", err=True)
                    break
                continue
            if error is not None:
                fail(str(error), exit_of(error))
            count, last = count + 1, time.monotonic()
            try:
                formatter.write(message, out)
            except FormatError as problem:
                if not options["skip_message_on_error"]:
                    fail(str(problem))
            out.flush()
    except KafkaException as error:
        fail(str(error), exit_of(error.args[0]))
    except KeyboardInterrupt:
        pass  # how one ends a consumer that was not told where to stop
    finally:
        consumer.close()
        click.echo(f"Processed a total of {count} messages", err=True)
