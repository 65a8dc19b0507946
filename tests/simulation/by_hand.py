"""A cluster made by hand, for the rules that watch one: brokers whose logs, roles and watermarks a test sets."""

import random
from collections.abc import Iterable
from types import SimpleNamespace
from typing import Any

import msgspec

from kvorum.broker.replica.isr import CommittedIsr
from kvorum.broker.replica.types import Role
from kvorum.chaos.history import HistoryWriter
from kvorum.protocol.records import Record, build_batch, patch_place
from kvorum.protocol.topic_partition import TopicPartition
from kvorum.protocol.uuids import Uuid
from kvorum.quorum.image import MetadataDelta, MetadataImage
from kvorum.quorum.image.features import ELIGIBLE_LEADER_REPLICAS_VERSION
from kvorum.quorum.records import Config, Feature, MetadataRecord, Partition, RegisterBroker, Topic
from kvorum.runtime.config import Settings
from kvorum.storage.names import LOG_SUFFIX, segment_file
from sim.disk import SimDisk
from sim.draw import draw_plan
from sim.invariants import Invariants
from sim.ledger import Ledger
from sim.metadata_watch import MetadataWatch

ORDERS = Uuid(b"o" * 16)
NAME = TopicPartition("orders", 0)
KEY = (ORDERS, 0)
ALL = (1, 2, 3)


class Replica:
    """A broker with one replica: its files are real (on a simulated disk), all else is what the test says."""

    def __init__(self, broker_id: int) -> None:
        self.broker_id = broker_id
        self.disk = SimDisk(random.Random(broker_id))
        self.folder = f"/d/{NAME}"
        self.disk.mkdir(self.folder)
        self.path = segment_file(self.folder, 0, LOG_SUFFIX)
        self.disk.open(self.path, create=True)
        self.broker_epoch = broker_id
        self.positions = [0]
        self.hosted: dict[TopicPartition, Any] = {}
        self.broker = SimpleNamespace(metadata=SimpleNamespace(image=MetadataImage()))
        self.log: Any = None
        self.partition: Any = None
        self.begin_life()

    def begin_life(self) -> None:
        """Begin as a new process with what lies on the disk."""
        end = len(self.positions) - 1
        self.log = SimpleNamespace(log_end_offset=end, high_watermark=0, log_start_offset=0, folder=self.folder)
        self.partition = SimpleNamespace(
            log=self.log,
            topic_id=ORDERS,
            partition_epoch=-1,
            leader_epoch=-1,
            isr_state=CommittedIsr(frozenset()),
            role=Role.NONE,
            assigned_replicas=ALL,
            effective_min_isr=2,
        )
        self.hosted = {NAME: self.partition}

    def append(self, value: bytes, epoch: int) -> None:
        """Append one record."""
        batch = build_batch([Record(value=value, timestamp=1)])
        patch_place(memoryview(batch), 0, len(self.positions) - 1, epoch)
        self.disk.open(self.path).pwrite(batch, self.positions[-1])
        self.positions.append(self.positions[-1] + len(batch))
        self.log.log_end_offset += 1

    def cut(self, end: int) -> None:
        """Cut the log off."""
        self.positions = self.positions[: end + 1]
        self.disk.open(self.path).truncate(self.positions[-1])
        self.log.log_end_offset = end

    def process(self) -> Any:
        """Return what stands for a SimProcess."""
        parts = SimpleNamespace(
            broker=self.broker,
            registration=SimpleNamespace(broker_epoch=lambda: self.broker_epoch),
            replica_manager=SimpleNamespace(hosted=SimpleNamespace(by_name=self.hosted)),
        )
        return SimpleNamespace(
            name=f"node-{self.broker_id}/broker",
            machine=SimpleNamespace(node_id=self.broker_id),
            disk=self.disk,
            log_dirs=["/d"],
            clock=SimpleNamespace(wall_ms=lambda: 1_000_000),
            broker=SimpleNamespace(parts=parts),
        )


class World:
    """Three brokers, one partition, min.insync.replicas 2, and the invariants under test."""

    def __init__(self, *, elr: bool = False, **options: object) -> None:
        plain: dict[str, object] = {"min_isr": 2, "unclean": False, "elr": elr, "fault_kinds": ["kill"]}
        self.now = 100.0
        self.watch = MetadataWatch(HistoryWriter(), lambda: self.now, Settings.of({"node.id": 1}))
        changed = msgspec.structs.replace(draw_plan(1).options, **{**plain, **options})
        self.invariants = Invariants(self.watch, changed, lambda: self.now)
        self.replicas = {broker_id: Replica(broker_id) for broker_id in ALL}
        self.elr = elr
        self.leader = 1
        self.leader_epoch = 1
        self.partition_epoch = 0
        self.offset = 0
        self.assigned: tuple[int, ...] = ALL
        self.adding: tuple[int, ...] = ()
        self.removing: tuple[int, ...] = ()
        self.commit()
        for broker_id in ALL:
            self.take_role(broker_id)

    @property
    def ledger(self) -> Ledger:
        """The partition's truth."""
        return self.invariants.ledgers[KEY]

    def commit(
        self, leader: int = 1, isr: Iterable[int] = ALL, elr: Iterable[int] = (), *, epoch: int | None = None
    ) -> None:
        """Have the controllers commit the partition so."""
        self.leader, self.leader_epoch = leader, self.leader_epoch if epoch is None else epoch
        self.partition_epoch += 1
        self.offset += 1
        records: list[MetadataRecord] = [
            RegisterBroker(
                broker_id=each.broker_id,
                broker_epoch=each.broker_epoch,
                incarnation_id=Uuid(bytes(16)),
                endpoints=(),
                fenced=False,
            )
            for each in self.replicas.values()
        ]
        records += [
            Topic(name="orders", topic_id=ORDERS),
            Config(resource_type=2, resource_name="orders", name="min.insync.replicas", value="2"),
            Feature(name=ELIGIBLE_LEADER_REPLICAS_VERSION, level=int(self.elr)),
            Partition(
                topic_id=ORDERS,
                partition_id=0,
                replicas=self.assigned,
                adding_replicas=self.adding,
                removing_replicas=self.removing,
                isr=tuple(isr),
                leader=leader,
                leader_epoch=self.leader_epoch,
                partition_epoch=self.partition_epoch,
                elr=tuple(elr),
            ),
        ]
        delta = MetadataDelta(MetadataImage())
        for record in records:
            delta.replay(record)
        self.watch.check_image("controller-1", delta.apply(self.offset, 1))

    def take_role(self, broker_id: int, *, leads: bool | None = None) -> None:
        """Have a broker hear of what is committed."""
        replica, registration = self.replicas[broker_id], self.watch.partition(KEY)
        assert registration is not None
        partition = replica.partition
        leads = registration.leader == broker_id if leads is None else leads
        partition.role = Role.LEADING if leads else Role.FOLLOWING
        partition.leader_epoch, partition.partition_epoch = registration.leader_epoch, registration.partition_epoch
        partition.isr_state = CommittedIsr(frozenset(registration.isr))
        replica.broker.metadata.image = self.watch.newest
        self.look(broker_id)

    def look(self, *broker_ids: int) -> None:
        """Look at brokers as after an event of theirs."""
        for broker_id in broker_ids or ALL:
            self.invariants.check_broker(self.replicas[broker_id].process())

    def write(self, *values: bytes, to: Iterable[int] = ALL) -> None:
        """Append to the logs of some, and look at them."""
        for broker_id in to:
            for value in values:
                self.replicas[broker_id].append(value, self.leader_epoch)
            self.look(broker_id)

    def mark(self, offset: int, *broker_ids: int) -> None:
        """Move the high watermark of some, and look at them."""
        for broker_id in broker_ids or (self.leader,):
            self.replicas[broker_id].log.high_watermark = offset
            self.look(broker_id)
