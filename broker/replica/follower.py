"""A follower catches up with its leader: one state machine per partition.

Sans-IO, except for its log.

    FETCHING --records--------------> FETCHING (appended; the watermarks are the leader's)
    FETCHING --diverging epoch------> FETCHING (truncated, again until the logs agree: KIP-279, KIP-595)
    FETCHING --diverging before the log's start--> RESETTING (no common record is left)
    FETCHING --OFFSET_OUT_OF_RANGE--> RESETTING --the leader's start and end--> FETCHING
    FETCHING --FENCED_LEADER_EPOCH--> AWAITING_METADATA (there is a newer leader; a newer epoch makes a new machine)
    FETCHING, RESETTING --any other error--> the same, after a delay

The delay doubles from FIRST_BACKOFF_MS to replica.fetch.backoff.ms: most errors come from a leader that has not applied
its leadership yet, and end within milliseconds (Kafka waits for the full back-off).

An empty log that starts above 0 and has no leader epoch cannot prove that the leader has the same records before that
start: after an unclean election it may be another history, and the replica would join the ISR without its records. Such
a log starts in RESETTING and copies the leader's from its start, unless the metadata say that it has all committed
records (ISR, ELR). Retention and DeleteRecords keep the last epoch of a log that they empty, so this is rare.

Invariants: the next request is always for the log end, with the epoch of the record before it; any other response is
ignored; the log is truncated where it diverges from the leader's, never at a high watermark. Source:
AbstractFetcherThread, ReplicaFetcherThread.
"""

from enum import Enum

from typing_extensions import Buffer

from kvorum.broker.replica.log_view import ReplicaLog
from kvorum.broker.replica.partition import Partition
from kvorum.broker.replica.types import NO_EPOCH, Role
from kvorum.protocol.errors import ErrorCode, KafkaError
from kvorum.protocol.messages.fetch import PartitionData
from kvorum.storage.epoch_cache import UNDEFINED_EPOCH, EpochEndOffset

FIRST_BACKOFF_MS = 10


class FollowerPhase(Enum):
    """See the table above."""

    FETCHING = "fetching"
    RESETTING = "resetting"
    AWAITING_METADATA = "awaiting metadata"


class Outcome(Enum):
    """Outcome of a response."""

    IGNORED = "ignored"
    """Response for another epoch or offset: the partition was truncated, or has a new leader."""
    NOTHING_NEW = "nothing new"
    APPENDED = "appended"
    TRUNCATED = "truncated"
    OUT_OF_RANGE = "out of range"
    FENCED = "fenced"
    DELAYED = "delayed"


class Follower:
    """One partition, while this broker follows in one leader epoch."""

    __slots__ = (
        "backoff_ms",
        "failures",
        "last_error",
        "leader_epoch",
        "leader_high_watermark",
        "leader_id",
        "not_before_ms",
        "partition",
        "phase",
        "restarts",
    )

    def __init__(self, partition: Partition, backoff_ms: int) -> None:
        """Follow the partition's present leader."""
        assert partition.role is Role.FOLLOWING and partition.log is not None
        self.partition = partition
        self.leader_id = partition.leader_id
        self.leader_epoch = partition.leader_epoch
        self.backoff_ms = backoff_ms
        self.failures = 0
        self.restarts = is_unproven(partition.log) and not partition.is_complete
        """Whether the log is to begin again at the leader's start."""
        self.phase = FollowerPhase.RESETTING if self.restarts else FollowerPhase.FETCHING
        self.not_before_ms: int | None = None
        self.leader_high_watermark: int | None = None
        """As the last answer had it."""
        self.last_error: ErrorCode | None = None
        """The error that delayed it last; None after a success."""

    @property
    def log(self) -> ReplicaLog | None:
        """The log, None once this broker has stopped following in this epoch."""
        partition = self.partition
        if partition.role is not Role.FOLLOWING or partition.leader_epoch != self.leader_epoch:
            return None
        return partition.log

    def is_ready(self, phase: FollowerPhase, now_ms: int) -> bool:
        """Return whether the next request of this phase may be sent to the leader."""
        return (
            self.phase is phase
            and (self.not_before_ms is None or self.not_before_ms <= now_ms)
            and self.log is not None
        )

    @property
    def is_in_sync(self) -> bool:
        """Return whether all records below the leader's last high watermark are here.

        Before the first response in this epoch: whether the metadata have this replica in the ISR. Kafka's
        PartitionFetchState returns false until then, so a throttle may remove a replica from the ISR at an election.
        """
        mark, log = self.leader_high_watermark, self.log
        if log is None:
            return False
        return self.partition.is_in_isr if mark is None else mark <= log.log_end_offset

    @property
    def has_failed(self) -> bool:
        """Return whether it has stopped in this leader epoch (Kafka's FailedPartitions)."""
        return self.phase is FollowerPhase.AWAITING_METADATA and self.log is not None

    @property
    def lag(self) -> int | None:
        """Number of records below the leader's last high watermark that are missing here (Kafka's FetcherLagMetrics).

        None before the first response, after a failure, and for a follower that has stopped.
        """
        mark, log = self.leader_high_watermark, self.log
        if mark is None or log is None or self.phase is FollowerPhase.AWAITING_METADATA:
            return None
        return max(0, mark - log.log_end_offset)

    def fetch_position(self) -> tuple[int, int, int]:
        """Return (fetch offset, last fetched epoch, log start offset) for the request."""
        log = self.log
        assert log is not None
        epoch = log.latest_epoch
        return log.log_end_offset, NO_EPOCH if epoch is None else epoch, log.log_start_offset

    def on_fetched(self, fetch_offset: int, row: PartitionData, now_ms: int) -> Outcome:
        """Process the leader's response to a fetch of this epoch at `fetch_offset`.

        Raises KafkaError for invalid records or a failed disk (the caller delays the partition).
        """
        log = self.log
        if log is None or self.phase is not FollowerPhase.FETCHING or fetch_offset != log.log_end_offset:
            return Outcome.IGNORED
        match row.error_code:
            case ErrorCode.NONE:
                self.last_error = None
                self.not_before_ms = None
                self.failures = 0
            case ErrorCode.OFFSET_OUT_OF_RANGE:
                self.phase = FollowerPhase.RESETTING
                return Outcome.OUT_OF_RANGE
            case ErrorCode.FENCED_LEADER_EPOCH:
                self.phase = FollowerPhase.AWAITING_METADATA
                return Outcome.FENCED
            case code:
                self.delay(ErrorCode(code), now_ms)
                return Outcome.DELAYED
        if row.diverging_epoch.epoch >= 0:
            # The watermarks wait for the fetch that follows: those of a log that differs mean nothing.
            diverging = EpochEndOffset(row.diverging_epoch.epoch, row.diverging_epoch.end_offset)
            end_offset = truncation_offset(log, diverging)
            is_before_start = end_offset < log.log_start_offset
            log.truncate_to(end_offset)
            self.partition.watchers.wake()
            if is_unproven(log) and (is_before_start or not self.partition.is_complete):
                self.restarts = True
                self.phase = FollowerPhase.RESETTING
            return Outcome.TRUNCATED
        records = one_view(row.records)
        if records and self.partition.append_records_to_follower(records, self.leader_epoch) is None:
            raise KafkaError(ErrorCode.CORRUPT_MESSAGE, f"{len(records)} bytes contain no complete batch")
        self.leader_high_watermark = row.high_watermark
        self.partition.update_follower_offsets(row.high_watermark, row.log_start_offset)
        return Outcome.APPENDED if records else Outcome.NOTHING_NEW

    def on_leader_range(self, leader_start_offset: int, leader_start_epoch: int, leader_end_offset: int) -> None:
        """Leave RESETTING, depending on the leader's range.

        `leader_start_epoch` is the epoch at its start, NO_EPOCH if unknown.

        A leader whose log ends before ours was elected uncleanly: truncate there, or restart at its start if no record
        is in common. If its log starts after our end, it has deleted the records that we miss: restart at its start.
        Otherwise it has caught up with us in between: continue. Raises KafkaError.
        """
        log = self.log
        if log is None or self.phase is not FollowerPhase.RESETTING:
            return
        if self.restarts or leader_start_offset > log.log_end_offset or leader_end_offset < log.log_start_offset:
            if not log.log_start_offset == log.log_end_offset == leader_start_offset:
                log.truncate_fully_and_start_at(leader_start_offset)
            if leader_start_epoch != NO_EPOCH and leader_start_offset > 0:
                log.assign_epoch_start_offset(leader_start_epoch, leader_start_offset)
            self.restarts = False
        elif leader_end_offset < log.log_end_offset:
            log.truncate_to(leader_end_offset)
        self.partition.watchers.wake()
        self.phase = FollowerPhase.FETCHING
        self.not_before_ms = None

    def on_leader_range_error(self, error: ErrorCode, now_ms: int) -> None:
        """Stay in RESETTING, or wait for a newer leader."""
        if error is ErrorCode.FENCED_LEADER_EPOCH:
            self.phase = FollowerPhase.AWAITING_METADATA
        else:
            self.delay(error, now_ms)

    def delay(self, error: ErrorCode, now_ms: int) -> None:
        """Retry after the back-off, in the same phase."""
        self.last_error = error
        self.not_before_ms = now_ms + min(self.backoff_ms, FIRST_BACKOFF_MS << min(self.failures, 30))
        self.failures += 1


def is_unproven(log: ReplicaLog) -> bool:
    """Return whether an empty log has no proof of the records before its start."""
    return log.latest_epoch is None and log.log_start_offset > 0 and log.log_start_offset == log.log_end_offset


def truncation_offset(log: ReplicaLog, diverging: EpochEndOffset) -> int:
    """Return where to cut, given the leader's largest epoch not above our last one, and its end there.

    If we do not have that epoch, our log diverges from the leader's no later than the end of our largest epoch below
    it; the next fetch finds the exact place. Never above our end.
    """
    own = log.end_offset_for_epoch(diverging.epoch)
    if own.epoch == UNDEFINED_EPOCH:
        return min(diverging.end_offset, log.log_end_offset)
    if own.epoch != diverging.epoch:
        return min(own.end_offset, log.log_end_offset)
    return min(own.end_offset, diverging.end_offset, log.log_end_offset)


def one_view(records: object) -> memoryview:
    """Return fetched records as one view; a decoded answer has them in one piece."""
    if records is None:
        return memoryview(b"")
    if not isinstance(records, Buffer):
        raise KafkaError(ErrorCode.CORRUPT_MESSAGE, "fetched records are not contiguous")
    return memoryview(records)
