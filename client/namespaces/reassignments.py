"""Reassignments: list, start, throttle, verify and cancel (KIP-455, KIP-73).

Source: Kafka's Admin.listPartitionReassignments, alterPartitionReassignments; ReassignPartitionsCommand.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Final

from kvorum.client.partitions.broker_configs import alter_broker
from kvorum.client.partitions.log_dir_moves import LOG_DIRS_RATE, LogDirMoves
from kvorum.client.partitions.log_dirs import describe_log_dirs
from kvorum.client.reassignments.throttles import (
    FOLLOWERS,
    LEADERS,
    RATES,
    Copy,
    find_copies,
    read_throttles,
    throttle_configs,
)
from kvorum.client.values.log_dir import LogDir, TopicPartitionReplica
from kvorum.client.values.reassignment import (
    Assignment,
    PlanPartition,
    PlanProgress,
    PlanState,
    Reassignment,
    ReplicaFile,
    Throttles,
    reassignment_value,
)
from kvorum.client.wire.cluster_client import (
    ClusterClient,
    ConfigChange,
    ConfigOperation,
    ResourceType,
    Unreachable,
    error_in,
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

NO_MOVES: Final[Mapping[TopicPartitionReplica, str]] = MappingProxyType({})
NO_PLAN: Final[Mapping[TopicPartition, Sequence[int]]] = MappingProxyType({})
log = get_logger("admin")


class Reassignments:
    """Reassignments of a cluster. All methods raise KafkaError and Unreachable."""

    def __init__(self, client: ClusterClient) -> None:
        """Use this client."""
        self._client = client
        self.moves = LogDirMoves(client)

    async def list(self, *, timeout_ms: int | None = None) -> dict[TopicPartition, Reassignment]:
        """Return the current reassignments, sorted."""
        request = ListPartitionReassignmentsRequest(topics=None, timeout=self._client.wait_ms)
        answer = await self._client.ask(request, ListPartitionReassignmentsResponse, timeout_ms=timeout_ms)
        refuse(answer.error_code, answer.error_message)
        found = {
            TopicPartition(topic.name, row.partition_index): reassignment_value(topic.name, row)
            for topic in answer.topics
            for row in topic.partitions
        }
        return dict(sorted(found.items()))

    async def alter(
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
        topics: dict[str, ReassignableTopic] = {}
        for partition in sorted(plan):
            replicas = plan[partition]
            row = ReassignablePartition(
                partition_index=partition.partition, replicas=None if replicas is None else [*replicas]
            )
            topics.setdefault(partition.topic, ReassignableTopic(name=partition.topic)).partitions.append(row)
        request = AlterPartitionReassignmentsRequest(
            topics=[*topics.values()],
            timeout=self._client.wait_ms if timeout_ms is None else timeout_ms,
            allow_replication_factor_change=allow_replication_factor_change,
        )
        answer = await self._client.ask(request, AlterPartitionReassignmentsResponse)
        refuse(answer.error_code, answer.error_message)
        return {
            TopicPartition(topic.name, row.partition_index): error
            for topic in answer.responses
            for row in topic.partitions
            if (error := error_in(row.error_code, row.error_message)) is not None
        }

    async def cancel(
        self, partitions: Iterable[TopicPartition] | None = None, *, timeout_ms: int | None = None
    ) -> dict[TopicPartition, KafkaError | None]:
        """Cancel the reassignments of these partitions, or all: the original replicas are restored.

        Return the result of each partition with a reassignment; None: it is cancelled.
        """
        current = await self.list()
        wanted = [*current] if partitions is None else sorted(current.keys() & {*partitions})
        if not wanted:
            return {}
        errors = await self.alter(dict.fromkeys(wanted), timeout_ms=timeout_ms)
        return {partition: errors.get(partition) for partition in wanted}

    async def verify(
        self,
        plan: Mapping[TopicPartition, Sequence[int]],
        log_dirs: Mapping[TopicPartitionReplica, str] = NO_MOVES,
        *,
        preserve_throttles: bool = False,
    ) -> PlanProgress:
        """Return the progress of a plan, with the log directories of its replicas.

        The throttles are removed once nothing is in progress, unless `preserve_throttles`.
        """
        current = await self.list()
        assignments = await self.assignments({partition.topic for partition in plan})
        moves = await self.moves.states(log_dirs)
        progress = PlanProgress(
            partitions=tuple(
                PlanPartition(
                    topic=partition.topic,
                    partition=partition.partition,
                    state=plan_state(partition in current, assignments.get(partition), target),
                    replicas=tuple(assignments.get(partition, ())),
                    target=tuple(target),
                )
                for partition, target in sorted(plan.items())
            ),
            log_dirs=moves,
        )
        if current or preserve_throttles or any(each.is_moving for each in moves.values()):
            return progress
        brokers, topics = await self.remove_throttles({partition.topic for partition in plan})
        return replace(progress, unthrottled_brokers=tuple(brokers), unthrottled_topics=tuple(topics))

    async def assignments(self, topics: Iterable[str]) -> Assignment:
        """Return the replicas of all partitions of these topics; nothing of missing topics."""
        found: Assignment = {}
        for topic in (await self._client.metadata(sorted(set(topics)))).topics:
            if topic.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                continue
            refuse(topic.error_code, f"topic {topic.name!r}")
            for row in topic.partitions:
                found[TopicPartition(topic.name or "", row.partition_index)] = row.replica_nodes
        return dict(sorted(found.items()))

    async def replica_log_dirs(
        self, assignment: Mapping[TopicPartition, Sequence[int]]
    ) -> dict[tuple[TopicPartition, int], str]:
        """Return {(partition, broker): log directory} of replicas; nothing of missing brokers."""
        brokers = {broker for replicas in assignment.values() for broker in replicas}
        return {
            (row.topic_partition, broker): directory.path
            for broker, directories in (await self._describe_log_dirs(brokers)).items()
            for directory in directories
            for row in directory.replicas
            if not row.is_future
        }

    async def replica_sizes(self, brokers: Iterable[int]) -> dict[ReplicaFile, int]:
        """Return the bytes of each replica of these brokers, including copies that move to another directory."""
        return {
            ReplicaFile(row.topic_partition, broker, row.is_future): row.size_bytes
            for broker, directories in (await self._describe_log_dirs(brokers)).items()
            for directory in directories
            for row in directory.replicas
        }

    async def _describe_log_dirs(self, brokers: Iterable[int]) -> Mapping[int, Sequence[LogDir]]:
        wanted = sorted({*brokers}.intersection(await self.live_brokers()))
        return await describe_log_dirs(self._client, wanted) if wanted else {}

    async def live_brokers(self) -> dict[int, str | None]:
        """Return the unfenced brokers with their racks."""
        found = (await self._client.describe_cluster(fenced=False)).brokers
        return {broker.broker_id: broker.rack for broker in sorted(found, key=lambda broker: broker.broker_id)}

    async def throttles(self) -> Throttles:
        """Return all throttles that are set: rates of brokers, and their replicas."""
        return await read_throttles(self._client)

    async def throttle(self, bytes_per_second: int, plan: Mapping[TopicPartition, Sequence[int]] = NO_PLAN) -> None:
        """Limit the rate of each broker in current reassignments, and in those of a plan, before it is started.

        A broker that is down copies nothing: if its rate cannot be set, it is skipped. Its possible targets have rates
        too. Raises KafkaError NO_REASSIGNMENT_IN_PROGRESS.
        """
        current = await self.list()
        assignments = await self.assignments({partition.topic for partition in plan}) if plan else {}
        for partition in plan:
            if partition not in assignments and partition not in current:
                raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"there is no partition {partition}")
        copies = find_copies(current, assignments, plan)
        if not copies:
            raise KafkaError(ErrorCode.NO_REASSIGNMENT_IN_PROGRESS, "no reassignment in progress")
        await self._throttle_copies(copies, bytes_per_second)

    async def _throttle_copies(self, copies: Mapping[TopicPartition, Copy], bytes_per_second: int) -> None:
        for topic, configs in throttle_configs(copies).items():
            changes = [ConfigChange(name=key, value=value) for key, value in configs.items()]
            await self._client.alter_configs(ResourceType.TOPIC, topic, changes)
        rates = [ConfigChange(name=key, value=str(bytes_per_second)) for key in RATES]
        await self._alter_brokers(
            {broker for each in copies.values() for broker in each.sources | each.destinations}, rates
        )

    async def remove_throttles(self, topics: Iterable[str]) -> tuple[Sequence[int], Sequence[str]]:
        """Remove all throttles, of every broker (former sources are not known now) and these topics.

        Return the changed ones. A broker that is down, and whose configs no node accepts for it, keeps its own.
        """
        registered = [broker.broker_id for broker in (await self._client.describe_cluster()).brokers]
        deletions = [ConfigChange(name=key, operation=ConfigOperation.DELETE) for key in (*RATES, LOG_DIRS_RATE)]
        brokers = await self._alter_brokers(registered, deletions)
        names = sorted(set(topics))
        for topic in names:
            changes = [ConfigChange(name=key, operation=ConfigOperation.DELETE) for key in (LEADERS, FOLLOWERS)]
            try:
                await self._client.alter_configs(ResourceType.TOPIC, topic, changes)
            except KafkaError as error:
                if error.code is not ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                    raise  # a topic that was deleted took its throttles along
        return brokers, names

    async def _alter_brokers(self, broker_ids: Iterable[int], changes: Sequence[ConfigChange]) -> Sequence[int]:
        """Change configs of brokers; return the ids of those changed: all but some that are down."""
        alive = await self.live_brokers()
        done = []
        for broker_id in sorted(broker_ids):
            try:
                await alter_broker(self._client, broker_id, changes, alive)
            except (KafkaError, Unreachable) as error:
                if broker_id in alive:
                    raise
                log.warning("configs of an offline broker not changed", broker=broker_id, error=error)
            else:
                done.append(broker_id)
        return done


def plan_state(is_moving: bool, replicas: Sequence[int] | None, target: Sequence[int]) -> PlanState:
    """Return the progress of one partition of a plan."""
    if is_moving:
        return PlanState.IN_PROGRESS
    return PlanState.COMPLETED if replicas is not None and [*replicas] == [*target] else PlanState.NOT_AS_WANTED
