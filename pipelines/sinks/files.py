"""Records as files: the value's fields are the columns. Each record is in them once (Spark's file sink).

Spark records in `_spark_metadata` beside them which files count: another reader of the folder sees, after a crash in
the middle of a micro-batch, files that Spark would not read.
"""

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Literal

from pydantic import BaseModel, Field
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.streaming.query import StreamingQuery

from kvorum.pipelines import formats
from kvorum.pipelines.formats.base import EXACT_TIMES
from kvorum.pipelines.plugins import Context
from kvorum.pipelines.sinks.writing import flat, started
from kvorum.pipelines.sources.options import Options, as_texts


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


class FilesSink:
    """Sink into files."""

    Options: ClassVar[type[BaseModel]] = FilesSinkOptions

    def write(self, frame: DataFrame, options: Any, context: Context) -> StreamingQuery:
        """Start to write."""
        rows = text_lines(frame) if options.file_format == "text" else flat(frame, options.include)
        given = EXACT_TIMES | as_texts(options.options)
        writer = rows.writeStream.format(options.file_format).options(**given).option("path", options.path)
        return started(writer.partitionBy(*options.partition_by) if options.partition_by else writer, context)


def text_lines(frame: DataFrame) -> DataFrame:
    """Return one column of text: the value as it is, or as JSON if it has fields."""
    texts = formats.converter("string").encode(frame.where(F.col("value").isNotNull()), "value")
    return texts.select(F.col("value").cast("string").alias("value"))
