"""The supervisor with small children of its own: order, readiness, restarts, refusals, and no orphans."""

import os
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from kvorum.cluster.local.local import wait_for_exit
from kvorum.cluster.process import readiness
from kvorum.cluster.process.exits import Exit, restart_helps
from kvorum.runtime.process import ProcessId, identify

SUPERVISOR = """
import functools, os, sys
from kvorum.cluster.local.paths import NodePaths
from kvorum.cluster.process.supervisor import Child, Supervisor
folder, *scripts = sys.argv[1:]
def work(script):
    os.execv(sys.executable, [sys.executable, "-c", script, folder])
roles = zip(("controller", "broker"), scripts)
children = [Child(role, functools.partial(work, script), None) for role, script in roles]
sys.exit(Supervisor(NodePaths(folder), children).run())
"""
CHILD = """
import os, signal, sys
from kvorum.cluster.process import readiness
from kvorum.runtime.process import die_with_parent
die_with_parent(int(os.environ["KVORUM_PARENT_PID"]))
name = "{name}"
def note(text):
    with open(sys.argv[1] + "/events", "a") as file:
        file.write(name + " " + text + "\\n")
def stop(*_):
    note("stopped")
    sys.exit(0)
signal.signal(signal.SIGTERM, stop)
note("started " + str(os.getpid()))
{body}
"""
WAIT = "readiness.announce()\nwhile True: signal.pause()"


class Node:
    def __init__(self, folder: Path, controller: str = WAIT, broker: str = WAIT) -> None:
        self.events_path = folder / "events"
        self.events_path.touch()
        reading, writing = os.pipe()
        scripts = [
            CHILD.format(name=name, body=body) for name, body in (("controller", controller), ("broker", broker))
        ]
        self.process = subprocess.Popen(
            [sys.executable, "-c", textwrap.dedent(SUPERVISOR), str(folder), *scripts],
            pass_fds=(writing,),
            env=os.environ | {readiness.VARIABLE: str(writing)},
        )
        os.close(writing)
        self.waiting: list[tuple[str, str]] = []
        self.reported = readiness.wait_all([("node", reading)], 60, on_waiting=lambda *line: self.waiting.append(line))[
            "node"
        ]

    def events(self) -> list[str]:
        return self.events_path.read_text().splitlines()

    def children(self) -> list[ProcessId]:
        pids = [int(event.split()[2]) for event in self.events() if "started" in event]
        return [found for pid in pids if (found := identify(pid)) is not None]


def test_a_node_is_ready_when_all_roles_are_and_stops_the_broker_first(tmp_path: Path) -> None:
    node = Node(tmp_path)
    assert node.reported == "ready"
    assert (tmp_path / "node.pid").exists()
    node.process.terminate()
    assert node.process.wait(60) == Exit.DONE
    assert [event for event in node.events() if "stopped" in event] == ["broker stopped", "controller stopped"]
    assert not (tmp_path / "node.pid").exists()


def test_ctrl_c_in_a_terminal_reaches_the_supervisor_alone_which_stops_the_broker_first(tmp_path: Path) -> None:
    node = Node(tmp_path)
    children = node.children()
    assert len(children) == 2
    assert len({os.getpgid(child.pid) for child in children} | {os.getpgid(node.process.pid)}) == 3
    node.process.send_signal(signal.SIGINT)
    assert node.process.wait(60) == Exit.DONE
    assert [event for event in node.events() if "stopped" in event] == ["broker stopped", "controller stopped"]


def test_kill_9_of_the_supervisor_takes_the_children_along(tmp_path: Path) -> None:
    node = Node(tmp_path)
    children = node.children()
    assert len(children) == 2
    node.process.kill()
    node.process.wait(60)
    assert all(wait_for_exit(child, 30) for child in children)


def test_a_crashed_child_is_started_again(tmp_path: Path) -> None:
    crash_once = textwrap.dedent("""
        if not os.path.exists(sys.argv[1] + "/crashed"):
            open(sys.argv[1] + "/crashed", "w").close()
            os.kill(os.getpid(), signal.SIGKILL)
    """)
    node = Node(tmp_path, broker=crash_once + WAIT)
    assert node.reported == "ready"
    assert len([event for event in node.events() if event.startswith("broker started")]) == 2
    node.process.terminate()
    assert node.process.wait(60) == Exit.DONE


@pytest.mark.parametrize("code", [Exit.CONFIG, Exit.DATA_REFUSED, Exit.FATAL, Exit.BUSY])
def test_a_child_that_refuses_to_run_ends_the_node_with_its_reason(tmp_path: Path, code: Exit) -> None:
    node = Node(tmp_path, broker=f"sys.exit({int(code)})")
    assert node.reported == "died"
    assert node.process.wait(60) == code
    assert all(wait_for_exit(child, 30) for child in node.children())


@pytest.mark.parametrize("role", ["broker", "controller"])
def test_a_stop_signal_to_a_child_stops_the_node(tmp_path: Path, role: str) -> None:
    """A controlled shutdown asked for over HTTP: nobody is to start the node again for it."""
    node = Node(tmp_path)
    (pid,) = [int(event.split()[2]) for event in node.events() if event.startswith(f"{role} started")]
    os.kill(pid, signal.SIGTERM)
    assert node.process.wait(60) == Exit.DONE
    other = {"broker": "controller", "controller": "broker"}[role]
    assert [event for event in node.events() if "stopped" in event] == [f"{role} stopped", f"{other} stopped"]


def test_the_starter_of_a_node_gets_the_reason_why_a_role_is_not_ready(tmp_path: Path) -> None:
    node = Node(tmp_path, broker='readiness.report("waiting for\\n2")\nreadiness.report("waiting for 3")\n' + WAIT)
    assert node.reported == "ready"
    assert node.waiting == [("node", "broker: waiting for 2"), ("node", "broker: waiting for 3")]
    node.process.terminate()
    assert node.process.wait(60) == Exit.DONE


def test_a_reason_that_is_not_read_blocks_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    reading, writing = os.pipe()
    monkeypatch.setenv(readiness.VARIABLE, str(writing))
    for _ in range(1000):
        readiness.report("x" * 10_000)
    reported = readiness.read_lines(reading)
    assert reported[0] is None and {len(each) for each in reported[1]} == {readiness.REASON_CHARACTERS_MAX}
    os.close(reading)
    readiness.report("no one reads")
    os.close(writing)


def test_only_crashes_are_worth_another_try() -> None:
    assert restart_helps(-signal.SIGKILL)
    assert restart_helps(Exit.CRASHED)
    assert not restart_helps(Exit.DONE)


def test_readiness_distinguishes_ready_died_and_late() -> None:
    pipes = {name: os.pipe() for name in ("ready", "died", "late")}
    os.write(pipes["ready"][1], readiness.READY)
    os.close(pipes["died"][1])
    reported = readiness.wait_all([(name, pipe[0]) for name, pipe in pipes.items()], 0.1)
    assert reported == {"ready": "ready", "died": "died", "late": "late"}
    os.close(pipes["ready"][1])
    os.close(pipes["late"][1])
