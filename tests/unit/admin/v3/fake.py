"""The fake cluster of tests/unit/admin/fake.py, with topics and configs that change."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from kvorum.admin.http.access import Access
from kvorum.client.config_sources import Source
from kvorum.client.wire.cluster_client import ConfigOperation, ResourceType
from kvorum.network.addresses import Address
from kvorum.protocol.errors import ErrorCode, KafkaError
from kvorum.protocol.messages import (
    create_partitions,
    create_topics,
    delete_topics,
    describe_configs,
    incremental_alter_configs,
    list_partition_reassignments,
    metadata,
)
from kvorum.protocol.schema import Message
from tests.unit.admin.fake import Client, FakeCluster, Log, serve

DEFAULTS = {"cleanup.policy": "delete", "retention.ms": "604800000", "ssl.key.password": "secret"}
SECRET = "ssl.key.password"
PLACES = {
    ResourceType.TOPIC: Source.DYNAMIC_TOPIC_CONFIG,
    ResourceType.BROKER: Source.DYNAMIC_BROKER_CONFIG,
}
BASE = "/v3/clusters/c"


class ConfiguredCluster(FakeCluster):
    """Topics and brokers have the configs of DEFAULTS; `set` is what was set, by (type, name)."""

    def reset(self) -> None:
        super().reset()
        self.set: dict[tuple[int, str], dict[str, str]] = {}
        self.refused: dict[str, ErrorCode] = {}
        """Names of topics whose configs cannot be changed."""
        self.moving: dict[tuple[str, int], tuple[list[int], list[int]]] = {}

    async def ask(  # type: ignore[override]  # one class for every answer
        self, request: Message, response: type, address: Address | None = None, **options: Any
    ) -> Any:
        answer = ANSWERS.get(type(request))
        if answer is None:
            return await super().ask(request, response, address, **options)
        self.requested.append(request)
        if type(request) in self.codes:
            raise KafkaError(self.codes[type(request)], "as the test wants")
        return answer(self, request)

    def _topic(self, name: str) -> metadata.MetadataResponseTopic:
        found = super()._topic(name)
        found.topic_authorized_operations = 1 << 3 | 1 << 8
        return found

    def _create(self, request: create_topics.CreateTopicsRequest) -> create_topics.CreateTopicsResponse:
        (topic,) = request.topics
        if topic.name in self.logs:
            return create_topics.CreateTopicsResponse(
                topics=[
                    create_topics.CreatableTopicResult(
                        name=topic.name,
                        error_code=ErrorCode.TOPIC_ALREADY_EXISTS,
                        error_message=f"Topic '{topic.name}' already exists.",
                    )
                ]
            )
        count = len(topic.assignments) or (2 if topic.num_partitions == -1 else topic.num_partitions)
        if not request.validate_only:
            self.add(topic.name, count)
            self.set[ResourceType.TOPIC, topic.name] = {each.name: each.value or "" for each in topic.configs}
        factor = len(topic.assignments[0].broker_ids) if topic.assignments else max(1, topic.replication_factor)
        configs = [
            create_topics.CreatableTopicConfigs(name=name, value=value, config_source=Source.DEFAULT_CONFIG)
            for name, value in DEFAULTS.items()
        ]
        made = create_topics.CreatableTopicResult(
            name=topic.name, num_partitions=count, replication_factor=factor, configs=configs
        )
        return create_topics.CreateTopicsResponse(topics=[made])

    def _delete(self, request: delete_topics.DeleteTopicsRequest) -> delete_topics.DeleteTopicsResponse:
        (topic,) = request.topics
        code = ErrorCode.NONE if self.logs.pop(topic.name or "", None) else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        row = delete_topics.DeletableTopicResult(name=topic.name, error_code=code)
        return delete_topics.DeleteTopicsResponse(responses=[row])

    def _grow(self, request: create_partitions.CreatePartitionsRequest) -> create_partitions.CreatePartitionsResponse:
        (topic,) = request.topics
        logs = self.logs[topic.name]
        row = create_partitions.CreatePartitionsTopicResult(name=topic.name)
        if topic.count <= len(logs):
            row.error_code, row.error_message = (
                ErrorCode.INVALID_PARTITIONS,
                f"Topic already has {len(logs)} partitions.",
            )
        elif not request.validate_only:
            logs += [Log() for _ in range(topic.count - len(logs))]
        return create_partitions.CreatePartitionsResponse(results=[row])

    def _known(self, kind: int, name: str) -> bool:
        return name in self.logs if kind == ResourceType.TOPIC else name in ("", "1")

    def _describe(self, request: describe_configs.DescribeConfigsRequest) -> describe_configs.DescribeConfigsResponse:
        results = []
        for requested in request.resources:
            kind, name = requested.resource_type, requested.resource_name
            result = describe_configs.DescribeConfigsResult(resource_type=kind, resource_name=name)
            results.append(result)
            if not self._known(kind, name):
                result.error_code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
                continue
            own = self.set.get((kind, name), {})
            # All brokers together tell only what was set for them.
            for key in DEFAULTS if name else own:
                result.configs.append(self._config(key, own, PLACES[ResourceType(kind)], bool(name)))
        return describe_configs.DescribeConfigsResponse(results=results)

    def _config(
        self, key: str, own: dict[str, str], place: Source, with_default: bool
    ) -> describe_configs.DescribeConfigsResourceResult:
        chain = [(own[key], place if with_default else Source.DYNAMIC_DEFAULT_BROKER_CONFIG)] if key in own else []
        chain += [(DEFAULTS[key], Source.DEFAULT_CONFIG)] if with_default else []
        return describe_configs.DescribeConfigsResourceResult(
            name=key,
            value=chain[0][0],
            config_source=chain[0][1],
            is_sensitive=key == SECRET,
            synonyms=[
                describe_configs.DescribeConfigsSynonym(name=key, value=value, source=source) for value, source in chain
            ],
        )

    def _alter(
        self, request: incremental_alter_configs.IncrementalAlterConfigsRequest
    ) -> incremental_alter_configs.IncrementalAlterConfigsResponse:
        (resource,) = request.resources
        row = incremental_alter_configs.AlterConfigsResourceResponse(resource_name=resource.resource_name)
        row.error_code = self.refused.get(resource.resource_name, ErrorCode.NONE)
        if not row.error_code and not request.validate_only:
            own = self.set.setdefault((resource.resource_type, resource.resource_name), {})
            for config in resource.configs:
                if config.config_operation == ConfigOperation.DELETE:
                    own.pop(config.name, None)
                else:
                    own[config.name] = config.value or ""
        return incremental_alter_configs.IncrementalAlterConfigsResponse(responses=[row])

    def _reassignments(
        self, request: list_partition_reassignments.ListPartitionReassignmentsRequest
    ) -> list_partition_reassignments.ListPartitionReassignmentsResponse:
        topics = [
            list_partition_reassignments.OngoingTopicReassignment(
                name=topic,
                partitions=[
                    list_partition_reassignments.OngoingPartitionReassignment(
                        partition_index=index, replicas=[1, *adding], adding_replicas=adding, removing_replicas=removing
                    )
                ],
            )
            for (topic, index), (adding, removing) in self.moving.items()
        ]
        return list_partition_reassignments.ListPartitionReassignmentsResponse(topics=topics)


ANSWERS: dict[type, Callable[[ConfiguredCluster, Any], Any]] = {
    create_topics.CreateTopicsRequest: ConfiguredCluster._create,
    delete_topics.DeleteTopicsRequest: ConfiguredCluster._delete,
    create_partitions.CreatePartitionsRequest: ConfiguredCluster._grow,
    describe_configs.DescribeConfigsRequest: ConfiguredCluster._describe,
    incremental_alter_configs.IncrementalAlterConfigsRequest: ConfiguredCluster._alter,
    list_partition_reassignments.ListPartitionReassignmentsRequest: ConfiguredCluster._reassignments,
}


def with_cluster(
    test: Callable[[Client, ConfiguredCluster], Coroutine[Any, Any, None]],
    access: Access | None = None,
    clock: Any = None,
) -> None:
    """Run a test with a served fake cluster."""

    async def run() -> None:
        cluster = ConfiguredCluster()
        async with serve(cluster, access, clock) as client:
            await test(client, cluster)

    asyncio.run(run())


def url(client: Client, path: str) -> str:
    """Return the URL of something in the cluster as this client reaches it."""
    return str(client.make_url(BASE + path))
