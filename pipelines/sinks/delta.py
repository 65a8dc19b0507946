"""Records into a Delta table: the value's fields are the columns, each micro-batch is in it once.

Delta stores the number of the last batch of each writer with the table (txnAppId, txnVersion) and ignores a replayed
one. Needs delta-spark's jars: in the folder of jars, or by `spark: {spark.jars.packages: ...}`.
"""

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from pydantic import BaseModel, Field
from pyspark.sql import DataFrame
from pyspark.sql.streaming.query import StreamingQuery

from kvorum.pipelines.plugins import Context, PluginError
from kvorum.pipelines.sinks.writing import flat, query_name, started
from kvorum.pipelines.sources.options import Options, as_texts

EXTENSION = "io.delta.sql.DeltaSparkSessionExtension"


class DeltaOptions(Options):
    """`sink: {type: delta, ...}`."""

    path: str
    partition_by: Sequence[str] = ()
    merge_schema: bool = False
    """New fields of the value become new columns."""
    include: Sequence[str] = ()
    options: Mapping[str, Any] = Field(default_factory=dict)


class DeltaSink:
    """Sink into a Delta table."""

    Options: ClassVar[type[BaseModel]] = DeltaOptions

    def write(self, frame: DataFrame, options: Any, context: Context) -> StreamingQuery:
        """Start to write. Raises PluginError without Delta's jars."""
        jvm: Any = frame.sparkSession.sparkContext._jvm
        if not jvm.org.apache.spark.util.Utils.classIsLoadable(EXTENSION):
            raise PluginError(
                "sink delta: delta-spark's jars were not found; put delta-spark_2.13 and delta-storage into the folder "
                "of jars ($KVORUM_SPARK_JARS), or set spark.jars.packages under `spark:`"
            )
        given = as_texts({**options.options, "mergeSchema": options.merge_schema})

        def save(batch: DataFrame, batch_id: int) -> None:
            once = {"txnAppId": query_name(batch.sparkSession, context), "txnVersion": str(batch_id)}
            writer = batch.write.format("delta").mode("append").options(**given, **once)
            writer.partitionBy(*options.partition_by).save(options.path)

        return started(flat(frame, options.include).writeStream.foreachBatch(save), context)
