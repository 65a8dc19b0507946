"""A cluster of processes on this machine, its state, and the faults that can be injected into it.

A lab is one; `attach` returns that of an existing cluster, which supports faults of processes and disks, and faults
inside processes if its configuration enables them. Faults of links need proxies, of clocks nodes started for them.

A method that begins a fault returns it; it ends by its `end`, with its `with` block, by `heal`, or when its node is
started. Both are reported to the register's listener, the begin before the fault itself. Every call blocks and may come
from any thread; from an event loop use asyncio.to_thread.
"""

import os
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any, Final, TypeVar

from kvorum.chaos.faults.clocks import ClockFaults
from kvorum.chaos.faults.directories import DirectoryFaults
from kvorum.chaos.faults.disks import DiskFaults
from kvorum.chaos.faults.events import FaultRegister, OnFault
from kvorum.chaos.faults.inside_faults import InsideFaults
from kvorum.chaos.faults.link_faults import LinkFaults
from kvorum.chaos.faults.observer import AT_ONCE_MS, NO_LEADER, Observer, PartitionView, in_a_thread
from kvorum.chaos.faults.processes import ProcessFaults
from kvorum.chaos.faults.security_faults import SecurityFaults
from kvorum.chaos.faults.topology import BROKER, CONTROLLER, Parties
from kvorum.client.wire.cluster_client import ClusterClient, ResourceType, Unreachable
from kvorum.cluster.local.cluster_security import FOLDER
from kvorum.cluster.local.local import LocalCluster
from kvorum.network.addresses import Address, parse_bootstrap
from kvorum.network.node_security import admin_security, quorum_security
from kvorum.protocol.errors import KafkaError
from kvorum.runtime.chance import new_nonce, new_random
from kvorum.runtime.config import Settings
from kvorum.runtime.listeners import (
    Endpoint,
    address,
    broker_listeners,
    controller_listeners,
    inter_broker_listener_name,
)
from kvorum.runtime.process import is_stopped
from kvorum.security.certificate_folder import CertificateFolder
from kvorum.security.client import PLAINTEXT, ClientSecurity

HEALTHY_SECONDS: Final = 60.0
LEADER_SECONDS: Final = 30.0
POLL_SECONDS: Final = 0.05
ASK_MS: Final = 5_000
ANY_HOST: Final = ("", "0.0.0.0", "::")
MIN_ISR: Final = "min.insync.replicas"

T = TypeVar("T")


class LabError(Exception):
    """The cluster did not act in time, or the lab does not support the operation."""


class StateError(LabError):
    """The cluster has no such state now or in time: no leader, no active controller, no response."""


@dataclass(slots=True, kw_only=True)
class TargetCluster:
    """See the module."""

    cluster: LocalCluster
    register: FaultRegister
    processes: ProcessFaults
    disks: DiskFaults
    directories: DirectoryFaults
    clocks: ClockFaults
    links: LinkFaults
    inside: InsideFaults
    observer: Observer
    security: SecurityFaults
    outlives: bool = False
    """The cluster continues when this process ends."""
    resources: ExitStack = field(repr=False)
    """Released by `close`."""

    def close(self) -> None:
        """Release everything, without events; a lab's processes are killed. Idempotent."""
        self.resources.close()

    @property
    def bootstrap(self) -> str:
        """bootstrap.servers of clients: behind proxies, if any."""
        return self.cluster.plan.bootstrap

    @property
    def direct_bootstrap(self) -> str:
        """Bootstrap servers without any link faults (the brokers' own listener): for observers."""
        return ",".join(address(*each) for each in self.observer.brokers.values()) or self.cluster.plan.bootstrap

    @property
    def proxies(self) -> dict[str, str]:
        """{link with a proxy: its target}."""
        return {}

    @property
    def nodes(self) -> list[str]:
        """All nodes, running or not."""
        return self.processes.names

    @property
    def controllers(self) -> list[str]:
        """The nodes that may be the active controller."""
        return [node.name for node in self.cluster.plan.nodes if CONTROLLER in node.roles]

    def id_of(self, name: str) -> int:
        """Return a node's id. Raises KeyError."""
        return int(self.cluster.plan.node(name).properties["node.id"])

    def name_of(self, node_id: int) -> str:
        """Return the node with this id. Raises LabError."""
        for name in self.nodes:
            if self.id_of(name) == node_id:
                return name
        raise LabError(f"node {node_id} does not exist")

    def node_states(self) -> list[dict[str, Any]]:
        """Return each node with the present state of its processes."""
        found: list[dict[str, Any]] = []
        for node in self.cluster.plan.nodes:
            living = self.cluster.processes(node.name)
            processes = {
                role: {"pid": living[role].pid, "stopped": is_stopped(living[role])} if role in living else None
                for role in ("node", *node.roles)
            }
            more = {"id": self.id_of(node.name), "roles": node.roles, "running": "node" in living}
            found.append({"name": node.name, **more, "processes": processes})
        return found

    # State, as brokers and controllers return it. A timeout of 0: by one query.

    def partitions(self) -> dict[str, PartitionView]:
        """Return {"orders-0": leader, ISR, ...} as the best informed broker has them."""
        return self.observer.partitions()

    def partition(self, name: str) -> PartitionView:
        """Return a partition as the best informed broker has it. Raises StateError."""
        found = self.partitions().get(name)
        if found is None:
            raise StateError(f"no responding broker has a partition {name!r}")
        return found

    def leader_of(self, topic: str, partition: int, timeout_seconds: float = LEADER_SECONDS) -> str:
        """Return the node that leads a partition. Raises StateError if there is none within the timeout."""
        name = f"{topic}-{partition}"
        problem = ""

        def leader() -> str | None:
            nonlocal problem
            view = self.partitions().get(name)
            problem = f"{name} has no leader" if view else f"no responding broker has a partition {name!r}"
            return None if view is None or view.leader == NO_LEADER else self.name_of(view.leader)

        return wait_for(leader, lambda: problem, timeout_seconds)

    def isr_of(self, topic: str, partition: int) -> list[str]:
        """Return the nodes in sync. Raises StateError for an unknown partition."""
        return [self.name_of(node_id) for node_id in self.partition(f"{topic}-{partition}").isr]

    def min_isr(self, topic: str) -> int:
        """Return a topic's min.insync.replicas in force. Raises StateError."""

        async def read() -> int:
            cluster = ClusterClient(
                parse_bootstrap(self.direct_bootstrap), timeout_ms=ASK_MS, security=self.observer.broker_security
            )
            try:
                found = await cluster.describe_configs(ResourceType.TOPIC, topic)
            finally:
                await cluster.close()
            return next(int(each.value or "1") for each in found if each.name == MIN_ISR)

        try:
            found: int = self.observer.run(read)
        except (KafkaError, Unreachable) as error:
            raise StateError(f"{MIN_ISR} of {topic} is not available: {error}") from error
        return found

    def active_controller(self, timeout_seconds: float = LEADER_SECONDS) -> str:
        """Return the node of the active controller. Raises StateError if there is none in time."""
        found = wait_for(
            lambda: None if (node_id := self.observer.active_controller()) is None else (node_id,),
            lambda: "there is no active controller",
            timeout_seconds,
        )
        return self.name_of(found[0])

    def active_controller_now(self, timeout_ms: int = AT_ONCE_MS) -> str | None:
        """Return the node of the active controller if it answers at once, else None."""
        found = self.observer.active_controller(timeout_ms)
        return None if found is None else self.name_of(found)

    def wait_until_healthy(self, timeout_seconds: float = HEALTHY_SECONDS) -> None:
        """Wait until all brokers are unfenced with equal metadata, all replicas in sync and all controllers voters.

        Raises StateError with the problems.
        """
        ailments: list[str] = []

        def is_healthy() -> bool:
            ailments[:] = self.observer.ailments()
            return not ailments

        wait_for(is_healthy, lambda: "; ".join(ailments), timeout_seconds)

    # The end of faults.

    def heal(self, *, start: bool = True) -> dict[str, str]:
        """End every fault; `start`: and start every node that is down: {node: "ready" | "died" | "late"}."""
        for fault in self.register.in_force():
            if not fault.stops_nodes:
                fault.end()
        self.inside.heal()
        return self.processes.start() if start else {}

    def recover(self, timeout_seconds: float = HEALTHY_SECONDS) -> None:
        """End every fault, start every node, wait until all is well. Raises StateError, processes.StartError."""
        self.heal(start=False)
        self.processes.ensure_running()
        self.wait_until_healthy(timeout_seconds)


def wait_for(check: Callable[[], T | None], problem: Callable[[], str], timeout_seconds: float) -> T:
    """Return the first result that is true. Raises StateError with the problem after the timeout."""
    deadline = time.monotonic() + timeout_seconds
    while True:
        began = time.monotonic()
        found = check()
        if found:
            return found
        if not timeout_seconds:
            raise StateError(f"{problem()} now")
        if time.monotonic() >= deadline:
            raise StateError(f"not within {timeout_seconds:g} s: {problem()}")
        # On a busy machine, or with TLS, queries must not slow down what is waited for.
        time.sleep(max(POLL_SECONDS, time.monotonic() - began))


def attach(folder: str, on_fault: OnFault, seconds: Callable[[], float]) -> TargetCluster:
    """Return the cluster in a folder, run by any process; it outlives this one. Raises ClusterError, InsideError."""
    cluster = LocalCluster.open(folder, detached=True)
    register = FaultRegister(on_fault, seconds)
    resources = ExitStack()
    spawner = ThreadPoolExecutor(max_workers=1, thread_name_prefix="chaos-spawner")
    resources.callback(spawner.shutdown)
    settings = [Settings.of(dict(node.properties)) for node in cluster.plan.nodes]
    brokers, controllers = first_of(settings, inter_broker_listeners), first_of(settings, controller_listeners)
    processes = ProcessFaults(cluster, register, spawner)
    disks = DiskFaults(cluster, register, processes, {}, new_random())
    return TargetCluster(
        cluster=cluster,
        register=register,
        processes=processes,
        disks=disks,
        directories=DirectoryFaults(cluster, register, processes, disks),
        clocks=ClockFaults(register, {}),
        links=LinkFaults(register, Parties({node.name: node.roles for node in cluster.plan.nodes})),
        inside=InsideFaults.of(cluster.plan, register),
        observer=Observer(brokers, controllers, in_a_thread, *_securities(settings)),
        security=SecurityFaults(register, _certificates(cluster)),
        outlives=True,
        resources=resources,
    )


def inter_broker_listeners(settings: Settings) -> list[Endpoint]:
    """Return the listeners of a broker, that between brokers first."""
    name = inter_broker_listener_name(settings)
    return sorted(broker_listeners(settings), key=lambda each: each.listener_name != name)


def _securities(settings: list[Settings]) -> tuple[ClientSecurity, ClientSecurity]:
    """Return the security of connections to brokers and to controllers, as a broker has it. Raises ConfigError."""
    for each in settings:
        if BROKER in each.list("process.roles"):
            return admin_security(each, new_nonce), quorum_security(each, new_nonce)
    return PLAINTEXT, PLAINTEXT


def _certificates(cluster: LocalCluster) -> CertificateFolder | None:
    """Return the certificates that `kvorum dev --secure` made, None without."""
    found = CertificateFolder(os.path.join(cluster.paths.folder, FOLDER))
    return found if found.authority_key.exists() else None


def first_of(settings: list[Settings], listeners: Callable[[Settings], list[Endpoint]]) -> dict[int, Address]:
    """Return {node id: where its first listener of a kind is reached on this machine}."""
    found: dict[int, Address] = {}
    for each in settings:
        if listeners is inter_broker_listeners and BROKER not in each.list("process.roles"):
            continue
        endpoints = listeners(each)
        if endpoints:
            host = "127.0.0.1" if endpoints[0].host in ANY_HOST else endpoints[0].host
            found[each.int("node.id")] = (host, endpoints[0].port)
    return found
