"""A translated offset never passes a record of the target that its group has not read, whatever was mirrored how."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any, cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kvorum.pipelines.bridge.offsets import TopicPartition
from kvorum.pipelines.mirror import logs
from kvorum.pipelines.mirror.logs import Logs
from kvorum.pipelines.mirror.spec import MirrorSpec
from kvorum.pipelines.mirror.translation import Mark, OffsetMap, Record, Translator, UnreadRecords, merged

PLACE = TopicPartition("orders", 0)


@dataclass(slots=True)
class Cluster:
    """One partition: offset -> (what it is, the clusters it has passed). Some offsets have transaction markers."""

    alias: str
    records: dict[int, tuple[int, tuple[str, ...]]] = field(default_factory=dict)
    end: int = 0

    def append(self, record: int, hops: tuple[str, ...]) -> None:
        self.records[self.end] = (record, hops)
        self.end += 1

    def ids(self, low: int, high: int) -> set[int]:
        return {record for offset, (record, _) in self.records.items() if low <= offset < high}


@dataclass(slots=True)
class Mirror:
    """Copies as pipelines.mirror.run does: the first mark, the records, a marker, a mark."""

    source: Cluster
    target: Cluster
    starting: str
    at: int = 0
    map: OffsetMap = field(default_factory=OffsetMap)

    def __post_init__(self) -> None:
        self.at = self.source.end if self.starting == "latest" else 0

    def batch(self, count: int, is_marked: bool) -> None:
        """Mirror some offsets; without its mark a batch was followed by kill -9."""
        end = min(self.source.end, self.at + count)
        if self.map.last(PLACE) is None:
            self._mark(self.at)
        rows = [self.source.records[offset] for offset in range(self.at, end) if offset in self.source.records]
        copied = [(record, hops) for record, hops in rows if self.target.alias not in hops]
        for record, hops in copied:
            self.target.append(record, (*hops, self.source.alias))
        self.target.end += bool(copied)
        self.at = end
        if is_marked:
            self._mark(end)

    def _mark(self, source: int) -> None:
        mark = self.map.next_mark(PLACE, source, self.target.end)
        if mark is not None:
            self.map.take(mark)


def spec_of(source: str, target: str, starting: str) -> MirrorSpec:
    said = {
        "name": "x",
        "source": {"alias": source, "bootstrap": "s:9092"},
        "target": {"alias": target, "bootstrap": "t:9092"},
        "topics": ["orders"],
        "checkpoint": "/nowhere",
        "policy": "identity",
        "startingOffsets": starting,
    }
    return MirrorSpec.model_validate(said)


class MirrorLogs(Logs):
    """The two logs of a test; `scan_max` records of the target in a round."""

    def __init__(self, mirror: Mirror, scan_max: int) -> None:
        self.mirror, self.scan_max = mirror, scan_max
        self.opposite = {}

    def bounds(self, place: TopicPartition) -> tuple[int, int]:
        return 0, self.mirror.target.end

    def source(self, place: TopicPartition, low: int, high: int) -> Iterator[Record]:
        mirror = self.mirror
        for offset, (record, hops) in sorted(mirror.source.records.items()):
            if low <= offset < high and mirror.target.alias not in hops:
                yield Record(offset, None, b"%d" % record, 0)

    def target(self, place: TopicPartition, low: int, high: int) -> Iterator[Record]:
        for offset, (record, _) in sorted(self.mirror.target.records.items()):
            if low <= offset < high:
                yield Record(offset, None, b"%d" % record, 0)

    def first_foreign(self, place: TopicPartition, low: int, high: int) -> tuple[int, bool]:
        count = 0
        for offset, (_, hops) in sorted(self.mirror.target.records.items()):
            if low <= offset < high:
                if self.mirror.source.alias not in hops:
                    return offset, True
                count += 1
                if count >= self.scan_max:
                    return offset + 1, False
        return high, False


class Reading(Translator):
    """A translator over the two logs of a test."""

    def __init__(self, mirror: Mirror, opposite: Mirror | None, scan_max: int) -> None:
        self.logs = MirrorLogs(mirror, scan_max)
        spec = spec_of(mirror.source.alias, mirror.target.alias, mirror.starting)
        super().__init__(spec, mirror.map, self.logs)
        self.use(opposite)

    def use(self, opposite: Mirror | None) -> None:
        self.logs.opposite = {} if opposite is None else {"opposite": opposite.map}


STARTINGS = st.tuples(st.sampled_from(["earliest", "latest"]), st.sampled_from(["earliest", "latest"]))
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("write"), st.sampled_from("ab"), st.integers(1, 6)),
        st.tuples(st.just("mirror"), st.sampled_from("ab"), st.integers(1, 8), st.booleans()),
        st.tuples(st.just("group"), st.sampled_from("ab"), st.integers(0, 40)),
    ),
    max_size=40,
)


@settings(max_examples=300, deadline=None)
@given(steps=STEPS, starting=STARTINGS, scan_max=st.sampled_from([2, 99]))
def test_no_group_passes_a_record_that_it_has_not_read(
    steps: list[tuple[Any, ...]], starting: tuple[str, str], scan_max: int
) -> None:
    """Groups of both clusters, mirrors in both directions that begin at any time, batches that end in kill -9."""
    clusters = {"a": Cluster("a"), "b": Cluster("b")}
    mirrors: dict[str, Mirror] = {}
    readings: dict[str, Reading] = {}
    committed = {"a": 0, "b": 0}
    read: dict[str, set[int]] = {"a": set(), "b": set()}
    count = 0
    for kind, alias, number, *rest in steps:
        other = "b" if alias == "a" else "a"
        if kind == "write":
            for _ in range(number):
                count += 1
                clusters[alias].append(count, ())
        elif kind == "mirror":
            if alias not in mirrors:
                mirrors[alias] = Mirror(clusters[alias], clusters[other], starting[alias == "b"])
            mirrors[alias].batch(number, rest[0])
        elif alias in mirrors and mirrors[alias].map.last(PLACE) is not None:
            reading = readings.get(alias)
            if reading is None:
                reading = readings[alias] = Reading(mirrors[alias], None, scan_max)
            reading.use(mirrors.get(other))
            source, target = clusters[alias], clusters[other]
            position = min(number, source.end)
            has_read = source.ids(0, position) | read[other]
            found = reading.translate(PLACE, [position]).get(position)
            if found is None or found <= committed[other]:
                continue
            limit = reading.limit(PLACE, position, committed[other], found)
            assert target.ids(committed[other], limit) <= has_read
            committed[other] = max(committed[other], limit)
            read[other] |= target.ids(0, committed[other])


def test_a_group_that_has_read_all_of_both_clusters_moves_to_the_end() -> None:
    a, b = Cluster("a"), Cluster("b")
    there, back = Mirror(a, b, "earliest"), Mirror(b, a, "earliest")
    for record in range(10):
        a.append(record, ())
    there.batch(10, True)
    back.batch(99, True)
    reading = Reading(back, there, 99)
    translated = reading.translate(PLACE, [b.end])[b.end]
    assert reading.limit(PLACE, b.end, 0, translated) == translated == a.end


def test_a_group_in_the_middle_of_what_came_from_the_target_stays_there() -> None:
    """900 of 1,000 records were skipped: the first mark of the mirror back is the end of its target."""
    a, b = Cluster("a"), Cluster("b")
    there, back = Mirror(a, b, "earliest"), Mirror(b, a, "earliest")
    for record in range(1000):
        a.append(record, ())
    there.batch(1000, True)
    back.batch(2000, True)
    reading = Reading(back, there, 9999)
    assert reading.translate(PLACE, [100])[100] == 1000
    assert reading.limit(PLACE, 100, 0, 1000) == 0


def test_records_written_to_the_target_before_the_group_moves_are_not_passed() -> None:
    """One direction: nothing copies them to the source, so no group of the source has read them."""
    a, b = Cluster("a"), Cluster("b")
    mirror = Mirror(a, b, "earliest")
    a.append(1, ())
    mirror.batch(1, True)
    b.append(2, ())
    a.append(3, ())
    mirror.batch(9, True)
    reading = Reading(mirror, None, 99)
    translated = reading.translate(PLACE, [2])[2]
    assert translated == b.end and reading.limit(PLACE, 2, 0, translated) == 2


def test_what_was_searched_is_not_read_again() -> None:
    asked: list[tuple[int, int]] = []

    def first(place: TopicPartition, low: int, high: int) -> tuple[int, bool]:
        asked.append((low, high))
        return min(high, low + 10), False

    unread = UnreadRecords(cast(Any, SimpleNamespace(opposite={}, first_foreign=first)))
    assert [unread.limit(PLACE, 5, 0, 25) for _ in range(4)] == [10, 20, 25, 25]
    assert asked == [(0, 25), (10, 25), (20, 25)]
    assert unread.limit(PLACE, 5, 22, 25) == 25 and len(asked) == 3


def test_ranges_that_touch_are_one() -> None:
    assert merged([(5, 7), (0, 3), (3, 4), (6, 9)]) == [(0, 4), (5, 9)]


def test_the_last_mark_below_a_target_offset() -> None:
    known = OffsetMap()
    for number, (source, target) in enumerate([(0, 3), (10, 20), (15, 30)]):
        known.take(Mark(place=PLACE, number=number, source=source, target=target))
    assert known.below_target(PLACE, 2) is None
    found = known.below_target(PLACE, 29)
    assert found is not None and [each.source for each in found] == [0, 10]


def test_the_opposite_map_is_read_on_without_records_that_are_no_marks(monkeypatch: pytest.MonkeyPatch) -> None:
    """The topic is on a cluster that others write to; one that was deleted and created again begins anew."""
    mark = Mark(place=PLACE, number=0, source=0, target=0)
    rows: list[tuple[int, bytes, bytes]] = [(0, b"junk", b"junk"), (1, mark.key("back"), mark.value())]
    asked: list[int] = []

    class Reader:
        def list_topics(self, timeout: float) -> Any:
            return SimpleNamespace(topics=["kvorum-offset-map.b.internal"])

        def get_watermark_offsets(self, where: Any, timeout: float) -> tuple[int, int]:
            return 0, max((offset for offset, _, _ in rows), default=-1) + 1

    def ranged(reader: Any, place: TopicPartition, low: int, high: int) -> Iterator[Any]:
        asked.append(low)
        for offset, key, value in rows:
            if low <= offset < high:
                yield SimpleNamespace(offset=lambda at=offset: at, key=lambda k=key: k, value=lambda v=value: v)

    monkeypatch.setattr(logs, "Range", ranged)
    monkeypatch.setattr(logs, "consumer", lambda settings, group: Reader())
    reading = Logs(spec_of("a", "b", "earliest"))
    for _ in range(2):
        reading.read_opposite()
    assert asked == [0, 2] and [*reading.opposite] == ["back"]
    del rows[1:]
    reading.read_opposite()
    assert asked[-1] == 0 and reading.opposite == {}
