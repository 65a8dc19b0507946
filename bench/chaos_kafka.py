"""The chaos lab's load and checker against Apache Kafka 4.3.0: three combined nodes from Maven's jars, broken by hooks.

    python -m bench.chaos_kafka --out out [failover/leader-kill failover/leader-pause ...]

Hooks are shell commands, as any user's: each puts a request into a folder, which this process looks at, and waits for
its answer; so nodes are killed (kill -9), stopped in time and started by who started them.
"""

import argparse
import signal
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

from bench.apache_kafka import KafkaCluster

SCENARIOS = ("failover/leader-kill", "failover/leader-pause", "failover/controller-kill")
LOOK_SECONDS = 0.02


class Desk:
    """Carries out the requests in a folder: files named `kill-1`; each is removed when it is done."""

    def __init__(self, folder: Path, cluster: KafkaCluster) -> None:
        """Nothing is asked yet."""
        self._folder = folder
        self._cluster = cluster
        self.stop = threading.Event()

    def hook(self, verb: str) -> str:
        """Return the shell command that asks for a verb and waits until it is done."""
        path = f"{self._folder}/{verb}-{{id}}"
        return f"touch {path} && while [ -e {path} ]; do sleep 0.02; done"

    def run(self) -> None:
        """Serve until told to stop. In the thread that started the nodes: they die with it."""
        while not self.stop.wait(LOOK_SECONDS):
            for path in self._folder.iterdir():
                verb, _, node = path.name.partition("-")
                self._do(verb, int(node))
                path.unlink()

    def _do(self, verb: str, node: int) -> None:
        match verb:
            case "kill":
                self._cluster.kill(node)
            case "start":
                self._cluster.start(node)
            case "pause" | "resume":
                number = signal.SIGSTOP if verb == "pause" else signal.SIGCONT
                subprocess.run(["kill", f"-{number.value}", str(self._cluster.pids()[node])], check=True)
            case _:
                raise AssertionError(verb)


def main() -> None:
    """Start Kafka, run the scenarios against it with `kvorum chaos run`, and end with its exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("scenarios", nargs="*", default=SCENARIOS)
    parser.add_argument("--out", default="build/chaos-kafka")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="a configuration of every node")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="kafka-chaos-") as folder:
        requests = Path(folder) / "requests"
        requests.mkdir()
        settings = dict(text.partition("=")[::2] for text in options.set)
        cluster = KafkaCluster.create(Path(folder) / "nodes", 3, settings)
        desk = Desk(requests, cluster)
        try:
            cluster.start()
            cluster.wait_ready()
            command = [
                sys.executable,
                "-m",
                "kvorum.cli.main",
                "chaos",
                "run",
                *options.scenarios,
                "--out",
                options.out,
            ]
            command += ["--bootstrap", cluster.bootstrap]
            for verb in ("kill", "start", "pause", "resume"):
                command += [f"--{verb}-hook", desk.hook(verb)]
            began = time.monotonic()
            run = subprocess.Popen(command)
            threading.Thread(target=lambda: (run.wait(), desk.stop.set()), daemon=True).start()
            desk.run()
            print(f"Apache Kafka 4.3.0, {time.monotonic() - began:.0f} s", flush=True)
            code = run.wait()
        finally:
            cluster.close()
    sys.exit(code)


if __name__ == "__main__":
    main()
