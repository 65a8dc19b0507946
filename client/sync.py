"""The synchronous API: each method of `Cluster` and its namespaces as a function that waits for the result.

Written by tools/generate_sync.py; do not change it by hand.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from types import TracebackType
from typing import Self

from kvorum.client.cluster import CLIENT_ID, Cluster
from kvorum.client.features import UpgradeType
from kvorum.client.loop_thread import LoopThread
from kvorum.client.metadata_log.metadata_tree import Tree
from kvorum.client.namespaces.brokers import Brokers
from kvorum.client.namespaces.configs import Configs
from kvorum.client.namespaces.features import Features
from kvorum.client.namespaces.groups import LOG_END_ATTEMPTS, Groups
from kvorum.client.namespaces.log_dirs import BEGIN_MS, LogDirs
from kvorum.client.namespaces.metadata import Metadata
from kvorum.client.namespaces.partitions import Partitions
from kvorum.client.namespaces.quorum import MetadataQuorum
from kvorum.client.namespaces.quotas import ALL, NO_QUOTAS, Quotas
from kvorum.client.namespaces.reassignments import NO_MOVES, NO_PLAN, Reassignments
from kvorum.client.namespaces.records import Acks, Compression, End, Records, Start
from kvorum.client.namespaces.tokens import Tokens
from kvorum.client.namespaces.topics import Topics
from kvorum.client.namespaces.transactions import MAX_TIMEOUT_MS, Transactions
from kvorum.client.namespaces.users import Users
from kvorum.client.values.broker import Broker, BrokerState
from kvorum.client.values.cluster import ClusterDescription
from kvorum.client.values.config import Config
from kvorum.client.values.delegation_token import DelegationToken
from kvorum.client.values.feature import Feature
from kvorum.client.values.group import Group, GroupListing, Lag, MemberRemoval, Membership, OffsetAndMetadata, TotalLag
from kvorum.client.values.log_dir import LogDir, LogDirMove, TopicPartitionReplica
from kvorum.client.values.offset import OffsetSpec, PartitionOffset
from kvorum.client.values.offset_reset import OffsetReset, ResetTarget
from kvorum.client.values.quorum import Listener, Quorum
from kvorum.client.values.quota import Quota
from kvorum.client.values.reassignment import Assignment, PlanProgress, Reassignment, ReplicaFile, Throttles
from kvorum.client.values.record import NewRecord, Record, RecordMetadata
from kvorum.client.values.topic import CreatedTopic, NewTopic, Topic
from kvorum.client.values.transaction import OpenTransaction, ProducerState, Transaction, TransactionListing
from kvorum.client.values.user import User
from kvorum.client.wire.cluster_client import TIMEOUT_MS, IsolationLevel, ResourceType
from kvorum.client.wire.coordinators import RETRIES
from kvorum.protocol.errors import KafkaError
from kvorum.protocol.topic_partition import TopicPartition
from kvorum.protocol.uuids import Uuid
from kvorum.security.credentials import ITERATIONS_MIN, ScramMechanism


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
        self.groups = SyncGroups(self._thread, cluster.groups)
        self.log_dirs = SyncLogDirs(self._thread, cluster.log_dirs)
        self.metadata = SyncMetadata(self._thread, cluster.metadata)
        self.partitions = SyncPartitions(self._thread, cluster.partitions)
        self.quorum = SyncMetadataQuorum(self._thread, cluster.quorum)
        self.quotas = SyncQuotas(self._thread, cluster.quotas)
        self.reassignments = SyncReassignments(self._thread, cluster.reassignments)
        self.records = SyncRecords(self._thread, cluster.records)
        self.tokens = SyncTokens(self._thread, cluster.tokens)
        self.topics = SyncTopics(self._thread, cluster.topics)
        self.transactions = SyncTransactions(self._thread, cluster.transactions)
        self.users = SyncUsers(self._thread, cluster.users)

    @classmethod
    def connect(
        cls,
        bootstrap: str | Sequence[str],
        *,
        client_id: str = CLIENT_ID,
        request_timeout_ms: int = TIMEOUT_MS,
        **config: str,
    ) -> Self:
        """Return a cluster, to be used with `with`, which raises Unreachable if no broker is.

        `bootstrap`: one or more HOST:PORT, as a list or separated by commas. `config`: security properties by the names
        of Java clients or librdkafka, with underscores or dots: `security_protocol="SASL_SSL"`. Raises ValueError for
        an invalid address or property.
        """
        return cls(Cluster.connect(bootstrap, client_id=client_id, request_timeout_ms=request_timeout_ms, **config))

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

    def describe_many(self, kind: ResourceType, names: Iterable[str | int]) -> dict[str, Sequence[Config] | KafkaError]:
        """Return the configs or the error of each resource, by name; only brokers need one request per resource."""
        return self._thread.run(self._namespace.describe_many(kind, names))

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


class SyncGroups:
    """Groups of a cluster. All methods raise KafkaError and Unreachable."""

    def __init__(self, thread: LoopThread, namespace: Groups) -> None:
        """Run this namespace on this thread."""
        self._thread, self._namespace = thread, namespace

    def list(self, states: Sequence[str] = (), types: Sequence[str] = ()) -> Sequence[GroupListing]:
        """Return the groups of all coordinators, by id; of some states and types, in any case, where given.

        Raises Unreachable if a coordinator does not respond.
        """
        return self._thread.run(self._namespace.list(states, types))

    def list_available(
        self, states: Sequence[str] = (), types: Sequence[str] = ()
    ) -> tuple[Sequence[GroupListing], Sequence[int]]:
        """Return the groups of coordinators that respond, and the ids of the brokers that do not."""
        return self._thread.run(self._namespace.list_available(states, types))

    def describe(self, group_id: str) -> Group:
        """Return a group of either protocol. Raises KafkaError GROUP_ID_NOT_FOUND."""
        return self._thread.run(self._namespace.describe(group_id))

    def describe_many(self, group_ids: Iterable[str]) -> dict[str, Group | KafkaError]:
        """Return each group or its error, with limited concurrency."""
        return self._thread.run(self._namespace.describe_many(group_ids))

    def describe_at(self, coordinator_id: int, kind: str, ids: Sequence[str]) -> Sequence[Group]:
        """Return groups of one protocol (`GroupListing.type`) from their coordinator, without those with an error."""
        return self._thread.run(self._namespace.describe_at(coordinator_id, kind, ids))

    def state(self, group_id: str) -> str:
        """Return a group's state; Dead for a missing group, for which offsets can be committed."""
        return self._thread.run(self._namespace.state(group_id))

    def offsets(self, group_id: str) -> dict[TopicPartition, OffsetAndMetadata]:
        """Return all committed offsets of a group, by topic and partition; none of a missing one."""
        return self._thread.run(self._namespace.offsets(group_id))

    def lags(self, group: Group | str, *, attempts: int = LOG_END_ATTEMPTS) -> Sequence[Lag]:
        """Return the partitions of a group with its lag: those of its members first, then other committed ones.

        The end offset of a partition is None after `attempts` without a response of its leader.
        """
        return self._thread.run(self._namespace.lags(group, attempts=attempts))

    def total_lags(self, group_ids: Iterable[str]) -> dict[str, TotalLag]:
        """Return the total lag of each group, without groups that are not available."""
        return self._thread.run(self._namespace.total_lags(group_ids))

    def memberships(self, listings: Iterable[GroupListing]) -> dict[str, Membership]:
        """Return the members and topics of each group, with one request per coordinator and protocol.

        Groups whose coordinator does not respond are left out.
        """
        return self._thread.run(self._namespace.memberships(listings))

    def reset_offsets(
        self,
        group_id: str,
        target: ResetTarget,
        partitions: Iterable[TopicPartition] | None = None,
        *,
        dry_run: bool = False,
        attempts: int = RETRIES,
    ) -> Sequence[OffsetReset]:
        """Reset a group's offsets in these partitions, or in all with a committed offset; each result has its error.

        The group may be missing. Raises KafkaError NON_EMPTY_GROUP if it has members, or if a leader does not return
        its offsets after `attempts`; ResetError if a missing offset is to be shifted.
        """
        return self._thread.run(
            self._namespace.reset_offsets(group_id, target, partitions, dry_run=dry_run, attempts=attempts)
        )

    def commit(self, group_id: str, offsets: Mapping[TopicPartition, int]) -> dict[TopicPartition, KafkaError | None]:
        """Commit offsets for a group without members; return the error of each (UNKNOWN_MEMBER_ID: it has members now).

        Raises KafkaError if no coordinator is available.
        """
        return self._thread.run(self._namespace.commit(group_id, offsets))

    def delete(self, group_id: str) -> None:
        """Delete a group with its offsets. Raises KafkaError GROUP_ID_NOT_FOUND, NON_EMPTY_GROUP."""
        return self._thread.run(self._namespace.delete(group_id))

    def delete_offsets(
        self, group_id: str, partitions: Iterable[TopicPartition]
    ) -> dict[TopicPartition, KafkaError | None]:
        """Delete a group's offsets of partitions; return the error of each.

        Raises KafkaError GROUP_ID_NOT_FOUND, NON_EMPTY_GROUP. GROUP_SUBSCRIBED_TO_TOPIC is an error of a partition.
        """
        return self._thread.run(self._namespace.delete_offsets(group_id, partitions))

    def remove_members(
        self, group_id: str, *, member_ids: Iterable[str] = (), instance_ids: Iterable[str] = (), reason: str = ""
    ) -> Sequence[MemberRemoval]:
        """Remove members from a group at once, as if they had left: by id, static ones by group.instance.id.

        The group is of the classic or the consumer protocol. UNKNOWN_MEMBER_ID is the error of a member that does not
        exist. Raises KafkaError if the group is not available at all.
        """
        return self._thread.run(
            self._namespace.remove_members(group_id, member_ids=member_ids, instance_ids=instance_ids, reason=reason)
        )

    def remove_all_members(self, group_id: str, *, reason: str = "") -> Sequence[MemberRemoval]:
        """Remove all current members of a group, static ones by their instance id."""
        return self._thread.run(self._namespace.remove_all_members(group_id, reason=reason))


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

    def cluster(self, *, fenced: bool = True) -> ClusterDescription:
        """Return the cluster's id, controller and brokers; `fenced`: also brokers that are fenced (KIP-1073)."""
        return self._thread.run(self._namespace.cluster(fenced=fenced))

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

    def add(
        self, topic: str, total: int, *, assignments: Sequence[Sequence[int]] | None = None, validate_only: bool = False
    ) -> None:
        """Increase the number of partitions of a topic to `total`; `assignments`: the replicas of each new one.

        Returns when the leaders serve all partitions, or after some 5 s. Raises KafkaError INVALID_PARTITIONS,
        INVALID_REPLICA_ASSIGNMENT, ...
        """
        return self._thread.run(self._namespace.add(topic, total, assignments=assignments, validate_only=validate_only))

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


class SyncQuotas:
    """Client quotas of a cluster. All methods raise KafkaError and Unreachable."""

    def __init__(self, thread: LoopThread, namespace: Quotas) -> None:
        """Run this namespace on this thread."""
        self._thread, self._namespace = thread, namespace

    def list(self, entity: Mapping[str, str | None] = ALL, *, strict: bool | None = None) -> Sequence[Quota]:
        """Return the quotas of the entities that match, by entity; without `entity` of all.

        `entity`: {type: name}; a name of None matches any, "" the default of the type. `strict`: only entities of
        exactly these types, which is the default where types are given.
        """
        return self._thread.run(self._namespace.list(entity, strict=strict))

    def alter(
        self,
        entity: Mapping[str, str | None],
        values: Mapping[str, float] = NO_QUOTAS,
        *,
        remove: Iterable[str] = (),
        validate_only: bool = False,
    ) -> None:
        """Set and remove quotas of one entity, {type: name or None for the default}; other quotas are unchanged."""
        return self._thread.run(self._namespace.alter(entity, values, remove=remove, validate_only=validate_only))


class SyncReassignments:
    """Reassignments of a cluster. All methods raise KafkaError and Unreachable."""

    def __init__(self, thread: LoopThread, namespace: Reassignments) -> None:
        """Run this namespace on this thread."""
        self._thread, self._namespace = thread, namespace

    def list(self, *, timeout_ms: int | None = None) -> dict[TopicPartition, Reassignment]:
        """Return the current reassignments, sorted."""
        return self._thread.run(self._namespace.list(timeout_ms=timeout_ms))

    def alter(
        self,
        plan: Mapping[TopicPartition, Sequence[int] | None],
        *,
        timeout_ms: int | None = None,
        allow_replication_factor_change: bool = True,
    ) -> dict[TopicPartition, KafkaError]:
        """Start or change reassignments to these replicas, or cancel them (None); return the errors of rejected ones.

        `allow_replication_factor_change=False`: the number of replicas must not change (KIP-860; ignored by clusters
        that do not support it).
        """
        return self._thread.run(
            self._namespace.alter(
                plan, timeout_ms=timeout_ms, allow_replication_factor_change=allow_replication_factor_change
            )
        )

    def cancel(
        self, partitions: Iterable[TopicPartition] | None = None, *, timeout_ms: int | None = None
    ) -> dict[TopicPartition, KafkaError | None]:
        """Cancel the reassignments of these partitions, or all: the original replicas are restored.

        Return the result of each partition with a reassignment; None: it is cancelled.
        """
        return self._thread.run(self._namespace.cancel(partitions, timeout_ms=timeout_ms))

    def verify(
        self,
        plan: Mapping[TopicPartition, Sequence[int]],
        log_dirs: Mapping[TopicPartitionReplica, str] = NO_MOVES,
        *,
        preserve_throttles: bool = False,
    ) -> PlanProgress:
        """Return the progress of a plan, with the log directories of its replicas.

        The throttles are removed once nothing is in progress, unless `preserve_throttles`.
        """
        return self._thread.run(self._namespace.verify(plan, log_dirs, preserve_throttles=preserve_throttles))

    def assignments(self, topics: Iterable[str]) -> Assignment:
        """Return the replicas of all partitions of these topics; nothing of missing topics."""
        return self._thread.run(self._namespace.assignments(topics))

    def replica_log_dirs(
        self, assignment: Mapping[TopicPartition, Sequence[int]]
    ) -> dict[tuple[TopicPartition, int], str]:
        """Return {(partition, broker): log directory} of replicas; nothing of missing brokers."""
        return self._thread.run(self._namespace.replica_log_dirs(assignment))

    def replica_sizes(self, brokers: Iterable[int]) -> dict[ReplicaFile, int]:
        """Return the bytes of each replica of these brokers, including copies that move to another directory."""
        return self._thread.run(self._namespace.replica_sizes(brokers))

    def live_brokers(self) -> dict[int, str | None]:
        """Return the unfenced brokers with their racks."""
        return self._thread.run(self._namespace.live_brokers())

    def throttles(self) -> Throttles:
        """Return all throttles that are set: rates of brokers, and their replicas."""
        return self._thread.run(self._namespace.throttles())

    def throttle(self, bytes_per_second: int, plan: Mapping[TopicPartition, Sequence[int]] = NO_PLAN) -> None:
        """Limit the rate of each broker in current reassignments, and in those of a plan, before it is started.

        A broker that is down copies nothing: if its rate cannot be set, it is skipped. Its possible targets have rates
        too. Raises KafkaError NO_REASSIGNMENT_IN_PROGRESS.
        """
        return self._thread.run(self._namespace.throttle(bytes_per_second, plan))

    def remove_throttles(self, topics: Iterable[str]) -> tuple[Sequence[int], Sequence[str]]:
        """Remove all throttles, of every broker (former sources are not known now) and these topics.

        Return the changed ones. A broker that is down, and whose configs no node accepts for it, keeps its own.
        """
        return self._thread.run(self._namespace.remove_throttles(topics))


class SyncRecords:
    """Records of a cluster. All methods raise KafkaError and Unreachable."""

    def __init__(self, thread: LoopThread, namespace: Records) -> None:
        """Run this namespace on this thread."""
        self._thread, self._namespace = thread, namespace

    def read(
        self,
        topic: str,
        *,
        partitions: Sequence[int] | None = None,
        start: Start = "earliest",
        start_ms: int | None = None,
        end: End = "latest",
        end_ms: int | None = None,
        follow: bool = False,
        limit: int | None = None,
        isolation: IsolationLevel = IsolationLevel.READ_UNCOMMITTED,
    ) -> Iterator[Record]:
        """Yield the records of a topic, by timestamp where each partition is ordered by it.

        They begin at `start`: an end of the log or {partition: offset}, or at the first record with at least the
        timestamp `start_ms`. They end at `end`, as it is now, or before the first record with at least the timestamp
        `end_ms`. With `follow` they do not end: new records follow. `limit`: maximum number of records. Without
        `partitions` all are read, or those in `start`. Offsets outside the log are replaced by the nearer end.
        """
        return self._thread.iterate(
            self._namespace.read(
                topic,
                partitions=partitions,
                start=start,
                start_ms=start_ms,
                end=end,
                end_ms=end_ms,
                follow=follow,
                limit=limit,
                isolation=isolation,
            )
        )

    def read_newest(
        self,
        topic: str,
        count: int = 10,
        *,
        partitions: Sequence[int] | None = None,
        isolation: IsolationLevel = IsolationLevel.READ_UNCOMMITTED,
    ) -> Sequence[Record]:
        """Return the newest records of a topic by timestamp, oldest first. Only the ends of partitions are read."""
        return self._thread.run(self._namespace.read_newest(topic, count, partitions=partitions, isolation=isolation))

    def produce(
        self,
        topic: str,
        value: bytes | str | None,
        *,
        key: bytes | str | None = None,
        headers: Mapping[str, bytes | str | None] | Sequence[tuple[str, bytes | str | None]] = (),
        partition: int | None = None,
        timestamp_ms: int | None = None,
        acks: Acks = "all",
        compression: Compression = "none",
    ) -> RecordMetadata:
        """Write one record; texts are written as UTF-8, a value of None is a tombstone.

        Nothing is retried: after Unreachable or REQUEST_TIMED_OUT the record may or may not be written.
        """
        return self._thread.run(
            self._namespace.produce(
                topic,
                value,
                key=key,
                headers=headers,
                partition=partition,
                timestamp_ms=timestamp_ms,
                acks=acks,
                compression=compression,
            )
        )

    def produce_many(
        self, topic: str, records: Iterable[NewRecord], *, acks: Acks = "all", compression: Compression = "none"
    ) -> Sequence[RecordMetadata]:
        """Write records; those of a partition in one batch, in their order. Nothing is retried.

        Check `error` of each result: the records of a partition are written together or not at all. The error of a
        record for a missing partition is UNKNOWN_TOPIC_OR_PARTITION. Raises KafkaError only if the topic is missing.
        """
        return self._thread.run(self._namespace.produce_many(topic, records, acks=acks, compression=compression))


class SyncTokens:
    """Delegation tokens. All methods raise KafkaError and Unreachable.

    KafkaError DELEGATION_TOKEN_REQUEST_NOT_ALLOWED: the connection is not authenticated, or by a token.
    """

    def __init__(self, thread: LoopThread, namespace: Tokens) -> None:
        """Run this namespace on this thread."""
        self._thread, self._namespace = thread, namespace

    def create(
        self, *, owner: str | None = None, renewers: Iterable[str] = (), max_lifetime_ms: int | None = None
    ) -> DelegationToken:
        """Create a token, for another owner or for the own principal; principals as TYPE:NAME.

        Raises ValueError for another form. Without `max_lifetime_ms` the cluster's delegation.token.max.lifetime.ms.
        """
        return self._thread.run(self._namespace.create(owner=owner, renewers=renewers, max_lifetime_ms=max_lifetime_ms))

    def renew(self, hmac: bytes, period_ms: int | None = None) -> int:
        """Set the expiration to `period_ms` from now, and return it; at most delegation.token.expiry.time.ms."""
        return self._thread.run(self._namespace.renew(hmac, period_ms))

    def expire(self, hmac: bytes, period_ms: int | None = None) -> int:
        """Set the expiration to `period_ms` from now, or remove the token at once; return the time."""
        return self._thread.run(self._namespace.expire(hmac, period_ms))

    def describe(self, owners: Iterable[str] | None = None) -> Sequence[DelegationToken]:
        """Return tokens by id: those of owners or renewers (TYPE:NAME), or all that the principal may see."""
        return self._thread.run(self._namespace.describe(owners))


class SyncTopics:
    """Topics of a cluster. All methods raise KafkaError and Unreachable."""

    def __init__(self, thread: LoopThread, namespace: Topics) -> None:
        """Run this namespace on this thread."""
        self._thread, self._namespace = thread, namespace

    def list(
        self,
        pattern: str = "*",
        *,
        internal: bool = False,
        reassignments: bool = True,
        authorized_operations: bool = False,
    ) -> Sequence[Topic]:
        """Return the topics by name, without configs and offsets; `pattern`: a name with * and ?.

        `reassignments=False`: the current ones are not requested; replicas that they add or remove count as replicas.
        """
        return self._thread.run(
            self._namespace.list(
                pattern, internal=internal, reassignments=reassignments, authorized_operations=authorized_operations
            )
        )

    def get(self, name: str, *, authorized_operations: bool = False) -> Topic:
        """Return a topic with one request: without configs, offsets and reassignments."""
        return self._thread.run(self._namespace.get(name, authorized_operations=authorized_operations))

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
        configs: Mapping[str, str | None] | None = None,
        validate_only: bool = False,
    ) -> CreatedTopic:
        """Create a topic; None: the cluster's defaults. `assignments`: replicas per partition, instead of numbers.

        Returns when the leaders serve its partitions, or after some 5 s.
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

    def default_configs(self) -> Sequence[Config]:
        """Return the configs that a new topic would have, by name (KIP-525; Kafka 2.4).

        They are those of a topic that does not exist and is not created: of an existing topic, clusters do not return
        the values below its own.
        """
        return self._thread.run(self._namespace.default_configs())

    def create_many(
        self, topics: Iterable[NewTopic], *, validate_only: bool = False
    ) -> dict[str, CreatedTopic | KafkaError]:
        """Create topics with one request; return the result or the error of each, by name. Returns as `create`."""
        return self._thread.run(self._namespace.create_many(topics, validate_only=validate_only))

    def delete(self, name: str) -> None:
        """Delete a topic with its records. Raises KafkaError UNKNOWN_TOPIC_OR_PARTITION, ..."""
        return self._thread.run(self._namespace.delete(name))

    def delete_many(self, names: Iterable[str]) -> dict[str, KafkaError | None]:
        """Delete topics with one request; return the error of each, by name."""
        return self._thread.run(self._namespace.delete_many(names))


class SyncTransactions:
    """Transactions of a cluster. All methods raise KafkaError and Unreachable."""

    def __init__(self, thread: LoopThread, namespace: Transactions) -> None:
        """Run this namespace on this thread."""
        self._thread, self._namespace = thread, namespace

    def list(
        self,
        *,
        states: Iterable[str] = (),
        producer_ids: Iterable[int] = (),
        open_for_ms: int | None = None,
        pattern: str | None = None,
    ) -> Sequence[TransactionListing]:
        """Return the transactional ids of all coordinators, by id. Raises Unreachable if one does not respond.

        `open_for_ms`: only transactions that are open for longer. `pattern`: RE2, only ids that match completely.
        """
        return self._thread.run(
            self._namespace.list(states=states, producer_ids=producer_ids, open_for_ms=open_for_ms, pattern=pattern)
        )

    def list_available(
        self,
        *,
        states: Iterable[str] = (),
        producer_ids: Iterable[int] = (),
        open_for_ms: int | None = None,
        pattern: str | None = None,
    ) -> tuple[Sequence[TransactionListing], Sequence[int]]:
        """Return the transactional ids of coordinators that respond, and the ids of the brokers that do not."""
        return self._thread.run(
            self._namespace.list_available(
                states=states, producer_ids=producer_ids, open_for_ms=open_for_ms, pattern=pattern
            )
        )

    def describe(self, transactional_id: str) -> Transaction:
        """Return a transactional id in its coordinator's state. Raises KafkaError TRANSACTIONAL_ID_NOT_FOUND."""
        return self._thread.run(self._namespace.describe(transactional_id))

    def producers(self, partition: TopicPartition, *, broker_id: int | None = None) -> Sequence[ProducerState]:
        """Return the producers with state on a partition, from its leader or from another replica."""
        return self._thread.run(self._namespace.producers(partition, broker_id=broker_id))

    def find_hanging(
        self,
        topic: str | None = None,
        partition: int | None = None,
        *,
        broker_id: int | None = None,
        open_for_ms: int = MAX_TIMEOUT_MS,
        now_ms: int | None = None,
    ) -> Sequence[OpenTransaction]:
        """Return open transactions that no coordinator will end, on a partition, a topic, or all (internal ones too).

        `broker_id`: only on this broker's replicas. `open_for_ms`: only transactions that are open for longer.
        """
        return self._thread.run(
            self._namespace.find_hanging(topic, partition, broker_id=broker_id, open_for_ms=open_for_ms, now_ms=now_ms)
        )

    def abort(self, partition: TopicPartition, start_offset: int) -> None:
        """Abort the transaction that starts at an offset on one partition. Raises KafkaError INVALID_TXN_STATE.

        A transaction that a coordinator knows ends by itself; find hanging ones first.
        """
        return self._thread.run(self._namespace.abort(partition, start_offset))

    def abort_producer(
        self, partition: TopicPartition, producer_id: int, producer_epoch: int, coordinator_epoch: int
    ) -> None:
        """Abort a producer's transaction on one partition, at its leader."""
        return self._thread.run(
            self._namespace.abort_producer(partition, producer_id, producer_epoch, coordinator_epoch)
        )

    def force_terminate(self, transactional_id: str) -> None:
        """Fence the producer of an id and abort its open transaction, whatever its timeout (KIP-939).

        Raises KafkaError TRANSACTIONAL_ID_NOT_FOUND: a name with a mistake does not create a new id.
        """
        return self._thread.run(self._namespace.force_terminate(transactional_id))


class SyncUsers:
    """Users with SCRAM credentials. All methods raise KafkaError and Unreachable."""

    def __init__(self, thread: LoopThread, namespace: Users) -> None:
        """Run this namespace on this thread."""
        self._thread, self._namespace = thread, namespace

    def list(self, names: Iterable[str] | None = None) -> Sequence[User]:
        """Return users by name; without `names` all. Raises KafkaError RESOURCE_NOT_FOUND: no such user."""
        return self._thread.run(self._namespace.list(names))

    def upsert(
        self,
        name: str,
        password: str,
        *,
        mechanism: ScramMechanism = ScramMechanism.SCRAM_SHA_512,
        iterations: int = ITERATIONS_MIN,
    ) -> None:
        """Create a user, or replace its password for a mechanism; that of another mechanism is unchanged.

        The password is salted here, and never sent. Raises ValueError if it is empty, KafkaError
        UNACCEPTABLE_CREDENTIAL for iterations outside 4096 to 16384.
        """
        return self._thread.run(self._namespace.upsert(name, password, mechanism=mechanism, iterations=iterations))

    def delete(self, name: str, mechanism: ScramMechanism | None = None) -> None:
        """Delete the credential of a mechanism, or the user with all its credentials.

        Raises KafkaError RESOURCE_NOT_FOUND: there is none.
        """
        return self._thread.run(self._namespace.delete(name, mechanism))
