"""AlterPartitionReassignments and ListPartitionReassignments: begun, changed, cancelled, and over when it may be."""

import pytest

from kvorum.protocol.errors import ErrorCode
from kvorum.protocol.messages.alter_partition import (
    AlterPartitionRequest,
    BrokerState,
    RequestPartitionData,
    RequestTopicData,
)
from kvorum.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignablePartitionResponse,
    ReassignableTopic,
)
from kvorum.protocol.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsTopics,
)
from kvorum.quorum.controller.alter_partition import alter_partition
from kvorum.quorum.controller.reassignments import alter_partition_reassignments, list_partition_reassignments
from tests.unit.quorum.controller.controller_kit import World

ADDING, REMOVING = "adding_replicas", "removing_replicas"


@pytest.fixture
def world() -> World:
    """Brokers 1 to 5, and a topic on 1 and 2, led by 1."""
    world = World()
    world.start(1, 2, 3, 4, 5)
    world.topic("a", (1, 2))
    return world


def ask(
    world: World, *targets: list[int] | None, name: str = "a", resize: bool = True
) -> ReassignablePartitionResponse:
    """Reassign partition 0, several times in one request; return the last answer."""
    rows = [ReassignablePartition(partition_index=0, replicas=target) for target in targets]
    request = AlterPartitionReassignmentsRequest(
        topics=[ReassignableTopic(name="a", partitions=rows)], allow_replication_factor_change=resize
    )
    answer = world.do(alter_partition_reassignments, request)
    assert answer.error_code == ErrorCode.NONE and answer.error_message is None
    assert answer.allow_replication_factor_change == resize
    return answer.responses[0].partitions[-1]


def begin(world: World, *replicas: int) -> None:
    row = ask(world, list(replicas))
    assert (row.error_code, row.error_message) == (ErrorCode.NONE, None)


def in_sync(world: World, *isr: int) -> int:
    """Have the leader ask for this ISR; return the error code."""
    topic = world.image.topics.by_name["a"]
    partition = world.partition("a")
    data = RequestPartitionData(
        partition_index=0,
        leader_epoch=partition.leader_epoch,
        partition_epoch=partition.partition_epoch,
        new_isr_with_epochs=[BrokerState(broker_id=each, broker_epoch=world.epoch_of(each)) for each in isr],
    )
    request = AlterPartitionRequest(
        broker_id=partition.leader,
        broker_epoch=world.epoch_of(partition.leader),
        topics=[RequestTopicData(topic_id=topic.topic_id, partitions=[data])],
    )
    return world.do(alter_partition, request).topics[0].partitions[0].error_code


def listed(world: World, *requested: ListPartitionReassignmentsTopics) -> dict[tuple[str, int], tuple[list[int], ...]]:
    request = ListPartitionReassignmentsRequest(topics=list(requested) or None)
    answer = world.do(list_partition_reassignments, request)
    return {
        (topic.name, row.partition_index): (row.replicas, row.adding_replicas, row.removing_replicas)
        for topic in answer.topics
        for row in topic.partitions
    }


def shape(world: World) -> tuple[tuple[int, ...], ...]:
    partition = world.partition("a")
    return partition.replicas, partition.adding_replicas, partition.removing_replicas


def test_it_adds_first_and_removes_when_the_added_are_in_sync(world: World) -> None:
    begin(world, 4, 3)
    before = world.partition("a")
    assert shape(world) == ((4, 3, 1, 2), (3, 4), (1, 2))
    assert (before.isr, before.leader, before.leader_epoch) == ((1, 2), 1, 0), "nobody is led otherwise yet"
    assert len(before.directories) == 4 and before.directory(1) == world.context().default_directory(1)
    assert listed(world) == {("a", 0): ([4, 3, 1, 2], [3, 4], [1, 2])}
    assert in_sync(world, 1, 2, 3) == ErrorCode.NONE
    assert shape(world) == ((4, 3, 1, 2), (3, 4), (1, 2)), "4 is not in sync"
    assert in_sync(world, 1, 2, 3, 4) == ErrorCode.NEW_LEADER_ELECTED
    after = world.partition("a")
    assert shape(world) == ((4, 3), (), ())
    assert (after.isr, after.leader, after.leader_epoch) == ((3, 4), 4, 1)
    assert len(after.directories) == 2 and listed(world) == {}


def test_another_order_of_the_same_replicas_exists_at_once(world: World) -> None:
    begin(world, 2, 1)
    partition = world.partition("a")
    assert shape(world) == ((2, 1), (), ())
    assert (partition.leader, partition.leader_epoch, partition.partition_epoch) == (1, 0, 1)
    before = world.next_offset
    begin(world, 2, 1)
    assert world.next_offset == before, "nothing is written that changes nothing"


def test_a_reduction_completes_at_once_if_all_remaining_replicas_are_in_sync(world: World) -> None:
    begin(world, 1)
    partition = world.partition("a")
    assert (shape(world), partition.isr, partition.leader) == (((1,), (), ()), (1,), 1)
    assert partition.leader_epoch == 1, "whoever is removed must hear that it is no follower any more"


def test_fewer_replicas_wait_for_those_that_stay(world: World) -> None:
    world.topic("b", (1, 2, 3))
    world.fence(2)
    rows = [ReassignablePartition(partition_index=0, replicas=[1, 2])]
    request = AlterPartitionReassignmentsRequest(topics=[ReassignableTopic(name="b", partitions=rows)])
    world.do(alter_partition_reassignments, request)
    assert world.partition("b").removing_replicas == (3,) and world.partition("b").replicas == (1, 2, 3)


def test_the_leader_that_is_removed_gives_way(world: World) -> None:
    begin(world, 2)
    partition = world.partition("a")
    assert (shape(world), partition.isr, partition.leader, partition.leader_epoch) == (((2,), (), ()), (2,), 2, 1)


@pytest.mark.parametrize(
    ("replicas", "words"),
    [
        ([], "empty replica list"),
        ([3, 3], "more than once"),
        ([9, 9], "no such broker"),
        ([9, 3, 3], "more than once"),
        ([1, 9], "no such broker"),
        ([-1, 1], "no such broker"),
    ],
)
def test_replicas_that_cannot_be_are_refused(world: World, replicas: list[int], words: str) -> None:
    row = ask(world, replicas)
    assert row.error_code == ErrorCode.INVALID_REPLICA_ASSIGNMENT and words in str(row.error_message)
    assert shape(world) == ((1, 2), (), ())


def test_missing_partitions_are_refused_and_the_others_applied(world: World) -> None:
    request = AlterPartitionReassignmentsRequest(
        topics=[
            ReassignableTopic(name="nothing", partitions=[ReassignablePartition(partition_index=0, replicas=[3])]),
            ReassignableTopic(
                name="a",
                partitions=[
                    ReassignablePartition(partition_index=7, replicas=[3]),
                    ReassignablePartition(partition_index=0, replicas=[3]),
                ],
            ),
        ]
    )
    answer = world.do(alter_partition_reassignments, request)
    codes = [[row.error_code for row in topic.partitions] for topic in answer.responses]
    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert codes == [[unknown], [unknown, ErrorCode.NONE]]
    assert shape(world) == ((3, 1, 2), (3,), (1, 2))


def test_a_fenced_broker_may_be_assigned_and_is_waited_for(world: World) -> None:
    world.fence(5)
    begin(world, 1, 5)
    assert shape(world) == ((1, 5, 2), (5,), (2,))
    assert in_sync(world, 1, 2, 5) == ErrorCode.INELIGIBLE_REPLICA
    world.beat(5)
    assert in_sync(world, 1, 2, 5) == ErrorCode.NONE
    assert shape(world) == ((1, 5), (), ())


def test_the_number_of_replicas_changes_only_where_that_is_allowed(world: World) -> None:
    assert ask(world, [3], resize=False).error_code == ErrorCode.INVALID_REPLICATION_FACTOR
    assert ask(world, [3, 4, 5], resize=False).error_message == "The replication factor is changed from 2 to 3"
    assert ask(world, [3, 4], resize=False).error_code == ErrorCode.NONE
    # What is under way counts as if it were over.
    assert ask(world, [1, 3, 4], resize=False).error_code == ErrorCode.INVALID_REPLICATION_FACTOR
    assert ask(world, [5, 4], resize=False).error_code == ErrorCode.NONE
    assert ask(world, None, resize=False).error_code == ErrorCode.NONE


def test_a_changed_reassignment_drops_superseded_replicas(world: World) -> None:
    begin(world, 3, 4)
    assert in_sync(world, 1, 2, 3) == ErrorCode.NONE
    begin(world, 4, 5)
    assert shape(world) == ((4, 5, 1, 2, 3), (5,), (1, 2, 3)), "4 was a replica already, as Kafka has it"
    assert in_sync(world, 1, 2, 3, 5) == ErrorCode.NONE
    assert shape(world)[0] == (4, 5, 1, 2, 3), "fewer come than leave: all that stay have to be in sync"
    assert in_sync(world, 1, 2, 3, 4, 5) == ErrorCode.NEW_LEADER_ELECTED
    assert shape(world) == ((4, 5), (), ()) and world.partition("a").isr == (4, 5)


def test_requested_again_it_continues_as_it_is(world: World) -> None:
    begin(world, 3, 1)
    before = world.next_offset
    begin(world, 3, 1)
    assert world.next_offset == before and shape(world) == ((3, 1, 2), (3,), (2,))
    begin(world, 1, 3)
    assert shape(world) == ((1, 3, 2), (3,), (2,)), "in another order"
    assert ask(world, None).error_code == ErrorCode.NONE
    assert shape(world) == ((1, 2), (), ())
    begin(world, 1, 2, 4)
    begin(world, 1, 2, 4)
    assert shape(world) == ((1, 2, 4), (4,), ()), "4 is not in sync yet"


def test_naming_all_replicas_there_are_keeps_them(world: World) -> None:
    begin(world, 3)
    begin(world, 3, 1, 2)
    assert shape(world) == ((3, 1, 2), (3,), ())
    assert in_sync(world, 1, 2, 3) == ErrorCode.NONE
    assert shape(world) == ((3, 1, 2), (), ())


def test_naming_the_replicas_it_began_with_ends_it(world: World) -> None:
    begin(world, 3, 4)
    begin(world, 1, 2)
    partition = world.partition("a")
    assert (shape(world), partition.isr, partition.leader) == (((1, 2), (), ()), (1, 2), 1)


def test_a_cancel_takes_the_added_away_and_keeps_the_rest(world: World) -> None:
    begin(world, 3, 4)
    assert in_sync(world, 1, 2, 3) == ErrorCode.NONE
    assert ask(world, None).error_code == ErrorCode.NONE
    partition = world.partition("a")
    assert (shape(world), partition.isr, partition.leader) == (((1, 2), (), ()), (1, 2), 1)
    assert partition.leader_epoch == 1, "3 must hear that it is no replica any more"
    row = ask(world, None)
    assert (row.error_code, row.error_message) == (ErrorCode.NO_REASSIGNMENT_IN_PROGRESS, None), "as Kafka says it"


@pytest.mark.parametrize("unclean", [False, True])
def test_a_cancel_is_refused_where_only_added_replicas_are_in_sync(unclean: bool) -> None:
    """It would lose what they acknowledged. Kafka carries it out where unclean elections are enabled."""
    world = World(elr=0)
    world.start(1, 2, 3, 4)
    world.topic("a", (1, 2), unclean_leader_election_enable=str(unclean).lower())
    begin(world, 3, 4)
    assert in_sync(world, 1, 2, 3) == ErrorCode.NONE
    world.fence(1, 2)
    assert world.partition("a").isr == (3,) and shape(world) == ((3, 4, 1, 2), (3, 4), (1, 2))
    world.beat(1)
    row = ask(world, None)
    assert row.error_code == ErrorCode.INVALID_REPLICA_ASSIGNMENT and "unclean" in str(row.error_message)
    assert world.partition("a").isr == (3,) and world.partition("a").leader == 3
    assert in_sync(world, 3, 1) == ErrorCode.NONE
    assert ask(world, None).error_code == ErrorCode.NONE, "1 has all that 3 acknowledged"
    assert shape(world) == ((1, 2), (), ()) and world.partition("a").leader == 1


@pytest.mark.parametrize(("eligible", "code"), [(2, ErrorCode.NONE), (3, ErrorCode.INVALID_REPLICA_ASSIGNMENT)])
def test_without_a_leader_a_cancel_keeps_eligible_replicas(eligible: int, code: ErrorCode) -> None:
    world = World()
    world.start(1, 2, 3, 4)
    world.topic("a", (1, 2), unclean_leader_election_enable="true")
    begin(world, 3, 4)
    assert in_sync(world, 1, 2, 3) == ErrorCode.NONE
    others = {1, 2, 3} - {eligible}
    world.fence(4, *others)
    world.fence(eligible)
    assert world.state("a") == (-1, (), (eligible,), (eligible,))
    assert ask(world, None).error_code == code
    assert world.state("a") == (-1, (), (eligible,), (eligible,))


def test_eligible_replicas_that_are_removed_are_eligible_no_more() -> None:
    world = World(min_isr=2)
    world.start(1, 2, 3, 4)
    world.topic("a", (1, 2, 3))
    world.fence(3, 2)
    assert world.state("a") == (1, (1,), (2,), ()), "with 1 and 2 in sync nobody had to be eligible"
    begin(world, 1, 4)
    assert in_sync(world, 1, 4) == ErrorCode.NONE
    assert shape(world) == ((1, 4), (), ()) and world.state("a") == (1, (1, 4), (), ())


def test_a_partition_named_twice_continues_from_what_was_decided_first(world: World) -> None:
    row = ask(world, [3, 4], None)
    assert row.error_code == ErrorCode.NONE and shape(world) == ((1, 2), (), ())


def test_named_ones_are_listed_and_missing_ones_omitted(world: World) -> None:
    world.topic("b", (1,), (2,))
    begin(world, 3)
    names = [("a", [0, 9]), ("b", [0, 1]), ("nothing", [0])]
    requested = [ListPartitionReassignmentsTopics(name=name, partition_indexes=numbers) for name, numbers in names]
    assert listed(world, *requested) == {("a", 0): ([3, 1, 2], [3], [1, 2])}
    assert listed(world, requested[1]) == {}
