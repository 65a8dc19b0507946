"""The offset map, the walk between two marks, names, MirrorMaker's records: what needs neither Spark nor a cluster."""

import random
import re
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kvorum.pipelines.bridge.offsets import TopicPartition
from kvorum.pipelines.mirror.spec import MirrorSpec
from kvorum.pipelines.mirror.topics import plan_configs, plan_partitions
from kvorum.pipelines.mirror.translation import LEVELS, SLOTS, Mark, OffsetMap, Record, apply, refine

P = TopicPartition("orders", 0)


def grown(count: int) -> OffsetMap:
    known = OffsetMap()
    for number in range(count):
        mark = known.next_mark(P, number * 100, number * 101)
        assert mark is not None and mark.number == number
        known.take(mark)
    return known


@given(st.integers(1, 3000))
@settings(max_examples=30, deadline=None)
def test_the_map_stays_small_and_keeps_the_first_and_the_newest_marks(count: int) -> None:
    marks = grown(count).marks(P)
    numbers = [mark.number for mark in marks]
    assert numbers == sorted(set(numbers)) and numbers[0] == 0 and numbers[-1] == count - 1
    assert set(range(max(0, count - SLOTS), count)) <= set(numbers)
    assert len(marks) <= SLOTS * min(LEVELS, count.bit_length()) + 1


def test_what_the_compacted_topic_keeps_is_what_the_map_had() -> None:
    compacted: dict[bytes, bytes] = {}
    known = OffsetMap()
    for number in range(500):
        mark = known.next_mark(P, number * 7, number * 9)
        assert mark is not None
        known.take(mark)
        compacted[mark.key("m")] = mark.value()
    maps: dict[str, OffsetMap] = {}
    for key, value in compacted.items():
        apply(maps, key, value)
    assert [*maps] == ["m"]
    again = maps["m"]
    assert again.marks(P) == known.marks(P)
    assert again.next_mark(P, 10_000, 10_000) == known.next_mark(P, 10_000, 10_000)


def test_offsets_that_were_mirrored_before_make_no_marks() -> None:
    known = grown(5)
    assert known.next_mark(P, 400, 900) is None
    assert known.next_mark(P, 100, 900) is None
    assert known.next_mark(P, 401, 900) == Mark(place=P, number=5, source=401, target=900)


@pytest.mark.parametrize("key", [b"", b"[]", b"[1,2]", b"\xff", b'[1,"m","t","x","first"]', b'[9,"m","t",0,"first"]'])
def test_a_record_that_is_no_mark_is_refused(key: bytes) -> None:
    maps: dict[str, OffsetMap] = {}
    with pytest.raises(ValueError):
        apply(maps, key, b'{"number":0,"source":0,"target":0}')
    assert maps == {}


@given(st.integers(0, 10_000), st.booleans())
@settings(max_examples=150, deadline=None)
def test_a_place_is_never_beyond_the_true_one_and_exact_where_the_logs_agree(seed: int, disturbed: bool) -> None:
    """Source with gaps; target with markers, second copies of replayed batches and records of others."""
    chance = random.Random(seed)
    source: list[Record] = []
    offset = chance.randrange(5)
    for _ in range(chance.randrange(1, 40)):
        source.append(Record(offset, b"k%d" % chance.randrange(3), b"v%d" % chance.randrange(2), chance.randrange(3)))
        offset += 1 + chance.choice((0, 0, 0, 1, 4))
    end = offset
    target: list[Record] = []
    truth: dict[int, int] = {}
    place = chance.randrange(5)
    begin = place
    for record in source:
        if disturbed and chance.random() < 0.2:
            target.append(Record(place, b"k1", b"v1", chance.randrange(3)))
            place += 1
        truth[record.offset] = place
        target.append(record._replace(offset=place))
        place += 1 + chance.choice((0, 0, 1))
    wanted = sorted(chance.sample(range(end + 1), min(5, end + 1)))
    found = refine(
        wanted,
        start=(0, begin),
        target_end=place,
        source=lambda low, high: [r for r in source if low <= r.offset < high],
        target=lambda low, high: [r for r in target if low <= r.offset < high],
        records_max=1000,
    )
    assert set(found) == {each for each in wanted if each > 0}
    for each, at in found.items():
        left = [r.offset for r in source if r.offset >= each]
        true = truth[left[0]] if left else place
        assert begin <= at <= true
        if not disturbed:
            assert not [r for r in target if at <= r.offset < true], "it would repeat a record"


def test_a_walk_that_fails_places_nothing() -> None:
    source = [Record(n, b"k", b"%d" % n, 0) for n in range(5)]
    target = [Record(n, b"k", b"%d" % n, 0) for n in (0, 1, 3, 4)]
    found = refine(
        [1, 2, 4],
        start=(0, 0),
        target_end=5,
        source=lambda low, high: source[low:high],
        target=lambda low, high: target,
        records_max=100,
    )
    assert found == {1: 1, 2: 2}


def spec_of(**given: Any) -> MirrorSpec:
    needed = {
        "name": "m",
        "source": {"alias": "a", "bootstrap": "a:1"},
        "target": {"alias": "b", "bootstrap": "b:1"},
        "topics": [".*"],
        "checkpoint": "/nowhere",
    }
    return MirrorSpec.model_validate(needed | given)


def test_names_and_loops_by_prefix() -> None:
    spec = spec_of(topics=["orders.*", "b.*", ".*x"], exclude=[".*-old"])
    assert spec.there(P) == TopicPartition("a.orders", 0)
    matches = re.compile(spec.topic_pattern).fullmatch
    assert matches("orders") and matches("orders.eu") and matches("bills") and matches("c.ax")
    assert not matches("orders-old") and not matches("b.orders") and not matches("c.b.x") and not matches("__x")
    assert not matches("a.checkpoints.internal") and not matches("kvorum-offset-map.a.x")


def test_names_by_identity() -> None:
    spec = spec_of(policy="identity")
    assert spec.there(P) == P
    assert re.fullmatch(spec.topic_pattern, "b.orders")


def test_groups_by_pattern() -> None:
    pattern = spec_of(groups_exclude=["console-.*"]).group_pattern
    assert re.fullmatch(pattern, "billing") and not re.fullmatch(pattern, "console-consumer-1")
    assert re.fullmatch(spec_of(groups_exclude=[]).group_pattern, "console-consumer-1")


def test_partitions_and_configs_are_planned() -> None:
    planned = plan_partitions({"a.x": 3, "a.y": 2, "a.z": 1}, {"a.x": 1, "a.z": 4, "other": 1})
    assert planned == ({"a.y": 2}, {"a.x": 3})
    excluded = re.compile(r"min\.insync\.replicas|x.*")
    change = plan_configs(
        {"retention.ms": "5", "min.insync.replicas": "2", "cleanup.policy": "compact"},
        {"retention.ms": "6", "cleanup.policy": "compact", "segment.ms": "9", "x.y": "1"},
        excluded,
    )
    assert change == ({"retention.ms": "5"}, ["segment.ms"])
    assert plan_configs({"a": "1"}, {"a": "1"}, excluded) == ({}, [])
