"""The copies of docs/operate/backup.md and disks.md: a stopped cluster, and an old directory of one broker."""

import shutil
from pathlib import Path

from kvorum.cluster.local.local import LocalCluster
from tests.cluster.clients import Sender, create_topic, eventually, isr_of, read_all
from tests.cluster.conftest import Start

TOPIC = "orders"
RECORDS = 60
PARTITIONS = 3


def produce(cluster: LocalCluster, *nodes: str) -> None:
    """Send RECORDS more, all of them acknowledged."""
    sender = Sender(bootstrap_of(cluster, *nodes), TOPIC)
    sender.send(RECORDS, partitions=PARTITIONS)
    sender.flush_acked(RECORDS)


def bootstrap_of(cluster: LocalCluster, *nodes: str) -> str:
    """Return the addresses of these nodes, of all if none is named."""
    listeners = [cluster.plan.node(name).properties["listeners"] for name in nodes]
    return ",".join(each.partition("//")[2].partition(",")[0] for each in listeners) or cluster.plan.bootstrap


def counts(cluster: LocalCluster) -> list[int]:
    found = read_all(cluster.plan.bootstrap, TOPIC, PARTITIONS)
    return [len(found[partition]) for partition in range(PARTITIONS)]


def test_a_copy_of_a_cluster_that_was_down_is_the_cluster_of_that_moment(start_cluster: Start, tmp_path: Path) -> None:
    cluster = start_cluster("single.yaml")
    create_topic(cluster.plan.bootstrap, TOPIC, PARTITIONS, 1)
    produce(cluster)
    assert cluster.stop() == []
    folder = Path(cluster.paths.folder)
    shutil.copytree(folder, tmp_path / "backup", symlinks=True)
    assert set(cluster.start().values()) == {"ready"}
    produce(cluster)
    assert counts(cluster) == [2 * RECORDS // PARTITIONS] * PARTITIONS
    assert cluster.stop() == []
    shutil.rmtree(folder)
    shutil.copytree(tmp_path / "backup", folder, symlinks=True)
    assert set(cluster.start().values()) == {"ready"}
    assert counts(cluster) == [RECORDS // PARTITIONS] * PARTITIONS


def test_an_old_copy_of_a_brokers_directory_is_brought_up_to_date(start_cluster: Start, tmp_path: Path) -> None:
    """It led meanwhile, and others do now; at the end all replicas have the same bytes."""
    cluster = start_cluster("three-nodes.yaml")
    create_topic(cluster.plan.bootstrap, TOPIC, PARTITIONS, 3)
    produce(cluster)
    assert cluster.stop("node-2") == []
    data = Path(cluster.plan.node("node-2").properties["log.dirs"])
    shutil.copytree(data, tmp_path / "old")
    assert cluster.start("node-2") == {"node-2": "ready"}
    in_sync(cluster)
    produce(cluster)
    assert cluster.stop("node-2") == []
    produce(cluster, "node-1", "node-3")
    shutil.rmtree(data)
    shutil.copytree(tmp_path / "old", data)
    assert cluster.start("node-2") == {"node-2": "ready"}
    in_sync(cluster)
    assert counts(cluster) == [3 * RECORDS // PARTITIONS] * PARTITIONS
    held = {
        name: [
            Path(cluster.plan.node(name).properties["log.dirs"], f"{TOPIC}-{index}", f"{0:020d}.log").read_bytes()
            for index in range(PARTITIONS)
        ]
        for name in ("node-1", "node-2", "node-3")
    }
    assert held["node-1"] == held["node-2"] == held["node-3"]


def in_sync(cluster: LocalCluster) -> None:
    """Wait until every replica is."""
    eventually(
        lambda: all(isr_of(cluster.plan.bootstrap, TOPIC, index) == [1, 2, 3] for index in range(PARTITIONS)),
        "all replicas in sync",
    )
