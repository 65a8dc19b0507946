"""Partitions with too few replicas in sync for acks=all, by their topic's min.insync.replicas, or with just enough.

A partition with fewer replicas than the minimum needs all of them in sync (Kafka's Partition.effectiveMinIsr). A
partition without a leader has too few (TopicCommand.isUnderMinIsr). "Just enough" counts only partitions with more
replicas than the minimum: where the replication factor is the minimum, every healthy partition has just enough, as the
brokers' AtMinIsrPartitionCount counts it. So only topics with a replica out of sync are looked up.
"""

import asyncio
from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from kvorum.client.wire.cluster_client import ClusterClient, ResourceType, Unreachable, refuse
from kvorum.protocol.errors import ErrorCode, KafkaError
from kvorum.protocol.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResponse,
)
from kvorum.protocol.messages.metadata import MetadataResponsePartition, MetadataResponseTopic
from kvorum.protocol.topic_partition import TopicPartition
from kvorum.runtime.logs import get_logger

KEY: Final = "min.insync.replicas"
DEFAULT: Final = 1
"""Kafka's default, for a cluster that does not return it."""
TOPICS_MAX: Final = 500
"""Topics per request: one config each."""
ASK_MS: Final = 5_000
"""Maximum duration in a health check, for blocked brokers and for many topics."""

log = get_logger("admin")


class MinIsrCounts(NamedTuple):
    """Partitions with too few in-sync replicas, and the number that lost a replica and have just enough."""

    under: frozenset[TopicPartition]
    at: int


def is_short(row: MetadataResponsePartition) -> bool:
    """Return whether a partition has a replica out of sync or no leader."""
    return row.leader_id < 0 or len(row.isr_nodes) < len(row.replica_nodes)


def enough(row: MetadataResponsePartition, minimum: int) -> int:
    """Return how many replicas in sync acks=all needs."""
    return min(minimum, len(row.replica_nodes))


async def in_sync(cluster: ClusterClient, topics: Iterable[MetadataResponseTopic]) -> MinIsrCounts | None:
    """Find them, within ASK_MS; None where the minimums of the topics in question are not known."""
    known = {topic.name or "": topic.partitions for topic in topics}
    short = sorted(name for name, rows in known.items() if any(is_short(row) for row in rows))
    until = asyncio.get_running_loop().time() + ASK_MS / 1000
    try:
        minimums = await minimums_of(cluster, short, until)
    except (KafkaError, Unreachable) as error:
        log.info("min.insync.replicas of topics not available", error=error)
        return None
    under, at = set(), 0
    for name, minimum in minimums.items():
        for row in known[name]:
            if row.leader_id < 0 or len(row.isr_nodes) < enough(row, minimum):
                under.add(TopicPartition(name, row.partition_index))
            elif len(row.isr_nodes) == minimum < len(row.replica_nodes):
                at += 1
    return MinIsrCounts(frozenset(under), at)


async def minimums_of(cluster: ClusterClient, topics: Sequence[str], until: float) -> dict[str, int]:
    """Return min.insync.replicas of topics, by a time of the loop; missing topics are omitted.

    Raises KafkaError, Unreachable.
    """
    loop = asyncio.get_running_loop()
    found: dict[str, int] = {}
    for begin in range(0, len(topics), TOPICS_MAX):
        left_ms = int((until - loop.time()) * 1000)
        if left_ms <= 0:
            raise Unreachable(f"{len(topics) - begin} topics not read within {ASK_MS} ms")
        resources = [
            DescribeConfigsResource(resource_type=ResourceType.TOPIC, resource_name=name, configuration_keys=[KEY])
            for name in topics[begin : begin + TOPICS_MAX]
        ]
        request = DescribeConfigsRequest(resources=resources)
        answer = await cluster.ask(request, DescribeConfigsResponse, timeout_ms=left_ms)
        for each in answer.results:
            if each.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                continue
            refuse(each.error_code, each.error_message)
            values = [row.value for row in each.configs if row.name == KEY and row.value is not None]
            found[each.resource_name] = int(values[0]) if values else DEFAULT
    return found
