"""AlterPartition: Kafka's checks in Kafka's order, and the changes it makes."""

from collections.abc import Callable

import pytest

from kvorum.protocol.errors import ErrorCode
from kvorum.protocol.messages.alter_partition import (
    AlterPartitionRequest,
    BrokerState,
    RequestPartitionData,
    RequestTopicData,
    ResponsePartitionData,
)
from kvorum.protocol.uuids import Uuid
from kvorum.quorum.controller.alter_partition import alter_partition
from kvorum.quorum.records import MetadataRecord, PartitionChange
from tests.unit.quorum.controller.controller_kit import World


@pytest.fixture
def world() -> World:
    """Brokers 1 to 5, a topic on 1, 2, 3 led by 1; 3 has left the ISR and is back; epochs 0 and 1."""
    world = World()
    world.start(1, 2, 3, 4, 5)
    world.topic("a", (1, 2, 3))
    world.fence(3)
    world.beat(3)
    partition = world.partition("a")
    assert (partition.isr, partition.leader_epoch, partition.partition_epoch) == ((1, 2), 0, 1)
    return world


def states(world: World, *broker_ids: int) -> list[BrokerState]:
    return [BrokerState(broker_id=broker_id, broker_epoch=world.epoch_of(broker_id)) for broker_id in broker_ids]


def request_of(
    world: World, data: RequestPartitionData, *, sender: int = 1, topic_id: Uuid | None = None
) -> AlterPartitionRequest:
    topic = world.image.topics.topic("a")
    assert topic is not None
    return AlterPartitionRequest(
        broker_id=sender,
        broker_epoch=world.epoch_of(sender),
        topics=[RequestTopicData(topic_id=topic_id or topic.topic_id, partitions=[data])],
    )


def data_of(world: World, *isr: int, **changes: object) -> RequestPartitionData:
    fields: dict[str, object] = {
        "partition_index": 0,
        "leader_epoch": world.partition("a").leader_epoch,
        "partition_epoch": world.partition("a").partition_epoch,
        "new_isr_with_epochs": states(world, *isr),
    }
    return RequestPartitionData(**{**fields, **changes})  # type: ignore[arg-type]


def ask(
    world: World, data: RequestPartitionData, *, sender: int = 1, topic_id: Uuid | None = None
) -> ResponsePartitionData:
    response = world.do(alter_partition, request_of(world, data, sender=sender, topic_id=topic_id))
    assert response.error_code == ErrorCode.NONE
    return response.topics[0].partitions[0]


def test_an_isr_grows_and_shrinks(world: World) -> None:
    answer = ask(world, data_of(world, 1, 2, 3))
    assert (answer.error_code, answer.isr, answer.leader_id) == (ErrorCode.NONE, [1, 2, 3], 1)
    assert (answer.leader_epoch, answer.partition_epoch) == (0, 2)
    assert world.partition("a").isr == (1, 2, 3)
    answer = ask(world, data_of(world, 1))
    assert (answer.isr, answer.leader_epoch, answer.partition_epoch) == ([1], 0, 3)


def test_a_proposal_of_the_current_isr_changes_nothing(world: World) -> None:
    offset = world.next_offset
    answer = ask(world, data_of(world, 1, 2))
    assert (answer.error_code, answer.isr, answer.partition_epoch) == (ErrorCode.NONE, [1, 2], 1)
    assert world.next_offset == offset


def test_v2_names_brokers_without_epochs(world: World) -> None:
    world.api_version = 2
    answer = ask(world, data_of(world, new_isr=[1, 2, 3], new_isr_with_epochs=[]))
    assert answer.error_code == ErrorCode.NONE and world.partition("a").isr == (1, 2, 3)


def test_an_epoch_of_minus_1_is_not_checked(world: World) -> None:
    answer = ask(world, data_of(world, new_isr_with_epochs=[BrokerState(broker_id=b, broker_epoch=-1) for b in (1, 3)]))
    assert answer.error_code == ErrorCode.NONE and world.partition("a").isr == (1, 3)


def shutting_down(world: World) -> RequestPartitionData:
    world.topic("b", (3,))
    world.beat(3, want_shut_down=True)
    return data_of(world, 1, 2, 3)


def fenced(world: World) -> RequestPartitionData:
    world.fence(3)
    return data_of(world, 1, 2, 3)


def unregistered(world: World) -> RequestPartitionData:
    data = data_of(world, 1, 2, 3)
    data.new_isr_with_epochs[2].broker_epoch = -1
    world.image = type(world.image)(
        offset=world.image.offset,
        epoch=1,
        topics=world.image.topics,
        configs=world.image.configs,
        cluster=type(world.image.cluster)(brokers=world.image.cluster.brokers.remove(3)),
    )
    return data


def another_incarnation(world: World) -> RequestPartitionData:
    data = data_of(world, 1, 2, 3)
    data.new_isr_with_epochs[2].broker_epoch -= 1
    return data


Case = Callable[[World], RequestPartitionData]

# In the order of the checks: each row is wrong in what it names and in all that is checked after it.
CASES: list[tuple[str, Case, int, ErrorCode]] = [
    ("partition unknown", lambda w: data_of(w, 9, partition_index=7), 2, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
    ("leader epoch ahead", lambda w: data_of(w, 5, leader_epoch=1), 2, ErrorCode.NOT_CONTROLLER),
    ("partition epoch ahead", lambda w: data_of(w, 5, partition_epoch=2, leader_epoch=-1), 2, ErrorCode.NOT_CONTROLLER),
    ("leader epoch behind", lambda w: data_of(w, 5, leader_epoch=-1), 2, ErrorCode.FENCED_LEADER_EPOCH),
    ("sender does not lead", lambda w: data_of(w, 5, partition_epoch=0), 2, ErrorCode.INVALID_REQUEST),
    ("partition epoch behind", lambda w: data_of(w, 5, partition_epoch=0), 1, ErrorCode.INVALID_UPDATE_VERSION),
    ("no replica", lambda w: data_of(w, 1, 5), 1, ErrorCode.INVALID_REQUEST),
    ("twice", lambda w: data_of(w, 1, 2, 2), 1, ErrorCode.INVALID_REQUEST),
    ("without leader", lambda w: data_of(w, 2, 3), 1, ErrorCode.INVALID_REQUEST),
    ("empty", lambda w: data_of(w), 1, ErrorCode.INVALID_REQUEST),
    ("recovering, not alone", lambda w: data_of(w, 1, 2, leader_recovery_state=1), 1, ErrorCode.INVALID_REQUEST),
    ("back to recovering", lambda w: data_of(w, 1, leader_recovery_state=1), 1, ErrorCode.INVALID_REQUEST),
    ("no such state", lambda w: data_of(w, 1, leader_recovery_state=2), 1, ErrorCode.INVALID_REQUEST),
    ("unregistered", unregistered, 1, ErrorCode.INELIGIBLE_REPLICA),
    ("shutting down", shutting_down, 1, ErrorCode.INELIGIBLE_REPLICA),
    ("fenced", fenced, 1, ErrorCode.INELIGIBLE_REPLICA),
    ("another incarnation", another_incarnation, 1, ErrorCode.INELIGIBLE_REPLICA),
]


@pytest.mark.parametrize(("case", "sender", "code"), [row[1:] for row in CASES], ids=[row[0] for row in CASES])
def test_an_invalid_request_gets_its_first_error(world: World, case: Case, sender: int, code: ErrorCode) -> None:
    request = request_of(world, _known(world, case), sender=sender)
    result = alter_partition(world.context(), request)
    assert result.records == []
    answer = result.response.topics[0].partitions[0]
    assert (answer.error_code, answer.partition_index) == (code, request.topics[0].partitions[0].partition_index)


def _known(world: World, case: Case) -> RequestPartitionData:
    """Build a row's request; broker 9 stands for one that was never there."""
    world.start(9)
    return case(world)


def test_the_sender_is_checked_for_the_whole_request(world: World) -> None:
    request = request_of(world, data_of(world, 1, 2, 3))
    request.broker_epoch -= 1
    assert world.refused(alter_partition, request) == ErrorCode.STALE_BROKER_EPOCH
    request.broker_id = 77
    assert world.refused(alter_partition, request) == ErrorCode.STALE_BROKER_EPOCH


def test_a_topic_id_that_is_unknown_is_refused_for_its_partitions_alone(world: World) -> None:
    request = request_of(world, data_of(world, 1, 2, 3))
    request.topics.insert(0, RequestTopicData(topic_id=Uuid(bytes([9] * 16)), partitions=[data_of(world, 1)]))
    response = world.do(alter_partition, request)
    assert response.topics[0].partitions[0].error_code == ErrorCode.UNKNOWN_TOPIC_ID
    assert response.topics[1].partitions[0].error_code == ErrorCode.NONE
    assert world.partition("a").isr == (1, 2, 3)


def test_the_same_request_twice_is_refused_the_second_time(world: World) -> None:
    data = data_of(world, 1, 2, 3)
    assert ask(world, data).error_code == ErrorCode.NONE
    assert ask(world, data).error_code == ErrorCode.INVALID_UPDATE_VERSION


def test_one_request_changes_a_partition_once(world: World) -> None:
    request = request_of(world, data_of(world, 1, 2, 3))
    request.topics[0].partitions.append(data_of(world, 1))
    response = world.do(alter_partition, request)
    codes = [answer.error_code for answer in response.topics[0].partitions]
    assert codes == [ErrorCode.NONE, ErrorCode.INVALID_UPDATE_VERSION]
    assert world.partition("a").partition_epoch == 2


def test_the_isr_grows_only_after_a_recovering_leader_reports_its_end() -> None:
    world = World()
    world.start(1, 2)
    world.topic("a", (1, 2), unclean_leader_election_enable="true")
    world.fence(2, 1)
    world.beat(2)
    world.beat(1)
    assert world.partition("a").recovering and world.partition("a").leader == 2
    still = ask(world, data_of(world, 2, 1, leader_recovery_state=1), sender=2)
    assert still.error_code == ErrorCode.INVALID_REQUEST
    offset = world.next_offset
    assert ask(world, data_of(world, 2, leader_recovery_state=1), sender=2).error_code == ErrorCode.NONE
    assert world.next_offset == offset
    done = ask(world, data_of(world, 2, leader_recovery_state=0), sender=2)
    assert (done.error_code, done.leader_recovery_state) == (ErrorCode.NONE, 0)
    assert not world.partition("a").recovering
    assert ask(world, data_of(world, 2, 1), sender=2).error_code == ErrorCode.NONE


def test_a_reassignment_that_takes_the_leader_away_is_made_and_reported() -> None:
    world = World()
    world.start(1, 2, 3)
    topic_id = world.topic("a", (1, 2))
    begin: list[MetadataRecord] = [
        PartitionChange(
            topic_id=topic_id,
            partition_id=0,
            replicas=(1, 2, 3),
            directories=(*world.partition("a").directories, world.context().default_directory(3)),
            removing_replicas=(1,),
            adding_replicas=(3,),
        )
    ]
    world.apply(begin)
    answer = ask(world, data_of(world, 1, 2, 3))
    assert answer.error_code == ErrorCode.NEW_LEADER_ELECTED
    partition = world.partition("a")
    assert (partition.replicas, partition.isr, partition.leader) == ((2, 3), (2, 3), 2)
    assert not partition.is_reassigning and len(partition.directories) == 2
    assert (partition.leader_epoch, partition.partition_epoch) == (1, 2)


def test_a_reassignment_is_not_over_before_all_that_are_added_are_in_sync() -> None:
    world = World()
    world.start(1, 2, 3)
    topic_id = world.topic("a", (1,))
    begin: list[MetadataRecord] = [
        PartitionChange(
            topic_id=topic_id,
            partition_id=0,
            replicas=(1, 2, 3),
            directories=tuple(world.context().default_directory(broker_id) for broker_id in (1, 2, 3)),
            adding_replicas=(2, 3),
        )
    ]
    world.apply(begin)
    assert ask(world, data_of(world, 1, 2)).error_code == ErrorCode.NONE
    assert world.partition("a").adding_replicas == (2, 3)
    assert ask(world, data_of(world, 1, 2, 3)).error_code == ErrorCode.NONE
    assert world.partition("a").adding_replicas == () and world.partition("a").leader_epoch == 0
