"""How far a group may move on the target without passing records that it has not read. Sans-IO.

The map says where the source's records are on the target. The target can have further records: its own, which producers
write there, or those of a third cluster. A group of the source has read such a record only if a mirror in the opposite
direction has copied it to the source, below the group's position. That mirror's marks tell, and never too much:

    offsets of the target   | start ... first mark | ... last mark at or below the group's position | ... translated |
    foreign records there   | unread               | read                                           | unread         |

So the group stops at the first foreign record in an unread range. It may read some records again; it skips none.
"""

from collections.abc import Callable, Iterable

from kvorum.pipelines.mirror.offset_map import OffsetMap, Place

FirstForeign = Callable[[Place, int, int], tuple[int, bool]]
"""(partition by its name on the target, low, high) -> (offset, found): where the first record is that did not come from
the source, or up to where there is none."""

RANGES_MAX = 64
"""Ranges without foreign records that are remembered for each partition."""


class UnreadRecords:
    """Limits translated offsets of one mirror. `opposite`: the marks of mirrors from the target to the source."""

    def __init__(self, opposite: Callable[[], Iterable[OffsetMap]], first_foreign: FirstForeign) -> None:
        """Read nothing yet."""
        self._opposite = opposite
        self._first_foreign = first_foreign
        self._clean: dict[Place, list[tuple[int, int]]] = {}

    def limit(self, place: Place, position: int, start: int, target: int) -> int:
        """Return the highest offset up to `target` that passes no foreign record which the group has not read.

        `position` is the group's on the source, `place` the partition by its name on the target. Records below `start`
        do not count: the group of the target is beyond them.
        """
        found = [marks for known in self._opposite() if (marks := known.below_target(place, position)) is not None]
        ranges = [(first.source, last.source) for first, last in found]
        first, last = max(ranges, key=lambda each: each[1] - each[0], default=(target, target))
        for low, high in ((start, min(first, target)), (max(start, last), target)):
            at = self._first(place, low, high)
            if at < high:
                return at
        return target

    def forget(self, place: Place) -> None:
        """Forget what was read of a partition: its topic was deleted and created again."""
        self._clean.pop(place, None)

    def _first(self, place: Place, low: int, high: int) -> int:
        """Return the offset of the first foreign record in a range, or where the search stopped; `high` if none is."""
        ranges = self._clean.get(place, [])
        while low < high:
            known = next((end for begin, end in ranges if begin <= low < end), None)
            if known is not None:
                low = known
                continue
            end = min([high, *(begin for begin, _ in ranges if begin > low)])
            at, is_found = self._first_foreign(place, low, end)
            if at > low:
                ranges = self._clean[place] = merged([*ranges, (low, at)])[-RANGES_MAX:]
            if is_found or at < end:
                return at
            low = end
        return max(low, high)


def merged(ranges: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """Return ranges in order, those that touch as one."""
    found: list[tuple[int, int]] = []
    for begin, end in sorted(ranges):
        if found and begin <= found[-1][1]:
            found[-1] = (found[-1][0], max(end, found[-1][1]))
        else:
            found.append((begin, end))
    return found
