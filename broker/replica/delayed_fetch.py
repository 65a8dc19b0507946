"""A fetch that waits for its min bytes. Sans-IO.

An append wakes followers, a moved high watermark wakes consumers, a change of leadership wakes both. It completes early
for anything that must be returned at once: an error, an offset out of range, a diverging epoch. Source: Kafka's
DelayedFetch; unlike there, an offset between a lagging high watermark and the log end waits instead of being answered
with nothing.
"""

from collections.abc import Callable, Sequence

from kvorum.broker.replica.hosted import HostedPartitions
from kvorum.broker.replica.partition import Partition
from kvorum.broker.replica.partition_reads import diverging_epoch, end_of_readable
from kvorum.broker.replica.types import FetchParams, FetchTarget
from kvorum.protocol.errors import KafkaError
from kvorum.protocol.topic_partition import TopicPartition


class DelayedFetch:
    """A waiting Fetch."""

    __slots__ = ("_available", "_held_back", "_hosted", "_on_ready", "_params", "_targets", "_total")

    def __init__(
        self,
        hosted: HostedPartitions,
        params: FetchParams,
        targets: Sequence[FetchTarget],
        on_ready: Callable[[], None],
        held_back: Callable[[Partition, int], bool] | None = None,
    ) -> None:
        """Call `on_ready`, which reads and responds, once all targets together have `params.min_bytes`.

        `held_back` returns whether a quota withholds a partition's records from a follower: then they do not count.
        """
        self._held_back = held_back
        self._hosted = hosted
        self._params = params
        self._targets = {TopicPartition(target.topic, target.partition): target for target in targets}
        self._available: dict[TopicPartition, int] = {}
        self._total = 0
        self._on_ready = on_ready

    def add(self, target: FetchTarget) -> None:
        """Wait for another partition, which had no readable records so far."""
        self._targets[TopicPartition(target.topic, target.partition)] = target

    @property
    def keys(self) -> tuple[TopicPartition, ...]:
        """The partitions to be parked under."""
        return tuple(self._targets)

    def try_complete(self, key: TopicPartition | None) -> bool:
        """See DelayedOperation. Inspects only changed partitions, so a fetch of many partitions costs one of them."""
        for topic_partition in self._targets if key is None else (key,):
            readable = self._readable(topic_partition, self._targets[topic_partition])
            if readable is None:
                return True
            self._total += readable - self._available.get(topic_partition, 0)
            self._available[topic_partition] = readable
        return self._total >= self._params.min_bytes

    def _readable(self, topic_partition: TopicPartition, target: FetchTarget) -> int | None:
        """Return the number of readable bytes (with min bytes 1 only whether any exist), None to answer at once."""
        params = self._params
        try:
            partition = self._hosted.partition_or_raise(topic_partition)
            log = partition.log_or_raise(target.current_leader_epoch, params.fetch_only_leader)
            offset, end = target.fetch_offset, end_of_readable(log, params)
            if not log.log_start_offset <= offset <= log.log_end_offset:
                return None
            if target.last_fetched_epoch >= 0 and diverging_epoch(log, offset, target.last_fetched_epoch) is not None:
                return None
            if offset >= end or (self._held_back is not None and self._held_back(partition, params.replica_id)):
                return 0
            if params.min_bytes <= 1:
                return 1
            return log.read(offset, target.partition_max_bytes, end, True).size
        except KafkaError:
            return None

    def on_expire(self) -> None:
        """See DelayedOperation. The available records are the answer."""

    def on_complete(self) -> None:
        """See DelayedOperation."""
        self._on_ready()
