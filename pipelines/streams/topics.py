"""A cluster's topics: what queries read from and write to, and the internal topics between them.

Internal topics have no retention, so that no record is removed before it was read, whatever its timestamp. As in Kafka
Streams, their records are deleted once all queries that read them have processed them.
"""

import json
import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Literal

import confluent_kafka
from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import (  # type: ignore[attr-defined]  # documented, not in __all__
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewTopic,
    ResourceType,
)
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from kvorum.pipelines.bridge import client, register
from kvorum.pipelines.bridge.lookup import Lookup
from kvorum.pipelines.bridge.offsets import Offsets, TopicPartition, from_json
from kvorum.pipelines.bridge.sink import stream_writer
from kvorum.pipelines.plugins import Delivery, Trigger
from kvorum.pipelines.session.build import SessionSettings
from kvorum.pipelines.streams.functions import TopologyError
from kvorum.pipelines.streams.operators import check_state
from kvorum.pipelines.streams.topology import Query, Repartition, Source

logger = logging.getLogger(__name__)

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
    """What is done with a record that its serde cannot read: LogAndFail's, or LogAndContinue's."""
    options: Mapping[str, str] = field(default_factory=dict)
    """Of the client, as kafka.security.protocol; they go to sources and sinks."""
    source_options: Mapping[str, str] = field(default_factory=dict)
    """Of sources alone, as maxOffsetsPerTrigger."""
    session: SessionSettings = field(default_factory=SessionSettings)
    """Spark's master, memory and settings, if Streams gets no session."""
    internal_partitions: int = 4
    """Of topics of the application's own, unless repartition() says more."""

    def checkpoint(self, query: str) -> str:
        """Return a query's folder."""
        return str(Path(self.state_dir) / self.application_id / query)

    def internal_topic(self, suffix: str) -> str:
        """Return the name of a topic of the application's own."""
        return f"{self.application_id}-{suffix}-repartition"


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
        writer = stream_writer(frame, options, delivery=delivery, query=name, checkpoint=checkpoint)
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
        for name, future in admin.create_topics(wanted, operation_timeout=REQUEST_SECONDS).items():
            try:
                future.result(REQUEST_SECONDS)
            except KafkaException as error:
                if error.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
                    raise TopologyError(f"the topic {name} cannot be created: {error}") from error
                _keep_records(admin, name)

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
