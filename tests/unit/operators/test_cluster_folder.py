"""A cluster's folder from which something is missing: what was found and what to check is printed, nothing is changed.

No message advises to remove or to format anything before it is clear that no disk is missing.
"""

import json
import shutil
from pathlib import Path

import pytest

from kvorum.cli.output import Exit
from kvorum.cluster.local.local import ClusterError, LocalCluster
from kvorum.cluster.local.plan import ClusterPlan, plan_of
from kvorum.cluster.process.exits import Exit as NodeExit
from kvorum.cluster.process.hosting import Refusal
from kvorum.cluster.process.identity import identity_of
from kvorum.runtime.cluster_file import dev_cluster
from kvorum.runtime.config_files import load_node
from kvorum.runtime.disk import OsDisk
from tests.unit.cli.fake_cluster import FakeCluster, Printed, run

CLUSTER_ID = "q2dDxX0qSi6ZGo5pjBP2lw"
FILE = """
nodes:
- {id: 1, listeners: "PLAINTEXT://127.0.0.1:0,CONTROLLER://127.0.0.1:0"}
- {id: 2, listeners: "PLAINTEXT://127.0.0.1:0,CONTROLLER://127.0.0.1:0"}
- {id: 3, listeners: "PLAINTEXT://127.0.0.1:0,CONTROLLER://127.0.0.1:0"}
"""
COMMANDS = ("up {file} --detach", "down", "status", "nodes start node-1", "nodes kill node-1", "dev -n 3 -p 0")
BROKEN = {
    "missing": None,
    "empty": b"",
    "truncated": b'{"version": 1, "cluster.id": "q2dDx',
    "bytes": b"\xff\xfe\x00",
    "list": b"[]",
    "no nodes": b'{"version": 1, "cluster.id": "q2dDxX0qSi6ZGo5pjBP2lw"}',
    "nodes are a list": b'{"version": 1, "cluster.id": "q2dDxX0qSi6ZGo5pjBP2lw", "nodes": []}',
    "node without listeners": b'{"version": 1, "cluster.id": "q2dDxX0qSi6ZGo5pjBP2lw", "nodes": {"node-1": {}}}',
    "no version": b"{}",
    "deep": b"[" * 100_000,
}


def planned(folder: Path, cluster_id: str = CLUSTER_ID) -> ClusterPlan:
    return plan_of(dev_cluster(3, 0, str(folder)), cluster_id)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Three nodes, formatted, none of which runs."""
    made = tmp_path / "data"
    LocalCluster.create(str(made), planned(made))
    return made


@pytest.fixture(scope="module")
def shared_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same, for tests that change nothing but cluster.json."""
    made = tmp_path_factory.mktemp("shared") / "data"
    LocalCluster.create(str(made), planned(made))
    return made


def files(folder: Path) -> dict[str, bytes]:
    """Return all there is in a folder; the lock that a command holds is no part of the cluster."""
    found = {str(path): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}
    return {path: data for path, data in found.items() if path != str(folder / ".lock")}


def refused(folder: Path, text: str) -> Printed:
    """Run a command on the folder; it ends with one line, and the folder is as it was."""
    file = folder.parent / "cluster.yaml"
    file.write_text(FILE)
    before = files(folder)
    printed = run(FakeCluster(), *text.format(file=file).split(), "--dir", str(folder))
    assert printed.code in (Exit.FAILED, Exit.NOT_FOUND, NodeExit.DATA_REFUSED), printed
    assert len(printed.err.splitlines()) == 1 and not printed.out, printed
    assert "remove it" not in printed.err and "--ignore-formatted" not in printed.err
    assert files(folder) == before
    return printed


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("damage", BROKEN)
def test_without_cluster_json_a_command_ends_with_a_line_and_the_data_stay(
    shared_folder: Path, command: str, damage: str
) -> None:
    path = shared_folder / "cluster.json"
    path.unlink(missing_ok=True)
    content = BROKEN[damage]
    if content is not None:
        path.write_bytes(content)
    printed = refused(shared_folder, command)
    assert "cluster.json" in printed.err and "--rebuild" in printed.err


def test_found_and_missing_parts_are_named(folder: Path) -> None:
    (folder / "cluster.json").unlink()
    shutil.rmtree(folder / "node-2")
    message = refused(folder, "up {file} --detach").err
    assert f"found node-1 (of cluster {CLUSTER_ID}), node-3" in message
    assert "missing cluster.json, node-2" in message and "mounted" in message


def test_a_cluster_json_of_a_newer_release_is_not_rebuilt(folder: Path) -> None:
    (folder / "cluster.json").write_text('{"version": 2}')
    assert "version 2" in refused(folder, "status").err
    with pytest.raises(ClusterError, match="version 2"):
        LocalCluster.rebuild(str(folder), planned(folder))


def test_a_folder_without_nodes_has_no_cluster(tmp_path: Path) -> None:
    printed = run(FakeCluster(), "status", "--dir", str(tmp_path))
    assert printed.code == Exit.NOT_FOUND and "there is no cluster" in printed.err


@pytest.mark.parametrize("damage", ["missing", "truncated", "list"])
def test_cluster_json_is_written_again_from_the_nodes(folder: Path, damage: str) -> None:
    path, content = folder / "cluster.json", BROKEN[damage]
    before = json.loads(path.read_text())
    path.unlink()
    if content is not None:
        path.write_bytes(content)
    rest = {name: data for name, data in files(folder).items() if name != str(path)}
    LocalCluster.rebuild(str(folder), planned(folder, "another-id"))
    after = json.loads(path.read_text())
    for name, properties in before["nodes"].items():
        before["nodes"][name] = {"log.dirs": str(folder / name / "data")} | properties
    assert after == before
    assert {name: data for name, data in files(folder).items() if name != str(path)} == rest
    assert [node.name for node in LocalCluster.open(str(folder)).plan.nodes] == ["node-1", "node-2", "node-3"]


def test_the_folders_of_nodes_that_lost_their_configuration_are_found_by_the_plan(folder: Path) -> None:
    plan = LocalCluster.open(str(folder)).plan
    (folder / "cluster.json").unlink()
    (folder / "node-1" / "node.properties").unlink()
    with pytest.raises(ClusterError, match=r"node-1/node\.properties is missing"):
        LocalCluster.rebuild(str(folder), plan)
    with pytest.raises(ClusterError, match="found node-1"):
        LocalCluster.create(str(folder), plan)
    for name in ("node-2", "node-3"):
        (folder / name / "node.properties").unlink()
    assert LocalCluster.rebuild(str(folder), plan).plan == plan
    assert (folder / "node-1" / "node.properties").exists()


def test_nothing_is_rebuilt_where_a_part_is_missing(folder: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    with pytest.raises(ClusterError, match="is complete"):
        LocalCluster.rebuild(str(folder), planned(folder))
    (folder / "cluster.json").unlink()
    LocalCluster.create(str(other), planned(other, "Some22oqSi6ZGo5pjBP2lw"))
    (folder / "node-3" / "data").rename(tmp_path / "unmounted")
    with pytest.raises(ClusterError, match=r"node-3/data of node-3 has no meta\.properties; check that all disks"):
        LocalCluster.rebuild(str(folder), planned(folder))
    shutil.copytree(other / "node-3" / "data", folder / "node-3" / "data")
    with pytest.raises(ClusterError, match="the data belong to the clusters"):
        LocalCluster.rebuild(str(folder), planned(folder))
    shutil.rmtree(folder / "node-3")
    with pytest.raises(ClusterError, match="node-3 is missing"):
        LocalCluster.rebuild(str(folder), planned(folder))
    with pytest.raises(ClusterError, match="there is no data"):
        LocalCluster.rebuild(str(tmp_path / "empty"), ClusterPlan(CLUSTER_ID, []))
    assert not (folder / "cluster.json").exists()


def test_a_directory_without_identity_is_first_taken_for_a_missing_mount(folder: Path) -> None:
    settings = load_node(str(folder / "node-1" / "node.properties"), environment={}).settings
    empty = folder / "node-1" / "data-controller"
    shutil.rmtree(empty)
    with pytest.raises(Refusal, match=f"mounted .findmnt -T {empty}"):
        identity_of(OsDisk(), settings, str(empty))
    empty.mkdir()
    with pytest.raises(Refusal, match="only a new node is formatted"):
        identity_of(OsDisk(), settings, str(empty))


def test_no_node_is_started_where_a_nodes_folder_is_missing(folder: Path) -> None:
    shutil.rmtree(folder / "node-2")
    cluster = LocalCluster.open(str(folder))
    with pytest.raises(ClusterError, match=r"node-2/node\.properties is missing; check first that its disk is mounted"):
        cluster.start()
    assert all(not cluster.processes(name) for name in ("node-1", "node-3"))
    assert not (folder / "node-1" / "node.log").exists()
    assert "mounted" in refused(folder, "nodes start node-2").err
