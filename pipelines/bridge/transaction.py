"""One task's writing exactly once: its rows and its mark in one Kafka transaction.

    init_transactions   fences every earlier attempt at this task and ends what it left open
    read the mark       with require_stable: what was committed is seen, what is pending is waited for
    written already?    then nothing is left to do
    begin, produce, send_offsets_to_transaction (the mark), commit

Whoever gets past the first step last is the only one who can commit, so of several attempts at a task, one at a time
or at once (speculation), exactly one writes. One that was overtaken is done when the other's mark is there: failed at
once it would count as one of the task's failures, and Spark might begin a third to overtake the second.

What passes by itself (a coordinator moves, a broker is gone) is tried again within a limit; what asks for an abort is
aborted and the task's transaction done again from the rows that are held; what is fatal fails the attempt, and Spark
or the next start decides. Input that was cut off (whole) is no task's: nothing of it is committed.
"""

import contextlib
import functools
import logging
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import chain
from typing import Any, TypeVar

import confluent_kafka
import pyarrow as pa
from confluent_kafka import Consumer, KafkaError, KafkaException
from pyspark import TaskContext

from kvorum.pipelines.bridge import client, marks
from kvorum.pipelines.bridge.columns import outgoing
from kvorum.pipelines.bridge.marks import Assignment, Mark, Places
from kvorum.pipelines.bridge.producer import DeliveryFailed, Writer

PATIENCE_SECONDS = 120.0  # a coordinator is elected and loaded in seconds, on a slow machine in tens
STEP_SECONDS = 20.0  # one call's share of that
PAUSE_SECONDS = 0.1
RIVAL_SECONDS = 120.0  # an attempt that has taken over has all of the rows yet to write, as this one had
TRANSACTION_TIMEOUT_MS = 120_000  # how long an abandoned transaction holds read_committed readers up, at worst
TRANSACTIONS_TRIED = 4
HELD_BYTES_MAX = 128 * 1024 * 1024  # a task with more rows than this is not done again here, but by Spark

# A staged row carries its task in this column; the rows of one task are one file.
TASK_COLUMN = "_task"
OUTCOME = "task INT, rows LONG, outcome STRING"

FENCED = {KafkaError._FENCED, KafkaError.PRODUCER_FENCED, KafkaError.INVALID_PRODUCER_EPOCH}

logger = logging.getLogger("kvorum.pipelines.bridge")

Answer = TypeVar("Answer")


class AttemptFenced(RuntimeError):
    """A later attempt at this task has taken over. This one has written nothing and can't any more."""


class TransactionFailed(RuntimeError):
    """A task's transaction could not be committed; nothing of it is to be seen."""


class Abortable(Exception):
    """The transaction has to be aborted; another may succeed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """Parameters of a task. They are sent to the workers."""

    settings: client.Settings
    topic: str | None
    assignment: Assignment
    is_staged: bool


class Rows:
    """A task's input, which can be gone through again as long as it is not too much to hold."""

    def __init__(self, live: Iterator[pa.RecordBatch]) -> None:
        """Take what comes."""
        self.live = live
        self.held: list[pa.RecordBatch] = []
        self.size = 0
        self.count = 0
        self.is_whole = True

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        """Iterate from the first row."""
        assert self.is_whole, "rows were let go"
        return chain(list(self.held), self.rest())

    def rest(self) -> Iterator[pa.RecordBatch]:
        """Iterate over what has not come yet."""
        for batch in self.live:
            if batch.num_rows:
                self.count += batch.num_rows
                self.hold(batch)
                yield batch

    def hold(self, batch: pa.RecordBatch) -> None:
        """Keep a batch, or let all go if it gets too much."""
        self.size += batch.nbytes
        if self.is_whole and (not self.held or self.size <= HELD_BYTES_MAX):
            self.held.append(batch)
        else:
            self.is_whole, self.held = False, []

    def first(self) -> pa.RecordBatch | None:
        """Return the first batch that has rows, or None."""
        for _ in self.rest():
            break
        return self.held[0] if self.held else None


def judged(error: KafkaError, what: str) -> Exception:
    """Return what an error that does not pass means for an attempt."""
    if error.code() in FENCED and not error.txn_requires_abort():
        why = "a later attempt at this task has taken over, or it took longer than transaction.timeout.ms"
        return AttemptFenced(f"{what}: {error}: {why}")
    if error.txn_requires_abort():
        return Abortable(f"{what}: {error}")
    return TransactionFailed(f"{what}: {error}")


def patiently(call: Callable[[], Answer], what: str) -> Answer:
    """Return what a call returns; what passes by itself is tried again within a limit.

    Raises: AttemptFenced, Abortable; TransactionFailed for what else is fatal, or does not pass.
    """
    deadline = time.monotonic() + PATIENCE_SECONDS
    while True:
        try:
            return call()
        except KafkaException as exception:
            error = client.error_of(exception)
            if error.txn_requires_abort() or not client.is_passing(error) or time.monotonic() > deadline:
                raise judged(error, what) from exception
            logger.info("%s: %s: retried", what, error)
        time.sleep(PAUSE_SECONDS)


class Member:
    """A consumer of a group of marks, which joins nothing and reads nothing else. Threads take turns."""

    def __init__(self, settings: client.Settings) -> None:
        """Make a client; it connects by itself."""
        self.consumer = Consumer(dict(settings))
        self.lock = threading.Lock()

    def committed(self, asked: list[confluent_kafka.TopicPartition]) -> list[confluent_kafka.TopicPartition]:
        """Return the committed offsets. Raises: KafkaException for any of them."""
        with self.lock:
            answered = self.consumer.committed(asked, STEP_SECONDS)
        for place in answered:
            if place.error is not None:
                raise KafkaException(place.error)
        return answered

    def metadata(self) -> object:
        """Return what a transaction has to know of the group."""
        with self.lock:
            return self.consumer.consumer_group_metadata()


@functools.cache
def member(settings: tuple[tuple[str, str], ...]) -> Member:
    """Return this process's member of a group of marks."""
    return Member(dict(settings))


class MarkReader:
    """Reads the marks of a query."""

    def __init__(self, settings: client.Settings, places: Places) -> None:
        """Begin without connections."""
        self.settings = settings
        self.places = places

    def member(self, group: str) -> Member:
        """Return a member of one of the groups. read_committed is what makes OffsetFetch require stable offsets."""
        settings = client.for_consumer(self.settings, group) | {"group.id": group, "isolation.level": "read_committed"}
        return member(tuple(sorted(settings.items())))

    def read(self, tasks: Iterable[int]) -> dict[int, Mark | None]:
        """Return {task: mark}, None where there is none."""
        found: dict[int, Mark | None] = {}
        for group, members in self.places.by_group(tasks).items():
            asked = [confluent_kafka.TopicPartition(self.places.topic, self.places.partition(t)) for t in members]
            answered = patiently(functools.partial(self.member(group).committed, asked), f"reading marks of {group}")
            by_partition = {place.partition: place for place in answered}
            for task in members:
                place = by_partition[self.places.partition(task)]
                found[task] = marks.decode(place.offset, place.metadata)
        return found


class Transactions:
    """A task's transactional producer. Making one fences all that were made for the task before."""

    def __init__(self, settings: client.Settings, places: Places, task: int) -> None:
        """Fence, and end what was left open. Raises: as `patiently`."""
        self.places = places
        self.task = task
        self.reader = MarkReader(settings, places)
        # Made first: it connects while the producer waits for its coordinator.
        self.member = self.reader.member(places.group(task))
        defaults = {"transaction.timeout.ms": str(TRANSACTION_TIMEOUT_MS)}
        own = {"transactional.id": places.transactional_id(task), "enable.idempotence": "true", "acks": "all"}
        self.writer = Writer(defaults | client.for_producer(settings) | own)
        self.step("init_transactions", lambda: self.writer.producer.init_transactions(STEP_SECONDS))

    def step(self, name: str, call: Callable[[], Answer]) -> Answer:
        """Make one of the producer's calls, patiently."""
        return patiently(call, f"{self.places.transactional_id(self.task)}: {name}")

    def mark(self) -> Mark | None:
        """Return the task's mark. Nothing can change it now but this producer, or one that fences it."""
        return self.reader.read([self.task])[self.task]

    def commit(self, mark: Mark, write: Callable[[Writer], int]) -> int:
        """Write rows and the mark in one transaction. Returns what `write` returns.

        Raises: Abortable, TransactionFailed and what `write` raises, all after an abort; AttemptFenced.
        """
        producer = self.writer.producer
        self.step("begin_transaction", producer.begin_transaction)
        try:
            count = write(self.writer)
            offsets = [self.places.committed(self.task, mark)]
            group = self.member.metadata()
            self.step(
                "send_offsets_to_transaction",
                lambda: producer.send_offsets_to_transaction(offsets, group, STEP_SECONDS),
            )
            self.step("commit_transaction", lambda: producer.commit_transaction(STEP_SECONDS))
        except AttemptFenced:
            raise
        except KafkaException as exception:
            error = client.error_of(exception)
            ending = self.abort()
            if ending is None and error.code() == KafkaError._STATE:
                # A record is not taken once something has gone wrong behind it that asks for an abort.
                raise Abortable(f"produce: {error}") from exception
            raise judged(ending or error, "produce") from exception
        except DeliveryFailed as failure:
            ending = self.abort()
            if ending is not None:
                raise judged(ending, str(failure)) from failure
            raise Abortable(str(failure)) from failure
        except BaseException:
            self.abort()
            raise
        return count

    def abort(self) -> KafkaError | None:
        """Give up an open transaction. Returns why that failed, if it did: then the next init_transactions ends it."""
        try:
            self.writer.producer.abort_transaction(STEP_SECONDS)
        except KafkaException as exception:
            error = client.error_of(exception)
            logger.info("%s: abort failed: %s", self.places.transactional_id(self.task), error)
            return error
        return None

    def close(self) -> None:
        """Release the producer with its queued records. A fenced one reports its error once more."""
        self.writer.producer.purge()
        with contextlib.suppress(KafkaException):
            self.writer.producer.close()


def write_rows(work: Work, task: int, rows: Rows) -> str:
    """Write a task's rows, unless they are in already. Returns "written" or "skipped".

    Raises: MarkError, TransactionFailed; AttemptFenced if whoever has taken over did not write them either.
    """
    try:
        return write_or_skip(work, task, rows)
    except AttemptFenced as fenced:
        logger.info("task %d: %s: waits for that attempt", task, fenced)
        if not is_written_soon(work, task):
            raise
        return "skipped"


def is_written_soon(work: Work, task: int) -> bool:
    """Return whether another attempt writes the rows within a limit."""
    reader = MarkReader(work.settings, work.assignment.places)
    deadline = time.monotonic() + RIVAL_SECONDS
    while not marks.is_written(reader.read([task])[task], work.assignment, task):
        if time.monotonic() > deadline:
            return False
        time.sleep(PAUSE_SECONDS)
    return True


def write_or_skip(work: Work, task: int, rows: Rows) -> str:
    """Do what `write_rows` says, but for waiting. Raises: MarkError, AttemptFenced, TransactionFailed."""
    for attempt in range(1, TRANSACTIONS_TRIED + 1):
        transactions = Transactions(work.settings, work.assignment.places, task)
        try:
            if marks.is_written(transactions.mark(), work.assignment, task):
                return "skipped"
            transactions.commit(work.assignment.mark(), functools.partial(produce, work, rows))
            return "written"
        except Abortable as error:
            if attempt == TRANSACTIONS_TRIED or not rows.is_whole:
                raise TransactionFailed(f"task {task}: {error} (attempt {attempt})") from error
            logger.warning("task %d: %s: aborted, retried", task, error)
        finally:
            transactions.close()
    raise AssertionError("the last attempt returns or raises")


def produce(work: Work, rows: Iterable[pa.RecordBatch], writer: Writer) -> int:
    """Produce rows; the commit waits for their acknowledgement."""
    count = 0
    for batch in rows:
        writer.produce(outgoing(batch, work.topic), work.topic)
        count += batch.num_rows
    return count


def run_task(work: Work, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Write one task's rows, and say what came of it (OUTCOME). This is what Spark runs in a worker."""
    context = TaskContext.get()
    assert context is not None, "runs in a task only"
    rows = Rows(batches)
    first = rows.first()
    task = context.partitionId()
    if first is None:
        outcome = "empty"  # nothing to write, now or in any other attempt
    else:
        if work.is_staged:
            task = first.column(TASK_COLUMN)[0].as_py()
        outcome = write_rows(work, task, rows)
        for _ in rows.rest():
            pass  # what was skipped is taken all the same: a worker that leaves rows behind is not used again
    columns: list[pa.Array[Any]] = [
        pa.array([task], pa.int32()),
        pa.array([rows.count], pa.int64()),
        pa.array([outcome]),
    ]
    yield pa.RecordBatch.from_arrays(columns, names=["task", "rows", "outcome"])
