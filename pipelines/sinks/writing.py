"""Parts that several sinks share: the value's fields as columns, and the start of a query."""

import json
from collections.abc import Collection, Sequence
from typing import Any

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.readwriter import DataStreamWriter
from pyspark.sql.types import StructType

from kvorum.pipelines import frames
from kvorum.pipelines.plugins import Context, WriteBatch

RECORD_COLUMNS = ("key", "topic", "partition", "offset", "timestamp", "headers")


class BatchSink:
    """A sink that writes micro-batch by micro-batch, so that its query can write dead letters as well."""

    def used(self, options: Any) -> Collection[str]:
        """Return the columns of a record that are written."""
        return frames.COLUMNS

    def writer(self, frame: DataFrame, options: Any, context: Context) -> WriteBatch:
        """Return the function that writes the micro-batches of a stream of good records."""
        raise NotImplementedError

    def write(self, frame: DataFrame, options: Any, context: Context) -> StreamingQuery:
        """Start to write; errors as of `writer`."""
        return started(frame.writeStream.foreachBatch(self.writer(frame, options, context)), context)


def value_columns(frame: DataFrame) -> list[Column]:
    """Return the value's fields as columns; a value without fields is one column, `value`."""
    kind = frame.schema["value"].dataType
    if isinstance(kind, StructType):
        return [F.col("value").getField(field.name).alias(field.name) for field in kind]
    return [F.col("value")]


def flat(frame: DataFrame, include: Sequence[str] = ()) -> DataFrame:
    """Return the value's columns and those of the record that `include` names (key, topic, offset...).

    A tombstone has no fields: a record without a value is left out. Raises ValueError for two columns of one name.
    """
    unknown = set(include) - {*RECORD_COLUMNS}
    if unknown:
        raise ValueError(f"include: a record has no {', '.join(sorted(unknown))}")
    rows = frame.where(F.col("value").isNotNull()).select(*value_columns(frame), *include)
    double = {name for name in rows.columns if rows.columns.count(name) > 1}
    if double:
        raise ValueError(f"include: the value has a field {', '.join(sorted(double))} already")
    return rows


def started(writer: DataStreamWriter, context: Context) -> StreamingQuery:
    """Start a pipeline's query."""
    writer = writer.queryName(context.name).option("checkpointLocation", context.checkpoint)
    return context.trigger.apply(writer).start()


def query_name(spark: SparkSession, context: Context) -> str:
    """Return a name that a sink can store with a batch's number to recognise a replayed micro-batch.

    Spark's id of the query is the same after a restart, and another for a new checkpoint, where numbers begin at 0.
    """
    row = spark.read.text(f"{context.checkpoint}/metadata").first()
    assert row is not None, "a query writes its metadata before its first batch"
    return f"{context.name}-{json.loads(row.value)['id']}"
