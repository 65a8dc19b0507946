"""Heartbeats, sessions, fencing and controlled shutdown."""

import pytest

from kvorum.protocol.errors import ErrorCode
from kvorum.protocol.messages.broker_heartbeat import BrokerHeartbeatRequest
from kvorum.quorum.controller.heartbeats import BrokerHeartbeatManager
from kvorum.quorum.controller.liveness import fence_refused_broker, fence_stale_brokers, heartbeat
from tests.unit.quorum.controller.controller_kit import SESSION_MS, World, log_dir


def test_a_broker_is_unfenced_when_it_requests_and_has_taken_in_its_registration() -> None:
    world = World()
    epoch = world.register(1)
    behind = world.beat(1, current_metadata_offset=epoch - 1)
    assert behind.is_fenced and not behind.is_caught_up
    unwilling = world.beat(1, current_metadata_offset=epoch, want_fence=True)
    assert unwilling.is_fenced and unwilling.is_caught_up
    ready = world.beat(1, current_metadata_offset=epoch)
    assert not ready.is_fenced and ready.is_caught_up and not ready.should_shut_down
    assert world.image.cluster.is_active(1)


def test_a_heartbeat_of_another_incarnation_is_refused() -> None:
    world = World()
    request = BrokerHeartbeatRequest(broker_id=1, broker_epoch=0)
    assert world.refused(heartbeat, request) == ErrorCode.STALE_BROKER_EPOCH, "not registered"
    request.broker_epoch = world.register(1) - 1
    assert world.refused(heartbeat, request) == ErrorCode.STALE_BROKER_EPOCH
    request.broker_epoch += 2
    assert world.refused(heartbeat, request) == ErrorCode.STALE_BROKER_EPOCH


def test_a_heartbeat_that_changes_nothing_writes_nothing() -> None:
    world = World()
    world.start(1)
    offset = world.next_offset
    world.beat(1)
    assert world.next_offset == offset


def test_cordoned_directories_are_noted_once_and_have_to_be_the_brokers_own() -> None:
    world = World()
    world.start(1)
    world.beat(1, cordoned_log_dirs=[log_dir(1)])
    broker = world.image.cluster.broker(1)
    assert broker is not None and broker.cordoned_log_dirs == (log_dir(1),)
    offset = world.next_offset
    world.beat(1, cordoned_log_dirs=[log_dir(1)])
    world.beat(1, cordoned_log_dirs=None)
    assert world.next_offset == offset, "nothing new"
    request = BrokerHeartbeatRequest(broker_id=1, broker_epoch=broker.broker_epoch, cordoned_log_dirs=[log_dir(9)])
    assert world.refused(heartbeat, request) == ErrorCode.INVALID_REQUEST


def test_a_broker_that_requests_it_is_fenced() -> None:
    world = World()
    world.start(1, 2)
    world.topic("a", (1, 2))
    assert world.beat(1, want_fence=True).is_fenced
    assert world.partition("a").isr == (2,)


def test_silence_beyond_the_session_fences_the_longest_silent_first_one_a_decision() -> None:
    world = World()
    world.start(1, 2, 3)
    world.topic("a", (2, 1, 3))
    world.now_ms += 10
    world.beat(3)
    world.beat(1)
    world.now_ms += SESSION_MS - 10
    assert world.duty(fence_stale_brokers) == []
    assert world.heartbeats.next_check_ms(world.image.cluster, world.now_ms) == world.now_ms + 1
    world.now_ms += 11
    assert world.duty(fence_stale_brokers) == [2]
    assert world.partition("a").leader == 1
    assert world.duty(fence_stale_brokers) == [1]
    assert world.duty(fence_stale_brokers) == [3]
    assert world.duty(fence_stale_brokers) == []
    assert world.state("a") == (-1, (), (3,), (3,))
    assert world.heartbeats.next_check_ms(world.image.cluster, world.now_ms) is None


def test_a_new_active_controller_gives_all_a_fresh_session() -> None:
    world = World()
    world.start(1, 2)
    world.now_ms += 100 * SESSION_MS
    world.heartbeats = BrokerHeartbeatManager(SESSION_MS)
    world.heartbeats.activate(world.image.cluster, world.now_ms)
    assert world.duty(fence_stale_brokers) == []
    world.now_ms += SESSION_MS + 1
    world.beat(2)
    assert world.duty(fence_stale_brokers) == [1]
    assert world.duty(fence_stale_brokers) == []


def test_a_refused_connection_fences_the_incarnation_it_is_about_and_a_heartbeat_unfences() -> None:
    world = World()
    world.start(1, 2)
    world.topic("a", (1, 2))
    epoch = world.epoch_of(1)
    assert not world.duty(lambda context: fence_refused_broker(context, 1, epoch - 1))
    assert not world.duty(lambda context: fence_refused_broker(context, 7, epoch))
    assert world.duty(lambda context: fence_refused_broker(context, 1, epoch))
    assert world.partition("a").leader == 2 and world.partition("a").isr == (2,)
    assert not world.duty(lambda context: fence_refused_broker(context, 1, epoch)), "fenced already"
    assert not world.beat(1).is_fenced
    assert world.partition("a").leader == 2


def test_fencing_takes_the_next_leader_from_the_isr_in_the_order_of_the_replicas() -> None:
    world = World()
    world.start(1, 2, 3, 4)
    world.topic("a", (3, 4, 1, 2))
    world.fence(4, 3)
    partition = world.partition("a")
    assert partition.leader == 1 and partition.isr == (1, 2)
    assert (partition.leader_epoch, partition.partition_epoch) == (1, 2), "an ISR that shrinks is no new leader epoch"


@pytest.mark.parametrize("elr", [0, 1])
def test_after_all_isr_members_fail_only_the_last_one_restores_the_partition(elr: int) -> None:
    world = World(elr=elr)
    world.start(1, 2, 3)
    world.topic("a", (1, 2, 3))
    world.fence(1, 2, 3)
    assert world.state("a") == ((-1, (), (3,), (3,)) if elr else (-1, (3,), (), ()))
    world.beat(1)
    world.beat(2)
    assert world.partition("a").leader == -1
    world.beat(3)
    assert world.state("a") == (3, (3,), (), ()) and not world.partition("a").recovering


@pytest.mark.parametrize("elr", [0, 1])
def test_with_unclean_election_on_a_replica_out_of_sync_leads_at_once(elr: int) -> None:
    world = World(elr=elr)
    world.start(1, 2)
    world.topic("a", (1, 2), unclean_leader_election_enable="true")
    world.fence(2, 1)
    assert world.state("a") == ((-1, (), (1,), (1,)) if elr else (-1, (1,), (), ()))
    world.beat(2)
    assert world.state("a") == (2, (2,), (), ()) and world.partition("a").recovering


def test_a_fenced_broker_may_shut_down_at_once() -> None:
    world = World()
    world.register(1)
    answer = world.beat(1, want_shut_down=True)
    assert answer.should_shut_down and answer.is_fenced


def test_a_broker_without_leaderships_and_pending_isr_changes_may_shut_down_at_once() -> None:
    world = World()
    world.start(1, 2)
    world.topic("a", (2, 1))
    answer = world.beat(1, want_shut_down=True)
    assert answer.should_shut_down
    assert world.partition("a").isr == (2,) and not world.image.cluster.is_unfenced(1)


def test_want_fence_and_want_shut_down_together_are_granted_at_once() -> None:
    world = World()
    world.start(1, 2)
    world.topic("a", (1, 2))
    answer = world.beat(1, want_fence=True, want_shut_down=True)
    assert answer.should_shut_down and answer.is_fenced
    assert world.partition("a").leader == 2


def test_controlled_shutdown_moves_leaderships_and_ends_when_all_brokers_know() -> None:
    world = World()
    world.start(1, 2, 3)
    world.topic("a", (1, 2, 3))
    answer = world.beat(1, want_shut_down=True)
    assert not answer.should_shut_down and not answer.is_fenced
    offset = world.next_offset - 1
    broker = world.image.cluster.broker(1)
    assert broker is not None and broker.in_controlled_shutdown and not broker.fenced
    assert world.partition("a").leader == 2 and world.partition("a").isr == (2, 3)
    world.beat(2)
    world.beat(3, current_metadata_offset=offset - 1)
    assert not world.beat(1, want_shut_down=True).should_shut_down, "broker 3 does not know yet"
    world.beat(3, current_metadata_offset=offset)
    answer = world.beat(1, want_shut_down=True)
    assert answer.should_shut_down and answer.is_fenced
    assert world.beat(1, want_shut_down=True).should_shut_down, "asked again, because the answer was lost"
    world.start(1)
    assert world.image.cluster.is_active(1), "its next incarnation is as good as new"


def test_a_controlled_shutdown_continues_under_a_new_controller() -> None:
    world = World()
    world.start(1, 2)
    world.topic("a", (1, 2))
    world.beat(1, want_shut_down=True)
    world.heartbeats = BrokerHeartbeatManager(SESSION_MS)
    world.heartbeats.activate(world.image.cluster, world.now_ms)
    assert not world.beat(1, want_shut_down=True).should_shut_down, "broker 2 has not been heard of"
    world.beat(2)
    assert world.beat(1, want_shut_down=True).should_shut_down


@pytest.mark.parametrize("elr", [0, 1])
def test_a_broker_that_has_the_only_replica_shuts_down_all_the_same(elr: int) -> None:
    world = World(elr=elr)
    world.start(1, 2)
    world.topic("a", (1,))
    assert not world.beat(1, want_shut_down=True).should_shut_down
    assert world.state("a") == ((-1, (), (1,), (1,)) if elr else (-1, (1,), (), ()))
    world.beat(2)
    assert world.beat(1, want_shut_down=True).should_shut_down


def test_a_shutdown_waits_while_an_isr_would_fall_below_its_minimum_and_can_still_grow() -> None:
    world = World()
    world.start(1, 2, 3)
    world.topic("a", (1, 2, 3), min_insync_replicas="2")
    world.fence(3)
    world.beat(3)
    assert world.partition("a").isr == (1, 2), "broker 3 is back and not yet in sync"
    for _ in range(3):
        answer = world.beat(1, want_shut_down=True)
        assert not answer.should_shut_down and not answer.is_fenced
        assert world.image.cluster.is_active(1) and world.partition("a").isr == (1, 2)
    world.now_ms += world.settings.shutdown_wait_ms_max - 1
    world.beat(1, want_shut_down=True)
    assert world.partition("a").isr == (1, 2)
    world.now_ms += 1
    world.beat(1, want_shut_down=True)
    assert world.partition("a").isr == (2,), "it has waited long enough"


@pytest.mark.parametrize("min_isr", ["1", "2", "3"])
def test_a_shutdown_does_not_wait_for_replicas_that_are_gone(min_isr: str) -> None:
    world = World()
    world.start(1, 2, 3)
    world.topic("a", (1, 2, 3), min_insync_replicas=min_isr)
    world.fence(3)
    world.beat(1, want_shut_down=True)
    assert world.partition("a").isr == (2,)


def test_a_broker_that_changes_its_mind_waits_again_the_next_time() -> None:
    world = World()
    world.start(1, 2, 3)
    world.topic("a", (1, 2, 3), min_insync_replicas="2")
    world.fence(3)
    world.beat(3)
    world.beat(1, want_shut_down=True)
    world.now_ms += world.settings.shutdown_wait_ms_max
    for broker_id in (1, 2, 3):
        world.beat(broker_id)
    world.beat(1, want_shut_down=True)
    assert world.partition("a").isr == (1, 2)


def test_replicas_in_a_log_directory_that_went_offline_leave_isr_and_leadership() -> None:
    world = World()
    world.start(1, 2)
    world.topic("a", (1, 2))
    world.beat(1, offline_log_dirs=[log_dir(2)])
    assert world.partition("a").isr == (1, 2), "not a directory of this broker"
    world.beat(1, offline_log_dirs=[log_dir(1)])
    assert world.partition("a").isr == (2,) and world.partition("a").leader == 2
    broker = world.image.cluster.broker(1)
    assert broker is not None and broker.log_dirs == () and not broker.fenced
    offset = world.next_offset
    world.beat(1, offline_log_dirs=[log_dir(1)])
    assert world.next_offset == offset
