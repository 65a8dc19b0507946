"""Records into topics: exactly once by Kvorum's writer, or at least once by either connector.

Spark's own connector has no transactions, so `delivery: exactly_once` is always Kvorum's writer, whoever reads. A
record's partition is chosen anew by its key, as Java's clients do; `partitions: keep` takes the one it came from.
"""

import logging
from typing import Any, ClassVar, Literal

from pydantic import BaseModel, Field
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.streaming.query import StreamingQuery

from kvorum.pipelines.bridge.sink import Delivery, stream_writer, write_batch
from kvorum.pipelines.plugins import Connector, Context
from kvorum.pipelines.sources.options import TopicOptions

logger = logging.getLogger(__name__)


class TopicsSinkOptions(TopicOptions):
    """`sink: {type: topics, ...}`."""

    topic: str | None = None
    """Where all records go; without it, each to the topic that it carries (its source's, or a transform's)."""
    partitions: Literal["by-key", "keep"] = Field(default="by-key")
    ordered: bool = False
    """Write a micro-batch in the order of the records' offsets: for a source (files) that has them in another one."""


class TopicsSink:
    """Sink into topics."""

    Options: ClassVar[type[BaseModel]] = TopicsSinkOptions

    def write(self, frame: DataFrame, options: Any, context: Context) -> StreamingQuery | None:
        """Start to write; key and value are bytes or text by now."""
        rows = columns(frame, options)
        given = options.merged({})
        writer_of = "kvorum" if options.ordered else writer(context)
        if not frame.isStreaming:
            if writer_of == "spark":
                rows.drop("timestamp").write.format("kafka").options(**given).save()
            else:  # no checkpoint, so nothing to know a second run by
                arranged = in_order(rows) if options.ordered else rows
                write_batch(arranged, given, delivery=Delivery.AT_LEAST_ONCE, query=context.name, batch_id=0)
            return None
        if writer_of == "spark":
            logger.info("sink: Spark's connector, at least once")
            stream = rows.drop("timestamp").writeStream.format("kafka").options(**given)
            stream = stream.option("checkpointLocation", context.checkpoint)
        else:
            logger.info("sink: Kvorum's, %s", context.delivery.replace("_", " "))
            stream = stream_writer(
                rows,
                given,
                delivery=Delivery(context.delivery),
                query=context.name,
                checkpoint=context.checkpoint,
                arrange=in_order if options.ordered else None,
            )
        return context.trigger.apply(stream.queryName(context.name)).start()


def writer(context: Context) -> Connector:
    """Return who writes: Spark's connector only if it was chosen and at least once is enough."""
    return "spark" if context.connector == "spark" and context.delivery == "at_least_once" else "kvorum"


def columns(frame: DataFrame, options: Any) -> DataFrame:
    """Return the columns that writers take."""
    topic = F.col("topic") if options.topic is None else F.lit(options.topic)
    kept = ["partition"] if options.partitions == "keep" else []
    order = ["offset"] if options.ordered else []
    return frame.select("key", "value", topic.alias("topic"), *kept, *order, "headers", "timestamp")


def in_order(rows: DataFrame) -> DataFrame:
    """Return the rows in the order of their offsets, those of a partition or of a key in one task."""
    by = "partition" if "partition" in rows.columns else "key"
    return rows.repartition("topic", by).sortWithinPartitions("offset")
