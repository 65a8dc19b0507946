"""Places offsets of the source on the target. Sans-IO: the logs are passed in.

A translated offset never passes a record that its group has not read. Three steps, each of which may stop it earlier:

    the offset map                  exact where batches end (OffsetMap)
    between two marks               both logs are read from the lower mark on, record by record (refine)
    records from elsewhere          a group stops at the first record of the target that it has not read (UnreadRecords)

A mark (source, target) of a partition: all mirrored records below `source` are below `target`, all others will be at or
beyond it, as it is taken between two batches. A group at `source` continues at `target` and neither misses nor
repeats a record. From an offset between two marks the lower one is safe: it repeats some and misses none.

Marks are records of the compacted map topic. A partition keeps a few hundred at most: the first, the newest SLOTS, and
ever sparser older ones. Mark number n has level z, z being how often 2 divides n; each level keeps its newest SLOTS.
"""

import json
import logging
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Final, NamedTuple

from confluent_kafka import KafkaException

from kvorum.pipelines.bridge.offsets import TopicPartition
from kvorum.pipelines.mirror.spec import MirrorSpec

if TYPE_CHECKING:
    from kvorum.pipelines.mirror.logs import Logs

logger = logging.getLogger(__name__)

SLOTS: Final = 16
"""Marks a level keeps: a group within 16 batches of the mirror stands near an exact mark."""

LEVELS: Final = 24
"""Levels: 2**24 batches, then the sparsest level covers the rest."""

FORMAT: Final = 1
FIELDS: Final = ("number", "source", "target")

REFINED_MAX: Final = 64
"""Offsets inside batches that are remembered for each partition."""

RANGES_MAX: Final = 64
"""Ranges without foreign records that are remembered for each partition."""


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


class Translator:
    """Places source offsets on the target."""

    def __init__(self, spec: MirrorSpec, known: OffsetMap, logs: "Logs") -> None:
        """Take the map, which continues to grow."""
        self._spec = spec
        self._map = known
        self._logs = logs
        self._refined: dict[TopicPartition, dict[int, int]] = {}
        self._first_marks: dict[TopicPartition, Mark] = {}
        self._reported: set[TopicPartition] = set()
        self._unread = UnreadRecords(logs)

    def translate(self, place: TopicPartition, offsets: Sequence[int]) -> dict[int, int]:
        """Return the target's offset of each of these, in ascending order; without those that have none.

        Never beyond the true offset. Exact at marks, and wherever the walk between them succeeds.
        """
        marks = self._map.marks(place)
        if not marks or not self._may_be_placed(place, marks):
            return {}
        found: dict[int, int] = {}
        between: dict[tuple[Mark, Mark], list[int]] = {}
        for offset in offsets:
            mark, following = self._map.around(place, offset)
            if offset < mark.source and self._spec.starting_offsets == "latest":
                continue  # the records between are not mirrored, and may be on the target by themselves
            found[offset] = mark.target
            if offset > mark.source and following is not None:
                between.setdefault((mark, following), []).append(offset)
        for (mark, following), inside in between.items():
            found |= self._inside(place, mark, following, inside)
        return found

    def limit(self, place: TopicPartition, position: int, start: int, target: int) -> int:
        """Return how far a group may move towards `target` without passing a record that it has not read.

        `position` is the group's on the source, `start` its own on the target. Only records that carry their source
        can be told apart; without them the translated offset stays.
        """
        if not self._spec.marks_records:
            return target
        return self._unread.limit(self._spec.there(place), position, start, target)

    def _may_be_placed(self, place: TopicPartition, marks: Sequence[Mark]) -> bool:
        """Whether the marks of a partition are those of its topic on the target as it is now.

        A topic that was deleted and created again ends before the last mark until the next batch removes its marks.
        """
        first, there = marks[0], self._spec.there(place)
        if self._first_marks.setdefault(place, first) != first:
            self._first_marks[place] = first
            self._refined.pop(place, None)
            self._unread.forget(there)
        try:
            low, high = self._logs.bounds(there)
        except (KafkaException, TimeoutError) as error:  # it may have been deleted
            logger.warning("groups of %s-%d are not translated: %s", *there, error)
            return False
        if high < marks[-1].target:
            return False
        from_earliest = self._spec.policy == "identity" and self._spec.starting_offsets == "earliest"
        if self._spec.marks_records or not from_earliest or first.number != 0 or low >= first.target:
            return True
        if place not in self._reported:
            self._reported.add(place)
            logger.warning(
                "groups of %s-%d are not translated: the target had records before the mirror began, and without "
                "provenance it is unknown which of them a group has read",
                *place,
            )
        return False

    def _inside(self, place: TopicPartition, mark: Mark, following: Mark, offsets: Sequence[int]) -> dict[int, int]:
        """Return what is known of offsets between two marks, after a walk if one is necessary."""
        known = self._refined.setdefault(place, {})
        wanted = [offset for offset in offsets if offset not in known]
        if wanted and self._spec.sync.refine_max:
            start = max((offset for offset in known if mark.source <= offset <= wanted[0]), default=mark.source)
            try:
                known |= refine(
                    wanted,
                    start=(start, known.get(start, mark.target)),
                    target_end=following.target,
                    source=partial(self._logs.source, place),
                    target=partial(self._logs.target, self._spec.there(place)),
                    records_max=self._spec.sync.refine_max,
                )
            except (KafkaException, TimeoutError) as error:
                logger.warning("offsets of %s-%d set to the start of the batch: %s", *place, error)
        found = {offset: known[offset] for offset in offsets if offset in known}
        for old in sorted(known)[:-REFINED_MAX]:
            del known[old]
        return found


def refine(
    offsets: Sequence[int],
    *,
    start: tuple[int, int],
    target_end: int,
    source: Callable[[int, int], Iterable[Record]],
    target: Callable[[int, int], Iterable[Record]],
    records_max: int,
) -> dict[int, int]:
    """Return the target's offset of each of these source offsets, as far as a walk from `start` gets.

    `start` is a mark (source offset, target offset); `target_end` is at or beyond all copies of interest. An offset is
    one behind the copy of the last record before it: at the marker of a transaction, if one follows.

    The mirror keeps the order of a partition: the first record of the target after the mark that equals the source's
    first record is at or before its copy, and so on from there. So the result is never beyond the true offset, whatever
    else is between (records of others, second copies of a replayed batch). Where the walk fails (records compacted or
    expired on one side) there is none.
    """
    wanted = sorted(offset for offset in set(offsets) if 0 < offset - start[0] <= records_max)
    found: dict[int, int] = {}
    if not wanted:
        return found
    at = start[1]
    copies = iter(target(at, target_end))
    for record in source(start[0], wanted[-1]):
        while len(found) < len(wanted) and wanted[len(found)] <= record.offset:
            found[wanted[len(found)]] = at
        copy = next((each for each in copies if each.equals(record)), None)
        if copy is None:
            return found
        at = copy.offset + 1
    return found | dict.fromkeys(wanted[len(found) :], at)


class UnreadRecords:
    """Limits translated offsets where the target has records that did not come from the source.

    A group of the source has read such a record only if a mirror in the opposite direction has copied it to the source,
    below the group's position. By that mirror's marks:

        target's offsets  | start ... first mark | ... last mark at or below the group's position | ... translated |
        foreign records   | unread               | read                                           | unread         |

    The group stops at the first foreign record in an unread range. It may read some records again; it skips none.
    """

    def __init__(self, logs: "Logs") -> None:
        """Read nothing yet."""
        self._logs = logs
        self._clean: dict[TopicPartition, list[tuple[int, int]]] = {}

    def limit(self, place: TopicPartition, position: int, start: int, target: int) -> int:
        """Return the highest offset up to `target` that passes no foreign record which the group has not read.

        `position` is the group's on the source, `place` the partition by its name on the target. Records below `start`
        do not count: the group of the target is beyond them.
        """
        opposite = self._logs.opposite.values()
        found = [marks for known in opposite if (marks := known.below_target(place, position)) is not None]
        ranges = [(first.source, last.source) for first, last in found]
        first, last = max(ranges, key=lambda each: each[1] - each[0], default=(target, target))
        for low, high in ((start, min(first, target)), (max(start, last), target)):
            at = self._first(place, low, high)
            if at < high:
                return at
        return target

    def forget(self, place: TopicPartition) -> None:
        """Forget what was read of a partition: its topic was deleted and created again."""
        self._clean.pop(place, None)

    def _first(self, place: TopicPartition, low: int, high: int) -> int:
        """Return the offset of the first foreign record in a range, or where the search stopped; `high` if none is."""
        ranges = self._clean.get(place, [])
        while low < high:
            known = next((end for begin, end in ranges if begin <= low < end), None)
            if known is not None:
                low = known
                continue
            end = min([high, *(begin for begin, _ in ranges if begin > low)])
            at, is_found = self._logs.first_foreign(place, low, end)
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
