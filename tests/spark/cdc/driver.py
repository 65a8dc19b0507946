"""A pipeline in a process of its own, to be killed: PostgreSQL to topics, exactly once.

Run: python -m tests.spark.cdc.driver JSON
"""

import json
import os
import sys
from pathlib import Path

from pyspark.sql import SparkSession

from kvorum.pipelines import plugins
from kvorum.pipelines.bridge.sink import stream_writer
from kvorum.pipelines.session.build import local_spark_home
from tests.spark.late_workers import retry_late_worker


def main() -> None:
    given = json.loads(sys.argv[1])
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    folder = Path(given["folder"])
    builder = (
        SparkSession.builder.master("local[2]")
        .config("spark.driver.memory", "1g")
        .config("spark.ui.enabled", "false")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.local.dir", str(folder / "local"))
        .config("spark.sql.warehouse.dir", str(folder / "warehouse"))
    )
    with local_spark_home():
        spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    checkpoint = str(folder / "checkpoint")
    source = plugins.source("postgresql")
    context = plugins.Context(name=given["name"], checkpoint=checkpoint)
    frame = source.read(spark, source.Options.model_validate(given["source"]), context)
    sink = {"kafka.bootstrap.servers": given["bootstrap"]}
    outgoing = frame.select("key", "value", "topic", "timestamp", "headers")
    writer = stream_writer(outgoing, sink, delivery="exactly_once", query=given["name"], checkpoint=checkpoint)

    def run() -> None:
        query = writer.start()
        if given.get("until_caught_up"):
            query.processAllAvailable()
            query.stop()
        else:
            query.awaitTermination()

    retry_late_worker(run)
    spark.stop()


if __name__ == "__main__":
    main()
