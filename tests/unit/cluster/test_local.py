"""Nodes that have just been started: known to who started them before they have a pid file."""

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from kvorum.cluster.local.foreground import run_until_signal
from kvorum.cluster.local.local import ClusterError, LocalCluster
from kvorum.cluster.local.plan import plan_of
from kvorum.cluster.process import readiness
from kvorum.cluster.process.exits import Exit
from kvorum.runtime.cluster_file import dev_cluster, load_cluster
from kvorum.runtime.process import identify
from tests.cluster.clients import eventually
from tests.unexpected import NodeLogs, assert_none_unexpected

NODE = "node-1"
WITHOUT_PID_FILE = [sys.executable, "-c", "import signal; signal.pause()"]


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[LocalCluster]:
    folder = str(tmp_path / "c")
    made = LocalCluster.create(folder, plan_of(dev_cluster(1, 0, folder), "id"))
    yield made
    made.kill(NODE)


def young(cluster: LocalCluster) -> int:
    """Start a node that never comes to write its pid file; return the pipe on which it would say it is ready."""
    cluster.wrap = lambda name, command: WITHOUT_PID_FILE
    ((_, pipe),) = cluster.start_without_waiting(NODE)
    cluster.wrap = None
    assert not os.path.exists(cluster.node(NODE).pid("node"))
    return pipe


def test_a_node_without_a_pid_file_yet_is_killed_and_can_be_started_again(cluster: LocalCluster) -> None:
    pipe = young(cluster)
    (found,) = cluster.processes(NODE).values()
    assert cluster.pid_of(NODE, "node") == found.pid
    assert cluster.kill(NODE) == [found]
    assert identify(found.pid) != found
    assert readiness.wait_all([(NODE, pipe)], 10) == {NODE: "died"}
    assert cluster.processes(NODE) == {}
    os.close(young(cluster))


def test_a_node_without_a_pid_file_yet_is_stopped_paused_and_not_started_twice(
    cluster: LocalCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kvorum.cluster.local.local.LAST_STEPS_SECONDS", 0.05)
    pipe = young(cluster)
    (found,) = cluster.processes(NODE).values()
    with pytest.raises(ClusterError, match="being started already"):
        cluster.start_without_waiting(NODE)
    assert cluster.pause(NODE) == cluster.resume(NODE) == [found]
    assert cluster.stop(NODE) == []
    assert identify(found.pid) != found
    os.close(pipe)


STUBBORN = "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); print(flush=True)\nwhile 1: signal.pause()"


def test_how_long_a_start_and_a_stop_may_take_is_the_clusters(cluster: LocalCluster) -> None:
    """A node that never becomes ready and does not heed SIGTERM."""
    cluster.wrap = lambda name, command: [sys.executable, "-c", STUBBORN]
    cluster.start_seconds, cluster.stop_seconds = 0.05, 0.05
    assert cluster.start(NODE) == {NODE: "late"}
    log = Path(cluster.node(NODE).log("node"))
    eventually(lambda: log.read_text() == "\n", "SIGTERM ignored")
    assert cluster.stop(NODE) == [NODE]
    assert cluster.processes(NODE) == {}


def test_a_stop_reports_the_node_that_it_waits_for(cluster: LocalCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kvorum.cluster.local.local.STOP_REPORT_SECONDS", 0.02)
    reports: list[tuple[str, str]] = []
    cluster.on_stopping = lambda name, reason: reports.append((name, reason))
    cluster.wrap = lambda name, command: [sys.executable, "-c", STUBBORN.replace("print(flush", "print(7,flush")]
    cluster.start_seconds = 0.05
    cluster.start(NODE)
    log = Path(cluster.node(NODE).log("node"))
    eventually(lambda: log.read_text() == "7\n", "SIGTERM ignored")
    assert cluster.stop(NODE, timeout_seconds=0.2) == [NODE]
    assert (NODE, f"its node process is still running; last log line: 7 ({log})") in reports
    assert len(reports) <= 4, "after 0.02 s, then after twice as long each time"


def test_brokers_stop_before_the_controllers_that_they_need(tmp_path: Path) -> None:
    file, folder = tmp_path / "c.yaml", str(tmp_path / "c")
    roles = {"node-1": "CONTROLLER", "node-2": "BROKER, CONTROLLER", "node-3": "BROKER"}
    listeners = {name: ", ".join(f"{role}://127.0.0.1:0" for role in roles[name].split(", ")) for name in roles}
    file.write_text(
        "defaults: {listener.security.protocol.map: 'BROKER:PLAINTEXT,CONTROLLER:PLAINTEXT'}\nnodes:\n"
        + "".join(
            f"- {{name: {name}, node.id: {number}, process.roles: [{role.lower()}], listeners: [{listeners[name]}]}}\n"
            for number, (name, role) in enumerate(roles.items(), start=1)
        )
    )
    cluster = LocalCluster.create(folder, plan_of(load_cluster(str(file), folder, []), "id"))
    stopped = tmp_path / "stopped"
    script = (
        "import signal, sys\n"
        "def end(*_): open(sys.argv[1], 'a').write(sys.argv[2] + ' '); sys.exit()\n"
        "signal.signal(signal.SIGTERM, end); print(flush=True)\nwhile 1: signal.pause()"
    )
    cluster.wrap = lambda name, command: [sys.executable, "-c", script, str(stopped), name]
    cluster.start_seconds = 0.05
    try:
        cluster.start(*roles)
        logs = [Path(cluster.node(name).log("node")) for name in roles]
        eventually(lambda: all(log.read_text() == "\n" for log in logs), "SIGTERM handled")
        assert cluster.stop() == []
        assert stopped.read_text().split() == ["node-3", "node-2", "node-1"]
    finally:
        for name in roles:
            cluster.kill(name)


@pytest.mark.parametrize(("code", "reported"), [(Exit.CONFIG, Exit.CONFIG), (Exit.BUSY, Exit.BUSY), (3, 1), (0, 1)])
def test_the_foreground_process_exits_with_the_code_of_a_node_that_must_not_restart(
    cluster: LocalCluster, code: int, reported: int
) -> None:
    cluster.wrap = lambda name, command: [sys.executable, "-c", f"raise SystemExit({int(code)})"]
    seen: list[dict[str, str]] = []
    assert run_until_signal(cluster, lambda outcome, _: seen.append(outcome)) == reported
    assert seen == [{NODE: "died"}]


def test_another_process_sees_no_running_node_yet(cluster: LocalCluster) -> None:
    os.close(young(cluster))
    assert LocalCluster.open(cluster.paths.folder).processes(NODE) == {}


def test_a_kill_during_the_supervisors_start_leaves_no_process(cluster: LocalCluster) -> None:
    """The moment when the supervisor has its pid file and the children have none."""
    ((_, pipe),) = cluster.start_without_waiting(NODE)
    eventually(lambda: os.path.exists(cluster.node(NODE).pid("node")), "a supervisor")
    assert cluster.kill(NODE)
    assert cluster.processes(NODE) == {}
    eventually(lambda: not processes_of(cluster.node(NODE).folder), "all to be gone")
    os.close(pipe)
    assert cluster.start(NODE) == {NODE: "ready"}
    assert set(cluster.processes(NODE)) >= {"node", "broker", "controller"}
    assert cluster.stop() == []


def processes_of(folder: str) -> list[int]:
    """Return the pids of all processes whose command line names the folder."""
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            command = Path("/proc", pid, "cmdline").read_bytes()
        except (FileNotFoundError, ProcessLookupError):
            continue
        if folder.encode() in command and int(pid) != os.getpid():
            found.append(int(pid))
    return found


def test_unexpected_exceptions_are_found_in_the_logs_of_all_processes(cluster: LocalCluster) -> None:
    paths = cluster.node(NODE)
    assert cluster.unexpected_exceptions() == []
    unexpected = "2026-03-01T10:15:30.123Z ERROR network unexpected exception where=request error=KeyError"
    Path(paths.log("broker")).write_text(f"2026-03-01T10:15:30.122Z INFO broker up\n{unexpected}\n")
    Path(paths.log("node")).write_text("Traceback (most recent call last):\n")
    assert cluster.unexpected_exceptions() == [
        f"{NODE} node: Traceback (most recent call last):",
        f"{NODE} broker: {unexpected}",
    ]
    with pytest.raises(AssertionError, match="where=request"):
        assert_none_unexpected(cluster.unexpected_exceptions(), "Traceback")
    assert_none_unexpected(cluster.unexpected_exceptions(), "Traceback", "KeyError")
    logs = NodeLogs(Path(cluster.paths.folder).parent)
    assert len(logs.new_exceptions()) == 2 and logs.new_exceptions() == []
    with Path(paths.log("controller")).open("a") as file:
        file.write(unexpected + "\n")
    assert [line.rpartition(": ")[0] for line in logs.new_exceptions()] == [paths.log("controller")]
