"""End of a transaction: EndTxn by its producer, an abort by the coordinator, completion by the last marker.

Sans-IO.

In transaction version 2 (KIP-890) each end increments the epoch, which distinguishes requests of earlier transactions.
An EndTxn has the *current* epoch, or the one before: a *retry* of the end that bumped it.

    version 2         abort, retry        abort, current     commit, retry       commit, current
    EMPTY             PRODUCER_FENCED     aborts             PRODUCER_FENCED     INVALID_TXN_STATE
    ONGOING           PRODUCER_FENCED     aborts             PRODUCER_FENCED     commits
    PREPARE_*         CONCURRENT_TRANSACTIONS, whatever the epoch: it has not ended
    COMPLETE_ABORT    NONE                aborts             PRODUCER_FENCED     INVALID_TXN_STATE
    COMPLETE_COMMIT   INVALID_TXN_STATE   aborts             NONE                INVALID_TXN_STATE

An abort of an empty transaction increments the epoch too: the producer may not know that its writes never arrived. A
commit after the coordinator aborted the transaction (timeout) is fenced, which clients survive, not in an invalid
state, which they do not (KAFKA-20785).

    version 0, 1      abort               commit             (the current epoch only: else PRODUCER_FENCED)
    EMPTY             INVALID_TXN_STATE   INVALID_TXN_STATE
    ONGOING           aborts              commits
    PREPARE_*         CONCURRENT_TRANSACTIONS
    COMPLETE_ABORT    NONE                INVALID_TXN_STATE
    COMPLETE_COMMIT   INVALID_TXN_STATE   NONE

Source: TransactionCoordinator.endTransaction, endTransactionWithTV1, TransactionMetadata.prepareAbortOrCommit,
prepareComplete.
"""

from kvorum.broker.coordinator.runtime.words import Producer
from kvorum.broker.coordinator.transaction.state import (
    EPOCH_MAX,
    VERSION_WITH_EPOCH_BUMP,
    State,
    TransactionMetadata,
    moved,
)
from kvorum.broker.coordinator.transaction.words import (
    NEEDS_PRODUCER_ID,
    Answer,
    EndTransaction,
    Terms,
    Verdict,
    refused,
)
from kvorum.protocol.batch_header import NO_PRODUCER_EPOCH, NO_PRODUCER_ID
from kvorum.protocol.errors import ErrorCode


def end_transaction(metadata: TransactionMetadata | None, request: EndTransaction, terms: Terms) -> Verdict:
    """Decide on an EndTxn: see the tables above.

    A response of version 2 has the id and epoch for the next transaction.
    """
    if not request.transactional_id:
        return refused(ErrorCode.INVALID_REQUEST)
    if metadata is None:
        return refused(ErrorCode.INVALID_PRODUCER_ID_MAPPING)
    if request.client_transaction_version < VERSION_WITH_EPOCH_BUMP:
        return _end_without_bump(metadata, request, terms)
    return _end_with_bump(metadata, request, terms)


def _end_without_bump(metadata: TransactionMetadata, request: EndTransaction, terms: Terms) -> Verdict:
    if metadata.producer_id != request.producer.producer_id:
        return refused(ErrorCode.INVALID_PRODUCER_ID_MAPPING)
    if metadata.producer_epoch != request.producer.producer_epoch:
        return refused(ErrorCode.PRODUCER_FENCED)
    if metadata.state.is_prepared:
        return refused(ErrorCode.CONCURRENT_TRANSACTIONS)
    if metadata.state is State.ONGOING:
        ended = moved(
            metadata,
            State.PREPARE_COMMIT if request.is_commit else State.PREPARE_ABORT,
            next_producer_id=NO_PRODUCER_ID,
            last_update_ms=terms.wall_ms,
            client_transaction_version=0,
        )
        return Verdict(ended, Answer())
    is_repeated = metadata.state is (State.COMPLETE_COMMIT if request.is_commit else State.COMPLETE_ABORT)
    return refused(ErrorCode.NONE if is_repeated else ErrorCode.INVALID_TXN_STATE)


def _end_with_bump(metadata: TransactionMetadata, request: EndTransaction, terms: Terms) -> Verdict:
    if metadata.state.is_prepared:
        return refused(ErrorCode.CONCURRENT_TRANSACTIONS)
    is_retry_with_new_id = _is_retry_with_new_id(metadata, request.producer)
    if metadata.producer_id != request.producer.producer_id and not is_retry_with_new_id:
        return refused(ErrorCode.INVALID_PRODUCER_ID_MAPPING)
    is_retry = is_retry_with_new_id or metadata.producer_epoch == request.producer.producer_epoch + 1
    is_current = not is_retry_with_new_id and metadata.producer_epoch == request.producer.producer_epoch
    if not is_current and not (is_retry and metadata.state.is_complete):
        return refused(ErrorCode.PRODUCER_FENCED)
    if is_retry:
        return _repeated(metadata, request.is_commit)
    if metadata.state is not State.ONGOING and request.is_commit:
        return refused(ErrorCode.INVALID_TXN_STATE)
    state = State.PREPARE_COMMIT if request.is_commit else State.PREPARE_ABORT
    return _prepared_with_bump(metadata, state, request.client_transaction_version, terms)


def _is_retry_with_new_id(metadata: TransactionMetadata, producer: Producer) -> bool:
    """Return whether this is the last producer of an id whose epochs were exhausted by the end that it retries."""
    is_last = producer.producer_epoch == EPOCH_MAX - 1 and metadata.producer_epoch == 0
    return is_last and metadata.previous_producer_id == producer.producer_id


def _repeated(metadata: TransactionMetadata, is_commit: bool) -> Verdict:
    """Answer an end that may have been made already."""
    if is_commit == (metadata.state is State.COMPLETE_COMMIT):
        return Verdict(None, Answer(ErrorCode.NONE, metadata.producer_id, metadata.producer_epoch))
    return refused(ErrorCode.PRODUCER_FENCED if is_commit else ErrorCode.INVALID_TXN_STATE)


def _prepared_with_bump(metadata: TransactionMetadata, state: State, client_version: int, terms: Terms) -> Verdict:
    """Decide the end of a transaction with the next epoch, or with the next producer id if no epoch is left."""
    next_producer_id = NO_PRODUCER_ID
    if metadata.is_epoch_exhausted:
        if terms.new_producer_id is None:
            return NEEDS_PRODUCER_ID
        next_producer_id = terms.new_producer_id
    epoch = min(metadata.producer_epoch + 1, EPOCH_MAX)
    ended = moved(
        metadata,
        state,
        producer_epoch=epoch,
        last_producer_epoch=metadata.producer_epoch,
        next_producer_id=next_producer_id,
        start_ms=metadata.start_ms if metadata.state is State.ONGOING else terms.wall_ms,
        last_update_ms=terms.wall_ms,
        client_transaction_version=client_version,
    )
    if next_producer_id != NO_PRODUCER_ID:
        return Verdict(ended, Answer(ErrorCode.NONE, next_producer_id, 0))
    return Verdict(ended, Answer(ErrorCode.NONE, metadata.producer_id, epoch))


def abort_and_fence(metadata: TransactionMetadata, terms: Terms) -> Verdict:
    """Decide that the coordinator aborts an ongoing transaction and fences its producer's epoch.

    The id and epoch of the answer are unused: the requester gets CONCURRENT_TRANSACTIONS and retries.
    """
    assert metadata.state is State.ONGOING, "there is no other transaction to abort"
    if terms.transaction_version >= VERSION_WITH_EPOCH_BUMP:
        return _prepared_with_bump(metadata, State.PREPARE_ABORT, terms.transaction_version, terms)
    aborted = moved(
        metadata,
        State.PREPARE_ABORT,
        producer_epoch=min(metadata.producer_epoch + 1, EPOCH_MAX),
        last_producer_epoch=NO_PRODUCER_EPOCH,
        next_producer_id=NO_PRODUCER_ID,
        last_update_ms=terms.wall_ms,
        client_transaction_version=0,
    )
    return Verdict(aborted, Answer())


def abort_if_timed_out(metadata: TransactionMetadata | None, terms: Terms) -> Verdict:
    """Decide on a transaction that appeared to be timed out."""
    if metadata is None or not metadata.is_timed_out(terms.wall_ms):
        return refused(ErrorCode.NONE)
    return abort_and_fence(metadata, terms)


def completed(metadata: TransactionMetadata, wall_ms: int) -> TransactionMetadata:
    """Return the completion of a prepared transaction whose partitions all have their marker."""
    has_new_id = metadata.bumps_epoch and metadata.next_producer_id != NO_PRODUCER_ID
    return moved(
        metadata,
        State.COMPLETE_COMMIT if metadata.state is State.PREPARE_COMMIT else State.COMPLETE_ABORT,
        producer_id=metadata.next_producer_id if has_new_id else metadata.producer_id,
        producer_epoch=0 if has_new_id else metadata.producer_epoch,
        next_producer_id=NO_PRODUCER_ID,
        partitions=frozenset(),
        last_update_ms=wall_ms,
    )
