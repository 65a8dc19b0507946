"""Streams against a real cluster: limits, restarts from the checkpoint, new partitions, what is lost."""

from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient, NewPartitions
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from kvorum.pipelines.bridge import register
from kvorum.pipelines.bridge.sink import stream_writer
from kvorum.pipelines.plugins import Delivery
from tests.cluster.clients import eventually
from tests.spark.bridge.records import numbered, produce, read_all, values
from tests.spark.conftest import TopicFactory
from tests.spark.late_workers import retry_late_worker

pytestmark = pytest.mark.long

END_SECONDS = 300


@pytest.fixture(autouse=True)
def registered(spark: SparkSession) -> None:
    register(spark)


def stream(spark: SparkSession, bootstrap: str, topic: str, **options: str) -> DataFrame:
    base = {"kafka.bootstrap.servers": bootstrap, "subscribe": topic, "startingOffsets": "earliest"}
    return spark.readStream.format("kvorum").options(**base | options).load()


def copy(
    frame: DataFrame, bootstrap: str, target: str, checkpoint: Path, *, delivery: Delivery = "at_least_once"
) -> StreamingQuery:
    """Write what is there now to another topic, and end."""
    options = {"kafka.bootstrap.servers": bootstrap, "topic": target}
    writer = stream_writer(frame, options, delivery=delivery, query=f"q-{target}", checkpoint=str(checkpoint))
    writer = writer.trigger(availableNow=True)

    def run() -> StreamingQuery:
        query = writer.start()
        assert query.awaitTermination(END_SECONDS), query.lastProgress
        return query

    return retry_late_worker(run)


def test_a_stream_goes_on_from_its_checkpoint(
    spark: SparkSession, bootstrap: str, make_topic: TopicFactory, tmp_path: Path
) -> None:
    """In three runs: maxOffsetsPerTrigger cuts the first into micro-batches, partitions are added before the third."""
    source, target = make_topic(partitions=2), make_topic(partitions=2)
    produce(bootstrap, source, numbered(1_000))
    frame = stream(spark, bootstrap, source, maxOffsetsPerTrigger="300", minPartitions="3").select("key", "value")
    query = copy(frame, bootstrap, target, tmp_path / "c")
    sizes = [progress.numInputRows for progress in query.recentProgress if progress.numInputRows]
    assert len(sizes) >= 4 and max(sizes) <= 301
    produce(bootstrap, source, numbered(500, start=1_000))
    copy(frame, bootstrap, target, tmp_path / "c")
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.create_partitions([NewPartitions(source, 3)])[source].result(30)
    eventually(lambda: len(admin.list_topics(source, timeout=30).topics[source].partitions) == 3, "a third partition")
    produce(bootstrap, source, [{"value": b"%d" % n, "partition": 2} for n in range(1_500, 1_600)])
    copy(frame, bootstrap, target, tmp_path / "c")
    assert values(read_all(bootstrap, target)) == sorted(b"%d" % n for n in range(1_600))


def test_a_running_stream_keeps_up(
    spark: SparkSession, bootstrap: str, make_topic: TopicFactory, tmp_path: Path
) -> None:
    """From "latest", with a transaction's marker at the end of each round, and consumers that are used again."""
    from confluent_kafka import Producer

    source, target = make_topic(partitions=1), make_topic(partitions=1)
    produce(bootstrap, source, [{"value": b"not seen"}])
    frame = stream(spark, bootstrap, source, startingOffsets="latest", **{"kafka.isolation.level": "read_committed"})
    options = {"kafka.bootstrap.servers": bootstrap, "topic": target}
    writer = stream_writer(
        frame.select("value"), options, delivery="at_least_once", query="runs", checkpoint=str(tmp_path / "c")
    )

    def start() -> StreamingQuery:
        query = writer.start()
        query.processAllAvailable()
        return query

    query = retry_late_worker(start)
    try:
        eventually(lambda: (tmp_path / "c" / "commits" / "0").exists(), "the first micro-batch", END_SECONDS)
        producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": f"of-{source}"})
        producer.init_transactions(30)
        for number in range(3):
            producer.begin_transaction()
            producer.produce(source, b"%d" % number)
            producer.commit_transaction(30)
            expected = [b"%d" % n for n in range(number + 1)]
            eventually(lambda: values(read_all(bootstrap, target)) == expected, f"round {number}", END_SECONDS)  # noqa: B023
    finally:
        query.stop()


def test_a_deleted_topic_is_told(spark: SparkSession, bootstrap: str, make_topic: TopicFactory, tmp_path: Path) -> None:
    source, target = make_topic(partitions=1), make_topic(partitions=1)
    produce(bootstrap, source, numbered(10))
    copy(stream(spark, bootstrap, source).select("value"), bootstrap, target, tmp_path / "c")
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.delete_topics([source], operation_timeout=30)[source].result(30)
    eventually(lambda: source not in admin.list_topics(timeout=30).topics, "the topic is gone")
    with pytest.raises(Exception, match=f"topic {source} does not exist"):
        copy(stream(spark, bootstrap, source).select("value"), bootstrap, target, tmp_path / "c")
    tolerant = stream(spark, bootstrap, source, failOnDataLoss="false").select("value")
    copy(tolerant, bootstrap, target, tmp_path / "c")
    assert len(read_all(bootstrap, target)) == 10
