"""TopologyTestDriver: a topology without a cluster, its topics folders of Parquet files.

    with TopologyTestDriver(topology, spark, tmp_path) as driver:
        driver.pipe("lines", (None, "to be or not to be", 1_000))
        driver.run()
        assert driver.read("counts") == [("be", "2"), ...]

Each run() processes what was piped since the last one, from the checkpoints of that one: state is kept as it is over a
restart. What is compiled is what runs on a cluster, with these folders in the topics' place.
"""

import shutil
from contextlib import AbstractContextManager
from datetime import datetime
from functools import reduce
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.types import StructField, StructType

from kvorum.pipelines import frames
from kvorum.pipelines.plugins import Trigger
from kvorum.pipelines.streams.compile import OnBadRecord
from kvorum.pipelines.streams.errors import TopologyError
from kvorum.pipelines.streams.joins import check_state
from kvorum.pipelines.streams.nodes import Repartition, Sink, Source
from kvorum.pipelines.streams.plan import Query, Topology
from kvorum.pipelines.streams.run import STATE_SETTINGS, run_available
from kvorum.pipelines.streams.state import EPOCH, MILLISECOND, millis

SCHEMA = StructType([StructField(name, kind) for name, kind in frames.COLUMNS.items()])
ARROW = to_arrow_schema(SCHEMA, timezone="UTC")
BATCH_OFFSETS = 1 << 40
"""A micro-batch's rows get offsets from its id times this number."""


class TestRecord(NamedTuple):
    """A record of an output topic: bytes as text, None for null."""

    key: str | None
    value: str | None
    timestamp_ms: int


class FolderTopics:
    """Topics as folders: <folder>/topics/<name>/*.parquet."""

    def __init__(self, spark: SparkSession, folder: Path) -> None:
        """Create the folders on first use."""
        self.spark = spark
        self.folder = folder

    def path(self, topic: str) -> Path:
        """Return a topic's folder, which exists from then on."""
        path = self.folder / "topics" / topic
        path.mkdir(parents=True, exist_ok=True)
        return path

    def read(self, source: Source) -> DataFrame:
        """Return a stream of records."""
        if source.pattern is not None:
            raise TopologyError("the test driver does not support topic patterns")
        return reduce(DataFrame.unionByName, map(self._read, source.topics))

    def read_internal(self, suffix: str) -> DataFrame:
        """Return the same of a topic of the application's own."""
        return self._read(f"{suffix}-repartition")

    def _read(self, topic: str) -> DataFrame:
        reader = self.spark.readStream.schema(SCHEMA).option("recursiveFileLookup", "true")
        return reader.parquet(str(self.path(topic)))

    def write(self, frame: DataFrame, query: Query, trigger: Trigger) -> StreamingQuery:
        """Start a query."""
        operation = query.head.operation
        named = operation.topic if isinstance(operation, Sink) else None
        named = f"{operation.suffix}-repartition" if isinstance(operation, Repartition) else named

        def write(rows: DataFrame, batch_id: int) -> None:
            made = frames.record_frame(
                rows,
                key=F.col("key").cast("binary"),
                value=F.col("value").cast("binary"),
                partition=F.lit(0),
                offset=F.lit(batch_id * BATCH_OFFSETS) + F.monotonically_increasing_id(),
            )
            topics = [named] if named else [row[0] for row in rows.select("topic").distinct().collect()]
            for topic in topics:
                part = made if named else made.where(F.col("topic").eqNullSafe(topic))
                part.write.mode("overwrite").parquet(str(self.path(topic) / f"{query.name}-{batch_id:06d}"))

        checkpoint = str(self.folder / "checkpoints" / query.name)
        check_state(self.spark, checkpoint, query)
        writer = frame.writeStream.foreachBatch(write).option("checkpointLocation", checkpoint)
        return trigger.apply(writer.outputMode(query.mode)).start()


class TopologyTestDriver(AbstractContextManager["TopologyTestDriver"]):
    """Runs a topology on test records."""

    def __init__(
        self, topology: Topology, spark: SparkSession, folder: Path, *, on_bad_record: OnBadRecord = "fail"
    ) -> None:
        """Use a folder; a new driver on the same folder continues."""
        for key, value in STATE_SETTINGS.items():
            spark.conf.set(key, value)
        self._topics = FolderTopics(spark, folder)
        self._topology = topology
        self._on_bad_record = on_bad_record
        self._count = 0
        self._seen: set[Path] = set()

    def __exit__(self, *error: object) -> None:
        """Delete the folders."""
        self.close()

    def pipe(self, topic: str, *records: tuple[Any, Any, int]) -> None:
        """Append records to an input topic: (key, value, timestamp in ms); text, bytes or None."""
        rows = []
        for key, value, timestamp_ms in records:
            at = EPOCH + timestamp_ms * MILLISECOND
            row = {"key": _bytes(key), "value": _bytes(value), "topic": topic, "partition": 0, "timestamp": at}
            rows.append({**row, "offset": self._count, "timestampType": 0, "headers": None})
            self._count += 1
        table = pa.Table.from_pylist(rows, schema=ARROW)
        pq.write_table(table, self._topics.path(topic) / f"{self._count:012d}.parquet")

    def run(self) -> None:
        """Process what was piped since the last run."""
        run_available(self._topology, self._topics, self._on_bad_record)

    def read(self, topic: str) -> list[TestRecord]:
        """Return what came to a topic since it was last read, sorted by key, time and value."""
        files = set(self._topics.path(topic).rglob("*.parquet")) - self._seen
        self._seen |= files
        rows = [row for file in files for row in pq.read_table(file).to_pylist()]
        records = [TestRecord(_text(row["key"]), _text(row["value"]), _millis(row["timestamp"])) for row in rows]
        return sorted(records, key=lambda each: (each.key or "", each.timestamp_ms, each.value or ""))

    def close(self) -> None:
        """Delete the folders."""
        for name in ("topics", "checkpoints"):
            shutil.rmtree(self._topics.folder / name, ignore_errors=True)


def _bytes(given: Any) -> bytes | None:
    return given.encode() if isinstance(given, str) else given


def _text(given: bytes | None) -> str | None:
    return None if given is None else given.decode(errors="replace")


def _millis(time: datetime | None) -> int:
    return -1 if time is None else millis(time)
