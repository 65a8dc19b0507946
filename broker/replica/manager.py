"""The replicas on this broker, following the metadata, and their interface for handlers and coordinators.

    prepare_delta       create the logs of new replicas, before the metadata cache knows
    apply_delta         create logs, lead, follow, delete, according to the metadata log (after the cache is updated)
    append_records      Produce              delete_records   DeleteRecords
    fetch_records       Fetch                offsets          ListOffsets, OffsetForLeaderEpoch
    transactions        Produce with transactional batches, WriteTxnMarkers, verification for coordinators
    start, shutdown     periodic work: ISR shrinks, high watermark checkpoints (that of logs: broker.log_maintenance)

All on one event loop; nothing suspends between a check and the change that relies on it.
Source: Kafka's ReplicaManager.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence

from kvorum.broker.replica.appends import Appends, RunDone
from kvorum.broker.replica.delayed_delete_records import DeleteRecordsDone
from kvorum.broker.replica.delayed_produce import ProduceDone
from kvorum.broker.replica.delta import DeltaApplier
from kvorum.broker.replica.directory_assignments import DirectoryAssignments
from kvorum.broker.replica.fetcher_figures import follow_fetchers
from kvorum.broker.replica.fetcher_manager import FetcherManager
from kvorum.broker.replica.fetches import FetchDone, Fetches, ParkedFetch
from kvorum.broker.replica.figures import Figures
from kvorum.broker.replica.follower import Follower
from kvorum.broker.replica.hosted import HostedPartitions, Outbox
from kvorum.broker.replica.housekeeping import Deadlines, Housekeeping
from kvorum.broker.replica.isr_manager import AlterPartitionController, IsrManager
from kvorum.broker.replica.log_dir_moves import LogDirMoves
from kvorum.broker.replica.offsets import Offsets
from kvorum.broker.replica.partition import Partition
from kvorum.broker.replica.purgatory import Parked
from kvorum.broker.replica.replication_quota import ReplicationQuotas
from kvorum.broker.replica.resting import Rest, RestingTarget
from kvorum.broker.replica.selector import Select
from kvorum.broker.replica.transactions import Transactions
from kvorum.broker.replica.types import (
    ClusterView,
    FetchParams,
    FetchTarget,
    PartitionListener,
    Role,
)
from kvorum.network.channel import Channel
from kvorum.protocol.topic_partition import TopicPartition
from kvorum.quorum.image import MetadataDelta, MetadataImage
from kvorum.quorum.image.partition import PartitionRegistration
from kvorum.runtime.clock import Clock
from kvorum.runtime.config import Settings
from kvorum.runtime.metrics import Metrics
from kvorum.runtime.timers import Timers
from kvorum.storage.log_config import LogConfig
from kvorum.storage.log_manager import LogManager
from kvorum.storage.verification import VerificationGuard


class ReplicaManager:
    """One per broker. Created and used on its event loop."""

    def __init__(
        self,
        *,
        broker_id: int,
        settings: Settings,
        clock: Clock,
        log_manager: LogManager,
        cluster: ClusterView,
        controller: AlterPartitionController,
        broker_epoch: Callable[[], int],
        open_channel: Callable[[int], Channel],
        topic_config: Callable[[str], LogConfig],
        metrics: Metrics,
        current_settings: Callable[[], Settings] | None = None,
        select: Select | None = None,
    ) -> None:
        """Start without replicas.

        `cluster` is the metadata cache; `broker_epoch` returns this registration's; `open_channel` opens a channel for
        one fetcher; `topic_config`, `current_settings` (or `settings`) are the current configs; `select`: KIP-392.
        """
        self.broker_id = broker_id
        self._clock, self._log_manager, self._topic_config = clock, log_manager, topic_config
        timers, now_ms = Timers(), clock.monotonic_ms
        self._deadlines = Deadlines(timers, now_ms)
        self.hosted = HostedPartitions(cluster)
        figures, self.quotas = Figures(metrics), ReplicationQuotas(broker_id, settings)
        figures.follow_quotas(self.quotas, now_ms)
        self._outbox = Outbox(timers, on_isr_change=figures.isr_changed)
        figures.follow(self.hosted, self._outbox, clock.wall_ms, settings.int("transaction.max.timeout.ms"))
        self._isr_manager = IsrManager(
            broker_id=broker_id,
            broker_epoch=broker_epoch,
            controller=controller,
            now_ms=now_ms,
            settle=self._outbox.settle,
            figures=figures,
        )
        self._outbox.isr_sender = self._isr_manager
        self._fetchers = FetcherManager(
            broker_id=broker_id,
            settings=settings,
            broker_epoch=broker_epoch,
            open_channel=open_channel,
            clock=clock,
            on_advanced=self._follower_advanced,
            figures=figures,
            sync=log_manager.sync,
            quota=self.quotas.follower,
        )
        follow_fetchers(metrics, self._fetchers)
        self._appends = Appends(self.hosted, self._outbox, now_ms, figures, log_manager.sync, self._deadlines.arm)
        self._fetches = Fetches(self.hosted, self._outbox, now_ms, figures, self.quotas.leader, select)
        self.offsets = Offsets(self.hosted)
        self.transactions = Transactions(self.hosted, self._appends, current_settings or (lambda: settings))
        self._delta = DeltaApplier(
            broker_id=broker_id,
            settings=settings,
            clock=clock,
            hosted=self.hosted,
            outbox=self._outbox,
            fetchers=self._fetchers,
            log_manager=log_manager,
            cluster=cluster,
            broker_epoch=broker_epoch,
            figures=figures,
        )
        self._housekeeping = Housekeeping(settings, clock, self.hosted, self._outbox, log_manager)

    def tell_directories(self, assignments: DirectoryAssignments) -> None:
        """Report the log directories of replicas to the controller (KIP-858). Before the first metadata."""
        self._delta.assignments = self.moves.assignments = assignments

    def on_reopened(self, call: Callable[[TopicPartition, PartitionRegistration], None]) -> None:
        """Have `call` called with each replica that comes online without a change of the metadata."""
        self._delta.on_reopened = call

    @property
    def moves(self) -> LogDirMoves:
        """Moves of replicas between log directories of this broker."""
        return self._delta.moves

    async def wait_lost_reported(self) -> None:
        """Wait until the controller knows every lost log of a replica that others depend on.

        This comes before the request to be unfenced: the replica could be elected.
        """
        await self._delta.wait_lost_reported()

    # --- life ------------------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Start the periodic tasks."""
        self._housekeeping.start(self._delta.reopen)

    async def shutdown(self) -> None:
        """Stop fetching, proposing and the periodic tasks.

        The logs and their last checkpoints are the log manager's.
        """
        await self._fetchers.close()
        await self.moves.close()
        self.transactions.close()
        await self._appends.close()
        await self._isr_manager.close()
        if self._delta.assignments is not None:
            await self._delta.assignments.close()
        await self._housekeeping.close()
        self._deadlines.close()

    async def prepare_delta(self, delta: MetadataDelta) -> None:
        """Create and sync the logs of new replicas before the metadata change is published."""
        await self._delta.prepare(delta)

    async def apply_delta(self, delta: MetadataDelta, image: MetadataImage) -> None:
        """Apply a metadata change to this broker's replicas, in slices under 10 ms.

        Deletes come first (a topic may be recreated under its name), then leaders, then followers. A replica whose log
        cannot be opened is offline; the others continue.
        """
        await self._delta.apply(delta, image)

    def raise_min_isr(self, topics: Iterable[str] | None = None) -> None:
        """Apply a larger min.insync.replicas of these topics (None: of all); it cannot commit anything."""
        names = {key.topic for key in self.hosted.by_name} if topics is None else set(topics)
        self._log_manager.raise_min_isr({name: self._topic_config(name).min_insync_replicas for name in names})

    def configs_changed(self, topics: Iterable[str] | None = None) -> None:
        """Apply the present configuration to the logs of these topics (None: of all), with its consequences."""
        names = {key.topic for key in self.hosted.by_name} if topics is None else set(topics)
        for topic in names:
            self._log_manager.update_topic_config(topic, self._topic_config(topic))
        for key, partition in tuple(self.hosted.by_name.items()):
            if partition.is_leader and key.topic in names:
                partition.maybe_increment_leader_high_watermark(self._clock.monotonic_ms())
                self._outbox.settle(partition)

    def log_dir_failed(self, directory: str) -> None:
        """Take the replicas in a log directory offline; called when the disk under it failed."""
        self._delta.log_dir_failed(directory)

    # --- the data path ---------------------------------------------------------------------------------------------

    def append_records(
        self, timeout_ms: int, required_acks: int, entries: Mapping[TopicPartition, memoryview], on_done: ProduceDone
    ) -> None:
        """Append a producer's records; see Appends.append_records."""
        self._appends.append_records(timeout_ms, required_acks, entries, on_done)

    def append_run(
        self,
        timeout_ms: int,
        required_acks: int,
        key: TopicPartition,
        batches: Sequence[memoryview],
        on_done: RunDone,
    ) -> int:
        """Append what several requests brought for one partition; see Appends.append_run."""
        return self._appends.append_run(timeout_ms, required_acks, key, batches, on_done)

    def append_as_coordinator(
        self,
        key: TopicPartition,
        batch: memoryview,
        leader_epoch: int,
        guard: VerificationGuard | None = None,
        transaction_version: int = 0,
    ) -> int:
        """Append a coordinator's batch; see Appends.append_as_coordinator."""
        return self._appends.append_as_coordinator(key, batch, leader_epoch, guard, transaction_version)

    def fetch_records(
        self, params: FetchParams, targets: Sequence[FetchTarget], on_done: FetchDone, has_resting: bool = False
    ) -> ParkedFetch | None:
        """Read for a consumer or a follower; see Fetches.fetch_records."""
        parked = self._fetches.fetch_records(params, targets, on_done, has_resting)
        if parked is not None:
            self._deadlines.arm()
        return parked

    def rest(self, params: FetchParams, target: RestingTarget) -> Rest | None:
        """Let a completed target rest until its partition changes; see Fetches.rest."""
        return self._fetches.rest(params, target)

    def delete_records(
        self, timeout_ms: int, offsets: Mapping[TopicPartition, int], on_done: DeleteRecordsDone
    ) -> Parked | None:
        """Move log starts up; see Appends.delete_records."""
        parked = self._appends.delete_records(timeout_ms, offsets, on_done)
        if parked is not None:
            self._deadlines.arm()
        return parked

    # --- queries -----------------------------------------------------------------------------------------------------

    def partition_or_raise(self, key: TopicPartition) -> Partition:
        """Return a replica here. Raises KafkaError; see HostedPartitions.partition_or_raise."""
        return self.hosted.partition_or_raise(key)

    def has_replica(self, key: TopicPartition) -> bool:
        """Return whether this broker has a replica that is not offline, whatever its role."""
        partition = self.hosted.by_name.get(key)
        return partition is not None and partition.role is not Role.OFFLINE

    def leader_of(self, key: TopicPartition) -> tuple[int, int] | None:
        """Return (leader id, leader epoch) of the replica here, None without one."""
        partition = self.hosted.by_name.get(key)
        return None if partition is None else (partition.leader_id, partition.leader_epoch)

    def add_listener(self, key: TopicPartition, listener: PartitionListener) -> bool:
        """Report changes of a replica here to `listener`; False if there is none."""
        partition = self.hosted.by_name.get(key)
        return partition is not None and partition.add_listener(listener)

    def remove_listener(self, key: TopicPartition, listener: PartitionListener) -> None:
        """Remove the listener. Idempotent."""
        partition = self.hosted.by_name.get(key)
        if partition is not None:
            partition.remove_listener(listener)

    def _follower_advanced(self, follower: Follower) -> None:
        """Wake consumers that read from this follower."""
        self._outbox.wake_fetches(follower.partition.topic_partition)
