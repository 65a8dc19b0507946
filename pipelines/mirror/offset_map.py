"""Which source offset is which target offset: marks where batches end, and what can be said between them. Pure.

A mark (source, target) of a partition says: all records below `source` that were mirrored lie below `target`, and all
others will lie at or beyond it. It is taken when a batch has been committed and before the next one is written, so the
target's end is the place. A group at `source` continues at `target` and neither misses nor repeats a record. From
an offset between two marks the lower one is safe: it repeats some and misses none.

Marks are records of the compacted map topic. A partition has a few hundred slots at most: the first mark, the newest
SLOTS, and ever sparser older ones: mark number n is kept on level z, z being how often 2 divides n, and each level
keeps its newest SLOTS. So the map stays small however long a mirror runs, and old groups are still placed.
"""

import json
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, NamedTuple

from kvorum.pipelines.bridge.offsets import TopicPartition

SLOTS: Final = 16
"""Marks a level keeps: a group within 16 batches of the mirror stands near an exact mark."""

LEVELS: Final = 24
"""Levels: 2**24 batches, then the sparsest level covers the rest."""

FORMAT: Final = 1
FIELDS: Final = ("number", "source", "target")


class Record(NamedTuple):
    """Common values of two copies of a record."""

    offset: int
    key: bytes | None
    value: bytes | None
    timestamp_ms: int

    def equals(self, other: "Record") -> bool:
        """Return whether the other may be this one's copy."""
        return self[1:] == other[1:]


@dataclass(frozen=True, slots=True, kw_only=True)
class Mark:
    """A pair of offsets on source and target. `number` counts a partition's marks, from 0."""

    place: TopicPartition
    number: int
    source: int
    target: int

    def slot(self) -> str:
        """Return the name of the slot that this mark takes from an older one."""
        if self.number == 0:
            return "first"
        level = min((self.number & -self.number).bit_length() - 1, LEVELS - 1)
        return f"{level}.{(self.number >> (level + 1)) % SLOTS}"

    def key(self, mirror: str) -> bytes:
        """Return the key of the mark's record."""
        return _json([FORMAT, mirror, self.place.topic, self.place.partition, self.slot()])

    def value(self) -> bytes:
        """Return the value of the mark's record."""
        return _json({name: getattr(self, name) for name in FIELDS})


class OffsetMap:
    """The marks of all partitions, as the map topic holds them.

    One thread takes marks while others look: what they look at is replaced, never changed.
    """

    def __init__(self) -> None:
        """Begin with none."""
        self._slots: dict[TopicPartition, dict[str, Mark]] = {}
        self._sorted: dict[TopicPartition, tuple[dict[str, Mark], list[Mark]]] = {}

    def take(self, mark: Mark) -> None:
        """Take a mark, a new one or one out of the topic; in its slot the higher number stays."""
        slots, slot = self._slots.get(mark.place, {}), mark.slot()
        there = slots.get(slot)
        if there is None or there.number <= mark.number:
            self._slots[mark.place] = {**slots, slot: mark}

    def drop(self, place: TopicPartition, slot: str) -> None:
        """Remove the mark of a slot."""
        self._slots[place] = {each: mark for each, mark in self._slots.get(place, {}).items() if each != slot}

    def next_mark(self, place: TopicPartition, source: int, target: int) -> Mark | None:
        """Return the mark to write, None where nothing new is said.

        Offsets that were mirrored before the checkpoint was lost make no marks: their first copies count.
        """
        last = self.last(place)
        if last is not None and (source <= last.source or target < last.target):
            return None
        return Mark(place=place, number=0 if last is None else last.number + 1, source=source, target=target)

    def places(self) -> Iterator[TopicPartition]:
        """Yield the partitions that have a mark."""
        return iter([place for place, slots in tuple(self._slots.items()) if slots])

    def last(self, place: TopicPartition) -> Mark | None:
        """Return the newest mark."""
        marks = self.marks(place)
        return marks[-1] if marks else None

    def marks(self, place: TopicPartition) -> list[Mark]:
        """Return a partition's marks by offset."""
        slots = self._slots.get(place, {})
        known = self._sorted.get(place)
        if known is None or known[0] is not slots:
            known = slots, sorted(slots.values(), key=lambda mark: mark.source)
            self._sorted[place] = known
        return known[1]

    def below_target(self, place: TopicPartition, target: int) -> tuple[Mark, Mark] | None:
        """Return the first mark and the last one at or below a target offset; None if no mark is.

        All mirrored records between the two source offsets are below the target offset.
        """
        marks = self.marks(place)
        at = bisect_right(marks, target, key=lambda mark: mark.target) - 1
        return (marks[0], marks[at]) if at >= 0 else None

    def around(self, place: TopicPartition, offset: int) -> tuple[Mark, Mark | None]:
        """Return the last mark at or below a source offset and the one after it, of a partition that has marks.

        Records before the first mark were never mirrored: of a mirror that began with the first record, a group there
        begins at the first mark.
        """
        marks = self.marks(place)
        at = max(0, bisect_right(marks, offset, key=lambda mark: mark.source) - 1)
        return marks[at], marks[at + 1] if at + 1 < len(marks) else None


def apply(maps: dict[str, OffsetMap], key: bytes | None, value: bytes | None) -> None:
    """Apply a record of a map topic to the map of its mirror. Raises ValueError if it is no mark."""
    if key is None:
        return
    try:
        form, mirror, topic, partition, slot = json.loads(key)
        place = TopicPartition(str(topic), int(partition))
        fields = None if value is None else json.loads(value)
        mark = None if fields is None else Mark(place=place, **{name: fields[name] for name in FIELDS})
    except (ValueError, TypeError, KeyError) as error:
        raise ValueError(f"not a mark of an offset map: {key!r}") from error
    if form != FORMAT:
        raise ValueError(f"unsupported mark format {form!r}")
    known = maps.setdefault(str(mirror), OffsetMap())
    if mark is None:
        known.drop(place, str(slot))
    else:
        known.take(mark)


def _json(value: object) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()
