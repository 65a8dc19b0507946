"""Produce and DeleteRecords on the partitions led here: act, then answer at once or park.

Source: ReplicaManager.appendRecords, appendToLocalLog, deleteRecords.
"""

from collections.abc import Callable, Mapping

from kvorum.broker.replica.delayed_delete_records import (
    INVALID_LOW_WATERMARK,
    DelayedDeleteRecords,
    DeleteRecordsDone,
    DeleteRecordsResults,
)
from kvorum.broker.replica.delayed_produce import DelayedProduce, ProduceDone, ProduceResults
from kvorum.broker.replica.figures import Figures
from kvorum.broker.replica.hosted import HostedPartitions, Outbox
from kvorum.broker.replica.partition import ACKS_ALL
from kvorum.broker.replica.partition_reads import delete_records_on_leader
from kvorum.broker.replica.purgatory import Parked
from kvorum.broker.replica.types import UNKNOWN_OFFSET
from kvorum.protocol.errors import ErrorCode, KafkaError
from kvorum.protocol.messages.delete_records import DeleteRecordsPartitionResult
from kvorum.protocol.messages.produce import BatchIndexAndErrorMessage, PartitionProduceResponse
from kvorum.storage.names import TopicPartition
from kvorum.storage.validator import RecordValidationError

VALID_ACKS = (-1, 0, 1)
WITHOUT_LOG_START = frozenset(
    {
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.MESSAGE_TOO_LARGE,
        ErrorCode.RECORD_LIST_TOO_LARGE,
        ErrorCode.CORRUPT_MESSAGE,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.INVALID_TOPIC_EXCEPTION,
    }
)
"""Refusals that Kafka answers without the partition's log start offset."""


class Appends:
    """What producers and DeleteRecords change."""

    def __init__(
        self,
        hosted: HostedPartitions,
        outbox: Outbox,
        now_ms: Callable[[], int],
        figures: Figures,
    ) -> None:
        """Serve the hosted partitions; `now_ms` is monotonic."""
        self._hosted = hosted
        self._outbox = outbox
        self._now_ms = now_ms
        self._figures = figures

    def append_records(
        self, timeout_ms: int, required_acks: int, entries: Mapping[TopicPartition, memoryview], on_done: ProduceDone
    ) -> Parked | None:
        """Append to each partition and call `on_done` with a row for each: now, or when acks=all is fulfilled.

        With acks 0 or 1, or when all failed, `on_done` is called before this returns, and before anybody is woken.
        """
        if required_acks not in VALID_ACKS:
            on_done({key: refusal(key, ErrorCode.INVALID_REQUIRED_ACKS) for key in entries})
            return None
        results: ProduceResults = {}
        required_offsets: dict[TopicPartition, int] = {}
        now_ms = self._now_ms()
        for key, records in entries.items():
            results[key] = self._append(key, records, required_acks, now_ms, required_offsets)
        parked = None
        if required_acks == ACKS_ALL and required_offsets:
            waiting = DelayedProduce(self._hosted, results, dict(required_offsets), on_done)
            parked = self._outbox.produces.park(waiting, tuple(required_offsets), now_ms + timeout_ms)
        else:
            on_done(results)
        for key in required_offsets:
            partition = self._hosted.by_name.get(key)
            if partition is not None:
                self._outbox.appended(partition)
        return parked

    def _append(
        self,
        key: TopicPartition,
        records: memoryview,
        required_acks: int,
        now_ms: int,
        required_offsets: dict[TopicPartition, int],
    ) -> PartitionProduceResponse:
        try:
            partition = self._hosted.current_or_raise(key)
            info = partition.append_records_to_leader(records, required_acks, now_ms)
        except RecordValidationError as error:
            row = self._refused(key, error)
            row.error_message = error.message
            row.record_errors = [
                BatchIndexAndErrorMessage(batch_index=each.batch_index, batch_index_error_message=each.message)
                for each in error.record_errors
            ]
            return row
        except KafkaError as error:
            return self._refused(key, error)
        required_offsets[key] = info.last_offset + 1
        self._figures.appended(key[0], len(records), info.records_count)
        local = partition.log
        assert local is not None, "it was appended to"
        return PartitionProduceResponse(
            index=key[1],
            base_offset=info.first_offset,
            log_append_time=info.log_append_time_ms,
            log_start_offset=local.log_start_offset,
        )

    def _refused(self, key: TopicPartition, error: KafkaError) -> PartitionProduceResponse:
        self._figures.append_refused(key[0])
        row = refusal(key, error.code)
        if error.code not in WITHOUT_LOG_START:
            partition = self._hosted.by_name.get(key)
            if partition is not None and partition.log is not None and partition.is_leader:
                row.log_start_offset = partition.log.log_start_offset
        return row

    def delete_records(
        self, timeout_ms: int, offsets: Mapping[TopicPartition, int], on_done: DeleteRecordsDone
    ) -> Parked | None:
        """Move log starts up and call `on_done` with a row a partition once every live replica has followed."""
        results: DeleteRecordsResults = {}
        requested: dict[TopicPartition, int] = {}
        for key, offset in offsets.items():
            row = DeleteRecordsPartitionResult(partition_index=key[1], low_watermark=INVALID_LOW_WATERMARK)
            results[key] = row
            try:
                partition = self._hosted.partition_or_raise(key)
                requested[key], row.low_watermark = delete_records_on_leader(partition, offset)
            except KafkaError as error:
                row.error_code = error.code
        for key in results:
            self._hosted.watch_low_watermark(key)
        waiting = DelayedDeleteRecords(self._hosted, results, requested, on_done)
        return self._outbox.delete_records.park(waiting, tuple(requested), self._now_ms() + timeout_ms)


def refusal(key: TopicPartition, code: ErrorCode) -> PartitionProduceResponse:
    """Return the row of a partition nothing was appended to."""
    return PartitionProduceResponse(
        index=key[1],
        error_code=code,
        base_offset=UNKNOWN_OFFSET,
        log_start_offset=UNKNOWN_OFFSET,
    )
