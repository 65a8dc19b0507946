"""Applies a metadata change to this broker's replicas: deletes, then leaders, then followers.

The logs of new replicas are created before: the sync of their topic ids takes time, and a leader must serve as soon as
clients know it. A large delta is applied in slices: between two partitions the event loop runs other work once 10 ms
are over. Each partition changes in one step, so a request finds each either before or after it. Source:
ReplicaManager.applyDelta, handleLogDirFailure.
"""

import asyncio
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence

from kvorum.broker.replica.directory_assignments import DirectoryAssignments
from kvorum.broker.replica.fetcher_manager import FetcherManager
from kvorum.broker.replica.figures import Figures
from kvorum.broker.replica.hosted import HostedPartitions, Outbox
from kvorum.broker.replica.log_dir_moves import LogDirMoves
from kvorum.broker.replica.missing_logs import MissingLogAction, missing_log_action
from kvorum.broker.replica.partition import Partition
from kvorum.broker.replica.types import ClusterView, Role
from kvorum.protocol.errors import ErrorCode, KafkaError
from kvorum.protocol.topic_partition import TopicPartition
from kvorum.protocol.uuids import ZERO_UUID, Uuid
from kvorum.quorum.image import MetadataDelta, MetadataImage
from kvorum.quorum.image.partition import LOST_DIRECTORY, PartitionRegistration
from kvorum.quorum.image.topics_delta import LocalReplicaChanges, PartitionInfo
from kvorum.runtime.clock import Clock
from kvorum.runtime.config import Settings
from kvorum.runtime.disk import is_process_error
from kvorum.runtime.logs import first_names, get_logger
from kvorum.storage.damage import Lack
from kvorum.storage.log import Log
from kvorum.storage.log_dir import LogDir
from kvorum.storage.log_manager import LogManager

log = get_logger("broker")

SLICE_MS = 10
"""A busy broker's other requests wait no longer for a delta."""
CREATIONS_AT_ONCE = 16
"""New logs that are created and synced together: the file system's journal writes them in one commit."""


def log_new_roles(led: Sequence[TopicPartition], followed: Iterable[Partition]) -> None:
    """Log the new roles of this broker's replicas: one line for all it leads, and one for each other leader."""
    if led:
        log.info("became leader", partitions=len(led), first=first_names(led))
    by_leader: dict[int, list[TopicPartition]] = defaultdict(list)
    for partition in followed:
        by_leader[partition.leader_id].append(partition.topic_partition)
    for leader_id, partitions in by_leader.items():
        log.info("became follower", leader=leader_id, partitions=len(partitions), first=first_names(partitions))


class DeltaApplier:
    """Changes the hosted partitions, and nothing else does."""

    def __init__(
        self,
        *,
        broker_id: int,
        settings: Settings,
        clock: Clock,
        hosted: HostedPartitions,
        outbox: Outbox,
        fetchers: FetcherManager,
        log_manager: LogManager,
        cluster: ClusterView,
        broker_epoch: Callable[[], int],
        figures: Figures,
    ) -> None:
        """See ReplicaManager for the arguments."""
        self.assignments: DirectoryAssignments | None = None
        """Reporter of log directories to the controller."""
        self._broker_id = broker_id
        self._lag_time_ms_max = settings.int("replica.lag.time.max.ms")
        self._clock = clock
        self._hosted = hosted
        self._outbox = outbox
        self._fetchers = fetchers
        self._log_manager = log_manager
        self._cluster = cluster
        self._broker_epoch = broker_epoch
        self._figures = figures
        self.moves = LogDirMoves(
            broker_id=broker_id,
            settings=settings,
            clock=clock,
            hosted=hosted,
            cluster=cluster,
            log_manager=log_manager,
        )
        self._slice_began_ms = 0
        self._prepared: tuple[MetadataDelta, LocalReplicaChanges] | None = None
        self._new: frozenset[TopicPartition] = frozenset()
        """Replicas added by the present delta, which never had a log here."""
        self._unopened: dict[TopicPartition, None] = {}
        """Replicas that are offline since the process lacked descriptors or memory when their log was opened."""
        self._one_at_a_time = asyncio.Lock()
        self.on_reopened: Callable[[TopicPartition, PartitionRegistration], None] = lambda key, registration: None
        """Called with a replica that came online without a change of the metadata."""
        self._lost: dict[TopicPartition, Uuid] = {}
        """Lost logs of replicas that others depend on {partition: topic id}, until the metadata contain the loss."""
        self._lost_reported = asyncio.Event()
        self._lost_reported.set()

    async def prepare(self, delta: MetadataDelta) -> None:
        """Make the logs of replicas that are new here. One that cannot be made yet or at all is left to `apply`."""
        async with self._one_at_a_time:
            await self._prepare(delta)

    async def _prepare(self, delta: MetadataDelta) -> None:
        self._slice_began_ms = self._clock.monotonic_ms()
        changes = await self._local_changes(delta)
        self._prepared = delta, changes
        new: list[tuple[TopicPartition, PartitionInfo]] = []
        for (topic, index), info in (*changes.leaders.items(), *changes.followers.items()):
            key = TopicPartition(topic, index)
            if key not in self._hosted.by_name:
                found = self._log_manager.get_log(key)
                if found is None or not found.is_topic_id_durable:  # at a start nearly all have theirs
                    new.append((key, info))
            await self._pause()
        for start in range(0, len(new), CREATIONS_AT_ONCE):
            piece = new[start : start + CREATIONS_AT_ONCE]
            work = [self._create_log(key, info) for key, info in piece]
            for (key, _), failed in zip(piece, await asyncio.gather(*work, return_exceptions=True), strict=True):
                # A disk that fails has taken its directory offline, and `apply` marks the replica.
                if isinstance(failed, KafkaError):
                    log.warning("log of a new replica not created, retried", partition=key, error=failed)
                elif failed is not None:
                    raise failed
            await self._pause()

    async def _create_log(self, key: TopicPartition, info: PartitionInfo) -> None:
        """Create a new replica's log, if none exists and its topic is not another's; make its topic id durable."""
        found = self._log_manager.get_log(key)
        if found is None:
            self._check_missing_log(key, info)
            await self._log_manager.create(key, info.topic_id, info.partition.directory(self._broker_id))
        elif found.topic_id in (info.topic_id, ZERO_UUID) and not self._must_refetch(key, info):
            await self._log_manager.sync_topic_id(self._find_or_make_log(key, info))

    async def apply(self, delta: MetadataDelta, image: MetadataImage) -> None:
        """Apply one delta, prepared or not. Not to be called again before it is done."""
        async with self._one_at_a_time:
            await self._apply(delta, image)

    async def _apply(self, delta: MetadataDelta, image: MetadataImage) -> None:
        prepared, self._prepared = self._prepared, None
        self._slice_began_ms = self._clock.monotonic_ms()
        if prepared is not None and prepared[0] is delta:
            changes = prepared[1]
        else:
            changes = await self._local_changes(delta)
        deleted: list[TopicPartition] = []
        for (topic, index), topic_id in changes.deletes.items():
            if self._let_go(key := TopicPartition(topic, index), topic_id):
                deleted.append(key)
            await self._pause()
        await self._log_manager.delete(*deleted)
        for topic in {key.topic for key in changes.deletes} - set(image.topics.by_name):
            self._figures.forget(topic)
        led: list[TopicPartition] = []
        for (topic, index), info in changes.leaders.items():
            if await self._lead(key := TopicPartition(topic, index), info):
                led.append(key)
            await self._pause()
        followed: list[Partition] = []
        for (topic, index), info in changes.followers.items():
            partition = await self._follow(TopicPartition(topic, index), info)
            if partition is not None:
                followed.append(partition)
            await self._pause()
        # A slice may have let a disk fail meanwhile.
        self._fetchers.follow(each for each in followed if each.role is Role.FOLLOWING)
        log_new_roles(led, followed)
        self._check_lost_reported(image)

    async def reopen(self) -> None:
        """Open the logs that failed because of missing descriptors or memory, up to the first that fails again."""
        if not self._unopened:
            return
        async with self._one_at_a_time:
            self._slice_began_ms = self._clock.monotonic_ms()
            opened: list[TopicPartition] = []
            try:
                for key in tuple(self._unopened):
                    if not await self._reopen(key, opened):
                        break
                    await self._pause()
            finally:
                if opened:
                    first = first_names(opened)
                    log.info("replicas online, their logs were opened", partitions=len(opened), first=first)

    async def _reopen(self, key: TopicPartition, opened: list[TopicPartition]) -> bool:
        """Open one log, and lead or follow as the metadata require; False if it cannot be opened yet.

        A replica that is online again is added to `opened`.
        """
        registration, partition = self._cluster.partition(key.topic, key.partition), self._hosted.by_name.get(key)
        is_mine = registration is not None and self._broker_id in registration.replicas
        if registration is None or not is_mine or partition is None or partition.role is not Role.OFFLINE:
            self._unopened.pop(key, None)
            return True
        info = PartitionInfo(topic_id=self._cluster.topic_id(key.topic), partition=registration)
        if registration.leader == self._broker_id:
            await self._lead(key, info)
        else:
            followed = await self._follow(key, info)
            self._fetchers.follow([] if followed is None else [followed])
        if key in self._unopened:
            return False
        if self._hosted.by_name[key].role is Role.OFFLINE:
            return True
        opened.append(key)
        log.debug("replica online, its log was opened", partition=key)
        self.on_reopened(key, registration)
        return True

    async def _local_changes(self, delta: MetadataDelta) -> LocalReplicaChanges:
        changes = LocalReplicaChanges()
        for _ in delta.topics_delta.add_local_changes(self._broker_id, changes):
            await self._pause()
        # The first image has all partitions, and an earlier process may have had replicas of them.
        is_first = delta.image.offset < 0
        self._new = frozenset() if is_first else frozenset(TopicPartition(*key) for key in changes.arrivals)
        return changes

    async def _pause(self) -> None:
        if self._clock.monotonic_ms() - self._slice_began_ms >= SLICE_MS:
            await asyncio.sleep(0)
            self._slice_began_ms = self._clock.monotonic_ms()

    def _let_go(self, key: TopicPartition, topic_id: Uuid) -> bool:
        """Stop hosting a partition of this topic; return whether the caller must delete its log."""
        partition = self._hosted.by_name.get(key)
        if partition is not None and partition.topic_id != topic_id:
            return False
        self._fetchers.stop([key])
        self.moves.forget([key])
        self._unopened.pop(key, None)
        if partition is not None:
            del self._hosted.by_name[key]
            partition.delete()
            self._hosted.assignment_taken(partition)
        self._outbox.wake_all(key)
        return True

    async def _lead(self, key: TopicPartition, info: PartitionInfo) -> bool:
        """Become the leader; return whether the leader epoch is new."""
        self._fetchers.stop([key])
        partition, replica_log = await self._partition_and_log(key, info)
        if replica_log is None:
            return False
        is_new_epoch = partition.make_leader(info.partition, replica_log, self._clock.monotonic_ms())
        self.moves.resume(key)
        self._hosted.assignment_taken(partition)
        if is_new_epoch:
            log.debug(
                "became leader of partition",
                partition=key,
                leader_epoch=partition.leader_epoch,
                start_offset=partition.leader_epoch_start_offset,
                high_watermark=replica_log.high_watermark,
                isr=",".join(map(str, info.partition.isr)),
            )
        self._outbox.leadership_changed(partition)
        return is_new_epoch

    async def _follow(self, key: TopicPartition, info: PartitionInfo) -> Partition | None:
        """Become a follower; return the partition if its fetcher must be restarted."""
        partition, replica_log = await self._partition_and_log(key, info)
        if replica_log is None:
            return None
        is_new_epoch = partition.make_follower(info.partition, replica_log)
        self.moves.resume(key)
        self._hosted.assignment_taken(partition)
        if not is_new_epoch:
            return None
        # Requests that wait for records or acks here must fail: the new leader's commits do not apply to them.
        self._fetchers.stop([key])
        self._outbox.leadership_changed(partition)
        log.debug(
            "became follower of partition",
            partition=key,
            leader=partition.leader_id,
            leader_epoch=partition.leader_epoch,
            end_offset=replica_log.log_end_offset,
        )
        return partition

    async def _partition_and_log(self, key: TopicPartition, info: PartitionInfo) -> tuple[Partition, Log | None]:
        """Find or make both; no log where it cannot be opened, and the partition is offline then."""
        partition = self._hosted.by_name.get(key)
        was_unopened = key in self._unopened
        is_offline = partition is not None and partition.role is Role.OFFLINE
        if is_offline and (was_unopened or self._missing_log_action(key, info) is MissingLogAction.CREATE):
            partition = None  # restarts
        if partition is not None and partition.topic_id != info.topic_id:
            # No applied delta had its deletion: the name belongs to another topic now.
            self._let_go(key, partition.topic_id)
            await self._log_manager.delete(key)
            partition = None
        if partition is None:
            partition = Partition(
                topic_partition=key,
                topic_id=info.topic_id,
                broker_id=self._broker_id,
                brokers=self._cluster,
                local_broker_epoch=self._broker_epoch,
                replica_lag_time_ms_max=self._lag_time_ms_max,
            )
            self._hosted.by_name[key] = partition
        elif partition.role is Role.OFFLINE:
            self._assign(key, info)
            return partition, None
        try:
            opened = await self._open_log(key, info)
            self._unopened.pop(key, None)
            self._assign(key, info)
            return partition, opened
        except KafkaError as error:
            self._unopened.pop(key, None)
            if is_process_error(error.__cause__):
                self._unopened[key] = None
            if not (was_unopened and key in self._unopened):
                log.error("replica offline, its log cannot be opened", partition=key, error=error)
            partition.mark_offline()
            self._outbox.wake_all(key)
            self._assign(key, info)
            return partition, None

    def _assign(self, key: TopicPartition, info: PartitionInfo) -> None:
        """Report a replica's directory (KIP-858), or its loss, to the controller.

        A replica that is moving to the directory in the metadata is not reported.
        """
        directory, named = self._log_manager.dir_of(key), info.partition.directory(self._broker_id)
        if self.assignments is None or self.moves.is_on_its_way(key, named):
            return
        if self._missing_log_action(key, info) is MissingLogAction.LOST:
            self.assignments.submit(key, info.topic_id, LOST_DIRECTORY)
            self._lost[key] = info.topic_id
            self._lost_reported.clear()
        elif directory is not None and directory.directory_id not in (ZERO_UUID, named):
            self.assignments.submit(key, info.topic_id, directory.directory_id)

    async def wait_lost_reported(self) -> None:
        """Wait until the metadata mark every replica with a missing log as lost."""
        await self._lost_reported.wait()

    def _check_lost_reported(self, image: MetadataImage) -> None:
        for key, topic_id in tuple(self._lost.items()):
            known = image.topics.partition(topic_id, key.partition)
            is_mine = known is not None and self._broker_id in known.replicas
            if known is None or not is_mine or known.directory(self._broker_id) == LOST_DIRECTORY:
                del self._lost[key]
        if not self._lost:
            self._lost_reported.set()

    def log_dir_failed(self, directory: str) -> None:
        """Take the replicas in a log directory offline."""
        failed = [
            key
            for key, partition in self._hosted.by_name.items()
            if partition.log is not None and is_in(self._log_manager.dir_of(key), directory)
        ]
        log.error("log directory failed, its replicas are offline", directory=directory, replicas=len(failed))
        self._fetchers.stop(failed)
        for key in failed:
            self._hosted.by_name[key].mark_offline()
        self.moves.log_dir_failed(failed)
        for key in failed:
            self._outbox.wake_all(key)

    async def _open_log(self, key: TopicPartition, info: PartitionInfo) -> Log:
        """Return the partition's log; one left over from an earlier topic of this name makes room first.

        A future log takes the place of one that is known to be lost. Raises KafkaError KAFKA_STORAGE_ERROR, also if no
        other log may be created; see missing_logs.
        """
        found = self._log_manager.get_log(key)
        if found is not None and found.topic_id not in (info.topic_id, ZERO_UUID):
            await self._log_manager.delete(key)
        if found is None and info.partition.directory(self._broker_id) == LOST_DIRECTORY:
            await self._log_manager.futures.take_over(key)
        if self._must_refetch(key, info) and self._missing_log_action(key, info) is MissingLogAction.CREATE:
            await self._log_manager.set_aside_stray(key)
        opened = self._find_or_make_log(key, info)
        await self._log_manager.sync_topic_id(opened)
        return opened

    def _must_refetch(self, key: TopicPartition, info: PartitionInfo) -> bool:
        """Return whether a log that lacks segments is replaced by a new one: a follower never fetches those again."""
        if self._log_manager.lack_of(key) is not Lack.SEGMENTS:
            return False
        return len(info.partition.replicas) > 1 and info.partition.leader != self._broker_id

    def _find_or_make_log(self, key: TopicPartition, info: PartitionInfo) -> Log:
        """See _open_log, where no other topic's log is in the way."""
        found = self._log_manager.get_log(key)
        if found is not None and found.failure is not None:
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, "its log directory is offline")
        self._check_missing_log(key, info)
        return self._log_manager.get_or_create(key, info.topic_id, info.partition.directory(self._broker_id))

    def _check_missing_log(self, key: TopicPartition, info: PartitionInfo) -> None:
        """Raise KafkaError KAFKA_STORAGE_ERROR where a replica has no log, and none may be created now."""
        match self._missing_log_action(key, info):
            case MissingLogAction.WAIT:
                raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, "its log may be in an offline log directory")
            case MissingLogAction.LOST:
                raise KafkaError(
                    ErrorCode.KAFKA_STORAGE_ERROR, "its log is missing; the loss is reported to the controller first"
                )

    def _missing_log_action(self, key: TopicPartition, info: PartitionInfo) -> MissingLogAction | None:
        """Decide on a replica without a complete log; None: it has one, perhaps in an unreadable place."""
        found, lack = self._log_manager.get_log(key), self._log_manager.lack_of(key)
        if found is not None and lack is Lack.NOTHING:
            return None
        dirs = self._log_manager.dirs
        return missing_log_action(
            info.partition,
            self._broker_id,
            online={each.directory_id for each in dirs if each.is_online} - {ZERO_UUID},
            all_work=found is not None or all(each.is_online for each in dirs),
            is_new=key in self._new or info.partition.partition_epoch == 0,
            has_copy=self._log_manager.futures.get(key) is not None,
            lacks=lack is not Lack.NOTHING,
        )


def is_in(directory: LogDir | None, path: str) -> bool:
    """Return whether this is the directory of that path."""
    return directory is not None and directory.path == path
