"""Parts of a lab without running processes: plan, cluster, network, and means of faults."""

import os
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from random import Random
from typing import Final, Literal, TypeAlias

from kvorum.chaos.faults.clocks import NodeClock
from kvorum.chaos.faults.cuts import Cuts, NamespaceCuts, ProxyCuts
from kvorum.chaos.faults.directories import DirectoryFaults
from kvorum.chaos.faults.disks import DiskFaults
from kvorum.chaos.faults.events import FaultRegister
from kvorum.chaos.faults.links import Links
from kvorum.chaos.faults.namespaces import Namespaces
from kvorum.chaos.faults.observer import Observer, addresses_of, in_a_thread
from kvorum.chaos.faults.ports import PortBlock
from kvorum.chaos.faults.processes import ProcessFaults
from kvorum.chaos.faults.shape import LabPlan, LabShape, lab_plan
from kvorum.chaos.faults.small_disk import SmallDisk
from kvorum.chaos.faults.topology import BROKER, CONTROLLER
from kvorum.chaos.faults.toxiproxy import ToxiproxyServer
from kvorum.chaos.faults.toxiproxy_binary import find_or_build
from kvorum.cluster.local.formatting import new_cluster_id
from kvorum.cluster.local.local import LocalCluster
from kvorum.network.addresses import Address

Network: TypeAlias = Literal["proxies", "plain", "namespaces"]
CHILD_MODULE: Final = "kvorum.cluster.process.child"
LAB_MEMBER: Final = "lab"
"""The namespace in which the lab itself runs its clients."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """All that a lab has."""

    shape: LabShape
    plan: LabPlan
    cluster: LocalCluster
    register: FaultRegister
    processes: ProcessFaults
    disks: DiskFaults
    directories: DirectoryFaults
    observer: Observer
    clocks: Mapping[str, NodeClock]
    cuts: Cuts | None
    namespaces: Namespaces | None
    node_environment: dict[str, dict[str, str]]


def make_parts(
    folder: str,
    shape: LabShape,
    network: Network,
    register: FaultRegister,
    rng: Random,
    small_disks: Mapping[str, int],
    child_module: str,
    stack: ExitStack,
) -> Parts:
    """Make all parts except the running processes; parts with a cleanup register it on the stack.

    Raises what Lab.create raises.
    """
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
    host_of: Callable[[str], str] = (
        (lambda node: "127.0.0.1") if namespaces is None else namespaces.addresses.__getitem__
    )
    plan = lab_plan(shape, folder, new_cluster_id(), ports.next, proxied=network == "proxies", host_of=host_of)
    cluster = LocalCluster.create(folder, plan.cluster)
    clocks = {name: NodeClock(os.path.join(cluster.node(name).folder, "clock-offset")) for name in parties.roles}
    for clock in clocks.values():
        clock.create()
    small: dict[str, SmallDisk] = {}
    for name, size in small_disks.items():
        small[name] = SmallDisk.mount(cluster.node(name).data, size)
        stack.callback(small[name].close)
    processes = ProcessFaults(cluster, register, spawner)
    node_environment: dict[str, dict[str, str]] = {name: clock.environment() for name, clock in clocks.items()}
    cluster.wrap = partial(_command, namespaces, small, node_environment, child_module)
    cuts: Cuts | None = None
    if network == "proxies":
        server = ToxiproxyServer(find_or_build(), ports.next(), os.path.join(folder, "toxiproxy.log"))
        spawner.submit(server.start).result()
        stack.callback(server.stop)
        links = Links(server.api, list(plan.topology.proxies.values()))
        links.open()
        cuts = ProxyCuts(plan.topology, links, register)
    elif namespaces is not None:
        cuts = NamespaceCuts(parties, namespaces, register)
    stack.callback(processes.end_all)
    disks = DiskFaults(cluster, register, processes, small, rng)
    return Parts(
        shape=shape,
        plan=plan,
        cluster=cluster,
        register=register,
        processes=processes,
        disks=disks,
        directories=DirectoryFaults(cluster, register, processes, disks),
        observer=_observer(shape, plan, namespaces),
        clocks=clocks,
        cuts=cuts,
        namespaces=namespaces,
        node_environment=node_environment,
    )


def _observer(shape: LabShape, plan: LabPlan, namespaces: Namespaces | None) -> Observer:
    ids = {name: node_id for name, (node_id, _) in shape.nodes().items()}

    def of(role: str) -> dict[int, Address]:
        return addresses_of(plan.direct, ids, role)

    run = in_a_thread if namespaces is None else partial(namespaces.run_loop, LAB_MEMBER)
    return Observer(of(BROKER), of(CONTROLLER), run)


def _command(
    namespaces: Namespaces | None,
    small: Mapping[str, SmallDisk],
    node_environment: Mapping[str, Mapping[str, str]],
    child_module: str,
    name: str,
    command: Sequence[str],
) -> list[str]:
    """Return the command line of a node with its namespaces and environment. Each step execs the next."""
    before = [] if namespaces is None else namespaces.entering(name)
    before += small[name].keeper.entering() if name in small else []
    variables = [f"{key}={value}" for key, value in node_environment[name].items()]
    return [*before, "env", *variables, *(child_module if word == CHILD_MODULE else word for word in command)]
