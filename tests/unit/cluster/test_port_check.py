"""A port that cannot be bound is named before a node is formatted, and before its processes start."""

import os
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from kvorum.cluster.local.local import LocalCluster
from kvorum.cluster.local.paths import NodePaths
from kvorum.cluster.local.plan import ClusterError, PortUnusable, plan_of
from kvorum.cluster.local.port_check import listeners_of, port_problem
from kvorum.cluster.process import readiness
from kvorum.cluster.process.child import run_supervisor
from kvorum.cluster.process.exits import Exit
from kvorum.runtime.cluster_file import dev_cluster
from kvorum.runtime.config import Settings

CLUSTER_ID = "q2dDxX0qSi6ZGo5pjBP2lw"


@pytest.fixture
def taken() -> Iterator[int]:
    """A port on which something listens."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()[1]


def node(**more: str) -> Settings:
    properties = {
        "process.roles": "broker,controller",
        "node.id": "1",
        "controller.listener.names": "CONTROLLER",
        "listeners": "PLAINTEXT://127.0.0.1:0,CONTROLLER://127.0.0.1:0",
        "controller.quorum.voters": "1@127.0.0.1:0",
    }
    return Settings.of(properties | {key.replace("_", "."): value for key, value in more.items()})


def test_every_address_of_a_node_is_checked() -> None:
    settings = node(
        listeners="PLAINTEXT://127.0.0.1:1,CONTROLLER://127.0.0.1:2",
        metrics_listener="http://127.0.0.1:3",
        kvorum_controller_metrics_listener="http://127.0.0.1:4",
        admin_listeners="http://127.0.0.1:5",
        kvorum_chaos_listener="127.0.0.1:6",
        kvorum_controller_chaos_listener="127.0.0.1:7",
    )
    assert sorted(each.port for each in listeners_of(settings)) == [1, 2, 3, 4, 5, 6, 7]


@pytest.mark.parametrize(
    ("key", "value", "label"),
    [
        ("listeners", "PLAINTEXT://127.0.0.1:{},CONTROLLER://127.0.0.1:0", "listener PLAINTEXT"),
        ("listeners", "PLAINTEXT://127.0.0.1:0,CONTROLLER://127.0.0.1:{}", "listener CONTROLLER"),
        ("listeners", "PLAINTEXT://0.0.0.0:{},CONTROLLER://127.0.0.1:0", "listener PLAINTEXT"),
        ("admin_listeners", "http://127.0.0.1:{}", "admin.listeners"),
        ("metrics_listener", "http://127.0.0.1:{}", "metrics of the broker"),
    ],
)
def test_a_port_in_use_is_named_with_its_listener_and_node(key: str, value: str, label: str, taken: int) -> None:
    problem = port_problem(node(**{key: value.format(taken)}))
    assert problem is not None and problem.is_taken
    assert problem.of_node("node-1") == f"port {taken} ({label} of node-1) is in use"


def test_an_address_of_another_machine_is_named() -> None:
    problem = port_problem(node(admin_listeners="http://192.0.2.1:18080"))
    assert problem is not None and not problem.is_taken
    assert problem.of_node("") == "192.0.2.1 (admin.listeners) is not an address of this machine"


def test_free_ports_are_no_problem() -> None:
    assert port_problem(node()) is None


def test_no_folder_is_formatted_where_a_port_is_in_use(tmp_path: Path, taken: int) -> None:
    folder = tmp_path / "c"
    with pytest.raises(PortUnusable, match=rf"^port {taken} \(listener PLAINTEXT of node-1\) is in use$"):
        LocalCluster.create(str(folder), plan_of(dev_cluster(1, taken, str(folder)), CLUSTER_ID))
    assert not folder.exists() or not list(folder.iterdir())


def test_a_node_whose_port_is_in_use_reports_it_to_its_parent_and_starts_no_role(
    tmp_path: Path, taken: int, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:

    reading, writing = os.pipe()
    monkeypatch.setenv(readiness.VARIABLE, str(writing))
    monkeypatch.setattr("kvorum.cluster.process.child.TAKEN_SECONDS", 0.0)
    settings = node(listeners=f"PLAINTEXT://127.0.0.1:{taken},CONTROLLER://127.0.0.1:0")
    paths = NodePaths(str(tmp_path))
    assert run_supervisor(settings, paths, "unused", [], to_files=True) == Exit.BUSY
    advice = "choose another in unused, or stop the process that uses it"
    reason = f"port {taken} (listener PLAINTEXT of {tmp_path.name}) is in use; {advice}"
    assert readiness.read_lines(reading).refused == [reason]
    assert capfd.readouterr().err == f"kvorum: {reason}\n"
    assert not (tmp_path / "broker.log").exists()
    os.close(reading)
    os.close(writing)


def test_a_cluster_of_which_no_node_was_ready_is_set_aside(tmp_path: Path) -> None:
    folder = str(tmp_path / "c")
    cluster = LocalCluster.create(folder, plan_of(dev_cluster(3, 0, folder), CLUSTER_ID))
    aside = LocalCluster.set_aside_unstarted(folder)
    assert aside is not None and (Path(aside) / "node-2" / "data" / "meta.properties").exists()
    with pytest.raises(ClusterError, match="no cluster"):
        LocalCluster.open(folder)
    assert LocalCluster.set_aside_unstarted(folder) is None
    again = LocalCluster.create(folder, plan_of(dev_cluster(1, 0, folder), "Some22oqSi6ZGo5pjBP2lw"))
    assert [node.name for node in again.plan.nodes] == ["node-1"] != [node.name for node in cluster.plan.nodes]


def test_a_cluster_with_a_ready_node_or_with_data_is_never_set_aside(tmp_path: Path) -> None:

    folder = str(tmp_path / "c")
    cluster = LocalCluster.create(folder, plan_of(dev_cluster(1, 0, folder), CLUSTER_ID))
    partition = Path(cluster.node("node-1").data) / "orders-0"
    partition.mkdir()
    assert LocalCluster.set_aside_unstarted(folder) is None, "a partition of a topic"
    partition.rmdir()
    reading, writing = os.pipe()
    os.write(writing, readiness.READY)
    os.close(writing)
    assert cluster.wait([("node-1", reading)], 10) == {"node-1": "ready"}
    assert LocalCluster.set_aside_unstarted(folder) is None, "a node was ready"


def test_a_cluster_whose_nodes_died_was_not_started(tmp_path: Path) -> None:

    folder = str(tmp_path / "c")
    cluster = LocalCluster.create(folder, plan_of(dev_cluster(1, 0, folder), CLUSTER_ID))
    reading, writing = os.pipe()
    os.write(writing, readiness.REFUSED + b"broker: the disk is full\n")
    os.close(writing)
    assert cluster.wait([("node-1", reading)], 10) == {"node-1": "died"}
    assert cluster.refusals == {"node-1": "broker: the disk is full"}
    assert LocalCluster.set_aside_unstarted(folder) is not None
