"""Records into topics: exactly once by Kvorum's writer, or at least once by either connector.

Spark's own connector has no transactions, so `delivery: exactly_once` is always Kvorum's writer. A record's
partition is chosen by its key, as Java's clients do; `partitions: keep` takes the one it came from.
"""

import logging
from typing import Any, ClassVar, Literal

from pydantic import BaseModel, Field
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.streaming.query import StreamingQuery

from kvorum.pipelines.bridge.client import for_java
from kvorum.pipelines.bridge.ledger import FOLDER
from kvorum.pipelines.bridge.sink import batch_writer
from kvorum.pipelines.plugins import Context, WriteBatch
from kvorum.pipelines.sinks.writing import BatchSink, started
from kvorum.pipelines.sources.options import TopicOptions

logger = logging.getLogger(__name__)


class TopicsSinkOptions(TopicOptions):
    """`sink: {type: topics, ...}`."""

    topic: str | None = None
    """Where all records go; without it, each to the topic that it carries (its source's, or a transform's)."""
    partitions: Literal["by-key", "keep"] = Field(default="by-key")
    ordered: bool = False
    """Write a micro-batch in the order of the records' offsets: for a source (files) that has them in another one."""


class TopicsSink(BatchSink):
    """Sink into topics."""

    Options: ClassVar[type[BaseModel]] = TopicsSinkOptions

    def write(self, frame: DataFrame, options: Any, context: Context) -> StreamingQuery:
        """Start to write; key and value are bytes or text by now."""
        if context.connector == "spark" and context.delivery == "at_least_once" and not options.ordered:
            logger.info("sink: Spark's connector, at least once")
            rows = columns(frame, options).drop("timestamp")
            return started(rows.writeStream.format("kafka").options(**for_java(options.merged({}))), context)
        return super().write(frame, options, context)

    def writer(self, frame: DataFrame, options: Any, context: Context, folder: str = FOLDER) -> WriteBatch:
        """Return the function that writes. `folder`, in the checkpoint, is for what an exactly-once sink records."""
        logger.info("sink: Kvorum's, %s", context.delivery.replace("_", " "))
        write = batch_writer(
            columns(frame, options),
            options.merged({}),
            delivery=context.delivery,
            query=context.name,
            checkpoint=context.checkpoint,
            folder=folder,
            arrange=in_order if options.ordered else None,
        )
        return lambda batch, batch_id: write(columns(batch, options), batch_id)


def columns(frame: DataFrame, options: TopicsSinkOptions) -> DataFrame:
    """Return the columns that writers take."""
    topic = F.col("topic") if options.topic is None else F.lit(options.topic)
    kept = ["partition"] if options.partitions == "keep" else []
    order = ["offset"] if options.ordered else []
    return frame.select("key", "value", topic.alias("topic"), *kept, *order, "headers", "timestamp")


def in_order(rows: DataFrame) -> DataFrame:
    """Return the rows in the order of their offsets, those of a partition or of a key in one task."""
    by = "partition" if "partition" in rows.columns else "key"
    return rows.repartition("topic", by).sortWithinPartitions("offset")
