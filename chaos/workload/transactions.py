"""Transactional producers by confluent-kafka, one thread each: records of a transaction become visible together.

Certain outcomes: `ok` committed, or aborted on request; `fail` aborted, because a commit was never requested, and the
next life of the id ends the open transaction; `info` a commit was requested and returned an error: it may have
happened. After anything but `ok` the producer is dropped and another begins with its id: a client that continues after
an unknown error can commit a transaction that it considers aborted (KAFKA-17754).
"""

import threading
import time
from concurrent.futures import Future
from random import Random
from typing import Any, Final, TypeAlias

from confluent_kafka import KafkaError, KafkaException, Producer

from kvorum.chaos.client_access import ClientAccess
from kvorum.chaos.history import Fail, Info, MicroOp, Ok, OperationValue
from kvorum.chaos.workload.classify import kafka_name
from kvorum.chaos.workload.libraries import CONFLUENT
from kvorum.chaos.workload.plan import TransactionClients
from kvorum.chaos.workload.recorder import Recorder, encode_value, partition_names, split_partition
from kvorum.chaos.workload.senders import SILENT, Pace
from kvorum.chaos.workload.threads import client_thread, join_or_tell

READY_SECONDS: Final = 10.0
"""One try to get a producer id."""
STEP_SECONDS: Final = 10.0
"""One try of a commit or an abort; a retriable error is followed by another."""
FLUSH_SECONDS: Final = 2.0
STEP_TRIES: Final = 4
LEFT_OPEN: Final = 0.5
"""Share of deaths in the middle of a transaction."""
AMOUNT_MAX: Final = 100


def producer_settings(
    access: ClientAccess, transactional_id: str, timeout: float
) -> dict[str, str | int | float | bool | object]:
    """Return librdkafka's settings of a transactional producer."""
    return {
        **access.librdkafka(),
        "transactional.id": transactional_id,
        "transaction.timeout.ms": int(timeout * 1000),
        "linger.ms": 2,
        "reconnect.backoff.ms": 50,
        "reconnect.backoff.max.ms": 500,
        "retry.backoff.ms": 50,
        "socket.timeout.ms": int(min(10.0, timeout) * 1000),
        "topic.metadata.refresh.interval.ms": 5_000,
        "log_level": 0,
        "logger": SILENT,
    }


Row: TypeAlias = tuple[str, int]
"""A partition and the value that is sent to it."""


class TransactionError(Exception):
    """A transaction was not committed; the name is Kafka's. `is_uncertain`: a commit may have been sent."""

    def __init__(self, name: str, *, is_uncertain: bool) -> None:
        """Hold both."""
        super().__init__(name)
        self.is_uncertain = is_uncertain


class TransactionalProducer:
    """One producer with its id, for one life."""

    def __init__(self, access: ClientAccess, transactional_id: str, timeout: float, recorder: Recorder) -> None:
        """Start without a request."""
        self.process = recorder.process(CONFLUENT, isolation="read_committed", transactional_id=transactional_id)
        self.producer = Producer(producer_settings(access, transactional_id, timeout))
        self._recorder = recorder
        self._offsets: dict[tuple[str, int], int | None] = {}

    def ready(self, stop: threading.Event) -> bool:
        """Get the producer id, which ends the last life's open transaction; False if stopped before."""
        while not stop.is_set():
            try:
                self.producer.init_transactions(READY_SECONDS)
            except KafkaException as error:
                if not error.args[0].retriable():
                    return False
            else:
                return True
        return False

    def begin(self, records: list[Row]) -> None:
        """Begin a transaction and pass its (partition, value) pairs to the client. Raises TransactionError."""
        self._offsets = {}
        try:
            self.producer.begin_transaction()
            for partition, value in records:
                topic, number = split_partition(partition)

                def on_delivery(error: KafkaError | None, message: Any, key: Row = (partition, value)) -> None:
                    self._offsets[key] = message.offset() if error is None else None

                self.producer.produce(topic, encode_value(value), partition=number, on_delivery=on_delivery)
                self.producer.poll(0)
        except (KafkaException, BufferError) as error:
            raise failure(error, is_uncertain=False) from error

    def send_offsets(self, offsets: list[Any], metadata: object) -> None:
        """Send a group's offsets along. Raises TransactionError.

        librdkafka ignores the timeout of this call (its issue 5456): it waits for its cached group coordinator, even if
        that broker has left the metadata. After STEP_TRIES times STEP_SECONDS the call is abandoned: _TIMED_OUT.
        """
        done = Future[None]()

        def send() -> None:
            try:
                self._try_step(
                    lambda: self.producer.send_offsets_to_transaction(offsets, metadata, STEP_SECONDS),
                    is_uncertain=False,
                )
            except Exception as error:
                done.set_exception(error)
            else:
                done.set_result(None)

        threading.Thread(target=send, name="chaos-send-offsets", daemon=True).start()
        try:
            done.result(STEP_SECONDS * STEP_TRIES)
        except TimeoutError:
            raise TransactionError("_TIMED_OUT", is_uncertain=False) from None

    def commit(self) -> None:
        """Request the commit until it is certain. Raises TransactionError."""
        self._try_step(lambda: self.producer.commit_transaction(STEP_SECONDS), is_uncertain=True)

    def abort(self) -> None:
        """Request the abort until it is certain. Raises TransactionError."""
        self._try_step(lambda: self.producer.abort_transaction(STEP_SECONDS), is_uncertain=False)

    def sends(self, records: list[Row]) -> list[MicroOp]:
        """Return the records as micro-operations, with the returned offsets."""
        return [["send", *each, self._offsets.get(each)] for each in records]

    def _try_step(self, step: Any, *, is_uncertain: bool) -> None:
        """Execute a step, repeated while its error is retriable. Raises TransactionError."""
        for left in range(STEP_TRIES, 0, -1):
            try:
                step()
            except KafkaException as error:
                if left == 1 or not error.args[0].retriable() or error.args[0].txn_requires_abort():
                    raise failure(error, is_uncertain=is_uncertain) from error
            else:
                return

    def run(
        self,
        records: list[Row],
        more: list[MicroOp],
        *,
        commit: bool,
        offsets: tuple[list[Any], object] | None = None,
        generation: int | None = None,
    ) -> bool:
        """Execute one transaction and record it; return whether the producer may continue.

        `more` are additional operations.
        """
        recorder = self._recorder
        operations: OperationValue = [*send_operations(records), *more]
        op = recorder.invoke(self.process, "txn", operations, generation=generation)
        ended: float | None = None
        try:
            self.begin(records)
            if offsets is not None:
                self.send_offsets(*offsets)
            if not commit:
                self.producer.flush(FLUSH_SECONDS)  # an abort purges unsent records: nothing would be aborted
            # Not before: flush and commit are one call, and the request leaves once all is delivered.
            ended = recorder.seconds()
            if commit:
                self.commit()
            else:
                self.abort()
        except TransactionError as error:
            kind, committed = (Info, None) if error.is_uncertain else (Fail, False)
            recorder.complete(
                op, kind, operations, error=str(error), committed=committed, ended=ended, generation=generation
            )
            return False
        done: OperationValue = [*(self.sends(records) if commit else operations[: len(records)]), *more]
        recorder.complete(op, Ok, done, committed=commit, ended=ended, generation=generation)
        return True

    def leave_open(self, records: list[Row], more: list[MicroOp]) -> None:
        """Hand records over and never end their transaction."""
        operations: OperationValue = [*send_operations(records), *more]
        op = self._recorder.invoke(self.process, "txn", operations)
        try:
            self.begin(records)
            self.producer.flush(1.0)
        except TransactionError:
            pass  # also: it is aborted nevertheless
        self._recorder.complete(op, Fail, operations, error="LEFT_OPEN", committed=False)

    def die(self) -> None:
        """End without any request."""
        self._recorder.invoke(self.process, "crash", [])
        self._recorder.abandon(self.process)
        self.producer.purge(in_queue=True, in_flight=True, blocking=False)


def send_operations(records: list[Row]) -> list[MicroOp]:
    """Return records as the micro-operations of an invocation."""
    return [["send", partition, value] for partition, value in records]


def failure(error: Exception, *, is_uncertain: bool) -> TransactionError:
    """Return the failure for a client's error."""
    found = error.args[0] if isinstance(error, KafkaException) else None
    return TransactionError(
        kafka_name(found.name()) if isinstance(found, KafkaError) else "_QUEUE_FULL", is_uncertain=is_uncertain
    )


class TransactionalSender:
    """One transactional id's thread, over all its lives."""

    def __init__(
        self, plan: TransactionClients, topics: dict[str, int], access: ClientAccess, recorder: Recorder, rng: Random
    ) -> None:
        """Create it; `start` starts it."""
        self._plan = plan
        self._names = partition_names(topics)
        self._access = access
        self._recorder = recorder
        self._rng = rng
        self._id = f"kvorum-chaos-{plan.kind}-{rng.getrandbits(32):08x}"
        self._stop = threading.Event()
        self._thread = client_thread(f"chaos-{plan.kind}", self._run, recorder)

    @property
    def transactional_id(self) -> str:
        """Its id."""
        return self._id

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def stop(self) -> None:
        """Stop starting transactions."""
        self._stop.set()

    def join(self) -> None:
        """Wait for the end of the one that is open."""
        join_or_tell(self._thread, self._recorder)

    def _run(self) -> None:
        plan, rng = self._plan, self._rng
        while not self._stop.is_set():
            life = TransactionalProducer(self._access, self._id, plan.timeout, self._recorder)
            lifetime = float("inf") if plan.crash_every is None else plan.crash_every * (0.5 + rng.random())
            if life.ready(self._stop):
                self._live(life, time.monotonic() + lifetime)
            life.die()

    def _live(self, life: TransactionalProducer, ends: float) -> None:
        """Send transactions until it is time to die, or one fails."""
        plan, rng = self._plan, self._rng
        pace = Pace(plan.rate)
        while not self._stop.is_set():
            wait = pace.due()
            if wait:
                self._stop.wait(wait)
                continue
            if time.monotonic() >= ends:
                if rng.random() < LEFT_OPEN:
                    life.leave_open(*self._draw_transaction())
                return
            if not life.run(*self._draw_transaction(), commit=rng.random() >= plan.abort):
                return

    def _draw_transaction(self) -> tuple[list[Row], list[MicroOp]]:
        """Return the records of a transaction, and the money that they move."""
        rng, recorder = self._rng, self._recorder
        records = [(rng.choice(self._names), recorder.next_value()) for _ in range(self._plan.records)]
        if self._plan.kind == "txn":
            return records, []
        moves: list[MicroOp] = []
        for at in range(0, len(records), 2):
            amount = rng.randint(1, AMOUNT_MAX)
            moves += [["amount", *records[at], -amount], ["amount", *records[at + 1], amount]]
        return records, moves
