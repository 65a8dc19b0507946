"""Executes a plan's faults on a simulated cluster, and writes each to the history with its story.

A fault without effect (its target is already down) is skipped. Targets that depend on the state (the
leader of a partition, the active controller) are resolved when the fault begins.
"""

import errno
from collections.abc import Callable
from typing import Final

from kvorum.chaos import history
from sim.cluster import CLUSTER_ID, SimCluster
from sim.crash_points import CrashPoints
from sim.directory_faults import DirectoryFaults
from sim.fault_targets import Targets
from sim.interrupted_starts import START_CUT, StartFaults, is_lossy
from sim.link_faults import LinkFaults, Story, Undo
from sim.log_dir_failures import BROKEN, LOST, RETURN
from sim.machine import BROKER, CONTROLLER, Machine, SimProcess, State
from sim.operator import Operator
from sim.plan import LOSSY_KINDS, Fault

UNDISTURBING: Final = frozenset({"reassign", "replication_rate", "throttled_replicas", "departure_rate", "duty"})
"""Operations that remove only replaced replicas from the ISR."""
FULL_SLACK_BYTES: Final = 2_000
"""Further capacity of a full disk."""


class Faults:
    """The schedule of one run."""

    def __init__(self, cluster: SimCluster) -> None:
        """Store the cluster; `schedule` starts the faults."""
        self._cluster = cluster
        self._targets = Targets(cluster)
        links = LinkFaults(cluster, self._targets)
        self._directories = directories = DirectoryFaults(cluster, self._targets)
        operator = Operator(cluster)
        self.crash_points = CrashPoints(cluster)
        self._count = 0
        self.counts: dict[str, int] = {}
        self._open: dict[int, tuple[Fault, list[str], Undo]] = {}
        self._kinds: dict[str, Callable[[Fault], Story | None]] = {
            "kill": self._kill,
            "terminate": self._terminate,
            "power": self._power,
            "pause": self._pause,
            "cut": links.cut,
            "isolate": links.isolate,
            "slow": links.slow,
            "freeze": links.freeze,
            "reset": links.reset,
            "resign": self._resign,
            "kill_all": self._kill_all,
            "power_all": self._power_all,
            "disk_error": self._disk_error,
            "disk_full": self._disk_full,
            "wipe": self._wipe,
            "clock": self._clock,
            START_CUT: StartFaults(cluster, self._targets).cut,
            LOST: directories.lose,
            BROKEN: directories.break_directory,
            RETURN: directories.return_directory,
            "moment": self.crash_points.wait_for,
            "min_isr": operator.min_isr,
            "unclean": operator.unclean,
            "retention": operator.topic_config,
            "segment": operator.topic_config,
            "delete_records": operator.delete_records,
            "grow": operator.grow,
            "elr": operator.elr,
            "feature": operator.feature,
            "quota": operator.quota,
            "unregister": operator.unregister,
            "reassign": operator.reassign,
            "duty": operator.duty,
            "replication_rate": operator.replication_rate,
            "throttled_replicas": operator.throttled_replicas,
            "departure_rate": operator.departure_rate,
            "move": operator.move,
            "move_rate": operator.move_rate,
        }

    def schedule(self) -> None:
        """Execute the plan's faults at their times, relative to now."""
        loop = self._cluster.loop
        self._cluster.invariants.peace_since = self._cluster.now()
        for fault in self._cluster.plan.faults:
            loop.call_at_host(None, loop.time() + fault.at, self._begin, fault)

    def _begin(self, fault: Fault) -> None:
        cluster = self._cluster
        if cluster.healing:
            return
        found = self._kinds[fault.kind](fault)
        if found is None:
            return
        story, targets, undo = found
        self._count += 1
        self.counts[fault.kind] = self.counts.get(fault.kind, 0) + 1
        self._write(fault, self._count, "begin", targets, story)
        if undo is not None:
            number = self._count
            self._open[number] = (fault, targets, undo)
            cluster.loop.call_at_host(None, cluster.loop.time() + fault.length, self._finish, number)
        self._restart_peace(fault)

    def _finish(self, number: int) -> None:
        fault, targets, undo = self._open.pop(number, (None, [], None))
        if fault is not None and undo is not None:
            partitions = undo()
            without = "" if not partitions else f": without {', '.join(partitions)}"
            self._write(
                fault, number, "end", targets, f"end of {fault.kind} of {', '.join(targets)}{without}", partitions
            )
            self._restart_peace(fault)

    def _restart_peace(self, fault: Fault) -> None:
        """Restart the quiet period once no fault is active."""
        if self._open or fault.kind not in UNDISTURBING:
            self._cluster.invariants.peace_since = None if self._open else self._cluster.now()

    def end_all(self) -> None:
        """End every fault that is in force."""
        for number in sorted(self._open):
            self._finish(number)

    def _write(
        self,
        fault: Fault,
        number: int,
        phase: str,
        targets: list[str],
        story: str,
        partitions: list[str] | None = None,
    ) -> None:
        self._cluster.history.write(
            history.Fault(
                t=self._cluster.now(),
                fault=fault.kind,
                id=number,
                phase=phase,
                targets=targets,
                lossy=fault.kind in LOSSY_KINDS or bool(partitions) or is_lossy(fault),
                partitions=partitions or [],
                story=story,
            )
        )

    # Processes.

    def _end_process(self, process: SimProcess) -> None:
        if process.role == BROKER:
            self._cluster.invariants.incarnations.record_kill(process.machine.node_id)
        process.kill()

    def _kill(self, fault: Fault) -> Story | None:
        processes = self._targets.processes(fault)
        if not processes:
            return None
        names = [process.name for process in processes]
        story = f"kill -9 of {', '.join(names)}{self._targets.leads(processes[0].machine)}"
        for process in processes:
            self._end_process(process)

        def undo() -> None:
            for process in processes:
                process.start()

        return story, names, undo

    def _kill_all(self, fault: Fault) -> Story | None:
        running = [process for process in self._cluster.processes if process.is_running]
        for process in running:
            self._end_process(process)

        def undo() -> None:
            for process in running:
                process.start()

        return "kill -9 of every process at once", [process.name for process in running], undo

    def _terminate(self, fault: Fault) -> Story | None:
        processes = [
            process
            for process in self._targets.processes(fault)
            if process.state is State.RUNNING
            and not process.host.paused
            and (process.role == CONTROLLER or (process.broker is not None and process.broker.not_ready() is None))
        ]
        if not processes:
            return None
        for process in processes:
            process.terminate()

        def undo() -> None:
            for process in processes:
                if process.state is State.STOPPING:
                    self._end_process(process)
                process.start()

        names = [process.name for process in processes]
        return f"SIGTERM to {', '.join(names)}{self._targets.leads(processes[0].machine)}", names, undo

    def _pause(self, fault: Fault) -> Story | None:
        processes = self._targets.processes(fault)
        if not processes:
            return None
        for process in processes:
            process.pause()

        def undo() -> None:
            for process in processes:
                process.resume()

        names = [process.name for process in processes]
        return f"SIGSTOP to {', '.join(names)}{self._targets.leads(processes[0].machine)}", names, undo

    def _power_off(self, machine: Machine, *, silent: bool) -> Undo:
        if BROKER in machine.processes:
            self._cluster.invariants.incarnations.record_power_loss(machine.node_id)
        machine.lose_power(silent=silent)

        def undo() -> None:
            machine.power_on()
            machine.start()

        return undo

    def _power(self, fault: Fault) -> Story | None:
        machine = self._targets.machine(fault.target)
        if machine is None or machine.dark:
            return None
        silent = fault.detail == "silent"
        story = f"node-{machine.node_id} loses power{' without a word' if silent else ''}{self._targets.leads(machine)}"
        return story, [f"node-{machine.node_id}"], self._power_off(machine, silent=silent)

    def _power_all(self, fault: Fault) -> Story | None:
        machines = [machine for machine in self._cluster.machines.values() if not machine.dark]
        undos = [self._power_off(machine, silent=True) for machine in machines]

        def undo() -> None:
            for each in undos:
                each()

        return "every machine loses power at once", [f"node-{machine.node_id}" for machine in machines], undo

    # The quorum, disks, clocks.

    def _resign(self, fault: Fault) -> Story | None:
        active = self._targets.active()
        if active is None or active.controller is None or active.host.paused:
            return None
        controller, loop = active.controller, self._cluster.loop
        loop.call_at_host(active.host, loop.time(), lambda: loop.create_task(controller.resign()))
        return f"{active.name} is requested to resign", [active.name], None

    def _disk_error(self, fault: Fault) -> Story | None:
        processes = self._targets.processes(fault)
        if not processes:
            return None
        process = processes[0]
        operation = "sync" if fault.detail == "sync" else "pwrite"
        process.disk_faulted, process.vouches = True, False
        self._cluster.disks_failed.add(process.machine.node_id)
        process.disk.fail(operation, errno.EIO)

        def undo() -> None:
            process.disk.repair()

        return f"the next {operation} of {process.name} fails", [process.name], undo

    def _disk_full(self, fault: Fault) -> Story | None:
        processes = self._targets.processes(fault)
        if not processes:
            return None
        process = processes[0]
        process.disk_faulted, process.vouches = True, False
        self._cluster.disks_failed.add(process.machine.node_id)
        process.disk.capacity = None
        process.disk.capacity = used(process) + FULL_SLACK_BYTES

        def undo() -> None:
            process.disk.capacity = None

        return f"the disk of {process.name} is full", [process.name], undo

    def _wipe(self, fault: Fault) -> Story | None:
        """Replace the disk of one process by an empty one; a controller's only when all know its last replacement."""
        machine = self._targets.machine(fault.target)
        if machine is None or machine.dark:
            return None
        role = fault.role if fault.role in machine.processes else next(iter(machine.processes))
        if role == CONTROLLER and not self._are_directories_counted(machine):
            return None
        process = machine.processes[role]
        if role == BROKER:
            self._cluster.invariants.incarnations.record_power_loss(machine.node_id)
        process.lose_power()
        if role == BROKER:
            for path in process.log_dirs:
                self._directories.note_loss(process, path)
            self._directories.use_all(process)
        process.disk.wipe()
        machine.format(role, CLUSTER_ID, None)
        process.vouches = False
        return (
            f"{process.name} restarts with an empty disk{self._targets.leads(machine)}",
            [process.name],
            process.start,
        )

    def _are_directories_counted(self, machine: Machine) -> bool:
        """Whether every other controller runs and counts every controller's present directory."""
        controllers = [process for process in self._cluster.processes if process.role == CONTROLLER]
        if len(controllers) == 1:
            return False
        present: dict[int, bytes] = {}
        for process in controllers:
            if process.controller is None or not process.is_running:
                return False
            state = process.controller.metadata_log.node.replica.voters.state
            present[process.machine.node_id] = state.directory_id
        return all(
            process.machine is machine
            or (
                process.controller is not None
                and process.controller.metadata_log.node.replica.voters.committed == present
            )
            for process in controllers
        )

    def _clock(self, fault: Fault) -> Story | None:
        machine = self._targets.machine(fault.target)
        if machine is None:
            return None
        jump_ms = int(fault.amount * 3_600_000) * (1 if fault.ways == "in" else -1)
        for process in machine.processes.values():
            process.clock.wall_offset_ms += jump_ms

        def undo() -> None:
            for process in machine.processes.values():
                process.clock.wall_offset_ms -= jump_ms

        return f"the wall clock of node-{machine.node_id} jumps by {jump_ms} ms", [f"node-{machine.node_id}"], undo


def used(process: SimProcess) -> int:
    """Return the bytes on a process's disk."""
    return (1 << 40) - process.disk.free_bytes("/")
