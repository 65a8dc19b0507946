"""Records as files: the value's fields are the columns. Each record is in them once (Spark's file sink).

Spark records in `_spark_metadata` beside them which files count: another reader of the folder sees, after a crash in
the middle of a micro-batch, files that Spark would not read.
"""

from collections.abc import Collection, Mapping, Sequence
from typing import Any, ClassVar, Literal

from pydantic import BaseModel, Field
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.query import StreamingQuery

from kvorum.pipelines import formats
from kvorum.pipelines.faults import as_texts
from kvorum.pipelines.formats.base import EXACT_TIMES
from kvorum.pipelines.plugins import Context, WriteBatch
from kvorum.pipelines.sinks.writing import BatchSink, flat, started
from kvorum.pipelines.sources.options import Options


class FilesSinkOptions(Options):
    """`sink: {type: files, ...}`."""

    path: str
    file_format: Literal["text", "json", "csv", "parquet"] = Field(default="parquet", alias="format")
    partition_by: Sequence[str] = ()
    """Columns that become folders: column=value/."""
    include: Sequence[str] = ()
    """What else of a record is a column: key, topic, partition, offset, timestamp, headers."""
    options: Mapping[str, Any] = Field(default_factory=dict)
    """Spark's own options of the format: compression, header..."""


class FilesSink(BatchSink):
    """Sink into files."""

    Options: ClassVar[type[BaseModel]] = FilesSinkOptions

    def used(self, options: Any) -> Collection[str]:
        """Return the columns of a record that are written."""
        return ("value", *options.include)

    def writer(self, frame: DataFrame, options: Any, context: Context) -> WriteBatch:
        """Return Spark's file sink as a function: it skips a micro-batch that its log has."""
        columns(frame, options)
        sink = file_sink(frame.sparkSession, options)
        return lambda batch, batch_id: sink.addBatch(batch_id, columns(batch, options)._jdf)

    def write(self, frame: DataFrame, options: Any, context: Context) -> StreamingQuery:
        """Start to write."""
        given = EXACT_TIMES | as_texts(options.options)
        writer = columns(frame, options).writeStream.format(options.file_format)
        writer = writer.options(**given, path=options.path)
        return started(writer.partitionBy(*options.partition_by) if options.partition_by else writer, context)


def columns(frame: DataFrame, options: FilesSinkOptions) -> DataFrame:
    """Return the columns of the files; of text one: the value as it is, or as JSON if it has fields."""
    if options.file_format != "text":
        return flat(frame, options.include)
    texts = formats.converter("string").encode(frame.where(F.col("value").isNotNull()), "value")
    return texts.select(F.col("value").cast("string").alias("value"))


def file_sink(spark: SparkSession, options: FilesSinkOptions) -> Any:
    """Return Spark's file sink, as a stream's writer makes it."""
    jvm: Any = spark._jvm
    given = EXACT_TIMES | as_texts(options.options) | {"path": options.path}
    none, seq = jvm.scala.Option.empty(), jvm.org.apache.spark.api.python.PythonUtils.toSeq
    source = jvm.org.apache.spark.sql.execution.datasources.DataSource(
        spark._jsparkSession,
        options.file_format,
        seq([]),
        none,
        seq(list(options.partition_by)),
        none,
        jvm.org.apache.spark.api.python.PythonUtils.toScalaMap(given),
        none,
        none,
    )
    return source.createSink(jvm.org.apache.spark.sql.streaming.OutputMode.Append())
