"""Operators with state as functions of DataFrames: aggregates by key, window, session and of a table's groups; joins.

Joins are of two streams within a window (Spark's own), of a stream with a table's latest row, and of two tables.
"""

import json
from collections.abc import Callable
from functools import partial
from typing import Any, Final, Literal

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import DataType

from kvorum.pipelines.bridge.ledger import Folder
from kvorum.pipelines.frames import COLUMNS, fenced, record_frame
from kvorum.pipelines.streams import functions, state
from kvorum.pipelines.streams.functions import Expression, TopologyError
from kvorum.pipelines.streams.state import JoinKind, Python, pack, unpack, unpack_one, untimed_order, with_state
from kvorum.pipelines.streams.topology import APPEND, BOTH, UPDATE, Load, Mode, Query, Step
from kvorum.pipelines.streams.windows import JoinWindows, SessionWindows, TimeWindows, Windows, interval, milliseconds

WINDOW: Final = "_window"
LOOKED_AT: Final = ("value", "timestamp")
FOLDER: Final = "kvorum-streams"
JOINS: Final = "joins"
"""In a checkpoint, <folder>/joins: the windows of the stream joins that its state was written with."""


def aggregate_step(function: Expression | Python, windows: Windows | None, *, is_final: bool) -> Step:
    """Return the step to a table of aggregates by key, or by key and window.

    `function` is an expression of Spark's aggregate functions over `key` and `value`, or Python. `is_final`: one record
    a window, when it is closed; otherwise one for each micro-batch that changed it.
    """
    is_timed = windows is not None
    modes = BOTH if isinstance(function, Python) else APPEND if is_final else UPDATE
    return Step(
        function=partial(aggregate, function=function, windows=windows, is_final=is_final),
        load=Load(modes, has_state=True, is_timed=is_timed),
        final=partial(aggregate_step, function, windows, is_final=True) if is_timed else None,
    )


def aggregate(
    frame: DataFrame, *, function: Expression | Python, windows: Windows | None, is_final: bool, mode: Mode
) -> DataFrame:
    """Return the table of a stream's aggregates, as changes. Records with a null key or value take no part."""
    rows = frame.where(F.col("key").isNotNull() & F.col("value").isNotNull())
    if windows is not None:
        rows = timed(rows, windows)
    if isinstance(function, Python):
        return _in_python(rows.withColumn("_sign", F.lit(1)), function, windows, is_final, mode)
    # The value's aggregate functions see `key` and `value`; a record's time is the latest of those it is made of.
    columns = functions.column(function).alias("value"), F.max("timestamp").alias("timestamp")
    if windows is None:
        return record_frame(rows.groupBy("key").agg(*columns))
    if isinstance(windows, TimeWindows):
        window, bounds = _window(windows), F.col(WINDOW)
    else:
        # As in Kafka a record that comes just one gap after another one joins its session, and a session ends with its
        # last record; Spark's ends when nothing more can join it.
        window = F.session_window("timestamp", interval(windows.inactivity_gap))
        rest = F.expr(f"INTERVAL '{milliseconds(windows.inactivity_gap)}' MILLISECOND")
        end = F.col(f"{WINDOW}.end") - rest
        bounds = F.struct(F.col(f"{WINDOW}.start").alias("start"), end.alias("end"))
    table = rows.groupBy("key", window.alias(WINDOW)).agg(*columns)
    return record_frame(table, key=F.struct("key", bounds.alias("window")))


def table_aggregate(
    frame: DataFrame, *, selector: Callable[..., Any], function: Python | None, mode: Mode
) -> DataFrame:
    """Return the table of a table's groups; without a function, how many rows each has.

    A changed row leaves its old group and joins its new one.
    """
    table = frame.where(F.col("key").isNotNull())
    fields = {name: table.schema[name].dataType for name in ("key", "value", "timestamp", "partition", "offset")}
    rows = table.select(pack("key").alias("_key"), _row(*fields).alias("_payload"), *untimed_order())
    changes = with_state(rows, state.Changes(), state.CHANGED, mode)
    both = [
        F.struct(unpack(name, fields).alias("row"), F.lit(sign).alias("_sign"))
        for name, sign in (("old", -1), ("new", 1))
    ]
    rows = changes.select(F.explode(F.array(*both)).alias("each")).where("each.row IS NOT NULL")
    rows = rows.select("each.row.*", F.col("each._sign").alias("_sign"))
    rows = rows.withColumns(functions.pair(selector))
    rows = rows.where(F.col("key").isNotNull() & F.col("value").isNotNull())
    if function is not None:
        return _in_python(rows, function, None, False, mode)
    counted = F.sum("_sign").alias("value"), F.max("timestamp").alias("timestamp")
    return record_frame(rows.groupBy("key").agg(*counted))


def timed(rows: DataFrame, windows: Windows | JoinWindows) -> DataFrame:
    """Return the rows with a watermark that all of them move, whatever is filtered out behind the operator.

    Without the fences Spark moves a later filter below the watermark, and time would go by what passes the filter.
    """
    moved = rows.withWatermark("timestamp", interval(windows.grace))
    return moved.withColumns({name: fenced(F.col(name)) for name in ("key", "value")})


def _window(windows: TimeWindows) -> Column:
    return F.window("timestamp", interval(windows.size), interval(windows.advance))


def _in_python(rows: DataFrame, python: Python, windows: Windows | None, is_final: bool, mode: Mode) -> DataFrame:
    """Return the table of aggregates in Python; rows with the `_sign` -1 leave their group."""
    if isinstance(windows, SessionWindows):
        raise TopologyError("sessions are aggregated by expressions, not by Python functions")
    group, end_ms = F.col("key"), F.lit(None).cast("bigint")
    if windows is not None:
        # The window column is made first: it would not be found among the columns of a struct.
        rows = rows.withColumn(WINDOW, _window(windows))
        group, end_ms = F.struct("key", F.col(WINDOW).alias("window")), F.unix_millis(f"{WINDOW}.end")
    key_type = rows.select(group.alias("key")).schema["key"].dataType
    value_type = DataType.fromDDL(python.schema) if python.schema else rows.schema["value"].dataType
    packed = pack(group.alias("key")).alias("_key")
    rows = rows.select(packed, "key", "value", "_sign", end_ms.alias("_end_ms"), *untimed_order())
    time = "None" if windows is None else "EventTime"
    made = with_state(rows, state.PythonAggregate(python, is_final), state.AGGREGATED, mode, time)
    key = unpack_one("_key", "key", key_type)
    value = unpack_one("packed", "value", value_type)
    return record_frame(made, key=key, value=value)


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


def _bucket_join(
    left: DataFrame, right: DataFrame, windows: JoinWindows, how: Literal["inner", "left_outer", "right_outer"]
) -> DataFrame:
    """Return a join whose key is the record key and a time bucket, so that it costs what is near in time.

    With the record key alone Spark compares all pairs of a key. The records of one side are in the bucket of their
    timestamp. Those of the other side are copied to each bucket that their window reaches, at most two. A pair is
    joined in one bucket only. An outer join emits an unmatched copy once per bucket, so the side whose unmatched
    records are emitted is never the copied one.
    """
    before, after = windows.bounds_ms()
    size = bucket_micros(windows)
    left_micros, right_micros = F.unix_micros("_left_timestamp"), F.unix_micros("_right_timestamp")
    # Null keys match nothing; in the state of an outer join Spark takes them for equal.
    if how == "right_outer":
        reached = _reached(left_micros, before, after, size)
        left = left.where("_left_key IS NOT NULL").withColumn("_left_bucket", reached)
        right = right.withColumn("_right_bucket", _bucket(right_micros, size))
    else:
        left = left.withColumn("_left_bucket", _bucket(left_micros, size))
        reached = _reached(right_micros, after, before, size)
        right = right.where("_right_key IS NOT NULL").withColumn("_right_bucket", reached)
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
    return max(1, 1000 * sum(windows.bounds_ms()))


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
    return json.dumps([each.bounds_ms() for each in joins.values()])


def difference(recorded: str | None, joins: dict[str, JoinWindows]) -> str | None:
    """Return why state with the recorded windows does not fit the joins; None if it does."""
    if recorded == described(joins):
        return None
    return f"its state has joins of [before, after] ms {recorded}, {', '.join(joins)} now has {described(joins)}"


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
    records = _side(stream, state.LEFT, key, pack(*COLUMNS))
    rows = _side(table.where(F.col("key").isNotNull()), state.RIGHT, F.col("key"), _row("value"))
    pairs = with_state(records.unionByName(rows), state.Lookup(kind, is_table_first=is_global), state.LOOKED_UP, mode)
    record = unpack("left", {name: stream.schema[name].dataType for name in COLUMNS})
    row = unpack_one("right", "value", table.schema["value"].dataType)
    pairs = pairs.select(record.alias("record"), row.alias("right"))
    pairs = pairs.select("record.*", F.col("record.value").alias("left"), "right")
    return record_frame(pairs, value=functions.column(joiner, functions.JOINED))


def table_join(left: DataFrame, right: DataFrame, *, joiner: Expression, kind: JoinKind, mode: Mode) -> DataFrame:
    """Return the table of two tables' pairs, as changes: when either row changed, and the end of a pair."""
    sides = [
        _side(frame.where(F.col("key").isNotNull()), side, F.col("key"), _row(*LOOKED_AT))
        for side, frame in ((state.LEFT, left), (state.RIGHT, right))
    ]
    pairs = with_state(sides[0].unionByName(sides[1]), state.Join(kind), state.JOINED, mode)
    rows = [
        unpack(name, {each: frame.schema[each].dataType for each in LOOKED_AT}).alias(f"_{name}")
        for name, frame in (("left", left), ("right", right))
    ]
    key = unpack_one("_key", "key", left.schema["key"].dataType)
    pairs = pairs.select(key.alias("key"), "live", "timestamp", *rows)
    pairs = pairs.select(
        "key",
        "live",
        F.greatest("timestamp", "_left.timestamp", "_right.timestamp").alias("timestamp"),
        F.col("_left.value").alias("left"),
        F.col("_right.value").alias("right"),
    )
    return record_frame(pairs, value=F.when(F.col("live"), functions.column(joiner, functions.JOINED)))


def _side(frame: DataFrame, side: int, key: Column, payload: Column) -> DataFrame:
    # Packed under one name, whatever the column is called, so that both sides' keys are equal strings.
    packed_key = pack(key.alias("key")).alias("_key")
    return frame.select(packed_key, F.lit(side).alias("_side"), payload.alias("_payload"), *untimed_order())


def _row(*columns: str) -> Column:
    """Return a table's row, null for a tombstone."""
    return F.when(F.col("value").isNotNull(), pack(*columns))
