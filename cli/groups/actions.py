"""Group operations of `kvorum groups` and kafka-consumer-groups: reset offsets, delete."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from kvorum.cli.groups.reset_texts import parse_places
from kvorum.client.groups.groups import WITHOUT_MEMBERS, Groups
from kvorum.client.groups.offset_reset import Move, Scenario, Way
from kvorum.client.groups.offsets import places_named, planned_reset
from kvorum.client.wire.cluster_client import ClusterClient, refuse
from kvorum.protocol.errors import KafkaError
from kvorum.protocol.topic_partition import TopicPartition

Scenarios = Callable[[str], Scenario | None]
"""Reset of a group; None if the file has nothing for it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Scope:
    """Offsets to reset: topics as TOPIC or TOPIC:0,1, or all committed ones."""

    topics: Sequence[str] = ()
    all_topics: bool = False


class Reset(NamedTuple):
    """Result for a group: its new offsets, or the error."""

    group_id: str
    moves: Sequence[Move] = ()
    refused: str | None = None

    @property
    def offsets(self) -> dict[TopicPartition, int]:
        """Return the new offsets."""
        return {move.place: move.after for move in self.moves}


async def places_of(cluster: ClusterClient, texts: Iterable[str]) -> list[TopicPartition]:
    """Return the partitions that TOPIC and TOPIC:0,1 name. Raises ResetError, KafkaError for an unknown topic."""
    return await places_named(cluster, [parse_places(text) for text in texts])


async def reset(
    cluster: ClusterClient, group_ids: Sequence[str], scope: Scope, scenarios: Scenarios, *, execute: bool
) -> list[Reset]:
    """Compute the targets of groups, and commit them if requested. Raises ResetError, KafkaError, Unreachable."""
    groups = Groups(cluster)
    found: list[Reset] = []
    for group_id in group_ids:
        state = await groups.state(group_id)
        if state not in WITHOUT_MEMBERS:
            reason = f"the group '{group_id}' is inactive, but the current state is {state}"
            found.append(Reset(group_id, refused=f"Assignments can only be reset if {reason}."))
            continue
        scenario = scenarios(group_id)
        if scenario is None:
            found.append(Reset(group_id, refused=f"No reset plan for group {group_id} found"))
            continue
        places = await places_to_reset(cluster, scope, scenario)
        made = Reset(group_id, await planned_reset(groups, group_id, scenario, places))
        if execute:
            for place, code in (await groups.commit(group_id, made.offsets)).items():
                refuse(code, f"{place} of group {group_id!r}")
        found.append(made)
    return found


async def places_to_reset(cluster: ClusterClient, scope: Scope, scenario: Scenario) -> list[TopicPartition] | None:
    """Return the partitions that a reset is about; None: all that the group has a place in."""
    if scenario.way is Way.EXPLICIT:
        return sorted(scenario.offsets)
    return None if scope.all_topics else await places_of(cluster, scope.topics)


async def without_members(cluster: ClusterClient) -> list[str]:
    """Return the consumer groups that have no members, and may be deleted. Raises KafkaError, Unreachable."""
    listed = await Groups(cluster).listed()
    return [each.group_id for each in listed if each.is_of_consumers and each.state in WITHOUT_MEMBERS]


async def delete(cluster: ClusterClient, group_ids: Sequence[str]) -> dict[str, KafkaError | None]:
    """Delete groups; return the errors, by group. Raises Unreachable."""
    groups = Groups(cluster)
    outcome: dict[str, KafkaError | None] = {}
    for group_id in group_ids:
        try:
            await groups.delete(group_id)
            outcome[group_id] = None
        except KafkaError as error:
            outcome[group_id] = error
    return outcome
