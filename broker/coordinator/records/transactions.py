"""Transactions: key and value of the type TRANSACTION_LOG (0) of __transaction_state."""

from dataclasses import dataclass, field
from typing import ClassVar

from kvorum.protocol.schema import Field


@dataclass(slots=True, kw_only=True)
class TransactionLogKey:
    """A transactional id."""

    transactional_id: str = ""
    FIELDS: ClassVar[tuple[Field, ...]] = (Field("transactional_id", "string", (0, 0)),)


@dataclass(slots=True, kw_only=True)
class TransactionPartitions:
    """Partitions of a topic that a transaction has written to."""

    topic: str = ""
    partition_ids: list[int] = field(default_factory=list)
    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("topic", "string", (0, 1)),
        Field("partition_ids", "int32", (0, 1), array=True),
    )


@dataclass(slots=True, kw_only=True)
class TransactionLogValue:
    """State of a transactional id. `transaction_status` as TransactionState.id; times are wall-clock ms."""

    producer_id: int = 0
    producer_epoch: int = 0
    transaction_timeout_ms: int = 0
    transaction_status: int = 0
    transaction_partitions: list[TransactionPartitions] | None = None
    transaction_last_update_timestamp_ms: int = 0
    transaction_start_timestamp_ms: int = 0
    previous_producer_id: int = -1
    next_producer_id: int = -1
    client_transaction_version: int = 0
    next_producer_epoch: int = -1
    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("producer_id", "int64", (0, 1)),
        Field("producer_epoch", "int16", (0, 1)),
        Field("transaction_timeout_ms", "int32", (0, 1)),
        Field("transaction_status", "int8", (0, 1)),
        Field("transaction_partitions", "struct", (0, 1), nullable=(0, 1), array=True, struct=TransactionPartitions),
        Field("transaction_last_update_timestamp_ms", "int64", (0, 1)),
        Field("transaction_start_timestamp_ms", "int64", (0, 1)),
        Field("previous_producer_id", "int64", (1, 1), tag=0),
        Field("next_producer_id", "int64", (1, 1), tag=1),
        Field("client_transaction_version", "int16", (1, 1), tag=2),
        Field("next_producer_epoch", "int16", (1, 1), tag=3),
    )
