"""A cluster for `kvorum chaos serve`: the lab's, with proxies, or an existing one.

An existing cluster supports faults of processes and disks, and faults inside processes if its configuration enables
them; faults of links need proxies, and faults of clocks nodes that were started for them.
"""

from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, Final

from kvorum.chaos.faults.clocks import NodeClock
from kvorum.chaos.faults.cuts import Cuts
from kvorum.chaos.faults.disks import DiskFaults
from kvorum.chaos.faults.events import FaultRegister, OnFault
from kvorum.chaos.faults.inside import Inside
from kvorum.chaos.faults.lab import Lab
from kvorum.chaos.faults.observer import Observer, in_a_thread
from kvorum.chaos.faults.processes import DOWN_KINDS, ProcessFaults
from kvorum.chaos.faults.topology import BROKER
from kvorum.cluster.local.local import LocalCluster
from kvorum.network.addresses import Address
from kvorum.runtime.chance import new_random
from kvorum.runtime.config import Settings
from kvorum.runtime.listeners import Endpoint, broker_listeners, controller_listeners
from kvorum.runtime.process import is_stopped

ANY_HOST: Final = ("", "0.0.0.0", "::")


@dataclass(slots=True, kw_only=True)
class Served:
    """See the module. Every call blocks; any thread may make it."""

    cluster: LocalCluster
    register: FaultRegister
    processes: ProcessFaults
    disks: DiskFaults
    observer: Observer
    inside: Inside
    bootstrap: str
    """bootstrap.servers of clients: behind proxies, if any."""
    observed: str
    """Addresses of brokers without proxies, so that observation is not subject to the faults."""
    cuts: Cuts | None = None
    clocks: Mapping[str, NodeClock] = field(default_factory=dict)
    links: Mapping[str, str] = field(default_factory=dict)
    """{proxied link: its target}."""
    outlives: bool = False
    """It continues when this server ends."""
    close: Callable[[], None] = lambda: None

    @classmethod
    def of_lab(cls, lab: Lab) -> "Served":
        """Serve a lab; it ends with it."""
        return cls(
            cluster=lab.cluster,
            register=lab.register,
            processes=lab.processes,
            disks=lab.disks,
            observer=lab.observer,
            inside=Inside.of(lab.plan.cluster, lab.register),
            bootstrap=lab.bootstrap,
            observed=lab.direct_bootstrap,
            cuts=lab.cuts,
            clocks=lab.clocks,
            links={each.name: each.upstream for each in lab.plan.topology.proxies.values()},
            close=lab.close,
        )

    @classmethod
    def attached(cls, folder: str, on_fault: OnFault, seconds: Callable[[], float]) -> "Served":
        """Serve the cluster in a folder, run by any process; it outlives this one. Raises ClusterError, InsideError."""
        cluster = LocalCluster.open(folder, detached=True)
        register = FaultRegister(on_fault, seconds)
        spawner = ThreadPoolExecutor(max_workers=1, thread_name_prefix="chaos-spawner")
        processes = ProcessFaults(cluster, register, spawner)
        settings = [Settings.of(dict(node.properties)) for node in cluster.plan.nodes]
        return cls(
            cluster=cluster,
            register=register,
            processes=processes,
            disks=DiskFaults(cluster, register, processes, {}, new_random()),
            observer=Observer(
                first_of(settings, broker_listeners), first_of(settings, controller_listeners), in_a_thread
            ),
            inside=Inside.of(cluster.plan, register),
            bootstrap=cluster.plan.bootstrap,
            observed=cluster.plan.bootstrap,
            outlives=True,
            close=spawner.shutdown,
        )

    @property
    def nodes(self) -> list[str]:
        """All nodes, running or not."""
        return self.processes.names

    def described(self) -> list[dict[str, Any]]:
        """Return each node with the present state of its processes."""
        found: list[dict[str, Any]] = []
        for node in self.cluster.plan.nodes:
            living = self.cluster.processes(node.name)
            processes = {
                role: {"pid": living[role].pid, "stopped": is_stopped(living[role])} if role in living else None
                for role in ("node", *node.roles)
            }
            found.append(
                {
                    "name": node.name,
                    "id": int(node.properties["node.id"]),
                    "roles": node.roles,
                    "running": "node" in living,
                    "processes": processes,
                }
            )
        return found

    def heal(self, *, start: bool) -> dict[str, str]:
        """End every fault; `start`: and start every node that is down: {node: "ready" | "died" | "late"}."""
        for fault in self.register.in_force():
            if fault.kind not in DOWN_KINDS:
                fault.end()
        self.inside.heal()
        return self.processes.start() if start else {}


def first_of(settings: list[Settings], listeners: Callable[[Settings], list[Endpoint]]) -> dict[int, Address]:
    """Return {node id: where its first listener of a kind is reached on this machine}."""
    found: dict[int, Address] = {}
    for each in settings:
        if listeners is broker_listeners and BROKER not in each.list("process.roles"):
            continue
        endpoints = listeners(each)
        if endpoints:
            host = "127.0.0.1" if endpoints[0].host in ANY_HOST else endpoints[0].host
            found[each.int("node.id")] = (host, endpoints[0].port)
    return found
