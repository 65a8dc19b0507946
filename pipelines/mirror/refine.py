"""Finds the target offset of an offset inside a batch by reading both logs from a mark on, record by record.

The mirror keeps the order of a partition. So the target's record that is the first, from the mark on, equal to the
source's first record, is at or before its copy; and so on for the next from there. What is found by this is never
beyond the true place, whatever else stands between (records of others, second copies of a replayed batch): nobody who
goes on there misses anything. Where the walk fails (records compacted or expired on one side) the mark itself is taken.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple


class Record(NamedTuple):
    """Common values of two copies of a record."""

    offset: int
    key: bytes | None
    value: bytes | None
    timestamp_ms: int

    def equals(self, other: "Record") -> bool:
        """Return whether the other may be this one's copy."""
        return self[1:] == other[1:]


def refine(
    offsets: Sequence[int],
    *,
    start: tuple[int, int],
    target_end: int,
    source: Callable[[int, int], Iterable[Record]],
    target: Callable[[int, int], Iterable[Record]],
    records_max: int,
) -> dict[int, int]:
    """Return the target's place of each of these source offsets, as far as the walk from `start` gets.

    `start` is a mark (source offset, target offset); `target_end` lies at or beyond all copies of interest. A place is
    one behind the copy of the last record before the offset: at the marker of a transaction, if one stands there.
    """
    wanted = sorted(offset for offset in set(offsets) if offset > start[0])
    found: dict[int, int] = {}
    if not wanted or wanted[-1] - start[0] > records_max:
        wanted = [offset for offset in wanted if offset - start[0] <= records_max]
    if not wanted:
        return found
    place = start[1]
    there = iter(target(start[1], target_end))
    at = 0
    for record in source(start[0], wanted[-1]):
        while at < len(wanted) and wanted[at] <= record.offset:
            found[wanted[at]] = place
            at += 1
        copy = next((each for each in there if each.equals(record)), None)
        if copy is None:
            return found
        place = copy.offset + 1
    for offset in wanted[at:]:
        found[offset] = place
    return found
