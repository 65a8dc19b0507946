"""A cluster of four brokers in memory that has quotas, features, loggers, configs, and partitions that move.

What FakeCluster answers it answers, too. A reassignment that adds nobody is over at once, another one when `finish` is
called; controllers' other rules are not here.
"""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from kvorum.network.addresses import Address
from kvorum.protocol.errors import ErrorCode
from kvorum.protocol.messages import alter_client_quotas as alter_quotas
from kvorum.protocol.messages import alter_partition_reassignments as moves
from kvorum.protocol.messages import api_versions, describe_cluster, elect_leaders, metadata, update_features
from kvorum.protocol.messages import describe_client_quotas as quotas
from kvorum.protocol.messages import describe_configs as configs
from kvorum.protocol.messages import describe_log_dirs as dirs
from kvorum.protocol.messages import describe_quorum as quorum
from kvorum.protocol.messages import incremental_alter_configs as alter
from kvorum.protocol.messages import init_producer_id as producer_ids
from kvorum.protocol.messages import list_offsets as offsets
from kvorum.protocol.messages import list_partition_reassignments as listed
from kvorum.protocol.schema import Message
from kvorum.runtime.config_defs import BROKER_STATE
from tests.unit.admin.fake import ME, Client, FakeCluster, serve
from tests.unit.client.credentials_kit import ANSWERS, Credentials

BROKERS = (1, 2, 3, 4)
CONTROLLER = 101
TOPIC, BROKER, LOGGER = 2, 4, 8
OWN, DYNAMIC, CLUSTER, STATIC, DEFAULT = 1, 2, 3, 4, 5
Layer = tuple[str, str, int]
"""(name, value, source) of a config or its synonym, the one in force first."""


class OperatedCluster(FakeCluster):
    """See the module."""

    def reset(self) -> None:
        super().reset()
        self.quotas: dict[frozenset[tuple[str, str | None]], dict[str, float]] = {}
        self.credentials = Credentials()
        self.levels = {"metadata.version": 30, "transaction.version": 1}
        self.ranges = {"metadata.version": (30, 30), "transaction.version": (0, 2)}
        self.loggers = {broker: {"network": "INFO", "root": "INFO"} for broker in BROKERS}
        self.layers: dict[tuple[int, str], list[list[Layer]]] = {}
        self.altered: list[tuple[int, str, dict[str, str | None]]] = []
        self.racks: dict[int, str | None] = dict.fromkeys(BROKERS)
        self.replicas: dict[tuple[str, int], list[int]] = {}
        self.leaders: dict[tuple[str, int], int] = {}
        self.isrs: dict[tuple[str, int], list[int]] = {}
        self.under_way: dict[tuple[str, int], tuple[list[int], list[int]]] = {}
        """{partition: (those that come, those that go)}."""
        self.ends: dict[tuple[int, str, int], int] = {}
        self.silent: set[int] = set()
        self.fenced: set[int] = set()
        self.fenced_ids: list[str] = []
        self.transaction_max_timeout_ms = 900_000
        self.has_admin_states = True
        """Whether brokers have the config of maintenance and decommission."""

    @property
    def ids_there(self) -> list[int]:
        return [each for each in self.racks if each not in self.fenced]

    def place(self, topic: str, *rows: list[int]) -> None:
        """Add a topic with replicas for each partition, all in sync, led by the first."""
        self.add(topic, len(rows))
        for index, replicas in enumerate(rows):
            self.replicas[topic, index] = list(replicas)
            self.isrs[topic, index] = list(replicas)
            self.leaders[topic, index] = replicas[0]

    def finish(self) -> None:
        """Let everything under way come to its end."""
        for key, (_, going) in self.under_way.items():
            self.replicas[key] = [broker for broker in self.replicas[key] if broker not in going]
            self.isrs[key] = list(self.replicas[key])
        self.under_way.clear()

    async def ask(  # type: ignore[override]  # one class for every answer
        self, request: Message, response: type, address: Address | None = None, **options: Any
    ) -> Any:
        broker = BROKERS[0] if address is None else address[1] - ME[1] + 1
        own = self.own_answers().get(type(request))
        if broker in self.silent:
            self.reachable = False
        try:
            # The rules of the fake hold for all requests: noted, refused by `codes`, unreachable.
            if own is None or not self.reachable or type(request) in self.codes:
                return await super().ask(request, response, None, **options)
            self.requested.append(request)
            return own(self, broker, request)
        finally:
            self.reachable = self.reachable or broker in self.silent

    def own_answers(self) -> dict[type, Callable[[Any, int, Any], Any]]:
        """Return what answers a request otherwise than FakeCluster."""
        return OWN_ANSWERS

    def _topic(self, name: str) -> metadata.MetadataResponseTopic:
        topic = super()._topic(name)
        for row in topic.partitions:
            key = (name, row.partition_index)
            if key in self.replicas:
                row.replica_nodes, row.isr_nodes, row.leader_id = self.replicas[key], self.isrs[key], self.leaders[key]
        return topic

    def _cluster(
        self, broker: int, request: describe_cluster.DescribeClusterRequest
    ) -> describe_cluster.DescribeClusterResponse:
        rows = [
            describe_cluster.DescribeClusterBroker(
                broker_id=each, host=ME[0], port=ME[1] + each - 1, rack=rack, is_fenced=each in self.fenced
            )
            for each, rack in self.racks.items()
            if request.include_fenced_brokers or each not in self.fenced
        ]
        return describe_cluster.DescribeClusterResponse(cluster_id="c", controller_id=1, brokers=rows)

    def _quorum(self, broker: int, request: Message) -> quorum.DescribeQuorumResponse:
        row = quorum.ResponsePartitionData(leader_id=CONTROLLER, leader_epoch=1, high_watermark=1)
        listener = quorum.Listener(name="CONTROLLER", host=ME[0], port=ME[1] + CONTROLLER - 1)
        return quorum.DescribeQuorumResponse(
            topics=[quorum.ResponseTopicData(partitions=[row])],
            nodes=[quorum.Node(node_id=CONTROLLER, listeners=[listener])],
        )

    def _quotas(self, broker: int, request: quotas.DescribeClientQuotasRequest) -> quotas.DescribeClientQuotasResponse:
        def fits(entity: dict[str, str | None]) -> bool:
            wanted = {each.entity_type: each for each in request.components}
            if not wanted.keys() <= entity.keys() or (request.strict and wanted.keys() != entity.keys()):
                return not request.components and not request.strict
            return all(each.match_type == 2 or entity[kind] == each.match for kind, each in wanted.items())

        entries = [
            quotas.EntryData(
                entity=[quotas.EntityData(entity_type=kind, entity_name=name) for kind, name in entity],
                values=[quotas.ValueData(key=key, value=value) for key, value in values.items()],
            )
            for entity, values in self.quotas.items()
            if fits(dict(entity))
        ]
        return quotas.DescribeClientQuotasResponse(entries=entries)

    def _alter_quotas(
        self, broker: int, request: alter_quotas.AlterClientQuotasRequest
    ) -> alter_quotas.AlterClientQuotasResponse:
        (entry,) = request.entries
        code, message = ErrorCode.NONE, None
        for op in entry.ops:
            if not op.remove and (op.key != "producer_byte_rate" or op.value <= 0):
                code, message = ErrorCode.INVALID_REQUEST, f"Invalid configuration key {op.key}"
        if code is ErrorCode.NONE and not request.validate_only:
            entity = frozenset((part.entity_type, part.entity_name) for part in entry.entity)
            values = self.quotas.setdefault(entity, {})
            for op in entry.ops:
                values.pop(op.key, None)
                if not op.remove:
                    values[op.key] = op.value
            if not values:
                del self.quotas[entity]
        row = alter_quotas.ResponseEntryData(error_code=code, error_message=message)
        return alter_quotas.AlterClientQuotasResponse(entries=[row])

    def _versions(self, broker: int, request: Message) -> api_versions.ApiVersionsResponse:
        ranges = ((999, 0, 0), (1, 4, 14 + broker))
        return api_versions.ApiVersionsResponse(
            api_keys=[api_versions.ApiVersion(api_key=k, min_version=a, max_version=b) for k, a, b in ranges],
            supported_features=[
                api_versions.SupportedFeatureKey(name=name, min_version=low, max_version=high)
                for name, (low, high) in self.ranges.items()
            ],
            finalized_features=[
                api_versions.FinalizedFeatureKey(name=name, max_version_level=level, min_version_level=level)
                for name, level in self.levels.items()
            ],
            finalized_features_epoch=7,
        )

    def _update_features(
        self, broker: int, request: update_features.UpdateFeaturesRequest
    ) -> update_features.UpdateFeaturesResponse:
        for each in request.feature_updates:
            low, high = self.ranges.get(each.feature, (0, -1))
            down = each.max_version_level < self.levels.get(each.feature, 0)
            if not low <= each.max_version_level <= high or (down and each.upgrade_type == 1):
                code = ErrorCode.INVALID_UPDATE_VERSION
                return update_features.UpdateFeaturesResponse(error_code=code, error_message=f"not {each.feature}")
        if not request.validate_only:
            self.levels.update({each.feature: each.max_version_level for each in request.feature_updates})
        return update_features.UpdateFeaturesResponse()

    def _configs(self, broker: int, request: configs.DescribeConfigsRequest) -> configs.DescribeConfigsResponse:
        return configs.DescribeConfigsResponse(results=[self._of_resource(broker, each) for each in request.resources])

    def _of_resource(self, broker: int, requested: configs.DescribeConfigsResource) -> configs.DescribeConfigsResult:
        result = configs.DescribeConfigsResult(
            resource_type=requested.resource_type, resource_name=requested.resource_name
        )
        if requested.resource_type == LOGGER:
            result.configs = [
                configs.DescribeConfigsResourceResult(name=name, value=level, config_source=6)
                for name, level in self.loggers[broker].items()
            ]
        elif requested.resource_type == TOPIC and requested.resource_name not in self.logs:
            result.error_code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        else:
            for layers in self.layers.get((requested.resource_type, requested.resource_name), []):
                name, value, source = layers[0]
                secret = "password" in name
                synonyms = [
                    configs.DescribeConfigsSynonym(name=n, value=None if secret else v, source=s) for n, v, s in layers
                ]
                result.configs.append(
                    configs.DescribeConfigsResourceResult(
                        name=name, value=value, config_source=source, is_sensitive=secret, synonyms=synonyms
                    )
                )
            described = {each.name for each in result.configs}
            if self.has_admin_states and BROKER_STATE in {*(requested.configuration_keys or ())} - described:
                row = configs.DescribeConfigsResourceResult(name=BROKER_STATE, value="active", config_source=DEFAULT)
                result.configs.append(row)
        return result

    def _alter(
        self, broker: int, request: alter.IncrementalAlterConfigsRequest
    ) -> alter.IncrementalAlterConfigsResponse:
        rows = [self._altered(broker, each, request.validate_only) for each in request.resources]
        return alter.IncrementalAlterConfigsResponse(responses=rows)

    def _altered(
        self, broker: int, requested: alter.AlterConfigsResource, only: bool
    ) -> alter.AlterConfigsResourceResponse:
        answer = alter.AlterConfigsResourceResponse(
            resource_type=requested.resource_type, resource_name=requested.resource_name
        )
        if requested.resource_type == LOGGER:
            for each in requested.configs:
                if each.name not in self.loggers[broker]:
                    answer.error_code = ErrorCode.INVALID_CONFIG
                    answer.error_message = f"Logger {each.name} does not exist!"
                elif not only:
                    self.loggers[broker][each.name] = each.value or self.loggers[broker]["root"]
        elif (
            requested.resource_type == BROKER
            and requested.resource_name not in ("", str(broker))
            and broker != CONTROLLER
        ):
            answer.error_code = ErrorCode.INVALID_REQUEST
            answer.error_message = f"Unexpected broker id, expected {broker}, but received {requested.resource_name}"
        else:
            changes = {each.name: each.value for each in requested.configs}
            self.altered.append((requested.resource_type, requested.resource_name, changes))
        return answer

    def _listed(self, broker: int, request: Message) -> listed.ListPartitionReassignmentsResponse:
        topics: dict[str, listed.OngoingTopicReassignment] = {}
        for (topic, index), (coming, going) in self.under_way.items():
            row = listed.OngoingPartitionReassignment(
                partition_index=index,
                replicas=self.replicas[topic, index],
                adding_replicas=coming,
                removing_replicas=going,
            )
            topics.setdefault(topic, listed.OngoingTopicReassignment(name=topic)).partitions.append(row)
        return listed.ListPartitionReassignmentsResponse(topics=list(topics.values()))

    def _move(
        self, broker: int, request: moves.AlterPartitionReassignmentsRequest
    ) -> moves.AlterPartitionReassignmentsResponse:
        answer = moves.AlterPartitionReassignmentsResponse()
        for topic in request.topics:
            row = moves.ReassignableTopicResponse(name=topic.name)
            for each in topic.partitions:
                code = self._moved((topic.name, each.partition_index), each.replicas)
                row.partitions.append(
                    moves.ReassignablePartitionResponse(
                        partition_index=each.partition_index, error_code=code, error_message="no" if code else None
                    )
                )
            answer.responses.append(row)
        return answer

    def _moved(self, key: tuple[str, int], target: list[int] | None) -> ErrorCode:
        if key not in self.replicas:
            return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        now = self.replicas[key]
        if target is None:
            if key not in self.under_way:
                return ErrorCode.NO_REASSIGNMENT_IN_PROGRESS
            coming, _ = self.under_way.pop(key)
            self.replicas[key] = [each for each in now if each not in coming]
            return ErrorCode.NONE
        coming = [each for each in target if each not in now]
        going = [each for each in now if each not in target]
        self.replicas[key] = [*target, *going]
        if coming or going:
            self.under_way[key] = (coming, going)
        return ErrorCode.NONE

    def _elect(self, broker: int, request: elect_leaders.ElectLeadersRequest) -> elect_leaders.ElectLeadersResponse:
        results = []
        for topic in request.topic_partitions or ():
            result = elect_leaders.ReplicaElectionResult(topic=topic.topic)
            for index in topic.partitions:
                key = (topic.topic, index)
                code = ErrorCode.NONE
                if key not in self.replicas:
                    code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
                elif self.leaders[key] == self.replicas[key][0]:
                    code = ErrorCode.ELECTION_NOT_NEEDED
                else:
                    self.leaders[key] = self.replicas[key][0]
                result.partition_result.append(elect_leaders.PartitionResult(partition_id=index, error_code=code))
            results.append(result)
        return elect_leaders.ElectLeadersResponse(replica_election_results=results)

    def _ends(self, broker: int, request: offsets.ListOffsetsRequest) -> Any:
        if request.replica_id != -2:
            return self._list_offsets(request)
        answer = offsets.ListOffsetsResponse()
        for topic in request.topics:
            reported = offsets.ListOffsetsTopicResponse(name=topic.name)
            for row in topic.partitions:
                end = self.ends.get((broker, topic.name, row.partition_index))
                code = ErrorCode.NONE if end is not None else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
                reported.partitions.append(
                    offsets.ListOffsetsPartitionResponse(
                        partition_index=row.partition_index, error_code=code, offset=-1 if end is None else end
                    )
                )
            answer.topics.append(reported)
        return answer

    def _sizes(self, broker: int, request: dirs.DescribeLogDirsRequest) -> dirs.DescribeLogDirsResponse:
        if not self.ends:
            return self._log_dirs(request)
        topics = [
            dirs.DescribeLogDirsTopic(
                name=topic.topic,
                partitions=[
                    dirs.DescribeLogDirsPartition(
                        partition_index=each, partition_size=10 * self.ends[broker, topic.topic, each]
                    )
                    for each in topic.partitions
                    if (broker, topic.topic, each) in self.ends
                ],
            )
            for topic in request.topics or ()
        ]
        return dirs.DescribeLogDirsResponse(results=[dirs.DescribeLogDirsResult(log_dir="/data", topics=topics)])

    def _init(self, broker: int, request: producer_ids.InitProducerIdRequest) -> producer_ids.InitProducerIdResponse:
        if request.transaction_timeout > self.transaction_max_timeout_ms:
            return producer_ids.InitProducerIdResponse(error_code=ErrorCode.INVALID_TRANSACTION_TIMEOUT)
        self.fenced_ids.append(request.transactional_id or "")
        return producer_ids.InitProducerIdResponse(producer_id=1, producer_epoch=9)


OWN_ANSWERS: dict[type, Callable[[OperatedCluster, int, Any], Any]] = {
    describe_cluster.DescribeClusterRequest: OperatedCluster._cluster,
    quorum.DescribeQuorumRequest: OperatedCluster._quorum,
    quotas.DescribeClientQuotasRequest: OperatedCluster._quotas,
    alter_quotas.AlterClientQuotasRequest: OperatedCluster._alter_quotas,
    **dict.fromkeys(ANSWERS, lambda cluster, broker, request: cluster.credentials.answer(request)),
    api_versions.ApiVersionsRequest: OperatedCluster._versions,
    update_features.UpdateFeaturesRequest: OperatedCluster._update_features,
    configs.DescribeConfigsRequest: OperatedCluster._configs,
    alter.IncrementalAlterConfigsRequest: OperatedCluster._alter,
    listed.ListPartitionReassignmentsRequest: OperatedCluster._listed,
    moves.AlterPartitionReassignmentsRequest: OperatedCluster._move,
    elect_leaders.ElectLeadersRequest: OperatedCluster._elect,
    offsets.ListOffsetsRequest: OperatedCluster._ends,
    dirs.DescribeLogDirsRequest: OperatedCluster._sizes,
    producer_ids.InitProducerIdRequest: OperatedCluster._init,
}


def with_operated(test: Callable[[Client, OperatedCluster], Coroutine[Any, Any, None]]) -> None:
    """Run a test with a served cluster."""

    async def run() -> None:
        cluster = OperatedCluster()
        async with serve(cluster) as client:
            await test(client, cluster)

    asyncio.run(run())
