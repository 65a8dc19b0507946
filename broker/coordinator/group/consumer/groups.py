"""Common parts of consumer group requests: epochs, target assignments, reconciliation and fencing.

    heartbeat.py        members of the consumer protocol          classic_members.py  those of the classic one
    conversion.py       groups that change their protocol

Invariants, asserted: the target's epoch is never beyond the group's; a partition is one member's (reconcile.py).
Volatile state, sessions and the time of the last topic check, is kept here for one leadership. Sans-IO.
Source: Kafka's GroupMetadataManager (updateSubscriptionMetadata, maybeUpdateTargetAssignment, maybeReconcile,
consumerGroupFenceMembers), ModernGroup (metadata refresh deadline).
"""

from collections.abc import Callable, Collection
from dataclasses import dataclass
from functools import partial
from typing import Final, Protocol

from kvorum.broker.coordinator.group.classic.group import ClassicGroup
from kvorum.broker.coordinator.group.classic.words import Change
from kvorum.broker.coordinator.group.consumer.conversion import downgrade
from kvorum.broker.coordinator.group.consumer.draft import Draft
from kvorum.broker.coordinator.group.consumer.reconcile import Goal, Owned, reconciled
from kvorum.broker.coordinator.group.consumer.settings import ConsumerSettings
from kvorum.broker.coordinator.group.consumer.subscriptions import pattern_counts, subscribed_names, topic_ids_of
from kvorum.broker.coordinator.group.consumer.target import may_assign, preferred_assignor, target_of, write_targets
from kvorum.broker.coordinator.group.consumer.timers import Deadline, MemberTimers
from kvorum.broker.coordinator.group.consumer.topic_hashes import TopicHashes
from kvorum.broker.coordinator.group.counts import GroupCounts
from kvorum.broker.coordinator.group.desk import ShardDesk
from kvorum.broker.coordinator.group.settings import GroupSettings
from kvorum.broker.coordinator.group.words import ConsumerGroup, ConsumerMember, GroupsState, MemberState
from kvorum.broker.coordinator.runtime.aside import Aside
from kvorum.broker.coordinator.runtime.words import Decision, Outcome
from kvorum.protocol.errors import ErrorCode, KafkaError
from kvorum.quorum.image import MetadataDelta, MetadataImage
from kvorum.runtime.logs import get_logger

log = get_logger("groups")

METADATA_REFRESH_INTERVAL_MS: Final = 2_147_483_647
"""Topics are checked again after 25 days without a change: Kafka's METADATA_REFRESH_INTERVAL_MS."""
FENCE_RETRY_MS: Final = 500
"""Until a fencing that could not be written is tried again, as Kafka's timers do."""


class ClassicGroups(Protocol):
    """The shard's classic groups, for groups that change their protocol."""

    def take_classic(self, group: ClassicGroup) -> None:
        """Take over a group that has become a classic one."""
        ...

    def drop_classic(self, group_id: str, code: ErrorCode) -> ClassicGroup | None:
        """Remove a group that was converted to a consumer group, and answer its waiting members."""
        ...

    def rebalance_classic(self, group: ClassicGroup, reason: str) -> None:
        """Begin a rebalance of a converted group."""
        ...


@dataclass(slots=True)
class Freshness:
    """Time of a group's last check of its topics."""

    deadline_ms: int
    epoch: int
    """The group epoch of then; if the group has fallen behind it, that change was not written."""
    stamp: int


class ConsumerGroups:
    """Operations on the consumer groups of a shard. One per shard."""

    def __init__(
        self, desk: ShardDesk, settings: GroupSettings, classic: ClassicGroups, counts: GroupCounts, aside: Aside
    ) -> None:
        """Use the shard's timers, and the broker's thread for what takes long."""
        self.counts = counts
        self.aside = aside
        self.desk = desk
        self.settings: ConsumerSettings = settings.consumer
        self.timers = MemberTimers(desk)
        self.hashes = TopicHashes()
        self.topics_made_at = -1
        """The metadata's offset when topics were last made: patterns that were resolved before are out of date."""
        self.resolving: set[str] = set()
        """Groups whose patterns are being resolved."""
        self.resolved: dict[str, ConsumerGroup] = {}
        """Groups in the state in which all their patterns were resolved."""
        self.classic = classic
        self._classic_size_max = settings.group_size_max
        self._stamp = 0
        self._fresh: dict[str, Freshness] = {}

    @property
    def image(self) -> MetadataImage:
        """The cluster's newest metadata."""
        return self.desk.turn.image

    # --- leadership and metadata -------------------------------------------------------------------------------------

    def activated(self) -> None:
        """Start the sessions of all members, because their last heartbeats are unknown."""
        turn = self.desk.turn
        self.topics_made_at = turn.image.offset
        for group_id in sorted(turn.state.groups):
            group = turn.state.groups[group_id]
            if not isinstance(group, ConsumerGroup):
                continue
            for member in members_of(group):
                self.renew_session(group.group_id, member)
                if member.state is MemberState.UNREVOKED_PARTITIONS:
                    self._await_revocation(group.group_id, member)

    def metadata_changed(self, delta: MetadataDelta, image: MetadataImage) -> None:
        """Mark groups with changed topics, for a check at their next heartbeat."""
        topics = delta.topics_delta
        if topics.is_empty:
            return
        self._stamp += 1
        for topic in topics.changed_topics.values():
            self.hashes.forget(topic.name)
            if topic.image.topic_id not in delta.image.topics.by_id:
                self.topics_made_at = image.offset
        for deleted in topics.deleted_topics.values():
            self.hashes.forget(deleted.name)

    def forget(self, group_id: str) -> None:
        """Remove a group that was deleted or converted."""
        self._fresh.pop(group_id, None)
        self.resolved.pop(group_id, None)

    # --- epochs ------------------------------------------------------------------------------------------------------

    def is_stale(self, group: ConsumerGroup) -> bool:
        """Return whether a group's topics are due for a check."""
        fresh = self._fresh.get(group.group_id)
        if fresh is None or fresh.stamp != self._stamp:
            return True
        return self.desk.now_ms() >= fresh.deadline_ms or group.group_epoch < fresh.epoch

    def refresh(self, draft: Draft, *, bumps: bool) -> None:
        """Look at the topics of the draft's group; raise its epoch if they have changed, or anyway. Cost: members."""
        group = draft.group
        found = self.hashes.group_hash(subscribed_names(group), self.image)
        if bumps or found != group.metadata_hash:
            draft.write_epoch(group.group_epoch + 1, found)
            self.counts.consumer_rebalances += 1
            log.info("group epoch bumped", group=group.group_id, epoch=draft.group.group_epoch)
        self.is_fresh(draft.group)
        draft.forget_partition_metadata()

    def is_fresh(self, group: ConsumerGroup) -> None:
        """Record the time of a group's topic check."""
        deadline_ms = self.desk.now_ms() + METADATA_REFRESH_INTERVAL_MS
        self._fresh[group.group_id] = Freshness(deadline_ms, group.group_epoch, self._stamp)

    def update_target(self, draft: Draft) -> None:
        """Compute the target assignment if the group epoch is newer and the assignment interval has passed."""
        group = draft.group
        assert group.assignment_epoch <= group.group_epoch, "a target is made for an epoch of its group"
        wall_ms = self.desk.turn.wall_ms()
        if group.assignment_epoch == group.group_epoch:
            return
        if may_assign(group, self.settings.assignment_interval_of(self.image, group.group_id), wall_ms):
            assignor = preferred_assignor(group, self.settings.assignors[0])
            write_targets(draft, assignor, self.image.topics, wall_ms)

    def reconcile(
        self, draft: Draft, member_id: str, owned: Owned | None, *, has_new_subscription: bool
    ) -> ConsumerMember:
        """Advance a member of the draft's group as far as possible. Raises KafkaError FENCED_MEMBER_EPOCH."""
        group, member = draft.group, draft.group.members[member_id]
        is_there = member.state is MemberState.STABLE and member.member_epoch == group.assignment_epoch
        if is_there and not has_new_subscription:
            return member
        goal = Goal(
            epoch=group.assignment_epoch,
            target=target_of(group, member_id),
            subscribed=topic_ids_of(member, group.regexes, self.image.topics),
            has_new_subscription=has_new_subscription,
            owners=group.owners,
            owned=owned,
        )
        moved = reconciled(member, goal)
        if moved == member:
            return member
        draft.write_current(moved)
        if moved.classic is None:  # the classic protocol has other deadlines
            if moved.state is MemberState.UNREVOKED_PARTITIONS:
                self._await_revocation(group.group_id, moved)
            else:
                self.timers.end(Deadline.REBALANCE, group.group_id, member_id)
        return moved

    # --- deadlines ---------------------------------------------------------------------------------------------------

    def renew_session(self, group_id: str, member: ConsumerMember) -> None:
        """Restart a member's session timer."""
        if member.classic is not None:
            timeout_ms = member.classic.session_timeout_ms
        else:
            timeout_ms = self.settings.session_timeout_of(self.image, group_id)
        self.await_member(Deadline.SESSION, group_id, member.member_id, timeout_ms)

    def await_member(self, kind: Deadline, group_id: str, member_id: str, timeout_ms: int) -> None:
        """Fence a member unless it responds in time."""
        self.timers.begin(
            kind, group_id, member_id, timeout_ms, lambda: self._fence_late(kind, group_id, member_id, lambda m: True)
        )

    def _await_revocation(self, group_id: str, member: ConsumerMember) -> None:
        """Fence a member that is still in its epoch when its time to give partitions up is over."""
        epoch, kind = member.member_epoch, Deadline.REBALANCE

        def late() -> None:
            self._fence_late(kind, group_id, member.member_id, lambda found: found.member_epoch == epoch)

        self.timers.begin(kind, group_id, member.member_id, max(member.rebalance_timeout_ms, 0), late)

    def _fence_late(
        self, kind: Deadline, group_id: str, member_id: str, is_late: Callable[[ConsumerMember], bool]
    ) -> None:
        def decide(state: GroupsState, now_ms: int) -> Decision[None]:
            group = state.groups.get(group_id)
            member = group.members.get(member_id) if isinstance(group, ConsumerGroup) else None
            if not isinstance(group, ConsumerGroup) or member is None or not is_late(member):
                return Decision(response=None)
            log.info("member fenced", group=group_id, member=member_id, missed=kind.value)
            change = self.fence(group, [member])

            def outcome(error: KafkaError | None) -> None:
                if change.outcome is not None:
                    change.outcome(error)
                if error is not None:
                    again = partial(self._fence_late, kind, group_id, member_id, is_late)
                    self.timers.begin(kind, group_id, member_id, FENCE_RETRY_MS, again)

            return Decision(response=None, records=change.records, outcome=outcome)

        self.desk.turn.write_nowait(f"consumer-group-{kind.value}-expired", decide)

    # --- members that leave ------------------------------------------------------------------------------------------

    def fence(self, group: ConsumerGroup, members: Collection[ConsumerMember]) -> Change:
        """Have members leave, whether they want to or not; the group may become a classic one by that."""
        if not members:
            return Change()
        gone = {member.member_id for member in members}
        if self._may_downgrade(group, gone):
            return self.downgrade(group, gone, "the last member of the consumer protocol has left")
        draft = Draft(group)
        for member_id in sorted(gone):
            draft.remove_member(member_id)
            self.timers.end_all(group.group_id, member_id)
        still = pattern_counts(draft.group)
        for regex in sorted({member.subscribed_topic_regex for member in members} - {""}):
            if regex not in still:
                draft.write_regex(regex, None)
        found = self.hashes.group_hash(subscribed_names(draft.group), self.image)
        draft.write_epoch(group.group_epoch + 1, found)
        log.info("group epoch bumped", group=group.group_id, epoch=draft.group.group_epoch, gone=sorted(gone))
        return Change(draft.records, self._else_waits_for(group))

    def _else_waits_for(self, group: ConsumerGroup) -> Outcome:
        """Restart the timers of all members if the change that removes them is not written."""

        def outcome(error: KafkaError | None) -> None:
            if error is None:
                return
            for member in members_of(group):
                self.renew_session(group.group_id, member)
                is_waited_for = self.timers.has(Deadline.REBALANCE, group.group_id, member.member_id)
                if member.state is MemberState.UNREVOKED_PARTITIONS and member.classic is None and not is_waited_for:
                    self._await_revocation(group.group_id, member)

        return outcome

    def _may_downgrade(self, group: ConsumerGroup, gone: Collection[str]) -> bool:
        staying = [member for member_id, member in group.members.items() if member_id not in gone]
        if not staying or any(member.classic is None for member in staying):
            return False
        return self.may_be_classic(group.group_id, len(staying))

    def may_be_classic(self, group_id: str, size: int) -> bool:
        """Return whether a group with only classic members must be converted to a classic group."""
        if not self.settings.migration_policy.allows_downgrade:
            log.info("group not converted to classic: online downgrade is disabled", group=group_id)
            return False
        if size > self._classic_size_max:
            log.info("group not converted to classic: too many members", group=group_id, members=size)
            return False
        return True

    def downgrade(self, group: ConsumerGroup, gone: Collection[str], reason: str | None) -> Change:
        """Make a classic group of what stays; with a reason it rebalances at once."""
        made = downgrade(group, gone, self.image.topics, self.desk.turn.wall_ms)
        self.classic.take_classic(made.group)
        if reason is not None:
            self.classic.rebalance_classic(made.group, reason)
        log.info("group converted to classic", group=group.group_id, generation=made.group.generation)
        for member_id in group.members:
            self.timers.end_all(group.group_id, member_id)

        resume = self._else_waits_for(group)

        def outcome(error: KafkaError | None) -> None:
            if error is not None:
                self.classic.drop_classic(group.group_id, error.code)
                resume(error)

        return Change(made.records, outcome)


def members_of(group: ConsumerGroup) -> list[ConsumerMember]:
    """Return its members by their ids: a map's own order is another one in each process."""
    return [group.members[member_id] for member_id in sorted(group.members)]
