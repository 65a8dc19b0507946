"""DescribeTransactions, ListTransactions, and which transactional ids have expired. Sans-IO.

Source: TransactionCoordinator.handleDescribeTransactions, TransactionStateManager.listTransactionStates, shouldExpire.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from kvorum.broker.coordinator.transaction.state import (
    STATES_BY_NAME,
    TransactionMetadata,
    TransactionsState,
)
from kvorum.protocol.errors import ErrorCode
from kvorum.protocol.messages import describe_transactions, list_transactions
from kvorum.protocol.topic_partition import TopicPartition

ANY_DURATION = -1


def describe(
    state: TransactionsState, transactional_id: str, unfinished: frozenset[TopicPartition] | None
) -> describe_transactions.TransactionState:
    """Describe one id; `unfinished` has the partitions without a marker, of a transaction that is being ended.

    The row's error is INVALID_REQUEST or TRANSACTIONAL_ID_NOT_FOUND.
    """
    row = describe_transactions.TransactionState(transactional_id=transactional_id)
    metadata = state.get(transactional_id)
    if not transactional_id or metadata is None:
        row.error_code = ErrorCode.TRANSACTIONAL_ID_NOT_FOUND if transactional_id else ErrorCode.INVALID_REQUEST
        return row
    row.transaction_state = metadata.state.wire_name
    row.transaction_timeout = metadata.timeout_ms
    row.transaction_start_time = metadata.start_ms
    row.producer_id = metadata.producer_id
    row.producer_epoch = metadata.producer_epoch
    topics: dict[str, describe_transactions.TopicData] = {}
    for key in sorted(metadata.partitions if unfinished is None else unfinished):
        topics.setdefault(key.topic, describe_transactions.TopicData(topic=key.topic)).partitions.append(key.partition)
    row.topics = list(topics.values())
    return row


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionFilter:
    """Filters of a ListTransactions. Empty filters match all."""

    state_names: Sequence[str] = ()
    producer_ids: frozenset[int] = frozenset()
    duration_ms: int = ANY_DURATION
    """Only those that began longer ago; an id without a transaction began in 1970, as in Kafka."""
    matches: Callable[[str], bool] | None = None
    """Whether a complete transactional id matches the pattern (RE2); None: no pattern."""

    @property
    def unknown_state_names(self) -> list[str]:
        """Unknown state names: they are returned, and match nothing."""
        return [name for name in self.state_names if name not in STATES_BY_NAME]

    def lets_pass(self, metadata: TransactionMetadata, wall_ms: int) -> bool:
        """Return whether to list this transaction."""
        if self.producer_ids and metadata.producer_id not in self.producer_ids:
            return False
        if self.state_names and metadata.state.wire_name not in self.state_names:
            return False
        if self.duration_ms >= 0 and wall_ms - metadata.start_ms <= self.duration_ms:
            return False
        return self.matches is None or self.matches(metadata.transactional_id)


def list_matching(
    state: TransactionsState, wanted: TransactionFilter, wall_ms: int
) -> Iterator[list_transactions.TransactionState]:
    """Go over the rows of one partition's transactions."""
    for metadata in state.transactions.values():
        if wanted.lets_pass(metadata, wall_ms):
            yield list_transactions.TransactionState(
                transactional_id=metadata.transactional_id,
                producer_id=metadata.producer_id,
                transaction_state=metadata.state.wire_name,
            )


class Expired(NamedTuple):
    """A transactional id that was not used for long."""

    transactional_id: str
    last_update_ms: int


def expired(state: TransactionsState, wall_ms: int, expiration_ms: int) -> list[Expired]:
    """Return the ids to be forgotten: no transaction is open, and none was for transactional.id.expiration.ms."""
    return sorted(
        Expired(metadata.transactional_id, metadata.last_update_ms)
        for metadata in state.transactions.values()
        if metadata.is_expired(wall_ms, expiration_ms)
    )
