"""Groups over HTTP."""

import asyncio
from collections.abc import Mapping, Sequence
from datetime import UTC

from pydantic import BaseModel

from kvorum.admin.client import EARLIEST, LATEST, ClusterClient
from kvorum.admin.group_models import (
    DeletedOffset,
    Group,
    GroupMember,
    GroupOffset,
    GroupPage,
    GroupSummary,
    LagSummary,
    OffsetReset,
    ResetPartition,
    ResetResult,
    TopicLag,
)
from kvorum.admin.groups import WITHOUT_MEMBERS, Committed, Described, Groups
from kvorum.admin.offset_reset import Ends, Way, plan, scope
from kvorum.admin.operations import INT64_MAX, Call, NoBody, Operation, Role
from kvorum.admin.places import Place
from kvorum.protocol.errors import ErrorCode, KafkaError
from kvorum.protocol.messages.metadata import MetadataResponseTopic

PAGE_DEFAULT = 100
PAGE_MAX = 10_000
GROUP_TYPES = ("classic", "consumer", "share", "streams")
"""Kafka's GroupType; what a cluster does not have, it lists none of."""


async def list_groups(call: Call[NoBody]) -> GroupPage:
    """List groups of every protocol by id, a page at a time."""
    limit, after, prefix = (
        call.number("limit", PAGE_DEFAULT, 1, PAGE_MAX),
        call.query.get("after", ""),
        call.query.get("prefix", ""),
    )
    states, types = call.words("state"), call.words("type", GROUP_TYPES)
    found = [
        row
        for row in await Groups(call.cluster).listed(states, types)
        if row.group_id > after and row.group_id.startswith(prefix)
    ]
    page = [
        GroupSummary(
            group_id=row.group_id,
            type=row.type,
            state=row.state,
            protocol_type=row.protocol_type,
            coordinator=row.coordinator_id,
        )
        for row in found[:limit]
    ]
    return GroupPage(groups=page, next=page[-1].group_id if len(found) > limit else None)


async def get_group(call: Call[NoBody]) -> Group:
    """Describe a group: its members, what each has, where the group is and how far behind."""
    group_id = call.path["group"]
    groups = Groups(call.cluster)
    found = await groups.describe(group_id)
    return Group(
        group_id=group_id,
        type=found.type,
        state=found.state,
        protocol_type=found.protocol_type,
        coordinator=found.coordinator_id,
        protocol=found.protocol,
        epoch=found.epoch,
        assignment_epoch=found.assignment_epoch,
        members=[
            GroupMember(
                member_id=member.member_id,
                instance_id=member.instance_id,
                client_id=member.client_id,
                host=member.host,
                rack=member.rack,
                protocol=member.protocol,
                epoch=member.epoch,
                topics=list(member.topics),
                pattern=member.pattern,
                assignment={topic: list(each) for topic, each in member.assignment.items()},
                target_assignment=None
                if member.target is None
                else {topic: list(each) for topic, each in member.target.items()},
            )
            for member in found.members
        ],
        offsets=await places_of(call.cluster, found, await groups.committed(group_id)),
    )


async def places_of(
    cluster: ClusterClient, group: Described, committed: Mapping[Place, Committed]
) -> list[GroupOffset]:
    """Return a row for each partition that the group has committed in, or that one of its members has."""
    owners = {
        Place(topic, partition): member.member_id
        for member in group.members
        for topic, partitions in member.assignment.items()
        for partition in partitions
    }
    places = sorted(committed.keys() | owners.keys())
    latest = await offsets_at(cluster, places, LATEST)
    rows = []
    for place in places:
        mine, end = committed.get(place), latest.get(place)
        rows.append(
            GroupOffset(
                topic=place.topic,
                partition=place.partition,
                committed_offset=None if mine is None else mine.offset,
                leader_epoch=None if mine is None or mine.leader_epoch < 0 else mine.leader_epoch,
                metadata="" if mine is None else mine.metadata,
                end_offset=end,
                lag=None if mine is None or end is None else max(0, end - mine.offset),
                member_id=owners.get(place),
            )
        )
    return rows


async def known_topics(cluster: ClusterClient, names: Sequence[str]) -> dict[str, MetadataResponseTopic]:
    """Return the topics of these names that there are."""
    if not names:
        return {}
    found = (await cluster.metadata(sorted(names))).topics
    return {topic.name or "": topic for topic in found if topic.error_code == ErrorCode.NONE}


async def offsets_at(cluster: ClusterClient, places: Sequence[Place], timestamp: int) -> dict[Place, int]:
    """Return what the leaders say for a timestamp (EARLIEST, LATEST, ms); nothing of partitions that are gone."""
    topics = await known_topics(cluster, sorted({place.topic for place in places}))
    found = await asyncio.gather(*(cluster.offsets(topic, timestamp) for topic in topics.values()))
    told = {
        Place(name, partition): offset
        for name, offsets in zip(topics, found, strict=True)
        for partition, offset in offsets.items()
        if offset is not None
    }
    return {place: told[place] for place in places if place in told}


async def get_lag(call: Call[NoBody]) -> LagSummary:
    """Sum up how far a group is behind."""
    groups = Groups(call.cluster)
    described = await groups.describe(call.path["group"])
    rows = await places_of(call.cluster, described, await groups.committed(described.group_id))
    known = [(row.lag, row.topic, row.partition) for row in rows if row.lag is not None]
    by_topic: dict[str, list[int]] = {}
    for lag, topic, _ in known:
        by_topic.setdefault(topic, []).append(lag)
    worst = max(known, default=None)
    return LagSummary(
        group_id=described.group_id,
        state=described.state,
        lag=sum(lag for lag, _, _ in known),
        lag_max=0 if worst is None else worst[0],
        lag_max_topic=None if worst is None else worst[1],
        lag_max_partition=None if worst is None else worst[2],
        partitions=len(known),
        partitions_unknown=len(rows) - len(known),
        topics=[
            TopicLag(topic=topic, partitions=len(lags), lag=sum(lags), lag_max=max(lags))
            for topic, lags in sorted(by_topic.items())
        ],
    )


async def delete_group(call: Call[NoBody]) -> None:
    """Delete a group without members, with its offsets."""
    await Groups(call.cluster).delete(call.path["group"])


async def delete_group_offsets(call: Call[NoBody]) -> list[BaseModel]:
    """Forget a group's place in a topic, or in some partitions of it; refused while a member is subscribed to it."""
    group_id, topic = call.path["group"], call.path["topic"]
    groups = Groups(call.cluster)
    wanted = call.numbers("partitions", 2**31 - 1)
    if wanted is None:
        wanted = [place.partition for place in await groups.committed(group_id) if place.topic == topic]
        if not wanted:
            await groups.describe(group_id)  # whether it is the group that is not there
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"group {group_id!r} has no place in {topic!r}")
    codes = await groups.delete_offsets(group_id, topic, wanted)
    return [
        DeletedOffset(topic=topic, partition=partition, error=code.name if code else None)
        for partition, code in sorted(codes.items())
    ]


async def reset_offsets(call: Call[OffsetReset]) -> ResetResult:
    """Move a group's place; a dry run that only tells, unless dry_run=false. Refused while the group has members.

    A place outside the log is moved to its nearer end, and told. Partitions are those the group has a place in, or
    those that `topics` or `offsets` name, as of a group that does not exist yet.
    """
    group_id = call.path["group"]
    dry_run = "dry_run" not in call.query or call.flag("dry_run")
    groups = Groups(call.cluster)
    await refuse_members(groups, group_id)
    committed = {place: each.offset for place, each in (await groups.committed(group_id)).items()}
    places = await scope_of(call, committed)
    way, wanted = await wanted_of(call, places)
    earliest = await offsets_at(call.cluster, places, EARLIEST)
    latest = await offsets_at(call.cluster, places, LATEST)
    ends = {}
    for place in places:
        if place not in earliest or place not in latest or (way is Way.TIME and place not in wanted):
            raise KafkaError(
                ErrorCode.LEADER_NOT_AVAILABLE, f"{place.topic}-{place.partition} does not tell its offsets"
            )
        ends[place] = Ends(earliest[place], latest[place])
    moves = plan(way, ends, committed, wanted)
    codes: dict[Place, ErrorCode] = {}
    if not dry_run and moves:
        codes = await groups.commit(group_id, {move.place: move.after for move in moves})
        if ErrorCode.UNKNOWN_MEMBER_ID in codes.values():
            await refuse_members(groups, group_id)  # who joined meanwhile
    return ResetResult(
        group_id=group_id,
        dry_run=dry_run,
        partitions=[
            ResetPartition(
                topic=move.place.topic,
                partition=move.place.partition,
                before=move.before,
                after=move.after,
                note=move.note,
                error=code.name if (code := codes.get(move.place, ErrorCode.NONE)) else None,
            )
            for move in moves
        ],
    )


async def refuse_members(groups: Groups, group_id: str) -> None:
    """Raise KafkaError NON_EMPTY_GROUP, with the state, for a group that has members."""
    state = await groups.state(group_id)
    if state not in WITHOUT_MEMBERS:
        text = f"offsets can only be reset while a group has no members; {group_id!r} is {state}"
        raise KafkaError(ErrorCode.NON_EMPTY_GROUP, text)


async def scope_of(call: Call[OffsetReset], committed: Mapping[Place, int]) -> list[Place]:
    """Return the partitions a reset is about. Raises KafkaError for one that is not there."""
    body = call.body
    if body.topics is None and body.offsets is None:
        return sorted(committed)
    asked: dict[str, list[int] | None] = {}
    for each in body.offsets or ():
        asked.setdefault(each.topic, []).append(each.partition)  # type: ignore[union-attr]  # lists, just made
    asked = dict(body.topics or asked)
    topics = await known_topics(call.cluster, sorted(asked))
    return scope({name: [row.partition_index for row in topic.partitions] for name, topic in topics.items()}, asked)


async def wanted_of(call: Call[OffsetReset], places: Sequence[Place]) -> tuple[Way, dict[Place, int]]:
    """Return the way of a reset, and what it needs for each partition."""
    body = call.body
    if body.to is not None:
        return Way(body.to), {}
    if body.shift_by is not None:
        return Way.SHIFT, dict.fromkeys(places, body.shift_by)
    if body.offset is not None:
        return Way.OFFSET, dict.fromkeys(places, body.offset)
    if body.offsets is not None:
        return Way.OFFSET, {Place(each.topic, each.partition): each.offset for each in body.offsets}
    if body.timestamp_ms is not None:
        time_ms = body.timestamp_ms
    elif body.at is not None:
        at = body.at if body.at.tzinfo is not None else body.at.replace(tzinfo=UTC)
        time_ms = int(at.timestamp() * 1000)
    else:
        assert body.by_duration is not None, "the model holds it to one way"
        time_ms = call.clock.wall_ms() - int(body.by_duration.total_seconds() * 1000)
    return Way.TIME, await offsets_at(call.cluster, places, min(max(0, time_ms), INT64_MAX))


LISTING = {
    "prefix": "only ids that begin so",
    "state": "only these, comma-separated: Stable, Empty, PreparingRebalance, CompletingRebalance, Assigning, ...",
    "type": "only these, comma-separated: classic, consumer",
    "after": "start behind this id",
    "limit": f"1 to {PAGE_MAX}, {PAGE_DEFAULT} if left out",
}
GROUP = "/v1/groups/{group}"
OPERATIONS = [
    Operation(
        method="GET", path="/v1/groups", summary="List groups", handle=list_groups, answer=GroupPage, query=LISTING
    ),
    Operation(method="GET", path=GROUP, summary="Describe a group", handle=get_group, answer=Group),
    Operation(method="DELETE", path=GROUP, summary="Delete a group", handle=delete_group, status=204),
    Operation(method="GET", path=f"{GROUP}/lag", summary="A group's lag", handle=get_lag, answer=LagSummary),
    Operation(
        method="POST",
        path=f"{GROUP}/offsets/reset",
        summary="Move a group's place",
        handle=reset_offsets,
        body=OffsetReset,
        answer=ResetResult,
        query={"dry_run": "false: do it; otherwise it is only told"},
        fields={ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: "topics"},
        role=Role.OPERATE,
    ),
    Operation(
        method="DELETE",
        path=f"{GROUP}/offsets/{{topic}}",
        summary="Forget a group's place in a topic",
        handle=delete_group_offsets,
        answer=DeletedOffset,
        many=True,
        query={"partitions": "only these, comma-separated; left out: all it has a place in"},
        role=Role.OPERATE,
    ),
]
