"""`kvorum consume`: records to lines."""

import base64
import sys
import time
from typing import TYPE_CHECKING, Any

import click

from kvorum.cli.client import bootstrap_option, client_of, client_options, with_cluster
from kvorum.cli.completion import topic_names
from kvorum.cli.output import Exit, echo_json_line, fail, pairs

if TYPE_CHECKING:
    from confluent_kafka import KafkaError, Message

    from kvorum.admin.client import ClusterClient

POLL_SECONDS = 1.0
OFFSET_MAX = 2**63 - 1
INT32_MAX = 2**31 - 1


@click.command()
@click.argument("topic", shell_complete=topic_names)
@click.option("--from-beginning", is_flag=True, help="Start at the earliest record, not behind the latest.")
@click.option("--offset", type=click.IntRange(0, OFFSET_MAX), help="Start here, in each partition read.")
@click.option("-p", "--partition", "partitions", type=click.IntRange(0, INT32_MAX), multiple=True, help="Only these.")
@click.option("-n", "--max-messages", type=click.IntRange(1), help="End after so many.")
@click.option("-e", "--exit-at-end", is_flag=True, help="End at the end of all partitions.")
@click.option("--timeout-ms", type=click.IntRange(0), help="End after so long without a record.")
@click.option("-o", "--output", type=click.Choice(["value", "json"]), default="value", show_default=True)
@click.option("-X", "--property", "properties", multiple=True, metavar="KEY=VALUE", help="Any librdkafka property.")
@bootstrap_option
def consume(
    topic: str,
    from_beginning: bool,
    offset: int | None,
    partitions: tuple[int, ...],
    max_messages: int | None,
    exit_at_end: bool,
    timeout_ms: int | None,
    output: str,
    properties: tuple[str, ...],
    bootstrap: str,
) -> None:
    """Print a topic's records, values as lines or everything as JSON, until Ctrl-C.

    \b
    kvorum consume orders --from-beginning -n 10 -o json
    """
    from confluent_kafka import OFFSET_BEGINNING, OFFSET_END, Consumer, KafkaError, KafkaException, TopicPartition

    async def find(cluster: "ClusterClient") -> list[int]:
        return sorted(p.partition_index for p in (await cluster.topic(topic)).partitions)

    start = offset if offset is not None else OFFSET_BEGINNING if from_beginning else OFFSET_END
    own: dict[str, Any] = {
        "group.id": "kvorum-consume",
        "enable.auto.commit": False,
        "enable.partition.eof": exit_at_end,
    }
    consumer = client_of(Consumer, client_options(bootstrap, own, pairs(properties, "--property")))
    wait = POLL_SECONDS if timeout_ms is None else min(POLL_SECONDS, timeout_ms / 1000)
    try:
        there = with_cluster(bootstrap, find)
        absent = [partition for partition in partitions if partition not in there]
        if absent:
            fail(f"{topic} has no partition {absent[0]}: there are {len(there)}, from 0", Exit.NOT_FOUND)
        wanted = sorted(set(partitions)) or there
        open_partitions, count, last = set(wanted), 0, time.monotonic()
        consumer.assign([TopicPartition(topic, partition, start) for partition in wanted])
        while open_partitions and count != max_messages:
            message = consumer.poll(wait)
            error = None if message is None else message.error()
            if message is None or (error is not None and error.code() == KafkaError._TRANSPORT):
                # Nothing, or one broker less, which is no end: the client goes on with the others.
                if timeout_ms is not None and (time.monotonic() - last) * 1000 >= timeout_ms:
                    break
                continue
            if error is not None and error.code() == KafkaError._PARTITION_EOF:
                open_partitions.discard(message.partition() or 0)
            elif error is not None:
                fail(str(error), exit_of(error))
            else:
                count, last = count + 1, time.monotonic()
                show_record(message, output)
    except KafkaException as error:
        fail(str(error), exit_of(error.args[0]))
    except KeyboardInterrupt:
        pass  # how one ends a consumer that was not told where to stop
    finally:
        consumer.close()


def exit_of(error: "KafkaError") -> Exit:
    """Return the exit code that says what kind of error ended the command."""
    from confluent_kafka import KafkaError

    if error.code() in (KafkaError._ALL_BROKERS_DOWN, KafkaError._TRANSPORT, KafkaError._TIMED_OUT):
        return Exit.UNREACHABLE
    unknown = (KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError._UNKNOWN_TOPIC, KafkaError._UNKNOWN_PARTITION)
    return Exit.NOT_FOUND if error.code() in unknown else Exit.FAILED


def show_record(message: "Message", output: str) -> None:
    """Print one record."""
    value = message.value()
    if output == "value":
        sys.stdout.buffer.write((value or b"") + b"\n")
        sys.stdout.buffer.flush()
        return
    found = message.headers() or []
    headers = found.items() if isinstance(found, dict) else found
    echo_json_line(
        {
            "partition": message.partition(),
            "offset": message.offset(),
            "timestamp": message.timestamp()[1],
            "key": text_of(message.key()),
            "value": text_of(value),
            "headers": [[key, text_of(item)] for key, item in headers],
        }
    )


def text_of(data: bytes | str | None) -> str | dict[str, str] | None:
    """Return bytes as text, or as {"base64": ...} when they are no UTF-8."""
    if data is None or isinstance(data, str):
        return data
    try:
        return data.decode()
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(data).decode()}
