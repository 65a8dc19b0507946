"""The coordinators of one broker: their partitions, entry points and internal topics.

    metadata -> internal topics (requests wait for one) -> runtimes (load partitions led here, unload others)
    handlers -> doors -> runtimes -> partitions -> replica manager

`broker.parts` creates them with all other parts; `broker.server` closes them before the listeners: requests that wait
for a rebalance get NOT_COORDINATOR, so their clients find the next coordinator at once.
"""

from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from typing import Any, Protocol, TypeAlias, TypeVar

from kvorum.broker.coordinator.group.coordinator import GroupCoordinator
from kvorum.broker.coordinator.group.counts import GroupCounts
from kvorum.broker.coordinator.group.figures import follow_groups
from kvorum.broker.coordinator.group.log_ends import LogEnds
from kvorum.broker.coordinator.group.settings import GroupSettings
from kvorum.broker.coordinator.group.shard import GroupShard
from kvorum.broker.coordinator.group.words import GroupsState
from kvorum.broker.coordinator.internal_topics import Controller, InternalTopics
from kvorum.broker.coordinator.runtime.aside import Aside
from kvorum.broker.coordinator.runtime.partition import CoordinatorPartition
from kvorum.broker.coordinator.runtime.replica_log import CoordinatorAppend, PartitionLog
from kvorum.broker.coordinator.runtime.runtime import CoordinatorRuntime, Replicas
from kvorum.broker.coordinator.runtime.words import Shard
from kvorum.broker.coordinator.transaction.coordinator import TransactionCoordinator
from kvorum.broker.coordinator.transaction.figures import TransactionFigures, follow_markers
from kvorum.broker.coordinator.transaction.peers import LocalBroker, Peers
from kvorum.broker.coordinator.transaction.places import Places
from kvorum.broker.coordinator.transaction.sender import MarkerSender
from kvorum.broker.coordinator.transaction.shard import ProducerIds, TransactionSettings, TransactionShard
from kvorum.broker.coordinator.transaction.state import TransactionsState
from kvorum.broker.coordinator.transaction.verifier import PartitionVerifier
from kvorum.broker.replica.partition import Partition
from kvorum.network.channel import Channel
from kvorum.protocol.compression import Codec
from kvorum.protocol.errors import KafkaError
from kvorum.protocol.topic_names import OFFSETS_TOPIC, TRANSACTION_TOPIC
from kvorum.protocol.topic_partition import TopicPartition
from kvorum.quorum.image import MetadataImage
from kvorum.quorum.image.partition import PartitionRegistration
from kvorum.quorum.publisher import MetadataPublisher
from kvorum.runtime.clock import Clock
from kvorum.runtime.config import Settings
from kvorum.runtime.metrics import Metrics

S = TypeVar("S")
H = TypeVar("H", bound=Shard[Any])

GroupRuntime: TypeAlias = CoordinatorRuntime[GroupsState, GroupShard]
TransactionRuntime: TypeAlias = CoordinatorRuntime[TransactionsState, TransactionShard]


class CoordinatorReplicas(Replicas, Protocol):
    """The replica manager, as far as coordinators and their logs need it."""

    def partition_or_raise(self, key: TopicPartition) -> Partition:
        """Return a replica here. Raises KafkaError."""
        ...

    @property
    def append_as_coordinator(self) -> CoordinatorAppend:
        """See ReplicaManager.append_as_coordinator."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Ground:
    """Common dependencies of all coordinators."""

    broker_id: int
    settings: Settings
    """Static configs: the coordinators' configs are read-only in Kafka."""
    clock: Clock
    chance: Random
    replicas: CoordinatorReplicas
    image: Callable[[], MetadataImage]
    """The newest metadata."""
    on_fault: Callable[[BaseException], None]
    metrics: Metrics

    def runtime(
        self,
        topic: str,
        make_shard: Callable[[TopicPartition], H],
        state: type[S],
        *,
        codec: Codec,
        write_timeout_ms: int,
    ) -> CoordinatorRuntime[S, H]:
        """Make the runtime of a coordinator on an internal topic; `state` is the type its shards decide on."""

        def make_partition(key: TopicPartition) -> CoordinatorPartition[S, H]:
            return CoordinatorPartition(
                key,
                PartitionLog(key, self.replicas.partition_or_raise, self.replicas.append_as_coordinator),
                lambda: make_shard(key),
                self.clock,
                image=self.image,
                codec=codec,
                write_timeout_ms=write_timeout_ms,
                on_fault=self.on_fault,
            )

        return CoordinatorRuntime(topic, self.broker_id, self.replicas, make_partition, self.image)


@dataclass(frozen=True, slots=True, kw_only=True)
class World:
    """Peers of coordinators and of leaders of transactional partitions."""

    producer_ids: ProducerIds
    open_channel: Callable[[int], Channel]
    """Opens another channel to a broker."""
    open_lag_channel: Callable[[int], Channel]
    """The same for log ends, which no request waits for."""
    local: LocalBroker
    """This broker, for the same requests."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionParts:
    """The transaction half."""

    runtime: TransactionRuntime
    coordinator: TransactionCoordinator
    verifier: PartitionVerifier
    """Sends verifications of partitions led here to the coordinators."""
    peers: Peers
    sender: MarkerSender

    async def close(self) -> None:
        """Stop deciding and sending. Idempotent."""
        await self.runtime.close()
        await self.sender.close()
        await self.verifier.close()
        await self.peers.close()


@dataclass(frozen=True, slots=True, kw_only=True)
class Coordinators:
    """All of them, made by `make_coordinators`."""

    internal_topics: InternalTopics
    group_runtime: GroupRuntime
    groups: GroupCoordinator
    log_ends: LogEnds
    transactions: TransactionParts

    @property
    def followers(self) -> tuple[MetadataPublisher, ...]:
        """Metadata publishers, after the replicas and in this order."""
        transactions = self.transactions
        return (self.internal_topics, transactions.peers, self.group_runtime, transactions.runtime)

    def replica_reopened(self, key: TopicPartition, registration: PartitionRegistration) -> None:
        """Follow a partition whose replica came online without a change of the metadata."""
        self.group_runtime.replica_reopened(key, registration)
        self.transactions.runtime.replica_reopened(key, registration)

    async def close(self) -> None:
        """Decide nothing more; waiting clients receive NOT_COORDINATOR. Idempotent."""
        await self.internal_topics.close()
        await self.log_ends.close()
        await self.transactions.close()
        await self.group_runtime.close()


def make_transactions(ground: Ground, world: World) -> TransactionParts:
    """Create the transaction part; no partition is led yet."""
    places = Places(ground.image)
    request_timeout_ms = ground.settings.int("request.timeout.ms")
    peers = Peers(ground.broker_id, world.open_channel, world.local, lambda: request_timeout_ms)
    sender = MarkerSender(peers, places.leader_of)
    follow_markers(ground.metrics, sender)
    settings = TransactionSettings.of(ground.settings)
    runtime: TransactionRuntime = ground.runtime(
        TRANSACTION_TOPIC,
        lambda key: TransactionShard(key, sender, world.producer_ids, settings),
        TransactionsState,
        codec=Codec.NONE,
        write_timeout_ms=request_timeout_ms,
    )
    return TransactionParts(
        runtime=runtime,
        coordinator=TransactionCoordinator(runtime, world.producer_ids),
        verifier=PartitionVerifier(
            peers, places.coordinator_of, ground.clock, TransactionFigures(ground.metrics, ground.clock.monotonic_ms)
        ),
        peers=peers,
        sender=sender,
    )


def make_coordinators(
    ground: Ground, controller: Controller, settings: Callable[[], Settings], world: World
) -> Coordinators:
    """Create the parts; no partition is led yet. `settings` returns the current ones, for topics created later."""
    group_settings, counts, aside = GroupSettings.of(ground.settings), GroupCounts(), Aside()
    group_runtime: GroupRuntime = ground.runtime(
        OFFSETS_TOPIC,
        lambda key: GroupShard(group_settings, ground.chance, counts, aside),
        GroupsState,
        codec=Codec(ground.settings.int("offsets.topic.compression.codec")),
        write_timeout_ms=ground.settings.int("offsets.commit.timeout.ms"),
    )
    log_ends = LogEnds(ground.clock, Places(ground.image).leader_of, world.open_lag_channel)
    follow_groups(ground.metrics, group_runtime.all_active, counts, lambda key: high_watermark(ground, key), log_ends)
    return Coordinators(
        internal_topics=InternalTopics(controller, settings, ground.image),
        group_runtime=group_runtime,
        groups=GroupCoordinator(group_runtime, group_settings.consumer.assignors),
        log_ends=log_ends,
        transactions=make_transactions(ground, world),
    )


def high_watermark(ground: Ground, key: TopicPartition) -> int | None:
    """Return the high watermark of a replica here that is in sync; None without one: others have an old value."""
    topic = ground.image().topics.topic(key.topic)
    partition = None if topic is None else topic.partitions.get(key.partition)
    if partition is None or ground.broker_id not in partition.isr:
        return None
    try:
        log = ground.replicas.partition_or_raise(key).log
    except KafkaError:
        return None
    return None if log is None else log.high_watermark
