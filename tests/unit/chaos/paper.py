"""A cluster on paper behind the HTTP interface of the chaos lab: it notes what is done to its nodes."""

import json
from collections.abc import Awaitable, Callable
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from aiohttp.test_utils import TestClient

from kvorum.chaos.faults.clocks import ClockFaults
from kvorum.chaos.faults.directories import DirectoryFaults
from kvorum.chaos.faults.disks import DiskFaults
from kvorum.chaos.faults.events import FaultRegister
from kvorum.chaos.faults.inside_faults import InsideFaults
from kvorum.chaos.faults.link_faults import LinkFaults
from kvorum.chaos.faults.observer import Observer, in_a_thread
from kvorum.chaos.faults.processes import ProcessFaults
from kvorum.chaos.faults.security_faults import SecurityFaults
from kvorum.chaos.faults.target_cluster import TargetCluster
from kvorum.chaos.faults.topology import Parties
from kvorum.chaos.serve.events import Events
from kvorum.chaos.serve.server import ChaosServer, fault_reporter
from kvorum.cluster.local.plan import ClusterPlan, NodePlan
from kvorum.runtime.chance import new_random

TOKEN = "a-token-of-a-test"
KNOWN = {"Authorization": f"Bearer {TOKEN}"}
NODE = {
    "node.id": "1",
    "process.roles": "broker,controller",
    "controller.listener.names": "CONTROLLER",
    "listeners": "PLAINTEXT://127.0.0.1:1,CONTROLLER://127.0.0.1:2",
    "kvorum.chaos.listener": "127.0.0.1:3",
    "kvorum.chaos.token": TOKEN,
}


class Written(NamedTuple):
    """A node of a cluster on paper: where its configuration is written."""

    config: str


@dataclass(slots=True)
class Paper:
    """A cluster on paper: it notes what is done to its nodes."""

    plan: ClusterPlan
    folder: str
    done: list[str] = field(default_factory=list)
    is_broken: bool = False

    @property
    def paths(self) -> "Paper":
        return self

    def node(self, name: str) -> Written:
        """Have a node's configuration written, with a log directory that is empty."""
        path = Path(self.folder) / f"{name}.properties"
        voters = "1@127.0.0.1:2"
        data = Path(self.folder) / name
        data.mkdir(exist_ok=True)
        reported = {**self.plan.node(name).properties, "controller.quorum.voters": voters, "log.dirs": str(data)}
        path.write_text("".join(f"{key}={value}\n" for key, value in reported.items()))
        return Written(str(path))

    def processes(self, name: str) -> dict[str, Any]:
        return {}

    def kill(self, name: str, *roles: str) -> list[Any]:
        self.done.append(f"kill {name} {' '.join(roles)}".strip())
        return []

    def pause(self, name: str, *roles: str) -> list[Any]:
        self.done.append(f"pause {name} {' '.join(roles)}".strip())
        return []

    def resume(self, name: str, *roles: str) -> list[Any]:
        if self.is_broken:
            raise OSError("nobody can be resumed")
        self.done.append(f"resume {name} {' '.join(roles)}".strip())
        return []

    def stop(self, *names: str) -> list[str]:
        self.done.append(f"stop {' '.join(names)}")
        return []

    def format_lost(self, name: str) -> dict[str, Any]:
        self.done.append(f"format {name}")
        return {}

    def start_without_waiting(self, *names: str) -> list[Any]:
        self.done.append(f"start {' '.join(names)}")
        return []

    def wait(self, pipes: list[Any], seconds: float) -> dict[str, str]:
        return {}


class AtOnce:
    """An executor of the caller's own thread."""

    def submit(self, work: Callable[..., Any], *arguments: object) -> Any:
        done: Any = type("Done", (), {})()
        value = work(*arguments)
        done.result = lambda: value
        return done


def on_paper(tmp_path: Path, nodes: int = 2, **more: Any) -> tuple[ChaosServer, Paper]:
    """Return a server of so many nodes, each broker and controller; `more`: fields of TargetCluster that differ."""
    plan = ClusterPlan("id", [NodePlan(f"node-{n}", {**NODE, "node.id": str(n)}) for n in range(1, nodes + 1)])
    paper, events = Paper(plan, str(tmp_path)), Events()
    register = FaultRegister(fault_reporter(events))
    processes = ProcessFaults(paper, register, AtOnce())  # type: ignore[arg-type]
    disks = DiskFaults(paper, register, processes, {}, new_random(1))  # type: ignore[arg-type]
    whole: dict[str, Any] = {
        "cluster": paper,
        "register": register,
        "processes": processes,
        "disks": disks,
        "directories": DirectoryFaults(paper, register, processes, disks),  # type: ignore[arg-type]
        "clocks": ClockFaults(register, {}),
        "links": LinkFaults(register, Parties({node.name: node.roles for node in plan.nodes})),
        "inside": InsideFaults.of(plan, register),
        "observer": Observer({}, {}, in_a_thread),
        "security": SecurityFaults(register),
        "resources": ExitStack(),
    }
    cluster = TargetCluster(**{**whole, **more})
    return ChaosServer(cluster, events, TOKEN, tmp_path / "runs"), paper


Api = Callable[..., Awaitable[tuple[int, Any]]]
Scenario = Callable[[Api, Paper, "TestClient[Any, Any]"], Awaitable[None]]


def api_of(client: "TestClient[Any, Any]") -> Api:
    """Return what asks the chaos API as somebody who knows the token: (status, body)."""

    async def api(method: str, path: str, body: object = None, **more: Any) -> tuple[int, Any]:
        headers = {**KNOWN, **more.pop("headers", {})}
        answer = await client.request(method, f"/v1/chaos{path}", json=body, headers=headers, **more)
        return answer.status, await answer.json()

    return api


async def event(response: Any) -> Any:
    """The data of the next event."""
    while True:
        line = (await response.content.readline()).decode()
        assert line, "the stream goes on"
        if line.startswith("data: "):
            return json.loads(line.removeprefix("data: "))


PRETENDER = """
import json, pathlib, signal, sys, time
words = sys.argv[1:]
if words[0] == "check":
    print(json.dumps({"valid": True, "of": words[1]}))
elif words[0] == "report":
    if "broken" in words[1]:
        sys.exit("no report for this run")
    pathlib.Path(words[words.index("-o") + 1]).write_text("<!doctype html><title>made now</title>")
elif words[0] == "run":
    if words[1] == "long":
        def ended(*_): sys.exit(1)
        signal.signal(signal.SIGINT, ended)
        print("waiting", flush=True)
        signal.pause()
    if words[1] == "wide":
        print("x" * 5_000_000)
        words[1] = "good"
    folder = pathlib.Path(words[words.index("--out") + 1]) / words[1]
    folder.mkdir()
    if words[1] == "good":
        (folder / "report.html").write_text("<!doctype html><title>of the run</title>")
    if words[1] == "two":
        (folder.parent / "other").mkdir()
        (folder.parent / "other" / "history.jsonl").write_text("")
    (folder / "history.jsonl").write_text("")
    print("seed", words[words.index("--seed") + 1])
    sys.exit({"good": 0, "bad": 1}.get(words[1], 2))
"""
