"""Transactions and producers.

Source: Kafka's TransactionListing, TransactionDescription, ProducerState.
"""

from dataclasses import dataclass

from kvorum.protocol.messages import describe_producers, describe_transactions, list_transactions
from kvorum.protocol.topic_partition import TopicPartition


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionListing:
    """A transactional id in the list of transactions."""

    transactional_id: str
    coordinator_id: int
    producer_id: int
    state: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Transaction:
    """A transactional id in its coordinator's state."""

    transactional_id: str
    coordinator_id: int
    producer_id: int
    producer_epoch: int
    state: str
    timeout_ms: int
    start_time_ms: int | None
    """None: no transaction is open."""
    partitions: tuple[TopicPartition, ...]
    """Partitions of the open transaction, sorted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProducerState:
    """A producer with state on a partition."""

    producer_id: int
    producer_epoch: int
    coordinator_epoch: int
    last_sequence: int
    last_timestamp_ms: int
    transaction_start_offset: int | None
    """First offset of its open transaction; None: none is open."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenTransaction:
    """An open transaction on a partition, in its leader's state."""

    topic: str
    partition: int
    start_offset: int
    producer: ProducerState

    @property
    def topic_partition(self) -> TopicPartition:
        """Return the partition."""
        return TopicPartition(self.topic, self.partition)


def transaction_listing(row: list_transactions.TransactionState, coordinator_id: int) -> TransactionListing:
    """Return a transactional id of a ListTransactions response."""
    return TransactionListing(
        transactional_id=row.transactional_id,
        coordinator_id=coordinator_id,
        producer_id=row.producer_id,
        state=row.transaction_state,
    )


def transaction_value(row: describe_transactions.TransactionState, coordinator_id: int) -> Transaction:
    """Return a transactional id of a DescribeTransactions response."""
    return Transaction(
        transactional_id=row.transactional_id,
        coordinator_id=coordinator_id,
        producer_id=row.producer_id,
        producer_epoch=row.producer_epoch,
        state=row.transaction_state,
        timeout_ms=row.transaction_timeout,
        start_time_ms=row.transaction_start_time if row.transaction_start_time >= 0 else None,
        partitions=tuple(
            sorted(TopicPartition(topic.topic, each) for topic in row.topics for each in topic.partitions)
        ),
    )


def producer_state(row: describe_producers.ProducerState) -> ProducerState:
    """Return a producer of a DescribeProducers response."""
    return ProducerState(
        producer_id=row.producer_id,
        producer_epoch=row.producer_epoch,
        coordinator_epoch=row.coordinator_epoch,
        last_sequence=row.last_sequence,
        last_timestamp_ms=row.last_timestamp,
        transaction_start_offset=row.current_txn_start_offset if row.current_txn_start_offset >= 0 else None,
    )
