"""Apache Kafka 4.3.0 for comparison: its jars by Maven coordinates, its configuration, KRaft nodes on this machine.

The machine's Maven resolves the jars (kafka_2.13, kafka-tools and their runtime dependencies) by coordinates; they are
kept in one folder: the argument, else KVORUM_KAFKA_JARS, else ~/.cache/kvorum/kafka-4.3.0. The JVM's options are
those of Kafka's own start script (G1, 1 GiB heap). All listeners use 127.0.0.1 and free ports; nodes are ended only by
pid.

    python -m bench.apache_kafka [--nodes 3] [--set KEY=VALUE ...]    # start, print the bootstrap address, wait
"""

import argparse
import base64
import contextlib
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from kvorum.runtime.process import die_with_parent

VERSION = "4.3.0"
COORDINATES = (
    ("org.apache.kafka", "kafka_2.13", VERSION),
    ("org.apache.kafka", "kafka-tools", VERSION),
    ("org.apache.logging.log4j", "log4j-slf4j-impl", "2.25.4"),  # Kafka's own binding, so that its log is written
)
JARS_VARIABLE = "KVORUM_KAFKA_JARS"
READY_SECONDS = 120.0
FORMAT_SECONDS = 120.0
STOP_SECONDS = 60.0
JVM_OPTIONS = (
    "-Xmx1G",
    "-Xms1G",
    "-server",
    "-XX:+UseG1GC",
    "-XX:MaxGCPauseMillis=20",
    "-XX:InitiatingHeapOccupancyPercent=35",
    "-XX:+ExplicitGCInvokesConcurrent",
    "-XX:MaxInlineLevel=15",
    "-Djava.awt.headless=true",
)
"""JVM options of bin/kafka-server-start.sh and kafka-run-class.sh."""

LOG4J = """\
appender.file.type = File
appender.file.name = file
appender.file.fileName = ${sys:kafka.log}
appender.file.layout.type = PatternLayout
appender.file.layout.pattern = [%d] %p %m (%c)%n
rootLogger.level = INFO
rootLogger.appenderRef.file.ref = file
"""


class KafkaUnavailableError(Exception):
    """Apache Kafka is not available or cannot be started here; the message is the reason."""


def jars(folder: str | None = None) -> str:
    """Return the class path of Apache Kafka, fetched by Maven at the first call. Raises KafkaUnavailableError."""
    target = folder_of_jars(folder)
    if not has_jars(target):
        fetch(target)
    return f"{target}/*"


def folder_of_jars(folder: str | None = None) -> Path:
    """Return where they are kept."""
    return Path(folder or os.environ.get(JARS_VARIABLE) or Path.home() / f".cache/kvorum/kafka-{VERSION}").absolute()


def has_jars(folder: Path) -> bool:
    """Return whether they are there."""
    return all((folder / f"{artifact}-{version}.jar").exists() for _, artifact, version in COORDINATES)


def fetch(target: Path) -> None:
    """Have Maven copy the jars and their run time dependencies into a folder."""
    maven = shutil.which("mvn")
    if maven is None:
        raise KafkaUnavailableError("Maven (mvn) is not on the PATH; it fetches Apache Kafka's jars")
    target.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as work:
        (Path(work) / "pom.xml").write_text(pom())
        command = [maven, "-q", "-B", "dependency:copy-dependencies"]
        command += ["-DincludeScope=runtime", f"-DoutputDirectory={target}"]
        done = subprocess.run(command, cwd=work, capture_output=True, text=True, check=False)
    if done.returncode:
        raise KafkaUnavailableError(f"Maven did not bring the jars:\n{done.stdout[-2000:]}{done.stderr[-2000:]}")


def pom() -> str:
    """Return a project that depends on Kafka and on nothing else."""
    parts = [
        f"<dependency><groupId>{group}</groupId><artifactId>{artifact}</artifactId><version>{version}</version>"
        "</dependency>"
        for group, artifact, version in COORDINATES
    ]
    return (
        '<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion>'
        "<groupId>bench</groupId><artifactId>kafka</artifactId><version>1</version>"
        f"<dependencies>{''.join(parts)}</dependencies></project>"
    )


def new_cluster_id() -> str:
    """Return a random id in Kafka's format that no command line takes for an option."""
    while (found := base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")).startswith("-"):
        pass
    return found


def free_ports(count: int) -> list[int]:
    """Return free ports of 127.0.0.1: all are held until all are chosen, so none is named twice."""
    with contextlib.ExitStack() as stack:
        holders = [stack.enter_context(socket.socket()) for _ in range(count)]
        for holder in holders:
            holder.bind(("127.0.0.1", 0))
        return [holder.getsockname()[1] for holder in holders]


def java() -> str:
    """Return the Java command. Raises KafkaUnavailableError."""
    found = shutil.which("java")
    if found is None:
        raise KafkaUnavailableError("java (17 or later) is not on the PATH")
    return found


@dataclass(slots=True)
class KafkaCluster:
    """KRaft nodes 1 to N in a folder: all are brokers, and the first one, three or five are also controllers.

    `create` formats it; `close` ends it.
    """

    folder: Path
    class_path: str
    ports: Mapping[int, int]
    """{node id: port of its PLAINTEXT listener}."""
    controller_ports: Mapping[int, int]
    client: Mapping[str, str] = field(default_factory=dict)
    """Properties of librdkafka that its listener needs."""
    _running: dict[int, "subprocess.Popen[bytes]"] = field(default_factory=dict)

    @classmethod
    def create(
        cls, folder: Path, count: int = 1, settings: Mapping[str, str] | None = None, jars_folder: str | None = None
    ) -> "KafkaCluster":
        """Write the nodes' configurations and format their directories."""
        numbers = range(1, count + 1)
        voting = range(1, controllers_of(count) + 1)
        chosen = free_ports(count + len(voting))
        clients, controllers = dict(zip(numbers, chosen, strict=False)), dict(zip(voting, chosen[count:], strict=True))
        cluster = cls(folder.absolute(), jars(jars_folder), clients, controllers)
        voters = ",".join(f"{node}@127.0.0.1:{port}" for node, port in controllers.items())
        for node in numbers:
            home = cluster.home(node)
            home.mkdir(parents=True)
            config = node_config(node, count, clients[node], controllers.get(node), voters, home) | dict(settings or {})
            (home / "server.properties").write_text("".join(f"{key}={value}\n" for key, value in config.items()))
            (home / "log4j2.properties").write_text(LOG4J)
        cluster._format(new_cluster_id())
        return cluster

    def home(self, node: int) -> Path:
        """Return a node's folder: server.properties, server.log, data."""
        return self.folder / f"kafka-{node}"

    @property
    def bootstrap(self) -> str:
        """The clients' bootstrap.servers."""
        return ",".join(f"127.0.0.1:{port}" for port in self.ports.values())

    def _java(self, node: int, main: str, *arguments: str, options: Sequence[str] = ()) -> list[str]:
        home = self.home(node)
        return [
            java(),
            *options,
            f"-Dlog4j2.configurationFile={home / 'log4j2.properties'}",
            f"-Dkafka.log={home / 'server.log'}",
            "-cp",
            self.class_path,
            main,
            *arguments,
        ]

    def _format(self, cluster_id: str) -> None:
        for node in self.ports:
            config = str(self.home(node) / "server.properties")
            command = self._java(node, "kafka.tools.StorageTool", "format", "-t", cluster_id, "-c", config)
            done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=FORMAT_SECONDS)
            if done.returncode:
                raise KafkaUnavailableError(f"format failed:\n{done.stdout[-2000:]}{done.stderr[-2000:]}")

    def start(self, *nodes: int) -> None:
        """Start nodes (all, when none is named) that do not run; return at once."""
        parent = os.getpid()
        for node in nodes or tuple(self.ports):
            if node in self._running:
                continue
            config = str(self.home(node) / "server.properties")
            with (self.home(node) / "console.log").open("ab") as output:
                self._running[node] = subprocess.Popen(
                    self._java(node, "kafka.Kafka", config, options=JVM_OPTIONS),
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=output,
                    start_new_session=True,
                    preexec_fn=lambda: die_with_parent(parent),
                )

    def wait_ready(self, seconds: float = READY_SECONDS) -> None:
        """Wait until every node that runs is a registered, unfenced broker. Raises KafkaUnavailableError."""
        deadline = time.monotonic() + seconds
        admin = AdminClient({"bootstrap.servers": self.bootstrap, "log_level": 0, **self.client})
        while True:
            with contextlib.suppress(KafkaException):
                if set(admin.list_topics(timeout=5).brokers) >= set(self._running):
                    return
            dead = [node for node, process in self._running.items() if process.poll() is not None]
            if dead or time.monotonic() > deadline:
                raise KafkaUnavailableError(f"nodes {dead or list(self._running)} are not ready: {self.folder}")
            time.sleep(0.05)

    def pids(self) -> dict[int, int]:
        """Return {node id: pid} of the nodes that run."""
        return {node: process.pid for node, process in self._running.items()}

    def kill(self, node: int) -> None:
        """kill -9 a node, and wait for its end."""
        process = self._running.pop(node)
        process.send_signal(signal.SIGKILL)
        process.wait()

    def stop(self, *nodes: int) -> None:
        """SIGTERM nodes (by default all); kill those that do not end in time."""
        ending = [(node, self._running.pop(node)) for node in nodes or tuple(self._running)]
        for _, process in ending:
            process.terminate()
        deadline = time.monotonic() + STOP_SECONDS
        for _, process in ending:
            try:
                process.wait(max(0.1, deadline - time.monotonic()))
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()

    def close(self) -> None:
        """kill -9 whatever still runs: three nodes stopped at once wait for each other."""
        for node in tuple(self._running):
            self.kill(node)


def controllers_of(count: int) -> int:
    """Return how many of so many nodes are controllers: as many as of `kvorum dev`."""
    return 1 if count < 3 else 3 if count < 5 else 5


def node_config(
    node: int, count: int, port: int, controller_port: int | None, voters: str, home: Path
) -> dict[str, str]:
    """Return a node's configuration: Kafka's defaults except addresses and settings that depend on cluster size."""
    internal = str(min(count, 3))
    controller = "" if controller_port is None else f",CONTROLLER://127.0.0.1:{controller_port}"
    return {
        "process.roles": "broker,controller" if controller else "broker",
        "node.id": str(node),
        "controller.quorum.voters": voters,
        "listeners": f"PLAINTEXT://127.0.0.1:{port}{controller}",
        "controller.listener.names": "CONTROLLER",
        "log.dirs": str(home / "data"),
        "offsets.topic.replication.factor": internal,
        "transaction.state.log.replication.factor": internal,
        "transaction.state.log.min.isr": str(min(count, 2)),
        "share.coordinator.state.topic.replication.factor": internal,
        "share.coordinator.state.topic.min.isr": str(min(count, 2)),
        "auto.create.topics.enable": "false",
    }


@contextlib.contextmanager
def running(
    count: int = 1, settings: Mapping[str, str] | None = None, jars_folder: str | None = None
) -> Iterator[KafkaCluster]:
    """A running cluster in a temporary folder, which is deleted afterwards."""
    with tempfile.TemporaryDirectory(prefix="kafka-") as folder:
        cluster = KafkaCluster.create(Path(folder), count, settings, jars_folder)
        try:
            cluster.start()
            cluster.wait_ready()
            yield cluster
        finally:
            cluster.close()


def main() -> None:
    """Start a cluster, say where it is, and keep it up until it is interrupted."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nodes", type=int, default=1)
    parser.add_argument("--jars", help=f"folder of Kafka's jars; also {JARS_VARIABLE}")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="a configuration of every node")
    options = parser.parse_args()
    settings = dict(text.partition("=")[::2] for text in options.set)
    with running(options.nodes, settings, options.jars) as cluster, contextlib.suppress(KeyboardInterrupt):
        print(f"bootstrap.servers={cluster.bootstrap} folder={cluster.folder} pids={cluster.pids()}", flush=True)
        signal.pause()


if __name__ == "__main__":
    main()
