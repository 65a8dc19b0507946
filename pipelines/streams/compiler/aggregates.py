"""Aggregates: by key, by key and window, by session, and of a table's groups; native, or in Python functions."""

from typing import assert_never

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import DataType

from kvorum.pipelines.frames import fenced, record_frame
from kvorum.pipelines.streams import functions
from kvorum.pipelines.streams.compiler import state
from kvorum.pipelines.streams.errors import TopologyError
from kvorum.pipelines.streams.nodes import Aggregate, Python, TableAggregate
from kvorum.pipelines.streams.packed import pack, type_of, unpack
from kvorum.pipelines.streams.plan import Mode
from kvorum.pipelines.streams.windows import JoinWindows, SessionWindows, TimeWindows, Windows, interval, milliseconds

WINDOW = "_window"


def aggregate(frame: DataFrame, operation: Aggregate, mode: Mode) -> DataFrame:
    """Return the table of a stream's aggregates, as changes."""
    rows = frame.where(F.col("key").isNotNull() & F.col("value").isNotNull())
    windows = operation.windows
    if windows is not None:
        rows = timed(rows, windows)
    if isinstance(operation.function, Python):
        return _in_python(rows, operation.function, windows, operation.is_final, mode)
    # The value's aggregate functions see `key` and `value`; a record's time is the latest of those it is made of.
    columns = (
        functions.column(operation.function).alias("value"),
        F.max("timestamp").alias("timestamp"),
    )
    if windows is None:
        return record_frame(rows.groupBy("key").agg(*columns))
    table = rows.groupBy("key", _window(windows).alias(WINDOW)).agg(*columns)
    return record_frame(table, key=F.struct("key", _bounds(windows).alias("window")))


def timed(rows: DataFrame, windows: Windows | JoinWindows) -> DataFrame:
    """Return the rows with a watermark that all of them move, whatever is filtered out behind the operator.

    Without the fences Spark moves a later filter below the watermark, and time would go by what passes the filter.
    """
    moved = rows.withWatermark("timestamp", interval(windows.grace))
    return moved.withColumns({name: fenced(F.col(name)) for name in ("key", "value")})


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
    end_ms = F.lit(None).cast("bigint")
    key = F.col("key")
    if isinstance(windows, SessionWindows):
        raise TopologyError("sessions are aggregated by expressions, not by Python functions")
    if windows is not None:
        # The window column is made first: it would not be found among the columns of a struct.
        rows = rows.withColumn(WINDOW, _window(windows))
        key = F.struct("key", F.col(WINDOW).alias("window"))
        end_ms = F.unix_millis(f"{WINDOW}.end")
    key_type = rows.select(key.alias("key")).schema["key"].dataType
    made = rows.select(
        pack(key.alias("key")).alias("_key"),
        "key",
        "value",
        F.lit(1).alias("_sign"),
        end_ms.alias("_end_ms"),
        *_order(),
    )
    value_type = type_of(python.schema) if python.schema else rows.schema["value"].dataType
    return _python_table(made, python, key_type, value_type, windows is not None, is_final, mode)


def _order() -> tuple[Column, Column, Column]:
    # A time without what says that a watermark is on it: Spark would drop rows that are late, but in time for
    # their window.
    timestamp = F.timestamp_micros(F.unix_micros("timestamp")).alias("timestamp")
    return timestamp, F.col("partition"), F.col("offset")


def _python_table(
    rows: DataFrame,
    python: Python,
    key_type: DataType,
    value_type: DataType,
    is_timed: bool,
    is_final: bool,
    mode: Mode,
) -> DataFrame:
    made = rows.groupBy("_key").transformWithState(
        statefulProcessor=state.PythonAggregate(python, is_final),
        outputStructType=state.AGGREGATED,
        outputMode=mode,
        timeMode="EventTime" if is_timed else "None",
    )
    key = unpack("_key", {"key": key_type}).getField("key")
    value = unpack("packed", {"value": value_type}).getField("value")
    return record_frame(made, key=key, value=value)


def changes(frame: DataFrame, mode: Mode) -> tuple[DataFrame, DataType, DataType]:
    """Return a table's changes as packed rows `old` and `new`, and the types of its key and value."""
    rows = frame.where(F.col("key").isNotNull())
    payload = F.when(F.col("value").isNotNull(), pack("key", "value", "timestamp", "partition", "offset"))
    made = (
        rows.select(pack("key").alias("_key"), payload.alias("_payload"), *_order())
        .groupBy("_key")
        .transformWithState(
            statefulProcessor=state.Changes(), outputStructType=state.CHANGED, outputMode=mode, timeMode="None"
        )
    )
    return made, frame.schema["key"].dataType, frame.schema["value"].dataType


def table_aggregate(frame: DataFrame, operation: TableAggregate, mode: Mode) -> DataFrame:
    """Return the table of a table's groups: a changed row leaves its old group and joins its new one."""
    made, key_type, value_type = changes(frame, mode)
    fields = {
        "key": key_type,
        "value": value_type,
        "timestamp": frame.schema["timestamp"].dataType,
        "partition": frame.schema["partition"].dataType,
        "offset": frame.schema["offset"].dataType,
    }
    both = [
        F.struct(unpack(name, fields).alias("row"), F.lit(sign).alias("_sign"))
        for name, sign in (("old", -1), ("new", 1))
    ]
    rows = made.select(F.explode(F.array(*both)).alias("each")).where("each.row IS NOT NULL")
    rows = rows.select("each.row.*", F.col("each._sign").alias("_sign"))
    key, value = functions.pair(operation.selector)
    rows = rows.withColumns({"key": key, "value": value})
    rows = rows.where(F.col("key").isNotNull() & F.col("value").isNotNull())
    if operation.function is None:
        counted = rows.groupBy("key").agg(
            F.sum("_sign").alias("value"),
            F.max("timestamp").alias("timestamp"),
        )
        return record_frame(counted)
    python = operation.function
    kinds = {name: rows.schema[name].dataType for name in ("key", "value")}
    value_type = type_of(python.schema) if python.schema else kinds["value"]
    rows = rows.withColumns({"_key": pack("key"), "_end_ms": F.lit(None).cast("bigint")})
    return _python_table(rows, python, kinds["key"], value_type, False, False, mode)
