"""Read-process-write and money transfers: required results of transactions, also of interrupted ones.

processed-twice: two visible records were produced from one input record. never-processed: the group's committed offset
is beyond an input record without a result; both need the output's final reads, the second also a final fetch of the
group's offsets. copy-order: of two records of one partition the later one's result was written before the earlier's
(the order within a key is the order within a partition). bank-sum: the amounts in all visible records must add up to
zero, since each transaction's do.
"""

from collections.abc import Iterator
from itertools import pairwise
from typing import Final, NamedTuple

from kvorum.chaos.checker.commits import TOPICS, Register
from kvorum.chaos.checker.derive import Derivation
from kvorum.chaos.checker.facts import Fact
from kvorum.chaos.checker.sends import NEVER, NOWHERE, READ_COMMITTED, READ_FINAL
from kvorum.chaos.history import Fail, Info, Ok

ROWS_MAX: Final = 1000
"""The maximum number of missing money records that are checked for a legal loss."""


class Copy(NamedTuple):
    """Inputs and outputs of a transaction: (partition, value) each."""

    source: tuple[str, int]
    target: tuple[str, int]


class CopyChecker:
    """Process transactions with its methods; call `judge` at the end."""

    def __init__(self) -> None:
        """Create an empty object."""
        self._copies: dict[str, dict[tuple[str, int], Copy]] = {}
        """By group, by the record that was made."""
        self._amounts: dict[tuple[str, int], int] = {}

    def take(self, event: Ok | Fail | Info) -> None:
        """Process the completion of a transaction, with a known or unknown outcome."""
        for step in event.value:
            if not isinstance(step, list):
                continue
            match step:
                case ["copy", str(group), str(source), int(value), str(target), int(made)]:
                    copy = Copy((source, value), (target, made))
                    self._copies.setdefault(group, {})[copy.target] = copy
                case ["amount", str(partition), int(value), int(amount)]:
                    self._amounts[partition, value] = amount

    def judge(self, derivation: Derivation, registers: dict[tuple[str, str], Register]) -> Iterator[Fact]:
        """Yield all that was found."""
        for group, copies in sorted(self._copies.items()):
            made: dict[tuple[str, int], list[int]] = {}
            for copy in copies.values():
                row = visible_row(derivation, *copy.target)
                if row is not None:
                    made.setdefault(copy.source, []).append(row)
            yield from find_duplicate_copies(derivation, group, made)
            yield from find_reordered_copies(derivation, group, made)
            yield from find_missing_copies(derivation, group, set(copies.values()), made, registers)
        yield from self._sum(derivation)

    def _sum(self, derivation: Derivation) -> Iterator[Fact]:
        """Add up; only where every partition with money was read from its beginning."""
        names = {partition for partition, _ in self._amounts}
        if not names or not all(_read_whole(derivation, name) for name in names):
            return
        total, rows = 0, []
        for (partition, value), amount in self._amounts.items():
            row = visible_row(derivation, partition, value)
            if row is None:
                rows.append(derivation.partitions[derivation.partition_index[partition]].writers.get(value, -1))
            else:
                total += amount
        if total:
            gone = tuple(row for row in rows if row >= 0)
            reason = f"the amounts of all visible records sum to {total}; those of each transaction sum to 0"
            yield Fact("bank-sum", None, total, derivation.final_t, reason, rows=gone[:ROWS_MAX])


def find_duplicate_copies(derivation: Derivation, group: str, made: dict[tuple[str, int], list[int]]) -> Iterator[Fact]:
    """Yield records of the input of which more than one record was made."""
    sends = derivation.sends
    for (partition, value), rows in sorted(made.items()):
        if len(rows) > 1:
            where = ", ".join(
                f"{sends.value[row]} (op {sends.op[row]}, {derivation.partitions[sends.partition[row]].name} offset "
                f"{sends.read_offset[row]})"
                for row in rows
            )
            reason = f"group {group} has {len(rows)} visible results of value {value} of {partition}: {where}"
            t = max(sends.first_read[row] for row in rows)
            yield Fact("processed-twice", partition, value, t, reason, _story(derivation, rows), topics=TOPICS)


def find_reordered_copies(derivation: Derivation, group: str, made: dict[tuple[str, int], list[int]]) -> Iterator[Fact]:
    """Yield output records whose order differs from that of their input records."""
    sends = derivation.sends
    lanes: dict[tuple[str, int], list[tuple[int, int]]] = {}
    for (partition, value), rows in made.items():
        source = _row(derivation, partition, value)
        if source is None or sends.position(source) == NOWHERE or len(rows) > 1:
            continue
        lanes.setdefault((partition, sends.partition[rows[0]]), []).append((sends.position(source), rows[0]))
    for (partition, target), lane in sorted(lanes.items()):
        for (_, before), (_, after) in pairwise(sorted(lane)):
            if sends.read_offset[after] < sends.read_offset[before]:
                name = derivation.partitions[target].name
                reason = (
                    f"group {group}: value {sends.value[before]} of {name} has an earlier source record in {partition} "
                    f"than value {sends.value[after]}, but they are at offsets {sends.read_offset[before]} and "
                    f"{sends.read_offset[after]}"
                )
                t = sends.first_read[after]
                story = _story(derivation, [before, after])
                yield Fact("copy-order", name, sends.value[after], t, reason, story, topics=TOPICS)


def find_missing_copies(
    derivation: Derivation,
    group: str,
    copies: set[Copy],
    made: dict[tuple[str, int], list[int]],
    registers: dict[tuple[str, str], Register],
) -> Iterator[Fact]:
    """Yield input records below the group's last committed offset that have no output record."""
    sends = derivation.sends
    targets = {copy.target[0] for copy in copies}
    if not all(_read_whole(derivation, name) for name in targets):
        return
    tried: dict[tuple[str, int], list[int]] = {}
    for copy in copies:
        row = _row(derivation, *copy.target)
        if row is not None:
            tried.setdefault(copy.source, []).append(row)
    for (owner, name), register in sorted(registers.items()):
        last = next((fetch for fetch in reversed(register.fetches) if fetch.final), None)
        partition = derivation.partition_index.get(name)
        if owner != group or last is None or partition is None or not _read_whole(derivation, name):
            continue
        if name not in {copy.source[0] for copy in copies}:
            continue
        for value, row in derivation.partitions[partition].writers.items():
            offset = sends.read_offset[row]
            if not sends.read_flags[row] & READ_FINAL or offset >= last.offset or (name, value) in made:
                continue
            reason = (
                f"group {group} has committed offset {last.offset} of {name}, but has no visible result of value "
                f"{value} at offset {offset}"
            )
            rows = tuple(tried.get((name, value), ()))
            story = _story(derivation, list(rows))
            yield Fact("never-processed", name, value, last.completed, reason, story, rows, topics=TOPICS)


def visible_row(derivation: Derivation, partition: str, value: int) -> int | None:
    """Return the row of a value that a reader at read_committed got (in the final reads, where there were any)."""
    row = _row(derivation, partition, value)
    if row is None:
        return None
    seen = derivation.sends.read_flags[row]
    if _read_whole(derivation, partition):
        return row if seen & READ_FINAL else None
    return row if seen & READ_COMMITTED else None


def _row(derivation: Derivation, partition: str, value: int) -> int | None:
    index = derivation.partition_index.get(partition)
    return None if index is None else derivation.partitions[index].writers.get(value)


def _read_whole(derivation: Derivation, name: str) -> bool:
    index = derivation.partition_index.get(name)
    return index is not None and derivation.partitions[index].final_from_start


def _story(derivation: Derivation, rows: list[int]) -> tuple[tuple[float, str], ...]:
    sends = derivation.sends
    sentences: list[tuple[float, str]] = []
    for row in rows:
        sentences.append(
            (sends.invoked[row], f"op {sends.op[row]} of process {sends.process[row]} sends {sends.value[row]}")
        )
        if sends.completed[row] != NEVER:
            sentences.append((sends.completed[row], f"op {sends.op[row]} ends"))
    return tuple(sentences)
