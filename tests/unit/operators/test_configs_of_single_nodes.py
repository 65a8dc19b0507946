"""`--set NODE:KEY=VALUE` and cluster files set configs of single nodes, their own advertised listeners too."""

from collections.abc import Callable
from pathlib import Path

import pytest

from kvorum.cluster.local.local import LocalCluster
from kvorum.cluster.local.plan import plan_of
from kvorum.cluster.process.exits import Exit as NodeExit
from kvorum.runtime.cluster_file import ClusterSpec, dev_cluster, load_cluster
from kvorum.runtime.config import ConfigError
from kvorum.runtime.config_files import load_node
from tests.unit.cli.fake_cluster import FakeCluster, run

FILE = """
defaults: {broker.rack: a, num.partitions: 2}
nodes:
- {id: 1}
- {id: 2, name: second, advertised.listeners: "PLAINTEXT://localhost:9092"}
"""


def loaded(folder: Path, *overrides: str) -> ClusterSpec:
    (folder / "cluster.yaml").write_text(FILE)
    return load_cluster(str(folder / "cluster.yaml"), str(folder), overrides)


def values(spec: ClusterSpec, key: str) -> list[str | None]:
    return [node.settings.raw(key) for node in spec.nodes]


def of_dev(folder: Path, *overrides: str) -> ClusterSpec:
    return dev_cluster(2, 0, str(folder), overrides)


@pytest.mark.parametrize(("make", "name"), [(loaded, "second"), (of_dev, "node-2")], ids=["up", "dev"])
def test_the_config_of_one_node_is_set_and_wins_over_that_of_all(
    tmp_path: Path, make: Callable[..., ClusterSpec], name: str
) -> None:
    spec = make(tmp_path, f"{name}:broker.rack=b", "broker.rack=c", "node-1:num.partitions=7", "num.partitions=5")
    assert values(spec, "broker.rack") == ["c", "b"] and values(spec, "num.partitions") == ["7", "5"]
    assert spec.nodes[1].settings.source("broker.rack").where == f"--set {name}"


def test_each_node_advertises_its_own_listeners(tmp_path: Path) -> None:
    assert values(loaded(tmp_path), "advertised.listeners") == [None, "PLAINTEXT://localhost:9092"]
    sets = [f"node-{n}:advertised.listeners=PLAINTEXT://host-{n}:0" for n in (1, 2)]
    plan = plan_of(dev_cluster(2, 0, str(tmp_path), sets), "id")
    for number, node in enumerate(plan.nodes, start=1):
        (own,) = [text for text in node.properties["listeners"].split(",") if text.startswith("PLAINTEXT")]
        assert node.properties["advertised.listeners"] == f"PLAINTEXT://host-{number}:{own.rpartition(':')[2]}"


def test_a_set_config_is_only_in_that_nodes_configuration(tmp_path: Path) -> None:
    plan = plan_of(dev_cluster(2, 0, str(tmp_path), ["node-2:broker.rack=b"]), "q2dDxX0qSi6ZGo5pjBP2lw")
    cluster = LocalCluster.create(str(tmp_path), plan)
    files = [cluster.node(node.name).config for node in plan.nodes]
    assert [load_node(file, environment={}).settings.raw("broker.rack") for file in files] == [None, "b"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("node-9:broker.rack=b", r"--set: there is no node 'node-9'; there are node-1, second"),
        ("2:broker.rack=b", r"there is no node '2'"),
        ("second:broker.rack", r"--set second: 'broker.rack' is not KEY=VALUE"),
        ("second:", r"--set second: '' is not KEY=VALUE"),
        (":broker.rack=b", r"--set: ':broker.rack=b' is neither KEY=VALUE nor NODE:KEY=VALUE"),
        ("second:num.partitions=x", r"--set second: num\.partitions=x: Not a number"),
        ("second:node.id=1", r"second uses the same node id 1 as node-1"),
    ],
)
def test_unknown_nodes_and_configs_are_named(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        loaded(tmp_path, text)
    printed = run(FakeCluster(), "up", str(tmp_path / "cluster.yaml"), "--dir", str(tmp_path / "d"), "--set", text)
    assert printed.code == NodeExit.CONFIG and len(printed.err.splitlines()) == 1
    assert not (tmp_path / "d").exists()


def test_a_key_that_is_unknown_is_a_warning_that_names_the_node(tmp_path: Path) -> None:
    (warning,) = set(loaded(tmp_path, "second:num.partition=3").warnings) - set(loaded(tmp_path).warnings)
    assert warning.startswith("--set second: num.partition is not a config") and "num.partitions" in warning
