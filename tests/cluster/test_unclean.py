"""Acceptance 5: all of an ISR dies, with unclean leader election off and on."""

from collections.abc import Iterable

import pytest
from confluent_kafka import ElectionType, TopicPartition
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource

from kvorum.cluster.local import LocalCluster
from kvorum.protocol.errors import ErrorCode
from tests.cluster.clients import (
    Sender,
    assert_all_there_once_in_order,
    create_topic,
    eventually,
    isr_of,
    leader_of,
    read_all,
)
from tests.cluster.conftest import Start
from tests.cluster.nodes import addresses, name_of, restart, wait_for_equal_logs
from tests.cluster.topics import produce_code, topics_at

pytestmark = pytest.mark.cluster
SETTINGS = ("replica.lag.time.max.ms=2000", "unclean.leader.election.interval.ms=1000")
BOTH = 100
"""Records that both replicas have."""
ALONE = 50
"""Records that only the last of the ISR has."""


def lose_the_isr(cluster: LocalCluster, topic: str) -> tuple[Sender, int, int]:
    """Have the ISR shrink to the leader, which then dies, while the follower lives again without the last records.

    Returns who sent the records, the dead leader and the living follower.
    """
    bootstrap = cluster.plan.bootstrap
    create_topic(bootstrap, topic, 1, 2, min_insync_replicas="1")
    leader = leader_of(bootstrap, topic, 0)
    (follower,) = (each for each in isr_of(bootstrap, topic, 0) if each != leader)
    sender = Sender(bootstrap, topic)
    sender.send(BOTH)
    sender.flush_acked(BOTH)
    cluster.kill(name_of(cluster, follower))
    eventually(lambda: isr_of(bootstrap, topic, 0) == [leader], "the ISR without the dead follower")
    sender.send(ALONE)
    sender.flush_acked(BOTH + ALONE)
    cluster.kill(name_of(cluster, leader))
    restart(cluster, name_of(cluster, follower))
    assert_offline_and_refused(cluster, topic, leader)
    return sender, leader, follower


def assert_offline_and_refused(cluster: LocalCluster, topic: str, leader: int) -> None:
    """Every living broker, replica or not, knows of no leader and takes no record."""
    living = {name: at for name, at in addresses(cluster).items() if cluster.processes(name)}
    assert len(living) == 2
    for name, address in living.items():

        def is_offline(address: str = address) -> bool:
            (row,) = topics_at(address, topic)[topic].partitions
            return row.leader_id == -1

        eventually(is_offline, f"a partition without a leader at {name}")
        (row,) = topics_at(address, topic)[topic].partitions
        assert row.error_code == ErrorCode.LEADER_NOT_AVAILABLE, name
        assert row.isr_nodes == row.offline_replicas == [leader], name
        for acks in (1, -1):
            assert produce_code(address, topic, acks) == ErrorCode.NOT_LEADER_OR_FOLLOWER, (name, acks)


def numbered(values: Iterable[int]) -> list[bytes]:
    """Return what a Sender sends under these numbers."""
    return [b"%08d" % value for value in values]


@pytest.mark.parametrize("how", ["topic config", "explicit request"])
def test_with_unclean_election_on_who_lives_leads_and_loss_is_above_its_end_only(
    start_cluster: Start, how: str
) -> None:
    cluster = start_cluster("three-nodes.yaml", *SETTINGS)
    bootstrap = cluster.plan.bootstrap
    _, leader, follower = lose_the_isr(cluster, "risky")
    admin = AdminClient({"bootstrap.servers": bootstrap})
    if how == "topic config":
        entry = ConfigEntry("unclean.leader.election.enable", "true", incremental_operation=AlterConfigOpType.SET)
        resource = ConfigResource(ConfigResource.Type.TOPIC, "risky", incremental_configs=[entry])
        admin.incremental_alter_configs([resource])[resource].result(30)
    else:
        admin.elect_leaders(ElectionType.UNCLEAN, [TopicPartition("risky", 0)]).result(30)
    eventually(lambda: leader_of(bootstrap, "risky", 0) == follower, "the out-of-sync replica leading")
    after = Sender(bootstrap, "risky", **{"enable.idempotence": False, "acks": "all"})
    after.send(20, first=1000)
    after.flush_acked(20)
    restart(cluster, name_of(cluster, leader))
    eventually(lambda: isr_of(bootstrap, "risky", 0) == sorted([leader, follower]), "both in the ISR")
    wait_for_equal_logs(cluster, "risky-0", name_of(cluster, leader), name_of(cluster, follower))
    messages = read_all(bootstrap, "risky", 1)[0]
    assert [message.value() for message in messages] == numbered(range(BOTH)) + numbered(range(1000, 1020))
    assert [message.offset() for message in messages] == list(range(BOTH + 20))


def test_with_unclean_election_off_a_dead_isr_comes_back_without_loss(start_cluster: Start) -> None:
    cluster = start_cluster("three-nodes.yaml", *SETTINGS)
    bootstrap = cluster.plan.bootstrap
    sender, leader, follower = lose_the_isr(cluster, "safe")
    restart(cluster, name_of(cluster, leader))
    eventually(lambda: isr_of(bootstrap, "safe", 0) == sorted([leader, follower]), "both replicas in sync")
    wait_for_equal_logs(cluster, "safe-0", name_of(cluster, leader), name_of(cluster, follower))
    found = read_all(bootstrap, "safe", 1)
    assert [message.value() for message in found[0]] == numbered(range(BOTH + ALONE))
    assert_all_there_once_in_order(found, sender.sent.acked)
