"""Partitions with too few replicas in sync for acks=all, by their topic's min.insync.replicas, or with just enough.

They are counted as brokers count those they lead: more than all replicas need not be in sync, whatever the minimum, so
one that has all of them in sync may have just enough (Kafka's Partition.effectiveMinIsr, isUnderMinIsr, isAtMinIsr);
and what has no leader takes nothing (TopicCommand.isUnderMinIsr).
Topics with a replica out of sync, or a partition nobody leads, are asked about first: only of them too few may be in
sync. Where a partition has one replica, and that is in sync, nobody needs to be asked.
"""

import asyncio
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
"""Who looks after the health is not kept longer, neither by brokers that stand still nor by many topics."""

log = get_logger("admin")


class InSync(NamedTuple):
    """The partitions that have too few in sync, and how many have just enough; None: not all minimums are told."""

    under: frozenset[Place]
    at: int | None


def is_short(row: MetadataResponsePartition) -> bool:
    """Tell whether a replica of a partition is out of sync, or nobody leads it."""
    return row.leader_id < 0 or len(row.isr_nodes) < len(row.replica_nodes)


def enough(row: MetadataResponsePartition, minimum: int) -> int:
    """Return how many replicas in sync acks=all needs."""
    return min(minimum, len(row.replica_nodes))


async def in_sync(cluster: ClusterClient, topics: Iterable[MetadataResponseTopic]) -> InSync | None:
    """Find them, within ASK_MS; None: nobody tells the minimums of the topics in question."""
    known = {topic.name or "": topic.partitions for topic in topics}
    short = {name for name, rows in known.items() if any(is_short(row) for row in rows)}
    others = {name for name, rows in known.items() if any(len(row.replica_nodes) > 1 for row in rows)} - short
    until = asyncio.get_running_loop().time() + ASK_MS / 1000
    try:
        minimums = await minimums_of(cluster, sorted(short), until)
    except (KafkaError, Unreachable) as error:
        log.info("nobody tells how many replicas are to be in sync", error=error)
        return None
    found = [(Place(name, row.partition_index), row) for name in minimums for row in known[name]]
    under = {
        place for place, row in found if row.leader_id < 0 or len(row.isr_nodes) < enough(row, minimums[place.topic])
    }
    try:
        minimums |= await minimums_of(cluster, sorted(others), until)
    except (KafkaError, Unreachable) as error:
        log.info("not all is told of how many replicas are to be in sync", error=error)
        return InSync(frozenset(under), None)
    minimums |= dict.fromkeys(known.keys() - short - others, DEFAULT)
    at = sum(
        row.leader_id >= 0 and len(row.isr_nodes) == enough(row, minimum)
        for name, minimum in minimums.items()
        for row in known[name]
    )
    return InSync(frozenset(under), at)


async def minimums_of(cluster: ClusterClient, topics: Sequence[str], until: float) -> dict[str, int]:
    """Return min.insync.replicas of topics, by a time of the loop; those that are not there (any more) are left out.

    Raises KafkaError, Unreachable.
    """
    loop = asyncio.get_running_loop()
    found: dict[str, int] = {}
    for begin in range(0, len(topics), TOPICS_MAX):
        left_ms = int((until - loop.time()) * 1000)
        if left_ms <= 0:
            raise Unreachable(f"{len(topics) - begin} topics more than could be asked about in {ASK_MS} ms")
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
            told = [row.value for row in each.configs if row.name == KEY and row.value is not None]
            found[each.resource_name] = int(told[0]) if told else DEFAULT
    return found
