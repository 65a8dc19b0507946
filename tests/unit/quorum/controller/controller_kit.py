"""A controller without a log: every decision is committed at once, and the invariants are checked after each."""

from collections.abc import Callable, Generator, Mapping
from random import Random
from typing import TypeVar

import pytest

from kvorum.protocol.errors import ErrorCode, KafkaError
from kvorum.protocol.messages.assign_replicas_to_dirs import (
    AssignReplicasToDirsRequest,
    RequestDirectoryData,
)
from kvorum.protocol.messages.assign_replicas_to_dirs import RequestPartitionData as AssignedPartition
from kvorum.protocol.messages.assign_replicas_to_dirs import RequestTopicData as AssignedTopic
from kvorum.protocol.messages.broker_heartbeat import BrokerHeartbeatRequest, BrokerHeartbeatResponse
from kvorum.protocol.messages.broker_registration import BrokerRegistrationRequest, Feature, Listener
from kvorum.protocol.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from kvorum.protocol.uuids import Uuid
from kvorum.quorum.controller.assign_directories import assign_replicas_to_dirs
from kvorum.quorum.controller.config_schema import KafkaConfigSchema
from kvorum.quorum.controller.context import LATEST_VERSION, Context, ControllerSettings
from kvorum.quorum.controller.create_topics import create_topics
from kvorum.quorum.controller.features import SUPPORTED, bootstrap_records
from kvorum.quorum.controller.heartbeats import BrokerHeartbeatManager
from kvorum.quorum.controller.liveness import heartbeat
from kvorum.quorum.controller.registration import register_broker
from kvorum.quorum.controller.result import Result
from kvorum.quorum.image import MetadataDelta, MetadataImage
from kvorum.quorum.image.partition import PartitionRegistration
from kvorum.quorum.records import MetadataRecord, decode, encode
from kvorum.quorum.steps import Steps, finish

Q = TypeVar("Q")
T = TypeVar("T")

CLUSTER_ID = "the-cluster"
CONTROLLER_ID = 100
SESSION_MS = 9_000


def incarnation(number: int) -> Uuid:
    """Return an incarnation id."""
    return Uuid((10_000 + number).to_bytes(16, "big"))


def log_dir(broker_id: int, index: int = 0) -> Uuid:
    """Return the id of a broker's log directory."""
    return Uuid((20_000 + broker_id * 10 + index).to_bytes(16, "big"))


class World:
    """The image, the clock and the soft state of one active controller."""

    def __init__(
        self,
        *,
        seed: int = 1,
        static: Mapping[str, str] | None = None,
        elr: int = 1,
        min_isr: int = 1,
        **settings: object,
    ) -> None:
        self.settings = ControllerSettings(
            **{"cluster_id": CLUSTER_ID, "node_id": CONTROLLER_ID, "session_timeout_ms": SESSION_MS, **settings}  # type: ignore[arg-type]
        )
        self.schema = KafkaConfigSchema(static or {}, CONTROLLER_ID)
        self.heartbeats = BrokerHeartbeatManager(self.settings.session_timeout_ms)
        self.random = Random(seed)
        self.image = MetadataImage()
        self.now_ms = 1_000_000
        self.log: list[MetadataRecord] = []
        self.incarnations = 0
        self.api_version = LATEST_VERSION
        self.apply(bootstrap_records(elr, min_isr))

    @property
    def next_offset(self) -> int:
        """The offset of the next record."""
        return len(self.log)

    def context(self) -> Context:
        """Return the surroundings of the next decision."""
        return Context(
            image=self.image,
            next_offset=self.next_offset,
            now_ms=self.now_ms,
            random=self.random,
            settings=self.settings,
            schema=self.schema,
            heartbeats=self.heartbeats,
            api_version=self.api_version,
        )

    def apply(self, records: list[MetadataRecord]) -> None:
        """Commit records, and check what always has to hold."""
        delta = MetadataDelta(self.image)
        for record in records:
            assert decode(encode(record)) == record
            delta.replay(record, len(self.log))
            self.log.append(record)
        before, self.image = self.image, delta.apply(len(self.log) - 1, 1)
        check_epochs(before, self.image)
        check_partitions(self.image)

    def decide(self, decide: Callable[[Context, Q], Result[T] | Steps[Result[T]]], request: Q) -> Result[T]:
        """Decide and commit."""
        before = self.image
        result = whole(decide(self.context(), request))
        assert self.image is before, "deciding changes nothing"
        self.apply(result.records)
        return result

    def do(self, decide: Callable[[Context, Q], Result[T] | Steps[Result[T]]], request: Q) -> T:
        """Decide, commit, return the answer."""
        return self.decide(decide, request).response

    def duty(self, duty: Callable[[Context], Steps[Result[T]]]) -> T:
        """Do what the controller does of itself."""
        result = finish(duty(self.context()))
        self.apply(result.records)
        return result.response

    def refused(self, decide: Callable[[Context, Q], Result[T] | Steps[Result[T]]], request: Q) -> ErrorCode:
        """Return the code a request is refused with as a whole."""
        with pytest.raises(KafkaError) as caught:
            self.decide(decide, request)
        assert caught.value.message
        return caught.value.code

    # Brokers

    def registration(self, broker_id: int, /, **changes: object) -> BrokerRegistrationRequest:
        """Return a registration request of a new incarnation."""
        self.incarnations += 1
        fields: dict[str, object] = {
            "broker_id": broker_id,
            "cluster_id": CLUSTER_ID,
            "incarnation_id": incarnation(self.incarnations),
            "listeners": [Listener(name="PLAINTEXT", host="localhost", port=9092)],
            "features": [
                Feature(name=name, min_supported_version=known.min_supported, max_supported_version=known.max_supported)
                for name, known in SUPPORTED.items()
            ],
            "rack": None,
            "log_dirs": [log_dir(broker_id)],
        }
        return BrokerRegistrationRequest(**{**fields, **changes})  # type: ignore[arg-type]

    def register(self, broker_id: int, **changes: object) -> int:
        """Register a new incarnation, return its epoch."""
        return self.do(register_broker, self.registration(broker_id, **changes)).broker_epoch

    def beat(self, broker_id: int, **changes: object) -> BrokerHeartbeatResponse:
        """Send a heartbeat of the incarnation that is registered, caught up with the log."""
        broker = self.image.cluster.broker(broker_id)
        assert broker is not None
        fields: dict[str, object] = {
            "broker_id": broker_id,
            "broker_epoch": broker.broker_epoch,
            "current_metadata_offset": self.next_offset - 1,
        }
        return self.do(heartbeat, BrokerHeartbeatRequest(**{**fields, **changes}))  # type: ignore[arg-type]

    def start(self, *broker_ids: int, rack: str | None = None) -> None:
        """Register and unfence brokers."""
        for broker_id in broker_ids:
            self.register(broker_id, rack=rack)
            self.beat(broker_id)

    def fence(self, *broker_ids: int) -> None:
        """Have brokers ask to be fenced."""
        for broker_id in broker_ids:
            self.beat(broker_id, want_fence=True)

    def epoch_of(self, broker_id: int) -> int:
        """Return a broker's epoch."""
        broker = self.image.cluster.broker(broker_id)
        assert broker is not None
        return broker.broker_epoch

    # Topics

    def topic(self, name: str, *assignments: tuple[int, ...], **configs: str) -> Uuid:
        """Create a topic with these replicas; underscores in a config's name stand for dots."""
        topic = creatable(
            name, assignments=assignments, configs={key.replace("_", "."): configs[key] for key in configs}
        )
        result = self.do(create_topics, CreateTopicsRequest(topics=[topic])).topics[0]
        assert result.error_code == ErrorCode.NONE, result.error_message
        return result.topic_id

    def assign(self, name: str, broker_id: int, directory: Uuid) -> None:
        """Have a broker say where its replica of a topic's first partition lies."""
        topic = self.image.topics.topic(name)
        assert topic is not None
        rows = [AssignedTopic(topic_id=topic.topic_id, partitions=[AssignedPartition(partition_index=0)])]
        request = AssignReplicasToDirsRequest(
            broker_id=broker_id,
            broker_epoch=self.epoch_of(broker_id),
            directories=[RequestDirectoryData(id_=directory, topics=rows)],
        )
        self.do(assign_replicas_to_dirs, request)

    def state(self, name: str) -> tuple[int, tuple[int, ...], tuple[int, ...], tuple[int, ...]]:
        """Return leader, ISR, ELR and last known leader of a topic's first partition."""
        partition = self.partition(name)
        return partition.leader, partition.isr, partition.elr, partition.last_known_elr

    def partition(self, name: str, partition_id: int = 0) -> PartitionRegistration:
        """Return a partition as it is."""
        topic = self.image.topics.topic(name)
        assert topic is not None
        return topic.partitions[partition_id]


def creatable(
    name: str,
    partitions: int = -1,
    factor: int = -1,
    assignments: tuple[tuple[int, ...], ...] = (),
    configs: Mapping[str, str | None] | None = None,
) -> CreatableTopic:
    """Return a topic of a CreateTopics request."""
    return CreatableTopic(
        name=name,
        num_partitions=partitions,
        replication_factor=factor,
        assignments=[
            CreatableReplicaAssignment(partition_index=index, broker_ids=list(replicas))
            for index, replicas in enumerate(assignments)
        ],
        configs=[CreatableTopicConfig(name=key, value=value) for key, value in (configs or {}).items()],
    )


def whole(decision: Result[T] | Steps[Result[T]]) -> Result[T]:
    """Return a decision that is taken at once or in steps."""
    return finish(decision) if isinstance(decision, Generator) else decision


def check_partitions(image: MetadataImage) -> None:
    """Check what holds of every partition, and that the index says the same as the partitions."""
    in_isr: dict[int, set[tuple[Uuid, int]]] = {}
    leads: dict[int, set[tuple[Uuid, int]]] = {}
    imbalanced: set[tuple[Uuid, int]] = set()
    reassigning: set[tuple[Uuid, int]] = set()
    eligible: dict[int, set[tuple[Uuid, int]]] = {}
    count = 0
    for topic in image.topics.by_id.values():
        assert image.topics.by_name[topic.name] is topic
        assert set(topic.partitions) == set(range(len(topic.partitions)))
        for number, partition in topic.partitions.items():
            count += 1
            check_partition(image, partition)
            key = (topic.topic_id, number)
            for member in partition.isr:
                in_isr.setdefault(member, set()).add(key)
            for member in (*partition.elr, *partition.last_known_elr):
                eligible.setdefault(member, set()).add(key)
            leads.setdefault(partition.leader, set()).add(key)
            if partition.leader != partition.replicas[0]:
                imbalanced.add(key)
            if partition.adding_replicas or partition.removing_replicas:
                reassigning.add(key)
    index = image.topics.index
    assert {broker_id: set(keys) for broker_id, keys in index.in_isr.items()} == in_isr
    assert {broker_id: set(keys) for broker_id, keys in index.leads.items()} == leads
    assert set(index.imbalanced) == imbalanced
    assert set(index.reassigning) == reassigning
    assert {broker_id: set(keys) for broker_id, keys in index.eligible.items()} == eligible
    assert {broker_id: len(keys) for broker_id, keys in index.leads.items()} == {
        broker_id: len(keys) for broker_id, keys in leads.items()
    }
    assert image.topics.partition_count == count and len(image.topics.by_name) == len(image.topics.by_id)


def able(image: MetadataImage, partition: PartitionRegistration, broker_id: int) -> bool:
    """Return whether a replica may lead: its broker is active, its log directory works as far as is known."""
    cluster = image.cluster
    return cluster.is_active(broker_id) and cluster.has_online_directory(broker_id, partition.directory(broker_id))


def check_partition(image: MetadataImage, partition: PartitionRegistration) -> None:
    """Check one: leader in ISR and able; nobody unable in the ISR, but (without ELR) as its last member."""
    active = image.cluster.is_active
    if image.features.level("eligible.leader.replicas.version"):
        check_eligible(image, partition)
        return
    assert partition.isr and len(set(partition.isr)) == len(partition.isr), partition
    assert set(partition.isr) <= set(partition.replicas), partition
    assert partition.leader == -1 or (partition.leader in partition.isr and able(image, partition, partition.leader)), (
        partition
    )
    assert len(partition.isr) == 1 or all(active(member) for member in partition.isr), partition
    assert not partition.recovering or len(partition.isr) == 1, partition
    assert partition.leader != -1 or not able(image, partition, partition.isr[0]), f"{partition} could have a leader"
    assert partition.elr == partition.last_known_elr == (), "their feature's level is 0"


def check_eligible(image: MetadataImage, partition: PartitionRegistration) -> None:
    """Check one partition with eligible leader replicas (KIP-966)."""
    active = image.cluster.is_active
    isr, elr, known = partition.isr, partition.elr, partition.last_known_elr
    assert len(set(isr)) == len(isr) and len(set(elr)) == len(elr), partition
    assert set(isr) | set(elr) | set(known) <= set(partition.replicas), partition
    assert not set(isr) & set(elr), partition
    assert partition.leader == -1 or (partition.leader in isr and able(image, partition, partition.leader)), partition
    assert all(map(active, isr)) or (partition.leader == -1 and len(isr) == 1), partition
    assert not partition.recovering or len(isr) <= 1, partition
    assert len(known) <= 1 and (not known or (partition.leader == -1 and not isr)), partition
    if partition.leader == -1:
        candidates = isr or elr or known
        assert not any(able(image, partition, each) for each in candidates), f"{partition} could have a leader"


def check_epochs(before: MetadataImage, after: MetadataImage) -> None:
    """Check that epochs only grow, and grow where they have to."""
    for topic_id, topic in after.topics.by_id.items():
        old_topic = before.topics.by_id.get(topic_id)
        if old_topic is None or old_topic is topic:
            continue
        for number, partition in topic.partitions.items():
            old = old_topic.partitions.get(number)
            if old is None:
                continue
            assert partition == old or partition.partition_epoch > old.partition_epoch
            assert partition.leader_epoch >= old.leader_epoch
            assert partition.leader == old.leader or partition.leader_epoch > old.leader_epoch
    for broker_id, broker in after.cluster.brokers.items():
        known = before.cluster.brokers.get(broker_id)
        assert known is None or broker.broker_epoch >= known.broker_epoch
        assert (
            known is None or broker.incarnation_id == known.incarnation_id or broker.broker_epoch > known.broker_epoch
        )
    assert after.producer_ids.next_producer_id >= before.producer_ids.next_producer_id
