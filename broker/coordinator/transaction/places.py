"""Coordinator of a transactional id, and leader of a partition, in the newest metadata. Sans-IO."""

from collections.abc import Callable

from kvorum.broker.coordinator.runtime.placing import coordinator_partitions, partition_for
from kvorum.broker.coordinator.transaction.markers import NO_LEADER
from kvorum.protocol.topic_names import TRANSACTION_TOPIC
from kvorum.protocol.topic_partition import TopicPartition
from kvorum.quorum.image import MetadataImage


class Places:
    """Lookups in the current metadata image."""

    __slots__ = ("_image",)

    def __init__(self, image: Callable[[], MetadataImage]) -> None:
        """`image` answers the newest metadata."""
        self._image = image

    def leader_of(self, key: TopicPartition) -> int | None:
        """See markers.LeaderOf."""
        topic = self._image().topics.topic(key.topic)
        partition = None if topic is None else topic.partitions.get(key.partition)
        return None if partition is None else partition.leader

    def coordinator_of(self, transactional_id: str) -> int | None:
        """Return the broker that coordinates a transactional id, None if there is none now."""
        count = coordinator_partitions(self._image(), TRANSACTION_TOPIC)
        if count is None:
            return None
        key = TopicPartition(TRANSACTION_TOPIC, partition_for(transactional_id, count))
        leader = self.leader_of(key)
        return None if leader == NO_LEADER else leader
