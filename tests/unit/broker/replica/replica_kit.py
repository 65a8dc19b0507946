"""Model parts for the replica machines: a log in memory with the real epoch cache, brokers, registrations."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from kvorum.broker.replica.isr import AlterPartitionAnswer, AlterPartitionProposal
from kvorum.broker.replica.partition import Partition
from kvorum.broker.replica.partition_reads import fetch_records
from kvorum.broker.replica.types import FetchParams, LogRead, PartitionFetch
from kvorum.protocol.batch_header import parse_header
from kvorum.protocol.errors import ErrorCode, KafkaError
from kvorum.protocol.messages.fetch import EpochEndOffset as WireEpochEnd
from kvorum.protocol.messages.fetch import PartitionData
from kvorum.protocol.parts import Part
from kvorum.protocol.records import Record, batches, build_batch, decode_records, patch_place
from kvorum.protocol.topic_partition import TopicPartition
from kvorum.protocol.uuids import ZERO_UUID, Uuid
from kvorum.quorum.image.partition import UNASSIGNED_DIRECTORY, PartitionRegistration
from kvorum.storage.epoch_cache import EpochCache, EpochEndOffset
from kvorum.storage.log_config import LogConfig
from kvorum.storage.log_read import ReadInfo, TimestampOffset
from kvorum.storage.log_types import AppendInfo
from kvorum.storage.producer_state import Origin, ProducerState
from kvorum.storage.txn_index import AbortedTransaction
from kvorum.storage.verification import VerificationGuard

TOPIC_ID = Uuid(b"\7" * 16)
KEY = TopicPartition("orders", 0)
LAG_MS = 30_000


def batch(*values: bytes) -> memoryview:
    """A producer's batch."""
    return memoryview(build_batch([Record(value, timestamp=1) for value in values]))


class ModelLog:
    """A log in memory, one batch a list entry; offsets and epochs as the real one keeps them."""

    def __init__(self, config: LogConfig | None = None) -> None:
        self.config = config or LogConfig()
        self.log_start_offset = 0
        self.on_start_moved: Callable[[], None] | None = None
        self.epoch_cache = EpochCache()
        self.batches: list[bytes] = []
        self.producer_state = ProducerState()
        self.truncations: list[int] = []
        self.log_end_offset = 0
        self._high_watermark = 0

    @property
    def high_watermark(self) -> int:
        return self._high_watermark

    @high_watermark.setter
    def high_watermark(self, offset: int) -> None:
        self._high_watermark = max(self.log_start_offset, min(offset, self.log_end_offset))

    @property
    def is_sync_due(self) -> bool:
        return False

    @property
    def committable_end_offset(self) -> int:
        return self.log_end_offset

    @property
    def last_stable_offset(self) -> int:
        return self._high_watermark

    @property
    def latest_epoch(self) -> int | None:
        return self.epoch_cache.latest_epoch

    def assign_epoch_start_offset(self, epoch: int, start_offset: int) -> None:
        self.epoch_cache.assign(epoch, start_offset)

    def end_offset_for_epoch(self, epoch: int) -> EpochEndOffset:
        return self.epoch_cache.end_offset_for(epoch, self.log_end_offset)

    def begin_verification(
        self, producer_id: int, producer_epoch: int, sequence: int, supports_epoch_bump: bool
    ) -> VerificationGuard | None:
        return self.producer_state.begin_verification(producer_id, producer_epoch, sequence, supports_epoch_bump, 0)

    def aborted_transactions(self, offset: int, parts: Sequence[Part]) -> Sequence[AbortedTransaction]:
        return ()

    def append_as_leader(
        self,
        records: memoryview,
        leader_epoch: int,
        origin: Origin = Origin.CLIENT,
        guard: VerificationGuard | None = None,
        transaction_version: int = 0,
    ) -> AppendInfo:
        first = self.log_end_offset
        patch_place(records, 0, first, leader_epoch)
        return self.append_as_follower(records, leader_epoch) or AppendInfo(first, first, 1, -1, 0, 0)

    def append_as_follower(self, records: memoryview, leader_epoch: int) -> AppendInfo | None:
        first, count = None, 0
        for position, header in batches(records):
            if header.partition_leader_epoch > leader_epoch:
                break
            if header.base_offset != self.log_end_offset:
                raise KafkaError(
                    ErrorCode.INVALID_RECORD, f"{header.base_offset} does not follow {self.log_end_offset}"
                )
            self.epoch_cache.assign(header.partition_leader_epoch, header.base_offset)
            self.batches.append(bytes(records[position : position + header.size]))
            self.log_end_offset = header.next_offset
            first = header.base_offset if first is None else first
            count += header.records_count
        return None if first is None else AppendInfo(first, self.log_end_offset - 1, 1, -1, len(records), count)

    def read(self, offset: int, max_bytes: int, upper_bound_offset: int, min_one_message: bool) -> ReadInfo:
        if not self.log_start_offset <= offset <= self.log_end_offset:
            raise KafkaError(ErrorCode.OFFSET_OUT_OF_RANGE)
        found: list[bytes] = []
        size = 0
        for each in self.batches:
            header = parse_header(each)
            if header.last_offset < offset:
                continue
            if header.next_offset > upper_bound_offset:
                break
            if size + len(each) > max_bytes and not (min_one_message and not found):
                break
            found.append(each)
            size += len(each)
        return ReadInfo(tuple(found), size)

    def offset_for_timestamp(self, timestamp: int) -> TimestampOffset | None:
        for each in self.batches:
            for record in decode_records(memoryview(each)):
                if record.timestamp >= timestamp and record.offset >= self.log_start_offset:
                    return TimestampOffset(record.timestamp, record.offset, parse_header(each).partition_leader_epoch)
        return None

    def offset_of_max_timestamp(self) -> TimestampOffset | None:
        found = [record for each in self.batches for record in decode_records(memoryview(each))]
        best = max(found, key=lambda record: (record.timestamp, -record.offset), default=None)
        return None if best is None else TimestampOffset(best.timestamp, best.offset, 0)

    def truncate_to(self, offset: int) -> bool:
        self.truncations.append(offset)
        if offset < self.log_start_offset:
            self.truncate_fully_and_start_at(offset)
            return True
        before = len(self.batches)
        self.batches = [each for each in self.batches if parse_header(each).next_offset <= offset]
        if len(self.batches) < before:
            ends = [parse_header(each).next_offset for each in self.batches]
            self.log_end_offset = ends[-1] if ends else min(self.log_start_offset, offset)
        self.epoch_cache.truncate_from_end(min(offset, self.log_end_offset))
        self.log_start_offset = min(self.log_start_offset, self.log_end_offset)
        self.high_watermark = self._high_watermark
        return len(self.batches) < before

    def truncate_fully_and_start_at(self, offset: int) -> None:
        self.batches.clear()
        self.epoch_cache.clear()
        self.log_start_offset = self.log_end_offset = self._high_watermark = offset

    def maybe_increment_log_start_offset(self, offset: int) -> bool:
        if offset > self._high_watermark:
            raise KafkaError(ErrorCode.OFFSET_OUT_OF_RANGE)
        if offset <= self.log_start_offset:
            return False
        self.log_start_offset = offset
        self.epoch_cache.truncate_from_start(offset)
        if self.on_start_moved is not None:
            self.on_start_moved()
        return True

    @property
    def history(self) -> list[tuple[int, int, bytes | None]]:
        """(offset, leader epoch, value) of every record."""
        return [
            (record.offset, parse_header(each).partition_leader_epoch, record.value)
            for each in self.batches
            for record in decode_records(memoryview(each))
        ]


@dataclass
class ModelCluster:
    """The brokers and partitions as the metadata cache tells of them."""

    epochs: dict[int, int] = field(default_factory=lambda: {1: 101, 2: 102, 3: 103})
    fenced: set[int] = field(default_factory=set)
    shutting_down: set[int] = field(default_factory=set)
    partitions: dict[tuple[str, int], PartitionRegistration] = field(default_factory=dict)

    def broker_epoch(self, broker_id: int) -> int | None:
        return None if broker_id in self.fenced else self.epochs.get(broker_id)

    def is_fenced(self, broker_id: int) -> bool:
        return broker_id in self.fenced or broker_id not in self.epochs

    def is_shutting_down(self, broker_id: int) -> bool:
        return broker_id in self.shutting_down

    def partition(self, topic: str, index: int) -> PartitionRegistration | None:
        return self.partitions.get((topic, index))


def registration(
    leader: int = 1,
    isr: Sequence[int] = (1, 2, 3),
    *,
    replicas: Sequence[int] = (1, 2, 3),
    leader_epoch: int = 0,
    partition_epoch: int = 0,
    adding: Sequence[int] = (),
    elr: Sequence[int] = (),
) -> PartitionRegistration:
    return PartitionRegistration(
        replicas=tuple(replicas),
        isr=tuple(isr),
        leader=leader,
        leader_epoch=leader_epoch,
        partition_epoch=partition_epoch,
        leader_recovery_state=0,
        directories=(UNASSIGNED_DIRECTORY,) * len(replicas),
        adding_replicas=tuple(adding),
        elr=tuple(elr),
    )


def a_partition(cluster: ModelCluster | None = None, broker_id: int = 1, topic_id: Uuid = TOPIC_ID) -> Partition:
    view = cluster or ModelCluster()
    return Partition(
        topic_partition=KEY,
        topic_id=topic_id,
        broker_id=broker_id,
        brokers=view,
        local_broker_epoch=lambda: view.epochs[broker_id],
        replica_lag_time_ms_max=LAG_MS,
    )


def config(min_insync_replicas: int = 1, **others: object) -> LogConfig:
    return LogConfig(min_insync_replicas=min_insync_replicas, **others)  # type: ignore[arg-type]


def follower_fetch(
    partition: Partition,
    replica_id: int,
    offset: int,
    *,
    now_ms: int = 0,
    replica_epoch: int = -1,
    leader_epoch: int = -1,
    last_fetched_epoch: int = -1,
    log_start_offset: int = 0,
    max_bytes: int = 1 << 20,
) -> LogRead:
    """What a follower's Fetch does to the leader."""
    target = PartitionFetch(
        topic=KEY.topic,
        partition=KEY.partition,
        topic_id=ZERO_UUID,
        fetch_offset=offset,
        partition_max_bytes=max_bytes,
        current_leader_epoch=leader_epoch,
        last_fetched_epoch=last_fetched_epoch,
        log_start_offset=log_start_offset,
    )
    params = FetchParams(replica_id=replica_id, replica_epoch=replica_epoch)
    return fetch_records(partition, target, params, max_bytes, True, now_ms, True)


def row_of(read: LogRead) -> PartitionData:
    """A read as the follower gets it."""
    diverging = read.diverging_epoch
    return PartitionData(
        high_watermark=read.high_watermark,
        log_start_offset=read.log_start_offset,
        diverging_epoch=WireEpochEnd()
        if diverging is None
        else WireEpochEnd(epoch=diverging.epoch, end_offset=diverging.end_offset),
        records=memoryview(b"".join(part for part in read.parts if not isinstance(part, tuple))),
    )


def proposal_of(partition: Partition) -> AlterPartitionProposal:
    """The proposal a call has just put into the effects."""
    effects = partition.take_effects()
    assert effects is not None and effects.proposal is not None
    return effects.proposal


def members(proposal: AlterPartitionProposal) -> list[int]:
    return [member for member, _ in proposal.isr]


def granted(proposal: AlterPartitionProposal, leader: int = 1) -> AlterPartitionAnswer:
    """The controller's yes."""
    return AlterPartitionAnswer(
        leader_id=leader,
        leader_epoch=proposal.leader_epoch,
        partition_epoch=proposal.partition_epoch + 1,
        isr=tuple(members(proposal)),
    )


@dataclass
class Noted:
    """A listener that writes down what it hears."""

    heard: list[tuple[object, ...]] = field(default_factory=list)

    def on_become_leader(self, topic_partition: TopicPartition, leader_epoch: int) -> None:
        self.heard.append(("leader", topic_partition, leader_epoch))

    def on_become_follower(self, topic_partition: TopicPartition, leader_epoch: int) -> None:
        self.heard.append(("follower", topic_partition, leader_epoch))

    def on_high_watermark_moved(self, topic_partition: TopicPartition, high_watermark: int) -> None:
        self.heard.append(("high watermark", topic_partition, high_watermark))

    def on_failed(self, topic_partition: TopicPartition) -> None:
        self.heard.append(("failed", topic_partition))

    def on_deleted(self, topic_partition: TopicPartition) -> None:
        self.heard.append(("deleted", topic_partition))
