"""Sends verifications and additions of partitions to the coordinators of transactional ids, in batches.

    queued --in the same loop iteration, or while a request is in flight--> batch --> AddPartitionsToTxn --> done

An id is in a batch once: a newer verification ends an older unsent one, since its producer has dropped that one.
Source: AddPartitionsToTxnManager.
"""

import asyncio
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Protocol

from kvorum.broker.coordinator.transaction.figures import TransactionFigures
from kvorum.broker.replica.tasks import spawn
from kvorum.broker.replica.transactions import PartitionErrors, Support, TransactionalProducer, VerifierDone
from kvorum.protocol.errors import ErrorCode, KafkaError
from kvorum.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from kvorum.protocol.topic_partition import TopicPartition
from kvorum.runtime.clock import Clock
from kvorum.runtime.logs import get_logger

log = get_logger("coordinator")

TRANSACTIONS_PER_REQUEST_MAX: Final = 1_000
"""A verification with its partitions takes about 100 bytes, so a request stays far below socket.request.max.bytes."""
REQUESTS_PER_BROKER_MAX: Final = 4
"""In flight at once: a request waits for the slowest of its coordinators' partitions, and others must not."""


class CoordinatorChannel(Protocol):
    """Connections to the brokers, this one included."""

    async def add_partitions_to_txn(
        self, broker_id: int, request: AddPartitionsToTxnRequest
    ) -> AddPartitionsToTxnResponse:
        """Return the broker's response. Raises KafkaError: NETWORK_EXCEPTION after request.timeout.ms."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """One producer's verification request."""

    producer: TransactionalProducer
    transactional_id: str
    partitions: Sequence[TopicPartition]
    on_done: VerifierDone
    started_ms: int

    def refused(self, code: ErrorCode) -> PartitionErrors:
        """Return the answer that refuses all of it."""
        return dict.fromkeys(self.partitions, code)


class PartitionVerifier:
    """Verifies transactions with their coordinators. A replica.transactions.TransactionVerifier."""

    def __init__(
        self,
        channel: CoordinatorChannel,
        coordinator_of: Callable[[str], int | None],
        clock: Clock,
        figures: TransactionFigures,
    ) -> None:
        """`coordinator_of` returns the broker that coordinates a transactional id, None without one."""
        self._channel = channel
        self._coordinator_of = coordinator_of
        self._clock = clock
        self._figures = figures
        self._waiting: dict[int, dict[str, Question]] = {}
        self._in_flight: Counter[int] = Counter()
        self._tasks: dict[asyncio.Task[None], None] = {}
        self._sending: asyncio.Handle | None = None

    def add_or_verify(
        self, producer: TransactionalProducer, partitions: Sequence[TopicPartition], on_done: VerifierDone
    ) -> None:
        """See TransactionVerifier."""
        assert producer.transactional_id is not None, "nobody coordinates what has no transactional id"
        question = Question(
            producer=producer,
            transactional_id=producer.transactional_id,
            partitions=partitions,
            on_done=on_done,
            started_ms=self._clock.monotonic_ms(),
        )
        broker_id = self._coordinator_of(question.transactional_id)
        if broker_id is None:
            self._tell(question, question.refused(ErrorCode.COORDINATOR_NOT_AVAILABLE))
            return
        waiting = self._waiting.setdefault(broker_id, {})
        older = waiting.get(question.transactional_id)
        if older is not None and older.producer.producer_epoch > producer.producer_epoch:
            self._tell(question, question.refused(ErrorCode.INVALID_PRODUCER_EPOCH))
            return
        waiting[question.transactional_id] = question
        if older is not None:
            is_fenced = older.producer.producer_epoch < producer.producer_epoch
            code = ErrorCode.INVALID_PRODUCER_EPOCH if is_fenced else ErrorCode.NETWORK_EXCEPTION
            self._tell(older, older.refused(code))
        if self._sending is None:
            self._sending = asyncio.get_running_loop().call_soon(self._send)

    async def close(self) -> None:
        """Stop sending requests. Waiters receive no result: the broker stops."""
        if self._sending is not None:
            self._sending.cancel()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _send(self) -> None:
        self._sending = None
        for broker_id, waiting in self._waiting.items():
            if waiting and self._in_flight[broker_id] < REQUESTS_PER_BROKER_MAX:
                self._in_flight[broker_id] += 1
                task = spawn(f"verify-transactions-{broker_id}", self._ask(broker_id, self._take(broker_id)))
                self._tasks[task] = None
                task.add_done_callback(self._tasks.pop)

    def _take(self, broker_id: int) -> list[Question]:
        waiting = self._waiting.get(broker_id, {})
        return [waiting.pop(name) for name in list(waiting)[:TRANSACTIONS_PER_REQUEST_MAX]]

    async def _ask(self, broker_id: int, questions: list[Question]) -> None:
        """Send the given verifications, then those added meanwhile."""
        while questions:
            try:
                response = await self._channel.add_partitions_to_txn(broker_id, request_of(questions))
                if response.error_code:
                    raise KafkaError(ErrorCode(response.error_code), "the request was rejected")
            except KafkaError as error:
                log.info("transactions not verified", broker=broker_id, count=len(questions), reason=error)
                answers: Mapping[str, PartitionErrors] = {
                    each.transactional_id: each.refused(error.code) for each in questions
                }
            else:
                answers = answers_of(response)
            for each in questions:
                # Partitions that the coordinator leaves out are not verified: a missing answer must open nothing.
                self._tell(each, answers.get(each.transactional_id, each.refused(ErrorCode.COORDINATOR_NOT_AVAILABLE)))
            questions = self._take(broker_id)
        self._in_flight[broker_id] -= 1

    def _tell(self, question: Question, errors: PartitionErrors) -> None:
        self._figures.verified(self._clock.monotonic_ms() - question.started_ms, len(errors))
        question.on_done(errors)


def request_of(questions: Sequence[Question]) -> AddPartitionsToTxnRequest:
    """Return the request for these verifications."""
    return AddPartitionsToTxnRequest(
        transactions=[
            AddPartitionsToTxnTransaction(
                transactional_id=each.transactional_id,
                producer_id=each.producer.producer_id,
                producer_epoch=each.producer.producer_epoch,
                verify_only=each.producer.support is not Support.ADD_PARTITION,
                topics=topics_of(each.partitions),
            )
            for each in questions
        ]
    )


def topics_of(partitions: Sequence[TopicPartition]) -> list[AddPartitionsToTxnTopic]:
    """Return partitions by topic."""
    topics: dict[str, AddPartitionsToTxnTopic] = {}
    for key in sorted(partitions):
        topics.setdefault(key.topic, AddPartitionsToTxnTopic(name=key.topic)).partitions.append(key.partition)
    return list(topics.values())


def answers_of(response: AddPartitionsToTxnResponse) -> Mapping[str, PartitionErrors]:
    """Return the rejected partitions, by transactional id."""
    return {
        result.transactional_id: {
            TopicPartition(topic.name, row.partition_index): ErrorCode(row.partition_error_code)
            for topic in result.topic_results
            for row in topic.results_by_partition
            if row.partition_error_code
        }
        for result in response.results_by_transaction
    }
