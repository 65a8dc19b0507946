"""Joins: two streams within a window (Spark's own), a stream with a table's latest row, two tables."""

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from kvorum.pipelines.frames import COLUMNS, record_frame
from kvorum.pipelines.streams import functions
from kvorum.pipelines.streams.compiler import state
from kvorum.pipelines.streams.compiler.aggregates import timed
from kvorum.pipelines.streams.nodes import StreamJoin, TableJoin, TableLookup
from kvorum.pipelines.streams.packed import pack, unpack
from kvorum.pipelines.streams.plan import Mode
from kvorum.pipelines.streams.windows import milliseconds

OUTER = {"inner": "inner", "left": "left_outer", "outer": "full_outer"}
LOOKED_AT = ("value", "timestamp")


def stream_join(left: DataFrame, right: DataFrame, operation: StreamJoin) -> DataFrame:
    """Return the pairs of two streams' records. Those without a counterpart come out when the window is closed."""
    sides = []
    for name, frame, is_kept in (
        ("left", left, operation.kind != "inner"),
        ("right", right, operation.kind == "outer"),
    ):
        rows = frame.where(F.col("value").isNotNull())
        rows = rows if is_kept else rows.where(F.col("key").isNotNull())
        columns = (F.col(each).alias(f"_{name}_{each}") for each in ("key", *LOOKED_AT))
        sides.append(timed(rows, operation.windows).select(*columns))
    before, after = (milliseconds(each) for each in (operation.windows.before_by, operation.windows.after_by))
    condition = F.expr(
        "_left_key = _right_key"
        f" AND _right_timestamp >= _left_timestamp - INTERVAL {before} MILLISECONDS"
        f" AND _right_timestamp <= _left_timestamp + INTERVAL {after} MILLISECONDS"
    )
    pairs = sides[0].join(sides[1], condition, OUTER[operation.kind])
    pairs = pairs.select(
        F.coalesce("_left_key", "_right_key").alias("key"),
        F.greatest("_left_timestamp", "_right_timestamp").alias("timestamp"),
        F.col("_left_value").alias("left"),
        F.col("_right_value").alias("right"),
    )
    return record_frame(pairs, value=functions.column(operation.joiner, functions.JOINED))


def _side(frame: DataFrame, side: int, key: Column | str, payload: Column) -> DataFrame:
    # Packed under one name, whatever the column is called, so that both sides' keys are equal strings.
    packed_key = pack((F.col(key) if isinstance(key, str) else key).alias("key"))
    return frame.select(
        packed_key.alias("_key"),
        F.lit(side).alias("_side"),
        payload.alias("_payload"),
        F.timestamp_micros(F.unix_micros("timestamp")).alias("timestamp"),
        "partition",
        "offset",
    )


def _row(*columns: str) -> Column:
    """Return a table's row, null for a tombstone."""
    return F.when(F.col("value").isNotNull(), pack(*columns))


def table_lookup(
    stream: DataFrame, table: DataFrame, operation: TableLookup, mode: Mode, *, is_global: bool
) -> DataFrame:
    """Return each record of a stream with the table's row of that time; nothing comes out when the row changes."""
    key = functions.column(operation.selector or "key")
    if operation.kind == "inner":
        stream = stream.where(key.isNotNull())
    records = _side(stream, state.LEFT, key, pack(*COLUMNS))
    rows = _side(table.where(F.col("key").isNotNull()), state.RIGHT, "key", _row("value"))
    pairs = (
        records.unionByName(rows)
        .groupBy("_key")
        .transformWithState(
            statefulProcessor=state.Lookup(operation.kind, is_table_first=is_global),
            outputStructType=state.LOOKED_UP,
            outputMode=mode,
            timeMode="None",
        )
    )
    record = unpack("left", {name: stream.schema[name].dataType for name in COLUMNS})
    row = unpack("right", {"value": table.schema["value"].dataType})
    pairs = pairs.select(record.alias("record"), row.getField("value").alias("right"))
    pairs = pairs.select("record.*", F.col("record.value").alias("left"), "right")
    return record_frame(pairs, value=functions.column(operation.joiner, functions.JOINED))


def table_join(left: DataFrame, right: DataFrame, operation: TableJoin, mode: Mode) -> DataFrame:
    """Return the table of two tables' pairs, as changes: when either row changed, and the end of a pair."""
    sides = [
        _side(frame.where(F.col("key").isNotNull()), side, "key", _row(*LOOKED_AT))
        for side, frame in ((state.LEFT, left), (state.RIGHT, right))
    ]
    pairs = (
        sides[0]
        .unionByName(sides[1])
        .groupBy("_key")
        .transformWithState(
            statefulProcessor=state.Join(operation.kind),
            outputStructType=state.JOINED,
            outputMode=mode,
            timeMode="None",
        )
    )
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
    value = F.when(F.col("live"), functions.column(operation.joiner, functions.JOINED))
    return record_frame(pairs, value=value)
