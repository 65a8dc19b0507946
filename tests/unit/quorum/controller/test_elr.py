"""Eligible leader replicas (KIP-966): who is in the ELR, who leads from it, what a lost page cache or disk undoes."""

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import precondition, rule

from kvorum.protocol.errors import ErrorCode, KafkaError
from kvorum.protocol.messages import alter_configs as legacy
from kvorum.protocol.messages.alter_partition import (
    AlterPartitionRequest,
    BrokerState,
    RequestPartitionData,
    RequestTopicData,
)
from kvorum.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from kvorum.protocol.messages.unregister_broker import UnregisterBrokerRequest
from kvorum.protocol.messages.update_features import FeatureUpdateKey, UpdateFeaturesRequest
from kvorum.quorum.controller.alter_partition import alter_partition
from kvorum.quorum.controller.configs_control import alter_configs, incremental_alter_configs
from kvorum.quorum.controller.features import update_features
from kvorum.quorum.controller.registration import unregister_broker
from kvorum.quorum.image.partition import PartitionRegistration
from tests.unit.quorum.controller.controller_kit import World, log_dir
from tests.unit.quorum.controller.test_random_histories import BROKERS, Histories

FEATURE = "eligible.leader.replicas.version"
UPGRADE, SAFE_DOWNGRADE = 1, 2
SET, DELETE = 0, 1
BROKER_LEVEL = "Broker-level min.insync.replicas cannot be altered while ELR is enabled."
CLUSTER_LEVEL = "Cluster-level min.insync.replicas cannot be removed while ELR is enabled."


def world(min_isr: int = 2, **settings: object) -> World:
    """Return three brokers with one partition on them, and ELR on."""
    found = World(min_isr=min_isr, **settings)
    found.start(1, 2, 3)
    found.topic("t", (1, 2, 3))
    return found


def come_back(of: World, broker_id: int, *, clean: bool = False, lost: bool = False) -> None:
    """Register a new incarnation and unfence it."""
    previous = of.epoch_of(broker_id) if clean else -1
    of.register(broker_id, previous_broker_epoch=previous, log_dirs=[log_dir(broker_id, 1 if lost else 0)])
    of.beat(broker_id)


def state(partition: PartitionRegistration) -> tuple[int, tuple[int, ...], tuple[int, ...], tuple[int, ...]]:
    """Return leader, ISR, ELR and last known leader."""
    return partition.leader, partition.isr, partition.elr, partition.last_known_elr


def min_isr_request(resource: tuple[int, str], value: str | None) -> IncrementalAlterConfigsRequest:
    """Ask to set or remove min.insync.replicas."""
    config = AlterableConfig(
        name="min.insync.replicas", config_operation=SET if value is not None else DELETE, value=value
    )
    change = AlterConfigsResource(resource_type=resource[0], resource_name=resource[1], configs=[config])
    return IncrementalAlterConfigsRequest(resources=[change])


def set_min_isr(of: World, resource: tuple[int, str], value: str | None) -> int:
    """Set or remove min.insync.replicas; return the error code."""
    return of.do(incremental_alter_configs, min_isr_request(resource, value)).responses[0].error_code


def replace_all(of: World, broker: str, *configs: tuple[str, str]) -> tuple[int, str | None]:
    """Leave a broker (all of them: "") with these configs alone; return error code and message."""
    wanted = [legacy.AlterableConfig(name=name, value=value) for name, value in configs]
    change = legacy.AlterConfigsResource(resource_type=4, resource_name=broker, configs=wanted)
    answer = of.do(alter_configs, legacy.AlterConfigsRequest(resources=[change])).responses[0]
    return answer.error_code, answer.error_message


def switch(of: World, level: int) -> None:
    """Set the feature's level."""
    update = FeatureUpdateKey(
        feature=FEATURE, max_version_level=level, upgrade_type=UPGRADE if level else SAFE_DOWNGRADE
    )
    of.do(update_features, UpdateFeaturesRequest(feature_updates=[update], validate_only=False))


def test_a_replica_that_leaves_a_large_isr_is_not_eligible() -> None:
    cluster = world()
    cluster.fence(1)
    assert state(cluster.partition("t")) == (2, (2, 3), (), ())


def test_a_replica_that_leaves_an_isr_below_its_minimum_is_eligible_and_leads_as_the_last_one() -> None:
    cluster = world()
    cluster.fence(1, 2)
    assert state(cluster.partition("t")) == (3, (3,), (2,), ())
    cluster.fence(3)
    assert state(cluster.partition("t")) == (-1, (), (2, 3), (3,))
    cluster.beat(2)
    partition = cluster.partition("t")
    assert state(partition) == (2, (2,), (3,), ())
    assert not partition.recovering, "elected cleanly"
    cluster.beat(1)
    assert state(cluster.partition("t")) == (2, (2,), (3,), ()), "1 was not eligible and has to catch up"


def test_a_clean_shutdown_keeps_a_replica_eligible_an_unclean_one_does_not() -> None:
    for clean in (True, False):
        cluster = world()
        cluster.fence(1, 2, 3)
        assert state(cluster.partition("t")) == (-1, (), (2, 3), (3,))
        come_back(cluster, 2, clean=clean)
        expected = (2, (2,), (3,), ()) if clean else (-1, (), (3,), (3,))
        assert state(cluster.partition("t")) == expected


def test_the_last_replica_standing_that_lost_its_page_cache_gives_way_to_one_that_shut_down_cleanly() -> None:
    cluster = world()
    cluster.fence(1, 2)
    cluster.fence(3)
    come_back(cluster, 3)
    assert state(cluster.partition("t")) == (-1, (), (2,), (3,)), "3 may have lost its tail; 2 has it all"
    come_back(cluster, 2, clean=True)
    assert state(cluster.partition("t")) == (2, (2,), (), ())


def test_without_eligible_replicas_the_last_leader_is_awaited_and_elected_uncleanly() -> None:
    cluster = world()
    cluster.fence(1, 2, 3)
    come_back(cluster, 1)
    come_back(cluster, 2)
    assert state(cluster.partition("t")) == (-1, (), (3,), (3,))
    come_back(cluster, 3)
    partition = cluster.partition("t")
    assert state(partition) == (3, (3,), (), ())
    assert partition.recovering


def test_a_last_leader_whose_disk_is_gone_is_not_elected() -> None:
    cluster = world()
    cluster.fence(1, 2, 3)
    come_back(cluster, 1)
    come_back(cluster, 2)
    come_back(cluster, 3, lost=True)
    assert state(cluster.partition("t")) == (-1, (), (), (3,)), "what it had may yet come back"
    cluster.assign("t", 3, log_dir(3, 1))
    assert state(cluster.partition("t")) == (-1, (), (), ())


def test_a_broker_that_registers_after_an_unregistration_is_not_eligible() -> None:
    cluster = world()
    cluster.fence(1, 2, 3)
    cluster.do(unregister_broker, UnregisterBrokerRequest(broker_id=2))
    assert cluster.partition("t").elr == (2, 3)
    cluster.register(2, log_dirs=[log_dir(2, 1)])
    cluster.beat(2)
    assert state(cluster.partition("t")) == (-1, (), (3,), (3,))


def test_a_disk_lost_while_in_the_isr_counts_for_nothing_either() -> None:
    cluster = world(min_isr=1)
    cluster.fence(1, 2)
    assert state(cluster.partition("t")) == (3, (3,), (), ())
    cluster.now_ms += 1_000_000  # its session is over, though nobody has fenced it yet
    come_back(cluster, 3, lost=True)
    assert state(cluster.partition("t")) == (-1, (), (), (3,)), "what it had may yet come back"
    cluster.assign("t", 3, log_dir(3, 1))
    assert state(cluster.partition("t")) == (-1, (), (), ())


def test_an_isr_that_is_large_enough_again_ends_the_elr() -> None:
    cluster = world()
    cluster.fence(1, 2)
    cluster.beat(1)
    partition = cluster.partition("t")
    assert state(partition) == (3, (3,), (2,), ())
    data = RequestPartitionData(
        partition_index=0,
        leader_epoch=partition.leader_epoch,
        partition_epoch=partition.partition_epoch,
        new_isr_with_epochs=[BrokerState(broker_id=3), BrokerState(broker_id=1)],
    )
    topic = cluster.image.topics.topic("t")
    assert topic is not None
    request = AlterPartitionRequest(
        broker_id=3,
        broker_epoch=cluster.epoch_of(3),
        topics=[RequestTopicData(topic_id=topic.topic_id, partitions=[data])],
    )
    answer = cluster.do(alter_partition, request).topics[0].partitions[0]
    assert answer.error_code == ErrorCode.NONE
    assert state(cluster.partition("t")) == (3, (3, 1), (), ())


@pytest.mark.parametrize("resource", [(2, "t"), (4, "")])
def test_a_smaller_minimum_ends_the_elr_in_the_same_change(resource: tuple[int, str]) -> None:
    cluster = world()
    cluster.fence(1, 2)
    assert cluster.partition("t").elr == (2,)
    assert set_min_isr(cluster, resource, "1") == ErrorCode.NONE
    assert cluster.partition("t").elr == ()


@pytest.mark.parametrize(
    ("resource", "value", "refusal"),
    [
        ((4, "1"), "1", BROKER_LEVEL),
        ((4, "1"), None, BROKER_LEVEL),
        ((4, "1"), "none", BROKER_LEVEL),
        ((4, "99"), "1", BROKER_LEVEL),
        ((4, "100"), "1", BROKER_LEVEL),
        ((4, ""), None, CLUSTER_LEVEL),
        ((4, ""), "1", None),
        ((4, ""), "3", None),
        ((2, "t"), "1", None),
        ((2, "t"), None, None),
    ],
)
def test_leaders_and_controller_cannot_be_made_to_disagree_on_the_minimum(
    resource: tuple[int, str], value: str | None, refusal: str | None
) -> None:
    """As Kafka's ConfigurationControlManager, before it looks at the value or whether there is such a broker."""
    cluster = world()
    offset = cluster.next_offset
    answer = cluster.do(incremental_alter_configs, min_isr_request(resource, value)).responses[0]
    if refusal is None:
        assert answer.error_code == ErrorCode.NONE
        assert cluster.image.configs.of(*resource).get("min.insync.replicas") == value
    else:
        assert (answer.error_code, answer.error_message) == (ErrorCode.INVALID_CONFIG, refusal)
        assert cluster.next_offset == offset


def test_the_legacy_request_cannot_drop_the_clusters_minimum_by_leaving_it_out() -> None:
    cluster = world()
    assert replace_all(cluster, "", ("log.cleaner.threads", "2")) == (ErrorCode.INVALID_CONFIG, CLUSTER_LEVEL)
    assert replace_all(cluster, "") == (ErrorCode.INVALID_CONFIG, CLUSTER_LEVEL)
    assert replace_all(cluster, "1", ("min.insync.replicas", "2")) == (ErrorCode.INVALID_CONFIG, BROKER_LEVEL)
    assert replace_all(cluster, "", ("log.cleaner.threads", "2"), ("min.insync.replicas", "3")) == (0, None)
    assert replace_all(cluster, "1", ("log.cleaner.threads", "2")) == (0, None)


def test_switched_off_the_minimum_is_a_config_like_any_other() -> None:
    cluster = world()
    switch(cluster, 0)
    assert cluster.image.configs.of(4, "")["min.insync.replicas"] == "2", "it stays what it was"
    assert set_min_isr(cluster, (4, "1"), "1") == set_min_isr(cluster, (4, ""), None) == ErrorCode.NONE
    assert replace_all(cluster, "1") == (0, None)


def test_switching_it_on_sets_the_minimum_for_the_whole_cluster() -> None:
    cluster = World(elr=0, static={"min.insync.replicas": "2"})
    cluster.start(1, 2, 3)
    assert set_min_isr(cluster, (4, "1"), "3") == ErrorCode.NONE
    switch(cluster, 1)
    assert cluster.image.configs.of(4, "")["min.insync.replicas"] == "2"
    assert "min.insync.replicas" not in cluster.image.configs.of(4, "1")


def test_without_elr_eligible_replicas_rejoin_the_isr() -> None:
    cluster = world()
    cluster.fence(1, 2, 3)
    assert state(cluster.partition("t")) == (-1, (), (2, 3), (3,))
    switch(cluster, 0)
    partition = cluster.partition("t")
    assert (partition.elr, partition.last_known_elr) == ((), ())
    assert partition.isr == (2,) or partition.isr == (3,)
    cluster.beat(partition.isr[0])
    assert cluster.partition("t").leader == partition.isr[0]


class EligibleHistories(Histories):
    """Random histories with ELR on."""

    ELR = 1

    @precondition(lambda self: self.world.image.cluster.brokers)
    @rule(broker_id=BROKERS, clean=st.booleans(), lost=st.sampled_from([False, False, True]))
    def come_back(self, broker_id: int, clean: bool, lost: bool) -> None:
        if self.world.image.cluster.broker(broker_id) is None:
            return
        try:
            come_back(self.world, broker_id, clean=clean and not lost, lost=lost)
        except KafkaError as error:
            assert error.code == ErrorCode.DUPLICATE_BROKER_REGISTRATION


TestEligibleHistories = EligibleHistories.TestCase
TestEligibleHistories.settings = settings(max_examples=200, stateful_step_count=50, deadline=None)
