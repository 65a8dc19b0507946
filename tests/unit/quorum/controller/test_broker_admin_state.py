"""Maintenance and decommission, as the controller decides on them: what is refused, what moves, when it is over."""

from dataclasses import replace

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
    ReassignableTopic,
)
from kvorum.protocol.messages.create_topics import CreateTopicsRequest
from kvorum.protocol.messages.elect_leaders import ElectLeadersRequest, TopicPartitions
from kvorum.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    AlterConfigsResourceResponse,
    IncrementalAlterConfigsRequest,
)
from kvorum.protocol.messages.unregister_broker import UnregisterBrokerRequest
from kvorum.quorum.controller import relief
from kvorum.quorum.controller.alter_partition import alter_partition
from kvorum.quorum.controller.broker_admin_state import STATE_KEY, BrokerAdminState, admin_state_of
from kvorum.quorum.controller.configs_control import incremental_alter_configs
from kvorum.quorum.controller.create_topics import create_topics
from kvorum.quorum.controller.departure import Departure, move_replicas
from kvorum.quorum.controller.elections import PREFERRED, balance_leaders, elect_leaders, sweep_unclean
from kvorum.quorum.controller.reassignments import alter_partition_reassignments
from kvorum.quorum.controller.registration import unregister_broker
from kvorum.quorum.controller.relief import move_leaders
from kvorum.quorum.records import Config
from tests.unit.quorum.controller.controller_kit import World, creatable, log_dir

SET, DELETE = 0, 1
THROTTLE = "kvorum.decommission.throttle"
LEADERS, FOLLOWERS = "leader.replication.throttled.replicas", "follower.replication.throttled.replicas"
Row = AlterConfigsResourceResponse


def ask(world: World, wanted: dict[int, str | None]) -> list[Row]:
    """Ask this of brokers (None: take it back), in one request; return the answers."""
    resources = [
        AlterConfigsResource(
            resource_type=4,
            resource_name=str(broker_id),
            configs=[AlterableConfig(name=STATE_KEY, config_operation=DELETE if value is None else SET, value=value)],
        )
        for broker_id, value in wanted.items()
    ]
    return world.do(incremental_alter_configs, IncrementalAlterConfigsRequest(resources=resources)).responses


def begin(world: World, broker_id: int, value: str | None) -> None:
    (row,) = ask(world, {broker_id: value})
    assert row.error_code == ErrorCode.NONE, row.error_message


def in_sync(world: World, name: str, *isr: int, partition_id: int = 0) -> int:
    """Have the leader ask for this ISR; return the error code."""
    topic = world.image.topics.by_name[name]
    partition = world.partition(name, partition_id)
    data = RequestPartitionData(
        partition_index=partition_id,
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


def leaders(world: World, name: str) -> list[int]:
    return [partition.leader for _, partition in world.image.topics.by_name[name].sorted_partitions()]


def replicas(world: World, name: str) -> list[tuple[int, ...]]:
    return [partition.replicas for _, partition in world.image.topics.by_name[name].sorted_partitions()]


def elect(world: World, name: str) -> int:
    wanted = [TopicPartitions(topic=name, partitions=[0])]
    answer = world.do(elect_leaders, ElectLeadersRequest(election_type=PREFERRED, topic_partitions=wanted))
    return answer.replica_election_results[0].partition_result[0].error_code


@pytest.fixture(params=[0, 1], ids=["without ELR", "with ELR"])
def world(request: pytest.FixtureRequest) -> World:
    """Brokers 1 to 4, each in a rack of two."""
    world = World(elr=request.param)
    for broker_id, rack in ((1, "a"), (2, "b"), (3, "a"), (4, "b")):
        world.start(broker_id, rack=rack)
    return world


# Maintenance.


def test_in_maintenance_a_broker_leads_only_partitions_that_no_other_can_lead(world: World) -> None:
    world.topic("a", (1, 2), (2, 1), (1, 3))
    world.topic("alone", (1,))
    begin(world, 1, BrokerAdminState.MAINTENANCE)
    assert leaders(world, "a") == [1, 2, 1], "the request itself moves nothing"
    assert not world.duty(move_leaders)
    assert leaders(world, "a") == [2, 2, 3] and leaders(world, "alone") == [1]
    assert world.partition("a").isr == (1, 2), "its replicas follow"


def test_leaders_move_in_steps(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(relief, "LEADERS_A_STEP", 2)
    world.topic("a", *[(1, 2)] * 3)
    begin(world, 1, BrokerAdminState.MAINTENANCE)
    assert world.duty(move_leaders)
    assert leaders(world, "a") == [2, 2, 1]
    assert not world.duty(move_leaders)
    assert leaders(world, "a") == [2, 2, 2]


def test_no_election_brings_a_leadership_to_a_broker_in_maintenance_while_another_is_in_sync(world: World) -> None:
    world.topic("a", (1, 2, 3))
    begin(world, 1, BrokerAdminState.MAINTENANCE)
    world.duty(move_leaders)
    assert elect(world, "a") == ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE
    world.duty(balance_leaders)
    assert leaders(world, "a") == [2]
    world.fence(2)
    assert leaders(world, "a") == [3], "1 comes before it, and rests"
    world.fence(3)
    assert leaders(world, "a") == [1], "nobody else is in sync"


def test_a_leadership_that_stayed_moves_when_another_replica_has_come_into_sync(world: World) -> None:
    world.topic("a", (1, 2))
    world.fence(2)
    begin(world, 1, BrokerAdminState.MAINTENANCE)
    assert not world.duty(move_leaders)
    assert leaders(world, "a") == [1]
    world.beat(2)
    assert in_sync(world, "a", 1, 2) == ErrorCode.NONE
    world.duty(move_leaders)
    assert leaders(world, "a") == [2]


def test_a_new_topic_is_led_by_others(world: World) -> None:
    begin(world, 1, BrokerAdminState.MAINTENANCE)
    world.topic("a", (1, 2))
    world.topic("alone", (1,))
    assert (leaders(world, "a"), leaders(world, "alone")) == ([2], [1])


def test_after_maintenance_leaderships_come_back_when_the_broker_is_in_sync(world: World) -> None:
    world.topic("a", (1, 2), (2, 1))
    begin(world, 1, BrokerAdminState.MAINTENANCE)
    world.duty(move_leaders)
    world.fence(1)
    begin(world, 1, BrokerAdminState.ACTIVE)
    world.duty(move_leaders)
    assert leaders(world, "a") == [2, 2]
    world.beat(1)
    assert in_sync(world, "a", 2, 1) == ErrorCode.NONE
    world.duty(move_leaders)
    assert leaders(world, "a") == [1, 2]
    assert admin_state_of(world.image.configs, 1) is BrokerAdminState.ACTIVE
    world.duty(move_leaders)
    assert admin_state_of(world.image.configs, 1) is None, "over, and the config is gone"
    offset = world.next_offset
    assert not world.duty(move_leaders)
    assert world.next_offset == offset


@pytest.mark.parametrize(
    ("name", "value", "code"),
    [
        ("9", BrokerAdminState.MAINTENANCE, ErrorCode.BROKER_ID_NOT_REGISTERED),
        ("100", BrokerAdminState.MAINTENANCE, ErrorCode.BROKER_ID_NOT_REGISTERED),  # the controller: no broker
        ("", BrokerAdminState.MAINTENANCE, ErrorCode.INVALID_CONFIG),
        ("1", "asleep", ErrorCode.INVALID_CONFIG),
    ],
)
def test_an_invalid_request_is_refused(world: World, name: str, value: str, code: ErrorCode) -> None:
    config = AlterableConfig(name=STATE_KEY, config_operation=SET, value=value)
    resource = AlterConfigsResource(resource_type=4, resource_name=name, configs=[config])
    (row,) = world.do(incremental_alter_configs, IncrementalAlterConfigsRequest(resources=[resource])).responses
    assert row.error_code == code and row.error_message


def test_a_config_written_by_an_older_release_changes_nothing(world: World) -> None:
    world.topic("a", (1, 2))
    world.apply([Config(resource_type=4, resource_name="1", name=STATE_KEY, value="out to lunch")])
    assert not world.duty(move_leaders)
    assert leaders(world, "a") == [1] and admin_state_of(world.image.configs, 1) is None


# Decommission.


def test_replicas_go_to_others_rack_aware_and_the_broker_is_dropped_when_they_are_in_sync(world: World) -> None:
    world.topic("a", (1, 2), (2, 1))
    begin(world, 1, BrokerAdminState.DECOMMISSIONED)
    assert world.duty(move_replicas) == [Departure(broker_id=1, moving=2, waiting=0)]
    # 3 is in the rack of 1; to 4 they would go by number of replicas alone, where 2's rack has one already.
    assert replicas(world, "a") == [(3, 2, 1), (2, 3, 1)]
    assert leaders(world, "a") == [1, 2]
    assert in_sync(world, "a", 1, 2, 3) == ErrorCode.NEW_LEADER_ELECTED
    assert in_sync(world, "a", 2, 1, 3, partition_id=1) == ErrorCode.NONE
    assert replicas(world, "a") == [(3, 2), (2, 3)]
    assert world.duty(move_replicas) == [Departure(broker_id=1, moving=0, waiting=0)]


def test_those_with_fewest_replicas_get_them() -> None:
    world = World(decommission_partitions_max=100)
    world.start(1, 2, 3, 4)
    world.topic("a", *[(1, 2)] * 6)
    world.topic("b", *[(3,)] * 4)
    begin(world, 1, BrokerAdminState.DECOMMISSIONED)
    world.duty(move_replicas)
    assert sorted(each[0] for each in replicas(world, "a")) == [3] + [4] * 5


def test_concurrent_moves_are_limited() -> None:
    world = World(decommission_partitions_max=4)
    world.start(1, 2, 3)
    world.topic("a", *[(1, 2)] * 7)
    begin(world, 1, BrokerAdminState.DECOMMISSIONED)
    assert world.duty(move_replicas) == [Departure(broker_id=1, moving=4, waiting=3)]
    in_sync(world, "a", 1, 2, 3)
    assert world.duty(move_replicas) == [Departure(broker_id=1, moving=3, waiting=None)], "less than half is free"
    in_sync(world, "a", 1, 2, 3, partition_id=1)
    assert world.duty(move_replicas) == [Departure(broker_id=1, moving=4, waiting=1)]


def test_no_new_replica_is_placed_on_a_broker_that_leaves(world: World) -> None:
    begin(world, 1, BrokerAdminState.DECOMMISSIONED)
    request = CreateTopicsRequest(topics=[creatable("placed", 20, 3), creatable("named", assignments=((1, 2),))])
    placed, named = world.do(create_topics, request).topics
    assert placed.error_code == ErrorCode.NONE
    assert not any(1 in each for each in replicas(world, "placed"))
    assert named.error_code == ErrorCode.INVALID_REPLICA_ASSIGNMENT
    assert named.error_message is not None and "decommissioned" in named.error_message
    row = ReassignablePartition(partition_index=0, replicas=[1, 2])
    topics = [ReassignableTopic(name="placed", partitions=[row])]
    answer = world.do(alter_partition_reassignments, AlterPartitionReassignmentsRequest(topics=topics))
    assert answer.responses[0].partitions[0].error_code == ErrorCode.INVALID_REPLICA_ASSIGNMENT


def test_a_broker_that_the_partitions_cannot_do_without_is_not_decommissioned(world: World) -> None:
    world.topic("wide", (1, 2, 3, 4))
    world.topic("three", (1, 2, 3))
    (row,) = ask(world, {1: BrokerAdminState.DECOMMISSIONED})
    assert row.error_code == ErrorCode.INVALID_REPLICATION_FACTOR
    assert row.error_message is not None and "wide-0 has 4 replica(s), and 3 broker(s)" in row.error_message
    assert admin_state_of(world.image.configs, 1) is None


def test_brokers_that_are_to_leave_together_are_judged_together(world: World) -> None:
    world.topic("three", (1, 2, 3))
    rows = ask(world, {1: BrokerAdminState.DECOMMISSIONED, 4: BrokerAdminState.DECOMMISSIONED})
    assert [row.error_code for row in rows] == [ErrorCode.INVALID_REPLICATION_FACTOR, ErrorCode.NONE]
    assert ask(world, {2: BrokerAdminState.DECOMMISSIONED})[0].error_code == ErrorCode.INVALID_REPLICATION_FACTOR
    assert ask(world, {4: BrokerAdminState.DECOMMISSIONED})[0].error_code == ErrorCode.NONE, "asked again"


def test_the_last_broker_is_not_decommissioned() -> None:
    world = World()
    world.start(1)
    (row,) = ask(world, {1: BrokerAdminState.DECOMMISSIONED})
    assert row.error_code == ErrorCode.INVALID_REPLICATION_FACTOR and "no broker would remain" in str(row.error_message)


def test_a_reverted_decommission_cancels_pending_moves_and_keeps_completed_ones(world: World) -> None:
    world.topic("a", (1, 2), (1, 2))
    begin(world, 1, BrokerAdminState.DECOMMISSIONED)
    world.duty(move_replicas)
    in_sync(world, "a", 1, 2, 3)
    begin(world, 1, None)
    assert replicas(world, "a") == [(3, 2), (2, 1)], "the place it had is gone, as after any cancelled reassignment"
    assert not world.partition("a", 1).is_reassigning
    assert world.duty(move_replicas) == []


def test_a_foreign_reassignment_is_left_alone_until_it_ends(world: World) -> None:
    world.topic("a", (1, 2))
    row = ReassignablePartition(partition_index=0, replicas=[1, 4])
    topics = [ReassignableTopic(name="a", partitions=[row])]
    world.do(alter_partition_reassignments, AlterPartitionReassignmentsRequest(topics=topics))
    begin(world, 1, BrokerAdminState.DECOMMISSIONED)
    assert world.duty(move_replicas) == [Departure(broker_id=1, moving=0, waiting=1)]
    in_sync(world, "a", 1, 2, 4)
    assert world.duty(move_replicas) == [Departure(broker_id=1, moving=1, waiting=0)]
    assert replicas(world, "a") == [(3, 4, 1)]


def test_a_reassignment_to_a_broker_that_leaves_goes_elsewhere(world: World) -> None:
    world.topic("a", (1, 2))
    row = ReassignablePartition(partition_index=0, replicas=[3, 2])
    topics = [ReassignableTopic(name="a", partitions=[row])]
    world.do(alter_partition_reassignments, AlterPartitionReassignmentsRequest(topics=topics))
    begin(world, 3, BrokerAdminState.DECOMMISSIONED)
    world.duty(move_replicas)
    partition = world.partition("a")
    assert (partition.replicas, partition.adding_replicas) == ((4, 2, 1, 3), (4,))
    in_sync(world, "a", 1, 2, 4)
    assert replicas(world, "a") == [(4, 2)]


def test_it_waits_while_none_can_take_a_replica_and_continues_when_one_is_back() -> None:
    world = World()
    world.start(1, 2, 3)
    world.topic("a", (1, 2))
    world.fence(3)
    begin(world, 1, BrokerAdminState.DECOMMISSIONED)
    assert world.duty(move_replicas) == [Departure(broker_id=1, moving=0, waiting=1)]
    world.beat(3)
    assert world.duty(move_replicas) == [Departure(broker_id=1, moving=1, waiting=0)]


def test_a_partition_without_a_leader_is_left_alone_until_it_has_one() -> None:
    """A new replica could copy nothing, and the sweep for unclean elections would choose it: empty."""
    world = World(elr=0)
    world.start(1, 2, 3)
    world.topic("a", (1, 2), unclean_leader_election_enable="true")
    world.fence(2, 1)
    begin(world, 2, BrokerAdminState.DECOMMISSIONED)
    assert world.duty(move_replicas) == [Departure(broker_id=2, moving=0, waiting=1)]
    world.duty(sweep_unclean)
    assert (world.partition("a").replicas, world.partition("a").leader) == ((1, 2), -1)
    world.beat(1)
    assert world.partition("a").leader == 1 and not world.partition("a").recovering
    assert world.duty(move_replicas) == [Departure(broker_id=2, moving=1, waiting=0)]


def test_a_move_is_not_taken_back_where_only_the_new_replica_is_in_sync() -> None:
    world = World(elr=0)
    world.start(1, 2, 3, 4)
    world.topic("a", (1, 2, 3), unclean_leader_election_enable="true")
    begin(world, 1, BrokerAdminState.DECOMMISSIONED)
    world.duty(move_replicas)
    world.fence(1, 2, 3)
    world.duty(sweep_unclean)
    assert (world.partition("a").leader, world.partition("a").isr) == (4, (4,))
    begin(world, 1, None)
    partition = world.partition("a")
    assert (partition.leader, partition.isr, 4 in partition.replicas) == (4, (4,), True)


def test_a_broker_whose_directories_are_all_cordoned_gets_nothing() -> None:
    """KIP-1066: what the placement of new topics leaves alone, a decommission does, too."""
    world = World()
    world.start(1, 2, 3)
    world.topic("a", (1, 2))
    begin(world, 1, BrokerAdminState.DECOMMISSIONED)
    world.beat(3, cordoned_log_dirs=[log_dir(3)])
    assert world.duty(move_replicas) == [Departure(broker_id=1, moving=0, waiting=1)]
    world.beat(3, cordoned_log_dirs=[])
    world.duty(move_replicas)
    assert replicas(world, "a") == [(3, 2, 1)]


def test_a_move_to_a_broker_that_was_unregistered_goes_elsewhere(world: World) -> None:
    world.topic("a", (1, 2))
    begin(world, 1, BrokerAdminState.DECOMMISSIONED)
    world.duty(move_replicas)
    assert replicas(world, "a") == [(3, 2, 1)]
    world.do(unregister_broker, UnregisterBrokerRequest(broker_id=3))
    world.duty(move_replicas)
    assert world.partition("a").adding_replicas == (4,)


def test_an_unregistered_broker_gets_no_requests(world: World) -> None:
    begin(world, 4, BrokerAdminState.DECOMMISSIONED)
    world.do(unregister_broker, UnregisterBrokerRequest(broker_id=4))
    assert admin_state_of(world.image.configs, 4) is None


# Its throttle.


def configs(world: World, kind: int, name: str) -> dict[str, str]:
    return dict(world.image.configs.of(kind, name))


def throttled(world: World, broker_id: int, rate: str) -> None:
    """Decommission a broker at this rate, in one request."""
    wanted = [
        AlterableConfig(name=STATE_KEY, config_operation=SET, value=BrokerAdminState.DECOMMISSIONED),
        AlterableConfig(name=THROTTLE, config_operation=SET, value=rate),
    ]
    resource = AlterConfigsResource(resource_type=4, resource_name=str(broker_id), configs=wanted)
    (row,) = world.do(incremental_alter_configs, IncrementalAlterConfigsRequest(resources=[resource])).responses
    assert row.error_code == ErrorCode.NONE, row.error_message


def test_moving_replicas_are_throttled_until_their_move_completes() -> None:
    world = World()
    world.start(1, 2, 3)
    world.topic("a", (1, 2), (2, 3))
    world.topic("others", (2, 3), leader_replication_throttled_replicas="*")
    throttled(world, 1, "5000")
    world.duty(move_replicas)
    rates = {"leader.replication.throttled.rate": "5000", "follower.replication.throttled.rate": "5000"}
    assert configs(world, 4, "") | rates == configs(world, 4, "")
    assert configs(world, 2, "a") == {LEADERS: "0:1,0:2", FOLLOWERS: "0:3"}
    in_sync(world, "a", 1, 2, 3)
    world.duty(move_replicas)
    assert not configs(world, 4, "").keys() & rates.keys()
    assert configs(world, 2, "a") == {} and configs(world, 2, "others") == {LEADERS: "*"}
    assert configs(world, 4, "1") == {STATE_KEY: BrokerAdminState.DECOMMISSIONED}


def test_taken_back_the_throttle_goes_too() -> None:
    world = World()
    world.start(1, 2, 3)
    world.topic("a", (1, 2))
    throttled(world, 1, "5000")
    world.duty(move_replicas)
    begin(world, 1, None)
    world.duty(move_replicas)
    assert configs(world, 2, "a") == {} and configs(world, 4, "1") == {}
    assert "leader.replication.throttled.rate" not in configs(world, 4, "")


def test_a_throttle_may_be_set_before_the_broker_is_to_leave() -> None:
    """By a client that sets one config after the other: what moves is not to begin without it."""
    world = World()
    world.start(1, 2, 3)
    world.topic("a", (1, 2))
    wanted = [AlterableConfig(name=THROTTLE, config_operation=SET, value="5000")]
    resource = AlterConfigsResource(resource_type=4, resource_name="1", configs=wanted)
    world.do(incremental_alter_configs, IncrementalAlterConfigsRequest(resources=[resource]))
    world.duty(move_replicas)
    begin(world, 1, BrokerAdminState.DECOMMISSIONED)
    world.duty(move_replicas)
    assert configs(world, 4, "")["leader.replication.throttled.rate"] == "5000"


def test_unregistered_before_its_time_a_broker_leaves_no_throttle() -> None:
    world = World()
    world.start(1, 2, 3)
    world.topic("a", (1, 2))
    throttled(world, 1, "5000")
    world.duty(move_replicas)
    world.do(unregister_broker, UnregisterBrokerRequest(broker_id=1))
    assert configs(world, 4, "1") == {} and "leader.replication.throttled.rate" not in configs(world, 4, "")
    assert world.partition("a").is_reassigning and configs(world, 2, "a") == {}, "what is on its way goes on without"


RATES = ("leader.replication.throttled.rate", "follower.replication.throttled.rate")


def configure(world: World, name: str, **values: str | None) -> None:
    """Set configs of a broker, or of all ("")."""
    wanted = [
        AlterableConfig(name=key.replace("_", "."), config_operation=DELETE if value is None else SET, value=value)
        for key, value in values.items()
    ]
    resource = AlterConfigsResource(resource_type=4, resource_name=name, configs=wanted)
    (row,) = world.do(incremental_alter_configs, IncrementalAlterConfigsRequest(resources=[resource])).responses
    assert row.error_code == ErrorCode.NONE, row.error_message


def rates(world: World) -> list[str | None]:
    """Return the cluster-wide rates."""
    return [configs(world, 4, "").get(key) for key in RATES]


def reassign(world: World, name: str, *replicas: int) -> None:
    """Have an operator reassign a partition."""
    row = ReassignablePartition(partition_index=0, replicas=list(replicas))
    request = AlterPartitionReassignmentsRequest(topics=[ReassignableTopic(name=name, partitions=[row])], timeout=1)
    assert world.do(alter_partition_reassignments, request).responses[0].partitions[0].error_code == 0


def arrived(world: World, name: str, partition_id: int = 0) -> None:
    """Let all replicas of a partition be in sync."""
    in_sync(world, name, *world.partition(name, partition_id).replicas, partition_id=partition_id)
    assert not world.partition(name, partition_id).is_reassigning


def test_an_operators_own_rate_is_not_taken_for_that_of_a_throttle_set_ahead() -> None:
    world = World()
    world.start(1, 2, 3)
    world.topic("a", (1, 2))
    configure(world, "", leader_replication_throttled_rate="777", follower_replication_throttled_rate="777")
    configure(world, "1", kvorum_decommission_throttle="5000")
    world.duty(move_replicas)
    assert configs(world, 4, "1") == {THROTTLE: "5000"} and rates(world) == ["777", "777"]
    begin(world, 1, BrokerAdminState.DECOMMISSIONED)
    assert rates(world) == ["777", "777"], "nothing moves yet"
    world.duty(move_replicas)
    assert rates(world) == ["5000", "5000"]


def test_an_operators_own_rate_stays_where_nothing_had_to_move() -> None:
    world = World()
    world.start(1, 2, 3)
    world.topic("a", (2, 3), leader_replication_throttled_replicas="0:2")
    configure(world, "", leader_replication_throttled_rate="777")
    throttled(world, 1, "5000")
    world.duty(move_replicas)
    assert configs(world, 4, "1") == {STATE_KEY: BrokerAdminState.DECOMMISSIONED} and rates(world) == ["777", None]


def test_a_throttle_set_ahead_outlives_the_departure_of_another_broker() -> None:
    world = World()
    world.start(1, 2, 3, 4)
    world.topic("a", (1, 2))
    world.topic("b", (2, 3))
    configure(world, "2", kvorum_decommission_throttle="9000")
    throttled(world, 1, "5000")
    world.duty(move_replicas)
    arrived(world, "a")
    world.duty(move_replicas)
    assert configs(world, 4, "1") == {STATE_KEY: BrokerAdminState.DECOMMISSIONED}
    assert configs(world, 4, "2") == {THROTTLE: "9000"} and rates(world) == [None, None]
    begin(world, 2, BrokerAdminState.DECOMMISSIONED)
    world.duty(move_replicas)
    assert rates(world) == ["9000", "9000"]


def test_the_rate_is_the_smallest_throttle_of_decommissioned_brokers() -> None:
    world = World()
    world.start(1, 2, 3, 4, 5)
    world.topic("a", (1, 3))
    world.topic("b", (2, 3))
    throttled(world, 1, "5000")
    world.duty(move_replicas)
    throttled(world, 2, "3000")
    assert rates(world) == ["3000", "3000"]
    world.duty(move_replicas)
    configure(world, "2", kvorum_decommission_throttle="9000")
    assert rates(world) == ["5000", "5000"]
    arrived(world, "a")
    world.duty(move_replicas)
    assert rates(world) == ["9000", "9000"] and configs(world, 2, "b") != {}
    reassign(world, "a", 3, 5)
    world.apply([Config(resource_type=2, resource_name="a", name=LEADERS, value="0:3")])
    configure(world, "2", kvorum_decommission_throttle=None)
    assert rates(world) == [None, None], "what moves goes on without"
    assert world.partition("b").is_reassigning and configs(world, 2, "b") == {}
    assert configs(world, 2, "a") == {LEADERS: "0:3"}, "an operator's own, on its way"


def test_a_throttle_set_while_its_broker_stays_applies_to_the_next_decommission() -> None:
    world = World()
    world.start(1, 2, 3)
    world.topic("a", (1, 2))
    throttled(world, 1, "5000")
    world.duty(move_replicas)
    configure(world, "1", kvorum_broker_state=None, kvorum_decommission_throttle="6000")
    assert configs(world, 4, "1") == {THROTTLE: "6000"} and rates(world) == [None, None]


def test_marks_of_completed_moves_are_removed_with_the_next_step(world: World) -> None:
    """Else each of a large topic's many steps writes all marks of all before it once more."""
    world.topic("a", *(((1, 2),) * 6))
    world.settings = replace(world.settings, decommission_partitions_max=2)
    throttled(world, 1, "5000")
    for first in (0, 2, 4):
        world.duty(move_replicas)
        moving = (first, first + 1)
        assert [each.partition(":")[0] for each in configs(world, 2, "a")[FOLLOWERS].split(",")] == [*map(str, moving)]
        assert configs(world, 2, "a")[LEADERS] == ",".join(f"{number}:{each}" for number in moving for each in (1, 2))
        for number in moving:
            arrived(world, "a", number)
    world.duty(move_replicas)
    assert configs(world, 2, "a") == {} and configs(world, 4, "1") == {STATE_KEY: BrokerAdminState.DECOMMISSIONED}
