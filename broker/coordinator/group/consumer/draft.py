"""A change of one consumer group in progress. Sans-IO.

Each record is replayed at once on the draft's own group, by the same functions that will replay it from the log, so
that later decisions are based on it. Cost of a record: that of its replay, twice.
"""

from typing import Final

from rpds import HashTrieMap

from kvorum.broker.coordinator.group.replay import REPLAYS
from kvorum.broker.coordinator.group.words import (
    Assignment,
    ConsumerGroup,
    ConsumerMember,
    EpochAssignment,
    GroupsState,
    ResolvedRegex,
)
from kvorum.broker.coordinator.records.codec import GroupRecordType, group_record
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
    TopicPartitions,
)
from kvorum.broker.coordinator.runtime.words import CoordinatorRecord
from kvorum.protocol.schema import Struct

Type = GroupRecordType
VERSION: Final = 0
"""Version of all values of consumer groups; later additions are tagged fields."""


class Draft:
    """A change of a group. `group` is the new state, `records` lead to it."""

    def __init__(self, group: ConsumerGroup) -> None:
        """Start with the present state of a group; a missing group is empty."""
        self.records: list[CoordinatorRecord] = []
        self.group = group

    def _write(self, record_type: GroupRecordType, key: Struct, value: Struct | None) -> None:
        self.records.append(group_record(record_type, key, value, VERSION))
        group_id = self.group.group_id
        state = REPLAYS[record_type](GroupsState(groups=HashTrieMap({group_id: self.group})), key, value)
        group = state.groups[group_id]
        assert isinstance(group, ConsumerGroup), "a draft never ends its group"
        self.group = group

    def write_epoch(self, epoch: int, metadata_hash: int) -> None:
        """The group's epoch, and the hash of the topics it was made with."""
        key = GroupKey(group_id=self.group.group_id)
        self._write(
            Type.CONSUMER_GROUP_METADATA, key, ConsumerGroupMetadataValue(epoch=epoch, metadata_hash=metadata_hash)
        )

    def forget_partition_metadata(self) -> None:
        """Remove topic metadata that an earlier release stored, if there is any."""
        if self.group.has_partition_metadata:
            key = GroupKey(group_id=self.group.group_id)
            self._write(Type.CONSUMER_GROUP_PARTITION_METADATA, key, None)

    def write_subscription(self, member: ConsumerMember) -> None:
        """Write a member's identity and subscription."""
        value = ConsumerGroupMemberMetadataValue(
            instance_id=member.instance_id,
            rack_id=member.rack_id,
            client_id=member.client_id,
            client_host=member.client_host,
            subscribed_topic_names=sorted(member.subscribed_topic_names),
            subscribed_topic_regex=member.subscribed_topic_regex,
            rebalance_timeout_ms=member.rebalance_timeout_ms,
            server_assignor=member.server_assignor,
            classic_member_metadata=member.classic,
        )
        self._write(Type.CONSUMER_GROUP_MEMBER_METADATA, self._member_key(member.member_id), value)

    def write_current(self, member: ConsumerMember) -> None:
        """Write a member's current assignment and state."""
        value = CurrentMemberAssignmentValue(
            member_epoch=member.member_epoch,
            previous_member_epoch=member.previous_member_epoch,
            state=member.state.value,
            assigned_partitions=_rows(member.assigned),
            partitions_pending_revocation=_rows(member.pending_revocation),
        )
        self._write(Type.CONSUMER_GROUP_CURRENT_MEMBER_ASSIGNMENT, self._member_key(member.member_id), value)

    def write_target(self, member_id: str, assignment: Assignment) -> None:
        """Write a member's target assignment."""
        rows = [TopicPartitions(topic_id=each, partitions=sorted(assignment[each])) for each in sorted(assignment)]
        value = TargetAssignmentMemberValue(topic_partitions=rows)
        self._write(Type.CONSUMER_GROUP_TARGET_ASSIGNMENT_MEMBER, self._member_key(member_id), value)

    def write_target_epoch(self, epoch: int, wall_ms: int) -> None:
        """The group epoch that the targets were made for."""
        key = GroupKey(group_id=self.group.group_id)
        value = TargetAssignmentMetadataValue(assignment_epoch=epoch, assignment_timestamp=wall_ms)
        self._write(Type.CONSUMER_GROUP_TARGET_ASSIGNMENT_METADATA, key, value)

    def write_regex(self, regex: str, resolved: ResolvedRegex | None) -> None:
        """Write the topics that match a pattern; None: no member subscribes to it now."""
        key = RegularExpressionKey(group_id=self.group.group_id, regular_expression=regex)
        value = None
        if resolved is not None:
            topics, version, timestamp_ms = resolved
            value = RegularExpressionValue(topics=sorted(topics), version=version, timestamp=timestamp_ms)
        self._write(Type.CONSUMER_GROUP_REGULAR_EXPRESSION, key, value)

    def remove_member(self, member_id: str) -> None:
        """Remove a member; its partitions are free."""
        key = self._member_key(member_id)
        self._write(Type.CONSUMER_GROUP_CURRENT_MEMBER_ASSIGNMENT, key, None)
        self._write(Type.CONSUMER_GROUP_TARGET_ASSIGNMENT_MEMBER, key, None)
        self._write(Type.CONSUMER_GROUP_MEMBER_METADATA, key, None)

    def _member_key(self, member_id: str) -> MemberKey:
        return MemberKey(group_id=self.group.group_id, member_id=member_id)


def _rows(assigned: EpochAssignment) -> list[AssignedPartitions]:
    rows = []
    for topic_id in sorted(assigned):
        partitions = sorted(assigned[topic_id].items())
        numbers, epochs = [number for number, _ in partitions], [epoch for _, epoch in partitions]
        rows.append(AssignedPartitions(topic_id=topic_id, partitions=numbers, assignment_epochs=epochs))
    return rows
