"""Group operations of `kvorum groups` and kafka-consumer-groups: reset offsets, delete."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from kvorum.cli.groups.reset_texts import parse_partitions
from kvorum.client.groups.offsets import find_partitions
from kvorum.client.namespaces.groups import WITHOUT_MEMBERS, Groups
from kvorum.client.values.offset_reset import OffsetReset, ResetTarget
from kvorum.client.wire.cluster_client import ClusterClient
from kvorum.protocol.errors import KafkaError
from kvorum.protocol.topic_partition import TopicPartition

Targets = Callable[[str], ResetTarget | None]
"""Target of a group; None if the file has nothing for it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Scope:
    """Offsets to reset: topics as TOPIC or TOPIC:0,1, or all committed ones."""

    topics: Sequence[str] = ()
    all_topics: bool = False


class GroupReset(NamedTuple):
    """Result for a group: its new offsets, or the error."""

    group_id: str
    resets: Sequence[OffsetReset] = ()
    error: str | None = None

    @property
    def offsets(self) -> dict[TopicPartition, int]:
        """Return the new offsets."""
        return {each.topic_partition: each.after for each in self.resets}


async def find_group_ids(cluster: ClusterClient, names: Sequence[str], all_groups: bool) -> list[str]:
    """Return the given groups, or all consumer groups."""
    if not all_groups:
        return list(dict.fromkeys(names))
    return [each.group_id for each in await Groups(cluster).list() if each.has_consumers]


async def read_partitions(cluster: ClusterClient, texts: Iterable[str]) -> list[TopicPartition]:
    """Return the partitions that TOPIC and TOPIC:0,1 name. Raises ResetError, KafkaError for an unknown topic."""
    return await find_partitions(cluster, [parse_partitions(text) for text in texts])


async def reset(
    cluster: ClusterClient, group_ids: Sequence[str], scope: Scope, targets: Targets, *, execute: bool
) -> list[GroupReset]:
    """Compute the new offsets of groups, and commit them if requested. Raises ResetError, KafkaError, Unreachable."""
    groups = Groups(cluster)
    found: list[GroupReset] = []
    for group_id in group_ids:
        state = await groups.state(group_id)
        if state not in WITHOUT_MEMBERS:
            reason = f"the group '{group_id}' is inactive, but the current state is {state}"
            found.append(GroupReset(group_id, error=f"Assignments can only be reset if {reason}."))
            continue
        target = targets(group_id)
        if target is None:
            found.append(GroupReset(group_id, error=f"No reset plan for group {group_id} found"))
            continue
        partitions = None
        if target.offsets is None and not scope.all_topics:
            partitions = await read_partitions(cluster, scope.topics)
        resets = await groups.reset_offsets(group_id, target, partitions, dry_run=not execute)
        for each in resets:
            if each.error is not None:
                raise KafkaError(each.error.code, f"{each.topic_partition} of group {group_id!r}")
        found.append(GroupReset(group_id, resets))
    return found


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
