"""Carries out the faults of a simulated cluster's links: cut, isolated, slow, frozen, reset."""

from collections.abc import Callable

from sim.cluster import SimCluster
from sim.fault_targets import Targets
from sim.machine import BROKER, Machine
from sim.plan import BROKERS, CLIENTS, Fault

Undo = Callable[[], list[str] | None]
"""Ends a fault; returns the partitions of whose logs it took something, if those only."""
Story = tuple[str, list[str], Undo | None]
"""Description of the event, its targets, and the function that ends it."""
WAY_TEXTS = {"in": " (incoming)", "out": " (outgoing)", "both": ""}


class LinkFaults:
    """Link faults of one run. Each method returns None if it has no effect."""

    def __init__(self, cluster: SimCluster, targets: Targets) -> None:
        """Store the cluster and the finder of targets."""
        self._cluster = cluster
        self._targets = targets

    def cut(self, fault: Fault) -> Story | None:
        """Hold back everything between the target and the others."""
        machine = self._targets.machine(fault.target)
        others = self._others(fault, machine) if machine is not None else []
        if machine is None or not others:
            return None
        return self._cut_ways(fault, machine, others, f"{self._peers(fault)} and node-{machine.node_id} are cut off")

    def isolate(self, fault: Fault) -> Story | None:
        """Hold back everything between the target and all other nodes, and clients if the other end is set so."""
        machine = self._targets.machine(fault.target)
        if machine is None:
            return None
        others = [each.address for each in self._cluster.machines.values() if each is not machine]
        if fault.other == CLIENTS:
            others += self._clients()
        story = f"node-{machine.node_id} is isolated{self._targets.leads(machine)}"
        return self._cut_ways(fault, machine, others, story)

    def slow(self, fault: Fault) -> Story | None:
        """Delay all traffic between the target and the others by the fault's amount."""
        machine = self._targets.machine(fault.target)
        others = self._others(fault, machine) if machine is not None else []
        if machine is None or not others:
            return None
        network = self._cluster.network
        ways = self._ways(machine.address, others, fault.ways)
        for way in ways:
            network.slow(*way, fault.amount)

        def undo() -> None:
            for way in ways:
                network.slow(*way, 0.0)

        story = f"the link of {self._peers(fault)} and node-{machine.node_id} is {fault.amount:g} s slower"
        return f"{story} ({fault.ways})", [f"node-{machine.node_id}"], undo

    def freeze(self, fault: Fault) -> Story | None:
        """Hold back the data of the present connections; after the fault's amount their senders see them broken.

        Data sent until then arrive in the end, when there may be newer connections, or a newer process.
        """
        machine = self._targets.machine(fault.target)
        others = self._others(fault, machine) if machine is not None else []
        if machine is None or not others:
            return None
        network, loop = self._cluster.network, self._cluster.loop
        frozen = [end for way in self._ways(machine.address, others, fault.ways) for end in network.freeze(*way)]
        if not frozen:
            return None
        if fault.amount:
            loop.call_at_host(None, loop.time() + fault.amount, lambda: network.abandon(frozen))
        story = f"the connections of node-{machine.node_id} and {self._peers(fault)} are frozen ({fault.ways})"
        whole = f"{story}, broken after {fault.amount:g} s" if fault.amount else story
        return whole, [f"node-{machine.node_id}"], lambda: network.thaw(frozen)

    def reset(self, fault: Fault) -> Story | None:
        """Break every connection between the target and the others."""
        machine = self._targets.machine(fault.target)
        others = self._others(fault, machine) if machine is not None else []
        if machine is None or not others:
            return None
        for other in others:
            self._cluster.network.reset(machine.address, other)
        story = f"connections of {self._peers(fault)} and node-{machine.node_id} are reset"
        return story, [f"node-{machine.node_id}"], None

    def _cut_ways(self, fault: Fault, machine: Machine, others: list[str], story: str) -> Story:
        network = self._cluster.network
        ways = self._ways(machine.address, others, fault.ways)
        for way in ways:
            network.cut(*way)

        def undo() -> None:
            for way in ways:
                network.heal(*way)

        return story + WAY_TEXTS[fault.ways], [f"node-{machine.node_id}"], undo

    def _ways(self, one: str, others: list[str], ways: str) -> list[tuple[str, str]]:
        return [
            way
            for other in others
            for way in {"in": [(other, one)], "out": [(one, other)], "both": [(one, other), (other, one)]}[ways]
        ]

    def _clients(self) -> list[str]:
        return [host.name.partition("/")[0] for host in self._cluster.clients.values()]

    def _others(self, fault: Fault, machine: Machine) -> list[str]:
        """Return the addresses at the other end."""
        if fault.other == CLIENTS:
            return self._clients()
        if fault.other == BROKERS:
            found = [each for each in self._cluster.machines.values() if BROKER in each.processes]
        else:
            other = self._targets.machine(fault.other)
            found = [] if other is None else [other]
        return [each.address for each in found if each is not machine]

    def _peers(self, fault: Fault) -> str:
        """Describe the other end."""
        if fault.other in (CLIENTS, BROKERS):
            return fault.other
        other = self._targets.machine(fault.other)
        assert other is not None, "there are addresses at the other end"
        return f"node-{other.node_id}"
