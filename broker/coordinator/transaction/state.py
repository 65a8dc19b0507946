"""Transactional ids as stored in __transaction_state, as immutable values. Sans-IO.

    from               to
    EMPTY              EMPTY (InitProducerId), ONGOING (partitions added), PREPARE_ABORT (version 2: nothing to abort)
    ONGOING            ONGOING (more partitions), PREPARE_COMMIT, PREPARE_ABORT
    PREPARE_COMMIT     COMPLETE_COMMIT (every partition has its marker)
    PREPARE_ABORT      COMPLETE_ABORT (the same)
    COMPLETE_COMMIT    EMPTY, ONGOING, PREPARE_ABORT (version 2), DEAD (expired)
    COMPLETE_ABORT     the same as COMPLETE_COMMIT
    EMPTY              DEAD (expired)

DEAD and PREPARE_EPOCH_FENCE are never in the log: Kafka keeps them in memory while it writes a tombstone, or increments
the epoch for an abort; here both are one decision, so these states do not occur.

Invariants, asserted by `moved`: only the transitions above; an epoch is never negative once an id is in the log;
partitions are there in ONGOING and PREPARE_* only. PREPARE_* is the point of no return: every later coordinator has to
finish it. Source: Kafka's TransactionState, TransactionMetadata.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import IntEnum
from types import MappingProxyType
from typing import Any, Final

from rpds import HashTrieMap, HashTrieSet

from kvorum.protocol.batch_header import NO_PRODUCER_EPOCH, NO_PRODUCER_ID
from kvorum.protocol.topic_partition import TopicPartition

EPOCH_MAX: Final = 2**15 - 1
NO_TIMESTAMP: Final = -1
TWO_PHASE_TIMEOUT_MS: Final = 2**31 - 1
"""A transaction with this timeout never times out."""
VERSION_WITH_EPOCH_BUMP: Final = 2
"""From this transaction.version on each transaction has a separate epoch (KIP-890)."""


class TransactionState(IntEnum):
    """State of a transactional id; numbers as in its record."""

    EMPTY = 0
    ONGOING = 1
    PREPARE_COMMIT = 2
    PREPARE_ABORT = 3
    COMPLETE_COMMIT = 4
    COMPLETE_ABORT = 5
    DEAD = 6
    PREPARE_EPOCH_FENCE = 7

    @property
    def wire_name(self) -> str:
        """The name that DescribeTransactions and ListTransactions use."""
        return "".join(word.capitalize() for word in self.name.split("_"))

    @property
    def is_prepared(self) -> bool:
        """Whether its end is decided and not finished."""
        return self in (State.PREPARE_COMMIT, State.PREPARE_ABORT)

    @property
    def is_complete(self) -> bool:
        """Whether its last transaction is over."""
        return self in (State.COMPLETE_COMMIT, State.COMPLETE_ABORT)


State = TransactionState
_BETWEEN: Final = frozenset({State.EMPTY, State.COMPLETE_COMMIT, State.COMPLETE_ABORT})
VALID_PREVIOUS_STATES: Final[Mapping[TransactionState, frozenset[TransactionState]]] = MappingProxyType(
    {
        State.EMPTY: _BETWEEN,
        State.ONGOING: _BETWEEN | {State.ONGOING},
        State.PREPARE_COMMIT: frozenset({State.ONGOING}),
        State.PREPARE_ABORT: _BETWEEN | {State.ONGOING, State.PREPARE_EPOCH_FENCE},
        State.COMPLETE_COMMIT: frozenset({State.PREPARE_COMMIT}),
        State.COMPLETE_ABORT: frozenset({State.PREPARE_ABORT}),
        State.DEAD: _BETWEEN,
        State.PREPARE_EPOCH_FENCE: frozenset({State.ONGOING}),
    }
)
"""By target state. The states from which an id may expire are those before DEAD."""
STATES_BY_NAME: Final[Mapping[str, TransactionState]] = MappingProxyType({each.wire_name: each for each in State})


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionMetadata:
    """One transactional id. Timestamps are the wall clock's, in ms."""

    transactional_id: str
    producer_id: int
    producer_epoch: int = NO_PRODUCER_EPOCH
    timeout_ms: int
    state: TransactionState = State.EMPTY
    partitions: frozenset[TopicPartition] = frozenset()
    start_ms: int = NO_TIMESTAMP
    last_update_ms: int
    previous_producer_id: int = NO_PRODUCER_ID
    """The id before the last transition, which is another one only when the epochs of the former were used up."""
    next_producer_id: int = NO_PRODUCER_ID
    """In PREPARE_*: the producer's next id, because the epochs of its id are used up."""
    last_producer_epoch: int = NO_PRODUCER_EPOCH
    """The epoch that the producer had before, if it may try again with it. Not in the log, so a later coordinator does
    not know it unless it follows from the transaction's version: as in Kafka."""
    client_transaction_version: int = 0

    @property
    def is_epoch_exhausted(self) -> bool:
        """Whether only the reserved fencing epoch is left, which no producer receives."""
        return is_epoch_exhausted(self.producer_epoch)

    @property
    def bumps_epoch(self) -> bool:
        """Whether each transaction of the client has a separate epoch."""
        return self.client_transaction_version >= VERSION_WITH_EPOCH_BUMP

    def is_timed_out(self, wall_ms: int) -> bool:
        """Return whether its transaction has exceeded its timeout."""
        if self.state is not State.ONGOING or self.timeout_ms == TWO_PHASE_TIMEOUT_MS:
            return False
        return self.start_ms + self.timeout_ms < wall_ms

    def is_expired(self, wall_ms: int, expiration_ms: int) -> bool:
        """Return whether the id may be removed. Never within a transaction."""
        return self.state in VALID_PREVIOUS_STATES[State.DEAD] and self.last_update_ms <= wall_ms - expiration_ms


def is_epoch_exhausted(producer_epoch: int) -> bool:
    """Return whether a producer with this epoch needs another id before its epoch can be bumped."""
    return producer_epoch >= EPOCH_MAX - 1


# The fields are those of TransactionMetadata; `replace` checks them.
def moved(metadata: TransactionMetadata, state: TransactionState, **changes: Any) -> TransactionMetadata:
    """Return an id's metadata in its next state. Asserts the table at the head of the module."""
    assert metadata.state in VALID_PREVIOUS_STATES[state], f"{metadata} may not become {state.name}"
    new = replace(metadata, state=state, previous_producer_id=metadata.producer_id, **changes)
    assert new.producer_id >= 0 and 0 <= new.producer_epoch <= EPOCH_MAX, f"{new} has no valid producer"
    assert not new.partitions or state is State.ONGOING or state.is_prepared, f"{new} may have no partitions"
    assert new.start_ms >= 0 or state is State.EMPTY, f"{new} has not begun"
    return new


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionsState:
    """The content of one partition of __transaction_state."""

    transactions: HashTrieMap[str, TransactionMetadata] = field(default_factory=HashTrieMap)
    ongoing: HashTrieSet[str] = field(default_factory=HashTrieSet)
    """The ids in ONGOING: those that can time out."""

    def get(self, transactional_id: str) -> TransactionMetadata | None:
        """Return an id's metadata, None if it is unknown."""
        return self.transactions.get(transactional_id)

    def with_metadata(self, metadata: TransactionMetadata) -> TransactionsState:
        """Return the state in which an id has this metadata."""
        name = metadata.transactional_id
        is_ongoing = metadata.state is State.ONGOING
        ongoing = self.ongoing.insert(name) if is_ongoing else self.ongoing.discard(name)
        return TransactionsState(transactions=self.transactions.insert(name, metadata), ongoing=ongoing)

    def without(self, transactional_id: str) -> TransactionsState:
        """Return the state of an unknown id."""
        return TransactionsState(
            transactions=self.transactions.discard(transactional_id), ongoing=self.ongoing.discard(transactional_id)
        )
