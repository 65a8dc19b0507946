"""Acceptance 9, and how processes of a node live and die together."""

import os
import signal
import subprocess
import sys
from pathlib import Path

from kvorum.cluster.local.local import wait_for_exit
from kvorum.cluster.process.exits import Exit
from kvorum.runtime.process import is_alive
from tests.cluster.clients import eventually
from tests.cluster.conftest import Start


def test_kill_9_of_a_nodes_parent_leaves_no_orphan(start_cluster: Start) -> None:
    cluster = start_cluster("single.yaml")
    name = cluster.plan.nodes[0].name
    processes = cluster.processes(name)
    assert {"node", "broker", "controller"} <= processes.keys()
    os.kill(processes["node"].pid, signal.SIGKILL)
    for role, process in processes.items():
        assert wait_for_exit(process, 30), f"{role} outlived its parent"


def test_a_second_process_on_the_same_directory_is_refused(start_cluster: Start) -> None:
    cluster = start_cluster("single.yaml")
    paths = cluster.node(cluster.plan.nodes[0].name)
    for role in ("broker", "controller"):
        command = [sys.executable, "-m", "kvorum.cluster.process.child", role, "--config", paths.config]
        for key in ("metrics.listener", "kvorum.controller.metrics.listener"):
            command += ["--override", f"{key}=http://127.0.0.1:0"]
        second = subprocess.run(
            [*command, "--dir", paths.folder + "-second"], capture_output=True, timeout=60, check=False
        )
        assert second.returncode == Exit.BUSY, second.stderr.decode()
        assert b"lock" in second.stderr
    assert is_alive(cluster.processes(paths.name)["broker"])


def test_a_crashed_role_is_restarted_and_a_stopped_node_stays_down(start_cluster: Start) -> None:
    cluster = start_cluster("single.yaml")
    name = cluster.plan.nodes[0].name
    before = cluster.processes(name)["broker"]
    cluster.kill(name, "broker")
    eventually(lambda: cluster.processes(name).get("broker") not in (None, before), "the broker started again")
    assert cluster.stop(name) == []
    assert cluster.processes(name) == {}
    folder = Path(cluster.node(name).folder)
    assert not list(folder.glob("*.pid"))
