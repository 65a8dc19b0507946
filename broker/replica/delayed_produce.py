"""A produce of acks=all that waits until its records are committed on every partition. Sans-IO.

Done when the high watermark has passed the last record of each partition, or when the partition fails: it is not led
here any longer (the outcome is unknown, and the client retries), or the ISR has shrunk below the minimum
(NOT_ENOUGH_REPLICAS_AFTER_APPEND: the records exist, and may stay). Source: Kafka's DelayedProduce.
"""

from collections.abc import Callable

from kvorum.broker.replica.hosted import HostedPartitions
from kvorum.protocol.errors import ErrorCode, KafkaError
from kvorum.protocol.messages.produce import PartitionProduceResponse
from kvorum.protocol.topic_partition import TopicPartition

ProduceResults = dict[TopicPartition, PartitionProduceResponse]
ProduceDone = Callable[[ProduceResults], None]


class DelayedProduce:
    """A waiting Produce with acks=all."""

    __slots__ = ("_hosted", "_on_done", "_results", "required_offsets")

    def __init__(
        self,
        hosted: HostedPartitions,
        results: ProduceResults,
        required_offsets: dict[TopicPartition, int],
        on_done: ProduceDone,
    ) -> None:
        """Wait for the partitions in `required_offsets` (one past the last record); `results` has them as successes."""
        self._hosted = hosted
        self._results = results
        self.required_offsets = required_offsets
        self._on_done = on_done

    def try_complete(self, key: TopicPartition | None) -> bool:
        """See DelayedOperation."""
        for topic_partition in tuple(self.required_offsets) if key is None else (key,):
            required_offset = self.required_offsets.get(topic_partition)
            if required_offset is None:
                continue
            outcome = self._outcome(topic_partition, required_offset)
            if outcome is not None:
                del self.required_offsets[topic_partition]
                self._results[topic_partition].error_code = outcome
        return not self.required_offsets

    def _outcome(self, topic_partition: TopicPartition, required_offset: int) -> ErrorCode | None:
        try:
            partition = self._hosted.partition_or_raise(topic_partition)
        except KafkaError as error:
            return error.code
        return partition.check_enough_replicas_reach_offset(required_offset)

    def on_expire(self) -> None:
        """See DelayedOperation."""
        for topic_partition in self.required_offsets:
            self._results[topic_partition].error_code = ErrorCode.REQUEST_TIMED_OUT

    def on_complete(self) -> None:
        """See DelayedOperation."""
        self._on_done(self._results)
