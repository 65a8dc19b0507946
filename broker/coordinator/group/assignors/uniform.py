"""The assignor `uniform`: balanced to one partition, with as few moves as possible. Sans-IO.

If all subscribe to the same topics, each member keeps its partitions up to its share, and the rest goes to members with
fewer. Members that already have one more than others keep it. Members with different topics: heterogeneous.py. Source:
Kafka's UniformAssignor, UniformHomogeneousAssignmentBuilder.
"""

from kvorum.broker.coordinator.group.assignors.heterogeneous import assign_heterogeneous
from kvorum.broker.coordinator.group.assignors.words import GroupSpec, Targets
from kvorum.broker.coordinator.group.words import Assignment
from kvorum.protocol.uuids import Uuid


def assign_uniformly(spec: GroupSpec) -> Targets:
    """Return the assignment."""
    if not spec.members:
        return {}
    return assign_homogeneous(spec) if spec.is_homogeneous else assign_heterogeneous(spec)


def assign_homogeneous(spec: GroupSpec) -> Targets:
    """Return the assignment if all members have the same subscriptions. Cost: members and partitions."""
    topics = next(iter(spec.members.values())).topics
    if not topics:
        return {member_id: {} for member_id in spec.members}
    counts = {topic_id: count for topic_id, count in spec.partition_counts.items() if topic_id in topics}
    owned = {
        (topic_id, each) for m in spec.members.values() for topic_id, rows in m.assignment.items() for each in rows
    }
    free = [
        (topic_id, each) for topic_id, count in counts.items() for each in range(count) if (topic_id, each) not in owned
    ]
    share, extras = divmod(sum(counts.values()), len(spec.members))
    targets: Targets = {}
    held: set[tuple[Uuid, int]] = set()
    wanting: list[tuple[str, int]] = []
    for index, (member_id, member) in enumerate(spec.members.items()):
        quota = share + (extras > 0)
        takes_extra = extras > 0
        kept, given_up = _keep(member.assignment, counts, quota, held)
        free += given_up
        quota -= sum(map(len, kept.values()))
        if quota and takes_extra and len(spec.members) - index > extras:
            # Another member may have it already; the last ones must take it, or it would stay unassigned.
            quota -= 1
            takes_extra = False
        if quota:
            wanting.append((member_id, quota))
        extras -= takes_extra
        targets[member_id] = kept
    taken = iter(free)
    for member_id, quota in wanting:
        rows = {topic_id: set(partitions) for topic_id, partitions in targets[member_id].items()}
        for _, (topic_id, partition) in zip(range(quota), taken, strict=False):
            rows.setdefault(topic_id, set()).add(partition)
        targets[member_id] = {topic_id: frozenset(partitions) for topic_id, partitions in rows.items()}
    assert next(taken, None) is None, "the shares add up to all partitions"
    return targets


def _keep(
    assignment: Assignment, counts: dict[Uuid, int], quota: int, held: set[tuple[Uuid, int]]
) -> tuple[dict[Uuid, frozenset[int]], list[tuple[Uuid, int]]]:
    """Return the partitions that a member keeps within its quota, and those it gives up for others.

    Partitions `held` by an earlier member are not its own: leaders of classic groups can assign a partition twice.
    """
    kept: dict[Uuid, frozenset[int]] = {}
    given_up: list[tuple[Uuid, int]] = []
    for topic_id, partitions in assignment.items():
        count = counts.get(topic_id)
        if count is None:
            continue
        still = sorted(each for each in partitions if 0 <= each < count and (topic_id, each) not in held)
        held.update((topic_id, each) for each in still)
        mine, others = still[:quota], still[quota:]
        quota -= len(mine)
        if mine:
            kept[topic_id] = partitions if len(mine) == len(partitions) else frozenset(mine)
        given_up += [(topic_id, each) for each in others]
    return kept, given_up
