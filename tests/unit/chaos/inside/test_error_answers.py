"""The answer that refuses a whole request carries the code where a broker would put it, and can be encoded."""

from typing import Any

import pytest

from kvorum.cluster.fault_injection.error_answers import refusal
from kvorum.protocol.api import ApiKey
from kvorum.protocol.codec import decode_response, encode_bytes, fields_of, message_class
from kvorum.protocol.errors import ErrorCode
from kvorum.protocol.messages import (
    alter_partition,
    broker_heartbeat,
    create_topics,
    delete_topics,
    describe_configs,
    fetch,
    incremental_alter_configs,
    list_offsets,
    metadata,
    offset_for_leader_epoch,
    produce,
)
from kvorum.protocol.schema import Message
from kvorum.protocol.uuids import Uuid

CODE = ErrorCode.NOT_LEADER_OR_FOLLOWER
ID = Uuid(bytes(range(16)))


def answered(request: Message, version: int, *, at_top: bool = False) -> Any:
    """The answer as a client reads it from the wire."""
    answer = refusal(request, version, CODE, "why", at_top=at_top)
    assert answer is not None
    return decode_response(request.API_KEY, version, encode_bytes(answer, version))


def produce_request(version: int) -> produce.ProduceRequest:
    partitions = [produce.PartitionProduceData(index=index) for index in (0, 4)]
    names = {"topic_id": ID} if version >= 13 else {"name": "orders"}
    return produce.ProduceRequest(acks=-1, topic_data=[produce.TopicProduceData(**names, partition_data=partitions)])  # type: ignore[arg-type]


@pytest.mark.parametrize("version", [3, 9, 12, 13])
def test_produce_is_refused_partition_by_partition(version: int) -> None:
    (topic,) = answered(produce_request(version), version).responses
    assert (topic.topic_id if version >= 13 else topic.name) == (ID if version >= 13 else "orders")
    assert [(each.index, each.error_code) for each in topic.partition_responses] == [(0, CODE), (4, CODE)]


@pytest.mark.parametrize("version", [4, 11, 12, 17])
def test_fetch_is_refused_partition_by_partition_or_at_its_top(version: int) -> None:
    partitions = [fetch.FetchPartition(partition=3, fetch_offset=7)]
    names = {"topic_id": ID} if version >= 13 else {"topic": "orders"}
    request = fetch.FetchRequest(topics=[fetch.FetchTopic(**names, partitions=partitions)])  # type: ignore[arg-type]
    (topic,) = answered(request, version).responses
    assert [(each.partition_index, each.error_code) for each in topic.partitions] == [(3, CODE)]
    if version >= 7:
        top = answered(request, version, at_top=True)
        assert top.error_code == CODE and not top.responses
        empty = answered(fetch.FetchRequest(), version)
        assert empty.error_code == CODE, "an incremental fetch names nothing"


def test_the_kindred_names_of_other_requests_are_known() -> None:
    requested = offset_for_leader_epoch.OffsetForLeaderPartition(partition=2, leader_epoch=1)
    topics = [offset_for_leader_epoch.OffsetForLeaderTopic(topic="orders", partitions=[requested])]
    (topic,) = answered(offset_for_leader_epoch.OffsetForLeaderEpochRequest(topics=topics), 4).topics
    assert (topic.topic, topic.partitions[0].partition, topic.partitions[0].error_code) == ("orders", 2, CODE)

    offsets = list_offsets.ListOffsetsTopic(
        name="orders", partitions=[list_offsets.ListOffsetsPartition(partition_index=5)]
    )
    (listed,) = answered(list_offsets.ListOffsetsRequest(topics=[offsets]), 7).topics
    assert (listed.name, listed.partitions[0].partition_index, listed.partitions[0].error_code) == ("orders", 5, CODE)

    removed = answered(delete_topics.DeleteTopicsRequest(topic_names=["a", "b"]), 5).responses
    assert [(each.name, each.error_code, each.error_message) for each in removed] == [
        ("a", CODE, "why"),
        ("b", CODE, "why"),
    ]

    created = answered(create_topics.CreateTopicsRequest(topics=[create_topics.CreatableTopic(name="new")]), 7).topics
    assert [(each.name, each.error_code, each.error_message) for each in created] == [("new", CODE, "why")]

    resource = describe_configs.DescribeConfigsResource(resource_type=2, resource_name="orders")
    (described,) = answered(describe_configs.DescribeConfigsRequest(resources=[resource]), 4).results
    assert (described.resource_type, described.resource_name, described.error_code) == (2, "orders", CODE)

    altered = incremental_alter_configs.AlterConfigsResource(resource_type=4, resource_name="1")
    (done,) = answered(incremental_alter_configs.IncrementalAlterConfigsRequest(resources=[altered]), 1).responses
    assert (done.resource_type, done.resource_name, done.error_code) == (4, "1", CODE)


def test_metadata_of_all_topics_has_the_error_at_the_top_level() -> None:
    (topic,) = answered(metadata.MetadataRequest(topics=[metadata.MetadataRequestTopic(name="orders")]), 9).topics
    assert (topic.name, topic.error_code) == ("orders", CODE)
    assert answered(metadata.MetadataRequest(topics=None), 13).error_code == CODE
    assert refusal(metadata.MetadataRequest(topics=None), 9, CODE, "why") is None


def test_responses_of_controllers_to_brokers_also_have_an_error_field() -> None:
    assert answered(broker_heartbeat.BrokerHeartbeatRequest(broker_id=1), 1).error_code == CODE
    partition = alter_partition.RequestPartitionData(partition_index=1)
    request = alter_partition.AlterPartitionRequest(
        topics=[alter_partition.RequestTopicData(topic_id=ID, partitions=[partition])]
    )
    (topic,) = answered(request, 3).topics
    assert (topic.topic_id, topic.partitions[0].error_code) == (ID, CODE)
    assert answered(request, 3, at_top=True).error_code == CODE


def test_a_request_without_content_is_refused_at_the_top_or_not_at_all_in_every_version_of_every_api() -> None:
    for key in ApiKey:
        request_class, response_class = message_class(key, "Request"), message_class(key, "Response")
        for version in range(request_class.VERSIONS[0], request_class.VERSIONS[1] + 1):
            answer = refusal(request_class(), version, CODE, "why")
            has_top = "error_code" in {each.name for each in fields_of(response_class, version)}
            assert (answer is not None) == has_top, (key, version)
            if answer is not None:
                decode_response(key, version, encode_bytes(answer, version))
