"""Metadata, DescribeTopicPartitions and DescribeCluster: what clients of a listener are told of topics and brokers."""

import asyncio
from typing import Any

import pytest

from kvorum.network.authorizer import CLUSTER_NAME, Operation, ResourceType
from kvorum.protocol.errors import ErrorCode
from kvorum.protocol.messages.create_topics import CreatableTopicResult, CreateTopicsResponse
from kvorum.protocol.messages.describe_cluster import DescribeClusterRequest
from kvorum.protocol.messages.describe_topic_partitions import (
    DescribeTopicPartitionsRequest,
    RequestCursor,
    TopicRequest,
)
from kvorum.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from kvorum.protocol.uuids import METADATA_TOPIC_ID, ZERO_UUID, Uuid
from tests.unit.broker.api.api_kit import (
    CLUSTER_ID,
    OTHER_ID,
    TOPIC_ID,
    Forwarded,
    Rules,
    a_broker,
    ask,
    asking,
    register,
    three_brokers,
    topic,
)

UNKNOWN_ID = Uuid(b"\x09" * 16)


def orders() -> list[Any]:
    """Two partitions: one led by 1, with the fenced 3 for a replica; one without a leader."""
    return [*three_brokers(), *topic("orders", TOPIC_ID, ((1, 2, 3), (1, 2), 1), ((3,), (3,), -1))]


def named(*names: str) -> list[MetadataRequestTopic]:
    return [MetadataRequestTopic(name=name) for name in names]


@pytest.mark.parametrize("version", range(14))
def test_every_version_answers_brokers_and_topics(version: int) -> None:
    answer = ask(a_broker(*orders()), MetadataRequest(topics=named("orders")), version)
    assert [(each.node_id, each.host, each.port) for each in answer.brokers] == [
        (1, "plaintext-1", 9001),
        (2, "plaintext-2", 9002),
    ]
    (reported,) = answer.topics
    assert (reported.error_code, reported.name) == (0, "orders")
    first, second = reported.partitions
    assert (first.leader_id, first.isr_nodes) == (1, [1, 2])
    assert (second.error_code, second.leader_id) == (ErrorCode.LEADER_NOT_AVAILABLE, -1)
    if version == 0:
        assert first.error_code == ErrorCode.REPLICA_NOT_AVAILABLE
        assert first.replica_nodes == [1, 2]
    else:
        assert first.error_code == 0
        assert first.replica_nodes == [1, 2, 3]
        assert answer.brokers[0].rack == "a"
    if version >= 2:
        assert answer.cluster_id == CLUSTER_ID
    if version >= 5:
        assert first.offline_replicas == [3]
    if version >= 7:
        assert first.leader_epoch == 5
    if version >= 10:
        assert reported.topic_id == TOPIC_ID


def test_endpoints_are_those_of_the_requests_listener() -> None:
    broker = a_broker(*three_brokers())
    assert [each.port for each in ask(broker, MetadataRequest(topics=None), 9, listener="INTERNAL").brokers] == [
        9501,
        9502,
    ]
    assert [each.port for each in ask(broker, MetadataRequest(topics=None), 9, listener="PLAINTEXT").brokers] == [
        9001,
        9002,
    ]
    assert ask(broker, MetadataRequest(topics=None), 9, listener="ELSEWHERE").brokers == []


@pytest.mark.parametrize(("version", "code"), [(5, ErrorCode.LEADER_NOT_AVAILABLE), (6, ErrorCode.LISTENER_NOT_FOUND)])
def test_a_leader_without_the_listener_is_distinguished_from_v6_on(version: int, code: ErrorCode) -> None:
    made = [register(1, listeners={"INTERNAL": 1}), register(2), *topic("orders", TOPIC_ID, ((1, 2), (1, 2), 1))]
    (reported,) = ask(a_broker(*made), MetadataRequest(topics=named("orders")), version).topics
    assert (reported.partitions[0].error_code, reported.partitions[0].leader_id) == (code, -1)


def test_null_is_all_topics_and_an_empty_list_is_none_but_in_v0() -> None:
    broker = a_broker(*orders(), *topic("__consumer_offsets", OTHER_ID, ((1,), (1,), 1)))
    everything = ask(broker, MetadataRequest(topics=None), 12).topics
    assert [(each.name, each.is_internal) for each in everything] == [("__consumer_offsets", True), ("orders", False)]
    assert ask(broker, MetadataRequest(topics=[]), 12).topics == []
    assert len(ask(broker, MetadataRequest(topics=[]), 0).topics) == 2


def test_the_metadata_log_is_shown_only_by_name_and_is_read_from_the_queried_broker() -> None:
    broker = a_broker(*orders(), broker_id=2)
    assert [each.name for each in ask(broker, MetadataRequest(topics=None), 12).topics] == ["orders"]
    (reported,) = ask(broker, MetadataRequest(topics=named("__cluster_metadata")), 12).topics
    assert (reported.error_code, reported.topic_id, reported.is_internal) == (0, METADATA_TOPIC_ID, True)
    assert [(each.partition_index, each.leader_id, each.leader_epoch) for each in reported.partitions] == [(0, 2, 3)]
    refused = Rules({(Operation.DESCRIBE, ResourceType.CLUSTER, CLUSTER_NAME)})
    guarded = a_broker(*orders(), authorizer=refused)
    (hidden,) = ask(guarded, MetadataRequest(topics=named("__cluster_metadata")), 12).topics
    assert hidden.error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED


def test_topics_are_found_by_id_from_v12_on() -> None:
    request = MetadataRequest(
        topics=[MetadataRequestTopic(name=None, topic_id=each) for each in (TOPIC_ID, UNKNOWN_ID)]
    )
    found, unknown = ask(a_broker(*orders()), request, 12).topics
    assert (found.name, found.error_code) == ("orders", 0)
    assert (unknown.name, unknown.topic_id, unknown.error_code) == (None, UNKNOWN_ID, ErrorCode.UNKNOWN_TOPIC_ID)


@pytest.mark.parametrize("version", [10, 11])
def test_ids_and_null_names_are_refused_before_v12(version: int) -> None:
    for requested in (MetadataRequestTopic(name=None), MetadataRequestTopic(name="orders", topic_id=TOPIC_ID)):
        answer = ask(a_broker(*orders()), MetadataRequest(topics=[requested]), version)
        assert answer.brokers == []
        (reported,) = answer.topics
        assert (reported.error_code, reported.name) == (ErrorCode.INVALID_REQUEST, requested.name or "")


def test_a_topic_with_neither_name_nor_id_fails_the_whole_request() -> None:
    answer = ask(a_broker(*orders()), MetadataRequest(topics=[*named("orders"), MetadataRequestTopic(name=None)]), 12)
    assert [each.error_code for each in answer.topics] == [ErrorCode.UNKNOWN_SERVER_ERROR] * 2


def test_a_topic_that_may_not_be_described_is_hidden_from_all_and_refused_by_name() -> None:
    broker = a_broker(*orders(), authorizer=Rules({(Operation.DESCRIBE, ResourceType.TOPIC, "orders")}))
    assert ask(broker, MetadataRequest(topics=None), 12).topics == []
    (by_name,) = ask(broker, MetadataRequest(topics=named("orders")), 12).topics
    assert (by_name.error_code, by_name.topic_id) == (ErrorCode.TOPIC_AUTHORIZATION_FAILED, ZERO_UUID)
    (by_id,) = ask(broker, MetadataRequest(topics=[MetadataRequestTopic(name=None, topic_id=TOPIC_ID)]), 12).topics
    assert (by_id.error_code, by_id.name, by_id.partitions) == (ErrorCode.TOPIC_AUTHORIZATION_FAILED, None, [])


def test_missing_topics_have_the_error_of_their_cause() -> None:
    broker = a_broker(*orders(), settings={"auto.create.topics.enable": False})
    answers = ask(broker, MetadataRequest(topics=named("nowhere", "not a name", "..", "x" * 250)), 9).topics
    assert [each.error_code for each in answers] == [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION] + [
        ErrorCode.INVALID_TOPIC_EXCEPTION
    ] * 3


def created(request: Any) -> CreateTopicsResponse:
    return CreateTopicsResponse(topics=[CreatableTopicResult(name=each.name) for each in request.topics])


@pytest.mark.parametrize(
    ("version", "allows", "enabled", "creates"),
    [
        (3, False, True, True),
        (4, False, True, False),
        (4, True, True, True),
        (12, True, False, False),
        (12, True, True, True),
    ],
)
def test_missing_topics_are_created_when_client_and_node_want_it(version, allows, enabled, creates) -> None:
    controller = Forwarded(created)

    async def run() -> Any:
        settings = {"auto.create.topics.enable": enabled, "num.partitions": 4}
        broker = a_broker(*orders(), controller=controller, settings=settings)
        request = MetadataRequest(topics=named("fresh", "bad name"), allow_auto_topic_creation=allows)
        answer = await asking(broker, request, version, client_address="10.1.2.3")
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        return answer

    answer = asyncio.run(run())
    assert [each.error_code for each in answer.topics] == [
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.INVALID_TOPIC_EXCEPTION,
    ]
    assert bool(controller.seen) is creates
    for ctx, request in controller.seen:
        assert ctx.client_address == "10.1.2.3"
        assert [(each.name, each.num_partitions, each.replication_factor) for each in request.topics] == [
            ("fresh", 4, 1)
        ]


def test_topics_that_may_not_be_created_are_refused() -> None:
    controller = Forwarded(created)
    refused = Rules(
        {
            (Operation.CREATE, ResourceType.CLUSTER, CLUSTER_NAME),
            (Operation.CREATE, ResourceType.TOPIC, "fresh"),
        }
    )
    broker = a_broker(*orders(), controller=controller, authorizer=refused)
    (reported,) = ask(broker, MetadataRequest(topics=named("fresh")), 12).topics
    assert reported.error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED
    assert controller.seen == []


def test_the_controller_is_the_active_one_where_it_is_a_broker_else_a_live_broker() -> None:
    assert ask(a_broker(*orders(), active_controller=2), MetadataRequest(topics=[]), 12).controller_id == 2
    assert ask(a_broker(*orders(), active_controller=3000), MetadataRequest(topics=[]), 12).controller_id in (1, 2)
    assert ask(a_broker(*orders(), active_controller=3), MetadataRequest(topics=[]), 12).controller_id in (1, 2)
    assert ask(a_broker(register(1, fenced=True)), MetadataRequest(topics=[]), 12).controller_id == -1


def test_authorised_operations_are_reported_only_when_requested() -> None:
    broker = a_broker(*orders(), authorizer=Rules({(Operation.WRITE, ResourceType.TOPIC, "orders")}))
    plain = ask(broker, MetadataRequest(topics=named("orders")), 8)
    assert plain.topics[0].topic_authorized_operations == -(1 << 31)
    assert plain.cluster_authorized_operations == -(1 << 31)
    request = MetadataRequest(
        topics=named("orders"), include_topic_authorized_operations=True, include_cluster_authorized_operations=True
    )
    requested = ask(broker, request, 8)
    bits = requested.topics[0].topic_authorized_operations
    assert bits >> Operation.READ & 1
    assert not bits >> Operation.WRITE & 1
    assert requested.cluster_authorized_operations >> Operation.DESCRIBE & 1


def many() -> list[Any]:
    """Topics a (3 partitions), b (2), c (1)."""
    made = three_brokers()
    for number, (name, count) in enumerate((("a", 3), ("b", 2), ("c", 1))):
        made += topic(name, Uuid(bytes([20 + number]) * 16), *[((1, 2), (1,), 1)] * count)
    return made


def pages(broker: Any, limit: int, names: tuple[str, ...] = ()) -> list[list[tuple[str, list[int]]]]:
    """Follow the cursor to its end."""
    found: list[list[tuple[str, list[int]]]] = []
    cursor = None
    while True:
        request = DescribeTopicPartitionsRequest(
            topics=[TopicRequest(name=name) for name in names], response_partition_limit=limit, cursor=cursor
        )
        answer = ask(broker, request, 0)
        found.append([(each.name, [row.partition_index for row in each.partitions]) for each in answer.topics])
        if answer.next_cursor is None:
            return found
        next_cursor = answer.next_cursor
        cursor = RequestCursor(topic_name=next_cursor.topic_name, partition_index=next_cursor.partition_index)


def test_partitions_are_described_page_by_page() -> None:
    broker = a_broker(*many())
    assert pages(broker, 100) == [[("a", [0, 1, 2]), ("b", [0, 1]), ("c", [0])]]
    assert pages(broker, 2) == [[("a", [0, 1])], [("a", [2]), ("b", [0])], [("b", [1]), ("c", [0])]]
    assert pages(broker, 3) == [[("a", [0, 1, 2])], [("b", [0, 1]), ("c", [0])]]
    assert pages(broker, 0, ("c", "b")) == [[("b", [0])], [("b", [1])], [("c", [0])]]
    limited = a_broker(*many(), settings={"max.request.partition.size.limit": 4})
    assert pages(limited, 2000) == [[("a", [0, 1, 2]), ("b", [0])], [("b", [1]), ("c", [0])]]


def test_a_cursor_must_name_a_topic_that_is_requested_and_a_partition() -> None:
    wrong = (
        ([TopicRequest(name="a")], RequestCursor(topic_name="b", partition_index=0)),
        ([TopicRequest(name="a")], RequestCursor(topic_name="a", partition_index=-1)),
    )
    for topics, cursor in wrong:
        request = DescribeTopicPartitionsRequest(topics=topics, response_partition_limit=10, cursor=cursor)
        answer = ask(a_broker(*many()), request, 0)
        assert [(each.name, each.error_code) for each in answer.topics] == [
            (each.name, ErrorCode.INVALID_REQUEST) for each in topics
        ]


def test_unknown_and_forbidden_topics_are_described_as_such() -> None:
    broker = a_broker(*many(), authorizer=Rules({(Operation.DESCRIBE, ResourceType.TOPIC, "b")}))
    request = DescribeTopicPartitionsRequest(
        topics=[TopicRequest(name=name) for name in ("b", "nowhere", "no name", "a")], response_partition_limit=10
    )
    answer = ask(broker, request, 0)
    assert {each.name: each.error_code for each in answer.topics} == {
        "a": 0,
        "nowhere": ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        "no name": ErrorCode.INVALID_TOPIC_EXCEPTION,
        "b": ErrorCode.TOPIC_AUTHORIZATION_FAILED,
    }


def test_the_cluster_is_described_with_fenced_brokers_only_on_request() -> None:
    broker = a_broker(*orders(), active_controller=2)
    answer = ask(broker, DescribeClusterRequest(endpoint_type=1), 2, listener="INTERNAL")
    assert (answer.cluster_id, answer.controller_id) == (CLUSTER_ID, 2)
    assert [(each.broker_id, each.port, each.is_fenced) for each in answer.brokers] == [
        (1, 9501, False),
        (2, 9502, False),
    ]
    everyone = ask(broker, DescribeClusterRequest(endpoint_type=1, include_fenced_brokers=True), 2)
    assert [(each.broker_id, each.is_fenced) for each in everyone.brokers] == [(1, False), (2, False), (3, True)]


@pytest.mark.parametrize(
    ("endpoint_type", "code"), [(2, ErrorCode.MISMATCHED_ENDPOINT_TYPE), (7, ErrorCode.UNSUPPORTED_ENDPOINT_TYPE)]
)
def test_a_broker_does_not_describe_controllers(endpoint_type: int, code: ErrorCode) -> None:
    answer = ask(a_broker(), DescribeClusterRequest(endpoint_type=endpoint_type), 1)
    assert answer.error_code == code
    assert answer.brokers == []
