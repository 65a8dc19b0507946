"""Committed offsets of a group over HTTP: in pages, or as the CSV of a reset and of Kafka's tool."""

import hashlib
from collections.abc import AsyncIterator, Mapping

from kvorum.admin.http.operations import JSON, Call, NoBody, Operation, Stream
from kvorum.admin.http.paging import behind, place_after, place_text
from kvorum.admin.http.parameters import Count
from kvorum.admin.v1.groups.group_models import GroupOffset, GroupOffsetPage
from kvorum.client.groups.groups import Committed, Groups
from kvorum.client.groups.offset_csv import format_plan
from kvorum.client.groups.offsets import GroupPlace, group_places
from kvorum.client.partitions.offsets import Spec, list_offsets
from kvorum.protocol.errors import ErrorCode
from kvorum.protocol.topic_partition import TopicPartition

CSV = "text/csv"
PLACES = Count(what="offsets per page", default=1_000, most=10_000)
ATTEMPTS = 1
"""Attempts to read the ends of a partition; users can reload a page."""


async def list_group_offsets(call: Call[NoBody]) -> GroupOffsetPage | Stream:
    """List a group's committed offsets and assigned partitions, or all committed offsets as CSV.

    The CSV has lines of TOPIC,PARTITION,OFFSET; with_group adds the group in front, as a reset of several groups needs.
    """
    as_csv, with_group = call.flag("csv"), call.flag("with_group")
    limit, after, topic = PLACES.of(call), place_after(call), call.query.get("topic")
    groups, group_id = Groups(call.cluster), call.path["group"]
    found = await groups.described(group_id)
    committed = await groups.committed(group_id)
    if as_csv:
        chosen = {place: each.offset for place, each in committed.items() if topic in (None, place.topic)}
        return Stream(media=CSV, chunks=whole(format_plan([(group_id, chosen)], with_group=with_group)))
    places = sorted({*committed, *(place for member in found.members for place in member.assignment)})
    wanted = [place for place in places if topic in (None, place.topic)]
    page, more = behind(wanted, lambda place: place, after, limit)
    results = await list_offsets(call.cluster, dict.fromkeys(page, int(Spec.LATEST)), attempts=ATTEMPTS)
    ends = {place: each.offset if each.error is ErrorCode.NONE else None for place, each in results.items()}
    rows = {each.place: each for each in group_places(found, committed, ends)}
    return GroupOffsetPage(
        group_id=group_id,
        state=found.state,
        revision=revision_of(committed),
        offsets=[offset_of(rows[place]) for place in page],
        next=place_text(page[-1]) if more else None,
    )


async def whole(text: str) -> AsyncIterator[bytes]:
    """Yield an available text."""
    yield text.encode()


def revision_of(committed: Mapping[TopicPartition, Committed]) -> str:
    """Return the mark of a group's places: another one when any of them is."""
    rows = sorted((place, each.offset, each.metadata) for place, each in committed.items())
    return hashlib.sha256(repr(rows).encode()).hexdigest()[:32]


def offset_of(found: GroupPlace) -> GroupOffset:
    """Return a group's place in a partition for HTTP."""
    mine = found.committed
    return GroupOffset(
        topic=found.place.topic,
        partition=found.place.partition,
        committed_offset=None if mine is None else mine.offset,
        leader_epoch=None if mine is None or mine.leader_epoch < 0 else mine.leader_epoch,
        metadata="" if mine is None else mine.metadata,
        end_offset=found.end,
        lag=None if found.lag is None else max(0, found.lag),
        member_id=None if found.member is None else found.member.member_id,
    )


def offsets_state(page: GroupOffsetPage) -> object:
    """Return the committed offsets of a group that a reset could overwrite: all of them, on any page."""
    return page.revision


GET_OFFSETS = Operation.get(
    "/v1/groups/{group}/offsets",
    "List a group's offsets",
    list_group_offsets,
    GroupOffsetPage,
    media=(JSON, CSV),
    query={
        "topic": "only those in this topic",
        "csv": "true: all of them, as CSV",
        "with_group": "true: the group first in each line of the CSV, as for a reset of several groups",
        "after": "start after this partition, as orders:3",
        **PLACES.documentation,
    },
    state=offsets_state,
)
OPERATIONS = [GET_OFFSETS]
