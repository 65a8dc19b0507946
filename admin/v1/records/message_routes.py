"""Records over HTTP: browse, follow, export, write."""

import asyncio
import base64
from collections.abc import AsyncIterator, Sequence
from typing import Any

import msgspec

from kvorum.admin.http.operations import EVENT_STREAM, Call, NoBody, Operation, Reply, Role, Stream
from kvorum.admin.http.parameters import TOPIC_NAME, choice
from kvorum.admin.v1.records.browse_query import CHOICE, browser_of, limit_parameters, places_text, view_of
from kvorum.admin.v1.records.message_models import (
    Message,
    MessageHeader,
    MessagePage,
    ProduceBody,
    ProduceResult,
    StreamEnd,
)
from kvorum.admin.v1.records.record_encoding import choose_partitions, produce
from kvorum.client.records.record_browser import Limits, Progress, RecordMatch, run_parser
from kvorum.client.records.record_producer import ALL
from kvorum.client.records.record_views import Format, RecordView, header_name
from kvorum.protocol.compression import Codec
from kvorum.runtime import blocking

NDJSON, CSV = "application/x-ndjson", "text/csv"
MIB = 1024 * 1024
BROWSE = Limits(records=100, scans_max=100_000, size=16 * MIB, time_ms=5_000)
BROWSE_MAX = Limits(records=10_000, scans_max=1_000_000, size=32 * MIB, time_ms=30_000)
"""A page is in memory as a whole before it is answered."""
EXPORT = Limits(records=100_000, scans_max=10_000_000, size=1024 * MIB, time_ms=600_000)
EXPORT_MAX = Limits(records=10_000_000, scans_max=100_000_000, size=64 * 1024 * MIB, time_ms=3_600_000)
FOLLOW = Limits(records=1_000_000, scans_max=100_000_000, size=64 * 1024 * MIB, time_ms=3_600_000)
COLUMNS = ("partition", "offset", "timestamp_ms", "key", "value", "headers")


FORMAT = choice("format", "ndjson (default) or csv", ("ndjson", "csv"), "ndjson")


async def browse_messages(call: Call[NoBody]) -> Reply:
    """Return records of a topic, oldest first, up to its end at the time of the request.

    The response has the reason why it ended, and the start of the next page (`next`, for the parameter `offsets`).
    """
    view, browser = view_of(call), await browser_of(call, call.cluster, BROWSE, BROWSE_MAX, "earliest")
    found = [each async for each in browser.records() if each is not None]
    text = await blocking.run(asyncio.get_running_loop(), page_text, found, view, browser.progress)
    return Reply(status=200, text=text)


def page_text(
    found: Sequence[RecordMatch], view: RecordView, progress: Progress, below: dict[int, int] | None = None
) -> str:
    """Return a page as JSON, record by record, because encoding many megabytes at once would block other threads.

    `below`: start of a backward search; the progress has its end.
    """
    assert progress.stopped_by is not None, "it has ended"
    page = MessagePage(
        messages=[],
        stopped_by=progress.stopped_by.value,
        scanned=progress.scan_count,
        bytes=progress.size,
        next=places_text(progress.offsets if below is None else below),
        before=None if below is None else places_text(progress.offsets),
    )
    messages = ",".join(message_of(each, view).model_dump_json() for each in found)
    return f'{{"messages":[{messages}],{page.model_dump_json(exclude={"messages"}).removeprefix("{")}'


async def follow_messages(call: Call[NoBody]) -> Stream:
    """Stream a topic as server-sent events: `message` per record, comments while idle, `end` last.

    It ends at a limit, with an `error`, or when the client disconnects. Slow clients are waited for.
    """
    view = view_of(call)
    await browser_of(
        call, call.cluster, FOLLOW, FOLLOW, "latest", follow=True
    )  # errors are reported before the stream begins

    async def events() -> AsyncIterator[bytes]:
        cluster = call.cluster.another()
        try:
            browser = await browser_of(call, cluster, FOLLOW, FOLLOW, "latest", follow=True)
            yield b": following\n\n"
            async for found in browser.records():
                if found is None:
                    yield b":\n\n"
                else:
                    yield await run_parser(found.record, message_event, found, view)
            yield event("end", end_line(browser.progress))
        finally:
            await cluster.close()

    return Stream(media=EVENT_STREAM, chunks=events())


async def export_messages(call: Call[NoBody]) -> Stream:
    """Stream a topic's records as lines, up to its end at the time of the request.

    The last line has the reason why it ended: an object with `stopped_by`, in CSV after a #.
    """
    form = FORMAT.of(call)
    view = view_of(call)
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
                    yield await run_parser(found.record, line, found, view)
            yield (b"# " if form == "csv" else b"") + end_line(browser.progress) + b"\n"
        finally:
            await cluster.close()

    return Stream(media=CSV if form == "csv" else NDJSON, chunks=lines())


async def produce_messages(call: Call[ProduceBody]) -> ProduceResult:
    """Write records. Each has its own result; nothing is retried."""
    topic = await call.cluster.topic(TOPIC_NAME.of(call))
    rows = choose_partitions(call.body, len(topic.partitions), call.clock.wall_ms(), call.cluster.chance)
    acks, codec = ALL if call.body.acks == "all" else 1, Codec[call.body.compression.upper()]
    written = await produce(call.cluster, topic, rows, acks=acks, codec=codec)
    return ProduceResult(records=written, written=sum(each.error is None for each in written))


def message_of(found: RecordMatch, view: RecordView) -> Message:
    """Return a record for HTTP."""
    record = found.record
    (key, key_form), (value, value_form) = view.format_record(record)
    return Message(
        partition=found.partition,
        offset=record.offset,
        timestamp_ms=record.timestamp,
        key=key,
        key_format=format_name(key_form),
        key_bytes=None if record.key is None else len(record.key),
        value=value,
        value_format=format_name(value_form),
        value_bytes=None if record.value is None else len(record.value),
        headers=[header_of(name, content) for name, content in record.headers],
    )


def format_name(form: Format) -> Any:
    """Return the name of the format; null has none."""
    return (Format.STRING if form in (Format.AUTO, Format.TEXT) else form).value


def header_of(name: str, content: bytes | None) -> MessageHeader:
    """Return a header for HTTP."""
    if content is None:
        return MessageHeader(key=header_name(name), value=None, format="string")
    try:
        return MessageHeader(key=header_name(name), value=content.decode(), format="string")
    except UnicodeDecodeError:
        return MessageHeader(key=header_name(name), value=base64.b64encode(content).decode(), format="base64")


def event(name: str, data: bytes, event_id: int | None = None) -> bytes:
    """Return a server-sent event; JSON has no line breaks."""
    marked = b"" if event_id is None else b"id: %d\n" % event_id
    return marked + b"event: " + name.encode() + b"\ndata: " + data + b"\n\n"


def end_line(progress: Progress) -> bytes:
    """Return the last word of a stream, as StreamEnd."""
    assert progress.stopped_by is not None, "it has ended"
    end = StreamEnd(
        stopped_by=progress.stopped_by.value, scanned=progress.scan_count, next=places_text(progress.offsets)
    )
    return end.model_dump_json().encode()


def message_event(found: RecordMatch, view: RecordView) -> bytes:
    """Return a record as a server-sent event."""
    return event("message", message_of(found, view).model_dump_json().encode())


def json_line(found: RecordMatch, view: RecordView) -> bytes:
    """Return a record as a line of NDJSON."""
    return message_of(found, view).model_dump_json().encode() + b"\n"


def csv_line(found: RecordMatch, view: RecordView) -> bytes:
    """Return a record as a line of CSV; objects and lists as JSON."""
    message = message_of(found, view)
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


MESSAGES = "/v1/topics/{topic}/messages"
OPERATIONS = [
    Operation.get(
        MESSAGES,
        "Browse a topic",
        browse_messages,
        MessagePage,
        large=True,
        parameters=(TOPIC_NAME, *CHOICE, *limit_parameters(BROWSE, BROWSE_MAX)),
    ),
    Operation.get(
        f"{MESSAGES}/stream",
        "Stream a topic",
        follow_messages,
        Message,
        media=(EVENT_STREAM,),
        parameters=(TOPIC_NAME, *CHOICE, *limit_parameters(FOLLOW, FOLLOW)),
    ),
    Operation.get(
        f"{MESSAGES}/export",
        "Export a topic",
        export_messages,
        Message,
        media=(NDJSON, CSV),
        parameters=(TOPIC_NAME, FORMAT, *CHOICE, *limit_parameters(EXPORT, EXPORT_MAX)),
    ),
    Operation(
        method="POST",
        path=MESSAGES,
        summary="Write records",
        handle=produce_messages,
        audit=False,
        body=ProduceBody,
        answer=ProduceResult,
        role=Role.OPERATE,
        parameters=(TOPIC_NAME,),
    ),
]
