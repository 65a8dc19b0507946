"""State that Kvorum keeps itself, in Spark's Row API: the latest rows of tables, and aggregates in Python.

Rows come in groups of `_key` (the packed key) and carry `_side`, `_payload` (packed, null for a tombstone), and the
record's `timestamp`, `partition` and `offset`, which define the order. The rows of one key in one micro-batch are
held in memory.

Keys, payloads and state are JSON strings, as the records of internal topics: a string costs Python nothing to look at,
can be read with Spark's own state reader, and outlives a new field in the schema: it is null then, in what was kept
before. Both ways go through Spark's native expressions. What cannot be packed is a map whose keys are not strings.
"""

import heapq
import json
from collections.abc import Generator, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Final, Literal

from pyspark.sql import Column, DataFrame, Row
from pyspark.sql import functions as F
from pyspark.sql.streaming.stateful_processor import (
    ExpiredTimerInfo,
    StatefulProcessor,
    StatefulProcessorHandle,
    TimerValues,
)
from pyspark.sql.types import DataType, StringType, StructField, StructType
from typing_extensions import override

from kvorum.pipelines.formats.base import EXACT_TIMES
from kvorum.pipelines.streams.topology import Mode

JoinKind = Literal["inner", "left", "outer"]
LEFT: Final = 0
RIGHT: Final = 1
"""A lookup's stream is left, its table right."""

LOOKED_UP: Final = "left STRING, right STRING"
JOINED: Final = "_key STRING, left STRING, right STRING, live BOOLEAN, timestamp TIMESTAMP"
CHANGED: Final = "old STRING, new STRING"
AGGREGATED: Final = "_key STRING, packed STRING, timestamp TIMESTAMP"

ROW: Final = StructType([StructField("payload", StringType())])
ROWS: Final = StructType([StructField("left", StringType()), StructField("right", StringType())])
EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
MILLISECOND: Final = timedelta(milliseconds=1)
NEVER_MS: Final = 0
"""The watermark before there is one."""


def pack(*columns: Column | str) -> Column:
    """Return one JSON object of columns under their names; equal columns make equal strings."""
    return F.to_json(F.struct(*columns), EXACT_TIMES)


def unpack(packed: Column | str, fields: Mapping[str, DataType]) -> Column:
    """Return the struct of what was packed; null for null."""
    schema = StructType([StructField(name, kind) for name, kind in fields.items()])
    return F.from_json(packed, schema, {**EXACT_TIMES, "mode": "FAILFAST"})


def unpack_one(packed: Column | str, name: str, kind: DataType) -> Column:
    """Return the only column that was packed, by the name it had."""
    return unpack(packed, {name: kind}).getField(name)


def with_state(
    rows: DataFrame, processor: StatefulProcessor, output: str | StructType, mode: Mode, time: str = "None"
) -> DataFrame:
    """Return what a processor makes of rows, key by key of their packed key."""
    return rows.groupBy("_key").transformWithState(
        statefulProcessor=processor, outputStructType=output, outputMode=mode, timeMode=time
    )


def untimed_order() -> tuple[Column, Column, Column]:
    """Return the columns that order a key's records, the timestamp without its watermark.

    With one Spark would drop rows that are late, but in time for their window.
    """
    return F.timestamp_micros(F.unix_micros("timestamp")).alias("timestamp"), F.col("partition"), F.col("offset")


def in_order(rows: Iterator[Row]) -> list[Row]:
    """Return a key's rows of a micro-batch as its partition has them; where they are of several, by time."""
    listed = list(rows)
    if len({row["partition"] for row in listed}) > 1:
        return sorted(listed, key=lambda row: (row["timestamp"] or EPOCH, row["partition"] or 0, row["offset"] or 0))
    return sorted(listed, key=lambda row: row["offset"] or 0)


def millis(time: datetime | None) -> int:
    """Return a time in ms since the epoch; Arrow brings it in UTC, without a zone."""
    return 0 if time is None else (time.replace(tzinfo=time.tzinfo or UTC) - EPOCH) // MILLISECOND


def merged(rows: Iterator[Row], *, is_table_first: bool = False) -> Iterator[Row]:
    """Yield both sides' rows, each side in its order, the older of the two next; the right side's where equally old."""
    sides: tuple[list[Row], list[Row]] = ([], [])
    for row in rows:
        sides[row["_side"]].append(row)
    left, right = (in_order(iter(side)) for side in sides)
    by_time = heapq.merge(right, left, key=lambda row: row["timestamp"] or EPOCH)
    yield from (*right, *left) if is_table_first else by_time


class Changes(StatefulProcessor):
    """Keeps a table's row, and yields it as it was and as it is."""

    @override
    def init(self, handle: StatefulProcessorHandle) -> None:
        self._row = handle.getValueState("row", ROW)

    @override
    def handleInputRows(self, key: Any, rows: Iterator[Any], timerValues: TimerValues) -> Iterator[Any]:
        kept = self._row.get()
        before = None if kept is None else kept[0]
        latest = yield from self._made(rows, before)
        if latest is None and before is not None:
            self._row.clear()
        elif latest != before:
            self._row.update((latest,))

    def _made(self, rows: Iterator[Any], latest: str | None) -> Generator[Row, None, str | None]:
        """Yield the results of a key's rows, and return the table's row after them."""
        for row in in_order(rows):
            old, latest = latest, row["_payload"]
            if old is not None or latest is not None:
                yield Row(old=old, new=latest)
        return latest


class Lookup(Changes):
    """Keeps a table's row, and pairs each record of a stream with it."""

    def __init__(self, kind: JoinKind, is_table_first: bool) -> None:
        """Take which pairs there are, and whether the table's rows precede all records of a micro-batch."""
        self._needs_row = kind == "inner"
        self._is_table_first = is_table_first

    @override
    def _made(self, rows: Iterator[Any], latest: str | None) -> Generator[Row, None, str | None]:
        for row in merged(rows, is_table_first=self._is_table_first):
            if row["_side"] == RIGHT:
                latest = row["_payload"]
            elif latest is not None or not self._needs_row:
                yield Row(left=row["_payload"], right=latest)
        return latest


class Join(StatefulProcessor):
    """Keeps the rows of two tables, and yields their pair when either changed, or its end when there is none now."""

    def __init__(self, kind: JoinKind) -> None:
        """Take which pairs there are."""
        self._kind = kind

    @override
    def init(self, handle: StatefulProcessorHandle) -> None:
        self._rows = handle.getValueState("rows", ROWS)

    @override
    def handleInputRows(self, key: Any, rows: Iterator[Any], timerValues: TimerValues) -> Iterator[Any]:
        sides: list[str | None] = list(self._rows.get() or (None, None))
        for row in merged(rows):
            was_live = self._is_live(sides)
            sides[row["_side"]] = row["_payload"]
            is_live = self._is_live(sides)
            if was_live or is_live:
                yield Row(_key=key[0], left=sides[LEFT], right=sides[RIGHT], live=is_live, timestamp=row["timestamp"])
        self._rows.clear() if sides == [None, None] else self._rows.update(tuple(sides))

    def _is_live(self, sides: list[str | None]) -> bool:
        wanted = {"inner": None not in sides, "left": sides[LEFT] is not None, "outer": sides != [None, None]}
        return wanted[self._kind]


@dataclass(frozen=True, slots=True, kw_only=True)
class Python:
    """Python functions that a native aggregate cannot express, with the type of what they keep.

    `adder(key, value, aggregate)` and, for tables, `subtractor` of the same form return the new aggregate; without an
    initializer the first value is the aggregate (Kafka's reduce).
    """

    initializer: Any
    adder: Any
    subtractor: Any = None
    schema: str | None = None


class PythonAggregate(StatefulProcessor):
    """Keeps an aggregate that Python functions make; yields it once a micro-batch, or once its window is closed.

    Rows have `key`, `value`, `_sign` (-1: leaves the group) and `_end_ms`, the end of their window or null.
    """

    def __init__(self, functions: Python, is_final: bool) -> None:
        """Store the functions, and whether results are emitted for closed windows only."""
        self._functions = functions
        self._is_final = is_final

    @override
    def init(self, handle: StatefulProcessorHandle) -> None:
        self._handle = handle
        self._state = handle.getValueState("aggregate", ROW)

    @override
    def handleInputRows(self, key: Any, rows: Iterator[Any], timerValues: TimerValues) -> Iterator[Any]:
        kept = self._state.get()
        packed: dict[str, Any] = {} if kept is None else json.loads(kept[0])
        has_changed = False
        for row in in_order(rows):
            end_ms = row["_end_ms"]
            if end_ms is not None:
                if end_ms <= max(timerValues.getCurrentWatermarkInMs(), NEVER_MS):
                    continue  # too late: the window is closed
                if not packed:
                    self._handle.registerTimer(end_ms)
            packed = {
                "value": self._with(row, packed.get("value")),
                "at_ms": max(packed.get("at_ms", 0), millis(row["timestamp"])),
            }
            has_changed = True
        if has_changed:
            self._state.update((json.dumps(packed),))
            if not self._is_final:
                yield _aggregated(key[0], packed)

    @override
    def handleExpiredTimer(self, key: Any, timerValues: TimerValues, expiredTimerInfo: ExpiredTimerInfo) -> Any:
        kept = self._state.get()
        self._state.clear()
        if self._is_final and kept is not None:
            yield _aggregated(key[0], json.loads(kept[0]))

    def _with(self, row: Row, aggregate: Any) -> Any:
        functions = self._functions
        if aggregate is None and functions.initializer is None:
            return row["value"] if row["_sign"] > 0 else None
        if aggregate is None:
            aggregate = functions.initializer()
        function = functions.adder if row["_sign"] > 0 else functions.subtractor
        return function(row["key"], row["value"], aggregate)


def _aggregated(key: str, packed: dict[str, Any]) -> Row:
    text = json.dumps({"value": packed.get("value")})
    return Row(_key=key, packed=text, timestamp=EPOCH + packed["at_ms"] * MILLISECOND)
