"""Where replicas lie: what a broker says of its log directories, and what goes with one that fails (KIP-858)."""

import pytest

from kvorum.protocol.errors import ErrorCode
from kvorum.protocol.messages.assign_replicas_to_dirs import (
    AssignReplicasToDirsRequest,
    RequestDirectoryData,
    RequestPartitionData,
    RequestTopicData,
)
from kvorum.protocol.uuids import Uuid
from kvorum.quorum.controller.assign_directories import ASSIGNMENTS_MAX, assign_replicas_to_dirs
from kvorum.quorum.controller.registration import register_broker
from kvorum.quorum.image.partition import UNASSIGNED_DIRECTORY
from tests.unit.quorum.controller.controller_kit import World, log_dir

A, B = log_dir(1, 0), log_dir(1, 1)
UNKNOWN = Uuid(b"\x77" * 16)


@pytest.fixture
def world() -> World:
    """Broker 1 has two log directories, brokers 2 and 3 have one."""
    world = World()
    world.register(1, log_dirs=[A, B])
    world.beat(1)
    world.start(2, 3)
    world.topic("orders", (1, 2), (1, 2), (2, 3))
    return world


def topic_id(world: World) -> Uuid:
    topic = world.image.topics.topic("orders")
    assert topic is not None
    return topic.topic_id


def request_of(world: World, *assigned: tuple[Uuid, Uuid, int], broker_id: int = 1) -> AssignReplicasToDirsRequest:
    """(directory, topic id, partition) each."""
    directories = [
        RequestDirectoryData(
            id_=directory,
            topics=[RequestTopicData(topic_id=topic, partitions=[RequestPartitionData(partition_index=index)])],
        )
        for directory, topic, index in assigned
    ]
    epoch = world.epoch_of(broker_id)
    return AssignReplicasToDirsRequest(broker_id=broker_id, broker_epoch=epoch, directories=directories)


def assign(world: World, *assigned: tuple[Uuid, int]) -> list[int]:
    """Assign (directory, partition) of the topic; return the error codes."""
    rows = [(directory, topic_id(world), index) for directory, index in assigned]
    answer = world.do(assign_replicas_to_dirs, request_of(world, *rows))
    assert [(each.id_, each.topics[0].topic_id) for each in answer.directories] == [row[:2] for row in rows]
    return [each.topics[0].partitions[0].error_code for each in answer.directories]


def test_a_brokers_only_directory_is_known_and_one_of_several_is_not(world: World) -> None:
    assert world.partition("orders").directories == (UNASSIGNED_DIRECTORY, log_dir(2))


def test_a_brokers_report_is_recorded_once(world: World) -> None:
    assert assign(world, (A, 0), (B, 1)) == [0, 0]
    assert world.partition("orders", 0).directories == (A, log_dir(2))
    assert world.partition("orders", 1).directories == (B, log_dir(2))
    before = world.partition("orders", 0)
    assert (before.leader, before.isr) == (1, (1, 2))
    offset = world.next_offset
    assert assign(world, (A, 0), (B, 1)) == [0, 0]
    assert world.next_offset == offset


def test_the_last_assignment_of_a_replica_counts(world: World) -> None:
    assert assign(world, (A, 0), (B, 0)) == [0, 0]
    assert world.partition("orders").directory(1) == B


def test_each_replica_is_judged_by_itself(world: World) -> None:
    rows = [(A, UNKNOWN, 0), (A, topic_id(world), 9), (A, topic_id(world), 2), (A, topic_id(world), 0)]
    answer = world.do(assign_replicas_to_dirs, request_of(world, *rows))
    assert [each.topics[0].partitions[0].error_code for each in answer.directories] == [
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.NONE,
    ]
    assert world.partition("orders").directory(1) == A


def test_the_whole_request_is_refused_of_another_incarnation_or_when_too_large(world: World) -> None:
    stale = request_of(world, (A, topic_id(world), 0))
    stale.broker_epoch -= 1
    assert world.refused(assign_replicas_to_dirs, stale) is ErrorCode.STALE_BROKER_EPOCH
    large = request_of(world, (A, topic_id(world), 0))
    large.directories[0].topics[0].partitions *= ASSIGNMENTS_MAX + 1
    assert world.refused(assign_replicas_to_dirs, large) is ErrorCode.INVALID_REQUEST


def test_the_replicas_of_a_failed_directory_lose_isr_and_leadership_and_no_others(world: World) -> None:
    assign(world, (A, 0), (B, 1))
    world.beat(1, offline_log_dirs=[B])
    assert (world.partition("orders", 0).leader, world.partition("orders", 0).isr) == (1, (1, 2))
    assert (world.partition("orders", 1).leader, world.partition("orders", 1).isr) == (2, (2,))


def test_a_replica_assigned_to_a_failed_directory_loses_isr_and_leadership(world: World) -> None:
    """The directory failed before the controller knew what was in it."""
    world.beat(1, offline_log_dirs=[B])
    assert world.partition("orders", 1).leader == 1
    assert assign(world, (B, 1)) == [0]
    partition = world.partition("orders", 1)
    assert (partition.leader, partition.isr, partition.directory(1)) == (2, (2,), B)


def test_a_replica_in_a_failed_directory_is_not_elected_though_its_broker_lives(world: World) -> None:
    assign(world, (A, 0), (B, 1))
    world.beat(1, offline_log_dirs=[B])
    world.fence(2)
    assert world.partition("orders", 0).leader == 1
    assert world.partition("orders", 1).leader == -1
    assert assign(world, (A, 1)) == [0], "the broker has it elsewhere"
    assert world.partition("orders", 1).leader == -1, "but it was in sync no more"
    world.beat(2)
    assert world.partition("orders", 1).leader == 2


def test_a_directory_that_fails_during_the_start_gets_no_replicas(world: World) -> None:
    assign(world, (A, 0), (B, 1))
    world.fence(2)
    world.fence(1)
    world.register(1, log_dirs=[A, B])
    assert world.partition("orders", 0).leader == world.partition("orders", 1).leader == -1
    assert world.beat(1, offline_log_dirs=[B]).is_fenced, "before it may lead anything"
    assert world.partition("orders", 0).leader == world.partition("orders", 1).leader == -1
    assert not world.beat(1, offline_log_dirs=[B]).is_fenced
    assert world.partition("orders", 0).leader == 1 and world.partition("orders", 1).leader == -1


def test_a_failed_directory_does_not_come_back_when_its_broker_registers_once_more(world: World) -> None:
    """A broker that is told to register again names the directories of its start."""
    again = world.registration(1, log_dirs=[A, B])
    world.fence(1)
    world.do(register_broker, again)
    world.beat(1)
    world.beat(1, offline_log_dirs=[B])
    world.do(register_broker, again)
    broker = world.image.cluster.broker(1)
    assert broker is not None and broker.log_dirs == (A,) and not broker.fenced


def test_a_replaced_directory_counts_when_the_replica_was_assigned_to_it() -> None:
    """The only replica's disk is replaced: it may lead again once the broker says where it lies now."""
    world = World(elr=0)
    world.start(2)
    world.topic("alone", (2,))
    world.fence(2)
    fresh = log_dir(2, 5)
    world.register(2, log_dirs=[fresh])
    world.beat(2)
    assert world.partition("alone").leader == -1
    (topic,) = world.image.topics.by_name.values()
    answer = world.do(assign_replicas_to_dirs, request_of(world, (fresh, topic.topic_id, 0), broker_id=2))
    assert answer.directories[0].topics[0].partitions[0].error_code == 0
    assert (world.partition("alone").leader, world.partition("alone").directories) == (2, (fresh,))
