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

import functools
import logging
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import spark_partition_id

from kvorum.pipelines.bridge import counted
from kvorum.pipelines.bridge.columns import WRITTEN
from kvorum.pipelines.bridge.keeper import Keeper, is_active, query_of, refresh_seconds
from kvorum.pipelines.bridge.layout import layout_of
from kvorum.pipelines.bridge.ledger import FOLDER, Folder, Ledger, Manifest
from kvorum.pipelines.bridge.lookup import Lookup, TopicMissing
from kvorum.pipelines.bridge.marks import (
    MARKS_TOPIC,
    NEVER,
    Assignment,
    Mark,
    MarkError,
    MarksMissing,
    Places,
)
from kvorum.pipelines.bridge.options import WriteOptions
from kvorum.pipelines.bridge.producer import Writer
from kvorum.pipelines.bridge.transaction import OUTCOME, TASK_COLUMN, MarkReader, Transactions, Work, run_task
from kvorum.pipelines.bridge.whole import whole_input

PREPARED_AT_ONCE = 8  # concurrent transactions that write or refresh marks: each is a client
WHOLE_FILE_BYTES = 1 << 40  # larger than any staged file: each file is one task
MARKS_TOPIC_SECONDS = 60.0  # a cluster creates the topic at the first lookup of a group
MARKS_TOPIC_PAUSE_SECONDS = 0.2

Change = Callable[[Transactions], None]

logger = logging.getLogger("kvorum.pipelines.bridge")


def nothing(writer: Writer) -> int:
    """Write no rows: the transaction has a mark only."""
    return 0


def written_columns(frame: DataFrame, options: WriteOptions) -> DataFrame:
    """Return the columns that are written, and the task of a staged row."""
    wanted = {*WRITTEN, TASK_COLUMN} - ({"topic"} if options.topic is not None else set())
    return frame.select(*(name for name in frame.columns if name in wanted))


class ExactlyOnce:
    """Writes the micro-batches of one query. States: new; started by the first micro-batch."""

    def __init__(self, options: WriteOptions, *, query: str, checkpoint: str, folder: str = FOLDER) -> None:
        """Keep the options. Raises OptionError for a name that is not unique enough."""
        self.options = options
        self.query = query
        self.checkpoint = checkpoint
        self.folder = folder
        self.lock = threading.Lock()  # a micro-batch, and the keeper's refreshing, one at a time
        self.ledger: Ledger | None = None
        self.places: Places | None = None
        self.prepared = 0
        self.reading: SparkSession | None = None
        Places(query=query, span=1)  # checks the name

    def check(self, spark: SparkSession) -> None:
        """Raise MarkError if the marks do not belong to the checkpoint. Nothing is written or fenced."""
        folder = Folder(spark, self.checkpoint, self.folder)
        if folder.read("lineage") is not None:
            ledger = Ledger(folder)
            tasks, span = ledger.prepared()
            if tasks:
                self.marks_of(Places(query=self.query, span=span), ledger, tasks)

    def write(self, frame: DataFrame, batch_id: int) -> None:
        """Write one micro-batch: the function for foreachBatch."""
        with self.lock:
            self.write_locked(frame, batch_id)

    def write_locked(self, frame: DataFrame, batch_id: int) -> None:
        """Write one micro-batch while the keeper waits."""
        ledger, places = self.started(frame.sparkSession, batch_id)
        manifest = ledger.manifest(batch_id)
        if manifest is not None and manifest.staged is None:
            manifest = self.same_layout(frame, manifest, ledger, places)
        elif manifest is not None:
            # An earlier attempt staged the rows. Spark commits the state stores of a batch only if its frame runs.
            frame.write.format("noop").mode("overwrite").save()
        if manifest is None:
            manifest = self.planned(frame, batch_id, ledger)
            self.prepare(manifest, ledger, places)
            ledger.write_manifest(manifest)
        rows = frame if manifest.staged is None else self.staged(frame, manifest.staged)
        assignment = Assignment(places=places, batch_id=batch_id, lineage=ledger.lineage, layout=manifest.layout)
        self.run(rows, assignment, is_staged=manifest.staged is not None)
        ledger.forget_before(batch_id)

    def started(self, spark: SparkSession, batch_id: int) -> tuple[Ledger, Places]:
        """Return the ledger and the location of the marks; at the first micro-batch check and refresh the marks."""
        if self.ledger is None or self.places is None:
            ledger = Ledger(Folder(spark, self.checkpoint, self.folder))
            tasks, span = ledger.prepared()
            if tasks:
                places = Places(query=self.query, span=span)
                found = self.marks_of(places, ledger, tasks)
                lost = [task for task, mark in found.items() if mark is None]
                self.each(places, lost, functools.partial(self.renew, ledger=ledger, batch_id=batch_id - 1))
            else:
                places = self.new_places()
                self.refuse_orphan(ledger, places)
            self.ledger, self.places, self.prepared = ledger, places, tasks
            self.refresh()
            query_id = query_of(spark)
            if query_id is not None:
                Keeper(
                    self.refresh_in_turn,
                    is_running=functools.partial(is_active, spark, query_id),
                    seconds=refresh_seconds(self.options.settings),
                ).start()
        return self.ledger, self.places

    def new_places(self) -> Places:
        """Return the location of new marks. Waits until the cluster has created the topic."""
        lookup = Lookup(self.options.settings)
        deadline = time.monotonic() + MARKS_TOPIC_SECONDS
        while True:
            try:
                return Places(query=self.query, span=len(lookup.of_topic(MARKS_TOPIC)))
            except TopicMissing:
                if time.monotonic() > deadline:
                    raise
            MarkReader(self.options.settings, Places(query=self.query, span=1)).read([0])
            time.sleep(MARKS_TOPIC_PAUSE_SECONDS)

    def marks_of(self, places: Places, ledger: Ledger, tasks: int) -> dict[int, Mark | None]:
        """Return the marks of all tasks that ever ran.

        Raises: MarksMissing unless marksMissing is renew; MarkError for marks of another query.
        """
        found = MarkReader(self.options.settings, places).read(range(tasks))
        foreign = [task for task, mark in found.items() if mark is not None and mark.lineage != ledger.lineage]
        if foreign:
            raise MarkError(
                f"query {self.query}: its marks were written with another checkpoint than {self.checkpoint}: another"
                " query of this name has run since. Give one of them another name and a new checkpoint."
            )
        lost = [task for task, mark in found.items() if mark is None]
        if lost and self.options.marks_missing != "renew":
            raise MarksMissing(self.loss(lost, ledger, tasks))
        return found

    def loss(self, lost: list[int], ledger: Ledger, tasks: int) -> str:
        """Return the message for a start without its marks, with the risk."""
        committed = ledger.committed()
        following = 0 if committed is None else committed + 1
        pending = ledger.manifest(following) is not None
        risk = (
            f"micro-batch {following} was under way, so its rows may be written twice"
            if pending
            else "no micro-batch was under way, so nothing can be written twice"
        )
        return (
            f"query {self.query}: {len(lost)} of {tasks} marks are missing (group kvorum-sink-{self.query}) although"
            f" the checkpoint has micro-batches up to {committed} as committed. Either the query stood still for longer"
            " than offsets.retention.minutes, or the group's offsets were deleted, or this is another cluster."
            f" Option marksMissing=renew starts all the same: {risk}."
        )

    def refuse_orphan(self, ledger: Ledger, places: Places) -> None:
        """Reject a checkpoint without the sink's folder: its marks could belong to another query."""
        if ledger.committed() is None or self.options.marks_missing == "renew":
            return
        if MarkReader(self.options.settings, places).read([0])[0] is not None:
            raise MarkError(
                f"query {self.query}: marks exist, but checkpoint {self.checkpoint} does not know of them. Restore its"
                f" folder {self.folder}, or use a new checkpoint; option marksMissing=renew skips this check."
            )

    def planned(self, frame: DataFrame, batch_id: int, ledger: Ledger) -> Manifest:
        """Return the manifest of a new micro-batch; stage its rows if another run may distribute them differently."""
        layout = layout_of(frame)
        if layout.fingerprint is not None:
            return Manifest(batch_id=batch_id, layout=layout.fingerprint, tasks=max(1, layout.tasks), staged=None)
        logger.info("query %s: micro-batch %d staged: %s", self.query, batch_id, layout.reason)
        folder = ledger.staging(batch_id)
        self.numbered(frame).write.option("maxRecordsPerFile", 0).parquet(folder)
        numbers = [int(name.split("-")[1]) for name in ledger.folder.listed(folder) if name.startswith("part-")]
        name = f"staged-{uuid.uuid4().hex[:12]}"
        return Manifest(batch_id=batch_id, layout=name, tasks=max(numbers, default=0) + 1, staged=folder)

    def same_layout(self, frame: DataFrame, manifest: Manifest, ledger: Ledger, places: Places) -> Manifest | None:
        """Return the manifest if the frame has its layout; None if no task has written, so that it is planned again.

        Raises: MarkError if some tasks have written and the others would get other rows.
        """
        if layout_of(frame).fingerprint == manifest.layout:
            return manifest
        # The start fenced all earlier attempts, so a task without a new mark will not write any more.
        found = MarkReader(self.options.settings, places).read(range(manifest.tasks))
        if any(mark is not None and mark.batch_id >= manifest.batch_id for mark in found.values()):
            raise MarkError(
                f"query {self.query}: micro-batch {manifest.batch_id} is written in part, and the present options"
                " would assign its rows to other tasks. Start once with the previous source options (minPartitions,"
                " maxRecordsPerPartition)."
            )
        ledger.folder.remove(f"batches/{manifest.batch_id}")
        return None

    def staged(self, frame: DataFrame, folder: str) -> DataFrame:
        """Return staged rows, one task per file."""
        if self.reading is None:
            # In its own session: the settings must not affect the query's sources.
            self.reading = frame.sparkSession.newSession()
            for name in ("maxPartitionBytes", "openCostInBytes"):
                self.reading.conf.set(f"spark.sql.files.{name}", str(WHOLE_FILE_BYTES))
        return self.reading.read.schema(self.numbered(frame).schema).parquet(folder)

    def prepare(self, manifest: Manifest, ledger: Ledger, places: Places) -> None:
        """Write marks for task numbers that never ran."""
        if manifest.tasks > self.prepared:
            fresh = list(range(self.prepared, manifest.tasks))
            self.each(places, fresh, functools.partial(self.renew, ledger=ledger, batch_id=manifest.batch_id - 1))
            ledger.write_prepared(manifest.tasks, places)
            self.prepared = manifest.tasks

    def renew(self, transactions: Transactions, *, ledger: Ledger, batch_id: int) -> None:
        """Write a mark: the task has written everything up to a micro-batch."""
        mark = Mark(batch_id=max(batch_id, NEVER), lineage=ledger.lineage, layout="prepared")
        transactions.commit(mark, nothing)

    def refresh(self) -> None:
        """Commit all marks again, unchanged, so that they do not expire. Fences all earlier attempts."""
        assert self.places is not None, "called after the start"

        def commit_again(transactions: Transactions) -> None:
            mark = transactions.mark()
            if mark is not None:
                transactions.commit(mark, nothing)

        self.each(self.places, range(self.prepared), commit_again)

    def refresh_in_turn(self) -> None:
        """Refresh between micro-batches."""
        with self.lock:
            self.refresh()

    def each(self, places: Places, tasks: range | list[int], change: Change) -> None:
        """Change the marks of some tasks, each in its own transaction."""

        def one(task: int) -> None:
            transactions = Transactions(self.options.settings, places, task)
            try:
                change(transactions)
            finally:
                transactions.close()

        if tasks:
            with ThreadPoolExecutor(PREPARED_AT_ONCE) as threads:
                list(threads.map(one, tasks))

    def run(self, frame: DataFrame, assignment: Assignment, *, is_staged: bool) -> None:
        """Run the tasks. Raises the job's error if the last attempt of a task failed."""
        work = Work(
            settings=self.options.settings, topic=self.options.topic, assignment=assignment, is_staged=is_staged
        )

        def task(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            return run_task(work, batches)

        outcomes = written_columns(frame, self.options).mapInArrow(whole_input(task), OUTCOME).collect()
        rows = sum(outcome.rows for outcome in outcomes)
        skipped = sum(outcome.outcome == "skipped" for outcome in outcomes)
        counted.add(self.query, rows)
        logger.info(
            "query %s: micro-batch %d written: %d rows, %d tasks, %d of them written before",
            self.query,
            assignment.batch_id,
            rows,
            len(outcomes),
            skipped,
        )

    def numbered(self, frame: DataFrame) -> DataFrame:
        """Return the rows with their present task number, which staged rows keep."""
        return written_columns(frame, self.options).withColumn(TASK_COLUMN, spark_partition_id())
