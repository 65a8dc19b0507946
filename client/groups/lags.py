"""Lags and memberships of groups, from their committed offsets, log ends and members. Sans-IO.

Source: Kafka's ConsumerGroupCommand (collectGroupsOffsets).
"""

from collections.abc import Mapping

from kvorum.client.values.group import Group, Lag, Membership, OffsetAndMetadata, TotalLag
from kvorum.protocol.topic_partition import TopicPartition


def partition_lags(
    group: Group, committed: Mapping[TopicPartition, OffsetAndMetadata], ends: Mapping[TopicPartition, int | None]
) -> list[Lag]:
    """Return the partitions of members, the busiest member first, then unassigned ones."""
    busiest = sorted(group.members, key=lambda member: (-len(member.assignment), member.member_id))
    owned = [(partition, member) for member in busiest for partition in member.assignment]
    unowned = sorted(committed.keys() - {partition for partition, _ in owned})
    return [
        Lag(
            topic=partition.topic,
            partition=partition.partition,
            committed=committed.get(partition),
            end_offset=ends.get(partition),
            member=member,
        )
        for partition, member in [*owned, *((partition, None) for partition in unowned)]
    ]


def total_lag(committed: Mapping[TopicPartition, OffsetAndMetadata], ends: Mapping[TopicPartition, int]) -> TotalLag:
    """Return the sum of one group's lags."""
    known = [max(0, ends[partition] - each.offset) for partition, each in committed.items() if partition in ends]
    return TotalLag(
        lag=sum(known),
        partition_count=len(known),
        unknown_count=len(committed) - len(known),
        topics=frozenset(partition.topic for partition in committed),
    )


def membership(group: Group) -> Membership:
    """Return the number of members of a group and their topics."""
    subscribed = {topic for member in group.members for topic in member.topics}
    assigned = {partition.topic for member in group.members for partition in member.assignment}
    return Membership(member_count=len(group.members), topics=frozenset(subscribed | assigned))
