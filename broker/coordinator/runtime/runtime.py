"""A coordinator: all partitions of its internal topic with a replica on this broker.

    the metadata name this broker as the leader -> load it         listener: high watermark moved -> answer
    it is led elsewhere, deleted, or failed     -> unload it

The replicas follow the metadata before the coordinators do (broker.metadata.publisher); from then on the partition
itself reports its role, at the moment of the change. Source: Kafka's CoordinatorRuntime.
"""

import asyncio
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Generic, Protocol, TypeVar

from kvorum.broker.coordinator.runtime.partition import CoordinatorPartition
from kvorum.broker.coordinator.runtime.phase import Phase
from kvorum.broker.coordinator.runtime.placing import coordinator_partitions, partition_for
from kvorum.broker.coordinator.runtime.words import Shard
from kvorum.broker.replica.types import PartitionListener
from kvorum.protocol.errors import ErrorCode, KafkaError
from kvorum.protocol.topic_partition import TopicPartition
from kvorum.quorum.image import MetadataDelta, MetadataImage
from kvorum.quorum.image.partition import PartitionRegistration
from kvorum.quorum.image.topics import TopicsImage
from kvorum.quorum.publisher import LoaderManifest

S = TypeVar("S")
H = TypeVar("H", bound=Shard[Any])


class Replicas(Protocol):
    """The replica manager, as far as coordinators need it."""

    def leader_of(self, key: TopicPartition) -> tuple[int, int] | None:
        """Return (leader id, leader epoch) of the replica here, None without one."""
        ...

    def add_listener(self, key: TopicPartition, listener: PartitionListener) -> bool:
        """Report changes of a replica here to a listener; False if there is none."""
        ...

    def remove_listener(self, key: TopicPartition, listener: PartitionListener) -> None:
        """Remove the listener. Idempotent."""
        ...


class CoordinatorRuntime(Generic[S, H]):
    """Manages the partitions of one internal topic. A metadata publisher and the listener of its partitions."""

    def __init__(
        self,
        topic: str,
        broker_id: int,
        replicas: Replicas,
        make_partition: Callable[[TopicPartition], CoordinatorPartition[S, H]],
        image: Callable[[], MetadataImage],
    ) -> None:
        """Lead nothing yet."""
        self.topic = topic
        self._broker_id = broker_id
        self._replicas = replicas
        self._make_partition = make_partition
        self._image = image
        self._partitions: dict[int, CoordinatorPartition[S, H]] = {}
        self._topics: TopicsImage | None = None
        self._count: int | None = None
        self._is_closed = False

    # --- queries ----------------------------------------------------------------------------------------------------

    def partition_count(self) -> int | None:
        """Return the number of partitions of the internal topic, None before it exists."""
        image = self._image()
        if image.topics is not self._topics:  # called for each request, while topics change rarely
            self._topics, self._count = image.topics, coordinator_partitions(image, self.topic)
        return self._count

    def partition_of(self, key: str) -> TopicPartition:
        """Return where a group or transactional id lives. Raises KafkaError COORDINATOR_NOT_AVAILABLE."""
        count = self.partition_count()
        if not count:
            raise KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE, f"topic {self.topic} does not exist yet")
        return TopicPartition(self.topic, partition_for(key, count))

    def active(self, key: str) -> CoordinatorPartition[S, H]:
        """Return the partition where a group or transactional id lives, if decisions are taken on it here.

        Raises KafkaError NOT_COORDINATOR, COORDINATOR_LOAD_IN_PROGRESS, COORDINATOR_NOT_AVAILABLE.
        """
        return self.active_partition(self.partition_of(key).partition)

    def active_partition(self, index: int) -> CoordinatorPartition[S, H]:
        """Return one partition by its number. Raises KafkaError NOT_COORDINATOR, COORDINATOR_LOAD_IN_PROGRESS."""
        partition = self._partitions.get(index)
        if partition is None:
            raise KafkaError(ErrorCode.NOT_COORDINATOR, f"this broker is not the leader of {self.topic}-{index}")
        partition.require_active()
        return partition

    def all_active(self) -> Iterator[CoordinatorPartition[S, H]]:
        """Go over those on which decisions are taken here."""
        return (each for each in self._partitions.values() if each.phase is Phase.ACTIVE)

    @property
    def is_loading(self) -> bool:
        """Whether some partition is being loaded: a list of all groups is not whole then."""
        return any(each.phase is Phase.LOADING for each in self._partitions.values())

    async def close(self) -> None:
        """Unload all partitions, and load none afterwards. Idempotent."""
        self._is_closed = True
        partitions, self._partitions = self._partitions, {}
        for index in partitions:
            self._replicas.remove_listener(TopicPartition(self.topic, index), self)
        await asyncio.gather(*(partition.close() for partition in partitions.values()))

    # --- metadata ----------------------------------------------------------------------------------------------------

    def on_metadata_update(self, delta: MetadataDelta, image: MetadataImage, manifest: LoaderManifest) -> None:
        """See MetadataPublisher. Roles that changed already are known by the listener; new replicas are met here."""
        for topic in delta.topics_delta.changed_topics.values():
            if topic.name == self.topic and not self._is_closed:
                self._meet_replicas(topic.partition_changes)
        for partition in tuple(self.all_active()):
            partition.metadata_changed(delta, image)

    def replica_reopened(self, key: TopicPartition, registration: PartitionRegistration) -> None:
        """Follow a partition whose replica came online without a change of the metadata."""
        if key.topic == self.topic and not self._is_closed:
            self._meet_replicas({key.partition: registration})

    def _meet_replicas(self, changed: Mapping[int, PartitionRegistration]) -> None:
        """Follow the partitions of which a replica has come here."""
        for index, registration in changed.items():
            if self._broker_id not in registration.replicas or index in self._partitions:
                continue
            key = TopicPartition(self.topic, index)
            if not self._replicas.add_listener(key, self):
                continue
            partition = self._partitions[index] = self._make_partition(key)
            leader = self._replicas.leader_of(key)
            if leader is not None and leader[0] == self._broker_id:
                partition.lead(leader[1])

    # --- interface for partitions (PartitionListener) ----------------------------------------------------------------

    def on_become_leader(self, topic_partition: TopicPartition, leader_epoch: int) -> None:
        """See PartitionListener."""
        self._partitions[topic_partition.partition].lead(leader_epoch)

    def on_become_follower(self, topic_partition: TopicPartition, leader_epoch: int) -> None:
        """See PartitionListener."""
        self._partitions[topic_partition.partition].resign(leader_epoch)

    def on_high_watermark_moved(self, topic_partition: TopicPartition, high_watermark: int) -> None:
        """See PartitionListener. A follower's high watermark proves nothing about appends here."""
        leader = self._replicas.leader_of(topic_partition)
        partition = self._partitions[topic_partition.partition]
        if leader == (self._broker_id, partition.epoch):
            partition.high_watermark_moved(high_watermark)

    def on_failed(self, topic_partition: TopicPartition) -> None:
        """See PartitionListener."""
        self._let_go(topic_partition)

    def on_deleted(self, topic_partition: TopicPartition) -> None:
        """See PartitionListener."""
        self._let_go(topic_partition)

    def _let_go(self, key: TopicPartition) -> None:
        partition = self._partitions.pop(key.partition, None)
        if partition is not None:
            partition.resign(partition.epoch)
