"""Acceptance 2 to 5: kill -9 of leaders, controllers, all nodes; unclean election off and on."""

import os
import threading
from collections import Counter

import pytest
from confluent_kafka import KafkaException, Producer
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, NewTopic

from kvorum.cluster.local import LocalCluster
from tests.cluster.clients import (
    Sender,
    assert_all_there_once_in_order,
    create_topic,
    eventually,
    isr_of,
    leader_of,
    read_all,
)
from tests.cluster.conftest import Start, logs_of

pytestmark = pytest.mark.cluster
ROUNDS = int(os.environ.get("KVORUM_ROUNDS", "2"))
"""Kills in a row; `make acceptance` does five."""


def name_of(cluster: LocalCluster, broker_id: int) -> str:
    """Return the node with this id."""
    return next(node.name for node in cluster.plan.nodes if node.properties["node.id"] == str(broker_id))


def restart(cluster: LocalCluster, *names: str) -> None:
    """Start killed nodes and wait until they are unfenced."""
    outcome = cluster.start(*names)
    assert set(outcome.values()) == {"ready"}, outcome


def test_kill_9_of_the_leader_under_load_loses_and_doubles_nothing(start_cluster: Start) -> None:
    cluster = start_cluster()
    bootstrap = cluster.plan.bootstrap
    create_topic(bootstrap, "load", 1, 3, min_insync_replicas="2")
    sender = Sender(bootstrap, "load")
    for _ in range(ROUNDS):
        sender.send(1000)
        eventually(lambda: sender.poll(0.01) or len(sender.sent.acked) > 0, "the first acknowledgement")
        leader = eventually(lambda: (found := leader_of(bootstrap, "load", 0)) > 0 and found, "a leader")
        name = name_of(cluster, leader)
        cluster.kill(name)
        sender.send(1000)
        sender.flush()
        restart(cluster, name)
        eventually(lambda: isr_of(bootstrap, "load", 0) == [1, 2, 3], "a full ISR")
    assert not sender.sent.failed, sender.sent.failed[:3]
    assert len(sender.sent.acked) == ROUNDS * 2000
    assert_all_there_once_in_order(read_all(bootstrap, "load", 1), sender.sent.acked)


def active_controller(bootstrap: str) -> int:
    """Return the quorum's leader."""
    from confluent_kafka.admin import AdminClient

    admin = AdminClient({"bootstrap.servers": bootstrap})
    return int(admin.describe_cluster(request_timeout=30).result(30).controller.id)


def test_kill_9_of_the_active_controller_while_topics_are_created(start_cluster: Start) -> None:
    cluster = start_cluster()
    bootstrap = cluster.plan.bootstrap
    created: list[str] = []
    refused: Counter[str] = Counter()
    stop = threading.Event()

    def create() -> None:
        admin = AdminClient({"bootstrap.servers": bootstrap})
        number = 0
        while not stop.is_set():
            name = f"topic-{number}"
            number += 1
            try:
                admin.create_topics([NewTopic(name, 3, 3)], request_timeout=5)[name].result(30)
            except KafkaException as error:
                refused[str(error)] += 1  # or unknown: only what was acknowledged counts
                # librdkafka waits for the controller it knew and does not ask anew who it is: a new client does.
                admin = AdminClient({"bootstrap.servers": bootstrap})
                continue
            created.append(name)

    thread = threading.Thread(target=create)
    thread.start()
    try:
        for _ in range(ROUNDS):
            before = len(created)
            eventually(lambda: len(created) >= before + 3, "topics being created")  # noqa: B023
            name = name_of(cluster, active_controller(bootstrap))
            cluster.kill(name)
            killed_at = len(created)
            eventually(lambda: len(created) >= killed_at + 3, lambda: logs_of(cluster, refused))  # noqa: B023
            restart(cluster, name)
    finally:
        stop.set()
        thread.join()
    for node in cluster.plan.nodes:
        address = node.properties["listeners"].split(",")[0].partition("://")[2]
        admin = AdminClient({"bootstrap.servers": address})

        def whole(admin: AdminClient = admin) -> bool:
            topics = admin.list_topics(timeout=30).topics
            return all(name in topics and len(topics[name].partitions) == 3 for name in created)

        eventually(whole, f"every acknowledged topic whole on {node.name}")
        topics = admin.list_topics(timeout=30).topics
        assert all(len(topic.partitions) == 3 for topic in topics.values()), "a topic half made"


def test_kill_9_of_all_nodes_at_once_loses_nothing(start_cluster: Start) -> None:
    cluster = start_cluster()
    bootstrap = cluster.plan.bootstrap
    create_topic(bootstrap, "all", 3, 3, min_insync_replicas="2")
    sender = Sender(bootstrap, "all")
    for _ in range(ROUNDS):
        sender.send(1500, partitions=3)
        eventually(lambda: sender.poll(0.01) or len(sender.sent.acked) > 0, "the first acknowledgement")
        for node in cluster.plan.nodes:
            cluster.kill(node.name)
        restart(cluster, *(node.name for node in cluster.plan.nodes))
        sender.flush()
    assert not sender.sent.failed, sender.sent.failed[:3]
    assert_all_there_once_in_order(read_all(bootstrap, "all", 3), sender.sent.acked)


def send_one(bootstrap: str, topic: str, timeout_ms: int = 15_000, **options: object) -> str | None:
    """Send one record with acks=all; return None, or the error's name."""
    errors: list[str | None] = []
    producer = Producer({"bootstrap.servers": bootstrap, "message.timeout.ms": timeout_ms, "acks": "all", **options})
    producer.produce(topic, b"x", on_delivery=lambda error, _: errors.append(error.name() if error else None))
    producer.flush(timeout_ms / 1000 + 10)
    return errors[0]


@pytest.mark.parametrize("how", ["topic config", "explicit request"])
def test_unclean_election_off_keeps_the_partition_offline_and_on_elects_who_lives(
    start_cluster: Start, how: str
) -> None:
    """The ISR shrinks to one broker, that dies, the others live on without the last records."""
    cluster = start_cluster(
        "three-nodes.yaml", "replica.lag.time.max.ms=2000", "unclean.leader.election.interval.ms=1000"
    )
    bootstrap = cluster.plan.bootstrap
    create_topic(bootstrap, "risky", 1, 2, min_insync_replicas="1")
    leader = leader_of(bootstrap, "risky", 0)
    follower = next(each for each in isr_of(bootstrap, "risky", 0) if each != leader)
    sender = Sender(bootstrap, "risky")
    sender.send(100)
    sender.flush()
    cluster.kill(name_of(cluster, follower))
    eventually(lambda: isr_of(bootstrap, "risky", 0) == [leader], "the ISR without the dead follower")
    sender.send(50)
    sender.flush()
    cluster.kill(name_of(cluster, leader))
    restart(cluster, name_of(cluster, follower))
    eventually(lambda: leader_of(bootstrap, "risky", 0) == -1, "a partition without a leader")
    assert send_one(bootstrap, "risky") in ("_MSG_TIMED_OUT", "LEADER_NOT_AVAILABLE")
    admin = AdminClient({"bootstrap.servers": bootstrap})
    if how == "topic config":
        entry = ConfigEntry("unclean.leader.election.enable", "true", incremental_operation=AlterConfigOpType.SET)
        resource = ConfigResource(ConfigResource.Type.TOPIC, "risky", incremental_configs=[entry])
        admin.incremental_alter_configs([resource])[resource].result(30)
    else:
        from confluent_kafka import ElectionType, TopicPartition

        admin.elect_leaders(ElectionType.UNCLEAN, [TopicPartition("risky", 0)]).result(30)
    eventually(lambda: leader_of(bootstrap, "risky", 0) == follower, "the out-of-sync replica leading")
    after = Sender(bootstrap, "risky", **{"enable.idempotence": False, "acks": "all"})
    after._count = 1000
    after.send(20)
    after.flush()
    restart(cluster, name_of(cluster, leader))
    eventually(lambda: isr_of(bootstrap, "risky", 0) == sorted([leader, follower]), "the logs to converge")
    values = [message.value() for message in read_all(bootstrap, "risky", 1)[0]]
    kept = [value for value in values if value < b"%08d" % 1000]
    assert kept[:100] == [b"%08d" % index for index in range(100)], "loss is legal only above the leader's end"
    assert [value for value in values if value >= b"%08d" % 1000] == sorted(after.sent.acked)


def test_a_dead_isr_comes_back_without_loss_when_unclean_election_is_off(start_cluster: Start) -> None:
    cluster = start_cluster("three-nodes.yaml", "replica.lag.time.max.ms=2000")
    bootstrap = cluster.plan.bootstrap
    create_topic(bootstrap, "safe", 1, 2, min_insync_replicas="1")
    leader = leader_of(bootstrap, "safe", 0)
    follower = next(each for each in isr_of(bootstrap, "safe", 0) if each != leader)
    sender = Sender(bootstrap, "safe")
    sender.send(100)
    sender.flush()
    cluster.kill(name_of(cluster, follower))
    eventually(lambda: isr_of(bootstrap, "safe", 0) == [leader], "the ISR without the dead follower")
    sender.send(100)
    sender.flush()
    cluster.kill(name_of(cluster, leader))
    restart(cluster, name_of(cluster, follower))
    eventually(lambda: leader_of(bootstrap, "safe", 0) == -1, "a partition without a leader")
    restart(cluster, name_of(cluster, leader))
    eventually(lambda: isr_of(bootstrap, "safe", 0) == sorted([leader, follower]), "both replicas in sync")
    assert_all_there_once_in_order(read_all(bootstrap, "safe", 1), sender.sent.acked)
