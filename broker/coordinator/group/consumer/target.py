"""The target assignment of a consumer group, computed by a server-side assignor.

Sans-IO.

Computed again when the group epoch is larger than the target's, at most once per group.consumer.assignment.interval.ms,
with the next heartbeat of any member. Source: Kafka's TargetAssignmentBuilder,
GroupMetadataManager.maybeUpdateTargetAssignment.
"""

from collections import Counter
from collections.abc import Mapping
from typing import Final

from kvorum.broker.coordinator.group.assignors.range import assign_ranges
from kvorum.broker.coordinator.group.assignors.uniform import assign_uniformly
from kvorum.broker.coordinator.group.assignors.words import Assignor, GroupSpec, MemberSpec
from kvorum.broker.coordinator.group.consumer.draft import Draft
from kvorum.broker.coordinator.group.consumer.subscriptions import topic_ids_of
from kvorum.broker.coordinator.group.words import Assignment, ConsumerGroup
from kvorum.protocol.uuids import Uuid
from kvorum.quorum.image.topics import TopicsImage
from kvorum.runtime.logs import get_logger

log = get_logger("groups")

ASSIGNORS: Final[Mapping[str, Assignor]] = {"uniform": assign_uniformly, "range": assign_ranges}
NO_ASSIGNMENT: Final[Assignment] = {}


def may_assign(group: ConsumerGroup, interval_ms: int, wall_ms: int) -> bool:
    """Return whether enough time has passed since the last target; true if its time is unknown.

    Also true if that time is in the future, because the clock was set back or was another broker's: Kafka waits for it.
    """
    since_ms = group.assignment_timestamp_ms
    return since_ms == 0 or interval_ms == 0 or not since_ms <= wall_ms < since_ms + interval_ms


def preferred_assignor(group: ConsumerGroup, default: str) -> str:
    """Return the assignor that most members request; of equals, the first by name; the broker's first without any."""
    counts = Counter(each.server_assignor for each in group.members.values() if each.server_assignor is not None)
    return min(counts, key=lambda name: (-counts[name], name)) if counts else default


def spec_of(group: ConsumerGroup, topics: TopicsImage) -> GroupSpec:
    """Return a group as an assignor sees it. Cost: members and their topics."""
    resolved: dict[tuple[tuple[str, ...], str], frozenset[Uuid]] = {}
    members = {}
    for member_id in sorted(group.members):
        member = group.members[member_id]
        key = member.subscribed_topic_names, member.subscribed_topic_regex
        if key not in resolved:
            resolved[key] = topic_ids_of(member, group.regexes, topics)
        members[member_id] = MemberSpec(resolved[key], target_of(group, member_id), member.instance_id)
    counts = {}
    for topic_id in sorted(frozenset().union(*resolved.values())):
        topic = topics.topic_by_id(topic_id)
        assert topic is not None, "looked up by its name just now"
        counts[topic_id] = len(topic.partitions)
    return GroupSpec(members=members, partition_counts=counts)


def target_of(group: ConsumerGroup, member_id: str) -> Assignment:
    """Return a member's target."""
    return group.target.get(member_id, NO_ASSIGNMENT)


def write_targets(draft: Draft, assignor: str, topics: TopicsImage, wall_ms: int) -> None:
    """Compute the targets for the draft's group, and write those that have changed."""
    group = draft.group
    targets = ASSIGNORS[assignor](spec_of(group, topics))
    changed = 0
    for member_id, target in targets.items():
        if group.target.get(member_id) != target:
            draft.write_target(member_id, target)
            changed += 1
    draft.write_target_epoch(group.group_epoch, wall_ms)
    log.info(
        "target assignment computed", group=group.group_id, epoch=group.group_epoch, assignor=assignor, changed=changed
    )
