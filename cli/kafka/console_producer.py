"""`kafka-console-producer`. Source: Kafka's ConsoleProducer, LineMessageReader."""

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from typing import BinaryIO, NamedTuple

import click

from kvorum.cli.client import client_of
from kvorum.cli.completion import topic_names
from kvorum.cli.kafka.common import Connection, Files, connected, read_properties
from kvorum.cli.output import fail, pairs, warn

FLUSH_SECONDS = 60.0
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
READER_KEYS = (
    *("parse.key", "parse.headers", "key.separator", "headers.delimiter", "headers.separator"),
    *("headers.key.separator", "null.marker", "ignore.error"),
)
Header = tuple[str, str | bytes | None]


class Line(NamedTuple):
    """What a line says."""

    key: bytes | None
    value: bytes | None
    headers: list[Header]


class LineError(ValueError):
    """A line that has no key or headers where it should; the message names it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LineReader:
    """How lines are read (LineMessageReader): headers, key, value."""

    parse_key: bool = False
    parse_headers: bool = False
    key_separator: str = "\t"
    headers_delimiter: str = "\t"
    headers_separator: str = ","
    headers_key_separator: str = ":"
    null_marker: str | None = None
    ignore_error: bool = False

    @classmethod
    def of(cls, properties: dict[str, str]) -> "LineReader":
        """Read properties as `parse.key=true`. Raises LineError for two marks that are the same, or an unknown key."""
        unknown = [key for key in properties if key not in READER_KEYS and key != "topic"]
        if unknown:
            raise LineError(f"no such reader property: {', '.join(unknown)}; there are {', '.join(READER_KEYS)}")
        found = cls(
            parse_key=is_true(properties, "parse.key"),
            parse_headers=is_true(properties, "parse.headers"),
            key_separator=properties.get("key.separator", "\t"),
            headers_delimiter=properties.get("headers.delimiter", "\t"),
            headers_separator=properties.get("headers.separator", ","),
            headers_key_separator=properties.get("headers.key.separator", ":"),
            null_marker=properties.get("null.marker"),
            ignore_error=is_true(properties, "ignore.error"),
        )
        marks = [found.headers_delimiter, found.headers_separator, found.headers_key_separator]
        if len(set(marks)) < len(marks):
            raise LineError("headers.delimiter, headers.separator and headers.key.separator may not be equal")
        if found.null_marker is not None and found.null_marker in (found.key_separator, *marks):
            raise LineError("null.marker may not be equal to a separator or the delimiter")
        return found

    def read(self, line: str, number: int) -> Line:
        """Cut a line. Raises LineError."""
        headers = self._part(self.parse_headers, line, 0, self.headers_delimiter, "headers delimiter", number)
        start = 0 if headers is None else len(headers) + len(self.headers_delimiter)
        key = self._part(self.parse_key, line, start, self.key_separator, "key separator", number)
        start += 0 if key is None else len(key) + len(self.key_separator)
        found = [] if headers is None or headers == self.null_marker else self._headers(headers, number)
        return Line(self._bytes(key), self._bytes(line[start:]), found)

    def _part(self, wanted: bool, line: str, start: int, mark: str, name: str, number: int) -> str | None:
        if not wanted:
            return None
        end = line.find(mark, start)
        if end >= 0:
            return line[start:end]
        if self.ignore_error:
            return None
        raise LineError(f"No {name} found on line number {number}: '{line}'")

    def _headers(self, text: str, number: int) -> list[Header]:
        found: list[Header] = []
        for pair in text.split(self.headers_separator):
            key, mark, value = pair.partition(self.headers_key_separator)
            if not mark and not self.ignore_error:
                raise LineError(f"No header key separator found in pair '{pair}' on line number {number}")
            if key == self.null_marker:
                raise LineError(f"Header keys should not be equal to the null marker '{key}' as they can't be null")
            found.append((key, self._bytes(value) if mark else None))
        return found

    def _bytes(self, text: str | None) -> bytes | None:
        return None if text is None or text == self.null_marker else text.encode()


def is_true(properties: dict[str, str], key: str) -> bool:
    """Tell whether a property is true."""
    return properties.get(key, "").strip().lower() == "true"


@click.command("kafka-console-producer")
@click.option("--topic", required=True, shell_complete=topic_names)
@click.option("--sync", is_flag=True, help="Wait for each record's acknowledgement.")
@click.option("--compression-codec", is_flag=False, flag_value="gzip", default="none", type=click.Choice(CODECS))
@click.option("--batch-size", type=click.IntRange(0))
@click.option("--message-send-max-retries", type=click.IntRange(0), default=3)
@click.option("--retry-backoff-ms", type=click.IntRange(1))
@click.option("--timeout", "linger_ms", type=click.IntRange(0), help="ms to wait for more records in a batch.")
@click.option("--request-required-acks", default="-1", type=click.Choice(["0", "1", "-1", "all"]))
@click.option("--request-timeout-ms", type=click.IntRange(1))
@click.option("--metadata-expiry-ms", type=click.IntRange(1))
@click.option("--max-block-ms", type=click.IntRange(0), help="Makes no difference here.")
@click.option("--max-memory-bytes", type=click.IntRange(1), help="Records waiting to be sent.")
@click.option("--max-partition-memory-bytes", type=click.IntRange(1), help="The largest batch.")
@click.option("--socket-buffer-size", type=click.IntRange(0))
@click.option(
    "--reader-property", "--property", "reader", multiple=True, metavar="KEY=VALUE", help=" ".join(READER_KEYS)
)
@click.option("--reader-config", type=Files, help="Reader properties in a file.")
@click.option("--command-property", "--producer-property", "properties", multiple=True, metavar="KEY=VALUE")
@click.option("--producer.config", "producer_config", type=Files, hidden=True)
@connected()
def console_producer(
    connection: Connection,
    topic: str,
    sync: bool,
    request_required_acks: str,
    compression_codec: str,
    reader: tuple[str, ...],
    reader_config: str | None,
    properties: tuple[str, ...],
    producer_config: str | None,
    **tuning: int | None,
) -> None:
    """Send the lines of standard input as records.

    \b
    kvorum kafka-console-producer --bootstrap-server localhost:9092 --topic orders \\
        --reader-property parse.key=true --reader-property key.separator=:
    """
    from confluent_kafka import Producer

    try:
        lines = LineReader.of(read_properties(reader_config) | pairs(reader, "--reader-property"))
    except LineError as error:
        raise click.UsageError(str(error)) from None
    acks = "all" if request_required_acks == "-1" else request_required_acks
    own = {"acks": acks, "compression.type": compression_codec, "partitioner": "murmur2_random", **tuned(tuning)}
    given = read_properties(producer_config) | pairs(properties, "--command-property")
    producer = client_of(Producer, connection.client_options(own, given))
    send_lines(producer, topic, read_lines(sys.stdin.buffer, lines), sync)


def tuned(options: dict[str, int | None]) -> dict[str, object]:
    """Return what librdkafka calls the options that are given."""
    names = {
        "batch_size": "batch.size",
        "message_send_max_retries": "retries",
        "retry_backoff_ms": "retry.backoff.ms",
        "linger_ms": "linger.ms",
        "request_timeout_ms": "request.timeout.ms",
        "metadata_expiry_ms": "metadata.max.age.ms",
        "max_partition_memory_bytes": "batch.size",
        "socket_buffer_size": "socket.send.buffer.bytes",
    }
    found: dict[str, object] = {
        names[key]: value for key, value in options.items() if value is not None and key in names
    }
    if options.get("max_memory_bytes") is not None:
        found["queue.buffering.max.kbytes"] = max(1, (options["max_memory_bytes"] or 0) // 1024)
    return found


def read_lines(stream: BinaryIO, reader: LineReader) -> Iterator[Line]:
    """Yield the lines of a stream, with a prompt for somebody at a terminal."""
    prompts = stream.isatty()
    number = 0
    while True:
        number += 1
        if prompts:
            click.echo(">", nl=False)
        raw = stream.readline()
        if not raw:
            return
        try:
            yield reader.read(raw.rstrip(b"\n").removesuffix(b"\r").decode(errors="surrogateescape"), number)
        except LineError as error:
            fail(str(error))


def send_lines(producer: object, topic: str, lines: Iterator[Line], sync: bool) -> None:
    """Send; a record that is not acknowledged is said, and ends the command with an error when all are sent."""
    from confluent_kafka import KafkaException, Producer

    assert isinstance(producer, Producer) or hasattr(producer, "produce")
    failed: list[str] = []
    client: Producer = producer  # type: ignore[assignment]  # tests bring one of their own

    def delivered(error: object, message: object) -> None:
        if error is not None:
            failed.append(str(error))
            warn(f"a record was not acknowledged: {error}")

    try:
        for line in lines:
            while True:
                try:
                    client.produce(topic, line.value, line.key, on_delivery=delivered, headers=line.headers or None)
                    break
                except BufferError:
                    client.poll(1.0)
                except KafkaException as error:
                    delivered(error.args[0], None)
                    break
            client.poll(0)
            if sync:
                client.flush(FLUSH_SECONDS)
    except KeyboardInterrupt:
        pass  # how one ends it at a terminal; what was typed is sent
    left = client.flush(FLUSH_SECONDS)
    if failed or left:
        fail(f"{len(failed) + left} records were not acknowledged: {(failed or ['timed out'])[0]}")
