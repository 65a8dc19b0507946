"""Sizes of topics on the brokers' disks; without the brokers that did not respond."""

import asyncio
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from kvorum.client.partitions.log_dirs import log_dirs_at
from kvorum.client.wire.cluster_client import ClusterClient, Unreachable
from kvorum.network.addresses import Address
from kvorum.protocol.errors import KafkaError
from kvorum.protocol.messages.describe_log_dirs import DescribableLogDirTopic
from kvorum.protocol.messages.metadata import MetadataResponse, MetadataResponseTopic
from kvorum.protocol.topic_partition import TopicPartition
from kvorum.runtime.logs import get_logger

log = get_logger("admin")
ReplicaSizes = Mapping[tuple[int, TopicPartition], int]
"""{(broker, partition): bytes of its replica}."""


class TopicSize(NamedTuple):
    """Bytes of the leaders' logs, None if one is unknown; and of all replicas with a known size."""

    leaders: int | None
    replicas: int


async def topic_sizes(
    cluster: ClusterClient, metadata: MetadataResponse, wanted: Sequence[MetadataResponseTopic]
) -> dict[str, TopicSize]:
    """Return {topic: its size}; all brokers are queried at once, and one that does not respond is skipped."""
    if not wanted:
        return {}
    requested = None
    if len(wanted) < len(metadata.topics):
        requested = [
            DescribableLogDirTopic(topic=each.name or "", partitions=[row.partition_index for row in each.partitions])
            for each in wanted
        ]
    answers = await asyncio.gather(
        *(_of_broker(cluster, each.node_id, (each.host, each.port), requested) for each in metadata.brokers)
    )
    sizes = {key: size for answer in answers for key, size in answer.items()}
    return {topic.name or "": size_of(topic, sizes) for topic in wanted}


async def _of_broker(
    cluster: ClusterClient, broker: int, address: Address, requested: Sequence[DescribableLogDirTopic] | None
) -> dict[tuple[int, TopicPartition], int]:
    try:
        directories = await log_dirs_at(cluster, address, requested, timeout_ms=cluster.part_ms)
    except (KafkaError, Unreachable) as error:
        log.info("replica sizes not available from broker", broker=broker, error=error)
        return {}
    return {
        (broker, TopicPartition(topic.name, row.partition_index)): row.partition_size
        for directory in directories
        for topic in directory.topics
        for row in topic.partitions
        if not row.is_future_key
    }


def size_of(topic: MetadataResponseTopic, sizes: ReplicaSizes) -> TopicSize:
    """Return a topic's size from the brokers' responses."""
    name = topic.name or ""
    leaders = [sizes.get((row.leader_id, TopicPartition(name, row.partition_index))) for row in topic.partitions]
    known = [size for size in leaders if size is not None]
    replicas = (
        sizes.get((broker, TopicPartition(name, row.partition_index)), 0)
        for row in topic.partitions
        for broker in row.replica_nodes
    )
    return TopicSize(sum(known) if len(known) == len(leaders) else None, sum(replicas))
