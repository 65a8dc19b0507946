"""`kvorum produce`: lines to records."""

import sys
from typing import Any, BinaryIO

import click

from kvorum.cli.client import bootstrap_option
from kvorum.cli.output import Exit, fail

FLUSH_SECONDS = 60.0
ANY_PARTITION = -1


@click.command()
@click.argument("topic")
@click.option("-f", "--file", type=click.File("rb"), default="-", help="Read lines from here; - is standard input.")
@click.option("-k", "--key-separator", help="What stands between key and value in a line; without it, no key.")
@click.option("-p", "--partition", type=int, help="Without it, keys decide (murmur2_random, as Java's clients).")
@click.option("-H", "--header", "headers", multiple=True, metavar="KEY=VALUE", help="On every record.")
@click.option("-z", "--compression", type=click.Choice(["none", "gzip", "snappy", "lz4", "zstd"]), default="none")
@click.option("--acks", type=click.Choice(["0", "1", "all"]), default="all", show_default=True)
@click.option("-X", "--property", "properties", multiple=True, metavar="KEY=VALUE", help="Any librdkafka property.")
@bootstrap_option
def produce(
    topic: str,
    file: BinaryIO,
    key_separator: str | None,
    partition: int | None,
    headers: tuple[str, ...],
    compression: str,
    acks: str,
    properties: tuple[str, ...],
    bootstrap: str,
) -> None:
    """Send each line of a file or of standard input as a record. Exit code 1 if any was not acknowledged.

    \b
    printf 'a:1\\nb:2\\n' | kvorum produce orders -k :
    """
    from confluent_kafka import KafkaException, Producer

    from kvorum.cli.output import pairs

    options: dict[str, Any] = {
        "bootstrap.servers": bootstrap,
        "partitioner": "murmur2_random",
        "compression.type": compression,
        "acks": acks,
        "enable.idempotence": acks == "all",
        **pairs(properties, "--property"),
    }
    extra: list[tuple[str, str | bytes | None]] = [
        (key, value.encode()) for key, value in pairs(headers, "--header").items()
    ]
    failures: list[str] = []
    sent = 0

    def delivered(error: object, message: object) -> None:
        if error is not None:
            failures.append(str(error))

    try:
        producer = Producer(options)
        where = ANY_PARTITION if partition is None else partition
        for line in file:
            key, value = split(line.rstrip(b"\r\n"), key_separator)
            while True:
                try:
                    producer.produce(topic, value, key, where, delivered, headers=extra or None)
                    break
                except BufferError:
                    producer.poll(1.0)
            producer.poll(0)
            sent += 1
        left = producer.flush(FLUSH_SECONDS)
    except KafkaException as error:
        fail(str(error), Exit.UNREACHABLE)
    if failures or left:
        fail(f"{len(failures) + left} of {sent} records were not acknowledged: {(failures or ['timed out'])[0]}")
    click.echo(f"{sent} records", file=sys.stderr)


def split(line: bytes, separator: str | None) -> tuple[bytes | None, bytes]:
    """Return key and value of a line."""
    if separator is None:
        return None, line
    key, found, value = line.partition(separator.encode())
    return (key, value) if found else (None, line)
