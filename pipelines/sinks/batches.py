"""Query of a micro-batch, so that a sink can distinguish a replayed one from a new one."""

import json

from pyspark.sql import SparkSession


def query_id(spark: SparkSession, checkpoint: str) -> str:
    """Return the id that Spark gave to a checkpoint's query: the same after a restart, another for a new checkpoint.

    Batch numbers begin at 0 with each checkpoint, so a number alone does not say which batch it is.
    """
    row = spark.read.text(f"{checkpoint}/metadata").first()
    assert row is not None, "a query writes its metadata before its first batch"
    return str(json.loads(row.value)["id"])
