"""Writing of one task: at least once, or exactly once with its rows and its mark in one Kafka transaction.

    init_transactions   fences every earlier attempt at this task and ends its open transaction
    read the mark       with require_stable: committed offsets are seen, pending ones are waited for
    written already?    then the task is done
    begin, produce, send_offsets_to_transaction (the mark), commit

Only the attempt that was initialised last can commit, so of several attempts at a task (retries, speculation) exactly
one writes. A fenced attempt waits for the mark of the other: failing at once would count as a failure of the task, and
Spark might start a third attempt that fences the second.

Retriable errors are retried within a limit. Abortable ones abort the transaction, and it is repeated with the rows held
in memory. Fatal ones fail the attempt; Spark or the next start repeats it. Input that ends early (whole) is never
committed.
"""

import contextlib
import functools
import logging
import threading
import time
from collections import Counter, OrderedDict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import chain
from typing import Any, TypeVar

import confluent_kafka
import pyarrow as pa
from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer
from pyspark import TaskContext

from kvorum.pipelines.bridge import client, marks
from kvorum.pipelines.bridge.columns import outgoing
from kvorum.pipelines.bridge.lookup import retried
from kvorum.pipelines.bridge.marks import Mark, Places
from kvorum.pipelines.bridge.options import WriteOptions

FLUSH_SECONDS = 330.0  # librdkafka reports a record as failed after delivery.timeout.ms (300 s)
QUEUE_SECONDS = 330.0  # the same for a full queue
QUEUE_POLL_SECONDS = 0.05
KEPT_PRODUCERS = 4
PATIENCE_SECONDS = 120.0  # a coordinator is elected and loaded in seconds, on a slow machine in tens
STEP_SECONDS = 20.0  # one call's share of that
MEMBERS_MAX = 64
"""Clients for marks per process, one per group: each has threads and connections. The least recently used one ends."""
PAUSE_SECONDS = 0.1
RIVAL_SECONDS = 120.0  # an attempt that has taken over has all of the rows yet to write, as this one had
TRANSACTION_TIMEOUT_MS = 120_000  # how long an abandoned transaction holds read_committed readers up, at worst
TRANSACTIONS_TRIED = 4
HELD_BYTES_MAX = 128 * 1024 * 1024  # a task with more rows than this is not done again here, but by Spark

# The task of a staged row; the rows of one task are one file.
TASK_COLUMN = "_task"
OUTCOME = "task INT, rows LONG, outcome STRING"

logger = logging.getLogger("kvorum.pipelines.bridge")

Result = TypeVar("Result")


class DeliveryFailed(RuntimeError):
    """Records were not acknowledged. The message has the first error."""


class Writer:
    """A producer, and the number of its failures by partition and error."""

    def __init__(self, settings: client.Settings) -> None:
        """Create the producer, which connects in the background. Raises OptionError for invalid settings."""
        failures = self.failures = Counter[str]()

        def on_delivery(error: KafkaError | None, message: Message) -> None:  # no cycle with the producer
            if error is not None:
                failures[f"to {message.topic()}-{message.partition()}: {error}"] += 1

        try:
            self.producer = Producer({**settings, "delivery.report.only.error": True, "on_delivery": on_delivery})
        except KafkaException as error:
            raise client.refused(error) from None

    def produce(self, batches: Iterable[pa.RecordBatch], topic: str | None) -> int:
        """Queue rows and return their number; wait while the queue is full.

        Raises: DeliveryFailed after a failure, or if the queue stays full.
        """
        produce, count = self.producer.produce, 0
        for batch in batches:
            rows, is_plain = outgoing(batch, topic)
            for name, value, key, partition, timestamp_ms, headers in rows:
                # Keyword arguments would halve the speed.
                more = {} if is_plain else {"timestamp": timestamp_ms, "headers": headers}
                try:
                    produce(name, value, key, partition, **more)
                except BufferError:
                    self._wait_for_room()
                    produce(name, value, key, partition, **more)
            self.producer.poll(0)
            self._raise_failure()
            count += batch.num_rows
        return count

    def _wait_for_room(self) -> None:
        deadline = time.monotonic() + QUEUE_SECONDS
        full = len(self.producer)
        while len(self.producer) >= full:
            self.producer.poll(QUEUE_POLL_SECONDS)
            self._raise_failure()
            if time.monotonic() > deadline:
                raise DeliveryFailed(f"{full} records are queued and none was acknowledged for {QUEUE_SECONDS:.0f} s")

    def flush(self) -> None:
        """Wait until all queued records are acknowledged. Raises DeliveryFailed if one was not."""
        left = self.producer.flush(FLUSH_SECONDS)
        self._raise_failure()
        if left:
            raise DeliveryFailed(f"{left} records were not acknowledged within {FLUSH_SECONDS:.0f} s")

    def _raise_failure(self) -> None:
        if self.failures:
            count, first = self.failures.total(), next(iter(self.failures))
            self.failures.clear()
            raise DeliveryFailed(f"{count} records were not written; the first, {first}")


_idle: OrderedDict[tuple[tuple[str, str], ...], Writer] = OrderedDict()
"""This process's producers by their settings; their queues are empty. A worker runs one task at a time."""


def write_at_least_once(options: WriteOptions, batches: Iterable[pa.RecordBatch]) -> int:
    """Write a task's rows; return their number when all are acknowledged. Raises DeliveryFailed.

    A worker process keeps its producer for the next task.
    """
    settings = client.for_producer(options.settings)
    key = tuple(sorted(settings.items()))
    writer = _idle.pop(key, None) or Writer(settings)
    count = writer.produce(batches, options.topic)
    writer.flush()
    _idle[key] = writer
    while len(_idle) > KEPT_PRODUCERS:
        _idle.popitem(last=False)
    return count


class AttemptFenced(RuntimeError):
    """A later attempt at this task has fenced this one, which has written nothing."""


class TransactionFailed(RuntimeError):
    """A task's transaction was not committed; none of its rows are visible."""


class Abortable(Exception):
    """The transaction must be aborted; another one may succeed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """Parameters of all tasks of a micro-batch. They are sent to the workers."""

    settings: client.Settings
    topic: str | None
    places: Places
    mark: Mark  # of a task that has written this micro-batch
    is_staged: bool


class Rows:
    """A task's input, which can be iterated again while it is small enough to be held."""

    def __init__(self, live: Iterator[pa.RecordBatch]) -> None:
        """Read from an iterator."""
        self.live = live
        self.held: list[pa.RecordBatch] = []
        self.size = 0
        self.count = 0
        self.is_whole = True

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        """Iterate from the first row."""
        assert self.is_whole, "rows were dropped"
        return chain(list(self.held), self.rest())

    def rest(self) -> Iterator[pa.RecordBatch]:
        """Iterate over the batches not received yet; hold all up to HELD_BYTES_MAX, or none."""
        for batch in self.live:
            if batch.num_rows:
                self.count += batch.num_rows
                self.size += batch.nbytes
                self.is_whole = self.is_whole and (not self.held or self.size <= HELD_BYTES_MAX)
                if self.is_whole:
                    self.held.append(batch)
                else:
                    self.held = []
                yield batch

    def first(self) -> pa.RecordBatch | None:
        """Return the first batch that has rows, or None."""
        next(self.rest(), None)
        return self.held[0] if self.held else None


def judged(error: KafkaError, what: str) -> Exception:
    """Return the exception for an error that is not retried."""
    if error.txn_requires_abort():
        return Abortable(f"{what}: {error}")
    if error.code() in client.FENCED:
        why = "a later attempt at this task has fenced it, or it took longer than transaction.timeout.ms"
        return AttemptFenced(f"{what}: {error}: {why}")
    return TransactionFailed(f"{what}: {error}")


def patiently(call: Callable[[], Result], what: str) -> Result:
    """Return the result of a call, which is repeated after retriable errors within a limit.

    Raises: AttemptFenced, Abortable; TransactionFailed for other errors.
    """
    try:
        return retried(call, seconds=PATIENCE_SECONDS)
    except KafkaException as exception:
        raise judged(client.error_of(exception), what) from exception


class Member:
    """A client for the committed offsets of a group of marks. It does not join the group. Thread-safe."""

    def __init__(self, settings: client.Settings, group: str) -> None:
        """Create the client, which connects in the background."""
        # read_committed makes its OffsetFetch require stable offsets.
        own = {"group.id": group, "isolation.level": "read_committed"}
        self.consumer = Consumer(client.for_consumer(settings, group) | own)
        self.lock = threading.Lock()

    def committed(self, wanted: list[confluent_kafka.TopicPartition]) -> list[confluent_kafka.TopicPartition]:
        """Return the committed offsets. Raises: KafkaException for any of them."""
        with self.lock:
            found = self.consumer.committed(wanted, STEP_SECONDS)
        for part in found:
            if part.error is not None:
                raise KafkaException(part.error)
        return found

    def metadata(self) -> object:
        """Return the group's metadata for a transaction."""
        with self.lock:
            return self.consumer.consumer_group_metadata()


@functools.lru_cache(MEMBERS_MAX)
def member(settings: tuple[tuple[str, str], ...], group: str) -> Member:
    """Return this process's member of a group of marks. `settings` are sorted."""
    return Member(dict(settings), group)


def read_marks(settings: client.Settings, places: Places, tasks: Iterable[int]) -> dict[int, Mark | None]:
    """Return {task: mark}, None where there is none. Raises: as `patiently`; MarkError."""
    found: dict[int, Mark | None] = {}
    for group, members in places.by_group(tasks).items():
        wanted = [confluent_kafka.TopicPartition(marks.MARKS_TOPIC, places.partition(task)) for task in members]
        reader = member(tuple(sorted(settings.items())), group)
        parts = patiently(functools.partial(reader.committed, wanted), f"reading marks of {group}")
        by_partition = {part.partition: part for part in parts}
        for task in members:
            part = by_partition[places.partition(task)]
            found[task] = marks.decode(part.offset, part.metadata)
    return found


class Transactions:
    """A task's transactional producer. Creating it fences all earlier ones of the task."""

    def __init__(self, settings: client.Settings, places: Places, task: int) -> None:
        """Fence earlier producers and end their transaction. Raises: as `patiently`."""
        self.settings = settings
        self.places = places
        self.task = task
        # First, so that it connects while the producer waits for its coordinator.
        self.member = member(tuple(sorted(settings.items())), places.group(task))
        defaults = {"transaction.timeout.ms": str(TRANSACTION_TIMEOUT_MS)}
        own = {"transactional.id": places.transactional_id(task), "enable.idempotence": "true", "acks": "all"}
        self.writer = Writer(defaults | client.for_producer(settings) | own)
        self._step("init_transactions", lambda: self.writer.producer.init_transactions(STEP_SECONDS))

    def _step(self, name: str, call: Callable[[], Result]) -> Result:
        return patiently(call, f"{self.places.transactional_id(self.task)}: {name}")

    def mark(self) -> Mark | None:
        """Return the task's mark. Only this producer, or one that fences it, can change it."""
        return read_marks(self.settings, self.places, [self.task])[self.task]

    def commit(self, mark: Mark, rows: Iterable[pa.RecordBatch] = (), topic: str | None = None) -> None:
        """Write rows and the mark in one transaction, which is aborted after any error.

        Raises: Abortable, TransactionFailed, AttemptFenced; the errors of `rows`.
        """
        producer = self.writer.producer
        self._step("begin_transaction", producer.begin_transaction)
        try:
            self.writer.produce(rows, topic)
            offsets, group = [self.places.committed(self.task, mark)], self.member.metadata()
            self._step(
                "send_offsets_to_transaction",
                lambda: producer.send_offsets_to_transaction(offsets, group, STEP_SECONDS),
            )
            self._step("commit_transaction", lambda: producer.commit_transaction(STEP_SECONDS))
        except AttemptFenced:
            raise
        except KafkaException as exception:
            error, ending = client.error_of(exception), self._abort()
            if ending is None and error.code() == KafkaError._STATE:
                # The producer rejects records after an earlier error that requires an abort.
                raise Abortable(f"produce: {error}") from exception
            raise judged(ending or error, "produce") from exception
        except DeliveryFailed as failure:
            ending = self._abort()
            raise (Abortable(str(failure)) if ending is None else judged(ending, str(failure))) from failure
        except BaseException:
            self._abort()
            raise

    def _abort(self) -> KafkaError | None:
        """Abort the open transaction; return the error if that failed: the next init_transactions ends it then."""
        try:
            self.writer.producer.abort_transaction(STEP_SECONDS)
        except KafkaException as exception:
            error = client.error_of(exception)
            logger.info("%s: abort failed: %s", self.places.transactional_id(self.task), error)
            return error
        return None

    def close(self) -> None:
        """Close the producer and drop its queue. A fenced producer raises its error again."""
        self.writer.producer.purge()
        with contextlib.suppress(KafkaException):
            self.writer.producer.close()


def write_rows(work: Work, task: int, rows: Rows) -> str:
    """Write a task's rows unless they are written; return "written" or "skipped".

    Raises: MarkError, TransactionFailed; AttemptFenced if the later attempt did not write them within RIVAL_SECONDS.
    """
    try:
        return _write_or_skip(work, task, rows)
    except AttemptFenced as fenced:
        logger.info("task %d: %s: waits for that attempt", task, fenced)
        deadline = time.monotonic() + RIVAL_SECONDS
        while not _is_written(work, task, read_marks(work.settings, work.places, [task])[task]):
            if time.monotonic() > deadline:
                raise
            time.sleep(PAUSE_SECONDS)
        return "skipped"


def _is_written(work: Work, task: int, found: Mark | None) -> bool:
    return marks.is_written(found, work.mark, work.places.query, task)


def _write_or_skip(work: Work, task: int, rows: Rows) -> str:
    for attempt in range(1, TRANSACTIONS_TRIED + 1):
        with contextlib.closing(Transactions(work.settings, work.places, task)) as transactions:
            try:
                if _is_written(work, task, transactions.mark()):
                    return "skipped"
                transactions.commit(work.mark, rows, work.topic)
                return "written"
            except Abortable as error:
                if attempt == TRANSACTIONS_TRIED or not rows.is_whole:
                    raise TransactionFailed(f"task {task}: {error} (attempt {attempt})") from error
                logger.warning("task %d: %s: aborted, retried", task, error)
    raise AssertionError("the last attempt returns or raises")


def run_task(work: Work, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Write one task's rows and return the OUTCOME: the function that Spark runs in a worker."""
    context = TaskContext.get()
    assert context is not None, "runs in a task only"
    rows, task = Rows(batches), context.partitionId()
    first = rows.first()
    outcome = "empty"  # in every attempt
    if first is not None:
        if work.is_staged:
            task = first.column(TASK_COLUMN)[0].as_py()
        outcome = write_rows(work, task, rows)
        for _ in rows.rest():
            pass  # Spark does not reuse a worker that leaves input behind
    columns: list[pa.Array[Any]] = [pa.array([task], pa.int32()), pa.array([rows.count], pa.int64())]
    yield pa.RecordBatch.from_arrays([*columns, pa.array([outcome])], names=["task", "rows", "outcome"])
