"""Offset resets of one or several groups over HTTP: a dry run by default."""

from collections.abc import Callable, Sequence
from datetime import UTC
from functools import partial

from pydantic import BaseModel

from kvorum.admin.http.operations import INT64_MAX, BadInput, Call, Operation, Role
from kvorum.admin.v1.groups.group_models import GroupReset, OffsetReset, OffsetResets, ResetPartition, ResetResult
from kvorum.admin.v1.groups.group_offset_routes import ATTEMPTS, GET_OFFSETS
from kvorum.client.groups.groups import WITHOUT_MEMBERS, Groups
from kvorum.client.groups.lags import in_turn
from kvorum.client.groups.offset_csv import parse_plan
from kvorum.client.groups.offset_reset import Move, ResetError, Scenario, Way
from kvorum.client.groups.offsets import places_named, planned_reset
from kvorum.client.wire.cluster_client import ClusterClient, Unreachable
from kvorum.protocol.errors import ErrorCode, KafkaError
from kvorum.protocol.topic_partition import TopicPartition

EXPLICIT_MAX = 10_000
"""Places of one request as CSV; the commits of all of them are answered at once."""
Plans = Callable[[str], Scenario | None]
"""Kind of the target; None: the file does not name it."""


async def reset_offsets(call: Call[OffsetReset]) -> ResetResult:
    """Reset a group's offsets; a dry run unless dry_run=false. Rejected while the group has members.

    An offset outside the log is replaced by the nearer end and reported. Partitions are those with committed offsets,
    or those in `topics`, `offsets` or `csv`, also for a group that does not exist yet.
    """
    group_id = call.path["group"]
    scenario = scenario_of(call.body, call.clock.wall_ms(), group_id)
    places = await scope_of(call.cluster, call.body, scenario)
    return await reset_group(Groups(call.cluster), group_id, scenario, places, is_dry(call))


async def reset_offsets_of_groups(call: Call[OffsetResets]) -> list[BaseModel]:
    """Reset the offsets of several groups independently: a rejected group does not affect the others.

    A dry run unless dry_run=false.
    """
    body, groups, now_ms = call.body, Groups(call.cluster), call.clock.wall_ms()
    plans = plans_of(body, now_ms)
    if body.all_groups:
        names = [each.group_id for each in await groups.listed() if each.is_of_consumers]
    else:
        names = list(plans) if body.groups is None else body.groups
    shared = None if body.topics is None else await places_named(call.cluster, body.topics.items())
    dry_run = is_dry(call)

    async def one(group_id: str) -> GroupReset:
        scenario = plans.get(group_id) or scenario_of(body, now_ms, group_id)
        places = explicit_places(scenario) if shared is None else shared
        try:
            done = await reset_group(groups, group_id, scenario, places, dry_run)
        except (KafkaError, Unreachable) as error:
            code = error.code.name if isinstance(error, KafkaError) else "CLUSTER_UNREACHABLE"
            message = str(error) if isinstance(error, Unreachable) else error.message
            return GroupReset(group_id=group_id, dry_run=dry_run, partitions=[], error=code, message=message)
        return GroupReset(**done.model_dump(), error=None, message=None)

    return list(await in_turn(partial(one, each) for each in names))


def is_dry(call: Call[OffsetReset] | Call[OffsetResets]) -> bool:
    """Return whether the request is a dry run. Raises BadInput."""
    return "dry_run" not in call.query or call.flag("dry_run")


async def reset_group(
    groups: Groups, group_id: str, scenario: Scenario, places: Sequence[TopicPartition] | None, dry_run: bool
) -> ResetResult:
    """Reset one group, or return the targets; `places` None: all committed partitions. Raises KafkaError."""
    await refuse_members(groups, group_id)
    try:
        moves = await planned_reset(groups, group_id, scenario, places, attempts=ATTEMPTS)
    except ResetError as error:
        raise KafkaError(ErrorCode.INVALID_REQUEST, str(error)) from error
    codes: dict[TopicPartition, ErrorCode] = {}
    if not dry_run:
        codes = await groups.commit(group_id, {move.place: move.after for move in moves})
        if ErrorCode.UNKNOWN_MEMBER_ID in codes.values():
            await refuse_members(groups, group_id)  # members that joined in between
    return ResetResult(
        group_id=group_id,
        dry_run=dry_run,
        partitions=[
            ResetPartition(
                topic=move.place.topic,
                partition=move.place.partition,
                before=move.before,
                after=move.after,
                note=note_of(move),
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


def note_of(move: Move) -> str | None:
    """Return the notes on a target offset."""
    if move.is_below:
        return f"{move.wanted} is below the earliest offset"
    return f"{move.wanted} is above the latest offset" if move.is_above else move.note


async def scope_of(cluster: ClusterClient, body: OffsetReset, scenario: Scenario) -> Sequence[TopicPartition] | None:
    """Return the partitions that are named; None, where it is all that the group has a place in. Raises KafkaError."""
    return explicit_places(scenario) if body.topics is None else await places_named(cluster, body.topics.items())


def explicit_places(scenario: Scenario) -> list[TopicPartition] | None:
    """Return the partitions that a scenario names itself; None: it names none."""
    return list(scenario.offsets) if scenario.way is Way.EXPLICIT else None


def plans_of(body: OffsetResets, now_ms: int) -> dict[str, Scenario]:
    """Return {group: how its place is found} of a CSV; nothing where it is the same way for all. Raises BadInput."""
    if body.csv is None:
        return {}
    return {group_id: explicit(offsets) for group_id, offsets in read_csv(body.csv, None).items()}


def explicit(offsets: dict[TopicPartition, int]) -> Scenario:
    """Return the target with explicit offsets."""
    return Scenario(way=Way.EXPLICIT, offsets=offsets)


def read_csv(text: str, group_id: str | None) -> dict[str, dict[TopicPartition, int]]:
    """Return {group: {partition: offset}}. Raises BadInput."""
    try:
        found = parse_plan(text, group_id, once=True)
    except ResetError as error:
        raise BadInput("csv", str(error)) from error
    if group_id is not None and found.keys() - {group_id}:
        raise BadInput("csv", f"it contains a group other than {group_id!r}: {min(found.keys() - {group_id})!r}")
    if not found or sum(map(len, found.values())) > EXPLICIT_MAX:
        raise BadInput("csv", f"expected 1 to {EXPLICIT_MAX} lines")
    return found


def scenario_of(body: OffsetReset, now_ms: int, group_id: str) -> Scenario:
    """Return the one way of a reset that the body has. Raises BadInput: a CSV that cannot be read."""
    if body.csv is not None:
        return explicit(read_csv(body.csv, group_id)[group_id])
    if body.to is not None:
        return Scenario(way=Way(body.to))
    if body.shift_by is not None:
        return Scenario(way=Way.SHIFT, number=body.shift_by)
    if body.offset is not None:
        return Scenario(way=Way.OFFSET, number=body.offset)
    if body.offsets is not None:
        return explicit({TopicPartition(each.topic, each.partition): each.offset for each in body.offsets})
    if body.timestamp_ms is not None:
        time_ms = body.timestamp_ms
    elif body.at is not None:
        at = body.at if body.at.tzinfo is not None else body.at.replace(tzinfo=UTC)
        time_ms = int(at.timestamp() * 1000)
    else:
        assert body.by_duration is not None, "the model holds it to one way"
        time_ms = now_ms - int(body.by_duration.total_seconds() * 1000)
    return Scenario(way=Way.TIME, number=min(max(0, time_ms), INT64_MAX))


DRY_RUN = {"dry_run": "false: apply the change (default: dry run)"}
FIELDS = {ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: "topics"}
OPERATIONS = [
    Operation(
        method="POST",
        path="/v1/groups/{group}/offsets/reset",
        summary="Reset a group's offsets",
        handle=reset_offsets,
        body=OffsetReset,
        answer=ResetResult,
        query=DRY_RUN,
        fields=FIELDS,
        role=Role.OPERATE,
        guard=GET_OFFSETS,
    ),
    Operation(
        method="POST",
        path="/v1/group-offsets/reset",
        summary="Reset the offsets of several groups",
        handle=reset_offsets_of_groups,
        body=OffsetResets,
        answer=GroupReset,
        many=True,
        query=DRY_RUN,
        fields=FIELDS,
        role=Role.OPERATE,
    ),
]
