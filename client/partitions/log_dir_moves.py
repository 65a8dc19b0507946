"""Moves of replicas between log directories of their brokers, and their progress (KIP-113).

The `log_dirs` of a reassignment's file have the directory of each replica on its broker: a path, or "any". A broker
without such a replica yet creates it there later; the request is repeated until it has one.
Source: Kafka's ReassignPartitionsCommand (executeMoves, findLogDirMoveStates).
"""

import asyncio
from collections.abc import Collection, Iterable, Mapping
from typing import Final, NamedTuple

from kvorum.client.partitions.log_dirs import describe_log_dirs, log_dirs_at
from kvorum.client.values.log_dir import LogDir, LogDirMove, LogDirReplica, TopicPartitionReplica
from kvorum.client.wire.cluster_client import ClusterClient, ConfigChange, ResourceType, Unreachable, code_of
from kvorum.network.addresses import Address
from kvorum.protocol.errors import ErrorCode, KafkaError
from kvorum.protocol.messages.alter_replica_log_dirs import (
    AlterReplicaLogDir,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirsResponse,
    AlterReplicaLogDirTopic,
)
from kvorum.protocol.topic_partition import TopicPartition
from kvorum.runtime.logs import get_logger

log = get_logger("admin")
LOG_DIRS_RATE: Final = "replica.alter.log.dirs.io.max.bytes.per.second"
AGAIN_SECONDS: Final = 0.1
"""Between two questions to brokers that have no such replica yet, as Kafka's."""


class MoveState(NamedTuple):
    """Present, future (None: no move) and wanted directory of a replica. Empty: not found."""

    current: str
    future: str | None
    target: str

    @property
    def is_moving(self) -> bool:
        """Return whether a move is in progress, to any directory."""
        return self.future is not None

    @property
    def is_done(self) -> bool:
        """Return whether the replica is in its wanted directory and does not move."""
        return self.future is None and bool(self.current) and self.current == self.target

    @property
    def state(self) -> str:
        """The state in words."""
        if not self.current:
            return "not found"
        if self.future is not None:
            return "in progress" if self.future == self.target else f"moves to {self.future}"
        return "completed" if self.current == self.target else "not as wanted"


class MoveStart(NamedTuple):
    """Responses of brokers: started moves, replicas that do not exist yet, and rejected moves with reasons."""

    replicas: list[TopicPartitionReplica]
    absent: list[TopicPartitionReplica]
    errors: dict[TopicPartitionReplica, KafkaError]

    @property
    def reasons(self) -> dict[TopicPartitionReplica, str]:
        """Return the reasons of the rejected moves as texts."""
        return {replica: error.message or error.code.name for replica, error in self.errors.items()}


class LogDirMoves:
    """Moves of a cluster. All methods raise KafkaError and Unreachable."""

    def __init__(self, cluster: ClusterClient) -> None:
        """Use this client."""
        self._cluster = cluster

    async def ask(self, wanted: Mapping[TopicPartitionReplica, str]) -> MoveStart:
        """Request the directories of the replicas once from each broker."""
        known = {each.node_id: (each.host, each.port) for each in (await self._cluster.metadata([])).brokers}
        started = MoveStart([], [], {})
        for broker in sorted({replica.broker for replica in wanted}):
            own = {replica: path for replica, path in wanted.items() if replica.broker == broker}
            if broker not in known:
                missing = KafkaError(ErrorCode.BROKER_ID_NOT_REGISTERED, "its broker does not exist")
                started.errors.update(dict.fromkeys(own, missing))
                continue
            answer = await self._cluster.ask(request_of(own), AlterReplicaLogDirsResponse, known[broker])
            for topic in answer.results:
                for row in topic.partitions:
                    replica = TopicPartitionReplica(topic.topic_name, row.partition_index, broker)
                    if row.error_code == ErrorCode.NONE:
                        started.replicas.append(replica)
                    elif row.error_code == ErrorCode.REPLICA_NOT_AVAILABLE:
                        started.absent.append(replica)
                    else:
                        started.errors[replica] = KafkaError(code_of(row.error_code))
        return started

    async def begin(self, wanted: Mapping[TopicPartitionReplica, str], timeout_ms: int) -> MoveStart:
        """Repeat until every broker has its replicas, one rejects, or the time is over: `absent` are missing."""
        loop = asyncio.get_running_loop()
        deadline, left, begun = loop.time() + timeout_ms / 1000, dict(wanted), list[TopicPartitionReplica]()
        while True:
            started = await self.ask(left)
            begun += started.replicas
            left = {replica: wanted[replica] for replica in started.absent}
            if not left or started.errors or loop.time() >= deadline:
                return MoveStart(begun, list(left), started.errors)
            await asyncio.sleep(AGAIN_SECONDS)

    async def states(self, wanted: Mapping[TopicPartitionReplica, str]) -> dict[TopicPartitionReplica, MoveState]:
        """Return the progress of these moves."""
        current: dict[TopicPartitionReplica, str] = {}
        future: dict[TopicPartitionReplica, str] = {}
        brokers = sorted({replica.broker for replica in wanted})
        for broker, directories in (await describe_log_dirs(self._cluster, brokers) if brokers else {}).items():
            for directory in directories:
                for row in directory.replicas:
                    found = future if row.is_future else current
                    found[TopicPartitionReplica(row.topic, row.partition, broker)] = directory.path
        return {
            replica: MoveState(current.get(replica, ""), future.get(replica), target)
            for replica, target in sorted(wanted.items())
        }

    async def cancel(self, wanted: Mapping[TopicPartitionReplica, str]) -> MoveStart:
        """Cancel the moves of these replicas, whatever their targets."""
        moving = {
            replica: each.current
            for replica, each in (await self.states(wanted)).items()
            if each.future is not None and each.current
        }
        return await self.ask(moving)

    async def list_moves(self) -> list[LogDirMove]:
        """Return the moves on all responding brokers, by partition and broker."""

        async def at_broker(broker: int, address: Address) -> list[LogDirMove]:
            try:
                return moves_in(
                    broker, await log_dirs_at(self._cluster, broker, address, timeout_ms=self._cluster.part_ms)
                )
            except (KafkaError, Unreachable) as error:
                log.info("replica moves between log directories not available from broker", broker=broker, error=error)
                return []

        brokers = (await self._cluster.metadata([])).brokers
        found = await asyncio.gather(*(at_broker(each.node_id, (each.host, each.port)) for each in brokers))
        return sorted((move for moves in found for move in moves), key=lambda move: move.replica)

    async def stop(self, partitions: Collection[TopicPartition] | None = None) -> MoveStart:
        """Stop the moves of some partitions, or of all; the replicas stay in their present directories."""
        present = {
            each.replica: each.current
            for each in await self.list_moves()
            if each.current is not None
            and (partitions is None or TopicPartition(each.topic, each.partition) in partitions)
        }
        return await self.ask(present) if present else MoveStart([], [], {})

    async def throttle(self, brokers: Iterable[int], bytes_a_second: int) -> None:
        """Have these brokers copy no faster."""
        change = ConfigChange(name=LOG_DIRS_RATE, value=str(bytes_a_second))
        for broker in sorted(set(brokers)):
            await self._cluster.alter_configs(ResourceType.BROKER, str(broker), [change])


def moves_in(broker: int, directories: Iterable[LogDir]) -> list[LogDirMove]:
    """Return the moves on one broker."""
    current: dict[TopicPartition, tuple[str, int]] = {}
    future: dict[TopicPartition, tuple[str, LogDirReplica]] = {}
    for directory in directories:
        for row in directory.replicas:
            if row.is_future:
                future[row.topic_partition] = directory.path, row
            else:
                current[row.topic_partition] = directory.path, row.size_bytes
    found = []
    for partition, (target, copy) in future.items():
        path, size = current.get(partition, (None, None))
        found.append(
            LogDirMove(
                topic=copy.topic,
                partition=copy.partition,
                broker=broker,
                current=path,
                target=target,
                size_bytes=size,
                copied_bytes=copy.size_bytes,
                offset_lag=copy.offset_lag,
            )
        )
    return found


def request_of(wanted: Mapping[TopicPartitionReplica, str]) -> AlterReplicaLogDirsRequest:
    """Return the request for one broker."""
    directories: dict[str, dict[str, AlterReplicaLogDirTopic]] = {}
    for replica, path in sorted(wanted.items()):
        topics = directories.setdefault(path, {})
        topics.setdefault(replica.topic, AlterReplicaLogDirTopic(name=replica.topic)).partitions.append(
            replica.partition
        )
    return AlterReplicaLogDirsRequest(
        dirs=[AlterReplicaLogDir(path=path, topics=list(topics.values())) for path, topics in directories.items()]
    )
