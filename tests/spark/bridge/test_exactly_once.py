"""The exactly-once sink under Spark: how rows are dealt out, replays of a micro-batch, marks that are gone."""

import json
import os
import shutil
import signal
import threading
import uuid
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from confluent_kafka import ConsumerGroupTopicPartitions, TopicPartition
from confluent_kafka.admin import AdminClient
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession

from kvorum.pipelines.bridge import register
from kvorum.pipelines.bridge.exactly_once import keep_refreshed, refresh_seconds
from kvorum.pipelines.bridge.layout import Undetermined, layout_of
from kvorum.pipelines.bridge.marks import MarkError, MarksMissing
from kvorum.pipelines.bridge.sink import stream_writer, write_batch
from tests.spark.bridge.records import numbered, produce, read_all, values
from tests.spark.conftest import TopicFactory
from tests.spark.late_workers import retry_late_worker

END_SECONDS = 300
ROWS_OF_A_BATCH = "spark.sql.execution.arrow.maxRecordsPerBatch"


@pytest.fixture(autouse=True)
def registered(spark: SparkSession) -> None:
    register(spark)


def run(
    frame: DataFrame, bootstrap: str, target: str, checkpoint: Path, *, query: str | None = None, **options: str
) -> None:
    """Write what is there now, and end."""
    given = {"kafka.bootstrap.servers": bootstrap, "topic": target} | options
    writer = stream_writer(
        frame, given, delivery="exactly_once", query=query or f"q-{target}", checkpoint=str(checkpoint)
    )
    writer = writer.trigger(availableNow=True)
    assert retry_late_worker(lambda: writer.start().awaitTermination(END_SECONDS))


def stream(spark: SparkSession, bootstrap: str, topic: str, **options: str) -> DataFrame:
    base = {"kafka.bootstrap.servers": bootstrap, "subscribe": topic, "startingOffsets": "earliest"}
    return spark.readStream.format("kvorum").options(**base | options).load().select("key", "value")


def forget_last_commit(checkpoint: Path) -> int:
    """Make Spark believe that it was killed before it noted the end of the last micro-batch."""
    last = max(int(file.name) for file in (checkpoint / "commits").iterdir() if file.name.isdecimal())
    (checkpoint / "commits" / str(last)).unlink()
    (checkpoint / "commits" / f".{last}.crc").unlink(missing_ok=True)
    return last


def forget_marks(bootstrap: str, query: str, count: int) -> None:
    """Delete committed offsets, as their retention does."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    places = [TopicPartition("__consumer_offsets", number) for number in range(count)]
    group = f"kvorum-sink-{query}"
    if hasattr(admin, "delete_consumer_group_offsets"):
        admin.delete_consumer_group_offsets([ConsumerGroupTopicPartitions(group, places)])[group].result(30)
    else:
        admin.delete_consumer_groups([group], request_timeout=30)[group].result(30)


def manifests(checkpoint: Path) -> dict[int, dict[str, object]]:
    folder = checkpoint / "kvorum-sink" / "batches"
    return {int(file.name): json.loads(file.read_text()) for file in folder.iterdir() if file.name.isdecimal()}


def test_replays_of_a_plan_of_row_by_row_steps(
    spark: SparkSession, bootstrap: str, make_topic: TopicFactory, tmp_path: Path
) -> None:
    """Each task writes what it read. A replayed micro-batch finds its marks; with other tasks it is refused."""
    source, target, checkpoint = make_topic(partitions=2), make_topic(partitions=2), tmp_path / "c"
    produce(bootstrap, source, numbered(600))
    frame = stream(spark, bootstrap, source, maxOffsetsPerTrigger="400").where("value is not null")
    run(frame, bootstrap, target, checkpoint)
    assert "kvorum-sink-keeper" in [thread.name for thread in threading.enumerate()]
    assert values(read_all(bootstrap, target)) == sorted(b"%d" % n for n in range(600))
    last = forget_last_commit(checkpoint)
    assert manifests(checkpoint)[last]["staged"] is None
    run(frame, bootstrap, target, checkpoint)
    assert len(read_all(bootstrap, target)) == 600
    forget_last_commit(checkpoint)
    with pytest.raises(Exception, match="present options would assign its rows to other tasks"):
        run(stream(spark, bootstrap, source, minPartitions="7"), bootstrap, target, checkpoint)
    run(frame, bootstrap, target, checkpoint)
    produce(bootstrap, source, numbered(50, start=600))
    run(frame, bootstrap, target, checkpoint)
    assert values(read_all(bootstrap, target)) == sorted(b"%d" % n for n in range(650))


def test_replays_of_a_plan_with_a_shuffle(
    spark: SparkSession, bootstrap: str, make_topic: TopicFactory, tmp_path: Path
) -> None:
    """The rows are staged, so a replay writes the same although it would deal them out otherwise."""
    source, target, checkpoint = make_topic(partitions=2), make_topic(partitions=2), tmp_path / "c"
    produce(bootstrap, source, numbered(500))
    frame = stream(spark, bootstrap, source)
    run(frame.repartition(3), bootstrap, target, checkpoint)
    last = forget_last_commit(checkpoint)
    manifest = manifests(checkpoint)[last]
    assert manifest["staged"] is not None and manifest["tasks"] == 3
    run(frame.repartition(5), bootstrap, target, checkpoint)
    assert values(read_all(bootstrap, target)) == sorted(b"%d" % n for n in range(500))
    produce(bootstrap, source, numbered(10, start=500))
    run(frame.repartition(3), bootstrap, target, checkpoint)
    assert len(read_all(bootstrap, target)) == 510
    assert len(list((checkpoint / "kvorum-sink" / "rows").iterdir())) == 1, "staged rows of done micro-batches go"


def test_a_replay_of_a_stateful_plan_keeps_its_state(
    spark: SparkSession, bootstrap: str, make_topic: TopicFactory, tmp_path: Path
) -> None:
    source, target, checkpoint = make_topic(partitions=2), make_topic(partitions=2), tmp_path / "c"
    produce(bootstrap, source, [{"key": key, "value": b"v"} for key in (b"a", b"b", b"a")])
    counts = stream(spark, bootstrap, source).groupBy("key").count().selectExpr("key", "CAST(count AS STRING) AS value")

    def count() -> None:
        given = {"kafka.bootstrap.servers": bootstrap, "topic": target}
        writer = stream_writer(counts, given, delivery="exactly_once", query=f"q-{target}", checkpoint=str(checkpoint))
        writer = writer.outputMode("update").trigger(availableNow=True)
        assert retry_late_worker(lambda: writer.start().awaitTermination(END_SECONDS))

    count()
    last = forget_last_commit(checkpoint)
    assert manifests(checkpoint)[last]["staged"] is not None
    count()
    produce(bootstrap, source, [{"key": b"a", "value": b"v"}])
    count()
    assert values(read_all(bootstrap, target)) == [b"1", b"2", b"3"], "b, a, and a again"


@pytest.mark.parametrize("end", ["fails", "dies"])
def test_rows_that_end_in_the_middle_are_not_all(
    end: str,
    spark: SparkSession,
    bootstrap: str,
    make_topic: TopicFactory,
    tmp_path: Path,
) -> None:
    """A step before the sink ends between two of its batches: what had come by then is not the task's."""
    source, target = make_topic(partitions=1), make_topic(partitions=2)
    count, fault = 2_000, tmp_path / "fault"
    fault.touch()
    produce(bootstrap, source, ({"key": b"x" * 1_000, "value": b"%d" % n} for n in range(count)))

    def step(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for number, batch in enumerate(batches):
            if number == 12 and fault.exists():
                if end == "dies":
                    os.kill(os.getpid(), signal.SIGKILL)
                raise OSError("as if a broker had gone")
            yield batch

    frame = stream(spark, bootstrap, source).mapInArrow(step, "key BINARY, value BINARY")
    spark.conf.set(ROWS_OF_A_BATCH, "100")  # a hundred of these rows are more than Spark keeps back (spark.buffer.size)
    try:
        with pytest.raises(StreamingQueryException):
            run(frame, bootstrap, target, tmp_path / "c")
        assert read_all(bootstrap, target) == []
        fault.unlink()
        run(frame, bootstrap, target, tmp_path / "c")
    finally:
        spark.conf.unset(ROWS_OF_A_BATCH)
    assert values(read_all(bootstrap, target)) == sorted(b"%d" % n for n in range(count))


def test_a_start_without_its_marks_is_refused(
    spark: SparkSession, bootstrap: str, make_topic: TopicFactory, tmp_path: Path
) -> None:
    source, target, checkpoint = make_topic(partitions=2), make_topic(partitions=1), tmp_path / "c"
    query = f"q-{target}"
    produce(bootstrap, source, numbered(100))
    frame = stream(spark, bootstrap, source)
    run(frame, bootstrap, target, checkpoint)
    forget_marks(bootstrap, query, 2)
    with pytest.raises(MarksMissing, match="no micro-batch was under way"):
        run(frame, bootstrap, target, checkpoint)
    produce(bootstrap, source, numbered(100, start=100))
    run(frame, bootstrap, target, checkpoint, marksMissing="renew")
    run(frame, bootstrap, target, checkpoint)
    assert values(read_all(bootstrap, target)) == sorted(b"%d" % n for n in range(200))
    forget_last_commit(checkpoint)
    forget_marks(bootstrap, query, 2)
    with pytest.raises(MarksMissing, match="its rows may be written twice"):
        run(frame, bootstrap, target, checkpoint)


def test_a_name_that_another_checkpoint_has_used_since_is_refused(
    spark: SparkSession, bootstrap: str, make_topic: TopicFactory, tmp_path: Path
) -> None:
    source, target = make_topic(partitions=1), make_topic(partitions=1)
    produce(bootstrap, source, numbered(20))
    frame = stream(spark, bootstrap, source)
    run(frame, bootstrap, target, tmp_path / "one")
    run(frame, bootstrap, target, tmp_path / "two")
    assert len(read_all(bootstrap, target)) == 40, "a new checkpoint is a new query: it writes everything"
    with pytest.raises(MarkError, match="another query of this name has run since"):
        run(frame, bootstrap, target, tmp_path / "one")
    shutil.rmtree(tmp_path / "two" / "kvorum-sink")
    produce(bootstrap, source, numbered(1))
    with pytest.raises(Exception, match="does not know of them"):
        run(frame, bootstrap, target, tmp_path / "two")


def test_a_checkpoint_that_was_set_back_is_refused(
    spark: SparkSession, bootstrap: str, make_topic: TopicFactory, tmp_path: Path
) -> None:
    """Its micro-batches would be numbered as others that are written: skipping them would lose rows."""
    source, target, checkpoint = make_topic(partitions=1), make_topic(partitions=1), tmp_path / "c"
    frame = stream(spark, bootstrap, source)
    produce(bootstrap, source, numbered(20))
    run(frame, bootstrap, target, checkpoint)
    shutil.copytree(checkpoint, tmp_path / "copy")
    for start in (20, 40):
        produce(bootstrap, source, numbered(20, start=start))
        run(frame, bootstrap, target, checkpoint)
    with pytest.raises(Exception, match="the checkpoint was restored"):
        run(frame, bootstrap, target, tmp_path / "copy")
    assert len(read_all(bootstrap, target)) == 60


def test_a_batch_is_written_once_by_its_query_and_number(
    spark: SparkSession, bootstrap: str, make_topic: TopicFactory, tmp_path: Path
) -> None:
    source, target = make_topic(partitions=2), make_topic(partitions=2)
    produce(bootstrap, source, numbered(300))
    options = {"kafka.bootstrap.servers": bootstrap, "subscribe": source}
    frame = spark.read.format("kvorum").options(**options).load().select("key", "value")
    assert layout_of(frame) == layout_of(frame)
    with pytest.raises(Undetermined, match="the plan has a shuffle"):
        layout_of(frame.repartition(2))
    with pytest.raises(Undetermined):
        layout_of(spark.range(5))
    sink = {"kafka.bootstrap.servers": bootstrap, "topic": target}
    for shape in (frame, frame, frame.orderBy("value"), frame.repartition(3)):
        which = "sorted" if shape is not frame else "plain"
        write_batch(
            shape,
            sink,
            delivery="exactly_once",
            query=f"{which}-{target}",
            batch_id=0,
            checkpoint=str(tmp_path / which),
        )
    assert values(read_all(bootstrap, target)) == sorted([b"%d" % n for n in range(300)] * 2)


def test_marks_are_refreshed_while_a_query_runs(bootstrap: str) -> None:
    """By the brokers' retention; what fails is tried again; when the query has ended, so does the keeper."""
    assert refresh_seconds({"bootstrap.servers": bootstrap}) == 6 * 3600
    is_running, refreshed = threading.Event(), threading.Semaphore(0)
    is_running.set()

    def refresh() -> None:
        refreshed.release()
        raise OSError("no cluster")

    keeper = threading.Thread(target=keep_refreshed, args=(refresh, is_running.is_set, 0.01), daemon=True)
    keeper.start()
    assert refreshed.acquire(timeout=30) and refreshed.acquire(timeout=30)
    is_running.clear()
    keeper.join(30)
    assert not keeper.is_alive()


def test_names_are_checked_before_anything_starts(spark: SparkSession, bootstrap: str, tmp_path: Path) -> None:
    frame = spark.range(1).selectExpr("cast(id as string) value")
    with pytest.raises(ValueError, match="the name of a query"):
        write_batch(
            frame,
            {"kafka.bootstrap.servers": bootstrap, "topic": "t"},
            delivery="exactly_once",
            query=f"a b {uuid.uuid4()}",
            batch_id=0,
            checkpoint=str(tmp_path),
        )
