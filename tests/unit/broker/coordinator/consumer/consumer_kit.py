"""A group coordinator on a model log, topics that change, and members that speak the consumer protocol to it."""

from collections.abc import Callable
from dataclasses import dataclass, field

from kvorum.broker.coordinator.group.classic.words import Client
from kvorum.broker.coordinator.group.consumer.heartbeat import Asker, validate
from kvorum.broker.coordinator.group.consumer.settings import Bounded, ConsumerSettings
from kvorum.broker.coordinator.group.settings import GroupSettings
from kvorum.broker.coordinator.group.words import ConsumerGroup
from kvorum.protocol.errors import ErrorCode, KafkaError
from kvorum.protocol.messages.consumer_group_describe import DescribedGroup
from kvorum.protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    RequestTopicPartitions,
)
from kvorum.protocol.uuids import Uuid
from kvorum.quorum.image import MetadataDelta, MetadataImage
from kvorum.quorum.records import Config, MetadataRecord, Partition, RegisterBroker, RemoveTopic, Topic
from tests.unit.broker.coordinator.group_kit import GROUP, World

SESSION_MS = 45_000
INTERVAL_MS = 5_000
REBALANCE_MS = 60_000
NEVER_MS = 10**12


def consumer_settings(**changes: object) -> GroupSettings:
    """Targets are made at once, unless said otherwise; offsets never expire."""
    values: dict[str, object] = {"assignment_interval_ms": Bounded(0, 0, 15_000), **changes}
    consumer = ConsumerSettings(**values)  # type: ignore[arg-type]
    return GroupSettings(
        initial_rebalance_delay_ms=500, offsets_retention_check_interval_ms=NEVER_MS, consumer=consumer
    )


def topic_id(name: str) -> Uuid:
    return Uuid(name.encode().rjust(16, b"\x10"))


def topic_records(name: str, partitions: int, replicas: tuple[int, ...] = (1,)) -> list[MetadataRecord]:
    found: list[MetadataRecord] = [Topic(name=name, topic_id=topic_id(name))]
    for number in range(partitions):
        found.append(
            Partition(topic_id=topic_id(name), partition_id=number, replicas=replicas, isr=replicas, leader=replicas[0])
        )
    return found


def broker_record(broker_id: int, rack: str | None) -> MetadataRecord:
    return RegisterBroker(
        broker_id=broker_id, broker_epoch=0, incarnation_id=Uuid(16), endpoints=(), rack=rack, fenced=False
    )


def image_after(image: MetadataImage, *records: MetadataRecord) -> tuple[MetadataDelta, MetadataImage]:
    delta = MetadataDelta(image)
    for record in records:
        delta.replay(record)
    return delta, delta.apply(image.offset + 1, 1)


@dataclass
class ConsumerWorld(World):
    """A world whose topics can be changed."""

    settings: GroupSettings = field(default_factory=consumer_settings)

    def change(self, *records: MetadataRecord) -> None:
        """Have the metadata change, and the coordinator, if there is one, told."""
        delta, self.image = image_after(self.image, *records)
        if hasattr(self, "partition"):
            self.partition.metadata_changed(delta, self.image)

    def make_topic(self, name: str, partitions: int) -> None:
        self.change(*topic_records(name, partitions))

    def grow_topic(self, name: str, partitions: int) -> None:
        topic = self.image.topics.topic(name)
        assert topic is not None
        self.change(*topic_records(name, partitions)[1 + len(topic.partitions) :])

    def delete_topic(self, name: str) -> None:
        self.change(RemoveTopic(topic_id=topic_id(name)))

    def configure_group(self, key: str, value: str | None) -> None:
        self.change(Config(resource_type=32, resource_name=GROUP, name=key, value=value))

    @property
    def group(self) -> ConsumerGroup:
        found = self.partition.state.groups[GROUP]
        assert isinstance(found, ConsumerGroup)
        return found

    def described(self) -> DescribedGroup:
        (row,) = self.partition.shard.describe_consumer(self.partition.committed_state, [GROUP])
        return row


Owned = dict[Uuid, set[int]]


@dataclass
class Consumer:
    """A member as a client plays it: it remembers its epoch and what it was told that it has."""

    world: ConsumerWorld
    name: str
    topics: list[str] | None = field(default_factory=lambda: ["t"])
    regex: str | None = None
    instance_id: str | None = None
    rack_id: str | None = None
    assignor: str | None = None
    version: int = 1
    member_id: str = ""
    epoch: int = 0
    assigned: Owned = field(default_factory=dict)
    may_describe: Callable[[str], bool] = lambda topic: True

    def __post_init__(self) -> None:
        self.member_id = self.member_id or f"id-{self.name}"

    async def send(self, request: ConsumerGroupHeartbeatRequest) -> ConsumerGroupHeartbeatResponse:
        """Send a heartbeat; the answer has the error, if there is one."""
        asker = Asker(client=Client(self.name, "/10.0.0.1", self.version), may_describe=self.may_describe)
        partition = self.world.partition
        try:
            validate(request, self.version, self.world.settings.consumer.assignors)
            return await partition.write(
                "beat", lambda state, now: partition.shard.consumer_heartbeat(state, asker, request)
            )
        except KafkaError as error:
            return ConsumerGroupHeartbeatResponse(error_code=error.code, error_message=error.message)

    def full(self, owned: Owned | None = None) -> ConsumerGroupHeartbeatRequest:
        """Say everything."""
        request = self.short(owned)
        request.rack_id = self.rack_id
        request.rebalance_timeout = REBALANCE_MS
        request.subscribed_topic_names = self.topics
        request.subscribed_topic_regex = self.regex
        request.server_assignor = self.assignor
        return request

    def short(self, owned: Owned | None) -> ConsumerGroupHeartbeatRequest:
        """Say what it has, if at all."""
        rows = None
        if owned is not None:
            rows = [RequestTopicPartitions(topic_id=each, partitions=sorted(owned[each])) for each in owned]
        return ConsumerGroupHeartbeatRequest(
            group_id=GROUP,
            member_id=self.member_id,
            member_epoch=self.epoch,
            instance_id=self.instance_id,
            topic_partitions=rows,
        )

    def take(self, response: ConsumerGroupHeartbeatResponse) -> ConsumerGroupHeartbeatResponse:
        if response.error_code == ErrorCode.NONE:
            assert response.member_id is not None
            self.member_id, self.epoch = response.member_id, response.member_epoch
            if response.assignment is not None:
                self.assigned = {row.topic_id: set(row.partitions) for row in response.assignment.topic_partitions}
        return response

    async def join(self) -> ConsumerGroupHeartbeatResponse:
        """Join, or join again, with nothing."""
        self.epoch, self.assigned = 0, {}
        return self.take(await self.send(self.full({})))

    async def beat(self, *, says: bool = True) -> ConsumerGroupHeartbeatResponse:
        """Go on, having done what it was told."""
        return self.take(await self.send(self.short(self.assigned if says else None)))

    async def leave(self, epoch: int = -1) -> ConsumerGroupHeartbeatResponse:
        request = self.short(None)
        request.member_epoch = epoch
        return await self.send(request)

    def numbers(self, topic: str = "t") -> set[int]:
        return self.assigned.get(topic_id(topic), set())


async def settled(*members: Consumer) -> None:
    """Have members go on until all are where they are to be."""
    for _ in range(20):
        epochs = {(await each.beat()).member_epoch for each in members}
        if len(epochs) == 1 and members[0].world.described().group_state == "Stable":
            return
    raise AssertionError(f"not settled: {members[0].world.described()}")
