"""Machines in network namespaces, each with its own files, and a workstation with clients and an operator.

For typed commands, `ssh`, `scp` and `systemctl` are small scripts: they run a command in the namespace of a machine,
copy a file into its folder, and start or end a node. The paths of a machine, such as /etc/kvorum, are below its folder.
"""

import os
import shutil
import signal
import subprocess
from collections.abc import Callable
from http import HTTPStatus
from pathlib import Path
from typing import Final, TypeVar
from urllib.request import urlopen

import pytest

from kvorum.chaos.faults.namespace_holder import NotPermitted
from kvorum.chaos.faults.namespaces import Namespaces
from tests.cluster.clients import eventually
from tests.cluster.test_quickstart import typing_environment

PREFIX: Final = "10.0.0"
"""The addresses of the documentation; nothing of this machine is in these namespaces."""
WORKSTATION: Final = "workstation"
WORKSTATION_NUMBER: Final = 9
COMMAND_SECONDS: Final = 900
END_SECONDS: Final = 30.0

READY: Final = "http://127.0.0.1:9291/health/ready"
PATHS: Final = ("/etc/kvorum", "/var/lib/kvorum")
T = TypeVar("T")

SSH = """#!/bin/bash
# ssh USER@HOST COMMAND...
host="${1##*@}"; shift
root="$MACHINES/$host"
command="$*"
command="${command//\\/etc\\/kvorum/$root/etc/kvorum}"
command="${command//\\/var\\/lib\\/kvorum/$root/var/lib/kvorum}"
ROOT="$root" exec nsenter --target="$(cat "$root/namespace")" --net -- bash -c "$command"
"""
SCP = """#!/bin/bash
# scp -q SOURCE USER@HOST:PATH
host="${3%%:*}"; host="${host##*@}"
root="$MACHINES/$host"
cp "$2" "$root${3#*:}"
case "$2" in *.properties)
  sed -i "s#=/etc/kvorum#=$root/etc/kvorum#; s#=/var/lib/kvorum#=$root/var/lib/kvorum#" "$root${3#*:}"
esac
"""
SYSTEMCTL = """#!/bin/bash
# systemctl enable --now|start|stop|restart kvorum-node@NAME
unit="${!#}"
stop() {
  pid="$(cat "$ROOT/pid" 2>/dev/null)" || return 0
  kill -TERM "$pid" 2>/dev/null
  while grep -q "^State:.[^Z]" "/proc/$pid/status" 2>/dev/null; do sleep 0.1; done
  rm "$ROOT/pid"
}
start() {
  setsid kvorum node "$ROOT/etc/kvorum/${unit#kvorum-node@}.properties" >>"$ROOT/log" 2>&1 </dev/null &
  echo $! >"$ROOT/pid"
}
case "$1" in
  start|enable) start ;;
  stop) stop ;;
  restart) stop; start ;;
esac
"""


class Machines:
    """The machines of a cluster, by number: 10.0.0.1 and so on."""

    def __init__(self, folder: Path, count: int = 3) -> None:
        """Skip the test where network namespaces are not permitted."""
        self.folder, self.count = folder, count
        self.environment = typing_environment(folder) | {"XDG_CONFIG_HOME": str(folder / "home")}
        self.environment |= {"MACHINES": str(folder / "machines")}
        for name, text in (("ssh", SSH), ("scp", SCP), ("systemctl", SYSTEMCTL)):
            script = folder / "bin" / name
            script.write_text(text)
            script.chmod(0o755)
        try:
            self.network = Namespaces.create(list(map(self.name, range(1, count + 1))), PREFIX)
            self.network.add(WORKSTATION, WORKSTATION_NUMBER)
        except NotPermitted as error:
            pytest.skip(f"network namespaces: {error}")
        for number in range(1, count + 1):
            self._install(number)

    def _install(self, number: int) -> None:
        root = self.root(number)
        for path in PATHS:
            (root / path.lstrip("/")).mkdir(parents=True)
        (root / "namespace").write_text(str(self.network.members[self.name(number)].pid))

    @staticmethod
    def name(number: int) -> str:
        """Return the name of a machine's namespace."""
        return f"machine-{number}"

    @staticmethod
    def address(number: int) -> str:
        """Return the address of a machine."""
        return f"{PREFIX}.{number}"

    def bootstrap(self, port: int) -> str:
        """Return the addresses of this port on all machines."""
        return ",".join(f"{self.address(number)}:{port}" for number in range(1, self.count + 1))

    def root(self, number: int) -> Path:
        """Return the folder of a machine's files."""
        return self.folder / "machines" / self.address(number)

    def log(self, number: int) -> str:
        """Return the log of a machine's node."""
        return (self.root(number) / "log").read_text()

    def systemctl(self, number: int, verb: str) -> None:
        """Start, stop or restart the node of a machine: stop and restart wait for its end."""
        command = [*self.network.command_prefix(self.name(number)), "systemctl", verb, "kvorum-node@node"]
        environment = self.environment | {"ROOT": str(self.root(number))}
        subprocess.run(command, env=environment, timeout=COMMAND_SECONDS, check=True)

    def wait_until_ready(self, *numbers: int) -> None:
        """Wait until the brokers of these machines are unfenced."""
        wanted = numbers or range(1, self.count + 1)
        eventually(lambda: all(map(self.is_ready, wanted)), lambda: f"{wanted}\n{self.last_lines()}", 180)

    def is_ready(self, number: int) -> bool:
        """Return whether the broker of a machine serves."""
        pid = self.pid(number)
        if pid is None or not is_running(pid):
            raise AssertionError(f"{self.name(number)} does not run\n{self.last_lines()}")
        return self.network.call(self.name(number), lambda: responds(READY))

    def run(self, text: str) -> str:
        """Type commands on the workstation and return their output; each must succeed."""
        done = subprocess.run(
            [*self.network.command_prefix(WORKSTATION), "bash", "-euo", "pipefail"],
            input=text,
            cwd=self.folder,
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=COMMAND_SECONDS,
            check=False,
        )
        assert done.returncode == 0, f"{text}\n{done.stdout}\n{done.stderr}\n{self.last_lines()}"
        return done.stdout

    def call(self, function: Callable[[], T]) -> T:
        """Call a function on the workstation: clients that it makes connect from there."""
        return self.network.call(WORKSTATION, function)

    def last_lines(self) -> str:
        """Return the end of every node's log."""
        found = []
        for number in range(1, self.count + 1):
            path = self.root(number) / "log"
            lines = path.read_text().splitlines()[-15:] if path.exists() else ["no log"]
            found += [f"--- {self.name(number)}", *lines]
        return "\n".join(found)

    def pid(self, number: int) -> int | None:
        """Return the process of a machine's node, None if none was started."""
        path = self.root(number) / "pid"
        return int(path.read_text()) if path.exists() else None

    def kill(self, number: int) -> None:
        """Kill a machine's processes: a power cut."""
        pid = self.pid(number)
        if pid is None:
            return
        doomed = [pid, *children(pid)]
        for each in doomed:  # the supervisor first: it would start again what it sees die
            try:
                os.kill(each, signal.SIGKILL)
            except ProcessLookupError:
                continue
        eventually(lambda: not any(map(is_running, doomed)), f"the end of {self.name(number)}", END_SECONDS)
        (self.root(number) / "pid").unlink()

    def lose(self, number: int) -> None:
        """Lose a machine: its processes, its network and its disk."""
        self.kill(number)
        self.network.remove_member(self.name(number))
        shutil.rmtree(self.root(number))

    def deliver(self, number: int) -> None:
        """Put a new, empty machine in the place of a lost one."""
        self.network.add(self.name(number), number)
        self._install(number)

    def close(self) -> None:
        """End all nodes and remove the network."""
        for number in range(1, self.count + 1):
            self.kill(number)
        self.network.close()


def responds(url: str) -> bool:
    """Return whether a page is served with success."""
    try:
        with urlopen(url, timeout=5) as answer:
            return bool(answer.status == HTTPStatus.OK)
    except OSError:
        return False


def children(pid: int) -> list[int]:
    """Return the processes that a process started, and those that they started."""
    try:
        own = [int(each) for each in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except OSError:
        return []
    return [each for child in own for each in (child, *children(child))]


def is_running(pid: int) -> bool:
    """Return whether a process has not ended; one that waits for its parent has."""
    try:
        return "State:\tZ" not in Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return False
