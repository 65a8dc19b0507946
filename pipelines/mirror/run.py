"""Runs a mirror: one Spark query for the records, and beside it a loop that follows topics, configs and groups.

Order in a micro-batch, and why a crash between any two steps does no harm:

    1. topics and partitions of the source are on the target    made once more, nothing happens
    2. partitions without a mark get their first one            before any record of them is written
    3. the records, by the sink                                 exactly once: what is in is not written again
    4. the target's ends become marks                           the next batch's mark covers what this one did not note

Step 4 reads the target's end while nothing is being written: the sink has fenced all older writers of records, and the
ledger fences all older writers of marks, so a mark is never beyond its true offset.
"""

import itertools
import json
import logging
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Final

import click
from confluent_kafka import KafkaException
from pyspark.errors import PySparkException, StreamingQueryException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.query import StreamingQuery

from kvorum.pipelines.bridge import client, offsets, register
from kvorum.pipelines.bridge.ledger import Folder
from kvorum.pipelines.bridge.lookup import Lookup
from kvorum.pipelines.bridge.offsets import LATEST, Offsets, TopicPartition
from kvorum.pipelines.bridge.sink import batch_writer
from kvorum.pipelines.mirror.groups import GroupSync
from kvorum.pipelines.mirror.ledger import Ledger
from kvorum.pipelines.mirror.metrics import Figures, listen, text
from kvorum.pipelines.mirror.spec import PROVENANCE, MirrorSpec, load
from kvorum.pipelines.mirror.topics import TopicSync, create_map_topic
from kvorum.pipelines.session.build import SessionSettings, build
from kvorum.pipelines.session.late_workers import may_restart
from kvorum.pipelines.spec import SpecError

logger = logging.getLogger(__name__)

LOOK_SECONDS: Final = 0.5
"""How often the loop looks whether it should stop, or the query has ended."""
OFFSETS_VERSION: Final = "v1"
"""Of Spark's file of a micro-batch's ends: version, metadata, then a line a source."""


class BadCheckpoint(RuntimeError):
    """The checkpoint's files are not as they should be."""


class Mirror:
    """A mirror that runs. States: made (older runs are fenced), started, closed."""

    _write_rows: Callable[[DataFrame, int], None]
    _query: StreamingQuery | None = None

    def __init__(self, spec: MirrorSpec, spark: SparkSession) -> None:
        """Create the topic of the offset map, fence older runs, read the map."""
        self.figures = Figures()
        self._spec = spec
        self._spark = spark
        # Two clients of the target: one that has listed a topic does not see the partitions that it adds to it at once.
        self._source, target, self._target = (
            Lookup(client.from_options(cluster.settings())) for cluster in (spec.source, spec.target, spec.target)
        )
        create_map_topic(target.admin, spec)
        self._ledger = Ledger(spec)
        self._topics = TopicSync(spec, self._source, target, self.figures)
        self._groups = GroupSync(spec, self._topics, self._ledger.map, self.figures) if spec.sync.groups else None
        self._offsets = Folder(spark, spec.checkpoint, "offsets")
        self._listener = listen(spec.metrics, lambda: text(spec, self.figures)) if spec.metrics else None

    def start(self) -> StreamingQuery:
        """Start the query and return it. Raises: MarkError if the sink's marks are not those of this checkpoint."""
        spec = self._spec
        register(self._spark)
        self._topics.ensure()
        reading = {
            **spec.source.settings(),
            "subscribePattern": spec.topic_pattern,
            "startingOffsets": spec.starting_offsets,
            "includeHeaders": "true",
            "failOnDataLoss": "true" if spec.fail_on_data_loss else "false",
            "maxOffsetsPerTrigger": str(spec.max_offsets_per_trigger),
            # Records of aborted and open transactions are not mirrored.
            "kafka.isolation.level": "read_committed",
        }
        frame = self._spark.readStream.format("kvorum").options(**reading).load()
        self._write_rows = batch_writer(
            to_target(frame, spec),
            spec.target.settings(),
            delivery=spec.delivery,
            query=spec.name,
            checkpoint=spec.checkpoint,
        )
        writer = frame.writeStream.foreachBatch(self._write).queryName(spec.name)
        writer = writer.option("checkpointLocation", spec.checkpoint)
        arguments = spec.trigger.arguments()
        if arguments:
            writer = writer.trigger(**arguments)  # type: ignore[arg-type]
        self._query = writer.start()
        aliases, topics = (spec.source.alias, spec.target.alias), list(spec.topics)
        logger.info("mirror %s: %s -> %s, topics %s, %s", spec.name, *aliases, topics, spec.delivery)
        return self._query

    def _write(self, frame: DataFrame, batch_id: int) -> None:
        """Mirror one micro-batch."""
        began = time.monotonic()
        starts, ends = self._bounds(batch_id)
        self._topics.ensure()
        self._restart_recreated([place for place in ends if self._ledger.map.last(place) is not None])
        fresh = [place for place in ends if self._ledger.map.last(place) is None]
        self._mark({place: starts.get(place, 0) for place in fresh})
        self._write_rows(to_target(frame, self._spec), batch_id)
        self._mark({place: end for place, end in ends.items() if end > starts.get(place, 0)})
        figures = self.figures
        figures.mirrored = {**figures.mirrored, **ends}
        figures.batches += 1
        figures.batch_seconds = time.monotonic() - began
        figures.last_batch = time.time()

    def _restart_recreated(self, places: Iterable[TopicPartition]) -> None:
        """Remove the marks of partitions that end before their last mark: their topic was deleted and recreated."""
        for place, end in self._ends(places).items():
            last = self._ledger.map.last(place)
            if last is not None and end < last.target:
                logger.warning(
                    "%s-%d was recreated on %s (it ends at %d, before offset %d of its last mark): its marks are "
                    "removed; what was mirrored to it before is not mirrored again",
                    *(*self._spec.there(place), self._spec.target.alias, end, last.target),
                )
                self._ledger.restart(place)

    def _mark(self, sources: Mapping[TopicPartition, int]) -> None:
        """Mark source offsets with where the target's partitions end now."""
        self._ledger.mark({place: (sources[place], end) for place, end in self._ends(sources).items()})

    def _ends(self, places: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """Return where partitions of the target end now; places are by the source's names."""
        wanted = {self._spec.there(place): place for place in places}
        found = self._target.everywhere(wanted, LATEST, is_read_committed=False)
        return {wanted[where]: end for where, end in found.items()}

    def _bounds(self, batch_id: int) -> tuple[Offsets, Offsets]:
        """Return where a micro-batch begins and ends."""
        found = self._offsets.read(str(batch_id))
        if found is None:
            raise BadCheckpoint(f"{self._offsets.root}/{batch_id} does not exist")
        starts, ends = read_offsets(found)
        before = self._offsets.read(str(batch_id - 1)) if batch_id else None
        return starts if before is None else read_offsets(before)[1], ends

    def follow(self) -> None:
        """Follow topics, configs, groups once, and count the lag. What fails is logged and tried the next time."""
        steps = {"topics": self._topics.ensure, "configs": self._topics.follow_configs, "lag": self._measure}
        if self._groups is not None:
            steps["groups"] = self._groups.follow
        for what, step in steps.items():
            try:
                step()
            except (KafkaException, TimeoutError) as error:
                self.figures.errors += 1
                logger.warning("mirror %s: %s not synchronised: %s", self._spec.name, what, error)

    def _measure(self) -> None:
        counts = self._topics.partitions.items()
        places = [TopicPartition(topic, number) for topic, count in counts for number in range(count)]
        self.figures.source_ends = self._source.everywhere(places, LATEST, is_read_committed=True)
        known = {place: mark.source for place in self._ledger.map.places() if (mark := self._ledger.map.last(place))}
        self.figures.mirrored = {**known, **self.figures.mirrored}

    def close(self) -> None:
        """Stop the query and release all resources."""
        try:
            if self._query is not None and self._query.isActive:
                self._query.stop()
        finally:
            if self._listener is not None:
                self._listener.shutdown()
                self._listener.server_close()
            if self._groups is not None:
                self._groups.logs.close()


def read_offsets(content: str) -> tuple[Offsets, Offsets]:
    """Return, of a micro-batch's file in the checkpoint, where the query began (the first one's only) and its ends.

    Raises: BadCheckpoint.
    """
    lines = content.splitlines()
    try:
        if lines[0] != OFFSETS_VERSION:
            raise ValueError(f"version {lines[0]}")
        read = json.loads(lines[2])
        return offsets.from_json(read.get(offsets.BEGUN_AT, {})), offsets.from_json(read)
    except (IndexError, ValueError, TypeError, AttributeError) as error:
        raise BadCheckpoint(f"offsets of a micro-batch cannot be decoded ({error}): {content[:200]!r}") from error


def to_target(frame: DataFrame, spec: MirrorSpec) -> DataFrame:
    """Return the rows to write: the target's topic; with provenance, the header added and the target's own left out."""
    headers: Column = F.col("headers")
    if spec.marks_records:
        key, target = F.lit(PROVENANCE), F.lit(spec.target.alias).cast("binary")
        came = F.exists(headers, lambda header: (header["key"] == key) & (header["value"] == target))
        frame = frame.where(~F.coalesce(came, F.lit(False)))
        hop = F.array(F.struct(key.alias("key"), F.lit(spec.source.alias).cast("binary").alias("value")))
        headers = F.when(headers.isNull(), hop).otherwise(F.concat(headers, hop))
    topic = F.concat(F.lit(spec.prefix), F.col("topic")).alias("topic")
    return frame.select("key", "value", topic, "partition", "timestamp", headers.alias("headers"))


def run(spec: MirrorSpec, spark: SparkSession, stop: threading.Event) -> Figures:
    """Run a mirror until `stop` is set, or, with a trigger that ends, until all is mirrored. Returns its figures.

    Raises: StreamingQueryException with what the query failed of; what the start failed of.
    """
    for attempts in itertools.count(1):
        try:
            return _run_once(spec, spark, stop)
        except StreamingQueryException as error:
            if stop.is_set() or not may_restart(error, attempts):
                raise
            logger.warning("mirror %s restarted: a Python worker started too late", spec.name)
    raise AssertionError("the last attempt returns or raises")


def _run_once(spec: MirrorSpec, spark: SparkSession, stop: threading.Event) -> Figures:
    """Run a mirror as `run`, until anything fails."""
    mirror = Mirror(spec, spark)
    try:
        query, following = mirror.start(), 0.0
        while not stop.is_set():
            if not query.isActive:
                error = query.exception()
                if error is not None:
                    raise error
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


@click.command("mirror")
@click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("--master", help="Spark's master: spark://HOST:PORT, k8s://..., yarn, local[2].")
@click.option("--memory", default="1g", show_default=True, help="Heap of the driver.")
@click.option("--check", is_flag=True, help="Only validate the file.")
def command(file: Path, master: str | None, memory: str, check: bool) -> None:
    """Mirror topics, configs and group offsets from one cluster to another.

    \b
    kvorum pipelines mirror a-to-b.yaml              until Ctrl-C; continues when restarted
    kvorum pipelines mirror a-to-b.yaml --check      validate the file
    """
    try:
        spec = load(file)
    except SpecError as error:
        click.echo(str(error), err=True)
        sys.exit(2)
    if check:
        click.echo(f"{file}: {spec.source.alias} -> {spec.target.alias}, {', '.join(spec.topics)}: right")
        return
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")
    logging.getLogger("py4j").setLevel(logging.WARNING)
    stop = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stop.set())
    session = build(spec.name, SessionSettings(master=master, memory=memory, connector="kvorum"))
    try:
        figures = run(spec, session.spark, stop)
    finally:
        session.spark.stop()
    behind = sum(figures.lag().values())
    click.echo(f"{figures.batches} batches; {behind} records behind; groups followed: {figures.groups}")
