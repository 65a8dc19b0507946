"""A process that stands still (SIGSTOP) for longer than its session: it is replaced, and does no harm when it wakes."""

import json

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from kvorum.cluster.local.local import LocalCluster
from tests.cluster.clients import eventually, isr_of, leader_of, read_all
from tests.cluster.conftest import Start
from tests.cluster.load import Load
from tests.cluster.nodes import active_controller, addresses, id_of, wait_for_equal_logs
from tests.cluster.topics import topics_at

SESSION_SECONDS = 6.0
"""Long enough for brokers that are not paused: a busy machine delays their heartbeats."""
SETTINGS = (f"broker.session.timeout.ms={SESSION_SECONDS * 1000:.0f}", "broker.heartbeat.interval.ms=500")
CLIENT = {"request.timeout.ms": 2_000, "socket.timeout.ms": 4_000}
"""librdkafka waits a minute for the answer of a broker that is there and silent."""


def fenced_brokers(cluster: LocalCluster) -> list[int]:
    """Return who was fenced since the cluster began, in the order of the metadata log."""
    records = [json.loads(message.value()) for message in read_all(cluster.plan.bootstrap, "__cluster_metadata", 1)[0]]
    changes = [record for record in records if record["type"] == "BrokerRegistrationChange"]
    assert any(change.get("fenced") is False for change in changes), "brokers began fenced and were unfenced"
    return [change["broker_id"] for change in changes if change.get("fenced") is True]


def create_led_by(cluster: LocalCluster, topic: str, leader: int) -> None:
    """Create a topic of one partition on all three brokers, led by this one."""
    admin = AdminClient({"bootstrap.servers": cluster.plan.bootstrap})
    replicas = [leader, *(each for each in (1, 2, 3) if each != leader)]
    wanted = NewTopic(topic, 1, replica_assignment=[replicas], config={"min.insync.replicas": "2"})
    admin.create_topics([wanted], operation_timeout=30)[topic].result(30)
    eventually(lambda: leader_of(cluster.plan.bootstrap, topic, 0) == leader, f"{topic} led by {leader}")


@pytest.mark.parametrize("where", ["on a node of its own", "on the active controller's node"])
def test_a_paused_leader_is_replaced_and_reverts_nothing_after_resuming(start_cluster: Start, where: str) -> None:
    """Requests lie in its sockets when it stops: what it answers when it wakes must not be lost or doubled."""
    cluster = start_cluster("three-nodes.yaml", *SETTINGS)
    bootstrap = cluster.plan.bootstrap
    active = active_controller(cluster)
    victim = active
    if where == "on a node of its own":
        victim = next(name for name in addresses(cluster) if name != active)
    leader = id_of(cluster, victim)
    create_led_by(cluster, "load", leader)
    with Load(bootstrap, "load", partitions=1, **CLIENT) as load:
        load.wait_for_more()
        load.wait_until_outstanding()
        assert len(cluster.pause(victim)) == len(cluster.processes(victim))
        successor = eventually(lambda: leads_instead(cluster, leader), "another leader")
        load.wait_for_more()
        cluster.resume(victim)
        eventually(lambda: isr_of(bootstrap, "load", 0) == [1, 2, 3], "a full ISR")
        load.wait_for_more()
    load.assert_all_acked_once_in_order()
    wait_for_equal_logs(cluster, "load-0", *addresses(cluster))
    assert successor != leader
    assert fenced_brokers(cluster) == [leader], "nobody else was fenced, and it only once"


def leads_instead(cluster: LocalCluster, paused: int) -> int | None:
    """Return who leads as those say who run, None while it is the paused one or nobody."""
    running = next(address for name, address in addresses(cluster).items() if id_of(cluster, name) != paused)
    (row,) = topics_at(running, "load")["load"].partitions
    return row.leader_id if row.leader_id not in (-1, paused) else None


def test_a_paused_active_controller_fences_no_broker_after_resuming(start_cluster: Start) -> None:
    """Its process alone: another one takes over, records flow all the time, and all sessions are given anew."""
    cluster = start_cluster("three-nodes.yaml", *SETTINGS)
    bootstrap = cluster.plan.bootstrap
    active = active_controller(cluster)
    create_led_by(cluster, "load", id_of(cluster, active))
    with Load(bootstrap, "load", partitions=1) as load:
        load.wait_for_more()
        assert len(cluster.pause(active, "controller")) == 1
        successor = eventually(
            lambda: (now := active_controller(cluster)) != active and now, "another active controller"
        )
        load.run_for(1.5 * SESSION_SECONDS)  # no session that one of them began lasts as long
        cluster.resume(active, "controller")
        load.run_for(1.5 * SESSION_SECONDS)
    load.assert_all_acked_once_in_order()
    assert successor != active
    assert fenced_brokers(cluster) == []
