"""Progress of reassignments: the share of each added replica, by bytes and by offsets.

Sizes come from DescribeLogDirs, log ends from ListOffsets with Kafka's debugging replica id, which followers support
too. A broker that does not respond, or has no replica yet, leaves gaps in the result.
"""

import asyncio
from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from kvorum.client.wire.cluster_client import LATEST, ClusterClient, Unreachable
from kvorum.network.addresses import Address
from kvorum.protocol.errors import KafkaError
from kvorum.protocol.messages.describe_log_dirs import (
    DescribableLogDirTopic,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
)
from kvorum.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from kvorum.protocol.topic_partition import TopicPartition, by_topic
from kvorum.runtime.logs import get_logger

DEBUGGING_REPLICA: Final = -2
"""ListOffsetsRequest.DEBUGGING_REPLICA_ID: any replica responds, with its log end offset."""
log = get_logger("admin")


class Held(NamedTuple):
    """A broker's data on a partition; None if it did not respond."""

    size_bytes: int | None = None
    end_offset: int | None = None


NOTHING_REPORTED: Final = Held()
Copies = dict[tuple[int, TopicPartition], Held]
"""{(broker, partition): its data}."""


async def copies(cluster: ClusterClient, wanted: Mapping[int, Iterable[TopicPartition]]) -> Copies:
    """Return the data on partitions from {broker: partitions}, queried at once. Raises KafkaError, Unreachable.

    Raises only if the cluster cannot return its brokers.
    """
    addresses = {each.broker_id: (each.host, each.port) for each in (await cluster.describe_cluster()).brokers}
    by_broker = {broker: sorted(places) for broker, places in wanted.items() if broker in addresses}
    responses = await asyncio.gather(
        *(_of_broker(cluster, broker, addresses[broker], places) for broker, places in by_broker.items())
    )
    return {place: held for rows in responses for place, held in rows.items()}


async def _of_broker(cluster: ClusterClient, broker: int, address: Address, places: list[TopicPartition]) -> Copies:
    try:
        sizes, ends = await asyncio.gather(_sizes(cluster, address, places), _ends(cluster, address, places))
    except (KafkaError, Unreachable) as error:
        log.info("reassignment progress not available from broker", broker=broker, error=error)
        return {}
    return {(broker, place): Held(sizes.get(place), ends.get(place)) for place in places}


async def _sizes(cluster: ClusterClient, address: Address, places: list[TopicPartition]) -> dict[TopicPartition, int]:
    topics = [DescribableLogDirTopic(topic=name, partitions=indexes) for name, indexes in by_topic(places).items()]
    answer = await cluster.ask(DescribeLogDirsRequest(topics=topics), DescribeLogDirsResponse, address)
    return {
        TopicPartition(topic.name, row.partition_index): row.partition_size
        for result in answer.results
        for topic in result.topics
        for row in topic.partitions
        if not row.is_future_key
    }


async def _ends(cluster: ClusterClient, address: Address, places: list[TopicPartition]) -> dict[TopicPartition, int]:
    topics = [
        ListOffsetsTopic(
            name=name, partitions=[ListOffsetsPartition(partition_index=each, timestamp=LATEST) for each in indexes]
        )
        for name, indexes in by_topic(places).items()
    ]
    request = ListOffsetsRequest(replica_id=DEBUGGING_REPLICA, topics=topics, timeout=cluster.wait_ms)
    answer = await cluster.ask(request, ListOffsetsResponse, address)
    return {
        TopicPartition(topic.name, row.partition_index): row.offset
        for topic in answer.topics
        for row in topic.partitions
        if not row.error_code and row.offset >= 0
    }
