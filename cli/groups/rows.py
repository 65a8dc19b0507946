"""Rows of groups: per partition, member or group. For `kvorum groups` and kafka-consumer-groups.

Source: Kafka's ConsumerGroupCommand (collectGroupsOffsets, collectGroupsMembers, collectGroupsState).
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from kvorum.client.groups.groups import Groups, Listed
from kvorum.client.groups.members import Described
from kvorum.client.groups.offsets import GroupPlace, places_of
from kvorum.client.wire.cluster_client import ClusterClient
from kvorum.protocol.topic_partition import TopicPartition, by_topic

REBALANCING = ("PreparingRebalance", "CompletingRebalance", "Assigning", "Reconciling")
STATES = (*REBALANCING, "Stable", "Dead", "Empty", "NotReady")
TYPES = ("Classic", "Consumer", "Share", "Streams")
TYPES_OF_CONSUMERS = TYPES[:2]
SPELT: Mapping[str, str] = {word.casefold(): word for word in TYPES}
"""Types as Kafka's tools write them; in responses they may be in lower case."""


class OffsetRow(NamedTuple):
    """A partition that a group consumes, or has committed an offset of."""

    group: str
    topic: str
    partition: int
    leader_epoch: int | None
    current_offset: int | None
    log_end_offset: int | None
    lag: int | None
    consumer_id: str | None
    host: str | None
    client_id: str | None


class MemberRow(NamedTuple):
    """A member."""

    group: str
    consumer_id: str
    group_instance_id: str | None
    host: str
    client_id: str
    partitions: int
    assignment: str
    epoch: int | None
    target_epoch: int | None
    target_assignment: str
    upgraded: bool | None


class StateRow(NamedTuple):
    """A group."""

    group: str
    coordinator: str
    assignment_strategy: str
    state: str
    group_epoch: int | None
    target_assignment_epoch: int | None
    members: int


def offset_row(group: Described, found: GroupPlace) -> OffsetRow:
    """Return a partition's row."""
    committed, member = found.committed, found.member
    return OffsetRow(
        group=group.group_id,
        topic=found.place.topic,
        partition=found.place.partition,
        leader_epoch=committed.leader_epoch if committed is not None and committed.leader_epoch >= 0 else None,
        current_offset=None if committed is None else committed.offset,
        log_end_offset=found.end,
        lag=found.lag,
        consumer_id=member.member_id if member else None,
        host=member.host if member else None,
        client_id=member.client_id if member else None,
    )


def member_rows(group: Described) -> list[MemberRow]:
    """Return one row per member, by id."""
    return [
        MemberRow(
            group=group.group_id,
            consumer_id=member.member_id,
            group_instance_id=member.instance_id or None,
            host=member.host,
            client_id=member.client_id,
            partitions=len(member.assignment),
            assignment=assignment_text(member.assignment),
            epoch=member.epoch,
            target_epoch=group.assignment_epoch if member.epoch is not None else None,
            target_assignment=assignment_text(member.target or ()),
            upgraded=member.upgraded,
        )
        for member in sorted(group.members, key=lambda member: member.member_id)
    ]


def state_row(group: Described) -> StateRow:
    """Return a group's row."""
    host, port = group.coordinator
    return StateRow(
        group=group.group_id,
        coordinator=f"{host}:{port}  ({group.coordinator_id})",
        assignment_strategy=group.protocol,
        state=group.state,
        group_epoch=group.epoch,
        target_assignment_epoch=group.assignment_epoch,
        members=len(group.members),
    )


def assignment_text(places: Iterable[TopicPartition]) -> str:
    """Return an assignment as Kafka 4 writes it: orders:0,1;payments:2."""
    return ";".join(f"{topic}:{','.join(map(str, sorted(parts)))}" for topic, parts in sorted(by_topic(places).items()))


def state_notice(group: Described) -> str | None:
    """Return the notice about a group beside its rows."""
    if group.state == "Empty":
        return f"Consumer group '{group.group_id}' has no active members."
    if group.state in REBALANCING:
        return f"Warning: Consumer group '{group.group_id}' is rebalancing."
    return None


def list_row(listed: Listed) -> dict[str, str]:
    """Return a group's row in a list."""
    return {
        "group": listed.group_id,
        "type": SPELT.get(listed.type, listed.type),
        "protocol": listed.protocol_type,
        "state": listed.state,
    }


def checked_words(text: str | None, known: Sequence[str], what: str) -> list[str]:
    """Return the words of a list, spelt as Kafka spells them. Raises ValueError for an invalid one."""
    spelt = {word.casefold(): word for word in known}
    words = [word.strip() for word in (text or "").split(",") if word.strip()]
    for word in words:
        if word.casefold() not in spelt:
            raise ValueError(f"Invalid {what} list '{text}'. Valid {what}s are: {', '.join(known)}")
    return [spelt[word.casefold()] for word in words]


class GroupRows(NamedTuple):
    """A group, and its rows by partition."""

    group: Described
    rows: list[OffsetRow]


async def group_ids(groups: Groups, given: Sequence[str], everything: bool) -> list[str]:
    """Return the groups that are meant: those that are given, or all consumer groups."""
    if not everything:
        return list(dict.fromkeys(given))
    return [listed.group_id for listed in await groups.listed() if listed.is_of_consumers]


async def group_rows(cluster: ClusterClient, group_id: str) -> GroupRows:
    """Return a group and its rows. Raises KafkaError GROUP_ID_NOT_FOUND, Unreachable."""
    groups = Groups(cluster)
    group = await groups.described(group_id)
    return GroupRows(group, [offset_row(group, each) for each in await places_of(groups, group)])
