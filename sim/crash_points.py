"""Crash points: the next process that reaches a named failpoint is killed there.

They are production's failpoints (kvorum.runtime.failpoints): between a decision and its markers, between some
markers and the others. In a simulation all processes are one, so the failpoint determines the process that reached it.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from kvorum.runtime import failpoints
from sim.cluster import SimCluster
from sim.link_faults import Story
from sim.machine import BROKER, ProcessEnd, SimProcess
from sim.plan import Fault

NONE: Final = ""


class CrashPoints:
    """One per run; waits for at most one failpoint at a time."""

    def __init__(self, cluster: SimCluster) -> None:
        """Wait for none."""
        self._cluster = cluster
        self._waiting = NONE
        self._killed: list[SimProcess] = []

    @contextmanager
    def observe(self) -> Iterator[None]:
        """Observe every failpoint in this context."""
        before = failpoints.hit
        failpoints.hit = self.hit
        try:
            yield
        finally:
            failpoints.hit = before

    def wait_for(self, fault: Fault) -> Story | None:
        """Wait for a failpoint (`detail`); the killed process is started again when the fault ends."""
        if self._waiting:
            return None
        self._waiting = fault.detail
        killed = self._killed = []

        def undo() -> None:
            if self._killed is killed:
                self._waiting = NONE
            for process in killed:
                process.start()

        return f"the next process that reaches {fault.detail} is killed there", [], undo

    def hit(self, name: str) -> None:
        """A process has reached a failpoint. Raises ProcessEnd if it is the awaited one."""
        if name != self._waiting:
            return
        host = self._cluster.loop.host
        process = next((each for each in self._cluster.processes if each.host is host and each.is_running), None)
        if process is None:
            return
        self._waiting = NONE
        self._killed.append(process)
        self._cluster.note(f"{process.name} is killed at {name}")
        if process.role == BROKER:
            self._cluster.invariants.incarnations.record_kill(process.machine.node_id)
        process.kill()
        raise ProcessEnd
