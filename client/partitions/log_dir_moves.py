"""Moves of replicas between log directories of their brokers, and their progress (KIP-113).

The `log_dirs` of a reassignment's file have the directory of each replica on its broker: a path, or "any". A broker
without such a replica yet creates it there later; the request is repeated until it has one.
Source: Kafka's ReassignPartitionsCommand (executeMoves, findLogDirMoveStates).
"""

import asyncio
from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from kvorum.client.partitions.log_dirs import describe_log_dirs
from kvorum.client.wire.cluster_client import ClusterClient, ConfigChange, ResourceType, code_of
from kvorum.protocol.errors import ErrorCode
from kvorum.protocol.messages.alter_replica_log_dirs import (
    AlterReplicaLogDir,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirsResponse,
    AlterReplicaLogDirTopic,
)

LOG_DIRS_RATE: Final = "replica.alter.log.dirs.io.max.bytes.per.second"
AGAIN_SECONDS: Final = 0.1
"""Between two questions to brokers that have no such replica yet, as Kafka's."""


class Replica(NamedTuple):
    """Replica of a partition on a broker."""

    topic: str
    partition: int
    broker: int

    def __str__(self) -> str:
        """Write it as Kafka does."""
        return f"{self.topic}-{self.partition}-{self.broker}"


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


class Started(NamedTuple):
    """Responses of brokers: started moves, replicas that do not exist yet, and rejected moves with reasons."""

    begun: list[Replica]
    absent: list[Replica]
    refused: dict[Replica, str]


class LogDirMoves:
    """Moves of a cluster. All methods raise KafkaError and Unreachable."""

    def __init__(self, cluster: ClusterClient) -> None:
        """Use this client."""
        self._cluster = cluster

    async def ask(self, wanted: Mapping[Replica, str]) -> Started:
        """Request the directories of the replicas once from each broker."""
        known = {each.node_id: (each.host, each.port) for each in (await self._cluster.metadata([])).brokers}
        started = Started([], [], {})
        for broker in sorted({replica.broker for replica in wanted}):
            own = {replica: path for replica, path in wanted.items() if replica.broker == broker}
            if broker not in known:
                started.refused.update(dict.fromkeys(own, "its broker does not exist"))
                continue
            answer = await self._cluster.ask(request_of(own), AlterReplicaLogDirsResponse, known[broker])
            for topic in answer.results:
                for row in topic.partitions:
                    replica = Replica(topic.topic_name, row.partition_index, broker)
                    if row.error_code == ErrorCode.NONE:
                        started.begun.append(replica)
                    elif row.error_code == ErrorCode.REPLICA_NOT_AVAILABLE:
                        started.absent.append(replica)
                    else:
                        started.refused[replica] = code_of(row.error_code).name
        return started

    async def begin(self, wanted: Mapping[Replica, str], timeout_ms: int) -> Started:
        """Repeat until every broker has its replicas, one rejects, or the time is over: `absent` are missing."""
        loop = asyncio.get_running_loop()
        deadline, left, begun = loop.time() + timeout_ms / 1000, dict(wanted), list[Replica]()
        while True:
            started = await self.ask(left)
            begun += started.begun
            left = {replica: wanted[replica] for replica in started.absent}
            if not left or started.refused or loop.time() >= deadline:
                return Started(begun, list(left), started.refused)
            await asyncio.sleep(AGAIN_SECONDS)

    async def states(self, wanted: Mapping[Replica, str]) -> dict[Replica, MoveState]:
        """Return the progress of these moves."""
        current: dict[Replica, str] = {}
        future: dict[Replica, str] = {}
        brokers = sorted({replica.broker for replica in wanted})
        for broker, directories in (await describe_log_dirs(self._cluster, brokers) if brokers else {}).items():
            for directory in directories:
                for topic in directory.topics:
                    for row in topic.partitions:
                        place = future if row.is_future_key else current
                        place[Replica(topic.name, row.partition_index, broker)] = directory.log_dir
        return {
            replica: MoveState(current.get(replica, ""), future.get(replica), target)
            for replica, target in sorted(wanted.items())
        }

    async def cancel(self, wanted: Mapping[Replica, str]) -> Started:
        """Cancel the moves of these replicas, whatever their targets."""
        moving = {
            replica: each.current
            for replica, each in (await self.states(wanted)).items()
            if each.future is not None and each.current
        }
        return await self.ask(moving)

    async def throttle(self, brokers: Iterable[int], bytes_a_second: int) -> None:
        """Have these brokers copy no faster."""
        change = ConfigChange(name=LOG_DIRS_RATE, value=str(bytes_a_second))
        for broker in sorted(set(brokers)):
            await self._cluster.alter_configs(ResourceType.BROKER, str(broker), [change])


def request_of(wanted: Mapping[Replica, str]) -> AlterReplicaLogDirsRequest:
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
