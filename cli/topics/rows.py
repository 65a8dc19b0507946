"""Output of `kvorum topics`: a row per topic or per partition."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from kvorum.cli.kafka.topics_described import reassignments

if TYPE_CHECKING:
    from kvorum.client.reassignments.reassignments import UnderWay
    from kvorum.client.wire.cluster_client import ClusterClient
    from kvorum.protocol.messages.metadata import MetadataResponsePartition, MetadataResponseTopic
    from kvorum.protocol.topic_partition import TopicPartition

    Moving = Mapping[TopicPartition, UnderWay]


async def under_way(cluster: "ClusterClient") -> "Moving":
    """Return the present reassignments; none if the cluster is too old."""
    return await reassignments(cluster)


def moving_of(topic: str, row: "MetadataResponsePartition", moving: "Moving") -> "UnderWay | None":
    """Return a partition's reassignment."""
    from kvorum.protocol.topic_partition import TopicPartition

    return moving.get(TopicPartition(topic, row.partition_index))


def list_row(topic: "MetadataResponseTopic", moving: "Moving") -> dict[str, Any]:
    """Return a topic's row in a list: a replica that is being added is not missing."""
    from kvorum.client.partitions.replication import is_under_replicated, replication_factor

    name = topic.name or ""
    rows = [(row, moving_of(name, row, moving)) for row in topic.partitions]
    return {
        "topic": topic.name,
        "partitions": len(topic.partitions),
        "replication_factor": max((replication_factor(*each) for each in rows), default=0),
        "under_replicated": sum(is_under_replicated(*each) for each in rows),
        "unavailable": sum(row.leader_id < 0 for row in topic.partitions),
    }


async def described(cluster: "ClusterClient", name: str, moving: "Moving") -> dict[str, Any]:
    """Return the description of a topic. Raises KafkaError, Unreachable."""
    from kvorum.client.config_sources import topic_overrides
    from kvorum.client.partitions.offsets import topic_offsets
    from kvorum.client.wire.cluster_client import EARLIEST, LATEST, ResourceType

    topic = await cluster.topic(name)
    configs = topic_overrides(await cluster.describe_configs(ResourceType.TOPIC, name))
    eligible = await cluster.eligible(topic)
    earliest, latest = await topic_offsets(cluster, topic, EARLIEST), await topic_offsets(cluster, topic, LATEST)
    rows = []
    for row in sorted(topic.partitions, key=lambda row: row.partition_index):
        index, each = row.partition_index, moving_of(name, row, moving)
        rows.append(
            {
                "partition": index,
                "leader": row.leader_id,
                "epoch": row.leader_epoch,
                "replicas": row.replica_nodes,
                "isr": row.isr_nodes,
                "adding": [] if each is None else each.adding,
                "removing": [] if each is None else each.removing,
                "elr": eligible[index].elr,
                "last_known_elr": eligible[index].last_known_elr,
                "earliest": earliest[index],
                "latest": latest[index],
            }
        )
    return {"topic": name, "topic_id": str(topic.topic_id), "configs": configs, "partitions": rows}
