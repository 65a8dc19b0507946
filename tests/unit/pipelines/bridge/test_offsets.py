"""Planning: ranges, their division among tasks, the limit of a micro-batch; all of it arithmetic."""

import pickle

import pytest

from kvorum.pipelines.bridge import offsets
from kvorum.pipelines.bridge.offsets import OffsetRange, Offsets, TopicPartition

A, B, C = TopicPartition("a", 0), TopicPartition("a", 1), TopicPartition("b", 0)


def piece(start: int, end: int, where: TopicPartition = A) -> OffsetRange:
    return OffsetRange(topic=where.topic, partition=where.partition, start=start, end=end)


def test_json_is_sparks_and_always_the_same() -> None:
    text = {"a": {"0": 1, "1": 2}, "b": {"0": 3}}
    assert offsets.to_json({C: 3, B: 2, A: 1}) == text and list(offsets.to_json({C: 3, A: 1})) == ["a", "b"]
    assert offsets.from_json(text) == {A: 1, B: 2, C: 3}


def test_the_first_end_knows_where_the_query_began() -> None:
    end = offsets.to_json({A: 5}) | {offsets.BEGUN_AT: offsets.to_json({A: 2})}
    assert offsets.from_json(end) == {A: 5} and offsets.from_json(end[offsets.BEGUN_AT]) == {A: 2}


def test_ranges_leave_out_what_has_nothing_new_and_read_new_partitions_from_the_first_record() -> None:
    assert offsets.ranges({A: 1, B: 5}, {A: 4, B: 5, C: 2}) == [piece(1, 4), piece(0, 2, C)]
    assert offsets.ranges({A: 9}, {A: 4}) == []


def test_a_range_travels() -> None:
    assert pickle.loads(pickle.dumps(piece(1, 4))) == piece(1, 4)
    assert repr(piece(1, 4)) == "a-0[1,4)"


@pytest.mark.parametrize(
    ("whole", "least", "longest", "expected"),
    [
        ([piece(0, 10)], None, None, [(0, 10)]),
        ([piece(0, 10)], 1, None, [(0, 10)]),
        ([piece(0, 10)], 3, None, [(0, 3), (3, 6), (6, 10)]),
        ([piece(0, 2)], 5, None, [(0, 1), (1, 2)]),
        ([piece(5, 15)], None, 4, [(5, 8), (8, 11), (11, 15)]),
        ([piece(0, 90), piece(0, 10, B)], 4, None, [(0, 22), (22, 45), (45, 67), (67, 90), (0, 10)]),
        ([], 4, 4, []),
    ],
)
def test_ranges_are_cut_by_size(
    whole: list[OffsetRange], least: int | None, longest: int | None, expected: list[tuple[int, int]]
) -> None:
    pieces = offsets.split(whole, min_partitions=least, max_records=longest)
    assert [(p.start, p.end) for p in pieces] == expected
    assert offsets.split(whole, min_partitions=least, max_records=longest) == pieces


@pytest.mark.parametrize(
    ("start", "end", "limit", "expected"),
    [
        ({A: 0, B: 0}, {A: 60, B: 40}, 1000, {A: 60, B: 40}),
        ({A: 0, B: 0}, {A: 60, B: 40}, 10, {A: 6, B: 4}),
        ({A: 0, B: 7}, {A: 1000, B: 9}, 10, {A: 9, B: 8}),  # the small one is not forgotten
        ({A: 5}, {A: 5, B: 100}, 10, {A: 5, B: 10}),
        ({A: 9, B: 0}, {A: 3, B: 100}, 10, {A: 3, B: 10}),  # made anew: its end is lower than what was read
    ],
)
def test_a_micro_batch_is_limited_in_proportion(start: Offsets, end: Offsets, limit: int, expected: Offsets) -> None:
    assert offsets.limited(start, end, limit) == expected


def test_what_is_lost_is_seen() -> None:
    assert offsets.lost({A: 1}, {A: 1, B: 4}) is None
    assert "a-1 not there any more" in (offsets.lost({A: 1, B: 2}, {A: 1}) or "")
    assert "a-0: 5 -> 3" in (offsets.lost({A: 5}, {A: 3}) or "")
