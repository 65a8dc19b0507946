"""Committed offsets: each partition of a group is a register that commits write and fetches (require-stable) read.

offset-lost: a fetch returned an offset older than one whose commit had been acknowledged before the fetch began.
aborted-offset: it returned an offset that only an aborted transaction, or a commit that certainly failed, had
committed. open-offset: it returned an offset of a transaction whose end had not been requested yet. unknown-offset: it
returned an offset that was never committed. offset-regression: a commit was accepted that is before one acknowledged
before it began, and was no reset.
"""

from bisect import bisect_left
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from kvorum.chaos.checker.facts import Fact
from kvorum.chaos.checker.ownership import OFFSETS_TOPIC
from kvorum.chaos.checker.sends import FAIL, INFO, NEVER, OK
from kvorum.chaos.history import Fail, Info, Invoke, Ok

NONE: Final = -1
"""Result of a fetch without any commit."""
TRANSACTIONS_TOPIC: Final = "__transaction_state"
TOPICS: Final = (OFFSETS_TOPIC, TRANSACTIONS_TOPIC)


class Write(NamedTuple):
    """A commit of one partition's offset. An unknown outcome may come at any time: `completed` is NEVER then."""

    offset: int
    op: int
    invoked: float
    completed: float
    outcome: int
    ended: float
    """When its transaction's end was first requested; the commit's begin without a transaction."""


class Fetch(NamedTuple):
    """Result of an offset fetch, and the latest begin of a commit that was acknowledged before it began."""

    offset: int
    op: int
    process: int
    completed: float
    newest: Write | None
    final: bool


class RegisterValue(NamedTuple):
    """Value of a register after a line of the history."""

    line: int
    newest: Write | None
    """The acknowledged write that began last."""
    highest: Write | None
    """The highest acknowledged write since the last reset."""
    resets: int


NOTHING: Final = RegisterValue(-1, None, None, 0)


@dataclass(slots=True)
class Register:
    """One partition of a group."""

    writes: list[Write] = field(default_factory=list)
    fetches: list[Fetch] = field(default_factory=list)
    marks: list[RegisterValue] = field(default_factory=list)

    @property
    def now(self) -> RegisterValue:
        """The present value."""
        return self.marks[-1] if self.marks else NOTHING

    def before(self, line: int) -> RegisterValue:
        """Return what stood when a line was written."""
        at = bisect_left(self.marks, line, key=lambda mark: mark.line)
        return self.marks[at - 1] if at else NOTHING


class PendingOperation(NamedTuple):
    """An operation that has begun, and at which line."""

    event: Invoke
    line: int


class Commits:
    """Process operations in order with its methods; call `judge` at the end."""

    def __init__(self) -> None:
        """Create an empty object without groups."""
        self.facts: list[Fact] = []
        self.registers: dict[tuple[str, str], Register] = {}
        self._pending: dict[int, PendingOperation] = {}
        self._line = 0

    def invoke(self, event: Invoke) -> None:
        """Process the begin of a commit, a txn or a fetch. The partitions of a fetch or a txn are known only later."""
        self._line += 1
        self._pending[event.op] = PendingOperation(event, self._line)
        if event.reset:
            for key, _ in offsets_in(event):
                register = self.registers.setdefault(key, Register())
                register.marks.append(RegisterValue(self._line, register.now.newest, None, register.now.resets + 1))

    def complete(self, event: Ok | Fail | Info) -> Invoke | None:
        """Process a completion; return its invocation, None without one."""
        self._line += 1
        begun = self._pending.pop(event.op, None)
        if begun is None:
            return None
        # A completion without an outcome refers to all requested operations.
        offsets = list(offsets_in(event)) or list(offsets_in(begun.event))
        for key, offset in offsets:
            register = self.registers.setdefault(key, Register())
            mark = register.before(begun.line)
            if event.f == "offsets":
                if isinstance(event, Ok):
                    fetch = Fetch(offset, event.op, event.process, event.t, mark.newest, event.final)
                    register.fetches.append(fetch)
                continue
            highest = mark.highest if mark.resets == register.now.resets else None
            self._write(event, begun.event, key, offset, highest)
        return begun.event

    def _write(
        self, event: Ok | Fail | Info, begun: Invoke, key: tuple[str, str], offset: int, highest: Write | None
    ) -> None:
        register = self.registers[key]
        aborted = event.f == "txn" and event.committed is False and not isinstance(event, Info)
        outcome = FAIL if isinstance(event, Fail) or aborted else OK if isinstance(event, Ok) else INFO
        ended = begun.t if event.ended is None else event.ended
        write = Write(offset, event.op, begun.t, NEVER if outcome == INFO else event.t, outcome, ended)
        register.writes.append(write)
        if outcome != OK:
            return
        newest, most, resets = register.now[1:]
        if newest is None or write.invoked > newest.invoked:
            newest = write
        if most is None or offset > most.offset:
            most = write
        register.marks.append(RegisterValue(self._line, newest, most, resets))
        if highest is not None and offset < highest.offset and not begun.reset:
            group, name = key
            reason = (
                f"group {group} accepted offset {offset} for {name} (op {event.op} of process {event.process}, started "
                f"at {begun.t:.3f} s), though op {highest.op} had committed {highest.offset} by "
                f"{highest.completed:.3f} s without a reset"
            )
            self.facts.append(self._fact("offset-regression", name, offset, event.t, reason, highest))

    def judge(self) -> list[Fact]:
        """Return all that was found; operations without completion are of unknown outcome."""
        for op, (event, _) in self._pending.items():
            if event.f != "offsets":
                for key, offset in offsets_in(event):
                    register = self.registers.setdefault(key, Register())
                    register.writes.append(Write(offset, op, event.t, NEVER, INFO, event.t))
        self._pending.clear()
        for (group, name), register in sorted(self.registers.items()):
            by_offset: dict[int, list[Write]] = {}
            for write in register.writes:
                by_offset.setdefault(write.offset, []).append(write)
            for fetch in register.fetches:
                self._judge_fetch(group, name, fetch, by_offset.get(fetch.offset, []))
        return self.facts

    def _judge_fetch(self, group: str, name: str, fetch: Fetch, writes: list[Write]) -> None:
        what = f"op {fetch.op} of process {fetch.process} fetched {fetch.offset} of group {group} for {name}"
        newest = fetch.newest
        if fetch.offset == NONE:
            if newest is not None:
                reason = (
                    f"{what} (none), though op {newest.op} had committed {newest.offset} at {newest.completed:.3f} s"
                )
                self.facts.append(self._fact("offset-lost", name, newest.offset, fetch.completed, reason, newest))
            return
        writes = [write for write in writes if write.invoked <= fetch.completed]
        possible = [write for write in writes if write.outcome != FAIL and write.ended <= fetch.completed]
        if possible:
            last = max(write.completed for write in possible)
            if newest is not None and last < newest.invoked:
                reason = (
                    f"{what}, though op {newest.op} had committed {newest.offset} by {newest.completed:.3f} s: "
                    f"the last commit of {fetch.offset} had completed before that one started"
                )
                self.facts.append(self._fact("offset-lost", name, newest.offset, fetch.completed, reason, newest))
            return
        if not writes:
            anomaly, why = "unknown-offset", "which was never committed"
        elif any(write.outcome != FAIL for write in writes):
            anomaly, why = (
                "open-offset",
                f"which only the open transaction of op {writes[0].op} had committed",
            )
        else:
            anomaly, why = "aborted-offset", f"which only the aborted or rejected op {writes[0].op} had committed"
        first = writes[0] if writes else None
        self.facts.append(self._fact(anomaly, name, fetch.offset, fetch.completed, f"{what}, {why}", first))

    def _fact(self, anomaly: str, name: str, offset: int, t: float, reason: str, other: Write | None) -> Fact:
        since = 0.0 if other is None else other.invoked
        story = () if other is None else ((other.invoked, f"op {other.op} begins to commit {other.offset}"),)
        return Fact(anomaly, name, offset, t, reason, (*story, (t, "end of the finding")), since=since, topics=TOPICS)


def offsets_in(event: Invoke | Ok | Fail | Info) -> list[tuple[tuple[str, str], int]]:
    """Return ((group, partition), offset) of the micro-operations that name offsets."""
    found: list[tuple[tuple[str, str], int]] = []
    for step in event.value:
        if isinstance(step, list) and len(step) == 4 and step[0] == "offset":
            _, group, name, offset = step
            assert isinstance(group, str) and isinstance(name, str) and isinstance(offset, int)
            found.append(((group, name), offset))
    return found
