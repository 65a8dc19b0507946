"""Preferred and unclean elections by request, leader balance, and the sweep for unclean elections."""

import pytest

from kvorum.protocol.errors import ErrorCode
from kvorum.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from kvorum.protocol.messages.elect_leaders import ElectLeadersRequest, ElectLeadersResponse, TopicPartitions
from kvorum.quorum.controller import elections
from kvorum.quorum.controller.elections import PREFERRED, UNCLEAN, balance_leaders, elect_leaders, sweep_unclean
from kvorum.quorum.controller.reassignments import alter_partition_reassignments
from kvorum.quorum.records import Config, PartitionChange
from tests.unit.quorum.controller.controller_kit import CONTROLLER_ID, World

KEY = "unclean.leader.election.enable"


def elect(world: World, kind: int, *partitions: tuple[str, int]) -> list[int]:
    """Ask for elections of these partitions; return the codes, in order."""
    wanted = [TopicPartitions(topic=name, partitions=[number]) for name, number in partitions]
    return codes(world.do(elect_leaders, ElectLeadersRequest(election_type=kind, topic_partitions=wanted)))


def codes(response: ElectLeadersResponse) -> list[int]:
    assert response.error_code == ErrorCode.NONE
    return [result.error_code for topic in response.replica_election_results for result in topic.partition_result]


def back_in_sync(world: World, name: str) -> None:
    """Have all replicas of a topic's first partition join its ISR, as its leader would ask."""
    topic = world.image.topics.topic(name)
    assert topic is not None
    world.apply([PartitionChange(topic_id=topic.topic_id, partition_id=0, isr=topic.partitions[0].replicas)])


@pytest.fixture(params=[0, 1], ids=["without ELR", "with ELR"])
def world(request: pytest.FixtureRequest) -> World:
    """Brokers 1 to 4. «moved» is led by 2, its preferred leader 1 in sync; «out» by 2, with 1 alive and out of sync;
    «fine» by 1; «dark» by nobody: 3, the last of its ISR, is fenced, and 4 alive and out of sync."""
    world = World(elr=request.param)
    world.start(1, 2, 3, 4)
    world.topic("moved", (1, 2))
    world.topic("out", (1, 2))
    world.topic("dark", (3, 4))
    world.fence(1, 4)
    world.beat(1)
    world.beat(4)
    back_in_sync(world, "moved")
    world.topic("fine", (1, 2))
    world.fence(3)
    return world


def test_a_preferred_leader_in_sync_is_elected(world: World) -> None:
    assert elect(world, PREFERRED, ("moved", 0)) == [ErrorCode.NONE]
    partition = world.partition("moved")
    assert partition.leader == 1 and partition.leader_epoch == 2


@pytest.mark.parametrize(
    ("kind", "name", "number", "code"),
    [
        (PREFERRED, "fine", 0, ErrorCode.ELECTION_NOT_NEEDED),
        (PREFERRED, "out", 0, ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE),
        (PREFERRED, "dark", 0, ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE),
        (PREFERRED, "nowhere", 0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (PREFERRED, "fine", 1, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (UNCLEAN, "out", 0, ErrorCode.ELECTION_NOT_NEEDED),
        (UNCLEAN, "nowhere", 0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (UNCLEAN, "dark", -1, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
    ],
)
def test_an_election_that_cannot_be_is_refused(
    world: World, kind: int, name: str, number: int, code: ErrorCode
) -> None:
    offset = world.next_offset
    assert elect(world, kind, (name, number)) == [code]
    assert world.next_offset == offset


def test_an_unclean_election_by_request_works_though_the_config_is_off(world: World) -> None:
    assert elect(world, UNCLEAN, ("dark", 0)) == [ErrorCode.NONE]
    partition = world.partition("dark")
    assert partition.leader == 4 and partition.isr == (4,) and partition.recovering


def test_without_live_replicas_no_leader_is_elected(world: World) -> None:
    world.fence(4)
    assert elect(world, UNCLEAN, ("dark", 0)) == [ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE]


@pytest.mark.parametrize("elr", [0, 1])
def test_an_unclean_election_takes_a_replica_that_is_being_added_only_where_no_other_is_alive(elr: int) -> None:
    world = World(elr=elr)
    world.start(1, 2, 3)
    world.topic("a", (1, 2))
    world.fence(2, 1)
    row = ReassignablePartition(partition_index=0, replicas=[3])
    topics = [ReassignableTopic(name="a", partitions=[row])]
    world.do(alter_partition_reassignments, AlterPartitionReassignmentsRequest(topics=topics))
    assert (world.partition("a").replicas, world.partition("a").leader) == ((3, 1, 2), -1)
    world.beat(2)
    assert elect(world, UNCLEAN, ("a", 0)) == [ErrorCode.NONE]
    assert world.partition("a").leader == 2 and world.partition("a").recovering
    world.fence(2)
    assert elect(world, UNCLEAN, ("a", 0)) == [ErrorCode.NONE]
    assert world.partition("a").leader == 3


@pytest.mark.parametrize("elr", [0, 1])
def test_a_clean_leader_is_preferred_also_in_an_unclean_election(elr: int) -> None:
    world = World(elr=elr)
    world.start(1, 2)
    world.topic("a", (1, 2))
    world.fence(1, 2)
    world.beat(1)
    assert world.state("a") == ((-1, (), (2,), (2,)) if elr else (-1, (2,), (), ()))
    world.beat(2)
    assert elect(world, UNCLEAN, ("a", 0)) == [ErrorCode.ELECTION_NOT_NEEDED]
    assert world.partition("a").leader == 2 and not world.partition("a").recovering


def test_all_partitions_are_answered_but_those_that_need_nothing(world: World) -> None:
    response = world.do(elect_leaders, ElectLeadersRequest(election_type=PREFERRED, topic_partitions=None))
    answered = {
        topic.topic: [result.error_code for result in topic.partition_result]
        for topic in response.replica_election_results
    }
    unavailable = [ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE]
    assert answered == {"dark": unavailable, "fine": [], "moved": [ErrorCode.NONE], "out": unavailable}
    assert world.partition("moved").leader == 1


def test_a_partition_named_twice_is_elected_once_and_answered_twice(world: World) -> None:
    epoch = world.partition("moved").leader_epoch
    assert elect(world, PREFERRED, ("moved", 0), ("moved", 0)) == [ErrorCode.NONE] * 2
    assert world.partition("moved").leader_epoch == epoch + 1
    assert elect(world, PREFERRED, ("moved", 0), ("moved", 0)) == [ErrorCode.ELECTION_NOT_NEEDED] * 2


def test_a_kind_of_election_that_is_unknown_is_refused(world: World) -> None:
    assert world.refused(elect_leaders, ElectLeadersRequest(election_type=2)) == ErrorCode.INVALID_REQUEST


def test_balance_gives_leaderships_back_where_the_preferred_leader_is_in_sync(world: World) -> None:
    assert not world.duty(balance_leaders)
    assert world.partition("moved").leader == 1 and world.partition("out").leader == 2
    assert world.partition("dark").leader == -1, "never unclean"
    offset = world.next_offset
    assert not world.duty(balance_leaders)
    assert world.next_offset == offset


def test_a_long_balance_is_done_in_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(elections, "ELECTIONS_MAX", 2)
    world = World()
    world.start(1, 2)
    world.topic("a", *[(1, 2)] * 3)
    topic = world.image.topics.topic("a")
    assert topic is not None
    world.apply([PartitionChange(topic_id=topic.topic_id, partition_id=index, leader=2) for index in range(3)])
    assert world.duty(balance_leaders)
    assert not world.duty(balance_leaders)
    assert {world.partition("a", index).leader for index in range(3)} == {1}


@pytest.mark.parametrize(
    ("resource", "name"), [(2, "dark"), (4, ""), (4, str(CONTROLLER_ID))], ids=["topic", "cluster", "this controller"]
)
def test_the_sweep_elects_uncleanly_where_a_config_was_switched_on(world: World, resource: int, name: str) -> None:
    offset = world.next_offset
    assert not world.duty(sweep_unclean)
    assert world.next_offset == offset
    world.apply([Config(resource_type=resource, resource_name=name, name=KEY, value="true")])
    assert world.partition("dark").leader == -1, "not at once"
    assert not world.duty(sweep_unclean)
    assert world.partition("dark").leader == 4 and world.partition("dark").recovering


def test_an_uncleanly_elected_leader_stays_when_the_config_is_switched_off_again(world: World) -> None:
    """Not even the last of the old ISR takes over when it is back: what it has beyond is lost since the election."""
    world.apply([Config(resource_type=2, resource_name="dark", name=KEY, value="true")])
    world.duty(sweep_unclean)
    elected = world.partition("dark")
    assert elected.leader == 4 and elected.isr == (4,)
    world.apply([Config(resource_type=2, resource_name="dark", name=KEY, value="false")])
    world.duty(sweep_unclean)
    world.duty(balance_leaders)
    assert elect(world, PREFERRED, ("dark", 0)) == [ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE]
    assert elect(world, UNCLEAN, ("dark", 0)) == [ErrorCode.ELECTION_NOT_NEEDED]
    world.beat(3)
    world.duty(sweep_unclean)
    world.duty(balance_leaders)
    assert world.image.cluster.is_unfenced(3)
    assert world.partition("dark") == elected, "it leads on, in the same epoch"
    world.fence(4)
    world.duty(sweep_unclean)
    assert world.partition("dark").leader == -1, "and from now on elections are clean again"


def test_the_topics_own_config_decides_over_the_clusters(world: World) -> None:
    world.apply([Config(resource_type=4, resource_name="", name=KEY, value="true")])
    world.apply([Config(resource_type=2, resource_name="dark", name=KEY, value="false")])
    world.duty(sweep_unclean)
    assert world.partition("dark").leader == -1


def test_the_nodes_own_configuration_counts_last() -> None:
    world = World(static={KEY: "true"})
    world.start(1, 2)
    world.topic("a", (1, 2))
    world.topic("b", (1, 2), unclean_leader_election_enable="false")
    world.fence(2, 1)
    world.beat(2)
    assert world.partition("a").leader == 2 and world.partition("b").leader == -1
