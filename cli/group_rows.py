"""What is shown of groups: a row a partition, a member, a group. For `kvorum groups` and kafka-consumer-groups alike.

Source: Kafka's ConsumerGroupCommand (collectGroupsOffsets, collectGroupsMembers, collectGroupsState).
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from kvorum.admin.client import ClusterClient
from kvorum.admin.group_admin import Committed, Group, Groups, Member
from kvorum.admin.partition_offsets import Spec, list_offsets
from kvorum.admin.places import Place, by_topic
from kvorum.protocol.errors import ErrorCode, KafkaError

ATTEMPTS = 4
"""How often a log's end is asked for: a partition without a leader is shown without it, soon."""
REBALANCING = ("PreparingRebalance", "CompletingRebalance", "Assigning", "Reconciling")
STATES = (*REBALANCING, "Stable", "Dead", "Empty", "NotReady")
TYPES = ("Classic", "Consumer", "Share", "Streams")


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


def offset_rows(
    group: Group, committed: Mapping[Place, Committed], ends: Mapping[Place, int | None]
) -> list[OffsetRow]:
    """Return a row a partition: those of members first, of the busiest member first; then those nobody consumes."""

    def row(place: Place, member: Member | None) -> OffsetRow:
        offset, end = committed.get(place), ends.get(place)
        return OffsetRow(
            group=group.group_id,
            topic=place.topic,
            partition=place.partition,
            leader_epoch=offset.leader_epoch if offset is not None and offset.leader_epoch >= 0 else None,
            current_offset=None if offset is None else offset.offset,
            log_end_offset=end,
            lag=None if offset is None or end is None else end - offset.offset,
            consumer_id=member.member_id if member else None,
            host=member.host if member else None,
            client_id=member.client_id if member else None,
        )

    consuming = sorted(group.members, key=lambda member: (-len(member.assignment), member.member_id))
    rows = [row(place, member) for member in consuming for place in sorted(member.assignment)]
    taken = {place for member in group.members for place in member.assignment}
    return rows + [row(place, None) for place in sorted(committed) if place not in taken]


def member_rows(group: Group) -> list[MemberRow]:
    """Return a row a member, by id."""
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
            target_epoch=group.target_epoch if member.epoch is not None else None,
            target_assignment=assignment_text(member.target or ()),
            upgraded=member.upgraded,
        )
        for member in sorted(group.members, key=lambda member: member.member_id)
    ]


def state_row(group: Group) -> StateRow:
    """Return a group's row."""
    host, port = group.coordinator
    return StateRow(
        group=group.group_id,
        coordinator=f"{host}:{port}  ({group.coordinator_id})",
        assignment_strategy=group.assignor,
        state=group.state,
        group_epoch=group.epoch,
        target_assignment_epoch=group.target_epoch,
        members=len(group.members),
    )


def assignment_text(places: Iterable[Place]) -> str:
    """Return an assignment as Kafka 4 writes it: orders:0,1;payments:2."""
    return ";".join(f"{topic}:{','.join(map(str, sorted(parts)))}" for topic, parts in sorted(by_topic(places).items()))


def state_notice(group: Group) -> str | None:
    """Return what is said of a group beside its rows."""
    if group.state == "Empty":
        return f"Consumer group '{group.group_id}' has no active members."
    if group.state in REBALANCING:
        return f"Warning: Consumer group '{group.group_id}' is rebalancing."
    return None


def checked_words(text: str | None, known: Sequence[str], what: str) -> list[str]:
    """Return the words of a list, spelt as Kafka spells them. Raises ValueError for one that is none."""
    spelt = {word.casefold(): word for word in known}
    words = [word.strip() for word in (text or "").split(",") if word.strip()]
    for word in words:
        if word.casefold() not in spelt:
            raise ValueError(f"Invalid {what} list '{text}'. Valid {what}s are: {', '.join(known)}")
    return [spelt[word.casefold()] for word in words]


class Described(NamedTuple):
    """A group, and its rows by partition."""

    group: Group
    rows: list[OffsetRow]


async def group_ids(groups: Groups, given: Sequence[str], everything: bool) -> list[str]:
    """Return the groups that are meant: those that are given, or all consumer groups."""
    if not everything:
        return list(dict.fromkeys(given))
    return [
        listed.group_id
        for listed in await groups.listed()
        if is_consumer_group(listed.group_type, listed.protocol_type)
    ]


def is_consumer_group(group_type: str, protocol_type: str) -> bool:
    """Tell whether a group has consumers, or offsets alone: no worker of Connect, no share or streams group."""
    if group_type.casefold() in ("consumer", ""):
        return protocol_type in ("consumer", "")
    return group_type.casefold() == "classic" and protocol_type in ("consumer", "")


async def described(cluster: ClusterClient, group_id: str) -> Described:
    """Return a group and its rows. Raises KafkaError GROUP_ID_NOT_FOUND, Unreachable."""
    groups = Groups(cluster)
    group = await groups.described(group_id)
    try:
        committed = await groups.committed(group_id)
    except KafkaError as error:
        if error.code is not ErrorCode.GROUP_ID_NOT_FOUND:
            raise
        committed = {}
    places = set(committed) | {place for member in group.members for place in member.assignment}
    found = await list_offsets(cluster, dict.fromkeys(sorted(places), int(Spec.LATEST)), attempts=ATTEMPTS)
    ends = {place: each.offset if each.error is ErrorCode.NONE else None for place, each in found.items()}
    return Described(group, offset_rows(group, committed, ends))
