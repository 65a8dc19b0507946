"""Partitions move between brokers while they are written to: nothing is lost, and the old replica is gone.

There with `kvorum reassign`, back with Apache Kafka's own kafka-reassign-partitions, where its jars are (bench/tools),
else with our script of that name.
"""

import json
import re
import subprocess
import sys
import threading
import urllib.request
from collections.abc import Callable
from pathlib import Path

from bench.tools import command as kafka_command
from bench.tools import missing
from kvorum.cluster.local.local import LocalCluster
from kvorum.runtime.metric_names import LEADER_REPLICATION_RATE
from tests.cluster.clients import Sender, assert_all_there_once_in_order, create_topic, eventually, read_all
from tests.cluster.conftest import Start
from tests.cluster.nodes import addresses, id_of, name_of, wait_for_equal_logs
from tests.cluster.topics import topics_at

TOPIC = "orders"
THROTTLE = "5000000"
Tool = Callable[..., "subprocess.CompletedProcess[str]"]


def kvorum_tool(bootstrap: str, action: str, *options: str) -> "subprocess.CompletedProcess[str]":
    """Run `kvorum reassign`."""
    command = [sys.executable, "-m", "kvorum.cli.main", "reassign", action, "-b", bootstrap, *options]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


def script_tool(bootstrap: str, action: str, *options: str) -> "subprocess.CompletedProcess[str]":
    """Run Kafka's script by its name, as Kvorum has it."""
    script = [sys.executable, "-m", "kvorum.cli.main", "kafka-reassign-partitions.sh", "--bootstrap-server", bootstrap]
    return subprocess.run([*script, f"--{action}", *options], capture_output=True, text=True, timeout=60, check=False)


def kafka_tool(bootstrap: str, action: str, *options: str) -> "subprocess.CompletedProcess[str]":
    """Run Kafka's tool; as Kafka's script, it ends with 0 whatever `--verify` finds, and tells it."""
    arguments = ["--bootstrap-server", bootstrap, f"--{action}", *options]
    command = kafka_command("reassign.ReassignPartitionsCommand", arguments)
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


def replicas_at(address: str) -> list[int]:
    rows = topics_at(address, TOPIC)[TOPIC].partitions  # none where it has not heard of the topic yet
    return rows[0].replica_nodes if rows else []


def throttled_rates(cluster: LocalCluster) -> list[float]:
    """Return what each broker served of throttled replicas lately, in bytes a second."""
    found: list[float] = []
    for node in cluster.plan.nodes:
        with urllib.request.urlopen(node.properties["metrics.listener"] + "/metrics", timeout=30) as answer:
            text = answer.read().decode()
        found += map(float, re.findall(rf"^{LEADER_REPLICATION_RATE} (\S+)$", text, re.MULTILINE))
    return found


def move(cluster: LocalCluster, tool: Tool, target: list[int], folder: Path) -> None:
    """Move the partition, throttled, and wait until the tool calls it completed and every broker says so."""
    bootstrap = cluster.plan.bootstrap
    file = folder / "plan.json"
    row = {"topic": TOPIC, "partition": 0, "replicas": target, "log_dirs": ["any"] * len(target)}
    file.write_text(json.dumps({"version": 1, "partitions": [row]}))
    options = ("--reassignment-json-file", str(file))
    done = tool(bootstrap, "execute", *options, "--throttle", THROTTLE)
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"Successfully started partition reassignment for {TOPIC}-0" in done.stdout

    rates: list[float] = []

    def completed() -> bool:
        rates.extend(throttled_rates(cluster))
        found = tool(bootstrap, "verify", *options)
        return found.returncode == 0 and "completed" in found.stdout

    eventually(completed, f"{TOPIC}-0 on {target}")
    assert any(rates), "what was copied was counted against the throttle"
    for address in addresses(cluster).values():
        eventually(lambda: replicas_at(address) == target, lambda: f"{target} at {address}")  # noqa: B023
    gone = {id_of(cluster, node.name) for node in cluster.plan.nodes} - {*target}
    for node_id in gone:
        folder_of_old = Path(cluster.node(name_of(cluster, node_id)).data, f"{TOPIC}-0")
        eventually(lambda: not folder_of_old.exists(), f"{folder_of_old} gone")  # noqa: B023


def test_a_partition_moves_while_it_is_written_to_and_nothing_is_lost(start_cluster: Start, tmp_path: Path) -> None:
    cluster = start_cluster("three-nodes.yaml")
    bootstrap = cluster.plan.bootstrap
    create_topic(bootstrap, TOPIC, 1, 2)
    anybody = next(iter(addresses(cluster).values()))
    first = eventually(lambda: replicas_at(anybody), f"{TOPIC} at {anybody}")
    (spare,) = {id_of(cluster, node.name) for node in cluster.plan.nodes} - {*first}
    sender, enough = Sender(bootstrap, TOPIC), threading.Event()

    def write() -> None:
        while not enough.wait(0.01):
            sender.send(20)

    writing = threading.Thread(target=write)
    writing.start()
    try:
        eventually(lambda: len(sender.sent.acked) > 100, "the first records")
        move(cluster, kvorum_tool, [spare, first[1]], tmp_path)
        before = len(sender.sent.acked)
        eventually(lambda: len(sender.sent.acked) > before + 100, "records after the move")
        move(cluster, script_tool if missing(fetch=False) else kafka_tool, first, tmp_path)
    finally:
        enough.set()
        writing.join()
    sender.flush()
    assert not sender.sent.failed, sender.sent.failed[:3]
    wait_for_equal_logs(cluster, f"{TOPIC}-0", *(name_of(cluster, node_id) for node_id in first))
    assert_all_there_once_in_order(read_all(bootstrap, TOPIC, 1), sender.sent.acked)
    listed = kvorum_tool(bootstrap, "list")
    assert (listed.returncode, listed.stdout) == (0, "No partition reassignments found.\n")
    configs = [sys.executable, "-m", "kvorum.cli.main", "topics", "describe", TOPIC, "-b", bootstrap, "-o", "json"]
    described = subprocess.run(configs, capture_output=True, text=True, timeout=60, check=True).stdout
    assert "throttled" not in json.dumps(json.loads(described)["configs"]), "verify took the throttles off"
