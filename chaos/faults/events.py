"""Faults with a begin and an end, and their events.

    fault = register.begin("black_hole", ["node-1", "clients"], "clients cut from node-1", undo=heal_links)
    fault.end()                                     # undoes and reports it; a second call does nothing

An event is the history's (kvorum.chaos.history.Fault).
"""

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from types import TracebackType
from typing import Literal, TypeAlias

from kvorum.chaos import history

OnFault: TypeAlias = Callable[[history.Fault], None]


class FaultError(Exception):
    """A fault that cannot be injected as requested, or cannot be ended."""


class Unsupported(FaultError):
    """A fault that the cluster does not support because of its creation options."""


def ignore_event(event: history.Fault) -> None:
    """Discard the event."""


def nothing() -> None:
    """Undo what needs no undoing."""


@dataclass(slots=True, eq=False)
class ActiveFault:
    """A fault in force. As a context manager it ends with the block."""

    id: int
    kind: str
    targets: tuple[str, ...]
    story: str
    lossy: bool
    partitions: tuple[str, ...]
    """Partitions that lose data; empty: all."""
    stops_nodes: bool
    """Nodes are down until they are started, which ends the fault."""
    _undo: Callable[[], None]
    _register: "FaultRegister"

    def end(self) -> None:
        """Undo the fault and report it.

        Idempotent. Raises the exceptions of the undo; the fault then stays in force.
        """
        self._register.end(self)

    def __enter__(self) -> "ActiveFault":
        """Return the fault, which is in force already."""
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        """End it."""
        self.end()


@dataclass(slots=True)
class FaultRegister:
    """Numbers faults, knows those in force, and notifies the listener. Thread safe."""

    on_fault: OnFault = ignore_event
    seconds: Callable[[], float] = time.monotonic
    """Since the run began."""
    _lock: threading.RLock = field(default_factory=threading.RLock)
    _next_id: int = 1
    _in_force: dict[int, ActiveFault] = field(default_factory=dict)

    def take_id(self) -> int:
        """Return a number that no other fault has."""
        with self._lock:
            self._next_id += 1
            return self._next_id - 1

    def begin(
        self,
        kind: str,
        targets: Sequence[str],
        story: str,
        *,
        undo: Callable[[], None],
        do: Callable[[], str | None] = lambda: None,
        lossy: bool = False,
        partitions: Sequence[str] = (),
        stops_nodes: bool = False,
        fault_id: int | None = None,
    ) -> ActiveFault:
        """Report that a fault begins, start it, and register it as in force.

        Raises the exceptions of `do`, reported as an end.

        The result of `do` is added to the story of its end.
        """
        chosen = self.take_id() if fault_id is None else fault_id
        fault = ActiveFault(chosen, kind, tuple(targets), story, lossy, tuple(partitions), stops_nodes, undo, self)
        # Reported before it is started: consequences of a fault must never be before it in the history.
        self._tell(fault, "begin")
        try:
            outcome = do()
        except BaseException:
            self._tell(fault, "end")
            raise
        if outcome:
            fault.story += f": {outcome}"
        with self._lock:
            self._in_force[fault.id] = fault
        return fault

    def at_once(
        self, kind: str, targets: Sequence[str], story: str, do: Callable[[], str | None], *, lossy: bool = False
    ) -> None:
        """Report a fault that is over when it is done."""
        self.begin(kind, targets, story, do=do, undo=nothing, lossy=lossy).end()

    def end(self, fault: ActiveFault) -> None:
        """See ActiveFault.end."""
        with self._lock:
            if self._in_force.get(fault.id) is not fault:
                return
        fault._undo()
        self.dismiss(fault)

    def dismiss(self, fault: ActiveFault) -> None:
        """Report the end of a fault that something else undid. Idempotent."""
        with self._lock:
            ended = self._in_force.pop(fault.id, None) is not None
        if ended:
            self._tell(fault, "end")

    def in_force(self, *kinds: str, target: str | None = None) -> list[ActiveFault]:
        """Return the faults in force, oldest first: those of the kinds named (all, when none is), on a target."""
        with self._lock:
            found = list(self._in_force.values())
        return [
            each for each in found if (not kinds or each.kind in kinds) and (target is None or target in each.targets)
        ]

    def _tell(self, fault: ActiveFault, phase: Literal["begin", "end"]) -> None:
        event = history.Fault(
            t=round(self.seconds(), 6),
            fault=fault.kind,
            id=fault.id,
            phase=phase,
            targets=list(fault.targets),
            lossy=fault.lossy,
            story=fault.story,
            partitions=list(fault.partitions),
        )
        with self._lock:
            self.on_fault(event)
