"""Faults on the wall clocks of nodes, also of running ones (kvorum.runtime.clock.TEST_CLOCK)."""

import os
from collections.abc import Mapping
from dataclasses import dataclass

from kvorum.chaos.faults.events import ActiveFault, FaultRegister
from kvorum.runtime.clock import OFFSET_BYTES, TEST_CLOCK


@dataclass(frozen=True, slots=True)
class NodeClock:
    """The file from which all processes of a node read the offset of their clock."""

    path: str

    def create(self) -> None:
        """Create the file, with a correct clock; an existing one is kept."""
        if not os.path.exists(self.path):
            with open(self.path, "wb") as file:
                file.write(bytes(OFFSET_BYTES))

    def set(self, offset_ms: int) -> None:
        """Shift the clock ahead of (or behind) the true time."""
        with open(self.path, "r+b", buffering=0) as file:
            written = file.write(offset_ms.to_bytes(OFFSET_BYTES, "little", signed=True))
        assert written == OFFSET_BYTES, "one write of eight bytes: a reader sees the old offset or the new one"

    def get(self) -> int:
        """Return the clock's offset (ms)."""
        with open(self.path, "rb") as file:
            return int.from_bytes(file.read(OFFSET_BYTES), "little", signed=True)

    def environment(self) -> dict[str, str]:
        """Return the environment variable with which a process reads it."""
        return {TEST_CLOCK: self.path}


@dataclass(frozen=True, slots=True)
class ClockFaults:
    """The faults on clocks. `nodes`: {node: its clock}; empty for a cluster whose nodes have no separate clocks."""

    register: FaultRegister
    nodes: Mapping[str, NodeClock]

    def jump(self, *names: str, offset_ms: int) -> ActiveFault:
        """Shift the wall clocks of nodes from the true time, at once; the end corrects them."""
        clocks = [self.nodes[name] for name in names]
        story = f"the clock of {', '.join(names)} is {abs(offset_ms)} ms {'ahead' if offset_ms >= 0 else 'behind'}"

        def put(value: int) -> None:
            for clock in clocks:
                clock.set(value)

        return self.register.begin("clock_jump", names, story, do=lambda: put(offset_ms), undo=lambda: put(0))
