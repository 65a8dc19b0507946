"""Runs a mirror: one Spark query for the records, and beside it a loop that follows topics, configs and groups."""

import logging
import threading
import time
from typing import Final

from confluent_kafka import KafkaException
from pyspark.errors import PySparkException, StreamingQueryException
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from kvorum.pipelines.bridge import client, register
from kvorum.pipelines.bridge.lookup import Lookup
from kvorum.pipelines.bridge.offsets import LATEST, TopicPartition
from kvorum.pipelines.mirror import policy
from kvorum.pipelines.mirror.batches import Batches
from kvorum.pipelines.mirror.groups import GroupSync
from kvorum.pipelines.mirror.ledger import Ledger, heartbeat
from kvorum.pipelines.mirror.metrics import Figures, Listener, text
from kvorum.pipelines.mirror.spec import MirrorSpec
from kvorum.pipelines.mirror.topics import TopicSync, create_control_topics

logger = logging.getLogger(__name__)

LOOK_SECONDS: Final = 0.5
"""How often the loop looks whether it should stop, or the query has ended."""
WORKER_LATE: Final = "Python worker failed to connect back"
"""Spark waits ten seconds for a Python process to start, which cannot be set: too short on a busy machine."""
LATE_MAX: Final = 5
"""How often a mirror is restarted because of that."""


class Mirror:
    """A mirror that runs. States: made (older runs are fenced), started, closed."""

    def __init__(self, spec: MirrorSpec, spark: SparkSession) -> None:
        """Create the control topics, fence older runs, read the map."""
        self.spec = spec
        self.figures = Figures()
        self._spark = spark
        self._source = Lookup(client.from_options(spec.source.settings()))
        target = Lookup(client.from_options(spec.target.settings()))
        create_control_topics(target.admin, spec)
        self._ledger = Ledger(spec)
        self._topics = TopicSync(spec, self._source, target)
        self._groups = None
        if spec.sync.groups:
            self._groups = GroupSync(spec, self._source.admin, target.admin, self._ledger, self.figures)
        self._batches = Batches(spec, spark, self._topics, self._ledger, self.figures)
        self._listener = Listener(spec.metrics, lambda: text(spec, self.figures)) if spec.metrics else None
        self._query: StreamingQuery | None = None

    def start(self) -> None:
        """Start the query.

        Raises: MarkError if the sink's marks are not those of this checkpoint.
        """
        register(self._spark)
        self._topics.ensure()
        self._batches.check(self._spark)
        reading = {
            **self.spec.source.settings(),
            "subscribePattern": policy.pattern(self.spec.naming, self.spec.topics, self.spec.exclude),
            "startingOffsets": self.spec.starting_offsets,
            "includeHeaders": "true",
            "failOnDataLoss": "true" if self.spec.fail_on_data_loss else "false",
            "maxOffsetsPerTrigger": str(self.spec.max_offsets_per_trigger),
            # Records of aborted and open transactions are not mirrored.
            "kafka.isolation.level": "read_committed",
        }
        frame = self._spark.readStream.format("kvorum").options(**reading).load()
        writer = frame.writeStream.foreachBatch(self._batches.write).queryName(self.spec.name)
        writer = writer.option("checkpointLocation", self.spec.checkpoint)
        arguments = self.spec.trigger.arguments()
        if arguments:
            writer = writer.trigger(**arguments)  # type: ignore[arg-type]
        self._query = writer.start()
        logger.info(
            "mirror %s: %s -> %s, topics %s, %s",
            self.spec.name,
            self.spec.source.alias,
            self.spec.target.alias,
            list(self.spec.topics),
            self.spec.delivery,
        )

    def is_done(self) -> bool:
        """Return whether the query has ended by itself. Raises what it failed with."""
        assert self._query is not None, "a mirror is started first"
        if self._query.isActive:
            return False
        error = self._query.exception()
        if error is not None:
            raise error
        return True

    def follow(self) -> None:
        """Follow topics, configs, groups once, and count the lag. What fails is logged and tried the next time."""
        for what, step in (
            ("topics", self._topics.ensure),
            ("configs", self._follow_configs),
            ("lag", self._measure),
            ("groups", self._follow_groups),
            ("heartbeats", self._beat),
        ):
            try:
                step()
            except (KafkaException, TimeoutError) as error:
                self.figures.errors += 1
                logger.warning("mirror %s: %s not synchronised: %s", self.spec.name, what, error)

    def _follow_configs(self) -> None:
        self.figures.configs_changed += self._topics.follow_configs()

    def _measure(self) -> None:
        places = [
            TopicPartition(topic, number) for topic, count in self._topics.partitions.items() for number in range(count)
        ]
        ends = self._source.everywhere(places, LATEST, is_read_committed=True)
        self.figures.source_ends = ends
        known = {place: mark.source for place in self._ledger.map.places() if (mark := self._ledger.map.last(place))}
        self.figures.mirrored = {**known, **self.figures.mirrored}

    def _follow_groups(self) -> None:
        if self._groups is not None:
            self._groups.follow(self._topics.partitions)

    def _beat(self) -> None:
        if self.spec.sync.heartbeats:
            aliases = self.spec.source.alias, self.spec.target.alias
            self._ledger.write([heartbeat(policy.HEARTBEATS, *aliases, int(time.time() * 1000))])

    def close(self) -> None:
        """Stop the query and release all resources."""
        try:
            if self._query is not None and self._query.isActive:
                self._query.stop()
        finally:
            if self._listener is not None:
                self._listener.close()
            if self._groups is not None:
                self._groups.close()
            self._ledger.close()


def run(spec: MirrorSpec, spark: SparkSession, stop: threading.Event) -> Figures:
    """Run a mirror until `stop` is set, or, with a trigger that ends, until all is mirrored. Returns its figures.

    Raises: StreamingQueryException with what the query failed of; what the start failed of.
    """
    for _ in range(LATE_MAX):
        try:
            return run_once(spec, spark, stop)
        except StreamingQueryException as error:
            if WORKER_LATE not in str(error) or stop.is_set():
                raise
            logger.warning("mirror %s restarted: %s", spec.name, WORKER_LATE)
    return run_once(spec, spark, stop)


def run_once(spec: MirrorSpec, spark: SparkSession, stop: threading.Event) -> Figures:
    """Run a mirror as `run`, until anything fails."""
    mirror = Mirror(spec, spark)
    try:
        mirror.start()
        following = 0.0
        while not stop.is_set():
            if mirror.is_done():
                mirror.follow()  # groups, once all is there
                break
            if time.monotonic() >= following:
                mirror.follow()
                following = time.monotonic() + spec.interval_seconds
            stop.wait(LOOK_SECONDS)
    finally:
        try:
            mirror.close()
        except PySparkException as error:
            logger.warning("mirror %s did not stop cleanly: %s", spec.name, error)
    return mirror.figures
