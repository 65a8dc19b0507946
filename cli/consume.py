"""`kvorum consume`: records to lines."""

import base64
import sys
import time
from typing import TYPE_CHECKING, Any

import click

from kvorum.cli.client import bootstrap_option, with_cluster
from kvorum.cli.output import Exit, echo_json_line, fail, pairs

if TYPE_CHECKING:
    from confluent_kafka import Message

    from kvorum.admin.client import ClusterClient

POLL_SECONDS = 1.0


@click.command()
@click.argument("topic")
@click.option("--from-beginning", is_flag=True, help="Start at the earliest record, not behind the latest.")
@click.option("--offset", type=int, help="Start here, in each partition read.")
@click.option("-p", "--partition", "partitions", type=int, multiple=True, help="Only these. May be repeated.")
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

    wanted = list(partitions) or with_cluster(bootstrap, find)
    start = offset if offset is not None else OFFSET_BEGINNING if from_beginning else OFFSET_END
    options: dict[str, Any] = {
        "bootstrap.servers": bootstrap,
        "group.id": "kvorum-consume",
        "enable.auto.commit": False,
        "enable.partition.eof": exit_at_end,
        **pairs(properties, "--property"),
    }
    consumer = Consumer(options)
    open_partitions, count, last = set(wanted), 0, time.monotonic()
    try:
        consumer.assign([TopicPartition(topic, partition, start) for partition in wanted])
        while open_partitions and count != max_messages:
            message = consumer.poll(POLL_SECONDS)
            if message is None:
                if timeout_ms is not None and (time.monotonic() - last) * 1000 >= timeout_ms:
                    break
                continue
            error = message.error()
            if error is not None and error.code() == KafkaError._PARTITION_EOF:
                open_partitions.discard(message.partition() or 0)
            elif error is not None:
                fail(str(error), Exit.UNREACHABLE)
            else:
                count, last = count + 1, time.monotonic()
                show_record(message, output)
    except KafkaException as error:
        fail(str(error), Exit.UNREACHABLE)
    except KeyboardInterrupt:
        pass  # how one ends a consumer that was not told where to stop
    finally:
        consumer.close()


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
