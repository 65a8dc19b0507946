"""A Spark driver of its own: copies a topic to another, exactly once, until it is killed or the end is reached.

Arguments, as one JSON object: bootstrap, source, target, query, checkpoint, shuffle (whether the plan has one),
is_last (whether to take what is there now, and end); master, local cores by default; conf, more of Spark's settings;
jars, a folder: then Spark's own connector copies, at least once.
"""

import json
import logging
import os
import sys

from pyspark.sql import SparkSession

from kvorum.pipelines.bridge import register
from kvorum.pipelines.bridge.sink import stream_writer
from kvorum.pipelines.session.build import ship
from kvorum.pipelines.session.connector import jars_of


def main() -> None:
    """Run the query."""
    told = json.loads(sys.argv[1])
    logging.basicConfig(format="%(asctime)s %(levelname)s %(name)s %(message)s")
    logging.getLogger("kvorum").setLevel(logging.INFO)
    os.environ["PYSPARK_PYTHON"] = sys.executable
    jars = told.get("jars", "")
    builder = (
        SparkSession.builder.master(told.get("master", "local[2,8]"))
        .config("spark.jars", ",".join(jars_of(jars or None)))
        .config("spark.driver.memory", "1g")
        .config("spark.ui.enabled", "false")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.sql.shuffle.partitions", "2")
    )
    for key, value in told.get("conf", {}).items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    ship(spark)
    register(spark)
    source = {
        "kafka.bootstrap.servers": told["bootstrap"],
        "subscribe": told["source"],
        "startingOffsets": "earliest",
        "maxOffsetsPerTrigger": str(told["offsets_per_trigger"]),
    }
    frame = spark.readStream.format("kafka" if jars else "kvorum").options(**source).load().select("key", "value")
    if told["shuffle"]:
        frame = frame.repartition(3)
    sink = {"kafka.bootstrap.servers": told["bootstrap"], "topic": told["target"]}
    if jars:
        writer = frame.writeStream.format("kafka").options(**sink).option("checkpointLocation", told["checkpoint"])
    else:
        writer = stream_writer(frame, sink, delivery="exactly_once", query=told["query"], checkpoint=told["checkpoint"])
    if told["is_last"]:
        writer = writer.trigger(availableNow=True)
    writer.start().awaitTermination()
    spark.stop()


if __name__ == "__main__":
    main()
