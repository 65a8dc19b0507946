"""`kvorum consume`: records to lines."""

import json
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from kvorum.cli.completion import group_names, topic_names
from kvorum.cli.connection.client import bootstrap_option, client_of, client_options, options_from_user
from kvorum.cli.connection.librdkafka import ClientEvents, fetch_metadata
from kvorum.cli.escapes import EscapeError, unescape
from kvorum.cli.output import pairs
from kvorum.cli.records.record_formats import NULL, FormatError, Part, as_json, compile_format, plain
from kvorum.cli.topics.offset_ranges import Bound, Kind, Range, RangeError, join_ranges, parse_range

if TYPE_CHECKING:
    from confluent_kafka import Message

INT32_MAX = 2**31 - 1
SHOWN = ("value", "json")


class OutputOrOffset(click.ParamType):  # type: ignore[type-arg]  # generic since click 8.4
    """Output format, or start: kcat and rpk use -o for the start, other commands here for the format."""

    name = "output"

    def get_metavar(self, param: click.Parameter, ctx: click.Context | None = None) -> str:
        """Return the text in the help."""
        return "value|json|OFFSET"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> "str | Range":
        """Distinguish them."""
        if isinstance(value, Range) or value in SHOWN:
            return value  # type: ignore[no-any-return]
        try:
            return parse_range(value, time.time_ns() // 1_000_000)
        except RangeError as error:
            self.fail(f"{value!r} is not one of {', '.join(map(repr, SHOWN))}; and {error}", param, ctx)


class OffsetBounds(click.ParamType):  # type: ignore[type-arg]
    """Start and end."""

    name = "offset"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Range:
        """Read it."""
        if isinstance(value, Range):
            return value
        try:
            return parse_range(value, time.time_ns() // 1_000_000)
        except RangeError as error:
            self.fail(str(error), param, ctx)


@click.command()
@click.argument("topics", nargs=-1, required=True, metavar="TOPIC...", shell_complete=topic_names)
@click.option("-r", "--regex", is_flag=True, help="TOPICs are patterns that match complete names.")
@click.option("--from-beginning", is_flag=True, help="Start at the earliest record instead of the end.")
@click.option(
    "--offset", "places", type=OffsetBounds(), multiple=True, help="start, end, N, -N, +N, @TIME, or FROM:TO of these."
)
@click.option(
    "-p", "--partition", "partitions", type=click.IntRange(0, INT32_MAX), multiple=True, help="Only these partitions."
)
@click.option("-G", "-g", "--group", shell_complete=group_names, help="Consumer group id; offsets are committed.")
@click.option(
    "-n", "-c", "--max-messages", "--count", "max_messages", type=click.IntRange(1), help="Exit after N records."
)
@click.option("-e", "--exit-at-end", is_flag=True, help="Exit at the end of all partitions.")
@click.option("--timeout-ms", type=click.IntRange(0), help="Exit after this time without a record.")
@click.option(
    "-o",
    "--output",
    "outputs",
    type=OutputOrOffset(),
    multiple=True,
    help="Output format; or a start offset as with --offset.",
)
@click.option("-J", "--json", "is_json", is_flag=True, help="The same as -o json.")
@click.option("-f", "--format", "shape", help="Output format, as '%t %p %o %k %s %T %h\\n'; %% is a percent sign.")
@click.option("-K", "--key-delimiter", help="Print keys with this delimiter.")
@click.option("-D", "--delimiter", default="\\n", show_default=True, help="Delimiter after each record.")
@click.option("-Z", "--null", "shows_null", is_flag=True, help="Print NULL for null keys and values.")
@click.option("--meta-only", is_flag=True, help="JSON without keys and values.")
@click.option("--pretty-print", is_flag=True, help="Indented JSON.")
@click.option("--read-committed/--read-uncommitted", default=True, help="Read committed records only, or all.")
@click.option("--rack", help="Read from a replica in this rack if possible.")
@click.option("-X", "--property", "properties", multiple=True, metavar="KEY=VALUE", help="Any librdkafka property.")
@bootstrap_option
def consume(topics: tuple[str, ...], bootstrap: str, **options: Any) -> None:
    """Print the records of topics, values as lines or complete records as JSON, until Ctrl-C.

    \b
    kvorum consume orders --from-beginning -n 10 -o json
    kvorum consume orders --offset -10 -e                     the last ten of each partition
    kvorum consume orders --offset @-1h:end -f '%o %k %s\\n'
    kvorum consume 'orders-.*' -r --group payments
    """
    from confluent_kafka import Consumer

    from kvorum.cli.records.consume_run import ConsumeOptions, run

    where = range_of(options)
    write = writer_of(options)
    group = options["group"]
    own: dict[str, Any] = {
        "group.id": group or "kvorum-consume",
        "enable.auto.commit": group is not None,
        "enable.auto.offset.store": False,  # only printed records are committed
        "enable.partition.eof": options["exit_at_end"] or where.end is not None,
        "auto.offset.reset": reset_of(where, group),
        "isolation.level": "read_committed" if options["read_committed"] else "read_uncommitted",
    }
    own |= {} if options["rack"] is None else {"client.rack": options["rack"]}
    typed = options_from_user(own, {"group.id": "group", "isolation.level": "read_committed", "client.rack": "rack"})
    watch = ClientEvents()
    given = pairs(options["properties"], "--property")
    consumer = client_of(Consumer, client_options(bootstrap, own, given, typed), watch)
    reading = ConsumeOptions(
        topics=topics,
        is_regex=options["regex"],
        partitions=options["partitions"],
        where=where,
        group=group,
        max_messages=options["max_messages"],
        exits_at_end=options["exit_at_end"],
        timeout_ms=options["timeout_ms"],
        write=write,
    )
    run(consumer, reading, lambda topic: fetch_metadata(consumer, watch, topic))


def range_of(options: dict[str, Any]) -> Range:
    """Return start and end; conflicting options end the command."""
    given = [*options["places"], *(each for each in options["outputs"] if isinstance(each, Range))]
    if options["from_beginning"] and given:
        raise click.UsageError("give --from-beginning or --offset, not both")
    if options["group"] is not None and options["partitions"]:
        raise click.UsageError("--partition cannot be combined with --group, which assigns the partitions")
    try:
        where = join_ranges(given) if given else Range(Bound(Kind.START if options["from_beginning"] else Kind.END))
    except RangeError as error:
        raise click.UsageError(str(error)) from None
    if options["group"] is not None and (where.end is not None or where.start.kind not in (Kind.START, Kind.END)):
        raise click.UsageError(
            "with --group, --offset must be start or end; it applies to partitions without a committed offset"
        )
    return where


def reset_of(where: Range, group: str | None) -> str:
    """Return the reset policy for missing or invalid offsets: the given one, or an error."""
    if where.start.kind is Kind.START:
        return "earliest"
    return "error" if group is None else "latest"


def writer_of(options: dict[str, Any]) -> Part:
    """Return the function that writes a record; conflicting options end the command."""
    shown: Sequence[str] = [each for each in options["outputs"] if isinstance(each, str)]
    is_json = options["is_json"] or options["meta_only"] or options["pretty_print"] or "json" in shown
    null = NULL if options["shows_null"] else b""
    if is_json and ("value" in shown or options["shape"] is not None or options["key_delimiter"] is not None):
        raise click.UsageError("give only one of JSON output, a format and delimiters")
    if is_json:
        return json_writer(meta_only=options["meta_only"], indent=2 if options["pretty_print"] else None)
    try:
        if options["shape"] is not None:
            if options["key_delimiter"] is not None:
                raise click.UsageError("--format already selects the key (%k)")
            return compile_format(options["shape"], null=null)
        key_delimiter = None if options["key_delimiter"] is None else unescape(options["key_delimiter"])
        return plain(unescape(options["delimiter"]), key_delimiter=key_delimiter, null=null)
    except (EscapeError, FormatError) as error:
        raise click.UsageError(str(error)) from None


def json_writer(*, meta_only: bool, indent: int | None) -> Part:
    """Return what writes records as JSON, a line each unless they are to be read by people."""
    separators = (",", ":") if indent is None else (",", ": ")

    def write(message: "Message") -> bytes:
        found = as_json(message, meta_only=meta_only)
        return json.dumps(found, separators=separators, indent=indent).encode() + b"\n"

    return write
