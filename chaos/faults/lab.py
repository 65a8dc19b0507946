"""A cluster of real processes made for faults: with proxies or namespaces, clocks, small disks.

    with Lab.create(folder, LabShape(brokers=3, controllers=3)) as lab:
        topic = ...create "orders" at lab.bootstrap...
        with lab.links.isolate(lab.leader_of("orders", 0)):
            ...
        lab.recover()

Faults are those of its parts (`processes`, `links`, `disks`, `directories`, `clocks`, `inside`), or any of the table by
name (fault_kinds.inject). Names: a node ("node-1") or one of its processes ("node-1/controller"), a group of clients
("clients"), "brokers", "controllers". Without `close` everything still ends with this process.
"""

import os
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from types import TracebackType
from typing import Final, Literal, Self, TypeAlias

from kvorum.chaos import history
from kvorum.chaos.client_access import ClientAccess
from kvorum.chaos.faults.clocks import ClockFaults, NodeClock
from kvorum.chaos.faults.directories import DirectoryFaults
from kvorum.chaos.faults.disks import DiskFaults
from kvorum.chaos.faults.events import FaultRegister, OnFault, ignore_event
from kvorum.chaos.faults.inside_faults import InsideFaults
from kvorum.chaos.faults.lab_security import LabSecurity
from kvorum.chaos.faults.link_faults import LinkFaults, NamespaceFaults, ProxyFaults
from kvorum.chaos.faults.links import Links
from kvorum.chaos.faults.namespaces import Namespaces
from kvorum.chaos.faults.observer import Observer, addresses_of, in_a_thread
from kvorum.chaos.faults.ports import PortBlock
from kvorum.chaos.faults.processes import ProcessFaults
from kvorum.chaos.faults.security_faults import SecurityFaults
from kvorum.chaos.faults.shape import LOOPBACK, LabPlan, LabShape, lab_plan
from kvorum.chaos.faults.small_disk import SmallDisk
from kvorum.chaos.faults.target_cluster import TargetCluster
from kvorum.chaos.faults.topology import BROKER, CONTROLLER
from kvorum.chaos.faults.toxiproxy import ToxiproxyServer
from kvorum.chaos.faults.toxiproxy_binary import find_or_build
from kvorum.cluster.local.formatting import new_cluster_id
from kvorum.cluster.local.local import LocalCluster
from kvorum.runtime.chance import new_random
from kvorum.security.client import PLAINTEXT

Network: TypeAlias = Literal["proxies", "plain", "namespaces"]
CHILD_MODULE: Final = "kvorum.cluster.process.child"
LAB_MEMBER: Final = "lab"
"""The namespace in which the lab itself runs its clients."""


@dataclass(slots=True, kw_only=True)
class Lab(TargetCluster):
    """A lab, created with `create`; see the module."""

    shape: LabShape
    plan: LabPlan
    namespaces: Namespaces | None
    node_environment: dict[str, dict[str, str]]
    """{node: variables of its processes}, from its next start on: KVORUM_FAILPOINTS, for one."""
    lab_security: LabSecurity | None
    """None: all is plaintext."""

    @classmethod
    def create(
        cls,
        folder: str,
        shape: LabShape | None = None,
        *,
        network: Network = "proxies",
        on_fault: OnFault = ignore_event,
        seconds: Callable[[], float] | None = None,
        seed: int | None = None,
        small_disks: Mapping[str, int] | None = None,
        environment: Mapping[str, str] | None = None,
        child_module: str = CHILD_MODULE,
        start: bool = True,
    ) -> "Lab":
        """Create the cluster in an empty folder and start it (by default).

        `seconds`: the run's clock for events. `small_disks`: {node: size in bytes of its first log directory}.
        `environment`: for all nodes. `child_module`: replaces kvorum.cluster.process.child (mutants).
        Raises LabError, ValueError and ConfigError (the shape), NoToxiproxy, NotPermitted (namespaces, disks).
        """
        began = time.monotonic()
        register = FaultRegister(on_fault, seconds or (lambda: time.monotonic() - began))
        with ExitStack() as stack:
            lab = cls._build(
                folder, shape or LabShape(), network, register, seed, small_disks or {}, child_module, stack
            )
            lab.cluster.environment.update(environment or {})
            if start:
                lab.processes.ensure_running()
            lab.resources = stack.pop_all()
        return lab

    @classmethod
    def _build(
        cls,
        folder: str,
        shape: LabShape,
        network: Network,
        register: FaultRegister,
        seed: int | None,
        small_disks: Mapping[str, int],
        child_module: str,
        stack: ExitStack,
    ) -> "Lab":
        """Make a lab without running nodes; what needs a cleanup registers it on the stack."""
        os.makedirs(folder, exist_ok=True)
        ports = PortBlock.take()
        stack.callback(ports.release)
        spawner = ThreadPoolExecutor(max_workers=1, thread_name_prefix="chaos-spawner")
        stack.callback(spawner.shutdown)
        parties = shape.parties()
        namespaces = None
        if network == "namespaces":
            namespaces = Namespaces.create([*parties.roles, *parties.groups, LAB_MEMBER])
            stack.callback(namespaces.close)
        hosts = dict.fromkeys(parties.roles, LOOPBACK) if namespaces is None else namespaces.addresses
        security = _security(folder, shape, hosts, ports, stack)
        is_proxied, host_of = network == "proxies", hosts.__getitem__
        plan = lab_plan(
            shape, folder, new_cluster_id(), ports.next, proxied=is_proxied, host_of=host_of, security=security
        )
        cluster = LocalCluster.create(folder, plan.cluster, bootstrap=security.records() if security else ())
        clocks = {name: NodeClock(os.path.join(cluster.node(name).folder, "clock-offset")) for name in parties.roles}
        for clock in clocks.values():
            clock.create()
        small: dict[str, SmallDisk] = {}
        for name, size in small_disks.items():
            small[name] = SmallDisk.mount(cluster.node(name).data, size)
            stack.callback(small[name].close)
        node_environment = {name: clock.environment() for name, clock in clocks.items()}
        cluster.wrap = partial(_command, namespaces, small, node_environment, child_module)
        links = LinkFaults(register, parties)
        if network == "proxies":
            server = ToxiproxyServer(find_or_build(), ports.next(), os.path.join(folder, "toxiproxy.log"))
            spawner.submit(server.start).result()
            stack.callback(server.stop)
            proxies = Links(server.api, list(plan.topology.proxies.values()))
            proxies.open()
            links = ProxyFaults(register, parties, plan.topology, proxies)
        elif namespaces is not None:
            links = NamespaceFaults(register, parties, namespaces)
        processes = ProcessFaults(cluster, register, spawner)
        stack.callback(processes.kill_now, processes.names)
        disks = DiskFaults(cluster, register, processes, small, new_random(seed))
        return cls(
            cluster=cluster,
            register=register,
            processes=processes,
            disks=disks,
            directories=DirectoryFaults(cluster, register, processes, disks),
            clocks=ClockFaults(register, clocks),
            links=links,
            inside=InsideFaults.of(plan.cluster, register),
            observer=_observer(shape, plan, namespaces, security),
            security=_security_faults(register, security),
            resources=stack,
            shape=shape,
            plan=plan,
            namespaces=namespaces,
            node_environment=node_environment,
            lab_security=security,
        )

    def __enter__(self) -> Self:
        """Return the lab, which runs."""
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        """Close it."""
        self.close()

    @property
    def bootstrap(self) -> str:
        """bootstrap.servers of clients of the first group: behind proxies, if any."""
        return self.access.bootstrap

    @property
    def access(self) -> ClientAccess:
        """Access of clients of the first group: behind proxies, if any."""
        return self.access_of(self.shape.groups[0])

    def access_of(self, group: str) -> ClientAccess:
        """Return how a group of clients reaches the cluster. Raises KeyError."""
        bootstrap = ",".join(self.plan.addresses[group].values())
        return ClientAccess(bootstrap) if self.lab_security is None else self.lab_security.clients(bootstrap)

    @property
    def direct_access(self) -> ClientAccess:
        """Access without any link faults (the brokers' own listener): for observers."""
        bootstrap = self.direct_bootstrap
        return ClientAccess(bootstrap) if self.lab_security is None else self.lab_security.observers(bootstrap)

    @property
    def proxies(self) -> dict[str, str]:
        """{link with a proxy: its target}."""
        return {each.name: each.upstream for each in self.plan.topology.proxies.values()}

    def history_shape(self) -> history.ClusterShape:
        """Return the cluster as the history's first event has it."""
        nodes = {
            name: history.NodeShape(id=number, roles=list(roles))
            for name, (number, roles) in self.shape.nodes().items()
        }
        return history.ClusterShape(nodes=nodes, configs=dict(self.shape.configs))


def _security(
    folder: str, shape: LabShape, hosts: Mapping[str, str], ports: PortBlock, stack: ExitStack
) -> LabSecurity | None:
    if not shape.secure:
        return None
    security = LabSecurity.create(folder, hosts, shape.mechanism, ports.next)
    if security.issuer is not None:
        security.issuer.start()
        stack.callback(security.issuer.stop)
    return security


def _security_faults(register: FaultRegister, security: LabSecurity | None) -> SecurityFaults:
    if security is None:
        return SecurityFaults(register)
    return SecurityFaults(register, security.files.certificates, security.issuer)


def _observer(shape: LabShape, plan: LabPlan, namespaces: Namespaces | None, security: LabSecurity | None) -> Observer:
    ids = {name: node_id for name, (node_id, _) in shape.nodes().items()}
    run = in_a_thread if namespaces is None else partial(namespaces.run_loop, LAB_MEMBER)
    own = PLAINTEXT if security is None else security.observers("").security()
    return Observer(addresses_of(plan.direct, ids, BROKER), addresses_of(plan.direct, ids, CONTROLLER), run, own, own)


def _command(
    namespaces: Namespaces | None,
    small: Mapping[str, SmallDisk],
    node_environment: Mapping[str, Mapping[str, str]],
    child_module: str,
    name: str,
    command: Sequence[str],
) -> list[str]:
    """Return the command line of a node with its namespaces and environment. Each step execs the next."""
    before = [] if namespaces is None else namespaces.command_prefix(name)
    before += small[name].holder.command_prefix() if name in small else []
    variables = [f"{key}={value}" for key, value in node_environment[name].items()]
    return [*before, "env", *variables, *(child_module if word == CHILD_MODULE else word for word in command)]
