"""The segments of a log in order of their base offsets."""

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence

from kvorum.storage.segment import Segment


class Segments:
    """At least one once the log is open; the last is the active one.

    Each covers the offsets up to the next one's base.
    """

    __slots__ = ("_bases", "_segments", "active")

    active: Segment
    """The one that is appended to."""

    def __init__(self, segments: list[Segment]) -> None:
        """Take segments in ascending order, at least one."""
        assert segments, "a log has a segment"
        self._segments = segments
        self._bases = [segment.base_offset for segment in segments]
        self.active = segments[-1]
        assert self._bases == sorted(set(self._bases)), "base offsets ascend"

    def __len__(self) -> int:
        """Return how many there are."""
        return len(self._segments)

    def __iter__(self) -> Iterator[Segment]:
        """Go through a copy, oldest first."""
        return iter(list(self._segments))

    @property
    def first(self) -> Segment:
        """The oldest."""
        return self._segments[0]

    @property
    def size(self) -> int:
        """Bytes of all `.log` files."""
        return sum(segment.size for segment in self._segments)

    def add(self, segment: Segment) -> None:
        """Make a new segment the active one."""
        assert segment.base_offset > self._bases[-1], "base offsets ascend"
        self._segments.append(segment)
        self._bases.append(segment.base_offset)
        self.active = segment

    def replace_active(self, segment: Segment) -> None:
        """Replace the active segment by a new one with a larger base."""
        assert segment.base_offset > self._bases[-1], "base offsets ascend"
        self._segments[-1], self._bases[-1], self.active = segment, segment.base_offset, segment

    def replace_all(self, segment: Segment) -> list[Segment]:
        """Make this the only segment; return those there were."""
        removed = self._segments
        self._segments, self._bases, self.active = [segment], [segment.base_offset], segment
        return removed

    def replace(self, old: Sequence[Segment], new: Segment) -> None:
        """Replace neighbours, none of them the active one, by one segment with the first one's base offset."""
        place = self._bases.index(old[0].base_offset)
        assert self._segments[place : place + len(old)] == list(old), "neighbours, as they lie"
        assert new.base_offset == old[0].base_offset and old[-1] is not self.active, "its offsets are theirs"
        self._segments[place : place + len(old)] = [new]
        self._bases[place : place + len(old)] = [new.base_offset]

    def floor_index(self, offset: int) -> int:
        """Return the number of the segment that covers this offset, 0 for one before all."""
        return max(bisect_right(self._bases, offset) - 1, 0)

    def from_offset(self, offset: int) -> Iterator[Segment]:
        """Go through the segments from the one that covers this offset on."""
        return iter(self._segments[self.floor_index(offset) :])

    def next_base(self, segment: Segment) -> int | None:
        """Return the base offset of the segment behind this one, None behind the active one."""
        place = bisect_right(self._bases, segment.base_offset)
        return self._bases[place] if place < len(self._bases) else None

    def remove_above(self, offset: int) -> list[Segment]:
        """Take out the segments that begin behind this offset; return them, the last one first. One stays."""
        place = max(bisect_right(self._bases, offset), 1)
        removed = self._segments[place:]
        del self._segments[place:], self._bases[place:]
        self.active = self._segments[-1]
        return removed[::-1]

    def remove_below(self, base_offset: int) -> list[Segment]:
        """Take out the segments that begin before this base offset; return them, oldest first. One stays."""
        place = min(bisect_left(self._bases, base_offset), len(self._segments) - 1)
        removed = self._segments[:place]
        del self._segments[:place], self._bases[:place]
        return removed
