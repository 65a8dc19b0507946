"""`kafka-console-producer`. Source: Kafka's ConsoleProducer, LineMessageReader."""

import io
import sys
from collections.abc import Generator, Iterator
from contextlib import closing
from typing import Any, BinaryIO

import click

from kvorum.cli.completion import topic_names
from kvorum.cli.connection.client import client_of
from kvorum.cli.kafka.common import Connection, Files, connection_options
from kvorum.cli.kafka.console_producer_options import LINE_READER, check, line_reader, producer_properties
from kvorum.cli.kafka.line_reader import Line, LineError, LineReader
from kvorum.cli.output import fail, warn
from kvorum.cli.records.record_sender import ProducerRecord, RecordSender, StopSignals

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
READER_KEYS = (
    *("parse.key", "parse.headers", "key.separator", "headers.delimiter", "headers.separator"),
    *("headers.key.separator", "null.marker", "ignore.error"),
)


@click.command("kafka-console-producer")
@click.option("--topic", required=True, shell_complete=topic_names)
@click.option("--sync", is_flag=True, help="Wait for the acknowledgement of each record; exit at the first failure.")
@click.option("--compression-codec", is_flag=False, flag_value="gzip", default="none", type=click.Choice(CODECS))
@click.option("--batch-size", type=click.IntRange(1), help="Bytes.")
@click.option("--message-send-max-retries", type=click.IntRange(0), default=3)
@click.option("--retry-backoff-ms", type=click.IntRange(1))
@click.option("--timeout", "linger_ms", type=click.IntRange(0), help="Time to wait for more records in a batch, in ms.")
@click.option("--request-required-acks", default="-1", type=click.Choice(["0", "1", "-1", "all"]))
@click.option("--request-timeout-ms", type=click.IntRange(1))
@click.option("--metadata-expiry-ms", type=click.IntRange(1))
@click.option("--max-block-ms", type=click.IntRange(0), help="Ignored.")
@click.option("--max-memory-bytes", type=click.IntRange(1), help="Maximum size of buffered records.")
@click.option("--max-partition-memory-bytes", type=click.IntRange(1), help="Deprecated: --batch-size.")
@click.option("--socket-buffer-size", type=click.IntRange(-1))
@click.option("--line-reader", default=LINE_READER, help="Class name of one of Kafka's readers.")
@click.option("--reader-property", multiple=True, metavar="KEY=VALUE", help=" ".join(READER_KEYS))
@click.option("--property", "property_", multiple=True, metavar="KEY=VALUE", help="Deprecated: --reader-property.")
@click.option("--reader-config", type=Files, help="File with reader properties.")
@click.option("--command-property", multiple=True, metavar="KEY=VALUE", help="Producer properties.")
@click.option("--producer-property", multiple=True, metavar="KEY=VALUE", help="Deprecated: --command-property.")
@click.option("--producer.config", "producer_config", type=Files, help="Deprecated: --command-config.")
@connection_options()
def console_producer(connection: Connection, topic: str, sync: bool, **options: Any) -> None:
    """Send the lines of standard input as records.

    \b
    kvorum kafka-console-producer --bootstrap-server localhost:9092 --topic orders \\
        --reader-property parse.key=true --reader-property key.separator=:
    """
    from confluent_kafka import Producer

    check(options)
    lines = line_reader(options)
    producer = client_of(Producer, connection.client_options(*producer_properties(options)))
    with closing(read_lines(sys.stdin.buffer, lines)) as read:
        send_lines(producer, topic, read, sync)


def read_lines(stream: BinaryIO, reader: LineReader) -> Generator[Line, None, None]:
    """Yield the lines of a stream, with a prompt on a terminal. Raises LineError.

    Bytes that are not UTF-8 become U+FFFD, and a line ends at \\n, \\r or both, as for Java's readers.
    """
    prompts = stream.isatty() and sys.stdout.isatty()
    text = io.TextIOWrapper(stream, encoding="utf-8", errors="replace", newline=None)
    number = 0
    try:
        while True:
            number += 1
            if prompts:
                click.echo(">", nl=False)
            line = text.readline()
            if not line:
                return
            yield reader.read(line.removesuffix("\n"), number)
    finally:
        text.detach()  # the stream is not ours to close


def send_lines(producer: Any, topic: str, lines: Iterator[Line], sync: bool) -> None:
    """Send; a record without acknowledgement is reported, and the command exits with an error when all are sent.

    An unreadable line ends it too, once earlier ones are sent; so does, with `sync`, the first failure.
    """

    def on_delivery(error: object, _: object) -> None:
        if error is not None:
            warn(f"a record was not acknowledged: {error}")

    signals = StopSignals()
    sending, stopped = RecordSender(producer, topic, on_delivery, signals), None
    with signals.handle():
        try:
            for line in signals.interrupt_reads(lines):
                sending.send(ProducerRecord(line.key, line.value, line.headers))
                if sync and sending.finish():
                    break
        except LineError as error:
            stopped = str(error)
        except OSError as error:
            stopped = f"the input failed: {error}"
        except KeyboardInterrupt as stop:
            if str(stop) != "SIGINT":  # which is how it is ended at a terminal, when all that was typed is sent
                stopped = f"{stop}: the records after these were not sent"
        lost = sending.finish()
    if stopped is not None:
        click.echo(f"kvorum: {stopped}", err=True)
    if lost:
        fail(f"{lost} records were not acknowledged: {sending.reason}")
    if stopped is not None:
        raise SystemExit(1)
