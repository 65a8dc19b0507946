"""What a newcomer does wrong, or sees first, with commands that run a cluster on this machine."""

import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

from kvorum.cli.local import dev, folders
from kvorum.cli.main import main
from kvorum.cli.output import Exit, install_hint
from kvorum.cli.pipelines import run as pipelines_run
from kvorum.cluster.local.local import LocalCluster
from kvorum.cluster.local.plan import plan_of
from kvorum.cluster.process.exits import Exit as NodeExit
from kvorum.runtime.cluster_file import dev_cluster
from tests.cluster.clients import eventually

CLUSTER_ID = "q2dDxX0qSi6ZGo5pjBP2lw"
PROCESS = """
import signal, sys
from kvorum.runtime.process import write_pid_file
write_pid_file(sys.argv[1])
signal.pause()
"""


def run(*arguments: str) -> tuple[int, str]:
    result = CliRunner().invoke(main, arguments, prog_name="kvorum")
    return result.exit_code, result.output


@pytest.fixture
def cluster(tmp_path: Path) -> LocalCluster:
    folder = str(tmp_path / "data")
    return LocalCluster.create(folder, plan_of(dev_cluster(3, 0, folder), CLUSTER_ID))


@pytest.fixture
def process(cluster: LocalCluster) -> Iterator["subprocess.Popen[bytes]"]:
    """Run a process that has the pid file of node-2."""
    path = cluster.node("node-2").pid("node")
    started = subprocess.Popen([sys.executable, "-c", PROCESS, path])
    try:
        eventually(lambda: "node" in cluster.processes("node-2"), "pid file")
        yield started
    finally:
        started.kill()
        started.wait()


def test_node_commands_report_their_action(cluster: LocalCluster, process: "subprocess.Popen[bytes]") -> None:
    place = ("node-2", "--dir", cluster.paths.folder)
    for verb, done in (("pause", "paused"), ("resume", "resumed"), ("kill", "killed")):
        assert run("nodes", verb, *place) == (Exit.DONE, f"node-2 {done} (pid {process.pid})\n")
    assert run("nodes", "kill", *place) == (Exit.NOT_FOUND, "kvorum: node-2 is not running\n")


def test_a_folder_with_foreign_files_is_refused_and_left_alone(tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").touch()
    file = tmp_path.parent / f"{tmp_path.name}.yaml"
    file.write_text("nodes: [{id: 1}]\n")
    for words in (["dev"], ["up", str(file)], ["up", str(file), "--detach"]):
        code, printed = run(*words, "--dir", str(tmp_path))
        assert (code, printed.count("\n")) == (NodeExit.DATA_REFUSED, 1)
        assert "is not empty and holds no cluster: it has thesis.txt; choose an empty folder with --dir" in printed
    assert {each.name for each in tmp_path.iterdir()} <= {"thesis.txt", ".lock"}


def test_a_folder_with_another_cluster_is_started_as_it_is_with_a_warning(
    cluster: LocalCluster, capsys: pytest.CaptureFixture[str]
) -> None:
    place = cluster.paths.folder
    os.unlink(cluster.paths.never_started_file)
    assert len(folders.make(place, dev_cluster(1, 0, place), detached=False, rebuild=False).plan.nodes) == 3
    first, second, *_ = capsys.readouterr().err.splitlines()
    assert first.startswith(f"warning: {place} already holds cluster {CLUSTER_ID} with 3 nodes, which keeps its")
    assert second == "warning: the cluster keeps its nodes node-1, node-2, node-3; requested: node-1"


def test_the_console_has_its_default_port_or_the_next_free_one(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        monkeypatch.setattr(dev, "DEFAULT_ADMIN_PORT", port)
        found = dev.free_admin_port(first_broker_port=1, brokers=1)
        assert port < found < port + dev.ADMIN_PORTS_TRIED
        second = dev.free_admin_port(first_broker_port=1, brokers=1)
        assert second not in (port, found), "a cluster that starts at the same moment has it"
        assert dev.free_admin_port(first_broker_port=second + 1, brokers=1) != second + 1, "a broker has it"
    assert dev.free_admin_port(first_broker_port=1, brokers=1) == port


def test_a_warning_names_the_option_that_was_typed() -> None:
    (warning,) = dev_cluster(1, 0, "data", ("bad.key=3",)).warnings
    assert warning == "--set: bad.key is not a config of Kafka or Kvorum"


def test_installation_hints_name_no_package_that_does_not_exist() -> None:
    assert install_hint("chaos") == "pip install '.[chaos]' in the checkout, or 'WHEEL[chaos]'"


def test_a_missing_cluster_is_one_line_with_a_remedy(tmp_path: Path) -> None:
    for words in (["status"], ["down"], ["nodes", "start", "node-1"]):
        code, printed = run(*words, "--dir", str(tmp_path / "nothing"))
        assert (code, printed.count("\n")) == (Exit.NOT_FOUND, 1)
        assert "there is no cluster in" in printed and "--dir or KVORUM_DIR" in printed
    assert not os.path.exists(tmp_path / "nothing")


@pytest.mark.parametrize(
    ("words", "advice"),
    [
        (("dev", "--port", "PORT"), "(listener PLAINTEXT of node-1) is in use; choose another with --port"),
        (("dev", "--nodes", "3", "--port", "0", "--admin-port", "PORT"), "choose another with --admin-port"),
        (("up", "ONE"), "is in use; choose another in"),
        (("up", "THREE", "--detach"), "(listener PLAINTEXT of node-3) is in use; choose another in"),
        (("quickstart", "--config", "THREE"), "stop the process that uses it, or: kvorum init my.yaml"),
    ],
    ids=["dev", "console of three nodes", "up", "up, three nodes", "quickstart"],
)
def test_a_port_in_use_has_one_line_and_one_exit_code_in_every_command(
    words: tuple[str, ...], advice: str, tmp_path: Path
) -> None:
    node = "{{id: {}, listeners: ['PLAINTEXT://127.0.0.1:{}', 'CONTROLLER://127.0.0.1:0']}}"
    folder = tmp_path / "data"
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        names = {"PORT": str(port)}
        for name, ports in (("ONE", [port]), ("THREE", [0, 0, port])):
            names[name] = str(tmp_path / f"{name}.yaml")
            rows = ", ".join(node.format(number, each) for number, each in enumerate(ports, 1))
            Path(names[name]).write_text(f"nodes: [{rows}]\n")
        code, printed = run(*(names.get(word, word) for word in words), "--dir", str(folder))
    assert (code, printed.count("\n")) == (NodeExit.BUSY, 1), printed
    assert f"kvorum: port {port} (" in printed and advice in printed
    assert not list(folder.glob("node-*")), "nothing was formatted"


@pytest.mark.parametrize("words", [("dev", "--port", "0", "--admin-port", "0"), ("quickstart", "--config", "FILE")])
def test_a_cluster_to_try_things_assigns_partitions_to_a_new_group_at_once(
    words: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "one.yaml"
    file.write_text("nodes: [{id: 1, listeners: ['PLAINTEXT://127.0.0.1:0', 'CONTROLLER://127.0.0.1:0']}]\n")
    found = []

    def instead(cluster: LocalCluster, *_: object, **__: object) -> int:
        found.append(cluster.plan.nodes[0].properties["group.initial.rebalance.delay.ms"])
        return 0

    monkeypatch.setattr("kvorum.cluster.local.foreground.run_until_signal", instead)
    code, printed = run(*(str(file) if word == "FILE" else word for word in words), "--dir", str(tmp_path / "data"))
    assert (code, found) == (Exit.DONE, ["0"]), printed


def test_a_pipeline_prints_the_folder_of_its_state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pipelines_run, "run_here", lambda *_: 0)
    code, printed = run("pipelines", "run", "configs/pipelines/first.yaml", "--state", str(tmp_path))
    assert (code, printed) == (Exit.DONE, f"pipeline first: state and Spark's log are in {tmp_path / 'first'}\n")
