"""ConsumerGroupDescribe for the groups of one partition, from the committed state. Sans-IO.

A partition that a member still has to revoke is listed as its own: the member owns it until then. Deleted topics are
left out. Source: Kafka's ConsumerGroup.asDescribedGroup, ConsumerGroupMember.asConsumerGroupDescribeMember.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from kvorum.broker.coordinator.group.consumer.heartbeat import not_a_consumer_group
from kvorum.broker.coordinator.group.consumer.target import preferred_assignor, target_of
from kvorum.broker.coordinator.group.describing import consumer_state
from kvorum.broker.coordinator.group.words import ConsumerGroup, ConsumerMember, GroupsState
from kvorum.protocol.errors import ErrorCode
from kvorum.protocol.messages.consumer_group_describe import Assignment, DescribedGroup, Member, TopicPartitions
from kvorum.protocol.uuids import Uuid
from kvorum.quorum.image.topics import TopicsImage

CLASSIC_MEMBER: Final = 0
CONSUMER_MEMBER: Final = 1


def describe(
    state: GroupsState, group_ids: Sequence[str], topics: TopicsImage, default_assignor: str
) -> list[DescribedGroup]:
    """Return a row for each group; a missing one, or one of the other protocol, is GROUP_ID_NOT_FOUND."""
    return [_described(state, group_id, topics, default_assignor) for group_id in group_ids]


def _described(state: GroupsState, group_id: str, topics: TopicsImage, default_assignor: str) -> DescribedGroup:
    group = state.groups.get(group_id)
    if not isinstance(group, ConsumerGroup):
        message = f"Group {group_id} not found." if group is None else not_a_consumer_group(group_id)
        return DescribedGroup(group_id=group_id, error_code=ErrorCode.GROUP_ID_NOT_FOUND, error_message=message)
    return DescribedGroup(
        group_id=group_id,
        group_state=consumer_state(group),
        group_epoch=group.group_epoch,
        assignment_epoch=group.assignment_epoch,
        assignor_name=preferred_assignor(group, default_assignor),
        members=[_member(group, group.members[member_id], topics) for member_id in sorted(group.members)],
    )


def _member(group: ConsumerGroup, member: ConsumerMember, topics: TopicsImage) -> Member:
    current: dict[Uuid, list[int]] = {}
    for rows in (member.assigned, member.pending_revocation):
        for topic_id, partitions in rows.items():
            current.setdefault(topic_id, []).extend(partitions)
    return Member(
        member_id=member.member_id,
        instance_id=member.instance_id,
        rack_id=member.rack_id,
        member_epoch=member.member_epoch,
        client_id=member.client_id,
        client_host=member.client_host,
        subscribed_topic_names=list(member.subscribed_topic_names),
        subscribed_topic_regex=member.subscribed_topic_regex,
        assignment=_assignment(current, topics),
        target_assignment=_assignment(target_of(group, member.member_id), topics),
        member_type=CONSUMER_MEMBER if member.classic is None else CLASSIC_MEMBER,
    )


def _assignment(partitions: Mapping[Uuid, Iterable[int]], topics: TopicsImage) -> Assignment:
    rows = []
    for topic_id in sorted(partitions):
        topic = topics.topic_by_id(topic_id)
        if topic is not None:
            numbers = sorted(partitions[topic_id])
            rows.append(TopicPartitions(topic_id=topic_id, topic_name=topic.name, partitions=numbers))
    return Assignment(topic_partitions=rows)
