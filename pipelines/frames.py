"""The record frame: what flows between a pipeline's source, its transforms and its sink (docs/decisions/0014).

A frame is a DataFrame with the columns of COLUMNS. `key` and `value` are of any type (binary straight from a topic);
what a source does not have is a typed null. Two more may be added, and are never written to a sink:

    _origin    the row as the source gave it: key and value as bytes (null if they were none), and the topic
    _failure   null for a good row; else the stage and the first error, with the original bytes

Nothing raises for a row: converters and transforms set `_failure`; the pipeline fails, skips the row or sends it to the
dead-letter topic.
"""

from collections.abc import Mapping
from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T

FAILURE: Final = "_failure"
FAILURE_TYPE: Final = "struct<stage: string, error: string, message: string, key: binary, value: binary>"
ORIGIN: Final = "_origin"

HEADERS_TYPE: Final = T.ArrayType(T.StructType().add("key", T.StringType()).add("value", T.BinaryType()))

COLUMNS: Final[Mapping[str, T.DataType]] = {
    "key": T.BinaryType(),
    "value": T.BinaryType(),
    "topic": T.StringType(),
    "partition": T.IntegerType(),
    "offset": T.LongType(),
    "timestamp": T.TimestampType(),
    "timestampType": T.IntegerType(),
    "headers": HEADERS_TYPE,
}
"""In their order, with the type that a missing one gets. Spark's Kafka source has the same names."""

FREE: Final = ("key", "value")
"""Of any type; the others are cast to theirs."""

# Stages and errors in Connect's words, since tools read them in the headers of dead letters.
KEY_CONVERTER: Final = "KEY_CONVERTER"
VALUE_CONVERTER: Final = "VALUE_CONVERTER"
TRANSFORMATION: Final = "TRANSFORMATION"
TASK_POLL: Final = "TASK_POLL"
DATA_EXCEPTION: Final = "org.apache.kafka.connect.errors.DataException"


def record_frame(frame: DataFrame, **columns: Column | str) -> DataFrame:
    """Return a record frame made of a DataFrame: a column each from `columns`, else of the same name, else null.

    A string names a column of `frame`; every field of a row as one value is
    `record_frame(frame, value=F.struct("*"))`.
    """
    unknown = set(columns) - set(COLUMNS)
    assert not unknown, f"a record has no {sorted(unknown)}"
    found: list[Column] = []
    for name, kind in COLUMNS.items():
        given = columns.get(name, name if name in frame.columns else F.lit(None).cast(kind))
        column = F.col(given) if isinstance(given, str) else given
        found.append((column if name in FREE else column.cast(kind)).alias(name))
    return frame.select(*found, *(name for name in (ORIGIN, FAILURE) if name in frame.columns))


def with_origin(frame: DataFrame) -> DataFrame:
    """Return the frame with `_origin`: as it has it, or made of what it holds now.

    Called before anything changes a record, so that a dead letter has the original.
    """
    if ORIGIN in frame.columns:
        return frame
    bytes_of = {
        name: F.col(name) if isinstance(frame.schema[name].dataType, T.BinaryType | T.StringType) else F.lit(None)
        for name in FREE
    }
    both = (column.cast("binary").alias(name) for name, column in bytes_of.items())
    return frame.withColumn(ORIGIN, F.struct(*both, F.col("topic").alias("topic")))


def with_failure(frame: DataFrame, condition: Column, *, stage: str, message: Column | str) -> DataFrame:
    """Return the frame with `_failure` set on the rows for which the condition is true, unless they failed before."""
    frame = with_origin(frame)
    return frame.withColumn(FAILURE, fenced(failure(frame, condition, stage=stage, message=message)))


def failure(frame: DataFrame, condition: Column, *, stage: str, message: Column | str) -> Column:
    """Return the column that with_failure sets. The frame has its `_origin`."""
    text = F.lit(message) if isinstance(message, str) else message
    values = {"stage": F.lit(stage), "error": F.lit(DATA_EXCEPTION), "message": text}
    values |= {name: F.col(f"{ORIGIN}.{name}") for name in FREE}
    made = F.when(condition, F.struct(*(value.alias(name) for name, value in values.items())))
    return F.coalesce(F.col(FAILURE), made) if FAILURE in frame.columns else made


def fenced(column: Column) -> Column:
    """Return the column as one through which the optimizer moves nothing, for what conditions after it may look at.

    A filter is moved below the projections before it (Spark's PushPredicateThroughNonJoin): each column that it names
    is replaced by what computes it, at every projection. Where a value comes from several fields, that grows by their
    number at each step: sixteen transforms and a look at `_failure` took more than 1 GB to plan. Spark does not do it
    across a nondeterministic column; this one is so in name only, since a partition's number is never negative.
    """
    return F.when(F.spark_partition_id() >= 0, column)


def well(frame: DataFrame) -> DataFrame:
    """Return the rows that did not fail."""
    return frame.where(F.col(FAILURE).isNull()) if FAILURE in frame.columns else frame


def failed(frame: DataFrame) -> DataFrame:
    """Return the rows that failed, with `_failure`."""
    if FAILURE not in frame.columns:
        frame = frame.withColumn(FAILURE, F.lit(None).cast(FAILURE_TYPE))
    return frame.where(F.col(FAILURE).isNotNull())


def first_failed(frame: DataFrame) -> DataFrame:
    """Return the frame, which raises in the executor at the first row that failed: errors.tolerance `fail`."""
    if FAILURE not in frame.columns:
        return frame
    text = F.concat_ws(": ", f"{FAILURE}.stage", f"{FAILURE}.error", f"{FAILURE}.message")
    place = F.concat_ws("-", origin(frame, "topic"), F.col("partition"))
    where = F.concat_ws(" ", F.lit("(record"), F.nullif(place, F.lit("")), F.lit("at offset"))  # a file has no topic
    message = F.concat(text, F.lit(" "), where, F.lit(" "), F.col("offset").cast("string"), F.lit(")"))
    raised = F.when(F.col(FAILURE).isNotNull(), F.raise_error(F.coalesce(message, text)).cast("boolean"))
    return frame.where(raised.isNull())


def origin(frame: DataFrame, name: str) -> Column:
    """Return the original `key`, `value` or `topic` of the row."""
    return F.col(f"{ORIGIN}.{name}") if ORIGIN in frame.columns else F.col(name)
