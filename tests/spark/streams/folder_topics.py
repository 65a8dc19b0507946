"""Topologies without a cluster: their topics are folders of Parquet files.

    with TopologyTestDriver(topology, spark, tmp_path) as driver:
        driver.pipe("lines", (None, "to be or not to be", 1_000))
        driver.run()
        assert driver.read("counts") == [("be", "2"), ...]

Each run() processes what was piped since the last one, from the checkpoints of that one: state is kept as it is over a
restart. What is compiled is what runs on a cluster, with these folders in the topics' place.
"""

import shutil
from contextlib import AbstractContextManager
from dataclasses import dataclass
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
from typing_extensions import override

from kvorum.pipelines import frames
from kvorum.pipelines.plugins import Trigger
from kvorum.pipelines.streams.functions import TopologyError
from kvorum.pipelines.streams.operators import check_state
from kvorum.pipelines.streams.run import STATE_SETTINGS, OnBadRecord, run_available
from kvorum.pipelines.streams.state import EPOCH, MILLISECOND, millis
from kvorum.pipelines.streams.topology import Query, Source, Topology

SCHEMA = StructType([StructField(name, kind) for name, kind in frames.COLUMNS.items()])
ARROW = to_arrow_schema(SCHEMA, timezone="UTC")
BATCH_OFFSETS = 1 << 40
"""A micro-batch's rows get offsets from its id times this number."""


class TestRecord(NamedTuple):
    """A record of an output topic: bytes as text, None for null."""

    key: str | None
    value: str | None
    timestamp_ms: int


@dataclass(frozen=True, slots=True)
class _FolderTopics:
    """Topics as folders: <folder>/topics/<name>/*.parquet."""

    spark: SparkSession
    folder: Path

    def path(self, topic: str) -> Path:
        """Return a topic's folder, which exists from then on."""
        path = self.folder / "topics" / topic
        path.mkdir(parents=True, exist_ok=True)
        return path

    def read(self, source: Source) -> DataFrame:
        if source.pattern is not None:
            raise TopologyError("the test driver does not support topic patterns")
        return reduce(DataFrame.unionByName, map(self._read, source.topics))

    def read_internal(self, suffix: str) -> DataFrame:
        return self._read(f"{suffix}-repartition")

    def _read(self, topic: str) -> DataFrame:
        reader = self.spark.readStream.schema(SCHEMA).option("recursiveFileLookup", "true")
        return reader.parquet(str(self.path(topic)))

    def write(self, frame: DataFrame, query: Query, trigger: Trigger) -> StreamingQuery:
        def write(rows: DataFrame, batch_id: int) -> None:
            made = frames.record_frame(
                rows,
                key=F.col("key").cast("binary"),
                value=F.col("value").cast("binary"),
                partition=F.lit(0),
                offset=F.lit(batch_id * BATCH_OFFSETS) + F.monotonically_increasing_id(),
            )
            topics = [query.topic] if query.topic else [row[0] for row in rows.select("topic").distinct().collect()]
            for topic in topics:
                part = made if query.topic else made.where(F.col("topic").eqNullSafe(topic))
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
        self._topics = _FolderTopics(spark, folder)
        self._topology = topology
        self._on_bad_record = on_bad_record
        self._count = 0
        self._seen: set[Path] = set()

    @override
    def __exit__(self, *error: object) -> None:
        self.close()

    def pipe(self, topic: str, *records: tuple[Any, Any, int]) -> None:
        """Append records to an input topic: (key, value, timestamp in ms); text, bytes or None."""
        rows = []
        for key, value, timestamp_ms in records:
            key, value = (each.encode() if isinstance(each, str) else each for each in (key, value))
            row = {"key": key, "value": value, "topic": topic, "partition": 0, "offset": self._count}
            rows.append({**row, "timestamp": EPOCH + timestamp_ms * MILLISECOND, "timestampType": 0, "headers": None})
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
        records = []
        for row in (row for file in files for row in pq.read_table(file).to_pylist()):
            key, value = (
                None if each is None else each.decode(errors="replace") for each in (row["key"], row["value"])
            )
            at = row["timestamp"]
            records.append(TestRecord(key, value, -1 if at is None else millis(at)))
        return sorted(records, key=lambda each: (each.key or "", each.timestamp_ms, each.value or ""))

    def close(self) -> None:
        """Delete the folders."""
        for name in ("topics", "checkpoints"):
            shutil.rmtree(self._topics.folder / name, ignore_errors=True)
