"""The synchronous API: each method of `Cluster` and its namespaces as a function that waits for the result.

Written by tools/generate_sync.py; do not change it by hand.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from types import TracebackType
from typing import Self

from kvorum.client.cluster import CLIENT_ID, Cluster
from kvorum.client.features import UpgradeType
from kvorum.client.loop_thread import LoopThread
from kvorum.client.metadata_log.metadata_tree import Tree
from kvorum.client.namespaces.brokers import Brokers
from kvorum.client.namespaces.configs import Configs
from kvorum.client.namespaces.features import Features
from kvorum.client.namespaces.log_dirs import BEGIN_MS, LogDirs
from kvorum.client.namespaces.metadata import Metadata
from kvorum.client.namespaces.partitions import Partitions
from kvorum.client.namespaces.quorum import MetadataQuorum
from kvorum.client.namespaces.topics import Topics
from kvorum.client.values.broker import Broker, BrokerState
from kvorum.client.values.cluster import ClusterDescription
from kvorum.client.values.config import Config
from kvorum.client.values.feature import Feature
from kvorum.client.values.log_dir import LogDir, LogDirMove, TopicPartitionReplica
from kvorum.client.values.offset import OffsetSpec, PartitionOffset
from kvorum.client.values.quorum import Listener, Quorum
from kvorum.client.values.topic import CreatedTopic, NewTopic, Topic
from kvorum.client.wire.cluster_client import TIMEOUT_MS, IsolationLevel, ResourceType
from kvorum.protocol.errors import KafkaError
from kvorum.protocol.topic_partition import TopicPartition
from kvorum.protocol.uuids import Uuid


class SyncCluster:
    """A Kafka cluster, with a namespace per noun, for scripts, notebooks and tests. Close it. Thread-safe.

    It runs a `Cluster` on an event loop in a thread.
    """

    def __init__(self, cluster: Cluster) -> None:
        """Use this cluster, which no event loop has used yet. Raises Unreachable."""
        self._thread = LoopThread()
        self._cluster = cluster
        try:
            self._thread.run(cluster.__aenter__())
        except BaseException:
            self._thread.close()
            raise
        self.brokers = SyncBrokers(self._thread, cluster.brokers)
        self.configs = SyncConfigs(self._thread, cluster.configs)
        self.features = SyncFeatures(self._thread, cluster.features)
        self.log_dirs = SyncLogDirs(self._thread, cluster.log_dirs)
        self.metadata = SyncMetadata(self._thread, cluster.metadata)
        self.partitions = SyncPartitions(self._thread, cluster.partitions)
        self.quorum = SyncMetadataQuorum(self._thread, cluster.quorum)
        self.topics = SyncTopics(self._thread, cluster.topics)

    @classmethod
    def connect(
        cls, bootstrap: str | Sequence[str], *, client_id: str = CLIENT_ID, request_timeout_ms: int = TIMEOUT_MS
    ) -> Self:
        """Return a cluster, to be used with `with`, which raises Unreachable if no broker is.

        `bootstrap`: one or more HOST:PORT, as a list or separated by commas. Raises ValueError for any other text.
        """
        return cls(Cluster.connect(bootstrap, client_id=client_id, request_timeout_ms=request_timeout_ms))

    def close(self) -> None:
        """Close all connections. Idempotent."""
        if not self._thread.is_closed:
            self._thread.run(self._cluster.close())
            self._thread.close()

    def __enter__(self) -> Self:
        """Return the connected cluster."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Close all connections."""
        self.close()


class SyncBrokers:
    """Brokers of a cluster. All methods raise KafkaError and Unreachable.

    Administrative states are Kvorum's own; other clusters have none (UNSUPPORTED_VERSION).
    """

    def __init__(self, thread: LoopThread, namespace: Brokers) -> None:
        """Run this namespace on this thread."""
        self._thread, self._namespace = thread, namespace

    def list(self) -> Sequence[Broker]:
        """Return the registered brokers, by id."""
        return self._thread.run(self._namespace.list())

    def describe(self, broker_id: int) -> Broker:
        """Return a broker. Raises KafkaError BROKER_ID_NOT_REGISTERED."""
        return self._thread.run(self._namespace.describe(broker_id))

    def states(self) -> Sequence[BrokerState]:
        """Return the administrative states of all registered brokers with their progress, by id."""
        return self._thread.run(self._namespace.states())

    def state(self, broker_id: int) -> BrokerState:
        """Return the administrative state of a broker. Raises KafkaError BROKER_ID_NOT_REGISTERED."""
        return self._thread.run(self._namespace.state(broker_id))

    def begin_maintenance(self, broker_id: int) -> None:
        """Move leadership off a broker. Raises KafkaError INVALID_REQUEST: it is being decommissioned."""
        return self._thread.run(self._namespace.begin_maintenance(broker_id))

    def end_maintenance(self, broker_id: int) -> None:
        """End maintenance: preferred leaderships return. Raises KafkaError INVALID_REQUEST: not in maintenance."""
        return self._thread.run(self._namespace.end_maintenance(broker_id))

    def decommission(
        self, broker_id: int, *, throttle_bytes_per_second: int | None = None, validate_only: bool = False
    ) -> None:
        """Move a broker's replicas to other brokers. Returns at once; `state` has the progress.

        Raises KafkaError INVALID_REPLICATION_FACTOR: the other brokers are too few.
        """
        return self._thread.run(
            self._namespace.decommission(
                broker_id, throttle_bytes_per_second=throttle_bytes_per_second, validate_only=validate_only
            )
        )

    def recommission(self, broker_id: int) -> None:
        """Cancel a decommission; moved replicas are not moved back. Raises KafkaError INVALID_REQUEST."""
        return self._thread.run(self._namespace.recommission(broker_id))

    def unregister(self, broker_id: int) -> None:
        """Unregister a stopped broker. Raises KafkaError INVALID_REQUEST (Kvorum): not decommissioned, or alive."""
        return self._thread.run(self._namespace.unregister(broker_id))


class SyncConfigs:
    """Configs of a cluster. All methods raise KafkaError and Unreachable."""

    def __init__(self, thread: LoopThread, namespace: Configs) -> None:
        """Run this namespace on this thread."""
        self._thread, self._namespace = thread, namespace

    def list(self, kind: ResourceType) -> Sequence[str]:
        """Return the names of the resources of a kind that have own configs (KIP-1142; Kafka 4.1)."""
        return self._thread.run(self._namespace.list(kind))

    def describe(self, kind: ResourceType, name: str | int, *, documentation: bool = False) -> Sequence[Config]:
        """Return the configs of a resource, by name; `name` of a broker: its id, or "" for the default of all brokers.

        Raises KafkaError UNKNOWN_TOPIC_OR_PARTITION, BROKER_ID_NOT_REGISTERED, ...
        """
        return self._thread.run(self._namespace.describe(kind, name, documentation=documentation))

    def alter(
        self,
        kind: ResourceType,
        name: str | int,
        *,
        set: Mapping[str, str] | None = None,
        delete: Iterable[str] = (),
        append: Mapping[str, str] | None = None,
        subtract: Mapping[str, str] | None = None,
        validate_only: bool = False,
    ) -> None:
        """Set configs of a resource, or reset them to the default (`delete`); others are unchanged.

        `append` and `subtract` add and remove elements of lists, separated by commas. Raises KafkaError
        INVALID_CONFIG; INVALID_REQUEST: there is no change.
        """
        return self._thread.run(
            self._namespace.alter(
                kind, name, set=set, delete=delete, append=append, subtract=subtract, validate_only=validate_only
            )
        )


class SyncFeatures:
    """Features of a cluster. All methods raise KafkaError and Unreachable."""

    def __init__(self, thread: LoopThread, namespace: Features) -> None:
        """Run this namespace on this thread."""
        self._thread, self._namespace = thread, namespace

    def list(self, broker_id: int | None = None) -> Sequence[Feature]:
        """Return the features by name, as one broker supports them; None: any broker."""
        return self._thread.run(self._namespace.list(broker_id))

    def update(
        self, levels: Mapping[str, int], *, upgrade_type: UpgradeType = UpgradeType.UPGRADE, validate_only: bool = False
    ) -> None:
        """Set features to levels (0: disable), all or none. Raises KafkaError INVALID_UPDATE_VERSION, ..."""
        return self._thread.run(self._namespace.update(levels, upgrade_type=upgrade_type, validate_only=validate_only))


class SyncLogDirs:
    """Log directories of a cluster. All methods raise KafkaError and Unreachable."""

    def __init__(self, thread: LoopThread, namespace: LogDirs) -> None:
        """Run this namespace on this thread."""
        self._thread, self._namespace = thread, namespace

    def list(self, broker_ids: Sequence[int] | None = None) -> Sequence[LogDir]:
        """Return the log directories of some brokers, or of all (None). Raises KafkaError BROKER_ID_NOT_REGISTERED."""
        return self._thread.run(self._namespace.list(broker_ids))

    def moves(self) -> Sequence[LogDirMove]:
        """Return the present moves on all brokers that respond, by partition and broker."""
        return self._thread.run(self._namespace.moves())

    def move(
        self, targets: Mapping[TopicPartitionReplica, str], *, timeout_ms: int = BEGIN_MS
    ) -> dict[TopicPartitionReplica, KafkaError | None]:
        """Start moves of replicas to directories of their brokers; return the error of each.

        A broker that has no such replica yet is queried again until the timeout: REPLICA_NOT_AVAILABLE.
        """
        return self._thread.run(self._namespace.move(targets, timeout_ms=timeout_ms))

    def cancel_moves(
        self, partitions: Collection[TopicPartition] | None = None
    ) -> dict[TopicPartitionReplica, KafkaError | None]:
        """Cancel the moves of partitions (None: all); return the error of each move that existed."""
        return self._thread.run(self._namespace.cancel_moves(partitions))


class SyncMetadata:
    """The metadata of a cluster. All methods raise KafkaError and Unreachable."""

    def __init__(self, thread: LoopThread, namespace: Metadata) -> None:
        """Run this namespace on this thread."""
        self._thread, self._namespace = thread, namespace

    def cluster(self) -> ClusterDescription:
        """Return the cluster's id, controller and brokers."""
        return self._thread.run(self._namespace.cluster())

    def log_end_offset(self) -> int:
        """Return the high watermark of the metadata log: the next offset after its last committed record."""
        return self._thread.run(self._namespace.log_end_offset())

    def tree(self, path: str = "/", *, at: int | None = None) -> Tree | str:
        """Return the metadata below a path, such as /image/topics/byName, as of now or behind the record at an offset.

        A folder is a dict, a value is a text. Secrets are hidden. Raises LookupError: there is no such path; KafkaError
        OFFSET_OUT_OF_RANGE; KafkaError UNSUPPORTED_VERSION: the cluster is not Kvorum; MetadataProblem: the log is not
        readable, or larger than 64 MiB.
        """
        return self._thread.run(self._namespace.tree(path, at=at))


class SyncPartitions:
    """Partitions of a cluster. All methods raise KafkaError and Unreachable."""

    def __init__(self, thread: LoopThread, namespace: Partitions) -> None:
        """Run this namespace on this thread."""
        self._thread, self._namespace = thread, namespace

    def add(self, topic: str, total: int, *, validate_only: bool = False) -> None:
        """Increase the number of partitions of a topic to `total`. Raises KafkaError INVALID_PARTITIONS, ..."""
        return self._thread.run(self._namespace.add(topic, total, validate_only=validate_only))

    def list_offsets(
        self,
        partitions: Iterable[TopicPartition],
        at: OffsetSpec | int = OffsetSpec.LATEST,
        *,
        isolation: IsolationLevel = IsolationLevel.READ_UNCOMMITTED,
    ) -> dict[TopicPartition, PartitionOffset]:
        """Return the offset of each partition: first, last, or of the first record from a time (ms) on.

        READ_COMMITTED: the last is the last stable offset. Raises KafkaError if a leader rejects it, or does not
        respond within some 15 s.
        """
        return self._thread.run(self._namespace.list_offsets(partitions, at, isolation=isolation))

    def delete_records(self, offsets: Mapping[TopicPartition, int | None]) -> dict[TopicPartition, int | KafkaError]:
        """Delete the records below an offset of each partition, or all (None): those below the high watermark.

        Return the new log start offset or the error of each. It cannot be undone.
        """
        return self._thread.run(self._namespace.delete_records(offsets))

    def elect_leaders(
        self, partitions: Iterable[TopicPartition] | None = None, *, unclean: bool = False
    ) -> dict[TopicPartition, KafkaError | None]:
        """Elect the preferred leaders of partitions (None: all); `unclean`: any live replica, which can lose records.

        Return the error of each partition: None if its leader was elected, ELECTION_NOT_NEEDED if it leads already.
        With all partitions, those whose leader leads already are omitted.
        """
        return self._thread.run(self._namespace.elect_leaders(partitions, unclean=unclean))


class SyncMetadataQuorum:
    """The metadata quorum of a cluster. All methods raise KafkaError and Unreachable."""

    def __init__(self, thread: LoopThread, namespace: MetadataQuorum) -> None:
        """Run this namespace on this thread."""
        self._thread, self._namespace = thread, namespace

    def describe(self) -> Quorum:
        """Return the leader, voters and observers. Raises KafkaError REQUEST_TIMED_OUT: there is no leader."""
        return self._thread.run(self._namespace.describe())

    def add_voter(self, node_id: int, directory_id: Uuid, listeners: Iterable[Listener]) -> None:
        """Make an observing controller a voter; `listeners` include the quorum's first controller listener.

        Raises KafkaError DUPLICATE_VOTER, INVALID_REQUEST, UNSUPPORTED_VERSION (a static quorum), REQUEST_TIMED_OUT: it
        lags, another change is in progress, or the commit took too long (describe the quorum before a retry).
        """
        return self._thread.run(self._namespace.add_voter(node_id, directory_id, listeners))

    def remove_voter(self, node_id: int, directory_id: Uuid) -> None:
        """Make a voter an observer. Raises KafkaError VOTER_NOT_FOUND, and as `add_voter`."""
        return self._thread.run(self._namespace.remove_voter(node_id, directory_id))


class SyncTopics:
    """Topics of a cluster. All methods raise KafkaError and Unreachable."""

    def __init__(self, thread: LoopThread, namespace: Topics) -> None:
        """Run this namespace on this thread."""
        self._thread, self._namespace = thread, namespace

    def list(self, pattern: str = "*", *, internal: bool = False) -> Sequence[Topic]:
        """Return the topics by name, without configs and offsets; `pattern`: a name with * and ?."""
        return self._thread.run(self._namespace.list(pattern, internal=internal))

    def describe(self, name: str) -> Topic:
        """Return a topic with its configs, eligible leader replicas and offsets."""
        return self._thread.run(self._namespace.describe(name))

    def create(
        self,
        name: str,
        *,
        partitions: int | None = None,
        replication_factor: int | None = None,
        assignments: Mapping[int, Sequence[int]] | None = None,
        configs: Mapping[str, str] | None = None,
        validate_only: bool = False,
    ) -> CreatedTopic:
        """Create a topic; None: the cluster's defaults. `assignments`: replicas per partition, instead of numbers.

        Raises KafkaError TOPIC_ALREADY_EXISTS, INVALID_REPLICATION_FACTOR, ...
        """
        return self._thread.run(
            self._namespace.create(
                name,
                partitions=partitions,
                replication_factor=replication_factor,
                assignments=assignments,
                configs=configs,
                validate_only=validate_only,
            )
        )

    def create_many(
        self, topics: Iterable[NewTopic], *, validate_only: bool = False
    ) -> dict[str, CreatedTopic | KafkaError]:
        """Create topics with one request; return the result or the error of each, by name."""
        return self._thread.run(self._namespace.create_many(topics, validate_only=validate_only))

    def delete(self, name: str) -> None:
        """Delete a topic with its records. Raises KafkaError UNKNOWN_TOPIC_OR_PARTITION, ..."""
        return self._thread.run(self._namespace.delete(name))

    def delete_many(self, names: Iterable[str]) -> dict[str, KafkaError | None]:
        """Delete topics with one request; return the error of each, by name."""
        return self._thread.run(self._namespace.delete_many(names))
