"""Values for tests."""

from collections.abc import Iterable

from kvorum.client.values.reassignment import Reassignment
from kvorum.protocol.topic_partition import TopicPartition


def reassignment(
    partition: TopicPartition, replicas: Iterable[int], adding: Iterable[int], removing: Iterable[int]
) -> Reassignment:
    """Return a current reassignment."""
    return Reassignment(
        topic=partition.topic,
        partition=partition.partition,
        replicas=tuple(replicas),
        adding=tuple(adding),
        removing=tuple(removing),
    )
