"""Appends that belong to transactions: verified with their coordinator before, ended by its markers (KIP-890).

A transaction's first batch on a partition waits until the coordinator of its transactional id has confirmed that the
transaction is open and contains the partition, or (Produce v12, TxnOffsetCommit v5 and later) has added it. The append
must carry the guard that the log created before the verification, so that an answer overtaken by a marker opens
nothing. Later batches of the transaction need no verification.

Source: ReplicaManager.handleProduceAppend, maybeSendPartitionsToTransactionCoordinator and
AddPartitionsToTxnManager, KafkaApis.handleWriteTxnMarkersRequest.
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from types import MappingProxyType
from typing import Final, Protocol, TypeAlias

from kvorum.broker.replica.appends import Appends, refusal
from kvorum.broker.replica.delayed_produce import ProduceDone, ProduceResults
from kvorum.broker.replica.hosted import HostedPartitions
from kvorum.broker.replica.partition import ACKS_ALL
from kvorum.broker.replica.turns import Done, Turns
from kvorum.broker.replica.types import NO_EPOCH, AppendTerms
from kvorum.protocol.errors import ErrorCode, KafkaError
from kvorum.protocol.topic_partition import TopicPartition
from kvorum.runtime.config import Settings
from kvorum.storage.producer_state import Origin
from kvorum.storage.verification import UNCHECKED, VerificationGuard

PRODUCE_VERSION_WITH_ABORTABLE: Final = 11
PRODUCE_VERSION_THAT_ADDS: Final = 12
COMMIT_VERSION_WITH_ABORTABLE: Final = 4
COMMIT_VERSION_THAT_ADDS: Final = 5

PartitionErrors: TypeAlias = Mapping[TopicPartition, ErrorCode]
Guards: TypeAlias = Mapping[TopicPartition, VerificationGuard]
Verified: TypeAlias = Callable[[PartitionErrors, Guards], None]
"""Receives the rejected partitions, and the guards of the others (none if the transaction is open)."""
MarkersDone: TypeAlias = Callable[[dict[TopicPartition, ErrorCode]], None]

RETRIED_BY_OLD_CLIENTS: Final = frozenset(
    {
        ErrorCode.NETWORK_EXCEPTION,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
    }
)
"""Not every producer retries these of a Produce: they are answered as NOT_ENOUGH_REPLICAS, which all do."""


class Support(Enum):
    """Transaction support of a producer's request version (Kafka's TransactionSupportedOperation)."""

    DEFAULT_ERROR = "default error"
    GENERIC_ERROR = "generic error"
    """TRANSACTION_ABORTABLE may be answered."""
    ADD_PARTITION = "add partition"
    """Transaction version 2: partitions are added by the write itself, each transaction has its own epoch."""

    @property
    def supports_epoch_bump(self) -> bool:
        """Whether each transaction has a separate epoch."""
        return self is Support.ADD_PARTITION


def produce_support(api_version: int) -> Support:
    """Return the transaction support of a Produce version."""
    return _support(api_version, PRODUCE_VERSION_WITH_ABORTABLE, PRODUCE_VERSION_THAT_ADDS)


def txn_offset_commit_support(api_version: int) -> Support:
    """Return the transaction support of a TxnOffsetCommit version."""
    return _support(api_version, COMMIT_VERSION_WITH_ABORTABLE, COMMIT_VERSION_THAT_ADDS)


def _support(api_version: int, with_abortable: int, that_adds: int) -> Support:
    if api_version >= that_adds:
        return Support.ADD_PARTITION
    return Support.GENERIC_ERROR if api_version >= with_abortable else Support.DEFAULT_ERROR


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionalProducer:
    """Writer of a transaction. Without a transactional id it cannot be verified, so nothing can be begun."""

    transactional_id: str | None
    producer_id: int
    producer_epoch: int
    support: Support


class TransactionVerifier(Protocol):
    """Sends verifications to the coordinator of a transactional id, on any broker (AddPartitionsToTxn v4 and later)."""

    def add_or_verify(
        self, producer: TransactionalProducer, partitions: Sequence[TopicPartition], on_done: "VerifierDone"
    ) -> None:
        """Add the partitions (`producer.support` is ADD_PARTITION) or only verify them; call `on_done` once.

        With the rejected partitions, each with the code in the coordinator's answer; all of them with
        COORDINATOR_NOT_AVAILABLE (there is none) or NETWORK_EXCEPTION (no answer in request.timeout.ms). May call back
        before it returns. A newer verification of the same transactional id ends an older one that was not sent yet:
        INVALID_PRODUCER_EPOCH if its epoch is higher, else NETWORK_EXCEPTION.
        """
        ...


VerifierDone: TypeAlias = Callable[[PartitionErrors], None]


class NoCoordinator:
    """Rejects every transaction: for a broker without transaction coordinators."""

    def add_or_verify(
        self, producer: TransactionalProducer, partitions: Sequence[TopicPartition], on_done: VerifierDone
    ) -> None:
        """See TransactionVerifier."""
        on_done(dict.fromkeys(partitions, ErrorCode.INVALID_TXN_STATE))


@dataclass(slots=True)
class Transactions:
    """Verification and markers on the replicas here. `verifier` is to be set once there are coordinators."""

    _hosted: HostedPartitions
    _appends: Appends
    _settings: Callable[[], Settings]
    verifier: TransactionVerifier = field(default_factory=NoCoordinator)
    _retries: set[asyncio.TimerHandle] = field(default_factory=set)
    _turns: Turns = field(default_factory=Turns)
    """Appends by producer id and epoch."""

    def close(self) -> None:
        """Stop verifying transactions."""
        for handle in self._retries:
            handle.cancel()
        self._retries.clear()

    def verify(
        self, producer: TransactionalProducer, sequences: Mapping[TopicPartition, int], on_done: Verified
    ) -> None:
        """Start a producer's transaction on partitions led here, then call `on_done`, perhaps before this returns.

        `sequences` has the first sequence number of each write; NO_SEQUENCE for a coordinator's own records. While the
        coordinator is still ending the previous transaction, a producer of transaction version 2 gets
        CONCURRENT_TRANSACTIONS only after retries for add.partitions.to.txn.retry.backoff.max.ms.
        """
        settings = self._settings()
        tries_ms = min(settings.int("add.partitions.to.txn.retry.backoff.max.ms"), settings.int("request.timeout.ms"))
        pause_ms = settings.int("add.partitions.to.txn.retry.backoff.ms")
        loop = asyncio.get_running_loop()
        deadline = loop.time() + tries_ms / 1000

        def answered(errors: PartitionErrors, guards: Guards) -> None:
            is_concurrent = ErrorCode.CONCURRENT_TRANSACTIONS in errors.values()
            if not (is_concurrent and producer.support.supports_epoch_bump) or loop.time() >= deadline:
                on_done(errors, guards)
                return

            def again() -> None:
                self._retries.discard(handle)
                self._verify_once(producer, sequences, answered)

            handle = loop.call_later(pause_ms / 1000, again)
            self._retries.add(handle)

        self._verify_once(producer, sequences, answered)

    def _verify_once(
        self, producer: TransactionalProducer, sequences: Mapping[TopicPartition, int], on_done: Verified
    ) -> None:
        supports_epoch_bump = producer.support.supports_epoch_bump
        is_enabled = self._settings().bool("transaction.partition.verification.enable")
        if not is_enabled and (producer.transactional_id is None or not supports_epoch_bump):
            on_done({}, dict.fromkeys(sequences, UNCHECKED))
            return
        if producer.transactional_id is None:
            on_done({}, {})
            return
        refused: dict[TopicPartition, ErrorCode] = {}
        guards: dict[TopicPartition, VerificationGuard] = {}
        for key, sequence in sequences.items():
            try:
                log = self._hosted.partition_or_raise(key).log_or_raise(NO_EPOCH, require_leader=True)
                guard = log.begin_verification(
                    producer.producer_id, producer.producer_epoch, sequence, supports_epoch_bump
                )
            except KafkaError as error:
                refused[key] = error.code
                continue
            if guard is not None:
                guards[key] = guard
        if not guards:
            on_done(refused, {})
            return

        def answered(errors: PartitionErrors) -> None:
            codes = {key: _known_to(producer, code) for key, code in errors.items()}
            on_done({**refused, **codes}, guards)

        self.verifier.add_or_verify(producer, tuple(guards), answered)

    def append_records(
        self,
        producer: TransactionalProducer,
        timeout_ms: int,
        required_acks: int,
        entries: Mapping[TopicPartition, memoryview],
        sequences: Mapping[TopicPartition, int],
        on_done: ProduceDone,
    ) -> None:
        """Append a Produce that has transactional batches (those in `sequences`); see Appends.append_records.

        All of it waits for the coordinator, and `entries` must not change until then. Unverified batches get
        INVALID_TXN_STATE, INVALID_PRODUCER_EPOCH, NOT_ENOUGH_REPLICAS (retriable) and the like. Batches that a producer
        sends in between wait: they are appended in order of arrival, as in Kafka, which reads a connection's next
        request only after the last response.
        """

        self._turns.take(
            (producer.producer_id, producer.producer_epoch),
            lambda when_done: self._append_verified(
                producer, timeout_ms, required_acks, entries, sequences, on_done, when_done
            ),
        )

    def _append_verified(
        self,
        producer: TransactionalProducer,
        timeout_ms: int,
        required_acks: int,
        entries: Mapping[TopicPartition, memoryview],
        sequences: Mapping[TopicPartition, int],
        on_done: ProduceDone,
        when_done: Done,
    ) -> None:
        """Verify and append; `when_done` is called when the batch is in the log, or never will be."""

        def verified(errors: PartitionErrors, guards: Guards) -> None:
            refused: ProduceResults = {}
            for key, code in errors.items():
                error = _produce_error(code, producer.support)
                refused[key] = refusal(key, error.code)
                refused[key].error_message = error.message or None
            taken = {key: records for key, records in entries.items() if key not in refused}
            if taken:
                terms = {key: AppendTerms(guard=guard) for key, guard in guards.items() if key in taken}
                done = on_done if not refused else lambda results: on_done({**refused, **results})
                self._appends.append_records(timeout_ms, required_acks, taken, done, terms)
            else:
                on_done(refused)
            when_done()

        self.verify(producer, sequences, verified)

    def append_markers(
        self,
        timeout_ms: int,
        markers: Mapping[TopicPartition, memoryview],
        transaction_version: int,
        on_done: MarkersDone,
    ) -> None:
        """Append the markers (protocol.control.marker) that end a transaction on partitions led here.

        `on_done` gets a code for each once all are replicated as for acks=all, or after the timeout: NONE,
        UNKNOWN_TOPIC_OR_PARTITION, NOT_LEADER_OR_FOLLOWER, NOT_ENOUGH_REPLICAS (and _AFTER_APPEND), REQUEST_TIMED_OUT,
        INVALID_PRODUCER_EPOCH (it came late), TRANSACTION_COORDINATOR_FENCED, KAFKA_STORAGE_ERROR.
        """

        def done(results: ProduceResults) -> None:
            on_done({key: ErrorCode(row.error_code) for key, row in results.items()})

        terms = AppendTerms(origin=Origin.COORDINATOR, transaction_version=transaction_version)
        by_key = MappingProxyType(dict.fromkeys(markers, terms))
        self._appends.append_records(timeout_ms, ACKS_ALL, markers, done, by_key)


def _known_to(producer: TransactionalProducer, code: ErrorCode) -> ErrorCode:
    """Return the coordinator's code as the producer understands it."""
    if code is ErrorCode.PRODUCER_FENCED:
        return ErrorCode.INVALID_PRODUCER_EPOCH
    if code is ErrorCode.TRANSACTION_ABORTABLE and producer.support is Support.DEFAULT_ERROR:
        return ErrorCode.INVALID_TXN_STATE
    # Requests among brokers do not depend on the client.
    return ErrorCode.INVALID_TXN_STATE if code is ErrorCode.CLUSTER_AUTHORIZATION_FAILED else code


def _produce_error(code: ErrorCode, support: Support) -> KafkaError:
    """Return the Produce error of a partition that was not verified."""
    if code is ErrorCode.INVALID_TXN_STATE:
        return KafkaError(code, "Partition was not added to the transaction")
    is_concurrent = code is ErrorCode.CONCURRENT_TRANSACTIONS and not support.supports_epoch_bump
    if code in RETRIED_BY_OLD_CLIENTS or is_concurrent:
        text = f"Unable to verify the partition has been added to the transaction. Underlying error: {code.name}"
        return KafkaError(ErrorCode.NOT_ENOUGH_REPLICAS, text)
    return KafkaError(code)
