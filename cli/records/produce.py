"""`kvorum produce`: lines to records."""

import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import click

from kvorum.cli.completion import topic_names
from kvorum.cli.connection.client import bootstrap_option, client_of, client_options, options_from_user
from kvorum.cli.connection.librdkafka import ClientEvents, fetch_metadata
from kvorum.cli.connection.missing_topics import no_topic
from kvorum.cli.escapes import EscapeError, unescape
from kvorum.cli.output import Exit, echo_json_line, fail, pairs, warn
from kvorum.cli.records.record_lines import InputFile, RecordError, RecordLineFormat, pieces
from kvorum.cli.records.record_sender import ANY_PARTITION, Header, ProducerRecord, RecordSender, StopSignals
from kvorum.cli.text_values import encode_text, is_utf8

if TYPE_CHECKING:
    from confluent_kafka import KafkaError, Message

TIMESTAMP_MAX = 2**63 - 1


@click.command()
@click.argument("topic", shell_complete=topic_names)
@click.option(
    "-f", "--file", type=click.File("rb"), default="-", help="Read records from this file; - is standard input."
)
@click.option(
    "-J", "--json", "is_json", is_flag=True, help="One JSON object per line, as printed by `consume -o json`."
)
@click.option("-k", "-K", "--key-separator", help="Separator of key and value (default: no key).")
@click.option("--key", help="Key of records without one.")
@click.option("-D", "--delimiter", default="\\n", show_default=True, help="Record delimiter.")
@click.option("-Z", "--null", "null_if_empty", is_flag=True, help="Treat empty keys and values as null (tombstones).")
@click.option(
    "-p",
    "--partition",
    type=click.IntRange(0, 2**31 - 1),
    help="Partition (default: by key, murmur2_random as in the Java client).",
)
@click.option(
    "-H", "--header", "headers", multiple=True, metavar="KEY=VALUE", help="Header of every record. Repeatable."
)
@click.option(
    "--timestamp", type=click.IntRange(0, TIMESTAMP_MAX), help="Timestamp of every record in ms (default: now)."
)
@click.option("-z", "--compression", type=click.Choice(["none", "gzip", "snappy", "lz4", "zstd"]), default="none")
@click.option("--acks", type=click.Choice(["0", "1", "all"]), default="all", show_default=True)
@click.option("-T", "--tee", is_flag=True, help="Also print the records.")
@click.option("-v", "--verbose", is_flag=True, help="Print partition, offset and timestamp of each record.")
@click.option("-o", "--output", type=click.Choice(["none", "text", "json"]), help="The same as text or JSON.")
@click.option("-X", "--property", "properties", multiple=True, metavar="KEY=VALUE", help="Any librdkafka property.")
@bootstrap_option
def produce(
    topic: str,
    file: InputFile,
    is_json: bool,
    tee: bool,
    verbose: bool,
    output: str | None,
    acks: str,
    compression: str,
    properties: tuple[str, ...],
    bootstrap: str,
    **shape: Any,
) -> None:
    """Produce each line of a file or of standard input as a record. Exit code 1 if any was not acknowledged.

    \b
    printf 'a:1\\nb:2\\n' | kvorum produce orders -k :
    printf 'a:' | kvorum produce orders -k : -Z                a tombstone
    kvorum consume orders -e --from-beginning -o json | kvorum produce copy -J
    """
    from confluent_kafka import Producer

    made, delimiter = shape_of(shape, is_json)
    own: dict[str, Any] = {
        "partitioner": "murmur2_random",
        "compression.type": compression,
        "acks": acks,
        "enable.idempotence": acks == "all",
    }
    typed = options_from_user(own, {"compression.type": "compression", "acks": "acks", "enable.idempotence": "acks"})
    watch = ClientEvents()
    options = client_options(bootstrap, own, pairs(properties, "--property"), typed)
    client = client_of(Producer, idempotent_if_it_may(options, typed), watch)
    known = fetch_metadata(client, watch).topics
    fetch_metadata(client, watch, topic)
    signals = StopSignals()
    sending = RecordSender(client, topic, delivery_printer(output or ("text" if verbose else "none")), signals)
    stopped: str | None = None
    with signals.handle():
        try:
            for record in signals.interrupt_reads(records(file, made, delimiter, is_json, tee)):
                sending.send(record)
        except KeyboardInterrupt as stop:
            stopped = f"{str(stop) or 'interrupted'}: the records after these were not sent"
        except RecordError as error:
            stopped = f"{error}; this record and those after it were not sent"
        except OSError as error:
            if not sending.sent:
                raise
            stopped = f"the input or output failed ({error}); the records after these were not sent"
        conclude(sending, watch, stopped, None if topic in known else no_topic(topic, known).removeprefix("no "))


def idempotent_if_it_may(options: dict[str, Any], typed: dict[str, Any]) -> dict[str, Any]:
    """Disable idempotence if a profile or -X sets weaker acks and does not request idempotence."""
    if "acks" not in typed and str(options["acks"]) not in ("all", "-1") and options["enable.idempotence"] is True:
        return {**options, "enable.idempotence": False}
    return options


def shape_of(given: dict[str, Any], is_json: bool) -> tuple[RecordLineFormat, bytes]:
    """Return the record reader and the delimiter; conflicting options end the command."""
    if given["key_separator"] == "":
        raise click.BadParameter(
            "must not be empty; leave it out for records without keys", param_hint="--key-separator"
        )
    if is_json and given["key_separator"] is not None:
        raise click.UsageError("--key-separator cannot be combined with JSON input")
    headers: list[Header] = []
    for each in given["headers"]:
        ((name, value),) = pairs([each], "--header").items()
        if not is_utf8(name):
            raise click.BadParameter(f"the name {name!r} is not UTF-8", param_hint="--header")
        headers.append((name, encode_text(value)))
    try:
        delimiter = unescape(given["delimiter"])
        separator = None if given["key_separator"] is None else unescape(given["key_separator"])
    except EscapeError as error:
        raise click.UsageError(str(error)) from None
    if not delimiter:
        raise click.BadParameter("must not be empty", param_hint="--delimiter")
    made = RecordLineFormat(
        key_separator=separator,
        key=None if given["key"] is None else encode_text(given["key"]),
        null_if_empty=given["null_if_empty"],
        headers=headers,
        timestamp=given["timestamp"],
        partition=ANY_PARTITION if given["partition"] is None else given["partition"],
    )
    return made, delimiter


def records(
    stream: InputFile, shape: RecordLineFormat, delimiter: bytes, is_json: bool, tee: bool
) -> Iterator[ProducerRecord]:
    """Yield the records of a stream. Raises RecordError."""
    for number, piece in enumerate(pieces(stream, delimiter), start=1):
        text = piece.removesuffix(b"\r") if delimiter == b"\n" else piece
        if is_json and not text.strip():
            continue
        made = shape.of_json(text, number) if is_json else shape.of_line(text)
        if tee:
            sys.stdout.buffer.write(piece + delimiter)
            sys.stdout.buffer.flush()
        yield made


def delivery_printer(output: str) -> Any:
    """Return the printer of record positions, None if it is not requested."""

    def text(error: "KafkaError | None", message: "Message | None") -> None:
        if error is None and message is not None:
            where = f"partition {message.partition()} at offset {message.offset()}"
            click.echo(f"Produced to {where} with timestamp {message.timestamp()[1]}.")

    def as_json(error: "KafkaError | None", message: "Message | None") -> None:
        if error is None and message is not None:
            where = {"topic": message.topic(), "partition": message.partition(), "offset": message.offset()}
            echo_json_line({**where, "timestamp": message.timestamp()[1]})

    return {"text": text, "json": as_json}.get(output)


def conclude(sending: RecordSender, watch: ClientEvents, stopped: str | None, created: str | None) -> None:
    """Wait for the records in flight and print the result; `created` is a topic that did not exist before."""
    lost = sending.finish()
    if created is not None and sending.acknowledged:
        warn(f"created {created}")
    if lost:
        code = Exit.UNREACHABLE if watch.is_down and not sending.acknowledged else Exit.FAILED
        if stopped is not None:
            click.echo(f"kvorum: {stopped}", err=True)
        fail(f"{lost} of {sending.sent} records were not acknowledged: {sending.reason}", code)
    click.echo(f"{sending.sent} records", file=sys.stderr)
    if stopped is not None:
        fail(stopped)
