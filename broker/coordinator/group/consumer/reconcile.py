"""One member's steps from its current to its target assignment.

Sans-IO, pure.

    STABLE                  at the target's epoch, with its target; or behind, then it advances at its next heartbeat
    UNREVOKED_PARTITIONS    has to revoke partitions; continues when it reports the revocation
    UNRELEASED_PARTITIONS   at the target's epoch, without partitions that others have not revoked yet

    first revoke partitions outside the target (the epoch stays), then receive free ones (the epoch is the target's)

So no partition has two owners: it is assigned only when no member owns it (`owners`), and a member that has to revoke
it owns it until it reports the revocation. Source: Kafka's CurrentAssignmentBuilder (KIP-848, KIP-1251 for the epochs).
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from typing import TypeAlias, assert_never

from kvorum.broker.coordinator.group.words import Assignment, ConsumerMember, EpochAssignment, MemberState
from kvorum.protocol.errors import ErrorCode, KafkaError
from kvorum.protocol.uuids import Uuid

Owned: TypeAlias = Mapping[Uuid, Collection[int]]
"""Partitions that a member reports as owned, by topic."""
State = MemberState


@dataclass(frozen=True, slots=True, kw_only=True)
class Goal:
    """The target of a member, and the state for its next step."""

    epoch: int
    target: Assignment
    subscribed: frozenset[Uuid]
    """The topics it subscribes to; it gets no partitions of others, whatever the target contains."""
    has_new_subscription: bool
    owners: Mapping[tuple[Uuid, int], str]
    owned: Owned | None
    """Owned partitions in the heartbeat; None: not included."""


def reconciled(member: ConsumerMember, goal: Goal) -> ConsumerMember:
    """Return the member after the next step, itself if it cannot advance. Raises KafkaError FENCED_MEMBER_EPOCH."""
    match member.state:
        case State.STABLE:
            if member.member_epoch != goal.epoch:
                return _next(member, member.member_epoch, goal)
            return _without_unsubscribed(member, goal) if goal.has_new_subscription else member
        case State.UNREVOKED_PARTITIONS:
            if not has_any(goal.owned, member.pending_revocation):
                return _next(member, member.member_epoch, goal)
            return _without_unsubscribed(member, goal) if goal.has_new_subscription else member
        case State.UNRELEASED_PARTITIONS:
            return _next(member, member.member_epoch, goal)
        case State.UNKNOWN:
            if goal.owned is None or goal.owned:
                raise KafkaError(
                    ErrorCode.FENCED_MEMBER_EPOCH,
                    "The consumer group member is in a unknown state. "
                    "The member must abandon all its partitions and rejoin.",
                )
            return _next(member, goal.epoch, goal)
    assert_never(member.state)


def has_any(owned: Owned | None, partitions: EpochAssignment) -> bool:
    """Return whether a member has, or may have, one of these; it may, if it did not report them."""
    if owned is None:
        return True
    return any(each in partitions.get(topic_id, ()) for topic_id, numbers in owned.items() for each in numbers)


def _without_unsubscribed(member: ConsumerMember, goal: Goal) -> ConsumerMember:
    """Revoke the topics that it no longer subscribes to, between two epochs."""
    gone = {topic_id: rows for topic_id, rows in member.assigned.items() if topic_id not in goal.subscribed}
    if not gone:
        return member
    assigned = {topic_id: rows for topic_id, rows in member.assigned.items() if topic_id not in gone}
    pending = dict(member.pending_revocation)
    for topic_id, rows in gone.items():
        pending[topic_id] = {**pending.get(topic_id, {}), **rows}
    moved = _at(member, member.member_epoch, assigned)
    if has_any(goal.owned, pending):
        return replace(moved, state=State.UNREVOKED_PARTITIONS, pending_revocation=pending)
    return moved


def _next(member: ConsumerMember, epoch: int, goal: Goal) -> ConsumerMember:
    kept: dict[Uuid, dict[int, int]] = {}
    revoked: dict[Uuid, dict[int, int]] = {}
    free: dict[Uuid, list[int]] = {}
    has_unreleased = False
    for topic_id in {*goal.target, *member.assigned}:
        target = goal.target.get(topic_id, frozenset()) if topic_id in goal.subscribed else frozenset()
        current = member.assigned.get(topic_id, {})
        staying = {each: since for each, since in current.items() if each in target}
        leaving = {each: since for each, since in current.items() if each not in target}
        if staying:
            kept[topic_id] = staying
        if leaving:
            revoked[topic_id] = leaving
        for each in target:
            if each in staying:
                continue
            # Partitions that it had to revoke are free for it again: it has just reported that it does not own them.
            owner = goal.owners.get((topic_id, each))
            if owner is None or owner == member.member_id:
                free.setdefault(topic_id, []).append(each)
            else:
                has_unreleased = True
    if revoked and has_any(goal.owned, revoked):
        return replace(_at(member, epoch, kept), state=State.UNREVOKED_PARTITIONS, pending_revocation=revoked)
    for topic_id, numbers in free.items():
        kept.setdefault(topic_id, {}).update(dict.fromkeys(numbers, goal.epoch))
    state = State.UNRELEASED_PARTITIONS if has_unreleased else State.STABLE
    return replace(_at(member, goal.epoch, kept), state=state, pending_revocation={})


def _at(member: ConsumerMember, epoch: int, assigned: EpochAssignment) -> ConsumerMember:
    return replace(member, member_epoch=epoch, previous_member_epoch=member.member_epoch, assigned=assigned)
