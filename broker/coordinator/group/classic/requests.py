"""SyncGroup, Heartbeat and LeaveGroup to a classic group. Sans-IO.

Source: Kafka's GroupMetadataManager (classicGroupSync, classicGroupHeartbeat, classicGroupLeave ...ToClassicGroup).
"""

from kvorum.broker.coordinator.group.classic.group import ClassicGroup
from kvorum.broker.coordinator.group.classic.joining import shown_reason
from kvorum.broker.coordinator.group.classic.rebalance import Rebalances
from kvorum.broker.coordinator.group.classic.words import (
    NOTHING,
    UNKNOWN_MEMBER_ID,
    Change,
    ClassicState,
    SyncAnswer,
)
from kvorum.protocol.errors import ErrorCode, KafkaError
from kvorum.protocol.messages.heartbeat import HeartbeatRequest
from kvorum.protocol.messages.leave_group import MemberIdentity, MemberResponse
from kvorum.protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse
from kvorum.runtime.logs import get_logger

log = get_logger("groups")
State = ClassicState


class MemberRequests:
    """Requests of members between joins, for the groups of one shard."""

    def __init__(self, rebalances: Rebalances) -> None:
        """Share the rebalances with the joins."""
        self._rebalances = rebalances

    # --- SyncGroup ---------------------------------------------------------------------------------------------------

    def sync(self, group: ClassicGroup, request: SyncGroupRequest, answer: SyncAnswer) -> Change:
        """Park a follower's sync; the leader's is written, and answers all when it is committed.

        Refused with UNKNOWN_MEMBER_ID, FENCED_INSTANCE_ID, ILLEGAL_GENERATION, INCONSISTENT_GROUP_PROTOCOL,
        REBALANCE_IN_PROGRESS.
        """
        try:
            member = group.validate_member(request.member_id, request.group_instance_id, "sync")
            validate_generation(group, request.generation_id)
            for requested, is_so in (
                (request.protocol_type, group.protocol_type),
                (request.protocol_name, group.protocol_name),
            ):
                if requested is not None and is_so is not None and requested != is_so:
                    raise KafkaError(
                        ErrorCode.INCONSISTENT_GROUP_PROTOCOL, f"{requested!r} does not match the group's {is_so!r}"
                    )
            if group.state is State.PREPARING_REBALANCE:
                raise KafkaError(ErrorCode.REBALANCE_IN_PROGRESS)
        except KafkaError as error:
            answer(SyncGroupResponse(error_code=error.code))
            return NOTHING
        self._rebalances.received_sync(group, request.member_id)
        if group.state is State.STABLE:
            answer(self._rebalances.assignment_answer(group, member))
            return NOTHING
        # The client has abandoned the sync that is already parked, and has sent this one.
        group.answer_sync(member, SyncGroupResponse(error_code=ErrorCode.REBALANCE_IN_PROGRESS))
        member.awaiting_sync = answer
        return self._assign(group, request) if group.is_leader(request.member_id) else NOTHING

    def _assign(self, group: ClassicGroup, request: SyncGroupRequest) -> Change:
        assigned = {row.member_id: bytes(row.assignment) for row in request.assignments}
        assignments = {member_id: assigned.get(member_id, b"") for member_id in group.members}
        missing = [member_id for member_id in group.members if member_id not in assigned]
        if missing:
            log.warning("assignment of the group leader lacks members", group=group.group_id, members=missing)
        generation = group.generation

        def outcome(error: KafkaError | None) -> None:
            if group.state is not State.COMPLETING_REBALANCE or group.generation != generation:
                return  # a rebalance began in between and has answered all
            if error is None:
                self._rebalances.set_assignments(group, assignments)
                return
            self._rebalances.reset_assignments(group, error.code)
            change = self._rebalances.prepare(group, f"the assignment could not be written: {error}")
            assert change is NOTHING, "nobody has joined again yet"

        return Change((group.generation_record(assignments),), outcome)

    # --- Heartbeat ---------------------------------------------------------------------------------------------------

    def heartbeat(self, group: ClassicGroup, request: HeartbeatRequest) -> ErrorCode:
        """Renew a member's session; report a rebalance.

        Raises KafkaError UNKNOWN_MEMBER_ID, FENCED_INSTANCE_ID, ILLEGAL_GENERATION: the session is not renewed.
        """
        member = group.validate_member(request.member_id, request.group_instance_id, "heartbeat")
        validate_generation(group, request.generation_id)
        self._rebalances.renew_session(group, member)
        is_preparing = group.state is State.PREPARING_REBALANCE
        return ErrorCode.REBALANCE_IN_PROGRESS if is_preparing else ErrorCode.NONE

    # --- LeaveGroup --------------------------------------------------------------------------------------------------

    def leave(self, group: ClassicGroup, members: list[MemberIdentity]) -> tuple[Change, list[MemberResponse]]:
        """Let members go, several at once; a row for each. A static one may be named by its instance alone."""
        rows, gone = [], []
        for identity in members:
            row = MemberResponse(member_id=identity.member_id, group_instance_id=identity.group_instance_id)
            try:
                self._leave_one(group, identity)
                gone.append(identity.member_id or identity.group_instance_id or "")
            except KafkaError as error:
                row.error_code = error.code
            rows.append(row)
        change = NOTHING
        if gone and group.state is not State.EMPTY:
            change = self._rebalances.prepare_or_complete(group, f"LeaveGroup of {', '.join(gone)}")
        return change, rows

    def _leave_one(self, group: ClassicGroup, identity: MemberIdentity) -> None:
        member_id, instance_id = identity.member_id, identity.group_instance_id
        if member_id == UNKNOWN_MEMBER_ID:
            owner = None if instance_id is None else group.static_members.get(instance_id)
            if owner is None:
                raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID)
            member_id = owner
        elif member_id not in group.pending_joins:
            group.validate_member(member_id, instance_id, "leave")
        member = group.members.get(member_id)
        if member is not None:
            self._rebalances.answer_removed(group, member)
        group.remove(member_id)
        self._rebalances.end_session(group, member_id)
        log.info("member left", group=group.group_id, member=member_id, reason=shown_reason(identity.reason))


def validate_generation(group: ClassicGroup, generation: int) -> None:
    """Raise KafkaError ILLEGAL_GENERATION for any but the current one."""
    if generation != group.generation:
        raise KafkaError(
            ErrorCode.ILLEGAL_GENERATION, f"generation {generation} is not the current generation {group.generation}"
        )
