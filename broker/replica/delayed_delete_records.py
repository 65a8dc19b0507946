"""A DeleteRecords that waits until every live replica's log starts at the requested offset. Sans-IO.

Source: Kafka's DelayedDeleteRecords.
"""

from collections.abc import Callable

from kvorum.broker.replica.hosted import HostedPartitions
from kvorum.broker.replica.low_watermark import low_watermark
from kvorum.broker.replica.types import NO_EPOCH
from kvorum.protocol.errors import ErrorCode, KafkaError
from kvorum.protocol.messages.delete_records import DeleteRecordsPartitionResult
from kvorum.protocol.topic_partition import TopicPartition

INVALID_LOW_WATERMARK = -1
DeleteRecordsResults = dict[TopicPartition, DeleteRecordsPartitionResult]
DeleteRecordsDone = Callable[[DeleteRecordsResults], None]


class DelayedDeleteRecords:
    """A waiting DeleteRecords."""

    __slots__ = ("_hosted", "_on_done", "_pending", "_results")

    def __init__(
        self,
        hosted: HostedPartitions,
        results: DeleteRecordsResults,
        requested_offsets: dict[TopicPartition, int],
        on_done: DeleteRecordsDone,
    ) -> None:
        """Wait for the partitions in `requested_offsets`; the other rows of `results` are errors already."""
        self._hosted = hosted
        self._results = results
        self._pending = requested_offsets
        self._on_done = on_done

    def try_complete(self, key: TopicPartition | None) -> bool:
        """See DelayedOperation."""
        for topic_partition in tuple(self._pending) if key is None else (key,):
            if topic_partition in self._pending and self._look(topic_partition):
                del self._pending[topic_partition]
        return not self._pending

    def _look(self, topic_partition: TopicPartition) -> bool:
        """Write the row down, return whether it is final."""
        row = self._results[topic_partition]
        try:
            partition = self._hosted.partition_or_raise(topic_partition)
            partition.log_or_raise(NO_EPOCH, require_leader=True)
        except KafkaError as error:
            row.error_code, row.low_watermark = error.code, INVALID_LOW_WATERMARK
            return True
        row.low_watermark = low_watermark(partition)
        row.error_code = ErrorCode.NONE
        return row.low_watermark >= self._pending[topic_partition]

    def on_expire(self) -> None:
        """See DelayedOperation."""
        for topic_partition in self._pending:
            self._results[topic_partition].error_code = ErrorCode.REQUEST_TIMED_OUT

    def on_complete(self) -> None:
        """See DelayedOperation."""
        for topic_partition in self._results:
            self._hosted.release_low_watermark(topic_partition)
        self._on_done(self._results)
