"""Reads of a partition: fetches of consumers and followers, offsets by time, ends of epochs. Sans-IO.

Every request goes through the same checks in Kafka's order: the reader's leader epoch, leadership, for a follower its
place in the assignment, the last fetched epoch, the range. A leader that has just been elected may not know the
committed offset yet: it returns OFFSET_NOT_AVAILABLE for «latest» until its high watermark has reached the start of its
epoch. A follower serves consumers up to its own high watermark (KIP-392); a consumer above that, but within its log,
waits for it: after a redirect by the leader it may be a moment ahead of the follower.

Source: Partition.fetchRecords, readRecords, fetchOffsetForTimestamp, lastOffsetForLeaderEpoch, deleteRecordsOnLeader.
"""

from kvorum.broker.replica.isr_changes import record_follower_fetch
from kvorum.broker.replica.log_view import ReplicaLog
from kvorum.broker.replica.low_watermark import low_watermark
from kvorum.broker.replica.partition import Partition
from kvorum.broker.replica.types import (
    FetchParams,
    FetchTarget,
    IsolationLevel,
    LogRead,
)
from kvorum.protocol.errors import ErrorCode, KafkaError
from kvorum.protocol.messages.fetch import AbortedTransaction
from kvorum.storage.epoch_cache import UNDEFINED_EPOCH, UNDEFINED_EPOCH_OFFSET, EpochEndOffset

UNDEFINED_END = EpochEndOffset(UNDEFINED_EPOCH, UNDEFINED_EPOCH_OFFSET)
HIGH_WATERMARK = -1
"""DeleteRecords' offset for «everything up to the high watermark»."""


def fetch_records(
    partition: Partition,
    target: FetchTarget,
    params: FetchParams,
    max_bytes: int,
    min_one_message: bool,
    now_ms: int,
    update_follower: bool,
) -> LogRead:
    """Read for a consumer or a follower; a follower's fetch is recorded the first time (`update_follower`).

    `max_bytes` is the rest of the whole answer's limit. With a diverging epoch it has no records.

    Raises:
        KafkaError: FENCED_LEADER_EPOCH, UNKNOWN_LEADER_EPOCH, NOT_LEADER_OR_FOLLOWER, KAFKA_STORAGE_ERROR,
            OFFSET_OUT_OF_RANGE (a reset; if a follower returns it, clients try the leader first).
    """
    log = partition.log_or_raise(target.current_leader_epoch, params.fetch_only_leader)
    if params.replica_id < 0:
        return _read_for_consumer(log, target, params, max_bytes, min_one_message)
    follower = partition.followers.get(params.replica_id)
    if follower is None:
        # With an epoch that matches ours the assignment may just be news to us: the follower tries again.
        known = target.current_leader_epoch >= 0
        code = ErrorCode.UNKNOWN_LEADER_EPOCH if known else ErrorCode.NOT_LEADER_OR_FOLLOWER
        raise KafkaError(code, f"replica {params.replica_id} is not assigned in leader epoch {partition.leader_epoch}")
    read = _read(log, target, max_bytes, min_one_message, log.log_end_offset)
    if update_follower and read.diverging_epoch is None:
        record_follower_fetch(
            partition,
            follower,
            fetch_offset=target.fetch_offset,
            log_start_offset=target.log_start_offset,
            leader_end_offset=read.log_end_offset,
            broker_epoch=params.replica_epoch,
            now_ms=now_ms,
        )
    return read


def _read_for_consumer(
    log: ReplicaLog, target: FetchTarget, params: FetchParams, max_bytes: int, min_one: bool
) -> LogRead:
    """Read up to the high watermark, or to the last stable offset with the aborted transactions to leave out."""
    if params.isolation_level is IsolationLevel.READ_UNCOMMITTED:
        return _read(log, target, max_bytes, min_one, log.high_watermark)
    read = _read(log, target, max_bytes, min_one, log.last_stable_offset)
    aborted = log.aborted_transactions(target.fetch_offset, read.parts)
    return read._replace(
        aborted_transactions=[
            AbortedTransaction(producer_id=each.producer_id, first_offset=each.first_offset) for each in aborted
        ]
    )


def send_elsewhere(partition: Partition, target: FetchTarget, broker_id: int) -> LogRead:
    """Return a read without records that names the preferred replica. Raises KafkaError: as log_or_raise."""
    log = partition.log_or_raise(target.current_leader_epoch, require_leader=False)
    start_offset, end_offset = log.log_start_offset, log.log_end_offset
    nothing = LogRead((), 0, log.high_watermark, log.last_stable_offset, start_offset, end_offset)
    return nothing._replace(preferred_read_replica=broker_id)


def _read(log: ReplicaLog, target: FetchTarget, max_bytes: int, min_one: bool, upper_bound: int) -> LogRead:
    """Check epoch and range, and read. The offsets in the answer are those before the read."""
    offset = target.fetch_offset
    start_offset, end_offset = log.log_start_offset, log.log_end_offset
    if target.last_fetched_epoch >= 0:
        # Before the range: a log that leaves ours may well be longer than ours.
        diverging = diverging_epoch(log, offset, target.last_fetched_epoch)
        if diverging is not None:
            return LogRead((), 0, log.high_watermark, log.last_stable_offset, start_offset, end_offset, diverging)
    if start_offset <= offset < upper_bound:
        size_max = target.partition_max_bytes if target.partition_max_bytes < max_bytes else max_bytes
        info = log.read(offset, size_max, upper_bound, min_one)
        return LogRead(info.parts, info.size, log.high_watermark, log.last_stable_offset, start_offset, end_offset)
    if not start_offset <= offset <= end_offset:
        raise KafkaError(ErrorCode.OFFSET_OUT_OF_RANGE, f"offset {offset} is not within [{start_offset}, {end_offset}]")
    return LogRead((), 0, log.high_watermark, log.last_stable_offset, start_offset, end_offset)


def diverging_epoch(log: ReplicaLog, fetch_offset: int, last_fetched_epoch: int) -> EpochEndOffset | None:
    """Return where the reader's log diverges from ours, None if it does not (KIP-595).

    Raises:
        KafkaError: OFFSET_OUT_OF_RANGE below the log start, or if the epoch is unknown here.
    """
    end = log.end_offset_for_epoch(last_fetched_epoch)
    if end.epoch == UNDEFINED_EPOCH or end.end_offset == UNDEFINED_EPOCH_OFFSET:
        raise KafkaError(ErrorCode.OFFSET_OUT_OF_RANGE, f"the end offset of epoch {last_fetched_epoch} is unknown")
    if fetch_offset < log.log_start_offset:
        raise KafkaError(ErrorCode.OFFSET_OUT_OF_RANGE, f"offset {fetch_offset} is below {log.log_start_offset}")
    if end.epoch < last_fetched_epoch or end.end_offset < fetch_offset:
        return end
    return None


def end_of_readable(log: ReplicaLog, params: FetchParams) -> int:
    """Return one past the last offset this fetch may see now."""
    if params.replica_id >= 0:
        return log.log_end_offset
    if params.isolation_level is IsolationLevel.READ_COMMITTED:
        return log.last_stable_offset
    return log.high_watermark


def last_offset_for_leader_epoch(
    partition: Partition, current_leader_epoch: int, leader_epoch: int, require_leader: bool
) -> EpochEndOffset:
    """Return the largest epoch not above the given one and its end; both -1 if unknown. Raises as log_or_raise."""
    return partition.log_or_raise(current_leader_epoch, require_leader).end_offset_for_epoch(leader_epoch)


def last_fetchable_offset(
    partition: Partition, isolation_level: IsolationLevel | None, current_leader_epoch: int, require_leader: bool
) -> int:
    """Return «latest» for ListOffsets: a client's isolation level bounds it, a replica (None) sees the log end.

    Raises:
        KafkaError: as log_or_raise; for a client OFFSET_NOT_AVAILABLE while the high watermark lags behind the start of
            the leader's epoch (LEADER_NOT_AVAILABLE in versions that do not know it: the caller's business).
    """
    log = partition.log_or_raise(current_leader_epoch, require_leader)
    if isolation_level is None:
        return log.log_end_offset
    check_high_watermark_known(partition, log)
    return log.last_stable_offset if isolation_level is IsolationLevel.READ_COMMITTED else log.high_watermark


def check_high_watermark_known(partition: Partition, log: ReplicaLog) -> None:
    """Raise KafkaError OFFSET_NOT_AVAILABLE while a new leader does not know what is committed."""
    start_offset = partition.leader_epoch_start_offset
    if start_offset is not None and start_offset > log.high_watermark:
        raise KafkaError(
            ErrorCode.OFFSET_NOT_AVAILABLE,
            f"the high watermark {log.high_watermark} lags behind the start of the leader's epoch {start_offset}",
        )


def delete_records_on_leader(partition: Partition, offset: int) -> tuple[int, int]:
    """Move the log start to `offset` (HIGH_WATERMARK: the high watermark). Return (requested offset, low watermark).

    Raises:
        KafkaError: NOT_LEADER_OR_FOLLOWER, KAFKA_STORAGE_ERROR, POLICY_VIOLATION (a topic that deletes nothing),
            OFFSET_OUT_OF_RANGE (negative, or above the high watermark).
    """
    log = partition.log_or_raise(UNDEFINED_EPOCH, require_leader=True)
    if not log.config.is_deleted:
        raise KafkaError(ErrorCode.POLICY_VIOLATION, f"{partition.topic_partition} is not configured to delete records")
    wanted = log.high_watermark if offset == HIGH_WATERMARK else offset
    if wanted < 0 or wanted > log.high_watermark:
        raise KafkaError(ErrorCode.OFFSET_OUT_OF_RANGE, f"offset {wanted} is not within [0, {log.high_watermark}]")
    log.maybe_increment_log_start_offset(wanted)
    return wanted, low_watermark(partition)
