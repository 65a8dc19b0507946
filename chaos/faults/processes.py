"""Faults on the processes of a cluster's nodes: killed, terminated, stopped in time, restarted.

Names are nodes ("node-1") or processes ("node-1/broker"). A node that is down has one fault in force or several (kill,
wipe); starting it ends them all. One thread that lives as long as the lab starts all processes: the kernel kills them
with the thread that started them.
"""

import signal
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Final

from kvorum.chaos.faults.events import ActiveFault, FaultRegister, nothing
from kvorum.cluster.local.local import LocalCluster
from kvorum.runtime.process import send

START_SECONDS: Final = 60.0
READY: Final = "ready"


class StartError(Exception):
    """Nodes that did not start, with their outcomes."""


@dataclass(slots=True)
class ProcessFaults:
    """The faults on processes. Thread safe for different nodes."""

    cluster: LocalCluster
    register: FaultRegister
    spawner: ThreadPoolExecutor
    """For one thread."""

    @property
    def names(self) -> list[str]:
        """All nodes."""
        return [node.name for node in self.cluster.plan.nodes]

    def running_nodes(self) -> list[str]:
        """Return the nodes whose supervisor lives."""
        return [name for name in self.names if "node" in self.cluster.processes(name)]

    def start(self, *names: str, wait_seconds: float = START_SECONDS) -> dict[str, str]:
        """Start nodes (all, if none is named) that are down: {name: "ready" | "died" | "late"}.

        Ends the faults that stopped them. Late ones (no majority of controllers yet) continue to start.
        """
        wanted = list(names) or self.names
        pipes = self.spawner.submit(self.cluster.start_without_waiting, *wanted).result()
        outcome = self.cluster.wait(pipes, wait_seconds)
        running = set(self.running_nodes())
        for fault in self.register.in_force():
            if fault.stops_nodes and set(wanted) & set(fault.targets) and set(fault.targets) <= running:
                self.register.dismiss(fault)
        return outcome

    def ensure_running(self, *names: str) -> None:
        """Start nodes (all, if none is named) that are down. Raises StartError where one does not become ready."""
        failed = {name: what for name, what in self.start(*names).items() if what != READY}
        if failed:
            raise StartError(", ".join(f"{name} {what}" for name, what in failed.items()))

    def kill(self, *names: str, story: str = "") -> ActiveFault:
        """kill -9 nodes in the same instant, until they are started; or processes, which their supervisors restart."""
        story = story or f"kill -9 {', '.join(names)}"
        if not any("/" in name for name in names):
            return self.stop_nodes("kill", names, story, lambda: self.kill_now(names))
        processes = [(node, role) for node, _, role in (name.partition("/") for name in names)]
        assert all(role for _, role in processes), names

        def do() -> None:
            for node, role in processes:
                self.cluster.kill(node, role)

        fault = self.register.begin("kill", names, story, do=do, undo=nothing)
        fault.end()
        return fault

    def kill_all(self) -> ActiveFault:
        """kill -9 everything, all in the same instant; ends when all are started."""
        story = "kill -9 of all nodes at once"
        return self.stop_nodes("kill_all", self.names, story, lambda: self.kill_now(self.names))

    def terminate(self, *names: str) -> ActiveFault:
        """SIGTERM nodes and wait until they have shut down in order; they stay down until they are started."""
        story = f"SIGTERM to {', '.join(names)}"
        return self.stop_nodes("terminate", names, story, lambda: _late(self.cluster.stop(*names)))

    def restart(self, *names: str) -> None:
        """Stop nodes in order and start them again. Raises StartError."""

        def do() -> None:
            self.cluster.stop(*names)
            self.ensure_running(*names)

        self.register.at_once("restart", names, f"{', '.join(names)} restarted", do)

    def stop_nodes(
        self,
        kind: str,
        names: Sequence[str],
        story: str,
        do: Callable[[], str | None],
        *,
        lossy: bool = False,
        partitions: Sequence[str] = (),
    ) -> ActiveFault:
        """Start a fault that stops nodes; its end starts them. For `partitions` see history.Fault."""

        def undo() -> None:
            self.start(*names)

        fault = self.register.begin(
            kind, names, story, do=do, undo=undo, lossy=lossy, partitions=partitions, stops_nodes=True
        )
        self._end_pauses(names)
        return fault

    def kill_now(self, names: Sequence[str]) -> None:
        """Send SIGKILL to every process of the nodes, and only then wait for any to end."""
        found = [pid for name in names for pid in self.cluster.processes(name).values()]
        for pid in found:
            send(pid, signal.SIGKILL)
        for name in names:
            self.cluster.kill(name)

    def pause(self, *names: str, story: str = "") -> ActiveFault:
        """SIGSTOP nodes, or processes; ends when all are resumed."""
        processes = [(node, (role,) if role else ()) for node, _, role in (name.partition("/") for name in names)]

        def do() -> None:
            try:
                for node, roles in processes:
                    self.cluster.pause(node, *roles)
            except BaseException:
                undo()
                raise

        def undo() -> None:
            for node, roles in processes:
                self.cluster.resume(node, *roles)

        return self.register.begin("pause", names, story or f"SIGSTOP to {', '.join(names)}", do=do, undo=undo)

    def resume(self, name: str) -> None:
        """Resume all processes of a node."""
        self._end_pauses([name])
        self.cluster.resume(name)

    def _end_pauses(self, names: Sequence[str]) -> None:
        """End the pauses of only these; others still have paused processes."""
        for fault in self.register.in_force("pause"):
            if {target.partition("/")[0] for target in fault.targets} <= set(names):
                fault.end()


def _late(names: Sequence[str]) -> str | None:
    """Return the story of nodes that had to be killed."""
    return f"{', '.join(names)} did not stop in time and was killed" if names else None
