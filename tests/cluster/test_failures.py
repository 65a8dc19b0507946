"""Acceptance 2 and 4: kill -9 of partition leaders and of all nodes at once, under load that never pauses."""

import os

from confluent_kafka.admin import AdminClient, NewTopic

from tests.cluster.clients import create_topic, eventually, isr_of, leader_of
from tests.cluster.conftest import Start
from tests.cluster.load import Load
from tests.cluster.nodes import addresses, kill_all, name_of, restart, wait_for_equal_logs
from tests.cluster.topics import Plan, assert_all_topics_whole

ROUNDS = int(os.environ.get("KVORUM_ROUNDS", "2"))
"""Kills in a row; `make acceptance` does five."""
LAG_SECONDS = 0.5
"""How long followers stand still: far below replica.lag.time.max.ms and any session."""


def test_kill_9_of_the_leader_under_load_loses_and_doubles_nothing(start_cluster: Start) -> None:
    """Each time records are on their way, and what is sent after the kill is acknowledged before the restart.

    Every other time the followers stand still for a moment before: the leader dies with what nobody else has, and must
    have acknowledged none of it.
    """
    cluster = start_cluster()
    bootstrap = cluster.plan.bootstrap
    create_topic(bootstrap, "load", 1, 3, min_insync_replicas="2")
    with Load(bootstrap, "load", partitions=1) as load:
        for number in range(ROUNDS):
            load.wait_for_more()
            leader = eventually(lambda: (found := leader_of(bootstrap, "load", 0)) > 0 and found, "a leader")
            name = name_of(cluster, leader)
            followers = [each for each in addresses(cluster) if each != name] if number % 2 else []
            for follower in followers:
                cluster.pause(follower, "broker")
            load.wait_until_outstanding(LAG_SECONDS if followers else 0.0)
            cluster.kill(name)
            for follower in followers:
                cluster.resume(follower, "broker")
            load.wait_for_more()
            assert leader_of(bootstrap, "load", 0) != leader
            restart(cluster, name)
            eventually(lambda: isr_of(bootstrap, "load", 0) == [1, 2, 3], "a full ISR")
            load.wait_for_more()
    load.assert_all_acked_once_in_order()
    wait_for_equal_logs(cluster, "load-0", *addresses(cluster))


def test_kill_9_of_all_nodes_at_once_loses_nothing(start_cluster: Start) -> None:
    """Records, and the topics that were acknowledged just before."""
    cluster = start_cluster()
    bootstrap = cluster.plan.bootstrap
    create_topic(bootstrap, "all", 3, 3, min_insync_replicas="2")
    planned = {"all": Plan(3, 3)}
    with Load(bootstrap, "all", partitions=3) as load:
        for number in range(ROUNDS):
            load.wait_for_more()
            name = f"just-before-{number}"
            admin = AdminClient({"bootstrap.servers": bootstrap})
            admin.create_topics([NewTopic(name, 4, 2)], operation_timeout=0)[name].result(30)
            planned[name] = Plan(4, 2)
            load.wait_until_outstanding()
            kill_all(cluster)
            assert not any(cluster.processes(node.name) for node in cluster.plan.nodes)
            restart(cluster, *(node.name for node in cluster.plan.nodes))
            load.wait_for_more()
            assert_all_topics_whole(cluster, planned, acknowledged=planned)
    load.assert_all_acked_once_in_order()
