"""A cluster of one broker in memory: answers what ClusterClient asks, in the place of the network."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any
from unittest import mock

from click.testing import CliRunner

from kvorum.cli.main import main
from kvorum.client.wire.cluster_client import BROKERS, CONTROLLERS, ClusterClient
from kvorum.protocol.api import CONTROLLER_APIS, ApiKey
from kvorum.protocol.errors import ErrorCode, KafkaError
from kvorum.protocol.messages import (
    alter_client_quotas,
    api_versions,
    consumer_group_describe,
    create_partitions,
    create_topics,
    delete_groups,
    delete_records,
    delete_topics,
    describe_client_quotas,
    describe_cluster,
    describe_configs,
    describe_groups,
    describe_log_dirs,
    describe_producers,
    describe_quorum,
    describe_topic_partitions,
    describe_transactions,
    elect_leaders,
    find_coordinator,
    incremental_alter_configs,
    init_producer_id,
    leave_group,
    list_config_resources,
    list_groups,
    list_offsets,
    list_partition_reassignments,
    list_transactions,
    metadata,
    offset_commit,
    offset_delete,
    offset_fetch,
    update_features,
)
from kvorum.protocol.uuids import Uuid
from tests.unit.client.credentials_kit import ANSWERS, Credentials

Place = tuple[str, int]
Handler = Callable[["FakeCluster", Any], Any]
TOPIC_ID = Uuid(bytes(range(16)))
SET, DELETE = 0, 1
TOPIC = 2


@dataclass
class FakeCluster:
    """What the broker knows. Logs are (start, end, {time: offset}) by partition."""

    logs: dict[Place, tuple[int, int, dict[int, int]]] = field(default_factory=dict)
    groups: dict[str, describe_groups.DescribedGroup] = field(default_factory=dict)
    newer: dict[str, consumer_group_describe.DescribedGroup] = field(default_factory=dict)
    committed: dict[str, dict[Place, int]] = field(default_factory=dict)
    configs: dict[tuple[int, str], dict[str, str]] = field(default_factory=dict)
    quotas: dict[tuple[tuple[str, str | None], ...], dict[str, float]] = field(default_factory=dict)
    features: dict[str, int] = field(default_factory=lambda: {"metadata.version": 30, "transaction.version": 1})
    moving: dict[Place, tuple[list[int], list[int], list[int]]] = field(default_factory=dict)
    """What is reassigned: all replicas, and who is added and removed."""
    credentials: Credentials = field(default_factory=Credentials)
    refusals: dict[str, int] = field(default_factory=dict)
    is_of_controllers: bool = False
    """Whether 101 and 102, the active one, are asked in place of brokers."""
    requested: list[Any] = field(default_factory=list)
    addresses: list[object] = field(default_factory=list)
    """Who was to be asked, in the order of `asked`; None for anybody."""

    async def ask(self, client: object, request: Any, response: type[Any], address: object = None, **_: object) -> Any:
        self.requested.append(request)
        self.addresses.append(address)
        if self.is_of_controllers and ApiKey(request.API_KEY) not in CONTROLLER_APIS:
            raise KafkaError(ErrorCode.UNSUPPORTED_VERSION, f"no {type(request).__name__} here")
        answer = HANDLERS[type(request)](self, request)
        assert isinstance(answer, response)
        return answer

    def topics(self) -> dict[str, list[int]]:
        found: dict[str, list[int]] = {}
        for topic, partition in sorted(self.logs):
            found.setdefault(topic, []).append(partition)
        return found


def on_metadata(cluster: FakeCluster, request: metadata.MetadataRequest) -> metadata.MetadataResponse:
    there = cluster.topics()
    wanted = list(there) if request.topics is None else [topic.name or "" for topic in request.topics]
    topics = []
    for name in wanted:
        rows = [
            metadata.MetadataResponsePartition(
                partition_index=each,
                leader_id=1,
                replica_nodes=cluster.moving.get((name, each), ([1, 2], [], []))[0],
                isr_nodes=[1] if each else [1, 2],
            )
            for each in there.get(name, [])
        ]
        code = 0 if rows else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        internal = name.startswith("__")
        topics.append(
            metadata.MetadataResponseTopic(
                name=name, topic_id=TOPIC_ID, partitions=rows, error_code=code, is_internal=internal
            )
        )
    brokers = [metadata.MetadataResponseBroker(node_id=1, host="broker", port=9092)]
    return metadata.MetadataResponse(brokers=brokers, topics=topics, cluster_id="C")


def on_list_reassignments(cluster: FakeCluster, request: Any) -> Any:
    if "reassignments" in cluster.refusals:
        raise KafkaError(ErrorCode(cluster.refusals["reassignments"]), "not here")
    topics: dict[str, list_partition_reassignments.OngoingTopicReassignment] = {}
    for (name, index), (replicas, adding, removing) in cluster.moving.items():
        row = list_partition_reassignments.OngoingPartitionReassignment(
            partition_index=index, replicas=replicas, adding_replicas=adding, removing_replicas=removing
        )
        topic = topics.setdefault(name, list_partition_reassignments.OngoingTopicReassignment(name=name))
        topic.partitions.append(row)
    return list_partition_reassignments.ListPartitionReassignmentsResponse(topics=list(topics.values()))


def on_list_resources(cluster: FakeCluster, request: list_config_resources.ListConfigResourcesRequest) -> Any:
    rows = [
        list_config_resources.ConfigResource(resource_name=name, resource_type=kind)
        for kind, name in cluster.configs
        if kind in request.resource_types
    ]
    return list_config_resources.ListConfigResourcesResponse(config_resources=rows)


def on_list_groups(cluster: FakeCluster, request: list_groups.ListGroupsRequest) -> list_groups.ListGroupsResponse:
    rows = [
        list_groups.ListedGroup(
            group_id=group.group_id,
            protocol_type=group.protocol_type,
            group_state=group.group_state,
            group_type="classic",
        )
        for group in cluster.groups.values()
    ] + [
        list_groups.ListedGroup(
            group_id=group.group_id, protocol_type="consumer", group_state=group.group_state, group_type="consumer"
        )
        for group in cluster.newer.values()
    ]
    return list_groups.ListGroupsResponse(groups=rows)


def on_describe_groups(cluster: FakeCluster, request: Any) -> Any:
    found = cluster.groups.get(request.groups[0])
    if found is None:
        code = ErrorCode.GROUP_ID_NOT_FOUND
        found = describe_groups.DescribedGroup(group_id=request.groups[0], error_code=code, group_state="Dead")
    return describe_groups.DescribeGroupsResponse(groups=[found])


def on_consumer_group_describe(cluster: FakeCluster, request: Any) -> Any:
    group_id = request.group_ids[0]
    found = cluster.newer.get(group_id)
    if found is None:
        code = ErrorCode.GROUP_ID_NOT_FOUND
        found = consumer_group_describe.DescribedGroup(group_id=group_id, error_code=code)
    return consumer_group_describe.ConsumerGroupDescribeResponse(groups=[found])


def on_find_coordinator(cluster: FakeCluster, request: Any) -> Any:
    row = find_coordinator.Coordinator(key=request.key, node_id=1, host="broker", port=9092)
    return find_coordinator.FindCoordinatorResponse(coordinators=[row])


def on_offset_fetch(cluster: FakeCluster, request: offset_fetch.OffsetFetchRequest) -> Any:
    group_id = request.groups[0].group_id
    topics: dict[str, offset_fetch.OffsetFetchResponseTopics] = {}
    for (topic, partition), offset in cluster.committed.get(group_id, {}).items():
        row = offset_fetch.OffsetFetchResponsePartitions(
            partition_index=partition, committed_offset=offset, committed_leader_epoch=3
        )
        topics.setdefault(topic, offset_fetch.OffsetFetchResponseTopics(name=topic)).partitions.append(row)
    group = offset_fetch.OffsetFetchResponseGroup(group_id=group_id, topics=list(topics.values()))
    return offset_fetch.OffsetFetchResponse(groups=[group])


def on_offset_commit(cluster: FakeCluster, request: offset_commit.OffsetCommitRequest) -> Any:
    topics = []
    for topic in request.topics:
        rows = []
        for row in topic.partitions:
            cluster.committed.setdefault(request.group_id, {})[topic.name, row.partition_index] = row.committed_offset
            rows.append(offset_commit.OffsetCommitResponsePartition(partition_index=row.partition_index))
        topics.append(offset_commit.OffsetCommitResponseTopic(name=topic.name, partitions=rows))
    return offset_commit.OffsetCommitResponse(topics=topics)


def on_offset_delete(cluster: FakeCluster, request: offset_delete.OffsetDeleteRequest) -> Any:
    topics = []
    for topic in request.topics:
        rows = []
        for row in topic.partitions:
            there = cluster.committed[request.group_id].pop((topic.name, row.partition_index), None) is not None
            code = 0 if there else ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC
            rows.append(
                offset_delete.OffsetDeleteResponsePartition(partition_index=row.partition_index, error_code=code)
            )
        topics.append(offset_delete.OffsetDeleteResponseTopic(name=topic.name, partitions=rows))
    return offset_delete.OffsetDeleteResponse(topics=topics)


def on_delete_groups(cluster: FakeCluster, request: delete_groups.DeleteGroupsRequest) -> Any:
    group_id = request.groups_names[0]
    found = cluster.groups.get(group_id)
    if group_id in cluster.refusals:
        row = delete_groups.DeletableGroupResult(group_id=group_id, error_code=cluster.refusals[group_id])
        return delete_groups.DeleteGroupsResponse(results=[row])
    code = ErrorCode.GROUP_ID_NOT_FOUND if found is None else ErrorCode.NON_EMPTY_GROUP if found.members else 0
    if not code:
        del cluster.groups[group_id]
    return delete_groups.DeleteGroupsResponse(
        results=[delete_groups.DeletableGroupResult(group_id=group_id, error_code=code)]
    )


def on_leave_group(cluster: FakeCluster, request: leave_group.LeaveGroupRequest) -> Any:
    group = cluster.groups.get(request.group_id)
    rows = []
    for each in request.members:
        there = [] if group is None else group.members
        gone = [
            m for m in there if m.member_id == each.member_id or (m.group_instance_id or "-") == each.group_instance_id
        ]
        if group is not None:
            group.members = [member for member in there if member not in gone]
        code = 0 if gone else ErrorCode.UNKNOWN_MEMBER_ID
        rows.append(
            leave_group.MemberResponse(
                member_id=each.member_id, group_instance_id=each.group_instance_id, error_code=code
            )
        )
    return leave_group.LeaveGroupResponse(members=rows)


def on_list_offsets(cluster: FakeCluster, request: list_offsets.ListOffsetsRequest) -> Any:
    topics = []
    for topic in request.topics:
        rows = []
        for row in topic.partitions:
            start, end, times = cluster.logs[topic.name, row.partition_index]
            later = [offset for time, offset in sorted(times.items()) if time >= row.timestamp]
            offset = {-1: end, -2: start}.get(row.timestamp, later[0] if later else -1)
            rows.append(list_offsets.ListOffsetsPartitionResponse(partition_index=row.partition_index, offset=offset))
        topics.append(list_offsets.ListOffsetsTopicResponse(name=topic.name, partitions=rows))
    return list_offsets.ListOffsetsResponse(topics=topics)


def on_delete_records(cluster: FakeCluster, request: delete_records.DeleteRecordsRequest) -> Any:
    topics = []
    for topic in request.topics:
        rows = []
        for row in topic.partitions:
            _, end, times = cluster.logs[topic.name, row.partition_index]
            offset = end if row.offset == -1 else row.offset
            code = ErrorCode.OFFSET_OUT_OF_RANGE if offset > end else 0
            if not code:
                cluster.logs[topic.name, row.partition_index] = (offset, end, times)
            rows.append(
                delete_records.DeleteRecordsPartitionResult(
                    partition_index=row.partition_index, low_watermark=-1 if code else offset, error_code=code
                )
            )
        topics.append(delete_records.DeleteRecordsTopicResult(name=topic.name, partitions=rows))
    return delete_records.DeleteRecordsResponse(topics=topics)


OWN_SOURCE = {2: 1, 4: 2, 8: 6, 16: 7, 32: 8}


def on_describe_configs(cluster: FakeCluster, request: describe_configs.DescribeConfigsRequest) -> Any:
    (resource,) = request.resources
    kind, name = resource.resource_type, resource.resource_name
    if kind == TOPIC and not cluster.is_of_controllers and name not in cluster.topics():
        code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        unknown = describe_configs.DescribeConfigsResult(error_code=code, resource_type=kind, resource_name=name)
        return describe_configs.DescribeConfigsResponse(results=[unknown])
    source = 3 if kind == 4 and not name else OWN_SOURCE[kind]
    rows = [
        describe_configs.DescribeConfigsResourceResult(
            name=key,
            value=value,
            config_source=source,
            synonyms=[describe_configs.DescribeConfigsSynonym(name=key, value=value, source=source)],
        )
        for key, value in cluster.configs.get((kind, name), {}).items()
    ]
    rows.append(describe_configs.DescribeConfigsResourceResult(name="zz.default", value="9", config_source=5))
    result = describe_configs.DescribeConfigsResult(resource_type=kind, resource_name=name, configs=rows)
    return describe_configs.DescribeConfigsResponse(results=[result])


def on_alter_configs(cluster: FakeCluster, request: incremental_alter_configs.IncrementalAlterConfigsRequest) -> Any:
    (resource,) = request.resources
    there = cluster.configs.setdefault((resource.resource_type, resource.resource_name), {})
    for change in resource.configs:
        if change.config_operation == DELETE:
            there.pop(change.name, None)
        elif not request.validate_only:
            there[change.name] = change.value or ""
    row = incremental_alter_configs.AlterConfigsResourceResponse(resource_type=resource.resource_type)
    return incremental_alter_configs.IncrementalAlterConfigsResponse(responses=[row])


def on_describe_quotas(cluster: FakeCluster, request: describe_client_quotas.DescribeClientQuotasRequest) -> Any:
    wanted = {part.entity_type: (part.match_type, part.match) for part in request.components}

    def matches(entity: tuple[tuple[str, str | None], ...]) -> bool:
        kinds = {kind for kind, _ in entity}
        if not wanted.keys() <= kinds or (request.strict and kinds != wanted.keys()):
            return False
        return all(
            wanted[kind][0] == 2 or (wanted[kind] == (1, None) and name is None) or wanted[kind] == (0, name)
            for kind, name in entity
            if kind in wanted
        )

    entries = [
        describe_client_quotas.EntryData(
            entity=[describe_client_quotas.EntityData(entity_type=kind, entity_name=name) for kind, name in entity],
            values=[describe_client_quotas.ValueData(key=key, value=value) for key, value in values.items()],
        )
        for entity, values in cluster.quotas.items()
        if matches(entity)
    ]
    return describe_client_quotas.DescribeClientQuotasResponse(entries=entries)


def on_alter_quotas(cluster: FakeCluster, request: alter_client_quotas.AlterClientQuotasRequest) -> Any:
    (entry,) = request.entries
    values = cluster.quotas.setdefault(tuple((part.entity_type, part.entity_name) for part in entry.entity), {})
    for op in entry.ops:
        if op.remove:
            values.pop(op.key)
        else:
            values[op.key] = op.value
    return alter_client_quotas.AlterClientQuotasResponse(entries=[alter_client_quotas.ResponseEntryData()])


def on_log_dirs(cluster: FakeCluster, request: describe_log_dirs.DescribeLogDirsRequest) -> Any:
    topics = [
        describe_log_dirs.DescribeLogDirsTopic(
            name=name,
            partitions=[
                describe_log_dirs.DescribeLogDirsPartition(partition_index=each, partition_size=100)
                for each in partitions
            ],
        )
        for name, partitions in cluster.topics().items()
    ]
    return describe_log_dirs.DescribeLogDirsResponse(
        results=[describe_log_dirs.DescribeLogDirsResult(log_dir="/data", topics=topics)]
    )


def on_elect(cluster: FakeCluster, request: elect_leaders.ElectLeadersRequest) -> Any:
    """Partition 0 has its preferred leader, 1 gets it, others have none who could lead."""
    wanted = (
        cluster.topics()
        if request.topic_partitions is None
        else {each.topic: each.partitions for each in request.topic_partitions}
    )
    codes = {0: ErrorCode.ELECTION_NOT_NEEDED, 1: ErrorCode.NONE}
    return elect_leaders.ElectLeadersResponse(
        replica_election_results=[
            elect_leaders.ReplicaElectionResult(
                topic=topic,
                partition_result=[
                    elect_leaders.PartitionResult(
                        partition_id=each, error_code=codes.get(each, ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE)
                    )
                    for each in partitions
                ],
            )
            for topic, partitions in wanted.items()
        ]
    )


def on_api_versions(cluster: FakeCluster, request: api_versions.ApiVersionsRequest) -> Any:
    return api_versions.ApiVersionsResponse(
        api_keys=[
            api_versions.ApiVersion(api_key=0, min_version=3, max_version=13),
            api_versions.ApiVersion(api_key=999, min_version=1, max_version=1),
        ],
        supported_features=[
            api_versions.SupportedFeatureKey(name="metadata.version", min_version=7, max_version=30),
            api_versions.SupportedFeatureKey(name="transaction.version", min_version=0, max_version=2),
        ],
        finalized_features=[
            api_versions.FinalizedFeatureKey(name=name, max_version_level=level, min_version_level=level)
            for name, level in cluster.features.items()
        ],
        finalized_features_epoch=17,
    )


def on_update_features(cluster: FakeCluster, request: update_features.UpdateFeaturesRequest) -> Any:
    for each in request.feature_updates:
        if each.max_version_level > 30 or (each.feature == "transaction.version" and each.max_version_level > 2):
            return update_features.UpdateFeaturesResponse(
                error_code=ErrorCode.INVALID_UPDATE_VERSION, error_message=f"no level {each.max_version_level}"
            )
        if not request.validate_only:
            cluster.features[each.feature] = each.max_version_level
    return update_features.UpdateFeaturesResponse()


def on_describe_cluster(cluster: FakeCluster, request: describe_cluster.DescribeClusterRequest) -> Any:
    if cluster.is_of_controllers and request.endpoint_type == BROKERS:
        return describe_cluster.DescribeClusterResponse(error_code=ErrorCode.MISMATCHED_ENDPOINT_TYPE)
    if cluster.is_of_controllers:
        nodes = [describe_cluster.DescribeClusterBroker(broker_id=each, host="c", port=each) for each in (101, 102)]
        return describe_cluster.DescribeClusterResponse(endpoint_type=CONTROLLERS, controller_id=102, brokers=nodes)
    brokers = [describe_cluster.DescribeClusterBroker(broker_id=1, host="broker", port=9092, rack="r1")]
    return describe_cluster.DescribeClusterResponse(cluster_id="C", controller_id=1, brokers=brokers)


def on_describe_quorum(cluster: FakeCluster, request: describe_quorum.DescribeQuorumRequest) -> Any:
    def state(replica_id: int, end: int, caught_up: int) -> describe_quorum.ReplicaState:
        return describe_quorum.ReplicaState(
            replica_id=replica_id,
            replica_directory_id=TOPIC_ID,
            log_end_offset=end,
            last_fetch_timestamp=caught_up,
            last_caught_up_timestamp=caught_up,
        )

    partition = describe_quorum.ResponsePartitionData(
        leader_id=1,
        leader_epoch=4,
        high_watermark=100,
        current_voters=[state(1, 100, 5000), state(2, 90, 4000)],
        observers=[state(3, 95, 4500)],
    )
    topic = describe_quorum.ResponseTopicData(topic_name="__cluster_metadata", partitions=[partition])
    nodes = [describe_quorum.Node(node_id=1, listeners=[describe_quorum.Listener(name="CONTROLLER", host="h", port=9)])]
    return describe_quorum.DescribeQuorumResponse(topics=[topic], nodes=nodes)


def on_create_topics(cluster: FakeCluster, request: create_topics.CreateTopicsRequest) -> Any:
    (topic,) = request.topics
    code = ErrorCode.TOPIC_ALREADY_EXISTS if topic.name in cluster.topics() else 0
    if not code:
        for index in range(max(1, topic.num_partitions)):
            cluster.logs[topic.name, index] = (0, 0, {})
    message = f"Topic '{topic.name}' already exists." if code else None
    return create_topics.CreateTopicsResponse(
        topics=[create_topics.CreatableTopicResult(name=topic.name, error_code=code, error_message=message)]
    )


def on_create_partitions(cluster: FakeCluster, request: create_partitions.CreatePartitionsRequest) -> Any:
    """Reject fewer partitions than a topic has."""
    results = []
    for topic in request.topics:
        fewer = topic.count <= len(cluster.topics()[topic.name])
        for index in range(topic.count):
            cluster.logs.setdefault((topic.name, index), (0, 0, {}))
        results.append(
            create_partitions.CreatePartitionsTopicResult(
                name=topic.name,
                error_code=ErrorCode.INVALID_PARTITIONS if fewer else ErrorCode.NONE,
                error_message=f"{topic.name} has as many" if fewer else None,
            )
        )
    return create_partitions.CreatePartitionsResponse(results=results)


def on_delete_topics(cluster: FakeCluster, request: delete_topics.DeleteTopicsRequest) -> Any:
    name = request.topics[0].name or ""
    if name not in cluster.topics():
        code, text = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"topic {name} does not exist"
        return delete_topics.DeleteTopicsResponse(
            responses=[delete_topics.DeletableTopicResult(name=name, error_code=code, error_message=text)]
        )
    cluster.logs = {place: log for place, log in cluster.logs.items() if place[0] != name}
    return delete_topics.DeleteTopicsResponse(responses=[delete_topics.DeletableTopicResult(name=name)])


def on_describe_topic_partitions(cluster: FakeCluster, request: Any) -> Any:
    name = request.topics[0].name
    rows = [
        describe_topic_partitions.DescribeTopicPartitionsResponsePartition(
            partition_index=each, eligible_leader_replicas=[2] if each else [], last_known_elr=[]
        )
        for each in cluster.topics()[name]
    ]
    topic = describe_topic_partitions.DescribeTopicPartitionsResponseTopic(name=name, partitions=rows)
    return describe_topic_partitions.DescribeTopicPartitionsResponse(topics=[topic], next_cursor=None)


def on_list_transactions(cluster: FakeCluster, request: list_transactions.ListTransactionsRequest) -> Any:
    row = list_transactions.TransactionState(transactional_id="tx", producer_id=7, transaction_state="Ongoing")
    return list_transactions.ListTransactionsResponse(transaction_states=[row])


def on_describe_transactions(cluster: FakeCluster, request: describe_transactions.DescribeTransactionsRequest) -> Any:
    row = describe_transactions.TransactionState(
        transactional_id="tx",
        transaction_state="Ongoing",
        transaction_timeout=60_000,
        transaction_start_time=-1,
        producer_id=7,
        producer_epoch=2,
    )
    return describe_transactions.DescribeTransactionsResponse(transaction_states=[row])


def on_describe_producers(cluster: FakeCluster, request: describe_producers.DescribeProducersRequest) -> Any:
    state = describe_producers.ProducerState(
        producer_id=7, producer_epoch=2, last_sequence=5, last_timestamp=1000, coordinator_epoch=-1
    )
    topics = [
        describe_producers.TopicResponse(
            name=topic.name,
            partitions=[
                describe_producers.PartitionResponse(partition_index=each, active_producers=[state])
                for each in topic.partition_indexes
            ],
        )
        for topic in request.topics
    ]
    return describe_producers.DescribeProducersResponse(topics=topics)


HANDLERS: dict[type[Any], Handler] = {
    list_partition_reassignments.ListPartitionReassignmentsRequest: on_list_reassignments,
    metadata.MetadataRequest: on_metadata,
    list_groups.ListGroupsRequest: on_list_groups,
    describe_groups.DescribeGroupsRequest: on_describe_groups,
    consumer_group_describe.ConsumerGroupDescribeRequest: on_consumer_group_describe,
    find_coordinator.FindCoordinatorRequest: on_find_coordinator,
    offset_fetch.OffsetFetchRequest: on_offset_fetch,
    offset_commit.OffsetCommitRequest: on_offset_commit,
    offset_delete.OffsetDeleteRequest: on_offset_delete,
    delete_groups.DeleteGroupsRequest: on_delete_groups,
    leave_group.LeaveGroupRequest: on_leave_group,
    list_offsets.ListOffsetsRequest: on_list_offsets,
    delete_records.DeleteRecordsRequest: on_delete_records,
    describe_configs.DescribeConfigsRequest: on_describe_configs,
    incremental_alter_configs.IncrementalAlterConfigsRequest: on_alter_configs,
    describe_client_quotas.DescribeClientQuotasRequest: on_describe_quotas,
    alter_client_quotas.AlterClientQuotasRequest: on_alter_quotas,
    **dict.fromkeys(ANSWERS, lambda cluster, request: cluster.credentials.answer(request)),
    describe_log_dirs.DescribeLogDirsRequest: on_log_dirs,
    elect_leaders.ElectLeadersRequest: on_elect,
    api_versions.ApiVersionsRequest: on_api_versions,
    update_features.UpdateFeaturesRequest: on_update_features,
    list_transactions.ListTransactionsRequest: on_list_transactions,
    describe_transactions.DescribeTransactionsRequest: on_describe_transactions,
    describe_producers.DescribeProducersRequest: on_describe_producers,
    describe_cluster.DescribeClusterRequest: on_describe_cluster,
    describe_quorum.DescribeQuorumRequest: on_describe_quorum,
    list_partition_reassignments.ListPartitionReassignmentsRequest: on_list_reassignments,
    list_config_resources.ListConfigResourcesRequest: on_list_resources,
    init_producer_id.InitProducerIdRequest: lambda *_: init_producer_id.InitProducerIdResponse(),
    create_partitions.CreatePartitionsRequest: on_create_partitions,
    create_topics.CreateTopicsRequest: on_create_topics,
    delete_topics.DeleteTopicsRequest: on_delete_topics,
    describe_topic_partitions.DescribeTopicPartitionsRequest: on_describe_topic_partitions,
}


@contextmanager
def in_place_of_the_network(cluster: FakeCluster) -> Iterator[None]:
    """Have every ClusterClient ask this cluster."""

    async def ask(client: ClusterClient, *arguments: Any, **named: Any) -> Any:
        return await cluster.ask(client, *arguments, **named)

    with mock.patch.object(ClusterClient, "ask", ask):
        yield


@dataclass(frozen=True)
class Printed:
    """What a command printed, and how it ended."""

    code: int
    out: str
    err: str

    @property
    def lines(self) -> list[str]:
        return self.out.splitlines()


def run(cluster: FakeCluster, *words: str, given: bytes | None = None) -> Printed:
    """Run `kvorum WORDS` in this process; no error of a user's is a traceback."""
    with in_place_of_the_network(cluster):
        result = CliRunner().invoke(main, words, prog_name="kvorum", input=given)
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return Printed(result.exit_code, result.stdout, result.stderr)
