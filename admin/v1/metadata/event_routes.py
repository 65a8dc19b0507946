"""Live events of the cluster: GET /v1/events.

Any broker serves its copy of the metadata log to a client that fetches it as a topic. Only committed records become
events. The stream begins at the log end at the time of the request, `back` offsets before that, or after the offset in
the id of an event. Ids are offsets of the metadata log, the same wherever it is read.
"""

import asyncio
from collections.abc import AsyncIterator, Iterator, Sequence
from itertools import zip_longest
from typing import Any

import msgspec
from pydantic import BaseModel, Field

from kvorum.admin.http.operations import EVENT_STREAM, Call, NoBody, Operation, Stream
from kvorum.admin.http.parameters import (
    INT64_MAX,
    STREAM_COUNT,
    STREAM_SECONDS,
    number,
    number_of,
    optional_text,
    words,
)
from kvorum.admin.v1.records.message_routes import event
from kvorum.client.metadata_log.metadata_events import (
    KINDS,
    ClusterState,
    MetadataEvent,
    MetadataEventBuilder,
    PartitionState,
)
from kvorum.client.metadata_log.metadata_fetch import AGAIN_SECONDS, offset_of_log
from kvorum.client.records.record_reader import decode_piece, request_of
from kvorum.client.records.record_views import NoJson, json_of
from kvorum.client.wire.cluster_client import EARLIEST, LATEST, METADATA_TOPIC, ClusterClient, Unreachable, refuse
from kvorum.protocol.errors import ErrorCode, KafkaError
from kvorum.protocol.messages.fetch import FetchResponse, PartitionData
from kvorum.protocol.messages.metadata import MetadataResponseTopic
from kvorum.protocol.uuids import METADATA_TOPIC_ID

WAIT_MS = 5_000
"""Time that a broker waits for new records; then a comment detects disconnected clients."""
ANSWER_MS = 10_000
"""Additional time for its response, before the next broker is queried."""
BEHIND_MS = 5_000
"""Maximum wait for a broker that is behind a reader's offset."""
PARTITION = 0
BACK_MAX = 100_000
"""Offsets of the metadata log that `back` may go back: a controller writes two per second when nothing happens."""


TYPE = words("type", f"only these, comma-separated: {', '.join(KINDS)}", KINDS)
AFTER = optional_text("after", "id of the last event received, as Last-Event-ID; continue after it")
BACK = number(
    "back", f"number of offsets before the end of the log at which to begin, 0 to {BACK_MAX}; default 0", 0, BACK_MAX, 0
)


class Event(BaseModel):
    """An event at an offset of the metadata log."""

    type: str = Field(examples=list(KINDS))
    offset: int
    timestamp_ms: int
    topic: str | None
    topic_id: str | None
    partition: int | None
    broker: int | None
    before: dict[str, Any]
    after: dict[str, Any]
    past: bool = Field(False, description="The event occurred before the request (`back`)")


class Missed(BaseModel):
    """A range of the metadata log whose events are not available."""

    after: int = Field(description="The requested id")
    next: int = Field(description="Offset at which the stream continues")
    message: str


async def follow_events(call: Call[NoBody]) -> Stream:
    """Stream events of the metadata log as server-sent events, each named by its type; `end` comes last.

    The stream starts at the end of the metadata log, `back` offsets before it, or after Last-Event-ID (or `after`). It
    runs until a limit or until the client disconnects. Trimmed parts of the log are reported as `missed`. An id without
    an event marks the progress.
    """
    limit = STREAM_COUNT.of(call)
    seconds = STREAM_SECONDS.of(call)
    kinds = set(TYPE.of(call))
    text = call.last_event_id or AFTER.of(call)
    after = None if text is None else number_of("after", text, 0, INT64_MAX)
    back = BACK.of(call) if after is None else 0
    end = await end_of_log(call.cluster)
    begin = max(end - back, await offset_of_log(call.cluster, EARLIEST)) if back else end

    async def events() -> AsyncIterator[bytes]:
        cluster = call.cluster.another()
        sent = 0
        deadline_ms = call.clock.monotonic_ms() + seconds * 1_000
        try:
            offset, missed = (begin, None) if after is None else await behind_id(cluster, after, end)
            found_out = await read_state(cluster)
            builder = MetadataEventBuilder(labels=found_out.names)
            to_learn: ClusterState | None = found_out
            yield b": following\n\n"
            if missed is not None:
                yield event("missed", missed.model_dump_json().encode())
            yield at(offset)
            while call.clock.monotonic_ms() < deadline_ms:
                if to_learn is not None and offset >= to_learn.offset:
                    builder.learn(to_learn)
                    to_learn = None
                offset, found = await news(cluster, builder, offset)
                rows = [each for each in found if not kinds or each.type in kinds]
                for each, last in mark_last_of_offset(rows):
                    row = event_view(each, past=after is None and each.offset < end)
                    yield event(each.type, row.model_dump_json().encode(), each.offset if last else None)
                    sent += 1
                    if sent >= limit:
                        yield event("end", msgspec.json.encode({"stopped_by": "limit"}))
                        return
                if not rows:
                    yield at(builder.complete_until(offset))
            yield event("end", msgspec.json.encode({"stopped_by": "time"}))
        finally:
            await cluster.close()

    return Stream(media=EVENT_STREAM, chunks=events())


def mark_last_of_offset(rows: Sequence[MetadataEvent]) -> Iterator[tuple[MetadataEvent, bool]]:
    """Return each event with whether it is the last one of its offset: its reader has seen everything up to there."""
    for each, following in zip_longest(rows, rows[1:]):
        yield each, following is None or following.offset != each.offset


def at(offset: int) -> bytes:
    """Return an id without an event: all events below this offset were sent; for an empty log a comment."""
    return b"id: %d\n\n" % (offset - 1) if offset else b":\n\n"


async def behind_id(cluster: ClusterClient, after: int, end: int) -> tuple[int, Missed | None]:
    """Return the offset to continue from after an id, and the missed range. `end`: known end of the log.

    A broker may lag behind the id. If it does not reach it, the id belongs to another cluster. Raises
    KafkaError, Unreachable.
    """
    wanted = after + 1
    deadline = asyncio.get_running_loop().time() + BEHIND_MS / 1000
    while end < wanted and (left_ms := int((deadline - asyncio.get_running_loop().time()) * 1000)) > 0:
        row = await log_row(cluster, end, left_ms)
        end = end if row is None else max(end, row.high_watermark)
    if end < wanted:
        text = f"{METADATA_TOPIC} ends at {end}: {after} belongs to another log, so earlier events are unknown"
        return end, Missed(after=after, next=end, message=text)
    begin = await offset_of_log(cluster, EARLIEST)
    if begin > wanted:
        text = f"{METADATA_TOPIC} begins at {begin} now: the events from {wanted} on are no longer available"
        return begin, Missed(after=after, next=begin, message=text)
    return wanted, None


def event_view(each: MetadataEvent, past: bool = False) -> Event:
    """Return a happening for HTTP."""
    return Event(
        type=each.type,
        offset=each.offset,
        timestamp_ms=each.timestamp_ms,
        topic=each.topic,
        topic_id=each.topic_id,
        partition=each.partition,
        broker=each.broker,
        before=dict(each.before),
        after=dict(each.after),
        past=past,
    )


async def end_of_log(cluster: ClusterClient) -> int:
    """Return the end of the metadata log on the queried broker. Raises KafkaError."""
    return await offset_of_log(cluster, LATEST)


async def log_row(cluster: ClusterClient, offset: int, wait_ms: int) -> PartitionData | None:
    """Return a broker's metadata log from an offset on, after a wait for records.

    None: retry with the same offset. The copy of the next broker may end before it; one that is being trimmed is
    unreadable for a moment. Raises Unreachable; KafkaError OFFSET_OUT_OF_RANGE if the log begins after the offset now.
    """
    topic = MetadataResponseTopic(name=METADATA_TOPIC, topic_id=METADATA_TOPIC_ID)
    request = request_of(topic, {PARTITION: offset}, wait_ms, 0)
    answer = await cluster.ask(request, FetchResponse, timeout_ms=min(cluster.timeout_ms, wait_ms + ANSWER_MS))
    refuse(answer.error_code, METADATA_TOPIC)
    row = answer.responses[0].partitions[0]
    if row.error_code == ErrorCode.OFFSET_OUT_OF_RANGE:
        begin = await offset_of_log(cluster, EARLIEST)
        if begin > offset:
            text = f"{METADATA_TOPIC} begins at {begin} now: the events from {offset} on are no longer available"
            raise KafkaError(ErrorCode.OFFSET_OUT_OF_RANGE, text)
    if row.error_code in (ErrorCode.OFFSET_OUT_OF_RANGE, ErrorCode.OFFSET_NOT_AVAILABLE):
        await asyncio.sleep(AGAIN_SECONDS)
        return None
    refuse(row.error_code, METADATA_TOPIC)
    return row


async def read_state(cluster: ClusterClient) -> ClusterState:
    """Return the state of the cluster, and an offset that is at least as new. Raises KafkaError, Unreachable."""
    names: dict[str, str] = {}
    partitions: dict[tuple[str, int], PartitionState] = {}
    for topic in (await cluster.metadata()).topics:
        topic_id = str(topic.topic_id)
        names[topic_id] = topic.name or ""
        for row in topic.partitions:
            state = PartitionState(row.leader_id, row.leader_epoch, list(row.isr_nodes))
            partitions[topic_id, row.partition_index] = state
    brokers = (await cluster.describe_cluster()).brokers
    fenced = {broker.broker_id: broker.is_fenced for broker in brokers}
    return ClusterState(await end_of_log(cluster), names, partitions, fenced)


async def news(cluster: ClusterClient, builder: MetadataEventBuilder, offset: int) -> tuple[int, list[MetadataEvent]]:
    """Return (next offset, events); none after a while without records. Raises KafkaError, Unreachable."""
    try:
        row = await log_row(cluster, offset, WAIT_MS)
    except Unreachable:  # the queried broker has died, which is an event itself: the next one continues
        row = await log_row(cluster, offset, WAIT_MS)
    if row is None:
        return offset, []
    piece = await decode_piece(row, offset, 0)
    found: list[MetadataEvent] = []
    for record in piece.records.records:
        try:
            fields = json_of(record.value or b"")
            if isinstance(fields, dict):
                found += builder.take(record.offset, record.timestamp, fields)
        except (NoJson, ValueError) as error:
            text = f"{METADATA_TOPIC}-{PARTITION} at {record.offset}: {error}"
            raise KafkaError(ErrorCode.CORRUPT_MESSAGE, text) from error
    return piece.records.next_offset, found


OPERATIONS = [
    Operation.get(
        "/v1/events",
        "Stream events",
        follow_events,
        Event,
        media=(EVENT_STREAM,),
        parameters=(TYPE, AFTER, BACK, STREAM_COUNT, STREAM_SECONDS),
        events={"missed": Missed},
    )
]
