"""A cluster's topics: what the compiler reads from, and what runs a query's sink."""

from dataclasses import dataclass

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]  # documented, not in __all__
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from kvorum.pipelines.bridge import register
from kvorum.pipelines.bridge.sink import Delivery, stream_writer, write_batch
from kvorum.pipelines.plugins import Trigger
from kvorum.pipelines.streams.config import StreamsConfig
from kvorum.pipelines.streams.errors import TopologyError
from kvorum.pipelines.streams.nodes import Repartition, Sink, Source
from kvorum.pipelines.streams.plan import Query

FORMATS = {"spark": "kafka", "kvorum": "kvorum"}
CREATE_TIMEOUT_SECONDS = 60


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
        """Return the same of a topic of the application's own."""
        return self._read({"subscribe": self.config.internal_topic(suffix), "startingOffsets": "earliest"})

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
        """Create the topics of the application's own that are not there yet. Raises TopologyError."""
        wanted = []
        for query in queries:
            operation = query.head.operation
            if isinstance(operation, Repartition):
                partitions = operation.partitions or self.config.internal_partitions
                wanted.append(NewTopic(self.config.internal_topic(operation.suffix), num_partitions=partitions))
        if not wanted:
            return
        client = {key.removeprefix("kafka."): value for key, value in self.config.options.items()}
        admin = AdminClient({"bootstrap.servers": self.config.bootstrap_servers, **client})
        for name, future in admin.create_topics(wanted, operation_timeout=CREATE_TIMEOUT_SECONDS).items():
            try:
                future.result(CREATE_TIMEOUT_SECONDS)
            except KafkaException as error:
                if error.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
                    raise TopologyError(f"the topic {name} cannot be created: {error}") from error
