"""A static quorum made a dynamic one while clients work (kraft.version 1), and what follows: one comes, one goes.

Everything is done with the command line; records and topics are written by confluent-kafka all the while.
"""

import dataclasses
import json
import random
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

from kvorum.cli.main import main
from kvorum.cluster.local.formatting import new_cluster_id
from kvorum.cluster.local.local import LocalCluster
from kvorum.cluster.local.paths import ClusterPaths
from kvorum.cluster.local.plan import ClusterPlan, NodePlan, plan_of, write_node_configs, write_plan
from kvorum.runtime.cluster_file import load_cluster
from kvorum.runtime.disk import OsDisk
from tests.cluster.clients import Sender, assert_all_there_once_in_order, create_topic, eventually, read_all
from tests.cluster.conftest import logs_of
from tests.cluster.nodes import active_controller, kill_all, quorum_of, restart
from tests.cluster.quorum_kit import (
    BROKERS,
    CONTROLLERS,
    THREE_CONTROLLERS,
    MetadataWriter,
    assert_written_everywhere,
    directory_of,
    wait_for_voters,
    wipe,
)

FOURTH = """
  - {name: controller-4, id: 104, roles: controller, listeners: "CONTROLLER://127.0.0.1:0"}
"""
UPGRADE = ("upgrade", "--feature", "kraft.version=1")


def without_the_fourth(plan: ClusterPlan) -> ClusterPlan:
    """Return the plan with three static voters; the fourth controller has bootstrap servers instead."""
    key = "controller.quorum.voters"
    nodes = []
    for node in plan.nodes:
        voters = [each for each in node.properties[key].split(",") if not each.startswith("104@")]
        properties = node.properties | {key: ",".join(voters)}
        if node.name == "controller-4":
            del properties[key]
            properties["controller.quorum.bootstrap.servers"] = ",".join(each.partition("@")[2] for each in voters)
        nodes.append(NodePlan(node.name, properties))
    return dataclasses.replace(plan, nodes=nodes)


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[LocalCluster]:
    """A cluster of three static voters and two brokers; a fourth controller is formatted and not started."""
    (tmp_path / "static.yaml").write_text(THREE_CONTROLLERS + FOURTH.lstrip("\n"))
    folder = str(tmp_path / "cluster")
    plan = without_the_fourth(plan_of(load_cluster(str(tmp_path / "static.yaml"), folder, ()), new_cluster_id()))
    found, disk = LocalCluster(ClusterPaths(folder), plan), OsDisk()
    write_node_configs(disk, found.paths, plan)
    write_plan(disk, found.paths, plan)
    for name in (*CONTROLLERS, *BROKERS, "controller-4"):
        paths, how = found.node(name), ["--no-initial-controllers"] if name == "controller-4" else []
        done, output = run("format", paths.config, "--cluster-id", plan.cluster_id, "--dir", paths.folder, *how)
        assert done, output
    try:
        outcome = found.start(*CONTROLLERS, *BROKERS)
        assert set(outcome.values()) == {"ready"}, logs_of(found, outcome)
        yield found
    finally:
        for node in plan.nodes:
            found.kill(node.name)


def run(*words: str) -> tuple[bool, str]:
    """Run a command; return whether it worked, and what it printed."""
    result = CliRunner().invoke(main, list(words))
    return result.exit_code == 0, result.output


def features(cluster: LocalCluster, *words: str) -> tuple[bool, str]:
    return run("kafka-features", "--bootstrap-server", cluster.plan.bootstrap, *words)


def level(cluster: LocalCluster) -> int:
    done, output = run("features", "describe", "-b", cluster.plan.bootstrap, "-o", "json")
    assert done, output
    rows = {row["feature"]: row["finalized"] for row in json.loads(output)}
    return int(rows["kraft.version"])


def add_the_fourth(cluster: LocalCluster) -> None:
    words = ("quorum", "add-controller", "-b", cluster.plan.bootstrap, "--config", cluster.node("controller-4").config)
    last = ""

    def added() -> bool:
        nonlocal last
        done, last = run(*words)
        return done or "DUPLICATE_VOTER" in last

    eventually(added, lambda: last)  # until it has the log it lags behind


def test_a_static_quorum_is_upgraded_with_an_added_and_a_removed_voter_and_a_restart(cluster: LocalCluster) -> None:
    bootstrap, chance = cluster.plan.bootstrap, random.Random(1)
    create_topic(bootstrap, "kept", 1, 2)
    sender = Sender(bootstrap, "kept")
    with MetadataWriter(bootstrap, chance.getrandbits(32)) as writer:
        writer.wait_for(3)
        sender.send(100)

        # Refused while one is away; whoever loses its disk is taken in by itself, still.
        away = next(name for name in CONTROLLERS if name != active_controller(cluster))
        kill_all(cluster, away)
        done, output = features(cluster, *UPGRADE)
        assert not done and "not all of the voters support it" in output
        wipe(cluster, away)
        restart(cluster, away)
        wait_for_voters(cluster, {name: directory_of(cluster, name) for name in CONTROLLERS})

        eventually(lambda: features(cluster, *UPGRADE, "--dry-run")[0], "a dry run that says yes")
        assert level(cluster) == 0
        done, output = features(cluster, *UPGRADE)
        assert done and output == "kraft.version was upgraded to 1.\n", output
        eventually(lambda: level(cluster) == 1, "the level on a broker")
        done, output = features(cluster, "downgrade", "--feature", "kraft.version=0")
        assert not done and "Can't downgrade the version of this feature." in output
        writer.wait_for(3)

        restart(cluster, "controller-4")
        add_the_fourth(cluster)
        wait_for_voters(cluster, {name: directory_of(cluster, name) for name in (*CONTROLLERS, "controller-4")})
        sender.send(100)

        # A lost disk is an observer from now on, until somebody removes the voter that it was.
        old = directory_of(cluster, away)
        kill_all(cluster, away)
        new = wipe(cluster, away)
        restart(cluster, away)

        def follows() -> bool:
            quorum = quorum_of(cluster)
            return quorum is not None and new in [row.replica_directory_id for row in quorum.observers]

        eventually(follows, lambda: f"{away} among the observers: {quorum_of(cluster)}")
        quorum = eventually(lambda: quorum_of(cluster), "an active controller")
        assert old in [row.replica_directory_id for row in quorum.current_voters]
        words = ("remove-controller", "-i", str(101 + CONTROLLERS.index(away)), "-d", str(old))
        done, output = run("kafka-metadata-quorum", "--bootstrap-server", bootstrap, *words)
        assert done, output
        kept = (*(name for name in CONTROLLERS if name != away), "controller-4")
        wait_for_voters(cluster, {name: directory_of(cluster, name) for name in kept})
        writer.wait_for(3)
        sender.send(100)

        # Everybody at once, the properties as they were.
        everybody = (*CONTROLLERS, "controller-4", *BROKERS)
        kill_all(cluster, *everybody)
        restart(cluster, *everybody)
        wait_for_voters(cluster, {name: directory_of(cluster, name) for name in kept})
        assert level(cluster) == 1
        kill_all(cluster, kept[0], away)
        writer.wait_for(3)
    sender.send(100)
    sender.flush_acked(400)
    assert_written_everywhere(cluster, writer.topics)
    assert_all_there_once_in_order(read_all(bootstrap, "kept", 1), sender.sent.acked)
