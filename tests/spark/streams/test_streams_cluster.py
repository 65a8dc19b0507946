"""Streams on a real cluster, from topic to topic, exactly once: stopped in the middle, and gone on with."""

import time
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import (  # type: ignore[attr-defined]  # documented, not in __all__
    AdminClient,
    ConfigResource,
    NewTopic,
    ResourceType,
)
from pyspark.errors import StreamingQueryException

from kvorum.pipelines.plugins import Trigger
from kvorum.pipelines.streams import Serdes, State, Streams, StreamsBuilder, StreamsConfig, Suppressed, TimeWindows
from kvorum.pipelines.streams.run import AVAILABLE_NOW, Compiler
from kvorum.pipelines.streams.topology import Repartition
from tests.spark.late_workers import retry_late_worker

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tests.spark.conftest import TopicFactory

pytestmark = pytest.mark.long

LINES = ["to be or not to be", "that is the question", "be quiet"] * 20
PATIENCE_SECONDS = 120.0


def produce(bootstrap: str, topic: str, lines: list[str]) -> None:
    producer = Producer({"bootstrap.servers": bootstrap})
    for number, line in enumerate(lines):
        producer.produce(topic, line, str(number), timestamp=1_000_000 + number)
    assert producer.flush(60) == 0


def consume(bootstrap: str, topic: str, is_enough: Callable[[list[tuple[str, int]]], bool]) -> list[tuple[str, int]]:
    """Return keys and numbers, committed ones only, once there are enough."""
    settings = {"bootstrap.servers": bootstrap, "group.id": f"of-{topic}", "auto.offset.reset": "earliest"}
    consumer = Consumer({**settings, "isolation.level": "read_committed", "enable.auto.commit": False})
    consumer.subscribe([topic])
    found: list[tuple[str, int]] = []
    deadline = time.monotonic() + PATIENCE_SECONDS
    try:
        while not is_enough(found) and time.monotonic() < deadline:
            for message in consumer.consume(1000, 1.0):
                assert message.error() is None
                found.append((message.key().decode(), int.from_bytes(message.value(), "big")))
    finally:
        consumer.close()
    assert is_enough(found), found
    return found


def expected(lines: list[str]) -> dict[str, int]:
    words = [word for line in lines for word in line.split()]
    return {word: words.count(word) for word in words}


def test_a_word_count_goes_from_topic_to_topic_and_goes_on_after_a_restart(
    spark: "SparkSession", bootstrap: str, make_topic: "TopicFactory", tmp_path: Path
) -> None:
    lines, counts = make_topic(prefix="lines"), make_topic(prefix="counts")
    builder = StreamsBuilder()
    words = builder.stream(lines).flat_map_values("split(value, ' ')").group_by(lambda value: value)
    words.count(store="counts").to_stream().to(counts, value_serde=Serdes.long(), named="counts-sink")
    config = StreamsConfig(
        application_id=f"app-{counts}",
        bootstrap_servers=bootstrap,
        state_dir=tmp_path,
        trigger=Trigger(arguments={"processingTime": "200 milliseconds"}),
    )
    produce(bootstrap, lines, LINES)
    streams = Streams(builder.build(), config, spark)
    assert streams.state() is State.CREATED
    streams.start()
    try:
        assert streams.state() is State.RUNNING
        consume(bootstrap, counts, lambda found: dict(found) == expected(LINES))
    finally:
        streams.close()
    assert streams.state() is State.NOT_RUNNING
    produce(bootstrap, lines, LINES)
    Streams(builder.build(), config, spark).process_available()
    found = consume(bootstrap, counts, lambda found: dict(found) == expected(LINES * 2))
    for word in expected(LINES):
        numbers = [number for key, number in found if key == word]
        assert numbers == sorted(set(numbers)), "a count only rises, and none is written twice"


def test_two_queries_meet_in_a_topic_of_the_applications_own(
    spark: "SparkSession", bootstrap: str, make_topic: "TopicFactory", tmp_path: Path
) -> None:
    lines, out = make_topic(prefix="lines"), make_topic(prefix="longest")
    builder = StreamsBuilder()
    windows = TimeWindows.of_size_with_no_grace(timedelta(seconds=10))
    counts = builder.stream(lines).group_by("value").windowed_by(windows).count()
    counts.suppress(Suppressed.until_window_closes()).to_stream("'all'").group_by_key().reduce(
        "max(value)"
    ).to_stream().to(out, value_serde=Serdes.long())
    topology = builder.build()
    assert len(topology.queries) == 2
    config = StreamsConfig(
        application_id=f"app-{out}", bootstrap_servers=bootstrap, state_dir=tmp_path, internal_partitions=2
    )
    produce(bootstrap, lines, LINES)
    producer = Producer({"bootstrap.servers": bootstrap})
    producer.produce(lines, "later", "k", timestamp=2_000_000)
    assert producer.flush(60) == 0
    operation = topology.queries[0].head.operation
    assert isinstance(operation, Repartition)
    internal = config.internal_topic(operation.suffix)
    admin = AdminClient({"bootstrap.servers": bootstrap})
    for future in admin.create_topics([NewTopic(internal, 2, 3, config={"retention.ms": "1000"})]).values():
        future.result(60)
    Streams(topology, config, spark).process_available()
    assert consume(bootstrap, out, lambda found: bool(found)) == [("all", 20)]
    resource = ConfigResource(ResourceType.TOPIC, internal)
    (described,) = admin.describe_configs([resource]).values()
    assert described.result(60)["retention.ms"].value == "-1", "records of 1970 are kept until they are processed"
    # A new query cannot know what it missed: it starts at offset 0, and fails by name where that is gone.
    ends = [consumer_end(bootstrap, internal, number) for number in range(2)]
    parts = [TopicPartition(internal, number, end) for number, end in enumerate(ends) if end]
    for future in admin.delete_records(parts).values():
        future.result(60)
    anew = StreamsConfig(
        application_id=config.application_id,
        bootstrap_servers=bootstrap,
        state_dir=tmp_path / "anew",
        internal_partitions=2,
    )
    topics = Streams(topology, anew, spark)._topics()
    compiler = Compiler(topics=topics, on_bad_record="fail")
    *_, (query, frame) = [(query, compiler.compile(query)) for query in topology.queries]
    with pytest.raises(StreamingQueryException, match=f"(?s)records may have been lost.*{internal}"):
        retry_late_worker(lambda: topics.write(frame, query, AVAILABLE_NOW).awaitTermination())


def test_a_running_application_deletes_processed_records_of_its_internal_topic(
    spark: "SparkSession",
    bootstrap: str,
    make_topic: "TopicFactory",
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("kvorum.pipelines.streams.run.INTERVAL_SECONDS", 0.5)
    lines, out = make_topic(prefix="lines"), make_topic(prefix="out")
    builder = StreamsBuilder()
    words = builder.stream(lines).flat_map_values("split(value, ' ')").select_key("value")
    counts = words.repartition(named="words").group_by_key().count(store="counts").to_stream()
    counts.to(out, value_serde=Serdes.long(), named="counts-sink")
    config = StreamsConfig(
        application_id=f"app-{out}",
        bootstrap_servers=bootstrap,
        state_dir=tmp_path,
        internal_partitions=1,
        trigger=Trigger(arguments={"processingTime": "200 milliseconds"}),
    )
    streams = Streams(builder.build(), config, spark)
    internal = config.internal_topic("words")
    streams.start()
    try:
        for times in (1, 2):  # records are deleted once the micro-batch after theirs has run
            produce(bootstrap, lines, LINES)
            consume(bootstrap, out, lambda found, times=times: dict(found) == expected(LINES * times))  # type: ignore[misc]
        deleted = eventually_above(bootstrap, internal, 0)
    finally:
        streams.close()
    assert 0 < deleted <= consumer_end(bootstrap, internal, 0)
    produce(bootstrap, lines, LINES)
    Streams(builder.build(), config, spark).process_available()
    consume(bootstrap, out, lambda found: dict(found) == expected(LINES * 3))


def eventually_above(bootstrap: str, topic: str, offset: int) -> int:
    """Return the start of a topic's only partition once it is above an offset, or when patience ends."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "starts"})
    deadline = time.monotonic() + PATIENCE_SECONDS
    try:
        while True:
            start, _ = consumer.get_watermark_offsets(TopicPartition(topic, 0), timeout=30)
            if start > offset or time.monotonic() > deadline:
                return start
            time.sleep(0.2)
    finally:
        consumer.close()


def consumer_end(bootstrap: str, topic: str, partition: int) -> int:
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "ends"})
    try:
        return consumer.get_watermark_offsets(TopicPartition(topic, partition), timeout=30)[1]
    finally:
        consumer.close()
