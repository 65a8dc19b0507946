"""Reassignments: list, start, throttle, verify and cancel (KIP-455, KIP-73).

    {"version": 1, "topics": [{"topic": "orders"}]}                                               what to move
    {"version": 1, "partitions": [{"topic": "orders", "partition": 0, "replicas": [1, 2],
                                   "log_dirs": ["any", "any"]}]}                                  where to

Files of Kafka's kafka-reassign-partitions.sh are read and written unchanged. A path among `log_dirs` is a replica's
directory on its broker (log_dir_moves).
Source: Kafka's ReassignPartitionsCommand.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum
from types import MappingProxyType
from typing import Any, Final, NamedTuple, TypeGuard

from kvorum.client.partitions.broker_configs import alter_broker
from kvorum.client.partitions.log_dir_moves import LOG_DIRS_RATE, LogDirMoves, Replica
from kvorum.client.partitions.log_dirs import describe_log_dirs
from kvorum.client.wire.cluster_client import (
    ClusterClient,
    ConfigChange,
    ConfigOperation,
    ResourceType,
    Unreachable,
    code_of,
    refuse,
)
from kvorum.protocol.errors import ErrorCode, KafkaError
from kvorum.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ReassignablePartition,
    ReassignableTopic,
)
from kvorum.protocol.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
)
from kvorum.protocol.topic_partition import TopicPartition
from kvorum.runtime.logs import get_logger

VERSION: Final = 1
ANY_LOG_DIR: Final = "any"
NO_LOG_DIRS: Final[Mapping[tuple[TopicPartition, int], str]] = MappingProxyType({})
RATES: Final = ("leader.replication.throttled.rate", "follower.replication.throttled.rate")
LEADERS: Final = "leader.replication.throttled.replicas"
FOLLOWERS: Final = "follower.replication.throttled.replicas"

log = get_logger("admin")


Assignment = dict[TopicPartition, list[int]]


class UnderWay(NamedTuple):
    """A reassignment: all replicas, and which of them come and go."""

    replicas: list[int]
    adding: list[int]
    removing: list[int]


class ReplicaFile(NamedTuple):
    """A replica on a broker, or its copy in another log directory that will replace it."""

    place: TopicPartition
    broker: int
    is_future: bool


class Move(NamedTuple):
    """Source and target brokers of a partition's copy."""

    sources: frozenset[int]
    destinations: frozenset[int]


def read_assignment(text: str) -> Assignment:
    """Read a file of partitions and their replicas. Raises ValueError with the reason."""
    found: Assignment = {}
    for each in _listed(text, "partitions"):
        topic, partition, replicas = each.get("topic"), each.get("partition"), each.get("replicas")
        if not isinstance(topic, str) or not _is_id(partition) or not isinstance(replicas, list):
            raise ValueError(f"not a topic, a partition and its replicas: {json.dumps(each)}")
        place = TopicPartition(topic, partition)
        if not replicas or not all(_is_id(replica) for replica in replicas):
            raise ValueError(f"{place}: replicas must contain at least one broker id")
        if len(set(replicas)) != len(replicas):
            raise ValueError(f"{place}: duplicate broker in {replicas}")
        log_dirs = each.get("log_dirs", [ANY_LOG_DIR] * len(replicas))
        if not isinstance(log_dirs, list) or len(log_dirs) != len(replicas):
            raise ValueError(f"{place}: log_dirs and replicas must have the same length")
        if not all(isinstance(log_dir, str) and log_dir for log_dir in log_dirs):
            raise ValueError(f'{place}: log_dirs must be paths or "any"')
        if place in found:
            raise ValueError(f"duplicate partition {place}")
        found[place] = replicas
    if not found:
        raise ValueError("it contains no partition")
    return found


def read_moves(text: str) -> dict[Replica, str]:
    """Return the directories of the replicas in a file that read_assignment accepted."""
    return {
        Replica(each["topic"], each["partition"], broker): log_dir
        for each in _listed(text, "partitions")
        for broker, log_dir in zip(each["replicas"], each.get("log_dirs", ()), strict=False)
        if log_dir != ANY_LOG_DIR
    }


def read_topics(text: str) -> list[str]:
    """Read a file of topics. Raises ValueError."""
    names = [each.get("topic") for each in _listed(text, "topics")]
    if not names or not all(isinstance(name, str) for name in names):
        raise ValueError("expected a list of topic names")
    if len(set(names)) != len(names):
        raise ValueError("duplicate topic")
    return [str(name) for name in names]


def _listed(text: str, key: str) -> list[dict[str, Any]]:
    try:
        found = json.loads(text)
    except (json.JSONDecodeError, RecursionError) as error:
        raise ValueError(f"not JSON: {error}") from error
    if not isinstance(found, dict) or found.get("version", VERSION) != VERSION:
        raise ValueError(f"expected an object of version {VERSION}")
    rows = found.get(key, [])
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        raise ValueError(f"{key} must be a list of objects")
    return rows


def _is_id(value: object) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def as_file(
    assignment: Mapping[TopicPartition, list[int]], log_dirs: Mapping[tuple[TopicPartition, int], str] = NO_LOG_DIRS
) -> dict[str, Any]:
    """Return the file content of this assignment, sorted; with log directories where they are known."""
    rows = [
        {
            "topic": place.topic,
            "partition": place.partition,
            "replicas": replicas,
            "log_dirs": [log_dirs.get((place, broker), ANY_LOG_DIR) for broker in replicas],
        }
        for place, replicas in sorted(assignment.items())
    ]
    return {"version": VERSION, "partitions": rows}


def moves_of(
    under_way: Mapping[TopicPartition, UnderWay],
    current: Mapping[TopicPartition, list[int]],
    wanted: Mapping[TopicPartition, list[int]],
) -> dict[TopicPartition, Move]:
    """Return the copies of current reassignments and of those to start."""
    moves = {
        place: Move(frozenset(each.replicas) - {*each.adding}, frozenset(each.adding))
        for place, each in under_way.items()
    }
    for place, replicas in wanted.items():
        sources = moves[place].sources if place in moves else frozenset(current[place])
        moves[place] = Move(sources, frozenset(replicas) - sources)
    return moves


def throttled_replicas(moves: Mapping[TopicPartition, Move]) -> dict[str, dict[str, str]]:
    """Return {topic: {config: PARTITION:BROKER,...}}: sources are throttled as leaders, destinations as followers."""
    pairs: dict[str, tuple[set[tuple[int, int]], set[tuple[int, int]]]] = {}
    for place, move in moves.items():
        leaders, followers = pairs.setdefault(place.topic, (set(), set()))
        leaders |= {(place.partition, broker) for broker in move.sources}
        followers |= {(place.partition, broker) for broker in move.destinations}
    return {
        topic: {
            key: ",".join(f"{partition}:{broker}" for partition, broker in sorted(side))
            for key, side in ((LEADERS, leaders), (FOLLOWERS, followers))
        }
        for topic, (leaders, followers) in pairs.items()
    }


class State(StrEnum):
    """Progress of a partition of a plan."""

    COMPLETED = "completed"
    IN_PROGRESS = "in progress"
    NOT_AS_WANTED = "not as wanted"


def states_of(
    under_way: Mapping[TopicPartition, UnderWay], current: Mapping[TopicPartition, list[int]], plan: Assignment
) -> list[State]:
    """Return the progress of a plan's partitions, in their order."""
    return [
        State.IN_PROGRESS
        if place in under_way
        else State.COMPLETED
        if current.get(place) == target
        else State.NOT_AS_WANTED
        for place, target in sorted(plan.items())
    ]


class Reassignments:
    """The reassignments of a cluster. All methods raise KafkaError and Unreachable."""

    def __init__(self, cluster: ClusterClient) -> None:
        """Use this client."""
        self._cluster = cluster
        self.moves = LogDirMoves(cluster)

    async def under_way(self, *, timeout_ms: int | None = None) -> dict[TopicPartition, UnderWay]:
        """Return the current reassignments, sorted."""
        request = ListPartitionReassignmentsRequest(topics=None, timeout=self._cluster.wait_ms)
        answer = await self._cluster.ask(request, ListPartitionReassignmentsResponse, timeout_ms=timeout_ms)
        refuse(answer.error_code, answer.error_message)
        found = {
            TopicPartition(topic.name, row.partition_index): UnderWay(
                row.replicas, row.adding_replicas, row.removing_replicas
            )
            for topic in answer.topics
            for row in topic.partitions
        }
        return dict(sorted(found.items()))

    async def current(self, topics: Iterable[str]) -> Assignment:
        """Return the replicas of all partitions of these topics; topics that are not there have none."""
        found: Assignment = {}
        for topic in (await self._cluster.metadata(sorted(set(topics)))).topics:
            if topic.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                continue
            refuse(topic.error_code, f"topic {topic.name!r}")
            found.update(
                {TopicPartition(topic.name or "", row.partition_index): row.replica_nodes for row in topic.partitions}
            )
        return dict(sorted(found.items()))

    async def log_dirs(self, current: Mapping[TopicPartition, list[int]]) -> dict[tuple[TopicPartition, int], str]:
        """Return {(partition, broker): log directory} of replicas; nothing of missing brokers."""
        wanted = {broker for replicas in current.values() for broker in replicas}.intersection(await self.brokers())
        found: dict[tuple[TopicPartition, int], str] = {}
        for broker, dirs in (await describe_log_dirs(self._cluster, sorted(wanted))).items() if wanted else ():
            for each in dirs:
                for topic in each.topics:
                    for row in topic.partitions:
                        if not row.is_future_key:
                            found[TopicPartition(topic.name, row.partition_index), broker] = each.log_dir
        return found

    async def sizes(self, brokers: Iterable[int]) -> dict[ReplicaFile, int]:
        """Return the bytes of each replica of these brokers, including copies that move to another directory."""
        wanted = sorted(set(brokers).intersection(await self.brokers()))
        found = await describe_log_dirs(self._cluster, wanted) if wanted else {}
        return {
            ReplicaFile(TopicPartition(topic.name, row.partition_index), broker, row.is_future_key): row.partition_size
            for broker, directories in found.items()
            for directory in directories
            for topic in directory.topics
            for row in topic.partitions
        }

    async def brokers(self) -> dict[int, str | None]:
        """Return the unfenced brokers with their racks."""
        found = (await self._cluster.describe_cluster(fenced=False)).brokers
        return {broker.broker_id: broker.rack for broker in sorted(found, key=lambda broker: broker.broker_id)}

    async def alter(
        self,
        wanted: Mapping[TopicPartition, list[int] | None],
        timeout_ms: int | None = None,
        *,
        may_resize: bool = True,
    ) -> dict[TopicPartition, str]:
        """Start, change or (None) cancel reassignments; return the rejected ones with reasons.

        `may_resize` off: the number of replicas must not change, on clusters that support this (KIP-860).
        """
        topics: dict[str, ReassignableTopic] = {}
        for place, replicas in sorted(wanted.items(), key=lambda item: item[0]):
            requested = topics.setdefault(place.topic, ReassignableTopic(name=place.topic))
            requested.partitions.append(ReassignablePartition(partition_index=place.partition, replicas=replicas))
        request = AlterPartitionReassignmentsRequest(
            topics=list(topics.values()),
            timeout=self._cluster.wait_ms if timeout_ms is None else timeout_ms,
            allow_replication_factor_change=may_resize,
        )
        answer = await self._cluster.ask(request, AlterPartitionReassignmentsResponse)
        refuse(answer.error_code, answer.error_message)
        refused: dict[TopicPartition, str] = {}
        for topic in answer.responses:
            for row in topic.partitions:
                if row.error_code:
                    reason = f"{code_of(row.error_code).name}: {row.error_message or ''}"
                    refused[TopicPartition(topic.name, row.partition_index)] = reason
        return refused

    async def throttle(self, moves: Mapping[TopicPartition, Move], bytes_a_second: int) -> None:
        """Limit the rate of the copying brokers, for each of them.

        A broker that is down copies nothing: if its rate cannot be set, it is skipped. Its possible targets have rates
        too.
        """
        for topic, configs in throttled_replicas(moves).items():
            changes = [ConfigChange(name=key, value=value) for key, value in configs.items()]
            await self._cluster.alter_configs(ResourceType.TOPIC, topic, changes)
        rates = [ConfigChange(name=key, value=str(bytes_a_second)) for key in RATES]
        await self._alter_brokers(
            {broker for move in moves.values() for broker in move.sources | move.destinations}, rates
        )

    async def _alter_brokers(self, wanted: Iterable[int], changes: Sequence[ConfigChange]) -> list[int]:
        """Change configs of brokers; return whose were changed: all but some that are down."""
        alive = await self.brokers()
        done = []
        for broker_id in sorted(wanted):
            try:
                await alter_broker(self._cluster, broker_id, changes, alive)
            except (KafkaError, Unreachable) as error:
                if broker_id in alive:
                    raise
                log.warning("configs of an offline broker not changed", broker=broker_id, error=error)
            else:
                done.append(broker_id)
        return done

    async def unthrottle(self, wanted: Mapping[TopicPartition, list[int]]) -> tuple[list[int], list[str]]:
        """Remove all throttles, of every broker (former sources are not known now) and these topics.

        Return the changed ones. A broker that is down, and whose configs no node accepts for it, keeps its own.
        """
        registered = [broker.broker_id for broker in (await self._cluster.describe_cluster()).brokers]
        deleted = [ConfigChange(name=key, operation=ConfigOperation.DELETE) for key in (*RATES, LOG_DIRS_RATE)]
        brokers = await self._alter_brokers(registered, deleted)
        topics = sorted({place.topic for place in wanted})
        for topic in topics:
            changes = [ConfigChange(name=key, operation=ConfigOperation.DELETE) for key in (LEADERS, FOLLOWERS)]
            try:
                await self._cluster.alter_configs(ResourceType.TOPIC, topic, changes)
            except KafkaError as error:
                if error.code is not ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                    raise  # a topic that was deleted took its throttles along
        return brokers, topics
