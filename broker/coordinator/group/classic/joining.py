"""JoinGroup to a classic group. Sans-IO.

    member id unknown, dynamic   v4+: a new id is returned, for another join (KIP-394); older: a member at once
    unknown, static, new         a member at once
    unknown, static, known       replaces its former member id. STABLE and the chosen protocol stays the same: the
                                 new id is written, without a rebalance (KIP-345); else a rebalance
    member id pending            a member
    member id known              PREPARING: parked. COMPLETING, STABLE: the current generation again, or a rebalance if
                                 its metadata changed; always if it leads a stable group (topics may have changed)

Source: Kafka's GroupMetadataManager.classicGroupJoinToClassicGroup and its callees.
"""

from collections.abc import Callable
from random import Random
from typing import Final, NamedTuple

from kvorum.broker.coordinator.group.classic.group import ClassicGroup
from kvorum.broker.coordinator.group.classic.member import ClassicMember
from kvorum.broker.coordinator.group.classic.rebalance import Rebalances
from kvorum.broker.coordinator.group.classic.words import (
    MEMBER_ID_REQUIRED_FROM,
    NOTHING,
    NULLABLE_PROTOCOL_FROM,
    REASON_CHARS_MAX,
    SKIP_ASSIGNMENT_FROM,
    UNKNOWN_MEMBER_ID,
    Change,
    ClassicState,
    Client,
    JoinAnswer,
    OfferedProtocol,
)
from kvorum.broker.coordinator.group.settings import GroupSettings
from kvorum.protocol.errors import ErrorCode, KafkaError
from kvorum.protocol.messages.join_group import JoinGroupRequest, JoinGroupResponse
from kvorum.runtime.logs import get_logger

log = get_logger("groups")
State = ClassicState

PENDING_JOINS_MAX: Final = 10_000
"""Ids given out in one group and not joined with: each costs a timer, and some client may never join."""
NAME_BYTES_MAX: Final = 2**15 - 1
"""Length of each name in a group's record. Requests can carry longer ones."""
MEMBER_ID_SUFFIX_BYTES: Final = 37
"""Length of a member id's suffix after the client id or the instance id."""


class Join(NamedTuple):
    """A JoinGroup with its client."""

    client: Client
    request: JoinGroupRequest
    protocols: tuple[OfferedProtocol, ...]
    answer: JoinAnswer

    @property
    def reason(self) -> str:
        """The client's reason for joining (KIP-800)."""
        return shown_reason(self.request.reason)

    @property
    def rebalance_timeout_ms(self) -> int:
        """Time to rejoin; v0 has one timeout for all."""
        return self.request.session_timeout if self.client.api_version == 0 else self.request.rebalance_timeout

    def refuse(self, code: ErrorCode, member_id: str = UNKNOWN_MEMBER_ID) -> Change:
        """Answer with an error."""
        self.answer(JoinGroupResponse(member_id=member_id, error_code=code))
        return NOTHING


def join_of(client: Client, request: JoinGroupRequest, answer: JoinAnswer) -> Join:
    """Return a request with an answer that its version can carry."""

    def carried(response: JoinGroupResponse) -> None:
        if response.protocol_name is None and client.api_version < NULLABLE_PROTOCOL_FROM:
            response.protocol_name = ""
        answer(response)

    protocols = tuple(OfferedProtocol(each.name, bytes(each.metadata)) for each in request.protocols)
    return Join(client, request, protocols, carried)


def fits_record(client: Client, request: JoinGroupRequest) -> bool:
    """Return whether all names of this client fit into a group's record."""
    named_after = client.client_id, request.group_instance_id or ""
    others = request.group_id, request.protocol_type, client.client_host, *(each.name for each in request.protocols)
    return all(len(each.encode()) + MEMBER_ID_SUFFIX_BYTES <= NAME_BYTES_MAX for each in named_after) and all(
        len(each.encode()) <= NAME_BYTES_MAX for each in others
    )


def shown_reason(reason: str | None) -> str:
    """Return a client's reason as logs show it."""
    return (reason or "not provided")[:REASON_CHARS_MAX]


def new_id(prefix: str, rng: Random) -> str:
    """Return a member id: the client id, and a random UUID (version 4) in Java's form."""
    return f"{prefix}-{random_digits(rng)}"


def random_digits(rng: Random) -> str:
    """Return a random UUID (version 4) in Java's form."""
    bits = rng.getrandbits(128) & ~(0xF << 76 | 0x3 << 62) | 0x4 << 76 | 0x2 << 62
    digits = f"{bits:032x}"
    return "-".join((digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:]))


class Joining:
    """Joins to the groups of one shard."""

    def __init__(self, rebalances: Rebalances, settings: GroupSettings, rng: Random) -> None:
        """Take member ids from `rng`."""
        self._rebalances = rebalances
        self._settings = settings
        self._rng = rng

    def join(self, group: ClassicGroup, join: Join) -> Change:
        """Answer a join, or park it."""
        member_id = join.request.member_id
        if not self._has_room(group, member_id):
            # Its session, if it is pending, ends without effect.
            group.remove(member_id)
            return join.refuse(ErrorCode.GROUP_MAX_SIZE_REACHED)
        if not group.supports(join.request.protocol_type, {name for name, _ in join.protocols}):
            return join.refuse(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, member_id)
        if member_id != UNKNOWN_MEMBER_ID:
            return self._join_again(group, join)
        instance_id = join.request.group_instance_id
        if instance_id is None:
            return self._join_dynamic(group, join)
        fresh_id = new_id(instance_id, self._rng)
        former_id = group.static_members.get(instance_id)
        if former_id is None:
            return self._add(group, join, fresh_id)
        log.info("static member rejoined", group=group.group_id, instance=instance_id, old=former_id, new=fresh_id)
        return self._replace_static(group, join, former_id, fresh_id)

    def _has_room(self, group: ClassicGroup, member_id: str) -> bool:
        """Return whether one more may join. During a rebalance only joined members count; the last are rejected."""
        limit = self._settings.group_size_max
        member = group.members.get(member_id)
        match group.state:
            case State.EMPTY | State.DEAD:
                return True
            case State.PREPARING_REBALANCE:
                is_parked = member is not None and member.awaiting_join is not None
                return is_parked or group.awaiting_join_count < limit
            case State.COMPLETING_REBALANCE | State.STABLE:
                return member is not None or len(group.members) < limit

    # --- new members -------------------------------------------------------------------------------------------------

    def _join_dynamic(self, group: ClassicGroup, join: Join) -> Change:
        member_id = new_id(join.client.client_id, self._rng)
        if join.client.api_version < MEMBER_ID_REQUIRED_FROM:
            return self._add(group, join, member_id)
        if len(group.pending_joins) >= PENDING_JOINS_MAX:
            return join.refuse(ErrorCode.GROUP_MAX_SIZE_REACHED)
        group.pending_joins.add(member_id)
        self._rebalances.begin_session(group, member_id, join.request.session_timeout)
        return join.refuse(ErrorCode.MEMBER_ID_REQUIRED, member_id)

    def _add(self, group: ClassicGroup, join: Join, member_id: str) -> Change:
        request = join.request
        member = ClassicMember(
            member_id,
            instance_id=request.group_instance_id,
            client_id=join.client.client_id,
            client_host=join.client.client_host,
            rebalance_timeout_ms=join.rebalance_timeout_ms,
            session_timeout_ms=request.session_timeout,
            protocol_type=request.protocol_type,
            protocols=join.protocols,
        )
        member.is_new = True
        if group.state is State.PREPARING_REBALANCE and group.previous_state is State.EMPTY:
            group.has_new_member = True
        group.add(member, join.answer)
        # A parked client that disconnects is not noticed and may join again under another id: the wait is bounded.
        self._rebalances.begin_session(group, member_id, self._settings.new_member_join_timeout_ms)
        return self._rebalances.prepare_or_complete(group, f"new member {member_id}, client reason: {join.reason}")

    # --- members that are known --------------------------------------------------------------------------------------

    def _join_again(self, group: ClassicGroup, join: Join) -> Change:
        request, member_id = join.request, join.request.member_id
        if member_id in group.pending_joins:
            if request.group_instance_id is not None:  # ids are given out to dynamic members alone
                return join.refuse(ErrorCode.UNKNOWN_MEMBER_ID, member_id)
            return self._add(group, join, member_id)
        try:
            member = group.validate_member(member_id, request.group_instance_id, "join")
        except KafkaError as error:
            join.answer(JoinGroupResponse(member_id=member_id, error_code=error.code, protocol_name=None))
            return NOTHING
        says_the_same = member.protocols == join.protocols
        match group.state:
            case State.COMPLETING_REBALANCE if says_the_same:
                pass
            case State.STABLE if says_the_same and not group.is_leader(member_id):
                pass
            case State.EMPTY | State.DEAD:
                raise AssertionError("such a group has no members")
            case _:
                return self._update(group, join, member)
        join.answer(self._rebalances.current_answer(group, member_id))
        return NOTHING

    def _update(self, group: ClassicGroup, join: Join, member: ClassicMember) -> Change:
        self._take_offer(group, join, member)
        reason = f"{member.member_id} joins again while {group.state.value}, client reason: {join.reason}"
        return self._rebalances.prepare_or_complete(group, reason)

    def _take_offer(self, group: ClassicGroup, join: Join, member: ClassicMember) -> None:
        timeouts = join.rebalance_timeout_ms, join.request.session_timeout
        group.update(member, join.protocols, *timeouts, join.answer)

    # --- static members ----------------------------------------------------------------------------------------------

    def _replace_static(self, group: ClassicGroup, join: Join, old_id: str, new_member_id: str) -> Change:
        instance_id = join.request.group_instance_id
        assert instance_id is not None
        leader_before = group.leader_id
        member = group.replace_static(instance_id, old_id, new_member_id)
        self._rebalances.end_session(group, old_id)
        self._rebalances.renew_session(group, member)
        before = member.protocols, member.rebalance_timeout_ms, member.session_timeout_ms
        self._take_offer(group, join, member)
        if group.state is State.PREPARING_REBALANCE:
            return self._rebalances.complete_if_joined(group)
        reason = f"static member {instance_id} is {new_member_id} now, client reason: {join.reason}"
        if group.state is State.COMPLETING_REBALANCE or group.select_protocol() != group.protocol_name:
            # The leader may know only the old id, or the preferred protocol may have changed.
            return self._rebalances.prepare(group, reason)

        def revert() -> None:
            group.update(member, *before, None)
            old = group.replace_static(instance_id, new_member_id, old_id)
            self._rebalances.end_session(group, new_member_id)
            self._rebalances.renew_session(group, old)

        outcome = self._static_outcome(group, join, member, leader_before, revert)
        assignments = {each.member_id: each.assignment for each in group.members.values()}
        return Change((group.generation_record(assignments),), outcome)

    def _static_outcome(
        self,
        group: ClassicGroup,
        join: Join,
        member: ClassicMember,
        leader_before: str | None,
        revert: Callable[[], None],
    ) -> Callable[[KafkaError | None], None]:
        def outcome(error: KafkaError | None) -> None:
            if group.members.get(member.member_id) is not member or member.awaiting_join is not join.answer:
                return  # a rebalance, another join of it, or its end came first, and answered
            if error is None:
                group.answer_join(member, self._return_answer(group, join, member, leader_before))
                # The session may have expired while the join was parked, which is permitted: it restarts.
                self._rebalances.renew_session(group, member)
                return
            log.warning("new id of a static member not written", group=group.group_id, reason=error)
            revert()
            answer = self._rebalances.current_answer(group, UNKNOWN_MEMBER_ID)
            answer.leader, answer.error_code = leader_before or "", error.code
            join.answer(answer)

        return outcome

    def _return_answer(
        self, group: ClassicGroup, join: Join, member: ClassicMember, leader_before: str | None
    ) -> JoinGroupResponse:
        """Return the response for a static member that rejoins a stable group.

        A leader with an older version gets its former id as the leader's: otherwise it would send a new assignment that
        nothing reads.
        """
        answer = self._rebalances.current_answer(group, member.member_id)
        if join.client.api_version >= SKIP_ASSIGNMENT_FROM:
            answer.skip_assignment = group.is_leader(member.member_id)
        else:
            answer.leader, answer.members = leader_before or "", []
        return answer
