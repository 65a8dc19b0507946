"""Division of a history into one part per partition, and the check of one part: kvorum.chaos.spark_check's tasks.

Pure: iterables in, iterables out. Spark pickles the data between steps, so it is tuples of numbers and bytes.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from heapq import merge
from itertools import groupby
from operator import itemgetter
from typing import Any, Final, NamedTuple, TypeAlias

import msgspec

from kvorum.chaos.checker import Checker, PartitionFigures
from kvorum.chaos.checker.coordinators import Coordinators
from kvorum.chaos.checker.judge import Judge
from kvorum.chaos.checker.logs import Finding
from kvorum.chaos.checker.sends import FAIL, NEVER, READ_COMMITTED
from kvorum.chaos.checker.transactions import _must_show
from kvorum.chaos.history import BrokenHistory, Finish, HistoryReader, Info, Invoke, Note, Ok, Operation, Owned, Replica

Line: TypeAlias = tuple[int, bytes]
"""The number of a line and its event."""

Key: TypeAlias = tuple[str, int, int]
"""Partition, number of the line, rank: how lines of a part are sorted."""

OWN, WITNESS, ALL = range(3)
"""Order of lines with the same number: the partition's, a witness, general events."""

LOCAL: Final = frozenset({"send", "poll", "txn"})
"""Operations that go to the partitions they name."""

GLOBAL: Final = frozenset({"assign", "subscribe", "admin"})

COVERED: Final = frozenset(
    {
        "acked-below-min-isr", "acked-twice", "aborted-read", "duplicate", "hanging-transaction",
        "inconsistent-offsets", "int-nonmonotonic-poll", "int-nonmonotonic-send", "int-poll-skip", "lost-write",
        "missing-offset",
        "nonmonotonic-poll", "nonmonotonic-send", "open-read", "poll-skip", "precommitted-read", "realtime-order",
        "torn-transaction", "two-leaders", "unclean-election", "unknown-value", "unseen",
        "epoch-divergence", "image-divergence", "missing-on-replica", "replica-divergence",
    }
)  # fmt: skip


REORDERED: Final = ("realtime-order", "nonmonotonic-send", "int-nonmonotonic-send")


class Shared(NamedTuple):
    """Common parameters of all tasks."""

    lines: list[Line]
    """About everything, in order."""
    ended: float
    witnesses: Mapping[int, "Witness"]
    strict: bool
    values_max: int


class Witness(NamedTuple):
    """Evidence that a transaction of unknown outcome is committed: one of its values, and a poll that returned it."""

    op: int
    partition: str
    value: int
    poll: Line


class Shown(NamedTuple):
    """A partition's evidence of one value of a transaction."""

    completed: int
    partition: str
    value: int
    visible: bool
    missing: bool
    excuse: str | None
    t: float


def classify(lines: Iterable[tuple[bytes, int]]) -> Iterator[tuple[str, Any]]:
    """Yield each line's kind: ("all", line), ("op", (op, line)), ("replica", (partition, line)), ("broken", ...)."""
    reader = HistoryReader()
    last, end = 0.0, -1
    for text, number in lines:
        end = number
        try:
            event = reader.decode(text)
        except BrokenHistory as error:
            yield "broken", (number, str(error))
            continue
        if event is None:
            continue
        last = max(last, event.t)
        if isinstance(event, Operation):
            if event.f in LOCAL:
                yield "op", (event.op, (number, text))
                if isinstance(event, Ok) and event.final:
                    yield "final", (number, text)
            elif event.f in GLOBAL:
                yield "all", (number, text)
        elif isinstance(event, Replica):
            yield "replica", (event.partition, (number, text))
        elif not isinstance(event, Owned | Note | Finish):
            yield "all", (number, text)
    yield "last", (last, end)


def partitions_of(events: Iterable[Operation]) -> set[str]:
    """Return the partitions that an operation's lines name: sent to, or polled records of."""
    found: set[str] = set()
    for event in events:
        for step in event.value:
            match step:
                case ["send", str(name), *_]:
                    found.add(name)
                case ["poll", dict(polled)]:
                    found.update(str(name) for name, records in polled.items() if records)
    return found


def project(event: Operation, name: str, kept: set[tuple[str, int]]) -> bytes:
    """Return an operation's line without other partitions' data, except the sends of `kept`."""
    value: list[Any] = []
    for step in event.value:
        match step:
            case ["send", str(at), int(number), *_] if at == name or (at, number) in kept:
                value.append(step)
            case ["poll", dict(polled)]:
                value.append(["poll", {name: polled[name]} if polled.get(name) else {}])
            case ["poll", *_]:
                value.append(step)
    moved = [each for each in event.rebalance if each == name]
    return msgspec.json.encode(msgspec.structs.replace(event, value=value, rebalance=moved))


def spread(op: int, lines: Iterable[Line], witness: "Witness | None") -> Iterator[tuple[Key, bytes]]:
    """Yield an operation's lines for each partition they name."""
    reader = HistoryReader()
    events = [(number, reader.decode(text)) for number, text in sorted(lines)]
    operations = [(number, event) for number, event in events if isinstance(event, Operation)]
    first = next((send for _, event in operations if event.f == "txn" for send in _sends(event)), None)
    for name in sorted(partitions_of(event for _, event in operations)):
        kept = {first} if first is not None else set()
        if witness is not None and witness.partition != name:
            kept.add((witness.partition, witness.value))
            number, text = witness.poll
            yield (name, number, WITNESS), text
        for number, event in operations:
            yield (name, number, OWN), project(event, name, kept)


def _sends(event: Operation) -> Iterator[tuple[str, int]]:
    for step in event.value:
        match step:
            case ["send", str(name), int(value), *_]:
                yield name, value


def unknown_sends(op: int, lines: Iterable[Line]) -> Iterator[tuple[tuple[str, int], int]]:
    """Yield the values of a transaction whose outcome is unknown: ((partition, value), op)."""
    reader = HistoryReader()
    events = [event for _, text in sorted(lines) if isinstance(event := reader.decode(text), Operation)]
    if events and events[0].f == "txn" and all(isinstance(event, Invoke | Info) for event in events):
        for event in events:
            for send in _sends(event):
                yield send, op


def sightings(
    lines: Iterable[Line], wanted: Mapping[tuple[str, int], int], uncommitted: frozenset[int]
) -> Iterator[tuple[int, Witness]]:
    """Yield witnesses of transactions of unknown outcome that an operation's poll at read_committed returned."""
    reader = HistoryReader()
    for number, text in lines:
        event = reader.decode(text)
        if not isinstance(event, Ok) or event.process in uncommitted:
            continue
        for step in event.value:
            match step:
                case ["poll", dict(polled)]:
                    for name, records in polled.items():
                        for record in records:
                            op = wanted.get((name, record[1]))
                            if op is not None:
                                alone: Any = [["poll", {name: [record]}]]
                                poll = msgspec.structs.replace(event, f="poll", value=alone, rebalance=[])
                                yield op, Witness(op, name, record[1], (number, msgspec.json.encode(poll)))


class PartJudge(Judge):
    """Counts losses of one partition only: witnesses are of others."""

    own = -1

    def _lost_value(self, finding: Finding) -> None:
        if finding.partition == self.own:
            super()._lost_value(finding)


class Part(Checker):
    """The checker on one partition's part of the history."""

    def judge(self, name: str, shared: Shared) -> Judge:
        """Apply the rules."""
        self._derivation.finish()
        self._timeline.ended = shared.ended
        judge = PartJudge(
            self._derivation,
            self._timeline,
            self._final_logs,
            self._images,
            Coordinators(),
            strict=shared.strict,
            values_max=shared.values_max,
        )
        judge.own = self._derivation.partition_index.get(name, -1)
        judge.judge(ww=False)
        return judge

    def figures(self, name: str, judge: Judge) -> PartitionFigures:
        """Return the partition's figures."""
        figures = self._meter.finish().get(name) or PartitionFigures()
        figures.lost = judge.lost_by_partition[name]
        return figures

    def shown(self, name: str, judge: Judge, ends: Mapping[int, int]) -> Iterator[tuple[int, Shown]]:
        """Yield the partition's visible values of each transaction that did not fail, by op."""
        derivation, sends = self._derivation, self._derivation.sends
        index = derivation.partition_index.get(name)
        final = derivation.final_reads
        for transaction in derivation.transactions:
            if transaction.outcome == FAIL:
                continue
            for row in transaction.rows:
                if sends.partition[row] != index:
                    continue
                visible = bool(sends.seen[row] & READ_COMMITTED)
                missing = not visible and _must_show(derivation, row, final)
                t = sends.evident(row)
                yield (
                    transaction.op,
                    Shown(
                        ends.get(transaction.op, 0),
                        name,
                        sends.value[row],
                        visible,
                        missing,
                        judge._loss.excuse(row) if missing else None,
                        sends.invoked[row] if t == NEVER else t,
                    ),
                )


def judge_parts(parts: Iterable[tuple[Key, bytes]], shared: Shared) -> Iterator[tuple[str, Any]]:
    """Judge the partitions of one task, whose lines are sorted by partition and number."""
    reader = HistoryReader()
    about_all = [(number, ALL, event) for number, text in shared.lines if (event := reader.decode(text)) is not None]
    for name, lines in groupby(parts, key=lambda part: part[0][0]):
        checker = Part()
        ends: dict[int, int] = {}
        own = ((key[1], key[2], event) for key, text in lines if (event := reader.decode(text)) is not None)
        before = -1
        for number, rank, event in merge(own, about_all, key=itemgetter(0, 1)):
            if isinstance(event, Operation):
                if rank == ALL and event.f == "poll" and number == before:
                    continue  # the last of the final polls, which this partition has with its records
                if event.f in ("assign", "subscribe"):
                    event = msgspec.structs.replace(event, value=[each for each in event.value if each == name])
                elif event.f == "txn" and not isinstance(event, Invoke):
                    ends[event.op] = number
            if rank == OWN:
                before = number
            checker.feed(event)
        judge = checker.judge(name, shared)
        counts: Counter[str] = Counter()
        for legal, found in ((False, judge.violations), (True, judge.explained)):
            for violation in found:
                if violation.partition == name and violation.anomaly in COVERED - {"torn-transaction"}:
                    yield "found", (legal, msgspec.json.encode(violation))
                    counts[violation.anomaly] += violation.count
        figures = checker.figures(name, judge)
        reordered = sum(counts[anomaly] for anomaly in REORDERED)
        counted = (judge.lost_legally, counts["duplicate"], reordered, judge.replicas_compared)
        yield "figures", (name, msgspec.json.encode(figures), counted)
        for op, shown in checker.shown(name, judge, ends):
            yield "shown", (op, tuple(shown))


def torn(
    op: int, values: Iterable[tuple[Any, ...]], lines: Iterable[list[Line]]
) -> Iterator[tuple[int, str, int, str, str | None, float]]:
    """Yield whether a transaction is visible in part: (line, partition, value, reason, excuse, when)."""
    rows = [Shown(*each) for each in values]
    if not any(row.visible for row in rows) or not any(row.missing for row in rows):
        return
    reader = HistoryReader()
    events = [reader.decode(text) for each in lines for _, text in sorted(each)]
    sent = [send for event in events if isinstance(event, Operation) for send in _sends(event)]
    rows.sort(key=lambda row: sent.index((row.partition, row.value)))
    visible, missing = [row for row in rows if row.visible], [row for row in rows if row.missing]
    shown, hidden = (", ".join(str(row.value) for row in each) for each in (visible, missing))
    reason = f"of the transaction of op {op}, values {shown} are visible and {hidden} are not"
    excuses = [row.excuse for row in missing]
    excuse = excuses[0] if all(excuses) else None
    line = max(row.completed for row in rows)
    yield line, missing[0].partition, missing[0].value, reason, excuse, max(row.t for row in missing)
