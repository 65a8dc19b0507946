"""Aggregates: by key, by key and window, by session, and of a table's groups; native, or in Python functions."""

from collections.abc import Callable
from functools import partial
from typing import Any, Final, assert_never

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import DataType

from kvorum.pipelines.frames import fenced, record_frame
from kvorum.pipelines.streams import functions
from kvorum.pipelines.streams.errors import TopologyError
from kvorum.pipelines.streams.functions import Expression
from kvorum.pipelines.streams.nodes import APPEND, UPDATE, Load, Mode, Step
from kvorum.pipelines.streams.state import (
    AGGREGATED,
    CHANGED,
    Changes,
    Python,
    PythonAggregate,
    pack,
    unpack,
    with_state,
)
from kvorum.pipelines.streams.windows import JoinWindows, SessionWindows, TimeWindows, Windows, interval, milliseconds

WINDOW: Final = "_window"


def aggregate_step(function: Expression | Python, windows: Windows | None, *, is_final: bool) -> Step:
    """Return the step to a table of aggregates by key, or by key and window.

    `function` is an expression of Spark's aggregate functions over `key` and `value`, or Python. `is_final`: one record
    a window, when it is closed; otherwise one for each micro-batch that changed it.
    """
    is_timed = windows is not None
    load = Load(modes=UPDATE, has_state=True, is_timed=is_timed)
    if is_final:
        load = Load(modes=APPEND, has_state=True, is_timed=True)
    if isinstance(function, Python):
        load = Load(has_state=True, is_timed=is_timed)
    return Step(
        function=partial(aggregate, function=function, windows=windows, is_final=is_final),
        load=load,
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
    table = rows.groupBy("key", _window(windows).alias(WINDOW)).agg(*columns)
    return record_frame(table, key=F.struct("key", _bounds(windows).alias("window")))


def table_aggregate(
    frame: DataFrame, *, selector: Callable[..., Any], function: Python | None, mode: Mode
) -> DataFrame:
    """Return the table of a table's groups; without a function, how many rows each has.

    A changed row leaves its old group and joins its new one.
    """
    table = frame.where(F.col("key").isNotNull())
    fields = {name: table.schema[name].dataType for name in ("key", "value", "timestamp", "partition", "offset")}
    payload = F.when(F.col("value").isNotNull(), pack(*fields))
    rows = table.select(pack("key").alias("_key"), payload.alias("_payload"), *untimed_order())
    changes = with_state(rows, Changes(), CHANGED, mode)
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


def untimed_order() -> tuple[Column, Column, Column]:
    """Return the columns that order a key's records, the timestamp without its watermark.

    With one Spark would drop rows that are late, but in time for their window.
    """
    return F.timestamp_micros(F.unix_micros("timestamp")).alias("timestamp"), F.col("partition"), F.col("offset")


def _window(windows: Windows) -> Column:
    match windows:
        case TimeWindows():
            return F.window("timestamp", interval(windows.size), interval(windows.advance))
        case SessionWindows():
            # As in Kafka a record that comes just one gap after another one joins its session.
            return F.session_window("timestamp", interval(windows.inactivity_gap))
        case _:
            assert_never(windows)


def _bounds(windows: Windows) -> Column:
    if isinstance(windows, TimeWindows):
        return F.col(WINDOW)
    # Kafka's session ends with its last record, Spark's when nothing more can join it.
    rest = F.expr(f"INTERVAL '{milliseconds(windows.inactivity_gap)}' MILLISECOND")
    return F.struct(F.col(f"{WINDOW}.start").alias("start"), (F.col(f"{WINDOW}.end") - rest).alias("end"))


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
    made = with_state(rows, PythonAggregate(python, is_final), AGGREGATED, mode, time)
    key = unpack("_key", {"key": key_type}).getField("key")
    value = unpack("packed", {"value": value_type}).getField("value")
    return record_frame(made, key=key, value=value)
