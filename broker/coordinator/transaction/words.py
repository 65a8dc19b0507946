"""Requests, context and results of the transaction coordinator's decisions. Sans-IO.

An error is returned when the state it is based on is committed: a producer is not fenced by an epoch that may be
discarded. Source: the `TransactionVersion`s that KafkaApis derives from requests' versions.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final, NamedTuple

from kvorum.broker.coordinator.runtime.words import Producer
from kvorum.broker.coordinator.transaction.state import VERSION_WITH_EPOCH_BUMP, TransactionMetadata
from kvorum.protocol.api import ApiKey
from kvorum.protocol.batch_header import NO_PRODUCER_EPOCH, NO_PRODUCER_ID
from kvorum.protocol.errors import ErrorCode
from kvorum.protocol.topic_partition import TopicPartition

FENCED_FROM: Final[Mapping[ApiKey, int]] = MappingProxyType(
    {
        ApiKey.INIT_PRODUCER_ID: 4,
        ApiKey.ADD_PARTITIONS_TO_TXN: 2,
        ApiKey.ADD_OFFSETS_TO_TXN: 2,
        ApiKey.END_TXN: 2,
    }
)
"""The first version of each request whose clients know PRODUCER_FENCED (KIP-588)."""
ADD_PARTITIONS_BROKER_VERSION: Final = 4
"""From here on AddPartitionsToTxn is a batch that brokers send, for producers of transaction version 2 unless they only
have partitions verified."""
END_TXN_VERSION_WITH_EPOCH_BUMP: Final = 5


def known_code(api_key: ApiKey, api_version: int, code: ErrorCode) -> ErrorCode:
    """Return the code that a client of this version understands."""
    if code is ErrorCode.PRODUCER_FENCED and api_version < FENCED_FROM[api_key]:
        return ErrorCode.INVALID_PRODUCER_EPOCH
    return code


def version_of_add_partitions(api_version: int) -> int:
    """Return the transaction version of an AddPartitionsToTxn. AddOffsetsToTxn is always of version 0."""
    return VERSION_WITH_EPOCH_BUMP if api_version >= ADD_PARTITIONS_BROKER_VERSION else 0


def version_of_end_txn(api_version: int) -> int:
    """Return the transaction version of an EndTxn."""
    return VERSION_WITH_EPOCH_BUMP if api_version >= END_TXN_VERSION_WITH_EPOCH_BUMP else 0


class Terms(NamedTuple):
    """Context of a decision besides the state."""

    wall_ms: int
    transaction_version: int
    """The cluster's."""
    timeout_ms_max: int
    new_producer_id: int | None = None
    """A new producer id; None if none was fetched, because few decisions need one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class InitProducer:
    """InitProducerId; `expected` is the producer's id and epoch, if it wants to continue (KIP-360)."""

    transactional_id: str
    timeout_ms: int
    expected: Producer | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class AddPartitions:
    """Partitions to be added to a producer's transaction, or only to be verified."""

    transactional_id: str
    producer: Producer
    partitions: frozenset[TopicPartition]
    client_transaction_version: int


@dataclass(frozen=True, slots=True, kw_only=True)
class EndTransaction:
    """Commit or abort a producer's transaction."""

    transactional_id: str
    producer: Producer
    is_commit: bool
    client_transaction_version: int


class Answer(NamedTuple):
    """Result for the client. Id and epoch are its next ones, if the response has these fields."""

    code: ErrorCode = ErrorCode.NONE
    producer_id: int = NO_PRODUCER_ID
    producer_epoch: int = NO_PRODUCER_EPOCH


class Verdict(NamedTuple):
    """Result of a decision: the metadata to write (None: unchanged), and the response."""

    next: TransactionMetadata | None
    answer: Answer
    needs_producer_id: bool = False
    """Nothing is decided: retry with a new producer id."""


NEEDS_PRODUCER_ID: Final = Verdict(None, Answer(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS), needs_producer_id=True)
"""The code is Kafka's for a client if no id is available in time."""


def refused(code: ErrorCode) -> Verdict:
    """Return a verdict that changes nothing."""
    return Verdict(None, Answer(code))
