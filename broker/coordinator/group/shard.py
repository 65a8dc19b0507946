"""The group coordinator on one partition of __consumer_offsets, for one leadership. Sans-IO.

The state (words.GroupsState) is the content of the log. State of classic groups that is not in the log (parked
requests, sessions) is in a ClassicGroup beside the group's last generation, which is created from that when leadership
begins. A group exists if the newest state has it; a ClassicGroup without it is of a group that was deleted or never
written. Methods that take a state decide on it, for CoordinatorPartition.write; those that describe get the committed
one. Source: Kafka's GroupCoordinatorShard, GroupMetadataManager (onLoaded, onUnloaded), GroupCoordinatorService's
checks.
"""

from collections.abc import Collection, Mapping, Sequence
from random import Random
from typing import Final

from kvorum.broker.coordinator.group import describing, offsets
from kvorum.broker.coordinator.group.classic.group import ClassicGroup, loaded_group
from kvorum.broker.coordinator.group.classic.joining import Joining, fits_record, join_of
from kvorum.broker.coordinator.group.classic.rebalance import Rebalances
from kvorum.broker.coordinator.group.classic.requests import MemberRequests
from kvorum.broker.coordinator.group.classic.words import Change, ClassicState, Client, JoinAnswer, SyncAnswer
from kvorum.broker.coordinator.group.consumer import describing as consumer_describing
from kvorum.broker.coordinator.group.consumer.classic_members import ClassicMembers
from kvorum.broker.coordinator.group.consumer.groups import ConsumerGroups
from kvorum.broker.coordinator.group.consumer.heartbeat import Asker, Heartbeats
from kvorum.broker.coordinator.group.consumer.regexes import Regexes
from kvorum.broker.coordinator.group.counts import GroupCounts
from kvorum.broker.coordinator.group.desk import ShardDesk
from kvorum.broker.coordinator.group.removal import GroupRemoval
from kvorum.broker.coordinator.group.replay import replay, replay_marker
from kvorum.broker.coordinator.group.settings import GroupSettings
from kvorum.broker.coordinator.group.tombstones import consumer_tombstones
from kvorum.broker.coordinator.group.words import ClassicGeneration, ConsumerGroup, GroupsState
from kvorum.broker.coordinator.runtime.aside import Aside
from kvorum.broker.coordinator.runtime.words import CoordinatorRecord, Decision, Outcome, Producer, Turn
from kvorum.protocol.errors import ErrorCode, KafkaError
from kvorum.protocol.messages.consumer_group_describe import DescribedGroup as DescribedConsumerGroup
from kvorum.protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from kvorum.protocol.messages.describe_groups import DescribedGroup
from kvorum.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from kvorum.protocol.messages.join_group import JoinGroupRequest, JoinGroupResponse
from kvorum.protocol.messages.leave_group import (
    LeaveGroupRequest,
    LeaveGroupResponse,
    MemberIdentity,
    MemberResponse,
)
from kvorum.protocol.messages.list_groups import ListedGroup
from kvorum.protocol.messages.offset_commit import OffsetCommitRequest, OffsetCommitResponse
from kvorum.protocol.messages.offset_delete import OffsetDeleteRequest, OffsetDeleteResponse
from kvorum.protocol.messages.offset_fetch import OffsetFetchRequestGroup, OffsetFetchResponseGroup
from kvorum.protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse
from kvorum.protocol.messages.txn_offset_commit import TxnOffsetCommitRequest, TxnOffsetCommitResponse
from kvorum.quorum.image import MetadataDelta, MetadataImage
from kvorum.runtime.logs import get_logger

log = get_logger("groups")

BATCHED_LEAVE_FROM: Final = 3
"""LeaveGroup: from this version on several members leave at once; before, one is named at the top."""


class GroupShard:
    """Groups of one __consumer_offsets partition; a Shard."""

    def __init__(
        self, settings: GroupSettings, rng: Random, counts: GroupCounts | None = None, aside: Aside | None = None
    ) -> None:
        """Start without groups; member ids are drawn from `rng`, `counts` and `aside` are the broker's."""
        self._settings = settings
        self._counts = counts = GroupCounts() if counts is None else counts
        self._desk = ShardDesk()
        self._rebalances = Rebalances(self._desk, settings, counts)
        self._joining = Joining(self._rebalances, settings, rng)
        self._requests = MemberRequests(self._rebalances)
        self._classic: dict[str, ClassicGroup] = {}
        self._consumer = ConsumerGroups(self._desk, settings, self, counts, Aside() if aside is None else aside)
        self._removal = GroupRemoval(self._desk, settings, self, self._consumer, counts)
        regexes = Regexes(self._consumer)
        self._heartbeats = Heartbeats(self._consumer, regexes, rng)
        self._classic_members = ClassicMembers(self._consumer, regexes, rng)

    # --- the state (Shard) -------------------------------------------------------------------------------------------

    def initial(self) -> GroupsState:
        """See Shard."""
        return GroupsState()

    def replay(self, state: GroupsState, offset: int, record: CoordinatorRecord, producer: Producer) -> GroupsState:
        """See Shard."""
        return replay(state, offset, record, producer)

    def replay_marker(self, state: GroupsState, offset: int, producer: Producer, is_commit: bool) -> GroupsState:
        """See Shard."""
        return replay_marker(state, producer, is_commit)

    # --- leadership --------------------------------------------------------------------------------------------------

    def activated(self, turn: Turn[GroupsState]) -> None:
        """Start the sessions of all members, because their last heartbeats are unknown.

        In the groups' order: a map's own is another one in each process, and sessions that end at once end in it.
        """
        self._desk.begin(turn)
        for group_id in sorted(turn.state.groups):
            found = turn.state.groups[group_id]
            if not isinstance(found, ClassicGeneration) or not found.value.members:
                continue  # a group without members is created from its record on first use
            group = self._classic[group_id] = loaded_group(found, turn.wall_ms)
            for member in group.members.values():
                self._rebalances.renew_session(group, member)
            if len(group.members) > self._settings.group_size_max:
                change = self._rebalances.prepare(group, f"{len(group.members)} members are too many")
                assert not change.records, "nobody has joined again yet"
        self._consumer.activated()
        self._removal.activated()

    def deactivated(self, error: KafkaError) -> None:
        """See Shard."""
        self._desk.end()
        for group in self._classic.values():
            group.refuse_all(error.code)
        self._classic.clear()

    def metadata_changed(self, delta: MetadataDelta, image: MetadataImage) -> None:
        """See Shard. The offsets of topics that were deleted are forgotten."""
        deleted = {topic.name: topic_id for topic_id, topic in delta.topics_delta.deleted_topics.items()}
        self._consumer.metadata_changed(delta, image)
        if deleted and not self._desk.is_over:
            self._desk.write_records("topics-deleted", offsets.delete_topics(self._desk.turn.state, deleted))

    # --- groups ------------------------------------------------------------------------------------------------------

    def group(self, state: GroupsState, group_id: str) -> ClassicGroup | ConsumerGroup | None:
        """Return the present state of a group, None if it does not exist."""
        found = state.groups.get(group_id)
        return self._classic_of(found) if isinstance(found, ClassicGeneration) else found

    def _classic_of(self, generation: ClassicGeneration) -> ClassicGroup:
        group = self._classic.get(generation.group_id)
        return group if group is not None else loaded_group(generation, self._desk.turn.wall_ms)

    def classic_groups(self) -> Mapping[str, ClassicGroup]:
        """Return the classic groups that have, or had, members here."""
        return self._classic

    def take_classic(self, group: ClassicGroup) -> None:
        """Add a group that replaces a consumer group; the conversion writes its record."""
        self._classic[group.group_id] = group
        for member in group.members.values():
            self._rebalances.renew_session(group, member)

    def drop_classic(self, group_id: str, code: ErrorCode) -> ClassicGroup | None:
        """Remove a converted or deleted group, and answer its waiting members."""
        group = self._classic.pop(group_id, None)
        if group is not None:
            group.refuse_all(code)
            self._rebalances.stop(group)
            group.transition_to(
                ClassicState.DEAD
            )  # results of its earlier writes may still arrive, and have no effect any more
        return group

    def rebalance_classic(self, group: ClassicGroup, reason: str) -> None:
        """Request all members of a converted group to rejoin."""
        change = self._rebalances.prepare(group, reason)
        assert not change.records, "nobody has joined yet"

    def _restore_classic(self, generation: ClassicGeneration) -> None:
        """Restore a group whose conversion could not be written, with its last generation."""
        if generation.value.members:
            self.take_classic(loaded_group(generation, self._desk.turn.wall_ms))

    # --- the consumer protocol ---------------------------------------------------------------------------------------

    def consumer_heartbeat(
        self, state: GroupsState, asker: Asker, request: ConsumerGroupHeartbeatRequest
    ) -> Decision[ConsumerGroupHeartbeatResponse]:
        """Decide on a ConsumerGroupHeartbeat; see Heartbeats. A classic group may be converted."""
        found = state.groups.get(request.group_id)
        decision = self._heartbeats.heartbeat(self.group(state, request.group_id), asker, request)
        if not isinstance(found, ClassicGeneration):
            return decision
        generation = found
        self.drop_classic(request.group_id, ErrorCode.REBALANCE_IN_PROGRESS)

        def outcome(error: KafkaError | None) -> None:
            if error is not None:
                self._restore_classic(generation)

        return Decision(response=decision.response, records=decision.records, outcome=outcome)

    def describe_consumer(self, committed: GroupsState, group_ids: Sequence[str]) -> list[DescribedConsumerGroup]:
        """Describe consumer groups; see consumer.describing.describe."""
        topics, default = self._desk.turn.image.topics, self._settings.consumer.assignors[0]
        return consumer_describing.describe(committed, group_ids, topics, default)

    # --- the classic protocol ----------------------------------------------------------------------------------------

    def join(self, state: GroupsState, client: Client, request: JoinGroupRequest, answer: JoinAnswer) -> Decision[None]:
        """Decide on a JoinGroup: `answer` is called, now or when the group has come together, or here is its end.

        Refused with INVALID_GROUP_ID, INVALID_SESSION_TIMEOUT, UNKNOWN_MEMBER_ID, FENCED_INSTANCE_ID,
        MEMBER_ID_REQUIRED, INCONSISTENT_GROUP_PROTOCOL, GROUP_MAX_SIZE_REACHED, REBALANCE_IN_PROGRESS.
        If the write itself fails before anything is answered, the caller answers.
        """
        join = join_of(client, request, answer)
        settings = self._settings
        if not request.group_id:
            join.refuse(ErrorCode.INVALID_GROUP_ID, request.member_id)
            return Decision(response=None)
        if not settings.session_timeout_ms_min <= request.session_timeout <= settings.session_timeout_ms_max:
            join.refuse(ErrorCode.INVALID_SESSION_TIMEOUT, request.member_id)
            return Decision(response=None)
        if not fits_record(client, request):  # before anything changes: what cannot be written is no member
            join.refuse(ErrorCode.UNKNOWN_SERVER_ERROR, request.member_id)
            return Decision(response=None)
        found = state.groups.get(request.group_id)
        if isinstance(found, ConsumerGroup) and found.members:
            return decided(self._classic_members.join(found, join))
        if isinstance(found, ClassicGeneration):
            group = self._classic[request.group_id] = self._classic_of(found)
            return decided(self._joining.join(group, join))
        if request.member_id:
            join.refuse(ErrorCode.UNKNOWN_MEMBER_ID, request.member_id)
            return Decision(response=None)
        self.drop_classic(request.group_id, ErrorCode.UNKNOWN_MEMBER_ID)
        group = self._classic[request.group_id] = ClassicGroup(request.group_id, self._desk.turn.wall_ms)
        change = self._joining.join(group, join)
        assert not change.records, "a group's first rebalance waits"
        records = [] if found is None else consumer_tombstones(found)
        records.append(group.empty_record())
        return Decision(response=None, records=records, outcome=self._new_outcome(group))

    def _new_outcome(self, group: ClassicGroup) -> Outcome:
        def outcome(error: KafkaError | None) -> None:
            if error is not None and self._classic.get(group.group_id) is group:
                log.warning("new group not written", group=group.group_id, reason=error)
                self.drop_classic(group.group_id, error.code)

        return outcome

    def sync(self, state: GroupsState, request: SyncGroupRequest, answer: SyncAnswer) -> Decision[None]:
        """Decide on a SyncGroup: `answer` is called, now or when the leader's assignment is committed; see join."""
        group = self.group(state, request.group_id)
        if not request.group_id:
            answer(SyncGroupResponse(error_code=ErrorCode.INVALID_GROUP_ID))
        elif isinstance(group, ConsumerGroup):
            return decided(self._classic_members.sync(group, request, answer))
        elif group is None or group.state is ClassicState.EMPTY:
            answer(SyncGroupResponse(error_code=ErrorCode.UNKNOWN_MEMBER_ID))
        else:
            return decided(self._requests.sync(group, request, answer))
        return Decision(response=None)

    def heartbeat(self, state: GroupsState, request: HeartbeatRequest) -> Decision[HeartbeatResponse]:
        """Decide on a Heartbeat. Raises KafkaError INVALID_GROUP_ID, UNKNOWN_MEMBER_ID, FENCED_..., ILLEGAL_GENERATION.

        A caller that meets COORDINATOR_LOAD_IN_PROGRESS answers without an error, as Kafka does.
        """
        if not request.group_id:
            raise KafkaError(ErrorCode.INVALID_GROUP_ID, "the group id must not be empty")
        group = self.group(state, request.group_id)
        if group is None:
            raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID, f"group {request.group_id} not found")
        if isinstance(group, ConsumerGroup):
            return Decision(response=HeartbeatResponse(error_code=self._classic_members.heartbeat(group, request)))
        return Decision(response=HeartbeatResponse(error_code=self._requests.heartbeat(group, request)))

    def leave(self, state: GroupsState, client: Client, request: LeaveGroupRequest) -> Decision[LeaveGroupResponse]:
        """Decide on a LeaveGroup; a row for each member, up to v2 its error is the answer. Raises INVALID_GROUP_ID."""
        if not request.group_id:
            raise KafkaError(ErrorCode.INVALID_GROUP_ID, "the group id must not be empty")
        is_batched = client.api_version >= BATCHED_LEAVE_FROM
        members = request.members if is_batched else [MemberIdentity(member_id=request.member_id)]
        group = self.group(state, request.group_id)
        change, rows = Change(), [unknown_row(each) for each in members]
        if isinstance(group, ClassicGroup):
            change, rows = self._requests.leave(group, members)
        elif group is not None:
            change, rows = self._classic_members.leave(group, members)
        response = LeaveGroupResponse(members=rows) if is_batched else LeaveGroupResponse(error_code=rows[0].error_code)
        return Decision(response=response, records=change.records, outcome=change.outcome)

    # --- offsets -----------------------------------------------------------------------------------------------------

    def commit(
        self, state: GroupsState, client: Client, request: OffsetCommitRequest
    ) -> Decision[OffsetCommitResponse]:
        """Decide on an OffsetCommit; see offsets.commit. It renews the session of a member of a classic group."""
        group = self.group(state, request.group_id)
        wall_ms, version = self._desk.turn.wall_ms(), client.api_version
        decision = offsets.commit(group, request, api_version=version, wall_ms=wall_ms, settings=self._settings)
        self._counts.offsets_committed += len(decision.records)
        if isinstance(group, ClassicGroup) and group.state in (ClassicState.STABLE, ClassicState.PREPARING_REBALANCE):
            member = group.members.get(request.member_id)
            if member is not None:
                self._rebalances.renew_session(group, member)
        return decision

    def commit_transactional(
        self, state: GroupsState, client: Client, request: TxnOffsetCommitRequest
    ) -> Decision[TxnOffsetCommitResponse]:
        """Decide on a TxnOffsetCommit; see offsets.commit_transactional. To be written with the producer."""
        if not request.group_id:
            raise KafkaError(ErrorCode.INVALID_GROUP_ID, "the group id must not be empty")
        known = (self._desk.turn.image.topics.topic(topic.name) for topic in request.topics)
        decision = offsets.commit_transactional(
            self.group(state, request.group_id),
            request,
            api_version=client.api_version,
            wall_ms=self._desk.turn.wall_ms(),
            settings=self._settings,
            topic_ids={topic.name: topic.topic_id for topic in known if topic is not None},
        )
        self._counts.offsets_committed += len(decision.records)
        return decision

    def fetch_stable(self, state: GroupsState, request: OffsetFetchRequestGroup) -> Decision[OffsetFetchResponseGroup]:
        """Decide on a fetch of stable offsets; others are read with offsets.fetch from the committed state."""
        return Decision(response=offsets.fetch(state, request, require_stable=True))

    def delete_offsets(self, state: GroupsState, request: OffsetDeleteRequest) -> Decision[OffsetDeleteResponse]:
        """Decide on an OffsetDelete; see offsets.delete."""
        decision = offsets.delete(state, self.group(state, request.group_id), request)
        self._counts.offsets_deleted += len(decision.records)
        return decision

    # --- queries ------------------------------------------------------------------------------------------------------

    def describe(self, committed: GroupsState, group_ids: Sequence[str], api_version: int) -> list[DescribedGroup]:
        """Describe classic groups; see describing.describe."""
        return describing.describe(committed, self.group, group_ids, api_version)

    def listed(
        self, committed: GroupsState, states: Collection[str] = (), types: Collection[str] = ()
    ) -> list[ListedGroup]:
        """List the groups; see describing.listed."""
        return describing.listed(committed, self.group, states, types)

    # --- groups that end ---------------------------------------------------------------------------------------------

    def delete_group(self, state: GroupsState, group_id: str) -> Decision[ErrorCode]:
        """Decide on deleting a group; see GroupRemoval."""
        return self._removal.delete(state, group_id)


def decided(change: Change) -> Decision[None]:
    """Return a change as a decision; waiting clients are answered by the group."""
    return Decision(response=None, records=change.records, outcome=change.outcome)


def unknown_row(identity: MemberIdentity) -> MemberResponse:
    """Return the row of an unknown member."""
    return MemberResponse(
        member_id=identity.member_id,
        group_instance_id=identity.group_instance_id,
        error_code=ErrorCode.UNKNOWN_MEMBER_ID,
    )


def refused_join(member_id: str, error: KafkaError) -> JoinGroupResponse:
    """Return the response to a join whose write failed before any response."""
    return JoinGroupResponse(member_id=member_id, error_code=error.code)
