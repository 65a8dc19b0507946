"""The bridge between Spark and a Kafka-compatible cluster: the data source `kvorum`, and the exactly-once sink."""

from pyspark.sql import SparkSession

from kvorum.pipelines.bridge.source import FORMAT, KvorumDataSource


def register(spark: SparkSession) -> None:
    """Make format("kvorum") known to a session. Cheap when it already is."""
    known = spark._jsparkSession.sessionState().dataSourceManager().dataSourceExists(FORMAT)
    if not known:
        spark.dataSource.register(KvorumDataSource)
