"""Replay of __consumer_offsets records into the state of their partition. Sans-IO, never raises.

A record of a type that is not known (another release's) is stepped over, as Kafka does. Source: GroupCoordinatorShard,
GroupMetadataManager.replay, OffsetMetadataManager.replay and replayEndTransactionMarker.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any, Final, TypeAlias

from rpds import HashTrieMap

from kvorum.broker.coordinator.group.commit_record import NO_EXPIRY, Commit
from kvorum.broker.coordinator.group.words import (
    NO_EPOCH,
    NO_OFFSETS,
    Assignment,
    ClassicGeneration,
    ConsumerGroup,
    ConsumerMember,
    EpochAssignment,
    Group,
    GroupsState,
    MemberState,
    OffsetAndMetadata,
    OffsetKey,
    ResolvedRegex,
)
from kvorum.broker.coordinator.records.classic import GroupMetadataKey, GroupMetadataValue
from kvorum.broker.coordinator.records.codec import (
    GROUP_SHAPES,
    GroupRecordType,
    UnknownRecordType,
    decode_record,
)
from kvorum.broker.coordinator.records.consumer import (
    AssignedPartitions,
    ConsumerGroupMemberMetadataValue,
    ConsumerGroupMetadataValue,
    CurrentMemberAssignmentValue,
    GroupKey,
    MemberKey,
    RegularExpressionKey,
    RegularExpressionValue,
    TargetAssignmentMemberValue,
    TargetAssignmentMetadataValue,
)
from kvorum.broker.coordinator.records.offsets import OffsetCommitKey, OffsetCommitValue
from kvorum.broker.coordinator.runtime.words import CoordinatorRecord, Producer
from kvorum.protocol.batch_header import NO_PRODUCER_ID
from kvorum.protocol.errors import ProtocolError
from kvorum.protocol.uuids import Uuid
from kvorum.runtime.logs import get_logger

log = get_logger("coordinator")

Type = GroupRecordType
# Key and value are of the type's own classes, which a common table cannot express.
Replay: TypeAlias = Callable[[GroupsState, Any, Any], GroupsState]


def replay(state: GroupsState, offset: int, record: CoordinatorRecord, producer: Producer) -> GroupsState:
    """Return the state after the record at this offset."""
    content = record.content
    if isinstance(content, Commit):
        return replay_offset(state, offset, content.group_id, content.key, content.value, producer.producer_id)
    try:
        record_type, key, value = decode_record(GROUP_SHAPES, record)
    except UnknownRecordType as error:
        log.warning("record of unknown type ignored", offset=offset, record=error)
        return state
    except ProtocolError as error:
        log.error("record that cannot be decoded ignored", offset=offset, error=error)
        return state
    if isinstance(key, OffsetCommitKey):
        assert value is None or isinstance(value, OffsetCommitValue), "decoded by the same shape"
        what = OffsetKey(key.topic, key.partition)
        return replay_offset(state, offset, key.group, what, value, producer.producer_id)
    return REPLAYS[Type(record_type)](state, key, value)


# --- offsets ----------------------------------------------------------------------------------------------------------


def replay_offset(
    state: GroupsState, offset: int, group_id: str, what: OffsetKey, value: OffsetCommitValue | None, producer_id: int
) -> GroupsState:
    """Return the state behind a commit, or behind the tombstone of one."""
    if value is None:
        return without_offset(state, group_id, what)
    found = OffsetAndMetadata(
        value.offset,
        value.leader_epoch,
        value.metadata,
        commit_timestamp_ms=value.commit_timestamp,
        expire_timestamp_ms=None if value.expire_timestamp == NO_EXPIRY else value.expire_timestamp,
        record_offset=offset,
        topic_id=value.topic_id,
    )
    groups, by_group, pending = state
    if group_id not in groups:
        groups = groups.insert(group_id, ClassicGeneration(group_id, GroupMetadataValue()))
    if producer_id == NO_PRODUCER_ID:
        offsets = (by_group.get(group_id) or NO_OFFSETS).insert(what, found)
        return GroupsState(groups, by_group.insert(group_id, offsets), pending)
    mine = pending.get(producer_id) or HashTrieMap()
    offsets = (mine.get(group_id) or NO_OFFSETS).insert(what, found)
    return GroupsState(groups, by_group, pending.insert(producer_id, mine.insert(group_id, offsets)))


def without_offset(state: GroupsState, group_id: str, key: OffsetKey) -> GroupsState:
    """Return the state without one committed offset, and without its pending ones, as in Kafka."""
    offsets = state.group_offsets(group_id).discard(key)
    by_group = state.offsets.insert(group_id, offsets) if offsets else state.offsets.discard(group_id)
    pending = state.pending
    for producer_id, groups in state.pending.items():
        mine = groups.get(group_id)
        if mine is None or key not in mine:
            continue
        mine = mine.remove(key)
        groups = groups.insert(group_id, mine) if mine else groups.remove(group_id)
        pending = pending.insert(producer_id, groups) if groups else pending.remove(producer_id)
    return state._replace(offsets=by_group, pending=pending)


def replay_marker(state: GroupsState, producer: Producer, is_commit: bool) -> GroupsState:
    """Return the state after the end of a transaction: its pending commits count, or are dropped.

    Of a commit within the transaction and one outside it, the later one counts.
    """
    groups = state.pending.get(producer.producer_id)
    if groups is None:
        return state
    offsets = state.offsets
    if is_commit:
        for group_id, pending in groups.items():
            mine = offsets.get(group_id) or NO_OFFSETS
            for key, found in pending.items():
                before = mine.get(key)
                if before is None or before.record_offset < found.record_offset:
                    mine = mine.insert(key, found)
            offsets = offsets.insert(group_id, mine)
    return state._replace(offsets=offsets, pending=state.pending.remove(producer.producer_id))


# --- groups -----------------------------------------------------------------------------------------------------------


def replay_classic(state: GroupsState, key: GroupMetadataKey, value: GroupMetadataValue | None) -> GroupsState:
    """Return the state behind a generation; its tombstone forgets a classic group, never one that was converted."""
    if value is not None:
        return with_group(state, ClassicGeneration(key.group, value))
    if isinstance(state.groups.get(key.group), ClassicGeneration):
        return state._replace(groups=state.groups.remove(key.group))
    return state


def consumer_group(state: GroupsState, group_id: str) -> ConsumerGroup:
    """Return a consumer group, a new one in the place of none or of a classic one (conversion)."""
    group = state.groups.get(group_id)
    return group if isinstance(group, ConsumerGroup) else ConsumerGroup(group_id=group_id)


def with_group(state: GroupsState, group: Group) -> GroupsState:
    """Return the state with this group replaced."""
    return state._replace(groups=state.groups.insert(group.group_id, group))


def replay_group(state: GroupsState, key: GroupKey, value: ConsumerGroupMetadataValue | None) -> GroupsState:
    """Group epoch and metadata hash; the tombstone forgets the group."""
    if value is None:
        if isinstance(state.groups.get(key.group_id), ConsumerGroup):
            return state._replace(groups=state.groups.remove(key.group_id))
        return state
    group = consumer_group(state, key.group_id)
    return with_group(state, replace(group, group_epoch=value.epoch, metadata_hash=value.metadata_hash))


def replay_partition_metadata(state: GroupsState, key: GroupKey, value: object) -> GroupsState:
    """Topic metadata of earlier releases; it is not used any more (KIP-1101), and the next change removes it."""
    group = state.groups.get(key.group_id)
    if value is None:
        if not isinstance(group, ConsumerGroup):
            return state
        return with_group(state, replace(group, has_partition_metadata=False))
    return with_group(state, replace(consumer_group(state, key.group_id), has_partition_metadata=True))


def replay_member(state: GroupsState, key: MemberKey, value: ConsumerGroupMemberMetadataValue | None) -> GroupsState:
    """A member's subscription; the tombstone forgets the member."""
    if value is None:
        return _without_member(state, key)
    group = consumer_group(state, key.group_id)
    before = group.members.get(key.member_id)
    member = replace(
        before or ConsumerMember(member_id=key.member_id),
        instance_id=value.instance_id,
        rack_id=value.rack_id,
        client_id=value.client_id,
        client_host=value.client_host,
        subscribed_topic_names=tuple(sorted(value.subscribed_topic_names)),
        subscribed_topic_regex=value.subscribed_topic_regex or "",
        rebalance_timeout_ms=value.rebalance_timeout_ms,
        server_assignor=value.server_assignor,
        classic=value.classic_member_metadata,
    )
    static = group.static_members
    if before is not None and before.instance_id is not None and static.get(before.instance_id) == key.member_id:
        static = static.remove(before.instance_id)
    if member.instance_id is not None:
        static = static.insert(member.instance_id, key.member_id)
    members = group.members.insert(key.member_id, member)
    return with_group(state, replace(group, members=members, static_members=static))


def _without_member(state: GroupsState, key: MemberKey) -> GroupsState:
    group = state.groups.get(key.group_id)
    if not isinstance(group, ConsumerGroup) or key.member_id not in group.members:
        return state
    member, static = group.members[key.member_id], group.static_members
    if member.instance_id is not None and static.get(member.instance_id) == key.member_id:
        static = static.remove(member.instance_id)
    members, owners = group.members.remove(key.member_id), owners_after(group, member, None)
    return with_group(state, replace(group, members=members, static_members=static, owners=owners))


Owners: TypeAlias = "HashTrieMap[tuple[Uuid, int], str]"


def owners_after(group: ConsumerGroup, before: ConsumerMember | None, after: ConsumerMember | None) -> Owners:
    """Return the owners of partitions after a member changed its partitions. Cost: the member's partitions."""
    owners = group.owners
    if before is not None:
        for key in partitions_of(before):
            if owners.get(key) == before.member_id:
                owners = owners.remove(key)
    if after is not None:
        for key in partitions_of(after):
            owners = owners.insert(key, after.member_id)
    return owners


def partitions_of(member: ConsumerMember) -> Iterator[tuple[Uuid, int]]:
    """Iterate over a member's partitions, including those that it has not revoked yet."""
    for rows in (member.assigned, member.pending_revocation):
        for topic_id, partitions in rows.items():
            for partition in partitions:
                yield topic_id, partition


def replay_target_epoch(state: GroupsState, key: GroupKey, value: TargetAssignmentMetadataValue | None) -> GroupsState:
    """The epoch of the target assignment; a tombstone removes it."""
    group = state.groups.get(key.group_id)
    if value is None:
        if not isinstance(group, ConsumerGroup):
            return state
        return with_group(state, replace(group, assignment_epoch=NO_EPOCH, assignment_timestamp_ms=0))
    group = consumer_group(state, key.group_id)
    epoch, timestamp_ms = value.assignment_epoch, value.assignment_timestamp
    return with_group(state, replace(group, assignment_epoch=epoch, assignment_timestamp_ms=timestamp_ms))


def replay_target(state: GroupsState, key: MemberKey, value: TargetAssignmentMemberValue | None) -> GroupsState:
    """Replay a member's target assignment."""
    if value is None:
        group = state.groups.get(key.group_id)
        if not isinstance(group, ConsumerGroup):
            return state
        return with_group(state, replace(group, target=group.target.discard(key.member_id)))
    group = consumer_group(state, key.group_id)
    target: Assignment = {row.topic_id: frozenset(row.partitions) for row in value.topic_partitions}
    return with_group(state, replace(group, target=group.target.insert(key.member_id, target)))


def replay_current(state: GroupsState, key: MemberKey, value: CurrentMemberAssignmentValue | None) -> GroupsState:
    """Replay a member's current assignment; the tombstone empties it, at the epoch of a member that left."""
    if value is None:
        group = state.groups.get(key.group_id)
        if not isinstance(group, ConsumerGroup) or key.member_id not in group.members:
            return state
        left = replace(
            group.members[key.member_id],
            member_epoch=-1,
            previous_member_epoch=-1,
            state=MemberState.STABLE,
            assigned={},
            pending_revocation={},
        )
        owners = owners_after(group, group.members[key.member_id], None)
        return with_group(state, replace(group, members=group.members.insert(key.member_id, left), owners=owners))
    group = consumer_group(state, key.group_id)
    states = {each.value for each in MemberState}
    before = group.members.get(key.member_id)
    member = replace(
        before or ConsumerMember(member_id=key.member_id),
        member_epoch=value.member_epoch,
        previous_member_epoch=value.previous_member_epoch,
        state=MemberState(value.state) if value.state in states else MemberState.UNKNOWN,
        assigned=with_epochs(value.assigned_partitions, value.member_epoch),
        pending_revocation=with_epochs(value.partitions_pending_revocation, value.member_epoch),
    )
    members, owners = group.members.insert(key.member_id, member), owners_after(group, before, member)
    return with_group(state, replace(group, members=members, owners=owners))


def with_epochs(rows: list[AssignedPartitions], member_epoch: int) -> EpochAssignment:
    """Return the partitions with the epoch of their assignment; earlier releases did not write it.

    The member's epoch is used then, 0 if it has left temporarily (-2).
    """
    found = {}
    for row in rows:
        epochs = row.assignment_epochs
        if epochs is None or len(epochs) != len(row.partitions):
            epochs = [max(member_epoch, 0)] * len(row.partitions)
        found[row.topic_id] = dict(zip(row.partitions, epochs, strict=True))
    return found


def replay_regex(state: GroupsState, key: RegularExpressionKey, value: RegularExpressionValue | None) -> GroupsState:
    """The topics of a pattern."""
    if value is None:
        group = state.groups.get(key.group_id)
        if not isinstance(group, ConsumerGroup):
            return state
        return with_group(state, replace(group, regexes=group.regexes.discard(key.regular_expression)))
    group = consumer_group(state, key.group_id)
    found = ResolvedRegex(frozenset(value.topics), value.version, value.timestamp)
    return with_group(state, replace(group, regexes=group.regexes.insert(key.regular_expression, found)))


REPLAYS: Final[Mapping[GroupRecordType, Replay]] = {
    Type.GROUP_METADATA: replay_classic,
    Type.CONSUMER_GROUP_METADATA: replay_group,
    Type.CONSUMER_GROUP_PARTITION_METADATA: replay_partition_metadata,
    Type.CONSUMER_GROUP_MEMBER_METADATA: replay_member,
    Type.CONSUMER_GROUP_TARGET_ASSIGNMENT_METADATA: replay_target_epoch,
    Type.CONSUMER_GROUP_TARGET_ASSIGNMENT_MEMBER: replay_target,
    Type.CONSUMER_GROUP_CURRENT_MEMBER_ASSIGNMENT: replay_current,
    Type.CONSUMER_GROUP_REGULAR_EXPRESSION: replay_regex,
}
