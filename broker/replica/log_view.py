"""Interface of a partition's log for replication: narrow Protocols that `storage.log.Log` fits. Sans-IO.

A model log of a hundred lines fits them too, and is used to test the state machines.
"""

from collections.abc import Awaitable, Callable, Collection, Sequence
from typing import Protocol

from kvorum.protocol.parts import Part
from kvorum.protocol.topic_partition import TopicPartition
from kvorum.storage.epoch_cache import EpochCache, EpochEndOffset
from kvorum.storage.log_read import TimestampOffset
from kvorum.storage.producer_state import Origin, ProducerState
from kvorum.storage.txn_index import AbortedTransaction
from kvorum.storage.verification import VerificationGuard

SyncLogs = Callable[[Collection[TopicPartition]], Awaitable[set[TopicPartition]]]
"""Syncs all appended records of these logs, off the loop; returns those without a known result."""


class LogSettings(Protocol):
    """The part of a topic's configuration that replication looks at (storage.log_config.LogConfig)."""

    @property
    def min_insync_replicas(self) -> int:
        """min.insync.replicas, as configured."""
        ...

    @property
    def max_message_bytes(self) -> int:
        """The size that a batch must not pass."""
        ...

    @property
    def flush_messages(self) -> int:
        """flush.messages, as configured: INT64_MAX unless it is."""
        ...

    @property
    def is_deleted(self) -> bool:
        """Whether cleanup.policy holds `delete`."""
        ...


class AppendInfo(Protocol):
    """Position of an append."""

    @property
    def first_offset(self) -> int:
        """The first record's offset; of a duplicate, the original's."""
        ...

    @property
    def last_offset(self) -> int:
        """The last record's offset."""
        ...

    @property
    def records_count(self) -> int:
        """Number of records written, 0 for a duplicate."""
        ...

    @property
    def log_append_time_ms(self) -> int:
        """When the broker stamped the records, -1 if it did not."""
        ...


class RunInfo(Protocol):
    """Result of an append of several batches: the first of the given ones, possibly all."""

    @property
    def base_offsets(self) -> list[int]:
        """One per appended batch."""
        ...

    @property
    def log_append_time_ms(self) -> int:
        """As of AppendInfo, of all."""
        ...

    @property
    def size(self) -> int:
        """Bytes of all."""
        ...

    @property
    def records_count(self) -> int:
        """Records of all."""
        ...


class ReadInfo(Protocol):
    """Result of a read."""

    @property
    def parts(self) -> tuple[Part, ...]:
        """The bytes of the batches, as parts of the files."""
        ...

    @property
    def size(self) -> int:
        """Bytes in all parts."""
        ...


class ReplicaLog(Protocol):
    """A log, as its partition uses it."""

    on_start_moved: Callable[[], None] | None
    """Called after each rise of the log start offset, including by retention."""

    @property
    def high_watermark(self) -> int:
        """One past the last offset known to be committed."""
        ...

    @high_watermark.setter
    def high_watermark(self, offset: int) -> None: ...

    @property
    def epoch_cache(self) -> EpochCache:
        """Start offset of each leader epoch."""
        ...

    def offset_for_timestamp(self, timestamp: int) -> TimestampOffset | None:
        """Return the first record of at least this timestamp (ms)."""
        ...

    def offset_of_max_timestamp(self) -> TimestampOffset | None:
        """Return the first record with the greatest timestamp."""
        ...

    @property
    def config(self) -> LogSettings:
        """The topic's present configuration."""
        ...

    @property
    def log_start_offset(self) -> int:
        """The first offset there is."""
        ...

    @property
    def log_end_offset(self) -> int:
        """One past the last offset there is."""
        ...

    @property
    def is_sync_due(self) -> bool:
        """Whether an append may be answered only after a sync (flush.messages)."""
        ...

    @property
    def committable_end_offset(self) -> int:
        """Offset up to which this replica counts for the high watermark; the log end unless a sync is due."""
        ...

    @property
    def last_stable_offset(self) -> int:
        """The first offset of an open transaction, at most the high watermark."""
        ...

    @property
    def latest_epoch(self) -> int | None:
        """The last leader epoch with a record or a start."""
        ...

    @property
    def producer_state(self) -> ProducerState:
        """State of the idempotent producers."""
        ...

    def assign_epoch_start_offset(self, epoch: int, start_offset: int) -> None:
        """Record the start of a leader epoch."""
        ...

    def end_offset_for_epoch(self, epoch: int) -> EpochEndOffset:
        """Return the largest known epoch not above the given one with its end; both -1 if undefined."""
        ...

    def begin_verification(
        self, producer_id: int, producer_epoch: int, sequence: int, supports_epoch_bump: bool
    ) -> VerificationGuard | None:
        """Return the guard for the first append of a transaction; None if it is open here. Raises KafkaError."""
        ...

    def append_as_leader(
        self,
        records: memoryview,
        leader_epoch: int,
        origin: Origin = Origin.CLIENT,
        guard: VerificationGuard | None = None,
        transaction_version: int = 0,
    ) -> AppendInfo:
        """Validate and append records of a producer or a coordinator. Raises KafkaError."""
        ...

    def append_run_as_leader(self, batches: Sequence[memoryview], leader_epoch: int) -> RunInfo:
        """Append clients' batches with one write, up to the first that is out of the ordinary."""
        ...

    def append_as_follower(self, records: memoryview, leader_epoch: int) -> AppendInfo | None:
        """Append records of this epoch's leader; None without a complete batch. Raises KafkaError."""
        ...

    def read(self, offset: int, max_bytes: int, upper_bound_offset: int, min_one_message: bool) -> ReadInfo:
        """Return whole batches from the one that holds `offset` up to the bound. Raises KafkaError."""
        ...

    def aborted_transactions(self, offset: int, parts: Sequence[Part]) -> Sequence[AbortedTransaction]:
        """Return the aborted transactions that overlap the records read from `offset` on. Raises KafkaError."""
        ...

    def truncate_to(self, offset: int) -> bool:
        """Truncate everything from `offset` on, with epochs that start there; return whether there were records."""
        ...

    def truncate_fully_and_start_at(self, offset: int) -> None:
        """Drop all records and restart the log at `offset`."""
        ...

    def maybe_increment_log_start_offset(self, offset: int) -> bool:
        """Move the log start up. Raises KafkaError OFFSET_OUT_OF_RANGE above the high watermark."""
        ...
