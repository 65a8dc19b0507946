"""A cluster in memory whose configs, topics and replicas change as they are asked to, on four brokers.

What OperatedCluster answers it answers, too. Each broker has its own copy of a log where `copies` says so, and the
leader's otherwise; configs lie in `layers`, as they are described.
"""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from kvorum.client.reassignments.progress import DEBUGGING_REPLICA
from kvorum.protocol.errors import ErrorCode
from kvorum.protocol.messages import alter_replica_log_dirs as log_dir_moves
from kvorum.protocol.messages import (
    create_partitions,
    create_topics,
    fetch,
    list_config_resources,
    list_offsets,
    metadata,
    offset_for_leader_epoch,
)
from kvorum.protocol.messages import describe_log_dirs as dirs
from kvorum.protocol.messages import incremental_alter_configs as alter
from kvorum.runtime.config_defs import KEPT_IN_METADATA, validate_topic_configs
from kvorum.runtime.config_types import InvalidValue
from tests.unit.admin.fake import ME, Client, Log, serve
from tests.unit.admin.operated import BROKER, BROKERS, CONTROLLER, LOGGER, OWN_ANSWERS, TOPIC, OperatedCluster

PARTITIONS_MAX = 1_000
SOURCES = {2: 1, 4: 2, 16: 7, 32: 8}
"""{resource type: the source of what is set on it}."""


class ManagedCluster(OperatedCluster):
    """See the module."""

    def reset(self) -> None:
        super().reset()
        self.copies: dict[tuple[int, str, int], Log] = {}
        """{(broker, topic, partition): its own log}."""
        self.epochs: dict[tuple[str, int], list[tuple[int, int]]] = {}
        """{partition: [(epoch, start offset)]}."""
        self.leader_epochs: dict[tuple[str, int], int] = {}
        self.directories: dict[int, list[str]] = {broker: ["/a", "/b"] for broker in BROKERS}
        self.absent: set[tuple[int, str, int]] = set()
        """Replicas that their broker has not made yet."""
        self.lies: dict[tuple[int, str, int], str] = {}
        self.moving: dict[tuple[int, str, int], str] = {}
        """{replica: the directory it moves to}."""

    def own_answers(self) -> dict[type, Callable[[Any, int, Any], Any]]:
        return {**OWN_ANSWERS, **MANAGED_ANSWERS}

    def _metadata(self, request: metadata.MetadataRequest) -> metadata.MetadataResponse:
        answer = super()._metadata(request)
        for topic in answer.topics:
            for row in topic.partitions:
                key = (topic.name or "", row.partition_index)
                row.leader_epoch = self.leader_epochs.get(key, row.leader_epoch)
        answer.brokers = [
            metadata.MetadataResponseBroker(node_id=each, host=ME[0], port=ME[1] + each - 1) for each in BROKERS
        ]
        return answer

    def set_config(self, kind: int, name: str, key: str, value: str) -> None:
        rows = self.layers.setdefault((kind, name), [])
        rows[:] = [row for row in rows if row[0][0] != key] + [[(key, value, SOURCES[kind])]]

    def config(self, kind: int, name: str) -> dict[str, str]:
        """Return what is set on something itself."""
        rows = self.layers.get((kind, name), [])
        return {row[0][0]: row[0][1] for row in rows if row[0][2] == SOURCES[kind]}

    def _altered(
        self, broker: int, requested: alter.AlterConfigsResource, only: bool
    ) -> alter.AlterConfigsResourceResponse:
        duty = requested.resource_type == BROKER and {each.name for each in requested.configs} <= {*KEPT_IN_METADATA}
        answer = super()._altered(
            CONTROLLER if duty else broker, requested, only
        )  # a broker passes those on of any other
        if requested.resource_type == LOGGER:
            return answer
        left = self.config(requested.resource_type, requested.resource_name)
        for each in requested.configs:
            left.pop(each.name, None)
            if each.config_operation == 0:
                left[each.name] = each.value or ""
        if requested.resource_type == TOPIC:
            if requested.resource_name not in self.logs:
                answer.error_code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
                return answer
            try:
                validate_topic_configs(left)
            except InvalidValue as error:
                answer.error_code, answer.error_message = ErrorCode.INVALID_CONFIG, str(error)
                return answer
        if not only:
            key = (requested.resource_type, requested.resource_name)
            source = SOURCES[requested.resource_type]
            others = [row for row in self.layers.get(key, []) if row[0][2] != source]
            self.layers[key] = others + [[(name, value, source)] for name, value in left.items()]
        return answer

    def _create(self, broker: int, request: create_topics.CreateTopicsRequest) -> create_topics.CreateTopicsResponse:
        rows = []
        for topic in request.topics:
            count, factor = max(topic.num_partitions, 1), max(topic.replication_factor, 1)
            row = create_topics.CreatableTopicResult(name=topic.name, num_partitions=count, replication_factor=factor)
            if topic.name in self.logs:
                row.error_code, row.error_message = ErrorCode.TOPIC_ALREADY_EXISTS, "it is there"
            elif factor > len(BROKERS):
                row.error_code, row.error_message = ErrorCode.INVALID_REPLICATION_FACTOR, "too few brokers"
            elif not request.validate_only:
                self.place(topic.name, *([*BROKERS[:factor]] for _ in range(count)))
                for each in topic.configs:
                    self.set_config(TOPIC, topic.name, each.name, each.value or "")
                row.topic_id = self.ids[topic.name]
            rows.append(row)
        return create_topics.CreateTopicsResponse(topics=rows)

    def _grow(
        self, broker: int, request: create_partitions.CreatePartitionsRequest
    ) -> create_partitions.CreatePartitionsResponse:
        (topic,) = request.topics
        row = create_partitions.CreatePartitionsTopicResult(name=topic.name)
        logs = self.logs.get(topic.name, [])
        if topic.name not in self.logs:
            row.error_code, row.error_message = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, topic.name
        elif not len(logs) < topic.count <= PARTITIONS_MAX:
            row.error_code, row.error_message = ErrorCode.INVALID_PARTITIONS, f"it has {len(logs)}"
        elif not request.validate_only:
            for index in range(len(logs), topic.count):
                logs.append(Log())
                replicas = list(self.replicas.get((topic.name, 0), [1]))
                self.replicas[topic.name, index] = self.isrs[topic.name, index] = replicas
                self.leaders[topic.name, index] = replicas[0]
        return create_partitions.CreatePartitionsResponse(results=[row])

    def _resources(
        self, broker: int, request: list_config_resources.ListConfigResourcesRequest
    ) -> list_config_resources.ListConfigResourcesResponse:
        rows = [
            list_config_resources.ConfigResource(resource_name=name, resource_type=kind)
            for (kind, name), found in self.layers.items()
            if kind in request.resource_types and found
        ]
        return list_config_resources.ListConfigResourcesResponse(config_resources=rows)

    def _epoch_ends(
        self, broker: int, request: offset_for_leader_epoch.OffsetForLeaderEpochRequest
    ) -> offset_for_leader_epoch.OffsetForLeaderEpochResponse:
        """Answer as a broker's epoch cache does (storage/epoch_cache)."""
        (topic,) = request.topics
        (requested,) = topic.partitions
        row = offset_for_leader_epoch.EpochEndOffset(partition=requested.partition)
        known = self.epochs.get((topic.topic, requested.partition), [])
        wanted = requested.leader_epoch
        older = [each for each in known if each[0] <= wanted]
        newer = [each for each in known if each[0] > wanted]
        if known and wanted == known[-1][0]:
            row.leader_epoch, row.end_offset = wanted, self.logs[topic.topic][requested.partition].end
        elif newer and wanted >= 0:
            row.leader_epoch, row.end_offset = (older[-1][0] if older else wanted), newer[0][1]
        result = offset_for_leader_epoch.OffsetForLeaderTopicResult(topic=topic.topic, partitions=[row])
        return offset_for_leader_epoch.OffsetForLeaderEpochResponse(topics=[result])

    def _replica(self, broker: int, topic: str, index: int) -> str | None:
        """Return where a broker has a replica; None: it has none."""
        if broker not in self.replicas.get((topic, index), []) or (broker, topic, index) in self.absent:
            return None
        return self.lies.get((broker, topic, index), self.directories[broker][0])

    def _sizes(self, broker: int, request: dirs.DescribeLogDirsRequest) -> dirs.DescribeLogDirsResponse:
        if self.ends or not self.replicas:
            return super()._sizes(broker, request)
        wanted = None if request.topics is None else {each.topic: each.partitions for each in request.topics}
        results = []
        for directory in self.directories[broker]:
            topics: dict[str, dirs.DescribeLogDirsTopic] = {}
            for (topic, index), replicas in self.replicas.items():
                if broker not in replicas or (wanted is not None and index not in wanted.get(topic, [])):
                    continue
                size = sum(map(len, self.log_of(broker, topic, index).batches))
                for path, future in (
                    (self._replica(broker, topic, index), False),
                    (self.moving.get((broker, topic, index)), True),
                ):
                    if path == directory:
                        row = dirs.DescribeLogDirsPartition(
                            partition_index=index, partition_size=size, is_future_key=future
                        )
                        topics.setdefault(topic, dirs.DescribeLogDirsTopic(name=topic)).partitions.append(row)
            results.append(dirs.DescribeLogDirsResult(log_dir=directory, topics=list(topics.values())))
        return dirs.DescribeLogDirsResponse(results=results)

    def log_of(self, broker: int, topic: str, index: int) -> Log:
        """Return a broker's copy."""
        return self.copies.get((broker, topic, index), self.logs[topic][index])

    def _move_dirs(
        self, broker: int, request: log_dir_moves.AlterReplicaLogDirsRequest
    ) -> log_dir_moves.AlterReplicaLogDirsResponse:
        answer = log_dir_moves.AlterReplicaLogDirsResponse()
        for directory in request.dirs:
            for topic in directory.topics:
                result = log_dir_moves.AlterReplicaLogDirTopicResult(topic_name=topic.name)
                for index in topic.partitions:
                    row = log_dir_moves.AlterReplicaLogDirPartitionResult(partition_index=index)
                    now = self._replica(broker, topic.name, index)
                    if directory.path not in self.directories[broker]:
                        row.error_code = ErrorCode.LOG_DIR_NOT_FOUND
                    elif now is None:
                        row.error_code = ErrorCode.REPLICA_NOT_AVAILABLE
                    elif now == directory.path:
                        self.moving.pop((broker, topic.name, index), None)
                    else:
                        self.moving[broker, topic.name, index] = directory.path
                    result.partitions.append(row)
                answer.results.append(result)
        return answer

    def _fetch_from(self, broker: int, request: fetch.FetchRequest) -> Coroutine[Any, Any, fetch.FetchResponse]:
        """Answer from the broker's own copy, where it has one: consumers may ask a follower."""
        kept = self.logs
        requested = [(broker, each.topic, row.partition) for each in request.topics for row in each.partitions]
        if not self.copies.keys() & set(requested):
            return self._fetch(request)
        self.logs = {
            topic: [self.copies.get((broker, topic, index), log) for index, log in enumerate(logs)]
            for topic, logs in kept.items()
        }
        try:
            found = self._fetched(request)
        finally:
            self.logs = kept

        async def answered() -> fetch.FetchResponse:
            return found

        return answered()

    def _ends_of(self, broker: int, request: list_offsets.ListOffsetsRequest) -> list_offsets.ListOffsetsResponse:
        """Answer a debugging replica of the broker's own copy; anybody else as OperatedCluster does."""
        if request.replica_id != DEBUGGING_REPLICA or self.ends:
            found: list_offsets.ListOffsetsResponse = self._ends(broker, request)
            return found
        answer = list_offsets.ListOffsetsResponse()
        for topic in request.topics:
            reported = list_offsets.ListOffsetsTopicResponse(name=topic.name)
            for row in topic.partitions:
                log = self.log_of(broker, topic.name, row.partition_index)
                reported.partitions.append(
                    list_offsets.ListOffsetsPartitionResponse(
                        partition_index=row.partition_index, offset=log.start if row.timestamp == -2 else log.end
                    )
                )
            answer.topics.append(reported)
        return answer

    async def ask(self, request: Any, response: type, address: Any = None, **options: Any) -> Any:
        found = await super().ask(request, response, address, **options)
        return await found if asyncio.iscoroutine(found) else found


MANAGED_ANSWERS: dict[type, Callable[[Any, int, Any], Any]] = {
    metadata.MetadataRequest: lambda cluster, _, request: cluster._metadata(request),
    create_topics.CreateTopicsRequest: ManagedCluster._create,
    create_partitions.CreatePartitionsRequest: ManagedCluster._grow,
    list_config_resources.ListConfigResourcesRequest: ManagedCluster._resources,
    offset_for_leader_epoch.OffsetForLeaderEpochRequest: ManagedCluster._epoch_ends,
    dirs.DescribeLogDirsRequest: ManagedCluster._sizes,
    log_dir_moves.AlterReplicaLogDirsRequest: ManagedCluster._move_dirs,
    fetch.FetchRequest: ManagedCluster._fetch_from,
    list_offsets.ListOffsetsRequest: ManagedCluster._ends_of,
}


def with_managed(test: Callable[[Client, ManagedCluster], Coroutine[Any, Any, None]], **options: Any) -> None:
    """Run a test with a served cluster."""

    async def run() -> None:
        cluster = ManagedCluster()
        async with serve(cluster, **options) as client:
            await test(client, cluster)

    asyncio.run(run())
