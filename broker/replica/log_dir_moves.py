"""Moves of replicas between log directories of this broker (KIP-113, KIP-858).

    alter: an empty copy is created
    COPYING    batch by batch (future_copy), within the quota; woken by each change of the partition
    ASSIGNING  it is complete; the controller gets the new directory (AssignReplicasToDirs), and the copy continues
    PROMOTING  the metadata have it: synced, the last batches copied, renamed, and the copy is the partition's log
    cancelled  by a move back to the log's directory, with the partition, or when either directory fails

Between ASSIGNING and the end the metadata name the copy's directory; if the log's own directory fails in between, it is
reported to the controller again, so that the controller knows that the replica is gone. A start finds the copies and
continues.

A move that fails by itself stops, and counts as failed until it is requested again, the replica has another leader,
or the broker restarts.

One task per move, at most num.replica.alter.log.dirs.threads of them (unset: one per directory) active at once. Source:
Kafka's ReplicaManager.alterReplicaLogDirs, ReplicaAlterLogDirsThread, Partition.
"""

import asyncio
from collections.abc import Callable, Collection, Coroutine, Iterable
from typing import Final

from kvorum.broker.replica import future_copy
from kvorum.broker.replica.directory_assignments import DirectoryAssignments
from kvorum.broker.replica.hosted import HostedPartitions
from kvorum.broker.replica.partition import Partition
from kvorum.broker.replica.replication_quota import WindowedRate
from kvorum.broker.replica.tasks import spawn
from kvorum.broker.replica.types import ClusterView, Role
from kvorum.protocol.errors import ErrorCode, KafkaError
from kvorum.protocol.topic_partition import TopicPartition
from kvorum.protocol.uuids import ZERO_UUID, Uuid
from kvorum.runtime import blocking
from kvorum.runtime.clock import Clock
from kvorum.runtime.config import Settings
from kvorum.runtime.logs import first_names, get_logger
from kvorum.storage.future_logs import is_name_too_long
from kvorum.storage.log import Log
from kvorum.storage.log_dir import LogDir
from kvorum.storage.log_manager import LogManager

RATE: Final = "replica.alter.log.dirs.io.max.bytes.per.second"
CHUNK_BYTES: Final = 256 * 1024
"""Bytes copied in one step: an append of this size, with its checks, takes far less than 10 ms."""
TAIL_BYTES_MAX: Final = 256 * 1024
"""Lag at which a copy is about to be promoted: it is copied without a pause."""

log = get_logger("broker")


class MoveQuota:
    """Rate limit of all moves together. Sans-IO; times are monotonic milliseconds."""

    __slots__ = ("_rate", "_window_ms", "bound")

    def __init__(self, settings: Settings) -> None:
        """Start without a limit."""
        self._window_ms = 1000 * settings.int("alter.log.dirs.replication.quota.window.size.seconds")
        self._rate = WindowedRate(settings.int("alter.log.dirs.replication.quota.window.num"), self._window_ms)
        self.bound: int | None = None
        """Bytes per second; None: unlimited."""

    def note(self, size: int, now_ms: int) -> None:
        """Count bytes that were copied."""
        self._rate.note(size, now_ms)

    def wait_ms(self, now_ms: int) -> int:
        """Return the pause before the next copy: until the rate may have fallen to the bound, 0 if it has."""
        if self.bound is None:
            return 0
        measured = self._rate.measured(now_ms)
        if measured <= self.bound:
            return 0
        # Each window that passes removes its bytes: to wait for more than one at once could be too long.
        return self._window_ms if self.bound <= 0 else min(self._window_ms, int(1000 * measured / self.bound) + 1)


class Move:
    """One replica on its way; a Watcher of its partition."""

    __slots__ = ("_changed", "is_given_up", "is_promoting", "key", "partition", "requested_epoch", "task")

    def __init__(self, key: TopicPartition, partition: Partition) -> None:
        """Start to watch with `watch`."""
        self.key = key
        self.partition = partition
        self.is_given_up = False
        self.is_promoting = False
        self.requested_epoch = -1
        """The partition epoch of the last request to assign the copy's directory."""
        self.task: asyncio.Task[None] | None = None
        self._changed = asyncio.Event()

    def wake(self) -> None:
        """See Watcher."""
        self._changed.set()

    def watch(self) -> None:
        """From here on a change ends the next `changed`."""
        self._changed.clear()
        self.partition.watchers.add(self)

    async def changed(self) -> None:
        """Wait for a change since `watch`."""
        await self._changed.wait()

    def give_up(self) -> None:
        """Request the end; it is not promoted any more."""
        self.is_given_up = True
        self.partition.watchers.remove(self)
        self._changed.set()


class LogDirMoves:
    """Moves of one broker, on its event loop."""

    def __init__(
        self,
        *,
        broker_id: int,
        settings: Settings,
        clock: Clock,
        hosted: HostedPartitions,
        cluster: ClusterView,
        log_manager: LogManager,
    ) -> None:
        """Move nothing yet."""
        self.assignments: DirectoryAssignments | None = None
        """Reporter to the controller; without one copies are promoted without a request."""
        self.quota = MoveQuota(settings)
        self._broker_id = broker_id
        self._clock = clock
        self._hosted = hosted
        self._cluster = cluster
        self._log_manager = log_manager
        self._futures = log_manager.futures
        self._slots = asyncio.Semaphore(
            max(1, settings.optional_int("num.replica.alter.log.dirs.threads") or len(log_manager.dirs))
        )
        self._altering = asyncio.Lock()
        self._moves: dict[TopicPartition, Move] = {}
        self._failed: set[TopicPartition] = set()
        self._moved: list[TopicPartition] = []
        """Replicas moved since no move was in progress."""
        self._ending: set[asyncio.Task[None]] = set()
        self._is_closed = False

    @property
    def failed_count(self) -> int:
        """Number of moves that stopped because of an error."""
        return len(self._failed)

    @property
    def max_lag(self) -> int:
        """Largest number of committed records that a copy still lacks. O(moves in progress)."""
        pairs = ((self._log_manager.get_log(key), self._futures.get(key)) for key in self._moves)
        behind = (
            current.high_watermark - future.log_end_offset
            for current, future in pairs
            if current is not None and future is not None
        )
        return max(0, max(behind, default=0))

    # --- requests ---------------------------------------------------------------------------------------------------

    async def alter(self, key: TopicPartition, path: str) -> None:
        """Set the directory of a replica: start or continue a move, or cancel one to another directory.

        A replica that does not exist here yet will be created there. Raises KafkaError, in Kafka's order:
            INVALID_TOPIC_EXCEPTION: the name of the copy's folder would be too long.
            LOG_DIR_NOT_FOUND, KAFKA_STORAGE_ERROR, INVALID_REPLICA_ASSIGNMENT: there is no such directory; it is
                offline; it is cordoned (KIP-1066).
            KAFKA_STORAGE_ERROR: the replica is offline, a disk failed, or any directory is offline and no copy exists
                yet: the offline directory may contain one.
            REPLICA_NOT_AVAILABLE: the broker has no replica; it will be created there.
            UNKNOWN_TOPIC_OR_PARTITION: the partition does not exist; a replica will be created there.

        Continues if the caller is cancelled.
        """
        altering = asyncio.get_running_loop().create_task(self._alter(key, path), name=f"log-dir-alter-{key}")
        self._ending.add(altering)
        altering.add_done_callback(self._ending.discard)
        await asyncio.shield(altering)

    async def _alter(self, key: TopicPartition, path: str) -> None:
        async with self._altering:
            directory = self._checked_directory(key, path)
            partition = self._hosted.by_name.get(key)
            if partition is not None and partition.role is Role.OFFLINE:
                raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, f"{key} is in an offline log directory")
            if partition is not None and self._futures.dir_of(key) not in (None, directory):
                await self._cancel(key)
            self._log_manager.prefer(key, directory)
            partition = self._partition_or_raise(key)
            if self._log_manager.dir_of(key) is directory:
                return
            if self._futures.get(key) is None:
                if not all(each.is_online for each in self._log_manager.dirs):
                    raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, f"{key} may have a copy in an offline directory")
                await self._futures.create(key, partition.topic_id, directory)
                log.debug("replica move requested", partition=key, target=path)
            self.resume(key)

    def _checked_directory(self, key: TopicPartition, path: str) -> LogDir:
        if is_name_too_long(key):
            raise KafkaError(ErrorCode.INVALID_TOPIC_EXCEPTION, "The topic name is too long.")
        directory = self._log_manager.directory(path)
        if directory is None:
            raise KafkaError(ErrorCode.LOG_DIR_NOT_FOUND, f"Log dir {path} is not found in the config.")
        if not directory.is_online:
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, f"Log directory {path} is offline")
        if self._log_manager.is_cordoned(directory):
            raise KafkaError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, f"Log directory {path} is cordoned")
        return directory

    def _partition_or_raise(self, key: TopicPartition) -> Partition:
        try:
            partition = self._hosted.partition_or_raise(key)
        except KafkaError as error:
            if error.code is ErrorCode.NOT_LEADER_OR_FOLLOWER:
                raise KafkaError(ErrorCode.REPLICA_NOT_AVAILABLE, str(error)) from error
            raise
        if partition.log is None:
            raise KafkaError(ErrorCode.REPLICA_NOT_AVAILABLE, f"{key} has no log on this broker yet")
        return partition

    async def _cancel(self, key: TopicPartition) -> None:
        """Cancel a move: the copy is removed, and the log's directory is reported again."""
        self.forget([key])
        await self._futures.remove(key)
        log.debug("replica move cancelled", partition=key)
        self.tell(key)

    # --- partition changes ----------------------------------------------------------------------------------------

    def resume(self, key: TopicPartition) -> None:
        """Continue the copy of a local replica, if it has one and no task works on it. Idempotent."""
        partition, future = self._hosted.by_name.get(key), self._futures.get(key)
        if partition is None or partition.log is None or future is None or key in self._moves or self._is_closed:
            return
        if future.topic_id != partition.topic_id or self._futures.dir_of(key) is self._log_manager.dir_of(key):
            self._later(f"future-log-remove-{key}", self._futures.remove(key))
            return
        self._failed.discard(key)
        move = self._moves[key] = Move(key, partition)
        move.task = spawn(f"log-dir-move-{key}", self._run(move))

    def forget(self, keys: Iterable[TopicPartition]) -> None:
        """Stop copying; the future logs are kept unchanged."""
        for key in keys:
            self._failed.discard(key)
            move = self._moves.pop(key, None)
            if move is not None:
                move.give_up()
                if move.task is not None and not move.is_promoting:
                    move.task.cancel()

    def is_on_its_way(self, key: TopicPartition, directory_id: Uuid) -> bool:
        """Return whether a replica's copy is in this directory, and its log in an online one."""
        target, source = self._futures.dir_of(key), self._log_manager.dir_of(key)
        if target is None or not target.is_online or source is None or not source.is_online:
            return False
        return target.directory_id == directory_id

    def tell(self, key: TopicPartition) -> None:
        """Report the log directory of a replica if the metadata have another one."""
        source = self._log_manager.dir_of(key)
        registered = self._cluster.partition(key.topic, key.partition)
        topic_id = self._cluster.topic_id(key.topic)
        if self.assignments is None or source is None or registered is None or topic_id is None:
            return
        if self._broker_id not in registered.replicas:  # temporary: nothing needs its directory
            return
        named = registered.directory(self._broker_id)
        if source.directory_id not in (ZERO_UUID, named) and not self.is_on_its_way(key, named):
            self.assignments.submit(key, topic_id, source.directory_id)

    def log_dir_failed(self, failed: Collection[TopicPartition]) -> None:
        """Cancel moves from a failed directory (of these replicas) or to one."""
        gone = self._futures.forget_failed()
        self.forget([*failed, *gone])
        for key in (*failed, *gone):
            self.tell(key)

    async def close(self) -> None:
        """Stop copying; the next process continues."""
        self._is_closed = True
        tasks = {move.task for move in self._moves.values() if move.task is not None} | self._ending
        self.forget(list(self._moves))
        if tasks:
            await asyncio.wait(tasks)

    def _later(self, name: str, work: Coroutine[None, None, None]) -> None:
        task = spawn(name, work)
        self._ending.add(task)
        task.add_done_callback(self._ending.discard)

    # --- one move ----------------------------------------------------------------------------------------------------

    async def _run(self, move: Move) -> None:
        try:
            while not move.is_given_up:
                move.watch()
                pair = self._pair(move)
                if pair is None:
                    return
                if not await self._copy_some(*pair) and not (has_all(*pair) and await self._end(move)):
                    await move.changed()
        except (KafkaError, OSError) as error:
            log.error("replica not moved", partition=move.key, error=error)
            # else its directory failed, and that is reported for all its replicas
            if self._moves.get(move.key) is move:
                self._failed.add(move.key)
        finally:
            move.partition.watchers.remove(move)
            if self._moves.get(move.key) is move:
                del self._moves[move.key]
            if not self._moves and self._moved:
                log.info("replicas moved", replicas=len(self._moved), first=first_names(self._moved))
                self._moved.clear()

    def _pair(self, move: Move) -> tuple[Log, Log] | None:
        """Return the log and its copy, None if one of them was removed or the move has ended."""
        current, future = self._log_manager.get_log(move.key), self._futures.get(move.key)
        is_hosted = self._hosted.by_name.get(move.key) is move.partition and move.partition.log is current
        if current is None or future is None or not is_hosted or move.is_given_up:
            return None
        return None if current.failure is not None or future.failure is not None else (current, future)

    async def _copy_some(self, current: Log, future: Log) -> bool:
        """Copy a chunk, if one is missing; return whether to check again at once. Raises KafkaError."""
        async with self._slots:
            # Before any read: a log may be truncated, fail or be removed during a wait.
            is_behind = future.log_end_offset < current.log_end_offset
            if is_behind and (wait_ms := self.quota.wait_ms(self._clock.monotonic_ms())) > 0:
                await asyncio.sleep(wait_ms / 1000)
                return True
            future_copy.align(current, future)
            found = future_copy.read(current, future, CHUNK_BYTES)
            if found is None:
                return False
            structure, offset = current.cleaning.structure, future.log_end_offset
            records = await blocking.run(asyncio.get_running_loop(), future_copy.joined, found.parts)
            # If the log was truncated meanwhile, the data may belong to removed records, or to two histories.
            if current.cleaning.structure != structure or future.failure is not None or current.failure is not None:
                return True
            if offset == future.log_end_offset:
                future_copy.append(future, records)
                self.quota.note(len(records), self._clock.monotonic_ms())
            return True

    async def _end(self, move: Move) -> bool:
        """Promote a copy that has all, once the metadata name its directory; return whether to look again at once."""
        target, registered = self._futures.dir_of(move.key), self._cluster.partition(move.key.topic, move.key.partition)
        if target is None or registered is None or self._broker_id not in registered.replicas:
            return False
        is_named = target.directory_id in (ZERO_UUID, registered.directory(self._broker_id))
        if self.assignments is not None and not is_named:
            if move.requested_epoch != registered.partition_epoch:
                move.requested_epoch = registered.partition_epoch
                self.assignments.submit(move.key, move.partition.topic_id, target.directory_id)
            return False
        move.is_promoting = True
        try:
            if await self._futures.promote(move.key, self._catch_up(move), self._take(move)):
                self._moved.append(move.key)
        finally:
            move.is_promoting = False
        return True

    def _catch_up(self, move: Move) -> Callable[[Log, Log], bool]:
        def catch_up(current: Log, future: Log) -> bool:
            if self._pair(move) != (current, future):
                return False
            return future_copy.catch_up(current, future, TAIL_BYTES_MAX)

        return catch_up

    def _take(self, move: Move) -> Callable[[Log], None]:
        def take(promoted: Log) -> None:
            move.partition.replace_log(promoted)

        return take


def has_all(current: Log, future: Log) -> bool:
    """Return whether an aligned copy ends where the log does: a truncated log may end after its last batch."""
    return future.log_end_offset == current.log_end_offset
