"""Joins: two streams within a window (Spark's own), a stream with a table's latest row, two tables."""

import json
from typing import Final, Literal

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from kvorum.pipelines.bridge.ledger import Folder
from kvorum.pipelines.frames import COLUMNS, record_frame
from kvorum.pipelines.streams import functions
from kvorum.pipelines.streams.aggregates import timed, untimed_order
from kvorum.pipelines.streams.errors import TopologyError
from kvorum.pipelines.streams.functions import Expression
from kvorum.pipelines.streams.nodes import Mode, Step
from kvorum.pipelines.streams.plan import Query
from kvorum.pipelines.streams.state import (
    JOINED,
    LEFT,
    LOOKED_UP,
    RIGHT,
    Join,
    JoinKind,
    Lookup,
    pack,
    unpack,
    with_state,
)
from kvorum.pipelines.streams.windows import JoinWindows, milliseconds

LOOKED_AT: Final = ("value", "timestamp")
FOLDER: Final = "kvorum-streams"
JOINS: Final = "joins"
"""In a checkpoint, <folder>/joins: the windows of the stream joins that its state was written with."""


def stream_join(
    left: DataFrame, right: DataFrame, *, joiner: Expression, windows: JoinWindows, kind: JoinKind, mode: Mode
) -> DataFrame:
    """Return the pairs of two streams' records. Unmatched records are emitted when their window is closed.

    An outer join is two joins, and costs twice as much as a left join: see `_bucket_join`.
    """
    sides = []
    for name, frame, is_kept in (("left", left, kind != "inner"), ("right", right, kind == "outer")):
        rows = frame.where(F.col("value").isNotNull())
        rows = timed(rows if is_kept else rows.where(F.col("key").isNotNull()), windows)
        sides.append(rows.select(*(F.col(each).alias(f"_{name}_{each}") for each in ("key", *LOOKED_AT))))
    pairs = _bucket_join(sides[0], sides[1], windows, "inner" if kind == "inner" else "left_outer")
    if kind == "outer":
        unmatched = _bucket_join(sides[0], sides[1], windows, "right_outer").where("_left_timestamp IS NULL")
        pairs = pairs.unionByName(unmatched)
    pairs = pairs.select(
        F.coalesce("_left_key", "_right_key").alias("key"),
        F.greatest("_left_timestamp", "_right_timestamp").alias("timestamp"),
        F.col("_left_value").alias("left"),
        F.col("_right_value").alias("right"),
    )
    return record_frame(pairs, value=functions.column(joiner, functions.JOINED))


def table_lookup(
    stream: DataFrame,
    table: DataFrame,
    *,
    joiner: Expression,
    kind: JoinKind,
    selector: Expression | None,
    is_global: bool,
    mode: Mode,
) -> DataFrame:
    """Return each record of a stream with the table's row of that time; nothing comes out when the row changes.

    `selector` makes the key of a global table's row; without it, it is the record's own key.
    """
    key = functions.column(selector or "key")
    if kind == "inner":
        stream = stream.where(key.isNotNull())
    records = _side(stream, LEFT, key, pack(*COLUMNS))
    rows = _side(table.where(F.col("key").isNotNull()), RIGHT, F.col("key"), _row("value"))
    pairs = with_state(records.unionByName(rows), Lookup(kind, is_table_first=is_global), LOOKED_UP, mode)
    record = unpack("left", {name: stream.schema[name].dataType for name in COLUMNS})
    row = unpack("right", {"value": table.schema["value"].dataType})
    pairs = pairs.select(record.alias("record"), row.getField("value").alias("right"))
    pairs = pairs.select("record.*", F.col("record.value").alias("left"), "right")
    return record_frame(pairs, value=functions.column(joiner, functions.JOINED))


def table_join(left: DataFrame, right: DataFrame, *, joiner: Expression, kind: JoinKind, mode: Mode) -> DataFrame:
    """Return the table of two tables' pairs, as changes: when either row changed, and the end of a pair."""
    sides = [
        _side(frame.where(F.col("key").isNotNull()), side, F.col("key"), _row(*LOOKED_AT))
        for side, frame in ((LEFT, left), (RIGHT, right))
    ]
    pairs = with_state(sides[0].unionByName(sides[1]), Join(kind), JOINED, mode)
    rows = [
        unpack(name, {each: frame.schema[each].dataType for each in LOOKED_AT}).alias(f"_{name}")
        for name, frame in (("left", left), ("right", right))
    ]
    key = unpack("_key", {"key": left.schema["key"].dataType}).getField("key")
    pairs = pairs.select(key.alias("key"), "live", "timestamp", *rows)
    pairs = pairs.select(
        "key",
        "live",
        F.greatest("timestamp", "_left.timestamp", "_right.timestamp").alias("timestamp"),
        F.col("_left.value").alias("left"),
        F.col("_right.value").alias("right"),
    )
    return record_frame(pairs, value=F.when(F.col("live"), functions.column(joiner, functions.JOINED)))


def _bucket_join(
    left: DataFrame, right: DataFrame, windows: JoinWindows, how: Literal["inner", "left_outer", "right_outer"]
) -> DataFrame:
    """Return a join whose key is the record key and a time bucket, so that it costs what is near in time.

    With the record key alone Spark compares all pairs of a key. The records of one side are in the bucket of their
    timestamp. Those of the other side are copied to each bucket that their window reaches, at most two. A pair is
    joined in one bucket only. An outer join emits an unmatched copy once per bucket, so the side whose unmatched
    records are emitted is never the copied one.
    """
    before, after = (milliseconds(each) for each in (windows.before_by, windows.after_by))
    size = bucket_micros(windows)
    left_micros, right_micros = F.unix_micros("_left_timestamp"), F.unix_micros("_right_timestamp")
    # Null keys match nothing; in the state of an outer join Spark takes them for equal.
    if how == "right_outer":
        left = left.where("_left_key IS NOT NULL").withColumn(
            "_left_bucket", _reached(left_micros, before, after, size)
        )
        right = right.withColumn("_right_bucket", _bucket(right_micros, size))
    else:
        left = left.withColumn("_left_bucket", _bucket(left_micros, size))
        right = right.where("_right_key IS NOT NULL").withColumn(
            "_right_bucket", _reached(right_micros, after, before, size)
        )
    condition = F.expr(
        "_left_key = _right_key AND _left_bucket = _right_bucket"
        f" AND _right_timestamp >= _left_timestamp - INTERVAL {before} MILLISECONDS"
        f" AND _right_timestamp <= _left_timestamp + INTERVAL {after} MILLISECONDS"
    )
    return left.join(right, condition, how)


def bucket_micros(windows: JoinWindows) -> int:
    """Return the size of a join's time buckets in microseconds: the length of the window, at least 1.

    Smaller buckets mean more copies of a record, larger ones more pairs that the window rejects.
    """
    return max(1, 1000 * (milliseconds(windows.before_by) + milliseconds(windows.after_by)))


def _bucket(micros: Column, size: int) -> Column:
    """Return the start of the bucket of a time in microseconds."""
    return micros - F.pmod(micros, F.lit(size).cast("bigint"))


def _reached(micros: Column, before_ms: int, after_ms: int, size: int) -> Column:
    """Return a row for each bucket from `before_ms` before a time to `after_ms` after it."""
    first, last = _bucket(micros - 1000 * before_ms, size), _bucket(micros + 1000 * after_ms, size)
    return F.explode(F.sequence(first, last, F.lit(size).cast("bigint")))


def check_state(spark: SparkSession, checkpoint: str, query: Query) -> None:
    """Record the windows of a new checkpoint's stream joins, check those of an existing one. Raises TopologyError.

    The time buckets are part of the key of a join's state: records in state with other buckets would be missed without
    an error.
    """
    steps = {node.name: node.operation for node in query.nodes() if isinstance(node.operation, Step)}
    joins = {name: step.join_windows for name, step in steps.items() if step.join_windows is not None}
    if not joins:
        return
    folder = Folder(spark, checkpoint, FOLDER)
    recorded = folder.read(JOINS)
    if folder.listed(f"{checkpoint}/offsets"):
        reason = difference(recorded, joins)
        if reason is not None:
            raise TopologyError(
                f"query {query.name} cannot continue from checkpoint {checkpoint}: {reason}; use a new application_id,"
                " which processes the input topics from their start, or run the previous version"
            )
    elif recorded != described(joins):
        folder.remove(JOINS)
        folder.write(JOINS, described(joins))


def described(joins: dict[str, JoinWindows]) -> str:
    """Return the windows of a query's joins, in the order of its nodes, as JSON."""
    return json.dumps([[milliseconds(each.before_by), milliseconds(each.after_by)] for each in joins.values()])


def difference(recorded: str | None, joins: dict[str, JoinWindows]) -> str | None:
    """Return why state with the recorded windows does not fit the joins; None if it does."""
    if recorded == described(joins):
        return None
    if recorded is None:
        return "its stream joins have no time buckets in their state, which an earlier version of Kvorum wrote"
    return f"its state has joins of [before, after] ms {recorded}, {', '.join(joins)} now has {described(joins)}"


def _side(frame: DataFrame, side: int, key: Column, payload: Column) -> DataFrame:
    # Packed under one name, whatever the column is called, so that both sides' keys are equal strings.
    packed_key = pack(key.alias("key")).alias("_key")
    return frame.select(packed_key, F.lit(side).alias("_side"), payload.alias("_payload"), *untimed_order())


def _row(*columns: str) -> Column:
    """Return a table's row, null for a tombstone."""
    return F.when(F.col("value").isNotNull(), pack(*columns))
