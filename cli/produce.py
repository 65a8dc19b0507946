"""`kvorum produce`: lines to records."""

import sys
from typing import TYPE_CHECKING, Any, BinaryIO

import click

from kvorum.cli.client import bootstrap_option, client_of, client_options
from kvorum.cli.completion import topic_names
from kvorum.cli.output import fail, pairs

if TYPE_CHECKING:
    from confluent_kafka import Producer

FLUSH_SECONDS = 60.0
ANY_PARTITION = -1


@click.command()
@click.argument("topic", shell_complete=topic_names)
@click.option("-f", "--file", type=click.File("rb"), default="-", help="Read lines from here; - is standard input.")
@click.option("-k", "--key-separator", help="What stands between key and value in a line; without it, no key.")
@click.option(
    "-p",
    "--partition",
    type=click.IntRange(0, 2**31 - 1),
    help="Without it, keys decide (murmur2_random, as Java's clients).",
)
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
    from confluent_kafka import Producer

    if key_separator == "":
        raise click.BadParameter("must not be empty; without it, no line has a key", param_hint="--key-separator")
    own: dict[str, Any] = {
        "partitioner": "murmur2_random",
        "compression.type": compression,
        "acks": acks,
        "enable.idempotence": acks == "all",
    }
    options = client_options(bootstrap, own, pairs(properties, "--property"))
    extra: list[tuple[str, str | bytes | None]] = [
        (key, value.encode()) for key, value in pairs(headers, "--header").items()
    ]
    sending = Sending(client_of(Producer, options), topic, ANY_PARTITION if partition is None else partition, extra)
    interrupted = False
    try:
        for line in file:
            sending.send(*split(line.rstrip(b"\r\n"), key_separator))
    except KeyboardInterrupt:
        interrupted = True  # what was handed over already is delivered, and told
    left = sending.producer.flush(FLUSH_SECONDS)
    failures = sending.failures
    if failures or left:
        fail(
            f"{len(failures) + left} of {sending.sent} records were not acknowledged: {(failures or ['timed out'])[0]}"
        )
    click.echo(f"{sending.sent} records", file=sys.stderr)
    if interrupted:
        fail("interrupted: what came behind these was not sent")


class Sending:
    """Sends records and remembers why some were not acknowledged: one that cannot be sent stops no other."""

    def __init__(
        self, producer: "Producer", topic: str, partition: int, headers: list[tuple[str, str | bytes | None]]
    ) -> None:
        """Send to this topic, with these headers."""
        self.producer = producer
        self.failures: list[str] = []
        self.sent = 0
        self._topic = topic
        self._partition = partition
        self._headers = headers

    def send(self, key: bytes | None, value: bytes) -> None:
        """Hand one record to the client, waiting for room."""
        from confluent_kafka import KafkaException

        while True:
            try:
                self.producer.produce(
                    self._topic, value, key, self._partition, self._delivered, headers=self._headers or None
                )
                break
            except BufferError:
                self.producer.poll(1.0)
            except KafkaException as error:  # of this record: it is larger than the client sends
                self._delivered(error.args[0], None)
                break
        self.sent += 1
        self.producer.poll(0)

    def _delivered(self, error: object, message: object) -> None:
        if error is not None:
            self.failures.append(str(error))


def split(line: bytes, separator: str | None) -> tuple[bytes | None, bytes]:
    """Return key and value of a line."""
    if separator is None:
        return None, line
    key, found, value = line.partition(separator.encode())
    return (key, value) if found else (None, line)
