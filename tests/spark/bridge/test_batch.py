"""Batches against a real cluster: what is written is read, column by column; gaps, ends, times, loss."""

import uuid
from datetime import UTC, datetime

import pytest
from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from pyspark.sql import DataFrame, SparkSession

from kvorum.pipelines.bridge import register
from kvorum.pipelines.bridge.sink import write_batch
from tests.cluster.clients import eventually
from tests.spark.bridge.records import numbered, produce, read_all, values
from tests.spark.conftest import TopicFactory


@pytest.fixture(autouse=True)
def registered(spark: SparkSession) -> None:
    register(spark)


@pytest.fixture(scope="module", autouse=True)
def compacted(bootstrap: str) -> str:
    """Return a topic for the cleaner, who takes his time: it is made first and read by the last test."""
    topic = f"compacted-{uuid.uuid4().hex[:8]}"
    configs = {"cleanup.policy": "compact", "segment.bytes": "1048576", "min.cleanable.dirty.ratio": "0.01"}
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.create_topics([NewTopic(topic, 1, 3, config=configs)], operation_timeout=30)[topic].result(60)
    produce(bootstrap, topic, [{"key": b"%d" % (n % 10), "value": b"%d" % n + b"." * 1_500} for n in range(2_000)])
    return topic


def read(spark: SparkSession, bootstrap: str, **options: str) -> DataFrame:
    given = {name.replace("__", "."): value for name, value in options.items()}
    return spark.read.format("kvorum").option("kafka.bootstrap.servers", bootstrap).options(**given).load()


def write(frame: DataFrame, bootstrap: str, **options: str) -> None:
    given = {"kafka.bootstrap.servers": bootstrap} | options
    write_batch(frame, given, delivery="at_least_once", query="batch", batch_id=0)


def test_every_column_makes_the_round_trip(spark: SparkSession, bootstrap: str, make_topic: TopicFactory) -> None:
    """Per-row topics and partitions, null keys and values, headers with nulls, timestamps to the millisecond."""
    one, two = make_topic(partitions=3), make_topic(partitions=1)
    moment = datetime(2024, 2, 29, 12, 0, 0, 123_000, tzinfo=UTC)
    rows = [
        (b"k", b"v", one, 2, moment, [("h", b"1"), ("h", None)]),
        (None, b"no key", one, 1, moment, None),
        (b"tombstone", None, two, None, moment, [("é", b"")]),
    ]
    schema = "key binary, value binary, topic string, partition int, timestamp timestamp,"
    schema += " headers array<struct<key:string,value:binary>>"
    write(spark.createDataFrame(rows, schema), bootstrap)
    found = read(spark, bootstrap, subscribe=f"{one},{two}", includeHeaders="true").collect()
    taken = {
        (
            bytes(row.key) if row.key is not None else None,
            bytes(row.value) if row.value is not None else None,
            row.topic,
            row.partition,
            row.offset,
            row.timestamp.replace(tzinfo=UTC),
            row.timestampType,
            tuple((h.key, None if h.value is None else bytes(h.value)) for h in row.headers) if row.headers else None,
        )
        for row in found
    }
    assert taken == {
        (b"k", b"v", one, 2, 0, moment, 0, (("h", b"1"), ("h", None))),
        (None, b"no key", one, 1, 0, moment, 0, None),
        (b"tombstone", None, two, 0, 0, moment, 0, (("é", b""),)),
    }


@pytest.mark.long
def test_keys_go_where_javas_clients_put_them(spark: SparkSession, bootstrap: str, make_topic: TopicFactory) -> None:
    """Kafka's own test vectors of murmur2, by way of the partition: "21" is -973932308, "foobar" -790332482."""
    topic = make_topic(partitions=7)
    write(spark.createDataFrame([("21", "a"), ("foobar", "b")], "key string, value string"), bootstrap, topic=topic)
    placed = {message.key(): message.partition() for message in read_all(bootstrap, topic)}
    assert placed == {b"21": (-973932308 & 0x7FFFFFFF) % 7, b"foobar": (-790332482 & 0x7FFFFFFF) % 7}


@pytest.mark.long
def test_ends_and_pieces(spark: SparkSession, bootstrap: str, make_topic: TopicFactory) -> None:
    topic = make_topic(partitions=2)
    produce(bootstrap, topic, [{"value": b"%d" % n, "partition": n % 2} for n in range(200)])
    assert read(spark, bootstrap, subscribe=topic).count() == 200
    assert read(spark, bootstrap, subscribePattern=topic[:-1] + ".").count() == 200
    some = read(
        spark,
        bootstrap,
        assign=f'{{"{topic}":[1]}}',
        startingOffsets=f'{{"{topic}":{{"1":10}}}}',
        endingOffsets=f'{{"{topic}":{{"1":60}}}}',
        minPartitions="5",
    )
    assert some.rdd.getNumPartitions() == 5
    assert sorted(row.offset for row in some.collect()) == list(range(10, 60))
    with pytest.raises(Exception, match="must contain exactly the partitions"):
        read(spark, bootstrap, subscribe=topic, startingOffsets=f'{{"{topic}":{{"1":10}}}}').count()
    with pytest.raises(Exception, match="topic missing-topic does not exist"):
        read(spark, bootstrap, subscribe="missing-topic").count()
    empty = make_topic(partitions=1)
    assert read(spark, bootstrap, subscribe=empty).count() == 0


@pytest.mark.long
def test_reading_by_time(spark: SparkSession, bootstrap: str, make_topic: TopicFactory) -> None:
    topic = make_topic(partitions=1)
    produce(bootstrap, topic, [{"value": b"%d" % n, "timestamp": 1_000_000 + n * 1_000} for n in range(10)])
    end = f'{{"{topic}":{{"0":6}}}}'
    between = read(spark, bootstrap, subscribe=topic, startingTimestamp="1003000", endingOffsets=end)
    assert [row.offset for row in between.collect()] == [3, 4, 5]
    assert read(spark, bootstrap, subscribe=topic, startingTimestamp="9999999").count() == 0, "no record is later"


def transactional(bootstrap: str, topic: str) -> None:
    """Leave committed and aborted transactions, a marker last."""
    producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": f"of-{topic}"})
    producer.init_transactions(30)
    for number in range(6):
        producer.begin_transaction()
        for row in range(50):
            producer.produce(topic, b"%d-%d" % (number, row), partition=0)
        if number % 2:
            producer.flush(30)
            producer.abort_transaction(30)
        else:
            producer.commit_transaction(30)


@pytest.mark.long
def test_transactions_leave_gaps(spark: SparkSession, bootstrap: str, make_topic: TopicFactory) -> None:
    """The last record is a marker, which nobody gets: reading ends without waiting for it (pollTimeoutMs fails it)."""
    topic = make_topic(partitions=1)
    transactional(bootstrap, topic)
    committed = {"subscribe": topic, "kafka.isolation.level": "read_committed", "minPartitions": "4"}
    assert read(spark, bootstrap, **committed).count() == 150
    assert read(spark, bootstrap, subscribe=topic).count() == 300


@pytest.mark.long
def test_an_open_transaction_ends_what_is_committed(
    spark: SparkSession, bootstrap: str, make_topic: TopicFactory
) -> None:
    topic = make_topic(partitions=1)
    produce(bootstrap, topic, [{"value": b"before"}])
    producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": f"of-{topic}"})
    producer.init_transactions(30)
    producer.begin_transaction()
    producer.produce(topic, b"open")
    producer.flush(30)
    produce(bootstrap, topic, [{"value": b"after"}])
    options = {"subscribe": topic, "kafka.isolation.level": "read_committed"}
    assert [bytes(row.value) for row in read(spark, bootstrap, **options).collect()] == [b"before"]
    beyond = options | {"endingOffsets": f'{{"{topic}":{{"0":3}}}}', "kafkaConsumer.pollTimeoutMs": "1000"}
    with pytest.raises(Exception, match="no data at offset 1 for 1000 ms"):
        read(spark, bootstrap, **beyond).count()
    producer.abort_transaction(30)
    beyond["kafkaConsumer.pollTimeoutMs"] = "20000"
    assert read(spark, bootstrap, **beyond).count() == 2


@pytest.mark.long
def test_loss_is_an_error_unless_it_is_allowed(spark: SparkSession, bootstrap: str, make_topic: TopicFactory) -> None:
    topic = make_topic(partitions=1)
    produce(bootstrap, topic, numbered(100))
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.delete_records([TopicPartition(topic, 0, 40)])[TopicPartition(topic, 0)].result(30)
    options = {"subscribe": topic, "startingOffsets": f'{{"{topic}":{{"0":0}}}}'}
    with pytest.raises(Exception, match="some records may have been lost"):
        read(spark, bootstrap, **options).count()
    assert read(spark, bootstrap, **options, failOnDataLoss="false").count() == 60
    assert read(spark, bootstrap, subscribe=topic).count() == 60


@pytest.mark.long
def test_failures_to_write_are_told(spark: SparkSession, bootstrap: str, make_topic: TopicFactory) -> None:
    topic = make_topic(partitions=1, max_message_bytes="1000")
    frame = spark.createDataFrame([("x" * 100,), ("y" * 5000,)], "value string")
    with pytest.raises(Exception, match=r"1 records were not written; the first, to .*MSG_SIZE_TOO_LARGE"):
        write(frame, bootstrap, topic=topic)
    with pytest.raises(Exception, match="no topic"):
        write(frame, bootstrap)
    with pytest.raises(Exception, match="No such configuration property"):
        write(frame, bootstrap, topic=topic, **{"kafka.lingering": "1"})


@pytest.mark.long
def test_many_rows(spark: SparkSession, bootstrap: str, make_topic: TopicFactory) -> None:
    topic = make_topic(partitions=3)
    write(spark.range(60_000).selectExpr("cast(id as string) value"), bootstrap, topic=topic)
    back = read(spark, bootstrap, subscribe=topic).selectExpr("cast(value as string) v").distinct().count()
    assert back == 60_000
    assert len(values(read_all(bootstrap, topic))) == 60_000


@pytest.mark.long
def test_a_compacted_topic_is_read_over_its_gaps(spark: SparkSession, bootstrap: str, compacted: str) -> None:
    """The cleaner leaves the last record of each key; ranges still end where they ended before."""
    eventually(lambda: len(read_all(bootstrap, compacted)) < 1_500, "the cleaner has been", 90)
    end = f'{{"{compacted}":{{"0":2000}}}}'
    found = read(spark, bootstrap, subscribe=compacted, endingOffsets=end, minPartitions="8").collect()
    assert {bytes(row.key) for row in found} == {b"%d" % n for n in range(10)}
    assert len(found) == len({row.offset for row in found}) < 1_500
