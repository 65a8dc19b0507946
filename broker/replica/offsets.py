"""ListOffsets and OffsetForLeaderEpoch on the replicas here.

Source: ReplicaManager.fetchOffset, lastOffsetForLeaderEpoch.

The special timestamps are the wire's: -1 latest, -2 earliest, -3 the greatest timestamp, -4 earliest on local disk
(equal to earliest), -5 and -6 concern tiered storage, which is not supported.
"""

from kvorum.broker.replica.hosted import HostedPartitions
from kvorum.broker.replica.partition import Partition
from kvorum.broker.replica.partition_reads import (
    check_high_watermark_known,
    last_fetchable_offset,
    last_offset_for_leader_epoch,
)
from kvorum.broker.replica.types import (
    CONSUMER_REPLICA_ID,
    DEBUGGING_REPLICA_ID,
    EARLIEST_LOCAL_TIMESTAMP,
    EARLIEST_PENDING_UPLOAD_TIMESTAMP,
    EARLIEST_TIMESTAMP,
    LATEST_TIERED_TIMESTAMP,
    LATEST_TIMESTAMP,
    MAX_TIMESTAMP,
    NO_EPOCH,
    UNKNOWN_OFFSET,
    IsolationLevel,
)
from kvorum.protocol.batch_header import NO_TIMESTAMP
from kvorum.protocol.topic_partition import TopicPartition
from kvorum.storage.epoch_cache import EpochEndOffset
from kvorum.storage.log_read import TimestampOffset

NOT_FOUND = TimestampOffset(NO_TIMESTAMP, UNKNOWN_OFFSET, NO_EPOCH)


class Offsets:
    """Requests for offsets."""

    def __init__(self, hosted: HostedPartitions) -> None:
        """Answer for these partitions."""
        self._hosted = hosted

    def fetch_offset_for_timestamp(
        self,
        key: TopicPartition,
        timestamp: int,
        *,
        isolation_level: IsolationLevel = IsolationLevel.READ_UNCOMMITTED,
        current_leader_epoch: int = NO_EPOCH,
        replica_id: int = CONSUMER_REPLICA_ID,
    ) -> TimestampOffset:
        """Return the first record of at least this timestamp (ms), or the offset of a special one; all -1 if none.

        A client sees nothing above its isolation level's bound; a replica sees the whole log; the debugging replica id
        (-2) may query a follower too. Reads the disk for a real timestamp.

        Raises:
            KafkaError: UNKNOWN_TOPIC_OR_PARTITION, NOT_LEADER_OR_FOLLOWER, FENCED_LEADER_EPOCH, UNKNOWN_LEADER_EPOCH,
                KAFKA_STORAGE_ERROR; OFFSET_NOT_AVAILABLE for «latest», and for offsets that may be beyond it, while a
                new leader does not know the committed offset (before v5: LEADER_NOT_AVAILABLE, set by the handler).
        """
        partition = self._hosted.partition_or_raise(key)
        isolation = isolation_level if replica_id == CONSUMER_REPLICA_ID else None
        require_leader = replica_id != DEBUGGING_REPLICA_ID
        log = partition.log_or_raise(current_leader_epoch, require_leader)
        match timestamp:
            case _ if timestamp == LATEST_TIMESTAMP:
                offset = last_fetchable_offset(partition, isolation, current_leader_epoch, require_leader)
                return TimestampOffset(NO_TIMESTAMP, offset, partition.leader_epoch)
            case _ if timestamp in (EARLIEST_TIMESTAMP, EARLIEST_LOCAL_TIMESTAMP):
                epoch = log.epoch_cache.epoch_for_offset(log.log_start_offset)
                return TimestampOffset(NO_TIMESTAMP, log.log_start_offset, NO_EPOCH if epoch is None else epoch)
            case _ if timestamp in (LATEST_TIERED_TIMESTAMP, EARLIEST_PENDING_UPLOAD_TIMESTAMP):
                return NOT_FOUND
            case _ if timestamp == MAX_TIMESTAMP:
                found = log.offset_of_max_timestamp()
            case _:
                found = log.offset_for_timestamp(timestamp)
        return self._within_bound(partition, isolation, found)

    def _within_bound(
        self, partition: Partition, isolation: IsolationLevel | None, found: TimestampOffset | None
    ) -> TimestampOffset:
        """Hide offsets above the reader's bound; a leader without a known bound raises."""
        log = partition.log
        assert log is not None
        if isolation is None:
            return found or NOT_FOUND
        bound = log.last_stable_offset if isolation is IsolationLevel.READ_COMMITTED else log.high_watermark
        if found is not None and found.offset < bound:
            return found
        check_high_watermark_known(partition, log)
        return NOT_FOUND

    def last_offset_for_leader_epoch(
        self, key: TopicPartition, current_leader_epoch: int, leader_epoch: int, *, require_leader: bool = True
    ) -> EpochEndOffset:
        """Return the largest epoch not above the given one, with its end offset; both -1 if unknown.

        Raises:
            KafkaError: UNKNOWN_TOPIC_OR_PARTITION, NOT_LEADER_OR_FOLLOWER, FENCED_LEADER_EPOCH, UNKNOWN_LEADER_EPOCH,
                KAFKA_STORAGE_ERROR.
        """
        partition = self._hosted.partition_or_raise(key)
        return last_offset_for_leader_epoch(partition, current_leader_epoch, leader_epoch, require_leader)
