"""Records that failed: the pipeline fails, leaves them out, or writes them to a dead-letter topic, as Connect does.

A dead letter has the key and the value that came, its own headers, and what went wrong in headers of Connect's names.
It is written by the query of the sink, so that the source is read once (docs/decisions/0033).
"""

from dataclasses import replace
from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.storagelevel import StorageLevel

from kvorum.pipelines import frames
from kvorum.pipelines.plugins import Context, PluginError, Sink
from kvorum.pipelines.sinks.topics import TopicsSink, TopicsSinkOptions
from kvorum.pipelines.sinks.writing import started
from kvorum.pipelines.spec import Pipeline

PREFIX = "__connect.errors."
FOLDER = "kvorum-dead-letters"
"""In the checkpoint: what the exactly-once sink of the dead letters records."""
NAME = "-dead-letters"
"""Suffix of the pipeline's name in the names of the dead letters' query, group and transactions."""


def written_beside(
    frame: DataFrame, pipeline: Pipeline, sink: Sink[Any], options: Any, letters: TopicsSinkOptions, context: Context
) -> StreamingQuery:
    """Start a query that writes the good records to a sink and the failed ones to the dead-letter topic.

    Each micro-batch is kept while it is written, first the dead letters. Both steps have no effect when a micro-batch
    is repeated, so a crash between them loses and duplicates nothing.
    """
    beside = replace(context, name=context.name + NAME)
    write_letters = TopicsSink().writer(dead_letters(frame, pipeline), letters, beside, FOLDER)
    write_good = sink.writer(frames.well(frame), options, context)
    used = {*sink.used(options), frames.FAILURE}
    bad = F.col(frames.FAILURE).isNotNull()
    needed = [name if name in used else F.when(bad, F.col(name)).alias(name) for name in frame.columns]

    def write(batch: DataFrame, batch_id: int) -> None:
        kept = batch.select(*needed).persist(StorageLevel.MEMORY_AND_DISK)
        try:
            write_letters(dead_letters(kept, pipeline), batch_id)
            write_good(frames.well(kept), batch_id)
        finally:
            kept.unpersist()

    return started(frame.writeStream.foreachBatch(write), context)


def dead_letters(frame: DataFrame, pipeline: Pipeline) -> DataFrame:
    """Return the failed records of a frame as records of the dead-letter topic: key and value are bytes."""
    failed, failure = frames.failed(frame), F.col(frames.FAILURE)
    return frames.record_frame(
        failed.select(
            failure.getField("key").alias("key"),
            failure.getField("value").alias("value"),
            F.lit(pipeline.errors.topic).alias("topic"),
            "timestamp",
            headers(failed, pipeline).alias("headers"),
        )
    )


def routed(frame: DataFrame, pipeline: Pipeline, topic: str | None) -> DataFrame:
    """Return all records, the failed ones as dead letters, each with its topic: for a sink of topics of one cluster.

    Both kinds are written by the same query, so that a micro-batch is written as a whole, dead letters and all.
    """
    failure = F.col(frames.FAILURE)
    bad = failure.isNotNull()
    own = F.col("topic") if topic is None else F.lit(topic)
    return frames.record_frame(
        frame.select(
            F.when(bad, failure.getField("key")).otherwise(F.col("key").cast("binary")).alias("key"),
            F.when(bad, failure.getField("value")).otherwise(F.col("value").cast("binary")).alias("value"),
            F.when(bad, F.lit(pipeline.errors.topic)).otherwise(own).alias("topic"),
            F.when(~bad, F.col("partition")).alias("partition"),
            "timestamp",
            F.when(bad, headers(frame, pipeline)).otherwise(F.col("headers")).alias("headers"),
        )
    )


def headers(frame: DataFrame, pipeline: Pipeline) -> Column:
    """Return a record's headers and, if it is wanted, what went wrong."""
    own = F.coalesce(F.col("headers"), F.array().cast(frames.HEADERS_TYPE))
    if not pipeline.errors.headers:
        return own
    failure = F.col(frames.FAILURE)
    error, message = failure.getField("error"), failure.getField("message")
    said = {
        "topic": frames.origin(frame, "topic"),
        "partition": F.col("partition").cast("string"),
        "offset": F.col("offset").cast("string"),
        "connector.name": F.lit(pipeline.name),
        "task.id": F.lit("0"),
        "stage": failure.getField("stage"),
        "exception.class.name": error,
        "exception.message": message,
        "exception.stacktrace": F.concat_ws(": ", error, message),
    }
    made = F.array(
        *(
            F.struct(F.lit(PREFIX + name).alias("key"), value.cast("binary").alias("value"))
            for name, value in said.items()
        )
    )
    return F.concat(own, made.cast(frames.HEADERS_TYPE))


def bootstrap_of(pipeline: Pipeline) -> str:
    """Return the cluster of the dead-letter topic. Raises PluginError if the pipeline has no topics and names none."""
    ends = (pipeline.sink, pipeline.source)
    there = [str(end.settings["bootstrap"]) for end in ends if end.type == "topics" and "bootstrap" in end.settings]
    found = pipeline.errors.bootstrap or next(iter(there), None)
    if found is None:
        raise PluginError(
            "errors.bootstrap is missing: neither source nor sink defines the cluster of the dead-letter topic"
        )
    return found
