"""Data pipelines on Apache Spark: what Kafka Connect, Kafka Streams and MirrorMaker do, through PySpark."""
