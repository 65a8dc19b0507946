"""Tombstones of a consumer group. Sans-IO. Source: Kafka's ConsumerGroup.createGroupTombstoneRecords."""

from kvorum.broker.coordinator.group.words import ConsumerGroup
from kvorum.broker.coordinator.records.codec import GroupRecordType, group_record
from kvorum.broker.coordinator.records.consumer import GroupKey, MemberKey, RegularExpressionKey
from kvorum.broker.coordinator.runtime.words import CoordinatorRecord

Type = GroupRecordType


def consumer_tombstones(group: ConsumerGroup) -> list[CoordinatorRecord]:
    """Return the tombstones of all that a consumer group wrote, its epoch's last."""
    whole = GroupKey(group_id=group.group_id)
    members = [MemberKey(group_id=group.group_id, member_id=member_id) for member_id in sorted(group.members)]
    targets = sorted({*group.members, *group.target})
    patterns = [
        RegularExpressionKey(group_id=group.group_id, regular_expression=each) for each in sorted(group.regexes)
    ]
    return [
        *(group_record(Type.CONSUMER_GROUP_CURRENT_MEMBER_ASSIGNMENT, key, None) for key in members),
        *(
            group_record(
                Type.CONSUMER_GROUP_TARGET_ASSIGNMENT_MEMBER, MemberKey(group_id=group.group_id, member_id=each), None
            )
            for each in targets
        ),
        group_record(Type.CONSUMER_GROUP_TARGET_ASSIGNMENT_METADATA, whole, None),
        *(group_record(Type.CONSUMER_GROUP_MEMBER_METADATA, key, None) for key in members),
        *(group_record(Type.CONSUMER_GROUP_REGULAR_EXPRESSION, key, None) for key in patterns),
        group_record(Type.CONSUMER_GROUP_PARTITION_METADATA, whole, None),
        group_record(Type.CONSUMER_GROUP_METADATA, whole, None),
    ]
