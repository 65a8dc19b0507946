"""The replicas on this broker, and the consequences of their changes: wake-ups and proposals.

`Outbox.settle` is called after each call into a partition: it empties the partition's effects into the purgatories
and the AlterPartition sender. Wake-ups wait in a queue that one loop empties, so that an answer that appends again
never runs in the middle of another.
"""

from collections import deque
from collections.abc import Callable, Iterable
from typing import Protocol

from kvorum.broker.replica.isr import AlterPartitionProposal
from kvorum.broker.replica.partition import Partition
from kvorum.broker.replica.purgatory import Purgatory
from kvorum.broker.replica.types import ClusterView, Role
from kvorum.protocol.errors import ErrorCode, KafkaError
from kvorum.protocol.topic_partition import TopicPartition
from kvorum.runtime.timers import Timers


class HostedPartitions:
    """The partitions this broker has a replica of, by name."""

    __slots__ = ("_cluster", "_low_watermark_watchers", "adding", "by_name")

    def __init__(self, cluster: ClusterView) -> None:
        """Create it empty. `cluster` distinguishes replicas on other brokers from unknown partitions."""
        self.by_name: dict[TopicPartition, Partition] = {}
        self.adding: dict[TopicPartition, tuple[int, ...]] = {}
        """Adding replicas of local partitions; usually empty."""
        self._cluster = cluster
        self._low_watermark_watchers: dict[TopicPartition, int] = {}

    def partition_or_raise(self, key: TopicPartition) -> Partition:
        """Return a replica here.

        Raises:
            KafkaError: KAFKA_STORAGE_ERROR (offline), NOT_LEADER_OR_FOLLOWER (elsewhere), UNKNOWN_TOPIC_OR_PARTITION.
        """
        partition = self.by_name.get(key)
        if partition is not None:
            if partition.role is Role.OFFLINE:
                raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, f"{key[0]}-{key[1]} is in an offline log directory")
            return partition
        if self._cluster.partition(key[0], key[1]) is not None:
            raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER, f"this broker has no replica of {key[0]}-{key[1]}")
        raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"partition {key[0]}-{key[1]} does not exist")

    def current_or_raise(self, key: TopicPartition) -> Partition:
        """Return a replica here of the topic that has this name now, for a write.

        Metadata are known before the replicas follow them: the replica of a recreated topic's predecessor is about to
        be deleted, and records acknowledged into it would be lost. Raises KafkaError as partition_or_raise.
        """
        partition = self.partition_or_raise(key)
        if partition.topic_id != self._cluster.topic_id(key[0]):
            raise KafkaError(
                ErrorCode.NOT_LEADER_OR_FOLLOWER,
                f"the replica of {key[0]}-{key[1]} belongs to a deleted topic of the same name",
            )
        return partition

    def assignment_taken(self, partition: Partition) -> None:
        """Record whether replicas are being added."""
        if partition.adding_replicas:
            self.adding[partition.topic_partition] = partition.adding_replicas
        else:
            self.adding.pop(partition.topic_partition, None)

    def leaders(self) -> Iterable[Partition]:
        """Go over the partitions led here."""
        return (partition for partition in self.by_name.values() if partition.role is Role.LEADING)

    def watch_low_watermark(self, key: TopicPartition) -> None:
        """Track the partition's low watermark until released as often."""
        self._low_watermark_watchers[key] = self._low_watermark_watchers.get(key, 0) + 1
        self._apply_watch(key)

    def release_low_watermark(self, key: TopicPartition) -> None:
        """Undo one watch_low_watermark."""
        left = self._low_watermark_watchers.pop(key, 0) - 1
        if left > 0:
            self._low_watermark_watchers[key] = left
        self._apply_watch(key)

    def _apply_watch(self, key: TopicPartition) -> None:
        partition = self.by_name.get(key)
        if partition is not None:
            partition.watches_low_watermark = key in self._low_watermark_watchers


class IsrSender(Protocol):
    """Sender of ISR proposals to the controller."""

    def submit(self, partition: Partition, proposal: AlterPartitionProposal) -> None:
        """Send it, as soon as the one before has been answered; the answer goes to isr_changes."""
        ...


class Outbox:
    """Executes the effects of partitions."""

    __slots__ = ("_is_settling", "_on_isr_change", "_queue", "delete_records", "fetches", "isr_sender", "produces")

    def __init__(self, timers: Timers, on_isr_change: Callable[[int, int], None]) -> None:
        """Start with empty purgatories; `isr_sender` is set by the manager before the first partition.

        `on_isr_change` is called with (expanded, shrunk) when the controller has confirmed a change.
        """
        self.produces = Purgatory(timers)
        self.fetches = Purgatory(timers)
        self.delete_records = Purgatory(timers)
        self.isr_sender: IsrSender | None = None
        self._on_isr_change = on_isr_change
        self._queue: deque[tuple[Purgatory, TopicPartition]] = deque()
        self._is_settling = False

    def appended(self, partition: Partition) -> None:
        """Wake waiters for the log end, and settle."""
        self._touch(self.fetches, partition.topic_partition)
        self.settle(partition)

    def leadership_changed(self, partition: Partition) -> None:
        """Wake all waiters on the partition, because its leader may have changed."""
        self.wake_all(partition.topic_partition)
        self.settle(partition)

    def wake_all(self, key: TopicPartition) -> None:
        """Wake all waiters on this topic name."""
        self._queue.extend(((self.produces, key), (self.fetches, key), (self.delete_records, key)))
        self._run()

    def wake_fetches(self, key: TopicPartition) -> None:
        """Wake the fetches of this partition."""
        self._queue.append((self.fetches, key))
        self._run()

    def settle(self, partition: Partition) -> None:
        """Empty the partition's effects, and let everything that follows run."""
        effects = partition.effects
        if effects is not None:
            partition.effects = None
            key = partition.topic_partition
            if effects.high_watermark_moved:
                self._touch(self.produces, key)
                self._touch(self.fetches, key)
                self._touch(self.delete_records, key)
            elif effects.low_watermark_moved:
                self._touch(self.delete_records, key)
            if effects.isr_expanded or effects.isr_shrunk:
                self._on_isr_change(effects.isr_expanded, effects.isr_shrunk)
            if effects.proposal is not None:
                assert self.isr_sender is not None, "the manager has set it"
                self.isr_sender.submit(partition, effects.proposal)
        if self._queue:
            self._run()

    def _touch(self, purgatory: Purgatory, key: TopicPartition) -> None:
        """Schedule a check of the waiters on a key; later waiters check themselves."""
        if key in purgatory.watchers:
            self._queue.append((purgatory, key))

    def _run(self) -> None:
        if self._is_settling:
            return
        self._is_settling = True
        try:
            while self._queue:
                purgatory, key = self._queue.popleft()
                purgatory.touched(key)
        finally:
            self._is_settling = False
