"""A change of a topic's replication factor: which replicas are removed and added, and the reassignments for it.

Replicas out of sync are removed first, and of those in sync the last of the assignment, so that the preferred leader
stays as long as it is in sync. New replicas are chosen as by a reassignment that keeps existing ones (proposals).
"""

from collections import Counter
from collections.abc import Collection, Mapping
from typing import Final, NamedTuple

from kvorum.client.namespaces.reassignments import Reassignments
from kvorum.client.reassignments.proposals import Racks, next_broker
from kvorum.client.values.reassignment import Assignment
from kvorum.client.wire.cluster_client import ClusterClient
from kvorum.protocol.errors import ErrorCode, KafkaError
from kvorum.protocol.messages.metadata import MetadataResponseTopic
from kvorum.protocol.topic_partition import TopicPartition


class ReplicationFactorChange(NamedTuple):
    """The reassignments that are to begin, the number of replicas before, and whether a reassignment is under way."""

    target: Assignment
    before: int
    is_in_progress: bool


NO_CHANGE: Final = ReplicationFactorChange({}, 0, False)


def resize(
    current: Assignment, in_sync: Mapping[TopicPartition, Collection[int]], racks: Racks, factor: int
) -> Assignment:
    """Return new replicas for the partitions whose number of replicas differs; `racks`: the live brokers.

    Raises KafkaError INVALID_REPLICATION_FACTOR: there are too few brokers.
    """
    held = Counter(broker for replicas in current.values() for broker in replicas)
    found: Assignment = {}
    for place, replicas in sorted(current.items()):
        if len(replicas) == factor:
            continue
        by_use = sorted(replicas, key=lambda broker: broker not in in_sync.get(place, ()))
        kept = [broker for broker in replicas if broker in by_use[:factor]]
        while len(kept) < factor:
            if not racks.keys() - set(kept):
                message = f"{place}: {factor} replicas, but only {len(racks)} brokers are available"
                raise KafkaError(ErrorCode.INVALID_REPLICATION_FACTOR, message)
            kept.append(next_broker(place, kept, racks, held))
            held[kept[-1]] += 1
        found[place] = kept
    return found


async def plan_replication_factor(
    cluster: ClusterClient, topic: MetadataResponseTopic, factor: int
) -> ReplicationFactorChange:
    """Return the reassignments to this replication factor.

    Raises KafkaError REASSIGNMENT_IN_PROGRESS (to another factor), INVALID_REPLICATION_FACTOR.
    """
    found = Reassignments(cluster)
    under_way = await found.list()
    targets: Assignment = {}
    is_in_progress = False
    for row in topic.partitions:
        place = TopicPartition(topic.name or "", row.partition_index)
        moving = under_way.get(place)
        targets[place] = row.replica_nodes
        if moving is not None:
            is_in_progress = True
            targets[place] = [each for each in moving.replicas if each not in moving.removing]
            if len(targets[place]) != factor:
                message = f"{place} is being reassigned to {len(targets[place])} replicas; wait, or cancel it first"
                raise KafkaError(ErrorCode.REASSIGNMENT_IN_PROGRESS, message)
    alive = await found.live_brokers()
    if len({rack is None for rack in alive.values()}) > 1:
        alive = dict.fromkeys(alive)  # racks that only some brokers have are ignored
    in_sync = {TopicPartition(topic.name or "", row.partition_index): row.isr_nodes for row in topic.partitions}
    wanted = resize(targets, in_sync, alive, factor)
    before = next((len(targets[place]) for place in wanted), factor)
    return ReplicationFactorChange(wanted, before, is_in_progress)


async def begin(cluster: ClusterClient, wanted: Assignment) -> None:
    """Begin reassignments. Raises KafkaError where one is refused."""
    for place, error in sorted((await Reassignments(cluster).alter(wanted)).items()):
        raise KafkaError(error.code, f"{place}: {error.message or ''}")
