"""Dead letters of a pipeline into files, by the query that writes the files: the topic is read and parsed once.

Each micro-batch is kept while it is written: first the dead letters to their topic, exactly once by the marks of
bridge/exactly_once, then the files by Spark's own file sink, which skips a micro-batch that its log has. Both steps
have no effect when a micro-batch is repeated, so a crash between them loses and duplicates nothing
(docs/decisions/0033).
"""

from collections.abc import Callable
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.storagelevel import StorageLevel

from kvorum.pipelines import frames
from kvorum.pipelines.bridge.sink import batch_writer
from kvorum.pipelines.formats.base import EXACT_TIMES
from kvorum.pipelines.plugins import Context
from kvorum.pipelines.sinks.files import FilesSinkOptions, text_lines
from kvorum.pipelines.sinks.topics import TopicsSinkOptions, columns
from kvorum.pipelines.sinks.writing import flat, started
from kvorum.pipelines.sources.options import as_texts


def into_files(
    frame: DataFrame,
    letters_of: Callable[[DataFrame], DataFrame],
    options: FilesSinkOptions,
    letters: TopicsSinkOptions,
    context: Context,
    query: str,
) -> StreamingQuery:
    """Start the query. `query` names the transactions of the dead letters."""
    write_letters = batch_writer(
        columns(letters_of(frame), letters),
        letters.merged({}),
        delivery=context.delivery,
        query=query,
        checkpoint=context.checkpoint,
    )
    files = file_sink(frame.sparkSession, options)

    def write(batch: DataFrame, batch_id: int) -> None:
        kept = needed(batch, options).persist(StorageLevel.MEMORY_AND_DISK)
        try:
            write_letters(columns(letters_of(kept), letters), batch_id)
            good = frames.well(kept)
            rows = text_lines(good) if options.file_format == "text" else flat(good, options.include)
            files.addBatch(batch_id, rows._jdf)
        finally:
            kept.unpersist()

    return started(frame.writeStream.foreachBatch(write), context)


def needed(batch: DataFrame, options: FilesSinkOptions) -> DataFrame:
    """Return a batch with null in the columns of good records that the files do not have: less to keep."""
    is_bad, used = F.col(frames.FAILURE).isNotNull(), {"value", frames.FAILURE, *options.include}
    return batch.select(*(name if name in used else F.when(is_bad, F.col(name)).alias(name) for name in batch.columns))


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
