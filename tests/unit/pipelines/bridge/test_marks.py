"""Marks: how they are kept as offsets, and what a task decides by the one it finds."""

import pytest

from kvorum.pipelines.bridge import marks
from kvorum.pipelines.bridge.client import OptionError
from kvorum.pipelines.bridge.marks import NEVER, Mark, MarkError, MarksMissing, Places

PLACES = Places(query="orders", span=3)


def mark(batch_id: int, lineage: str = "here", layout: str = "x") -> Mark:
    return Mark(batch_id=batch_id, lineage=lineage, layout=layout)


WANTED = mark(7)


@pytest.mark.parametrize("kept", [mark(NEVER), mark(0), mark(10**9, layout="staged-é")])
def test_a_mark_is_kept_as_an_offset(kept: Mark) -> None:
    committed = PLACES.committed(4, kept)
    assert (committed.topic, committed.partition) == ("__consumer_offsets", 1)
    assert marks.decode(committed.offset, committed.metadata) == kept


def test_no_offset_is_no_mark_and_anothers_offset_is_an_error() -> None:
    assert marks.decode(-1001, None) is None
    for metadata in (None, "", "x", '{"lineage":"a"}', "[]"):
        with pytest.raises(MarkError, match="is not a mark"):
            marks.decode(5, metadata)


def test_tasks_beyond_the_topics_partitions_go_to_further_groups() -> None:
    assert PLACES.by_group(range(7)) == {
        "kvorum-sink-orders": [0, 1, 2],
        "kvorum-sink-orders:1": [3, 4, 5],
        "kvorum-sink-orders:2": [6],
    }
    assert len({(PLACES.group(task), PLACES.partition(task)) for task in range(100)}) == 100


@pytest.mark.parametrize("name", ["", "a b", "a:1", "ä", "x" * 201])
def test_a_name_that_could_be_anothers_is_refused(name: str) -> None:
    with pytest.raises(OptionError, match="the name of a query"):
        Places(query=name, span=3)


@pytest.mark.parametrize(
    ("found", "expected"),
    [(mark(NEVER), False), (mark(6), False), (mark(6, layout="y"), False), (mark(7), True)],
)
def test_a_task_goes_by_its_mark(found: Mark, expected: bool) -> None:
    assert marks.is_written(found, WANTED, "orders", 0) is expected


@pytest.mark.parametrize(
    ("found", "error", "message"),
    [
        (None, MarksMissing, "its mark is gone"),
        (mark(6, lineage="there"), MarkError, "another query with this name"),
        (mark(8), MarkError, "the checkpoint was restored"),
        (mark(7, layout="y"), MarkError, "rows were assigned to other tasks"),
    ],
)
def test_a_task_that_cannot_tell_stops(found: Mark | None, error: type[MarkError], message: str) -> None:
    with pytest.raises(error, match=message):
        marks.is_written(found, WANTED, "orders", 0)
