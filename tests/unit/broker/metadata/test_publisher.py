"""The order in which a broker takes metadata over, and what happens to logs nobody knows."""

import asyncio
from types import SimpleNamespace
from typing import Any

from kvorum.broker.metadata.cache import MetadataCache
from kvorum.broker.metadata.dynamic_config import DynamicConfig
from kvorum.broker.metadata.publisher import BrokerMetadataPublisher
from kvorum.broker.metadata.stray_logs import StrayLogs
from kvorum.protocol.topic_partition import TopicPartition
from kvorum.protocol.uuids import ZERO_UUID, Uuid
from kvorum.quorum import records
from kvorum.quorum.image import MetadataDelta, MetadataImage
from kvorum.quorum.image.configs import ResourceType
from kvorum.quorum.publisher import LoaderManifest, ManifestKind
from kvorum.runtime.chance import new_random
from kvorum.runtime.config import Settings

A_ID, B_ID = Uuid(b"\x0a" * 16), Uuid(b"\x0b" * 16)
MANIFEST = LoaderManifest(kind=ManifestKind.LOG_DELTA, offset=1, epoch=1, batches_count=1, bytes_count=1, leader_id=1)


def changed(image: MetadataImage, *made: Any) -> tuple[MetadataDelta, MetadataImage]:
    delta = MetadataDelta(image)
    for record in made:
        delta.replay(record)
    return delta, delta.apply(image.offset + 1, 1)


def a_topic(name: str, topic_id: Uuid, replicas: tuple[int, ...] = (1,)) -> list[Any]:
    return [
        records.Topic(name=name, topic_id=topic_id),
        records.Partition(topic_id=topic_id, partition_id=0, replicas=replicas, isr=replicas, leader=replicas[0]),
    ]


def set_config(kind: int, name: str, key: str, value: str) -> records.Config:
    return records.Config(resource_type=kind, resource_name=name, name=key, value=value)


class Story:
    """A publisher whose neighbours note what they were told, in order, and what the cache knew at that time."""

    def __init__(self) -> None:
        self.reported: list[Any] = []
        self.image = MetadataImage()
        self.cache = MetadataCache(1, lambda: None, new_random(1))
        self.configs = DynamicConfig(Settings.of({}), 1)
        self.publisher = BrokerMetadataPublisher(
            cache=self.cache,
            replicas=self,
            configs=self.configs,
            followers=(self,),
            behind_configs=(SimpleNamespace(on_metadata_update=lambda *_: self.reported.append("quotas")),),
            moved=(lambda: self.reported.append("moved"),),
        )

    async def prepare_delta(self, delta: MetadataDelta) -> None:
        await asyncio.sleep(0)
        self.reported.append(("logs", self.cache.contains("a")))

    async def apply_delta(self, delta: MetadataDelta, image: MetadataImage) -> None:
        retention = self.configs.log_config("a").retention_ms
        self.reported.append(("replicas", self.cache.contains("a"), retention))
        await asyncio.sleep(0)

    def raise_min_isr(self, topics: Any = None) -> None:
        self.reported.append(("minimums", topics))

    def configs_changed(self, topics: Any = None) -> None:
        self.reported.append(("configs", topics))

    def on_metadata_update(self, delta: MetadataDelta, image: MetadataImage, manifest: LoaderManifest) -> None:
        self.reported.append("follower")

    def publish(self, *made: Any) -> list[Any]:
        self.reported = []
        delta, self.image = changed(self.image, *made)
        asyncio.run(self.publisher.on_metadata_update(delta, self.image, MANIFEST))
        return self.reported


def test_publishing_order_is_logs_cache_replicas_followers_configs_quotas() -> None:
    story = Story()
    made = [*a_topic("a", A_ID), set_config(ResourceType.TOPIC, "a", "retention.ms", "5")]
    assert story.publish(*made) == [
        ("logs", False),
        ("minimums", {"a"}),
        ("replicas", True, 5),
        "follower",
        ("configs", {"a"}),
        "quotas",
        "moved",
    ]


def test_nodes_without_work_are_not_queried() -> None:
    story = Story()
    assert story.publish(records.NoOp()) == ["follower", "quotas", "moved"]
    story.publish(*a_topic("a", A_ID))
    assert story.publish(set_config(ResourceType.TOPIC, "a", "retention.ms", "5")) == [
        ("minimums", {"a"}),
        "follower",
        ("configs", {"a"}),
        "quotas",
        "moved",
    ]


def test_a_brokers_config_reaches_every_log() -> None:
    story = Story()
    assert story.publish(set_config(ResourceType.BROKER, "", "log.retention.bytes", "5")) == [
        ("minimums", None),
        "follower",
        ("configs", None),
        "quotas",
        "moved",
    ]
    assert story.publish(set_config(ResourceType.BROKER, "2", "log.retention.bytes", "6")) == [
        "follower",
        "quotas",
        "moved",
    ]


def test_a_part_behind_the_configs_that_fails_does_not_end_the_broker() -> None:
    story = Story()

    def fail(*_: Any) -> None:
        raise ValueError("no such quota")

    story.publisher = BrokerMetadataPublisher(
        cache=story.cache,
        replicas=story,
        configs=story.configs,
        behind_configs=(
            SimpleNamespace(on_metadata_update=fail),
            SimpleNamespace(on_metadata_update=lambda *_: story.reported.append("next")),
        ),
    )
    assert story.publish(records.NoOp()) == ["next"]
    assert story.configs.errors == 1


class Logs:
    """A log manager with these logs: (topic, its id)."""

    def __init__(self, *logs: tuple[str, Uuid]) -> None:
        self.logs = [SimpleNamespace(partition=TopicPartition(name, 0), topic_id=topic_id) for name, topic_id in logs]
        self.set_aside: list[str] = []
        self.settled = 0

        self.futures = SimpleNamespace(settle=self.settle_rivals)

    async def settle_rivals(self, is_stray: Any, is_assigned: Any, is_counted_on: Any = None) -> None:
        assert not self.set_aside, "before anything is set aside"
        self.settled += 1

    def stray_logs(self, is_stray: Any) -> list[TopicPartition]:
        return [each.partition for each in self.logs if is_stray(each)]

    async def set_aside_stray(self, *partitions: TopicPartition) -> None:
        self.set_aside += [partition.topic for partition in partitions]


def test_logs_the_first_image_does_not_give_this_broker_are_set_aside_once() -> None:
    logs = Logs(("mine", A_ID), ("torn", ZERO_UUID), ("remade", B_ID), ("moved", A_ID), ("deleted", A_ID))
    strays = StrayLogs(1, logs)  # type: ignore[arg-type]  # a model of what it uses
    ids = [Uuid(bytes([number]) * 16) for number in range(1, 5)]
    logs.logs[0].topic_id, logs.logs[3].topic_id = ids[0], ids[3]
    made = [
        *a_topic("mine", ids[0]),
        *a_topic("torn", ids[1]),
        *a_topic("remade", ids[2]),
        *a_topic("moved", ids[3], (2,)),
    ]
    delta, image = changed(MetadataImage(), *made)
    asyncio.run(strays.on_metadata_update(delta, image, MANIFEST))
    assert sorted(logs.set_aside) == ["deleted", "moved", "remade"]
    delta, image = changed(image, records.RemoveTopic(topic_id=ids[0]))
    asyncio.run(strays.on_metadata_update(delta, image, MANIFEST))
    assert len(logs.set_aside) == 3 and logs.settled == 2, "rivals and future logs, once each"
