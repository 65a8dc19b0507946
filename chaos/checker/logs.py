"""Each partition's log as seen by all clients together, and contradictions in it.

inconsistent-offsets: an offset with two values. acked-twice: two sends with the same offset in their responses.
duplicate: a value at two offsets. aborted-read (G1a): a poll returned a value that was certainly not written.
unknown-value: or one that was never sent. A log has gaps (control records, invisible aborted records): distance is
counted in visible records.
"""

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from itertools import groupby
from typing import Final, NamedTuple

from kvorum.chaos.checker.derive import Derivation
from kvorum.chaos.checker.partitions import Partition
from kvorum.chaos.checker.sends import FAIL, FINAL_THERE, INFO, NOWHERE, OK, READ_COMMITTED, READ_OK

NUMBERS_MAX: Final = 20
"""Values or offsets that one sentence lists."""


class Log:
    """A partition's version order, in typed arrays.

    `offsets` and `rows` belong together: every known position of a value, by offset, row -1 for a value that was never
    sent. `visible` are the offsets that every reader must see, without duplicates.
    """

    __slots__ = ("offsets", "rows", "visible")

    def __init__(self, entries: list[tuple[int, int]], hidden: set[int]) -> None:
        """Store the sorted positions, and the offsets that some readers may skip."""
        self.offsets = array("q", (offset for offset, _ in entries))
        self.rows = array("q", (row for _, row in entries))
        self.visible = array("q", (offset for offset, _ in groupby(self.offsets) if offset not in hidden))

    def between(self, source: int, target: int) -> int:
        """Return the number of visible records between two offsets, both excluded."""
        return max(0, bisect_left(self.visible, target) - bisect_right(self.visible, source))

    def slice(self, source: int, target: int, limit: int = 1000) -> list[int]:
        """Return the offsets of the first visible records between two offsets, both excluded."""
        first = bisect_right(self.visible, source)
        return list(self.visible[first : min(bisect_left(self.visible, target), first + limit)])

    def at(self, offset: int, limit: int | None = None) -> list[int]:
        """Return the rows known at an offset, up to a limit."""
        first, end = bisect_left(self.offsets, offset), bisect_right(self.offsets, offset)
        return list(self.rows[first : end if limit is None else min(end, first + limit)])

    def conflicting_offsets(self) -> Iterator[int]:
        """Yield the offsets at which more than one thing is known, in order."""
        before, reported = NOWHERE - 1, NOWHERE - 1
        for offset in self.offsets:
            if offset == before and offset != reported:
                reported = offset
                yield offset
            before = offset


class Finding(NamedTuple):
    """A finding in a log before its legality is known: its rows, position and description."""

    anomaly: str
    partition: int
    rows: tuple[int, ...]
    offset: int
    value: int
    reason: str
    t: float = 0.0
    """Time of the finding, if no send has it."""


def must_have_committed(derivation: Derivation) -> bytearray:
    """Return one flag per row: its operation is ok, or unknown but one of its values was polled (Jepsen's rule).

    For a transaction only a poll at read_committed counts, and one such poll counts for all its values.
    """
    sends = derivation.sends
    flags = bytearray(len(sends))
    for row, kind in enumerate(sends.kind):
        if kind == OK or (kind == INFO and not sends.transactional[row] and sends.read_flags[row] & READ_OK):
            flags[row] = 1
    for transaction in derivation.transactions:
        if transaction.outcome == INFO and any(sends.read_flags[row] & READ_COMMITTED for row in transaction.rows):
            for row in transaction.rows:
                flags[row] = 1
    return flags


def build(derivation: Derivation, partition: Partition, committed: bytearray) -> Log:
    """Return the version order: from every poll, and from the returned offsets of sends that must have committed."""
    sends = derivation.sends
    entries: list[tuple[int, int]] = []
    hidden: set[int] = set()
    for row in partition.writers.values():
        acked, read = sends.acked_offset[row], sends.read_offset[row]
        if acked != NOWHERE and committed[row]:
            entries.append((acked, row))
        if read != NOWHERE and (read != acked or not committed[row]):
            entries.append((read, row))
            if sends.transactional[row] and not committed[row] and not sends.read_flags[row] & READ_COMMITTED:
                hidden.add(read)  # seen only at read_uncommitted: other readers need not see it
    for row, offset in partition.elsewhere:
        if offset not in (sends.read_offset[row], sends.acked_offset[row] if committed[row] else NOWHERE):
            entries.append((offset, row))
    entries.extend((read.offset, -1) for read in partition.unknown_reads)
    entries.sort()
    return Log(entries, hidden)


def contradictions(derivation: Derivation, partition: Partition, log: Log) -> Iterator[Finding]:
    """Yield inconsistent offsets, offsets returned twice, duplicates."""
    sends = derivation.sends
    strangers: dict[int, set[int]] = {}
    for read in partition.unknown_reads:
        strangers.setdefault(read.offset, set()).add(read.value)
    for offset in log.conflicting_offsets():
        rows = log.at(offset)
        known = tuple(row for row in rows if row >= 0)
        values = sorted({sends.value[row] for row in known} | strangers.get(offset, set()))
        if len(values) < 2:
            continue
        yield Finding(
            "inconsistent-offsets",
            partition.index,
            known,
            offset,
            values[0],
            f"offset {offset} has {len(values)} values: {number_list(values)}",
        )
        acked = tuple(row for row in known if sends.kind[row] == OK and sends.acked_offset[row] == offset)
        if len(acked) > 1:
            named = number_list([sends.value[row] for row in acked])
            reason = f"{len(acked)} responses have offset {offset}: {named}"
            yield Finding("acked-twice", partition.index, acked, offset, sends.value[acked[0]], reason)
    yield from _duplicates(derivation, partition, log)


def _duplicates(derivation: Derivation, partition: Partition, log: Log) -> Iterator[Finding]:
    """Yield values that are at more than one offset."""
    sends = derivation.sends
    suspects = {row for row, _ in partition.elsewhere}
    suspects.update(
        row
        for row in partition.writers.values()
        if sends.acked_offset[row] != NOWHERE
        and sends.read_offset[row] != NOWHERE
        and sends.acked_offset[row] != sends.read_offset[row]
    )
    places: dict[int, list[int]] = {row: [] for row in suspects}
    if suspects:
        for offset, row in zip(log.offsets, log.rows, strict=True):
            if row in places:
                places[row].append(offset)
    for row, offsets in sorted(places.items()):
        if len(offsets) > 1:
            value = sends.value[row]
            reason = f"value {value} is at {len(offsets)} offsets: {number_list(offsets)}"
            yield Finding("duplicate", partition.index, (row,), offsets[-1], value, reason)


def final_values(derivation: Derivation, finding: Finding) -> dict[int, float]:
    """Return the values that the final reads found at this offset, with the time of their first read there."""
    sends, there = derivation.sends, derivation.partitions[finding.partition].final_elsewhere
    found: dict[int, float] = {}
    for row in finding.rows:
        if sends.read_flags[row] & FINAL_THERE and sends.read_offset[row] == finding.offset:
            found[row] = sends.first_read[row]
        elif (row, finding.offset) in there:
            found[row] = there[row, finding.offset]
    return found


def number_list(numbers: list[int]) -> str:
    """Return numbers as text, the first NUMBERS_MAX of them."""
    more = f" and {len(numbers) - NUMBERS_MAX} more" if len(numbers) > NUMBERS_MAX else ""
    return ", ".join(map(str, numbers[:NUMBERS_MAX])) + more


def find_aborted_reads(derivation: Derivation, partition: Partition) -> Iterator[Finding]:
    """Yield values of operations that certainly failed, yet an ok poll returned them (G1a)."""
    sends = derivation.sends
    for row in partition.writers.values():
        if sends.kind[row] != FAIL:
            continue
        needed = READ_COMMITTED if sends.transactional[row] else READ_OK
        if sends.read_flags[row] & needed:
            value, what = sends.value[row], "transaction" if sends.transactional[row] else "send"
            reason = f"the {what} of value {value} failed, but op {sends.first_reader[row]} polled it"
            yield Finding("aborted-read", partition.index, (row,), sends.read_offset[row], value, reason)


def unknown_values(derivation: Derivation, partition: Partition) -> Iterator[Finding]:
    """Yield values that were polled and that no operation ever sent to this partition."""
    reported: set[int] = set()
    for read in partition.unknown_reads:
        if read.value not in reported:
            reported.add(read.value)
            reason = (
                f"op {read.op} of process {read.process} polled value {read.value} at offset {read.offset} "
                f"at {read.t:.3f} s; it was never sent"
            )
            yield Finding("unknown-value", partition.index, (), read.offset, read.value, reason, read.t)
