"""Partitions with too few replicas in sync for acks=all, by their topic's min.insync.replicas, or with just enough.

Only topics with a replica out of sync, or a partition nobody leads, are asked about. Of the others all are in sync, and
that is enough, whatever the minimum (Kafka's Partition.effectiveMinIsr); what has no leader takes nothing
(TopicCommand.isUnderMinIsr).
"""

from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from kvorum.admin.client import ClusterClient, ResourceType, Unreachable, refuse
from kvorum.admin.places import Place
from kvorum.protocol.errors import ErrorCode, KafkaError
from kvorum.protocol.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResponse,
)
from kvorum.protocol.messages.metadata import MetadataResponsePartition, MetadataResponseTopic
from kvorum.runtime.logs import get_logger

KEY: Final = "min.insync.replicas"
DEFAULT: Final = 1
"""Of Kafka, for a cluster that does not tell."""
TOPICS_MAX: Final = 500
"""Asked about at a time: one config each."""
ASK_MS: Final = 5_000
"""Who looks after the health is not kept longer by a broker that stands still."""

log = get_logger("admin")


class InSync(NamedTuple):
    """The partitions that have too few in sync, and how many have just enough though a replica is missing."""

    under: frozenset[Place]
    at: int


def short_of(topic: MetadataResponseTopic) -> list[MetadataResponsePartition]:
    """Return the partitions of a topic of which a replica is out of sync, or that nobody leads."""
    return [row for row in topic.partitions if row.leader_id < 0 or len(row.isr_nodes) < len(row.replica_nodes)]


async def in_sync(cluster: ClusterClient, topics: Iterable[MetadataResponseTopic]) -> InSync | None:
    """Find them; None: nobody tells the minimums of the topics in question."""
    short = {topic.name or "": rows for topic in topics if (rows := short_of(topic))}
    try:
        minimums = await minimums_of(cluster, sorted(short))
    except (KafkaError, Unreachable) as error:
        log.info("nobody tells how many replicas are to be in sync", error=error)
        return None
    under, at = set(), 0
    for name, rows in short.items():
        if name not in minimums:
            continue  # deleted meanwhile
        for row in rows:
            if row.leader_id < 0 or len(row.isr_nodes) < minimums[name]:
                under.add(Place(name, row.partition_index))
            else:
                at += len(row.isr_nodes) == minimums[name]
    return InSync(frozenset(under), at)


async def minimums_of(cluster: ClusterClient, topics: Sequence[str]) -> dict[str, int]:
    """Return min.insync.replicas of topics; those that are not there are left out. Raises KafkaError, Unreachable."""
    found: dict[str, int] = {}
    for begin in range(0, len(topics), TOPICS_MAX):
        resources = [
            DescribeConfigsResource(resource_type=ResourceType.TOPIC, resource_name=name, configuration_keys=[KEY])
            for name in topics[begin : begin + TOPICS_MAX]
        ]
        request = DescribeConfigsRequest(resources=resources)
        answer = await cluster.ask(request, DescribeConfigsResponse, timeout_ms=ASK_MS)
        for each in answer.results:
            if each.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                continue
            refuse(each.error_code, each.error_message)
            told = [row.value for row in each.configs if row.name == KEY and row.value is not None]
            found[each.resource_name] = int(told[0]) if told else DEFAULT
    return found
