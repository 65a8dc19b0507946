"""The assignor `uniform` for members that subscribe to different topics. Sans-IO.

    keep     partitions of subscribed topics
    assign   unassigned partitions, by topic, to the reader with fewest; topics with most partitions per reader
             come first
    balance  topic by topic, from the reader with most to the one with fewest, while they differ by more than
             one; again until a whole round moved nothing, at most ROUNDS_MAX times

Where readers of a topic read the same topics it ends balanced to one. With overlapping subscriptions it comes near:
each topic is balanced among its readers, but not necessarily the whole. Balance has priority over stickiness. Source:
Kafka's UniformHeterogeneousAssignmentBuilder (the same rule and limit; heaps instead of its ranges).
"""

from collections.abc import Iterable
from heapq import heapify, heappop, heappush
from typing import Final

from kvorum.broker.coordinator.group.assignors.words import GroupSpec, Targets
from kvorum.protocol.uuids import Uuid

ROUNDS_MAX: Final = 16
"""A round about halves the imbalance; more rounds would take long and help little."""


def assign_heterogeneous(spec: GroupSpec) -> Targets:
    """Return the assignment. Cost: partitions, times the logarithm of their readers, a round."""
    plan = _Plan(spec)
    plan.hand_out()
    plan.balance()
    return plan.targets()


class _Plan:
    """Members and topics by their index; `owners[topic][partition]` is a member, -1 for none."""

    def __init__(self, spec: GroupSpec) -> None:
        self._spec = spec
        self._member_ids = list(spec.members)
        self._counts = spec.partition_counts
        self._readers: dict[Uuid, list[int]] = {}
        self._sizes = [0] * len(self._member_ids)
        for index, member in enumerate(spec.members.values()):
            for topic_id in member.topics:
                self._readers.setdefault(topic_id, []).append(index)
        self._owners = {topic_id: [-1] * self._counts[topic_id] for topic_id in self._readers}
        for index, member in enumerate(spec.members.values()):
            for topic_id, partitions in member.assignment.items():
                if topic_id in member.topics:
                    self._keep(topic_id, partitions, index)

    def _keep(self, topic_id: Uuid, partitions: Iterable[int], member: int) -> None:
        owners = self._owners[topic_id]
        for partition in partitions:
            if 0 <= partition < len(owners) and owners[partition] == -1:
                owners[partition] = member
                self._sizes[member] += 1

    def _in_order(self, topics: Iterable[Uuid]) -> list[Uuid]:
        """Most partitions a reader first, then fewest readers, then by id."""

        def rank(topic_id: Uuid) -> tuple[float, int, Uuid]:
            readers = len(self._readers[topic_id])
            return -self._counts[topic_id] / readers, readers, topic_id

        return sorted(topics, key=rank)

    def hand_out(self) -> None:
        """Assign each free partition to the member with the fewest."""
        free = {
            topic_id: [each for each, owner in enumerate(owners) if owner == -1]
            for topic_id, owners in self._owners.items()
        }
        for topic_id in self._in_order(topic_id for topic_id, partitions in free.items() if partitions):
            least = [(self._sizes[member], member) for member in self._readers[topic_id]]
            heapify(least)
            for partition in free[topic_id]:
                size, member = heappop(least)
                self._owners[topic_id][partition] = member
                self._sizes[member] = size + 1
                heappush(least, (size + 1, member))

    def balance(self) -> None:
        """Move partitions until nothing would be better for it, or enough rounds have passed."""
        topics = self._in_order(topic_id for topic_id, readers in self._readers.items() if len(readers) > 1)
        for _ in range(ROUNDS_MAX):
            if not sum(self._balance_topic(topic_id) for topic_id in topics):
                return

    def _balance_topic(self, topic_id: Uuid) -> int:
        """Balance the readers of one topic; return how many of its partitions were moved."""
        sizes, owners, readers = self._sizes, self._owners[topic_id], self._readers[topic_id]
        if max(sizes[member] for member in readers) - min(sizes[member] for member in readers) <= 1:
            return 0
        mine: dict[int, list[int]] = {}
        for partition, owner in enumerate(owners):
            mine.setdefault(owner, []).append(partition)
        least = [(sizes[member], member) for member in readers]
        most = [(-sizes[member], -member) for member in readers if member in mine]
        heapify(least)
        heapify(most)
        moved = 0
        while most:
            negative, giver = heappop(most)
            size, giver = -negative, -giver
            if size != sizes[giver]:
                heappush(most, (-sizes[giver], -giver))  # it was given to since
                continue
            while least[0][0] != sizes[least[0][1]]:
                heappop(least)  # it was given to, or gave, since
            fewest, taker = least[0]
            if size - fewest <= 1:
                break
            partition = mine[giver].pop()
            owners[partition] = taker
            sizes[giver] -= 1
            sizes[taker] += 1
            moved += 1
            heappush(least, (sizes[giver], giver))
            heappush(least, (sizes[taker], taker))
            if mine[giver]:
                heappush(most, (-sizes[giver], -giver))
        return moved

    def targets(self) -> Targets:
        """Return each member's assignment."""
        rows: list[dict[Uuid, set[int]]] = [{} for _ in self._member_ids]
        for topic_id, owners in self._owners.items():
            for partition, owner in enumerate(owners):
                rows[owner].setdefault(topic_id, set()).add(partition)
        return {
            member_id: {topic_id: frozenset(partitions) for topic_id, partitions in row.items()}
            for member_id, row in zip(self._member_ids, rows, strict=True)
        }
