"""A coordinator as a whole: where a key lives follows the metadata."""

from collections.abc import Callable
from typing import Any, cast

import pytest

from kvorum.broker.coordinator.runtime.partition import CoordinatorPartition
from kvorum.broker.coordinator.runtime.placing import partition_for
from kvorum.broker.coordinator.runtime.runtime import CoordinatorRuntime
from kvorum.broker.replica.types import PartitionListener
from kvorum.protocol.errors import ErrorCode, KafkaError
from kvorum.protocol.topic_partition import TopicPartition
from kvorum.protocol.uuids import Uuid
from kvorum.quorum.image import MetadataDelta, MetadataImage
from kvorum.quorum.publisher import LoaderManifest
from kvorum.quorum.records import MetadataRecord, Partition, RemoveTopic, Topic

NAME = "__consumer_offsets"
FIRST, SECOND = Uuid(b"a" * 16), Uuid(b"b" * 16)
Made = CoordinatorPartition[Any, Any]


class NoReplicas:
    """A broker without replicas."""

    def leader_of(self, key: TopicPartition) -> tuple[int, int] | None:
        return None

    def add_listener(self, key: TopicPartition, listener: PartitionListener) -> bool:
        return False

    def remove_listener(self, key: TopicPartition, listener: PartitionListener) -> None:
        """Nobody was told."""


def made(topic_id: Uuid, partitions: int) -> list[MetadataRecord]:
    replicas = [
        Partition(topic_id=topic_id, partition_id=index, replicas=(1,), isr=(1,), leader=1, leader_epoch=0)
        for index in range(partitions)
    ]
    return [Topic(name=NAME, topic_id=topic_id), *replicas]


def test_a_keys_partition_depends_on_the_number_of_partitions() -> None:
    """The internal topic is made, deleted, and made again with another number; asked twice each time."""
    image = MetadataImage()

    def no_partition(key: TopicPartition) -> Made:
        raise AssertionError("there are no replicas here")

    runtime = CoordinatorRuntime(NAME, 1, NoReplicas(), no_partition, lambda: image)
    for offset, (changes, count) in enumerate(
        [(made(FIRST, 3), 3), ([RemoveTopic(topic_id=FIRST)], None), (made(SECOND, 5), 5)]
    ):
        delta = MetadataDelta(image)
        for record in changes:
            delta.replay(record)
        image = delta.apply(offset, 1)
        for _ in range(2):
            assert runtime.partition_count() == count
            if count is None:
                with pytest.raises(KafkaError) as refused:
                    runtime.partition_of("g")
                assert refused.value.code is ErrorCode.COORDINATOR_NOT_AVAILABLE
            else:
                assert runtime.partition_of("g") == TopicPartition(NAME, partition_for("g", count))


def test_a_replica_that_comes_online_without_a_change_of_the_metadata_is_loaded() -> None:
    """Its log could not be opened when the metadata brought it: there was no replica to listen to."""
    image, led = MetadataImage(), []

    class Late(NoReplicas):
        is_online = False

        def leader_of(self, key: TopicPartition) -> tuple[int, int] | None:
            return 1, 0

        def add_listener(self, key: TopicPartition, listener: PartitionListener) -> bool:
            return self.is_online

    class Noting:
        phase = None

        def __init__(self, key: TopicPartition) -> None:
            self.key = key

        def lead(self, epoch: int) -> None:
            led.append((self.key.partition, epoch))

    replicas = Late()
    runtime = CoordinatorRuntime(NAME, 1, replicas, cast(Callable[[TopicPartition], Made], Noting), lambda: image)
    delta = MetadataDelta(image)
    for record in made(FIRST, 2):
        delta.replay(record)
    image = delta.apply(0, 1)
    runtime.on_metadata_update(delta, image, cast(LoaderManifest, None))
    assert not led
    replicas.is_online = True
    found = image.topics.partition(FIRST, 1)
    assert found is not None
    runtime.replica_reopened(TopicPartition("orders", 1), found)
    runtime.replica_reopened(TopicPartition(NAME, 1), found)
    assert led == [(1, 0)]
