"""Start of a transaction: InitProducerId assigns the producer's epoch, partitions are added or verified. Sans-IO.

    InitProducerId    no epoch expected                   the epoch expected is the current one, or was the last
    unknown           a new id, epoch 0                   the same: no producer has to be fenced
    EMPTY, COMPLETE   the next epoch; a new id after the  the next epoch (or a new id); of a retry, which has the last
                      last epoch                          one, the current epoch again; else PRODUCER_FENCED
    ONGOING           aborted with the next epoch, CONCURRENT_TRANSACTIONS: the producer tries again
    PREPARE_*         CONCURRENT_TRANSACTIONS

    partitions        add                                 verify only
    PREPARE_*         CONCURRENT_TRANSACTIONS             the same, after the checks of id and epoch
    unknown           INVALID_PRODUCER_ID_MAPPING; also for another producer id
    another epoch     PRODUCER_FENCED
    else              ONGOING, with the partitions        TRANSACTION_ABORTABLE for what is not in it

Source: TransactionCoordinator.handleInitProducerId, prepareInitProducerIdTransit, handleAddPartitionsToTransaction,
handleVerifyPartitionsInTransaction. Two-phase commit (KIP-939) is not supported.
"""

from collections.abc import Mapping
from typing import Final

from kvorum.broker.coordinator.runtime.placing import partition_for
from kvorum.broker.coordinator.runtime.words import Producer
from kvorum.broker.coordinator.transaction.ending import abort_and_fence
from kvorum.broker.coordinator.transaction.state import (
    NO_TIMESTAMP,
    State,
    TransactionMetadata,
    is_epoch_exhausted,
    moved,
)
from kvorum.broker.coordinator.transaction.words import (
    NEEDS_PRODUCER_ID,
    AddPartitions,
    Answer,
    InitProducer,
    Terms,
    Verdict,
    refused,
)
from kvorum.protocol.batch_header import NO_PRODUCER_EPOCH, NO_PRODUCER_ID
from kvorum.protocol.errors import ErrorCode
from kvorum.protocol.topic_names import OFFSETS_TOPIC
from kvorum.protocol.topic_partition import TopicPartition

OFFSETS_TRANSACTION_VERSION: Final = 0
"""AddOffsetsToTxn is for producers before version 2: theirs are added by TxnOffsetCommit."""


def init_producer_id(metadata: TransactionMetadata | None, request: InitProducer, terms: Terms) -> Verdict:
    """Decide on an InitProducerId with a transactional id: see the table above."""
    if not request.transactional_id:
        return refused(ErrorCode.INVALID_REQUEST)
    if not 0 < request.timeout_ms <= terms.timeout_ms_max:
        return refused(ErrorCode.INVALID_TRANSACTION_TIMEOUT)
    if metadata is None:
        return _with_new_id(None, request, terms)
    if metadata.state.is_prepared:
        return refused(ErrorCode.CONCURRENT_TRANSACTIONS)
    expected = request.expected
    if expected is not None and not _may_be_expected(metadata, expected):
        return refused(ErrorCode.PRODUCER_FENCED)
    if metadata.state is State.ONGOING:
        aborted = abort_and_fence(metadata, terms)
        return aborted if aborted.needs_producer_id else Verdict(aborted.next, CONCURRENT)
    if metadata.is_epoch_exhausted and (expected is None or expected.producer_epoch == metadata.producer_epoch):
        return _with_new_id(metadata, request, terms)
    return _with_next_epoch(metadata, request, terms)


CONCURRENT: Final = Answer(ErrorCode.CONCURRENT_TRANSACTIONS)


def _may_be_expected(metadata: TransactionMetadata, expected: Producer) -> bool:
    """Return whether a producer may continue, by its id: it is the current one, or was until its last epoch."""
    was_last = expected.producer_id == metadata.previous_producer_id and is_epoch_exhausted(expected.producer_epoch)
    return expected.producer_id == metadata.producer_id or was_last


def _with_new_id(metadata: TransactionMetadata | None, request: InitProducer, terms: Terms) -> Verdict:
    """Assign a new producer id, for a new transactional id or after the epochs of the old one are used up."""
    if terms.new_producer_id is None:
        return NEEDS_PRODUCER_ID
    if metadata is None:
        fresh = TransactionMetadata(
            transactional_id=request.transactional_id,
            producer_id=terms.new_producer_id,
            timeout_ms=request.timeout_ms,
            last_update_ms=terms.wall_ms,
        )
        return _initialized(fresh, request, terms, 0, NO_PRODUCER_EPOCH)
    last_epoch = NO_PRODUCER_EPOCH if request.expected is None else metadata.producer_epoch
    return _initialized(metadata, request, terms, 0, last_epoch, producer_id=terms.new_producer_id)


def _with_next_epoch(metadata: TransactionMetadata, request: InitProducer, terms: Terms) -> Verdict:
    """Assign the next epoch; the current one to a producer that did not receive the response with it."""
    next_epoch = metadata.producer_epoch + 1
    if request.expected is None:
        return _initialized(metadata, request, terms, next_epoch, NO_PRODUCER_EPOCH)
    match request.expected.producer_epoch:
        case metadata.producer_epoch:
            return _initialized(metadata, request, terms, next_epoch, metadata.producer_epoch)
        case metadata.last_producer_epoch:
            return _initialized(metadata, request, terms, metadata.producer_epoch, metadata.last_producer_epoch)
    return refused(ErrorCode.PRODUCER_FENCED)


def _initialized(
    metadata: TransactionMetadata,
    request: InitProducer,
    terms: Terms,
    epoch: int,
    last_epoch: int,
    producer_id: int | None = None,
) -> Verdict:
    initialized = moved(
        metadata,
        State.EMPTY,
        producer_id=metadata.producer_id if producer_id is None else producer_id,
        producer_epoch=epoch,
        last_producer_epoch=last_epoch,
        next_producer_id=NO_PRODUCER_ID,
        timeout_ms=request.timeout_ms,
        partitions=frozenset(),
        start_ms=NO_TIMESTAMP,
        last_update_ms=terms.wall_ms,
    )
    return Verdict(initialized, Answer(ErrorCode.NONE, initialized.producer_id, epoch))


def add_partitions(metadata: TransactionMetadata | None, request: AddPartitions, terms: Terms) -> Verdict:
    """Decide on partitions to be added; one code for all of them."""
    if not request.transactional_id:
        return refused(ErrorCode.INVALID_REQUEST)
    if metadata is not None and metadata.state.is_prepared:
        return refused(ErrorCode.CONCURRENT_TRANSACTIONS)
    if metadata is None or metadata.producer_id != request.producer.producer_id:
        return refused(ErrorCode.INVALID_PRODUCER_ID_MAPPING)
    if metadata.producer_epoch != request.producer.producer_epoch:
        return refused(ErrorCode.PRODUCER_FENCED)
    is_ongoing = metadata.state is State.ONGOING
    if is_ongoing and request.partitions <= metadata.partitions:
        return refused(ErrorCode.NONE)
    begun = moved(
        metadata,
        State.ONGOING,
        partitions=metadata.partitions | request.partitions,
        start_ms=metadata.start_ms if is_ongoing else terms.wall_ms,
        last_update_ms=terms.wall_ms,
        client_transaction_version=request.client_transaction_version,
    )
    return Verdict(begun, Answer())


def verify_partitions(
    metadata: TransactionMetadata | None, request: AddPartitions
) -> Mapping[TopicPartition, ErrorCode]:
    """Return a code for each partition: whether it is in the producer's transaction. Nothing is changed."""
    code = ErrorCode.NONE
    if not request.transactional_id:
        code = ErrorCode.INVALID_REQUEST
    elif metadata is None or metadata.producer_id != request.producer.producer_id:
        code = ErrorCode.INVALID_PRODUCER_ID_MAPPING
    elif metadata.producer_epoch != request.producer.producer_epoch:
        code = ErrorCode.PRODUCER_FENCED
    elif metadata.state.is_prepared:
        code = ErrorCode.CONCURRENT_TRANSACTIONS
    if metadata is None or code is not ErrorCode.NONE:
        return dict.fromkeys(request.partitions, code)
    return {
        key: ErrorCode.NONE if key in metadata.partitions else ErrorCode.TRANSACTION_ABORTABLE
        for key in request.partitions
    }


def offsets_partition(group_id: str, partition_count: int) -> TopicPartition:
    """Return the partition that AddOffsetsToTxn adds: where the group's offsets live."""
    return TopicPartition(OFFSETS_TOPIC, partition_for(group_id, partition_count))
