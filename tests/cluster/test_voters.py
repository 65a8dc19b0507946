"""Controllers come and go while clients work (KIP-853): one, three, a lost disk, a moved one, and one again.

Everything is done with the command line; records and topics are written by confluent-kafka all the while.
"""

import dataclasses
import random
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

from kvorum.cli.main import main
from kvorum.cluster.local.formatting import new_cluster_id
from kvorum.cluster.local.local import LocalCluster
from kvorum.cluster.local.paths import ClusterPaths
from kvorum.cluster.local.plan import ClusterPlan, NodePlan, plan_of, write_node_configs, write_plan
from kvorum.cluster.local.ports import free_ports
from kvorum.protocol.uuids import ZERO_UUID, Uuid
from kvorum.runtime.cluster_file import load_cluster
from kvorum.runtime.disk import OsDisk
from tests.cluster.clients import Sender, assert_all_there_once_in_order, create_topic, eventually, read_all
from tests.cluster.conftest import logs_of
from tests.cluster.nodes import active_controller, id_of, kill_all, quorum_of, restart
from tests.cluster.quorum_kit import MetadataWriter, assert_written_everywhere, directory_of, wait_for_voters

NEAR = 100
"""Records by which an observer may be behind when it is added."""
CONTROLLERS = ("controller-1", "controller-2", "controller-3")
FILE = """
cluster: {name: voters}
defaults: {default.replication.factor: 1, min.insync.replicas: 1}
nodes:
  - {name: controller-1, id: 101, roles: controller, listeners: "CONTROLLER://127.0.0.1:0"}
  - {name: controller-2, id: 102, roles: controller, listeners: "CONTROLLER://127.0.0.1:0"}
  - {name: controller-3, id: 103, roles: controller, listeners: "CONTROLLER://127.0.0.1:0"}
  - {name: broker-1, id: 1, roles: broker, listeners: "PLAINTEXT://127.0.0.1:0"}
  - {name: broker-2, id: 2, roles: broker, listeners: "PLAINTEXT://127.0.0.1:0"}
"""


def kvorum(*words: str) -> str:
    """Run a command that must work; return what it printed."""
    result = CliRunner().invoke(main, list(words))
    assert result.exit_code == 0, (words, result.output)
    return result.output


def listens_at(node: NodePlan) -> str:
    return node.properties["listeners"].partition("://")[2]


def dynamic(plan: ClusterPlan) -> ClusterPlan:
    """Return the plan with bootstrap servers in place of the voters."""
    servers = ",".join(listens_at(node) for node in plan.nodes if "controller" in node.roles)
    nodes = []
    for node in plan.nodes:
        rest = {key: text for key, text in node.properties.items() if key != "controller.quorum.voters"}
        nodes.append(NodePlan(node.name, rest | {"controller.quorum.bootstrap.servers": servers}))
    return dataclasses.replace(plan, nodes=nodes)


def format_(cluster: LocalCluster, name: str, *how: str) -> None:
    paths = cluster.node(name)
    kvorum("format", paths.config, "--cluster-id", cluster.plan.cluster_id, "--dir", paths.folder, *how)


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[LocalCluster]:
    """A cluster of one voter and two brokers; two further controllers are formatted and not started."""
    (tmp_path / "voters.yaml").write_text(FILE)
    folder = str(tmp_path / "cluster")
    plan = dynamic(plan_of(load_cluster(str(tmp_path / "voters.yaml"), folder, ()), new_cluster_id()))
    found, disk = LocalCluster(ClusterPaths(folder), plan), OsDisk()
    write_node_configs(disk, found.paths, plan)
    write_plan(disk, found.paths, plan)
    format_(found, "controller-1", "--standalone")
    for name in ("controller-2", "controller-3"):
        format_(found, name, "--no-initial-controllers")
    for name in ("broker-1", "broker-2"):
        format_(found, name)
    try:
        outcome = found.start("controller-1", "broker-1", "broker-2")
        assert set(outcome.values()) == {"ready"}, logs_of(found, outcome)
        yield found
    finally:
        for node in plan.nodes:
            found.kill(node.name)


def add(cluster: LocalCluster, name: str) -> None:
    """Add a controller that runs, once it follows and has all but the newest."""
    node_id, directory = id_of(cluster, name), directory_of(cluster, name)

    def follows() -> bool:
        quorum = quorum_of(cluster)
        if quorum is None:
            return False
        end = max(row.log_end_offset for row in quorum.current_voters)
        return any(
            (row.replica_id, row.replica_directory_id) == (node_id, directory)
            and row.last_caught_up_timestamp > 0
            and end - row.log_end_offset < NEAR
            for row in quorum.observers
        )

    eventually(follows, lambda: f"{name} as an observer without lag: {quorum_of(cluster)}")
    config = cluster.node(name).config
    output = kvorum("quorum", "add-controller", "-b", cluster.plan.bootstrap, "--config", config)
    assert output.startswith(f"Added controller {node_id} with directory id {directory} and endpoints: CONTROLLER://")


def remove(cluster: LocalCluster, name: str, directory: Uuid) -> None:
    node_id = str(id_of(cluster, name))
    command = ("kafka-metadata-quorum", "--bootstrap-server", cluster.plan.bootstrap, "remove-controller")
    output = kvorum(*command, "-i", node_id, "-d", str(directory))
    assert output == f"Removed  KRaft controller {node_id} with directory id {directory}\n"


def voters(cluster: LocalCluster, *names: str) -> dict[str, Uuid]:
    return {name: directory_of(cluster, name) for name in names}


def move(cluster: LocalCluster, name: str) -> str:
    """Stop a controller and start it on another port; return where it listens now."""
    config = Path(cluster.node(name).config)
    before = listens_at(cluster.plan.node(name))
    after = f"127.0.0.1:{free_ports(['127.0.0.1'])[0]}"
    cluster.stop(name)
    config.write_text(config.read_text().replace(f"CONTROLLER://{before}", f"CONTROLLER://{after}"))
    restart(cluster, name)
    return after


def test_from_one_controller_to_three_and_back_to_another_one(cluster: LocalCluster) -> None:
    bootstrap, chance = cluster.plan.bootstrap, random.Random(1)
    create_topic(bootstrap, "kept", 1, 2)
    sender = Sender(bootstrap, "kept")
    with MetadataWriter(bootstrap, chance.getrandbits(32)) as writer:
        writer.wait_for(3)
        for name in ("controller-2", "controller-3"):
            restart(cluster, name)
            add(cluster, name)
            sender.send(100)
        wait_for_voters(cluster, voters(cluster, *CONTROLLERS))
        writer.wait_for(3)

        # Any one of three may die, also the one that was there at first.
        kill_all(cluster, "controller-1")
        writer.wait_for(3)
        restart(cluster, "controller-1")

        # One that moved says so itself.
        where = move(cluster, "controller-2")
        status = ("kafka-metadata-quorum", "--bootstrap-server", bootstrap, "describe", "--status")
        eventually(lambda: f'["CONTROLLER://{where}"]' in kvorum(*status), lambda: kvorum(*status))
        wait_for_voters(cluster, voters(cluster, *CONTROLLERS))

        # A lost disk is another voter: the old one goes, the new one comes.
        old = directory_of(cluster, "controller-3")
        kill_all(cluster, "controller-3")
        shutil.rmtree(cluster.node("controller-3").data)
        format_(cluster, "controller-3", "--no-initial-controllers")
        restart(cluster, "controller-3")
        assert directory_of(cluster, "controller-3") not in (old, ZERO_UUID)
        remove(cluster, "controller-3", old)
        add(cluster, "controller-3")
        wait_for_voters(cluster, voters(cluster, *CONTROLLERS))
        sender.send(100)

        # Back to one, and not the one of the beginning; whoever leads is removed, too.
        for name in ("controller-1", "controller-2"):
            remove(cluster, name, directory_of(cluster, name))
            writer.wait_for(2)  # a leader that has committed nothing in its term takes no change of the voters
        wait_for_voters(cluster, voters(cluster, "controller-3"))
        kill_all(cluster, "controller-1", "controller-2")
        assert active_controller(cluster) == "controller-3"
        writer.wait_for(3)
    sender.send(100)
    sender.flush_acked(400)
    cluster.stop("broker-2")
    restart(cluster, "broker-2")
    assert_written_everywhere(cluster, writer.topics)
    assert_all_there_once_in_order(read_all(bootstrap, "kept", 1), sender.sent.acked)


def test_invalid_requests_are_refused_with_kafkas_messages(cluster: LocalCluster) -> None:
    where = ("--bootstrap-server", cluster.plan.bootstrap)
    own, config = directory_of(cluster, "controller-1"), cluster.node("controller-1").config

    def refused(*words: str) -> str:
        result = CliRunner().invoke(main, ["kafka-metadata-quorum", *where, *words])
        assert result.exit_code != 0
        return result.output

    eventually(lambda: quorum_of(cluster), "an active controller")
    key = f"ReplicaKey(id=101, directoryId={own})"
    twice = refused("--command-config", config, "add-controller")
    assert f"DUPLICATE_VOTER: The voter id for {key} is already part of the set of voters [{key}]." in twice
    other = directory_of(cluster, "controller-2")
    stranger = refused("remove-controller", "-i", "101", "-d", str(other))
    assert f"VOTER_NOT_FOUND: Cannot remove voter ReplicaKey(id=101, directoryId={other}) from" in stranger
    last = refused("remove-controller", "-i", "101", "-d", str(own))
    assert f"VOTER_NOT_FOUND: Cannot remove voter {key} from the set of voters [{key}]" in last
    absent = refused("--command-config", cluster.node("controller-2").config, "add-controller")
    assert "REQUEST_TIMED_OUT: New voter ReplicaKey(id=102" in absent and "is not ready to receive requests" in absent
