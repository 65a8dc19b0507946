"""From a real PostgreSQL through Spark: into memory, and exactly once into topics over kill -9 of the driver."""

import json
import os
import random
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from pyspark.sql import Row, SparkSession

from kvorum.pipelines import frames, plugins
from kvorum.pipelines.cdc.snapshot import INTENT, MANIFEST
from tests.spark.late_workers import retry_late_worker
from tests.unit.pipelines.cdc.conftest import Database
from tests.unit.pipelines.cdc.model import CREATE, Ledger

pytestmark = pytest.mark.long

ROOT = Path(__file__).parents[3]
ROUNDS = int(os.environ.get("KVORUM_ROUNDS", "1"))
PARTITIONS = 2
START_SECONDS = 300  # a session of Spark, on a machine that does other things


def test_the_source_of_a_pipeline_is_a_record_frame(spark: SparkSession, database: Database, tmp_path: Path) -> None:
    database.execute(CREATE, "INSERT INTO item SELECT n, 'r' FROM generate_series(1, 200) n")
    options = database.options(snapshot_chunk_bytes="1024")
    del options["snapshot.location"]
    source = plugins.source("postgresql")
    context = plugins.Context(name="capture", checkpoint=str(tmp_path / "checkpoint"))
    frame = source.read(spark, source.Options.model_validate(options), context)
    assert {field.name: field.dataType for field in frame.schema} == dict(frames.COLUMNS)

    def run() -> list[tuple[str, dict[str, object] | None]]:
        rows: list[Row] = []
        writer = frame.writeStream.foreachBatch(lambda batch, number: rows.extend(batch.collect()))
        writer = writer.option("checkpointLocation", context.checkpoint).trigger(availableNow=True)
        assert retry_late_worker(lambda: writer.start().awaitTermination(START_SECONDS))
        return [(row.key.decode(), row.value and json.loads(row.value)) for row in rows]

    read = run()
    assert sorted(json.loads(key)["id"] for key, _ in read) == list(range(1, 201))
    database.execute("UPDATE item SET value = 'u' WHERE id = 1", "DELETE FROM item WHERE id = 2")
    changes = [(key, value and value["op"]) for key, value in run()]
    assert changes == [('{"id":1}', "u"), ('{"id":2}', "d"), ('{"id":2}', None)]


class Driver:
    """The pipeline's process, started as often as it is killed."""

    def __init__(self, folder: Path, given: dict[str, object]) -> None:
        self.folder = folder
        self.given = given
        self.process: subprocess.Popen[bytes] | None = None

    def start(self, **more: object) -> None:
        arguments = [sys.executable, "-m", "tests.spark.cdc.driver", json.dumps(self.given | more)]
        with (self.folder / "driver.log").open("ab") as log:
            self.process = subprocess.Popen(arguments, cwd=ROOT, stdout=log, stderr=log, start_new_session=True)

    def kill_when(self, condition: Callable[[], bool]) -> None:
        """Wait for a condition, and kill Python and the JVM. Python's workers find out by themselves."""
        assert self.process is not None
        deadline = time.monotonic() + START_SECONDS
        while not condition():
            assert self.process.poll() is None, self.log()
            assert time.monotonic() < deadline, self.log()
            time.sleep(0.1)
        self.kill()

    def kill(self) -> None:
        if self.process is not None and self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()

    def finish(self) -> None:
        """Run until everything that was committed is in the topic."""
        self.start(until_caught_up=True)
        assert self.process is not None
        assert self.process.wait(START_SECONDS) == 0, self.log()

    def log(self) -> str:
        return (self.folder / "driver.log").read_text()[-8000:]


@pytest.fixture
def driver(database: Database, bootstrap: str, tmp_path: Path) -> Iterator[Driver]:
    prefix = f"pre-{uuid.uuid4().hex[:8]}"
    admin = AdminClient({"bootstrap.servers": bootstrap})
    for future in admin.create_topics([NewTopic(f"{prefix}.public.item", PARTITIONS, 3)]).values():
        future.result(60)
    options = database.options(
        topic_prefix=prefix, snapshot_chunk_bytes="4096", max_wal_bytes_per_trigger="200000", poll_interval_ms="100"
    )
    del options["snapshot.location"]
    options["slot.wait.ms"] = "60000"
    process = Driver(tmp_path, {"folder": str(tmp_path), "name": prefix, "bootstrap": bootstrap, "source": options})
    yield process
    process.kill()


def consumed(bootstrap: str, topic: str) -> list[tuple[bytes | None, bytes | None]]:
    """Return keys and values of all that is committed, partition by partition."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": uuid.uuid4().hex,
            "isolation.level": "read_committed",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "auto.offset.reset": "earliest",
        }
    )
    found: list[tuple[bytes | None, bytes | None]] = []
    try:
        for partition in range(PARTITIONS):
            consumer.assign([TopicPartition(topic, partition, 0)])
            while (message := consumer.poll(10)) is not None and not message.error():
                found.append((message.key(), message.value()))
            assert message is not None, "the partition's end did not come"
    finally:
        consumer.close()
    return found


def test_over_kills_of_the_driver_the_topic_has_each_change_once_and_in_order(
    driver: Driver, database: Database, bootstrap: str, tmp_path: Path
) -> None:
    """Kill it while the slot is made, while tables are copied, between the snapshot's batches, and in the stream."""
    chance = random.Random(ROUNDS)
    database.execute(CREATE)
    ledger = Ledger(database=database, chance=chance, keys=3000)
    ledger.change(1500)
    checkpoint = tmp_path / "checkpoint"
    folder = checkpoint / "postgresql"

    with database.connect() as open_one:  # a slot is made when all that runs has ended
        open_one.execute("BEGIN")
        open_one.execute("SELECT pg_current_xact_id()")
        driver.start()
        driver.kill_when(lambda: (folder / INTENT).exists() and making_a_slot(database))
        open_one.execute("ROLLBACK")
    ledger.change(100)
    if ROUNDS > 1:
        with database.connect() as locked:
            locked.execute("BEGIN")
            locked.execute("LOCK TABLE item IN ACCESS EXCLUSIVE MODE")
            driver.start()
            driver.kill_when(lambda: waiting_for_a_lock(database))
            locked.execute("ROLLBACK")
        ledger.change(100)

    driver.start()
    driver.kill_when(lambda: (checkpoint / "commits" / "0").exists())
    assert (folder / MANIFEST).exists() and not (folder / INTENT).exists()
    for _ in range(ROUNDS):
        ledger.change(50)
        driver.start()
        batches = len(list((checkpoint / "offsets").glob("[0-9]*")))
        wanted = batches + chance.randint(2, 6)

        def far_enough(wanted: int = wanted) -> bool:
            ledger.change()
            return len(list((checkpoint / "offsets").glob("[0-9]*"))) >= wanted

        driver.kill_when(far_enough)
    driver.finish()
    records = consumed(bootstrap, f"{driver.given['name']}.public.item")
    ledger.check(records)
    assert {json.loads(value)["op"] for _, value in records if value} == {"r", "c", "u", "d"}


def making_a_slot(database: Database) -> bool:
    return bool(database.rows("SELECT 1 FROM pg_stat_activity WHERE query ILIKE 'CREATE_REPLICATION_SLOT%'"))


def waiting_for_a_lock(database: Database) -> bool:
    return bool(
        database.rows("SELECT 1 FROM pg_stat_activity WHERE query LIKE 'LOCK TABLE%' AND wait_event_type = 'Lock'")
    )
