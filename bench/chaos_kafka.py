"""The chaos lab's load and checker against Apache Kafka 4.3.0: three combined nodes from Maven's jars, broken by hooks.

    python -m bench.chaos_kafka --out out [leader-kill leader-pause leader-cut controller-kill rolling-restart]

Hooks are shell commands, as any user's: each writes a request to a folder, which this process polls, and waits for
the response; so the process that started the nodes stops and starts them. A run has only four hooks, so in two
scenarios they have another meaning, also in the report:

    leader-cut        pause: every packet from and to the node is dropped; resume: no longer
    rolling-restart   kill: SIGTERM, and until it has ended; start: until it is a broker again

Nodes and clients are in network namespaces (chaos.faults.namespaces) where that is permitted, else on 127.0.0.1 and
without leader-cut.
"""

import argparse
import contextlib
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import yaml

from bench.apache_kafka import KafkaCluster
from kvorum.chaos.faults.namespace_holder import NotPermitted
from kvorum.chaos.faults.namespaces import Namespaces, Rule

LOOK_SECONDS = 0.02
CLIENTS = "clients"
HOOKS = ("kill", "start", "pause", "resume")
LOCALHOST = "127.0.0.1:"
MEANINGS = {
    "leader-kill": {},
    "leader-pause": {},
    "leader-pause-fast": {},
    "leader-pause-aiokafka": {},
    "leader-cut": {"pause": "cut", "resume": "repair"},
    "leader-cut-fast": {"pause": "cut", "resume": "repair"},
    "controller-kill": {},
    "rolling-restart": {"kill": "stop", "start": "start-and-wait"},
}
"""{scenario: {hook: its action, if that is not its name}}."""
SCENARIOS = ("leader-kill", "leader-pause", "leader-cut", "controller-kill", "rolling-restart")
FAST = {
    "broker.session.timeout.ms": "3000",
    "broker.heartbeat.interval.ms": "500",
    "replica.lag.time.max.ms": "2000",
    "replica.fetch.wait.max.ms": "500",
}
"""The lab's profile of that name."""
ROLLING = [
    step
    for node in (1, 2, 3)
    for step in (
        {"after": 1, "do": "kill", "target": f"node-{node}"},
        {"do": "start", "target": f"node-{node}"},
        {"do": "wait", "within": 120, "until": {"healthy": True}},
    )
]


@dataclass(slots=True)
class NamespacedKafka(KafkaCluster):
    """Each node in its own namespace. Made by `create`, then `move`d before its first start."""

    network: Namespaces = field(default_factory=lambda: Namespaces.create([CLIENTS, "node-1", "node-2", "node-3"]))

    def move(self) -> None:
        """Replace 127.0.0.1 by the namespace's address for every node."""
        for node in self.ports:
            path = self.home(node) / "server.properties"
            lines = path.read_text().splitlines()
            path.write_text("".join(f"{self._moved(line, node)}\n" for line in lines))

    def _moved(self, line: str, node: int) -> str:
        if not line.startswith("controller.quorum.voters="):
            return line.replace(LOCALHOST, f"{self._address(node)}:")
        for other in self.ports:
            line = line.replace(f"{other}@{LOCALHOST}", f"{other}@{self._address(other)}:")
        return line

    def _address(self, node: int) -> str:
        return self.network.addresses[f"node-{node}"]

    @property
    def bootstrap(self) -> str:
        """The clients' bootstrap.servers."""
        return ",".join(f"{self._address(node)}:{port}" for node, port in self.ports.items())

    def _java(self, node: int, main: str, *arguments: str, options: Sequence[str] = ()) -> list[str]:
        plain = KafkaCluster._java(self, node, main, *arguments, options=options)
        return [*self.network.command_prefix(f"node-{node}"), *plain]


class Desk:
    """Carries out the requests in a folder: files named `kill-1`; each is removed when it is done."""

    def __init__(self, folder: Path, cluster: KafkaCluster) -> None:
        """Create it without requests."""
        self._folder = folder
        self._cluster = cluster
        self._cuts: dict[int, list[Rule]] = {}
        self.stop = threading.Event()

    def hook(self, verb: str) -> str:
        """Return the shell command that requests a verb and waits for its completion."""
        path = f"{self._folder}/{verb}:{{id}}"
        return f"touch {path} && while [ -e {path} ]; do sleep 0.02; done"

    def run(self) -> None:
        """Serve until stopped. Runs in the thread that started the nodes: they end with it."""
        while not self.stop.wait(LOOK_SECONDS):
            for path in self._folder.iterdir():
                verb, _, node = path.name.partition(":")
                self._do(verb, int(node))
                path.unlink()

    def serve_until(self, process: "subprocess.Popen[bytes]") -> None:
        """End `run` when a process ends. For a separate thread."""
        process.wait()
        self.stop.set()

    def _do(self, verb: str, node: int) -> None:
        match verb:
            case "kill":
                self._cluster.kill(node)
            case "stop":
                self._cluster.stop(node)
            case "start":
                self._cluster.start(node)
            case "start-and-wait":
                self._cluster.start(node)
                with clients_place(self._cluster):
                    self._cluster.wait_ready()
            case "pause" | "resume":
                number = signal.SIGSTOP if verb == "pause" else signal.SIGCONT
                subprocess.run(["kill", f"-{number.value}", str(self._cluster.pids()[node])], check=True)
            case "cut":
                assert isinstance(self._cluster, NamespacedKafka)
                network, own = self._cluster.network, f"node-{node}"
                for other in network.members:
                    if other != own:
                        rules = [*network.drop(own, other), *network.drop(other, own)]
                        self._cuts.setdefault(node, []).extend(rules)
            case "repair":
                assert isinstance(self._cluster, NamespacedKafka)
                self._cluster.network.remove(self._cuts.pop(node))
            case _:
                raise AssertionError(verb)


def clients_place(cluster: KafkaCluster) -> contextlib.AbstractContextManager[None]:
    """Be where clients are."""
    return cluster.network.inside(CLIENTS) if isinstance(cluster, NamespacedKafka) else contextlib.nullcontext()


@contextlib.contextmanager
def started(folder: Path, settings: dict[str, str], wants_namespaces: bool) -> Iterator[KafkaCluster]:
    """A cluster that is ready, in namespaces if that is wanted and permitted."""
    cluster: KafkaCluster
    try:
        cluster = (NamespacedKafka if wants_namespaces else KafkaCluster).create(folder, 3, settings)
        if isinstance(cluster, NamespacedKafka):
            cluster.move()
    except NotPermitted as error:
        print(f"no network namespaces: {error}", file=sys.stderr)
        cluster = KafkaCluster.create(folder, 3, settings)
    try:
        cluster.start()
        with clients_place(cluster):
            cluster.wait_ready()
        yield cluster
    finally:
        cluster.close()
        if isinstance(cluster, NamespacedKafka):
            cluster.network.close()


def scenario_of(name: str, folder: Path) -> str:
    """Return the arguments of `kvorum chaos run`: the shipped cell, or a file with the same load and other steps."""
    if not MEANINGS[name]:
        return f"failover/{name}"
    shipped = Path(__file__).parent.parent / "configs" / "chaos" / "failover.yaml"
    content = yaml.safe_load(shipped.read_text())
    cells = {each["name"]: each for each in content.pop("matrix")}
    cell = cells[name]
    pause = cells[name.replace("cut", "pause")]["steps"]
    content |= {"name": f"kafka-{name}", "title": cell["title"], "steps": ROLLING if "roll" in name else pause}
    content["workload"] = cell.get("workload", content["workload"])
    content["expect"] = content["expect"] | cell.get("expect", {})
    path = folder / f"kafka-{name}.yaml"
    path.write_text(yaml.safe_dump(content))
    return str(path)


def run(name: str, folder: Path, settings: dict[str, str], out: str) -> int:
    """Run one scenario on its own cluster; return the exit code of `kvorum chaos run`."""
    requests = folder / "requests"
    requests.mkdir(parents=True)
    settings = (FAST if name.endswith("-fast") else {}) | settings
    with started(folder / "nodes", settings, wants_namespaces="cut" in name) as cluster:
        if "cut" in name and not isinstance(cluster, NamespacedKafka):
            print(f"{name}: skipped, a node can't be cut off without namespaces", flush=True)
            return 0
        desk = Desk(requests, cluster)
        command = [sys.executable, "-m", "kvorum.cli.main", "chaos", "run", scenario_of(name, folder), "--out", out]
        command += ["--bootstrap", cluster.bootstrap]
        for verb in HOOKS:
            command += [f"--{verb}-hook", desk.hook(MEANINGS[name].get(verb, verb))]
        if isinstance(cluster, NamespacedKafka):
            command = [*cluster.network.command_prefix(CLIENTS), *command]
        began = time.monotonic()
        process = subprocess.Popen(command)
        threading.Thread(target=desk.serve_until, args=(process,), daemon=True).start()
        desk.run()
        print(f"Apache Kafka 4.3.0, {name}, {time.monotonic() - began:.0f} s", flush=True)
        return process.wait()


def main() -> None:
    """Run the scenarios one by one, and end with the worst exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("scenarios", nargs="*", default=SCENARIOS, metavar="|".join(MEANINGS))
    parser.add_argument("--out", default="build/chaos-kafka")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="a configuration of every node")
    options = parser.parse_args()
    unknown = [name for name in options.scenarios if name not in MEANINGS]
    if unknown:
        parser.error(f"there is no {', '.join(unknown)}; there are {', '.join(MEANINGS)}")
    settings = dict(text.partition("=")[::2] for text in options.set)
    worst = 0
    with tempfile.TemporaryDirectory(prefix="kafka-chaos-") as folder:
        for name in options.scenarios:
            worst = max(worst, run(name, Path(folder) / name, settings, options.out))
    sys.exit(worst)


if __name__ == "__main__":
    main()
