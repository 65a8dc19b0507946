"""The target number of replicas of a partition, and whether all are in sync.

Replicas that a reassignment adds do not count until it is completed, because they lag while they copy and no replica
is missing meanwhile.
Source: Kafka's TopicCommand (getReplicationFactor, isUnderReplicated, isReassignmentInProgress).
"""

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Final

from kvorum.client.namespaces.reassignments import Reassignments
from kvorum.client.values.reassignment import Reassignment
from kvorum.client.wire.cluster_client import ClusterClient, Unreachable
from kvorum.protocol.errors import KafkaError
from kvorum.protocol.messages.metadata import MetadataResponsePartition, MetadataResponseTopic
from kvorum.protocol.topic_partition import TopicPartition
from kvorum.runtime.logs import get_logger

ASK_MS: Final = 5_000
"""Timeout: without a controller no reassignment makes progress, and the response should not be delayed."""
ReassignmentMap = Mapping[TopicPartition, Reassignment]
NOTHING: Final[ReassignmentMap] = MappingProxyType({})

log = get_logger("admin")


def replication_factor(replicas: Sequence[int], moving: Reassignment | None) -> int:
    """Return the target number of replicas of a partition.

    If a reassignment ended between the two responses, none of its brokers is among the replicas.
    """
    if moving is not None and {*moving.adding, *moving.removing}.intersection(replicas):
        return len(moving.replicas) - len(moving.adding)
    return len(replicas)


def is_under_replicated(row: MetadataResponsePartition, moving: Reassignment | None) -> bool:
    """Return whether fewer are in sync."""
    return len(row.isr_nodes) < replication_factor(row.replica_nodes, moving)


async def reassignments_or_nothing(
    cluster: ClusterClient, topics: Iterable[MetadataResponseTopic], timeout_ms: int = ASK_MS
) -> ReassignmentMap:
    """Return the current reassignments of these; empty without a response in time (fetch_reassignments)."""
    found = await fetch_reassignments(cluster, topics, timeout_ms)
    return NOTHING if found is None else found


async def fetch_reassignments(
    cluster: ClusterClient, topics: Iterable[MetadataResponseTopic], timeout_ms: int
) -> ReassignmentMap | None:
    """Return the current reassignments of these; None: no broker responded in time.

    The controller is queried only if a replica is out of sync. While a replica is being added one is: with all in sync
    the reassignment ends. The first broker has half of the time, so that an unresponsive one leaves some for the next.
    """
    if all(len(row.isr_nodes) >= len(row.replica_nodes) for topic in topics for row in topic.partitions):
        return NOTHING
    try:
        async with asyncio.timeout(timeout_ms / 1000):
            return await Reassignments(cluster).list(timeout_ms=timeout_ms // 2)
    except (KafkaError, Unreachable, TimeoutError) as error:
        log.info("list of reassignments not available", error=error)
        return None
