"""Transactional ids to records of __transaction_state and back. Sans-IO; replay never raises.

Source: Kafka's TransactionLog, TransactionStateManager.loadTransactionMetadata.
"""

from typing import Final

from kvorum.broker.coordinator.records.codec import (
    TRANSACTION_SHAPES,
    UnknownRecordType,
    decode_record,
    transaction_record,
)
from kvorum.broker.coordinator.records.transactions import (
    TransactionLogKey,
    TransactionLogValue,
    TransactionPartitions,
)
from kvorum.broker.coordinator.runtime.words import CoordinatorRecord
from kvorum.broker.coordinator.transaction.state import (
    EPOCH_MAX,
    VERSION_WITH_EPOCH_BUMP,
    State,
    TransactionMetadata,
    TransactionsState,
)
from kvorum.protocol.batch_header import NO_PRODUCER_EPOCH
from kvorum.protocol.errors import ProtocolError
from kvorum.protocol.topic_partition import TopicPartition
from kvorum.runtime.logs import get_logger

log = get_logger("coordinator")

IN_MEMORY_ONLY: Final = frozenset({State.DEAD, State.PREPARE_EPOCH_FENCE})


def record_of(metadata: TransactionMetadata, transaction_version: int) -> CoordinatorRecord:
    """Return the record of the metadata; `transaction_version` is the cluster's (0: the value's version 0)."""
    partitions: list[TransactionPartitions] | None = None
    if metadata.state is not State.EMPTY:
        by_topic: dict[str, list[int]] = {}
        for key in sorted(metadata.partitions):
            by_topic.setdefault(key.topic, []).append(key.partition)
        partitions = [TransactionPartitions(topic=topic, partition_ids=ids) for topic, ids in by_topic.items()]
    value = TransactionLogValue(
        producer_id=metadata.producer_id,
        producer_epoch=metadata.producer_epoch,
        transaction_timeout_ms=metadata.timeout_ms,
        transaction_status=metadata.state,
        transaction_partitions=partitions,
        transaction_last_update_timestamp_ms=metadata.last_update_ms,
        transaction_start_timestamp_ms=metadata.start_ms,
        previous_producer_id=metadata.previous_producer_id,
        next_producer_id=metadata.next_producer_id,
        client_transaction_version=metadata.client_transaction_version,
    )
    return transaction_record(
        TransactionLogKey(transactional_id=metadata.transactional_id), value, min(transaction_version, 1)
    )


def tombstone_of(transactional_id: str) -> CoordinatorRecord:
    """Return the record that forgets an id."""
    return transaction_record(TransactionLogKey(transactional_id=transactional_id), None)


def replay(state: TransactionsState, offset: int, record: CoordinatorRecord) -> TransactionsState:
    """Return the state after the record at this offset."""
    try:
        _, key, value = decode_record(TRANSACTION_SHAPES, record)
    except UnknownRecordType as error:
        log.warning("record of unknown type ignored", offset=offset, record=error)
        return state
    except ProtocolError as error:
        log.error("record that cannot be decoded ignored", offset=offset, error=error)
        return state
    assert isinstance(key, TransactionLogKey), "the one type there is"
    if value is None:
        return state.without(key.transactional_id)
    assert isinstance(value, TransactionLogValue), "decoded by the same shape"
    metadata = _metadata_of(key.transactional_id, value)
    if metadata is None:
        log.error("record with invalid transaction state ignored", offset=offset, state=value.transaction_status)
        return state
    return state.with_metadata(metadata)


def _metadata_of(transactional_id: str, value: TransactionLogValue) -> TransactionMetadata | None:
    """Return the content of a record, None if its state is never in the log."""
    if value.transaction_status not in State.__members__.values() or value.transaction_status in IN_MEMORY_ONLY:
        return None
    state = State(value.transaction_status)
    partitions = value.transaction_partitions or () if state is not State.EMPTY else ()
    return TransactionMetadata(
        transactional_id=transactional_id,
        producer_id=value.producer_id,
        producer_epoch=value.producer_epoch,
        timeout_ms=value.transaction_timeout_ms,
        state=state,
        partitions=frozenset(TopicPartition(each.topic, index) for each in partitions for index in each.partition_ids),
        start_ms=value.transaction_start_timestamp_ms,
        last_update_ms=value.transaction_last_update_timestamp_ms,
        previous_producer_id=value.previous_producer_id,
        next_producer_id=value.next_producer_id,
        last_producer_epoch=_last_epoch(state, value),
        client_transaction_version=value.client_transaction_version,
    )


def _last_epoch(state: State, value: TransactionLogValue) -> int:
    """Return the producer's epoch before, where it follows from the record: each end of version 2 bumps it by one."""
    is_ended = state.is_prepared or state.is_complete
    if not is_ended or value.client_transaction_version < VERSION_WITH_EPOCH_BUMP:
        return NO_PRODUCER_EPOCH
    if value.producer_epoch == 0:
        return NO_PRODUCER_EPOCH if value.previous_producer_id == value.producer_id else EPOCH_MAX - 1
    return value.producer_epoch - 1
