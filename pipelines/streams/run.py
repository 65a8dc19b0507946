"""Streams: a topology that runs, one Spark query for each of its sinks and internal topics.

Between any two nodes of a query flows a record frame (kvorum.pipelines.frames): `key` and `value` of the user's types,
the record's timestamp, and, until an operator makes new records, the topic, partition, offset and headers it came with.

CREATED --start()--> RUNNING --close()--> NOT_RUNNING
                        |  a query failed
                        +------------------> ERROR: the other queries are stopped, as KafkaStreams shuts down

Internal topics have no retention, so that no record is removed before it was read, whatever its timestamp. As in Kafka
Streams, their records are deleted once all queries that read them have processed them.
"""

import itertools
import json
import logging
import threading
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from pathlib import Path
from typing import Final, Literal, Protocol

import confluent_kafka
from confluent_kafka import KafkaException
from confluent_kafka.admin import (  # type: ignore[attr-defined]  # documented, not in __all__
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewTopic,
    ResourceType,
)
from pyspark.errors import StreamingQueryException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.types import DataType, TimestampType

from kvorum.pipelines import frames
from kvorum.pipelines.bridge import client, register
from kvorum.pipelines.bridge import sink as sinks
from kvorum.pipelines.bridge.lookup import Lookup, create_topics
from kvorum.pipelines.bridge.offsets import Offsets, TopicPartition, from_json
from kvorum.pipelines.plugins import Delivery, Trigger
from kvorum.pipelines.session.build import ROCKSDB, SessionSettings, build
from kvorum.pipelines.session.late_workers import ATTEMPTS_MAX, may_restart
from kvorum.pipelines.streams import functions, serdes
from kvorum.pipelines.streams.functions import TopologyError
from kvorum.pipelines.streams.operators import check_state
from kvorum.pipelines.streams.state import pack, unpack_one
from kvorum.pipelines.streams.topology import Node, Query, Repartition, Sink, Source, Step, Topology

logger = logging.getLogger(__name__)

WATCH_SECONDS: Final = 0.5
INTERVAL_SECONDS = 30.0
"""Between deletions of processed records: Kafka Streams' repartition.purge.interval.ms."""
AVAILABLE_NOW: Final = Trigger(arguments={"availableNow": True})
STATE_SETTINGS: Final = {
    "spark.sql.streaming.stateStore.providerClass": ROCKSDB,
    # A commit uploads what changed, not the whole of the store.
    "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
}


OnBadRecord = Literal["fail", "skip"]
REQUEST_SECONDS: Final = 60
KEPT: Final = {"cleanup.policy": "delete", "retention.ms": "-1", "retention.bytes": "-1"}
INTERNAL_CONFIGS: Final = {**KEPT, "segment.bytes": "52428800", "message.timestamp.type": "CreateTime"}
"""As Kafka Streams' RepartitionTopicConfig."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamsConfig:
    """Settings of one application: Kafka Streams' that mean something here, under their names."""

    application_id: str
    """Names its queries, transactions, internal topics and folder of state; the only one of this name on a cluster."""
    bootstrap_servers: str
    state_dir: Path | str
    """Location of checkpoints and state: a folder per query, in a folder per application."""
    delivery: Delivery = "exactly_once"
    """exactly_once is Kafka Streams' exactly_once_v2."""
    trigger: Trigger = field(default_factory=Trigger)
    """When a micro-batch begins; Trigger(arguments={"processingTime": "1 second"}) is what a commit interval is."""
    on_bad_record: OnBadRecord = "fail"
    """Handling of a record that its serde cannot read: LogAndFailExceptionHandler, LogAndContinueExceptionHandler."""
    options: Mapping[str, str] = field(default_factory=dict)
    """Of the client, as kafka.security.protocol; they go to sources and sinks."""
    source_options: Mapping[str, str] = field(default_factory=dict)
    """Of sources alone, as maxOffsetsPerTrigger."""
    session: SessionSettings = field(default_factory=SessionSettings)
    """Spark's master, memory and settings, if Streams gets no session."""
    internal_partitions: int = 4
    """Of topics of the application's own, unless repartition() sets it."""

    def checkpoint(self, query: str) -> str:
        """Return a query's folder."""
        return str(Path(self.state_dir) / self.application_id / query)

    def internal_topic(self, suffix: str) -> str:
        """Return the name of a topic of the application's own."""
        return f"{self.application_id}-{suffix}-repartition"


class State(StrEnum):
    """KafkaStreams' states, as far as there are such."""

    CREATED = "CREATED"
    RUNNING = "RUNNING"
    NOT_RUNNING = "NOT_RUNNING"
    ERROR = "ERROR"


class Topics(Protocol):
    """Topics that queries read and write: of a cluster, or files of a test."""

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
        for attempts in itertools.count(1):
            try:
                running = topics.write(frame, query, AVAILABLE_NOW)
                running.awaitTermination()
                ended.append(running)
                break
            except StreamingQueryException as error:
                if not may_restart(error, attempts):
                    raise
                logger.warning("%s restarted: a Python worker started too late", query.name)
    return ended


class Streams:
    """KafkaStreams: a topology and its settings, to be started once."""

    def __init__(self, topology: Topology, config: StreamsConfig, spark: SparkSession | None = None) -> None:
        """Touch nothing yet; without a session, one is made at the start."""
        self.topology = topology
        self.config = config
        self.queries: tuple[StreamingQuery, ...] = ()
        self._spark = spark
        self._attempts: list[int] = []
        self._closed = threading.Event()
        self._watching: threading.Thread | None = None

    def start(self) -> None:
        """Start all queries. What fails to start stops those before it, and raises."""
        assert not self.queries, "a Streams is started once"
        topics = self._topics()
        topics.create_internal(self.topology.queries)
        compiler = Compiler(topics=topics, on_bad_record=self.config.on_bad_record)
        frames_made = []
        try:
            for query in self.topology.queries:
                frame = compiler.compile(query)
                started = topics.write(frame, query, self.config.trigger)
                frames_made.append(frame)
                self._attempts.append(1)
                self.queries = (*self.queries, started)
                logger.info("started %s, output mode %s", started.name, query.mode)
        except BaseException:
            self.close()
            raise
        self._watching = threading.Thread(
            target=self._watch, args=(topics, frames_made), name="streams-watch", daemon=True
        )
        self._watching.start()

    def process_available(self) -> None:
        """Process all records there are, instead of start(): a job for a timer, or for a test."""
        topics = self._topics()
        topics.create_internal(self.topology.queries)
        topics.purge(self.topology.queries, run_available(self.topology, topics, self.config.on_bad_record))

    def state(self) -> State:
        """Return how it is. A query that is about to be restarted counts as running."""
        if self._errors():
            return State.ERROR
        is_over = self.queries and not any(map(self._runs, range(len(self.queries))))
        if self._closed.is_set() or is_over:
            return State.NOT_RUNNING
        return State.RUNNING if self.queries else State.CREATED

    def await_termination(self, timeout_seconds: float | None = None) -> bool:
        """Wait until no query runs; return whether that came to pass. Raises what a query failed with."""
        deadline = None if timeout_seconds is None else time.monotonic() + timeout_seconds
        while self.state() is State.RUNNING:
            if deadline is not None and time.monotonic() >= deadline:
                return False
            time.sleep(WATCH_SECONDS)
        if errors := self._errors():
            self.close()
            raise errors[0]
        return True

    def close(self) -> None:
        """Stop all queries; what they did not finish is done again at the next start."""
        self._closed.set()
        if self._watching is not None:
            self._watching.join()
        for query in self.queries:
            query.stop()

    def _is_late(self, number: int) -> bool:
        """Return whether a query is to be restarted because its Python worker started too late."""
        return not self._closed.is_set() and may_restart(self.queries[number].exception(), self._attempts[number])

    def _runs(self, number: int) -> bool:
        return self.queries[number].isActive or self._is_late(number)

    def _errors(self) -> list[BaseException]:
        """Return what queries failed with that are not restarted."""
        found = (query.exception() for number, query in enumerate(self.queries) if not self._is_late(number))
        return [error for error in found if error is not None]

    def _watch(self, topics: "ClusterTopics", made: Sequence[DataFrame]) -> None:
        """Until `close`: restart late queries, and delete processed records of internal topics from time to time."""
        has_internal, purged_at = bool(readers(self.topology.queries, self.config)), time.monotonic()
        while not self._closed.wait(WATCH_SECONDS):
            for number in filter(self._is_late, range(len(self.queries))):
                self._restart(topics, made[number], number)
            if has_internal and time.monotonic() - purged_at >= INTERVAL_SECONDS:
                purged_at = time.monotonic()
                try:
                    topics.purge(self.topology.queries, self.queries)
                except Exception:
                    logger.exception("processed records of internal topics were not deleted; the next attempt follows")

    def _restart(self, topics: "ClusterTopics", frame: DataFrame, number: int) -> None:
        query = self.topology.queries[number]
        logger.warning("%s restarted: a Python worker started too late", query.name)
        try:
            again = topics.write(frame, query, self.config.trigger)
        except Exception:
            logger.exception("%s was not restarted", query.name)
            self._attempts[number] = ATTEMPTS_MAX
            return
        self.queries = (*self.queries[:number], again, *self.queries[number + 1 :])
        self._attempts[number] += 1

    def _topics(self) -> "ClusterTopics":
        if self._spark is None:
            settings = replace(self.config.session, connector="kvorum")
            self._spark = build(self.config.application_id, settings).spark
        for key, value in STATE_SETTINGS.items():
            self._spark.conf.set(key, value)
        return ClusterTopics(spark=self._spark, config=self.config)


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterTopics:
    """Reads and writes with Kvorum's connector."""

    spark: SparkSession
    config: StreamsConfig

    def read(self, source: Source) -> DataFrame:
        """Return a stream of records."""
        where = {"subscribePattern": source.pattern} if source.pattern else {"subscribe": ",".join(source.topics)}
        return self._read({**where, "startingOffsets": source.offset_reset})

    def read_internal(self, suffix: str) -> DataFrame:
        """Return a stream of an internal topic's records, from its first record ever.

        A new query starts at offset 0 instead of `earliest`: if records were removed before, it fails and names them.
        """
        topic = self.config.internal_topic(suffix)
        known = self._admin().list_topics(timeout=REQUEST_SECONDS).topics.get(topic)
        if known is None or not known.partitions:
            raise TopologyError(f"the internal topic {topic} does not exist")
        starts = {topic: {str(number): 0 for number in known.partitions}}
        return self._read({"subscribe": topic, "startingOffsets": json.dumps(starts)})

    def _read(self, where: dict[str, str]) -> DataFrame:
        register(self.spark)
        options = {"kafka.bootstrap.servers": self.config.bootstrap_servers, "includeHeaders": "true", **where}
        if self.config.delivery == "exactly_once":
            options["kafka.isolation.level"] = "read_committed"
        options |= {**self.config.options, **self.config.source_options}
        return self.spark.readStream.format("kvorum").options(**options).load()

    def write(self, frame: DataFrame, query: Query, trigger: Trigger) -> StreamingQuery:
        """Start a query."""
        options = self._settings()
        if isinstance(query.head.operation, Repartition):
            options["topic"] = self.config.internal_topic(query.head.operation.suffix)
        elif query.topic is not None:
            options["topic"] = query.topic
        checkpoint = self.config.checkpoint(query.name)
        check_state(self.spark, checkpoint, query)
        name, delivery = f"{self.config.application_id}-{query.name}", self.config.delivery
        writer = sinks.stream_writer(frame, options, delivery=delivery, query=name, checkpoint=checkpoint)
        return trigger.apply(writer.outputMode(query.mode)).start()

    def create_internal(self, queries: Sequence[Query]) -> None:
        """Create internal topics that do not exist; existing ones get an unlimited retention. Raises TopologyError."""
        internal = [each.head.operation for each in queries if isinstance(each.head.operation, Repartition)]
        if not internal:
            return
        wanted = [
            NewTopic(
                self.config.internal_topic(each.suffix),
                num_partitions=each.partitions or self.config.internal_partitions,
                config=dict(INTERNAL_CONFIGS),
            )
            for each in internal
        ]
        admin = self._admin()
        try:
            for name in create_topics(admin, wanted):
                _keep_records(admin, name)
        except KafkaException as error:
            raise TopologyError(f"internal topics cannot be created: {error}") from error

    def purge(self, queries: Sequence[Query], running: Iterable[StreamingQuery]) -> None:
        """Delete the records of internal topics that all queries which read them have processed. Logs errors."""
        starts = {}
        for query in running:
            last = query.lastProgress
            name = (query.name or "").removeprefix(f"{self.config.application_id}-")
            starts[name] = [None] if last is None else [source.startOffset for source in last.sources]
        offsets = processed(readers(queries, self.config), starts)
        if not offsets:
            return
        parts = [confluent_kafka.TopicPartition(topic, number, at) for (topic, number), at in offsets.items()]
        admin = self._admin()  # kept: without a reference to its client a future is never done
        for part, future in admin.delete_records(parts, operation_timeout=REQUEST_SECONDS).items():
            try:
                future.result(REQUEST_SECONDS)
            except (KafkaException, TimeoutError) as error:
                reason = error if str(error) else f"no response within {REQUEST_SECONDS} s"
                logger.warning("processed records of %s-%d were not deleted: %s", part.topic, part.partition, reason)

    def _admin(self) -> AdminClient:
        return Lookup(client.from_options(self._settings())).admin

    def _settings(self) -> dict[str, str]:
        return {"kafka.bootstrap.servers": self.config.bootstrap_servers, **self.config.options}


def _keep_records(admin: AdminClient, topic: str) -> None:
    """Set an unlimited retention if the topic has another one. Raises TopologyError."""
    resource = ConfigResource(ResourceType.TOPIC, topic)
    try:
        described = admin.describe_configs([resource])[resource].result(REQUEST_SECONDS)
        found = {name: described[name].value for name in KEPT if name in described}
        wrong = {name: value for name, value in KEPT.items() if found.get(name) != value}
        if wrong:
            now = {name: found.get(name) for name in wrong}
            logger.warning("internal topic %s has %s: %s is set", topic, now, wrong)
            entries = [ConfigEntry(*each, incremental_operation=AlterConfigOpType.SET) for each in wrong.items()]
            resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=entries)
            admin.incremental_alter_configs([resource])[resource].result(REQUEST_SECONDS)
    except KafkaException as error:
        raise TopologyError(f"the configs of internal topics cannot be set: {error}") from error


def readers(queries: Sequence[Query], config: StreamsConfig) -> dict[str, set[str]]:
    """Return the names of the queries that read each internal topic."""
    found: dict[str, set[str]] = {}
    for query in queries:
        for each in query.internal():
            found.setdefault(config.internal_topic(each.suffix), set()).add(query.name)
    return found


def processed(readers: Mapping[str, set[str]], starts: Mapping[str, Sequence[str | None]]) -> Offsets:
    """Return, by partition of the internal topics, the offset below which no query needs a record any more.

    `starts` has, by query, where the last micro-batch of each of its sources started (Spark's JSON; None or null: there
    is none before it): everything below belongs to micro-batches that are committed.
    """
    found: Offsets = {}
    for topic, names in readers.items():
        begins = [_begins(topic, starts.get(name, ())) for name in names]
        for partition in set.intersection(*map(set, begins)) if begins else ():
            offset = min(each[partition] for each in begins)
            if offset > 0:
                found[TopicPartition(topic, partition)] = offset
    return found


def _begins(topic: str, sources: Sequence[str | None]) -> dict[int, int]:
    """Return the lowest start of each partition of a topic over a query's sources; none while one has not begun."""
    lowest: dict[int, int] = {}
    for source in sources:
        start = None if source is None else json.loads(source)
        if start is None:
            return {}
        for where, offset in from_json(start).items():
            if where.topic == topic:
                lowest[where.partition] = min(offset, lowest.get(where.partition, offset))
    return lowest
