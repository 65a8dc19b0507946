"""A classic group: its members, its generation, and its parked requests.

Sans-IO, changed in place by rebalance.py and requests.

    from \\ to              EMPTY   PREPARING   COMPLETING   STABLE   DEAD
    EMPTY                            first join                        deleted, unloaded
    PREPARING_REBALANCE     no members           all joined            unloaded
    COMPLETING_REBALANCE             see below            assigned     unloaded
    STABLE                           see below                         unloaded

EMPTY                 no members; there may be offsets. It has a separate generation, so that older ones are rejected.
PREPARING_REBALANCE   joins are parked until all members have sent theirs, or the rebalance timeout has passed. Dynamic
                      members without a join are removed then.
COMPLETING_REBALANCE  joins have responses, the leader has the list of members; syncs are parked until its assignment is
                      committed. Members without one after a rebalance timeout are removed.
STABLE                each member has its assignment.
Back to PREPARING: a member joined, left, expired or changed its protocols; the leader joins again; an assignment
could not be written.

Invariants, asserted: `awaiting_join_count` is the number of parked joins; the leader is a member; a static member has
one member id; pending ids are of no member; a transition is in the table. Not persistent, except for the fields of its
record (a complete generation): see `generation_record`, `loaded_group`. Source: Kafka's ClassicGroup.
"""

from collections import Counter
from collections.abc import Callable, Collection, Mapping
from typing import Final

from kvorum.broker.coordinator.group.classic.member import ClassicMember, member_of
from kvorum.broker.coordinator.group.classic.words import ClassicState, JoinAnswer, OfferedProtocol
from kvorum.broker.coordinator.group.session import Session
from kvorum.broker.coordinator.group.words import CONSUMER_PROTOCOL_TYPE, ClassicGeneration
from kvorum.broker.coordinator.records.classic import GroupMetadataKey, GroupMetadataValue
from kvorum.broker.coordinator.records.codec import GroupRecordType, group_record
from kvorum.broker.coordinator.runtime.words import CoordinatorRecord
from kvorum.protocol.consumer_protocol import subscribed_topics
from kvorum.protocol.errors import ErrorCode, KafkaError
from kvorum.protocol.messages.join_group import JoinGroupResponse, JoinGroupResponseMember
from kvorum.protocol.messages.sync_group import SyncGroupResponse
from kvorum.runtime.logs import get_logger
from kvorum.runtime.timers import Timer

log = get_logger("groups")

State = ClassicState
GROUP_METADATA_VERSION: Final = 3
"""Version that Kafka 4.3 writes."""
COMES_FROM: Final[Mapping[ClassicState, Collection[ClassicState]]] = {
    State.EMPTY: (State.PREPARING_REBALANCE,),
    State.PREPARING_REBALANCE: (State.EMPTY, State.COMPLETING_REBALANCE, State.STABLE),
    State.COMPLETING_REBALANCE: (State.PREPARING_REBALANCE,),
    State.STABLE: (State.COMPLETING_REBALANCE,),
    State.DEAD: tuple(State),
}


class ClassicGroup:
    """State of a classic group (state table in the module docstring)."""

    def __init__(self, group_id: str, wall_ms: Callable[[], int]) -> None:
        """Create it empty; `wall_ms` returns the time of each transition, which the group's record stores."""
        self.group_id = group_id
        self.state = State.EMPTY
        self.previous_state = State.DEAD
        self.generation = 0
        self.protocol_type: str | None = None
        self.protocol_name: str | None = None
        self.leader_id: str | None = None
        self.members: dict[str, ClassicMember] = {}
        self.static_members: dict[str, str] = {}
        self.pending_joins: set[str] = set()
        """Member ids given out whose members have not joined with them yet (KIP-394)."""
        self.pending_syncs: set[str] = set()
        """Members of this generation that have not sent a SyncGroup."""
        self.awaiting_join_count = 0
        self.has_new_member = False
        """Whether a member joined since the initial delay was last extended."""
        self.state_timestamp_ms: int | None = wall_ms()
        self.topics: frozenset[str] | None = None
        """The topics that its consumers subscribe to, None if unknown."""
        self.join_timer: Timer | None = None
        self.sync_timer: Timer | None = None
        self.sessions: dict[str, Session] = {}
        """By member id, of members and of pending ones."""
        self._wall_ms = wall_ms
        self._speakers: Counter[str] = Counter()

    # --- properties ---------------------------------------------------------------------------------------------------

    @property
    def is_consumers(self) -> bool:
        """Whether its members are consumers, whose subscriptions can be read."""
        return self.protocol_type == CONSUMER_PROTOCOL_TYPE

    @property
    def has_all_joined(self) -> bool:
        """Whether each member's join is parked and no pending member is expected."""
        return len(self.members) == self.awaiting_join_count and not self.pending_joins

    @property
    def can_rebalance(self) -> bool:
        """Whether a rebalance may begin: none is in progress."""
        return self.state in COMES_FROM[State.PREPARING_REBALANCE]

    @property
    def rebalance_timeout_ms(self) -> int:
        """The longest of its members'."""
        return max((member.rebalance_timeout_ms for member in self.members.values()), default=0)

    def is_leader(self, member_id: str) -> bool:
        """Return whether this member computes the assignments."""
        return self.leader_id == member_id

    def is_subscribed_to(self, topic: str) -> bool:
        """Return whether a topic is subscribed by its consumers, or may be."""
        return self.is_consumers if self.topics is None else topic in self.topics

    def joined_members(self, member_id: str) -> list[JoinGroupResponseMember]:
        """Return the members in this member's join response: all for the leader."""
        if not self.is_leader(member_id):
            return []
        return [member.joined(self.protocol_name) for member in self.members.values()]

    # --- members -----------------------------------------------------------------------------------------------------

    def add(self, member: ClassicMember, answer: JoinAnswer | None = None) -> None:
        """Add a member; its join, if there is one, is parked. The first member's protocol type is the group's."""
        if member.instance_id is not None:
            assert member.instance_id not in self.static_members, "replace_static is for those"
            self.static_members[member.instance_id] = member.member_id
        if not self.members:
            self.protocol_type = member.protocol_type
        if self.leader_id is None:
            self.leader_id = member.member_id
        self.members[member.member_id] = member
        self._count(member, 1)
        self._park(member, answer)
        self.pending_joins.discard(member.member_id)
        self.check()

    def remove(self, member_id: str) -> None:
        """Remove a member or a pending one; its parked requests were answered before."""
        member = self.members.pop(member_id, None)
        if member is not None:
            self._count(member, -1)
            self._park(member, None)
            if member.instance_id is not None:
                self.static_members.pop(member.instance_id, None)
        if self.is_leader(member_id):
            self.leader_id = next(iter(self.members), None)
        self.pending_joins.discard(member_id)
        self.pending_syncs.discard(member_id)
        self.check()

    def update(
        self,
        member: ClassicMember,
        protocols: tuple[OfferedProtocol, ...],
        rebalance_timeout_ms: int,
        session_timeout_ms: int,
        answer: JoinAnswer | None,
    ) -> None:
        """Apply the values of a rejoin.

        It replaces a parked join of the member: the client has dropped that one, with its connection.
        """
        if answer is not None:
            displaced = JoinGroupResponse(member_id=member.member_id, error_code=ErrorCode.REBALANCE_IN_PROGRESS)
            self.answer_join(member, displaced)
        self._count(member, -1)
        member.protocols = protocols
        self._count(member, 1)
        member.rebalance_timeout_ms = rebalance_timeout_ms
        member.session_timeout_ms = session_timeout_ms
        self._park(member, answer)

    def replace_static(self, instance_id: str, old_id: str, new_id: str) -> ClassicMember:
        """Give a static member its new member id; requests parked under the old one end with FENCED_INSTANCE_ID."""
        old = self.members.pop(old_id)
        fenced = ErrorCode.FENCED_INSTANCE_ID
        self.answer_join(old, JoinGroupResponse(member_id=old_id, error_code=fenced, protocol_name=None))
        self.answer_sync(old, SyncGroupResponse(error_code=fenced))
        new = self.members[new_id] = old.renamed(new_id)
        if self.is_leader(old_id):
            self.leader_id = new_id
        self.static_members[instance_id] = new_id
        self.check()
        return new

    def elect_joined_leader(self) -> bool:
        """Elect a leader among the members with parked joins; False without any."""
        if self.leader_id is None:
            return False
        if self.members[self.leader_id].awaiting_join is not None:
            return True
        for member in self.members.values():
            if member.awaiting_join is not None:
                log.info(
                    "group leader replaced: it did not join in time",
                    group=self.group_id,
                    old=self.leader_id,
                    new=member.member_id,
                )
                self.leader_id = member.member_id
                return True
        return False

    def _count(self, member: ClassicMember, by: int) -> None:
        for name in {name for name, _ in member.protocols}:
            self._speakers[name] += by

    # --- parked requests ---------------------------------------------------------------------------------------------

    def _park(self, member: ClassicMember, answer: JoinAnswer | None) -> None:
        self.awaiting_join_count += (answer is not None) - (member.awaiting_join is not None)
        member.awaiting_join = answer

    def answer_join(self, member: ClassicMember, response: JoinGroupResponse) -> bool:
        """Answer a member's parked join, if there is one."""
        answer = member.awaiting_join
        if answer is None:
            return False
        self._park(member, None)
        answer(response)
        return True

    def answer_sync(self, member: ClassicMember, response: SyncGroupResponse) -> bool:
        """Answer a member's parked sync, if there is one."""
        answer, member.awaiting_sync = member.awaiting_sync, None
        if answer is None:
            return False
        answer(response)
        return True

    def refuse_all(self, code: ErrorCode) -> None:
        """Answer all that is parked with an error."""
        for member in tuple(self.members.values()):
            self.answer_join(member, JoinGroupResponse(member_id=member.member_id, error_code=code))
            self.answer_sync(member, SyncGroupResponse(error_code=code))

    # --- protocols ---------------------------------------------------------------------------------------------------

    def supports(self, protocol_type: str, names: Collection[str]) -> bool:
        """Return whether a client with these protocols could join: it supports one that all members support."""
        if self.state is State.EMPTY:
            return bool(protocol_type) and bool(names)
        everybody = len(self.members)
        return self.protocol_type == protocol_type and any(self._speakers[name] == everybody for name in names)

    def select_protocol(self) -> str:
        """Return the protocol with most votes among those that all members support; ties go to the first vote."""
        everybody = len(self.members)
        candidates = {name for name, count in self._speakers.items() if count == everybody}
        votes = Counter(member.vote(candidates) for member in self.members.values())
        return max(votes, key=lambda name: votes[name])

    def compute_topics(self) -> frozenset[str] | None:
        """Return the topics of all members' subscriptions, None if one is unknown."""
        if not self.is_consumers:
            return None
        if not self.members:
            return frozenset()
        if self.protocol_name is None:
            return None
        found: set[str] = set()
        for member in self.members.values():
            topics = subscribed_topics(member.metadata(self.protocol_name))
            if topics is None:
                log.warning("member subscription cannot be decoded", group=self.group_id, member=member.member_id)
                return None
            found.update(topics)
        return frozenset(found)

    # --- generations -------------------------------------------------------------------------------------------------

    def transition_to(self, state: ClassicState) -> None:
        """Change the state; see the table."""
        assert self.state in COMES_FROM[state], f"{self.group_id}: {self.state} does not lead to {state}"
        self.previous_state, self.state = self.state, state
        self.state_timestamp_ms = self._wall_ms()

    def begin_generation(self) -> None:
        """Start a generation with the members that joined."""
        self.generation = self.generation + 1 if self.generation < 2**31 - 1 else 0
        self.protocol_name = self.select_protocol() if self.members else None
        self.topics = self.compute_topics()
        self.transition_to(State.COMPLETING_REBALANCE if self.members else State.EMPTY)
        self.pending_syncs.clear()

    def check(self) -> None:
        """Assert what always holds, but what costs a walk over the members."""
        assert 0 <= self.awaiting_join_count <= len(self.members)
        assert self.leader_id is None or self.leader_id in self.members
        assert len(self.static_members) <= len(self.members)

    # --- checks of requests -------------------------------------------------------------------------------------------

    def validate_member(self, member_id: str, instance_id: str | None, operation: str) -> ClassicMember:
        """Return the member. Raises KafkaError UNKNOWN_MEMBER_ID, FENCED_INSTANCE_ID (its instance has a newer id)."""
        if instance_id is not None:
            owner = self.static_members.get(instance_id)
            if owner is None:
                raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID, f"no member has instance id {instance_id}")
            if owner != member_id:
                log.info(
                    "static member fenced",
                    group=self.group_id,
                    instance=instance_id,
                    member=member_id,
                    operation=operation,
                )
                raise KafkaError(
                    ErrorCode.FENCED_INSTANCE_ID, f"instance id {instance_id} is owned by another member id"
                )
        member = self.members.get(member_id)
        if member is None:
            raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID, f"{member_id!r} is not a member of {self.group_id}")
        return member

    def validate_commit(
        self, member_id: str, instance_id: str | None, generation: int, *, is_transactional: bool
    ) -> None:
        """Raise KafkaError unless offsets may be committed.

        Without a generation: only while the group has no members, or within a transaction of a client that does not
        know one. UNKNOWN_MEMBER_ID, FENCED_INSTANCE_ID, ILLEGAL_GENERATION; REBALANCE_IN_PROGRESS until the assignment
        is known.
        """
        if generation < 0 and self.state is State.EMPTY:
            return
        if generation >= 0 or member_id or instance_id is not None:
            self.validate_member(member_id, instance_id, "offset commit")
            if generation != self.generation:
                raise KafkaError(
                    ErrorCode.ILLEGAL_GENERATION,
                    f"generation {generation} is not the current generation {self.generation}",
                )
        elif not is_transactional:
            raise KafkaError(
                ErrorCode.UNKNOWN_MEMBER_ID, f"{self.group_id} has members, and the commit has no member id"
            )
        if not is_transactional and self.state is State.COMPLETING_REBALANCE:
            raise KafkaError(ErrorCode.REBALANCE_IN_PROGRESS, "the assignment is not available yet")

    def validate_offset_delete(self) -> None:
        """Raise KafkaError NON_EMPTY_GROUP where it cannot be known which topics the members use."""
        if self.state is not State.EMPTY and not self.is_consumers:
            raise KafkaError(ErrorCode.NON_EMPTY_GROUP, f"{self.group_id} has members")

    # --- records -----------------------------------------------------------------------------------------------------

    def generation_record(self, assignments: Mapping[str, bytes]) -> CoordinatorRecord:
        """Return the record of this generation, with the assignment of each member."""
        value = GroupMetadataValue(
            protocol_type=self.protocol_type or "",
            generation=self.generation,
            protocol=self.protocol_name,
            leader=self.leader_id,
            current_state_timestamp=-1 if self.state_timestamp_ms is None else self.state_timestamp_ms,
            members=[m.recorded(self.protocol_name, assignments.get(m.member_id, b"")) for m in self.members.values()],
        )
        return metadata_record(self.group_id, value)

    def empty_record(self) -> CoordinatorRecord:
        """Return the record that makes a new group known, before its first generation."""
        timestamp_ms = -1 if self.state_timestamp_ms is None else self.state_timestamp_ms
        return metadata_record(self.group_id, GroupMetadataValue(current_state_timestamp=timestamp_ms))


def metadata_record(group_id: str, value: GroupMetadataValue | None) -> CoordinatorRecord:
    """Return a record of a classic group, or the tombstone that forgets it."""
    key = GroupMetadataKey(group=group_id)
    return group_record(GroupRecordType.GROUP_METADATA, key, value, GROUP_METADATA_VERSION)


def loaded_group(generation: ClassicGeneration, wall_ms: Callable[[], int]) -> ClassicGroup:
    """Return a group as its last record has it: STABLE if it has members.

    Accepts every record that another broker can write.
    """
    value = generation.value
    group = ClassicGroup(generation.group_id, wall_ms)
    for row in value.members:
        if row.member_id not in group.members and row.group_instance_id not in group.static_members:
            group.add(member_of(row, value.protocol_type, value.protocol))
    group.state = State.STABLE if group.members else State.EMPTY
    group.generation = value.generation
    group.protocol_type = value.protocol_type or None
    group.protocol_name = value.protocol
    if value.leader in group.members:
        group.leader_id = value.leader
    group.state_timestamp_ms = None if value.current_state_timestamp == -1 else value.current_state_timestamp
    group.topics = group.compute_topics()
    return group
