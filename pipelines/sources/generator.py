"""Records made up at a rate: {id, timestamp, text}, for trying things out and for measuring."""

import time
from typing import Any, ClassVar

from pydantic import BaseModel, Field
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.readwriter import DataStreamReader

from kvorum.pipelines.frames import record_frame
from kvorum.pipelines.plugins import Context
from kvorum.pipelines.sources.options import Options

TEXT_BYTES_MAX = 1_000_000
WORD = 32
"""Digits of the sum from which a record's text is made: it differs from record to record, and is always the same."""


class GeneratorOptions(Options):
    """`source: {type: generator, ...}`."""

    rate: int = Field(default=1, ge=1)
    """Records a second; with `per_batch`, a batch."""
    count: int | None = Field(default=None, ge=1)
    """Ids from 0 up to here; the pipeline then runs without records."""
    per_batch: bool = False
    """Each micro-batch has `rate` records, however long it takes: the same ids and texts in every run."""
    size: int = Field(default=16, ge=0, le=TEXT_BYTES_MAX)
    """The length of the text."""
    keys: int | None = Field(default=None, ge=1)
    """How many different keys there are; without it, each record has its own."""
    topic: str | None = None


def reader_of(spark: SparkSession, options: GeneratorOptions, now_ms: int) -> DataStreamReader:
    """Return Spark's reader. The timestamps of micro-batches begin now; a checkpoint keeps them over a restart."""
    if not options.per_batch:
        return spark.readStream.format("rate").option("rowsPerSecond", options.rate)
    reader = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", options.rate)
    return reader.option("startTimestamp", now_ms)


class GeneratorSource:
    """Source of generated records."""

    Options: ClassVar[type[BaseModel]] = GeneratorOptions

    def read(self, spark: SparkSession, options: Any, context: Context) -> DataFrame:
        """Return the records: key a string, value a struct."""
        reader = reader_of(spark, options, time.time_ns() // 1_000_000)
        if context.parallelism is not None:
            reader = reader.option("numPartitions", context.parallelism)
        rows = reader.load()
        if options.count is not None:
            rows = rows.where(F.col("value") < options.count)
        number = F.col("value")
        text = F.substring(F.repeat(F.md5(number.cast("string")), options.size // WORD + 1), 1, options.size)
        record = F.struct(number.alias("id"), F.col("timestamp"), text.alias("text"))
        key = number if options.keys is None else number % options.keys
        return record_frame(
            rows.select(
                key.cast("string").alias("key"),
                record.alias("value"),
                F.lit(options.topic).cast("string").alias("topic"),
                "timestamp",
            )
        )
