"""DeleteTopics and CreatePartitions, each decision with its error code."""

import pytest

from kvorum.protocol.errors import ErrorCode
from kvorum.protocol.messages.create_partitions import (
    CreatePartitionsAssignment,
    CreatePartitionsRequest,
    CreatePartitionsTopic,
)
from kvorum.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from kvorum.protocol.uuids import Uuid
from kvorum.quorum.controller.change_topics import create_partitions, delete_topics
from kvorum.quorum.controller.create_topics import PARTITIONS_MAX
from kvorum.quorum.image.configs import ResourceType
from tests.unit.quorum.controller.controller_kit import World

UNKNOWN_ID = Uuid(bytes([7] * 16))


@pytest.fixture
def world() -> World:
    """Brokers 1, 2, 3 active, 4 fenced; topics a and b with one partition of two replicas, with a config."""
    world = World()
    world.start(1, 2, 3)
    world.register(4)
    for name in ("a", "b"):
        world.topic(name, (1, 2), retention_ms="1000")
    return world


def topic_id(world: World, name: str) -> Uuid:
    topic = world.image.topics.topic(name)
    assert topic is not None
    return topic.topic_id


def test_topics_are_deleted_by_name_and_by_id(world: World) -> None:
    first, second = topic_id(world, "a"), topic_id(world, "b")
    topics = [DeleteTopicState(name="a"), DeleteTopicState(topic_id=second)]
    response = world.do(delete_topics, DeleteTopicsRequest(topics=topics))
    answers = {(answer.name, answer.topic_id, answer.error_code) for answer in response.responses}
    assert answers == {("a", first, ErrorCode.NONE), ("b", second, ErrorCode.NONE)}
    assert not world.image.topics.by_id
    assert all(resource.resource_type != ResourceType.TOPIC for resource in world.image.configs.resources)


def test_old_versions_name_topics(world: World) -> None:
    response = world.do(delete_topics, DeleteTopicsRequest(topic_names=["a", "x", "x"]))
    assert [(answer.name, answer.error_code) for answer in response.responses] == [
        ("a", ErrorCode.NONE),
        ("x", ErrorCode.INVALID_REQUEST),
    ]


@pytest.mark.parametrize(
    ("topics", "codes"),
    [
        ([DeleteTopicState(name="x")], [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]),
        ([DeleteTopicState(topic_id=UNKNOWN_ID)], [ErrorCode.UNKNOWN_TOPIC_ID]),
        ([DeleteTopicState()], [ErrorCode.INVALID_REQUEST]),
        ([DeleteTopicState(name="a", topic_id=UNKNOWN_ID)], [ErrorCode.INVALID_REQUEST]),
        ([DeleteTopicState(name="a"), DeleteTopicState(name="a")], [ErrorCode.INVALID_REQUEST]),
        ([DeleteTopicState(topic_id=UNKNOWN_ID)] * 2, [ErrorCode.INVALID_REQUEST]),
        ([DeleteTopicState(name="__cluster_metadata")], [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]),
    ],
)
def test_a_topic_that_cannot_be_deleted(world: World, topics: list[DeleteTopicState], codes: list[ErrorCode]) -> None:
    offset = world.next_offset
    response = world.do(delete_topics, DeleteTopicsRequest(topics=topics))
    assert [answer.error_code for answer in response.responses] == codes
    assert all(answer.error_message for answer in response.responses)
    assert world.next_offset == offset


@pytest.mark.parametrize("name_first", [True, False])
def test_a_topic_named_and_given_by_id_stays_and_is_answered_once(world: World, name_first: bool) -> None:
    first, second = topic_id(world, "a"), topic_id(world, "b")
    both = [DeleteTopicState(name="a"), DeleteTopicState(topic_id=first)]
    topics = [*(both if name_first else reversed(both)), DeleteTopicState(topic_id=second)]
    response = world.do(delete_topics, DeleteTopicsRequest(topics=topics))
    assert [(answer.name, answer.topic_id, answer.error_code) for answer in response.responses] == [
        ("b", second, ErrorCode.NONE),
        ("a", first, ErrorCode.INVALID_REQUEST),
    ]
    assert world.image.topics.topic("a") is not None and world.image.topics.topic("b") is None


def test_an_id_given_twice_takes_its_name_along(world: World) -> None:
    twice = [DeleteTopicState(topic_id=topic_id(world, "a"))] * 2
    response = world.do(delete_topics, DeleteTopicsRequest(topics=[*twice, DeleteTopicState(name="a")]))
    assert [(answer.name, answer.error_code) for answer in response.responses] == [
        (None, ErrorCode.INVALID_REQUEST),
        ("a", ErrorCode.INVALID_REQUEST),
    ]
    assert world.image.topics.topic("a") is not None


@pytest.mark.parametrize(("version", "code"), [(6, ErrorCode.TOPIC_DELETION_DISABLED), (2, ErrorCode.INVALID_REQUEST)])
def test_deletion_can_be_disabled(version: int, code: ErrorCode) -> None:
    world = World(delete_topic_enable=False)
    world.api_version = version
    assert world.refused(delete_topics, DeleteTopicsRequest(topic_names=["a"])) == code


def more(name: str, count: int, *assignments: tuple[int, ...]) -> CreatePartitionsTopic:
    named = [CreatePartitionsAssignment(broker_ids=list(replicas)) for replicas in assignments]
    return CreatePartitionsTopic(name=name, count=count, assignments=named if assignments else None)


def ask(world: World, *topics: CreatePartitionsTopic, validate_only: bool = False) -> list[tuple[str, int]]:
    request = CreatePartitionsRequest(topics=list(topics), validate_only=validate_only)
    return [(result.name, result.error_code) for result in world.do(create_partitions, request).results]


def test_partitions_are_added_with_the_topics_replication_factor(world: World) -> None:
    assert ask(world, more("a", 4), more("b", 3, (3, 4), (2, 1))) == [("a", ErrorCode.NONE), ("b", ErrorCode.NONE)]
    topic = world.image.topics.topic("a")
    assert topic is not None and sorted(topic.partitions) == [0, 1, 2, 3]
    assert all(len(partition.replicas) == 2 for partition in topic.partitions.values())
    assert topic.partitions[0].partition_epoch == 0, "those that were there stay as they were"
    assert world.partition("b", 1).replicas == (3, 4) and world.partition("b", 1).isr == (3,)
    assert world.partition("b", 2).leader == 2


def test_validate_only_adds_nothing(world: World) -> None:
    offset = world.next_offset
    assert ask(world, more("a", 4), more("b", 1), validate_only=True) == [
        ("a", ErrorCode.NONE),
        ("b", ErrorCode.INVALID_PARTITIONS),
    ]
    assert world.next_offset == offset


@pytest.mark.parametrize(
    ("topic", "code"),
    [
        (more("x", 2), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (more("a", 1), ErrorCode.INVALID_PARTITIONS),
        (more("a", 0), ErrorCode.INVALID_PARTITIONS),
        (more("a", -1), ErrorCode.INVALID_PARTITIONS),
        (more("a", 3, (1, 2)), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (more("a", 2, (1,)), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (more("a", 2, (1, 9)), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (more("a", 2, (1, 1)), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (CreatePartitionsTopic(name="a", count=2, assignments=[]), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
    ],
)
def test_each_topic_gets_kafkas_code(world: World, topic: CreatePartitionsTopic, code: ErrorCode) -> None:
    offset = world.next_offset
    assert ask(world, topic) == [(topic.name, code)]
    assert world.next_offset == offset


def test_replicas_that_are_all_down_are_refused(world: World) -> None:
    world.start(5)
    world.topic("single", (5,))
    assert ask(world, more("single", 2, (4,))) == [("single", ErrorCode.INVALID_REPLICA_ASSIGNMENT)]
    for broker_id in (1, 2, 3, 5):
        world.fence(broker_id)
    assert ask(world, more("single", 2)) == [("single", ErrorCode.INVALID_REPLICATION_FACTOR)]


def test_a_topic_named_twice_is_refused_once(world: World) -> None:
    assert ask(world, more("a", 2), more("a", 3)) == [("a", ErrorCode.INVALID_REQUEST)]


def test_a_request_for_too_many_partitions_is_refused_as_a_whole(world: World) -> None:
    request = CreatePartitionsRequest(topics=[more("a", PARTITIONS_MAX + 2)])
    assert world.refused(create_partitions, request) == ErrorCode.POLICY_VIOLATION
