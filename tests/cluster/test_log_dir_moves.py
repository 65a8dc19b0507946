"""Replicas move between log directories while they are written to, led and restarted: with unmodified clients."""

import json
import re
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, NewTopic
from kafka import KafkaAdminClient
from kafka.errors import InvalidReplicationAssignmentError, NoError

from kvorum.cluster.local.local import LocalCluster
from tests.cluster.clients import Sender, all_led, assert_all_there_once_in_order, eventually, isr_of, read_all
from tests.cluster.conftest import ROOT, Start
from tests.cluster.nodes import kill_all, name_of, restart
from tests.cluster.test_log_directories import two_directories
from tests.cluster.test_observability import get, urls

CORDONED = "cordoned.log.dirs"
RATE = "replica.alter.log.dirs.io.max.bytes.per.second"
PARTITIONS = 1
RECORDS = 30_000
"""More than is copied before the throttle is felt."""


def begin(cluster: LocalCluster) -> Sender:
    """Make a topic led by broker 1, and write to it."""
    admin = AdminClient({"bootstrap.servers": cluster.plan.bootstrap})
    topic = NewTopic("orders", PARTITIONS, replica_assignment=[[1, 2, 3]] * PARTITIONS)
    admin.create_topics([topic], operation_timeout=30)["orders"].result(30)
    eventually(lambda: all_led(admin, "orders", PARTITIONS), "leaders")
    sender = Sender(cluster.plan.bootstrap, "orders")
    sender.send(RECORDS, PARTITIONS)
    sender.flush_acked(RECORDS)
    return sender


def folders(folder: Path) -> dict[str, list[str]]:
    """Return the folders of the topic's logs by directory, but for those that wait for their removal."""
    return {
        name: sorted(each.name for each in (folder / name).glob("orders-*") if not each.name.endswith("-delete"))
        for name in ("a", "b")
    }


def described(admin: KafkaAdminClient) -> dict[tuple[str, int], dict[str, Any]]:
    """Return {(directory, partition): row} of broker 1."""
    [broker] = admin.describe_log_dirs(brokers=[1])
    return {
        (Path(directory["log_dir"]).name, row["partition_index"]): row
        for directory in broker["log_dirs"]
        for topic in directory["topics"]
        if topic["name"] == "orders"
        for row in topic["partitions"]
    }


def test_replicas_move_while_they_are_led_and_the_broker_is_killed(start_cluster: Start, tmp_path: Path) -> None:
    """A throttle holds the copy back so that the kill comes in its middle; without it the move ends."""
    cluster = start_cluster(two_directories(tmp_path))
    sender = begin(cluster)
    source = "a" if "orders-0" in folders(tmp_path)["a"] else "b"
    target = "b" if source == "a" else "a"
    configure(cluster, f"{RATE}=1")
    with closing(KafkaAdminClient(bootstrap_servers=cluster.plan.bootstrap)) as admin:
        answer = admin.alter_replica_log_dirs({("orders", 0, 1): str(tmp_path / target)})
        assert set(answer.values()) == {NoError}
        eventually(lambda: described(admin).get((target, 0), {}).get("is_future_key"), "a future replica")
        assert not described(admin)[source, 0]["is_future_key"] and described(admin)[target, 0]["offset_lag"] > 0

    name = name_of(cluster, 1)
    assert told_of_moves(cluster, name)["maxlag"] > 0
    kill_all(cluster, name)
    sender.send(RECORDS, PARTITIONS)
    sender.flush_acked(2 * RECORDS)
    restart(cluster, name)
    eventually(lambda: isr_of(cluster.plan.bootstrap, "orders", 0) == [1, 2, 3], "the ISR")
    configure(cluster, RATE, delete=True)
    sender.send(RECORDS, PARTITIONS)
    eventually(lambda: "orders-0" in folders(tmp_path)[target], "the replica in its new directory")
    sender.send(RECORDS, PARTITIONS)
    sender.flush_acked(4 * RECORDS)
    eventually(lambda: folders(tmp_path)[source] == [], "nothing left behind")
    with closing(KafkaAdminClient(bootstrap_servers=cluster.plan.bootstrap)) as admin:
        eventually(lambda: described(admin)[target, 0]["offset_lag"] == 0, "no lag")
        assert not described(admin)[target, 0]["is_future_key"]
    assert told_of_moves(cluster, name) == {"maxlag": 0, "failedpartitionscount": 0, "deadthreadcount": 0}
    assert_all_there_once_in_order(read_all(cluster.plan.bootstrap, "orders", PARTITIONS), sender.sent.acked)


def test_a_reassignments_file_selects_a_replicas_directory(start_cluster: Start, tmp_path: Path) -> None:
    """One that is there moves, one that comes is made there; verify tells when it is done."""
    cluster = start_cluster(two_directories(tmp_path))
    admin = AdminClient({"bootstrap.servers": cluster.plan.bootstrap})
    topic = NewTopic("orders", 2, replica_assignment=[[1, 2], [2, 3]])
    admin.create_topics([topic], operation_timeout=30)["orders"].result(30)
    eventually(lambda: all_led(admin, "orders", 2), "leaders")
    [source] = [name for name, found in folders(tmp_path).items() if found]
    target = "b" if source == "a" else "a"
    file = tmp_path / "plan.json"
    place = str(tmp_path / target)
    rows = [
        {"topic": "orders", "partition": 0, "replicas": [1, 2], "log_dirs": [place, "any"]},
        {"topic": "orders", "partition": 1, "replicas": [2, 1], "log_dirs": ["any", place]},
    ]
    file.write_text(json.dumps({"version": 1, "partitions": rows}))
    options = ("--reassignment-json-file", str(file))
    done = reassign(cluster, "execute", *options, "--replica-alter-log-dirs-throttle", "1000000")
    for index in (0, 1):
        assert f"started moving log directory to {place} for replica orders-{index} with broker 1" in done.stdout, done
    eventually(lambda: reassign(cluster, "verify", *options).returncode == 0, "completed")
    assert folders(tmp_path) == {source: [], target: ["orders-0", "orders-1"]}
    assert "None of the specified partition moves are active." in reassign(cluster, "cancel", *options).stdout


def test_a_cordoned_broker_gets_no_new_replicas_and_one_cordoned_directory_no_moves(
    start_cluster: Start, tmp_path: Path
) -> None:
    cluster = start_cluster(two_directories(tmp_path))
    begin(cluster)
    admin = AdminClient({"bootstrap.servers": cluster.plan.bootstrap})

    def cordon(value: str) -> None:
        broker = ConfigResource(ConfigResource.Type.BROKER, "1")
        broker.add_incremental_config(ConfigEntry(CORDONED, value, incremental_operation=AlterConfigOpType.SET))
        admin.incremental_alter_configs([broker])[broker].result(30)

    def created(name: str) -> str:
        """Return the error's name; a topic that was made is taken away again."""
        try:
            admin.create_topics([NewTopic(name, 1, 3)], operation_timeout=30)[name].result(30)
        except KafkaException as error:
            return str(error.args[0].name())
        admin.delete_topics([name], operation_timeout=30)[name].result(30)
        return "NONE"

    with pytest.raises(KafkaException, match="/nowhere"):
        cordon("/nowhere")
    cordon("*")
    eventually(lambda: created("more") == "INVALID_REPLICATION_FACTOR", "no topic of three replicas")
    with closing(KafkaAdminClient(bootstrap_servers=cluster.plan.bootstrap)) as client:
        [broker] = client.describe_log_dirs(brokers=[1])
        assert [each["is_cordoned"] for each in broker["log_dirs"]] == [True, True]
        answer = client.alter_replica_log_dirs({("orders", 0, 1): str(tmp_path / "b")})
        assert set(answer.values()) == {InvalidReplicationAssignmentError}
    cordon(str(tmp_path / "a"))
    eventually(lambda: created("more") == "NONE", "a topic of three replicas")
    assert not list((tmp_path / "a").glob("more-*"))


def told_of_moves(cluster: LocalCluster, name: str) -> dict[str, float]:
    """Return {metric: value} of what a broker's page says of its ReplicaAlterLogDirsManager."""
    broker, *_ = urls(cluster, name)
    pattern = r'^kafka_server_replicaalterlogdirsmanager_(\w+){clientId="ReplicaAlterLogDirs"} (\S+)$'
    return {metric: float(value) for metric, value in re.findall(pattern, get(f"{broker}/metrics")[1], re.MULTILINE)}


def reassign(cluster: LocalCluster, action: str, *options: str) -> "subprocess.CompletedProcess[str]":
    """Run `kvorum reassign`."""
    command = [sys.executable, "-m", "kvorum.cli.main", "reassign", action, "-b", cluster.plan.bootstrap, *options]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60)


def configure(cluster: LocalCluster, entry: str, *, delete: bool = False) -> None:
    """Set or delete a config of all brokers, with Kafka's own tool's options."""
    change = "--delete-config" if delete else "--add-config"
    kvorum(cluster, "kafka-configs", "--entity-type", "brokers", "--entity-default", "--alter", change, entry)


def kvorum(cluster: LocalCluster, script: str, *arguments: str) -> str:
    """Run one of Kafka's scripts of ours."""
    command = [sys.executable, "-m", "kvorum.cli.main", script, "--bootstrap-server", cluster.plan.bootstrap]
    done = subprocess.run([*command, *arguments], cwd=ROOT, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout
