"""Records into a Delta table: the value's fields are the columns, each micro-batch is in it once.

Delta keeps the number of the last batch of each writer with the table (txnAppId, txnVersion) and lets a replayed one
pass without effect. Needs delta-spark's jars: in the folder of jars, or by `spark: {spark.jars.packages: ...}`.
"""

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from pydantic import BaseModel, Field
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from kvorum.pipelines.plugins import Context, PluginError
from kvorum.pipelines.sinks.batches import query_id
from kvorum.pipelines.sinks.rows import flat
from kvorum.pipelines.sources.options import Options, as_text

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

    def write(self, frame: DataFrame, options: Any, context: Context) -> StreamingQuery | None:
        """Start to write. Raises PluginError where Delta is not at hand."""
        require_delta(frame.sparkSession)
        rows = flat(frame, options.include)
        given = {key: as_text(value) for key, value in options.options.items()}
        given["mergeSchema"] = as_text(options.merge_schema)

        def save(batch: DataFrame, **transaction: str) -> None:
            writer = batch.write.format("delta").mode("append").options(**given, **transaction)
            writer.partitionBy(*options.partition_by).save(options.path)

        def save_batch(batch: DataFrame, batch_id: int) -> None:
            name = f"{context.name}-{query_id(batch.sparkSession, context.checkpoint)}"
            save(batch, txnAppId=name, txnVersion=str(batch_id))

        if not frame.isStreaming:
            save(rows)
            return None
        writer = rows.writeStream.foreachBatch(save_batch).queryName(context.name)
        return context.trigger.apply(writer.option("checkpointLocation", context.checkpoint)).start()


def require_delta(spark: SparkSession) -> None:
    """Raise PluginError, which says what to do, if the session has no Delta."""
    jvm: Any = spark.sparkContext._jvm
    if not jvm.org.apache.spark.util.Utils.classIsLoadable(EXTENSION):
        raise PluginError(
            "sink delta: delta-spark's jars were not found; put delta-spark_2.13 and delta-storage into the folder of "
            "jars ($KVORUM_SPARK_JARS), or set spark.jars.packages under `spark:`; `kvorum pipelines doctor` checks it"
        )
