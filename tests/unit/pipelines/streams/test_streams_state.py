"""What is kept in state, record by record, with Spark's state replaced by a variable."""

import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from pyspark.sql import Row
from pyspark.sql.streaming.stateful_processor import ExpiredTimerInfo, TimerValues

from kvorum.pipelines.streams.state import (
    LEFT,
    RIGHT,
    Changes,
    Join,
    Lookup,
    Python,
    PythonAggregate,
    merged,
)

KEY = ('{"key":"k"}',)
NOW = TimerValues(1_000_000, 0)


class Value:
    """A ValueState of one key."""

    def __init__(self) -> None:
        self.kept: tuple[Any, ...] | None = None

    def get(self) -> tuple[Any, ...] | None:
        return self.kept

    def update(self, value: tuple[Any, ...]) -> None:
        self.kept = value

    def clear(self) -> None:
        self.kept = None


class Handle:
    """A handle whose states and timers can be looked at."""

    def __init__(self) -> None:
        self.states: dict[str, Value] = {}
        self.timers: list[int] = []

    def getValueState(self, name: str, schema: object) -> Value:
        return self.states.setdefault(name, Value())

    def registerTimer(self, at_ms: int) -> None:
        self.timers.append(at_ms)

    def deleteTimer(self, at_ms: int) -> None:
        self.timers.remove(at_ms)


def at(ms: int) -> datetime:
    return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=ms)


def row(side: int, payload: str | None, ms: int, offset: int | None = None, partition: int | None = 0) -> Row:
    return Row(
        _side=side, _payload=payload, timestamp=at(ms), partition=partition, offset=ms if offset is None else offset
    )


def batches(processor: Any, *rows: list[Row]) -> Iterator[list[Row]]:
    """Yield what comes of each micro-batch."""
    handle = Handle()
    processor.init(handle)
    for each in rows:
        yield list(processor.handleInputRows(KEY, iter(each), NOW))


def test_a_record_meets_the_row_of_its_time_whatever_order_the_batch_has() -> None:
    rows = [row(LEFT, "s5", 5), row(RIGHT, "t4", 4), row(LEFT, "s1", 1), row(RIGHT, "t3", 3), row(LEFT, "s3", 3)]
    (found,) = batches(Lookup("left", is_table_first=False), rows)
    assert [(each.left, each.right) for each in found] == [("s1", None), ("s3", "t3"), ("s5", "t4")]


def test_a_row_stays_for_later_batches_and_a_tombstone_ends_it() -> None:
    steps = [row(RIGHT, "t", 1)], [row(LEFT, "a", 2)], [row(RIGHT, None, 3)], [row(LEFT, "b", 4)]
    found = list(batches(Lookup("inner", is_table_first=False), *steps))
    assert [[(each.left, each.right) for each in step] for step in found] == [[], [("a", "t")], [], []]


def test_a_global_tables_rows_come_first() -> None:
    (found,) = batches(Lookup("inner", is_table_first=True), [row(LEFT, "a", 1), row(RIGHT, "t", 9)])
    assert [(each.left, each.right) for each in found] == [("a", "t")]


def test_the_last_row_by_offset_counts_even_if_its_time_is_earlier() -> None:
    """As in Kafka's stores without versions."""
    rows = [row(RIGHT, "new", 1, offset=8), row(RIGHT, "old", 5, offset=7), row(LEFT, "a", 9)]
    (found,) = batches(Lookup("inner", is_table_first=False), rows)
    assert [each.right for each in found] == ["new"]


def test_rows_of_several_partitions_are_ordered_by_time() -> None:
    rows = [row(LEFT, "b", 2, offset=1, partition=0), row(LEFT, "a", 1, offset=9, partition=1)]
    assert [each._payload for each in merged(iter(rows))] == ["a", "b"]


TABLE_STEPS = [
    (LEFT, "l1"),
    (RIGHT, "r1"),
    (LEFT, "l2"),
    (LEFT, None),
    (RIGHT, None),
    (RIGHT, "r2"),
    (RIGHT, None),
]


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        ("inner", [None, "l1r1", "l2r1", "end", None, None, None]),
        ("left", ["l1-", "l1r1", "l2r1", "end", None, None, None]),
        ("outer", ["l1-", "l1r1", "l2r1", "-r1", "end", "-r2", "end"]),
    ],
)
@pytest.mark.parametrize("is_one_batch", [True, False])
def test_two_tables_rows_are_joined_changed_and_ended(
    kind: Any, expected: list[str | None], is_one_batch: bool
) -> None:
    rows = [row(side, payload, ms) for ms, (side, payload) in enumerate(TABLE_STEPS, 1)]
    steps = [rows] if is_one_batch else [[each] for each in rows]
    found = [each for step in batches(Join(kind), *steps) for each in step]
    texts = [f"{each.left or '-'}{each.right or '-'}" if each.live else "end" for each in found]
    assert texts == [text for text in expected if text is not None]


def test_a_changed_row_is_told_as_it_was_and_as_it_is() -> None:
    found = list(batches(Changes(), [row(LEFT, "a", 1), row(LEFT, "b", 2)], [row(LEFT, None, 3), row(LEFT, None, 4)]))
    assert [[(each.old, each.new) for each in step] for step in found] == [[(None, "a"), ("a", "b")], [("b", None)]]


def summed(key: Any, value: Any, aggregate: Any) -> Any:
    return aggregate + value


def number(value: int, ms: int, sign: int = 1, end_ms: int | None = None) -> Row:
    return Row(key="k", value=value, _sign=sign, _end_ms=end_ms, timestamp=at(ms), partition=0, offset=ms)


def values(rows: list[Row]) -> list[Any]:
    return [json.loads(each.packed)["value"] for each in rows]


def test_an_aggregate_in_python_goes_out_once_a_batch_and_is_kept() -> None:
    functions = Python(initializer=lambda: 100, adder=summed)
    first, second = batches(PythonAggregate(functions, False), [number(1, 5), number(2, 3)], [number(3, 4)])
    assert values(first) == [103] and values(second) == [106]
    assert second[0].timestamp == at(5), "an aggregate is as old as the youngest of its records"


def test_a_reducer_begins_with_the_first_value_in_order() -> None:
    functions = Python(initializer=None, adder=lambda key, value, aggregate: f"{aggregate}{value}")
    (found,) = batches(PythonAggregate(functions, False), [number(2, 20), number(1, 10), number(3, 30)])
    assert values(found) == ["123"]


def test_what_leaves_a_group_is_subtracted() -> None:
    functions = Python(initializer=int, adder=summed, subtractor=lambda key, value, aggregate: aggregate - value)
    found = list(batches(PythonAggregate(functions, False), [number(5, 1), number(7, 2)], [number(5, 3, sign=-1)]))
    assert [values(step) for step in found] == [[12], [7]]


def test_a_window_that_closes_goes_out_once_and_takes_nothing_more() -> None:
    processor, handle = PythonAggregate(Python(initializer=int, adder=summed), True), Handle()
    processor.init(handle)  # type: ignore[arg-type]
    assert list(processor.handleInputRows(KEY, iter([number(1, 1, end_ms=10), number(2, 2, end_ms=10)]), NOW)) == []
    assert handle.timers == [10]
    closed = TimerValues(1_000_000, 10)
    found = list(processor.handleExpiredTimer(KEY, closed, ExpiredTimerInfo(10)))
    assert values(found) == [3] and handle.states["aggregate"].kept is None
    assert list(processor.handleInputRows(KEY, iter([number(9, 9, end_ms=10)]), closed)) == []
    assert handle.states["aggregate"].kept is None
