"""Faults on the processes of a lab's nodes: killed, terminated, stopped in time, restarted.

A node that is down has one fault in force or several (killed, wiped); starting it ends them all. Processes are started
by one thread that lives as long as the lab: the kernel kills them with the thread that started them.
"""

import signal
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Final

from kvorum.chaos.faults.events import FaultRegister, Injected, nothing
from kvorum.cluster.local.local import LocalCluster
from kvorum.runtime.process import send

START_SECONDS: Final = 60.0
DOWN_KINDS: Final = ("kill", "terminate", "kill_all", "wipe", "lose_tail", "replace_directory", "drop_directory")
"""Faults that leave nodes down until they are started."""
READY: Final = "ready"


class NotStarted(Exception):
    """Nodes that did not start, with their outcomes."""


@dataclass(slots=True)
class ProcessFaults:
    """The verbs on processes. Thread safe for different nodes."""

    cluster: LocalCluster
    register: FaultRegister
    spawner: ThreadPoolExecutor
    """For one thread."""

    @property
    def names(self) -> list[str]:
        """All nodes."""
        return [node.name for node in self.cluster.plan.nodes]

    def running(self) -> list[str]:
        """Return the nodes whose supervisor lives."""
        return [name for name in self.names if "node" in self.cluster.processes(name)]

    def start(self, names: Sequence[str] = (), wait_seconds: float = START_SECONDS) -> dict[str, str]:
        """Start nodes (all, if none is named) that are down: {name: "ready" | "died" | "late"}.

        Ends their faults.

        Late ones (no majority of controllers yet) continue to start.
        """
        wanted = list(names) or self.names
        pipes = self.spawner.submit(self.cluster.start_without_waiting, *wanted).result()
        outcome = self.cluster.wait(pipes, wait_seconds)
        running = set(self.running())
        for fault in self.register.in_force(*DOWN_KINDS):
            if set(wanted) & set(fault.targets) and set(fault.targets) <= running:
                self.register.dismiss(fault)
        return outcome

    def started(self, names: Sequence[str]) -> None:
        """Start nodes. Raises NotStarted where one does not become ready."""
        outcome = self.start(names)
        failed = {name: what for name, what in outcome.items() if what != READY}
        if failed:
            raise NotStarted(", ".join(f"{name} {what}" for name, what in failed.items()))

    def kill_several(self, names: Sequence[str], story: str) -> Injected:
        """kill -9 nodes in the same instant, until they are started again; or processes, all of them "NODE/ROLE"."""
        if any("/" in name for name in names):
            parts = [name.partition("/") for name in names]
            assert all(role for _, _, role in parts), names

            def do() -> None:
                for name, _, role in parts:
                    self.cluster.kill(name, role)

            fault = self.register.begin("kill", names, story, do=do, undo=nothing)
            fault.end()
            return fault
        return self.down("kill", names, story, lambda: self.kill_now(names))

    def kill(self, name: str, roles: Sequence[str], story: str) -> Injected:
        """kill -9 a node until it is started again, or some of its processes, which its supervisor restarts at once."""
        if roles:
            targets = [f"{name}/{role}" for role in roles]
            fault = self.register.begin(
                "kill", targets, story, do=lambda: _none(self.cluster.kill(name, *roles)), undo=nothing
            )
            fault.end()
            return fault
        return self.down("kill", [name], story, lambda: _none(self.cluster.kill(name)))

    def down(
        self,
        kind: str,
        names: Sequence[str],
        story: str,
        do: Callable[[], str | None],
        *,
        lossy: bool = False,
        partitions: Sequence[str] = (),
    ) -> Injected:
        """Start a fault that stops nodes; its end starts them. For `partitions` see history.Fault."""
        fault = self.register.begin(
            kind, names, story, do=do, undo=lambda: _none(self.start(names)), lossy=lossy, partitions=partitions
        )
        self._forget_pauses(names)
        return fault

    def terminate(self, *names: str) -> Injected:
        """SIGTERM nodes and wait until they have shut down in order; they stay down until they are started."""
        return self.down("terminate", names, f"SIGTERM to {', '.join(names)}", lambda: _late(self.cluster.stop(*names)))

    def restart(self, *names: str) -> None:
        """Stop nodes in order and start them again. Raises NotStarted."""

        def restarted() -> None:
            self.cluster.stop(*names)
            self.started(names)

        self.register.at_once("restart", names, f"{', '.join(names)} restarted", restarted)

    def kill_all(self) -> Injected:
        """kill -9 everything, all in the same instant; ends when all are started."""
        return self.down("kill_all", self.names, "kill -9 of all nodes at once", lambda: self.kill_now(self.names))

    def kill_now(self, names: Sequence[str]) -> None:
        """Send SIGKILL to every process of the nodes, and only then wait for any to end."""
        found = [pid for name in names for pid in self.cluster.processes(name).values()]
        for pid in found:
            send(pid, signal.SIGKILL)
        for name in names:
            self.cluster.kill(name)

    def pause(self, name: str, roles: Sequence[str], story: str = "") -> Injected:
        """SIGSTOP a node's processes, or only those of the roles; ends when they are resumed."""
        return self.pause_several([f"{name}/{role}" for role in roles] or [name], story)

    def pause_several(self, names: Sequence[str], story: str = "") -> Injected:
        """SIGSTOP nodes, and processes ("NODE/ROLE"); ends when all are resumed."""
        parts = [(name, (role,) if role else ()) for name, _, role in (each.partition("/") for each in names)]

        def do() -> None:
            try:
                for name, roles in parts:
                    self.cluster.pause(name, *roles)
            except BaseException:
                undo()
                raise

        def undo() -> None:
            for name, roles in parts:
                self.cluster.resume(name, *roles)

        return self.register.begin("pause", names, story or f"SIGSTOP to {', '.join(names)}", do=do, undo=undo)

    def resume(self, name: str) -> None:
        """Resume all processes of a node."""
        self._forget_pauses([name])
        self.cluster.resume(name)

    def _forget_pauses(self, names: Sequence[str]) -> None:
        """End the pauses of only these; others still have paused processes."""
        for fault in self.register.in_force("pause"):
            if {target.partition("/")[0] for target in fault.targets} <= set(names):
                fault.end()

    def end_all(self) -> None:
        """Kill all that is left, stopped or not, without events."""
        self.kill_now(self.names)


def _none(result: object) -> None:
    """Drop a result that is no story."""


def _late(names: Sequence[str]) -> str | None:
    """Return the story of nodes that had to be killed."""
    return f"{', '.join(names)} did not stop in time and was killed" if names else None
