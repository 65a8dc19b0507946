"""Server-sent events of changing state without events of its own: groups, one group, reassignments.

No request waits for such a change. While the stream has readers, this server queries the cluster at a fixed rate and
sends the changes.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import replace
from typing import TypeAlias

import msgspec
from pydantic import BaseModel

from kvorum.admin.http.operations import EVENT_STREAM, Call, NoBody, Operation, Stream
from kvorum.admin.http.parameters import GROUP_ID, ONLY_TOPIC, ROWS, STREAM_COUNT, STREAM_SECONDS
from kvorum.admin.v1.groups import groups_routes
from kvorum.admin.v1.groups.group_models import Group, GroupPage
from kvorum.admin.v1.reassignments import reassignment_routes
from kvorum.admin.v1.reassignments.reassignment_models import ReassignmentEntry
from kvorum.admin.v1.records.message_routes import event
from kvorum.client.wire.cluster_client import Unreachable
from kvorum.protocol.errors import KafkaError

SAMPLE_MS = 2_000
"""Between two questions to the cluster, from beginning to beginning."""
ANSWER_MS = 10_000
"""Timeout of a broker; then the stream reports that it does not respond."""
Look: TypeAlias = Callable[[Call[NoBody]], Awaitable[BaseModel]]


class Moves(BaseModel):
    """Current reassignments."""

    reassignments: list[ReassignmentEntry]


async def follow_groups(call: Call[NoBody]) -> Stream:
    """Stream a page of the list of groups as `groups` events, on each change."""
    groups_routes.check_listing(call)
    return stream_samples(call, "groups", groups_routes.list_groups, STREAM_COUNT.default)


async def follow_group(call: Call[NoBody]) -> Stream:
    """Stream a group with its members and lag as `group` events, on each change."""
    return stream_samples(call, "group", groups_routes.get_group, STREAM_COUNT.of(call))


async def follow_reassignments(call: Call[NoBody]) -> Stream:
    """Stream current reassignments with their progress as `reassignments` events, on each change."""

    async def look(asking: Call[NoBody]) -> Moves:
        # `limit` is of events there.
        found = await reassignment_routes.list_reassignments(replace(asking, query={"limit": str(ROWS.default)}))
        return Moves(reassignments=found.rows)  # type: ignore[arg-type]

    return stream_samples(call, "reassignments", look, STREAM_COUNT.of(call))


def stream_samples(call: Call[NoBody], name: str, look: Look, limit: int) -> Stream:
    """Return a stream of the results of `look` that differ from the previous one; `end` comes last.

    After an error or a timeout, `trouble` has the reason, once, and the stream continues.
    """
    seconds = STREAM_SECONDS.of(call)

    async def events() -> AsyncIterator[bytes]:
        cluster = call.cluster.another()
        cluster.timeout_ms = ANSWER_MS
        asking = replace(call, cluster=cluster)
        deadline_ms = call.clock.monotonic_ms() + seconds * 1_000
        sent, before = 0, b""
        yield b": following\n\n"
        try:
            while call.clock.monotonic_ms() < deadline_ms:
                requested_ms = call.clock.monotonic_ms()
                found = await news(asking, name, look)
                if found == before:
                    yield b":\n\n"
                else:
                    yield found
                    sent += 1
                if sent >= limit:
                    yield event("end", msgspec.json.encode({"stopped_by": "limit"}))
                    return
                before = found
                await asyncio.sleep((requested_ms + SAMPLE_MS - call.clock.monotonic_ms()) / 1_000)
            yield event("end", msgspec.json.encode({"stopped_by": "time"}))
        finally:
            await cluster.close()

    return Stream(media=EVENT_STREAM, chunks=events())


async def news(call: Call[NoBody], name: str, look: Look) -> bytes:
    """Return the result of a query as an event, or the reason why there is none."""
    try:
        found = await look(call)
    except KafkaError as error:
        return event("trouble", msgspec.json.encode({"error": error.code.name, "message": error.message}))
    except Unreachable as error:
        return event("trouble", msgspec.json.encode({"error": "CLUSTER_UNREACHABLE", "message": str(error)}))
    return event(name, found.model_dump_json().encode())


OPERATIONS = [
    Operation.get(
        "/v1/live/groups",
        "Stream the list of groups",
        follow_groups,
        GroupPage,
        media=(EVENT_STREAM,),
        parameters=(*groups_routes.LISTING, STREAM_SECONDS),
    ),
    Operation.get(
        "/v1/live/groups/{group}",
        "Stream a group",
        follow_group,
        Group,
        media=(EVENT_STREAM,),
        parameters=(GROUP_ID, STREAM_COUNT, STREAM_SECONDS),
    ),
    Operation.get(
        "/v1/live/reassignments",
        "Stream reassignments",
        follow_reassignments,
        Moves,
        media=(EVENT_STREAM,),
        parameters=(ONLY_TOPIC, STREAM_COUNT, STREAM_SECONDS),
    ),
]
