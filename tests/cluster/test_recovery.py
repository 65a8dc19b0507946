"""A wiped broker, dynamic configs on a living cluster, and a rolling restart."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource

from kvorum.cluster.local.formatting import format_node
from kvorum.runtime.config_files import load_node
from kvorum.runtime.disk import OsDisk
from tests.cluster.clients import (
    Sender,
    assert_all_there_once_in_order,
    create_topic,
    eventually,
    isr_of,
    leader_of,
    read_all,
    send_one,
)
from tests.cluster.conftest import Start
from tests.cluster.load import Load
from tests.cluster.nodes import addresses, name_of, restart, wait_for_equal_logs


def test_a_wiped_broker_gets_metadata_from_the_controllers_and_records_from_its_peers(start_cluster: Start) -> None:
    cluster = start_cluster()
    bootstrap = cluster.plan.bootstrap
    create_topic(bootstrap, "kept", 1, 3, min_insync_replicas="2")
    sender = Sender(bootstrap, "kept")
    sender.send(500)
    sender.flush_acked(500)
    wiped = name_of(cluster, next(each for each in (1, 2, 3) if each != leader_of(bootstrap, "kept", 0)))
    paths = cluster.node(wiped)
    cluster.kill(wiped)
    shutil.rmtree(paths.data)
    settings = load_node(paths.config, environment={}).settings
    format_node(OsDisk(), settings, cluster.plan.cluster_id, ignore_formatted=True)
    sender.send(500)
    sender.flush_acked(1000)
    restart(cluster, wiped)
    eventually(lambda: isr_of(bootstrap, "kept", 0) == [1, 2, 3], "a full ISR")
    sender.send(10)
    sender.flush_acked(1010)
    found = read_all(bootstrap, "kept", 1)
    assert len(found[0]) == 1010
    assert_all_there_once_in_order(found, sender.sent.acked)
    wait_for_equal_logs(cluster, "kept-0", *addresses(cluster))


def cut_the_active_segment(folder: Path) -> None:
    active = max(folder.glob("*.log"))
    active.write_bytes(active.read_bytes()[:-10])


def remove_the_first_segment(folder: Path) -> None:
    min(folder.glob("*.log")).unlink()


@pytest.mark.parametrize("damage", [cut_the_active_segment, remove_the_first_segment, shutil.rmtree])
def test_a_folder_damaged_while_the_cluster_was_stopped_costs_no_other_replica_a_record(
    start_cluster: Start, damage: Callable[[Path], None]
) -> None:
    """The damaged node led last, so it would lead again if nobody noticed."""
    cluster = start_cluster()
    bootstrap = cluster.plan.bootstrap
    create_topic(bootstrap, "kept", 1, 3, min_insync_replicas="2", segment_bytes="1048576")
    sender = Sender(bootstrap, "kept")
    sender.send(300)
    sender.flush_acked(300)
    eventually(lambda: isr_of(bootstrap, "kept", 0) == [1, 2, 3], "a full ISR")
    damaged = name_of(cluster, leader_of(bootstrap, "kept", 0))
    others = [node.name for node in cluster.plan.nodes if node.name != damaged]
    for name in (*others, damaged):
        cluster.stop(name)
    damage(Path(cluster.node(damaged).data, "kept-0"))
    restart(cluster, damaged, *others)
    eventually(lambda: isr_of(bootstrap, "kept", 0) == [1, 2, 3], "a full ISR")
    sender.send(100)
    sender.flush_acked(400)
    found = read_all(bootstrap, "kept", 1)
    assert_all_there_once_in_order(found, sender.sent.acked)
    wait_for_equal_logs(cluster, "kept-0", *addresses(cluster))


def alter_topic(bootstrap: str, topic: str, name: str, value: str) -> None:
    """Set one config of a topic."""
    entry = ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ConfigResource.Type.TOPIC, topic, incremental_configs=[entry])
    admin = AdminClient({"bootstrap.servers": bootstrap})  # held: its requests end with it
    admin.incremental_alter_configs([resource])[resource].result(30)


def test_min_insync_replicas_and_max_message_bytes_take_effect_without_a_restart(start_cluster: Start) -> None:
    cluster = start_cluster("three-nodes.yaml", "replica.lag.time.max.ms=2000")
    bootstrap = cluster.plan.bootstrap
    create_topic(bootstrap, "changing", 1, 3, min_insync_replicas="1")
    leader = leader_of(bootstrap, "changing", 0)
    victim = name_of(cluster, next(each for each in (1, 2, 3) if each != leader))
    cluster.kill(victim)
    eventually(lambda: len(isr_of(bootstrap, "changing", 0)) == 2, "the ISR without the dead follower")
    assert send_one(bootstrap, "changing") is None
    alter_topic(bootstrap, "changing", "min.insync.replicas", "3")
    eventually(lambda: send_one(bootstrap, "changing", 5_000, retries=0) == "NOT_ENOUGH_REPLICAS", "a refusal")
    alter_topic(bootstrap, "changing", "min.insync.replicas", "2")
    eventually(lambda: send_one(bootstrap, "changing") is None, "an acknowledgement")
    alter_topic(bootstrap, "changing", "max.message.bytes", "60")
    eventually(lambda: send_one(bootstrap, "changing", 5_000) == "MSG_SIZE_TOO_LARGE", "MESSAGE_TOO_LARGE")


def test_a_rolling_restart_loses_nothing_and_refuses_nothing_for_good(start_cluster: Start) -> None:
    cluster = start_cluster()
    bootstrap = cluster.plan.bootstrap
    create_topic(bootstrap, "rolling", 3, 3, min_insync_replicas="2")
    with Load(bootstrap, "rolling", partitions=3) as load:
        for node in cluster.plan.nodes:
            load.wait_for_more()
            assert cluster.stop(node.name) == [], "it had to be killed"
            load.wait_for_more()
            restart(cluster, node.name)
            for partition in range(3):
                eventually(lambda p=partition: isr_of(bootstrap, "rolling", p) == [1, 2, 3], "a full ISR")  # type: ignore[misc]
    load.assert_all_acked_once_in_order()
