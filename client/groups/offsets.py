"""Committed offsets of groups, their lags, and targets of a reset, from coordinators and leaders.

Source: Kafka's ConsumerGroupCommand (collectGroupsOffsets, prepareOffsetsToReset).
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from kvorum.client.groups.groups import Committed, Groups
from kvorum.client.groups.members import Described, Member
from kvorum.client.groups.offset_reset import Ends, Move, Scenario, Way, plan
from kvorum.client.partitions.offsets import UNKNOWN_OFFSET, Spec, known_offsets, list_offsets
from kvorum.client.wire.cluster_client import ClusterClient, code_of, refuse
from kvorum.client.wire.coordinators import RETRIES
from kvorum.protocol.errors import ErrorCode
from kvorum.protocol.topic_partition import TopicPartition

ATTEMPTS: Final = 4
"""Attempts to read a log end: a partition without a leader is soon shown without it."""


class GroupPlace(NamedTuple):
    """A partition that a member owns, or that the group has committed an offset of.

    `end` is the offset after the last record, None if unknown.
    """

    place: TopicPartition
    committed: Committed | None
    end: int | None
    member: Member | None

    @property
    def lag(self) -> int | None:
        """Return how many records it is behind; below 0 where the log ends before the group's place."""
        return None if self.committed is None or self.end is None else self.end - self.committed.offset


def group_places(
    group: Described, committed: Mapping[TopicPartition, Committed], ends: Mapping[TopicPartition, int | None]
) -> list[GroupPlace]:
    """Return the partitions of members, the busiest member first, then unassigned ones."""
    busiest = sorted(group.members, key=lambda member: (-len(member.assignment), member.member_id))
    owned = [(place, member) for member in busiest for place in member.assignment]
    taken = {place for place, _ in owned}
    free = [(place, None) for place in sorted(committed) if place not in taken]
    return [GroupPlace(place, committed.get(place), ends.get(place), member) for place, member in [*owned, *free]]


async def places_of(groups: Groups, group: Described, *, attempts: int = ATTEMPTS) -> list[GroupPlace]:
    """Return where a group is. Raises KafkaError, Unreachable; the end of a deleted partition is None."""
    committed = await groups.committed(group.group_id)
    places = sorted(set(committed) | {place for member in group.members for place in member.assignment})
    found = await list_offsets(groups.cluster, dict.fromkeys(places, int(Spec.LATEST)), attempts=attempts)
    ends = {place: each.offset if each.error is ErrorCode.NONE else None for place, each in found.items()}
    return group_places(group, committed, ends)


async def places_named(
    cluster: ClusterClient, requested: Iterable[tuple[str, Sequence[int] | None]]
) -> list[TopicPartition]:
    """Return the named partitions, each once; None means all of a topic.

    Raises KafkaError UNKNOWN_TOPIC_OR_PARTITION for a missing topic. Numbers are not checked: a group may have offsets
    of deleted partitions.
    """
    found, refused = await places_there(cluster, requested)
    for topic, code in refused.items():
        refuse(code, f"topic {topic!r}")
    return found


async def places_there(
    cluster: ClusterClient, requested: Iterable[tuple[str, Sequence[int] | None]]
) -> tuple[list[TopicPartition], dict[str, ErrorCode]]:
    """Return the existing partitions as `places_named`; and {topic: error} for topics that are not available."""
    requested = list(requested)
    whole = sorted({topic for topic, partitions in requested if partitions is None})
    known: dict[str, list[int]] = {}
    refused: dict[str, ErrorCode] = {}
    for topic in (await cluster.metadata(whole)).topics if whole else ():
        known[topic.name or ""] = sorted(row.partition_index for row in topic.partitions)
        if topic.error_code:
            refused[topic.name or ""] = code_of(topic.error_code)
    found = [
        TopicPartition(topic, partition)
        for topic, partitions in requested
        for partition in (known[topic] if partitions is None else partitions)
        if partitions is not None or topic not in refused
    ]
    return list(dict.fromkeys(found)), refused


async def planned_reset(
    groups: Groups,
    group_id: str,
    scenario: Scenario,
    places: Sequence[TopicPartition] | None = None,
    *,
    attempts: int = RETRIES,
) -> list[Move]:
    """Return the target offsets in these partitions, or in all with a committed offset; nothing is changed.

    Raises KafkaError if a leader does not return its offsets, ResetError, Unreachable.
    """
    committed = {place: each.offset for place, each in (await groups.committed(group_id)).items()}
    wanted = sorted(committed if places is None else places)
    return plan(scenario, await ends_of(groups.cluster, wanted, scenario, attempts), committed)


async def ends_of(
    cluster: ClusterClient, places: Sequence[TopicPartition], scenario: Scenario, attempts: int
) -> dict[TopicPartition, Ends]:
    """Query the leaders for the offsets of a plan. Raises KafkaError, Unreachable."""
    if not places:
        return {}
    earliest = await known_offsets(cluster, places, Spec.EARLIEST, attempts=attempts)
    latest = await known_offsets(cluster, places, Spec.LATEST, attempts=attempts)
    times: Mapping[TopicPartition, int] = {}
    if scenario.way is Way.TIME:
        times = await known_offsets(cluster, places, scenario.number, attempts=attempts)

    def of_time(place: TopicPartition) -> int | None:
        offset = times.get(place, UNKNOWN_OFFSET)
        return None if offset == UNKNOWN_OFFSET else offset

    return {place: Ends(earliest[place], latest[place], of_time(place)) for place in places}
