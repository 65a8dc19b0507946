"""A controller of another cluster on a voter's address: the voters' majority serves, and nothing reaches the other."""

import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient

from kvorum.cluster.local.formatting import new_cluster_id
from kvorum.cluster.local.local import LocalCluster
from kvorum.cluster.local.plan import ClusterPlan, NodePlan, plan_of
from kvorum.cluster.local.ports import free_ports
from kvorum.cluster.process.exits import Exit
from kvorum.runtime.cluster_file import load_cluster
from tests.cluster.clients import Sender, assert_all_there_once_in_order, create_topic, eventually, read_all
from tests.cluster.nodes import controller_addresses, kill_all, restart

THREE_NODES = """
cluster: {name: ours}
defaults: {default.replication.factor: 2, min.insync.replicas: 1, broker.session.timeout.ms: 3000}
nodes:
  - {name: node-1, id: 1, listeners: ["PLAINTEXT://127.0.0.1:0", "CONTROLLER://127.0.0.1:0"]}
  - {name: node-2, id: 2, listeners: ["PLAINTEXT://127.0.0.1:0", "CONTROLLER://127.0.0.1:0"]}
  - {name: node-3, id: 3, listeners: ["PLAINTEXT://127.0.0.1:0", "CONTROLLER://127.0.0.1:0"]}
  - {name: broker-4, id: 4, roles: broker, listeners: "PLAINTEXT://127.0.0.1:0"}
"""
ONE_NODE = """
cluster: {{name: other}}
nodes:
  - {{name: other-3, id: 3, listeners: ["PLAINTEXT://127.0.0.1:0", "CONTROLLER://{controller}"]}}
"""
SERVING = ("node-1", "node-2", "broker-4")


def made(folder: Path, name: str, text: str) -> LocalCluster:
    """Return a cluster that is formatted and not started."""
    (folder / f"{name}.yaml").write_text(text)
    plan = plan_of(load_cluster(str(folder / f"{name}.yaml"), str(folder / name), ()), new_cluster_id())
    return LocalCluster.create(str(folder / name), plan)


@pytest.fixture
def clusters(tmp_path: Path) -> Iterator[tuple[LocalCluster, LocalCluster]]:
    """Our cluster, not started; and another one, which runs, with its controller where our node-3 should be."""
    ours = made(tmp_path, "ours", THREE_NODES)
    other = made(tmp_path, "other", ONE_NODE.format(controller=controller_addresses(ours)["node-3"]))
    try:
        restart(other)
        yield ours, other
    finally:
        for cluster in (ours, other):
            for node in cluster.plan.nodes:
                cluster.kill(node.name)


def lines(cluster: LocalCluster, name: str, *texts: str) -> list[str]:
    """Return the lines of a node's logs that contain all the texts."""
    found = []
    for process in ("node", "controller", "broker"):
        path = Path(cluster.node(name).log(process))
        text = path.read_text(errors="replace") if path.exists() else ""
        found += [line for line in text.splitlines() if all(each in line for each in texts)]
    return found


def test_a_majority_serves_while_another_cluster_has_the_third_voters_address(
    clusters: tuple[LocalCluster, LocalCluster],
) -> None:
    ours, other = clusters
    restart(ours, *SERVING)
    create_topic(ours.plan.bootstrap, "ours", 1, 2)
    sender = Sender(ours.plan.bootstrap, "ours")
    for count in (100, 200):
        sender.send(100)
        sender.flush_acked(count)
        kill_all(ours, *SERVING)
        restart(ours, *SERVING)
        create_topic(ours.plan.bootstrap, f"behind-{count}", 1, 2)
    assert_all_there_once_in_order(read_all(ours.plan.bootstrap, "ours", 1), sender.sent.acked)
    topics = AdminClient({"bootstrap.servers": other.plan.bootstrap}).list_topics(timeout=30).topics
    assert not topics, "the other cluster got a request of ours"
    address, ids = controller_addresses(ours)["node-3"], (ours.plan.cluster_id, other.plan.cluster_id)
    for name in ("node-1", "node-2"):
        assert lines(ours, name, "WARNING", "controller of another cluster ignored", address, *ids), name
    assert not lines(ours, "broker-4", "ERROR")
    greetings = lines(other, "other-3", "Raft greeting of cluster")
    assert len(greetings) <= 2 * 3 * 3, "at most one in ten seconds from each node, twice restarted"


def test_a_voter_comes_back_to_its_address_from_another_cluster(clusters: tuple[LocalCluster, LocalCluster]) -> None:
    ours, other = clusters
    restart(ours, *SERVING)
    create_topic(ours.plan.bootstrap, "ours", 1, 2)
    other.kill("other-3")
    restart(ours, "node-3")
    kill_all(ours, "node-1")
    create_topic(ours.plan.bootstrap, "without-node-1", 1, 2)


@pytest.mark.parametrize("name", ["broker-4", "node-3"])
def test_a_node_of_the_wrong_cluster_id_ends_with_one_clear_line(tmp_path: Path, name: str) -> None:
    ours = made(tmp_path, "ours", THREE_NODES)
    nodes = [
        NodePlan(node.name, {key: text for key, text in node.properties.items() if key != "log.dirs"})
        for node in ours.plan.nodes
    ]
    twin = LocalCluster.create(str(tmp_path / "twin"), ClusterPlan(new_cluster_id(), nodes))
    try:
        restart(ours, *{*SERVING, "node-3"} - {name})
        twin.start(name)
        eventually(lambda: not twin.processes(name), "the end of the node")
        assert twin.exit_code(name) == Exit.DATA_REFUSED
        (line,) = {*lines(twin, name, "this node belongs to cluster")}
        assert twin.plan.cluster_id in line and f"belong to cluster {ours.plan.cluster_id}: 1 (" in line
        assert not lines(twin, name, "Traceback")
    finally:
        for cluster in (ours, twin):
            for node in cluster.plan.nodes:
                cluster.kill(node.name)


def test_up_and_the_logs_name_the_controllers_that_a_new_cluster_waits_for(tmp_path: Path) -> None:
    first, second, third = free_ports(["127.0.0.1"] * 3)
    voters = f"1@127.0.0.1:{first},2@127.0.0.1:{second},3@127.0.0.1:{third}"
    (tmp_path / "cluster.yaml").write_text(
        f"cluster: {{name: part}}\ndefaults: {{controller.quorum.voters: '{voters}'}}\n"
        f"nodes: [{{name: node-1, id: 1, listeners: ['PLAINTEXT://127.0.0.1:0', 'CONTROLLER://127.0.0.1:{first}']}}]\n"
    )
    wanted = f"waiting for controllers 2 (127.0.0.1:{second}), 3 (127.0.0.1:{third}): connection refused"
    command = [sys.executable, "-m", "kvorum.cli.main", "up", "cluster.yaml", "--dir", "data"]
    process = subprocess.Popen(command, cwd=tmp_path, stderr=subprocess.PIPE, text=True)
    try:
        assert process.stderr is not None
        assert wanted in next(line for line in process.stderr if line.startswith("kvorum: node-1 is not up yet; "))
        cluster = LocalCluster.open(str(tmp_path / "data"))
        eventually(lambda: lines(cluster, "node-1", "not ready yet", "no active controller", wanted), "the log's line")
    finally:
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=60)
    assert process.returncode == 128 + signal.SIGINT
