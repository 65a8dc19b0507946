"""Replicas for new partitions: those somebody names, or those the placer finds. Sans-IO."""

from collections.abc import Sequence

from kvorum.protocol.errors import ErrorCode, KafkaError
from kvorum.protocol.uuids import Uuid
from kvorum.quorum.controller.context import Context
from kvorum.quorum.controller.placement import ReplicaPlacer, usable_brokers
from kvorum.quorum.records import Partition

Replicas = tuple[int, ...]


def place_partitions(context: Context, count: int, replication_factor: int) -> list[Replicas]:
    """Return replicas for so many partitions. Raises KafkaError INVALID_REPLICATION_FACTOR."""
    placer = ReplicaPlacer(usable_brokers(context.image.cluster), context.random)
    return [placer.place(replication_factor) for _ in range(count)]


def check_manual_assignment(context: Context, replicas: Sequence[int], replication_factor: int | None) -> None:
    """Check replicas that somebody named; None: the first partition decides the replication factor.

    Raises KafkaError INVALID_REPLICA_ASSIGNMENT.
    """
    problem = None
    if not replicas:
        problem = "includes an empty replica list"
    elif len(set(replicas)) != len(replicas):
        twice = next(replica for replica in replicas if replicas.count(replica) > 1)
        problem = f"includes the broker {twice} more than once"
    elif replication_factor is not None and len(replicas) != replication_factor:
        problem = f"includes a partition with {len(replicas)} replica(s), but others have {replication_factor}"
    else:
        unknown = [replica for replica in replicas if context.image.cluster.broker(replica) is None]
        if unknown:
            problem = f"includes broker {unknown[0]}, but no such broker is registered"
    if problem is not None:
        message = f"The manual partition assignment {problem}."
        raise KafkaError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, message)


def new_partition(
    context: Context, topic_id: Uuid, partition_id: int, replicas: Replicas, nobody_active: ErrorCode
) -> Partition:
    """Return the record of a new partition: all active replicas are in sync (there is nothing yet), the first leads.

    Raises KafkaError with the code `nobody_active` where no replica is active.
    """
    isr = tuple(replica for replica in replicas if context.image.cluster.is_active(replica))
    if not isr:
        message = f"All brokers of partition {partition_id}, {list(replicas)}, are fenced or in controlled shutdown."
        raise KafkaError(nobody_active, message)
    return Partition(
        topic_id=topic_id,
        partition_id=partition_id,
        replicas=replicas,
        isr=isr,
        leader=isr[0],
        directories=tuple(context.default_directory(replica) for replica in replicas),
    )
