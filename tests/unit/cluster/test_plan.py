"""Plans of clusters on this machine: ports, voters, files."""

from pathlib import Path

import pytest

from kvorum.cluster.local.local import ClusterError, LocalCluster
from kvorum.cluster.local.paths import ClusterPaths
from kvorum.cluster.local.plan import plan_of, read_plan
from kvorum.cluster.local.ports import free_ports
from kvorum.runtime.cluster_file import dev_cluster
from kvorum.runtime.config_files import load_node
from kvorum.runtime.disk import OsDisk


def addresses(text: str) -> list[str]:
    return [part.partition("://")[2] or part for part in text.split(",")]


@pytest.mark.parametrize("count", [1, 2, 3, 5])
def test_every_port_of_a_dev_cluster_is_chosen_once_and_the_voters_know_it(count: int, tmp_path: Path) -> None:
    plan = plan_of(dev_cluster(count, 0, str(tmp_path)), "id")
    keys = ("listeners", "metrics.listener", "kvorum.controller.metrics.listener", "admin.listeners")
    found = [a for node in plan.nodes for key in keys for a in addresses(node.properties.get(key, "")) if a]
    assert not [address for address in found if address.endswith(":0")]
    assert len(set(found)) == len(found)
    controllers = {
        f"{node.properties['node.id']}@{addresses(node.properties['listeners'])[-1]}"
        for node in plan.nodes
        if "controller" in node.roles
    }
    assert {node.properties["controller.quorum.voters"] for node in plan.nodes} == {",".join(sorted(controllers))}
    assert len(plan.endpoints()) == count
    assert len(plan.admin_urls()) == 1


def test_given_ports_are_kept(tmp_path: Path) -> None:
    first, second = sorted(free_ports(["127.0.0.1"] * 2))
    plan = plan_of(dev_cluster(2, first, str(tmp_path), admin_port=second + 2), "id")
    assert plan.endpoints()[0] == f"127.0.0.1:{first}"
    assert plan.admin_urls() == [f"http://127.0.0.1:{second + 2}"], "the console is on the first node only"


def test_a_cluster_is_made_once_and_found_again_with_its_ports_and_ids(tmp_path: Path) -> None:
    folder = str(tmp_path / "c")
    made = LocalCluster.create(folder, plan_of(dev_cluster(3, 0, folder), "first-id"))
    again = LocalCluster.create(folder, plan_of(dev_cluster(3, 0, folder), "second-id"))
    assert again.plan == made.plan == LocalCluster.open(folder).plan == read_plan(OsDisk(), ClusterPaths(folder))
    assert again.plan.cluster_id == "first-id"
    settings = load_node(made.node("node-2").config, environment={}).settings
    assert settings.int("node.id") == 2
    assert (Path(made.node("node-2").data) / "meta.properties").exists()


def test_a_missing_cluster_and_node_are_named(tmp_path: Path) -> None:
    with pytest.raises(ClusterError, match=r"cluster\.json"):
        LocalCluster.open(str(tmp_path))
    folder = str(tmp_path / "c")
    cluster = LocalCluster.create(folder, plan_of(dev_cluster(1, 0, folder), "id"))
    with pytest.raises(ClusterError, match="there are node-1"):
        cluster.node("node-7")
    assert cluster.processes("node-1") == {}
    assert cluster.kill("node-1") == []
    assert cluster.stop() == []
