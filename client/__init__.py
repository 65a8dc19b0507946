"""Kvorum's public Python API: administration of a Kafka cluster (docs/python-api.md).

async with Cluster.connect("localhost:9092") as cluster:
    await cluster.topics.create("orders", partitions=6, replication_factor=3)

with SyncCluster.connect("localhost:9092") as cluster:
    print(cluster.topics.describe("orders").partitions)
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kvorum.client.cluster import Cluster
    from kvorum.client.sync import SyncCluster
    from kvorum.client.values.partition import Partition
    from kvorum.client.values.topic import CreatedTopic, NewTopic, Topic
    from kvorum.client.wire.cluster_client import Unreachable
    from kvorum.protocol.errors import ErrorCode, KafkaError, KafkaException
    from kvorum.protocol.topic_partition import TopicPartition
    from kvorum.protocol.uuids import Uuid

MODULES = {
    "Cluster": "kvorum.client.cluster",
    "CreatedTopic": "kvorum.client.values.topic",
    "ErrorCode": "kvorum.protocol.errors",
    "KafkaError": "kvorum.protocol.errors",
    "KafkaException": "kvorum.protocol.errors",
    "NewTopic": "kvorum.client.values.topic",
    "Partition": "kvorum.client.values.partition",
    "SyncCluster": "kvorum.client.sync",
    "Topic": "kvorum.client.values.topic",
    "TopicPartition": "kvorum.protocol.topic_partition",
    "Unreachable": "kvorum.client.wire.cluster_client",
    "Uuid": "kvorum.protocol.uuids",
}
"""Module of each public name. Modules are imported on first use, because commands import single modules of `client`."""

__all__ = [
    "Cluster",
    "CreatedTopic",
    "ErrorCode",
    "KafkaError",
    "KafkaException",
    "NewTopic",
    "Partition",
    "SyncCluster",
    "Topic",
    "TopicPartition",
    "Unreachable",
    "Uuid",
]

if not TYPE_CHECKING:

    def __getattr__(name: str) -> object:
        """Import a public name on first use."""
        if name not in MODULES:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        return getattr(import_module(MODULES[name]), name)
