"""The classic protocol's requests within a consumer group: members of both protocols side by side (KIP-848). Sans-IO.

    JoinGroup    topics come from its subscription, partitions from its owned ones; its generation
                 is its member epoch, and it is never the leader
    SyncGroup    its assignment, in the embedded protocol
    Heartbeat    REBALANCE_IN_PROGRESS if it has to rejoin: to revoke partitions, or to receive some
    LeaveGroup   as leaving with -1

A member that has to rejoin has its rebalance timeout for it, and another one for the sync after the join. A static
member that replaces the last one of the consumer protocol makes the group a classic one. Source: Kafka's
GroupMetadataManager (classicGroupJoinToConsumerGroup, classicGroupSyncToConsumerGroup,
classicGroup{Heartbeat,Leave}ToConsumerGroup).
"""

from collections import Counter
from collections.abc import Collection
from dataclasses import replace
from random import Random

from kvorum.broker.coordinator.group.classic.joining import Join, shown_reason
from kvorum.broker.coordinator.group.classic.words import MEMBER_ID_REQUIRED_FROM, Change, SyncAnswer
from kvorum.broker.coordinator.group.consumer.conversion import assignment_bytes, by_topic_id, classic_metadata
from kvorum.broker.coordinator.group.consumer.draft import Draft
from kvorum.broker.coordinator.group.consumer.groups import ConsumerGroups
from kvorum.broker.coordinator.group.consumer.membership import (
    joined_dynamic,
    joined_static,
    known_instance,
    known_member,
    member_of,
    require_room,
)
from kvorum.broker.coordinator.group.consumer.regexes import Regexes, RegexUpdate
from kvorum.broker.coordinator.group.consumer.target import target_of
from kvorum.broker.coordinator.group.consumer.timers import Deadline
from kvorum.broker.coordinator.group.words import (
    CONSUMER_PROTOCOL_TYPE,
    ConsumerGroup,
    ConsumerMember,
    MemberState,
)
from kvorum.broker.coordinator.records.consumer import ClassicMemberMetadata, ClassicProtocol
from kvorum.protocol.consumer_protocol import ConsumerSubscription, assignment_version, read_subscription
from kvorum.protocol.errors import ErrorCode, KafkaError, ProtocolError
from kvorum.protocol.messages.heartbeat import HeartbeatRequest
from kvorum.protocol.messages.join_group import JoinGroupResponse
from kvorum.protocol.messages.leave_group import MemberIdentity, MemberResponse
from kvorum.protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse
from kvorum.protocol.uuids import Uuid
from kvorum.runtime.chance import random_uuid_bytes
from kvorum.runtime.logs import get_logger

log = get_logger("groups")


class ClassicMembers:
    """Requests of classic-protocol members of consumer groups. One per shard."""

    def __init__(self, groups: ConsumerGroups, regexes: Regexes, rng: Random) -> None:
        """Member ids are drawn from `rng`."""
        self._groups = groups
        self._regexes = regexes
        self._rng = rng

    # --- JoinGroup ---------------------------------------------------------------------------------------------------

    def join(self, group: ConsumerGroup, join: Join) -> Change:
        """Decide on a join, which is answered when it is committed, or refused at once."""
        try:
            return self._join(group, join)
        except KafkaError as error:
            return join.refuse(error.code, join.request.member_id)

    def _join(self, group: ConsumerGroup, join: Join) -> Change:
        request = join.request
        is_unknown = not request.member_id
        member_id = request.member_id or str(Uuid(random_uuid_bytes(self._rng)))
        require_room(group, member_id, self._groups.settings.size_max)
        require_common_protocol(group, request.protocol_type, {name for name, _ in join.protocols})
        if is_unknown and request.group_instance_id is None and join.client.api_version >= MEMBER_ID_REQUIRED_FROM:
            return join.refuse(ErrorCode.MEMBER_ID_REQUIRED, member_id)
        subscription = _subscription_of(join.protocols[0].metadata)
        draft = Draft(group)
        member, former = self._member(draft, join, member_id, is_unknown=is_unknown)
        replaces_last = (
            former is not None
            and former.classic is None
            and all(each.classic is not None for each in group.members.values() if each is not former)
            and self._groups.may_be_classic(group.group_id, len(group.members))
        )
        before = draft.group.members.get(member_id)
        updated = replace(
            member,
            instance_id=request.group_instance_id or member.instance_id,
            rack_id=subscription.rack_id or member.rack_id,
            rebalance_timeout_ms=join.rebalance_timeout_ms,
            subscribed_topic_names=tuple(sorted(set(subscription.topics))),
            subscribed_topic_regex="",
            client_id=join.client.client_id,
            client_host=join.client.client_host,
            classic=classic_metadata(request.session_timeout, join.protocols),
        )
        bumps = self._take(draft, before, updated)
        owned = by_topic_id(subscription.owned_partitions, self._groups.image.topics)
        if replaces_last:
            is_behind = draft.group.assignment_epoch < draft.group.group_epoch
            if not is_behind:
                updated = self._groups.reconcile(draft, member_id, owned, has_new_subscription=bumps)
            reason = "a static member uses the classic protocol now, and not all members have their target assignment"
            end = self._groups.downgrade(draft.group, (), None if is_settled(draft.group) else reason)
            return self._answered(join, updated, Change((*draft.records, *end.records), end.outcome), is_classic=True)
        self._groups.update_target(draft)
        updated = self._groups.reconcile(draft, member_id, owned, has_new_subscription=bumps)
        return self._answered(join, updated, Change(draft.records), is_classic=False)

    def _member(
        self, draft: Draft, join: Join, member_id: str, *, is_unknown: bool
    ) -> tuple[ConsumerMember, ConsumerMember | None]:
        """Return the member that joins, and the static one in whose place it comes, if it does."""
        group, instance_id = draft.group, join.request.group_instance_id
        if instance_id is None:
            return joined_dynamic(group, member_id), None
        if not is_unknown:
            member = known_instance(group, instance_id, member_id)
            return member, member
        owner = group.static_members.get(instance_id)
        former = None if owner is None else group.members[owner]
        return joined_static(draft, member_id, instance_id, is_classic=True), former

    def _take(self, draft: Draft, before: ConsumerMember | None, updated: ConsumerMember) -> bool:
        """Write the changes of a member and increase the group's epoch for them; return whether its topics changed."""
        was = ConsumerMember(member_id=updated.member_id) if before is None else before
        has_new_names = updated.subscribed_topic_names != was.subscribed_topic_names
        regex_update = self._regexes.update(draft, was, updated, None)
        bumps = has_new_names or regex_update is not RegexUpdate.NONE
        if bumps or self._groups.is_stale(draft.group):
            self._groups.refresh(draft, bumps=bumps)
        return bumps

    def _answered(self, join: Join, member: ConsumerMember, change: Change, *, is_classic: bool) -> Change:
        """Answer a join once it is committed; then its sync is waited for."""
        group_id, groups = join.request.group_id, self._groups
        response = JoinGroupResponse(
            member_id=member.member_id,
            generation_id=member.member_epoch,
            protocol_type=CONSUMER_PROTOCOL_TYPE,
            protocol_name=join.protocols[0].name,
        )

        def outcome(error: KafkaError | None) -> None:
            if change.outcome is not None:
                change.outcome(error)
            if error is not None:
                return  # the writer answers
            groups.timers.end(Deadline.JOIN, group_id, member.member_id)
            if not is_classic:
                groups.renew_session(group_id, member)
                groups.await_member(Deadline.SYNC, group_id, member.member_id, join.rebalance_timeout_ms)
            join.answer(response)

        return Change(change.records, outcome)

    # --- SyncGroup ---------------------------------------------------------------------------------------------------

    def sync(self, group: ConsumerGroup, request: SyncGroupRequest, answer: SyncAnswer) -> Change:
        """Decide on a sync. The response is sent when the state that it depends on is committed; errors at once."""
        try:
            member, classic = classic_member(group, request.member_id, request.group_instance_id)
            require_generation(member, request.generation_id)
            self._require_protocol(classic, request)
            if group.assignment_epoch > member.member_epoch and member.state is not MemberState.UNREVOKED_PARTITIONS:
                self._await_join(group.group_id, member)
                raise KafkaError(ErrorCode.REBALANCE_IN_PROGRESS)
        except KafkaError as error:
            answer(SyncGroupResponse(error_code=error.code))
            return Change()
        version = assignment_version(bytes(first_protocol(classic).metadata))
        data = assignment_bytes(member.assigned, self._groups.image.topics, version)
        response = SyncGroupResponse(
            protocol_type=request.protocol_type, protocol_name=request.protocol_name, assignment=data
        )

        def outcome(error: KafkaError | None) -> None:
            if error is not None:
                return  # the writer answers
            self._groups.timers.end(Deadline.SYNC, group.group_id, member.member_id)
            self._groups.renew_session(group.group_id, member)
            answer(response)

        return Change((), outcome)

    def _require_protocol(self, classic: ClassicMemberMetadata, request: SyncGroupRequest) -> None:
        name = first_protocol(classic).name
        if request.protocol_type not in (None, CONSUMER_PROTOCOL_TYPE) or request.protocol_name not in (None, name):
            raise KafkaError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, f"the member joined with protocol {name}")

    def _await_join(self, group_id: str, member: ConsumerMember) -> None:
        """Start one rebalance timeout within which the member must rejoin, unless it is already running."""
        if not self._groups.timers.has(Deadline.JOIN, group_id, member.member_id):
            self._groups.await_member(Deadline.JOIN, group_id, member.member_id, member.rebalance_timeout_ms)

    # --- Heartbeat, LeaveGroup ---------------------------------------------------------------------------------------

    def heartbeat(self, group: ConsumerGroup, request: HeartbeatRequest) -> ErrorCode:
        """Renew a member's session; return REBALANCE_IN_PROGRESS if it must rejoin.

        Raises KafkaError UNKNOWN_MEMBER_ID, FENCED_INSTANCE_ID, ILLEGAL_GENERATION.
        """
        member, _ = classic_member(group, request.member_id, request.group_instance_id)
        require_generation(member, request.generation_id)
        self._groups.renew_session(group.group_id, member)
        has_to_join = (
            member.member_epoch < group.assignment_epoch
            or member.state is MemberState.UNREVOKED_PARTITIONS
            or (member.state is MemberState.UNRELEASED_PARTITIONS and not waits_for_others(group, member))
        )
        if not has_to_join:
            return ErrorCode.NONE
        self._await_join(group.group_id, member)
        return ErrorCode.REBALANCE_IN_PROGRESS

    def leave(self, group: ConsumerGroup, members: list[MemberIdentity]) -> tuple[Change, list[MemberResponse]]:
        """Let members go, several at once, of either protocol; a row for each."""
        rows, gone = [], {}
        for identity in members:
            row = MemberResponse(member_id=identity.member_id, group_instance_id=identity.group_instance_id)
            rows.append(row)
            try:
                if identity.group_instance_id is None:
                    member = known_member(group, identity.member_id)
                else:
                    member = known_instance(group, identity.group_instance_id, identity.member_id or None)
            except KafkaError as error:
                row.error_code = error.code
                continue
            gone[member.member_id] = member
            reason = shown_reason(identity.reason)
            log.info("member left", group=group.group_id, member=member.member_id, reason=reason)
        return self._groups.fence(group, list(gone.values())), rows


def require_common_protocol(group: ConsumerGroup, protocol_type: str, names: Collection[str]) -> None:
    """Raise KafkaError INCONSISTENT_GROUP_PROTOCOL unless all members of the classic protocol support one of these."""
    classic = [member.classic for member in group.members.values() if member.classic is not None]
    speakers = Counter(row.name for each in classic for row in each.supported_protocols)
    is_common = any(speakers[name] == len(classic) for name in names)
    if protocol_type != CONSUMER_PROTOCOL_TYPE or not is_common:
        raise KafkaError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, "the protocols do not match those of the group")


def classic_member(
    group: ConsumerGroup, member_id: str, instance_id: str | None
) -> tuple[ConsumerMember, ClassicMemberMetadata]:
    """Return a member that uses the classic protocol. Raises KafkaError UNKNOWN_MEMBER_ID, FENCED_INSTANCE_ID."""
    member = member_of(group, member_id, instance_id)
    if member.classic is None:
        raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID, f"Member {member_id} does not use the classic protocol.")
    return member, member.classic


def first_protocol(classic: ClassicMemberMetadata) -> ClassicProtocol:
    """Return the protocol a member likes best, which is the one it is answered in."""
    return next(iter(classic.supported_protocols), ClassicProtocol())


def require_generation(member: ConsumerMember, generation: int) -> None:
    """Raise KafkaError ILLEGAL_GENERATION for any but the member's epoch."""
    if generation != member.member_epoch:
        raise KafkaError(
            ErrorCode.ILLEGAL_GENERATION, f"generation {generation} is not the current generation {member.member_epoch}"
        )


def is_settled(group: ConsumerGroup) -> bool:
    """Return whether every member has reached the newest target.

    Kafka checks only whether there is such a target: a member that waited for partitions would then, in the classic
    group, get none until another event causes a rebalance.
    """
    epoch = group.group_epoch
    members = group.members.values()
    return all(each.state is MemberState.STABLE and each.member_epoch == epoch for each in members)


def waits_for_others(group: ConsumerGroup, member: ConsumerMember) -> bool:
    """Return whether another member still owns some of a member's target partitions."""
    for topic_id, numbers in target_of(group, member.member_id).items():
        assigned = member.assigned.get(topic_id, {})
        if any(each not in assigned and (topic_id, each) in group.owners for each in numbers):
            return True
    return False


def _subscription_of(metadata: bytes) -> ConsumerSubscription:
    """Read the subscription of a member. As in Kafka, unreadable bytes have a separate error."""
    try:
        return read_subscription(metadata)
    except ProtocolError as error:
        raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, f"malformed embedded protocol: {error}") from error
