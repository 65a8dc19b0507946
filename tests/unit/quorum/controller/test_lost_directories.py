"""A log directory that fails, is replaced or taken out of log.dirs: nobody leads by what lay there (KIP-858, KIP-966).

A replica is its log. Broker 3 has the directories A and B, the partition's log lies in A, and 3 is the last in sync.
"""

import pytest

from kvorum.protocol.messages.alter_partition import (
    AlterPartitionRequest,
    BrokerState,
    RequestPartitionData,
    RequestTopicData,
)
from kvorum.protocol.messages.unregister_broker import UnregisterBrokerRequest
from kvorum.protocol.messages.update_features import FeatureUpdateKey, UpdateFeaturesRequest
from kvorum.protocol.uuids import Uuid
from kvorum.quorum.controller.alter_partition import alter_partition
from kvorum.quorum.controller.features import update_features
from kvorum.quorum.controller.liveness import fence_refused_broker
from kvorum.quorum.controller.registration import unregister_broker
from kvorum.quorum.image.cluster import BrokerRegistration
from kvorum.quorum.image.partition import LOST_DIRECTORY, UNASSIGNED_DIRECTORY
from tests.unit.quorum.controller.controller_kit import World, log_dir

A, B, FRESH = log_dir(3, 0), log_dir(3, 1), log_dir(3, 2)


def world(*, min_isr: int = 2, elr: int = 1) -> World:
    """Three brokers that have a partition; that of 3 lies in A."""
    found = World(min_isr=min_isr, elr=elr)
    found.start(1, 2)
    found.register(3, log_dirs=[A, B])
    found.beat(3)
    found.topic("t", (3, 1, 2))
    assign(found, A)
    return found


def assign(of: World, directory: Uuid) -> None:
    """Have broker 3 say where its replica lies."""
    of.assign("t", 3, directory)


def die(of: World, *broker_ids: int) -> None:
    """Fence brokers whose processes are gone."""
    for broker_id in broker_ids:
        epoch = of.epoch_of(broker_id)
        assert of.duty(lambda context, who=broker_id, epoch=epoch: fence_refused_broker(context, who, epoch))  # type: ignore[misc]  # bound now


def stop(of: World) -> int:
    """Have broker 3 shut down in order; return the epoch that its clean mark names."""
    epoch = of.epoch_of(3)
    for _ in range(4):
        if of.beat(3, want_shut_down=True).should_shut_down:
            return epoch
    raise AssertionError("it may not go")


def come_back(of: World, *directories: Uuid, clean: int = -1) -> None:
    """Register 3 with these directories, and unfence it."""
    of.register(3, log_dirs=list(directories), previous_broker_epoch=clean)
    of.beat(3)


def join_isr(of: World, leader: int, *members: int) -> None:
    """Have a leader ask for an ISR."""
    topic, partition = of.image.topics.topic("t"), of.partition("t")
    assert topic is not None
    row = RequestPartitionData(
        partition_index=0,
        leader_epoch=partition.leader_epoch,
        partition_epoch=partition.partition_epoch,
        new_isr_with_epochs=[BrokerState(broker_id=each, broker_epoch=of.epoch_of(each)) for each in members],
    )
    rows = [RequestTopicData(topic_id=topic.topic_id, partitions=[row])]
    request = AlterPartitionRequest(broker_id=leader, broker_epoch=of.epoch_of(leader), topics=rows)
    of.do(alter_partition, request)
    assert set(of.partition("t").isr) == set(members)


@pytest.mark.parametrize("fails_first", [False, True])
def test_a_directory_removed_after_a_clean_stop_makes_no_replica_eligible(fails_first: bool) -> None:
    of = world()
    die(of, 1, 2)
    assert of.state("t") == (3, (3,), (2,), ())
    if fails_first:
        of.beat(3, offline_log_dirs=[A])
        assert of.state("t") == (-1, (), (2, 3), (3,))
    come_back(of, B, clean=stop(of))
    assert of.state("t") == (-1, (), (2,), (3,)), "what was in A does not come back with B"
    assign(of, B)
    assert of.state("t") == (-1, (), (2,), ()), "the log in B is another one"
    of.register(2, previous_broker_epoch=of.epoch_of(2))
    of.beat(2)
    assert of.state("t")[:2] == (2, (2,)), "2 has all, and leads"


def test_a_clean_stop_keeps_a_replica_eligible_whose_directory_exists() -> None:
    of = world()
    die(of, 1, 2)
    come_back(of, A, clean=stop(of))
    assert of.state("t") == (3, (3,), (2,), ()), "B was taken out, and is no matter of this replica's"


@pytest.mark.parametrize("reported", [False, True], ids=["not told", "told by a heartbeat"])
@pytest.mark.parametrize("directories", [(FRESH, B), (B,)], ids=["replaced", "taken out"])
def test_the_last_leader_is_not_elected_with_another_log(reported: bool, directories: tuple[Uuid, ...]) -> None:
    of = world(min_isr=1)
    die(of, 1, 2)
    assert of.state("t") == (3, (3,), (), ())
    if reported:
        of.beat(3, offline_log_dirs=[A])
    die(of, 3)
    come_back(of, *directories)
    assert of.state("t")[0] == -1
    assign(of, B)
    assert of.state("t") == (-1, (), (), ()), "1 and 2 would cut their logs to nothing"


@pytest.mark.parametrize("reported", [False, True], ids=["not told", "told by a heartbeat"])
def test_the_last_leader_is_waited_for_until_its_directory_is_back(reported: bool) -> None:
    of = world(min_isr=1)
    die(of, 1, 2)
    if reported:
        of.beat(3, offline_log_dirs=[A])
    die(of, 3)
    come_back(of, B)
    assert of.state("t") == (-1, (), (), (3,)), "A may yet come back"
    die(of, 3)
    come_back(of, A, B)
    assert of.state("t") == (3, (3,), (), ())


@pytest.mark.parametrize("reported", [False, True], ids=["not told", "told by a heartbeat"])
def test_the_loss_of_one_directory_costs_nothing_of_the_others(reported: bool) -> None:
    of = world(min_isr=1)
    assign(of, B)
    die(of, 1, 2)
    if reported:
        of.beat(3, offline_log_dirs=[A])
    die(of, 3)
    come_back(of, FRESH, B)
    assert of.state("t") == (3, (3,), (), ())


def test_a_broker_that_was_unregistered_does_not_lead_with_another_log() -> None:
    of = world(min_isr=1)
    die(of, 1, 2, 3)
    of.do(unregister_broker, UnregisterBrokerRequest(broker_id=3))
    come_back(of, log_dir(3, 5), log_dir(3, 6))
    assert of.state("t") == (-1, (), (), (3,))
    assign(of, log_dir(3, 5))
    assert of.state("t") == (-1, (), (), ())


def test_a_replica_reported_as_lost_is_not_eligible() -> None:
    """It found no log in the directory that the metadata name, though that one works."""
    of = world(min_isr=1)
    die(of, 1, 2, 3)
    of.register(3, log_dirs=[A, B])
    assert of.state("t") == (-1, (), (), (3,))
    assign(of, LOST_DIRECTORY)
    of.beat(3)
    assert of.state("t") == (-1, (), (), ())
    assert of.partition("t").directory(3) == LOST_DIRECTORY


def test_a_lost_replica_leaves_isr_and_leadership() -> None:
    of = world()
    assert of.state("t")[0] == 3
    assign(of, LOST_DIRECTORY)
    assert of.state("t") == (1, (1, 2), (), ())
    die(of, 2)
    assert of.state("t") == (1, (1,), (2,), ())


def test_a_lost_last_replica_is_not_eligible() -> None:
    of = world()
    die(of, 1, 2)
    assign(of, LOST_DIRECTORY)
    assert of.state("t") == (-1, (), (2,), ())


def test_a_replica_that_joined_with_a_new_log_leads_once_its_directory_is_known() -> None:
    """What it says of its directory is late: by then the others have gone, and its new log has all."""
    of = world()
    die(of, 3)
    come_back(of, B)
    join_isr(of, 1, 1, 2, 3)
    die(of, 2, 1)
    assert of.state("t")[:2] == (-1, (3,)), "where its log lies is not known yet"
    assign(of, B)
    assert of.state("t")[:2] == (3, (3,))


def test_a_replica_that_left_before_its_directory_is_known_stays_eligible() -> None:
    of = world()
    die(of, 3)
    come_back(of, B)
    join_isr(of, 1, 1, 2, 3)
    die(of, 2, 1)
    of.beat(3, want_fence=True)
    assert of.state("t")[2] == (1, 3)
    assign(of, B)
    of.beat(3)
    assert of.state("t")[:2] == (3, (3,))


def test_a_move_between_directories_that_work_costs_nothing() -> None:
    of = world(min_isr=1)
    die(of, 1, 2)
    die(of, 3)
    come_back(of, A, B)
    assign(of, B)
    assert of.state("t") == (3, (3,), (), ())
    of = world()
    die(of, 1, 2)
    come_back(of, A, B, clean=stop(of))
    assign(of, B)
    assert of.state("t") == (3, (3,), (2,), ())


def test_a_directory_that_is_reported_for_the_first_time_costs_nothing() -> None:
    of = unassigned()
    die(of, 1, 2)
    come_back(of, A, B, clean=stop(of))
    assign(of, B)
    assert of.state("t") == (3, (3,), (2,), ())


@pytest.mark.parametrize("clean", [False, True])
@pytest.mark.parametrize("reported", [False, True], ids=["not told", "told by a heartbeat"])
def test_a_replica_in_an_unknown_directory_may_have_been_in_any(reported: bool, clean: bool) -> None:
    of = unassigned()
    die(of, 1, 2)
    if reported:
        of.beat(3, offline_log_dirs=[A])
    epoch = of.epoch_of(3)
    if clean:
        stop(of)
    else:
        die(of, 3)
    come_back(of, B, clean=epoch if clean else -1)
    assert of.state("t") == (-1, (), (2,), ())


def test_failed_directories_are_restored_from_a_snapshot_and_a_registration() -> None:
    of = unassigned()
    of.beat(3, offline_log_dirs=[A])
    broker = of.image.cluster.broker(3)
    assert broker is not None and (broker.log_dirs, broker.failed_log_dirs) == ((B,), (A,))
    assert BrokerRegistration.from_record(broker.to_record()) == broker
    for named in ([B], [A, B]):  # what is online, or what was at its start: within one life A does not come back
        of.register(3, log_dirs=named, incarnation_id=broker.incarnation_id)
        assert of.image.cluster.broker(3) == broker
    die(of, 3)
    come_back(of, A, B)
    broker = of.image.cluster.broker(3)
    assert broker is not None and (broker.log_dirs, broker.failed_log_dirs) == ((A, B), ())


def unassigned() -> World:
    """Broker 3 has not said yet where its replica lies."""
    of = World(min_isr=2)
    of.start(1, 2)
    of.register(3, log_dirs=[A, B])
    of.beat(3)
    of.topic("t", (3, 1, 2))
    assert of.partition("t").directory(3) == UNASSIGNED_DIRECTORY
    return of


def test_without_eligible_replicas_the_last_isr_member_leads_with_its_remaining_log() -> None:
    of = world(elr=0)
    die(of, 1, 2, 3)
    come_back(of, B)
    assert of.state("t") == (-1, (3,), (), ())
    assign(of, B)
    assert of.state("t") == (3, (3,), (), ())


def test_without_elr_a_replica_with_its_log_is_preferred() -> None:
    of = world()
    die(of, 1, 2)
    of.beat(3, offline_log_dirs=[A])
    assert of.state("t") == (-1, (), (2, 3), (3,))
    update = FeatureUpdateKey(feature="eligible.leader.replicas.version", max_version_level=0, upgrade_type=2)
    of.do(update_features, UpdateFeaturesRequest(feature_updates=[update], validate_only=False))
    assert of.state("t") == (-1, (2,), (), ()), "3 was the last leader, and its disk has failed"
