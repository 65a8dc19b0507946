"""Replicas of new partitions: given in the request, or chosen by the placer. Sans-IO."""

from collections.abc import Sequence
from typing import Final

from kvorum.protocol.errors import ErrorCode, KafkaError
from kvorum.protocol.uuids import Uuid
from kvorum.quorum.controller.context import Context
from kvorum.quorum.controller.placement import ReplicaPlacer, usable_brokers
from kvorum.quorum.records import Partition
from kvorum.quorum.steps import Steps, pieces

Replicas = tuple[int, ...]

PARTITIONS_A_STEP: Final = 50
"""Some 10 us each."""


def place_partitions(context: Context, count: int, replication_factor: int) -> Steps[list[Replicas]]:
    """Place replicas of this number of partitions. Raises KafkaError INVALID_REPLICATION_FACTOR."""
    brokers = [each for each in usable_brokers(context.image.cluster) if not context.is_leaving(each.broker_id)]
    placer = ReplicaPlacer(brokers, context.random)
    placed: list[Replicas] = []
    for piece in pieces(range(count), PARTITIONS_A_STEP):
        placed += [placer.place(replication_factor) for _ in piece]
        yield
    return placed


def check_manual_assignment(context: Context, replicas: Sequence[int], replication_factor: int | None) -> None:
    """Check a manual assignment; None: the first partition defines the replication factor.

    Raises KafkaError INVALID_REPLICA_ASSIGNMENT.
    """
    problem = None
    if not replicas:
        problem = "includes an empty replica list"
    for replica in sorted(set(replicas)):
        if context.image.cluster.broker(replica) is None:
            problem = f"includes broker {replica}, but no such broker is registered"
            break
        if context.is_leaving(replica):
            problem = f"includes broker {replica}, which is being decommissioned"
            break
        if replicas.count(replica) > 1:
            problem = f"includes the broker {replica} more than once"
            break
    else:
        if replicas and replication_factor is not None and len(replicas) != replication_factor:
            problem = f"includes a partition with {len(replicas)} replica(s), but others have {replication_factor}"
    if problem is not None:
        message = f"The manual partition assignment {problem}."
        raise KafkaError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, message)


def new_partitions(
    context: Context, topic_id: Uuid, assignments: Sequence[Replicas], nobody_active: ErrorCode, first: int = 0
) -> Steps[list[Partition]]:
    """Make the records of a topic's new partitions, numbered from `first` on. Raises KafkaError as new_partition."""
    found: list[Partition] = []
    for piece in pieces(enumerate(assignments, first), PARTITIONS_A_STEP):
        found += [new_partition(context, topic_id, number, replicas, nobody_active) for number, replicas in piece]
        yield
    return found


def new_partition(
    context: Context, topic_id: Uuid, partition_id: int, replicas: Replicas, nobody_active: ErrorCode
) -> Partition:
    """Return the record of a new partition: all active replicas are in sync (there is nothing yet), the first leads.

    Preferably the first one that is not in maintenance.

    Raises KafkaError with the code `nobody_active` if no replica is active.
    """
    isr = tuple(replica for replica in replicas if context.image.cluster.is_active(replica))
    willing = [replica for replica in isr if not context.rests(replica)]
    if not isr:
        message = f"All brokers of partition {partition_id}, {list(replicas)}, are fenced or in controlled shutdown."
        raise KafkaError(nobody_active, message)
    return Partition(
        topic_id=topic_id,
        partition_id=partition_id,
        replicas=replicas,
        isr=isr,
        leader=(willing or isr)[0],
        directories=tuple(context.default_directory(replica) for replica in replicas),
    )
