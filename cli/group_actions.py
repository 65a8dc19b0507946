"""What `kvorum groups` and kafka-consumer-groups do to groups: reset and forget offsets, delete."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from kvorum.admin.client import ClusterClient
from kvorum.admin.group_admin import Committed, Groups
from kvorum.admin.partition_offsets import UNKNOWN_OFFSET, Spec, known_offsets
from kvorum.admin.places import Place
from kvorum.cli.group_reset import Log, Plan, Scenario, Way, parse_places, plan
from kvorum.protocol.errors import ErrorCode, KafkaError

INACTIVE = ("Empty", "Dead")


@dataclass(frozen=True, slots=True, kw_only=True)
class Scope:
    """Whose offsets: topics as TOPIC or TOPIC:0,1, or all that the group has committed."""

    topics: Sequence[str] = ()
    all_topics: bool = False


class Reset(NamedTuple):
    """What becomes of a group: a plan, or why there is none."""

    group_id: str
    plan: Plan
    refused: str | None = None


async def places_of(cluster: ClusterClient, texts: Iterable[str]) -> list[Place]:
    """Return the partitions that TOPIC and TOPIC:0,1 name. Raises ResetError, KafkaError for an unknown topic."""
    found: list[Place] = []
    for text in texts:
        topic, partitions = parse_places(text)
        if partitions is None:
            partitions = sorted(row.partition_index for row in (await cluster.topic(topic)).partitions)
        found += [Place(topic, partition) for partition in partitions]
    return list(dict.fromkeys(found))


async def reset(
    cluster: ClusterClient, group_ids: Sequence[str], scope: Scope, scenario: Scenario, *, execute: bool
) -> list[Reset]:
    """Work out where groups are to go on, and commit it if told to. Raises ResetError, KafkaError, Unreachable."""
    groups = Groups(cluster)
    found: list[Reset] = []
    for group_id in group_ids:
        state = await state_of(groups, group_id)
        if state not in INACTIVE:
            reason = f"the group '{group_id}' is inactive, but the current state is {state}"
            found.append(Reset(group_id, Plan(), f"Assignments can only be reset if {reason}."))
            continue
        if scenario.way is Way.FILE and group_id not in scenario.file:
            found.append(Reset(group_id, Plan(), f"No reset plan for group {group_id} found"))
            continue
        committed = {place: each.offset for place, each in (await committed_of(groups, group_id)).items()}
        places = await places_to_reset(cluster, group_id, scope, scenario, committed)
        made = plan(scenario, group_id, await logs_of(cluster, places, scenario), committed)
        if execute:
            await groups.commit(group_id, made.offsets)
        found.append(Reset(group_id, made))
    return found


async def state_of(groups: Groups, group_id: str) -> str:
    """Return a group's state; one that is not there is dead, and may be given offsets before its first member."""
    try:
        return (await groups.described(group_id)).state
    except KafkaError as error:
        if error.code is not ErrorCode.GROUP_ID_NOT_FOUND:
            raise
        return "Dead"


async def committed_of(groups: Groups, group_id: str) -> Mapping[Place, Committed]:
    """Return what a group has committed; nothing, if it is not there."""
    try:
        return await groups.committed(group_id)
    except KafkaError as error:
        if error.code is not ErrorCode.GROUP_ID_NOT_FOUND:
            raise
        return {}


async def places_to_reset(
    cluster: ClusterClient, group_id: str, scope: Scope, scenario: Scenario, committed: Mapping[Place, int]
) -> list[Place]:
    """Return the partitions that a reset is about."""
    if scenario.way is Way.FILE:
        return sorted(scenario.file[group_id])
    return sorted(committed) if scope.all_topics else await places_of(cluster, scope.topics)


async def logs_of(cluster: ClusterClient, places: list[Place], scenario: Scenario) -> dict[Place, Log]:
    """Ask the leaders for what a plan needs to know."""
    if not places:
        return {}
    starts = await known_offsets(cluster, places, Spec.EARLIEST)
    ends = await known_offsets(cluster, places, Spec.LATEST)
    times = await known_offsets(cluster, places, scenario.number) if scenario.way is Way.TIME else {}
    return {
        place: Log(
            start=starts[place],
            end=ends[place],
            of_time=None if times.get(place, UNKNOWN_OFFSET) == UNKNOWN_OFFSET else times[place],
        )
        for place in places
    }


async def delete(cluster: ClusterClient, group_ids: Sequence[str]) -> dict[str, KafkaError | None]:
    """Delete groups; return what was refused, by group. Raises Unreachable."""
    groups = Groups(cluster)
    outcome: dict[str, KafkaError | None] = {}
    for group_id in group_ids:
        try:
            await groups.delete(group_id)
            outcome[group_id] = None
        except KafkaError as error:
            outcome[group_id] = error
    return outcome
