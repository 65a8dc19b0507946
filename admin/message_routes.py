"""Records over HTTP: browse, follow, export, write."""

import asyncio
import base64
from collections.abc import AsyncIterator, Sequence
from typing import Any

import msgspec

from kvorum.admin.browsing import Browser, Found, Limits, Progress, worked
from kvorum.admin.client import READ_COMMITTED, READ_UNCOMMITTED, ClusterClient
from kvorum.admin.expression import BadExpression, Expression, parse
from kvorum.admin.message_models import Message, MessageHeader, MessagePage, ProduceBody, ProduceResult, StreamEnd
from kvorum.admin.models import INT32_MAX
from kvorum.admin.operations import (
    EVENT_STREAM,
    INT64_MAX,
    BadInput,
    Call,
    NoBody,
    Operation,
    Reply,
    Role,
    Stream,
    number_of,
)
from kvorum.admin.producing import ALL, placed, produce
from kvorum.admin.reading import Reader
from kvorum.admin.record_views import FORMATS, Format, header_name, shown
from kvorum.protocol.compression import Codec
from kvorum.runtime import blocking

NDJSON, CSV = "application/x-ndjson", "text/csv"
ISOLATIONS = {"read_uncommitted": READ_UNCOMMITTED, "read_committed": READ_COMMITTED}
STARTS = ("from", "offset", "offsets", "timestamp_ms", "tail")
TAIL_MAX = 10_000
MIB = 1024 * 1024
BROWSE = Limits(records=100, scanned=100_000, size=16 * MIB, time_ms=5_000)
BROWSE_MAX = Limits(records=10_000, scanned=1_000_000, size=32 * MIB, time_ms=30_000)
"""A page is in memory as a whole before it is answered."""
EXPORT = Limits(records=100_000, scanned=10_000_000, size=1024 * MIB, time_ms=600_000)
EXPORT_MAX = Limits(records=10_000_000, scanned=100_000_000, size=64 * 1024 * MIB, time_ms=3_600_000)
FOLLOW = Limits(records=1_000_000, scanned=100_000_000, size=64 * 1024 * MIB, time_ms=3_600_000)
COLUMNS = ("partition", "offset", "timestamp_ms", "key", "value", "headers")


async def browse_messages(call: Call[NoBody]) -> Reply:
    """Look through a topic, the oldest record first, up to where it ended when the request came.

    The answer says what ended it, and where the next page begins (`next`, as the parameter `offsets`).
    """
    shape, browser = shape_of(call), await browser_of(call, call.cluster, BROWSE, BROWSE_MAX, "earliest")
    found = [each async for each in browser.records() if each is not None]
    text = await blocking.run(asyncio.get_running_loop(), page_text, found, shape, browser.progress)
    return Reply(status=200, text=text)


def page_text(
    found: Sequence[Found], shape: tuple[Format, Format], progress: Progress, below: dict[int, int] | None = None
) -> str:
    """Return a page as JSON: record by record, as one of many megabytes would hold up other threads, too.

    `below`: from where it was looked backwards, where it was; the progress is how far.
    """
    assert progress.stopped_by is not None, "it has ended"
    page = MessagePage(
        messages=[],
        stopped_by=progress.stopped_by.value,
        scanned=progress.scanned,
        bytes=progress.size,
        next=places_text(progress.offsets if below is None else below),
        before=None if below is None else places_text(progress.offsets),
    )
    messages = ",".join(message_of(each, *shape).model_dump_json() for each in found)
    return f'{{"messages":[{messages}],{page.model_dump_json(exclude={"messages"}).removeprefix("{")}'


async def follow_messages(call: Call[NoBody]) -> Stream:
    """Follow a topic as server-sent events: `message` with a record each, a comment when there is nothing, `end` last.

    It ends at a limit, or with who reads it; who reads slowly is waited for. An `error` ends it, too.
    """
    shape = shape_of(call)
    await browser_of(
        call, call.cluster, FOLLOW, FOLLOW, "latest", follow=True
    )  # what is wrong is told before it begins

    async def events() -> AsyncIterator[bytes]:
        cluster = call.cluster.another()
        try:
            browser = await browser_of(call, cluster, FOLLOW, FOLLOW, "latest", follow=True)
            yield b": following\n\n"
            async for found in browser.records():
                if found is None:
                    yield b":\n\n"
                else:
                    yield await worked(found.record, message_event, found, shape)
            yield event("end", ending(browser.progress))
        finally:
            await cluster.close()

    return Stream(media=EVENT_STREAM, chunks=events())


async def export_messages(call: Call[NoBody]) -> Stream:
    """Write a topic's records as lines while they are read, up to where it ended when the request came.

    The last line says what ended it: an object with `stopped_by`, in CSV behind a #.
    """
    form = call.choice("format", "ndjson", ("ndjson", "csv"))
    shape = shape_of(call)
    await browser_of(call, call.cluster, EXPORT, EXPORT_MAX, "earliest")
    line = csv_line if form == "csv" else json_line

    async def lines() -> AsyncIterator[bytes]:
        cluster = call.cluster.another()
        try:
            browser = await browser_of(call, cluster, EXPORT, EXPORT_MAX, "earliest")
            if form == "csv":
                yield csv_row(COLUMNS)
            async for found in browser.records():
                if found is not None:
                    yield await worked(found.record, line, found, shape)
            yield (b"# " if form == "csv" else b"") + ending(browser.progress) + b"\n"
        finally:
            await cluster.close()

    return Stream(media=CSV if form == "csv" else NDJSON, chunks=lines())


async def produce_messages(call: Call[ProduceBody]) -> ProduceResult:
    """Write records. Each is told of on its own; nothing is tried again."""
    topic = await call.cluster.topic(call.path["topic"])
    rows = placed(call.body, len(topic.partitions), call.clock.wall_ms(), call.cluster.chance)
    acks, codec = ALL if call.body.acks == "all" else 1, Codec[call.body.compression.upper()]
    written = await produce(call.cluster, topic, rows, acks=acks, codec=codec)
    return ProduceResult(records=written, written=sum(each.error is None for each in written))


def shape_of(call: Call[NoBody]) -> tuple[Format, Format]:
    """Return how keys and values are shown. Raises BadInput."""
    return Format(call.choice("key_format", "auto", FORMATS)), Format(call.choice("value_format", "auto", FORMATS))


async def browser_of(
    call: Call[NoBody], cluster: ClusterClient, default: Limits, most: Limits, start: str, follow: bool = False
) -> Browser:
    """Return what looks through the topic as the query says. Raises BadInput, KafkaError."""
    limits, expression, reader = limits_of(call, default, most), expression_of(call), reader_of(call, cluster)
    offsets, ends = await places_of(call, reader, start)
    return Browser(
        reader=reader,
        progress=Progress(offsets=offsets),
        limits=limits,
        clock=call.clock,
        ends=None if follow else ends,
        expression=expression,
    )


def limits_of(call: Call[NoBody], default: Limits, most: Limits) -> Limits:
    """Return where to stop. Raises BadInput."""
    return Limits(
        records=call.number("limit", default.records, 1, most.records),
        scanned=call.number("scanned", default.scanned, 1, most.scanned),
        size=call.number("bytes", default.size, 1, most.size),
        time_ms=call.number("time_ms", default.time_ms, 1, most.time_ms),
    )


def reader_of(call: Call[NoBody], cluster: ClusterClient) -> Reader:
    """Return what reads the topic. Raises BadInput."""
    isolation = call.choice("isolation", "read_uncommitted", [*ISOLATIONS])
    return Reader(cluster, call.path["topic"], ISOLATIONS[isolation])


def expression_of(call: Call[NoBody]) -> Expression | None:
    """Return the filter. Raises BadInput."""
    text = call.query.get("filter", "")
    try:
        return parse(text) if text.strip() else None
    except BadExpression as error:
        raise BadInput("filter", str(error)) from error


async def places_of(call: Call[NoBody], reader: Reader, start: str) -> tuple[dict[int, int], dict[int, int]]:
    """Return ({partition: where to begin}, {partition: where it ends now}). Raises BadInput, KafkaError."""
    ways = [name for name in STARTS if name in call.query]
    if len(ways) > 1:
        raise BadInput(ways[1], f"begin at one place: {ways[0]} or {ways[1]}")
    explicit = offsets_of(call)
    asked = call.numbers("partitions", INT32_MAX)
    if explicit is not None and asked is not None:
        raise BadInput("partitions", "offsets name the partitions already")
    at = {name: call.number(name, 0, 0, INT64_MAX) for name in ("offset", "timestamp_ms") if name in call.query}
    tail = call.optional_number("tail", 1, TAIL_MAX)
    word = call.choice("from", start, ("earliest", "latest"))
    partitions = await reader.partitions(
        None if explicit is None and asked is None else sorted(explicit or asked or ())
    )
    earliest, ends = await reader.ends(partitions)
    if explicit is not None:
        begin = explicit
    elif "offset" in at:
        begin = dict.fromkeys(partitions, at["offset"])
    elif "timestamp_ms" in at:
        found = await reader.at_time(partitions, at["timestamp_ms"])
        begin = {each: ends[each] if found[each] < 0 else found[each] for each in partitions}
    elif tail is not None:
        begin = {each: ends[each] - tail for each in partitions}
    else:
        begin = earliest if word == "earliest" else ends
    return {each: min(max(begin[each], earliest[each]), ends[each]) for each in partitions}, ends


def offsets_of(call: Call[NoBody], parameter: str = "offsets") -> dict[int, int] | None:
    """Return {partition: offset} of 0:12,1:40, None if it is not there. Raises BadInput."""
    text = call.query.get(parameter)
    if text is None:
        return None
    found: dict[int, int] = {}
    for part in text.split(","):
        partition, colon, offset = part.partition(":")
        if not colon:
            raise BadInput(parameter, "PARTITION:OFFSET,PARTITION:OFFSET is meant")
        found[number_of(parameter, partition, 0, INT32_MAX)] = number_of(parameter, offset, 0, INT64_MAX)
    return found


def places_text(offsets: dict[int, int]) -> str:
    """Return offsets as the parameter has them."""
    return ",".join(f"{partition}:{offset}" for partition, offset in sorted(offsets.items()))


def message_of(found: Found, key_format: Format, value_format: Format) -> Message:
    """Return a record for HTTP."""
    record = found.record
    key, key_form = shown(record.key, key_format)
    value, value_form = shown(record.value, value_format)
    return Message(
        partition=found.partition,
        offset=record.offset,
        timestamp_ms=record.timestamp,
        key=key,
        key_format=said(key_form),
        key_bytes=None if record.key is None else len(record.key),
        value=value,
        value_format=said(value_form),
        value_bytes=None if record.value is None else len(record.value),
        headers=[header_of(name, content) for name, content in record.headers],
    )


def said(form: Format) -> Any:
    """Return the form's name; null has none of its own."""
    return (Format.STRING if form in (Format.AUTO, Format.TEXT) else form).value


def header_of(name: str, content: bytes | None) -> MessageHeader:
    """Return a header for HTTP."""
    if content is None:
        return MessageHeader(key=header_name(name), value=None, format="string")
    try:
        return MessageHeader(key=header_name(name), value=content.decode(), format="string")
    except UnicodeDecodeError:
        return MessageHeader(key=header_name(name), value=base64.b64encode(content).decode(), format="base64")


def event(name: str, data: bytes) -> bytes:
    """Return a server-sent event; JSON has no line breaks of its own."""
    return b"event: " + name.encode() + b"\ndata: " + data + b"\n\n"


def ending(progress: Progress) -> bytes:
    """Return the last word of a stream, as StreamEnd."""
    assert progress.stopped_by is not None, "it has ended"
    end = StreamEnd(stopped_by=progress.stopped_by.value, scanned=progress.scanned, next=places_text(progress.offsets))
    return end.model_dump_json().encode()


def message_event(found: Found, shape: tuple[Format, Format]) -> bytes:
    """Return a record as a server-sent event."""
    return event("message", message_of(found, *shape).model_dump_json().encode())


def json_line(found: Found, shape: tuple[Format, Format]) -> bytes:
    """Return a record as a line of NDJSON."""
    return message_of(found, *shape).model_dump_json().encode() + b"\n"


def csv_line(found: Found, shape: tuple[Format, Format]) -> bytes:
    """Return a record as a line of CSV; objects and lists as JSON."""
    message = message_of(found, *shape)
    headers = msgspec.json.encode([[each.key, each.value] for each in message.headers]).decode()
    key, value = (text_of(message.key), text_of(message.value))
    return csv_row((message.partition, message.offset, message.timestamp_ms, key, value, headers))


def text_of(value: object) -> str | None:
    """Return a value as a cell has it."""
    return value if value is None or isinstance(value, str) else msgspec.json.encode(value).decode()


def csv_row(cells: Sequence[object]) -> bytes:
    """Return one line of RFC 4180; every text is quoted, null is an empty cell."""
    shown_cells = []
    for cell in cells:
        text = "" if cell is None else str(cell)
        shown_cells.append('"' + text.replace('"', '""') + '"' if isinstance(cell, str) else text)
    return (",".join(shown_cells) + "\r\n").encode(errors="replace")


def limits_text(default: Limits, most: Limits) -> dict[str, str]:
    """Return the parameters of limits."""
    return {
        "limit": f"stop after so many found, 1 to {most.records}, {default.records} if left out",
        "scanned": f"stop after so many looked at, 1 to {most.scanned}, {default.scanned} if left out",
        "bytes": f"stop after so many were read, 1 to {most.size}, {default.size} if left out",
        "time_ms": f"stop after so long, 1 to {most.time_ms}, {default.time_ms} if left out",
    }


CHOICE = {
    "partitions": "only these, comma-separated",
    "from": "earliest or latest",
    "offset": "begin here in each partition",
    "offsets": "begin here, as PARTITION:OFFSET,...: only these partitions",
    "timestamp_ms": "begin at the first record that is not older",
    "tail": f"begin so many before the end of each partition, 1 to {TAIL_MAX}",
    "isolation": "read_uncommitted (if left out) or read_committed",
    "filter": 'only what this is true of, as: value.amount > 100 && headers.source == "web"',
    "key_format": f"{', '.join(FORMATS)}; auto if left out",
    "value_format": f"{', '.join(FORMATS)}; auto if left out",
}
MESSAGES = "/v1/topics/{topic}/messages"
OPERATIONS = [
    Operation.get(
        MESSAGES,
        "Look through a topic",
        browse_messages,
        MessagePage,
        large=True,
        query={**CHOICE, **limits_text(BROWSE, BROWSE_MAX)},
    ),
    Operation.get(
        f"{MESSAGES}/stream",
        "Follow a topic",
        follow_messages,
        Message,
        media=(EVENT_STREAM,),
        query={**CHOICE, **limits_text(FOLLOW, FOLLOW)},
    ),
    Operation.get(
        f"{MESSAGES}/export",
        "Export a topic",
        export_messages,
        Message,
        media=(NDJSON, CSV),
        query={"format": "ndjson (if left out) or csv", **CHOICE, **limits_text(EXPORT, EXPORT_MAX)},
    ),
    Operation(
        method="POST",
        path=MESSAGES,
        summary="Write records",
        handle=produce_messages,
        noted=False,
        body=ProduceBody,
        answer=ProduceResult,
        role=Role.OPERATE,
    ),
]
