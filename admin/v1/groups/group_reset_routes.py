"""Offset resets of one or several groups over HTTP: a dry run by default."""

from collections.abc import Sequence
from datetime import UTC
from functools import partial

from pydantic import BaseModel

from kvorum.admin.http.operations import INT64_MAX, BadInput, Call, Operation, Role
from kvorum.admin.v1.groups.group_models import GroupReset, OffsetReset, OffsetResets, ResetPartition, ResetResult
from kvorum.admin.v1.groups.group_offset_routes import ATTEMPTS, GET_OFFSETS
from kvorum.client.groups.concurrent import run_limited
from kvorum.client.groups.offset_csv import parse_plan
from kvorum.client.groups.offsets import find_partitions
from kvorum.client.namespaces.groups import Groups
from kvorum.client.values import offset_reset as values
from kvorum.client.values.offset_reset import ResetError, ResetTarget
from kvorum.client.wire.cluster_client import ClusterClient, Unreachable
from kvorum.protocol.errors import ErrorCode, KafkaError
from kvorum.protocol.topic_partition import TopicPartition

EXPLICIT_MAX = 10_000
"""Places of one request as CSV; the commits of all of them are answered at once."""


async def reset_offsets(call: Call[OffsetReset]) -> ResetResult:
    """Reset a group's offsets; a dry run unless dry_run=false. Rejected while the group has members.

    An offset outside the log is replaced by the nearer end and reported. Partitions are those with committed offsets,
    or those in `topics`, `offsets` or `csv`, also for a group that does not exist yet.
    """
    group_id = call.path["group"]
    target = target_of(call.body, call.clock.wall_ms(), group_id)
    partitions = await partitions_of(call.cluster, call.body)
    return await reset_group(Groups(call.cluster), group_id, target, partitions, is_dry(call))


async def reset_offsets_of_groups(call: Call[OffsetResets]) -> list[BaseModel]:
    """Reset the offsets of several groups independently: a rejected group does not affect the others.

    A dry run unless dry_run=false.
    """
    body, groups, now_ms = call.body, Groups(call.cluster), call.clock.wall_ms()
    targets = targets_of(body)
    if body.all_groups:
        names = [each.group_id for each in await groups.list() if each.has_consumers]
    else:
        names = list(targets) if body.groups is None else body.groups
    partitions = await partitions_of(call.cluster, body)
    dry_run = is_dry(call)

    async def one(group_id: str) -> GroupReset:
        target = targets.get(group_id) or target_of(body, now_ms, group_id)
        try:
            done = await reset_group(groups, group_id, target, partitions, dry_run)
        except (KafkaError, Unreachable) as error:
            code = error.code.name if isinstance(error, KafkaError) else "CLUSTER_UNREACHABLE"
            message = str(error) if isinstance(error, Unreachable) else error.message
            return GroupReset(group_id=group_id, dry_run=dry_run, partitions=[], error=code, message=message)
        return GroupReset(**done.model_dump(), error=None, message=None)

    return list(await run_limited(partial(one, each) for each in names))


def is_dry(call: Call[OffsetReset] | Call[OffsetResets]) -> bool:
    """Return whether the request is a dry run. Raises BadInput."""
    return "dry_run" not in call.query or call.flag("dry_run")


async def reset_group(
    groups: Groups, group_id: str, target: ResetTarget, partitions: Sequence[TopicPartition] | None, dry_run: bool
) -> ResetResult:
    """Reset one group, or return the new offsets; `partitions` None: all committed partitions. Raises KafkaError."""
    try:
        resets = await groups.reset_offsets(group_id, target, partitions, dry_run=dry_run, attempts=ATTEMPTS)
    except ResetError as error:
        raise KafkaError(ErrorCode.INVALID_REQUEST, str(error)) from error
    return ResetResult(
        group_id=group_id,
        dry_run=dry_run,
        partitions=[
            ResetPartition(
                topic=each.topic,
                partition=each.partition,
                before=each.before,
                after=each.after,
                note=note_of(each),
                error=None if each.error is None else each.error.code.name,
            )
            for each in resets
        ],
    )


def note_of(reset: values.OffsetReset) -> str | None:
    """Return the notes on a target offset."""
    if reset.is_below:
        return f"{reset.target} is below the earliest offset"
    return f"{reset.target} is above the latest offset" if reset.is_above else reset.note


async def partitions_of(cluster: ClusterClient, body: OffsetReset) -> Sequence[TopicPartition] | None:
    """Return the partitions of `topics`; None without it. Raises KafkaError."""
    return None if body.topics is None else await find_partitions(cluster, body.topics.items())


def targets_of(body: OffsetResets) -> dict[str, ResetTarget]:
    """Return {group: offsets} of a CSV; nothing if all groups have the same target. Raises BadInput."""
    if body.csv is None:
        return {}
    return {group_id: ResetTarget(offsets=offsets) for group_id, offsets in read_csv(body.csv, None).items()}


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


def target_of(body: OffsetReset, now_ms: int, group_id: str) -> ResetTarget:
    """Return the target of the body. Raises BadInput: a CSV that cannot be read."""
    if body.csv is not None:
        return ResetTarget(offsets=read_csv(body.csv, group_id)[group_id])
    if body.offsets is not None:
        return ResetTarget(offsets={TopicPartition(each.topic, each.partition): each.offset for each in body.offsets})
    if body.to is not None or body.shift_by is not None or body.offset is not None:
        return ResetTarget(to=body.to, shift_by=body.shift_by, offset=body.offset)
    if body.timestamp_ms is not None:
        time_ms = body.timestamp_ms
    elif body.at is not None:
        at = body.at if body.at.tzinfo is not None else body.at.replace(tzinfo=UTC)
        time_ms = int(at.timestamp() * 1000)
    else:
        assert body.by_duration is not None, "the model requires one target"
        time_ms = now_ms - int(body.by_duration.total_seconds() * 1000)
    return ResetTarget(timestamp_ms=min(max(0, time_ms), INT64_MAX))


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
