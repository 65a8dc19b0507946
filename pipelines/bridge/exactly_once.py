"""The driver's part of the exactly-once sink: how a micro-batch is distributed over tasks, and the tasks' marks.

Steps of a micro-batch, in this order; after a crash between any two the next start can continue:

    look         a micro-batch with a manifest may be written in part: it is distributed as the manifest says
    stage        otherwise: rows that another run may distribute differently (layout) are stored in the checkpoint
    prepare      task numbers that never ran get a mark, so that a missing mark is known to be lost
    manifest     from here on tasks may run
    run          each task writes its rows, or finds that they are written (transaction)

Marks expire after offsets.retention.minutes without a commit. They are committed again when a query starts and while
it runs; a start that does not find all of them is rejected.
"""

import json
import logging
import threading
import time
import uuid
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import asdict
from functools import partial
from typing import Any

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient, ConfigResource, ResourceType  # type: ignore[attr-defined]  # documented
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import spark_partition_id

from kvorum.pipelines.bridge import client
from kvorum.pipelines.bridge.columns import WRITTEN
from kvorum.pipelines.bridge.layout import Undetermined, layout_of
from kvorum.pipelines.bridge.ledger import FOLDER, Folder, Ledger, Manifest
from kvorum.pipelines.bridge.lookup import REQUEST_SECONDS, Lookup, TopicMissing
from kvorum.pipelines.bridge.marks import MARKS_TOPIC, NEVER, Mark, MarkError, MarksMissing, Places
from kvorum.pipelines.bridge.options import WriteOptions
from kvorum.pipelines.bridge.transaction import OUTCOME, TASK_COLUMN, Transactions, Work, read_marks, run_task
from kvorum.pipelines.bridge.whole import whole_input

PREPARED_AT_ONCE = 8  # concurrent transactions that write or refresh marks: each is a client
WHOLE_FILE_BYTES = 1 << 40  # larger than any staged file: each file is one task
MARKS_TOPIC_SECONDS = 60.0  # a cluster creates the topic at the first lookup of a group
MARKS_TOPIC_PAUSE_SECONDS = 0.2
QUERY_ID = "sql.streaming.queryId"  # a local property of the jobs of a micro-batch
LOOK_SECONDS = 30.0  # how often the refreshing thread checks whether its query has ended
REFRESH_SECONDS_MAX = 6 * 3600.0
REFRESHES_PER_RETENTION = 8
RETENTION = "offsets.retention.minutes"

logger = logging.getLogger("kvorum.pipelines.bridge")


def written_columns(frame: DataFrame, options: WriteOptions) -> DataFrame:
    """Return the columns that are written, and the task of a staged row."""
    wanted = {*WRITTEN, TASK_COLUMN} - ({"topic"} if options.topic is not None else set())
    return frame.select(*(name for name in frame.columns if name in wanted))


class ExactlyOnce:
    """Writes the micro-batches of one query. States: new; started by the first micro-batch."""

    ledger: Ledger  # from the start on

    def __init__(self, options: WriteOptions, *, query: str, checkpoint: str, folder: str = FOLDER) -> None:
        """Keep the options. Raises OptionError for a name that is not unique enough."""
        self.options = options
        self.query = query
        self.checkpoint = checkpoint
        self.folder = folder
        self.lock = threading.Lock()  # a micro-batch, and refreshing its marks, one at a time
        self.places = Places(query=query, span=1)  # the span of the marks from the start on
        self.prepared = 0
        self.is_started = False
        self.reading: SparkSession | None = None

    def check(self, spark: SparkSession) -> None:
        """Raise MarkError if the marks do not belong to the checkpoint. Nothing is written or fenced."""
        if Folder(spark, self.checkpoint, self.folder).read("lineage") is not None:
            self._marks(Ledger(spark, self.checkpoint, self.folder))

    def write(self, frame: DataFrame, batch_id: int) -> int:
        """Write one micro-batch: the function for foreachBatch. Returns the number of its rows."""
        with self.lock:
            if not self.is_started:
                self._start(frame.sparkSession, batch_id)
            manifest = self.ledger.manifest(batch_id)
            if manifest is not None and manifest.staged is None:
                manifest = self._same_layout(frame, manifest)
            elif manifest is not None:
                # An earlier attempt staged the rows. Spark commits the state stores of a batch only if its frame runs.
                frame.write.format("noop").mode("overwrite").save()
            if manifest is None:
                manifest = self._planned(frame, batch_id)
                if manifest.tasks > self.prepared:  # task numbers that never ran
                    self._renew(range(self.prepared, manifest.tasks), batch_id - 1)
                    self.ledger.write(f"prepared/{manifest.tasks}", json.dumps({"span": self.places.span}))
                    self.prepared = manifest.tasks
                self.ledger.write(f"batches/{batch_id}", json.dumps(asdict(manifest)))
            rows = self._run(frame, manifest)
            self.ledger.forget_before(batch_id)
            return rows

    def _start(self, spark: SparkSession, batch_id: int) -> None:
        """At the first micro-batch: check the marks, and refresh them now and while the query runs."""
        self.ledger = Ledger(spark, self.checkpoint, self.folder)
        found = self._marks(self.ledger)
        if not found:
            self.places = self._new_places()
            is_orphan = self.ledger.committed() is not None and self.options.marks_missing != "renew"
            if is_orphan and read_marks(self.options.settings, self.places, [0])[0] is not None:
                # The checkpoint has no folder of the sink: the marks could belong to another query.
                raise MarkError(
                    f"query {self.query}: marks exist, but checkpoint {self.checkpoint} does not know of them. Restore"
                    f" its folder {self.folder}, or use a new checkpoint; option marksMissing=renew skips this check."
                )
        self.prepared = len(found)
        self._renew([task for task, mark in found.items() if mark is None], batch_id - 1)
        self.refresh()
        query_id = spark.sparkContext.getLocalProperty(QUERY_ID)
        if query_id is not None:
            id_of_query: Any = spark._jvm.java.util.UUID.fromString(query_id)  # type: ignore[union-attr]  # a driver
            active: Any = spark._jsparkSession.sharedState().activeStreamingQueries()

            def refresh() -> None:
                with self.lock:
                    self.refresh()

            arguments = refresh, lambda: bool(active.containsKey(id_of_query)), refresh_seconds(self.options.settings)
            threading.Thread(target=keep_refreshed, args=arguments, name="kvorum-sink-keeper", daemon=True).start()
        self.is_started = True

    def _new_places(self) -> Places:
        """Return the location of new marks. Waits until the cluster has created the topic."""
        lookup = Lookup(self.options.settings)
        deadline = time.monotonic() + MARKS_TOPIC_SECONDS
        while True:
            try:
                return Places(query=self.query, span=len(lookup.of_topic(MARKS_TOPIC)))
            except TopicMissing:
                if time.monotonic() > deadline:
                    raise
            read_marks(self.options.settings, Places(query=self.query, span=1), [0])
            time.sleep(MARKS_TOPIC_PAUSE_SECONDS)

    def _marks(self, ledger: Ledger) -> dict[int, Mark | None]:
        """Return the marks of all tasks that ever ran.

        Raises: MarksMissing unless marksMissing is renew; MarkError for marks of another query.
        """
        tasks, span = ledger.prepared()
        if not tasks:
            return {}
        self.places = Places(query=self.query, span=span)
        found = read_marks(self.options.settings, self.places, range(tasks))
        if any(mark is not None and mark.lineage != ledger.lineage for mark in found.values()):
            raise MarkError(
                f"query {self.query}: its marks were written with another checkpoint than {self.checkpoint}: another"
                " query of this name has run since. Give one of them another name and a new checkpoint."
            )
        lost = [task for task, mark in found.items() if mark is None]
        if lost and self.options.marks_missing != "renew":
            committed = ledger.committed()
            following = 0 if committed is None else committed + 1
            risk = (
                "no micro-batch was under way, so nothing can be written twice"
                if ledger.manifest(following) is None
                else f"micro-batch {following} was under way, so its rows may be written twice"
            )
            raise MarksMissing(
                f"query {self.query}: {len(lost)} of {tasks} marks are missing (group kvorum-sink-{self.query})"
                f" although the checkpoint has micro-batches up to {committed} as committed. Either the query stood"
                " still for longer than offsets.retention.minutes, or the group's offsets were deleted, or this is"
                f" another cluster. Option marksMissing=renew starts all the same: {risk}."
            )
        return found

    def _planned(self, frame: DataFrame, batch_id: int) -> Manifest:
        """Return the manifest of a new micro-batch; stage its rows if another run may distribute them differently."""
        try:
            tasks, fingerprint = layout_of(frame)
            return Manifest(batch_id=batch_id, layout=fingerprint, tasks=max(1, tasks), staged=None)
        except Undetermined as reason:
            logger.info("query %s: micro-batch %d staged: %s", self.query, batch_id, reason)
        folder = f"{self.ledger.root}/rows/{batch_id}-{uuid.uuid4().hex[:8]}"
        self._numbered(frame).write.option("maxRecordsPerFile", 0).parquet(folder)
        numbers = [int(name.split("-")[1]) for name in self.ledger.listed(folder) if name.startswith("part-")]
        name = f"staged-{uuid.uuid4().hex[:12]}"
        return Manifest(batch_id=batch_id, layout=name, tasks=max(numbers, default=0) + 1, staged=folder)

    def _same_layout(self, frame: DataFrame, manifest: Manifest) -> Manifest | None:
        """Return the manifest if the frame has its layout; None if no task has written, so that it is planned again.

        Raises: MarkError if some tasks have written and the others would get other rows.
        """
        try:
            if layout_of(frame)[1] == manifest.layout:
                return manifest
        except Undetermined:
            pass
        # The start fenced all earlier attempts, so a task without a new mark will not write any more.
        found = read_marks(self.options.settings, self.places, range(manifest.tasks))
        if any(mark is not None and mark.batch_id >= manifest.batch_id for mark in found.values()):
            raise MarkError(
                f"query {self.query}: micro-batch {manifest.batch_id} is written in part, and the present options"
                " would assign its rows to other tasks. Start once with the previous source options (minPartitions,"
                " maxRecordsPerPartition)."
            )
        self.ledger.remove(f"batches/{manifest.batch_id}")
        return None

    def _renew(self, tasks: Iterable[int], batch_id: int) -> None:
        """Write marks: these tasks have written everything up to a micro-batch."""
        mark = Mark(batch_id=max(batch_id, NEVER), lineage=self.ledger.lineage, layout="prepared")
        self._each(tasks, lambda transactions: transactions.commit(mark))

    def refresh(self) -> None:
        """Commit all marks again, unchanged, so that they do not expire. Fences all earlier attempts."""

        def commit_again(transactions: Transactions) -> None:
            mark = transactions.mark()
            if mark is not None:
                transactions.commit(mark)

        self._each(range(self.prepared), commit_again)

    def _each(self, tasks: Iterable[int], change: Callable[[Transactions], None]) -> None:
        """Change the marks of some tasks, each in its own transaction."""

        def change_one(task: int) -> None:
            with closing(Transactions(self.options.settings, self.places, task)) as transactions:
                change(transactions)

        with ThreadPoolExecutor(PREPARED_AT_ONCE) as threads:
            list(threads.map(change_one, tasks))

    def _run(self, frame: DataFrame, manifest: Manifest) -> int:
        """Run the tasks; return the number of rows. Raises the job's error if the last attempt of a task failed."""
        work = Work(
            settings=self.options.settings,
            topic=self.options.topic,
            places=self.places,
            mark=Mark(batch_id=manifest.batch_id, lineage=self.ledger.lineage, layout=manifest.layout),
            is_staged=manifest.staged is not None,
        )
        if manifest.staged is not None:
            frame = self._staged(frame, manifest.staged)
        task = whole_input(partial(run_task, work))
        outcomes = written_columns(frame, self.options).mapInArrow(task, OUTCOME).collect()
        rows: int = sum(outcome.rows for outcome in outcomes)
        skipped = sum(outcome.outcome == "skipped" for outcome in outcomes)
        text = "query %s: micro-batch %d written: %d rows, %d tasks, %d of them written before"
        logger.info(text, self.query, manifest.batch_id, rows, len(outcomes), skipped)
        return rows

    def _staged(self, frame: DataFrame, folder: str) -> DataFrame:
        """Return staged rows, one task per file."""
        if self.reading is None:
            # In its own session: the settings must not affect the query's sources.
            self.reading = frame.sparkSession.newSession()
            for name in ("maxPartitionBytes", "openCostInBytes"):
                self.reading.conf.set(f"spark.sql.files.{name}", str(WHOLE_FILE_BYTES))
        return self.reading.read.schema(self._numbered(frame).schema).parquet(folder)

    def _numbered(self, frame: DataFrame) -> DataFrame:
        """Return the rows with their present task number, which staged rows keep."""
        return written_columns(frame, self.options).withColumn(TASK_COLUMN, spark_partition_id())


def keep_refreshed(refresh: Callable[[], None], is_running: Callable[[], bool], seconds: float) -> None:
    """Refresh the marks of a query, which would expire, until it has ended: a stream without data commits nothing.

    A failed refresh is repeated after the next pause.
    """
    due = time.monotonic() + seconds
    while True:
        time.sleep(min(LOOK_SECONDS, seconds))
        if not is_running():
            return
        if time.monotonic() >= due:
            due = time.monotonic() + seconds
            try:
                refresh()
            except Exception:
                logger.exception("marks not refreshed, they expire after %s", RETENTION)


def refresh_seconds(settings: client.Settings) -> float:
    """Return the refresh interval, from the brokers' retention if it is available."""
    admin = AdminClient(dict(client.for_admin(settings)))
    try:
        broker = min(admin.list_topics(timeout=REQUEST_SECONDS).brokers)
        resource = ConfigResource(ResourceType.BROKER, str(broker))
        configs = admin.describe_configs([resource], request_timeout=REQUEST_SECONDS)[resource].result()
        minutes = int(configs[RETENTION].value)
    except (KafkaException, KeyError, ValueError, TypeError) as error:
        logger.warning("%s not available (%s): marks are refreshed every %.0f s", RETENTION, error, REFRESH_SECONDS_MAX)
        return REFRESH_SECONDS_MAX
    return min(REFRESH_SECONDS_MAX, minutes * 60 / REFRESHES_PER_RETENTION)
