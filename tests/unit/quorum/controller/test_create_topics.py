"""CreateTopics: names, counts, assignments, configs, each with its error code, and what is made."""

import pytest

from kvorum.protocol.errors import ErrorCode
from kvorum.protocol.messages.create_topics import CreatableTopic, CreatableTopicResult, CreateTopicsRequest
from kvorum.protocol.uuids import Uuid
from kvorum.quorum.controller.assignments import PARTITIONS_A_STEP
from kvorum.quorum.controller.create_topics import PARTITIONS_MAX, create_topics
from kvorum.quorum.image.configs import ConfigSource
from kvorum.quorum.records import Config, Partition, Topic
from kvorum.quorum.steps import step
from tests.unit.quorum.controller.controller_kit import World, creatable


def create(world: World, *topics: CreatableTopic, validate_only: bool = False) -> list[CreatableTopicResult]:
    return world.do(create_topics, CreateTopicsRequest(topics=list(topics), validate_only=validate_only)).topics


@pytest.fixture
def world() -> World:
    """Brokers 1, 2, 3 active, 4 fenced, 5 shutting down; defaults: 2 partitions, replication factor 3."""
    world = World(num_partitions=2, default_replication_factor=3)
    world.start(1, 2, 3, 5)
    world.register(4)
    world.topic("there.is_one", (5, 1))
    world.beat(5, want_shut_down=True)
    return world


def test_a_topic_is_made_as_requested(world: World) -> None:
    (result,) = create(world, creatable("a", 6, 2, configs={"min.insync.replicas": "2", "cleanup.policy": "compact"}))
    assert (result.error_code, result.error_message) == (ErrorCode.NONE, None)
    assert (result.num_partitions, result.replication_factor) == (6, 2)
    topic = world.image.topics.topic("a")
    assert topic is not None and topic.topic_id == result.topic_id
    assert dict(world.image.configs.topic("a")) == {"min.insync.replicas": "2", "cleanup.policy": "compact"}
    for _, partition in topic.sorted_partitions():
        assert len(partition.replicas) == 2 and partition.isr == partition.replicas
        assert set(partition.replicas) <= {1, 2, 3}, "unfenced brokers first"
        assert partition.leader == partition.preferred_leader
        assert (partition.leader_epoch, partition.partition_epoch) == (0, 0)
        assert all(directory != Uuid(16) for directory in partition.directories)
    kinds = [type(record) for record in world.log[-9:]]
    assert kinds == [Topic] + [Config] * 2 + [Partition] * 6


def test_the_answer_describes_the_configs_with_their_sources(world: World) -> None:
    world.apply([Config(resource_type=4, resource_name="", name="log.retention.ms", value="77")])
    (result,) = create(world, creatable("a", configs={"max.message.bytes": "1000"}))
    assert (result.num_partitions, result.replication_factor) == (2, 3)
    described = {config.name: config for config in result.configs or []}
    assert list(described) == sorted(described)
    assert (described["max.message.bytes"].value, described["max.message.bytes"].config_source) == (
        "1000",
        ConfigSource.DYNAMIC_TOPIC_CONFIG,
    )
    retention = described["retention.ms"]
    assert (retention.value, retention.config_source) == ("77", ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG)
    assert described["cleanup.policy"].value == "delete"
    assert described["cleanup.policy"].config_source == ConfigSource.DEFAULT_CONFIG


def test_a_static_broker_config_in_hours_is_described_in_milliseconds() -> None:
    world = World(static={"log.retention.hours": "2"})
    world.start(1)
    (result,) = create(world, creatable("a"))
    retention = next(config for config in result.configs or [] if config.name == "retention.ms")
    assert (retention.value, retention.config_source) == ("7200000", ConfigSource.STATIC_BROKER_CONFIG)


def test_a_fenced_broker_gets_replicas_only_when_there_are_not_enough_others(world: World) -> None:
    (result,) = create(world, creatable("a", 3, 4))
    assert result.error_code == ErrorCode.NONE
    for index in range(3):
        partition = world.partition("a", index)
        assert partition.replicas[-1] == 4 and set(partition.isr) == {1, 2, 3}


def test_validate_only_returns_the_same_result_and_creates_nothing(world: World) -> None:
    offset = world.next_offset
    (result, bad) = create(world, creatable("a", 3), creatable("b", 0), validate_only=True)
    assert (result.error_code, result.num_partitions) == (ErrorCode.NONE, 3)
    assert bad.error_code == ErrorCode.INVALID_PARTITIONS
    assert world.next_offset == offset


def test_a_manual_assignment_is_taken_as_it_is(world: World) -> None:
    (result,) = create(world, creatable("a", assignments=((3, 4), (5, 1))))
    assert (result.error_code, result.num_partitions, result.replication_factor) == (ErrorCode.NONE, 2, 2)
    assert world.partition("a").replicas == (3, 4) and world.partition("a").isr == (3,)
    assert world.partition("a", 1).isr == (1,) and world.partition("a", 1).leader == 1


def assigned(*pairs: tuple[int, tuple[int, ...]], partitions: int = -1, factor: int = -1) -> CreatableTopic:
    topic = creatable("a", partitions, factor, assignments=tuple(replicas for _, replicas in pairs))
    for assignment, (index, _) in zip(topic.assignments, pairs, strict=True):
        assignment.partition_index = index
    return topic


@pytest.mark.parametrize(
    ("topic", "code"),
    [
        (creatable(""), ErrorCode.INVALID_TOPIC_EXCEPTION),
        (creatable("."), ErrorCode.INVALID_TOPIC_EXCEPTION),
        (creatable(".."), ErrorCode.INVALID_TOPIC_EXCEPTION),
        (creatable("..."), ErrorCode.NONE),
        (creatable("x" * 249), ErrorCode.NONE),
        (creatable("x" * 250), ErrorCode.INVALID_TOPIC_EXCEPTION),
        (creatable("a b"), ErrorCode.INVALID_TOPIC_EXCEPTION),
        (creatable("a/b"), ErrorCode.INVALID_TOPIC_EXCEPTION),
        (creatable("a\n"), ErrorCode.INVALID_TOPIC_EXCEPTION),
        (creatable("é"), ErrorCode.INVALID_TOPIC_EXCEPTION),
        (creatable("__cluster_metadata"), ErrorCode.INVALID_REQUEST),
        (creatable("there.is_one"), ErrorCode.TOPIC_ALREADY_EXISTS),
        (creatable("there_is.one"), ErrorCode.INVALID_TOPIC_EXCEPTION),
        (creatable("thereisone"), ErrorCode.NONE),
        (creatable("a", 0), ErrorCode.INVALID_PARTITIONS),
        (creatable("a", -2), ErrorCode.INVALID_PARTITIONS),
        (creatable("a", 1, 0), ErrorCode.INVALID_REPLICATION_FACTOR),
        (creatable("a", 0, -2), ErrorCode.INVALID_REPLICATION_FACTOR),
        (creatable("a", 1, 5), ErrorCode.INVALID_REPLICATION_FACTOR),
        (creatable("a", configs={"retention.ms": None}), ErrorCode.INVALID_CONFIG),
        (creatable("a", configs={"no.such.config": "1"}), ErrorCode.INVALID_CONFIG),
        (creatable("a", configs={"retention.ms": "soon"}), ErrorCode.INVALID_CONFIG),
        (creatable("a", configs={"min.insync.replicas": "0"}), ErrorCode.INVALID_CONFIG),
        (creatable("a", 0, configs={"retention.ms": "soon"}), ErrorCode.INVALID_CONFIG),
        (creatable("a", configs={"remote.storage.enable": "true"}), ErrorCode.INVALID_CONFIG),
        (creatable("a", configs={"remote.storage.enable": "false"}), ErrorCode.NONE),
        (assigned((0, (1, 2)), factor=2), ErrorCode.INVALID_REQUEST),
        (assigned((0, (1, 2)), partitions=1), ErrorCode.INVALID_REQUEST),
        (assigned((0, (1, 2)), (0, (1, 2))), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (assigned((0, (1, 2)), (2, (1, 2))), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (assigned((1, (1, 2))), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (assigned((-1, (1, 2))), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (assigned((0, ())), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (assigned((0, (1, 1))), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (assigned((0, (1, 9))), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (assigned((0, (1, 2)), (1, (1,))), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (assigned((0, (4, 5))), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
    ],
)
def test_each_topic_gets_kafkas_code(world: World, topic: CreatableTopic, code: ErrorCode) -> None:
    offset = world.next_offset
    (result,) = create(world, topic)
    assert (result.name, result.error_code) == (topic.name, code), result.error_message
    assert (result.error_message is None) == (code == ErrorCode.NONE)
    assert (world.next_offset > offset) == (code == ErrorCode.NONE)


def test_one_topic_that_is_refused_does_not_take_the_others_along(world: World) -> None:
    codes = [result.error_code for result in create(world, creatable("a"), creatable("!"), creatable("b"))]
    assert codes == [ErrorCode.NONE, ErrorCode.INVALID_TOPIC_EXCEPTION, ErrorCode.NONE]
    assert world.image.topics.topic("a") and world.image.topics.topic("b")


def test_names_that_come_twice_or_collide_within_a_request_are_refused(world: World) -> None:
    results = create(world, creatable("a"), creatable("b.c"), creatable("a"), creatable("b_c"))
    assert [(result.name, result.error_code) for result in results] == [
        ("a", ErrorCode.INVALID_REQUEST),
        ("b.c", ErrorCode.NONE),
        ("b_c", ErrorCode.INVALID_TOPIC_EXCEPTION),
    ]
    assert world.image.topics.topic("a") is None


def test_without_an_active_broker_nothing_can_be_made() -> None:
    world = World()
    (result,) = create(world, creatable("a"))
    assert result.error_code == ErrorCode.INVALID_REPLICATION_FACTOR
    world.register(1)
    (result,) = create(world, creatable("a"))
    assert result.error_code == ErrorCode.INVALID_REPLICATION_FACTOR


def test_a_request_for_too_many_partitions_is_refused_as_a_whole(world: World) -> None:
    request = CreateTopicsRequest(topics=[creatable("a", PARTITIONS_MAX - 1), creatable("b")])
    assert world.refused(create_topics, request) == ErrorCode.POLICY_VIOLATION
    request.topics.pop()
    assert world.do(create_topics, request).topics[0].error_code == ErrorCode.NONE


@pytest.mark.parametrize("topics", [1, 200])
def test_a_large_request_is_decided_in_steps_of_few_partitions_each(world: World, topics: int) -> None:
    partitions = PARTITIONS_MAX // topics
    request = CreateTopicsRequest(topics=[creatable(f"t-{number}", partitions) for number in range(topics)])
    steps = create_topics(world.context(), request)
    count = 0
    while (done := step(steps)) is None:
        count += 1
    assert count >= PARTITIONS_MAX // PARTITIONS_A_STEP
    (result,) = done
    assert len(result.records) == topics + PARTITIONS_MAX
    assert all(each.error_code == ErrorCode.NONE and each.configs for each in result.response.topics)


def test_topics_of_one_request_are_described_each_by_its_own_overrides(world: World) -> None:
    overrides = [{}, {"retention.ms": "1"}, {"retention.ms": "2"}, {}, {"retention.ms": "1"}]
    results = create(world, *(creatable(f"t-{number}", 1, configs=each) for number, each in enumerate(overrides)))
    retention = [next(each.value for each in result.configs if each.name == "retention.ms") for result in results]
    assert retention == ["604800000", "1", "2", "604800000", "1"]


def test_topic_ids_differ_are_not_reserved_and_look_like_no_option() -> None:
    world = World()
    context = world.context()
    ids = {context.random_uuid() for _ in range(2000)}
    assert len(ids) == 2000
    assert not any(str(topic_id).startswith("-") or int.from_bytes(topic_id, "big") < 100 for topic_id in ids)
