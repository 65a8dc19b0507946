"""The partitions of a topic with their eligible leader replicas and offsets."""

from dataclasses import replace

from kvorum.client.partitions.offsets import topic_offsets
from kvorum.client.partitions.replication import NOTHING, ReassignmentMap
from kvorum.client.values.offset import OffsetSpec
from kvorum.client.values.partition import Partition, ids
from kvorum.client.values.topic import topic_value
from kvorum.client.wire.cluster_client import ClusterClient
from kvorum.protocol.messages.metadata import MetadataResponseTopic


async def topic_partitions(
    cluster: ClusterClient, topic: MetadataResponseTopic, moving: ReassignmentMap = NOTHING
) -> tuple[Partition, ...]:
    """Return the partitions in the Metadata of a topic, by number; `moving`: the current reassignments.

    An offset is None if the leader did not respond. Raises KafkaError, Unreachable.
    """
    eligible = await cluster.eligible(topic.name or "", [row.partition_index for row in topic.partitions])
    earliest = await topic_offsets(cluster, topic, OffsetSpec.EARLIEST)
    latest = await topic_offsets(cluster, topic, OffsetSpec.LATEST)
    return tuple(
        replace(
            each,
            elr=ids(eligible[each.partition].elr),
            last_known_elr=ids(eligible[each.partition].last_known_elr),
            earliest_offset=earliest[each.partition],
            latest_offset=latest[each.partition],
        )
        for each in topic_value(topic, moving).partitions
    )
