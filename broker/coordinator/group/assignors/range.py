"""The assignor `range`: of each topic, runs of neighbouring partitions. Sans-IO.

Members are in order of their instance ids, then of their member ids; topics with equally many partitions are so handed
out alike, which a join of two topics by key needs. It is not sticky: where members come and go, ranges move.
Source: Kafka's RangeAssignor.
"""

from kvorum.broker.coordinator.group.assignors.words import GroupSpec, Targets
from kvorum.protocol.uuids import Uuid


def assign_ranges(spec: GroupSpec) -> Targets:
    """Return the assignment. Cost: the number of members times that of their topics."""
    members = spec.members
    order = sorted(members, key=lambda member_id: _rank(member_id, members[member_id].instance_id))
    readers: dict[Uuid, list[str]] = {}
    for member_id in order:
        for topic_id in members[member_id].topics:
            readers.setdefault(topic_id, []).append(member_id)
    targets: dict[str, dict[Uuid, frozenset[int]]] = {member_id: {} for member_id in order}
    for topic_id, member_ids in readers.items():
        each, extra = divmod(spec.partition_counts[topic_id], len(member_ids))
        start = 0
        for index, member_id in enumerate(member_ids):
            end = start + each + (index < extra)
            if end > start:
                targets[member_id][topic_id] = frozenset(range(start, end))
            start = end
    return dict(targets)


def _rank(member_id: str, instance_id: str | None) -> tuple[int, str]:
    return (1, member_id) if instance_id is None else (0, instance_id)
