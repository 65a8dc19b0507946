"""A common interface of the systems: start, addresses, processes, kill a node, end."""

import atexit
import contextlib
import functools
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Protocol

from bench.apache_kafka import KafkaCluster
from bench.peer import Peer
from kvorum.cluster.local.formatting import new_cluster_id
from kvorum.cluster.local.local import LocalCluster
from kvorum.cluster.local.plan import plan_of
from kvorum.cluster.process import readiness
from kvorum.runtime.cluster_file import dev_cluster
from kvorum.security.librdkafka import librdkafka_security
from tests.certificates import Authority

READY_SECONDS = 120.0
NO_SETTINGS: Mapping[str, str] = {}
TLS_PORT = {
    "listener.security.protocol.map": "PLAINTEXT:SSL,CONTROLLER:PLAINTEXT",
    "inter.broker.listener.name": "PLAINTEXT",
}
"""The listener of clients and brokers has TLS; its name stays."""


@functools.cache
def tls_settings() -> Mapping[str, str]:
    """Return the settings of nodes with TLS for clients and between brokers, with a new CA and certificate."""
    folder = tempfile.mkdtemp(prefix="bench-tls-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    authority = Authority(Path(folder))
    stores = {"ssl.keystore.location": str(authority.issue("node")), "ssl.truststore.location": str(authority.file)}
    return TLS_PORT | {"ssl.keystore.type": "PEM", "ssl.truststore.type": "PEM"} | stores


def client_of(settings: Mapping[str, str]) -> Mapping[str, str]:
    """Return the properties of a client, by Java's names, of nodes with these settings."""
    if "ssl.truststore.location" not in settings:
        return {}
    stores = {key: text for key, text in settings.items() if key.startswith("ssl.truststore.")}
    return {"security.protocol": "SSL"} | stores


@functools.cache
def with_bytecode() -> Mapping[str, str]:
    """Return an environment in which all is compiled already, as `pip install` leaves it; a checkout is not at first.

    Without it, or where PYTHONDONTWRITEBYTECODE is set, each process compiles 300 files at each start.
    """
    folder = tempfile.mkdtemp(prefix="bench-bytecode-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    environment = {"PYTHONDONTWRITEBYTECODE": "", "PYTHONPYCACHEPREFIX": folder}
    modules = ["kvorum.cluster.process.child", "kvorum.cluster.process.supervisor"]
    modules += [f"kvorum.cluster.process.{role}_process" for role in ("controller", "broker", "admin")]
    subprocess.run([sys.executable, "-c", f"import {', '.join(modules)}"], env=os.environ | environment, check=True)
    return environment


class System(Protocol):
    """A cluster of nodes 1 to N on this machine, formatted and not yet started."""

    name: str
    client: Mapping[str, str]
    """Properties of its clients besides bootstrap.servers, by Java's names."""

    def start(self) -> None:
        """Start every node that does not run; return at once."""
        ...

    def wait_ready(self) -> None:
        """Wait until every node is ready."""
        ...

    def address(self, node: int) -> tuple[str, int]:
        """Return host and port of a node's client listener."""
        ...

    def controller(self, node: int) -> tuple[str, int]:
        """Return host and port of a node's controller listener."""
        ...

    @property
    def bootstrap(self) -> str:
        """The clients' bootstrap.servers."""
        ...

    def pids(self) -> list[int]:
        """Return the pids of every process of the cluster."""
        ...

    def data(self, node: int) -> Path:
        """Return a node's log directory."""
        ...

    def metrics_urls(self, role: str = "broker") -> list[str]:
        """Return the HTTP addresses of the brokers' or controllers' own metrics; none for Apache Kafka."""
        ...

    def kill(self, node: int) -> None:
        """kill -9 every process of a node."""
        ...

    def close(self) -> None:
        """kill -9 everything."""
        ...


class Kvorum:
    """`kvorum dev` without the process of the admin HTTP API, which Kafka does not have.

    A node is a supervisor, a broker and a controller.
    """

    name = "Kvorum"

    def __init__(self, folder: Path, count: int, settings: Mapping[str, str] = NO_SETTINGS) -> None:
        self.client = client_of(settings)
        home = str(folder / "kvorum")
        overrides = [f"{key}={value}" for key, value in ({"admin.listeners": ""} | dict(settings)).items()]
        self._cluster = LocalCluster.create(home, plan_of(dev_cluster(count, 0, home, overrides), new_cluster_id()))
        self._cluster.environment.update(with_bytecode())
        self._pipes: list[tuple[str, int]] = []

    def start(self) -> None:
        """Start every node; return at once."""
        self._pipes = self._cluster.start_without_waiting(*(node.name for node in self._cluster.plan.nodes))

    def wait_ready(self) -> None:
        """Wait until every node is ready."""
        outcome = readiness.wait_all(self._pipes, READY_SECONDS)
        assert set(outcome.values()) == {"ready"}, outcome

    def address(self, node: int) -> tuple[str, int]:
        """Return host and port of a node's client listener."""
        host, _, port = self._cluster.plan.endpoints()[node - 1].rpartition(":")
        return host, int(port)

    def controller(self, node: int) -> tuple[str, int]:
        """Return host and port of a node's controller listener."""
        voters = self._cluster.plan.nodes[node - 1].properties["controller.quorum.voters"].split(",")
        host, _, port = (
            next(voter for voter in voters if voter.startswith(f"{node}@")).partition("@")[2].rpartition(":")
        )
        return host, int(port)

    @property
    def bootstrap(self) -> str:
        """The clients' bootstrap.servers."""
        return self._cluster.plan.bootstrap

    def pids(self) -> list[int]:
        """Return the pids of every process of the cluster."""
        names = [node.name for node in self._cluster.plan.nodes]
        return [process.pid for name in names for process in self._cluster.processes(name).values()]

    def data(self, node: int) -> Path:
        """Return a node's log directory."""
        return Path(self._cluster.node(f"node-{node}").data)

    def metrics_urls(self, role: str = "broker") -> list[str]:
        """Return the HTTP addresses of the brokers' or controllers' own metrics."""
        key = {"broker": "metrics.listener", "controller": "kvorum.controller.metrics.listener"}[role]
        return [f"{node.properties[key]}/metrics" for node in self._cluster.plan.nodes if key in node.properties]

    def kill(self, node: int) -> None:
        """kill -9 every process of a node."""
        self._cluster.kill(f"node-{node}")

    def close(self) -> None:
        """kill -9 everything."""
        for node in self._cluster.plan.nodes:
            self._cluster.kill(node.name)


class Kafka:
    """Apache Kafka: a node is one JVM, broker and controller."""

    name = "Apache Kafka"

    def __init__(self, folder: Path, count: int, settings: Mapping[str, str] = NO_SETTINGS) -> None:
        self.client = client_of(settings)
        self._cluster = KafkaCluster.create(folder / "kafka", count, settings)
        self._cluster.client = librdkafka_security(self.client)

    def start(self) -> None:
        """Start every node; return at once."""
        self._cluster.start()

    def wait_ready(self) -> None:
        """Wait until every node is ready."""
        self._cluster.wait_ready()

    def address(self, node: int) -> tuple[str, int]:
        """Return host and port of a node's client listener."""
        return "127.0.0.1", self._cluster.ports[node]

    def controller(self, node: int) -> tuple[str, int]:
        """Return host and port of a node's controller listener."""
        return "127.0.0.1", self._cluster.controller_ports[node]

    @property
    def bootstrap(self) -> str:
        """The clients' bootstrap.servers."""
        return self._cluster.bootstrap

    def pids(self) -> list[int]:
        """Return the pids of every process of the cluster."""
        return list(self._cluster.pids().values())

    def data(self, node: int) -> Path:
        """Return a node's log directory."""
        return self._cluster.home(node) / "data"

    def metrics_urls(self, role: str = "broker") -> list[str]:
        """Return nothing: they are had by JMX."""
        return []

    def kill(self, node: int) -> None:
        """kill -9 every process of a node."""
        self._cluster.kill(node)

    def close(self) -> None:
        """kill -9 everything."""
        self._cluster.close()


MAKERS: Mapping[str, type[Kvorum] | type[Kafka]] = {"kafka": Kafka, "kvorum": Kvorum}
"""The two that are compared."""
PEER = "peer"
SYSTEMS: Mapping[str, type[Kvorum] | type[Kafka] | type[Peer]] = {**MAKERS, PEER: Peer}


@contextlib.contextmanager
def formatted(kind: str, count: int, settings: Mapping[str, str] = NO_SETTINGS) -> Iterator[System]:
    """A formatted, stopped cluster in a temporary folder, deleted afterwards except its logs after a failure."""
    with tempfile.TemporaryDirectory(prefix="bench-") as folder:
        system = SYSTEMS[kind](Path(folder), count, settings)
        try:
            yield system
        except BaseException:
            kept = tempfile.mkdtemp(prefix=f"bench-failed-{kind}-")
            for log in Path(folder).rglob("*.log"):
                if not log.stem.isdigit():  # no partition's segment
                    shutil.copy(log, Path(kept) / f"{log.parent.name}-{log.name}")
            print(f"the logs are in {kept}", file=sys.stderr, flush=True)
            raise
        finally:
            system.close()
