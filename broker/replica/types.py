"""Types of the replica modules: roles, fetch requests and results, views of other brokers. Sans-IO."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum, IntEnum
from typing import NamedTuple, Protocol

from kvorum.protocol.messages.fetch import AbortedTransaction
from kvorum.protocol.parts import Part
from kvorum.protocol.topic_partition import TopicPartition
from kvorum.protocol.uuids import Uuid
from kvorum.quorum.image.partition import PartitionRegistration
from kvorum.storage.epoch_cache import EpochEndOffset
from kvorum.storage.producer_state import Origin
from kvorum.storage.verification import VerificationGuard

NO_LEADER = -1
NO_EPOCH = -1
"""An epoch that was not given, or is not known: the wire's own number for it."""
UNKNOWN_OFFSET = -1
NO_BROKER_EPOCH = -1
CONSUMER_REPLICA_ID = -1
DEBUGGING_REPLICA_ID = -2

LATEST_TIMESTAMP = -1
EARLIEST_TIMESTAMP = -2
MAX_TIMESTAMP = -3
EARLIEST_LOCAL_TIMESTAMP = -4
LATEST_TIERED_TIMESTAMP = -5
EARLIEST_PENDING_UPLOAD_TIMESTAMP = -6


class Role(Enum):
    """Role of this broker for a partition."""

    NONE = "none"
    LEADING = "leading"
    FOLLOWING = "following"
    OFFLINE = "offline"


class IsolationLevel(IntEnum):
    """Fetch and ListOffsets' isolation_level on the wire."""

    READ_UNCOMMITTED = 0
    READ_COMMITTED = 1


class Brokers(Protocol):
    """Other brokers in the newest metadata image."""

    def broker_epoch(self, broker_id: int) -> int | None:
        """Return the epoch of the broker's current registration; None if it is not registered or is fenced."""
        ...

    def is_fenced(self, broker_id: int) -> bool:
        """Return whether the broker is fenced; an unregistered one counts as fenced."""
        ...

    def is_shutting_down(self, broker_id: int) -> bool:
        """Return whether the broker is in controlled shutdown."""
        ...


class ClusterView(Brokers, Protocol):
    """Brokers and partitions in the newest metadata image (broker.metadata.cache.MetadataCache)."""

    def partition(self, topic: str, index: int) -> PartitionRegistration | None:
        """Return the registration of a partition, None if it does not exist."""
        ...

    def topic_id(self, name: str) -> Uuid:
        """Return the id of the topic that has this name now, ZERO_UUID if none has."""
        ...


class PartitionListener(Protocol):
    """Listener of one partition: a coordinator. Called on the event loop, must not block."""

    def on_become_leader(self, topic_partition: TopicPartition, leader_epoch: int) -> None:
        """This broker leads in a new epoch."""
        ...

    def on_become_follower(self, topic_partition: TopicPartition, leader_epoch: int) -> None:
        """This broker follows in a new epoch; a former leadership has ended."""
        ...

    def on_high_watermark_moved(self, topic_partition: TopicPartition, high_watermark: int) -> None:
        """Records below are committed, in this broker's present epoch (a follower's may go back)."""
        ...

    def on_failed(self, topic_partition: TopicPartition) -> None:
        """The log directory failed. The last call."""
        ...

    def on_deleted(self, topic_partition: TopicPartition) -> None:
        """This broker is no longer a replica. The last call."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class AppendTerms:
    """Origin of an append, with the verification of a transactional batch (`guard`) or the version of a marker."""

    origin: Origin = Origin.CLIENT
    guard: VerificationGuard | None = None
    transaction_version: int = 0


CLIENT_TERMS = AppendTerms()


class FetchTarget(Protocol):
    """Fetch parameters of one partition: the wire's FetchPartition, or the state of a fetch session."""

    topic: str
    topic_id: Uuid
    partition: int
    fetch_offset: int
    partition_max_bytes: int
    current_leader_epoch: int
    last_fetched_epoch: int
    log_start_offset: int


@dataclass(slots=True, kw_only=True)
class PartitionFetch:
    """A FetchTarget without a session. NO_EPOCH where the version has none; a zero topic id goes unchecked."""

    topic: str
    partition: int
    topic_id: Uuid
    fetch_offset: int
    partition_max_bytes: int
    current_leader_epoch: int = NO_EPOCH
    last_fetched_epoch: int = NO_EPOCH
    log_start_offset: int = UNKNOWN_OFFSET


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchParams:
    """Parameters of a fetch. `fetch_only_leader` is false for consumers with a rack (v11+, KIP-392)."""

    replica_id: int = CONSUMER_REPLICA_ID
    replica_epoch: int = NO_BROKER_EPOCH
    max_wait_ms: int = 0
    min_bytes: int = 1
    max_bytes: int = 2**31 - 1
    isolation_level: IsolationLevel = IsolationLevel.READ_UNCOMMITTED
    fetch_only_leader: bool = True
    rack_id: str = ""
    listener: str = ""
    """Listener of the request: a consumer is redirected only to replicas that have it."""

    @property
    def is_from_follower(self) -> bool:
        """Whether a replica fetches: it reads to the log end and moves the high watermark."""
        return self.replica_id >= 0


class LogRead(NamedTuple):
    """Result of a read of one partition, with the offsets *before* the read."""

    parts: tuple[Part, ...]
    size: int
    high_watermark: int
    last_stable_offset: int
    log_start_offset: int
    log_end_offset: int
    diverging_epoch: EpochEndOffset | None = None
    aborted_transactions: Sequence[AbortedTransaction] | None = None
    preferred_read_replica: int = -1
