"""Spark's own cluster on this machine: a master and two workers, whose executors are processes that tests may kill.

Each worker has an address of its own, for Spark starts no second attempt at a task on the host of the first. All of a
worker's processes (its executors, their Python workers) are one session, as what a machine runs.
"""

import json
import os
import subprocess
import sys
import urllib.request
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import pyspark

from kvorum.cluster.local.ports import free_ports
from tests.cluster.clients import eventually
from tests.spark.bridge.kills import PYTHON_WORKER, kill, session

HOME = Path(next(iter(pyspark.__path__)))
MASTER_HOST = "127.0.0.1"
WORKER_HOSTS = ("127.0.0.2", "127.0.0.3")
EXECUTOR = "CoarseGrainedExecutorBackend"
START_SECONDS = 120.0
ASK_SECONDS = 10.0


@dataclass(slots=True)
class Worker:
    """A worker's daemon, and where it listens."""

    host: str
    port: int
    web_port: int
    process: "subprocess.Popen[bytes] | None" = None

    def session(self) -> dict[int, str]:
        return session(self.process.pid) if self.process is not None else {}

    def kill(self) -> None:
        """kill -9 the daemon; its executors find out by themselves, and may still write."""
        assert self.process is not None, "it was started"
        kill(self.process.pid)
        self.process.wait(30)


class Standalone:
    """A master and its workers. States: made, started, closed."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir()
        self.folder = folder
        self.events = folder / "events"
        self.events.mkdir()
        ports = iter(free_ports([MASTER_HOST] * 2 + [host for host in WORKER_HOSTS for _ in range(2)]))
        self.port, self.web_port = next(ports), next(ports)
        self.master: subprocess.Popen[bytes] | None = None
        self.workers = [Worker(host, next(ports), next(ports)) for host in WORKER_HOSTS]
        self.sessions: list[int] = []

    @property
    def url(self) -> str:
        return f"spark://{MASTER_HOST}:{self.port}"

    @property
    def conf(self) -> dict[str, str]:
        """Return the settings of an application that leaves its events here."""
        return {
            "spark.eventLog.enabled": "true",
            "spark.eventLog.dir": self.events.as_uri(),
            "spark.eventLog.compress": "false",
            "spark.eventLog.rolling.enabled": "false",
        }

    def start(self) -> None:
        """Start all, and wait until the workers are known."""
        where = ["--host", MASTER_HOST, "--port", str(self.port), "--webui-port", str(self.web_port)]
        self.master = self.run("master", MASTER_HOST, "org.apache.spark.deploy.master.Master", *where)
        for worker in self.workers:
            self.start_worker(worker)
        self.wait_for_workers()

    def start_worker(self, worker: Worker) -> None:
        """Start a worker's daemon that does not run."""
        where = ["--host", worker.host, "--port", str(worker.port), "--webui-port", str(worker.web_port)]
        size = ["-c", "1", "-m", "1g", "--work-dir", str(self.folder / "work")]
        main = "org.apache.spark.deploy.worker.Worker"
        worker.process = self.run(f"worker-{worker.host}", worker.host, main, *where, *size, self.url)

    def run(self, name: str, host: str, main: str, *arguments: str) -> "subprocess.Popen[bytes]":
        """Start one of the daemons."""
        environment = {
            "SPARK_HOME": str(HOME),
            "SPARK_LOCAL_IP": host,
            "SPARK_LOCAL_DIRS": str(self.folder / "local"),
            "SPARK_DAEMON_MEMORY": "256m",
            "PYSPARK_PYTHON": sys.executable,
        }
        command = ["nice", "-n", "10", str(HOME / "bin" / "spark-class"), main, *arguments]
        with (self.folder / f"{name}.log").open("ab") as log:
            process = subprocess.Popen(
                command,
                cwd=self.folder,
                env=os.environ | environment,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        self.sessions.append(process.pid)
        return process

    def wait_for_workers(self) -> None:
        """Wait until the master has all workers."""
        eventually(lambda: self.alive() == len(self.workers), self.tail, START_SECONDS)

    def alive(self) -> int:
        """Return how many workers the master has, 0 while it does not answer."""
        try:
            with urllib.request.urlopen(f"http://{MASTER_HOST}:{self.web_port}/json/", timeout=ASK_SECONDS) as answer:
                return int(json.load(answer)["aliveworkers"])
        except (OSError, ValueError):  # at first its pages are there and these are not
            return 0

    def executors(self) -> list[int]:
        """Return the executors' JVMs, by process id."""
        return [pid for worker in self.workers for pid, command in worker.session().items() if EXECUTOR in command]

    def python_workers(self) -> list[int]:
        """Return the executors' Python processes."""
        found = [item for worker in self.workers for item in worker.session().items()]
        return [pid for pid, command in found if PYTHON_WORKER in command]

    def tasks(self) -> Counter[str]:
        """Return how many tasks there were, were begun again or beside another, and how many ended how, by events.

        What a killed driver did last is not among them.
        """
        counted: Counter[str] = Counter()
        for path in self.events.iterdir():
            for line in path.read_text().splitlines():
                if '"SparkListenerTask' not in line or not line.endswith("}"):
                    continue
                event = json.loads(line)
                if event["Event"] == "SparkListenerTaskStart":
                    again = event["Task Info"]["Attempt"] > 0 or event["Stage Attempt ID"] > 0
                    counted["tasks"] += 1
                    counted["run again"] += again
                    counted["speculative"] += event["Task Info"]["Speculative"]
                elif event["Event"] == "SparkListenerTaskEnd" and event["Task End Reason"]["Reason"] != "Success":
                    counted[event["Task End Reason"]["Reason"]] += 1
        return counted

    def tail(self) -> str:
        logs = sorted(self.folder.glob("*.log"))
        return "\n".join(f"--- {log.name}\n{log.read_text(errors='replace')[-1500:]}" for log in logs)

    def close(self) -> None:
        """kill -9 whatever lives of it."""
        for leader in self.sessions:
            for process in session(leader):
                kill(process)
        for daemon in (self.master, *(worker.process for worker in self.workers)):
            if daemon is not None:
                daemon.wait(30)
