"""What happens in the cluster, as it happens: GET /v1/events.

Any broker serves its copy of the metadata log to who fetches it as a topic; what is committed is told, nothing else. It
begins where the log ends when the request comes.
"""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import msgspec
from pydantic import BaseModel, Field

from kvorum.admin.client import EARLIEST, LATEST, METADATA_TOPIC, ClusterClient, Unreachable, refuse
from kvorum.admin.message_routes import event
from kvorum.admin.metadata_fetch import AGAIN_SECONDS, offset_of_log
from kvorum.admin.narrator import KINDS, Happening, Narrator, PartitionState
from kvorum.admin.operations import EVENT_STREAM, Call, NoBody, Operation, Stream
from kvorum.admin.parameters import STREAM_COUNT, STREAM_SECONDS
from kvorum.admin.reading import decoded, request_of
from kvorum.admin.record_views import NoJson, json_of
from kvorum.protocol.errors import ErrorCode, KafkaError
from kvorum.protocol.messages.fetch import FetchResponse, PartitionData
from kvorum.protocol.messages.metadata import MetadataResponseTopic
from kvorum.protocol.uuids import METADATA_TOPIC_ID

WAIT_MS = 5_000
"""So long a broker waits for news; then a comment shows whether anybody still reads."""
ANSWER_MS = 10_000
"""What its answer may take beyond that, before the next broker is asked."""
PARTITION = 0


class Event(BaseModel):
    """One thing that happened, at an offset of the metadata log."""

    type: str = Field(examples=list(KINDS))
    offset: int
    timestamp_ms: int
    topic: str | None
    topic_id: str | None
    partition: int | None
    broker: int | None
    before: dict[str, Any]
    after: dict[str, Any]


async def follow_events(call: Call[NoBody]) -> Stream:
    """Tell what happens as server-sent events, each named by its type; `end` comes last.

    It begins where the metadata log ends now, and goes on until a limit, or until nobody reads any more.
    """
    limit = STREAM_COUNT.of(call)
    seconds = STREAM_SECONDS.of(call)
    kinds = set(call.words("type", KINDS))
    begin = await end_of_log(call.cluster)

    async def events() -> AsyncIterator[bytes]:
        cluster = call.cluster.another()
        told = 0
        deadline_ms = call.clock.monotonic_ms() + seconds * 1_000
        try:
            narrator = await known(cluster)
            yield b": following\n\n"
            offset = begin
            while call.clock.monotonic_ms() < deadline_ms:
                offset, found = await news(cluster, narrator, offset)
                for each in found:
                    if kinds and each.type not in kinds:
                        continue
                    yield event(each.type, shown(each).model_dump_json().encode())
                    told += 1
                    if told >= limit:
                        yield event("end", msgspec.json.encode({"stopped_by": "limit"}))
                        return
                if not found:
                    yield b":\n\n"
            yield event("end", msgspec.json.encode({"stopped_by": "time"}))
        finally:
            await cluster.close()

    return Stream(media=EVENT_STREAM, chunks=events())


def shown(each: Happening) -> Event:
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
    )


async def end_of_log(cluster: ClusterClient) -> int:
    """Return where the metadata log ends, as the broker that is asked knows it. Raises KafkaError."""
    return await offset_of_log(cluster, LATEST)


async def log_row(cluster: ClusterClient, offset: int, wait_ms: int) -> PartitionData | None:
    """Return what a broker has of the metadata log from an offset on, waiting so long for some to come.

    None: come again with the same offset. The copy of the next broker that is asked may end before it; one that is
    trimmed cannot be read for a moment. Raises Unreachable; KafkaError OFFSET_OUT_OF_RANGE where the log begins behind
    the offset by now.
    """
    topic = MetadataResponseTopic(name=METADATA_TOPIC, topic_id=METADATA_TOPIC_ID)
    request = request_of(topic, {PARTITION: offset}, wait_ms, 0)
    answer = await cluster.ask(request, FetchResponse, timeout_ms=min(cluster.timeout_ms, wait_ms + ANSWER_MS))
    refuse(answer.error_code, METADATA_TOPIC)
    row = answer.responses[0].partitions[0]
    if row.error_code == ErrorCode.OFFSET_OUT_OF_RANGE:
        begin = await offset_of_log(cluster, EARLIEST)
        if begin > offset:
            text = f"{METADATA_TOPIC} begins at {begin} by now: what happened from {offset} on is not told any more"
            raise KafkaError(ErrorCode.OFFSET_OUT_OF_RANGE, text)
    if row.error_code in (ErrorCode.OFFSET_OUT_OF_RANGE, ErrorCode.OFFSET_NOT_AVAILABLE):
        await asyncio.sleep(AGAIN_SECONDS)
        return None
    refuse(row.error_code, METADATA_TOPIC)
    return row


async def known(cluster: ClusterClient) -> Narrator:
    """Return what is known of the cluster at the beginning: not older than the end of the log that was asked before."""
    narrator = Narrator()
    for topic in (await cluster.metadata()).topics:
        topic_id = str(topic.topic_id)
        narrator.names[topic_id] = topic.name or ""
        for row in topic.partitions:
            state = PartitionState(row.leader_id, row.leader_epoch, list(row.isr_nodes))
            narrator.partitions[topic_id, row.partition_index] = state
    for broker in (await cluster.describe_cluster()).brokers:
        narrator.fenced[broker.broker_id] = broker.is_fenced
    return narrator


async def news(cluster: ClusterClient, narrator: Narrator, offset: int) -> tuple[int, list[Happening]]:
    """Return (where to go on, what happened); nothing after a while without news. Raises KafkaError, Unreachable."""
    try:
        row = await log_row(cluster, offset, WAIT_MS)
    except Unreachable:  # the broker that was asked has died, which is what is to be told: another one goes on
        row = await log_row(cluster, offset, WAIT_MS)
    if row is None:
        return offset, []
    piece = await decoded(row, offset, 0)
    found: list[Happening] = []
    for record in piece.seen.records:
        try:
            told = json_of(record.value or b"")
            if isinstance(told, dict):
                found += narrator.take(record.offset, record.timestamp, told)
        except (NoJson, ValueError) as error:
            text = f"{METADATA_TOPIC}-{PARTITION} at {record.offset}: {error}"
            raise KafkaError(ErrorCode.CORRUPT_MESSAGE, text) from error
    return piece.seen.next_offset, found


OPERATIONS = [
    Operation.get(
        "/v1/events",
        "Follow what happens",
        follow_events,
        Event,
        media=(EVENT_STREAM,),
        query={
            "type": f"only these, comma-separated: {', '.join(KINDS)}",
            **STREAM_COUNT.told,
            **STREAM_SECONDS.told,
        },
    )
]
