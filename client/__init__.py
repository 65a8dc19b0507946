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
    from kvorum.client.features import UpgradeType
    from kvorum.client.metadata_log.metadata_image import MetadataProblem
    from kvorum.client.metadata_log.metadata_tree import Tree
    from kvorum.client.sync import SyncCluster
    from kvorum.client.values.broker import AdminState, Broker, BrokerState, RequestedState
    from kvorum.client.values.cluster import ClusterDescription
    from kvorum.client.values.config import Config, ConfigSynonym
    from kvorum.client.values.delegation_token import DelegationToken
    from kvorum.client.values.feature import Feature
    from kvorum.client.values.group import (
        Group,
        GroupListing,
        Lag,
        Member,
        MemberRemoval,
        Membership,
        OffsetAndMetadata,
        TotalLag,
    )
    from kvorum.client.values.log_dir import LogDir, LogDirMove, LogDirReplica, TopicPartitionReplica
    from kvorum.client.values.offset import OffsetSpec, PartitionOffset
    from kvorum.client.values.offset_reset import OffsetReset, ResetError, ResetTarget
    from kvorum.client.values.partition import Partition
    from kvorum.client.values.quorum import Listener, Quorum, QuorumReplica
    from kvorum.client.values.quota import Quota
    from kvorum.client.values.reassignment import (
        BrokerThrottle,
        PlanPartition,
        PlanProgress,
        PlanState,
        Reassignment,
        ReplicaFile,
        Throttles,
        TopicThrottle,
    )
    from kvorum.client.values.record import NewRecord, Record, RecordMetadata
    from kvorum.client.values.topic import CreatedTopic, NewTopic, Topic
    from kvorum.client.values.transaction import OpenTransaction, ProducerState, Transaction, TransactionListing
    from kvorum.client.values.user import ScramCredentialInfo, User
    from kvorum.client.wire.cluster_client import IsolationLevel, ResourceType, Unreachable
    from kvorum.protocol.errors import ErrorCode, KafkaError, KafkaException
    from kvorum.protocol.topic_partition import TopicPartition
    from kvorum.protocol.uuids import Uuid
    from kvorum.security.credentials import ScramMechanism

__all__ = [
    "AdminState",
    "Broker",
    "BrokerState",
    "BrokerThrottle",
    "Cluster",
    "ClusterDescription",
    "Config",
    "ConfigSynonym",
    "CreatedTopic",
    "DelegationToken",
    "ErrorCode",
    "Feature",
    "Group",
    "GroupListing",
    "IsolationLevel",
    "KafkaError",
    "KafkaException",
    "Lag",
    "Listener",
    "LogDir",
    "LogDirMove",
    "LogDirReplica",
    "Member",
    "MemberRemoval",
    "Membership",
    "MetadataProblem",
    "NewRecord",
    "NewTopic",
    "OffsetAndMetadata",
    "OffsetReset",
    "OffsetSpec",
    "OpenTransaction",
    "Partition",
    "PartitionOffset",
    "PlanPartition",
    "PlanProgress",
    "PlanState",
    "ProducerState",
    "Quorum",
    "QuorumReplica",
    "Quota",
    "Reassignment",
    "Record",
    "RecordMetadata",
    "ReplicaFile",
    "RequestedState",
    "ResetError",
    "ResetTarget",
    "ResourceType",
    "ScramCredentialInfo",
    "ScramMechanism",
    "SyncCluster",
    "Throttles",
    "Topic",
    "TopicPartition",
    "TopicPartitionReplica",
    "TopicThrottle",
    "TotalLag",
    "Transaction",
    "TransactionListing",
    "Tree",
    "Unreachable",
    "UpgradeType",
    "User",
    "Uuid",
]

MODULES = {
    "kvorum.client.cluster": ("Cluster",),
    "kvorum.client.features": ("UpgradeType",),
    "kvorum.client.metadata_log.metadata_image": ("MetadataProblem",),
    "kvorum.client.metadata_log.metadata_tree": ("Tree",),
    "kvorum.client.sync": ("SyncCluster",),
    "kvorum.client.values.broker": (
        "AdminState",
        "Broker",
        "BrokerState",
        "RequestedState",
    ),
    "kvorum.client.values.cluster": ("ClusterDescription",),
    "kvorum.client.values.config": (
        "Config",
        "ConfigSynonym",
    ),
    "kvorum.client.values.delegation_token": ("DelegationToken",),
    "kvorum.client.values.feature": ("Feature",),
    "kvorum.client.values.log_dir": (
        "LogDir",
        "LogDirMove",
        "LogDirReplica",
        "TopicPartitionReplica",
    ),
    "kvorum.client.values.offset": (
        "OffsetSpec",
        "PartitionOffset",
    ),
    "kvorum.client.values.partition": ("Partition",),
    "kvorum.client.values.quorum": (
        "Listener",
        "Quorum",
        "QuorumReplica",
    ),
    "kvorum.client.values.topic": (
        "CreatedTopic",
        "NewTopic",
        "Topic",
    ),
    "kvorum.client.values.group": (
        "Group",
        "GroupListing",
        "Lag",
        "Member",
        "MemberRemoval",
        "Membership",
        "OffsetAndMetadata",
        "TotalLag",
    ),
    "kvorum.client.values.offset_reset": (
        "OffsetReset",
        "ResetError",
        "ResetTarget",
    ),
    "kvorum.client.values.quota": ("Quota",),
    "kvorum.client.values.reassignment": (
        "BrokerThrottle",
        "PlanPartition",
        "PlanProgress",
        "PlanState",
        "Reassignment",
        "ReplicaFile",
        "Throttles",
        "TopicThrottle",
    ),
    "kvorum.client.values.record": (
        "NewRecord",
        "Record",
        "RecordMetadata",
    ),
    "kvorum.client.values.transaction": (
        "OpenTransaction",
        "ProducerState",
        "Transaction",
        "TransactionListing",
    ),
    "kvorum.client.values.user": (
        "ScramCredentialInfo",
        "User",
    ),
    "kvorum.client.wire.cluster_client": (
        "IsolationLevel",
        "ResourceType",
        "Unreachable",
    ),
    "kvorum.protocol.errors": (
        "ErrorCode",
        "KafkaError",
        "KafkaException",
    ),
    "kvorum.protocol.topic_partition": ("TopicPartition",),
    "kvorum.protocol.uuids": ("Uuid",),
    "kvorum.security.credentials": ("ScramMechanism",),
}
"""{module: its public names}. They are imported on first use, because commands import single modules of `client`."""

if not TYPE_CHECKING:

    def __getattr__(name: str) -> object:
        """Import a public name on first use."""
        for module, names in MODULES.items():
            if name in names:
                return getattr(import_module(module), name)
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
