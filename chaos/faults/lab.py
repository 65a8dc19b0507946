"""A cluster of real processes and all faults and operations on it, as methods.

    with Lab.create(folder, LabShape(brokers=3, controllers=3)) as lab:
        topic = ...create "orders" at lab.bootstrap...
        with lab.isolate(lab.leader_of("orders", 0)):
            ...
        lab.recover()

Names: a node ("node-1") or one of its processes ("node-1/controller"), a group of clients ("clients"), "brokers",
"controllers". A method that begins a fault returns it; it ends by its `end`, with its `with` block, or with `heal`,
`resume`, `start`, `recover`. Both are reported to `on_fault`, as in the history, beginnings before the fault itself.

Every call blocks and may come from any thread; from an event loop use asyncio.to_thread. Without `close` everything
still ends with this process.
"""

import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from types import TracebackType
from typing import Final, Self, TypeVar

from kvorum.chaos import history
from kvorum.chaos.faults.clocks import NodeClock
from kvorum.chaos.faults.cuts import LINK_KINDS, Cuts, NotThisNetwork
from kvorum.chaos.faults.directories import DirectoryFaults
from kvorum.chaos.faults.disk_damage import FlippedBit
from kvorum.chaos.faults.disks import DiskFaults
from kvorum.chaos.faults.events import FaultRegister, Injected, OnFault, unheard
from kvorum.chaos.faults.namespaces import Namespaces
from kvorum.chaos.faults.observer import AT_ONCE_MS, NO_LEADER, Observer, PartitionView
from kvorum.chaos.faults.parts import CHILD_MODULE, Network, make_parts
from kvorum.chaos.faults.processes import DOWN_KINDS, START_SECONDS, ProcessFaults
from kvorum.chaos.faults.shape import LabPlan, LabShape
from kvorum.chaos.faults.topology import BROKER
from kvorum.cluster.local.local import LocalCluster
from kvorum.runtime.chance import new_random

HEALTHY_SECONDS: Final = 60.0
LEADER_SECONDS: Final = 30.0
POLL_SECONDS: Final = 0.05

T = TypeVar("T")


class LabError(Exception):
    """The cluster did not act in time, or the lab does not support the operation."""


@dataclass(slots=True, kw_only=True)
class Lab:
    """A lab, created with `create`; see the module."""

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
    """{node: variables of its processes}, from its next start on: KVORUM_FAILPOINTS, for one."""
    _resources: ExitStack = field(repr=False)

    @classmethod
    def create(
        cls,
        folder: str,
        shape: LabShape | None = None,
        *,
        network: Network = "proxies",
        on_fault: OnFault = unheard,
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
        Raises LabError, ValueError and ConfigError (the shape), NoToxiproxy, keeper.NotPermitted (namespaces, disks).
        """
        began = time.monotonic()
        stack = ExitStack()
        with stack:
            parts = make_parts(
                folder,
                shape or LabShape(),
                network,
                FaultRegister(on_fault, seconds or (lambda: time.monotonic() - began)),
                new_random(seed),
                small_disks or {},
                child_module,
                stack,
            )
            parts.cluster.environment.update(environment or {})
            if start:
                parts.processes.started(())
            return cls(
                shape=parts.shape,
                plan=parts.plan,
                cluster=parts.cluster,
                register=parts.register,
                processes=parts.processes,
                disks=parts.disks,
                directories=parts.directories,
                observer=parts.observer,
                clocks=parts.clocks,
                cuts=parts.cuts,
                namespaces=parts.namespaces,
                node_environment=parts.node_environment,
                _resources=stack.pop_all(),
            )

    def close(self) -> None:
        """Kill everything and release everything, without events. Idempotent."""
        self._resources.close()

    def __enter__(self) -> Self:
        """Return the lab, which runs."""
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        """Close it."""
        self.close()

    # Nodes and roles.

    @property
    def nodes(self) -> list[str]:
        """All nodes, running or not."""
        return self.processes.names

    @property
    def bootstrap(self) -> str:
        """bootstrap.servers of clients of the first group: behind proxies, if any."""
        return self.bootstrap_of(self.shape.groups[0])

    def bootstrap_of(self, group: str) -> str:
        """Return the bootstrap servers of a group of clients. Raises KeyError."""
        return ",".join(self.plan.reached[group].values())

    @property
    def direct_bootstrap(self) -> str:
        """Bootstrap servers without any link faults (the brokers' own listener): for observers."""
        return ",".join(self.plan.direct[party] for party in self.plan.topology.parties.processes(BROKER))

    def id_of(self, name: str) -> int:
        """Return a node's id. Raises KeyError."""
        return self.shape.nodes()[name][0]

    def name_of(self, node_id: int) -> str:
        """Return the node with this id. Raises LabError."""
        for name, (found, _) in self.shape.nodes().items():
            if found == node_id:
                return name
        raise LabError(f"node {node_id} does not exist")

    def described(self) -> history.ClusterShape:
        """Return the cluster as the history's first event has it."""
        nodes = {
            name: history.NodeShape(id=number, roles=list(roles))
            for name, (number, roles) in self.shape.nodes().items()
        }
        return history.ClusterShape(nodes=nodes, configs=dict(self.shape.configs))

    def log_directories(self, name: str) -> list[str]:
        """Return where a node's broker has its logs, as this process reaches them: for byte by byte comparisons."""
        return self.disks.directories(name, BROKER)

    def partitions(self) -> dict[str, PartitionView]:
        """Return {"orders-0": leader, ISR, ...} as the best informed broker has them."""
        return self.observer.partitions()

    def leader_of(self, topic: str, partition: int, timeout_seconds: float = LEADER_SECONDS) -> str:
        """Return the node that leads a partition. Raises LabError if there is none within the timeout."""

        def leader() -> str | None:
            view = self.partitions().get(f"{topic}-{partition}")
            return None if view is None or view.leader == NO_LEADER else self.name_of(view.leader)

        return self._eventually(leader, lambda: f"{topic}-{partition} has no leader", timeout_seconds)

    def isr_of(self, topic: str, partition: int) -> list[str]:
        """Return the nodes in sync. Raises LabError for an unknown partition."""
        view = self.partitions().get(f"{topic}-{partition}")
        if view is None:
            raise LabError(f"partition {topic}-{partition} does not exist")
        return [self.name_of(node_id) for node_id in view.isr]

    def active_controller(self, timeout_seconds: float = LEADER_SECONDS) -> str:
        """Return the node of the active controller. Raises LabError if there is none in time."""
        found = self._eventually(
            lambda: None if (node_id := self.observer.active_controller()) is None else (node_id,),
            lambda: "no active controller",
            timeout_seconds,
        )
        return self.name_of(found[0])

    def active_controller_now(self) -> str | None:
        """Return the node of the active controller if it answers at once, else None."""
        found = self.observer.active_controller(AT_ONCE_MS)
        return None if found is None else self.name_of(found)

    def say_they_are_active(self) -> list[str]:
        """Return every node whose controller claims to be active, each queried at its own address."""
        return [self.name_of(each) for each in self.observer.active_controllers()]

    def wait_until_healthy(self, timeout_seconds: float = HEALTHY_SECONDS) -> None:
        """Wait until all brokers are unfenced with equal metadata, all replicas in sync and all controllers voters.

        Raises LabError with the problems.
        """
        ailments: list[str] = []

        def well() -> bool:
            ailments[:] = self.observer.ailments()
            return not ailments

        self._eventually(well, lambda: "; ".join(ailments), timeout_seconds)

    def _eventually(self, check: Callable[[], T | None], why_not: Callable[[], str], timeout_seconds: float) -> T:
        deadline = time.monotonic() + timeout_seconds
        while True:
            found = check()
            if found:
                return found
            if time.monotonic() >= deadline:
                raise LabError(f"not within {timeout_seconds:g} s: {why_not()}")
            time.sleep(POLL_SECONDS)

    # Processes.

    def start(self, *names: str, wait_seconds: float = START_SECONDS) -> dict[str, str]:
        """Start nodes (all, if none is named) that are down: {name: "ready" | "died" | "late"}.

        The faults that took them down have ended then. Late ones continue to start.
        """
        return self.processes.start(names, wait_seconds)

    def kill(self, name: str, *roles: str, story: str = "") -> Injected:
        """kill -9 a node, or only some of its roles; its supervisor restarts these at once."""
        return self.processes.kill(
            name, roles, story or f"kill -9 {' and '.join(f'{name}/{role}' for role in roles) or name}"
        )

    def terminate(self, name: str) -> Injected:
        """SIGTERM a node and wait until it is down."""
        return self.processes.terminate(name)

    def restart(self, name: str) -> None:
        """Stop a node in order and start it again. Raises processes.NotStarted."""
        self.processes.restart(name)

    def pause(self, name: str, *roles: str, story: str = "") -> Injected:
        """SIGSTOP a node, or only some of its roles."""
        return self.processes.pause(name, roles, story)

    def resume(self, name: str) -> None:
        """SIGCONT all processes of a node."""
        self.processes.resume(name)

    def kill_all(self) -> Injected:
        """kill -9 everything in the same instant."""
        return self.processes.kill_all()

    # Disks and clocks.

    def wipe(self, name: str, *roles: str) -> Injected:
        """kill -9 a node and remove all its data, or those of its broker or controller. Lossy."""
        return self.disks.wipe(name, roles)

    def lose_tail(self, *names: str) -> Injected:
        """kill -9 nodes and remove their unsynced data, as a power failure does. Lossy."""
        return self.disks.lose_tail(names)

    def flip_bits(self, name: str, what: str, count: int = 1, position: int | None = None) -> list[FlippedBit]:
        """Flip bits of a partition's segment ("orders-0") or the controller's journal ("journal"). Lossy."""
        return self.disks.flip_bits(name, what, count, position)

    def fill_disk(self, name: str) -> Injected:
        """Leave no room on a node's small disk."""
        return self.disks.fill(name)

    def read_only(self, name: str) -> Injected:
        """Make a node's small disk read-only."""
        return self.disks.read_only(name)

    def jump_clock(self, name: str, offset_ms: int) -> Injected:
        """Shift a node's wall clock from the true time, at once; its end corrects it."""
        clock = self.clocks[name]
        return self.register.begin(
            "clock_jump",
            [name],
            f"the clock of {name} is {offset_ms} ms {'ahead' if offset_ms >= 0 else 'behind'}",
            do=lambda: clock.set(offset_ms),
            undo=lambda: clock.set(0),
        )

    # Links.

    def fault(self, kind: str, a: str, b: str, *, one_way: bool = False, share: float = 1.0, **more: int) -> Injected:
        """Begin any fault of links (links.py has the table) between a and b, or (one way) from a to b.

        `share`: of connections (of packets: packet_loss). `more`: latency, jitter, rate, average_size, ...
        Raises ValueError, cuts.NotThisNetwork, ToxiproxyError, links.LinkFaultError.
        """
        return self._cuts().between(kind, a, b, one_way=one_way, share=share, attributes=more)

    def cut(self, a: str, b: str, kind: str | None = None) -> Injected:
        """Cut the links between a and b: bytes are lost; or `refuse`, or `freeze` (bytes arrive at the end)."""
        return self.fault(kind or self._cuts().cut_kind, a, b)

    def cut_one_way(self, a: str, b: str, kind: str | None = None) -> Injected:
        """Drop all that a sends to b; the other direction works."""
        return self.fault(kind or self._cuts().cut_kind, a, b, one_way=True)

    def isolate(self, name: str, kind: str | None = None, *, clients: bool = True) -> Injected:
        """Cut a node (or process, or group) off from all others; its own processes still reach each other."""
        return self._cuts().isolate(name, kind or self._cuts().cut_kind, clients=clients)

    def slow(self, a: str, b: str, latency_ms: int, jitter_ms: int = 0) -> Injected:
        """Delay everything between a and b by this time, in each direction."""
        return self.fault("latency", a, b, latency=latency_ms, jitter=jitter_ms)

    def lose_requests(self, a: str, b: str) -> Injected:
        """Lose requests from a to b."""
        return self.fault("lose_requests", a, b)

    def lose_responses(self, a: str, b: str) -> Injected:
        """Lose what b answers a: it is done, and a does not know."""
        return self.fault("lose_responses", a, b)

    def heal(self) -> None:
        """End every fault of links."""
        for fault in self.register.in_force(*LINK_KINDS):
            fault.end()

    def recover(self, timeout_seconds: float = HEALTHY_SECONDS) -> None:
        """End every fault, start every node, wait until all is well. Raises LabError, processes.NotStarted."""
        for fault in self.register.in_force():
            if fault.kind not in DOWN_KINDS:
                fault.end()
        self.processes.started(())
        self.wait_until_healthy(timeout_seconds)

    def _cuts(self) -> Cuts:
        if self.cuts is None:
            raise NotThisNetwork("this lab has no proxies, so links cannot have faults")
        return self.cuts
