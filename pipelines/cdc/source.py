"""The source `postgresql` of a pipeline's file."""

from typing import ClassVar

from pydantic import BaseModel
from pyspark.sql import DataFrame, SparkSession

from kvorum.pipelines.cdc import options as settings
from kvorum.pipelines.cdc.datasource import NAME, register
from kvorum.pipelines.frames import record_frame
from kvorum.pipelines.plugins import Context

SNAPSHOT_FOLDER = "postgresql"  # in the checkpoint: Spark's own folders there have other names


class PostgresqlSource:
    """Changes of tables as records: a Source."""

    Options: ClassVar[type[BaseModel]] = settings.Options

    def read(self, spark: SparkSession, options: settings.Options, context: Context) -> DataFrame:
        """Return the stream of changes."""
        register(spark)
        given = options.to_text()
        given.setdefault("snapshot.location", f"{context.checkpoint}/{SNAPSHOT_FOLDER}")
        return record_frame(spark.readStream.format(NAME).options(**given).load())
