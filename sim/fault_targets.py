"""Resolution of planned faults' targets at their time, because leaders and active controllers change."""

from sim.cluster import TOPIC, SimCluster
from sim.coordination import OFFSETS, TRANSACTIONS
from sim.machine import BROKER, CONTROLLER, Machine, SimProcess
from sim.plan import ACTIVE_CONTROLLER, FOLLOWER, LEADER, Fault


class Targets:
    """Finds targets in the present state of a cluster."""

    def __init__(self, cluster: SimCluster) -> None:
        """Look at this cluster."""
        self._cluster = cluster

    def machine(self, target: str) -> Machine | None:
        """Return the machine that a target selects now, None without one."""
        cluster = self._cluster
        if target == ACTIVE_CONTROLLER:
            active = self.active()
            return active.machine if active is not None else None
        if target.startswith((LEADER, FOLLOWER)):
            who, _, name = target.partition(":")
            name, _, number = name.rpartition("-")
            topic = cluster.metadata.newest.topics.topic(name)
            partition = topic.partition(int(number)) if topic is not None else None
            if partition is None:
                return None
            if who == LEADER:
                return cluster.machines.get(partition.leader)
            followers = [each for each in sorted(partition.replicas) if each != partition.leader]
            place = int(who.removeprefix(FOLLOWER) or 1) - 1
            return cluster.machines.get(followers[place]) if place < len(followers) else None
        return cluster.machines.get(int(target)) if target.isdecimal() else None

    def active(self) -> SimProcess | None:
        """Return the active controller, of two the one of the later epoch."""
        active = [
            process
            for process in self._cluster.processes
            if process.is_running and process.controller is not None and process.controller.metadata_log.is_active()
        ]
        return max(active, key=epoch_of, default=None)

    def processes(self, fault: Fault) -> list[SimProcess]:
        """Return the running processes that a fault is for."""
        machine = self.machine(fault.target)
        if machine is None or machine.dark:
            return []
        if fault.target == ACTIVE_CONTROLLER and fault.role != "both":
            wanted = [CONTROLLER]
        elif fault.target.startswith((LEADER, FOLLOWER)) and fault.role != "both":
            wanted = [BROKER]
        else:
            wanted = [fault.role] if fault.role in machine.processes else list(machine.processes)
        return [machine.processes[role] for role in wanted if machine.processes[role].is_running]

    def leads(self, machine: Machine) -> str:
        """Describe the leaderships of a machine when it was hit."""
        led: list[str] = []
        for name in (TOPIC, OFFSETS, TRANSACTIONS):
            topic = self._cluster.metadata.newest.topics.topic(name)
            if topic is not None:
                rows = topic.sorted_partitions()
                led += [f"{name}-{number}" for number, each in rows if each.leader == machine.node_id]
        active = self.active()
        if active is not None and active.machine is machine:
            led.append("the quorum")
        return f", which led {', '.join(led)}" if led else ""


def epoch_of(process: SimProcess) -> int:
    """Return the epoch of a controller's metadata log."""
    return process.controller.metadata_log.epoch if process.controller is not None else -1
