"""Streams: a topology that runs, one Spark query for each of its sinks and internal topics.

CREATED --start()--> RUNNING --close()--> NOT_RUNNING
                        |  a query failed
                        +------------------> ERROR: the other queries are stopped, as KafkaStreams shuts down
"""

import logging
import threading
import time
from dataclasses import replace
from enum import StrEnum
from typing import Final

from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from kvorum.pipelines.plugins import Trigger
from kvorum.pipelines.session.build import ROCKSDB, build
from kvorum.pipelines.streams.compile import Compiler, OnBadRecord, Topics
from kvorum.pipelines.streams.topics import ClusterTopics, StreamsConfig, readers
from kvorum.pipelines.streams.topology import Topology

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
