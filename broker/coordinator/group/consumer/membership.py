"""Checks of member ids and member epochs. Sans-IO.

A static member that returns replaces its former self: one that left temporarily (-2), or, if one of the two uses the
classic protocol, any. Source: Kafka's GroupMetadataManager (getOrMaybeSubscribe...Member, throwIf...).
"""

from dataclasses import replace
from typing import Final

from kvorum.broker.coordinator.group.consumer.draft import Draft
from kvorum.broker.coordinator.group.consumer.reconcile import Owned
from kvorum.broker.coordinator.group.consumer.target import target_of
from kvorum.broker.coordinator.group.words import ConsumerGroup, ConsumerMember, EpochAssignment
from kvorum.protocol.errors import ErrorCode, KafkaError
from kvorum.runtime.logs import get_logger

log = get_logger("groups")

JOIN_EPOCH: Final = 0
LEAVE_EPOCH: Final = -1
LEAVE_FOR_A_WHILE_EPOCH: Final = -2
"""A static member that will be back: its partitions wait for it, until its session ends."""


def require_room(group: ConsumerGroup, member_id: str, size_max: int) -> None:
    """Raise KafkaError GROUP_MAX_SIZE_REACHED unless there is room, or this is a member already."""
    if len(group.members) >= size_max and member_id not in group.members:
        raise KafkaError(
            ErrorCode.GROUP_MAX_SIZE_REACHED,
            f"The consumer group has reached its maximum capacity of {size_max} members.",
        )


def known_member(group: ConsumerGroup, member_id: str) -> ConsumerMember:
    """Return a member. Raises KafkaError UNKNOWN_MEMBER_ID."""
    member = group.members.get(member_id)
    if member is None:
        message = f"Member {member_id} is not a member of group {group.group_id}."
        raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID, message)
    return member


def known_instance(group: ConsumerGroup, instance_id: str, member_id: str | None) -> ConsumerMember:
    """Return a static member if it has this member id (None: any).

    Raises KafkaError UNKNOWN_MEMBER_ID, FENCED_INSTANCE_ID.
    """
    owner = group.static_members.get(instance_id)
    if owner is None:
        raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID, f"Instance id {instance_id} is unknown.")
    if member_id is not None and owner != member_id:
        raise KafkaError(
            ErrorCode.FENCED_INSTANCE_ID,
            f"Static member {member_id} with instance id {instance_id} was fenced by member {owner}.",
        )
    return group.members[owner]


def member_of(group: ConsumerGroup, member_id: str, instance_id: str | None) -> ConsumerMember:
    """Return the member that a request is from. Raises KafkaError UNKNOWN_MEMBER_ID, FENCED_INSTANCE_ID."""
    return known_member(group, member_id) if instance_id is None else known_instance(group, instance_id, member_id)


def require_epoch(member: ConsumerMember, epoch: int, owned: Owned | None) -> None:
    """Raise KafkaError FENCED_MEMBER_EPOCH unless this is the member's epoch, or it joins.

    The previous epoch is accepted too, from a member that owns only target partitions: the response with its new epoch
    may have been lost.
    """
    if epoch in (JOIN_EPOCH, member.member_epoch):
        return
    order = "greater" if epoch > member.member_epoch else "smaller"
    is_lost_answer = order == "smaller" and epoch == member.previous_member_epoch and _is_within(owned, member.assigned)
    if not is_lost_answer:
        raise KafkaError(
            ErrorCode.FENCED_MEMBER_EPOCH,
            f"The consumer group member has a {order} member epoch ({epoch}) than the one known by the group "
            f"coordinator ({member.member_epoch}). The member must abandon all its partitions and rejoin.",
        )


def _is_within(owned: Owned | None, assigned: EpochAssignment) -> bool:
    if owned is None:
        return False
    return all(each in assigned.get(topic_id, ()) for topic_id, numbers in owned.items() for each in numbers)


def joined_dynamic(group: ConsumerGroup, member_id: str) -> ConsumerMember:
    """Return a member that joins: itself, if it is one already."""
    found = group.members.get(member_id)
    return ConsumerMember(member_id=member_id) if found is None else found


def joined_static(draft: Draft, member_id: str, instance_id: str, *, is_classic: bool) -> ConsumerMember:
    """Return a static member that joins, in the place of its former self. Raises KafkaError UNRELEASED_INSTANCE_ID."""
    group = draft.group
    owner = group.static_members.get(instance_id)
    if owner is None:
        return joined_dynamic(group, member_id)
    former = group.members[owner]
    if not is_classic and former.classic is None and former.member_epoch != LEAVE_FOR_A_WHILE_EPOCH:
        raise KafkaError(
            ErrorCode.UNRELEASED_INSTANCE_ID,
            f"Static member {member_id} with instance id {instance_id} cannot join the group because the instance id "
            f"is owned by {owner} member.",
        )
    target = target_of(group, owner)
    draft.remove_member(owner)
    member = replace(former, member_id=member_id, member_epoch=0, previous_member_epoch=0)
    draft.write_subscription(member)
    draft.write_target(member_id, target)
    draft.write_current(member)
    log.info("static member rejoined", group=group.group_id, instance=instance_id, old=owner, new=member_id)
    return draft.group.members[member_id]
