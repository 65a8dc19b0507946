"""Streams: a topology that runs, one Spark query for each of its sinks and internal topics.

Between any two nodes of a query flows a record frame (kvorum.pipelines.frames): `key` and `value` of the user's types,
the record's timestamp, and, until an operator makes new records, the topic, partition, offset and headers it came with.

CREATED --start()--> RUNNING --close()--> NOT_RUNNING
                        |  a query failed
                        +------------------> ERROR: the other queries are stopped, as KafkaStreams shuts down
"""

import logging
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Final, Protocol

from pyspark.errors import StreamingQueryException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.types import DataType, TimestampType

from kvorum.pipelines import frames
from kvorum.pipelines.plugins import Trigger
from kvorum.pipelines.session.build import ROCKSDB, build
from kvorum.pipelines.streams import functions, serdes
from kvorum.pipelines.streams.state import pack, unpack_one
from kvorum.pipelines.streams.topics import ClusterTopics, OnBadRecord, StreamsConfig, readers
from kvorum.pipelines.streams.topology import Node, Query, Repartition, Sink, Source, Step, Topology

logger = logging.getLogger(__name__)

WATCH_SECONDS: Final = 0.5
INTERVAL_SECONDS = 30.0
"""Between deletions of processed records: Kafka Streams' repartition.purge.interval.ms."""
WORKER_LATE: Final = "Python worker failed to connect back"
"""Spark gives a worker ten seconds to start, which cannot be set, and a busy machine may need more. The query goes on
from its checkpoint."""
WORKER_ATTEMPTS_MAX: Final = 5
AVAILABLE_NOW: Final = Trigger(arguments={"availableNow": True})
STATE_SETTINGS: Final = {
    "spark.sql.streaming.stateStore.providerClass": ROCKSDB,
    # A commit uploads what changed, not the whole of the store.
    "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
}


class State(StrEnum):
    """KafkaStreams' states, as far as there are such."""

    CREATED = "CREATED"
    RUNNING = "RUNNING"
    NOT_RUNNING = "NOT_RUNNING"
    ERROR = "ERROR"


class Topics(Protocol):
    """Where records come from and go to: a cluster's topics, or a test's files."""

    def read(self, source: Source) -> DataFrame:
        """Return a stream of records whose key and value are bytes."""

    def read_internal(self, suffix: str) -> DataFrame:
        """Return the same of a topic of the application's own."""

    def write(self, frame: DataFrame, query: Query, trigger: Trigger) -> StreamingQuery:
        """Start a query."""


@dataclass(slots=True, kw_only=True)
class Compiler:
    """Compiles an application's queries, in the plan's order: who reads an internal topic learns its types from it."""

    topics: Topics
    on_bad_record: OnBadRecord = "fail"
    _types: dict[Node, Mapping[str, DataType]] = field(default_factory=dict)

    def compile(self, query: Query) -> DataFrame:
        """Return the frame that the query writes: key and value are bytes or text, timestamp, headers, maybe topic."""
        made: dict[Node, DataFrame] = {}
        *nodes, head = query.nodes()
        for node in nodes:
            match node.operation:
                case Source() as source:
                    made[node] = self._source(source)
                case Repartition(suffix=suffix):
                    types = self._types[node].items()
                    unpacked = {name: unpack_one(F.col(name).cast("string"), name, kind) for name, kind in types}
                    made[node] = frames.record_frame(self.topics.read_internal(suffix)).withColumns(unpacked)
                case Step() as step:
                    mode = {"mode": query.mode} if step.load.has_state else {}
                    made[node] = step.function(*(made[parent] for parent in node.parents), **mode)
        return self._written(head, made[head.parents[0]])

    def _source(self, source: Source) -> DataFrame:
        frame = frames.record_frame(self.topics.read(source))
        frame = serdes.decode(frame, "key", source.key_serde)
        frame = serdes.decode(frame, "value", source.value_serde)
        frame = frames.first_failed(frame) if self.on_bad_record == "fail" else frames.well(frame)
        if source.timestamp_extractor is not None:
            extracted = functions.column(source.timestamp_extractor).cast(TimestampType())
            frame = frame.withColumn("timestamp", F.coalesce(extracted, F.col("timestamp")))
        frame = frame.select(*frames.COLUMNS)
        return frame.where(F.col("key").isNotNull()) if source.is_table else frame

    def _written(self, head: Node, frame: DataFrame) -> DataFrame:
        operation = head.operation
        columns: list[Column | str] = ["key", "value", "timestamp", "headers"]
        if isinstance(operation, Repartition):
            self._types[head] = {name: frame.schema[name].dataType for name in frames.FREE}
            packed = {name: F.when(F.col(name).isNotNull(), pack(name)).cast("binary") for name in frames.FREE}
            return frame.withColumns(packed).select(*columns)
        assert isinstance(operation, Sink)
        if operation.topic_extractor is not None:
            frame = frame.withColumn("topic", functions.column(operation.topic_extractor).cast("string"))
            columns.append("topic")
        frame = serdes.encode(frame, "key", operation.key_serde)
        frame = serdes.encode(frame, "value", operation.value_serde)
        return frames.first_failed(frame).select(*columns)


def run_available(topology: Topology, topics: Topics, on_bad_record: OnBadRecord) -> list[StreamingQuery]:
    """Process all records there are, one query after the other, each after those that write what it reads."""
    compiler = Compiler(topics=topics, on_bad_record=on_bad_record)
    ended = []
    for query in topology.queries:
        frame = compiler.compile(query)
        for attempt in range(1, WORKER_ATTEMPTS_MAX + 1):
            try:
                running = topics.write(frame, query, AVAILABLE_NOW)
                running.awaitTermination()
                ended.append(running)
                break
            except StreamingQueryException as error:
                if WORKER_LATE not in str(error) or attempt == WORKER_ATTEMPTS_MAX:
                    raise
                logger.warning("%s: no Python worker started within ten seconds, retried", query.name)
    return ended


class Streams:
    """KafkaStreams: a topology and its settings, to be started once."""

    def __init__(self, topology: Topology, config: StreamsConfig, spark: SparkSession | None = None) -> None:
        """Touch nothing yet; without a session, one is made at the start."""
        self.topology = topology
        self.config = config
        self.queries: tuple[StreamingQuery, ...] = ()
        self._spark = spark
        self._closed = threading.Event()
        self._purging: threading.Thread | None = None

    def start(self) -> None:
        """Start all queries. What fails to start stops those before it, and raises."""
        assert not self.queries, "a Streams is started once"
        topics = self._topics()
        topics.create_internal(self.topology.queries)
        compiler = Compiler(topics=topics, on_bad_record=self.config.on_bad_record)
        try:
            for query in self.topology.queries:
                started = topics.write(compiler.compile(query), query, self.config.trigger)
                self.queries = (*self.queries, started)
                logger.info("started %s, output mode %s", started.name, query.mode)
        except BaseException:
            self.close()
            raise
        if readers(self.topology.queries, self.config):
            self._purging = threading.Thread(target=self._purge, args=(topics,), name="streams-purge", daemon=True)
            self._purging.start()

    def process_available(self) -> None:
        """Process all records there are, instead of start(): a job for a timer, or for a test."""
        topics = self._topics()
        topics.create_internal(self.topology.queries)
        topics.purge(self.topology.queries, run_available(self.topology, topics, self.config.on_bad_record))

    def state(self) -> State:
        """Return how it is."""
        if any(query.exception() is not None for query in self.queries):
            return State.ERROR
        if self._closed.is_set() or (self.queries and not any(query.isActive for query in self.queries)):
            return State.NOT_RUNNING
        return State.RUNNING if self.queries else State.CREATED

    def await_termination(self, timeout_seconds: float | None = None) -> bool:
        """Wait until no query runs; return whether that came to pass. Raises what a query failed with."""
        deadline = None if timeout_seconds is None else time.monotonic() + timeout_seconds
        while self.state() is State.RUNNING:
            if deadline is not None and time.monotonic() >= deadline:
                return False
            time.sleep(WATCH_SECONDS)
        if self.state() is State.ERROR:
            self.close()
            raise next(error for query in self.queries if (error := query.exception()) is not None)
        return True

    def close(self) -> None:
        """Stop all queries; what they did not finish is done again at the next start."""
        self._closed.set()
        for query in self.queries:
            query.stop()
        if self._purging is not None:
            self._purging.join()

    def _purge(self, topics: ClusterTopics) -> None:
        """Delete processed records of internal topics from time to time, until `close`."""
        while not self._closed.wait(INTERVAL_SECONDS):
            try:
                topics.purge(self.topology.queries, self.queries)
            except Exception:
                logger.exception("processed records of internal topics were not deleted; the next attempt follows")

    def _topics(self) -> ClusterTopics:
        if self._spark is None:
            settings = replace(self.config.session, connector="kvorum")
            self._spark = build(self.config.application_id, settings).spark
        for key, value in STATE_SETTINGS.items():
            self._spark.conf.set(key, value)
        return ClusterTopics(spark=self._spark, config=self.config)
