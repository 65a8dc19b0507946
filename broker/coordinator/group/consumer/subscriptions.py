"""Subscriptions of a consumer group's members: by name, and by resolved pattern. Sans-IO.

Source: Kafka's ConsumerGroup.computeSubscribedTopicNames, CurrentAssignmentBuilder.subscribedTopicIds,
TargetAssignmentBuilder.newMemberSubscriptionAndAssignment.
"""

from collections import Counter
from collections.abc import Iterator, Mapping

from kvorum.broker.coordinator.group.words import ConsumerGroup, ConsumerMember, ResolvedRegex
from kvorum.protocol.uuids import Uuid
from kvorum.quorum.image.topics import TopicsImage


def names_of(member: ConsumerMember, regexes: Mapping[str, ResolvedRegex]) -> Iterator[str]:
    """Iterate over a member's topics, with duplicates; unresolved patterns have no topics."""
    yield from member.subscribed_topic_names
    if member.subscribed_topic_regex:
        resolved = regexes.get(member.subscribed_topic_regex)
        if resolved is not None:
            yield from resolved.topics


def topic_ids_of(member: ConsumerMember, regexes: Mapping[str, ResolvedRegex], topics: TopicsImage) -> frozenset[Uuid]:
    """Return the topics a member reads that there are."""
    found = (topics.topic(name) for name in names_of(member, regexes))
    return frozenset(topic.topic_id for topic in found if topic is not None)


def subscribed_names(group: ConsumerGroup) -> set[str]:
    """Return the subscribed topics. Cost: members and their subscriptions."""
    names: set[str] = set()
    for member in group.members.values():
        names.update(member.subscribed_topic_names)
    for resolved in group.regexes.values():
        names.update(resolved.topics)
    return names


def pattern_counts(group: ConsumerGroup) -> Counter[str]:
    """Return how many members subscribe to each pattern. Cost: members."""
    return Counter(each.subscribed_topic_regex for each in group.members.values() if each.subscribed_topic_regex)
