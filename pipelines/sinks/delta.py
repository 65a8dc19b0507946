"""Records into a Delta table: the value's fields are the columns, each micro-batch is in it once.

Delta stores the number of the last batch of each writer with the table (txnAppId, txnVersion) and ignores a replayed
one. Needs delta-spark's jars: in the folder of jars, or by `spark: {spark.jars.packages: ...}`.
"""

from collections.abc import Collection, Mapping, Sequence
from typing import Any, ClassVar

from pydantic import BaseModel, Field
from pyspark.sql import DataFrame

from kvorum.pipelines.plugins import Context, PluginError, WriteBatch
from kvorum.pipelines.sinks.writing import BatchSink, flat, query_name
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


class DeltaSink(BatchSink):
    """Sink into a Delta table."""

    Options: ClassVar[type[BaseModel]] = DeltaOptions

    def used(self, options: Any) -> Collection[str]:
        """Return the columns of a record that are written."""
        return ("value", *options.include)

    def writer(self, frame: DataFrame, options: Any, context: Context) -> WriteBatch:
        """Return the function that appends. Raises PluginError without Delta's jars, ValueError for `include`."""
        jvm: Any = frame.sparkSession.sparkContext._jvm
        if not jvm.org.apache.spark.util.Utils.classIsLoadable(EXTENSION):
            raise PluginError(
                "sink delta: delta-spark's jars were not found; put delta-spark_2.13 and delta-storage into the folder "
                "of jars ($KVORUM_SPARK_JARS), or set spark.jars.packages under `spark:`"
            )
        flat(frame, options.include)
        given = as_texts({**options.options, "mergeSchema": options.merge_schema})

        def save(batch: DataFrame, batch_id: int) -> None:
            once = {"txnAppId": query_name(batch.sparkSession, context), "txnVersion": str(batch_id)}
            writer = flat(batch, options.include).write.format("delta").mode("append").options(**given, **once)
            writer.partitionBy(*options.partition_by).save(options.path)

        return save
