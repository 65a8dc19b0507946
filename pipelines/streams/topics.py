"""A cluster's topics: what the compiler reads from, and what runs a query's sink."""

import json
import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

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

from kvorum.pipelines.bridge import register
from kvorum.pipelines.bridge.sink import Delivery, stream_writer, write_batch
from kvorum.pipelines.plugins import Trigger
from kvorum.pipelines.streams.checkpoint import check_joins
from kvorum.pipelines.streams.config import StreamsConfig
from kvorum.pipelines.streams.errors import TopologyError
from kvorum.pipelines.streams.nodes import Repartition, Sink, Source
from kvorum.pipelines.streams.plan import Query
from kvorum.pipelines.streams.purge import processed, readers

logger = logging.getLogger(__name__)

FORMATS = {"spark": "kafka", "kvorum": "kvorum"}
CREATE_TIMEOUT_SECONDS = 60
KEPT: Final = {"cleanup.policy": "delete", "retention.ms": "-1", "retention.bytes": "-1"}
"""Records of internal topics are deleted once they are processed, and never by age or size."""
INTERNAL_CONFIGS: Final = {**KEPT, "segment.bytes": "52428800", "message.timestamp.type": "CreateTime"}
"""As Kafka Streams' RepartitionTopicConfig."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterTopics:
    """Reads with the configured connector, writes with the exactly-once sink or the one that is not."""

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
        known = self._admin().list_topics(timeout=CREATE_TIMEOUT_SECONDS).topics.get(topic)
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
        return self.spark.readStream.format(FORMATS[self.config.connector]).options(**options).load()

    def write(self, frame: DataFrame, query: Query, trigger: Trigger) -> StreamingQuery:
        """Start a query."""
        options = {"kafka.bootstrap.servers": self.config.bootstrap_servers, **self.config.options}
        operation = query.head.operation
        if isinstance(operation, Repartition):
            options["topic"] = self.config.internal_topic(operation.suffix)
        elif isinstance(operation, Sink) and operation.topic is not None:
            options["topic"] = operation.topic
        name = f"{self.config.application_id}-{query.name}"
        checkpoint = self.config.checkpoint(query.name)
        check_joins(self.spark, checkpoint, query)
        delivery = Delivery(self.config.delivery)
        if delivery is Delivery.AT_LEAST_ONCE and query.mode == "update":
            # Spark lets no Python data source take a table's changes.
            def write(rows: DataFrame, batch_id: int) -> None:
                write_batch(rows, options, delivery=delivery, query=name, batch_id=batch_id)

            writer = frame.writeStream.foreachBatch(write).option("checkpointLocation", checkpoint).queryName(name)
        else:
            writer = stream_writer(frame, options, delivery=delivery, query=name, checkpoint=checkpoint)
        return trigger.apply(writer.outputMode(query.mode)).start()

    def create_internal(self, queries: tuple[Query, ...]) -> None:
        """Create internal topics that do not exist; existing ones get an unlimited retention. Raises TopologyError."""
        wanted = {}
        for query in queries:
            operation = query.head.operation
            if isinstance(operation, Repartition):
                name = self.config.internal_topic(operation.suffix)
                partitions = operation.partitions or self.config.internal_partitions
                wanted[name] = NewTopic(name, num_partitions=partitions, config=dict(INTERNAL_CONFIGS))
        if not wanted:
            return
        admin = self._admin()
        existing = []
        for name, future in admin.create_topics([*wanted.values()], operation_timeout=CREATE_TIMEOUT_SECONDS).items():
            try:
                future.result(CREATE_TIMEOUT_SECONDS)
            except KafkaException as error:
                if error.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
                    raise TopologyError(f"the topic {name} cannot be created: {error}") from error
                existing.append(name)
        if existing:
            self._keep_records(admin, existing)

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
        for part, future in admin.delete_records(parts, operation_timeout=CREATE_TIMEOUT_SECONDS).items():
            try:
                future.result(CREATE_TIMEOUT_SECONDS)
            except (KafkaException, TimeoutError) as error:
                reason = error if str(error) else f"no response within {CREATE_TIMEOUT_SECONDS} s"
                logger.warning("processed records of %s-%d were not deleted: %s", part.topic, part.partition, reason)

    def _keep_records(self, admin: AdminClient, topics: Sequence[str]) -> None:
        """Set an unlimited retention where there is another one. Raises TopologyError."""
        resources = [ConfigResource(ResourceType.TOPIC, topic) for topic in topics]
        try:
            for resource, described in admin.describe_configs(resources).items():
                now = {name: entry.value for name, entry in described.result(CREATE_TIMEOUT_SECONDS).items()}
                wrong = {name: value for name, value in KEPT.items() if now.get(name) != value}
                if not wrong:
                    continue
                found = {name: now.get(name) for name in wrong}
                logger.warning("internal topic %s has %s: %s is set", resource.name, found, wrong)
                _set(admin, resource.name, wrong)
        except KafkaException as error:
            raise TopologyError(f"the configs of internal topics cannot be set: {error}") from error

    def _admin(self) -> AdminClient:
        client = {key.removeprefix("kafka."): value for key, value in self.config.options.items()}
        return AdminClient({"bootstrap.servers": self.config.bootstrap_servers, **client})


def _set(admin: AdminClient, topic: str, configs: Mapping[str, str]) -> None:
    entries = [ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET) for name, value in configs.items()]
    resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=entries)
    admin.incremental_alter_configs([resource])[resource].result(CREATE_TIMEOUT_SECONDS)
