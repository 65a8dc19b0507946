"""Counters updated with each event of a history: operations, gaps between acknowledgements, waiting times.

Two measures of unavailability, in seconds: the longest gap between two acknowledgements, and
the longest time in which a partition had a waiting send and acknowledged none (an idle producer does not count).
The time to a client's first acknowledgement in a partition without one counts in neither: it connects and
gets a producer id. For a client that never gets one, the whole time counts.
"""

from bisect import bisect_right
from collections import Counter
from typing import Final

from kvorum.chaos.checker.derive import Derivation, PendingInvocation
from kvorum.chaos.checker.pace import Kind, PaceCounter
from kvorum.chaos.checker.sends import OK
from kvorum.chaos.checker.spans import FaultSpan
from kvorum.chaos.checker.verdict import FaultFigures, PartitionFigures
from kvorum.chaos.history import Fail, Info, Invoke, Ok

GAP_MIN: Final = 0.05
"""Seconds: shorter waits do not count as unavailability and are not kept for the faults."""


class Wait:
    """A partition's acknowledgements as time goes by."""

    __slots__ = (
        "acked",
        "gap",
        "gap_at",
        "last_ack",
        "last_send",
        "pending",
        "sends",
        "unavailable",
        "waiter",
        "waiting",
    )

    def __init__(self) -> None:
        """Create it for a partition without sends."""
        self.sends = 0
        self.acked = 0
        self.pending = 0
        self.last_ack: float | None = None
        self.last_send = 0.0
        self.waiting: float | None = None
        self.waiter = -1
        """The process whose send began the wait."""
        self.gap = 0.0
        self.gap_at = 0.0
        self.unavailable = 0.0

    def see_gap(self, t: float) -> None:
        """Process the gap that ends now."""
        if self.last_ack is not None and t - self.last_ack > self.gap:
            self.gap, self.gap_at = t - self.last_ack, self.last_ack


class Meter:
    """Counters of a run; pass every operation in order."""

    def __init__(self, derivation: Derivation) -> None:
        """Create it with empty counters."""
        self._derivation = derivation
        self.operations: dict[str, Counter[str]] = {}
        self.clients: dict[str, Counter[str]] = {}
        self.errors: Counter[str] = Counter()
        self.pace = PaceCounter()
        self.whole = Wait()
        """All partitions as one."""
        self._waits: list[Wait] = []
        self._gaps: dict[int, list[tuple[float, float]]] = {}
        self._open: list[FaultFigures] = []
        self._started: set[int] = set()
        """The processes that have been acknowledged something."""
        self._client_of: dict[int, Counter[str]] = {}
        self._end = 0.0

    def begin(self, event: Invoke, rows: tuple[int, ...]) -> None:
        """Process an invocation with the rows of its sends."""
        for row in rows:
            wait = self._wait(self._derivation.sends.partition[row])
            wait.sends += 1
            wait.pending += 1
            wait.last_send = event.t
            self.whole.last_send = event.t
            if wait.waiting is None:
                wait.waiting, wait.waiter = event.t, event.process

    def end(self, event: Ok | Fail | Info, pending: PendingInvocation) -> None:
        """Process a completion with its invocation."""
        kind: Kind = "ok" if isinstance(event, Ok) else "fail" if isinstance(event, Fail) else "info"
        self.pace.take(event.t, kind)
        counts = self.operations.get(event.f)
        if counts is None:
            counts = self.operations[event.f] = Counter()
        counts[kind] += 1
        client = self._client_of.get(event.process)
        if client is None:
            name = self._derivation.promises(event.process).client or "unknown"
            client = self._client_of[event.process] = self.clients.setdefault(name, Counter())
        client[kind] += 1
        if event.error is not None:
            self.errors[event.error] += 1
        self._end = event.t
        sends = self._derivation.sends
        for row in pending.rows:
            wait = self._wait(sends.partition[row])
            wait.pending = max(0, wait.pending - (pending.sequence >= 0))
            if sends.kind[row] == OK:
                self._start(event.process, event.t, wait)
                self._acknowledge(wait, sends.partition[row], event.t)
        if self._open and kind == "ok" and pending.rows:
            self._first_ack(event.t, pending.t)

    def watch(self, fault: FaultFigures) -> None:
        """Wait for the first acknowledgement after a fault began."""
        self._open.append(fault)

    def finish(self) -> dict[str, PartitionFigures]:
        """Close open gaps and return the figures of each partition."""
        figures: dict[str, PartitionFigures] = {}
        for partition in self._derivation.partitions:
            wait = self._wait(partition.index)
            wait.see_gap(wait.last_send)
            if wait.waiting is not None:
                # The end of the history ends the wait only if a client was still trying.
                self._wait_ends(wait, partition.index, max(wait.last_send, self._end if wait.pending else 0.0))
            figures[partition.name] = PartitionFigures(
                sends=wait.sends,
                acked=wait.acked,
                read=partition.read_count,
                longest_gap=wait.gap,
                longest_gap_at=wait.gap_at,
                unavailable=wait.unavailable,
                lag_max=partition.lag_max,
            )
        self.whole.see_gap(self.whole.last_send)
        return figures

    def settle(self, figures: FaultFigures, span: FaultSpan, names: list[str]) -> None:
        """Store the longest waiting time that overlaps a fault."""
        for index, gaps in self._gaps.items():
            for at in range(bisect_right(gaps, span.begin, key=lambda gap: gap[1]), len(gaps)):
                begin, end = gaps[at]
                if begin >= span.end:
                    break
                began = max(begin, span.begin)
                if end - began > figures.unavailable:
                    figures.unavailable, figures.unavailable_at = end - began, began
                    figures.unavailable_partition = names[index]

    def _wait(self, index: int) -> Wait:
        while index >= len(self._waits):
            self._waits.append(Wait())
        return self._waits[index]

    def _start(self, process: int, t: float, here: Wait) -> None:
        """Discard a process's waiting time at its first acknowledgement; `here`: also others' in the partition."""
        if process not in self._started:
            self._started.add(process)
            for wait in self._waits:
                if wait.waiting is not None and not wait.acked and (wait is here or wait.waiter == process):
                    wait.waiting = t

    def _acknowledge(self, wait: Wait, index: int, t: float) -> None:
        wait.acked += 1
        wait.see_gap(t)
        wait.last_ack = t
        self.whole.acked += 1
        self.whole.see_gap(t)
        self.whole.last_ack = t
        self._wait_ends(wait, index, t)
        wait.waiting = t if wait.pending else None

    def _wait_ends(self, wait: Wait, index: int, t: float) -> None:
        if wait.waiting is None:
            return
        waited = t - wait.waiting
        if waited > wait.unavailable:
            wait.unavailable = waited
        if waited >= GAP_MIN:
            self._gaps.setdefault(index, []).append((wait.waiting, t))

    def _first_ack(self, t: float, invoked: float) -> None:
        sent_after = [fault for fault in self._open if fault.begin <= invoked]
        for fault in sent_after:
            fault.first_ack = t - fault.begin
        if sent_after:
            self._open = [fault for fault in self._open if fault.first_ack is None]
