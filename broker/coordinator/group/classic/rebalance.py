"""Rebalance of a classic group: which members it waits for, how long, and the removal of those that do not join.

Sans-IO.

    prepare     members get REBALANCE_IN_PROGRESS and have one rebalance timeout to join again. The first of a
                group waits group.initial.rebalance.delay.ms instead, again after each interval with a join, and
                at most one rebalance timeout in all.
    complete    the joined members are the next generation; without any the empty generation is written.
    pending sync  one rebalance timeout later, members without a SyncGroup are removed: another rebalance.
    session     a member without a request for its session timeout is removed, unless its request is parked here.

Operations change the group and return the records to write; timers write them themselves.
Source: Kafka's GroupMetadataManager (prepareRebalance, completeClassicGroupJoin, expirePendingSync and others).
"""

from collections.abc import Callable, Mapping
from typing import Final, Protocol

from kvorum.broker.coordinator.group.classic.group import ClassicGroup
from kvorum.broker.coordinator.group.classic.member import ClassicMember
from kvorum.broker.coordinator.group.classic.words import NOTHING, Change, ClassicState
from kvorum.broker.coordinator.group.counts import GroupCounts
from kvorum.broker.coordinator.group.session import Session
from kvorum.broker.coordinator.group.settings import GroupSettings
from kvorum.protocol.errors import ErrorCode, KafkaError
from kvorum.protocol.messages.join_group import JoinGroupResponse
from kvorum.protocol.messages.sync_group import SyncGroupResponse
from kvorum.runtime.logs import get_logger
from kvorum.runtime.timers import Timer

log = get_logger("groups")
State = ClassicState

STATIC_WAIT_MS_MIN: Final = 1_000
"""Minimum wait for static members that have not joined: with a rebalance timeout of 0 ms the loop would spin."""


class Desk(Protocol):
    """Interface of the shard for its groups. After the shard's end, timers never fire."""

    def now_ms(self) -> int:
        """Return the monotonic time."""
        ...

    def after(self, delay_ms: int, callback: Callable[[], None]) -> Timer:
        """Call back after this time."""
        ...

    def write_change(self, name: str, operation: Callable[[], Change]) -> None:
        """Execute an operation without a waiting client, and write its records."""
        ...


class Rebalances:
    """The operations on the groups of one shard."""

    def __init__(self, desk: Desk, settings: GroupSettings, counts: GroupCounts) -> None:
        """Use the shard's timers."""
        self._desk = desk
        self._counts = counts
        self._settings = settings

    # --- begin -------------------------------------------------------------------------------------------------------

    def prepare_or_complete(self, group: ClassicGroup, reason: str) -> Change:
        """Begin a rebalance; if one is in progress, check whether all members have joined."""
        return self.prepare(group, reason) if group.can_rebalance else self.complete_if_joined(group)

    def prepare(self, group: ClassicGroup, reason: str) -> Change:
        """Start a rebalance; members that wait for their assignment are answered to rejoin."""
        if group.state is State.COMPLETING_REBALANCE:
            self.reset_assignments(group, ErrorCode.REBALANCE_IN_PROGRESS)
        group.pending_syncs.clear()
        cancel(group.sync_timer)
        is_first = group.state is State.EMPTY
        group.transition_to(State.PREPARING_REBALANCE)
        log.info("rebalance started", group=group.group_id, generation=group.generation, reason=reason)
        if is_first:
            delay_ms = self._settings.initial_rebalance_delay_ms
            self._wait_for_more(group, delay_ms, max(group.rebalance_timeout_ms - delay_ms, 0))
            return NOTHING
        if group.has_all_joined:
            return self.complete(group)
        self._wait_for_all(group)
        return NOTHING

    def _wait_for_all(self, group: ClassicGroup, wait_ms_min: int = 0) -> None:
        cancel(group.join_timer)

        def time_out() -> None:
            self._desk.write_change("classic-group-complete-join", lambda: self.complete(group))

        group.join_timer = self._desk.after(max(group.rebalance_timeout_ms, wait_ms_min), time_out)

    def _wait_for_more(self, group: ClassicGroup, delay_ms: int, remaining_ms: int) -> None:
        """Wait for members of a new group; after each interval with a join, wait again."""
        cancel(group.join_timer)

        def delayed() -> None:
            if group.has_new_member and remaining_ms:
                group.has_new_member = False
                again_ms = min(self._settings.initial_rebalance_delay_ms, remaining_ms)
                self._wait_for_more(group, again_ms, max(remaining_ms - delay_ms, 0))
            else:
                self._desk.write_change("classic-group-initial-join", lambda: self.complete(group))

        group.join_timer = self._desk.after(delay_ms, delayed)

    # --- complete ----------------------------------------------------------------------------------------------------

    def complete_if_joined(self, group: ClassicGroup) -> Change:
        """Complete the rebalance if all members have joined. The first one of a group waits for its delay."""
        is_waiting = group.state is State.PREPARING_REBALANCE and group.previous_state is not State.EMPTY
        return self.complete(group) if is_waiting and group.has_all_joined else NOTHING

    def complete(self, group: ClassicGroup) -> Change:
        """Continue with the members that joined; dynamic members that did not are removed."""
        if group.state is not State.PREPARING_REBALANCE:
            return NOTHING
        cancel(group.join_timer)
        missing = [m.member_id for m in group.members.values() if m.awaiting_join is None and not m.is_static]
        for member_id in missing:
            group.remove(member_id)
            self.end_session(group, member_id)
        if missing:
            log.info("members removed: they did not join in time", group=group.group_id, members=missing)
        if group.members and not group.elect_joined_leader():
            # Only static members are left, and none has joined: their sessions will end.
            self._wait_for_all(group, STATIC_WAIT_MS_MIN)
            return NOTHING
        group.begin_generation()
        if not group.members:
            log.info("group is empty", group=group.group_id, generation=group.generation)
            return Change((group.generation_record({}),), self._warn_of(group))
        members = len(group.members)
        log.info("generation started", group=group.group_id, generation=group.generation, members=members)
        for member in tuple(group.members.values()):
            group.pending_syncs.add(member.member_id)
            group.answer_join(member, self.current_answer(group, member.member_id))
            self.renew_session(group, member)
            member.is_new = False
        self._wait_for_syncs(group)
        return NOTHING

    def _warn_of(self, group: ClassicGroup) -> Callable[[KafkaError | None], None]:
        def outcome(error: KafkaError | None) -> None:
            # The generation in the log stays the one before: should it come alive, its members' sessions end.
            if error is not None:
                log.warning("empty generation not written", group=group.group_id, reason=error)

        return outcome

    def current_answer(self, group: ClassicGroup, member_id: str) -> JoinGroupResponse:
        """Return the join response for a member of the current generation."""
        return JoinGroupResponse(
            member_id=member_id,
            generation_id=group.generation,
            protocol_type=group.protocol_type,
            protocol_name=group.protocol_name,
            leader=group.leader_id or "",
            members=group.joined_members(member_id),
        )

    # --- assignments -------------------------------------------------------------------------------------------------

    def reset_assignments(self, group: ClassicGroup, code: ErrorCode) -> None:
        """Answer waiting SyncGroup requests with an error."""
        for member in tuple(group.members.values()):
            member.assignment = b""
            self._answer_sync(group, member, SyncGroupResponse(error_code=code))

    def set_assignments(self, group: ClassicGroup, assignments: Mapping[str, bytes]) -> None:
        """Set each member's assignment from the leader: the assignments are committed."""
        for member in tuple(group.members.values()):
            member.assignment = assignments.get(member.member_id, b"")
            self._answer_sync(group, member, self.assignment_answer(group, member))
        group.transition_to(State.STABLE)
        self._counts.classic_rebalances_completed += 1

    def assignment_answer(self, group: ClassicGroup, member: ClassicMember) -> SyncGroupResponse:
        """Return a member's SyncGroup response."""
        return SyncGroupResponse(
            protocol_type=group.protocol_type, protocol_name=group.protocol_name, assignment=member.assignment
        )

    def _answer_sync(self, group: ClassicGroup, member: ClassicMember, response: SyncGroupResponse) -> None:
        if group.answer_sync(member, response):
            # The session may have expired while the sync was parked, which is permitted: it restarts.
            self.renew_session(group, member)

    def received_sync(self, group: ClassicGroup, member_id: str) -> None:
        """Record a member's SyncGroup; after the last one the timer is cancelled."""
        group.pending_syncs.discard(member_id)
        if not group.pending_syncs:
            cancel(group.sync_timer)

    def _wait_for_syncs(self, group: ClassicGroup) -> None:
        cancel(group.sync_timer)
        generation = group.generation

        def time_out() -> None:
            self._desk.write_change("classic-group-pending-sync", lambda: self._expire_syncs(group, generation))

        group.sync_timer = self._desk.after(group.rebalance_timeout_ms, time_out)

    def _expire_syncs(self, group: ClassicGroup, generation: int) -> Change:
        is_current = group.generation == generation and group.state in (State.COMPLETING_REBALANCE, State.STABLE)
        if not is_current or not group.pending_syncs:
            return NOTHING
        missing = sorted(group.pending_syncs)
        for member_id in missing:
            group.remove(member_id)
            self.end_session(group, member_id)
        return self.prepare(group, f"no SyncGroup from {', '.join(missing)}")

    # --- sessions ----------------------------------------------------------------------------------------------------

    def renew_session(self, group: ClassicGroup, member: ClassicMember) -> None:
        """Restart a member's session timer."""
        self.begin_session(group, member.member_id, member.session_timeout_ms)

    def begin_session(self, group: ClassicGroup, member_id: str, timeout_ms: int) -> None:
        """Remove a member, or a pending one, unless a request of it arrives in time."""
        session = group.sessions.get(member_id)
        if session is not None:
            session.renew(timeout_ms)
            return

        def time_out() -> None:
            self._desk.write_change("classic-group-session", lambda: self._expire_session(group, member_id))

        group.sessions[member_id] = Session(self._desk, timeout_ms, time_out)

    def end_session(self, group: ClassicGroup, member_id: str) -> None:
        """Stop waiting for a member."""
        cancel(group.sessions.pop(member_id, None))

    def _expire_session(self, group: ClassicGroup, member_id: str) -> Change:
        group.sessions.pop(member_id, None)
        member = group.members.get(member_id)
        if member_id in group.pending_joins:
            log.info("pending member removed: it did not join in time", group=group.group_id, member=member_id)
            group.remove(member_id)
            return self._complete_without(group)
        if member is None or member.has_satisfied_heartbeat:
            return NOTHING
        log.info("member session expired", group=group.group_id, member=member_id)
        self.answer_removed(group, member)
        group.remove(member_id)
        if group.state in (State.STABLE, State.COMPLETING_REBALANCE):
            return self.prepare(group, f"session of {member_id} ended")
        return self._complete_without(group)

    def _complete_without(self, group: ClassicGroup) -> Change:
        """Complete a rebalance that waited only for a member that has left."""
        if group.state is State.PREPARING_REBALANCE and group.has_all_joined:
            return self.complete(group)
        return NOTHING

    def answer_removed(self, group: ClassicGroup, member: ClassicMember) -> None:
        """Answer the parked join of a removed member, so that it rejoins."""
        unknown = ErrorCode.UNKNOWN_MEMBER_ID
        group.answer_join(member, JoinGroupResponse(error_code=unknown))
        group.answer_sync(member, SyncGroupResponse(error_code=unknown))

    def stop(self, group: ClassicGroup) -> None:
        """Cancel all timers of a group that was deleted or converted."""
        cancel(group.join_timer)
        cancel(group.sync_timer)
        for timer in group.sessions.values():
            cancel(timer)
        group.sessions.clear()


def cancel(timer: Timer | Session | None) -> None:
    """Cancel the pending wait, if there is one."""
    if timer is not None:
        timer.cancel()
