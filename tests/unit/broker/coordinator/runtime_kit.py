"""A log in memory, and the smallest coordinator: it remembers the last value of each key."""

import asyncio
import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from kvorum.broker.coordinator.runtime.partition import CoordinatorPartition
from kvorum.broker.coordinator.runtime.words import PLAIN, CoordinatorRecord, Decision, Producer, Terms, Turn
from kvorum.protocol.compression import Codec
from kvorum.protocol.errors import ErrorCode, KafkaError
from kvorum.protocol.records import Record, batches, build_batch, patch_place
from kvorum.protocol.topic_partition import TopicPartition
from kvorum.quorum.image import MetadataDelta, MetadataImage

KEY = TopicPartition("__consumer_offsets", 7)
State = Mapping[str, str]


class LoopClock:
    """The running loop's time."""

    def monotonic_ms(self) -> int:
        return round(asyncio.get_running_loop().time() * 1000)

    def wall_ms(self) -> int:
        return 1_700_000_000_000 + self.monotonic_ms()


@dataclass
class ModelLog:
    """One partition's log; `commit` moves the high watermark, as followers would."""

    epoch: int = 1
    data: list[bytes] = field(default_factory=list)
    end: int = 0
    watermark: int = 0
    refuse: KafkaError | None = None
    commits_at_once: bool = False
    on_moved: Callable[[int], None] = lambda high_watermark: None
    bytes_max: int = 1_000_000

    def start_offset(self) -> int:
        return 0

    def end_offset(self) -> int:
        return self.end

    def high_watermark(self) -> int:
        return self.watermark

    def read(self, offset: int, max_bytes: int) -> bytes:
        found = b""
        for batch in self.data:
            ((_, header),) = batches(memoryview(batch))
            if header.next_offset > offset and (not found or len(found) + len(batch) <= max_bytes):
                found += batch
        return found

    def append(self, batch: bytearray, epoch: int, terms: Terms = PLAIN) -> int:
        if self.refuse is not None:
            raise self.refuse
        if epoch != self.epoch:
            raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER, f"epoch {self.epoch}")
        first = self.end
        with memoryview(batch) as view:
            patch_place(view, 0, first, epoch)
            ((_, header),) = batches(view)
        self.data.append(bytes(batch))
        self.end = header.next_offset
        if self.commits_at_once:
            self.commit()
        return first

    def batch_bytes_max(self) -> int:
        return self.bytes_max

    def commit(self, offset: int | None = None) -> None:
        self.watermark = self.end if offset is None else offset
        self.on_moved(self.watermark)

    def write(self, *values: str) -> None:
        """Append as an earlier leader did."""
        self.append(build_batch([record("k", value) for value in values]), self.epoch)


def record(key: str, value: str) -> Record:
    return Record(value.encode(), key.encode(), 1)


class KeyShard:
    """Remembers the last value of each key; what a transaction wrote counts when it is committed."""

    def __init__(self) -> None:
        self.turn: Turn[State] | None = None
        self.ended: KafkaError | None = None
        self.updates = 0

    def initial(self) -> State:
        return {}

    def replay(self, state: State, offset: int, record: CoordinatorRecord, producer: Producer) -> State:
        assert record.value is not None
        key = record.key.decode()
        if producer.producer_id >= 0:
            return {**state, f"pending:{producer.producer_id}:{key}": record.value.decode()}
        return {**state, key: record.value.decode(), f"offset:{key}": str(offset)}

    def replay_marker(self, state: State, offset: int, producer: Producer, is_commit: bool) -> State:
        prefix = f"pending:{producer.producer_id}:"
        mine = {key.removeprefix(prefix): value for key, value in state.items() if key.startswith(prefix)}
        others = {key: value for key, value in state.items() if not key.startswith(prefix)}
        return {**others, **mine} if is_commit else others

    def activated(self, turn: Turn[State]) -> None:
        self.turn = turn

    def deactivated(self, error: KafkaError) -> None:
        self.ended = error

    def metadata_changed(self, delta: MetadataDelta, image: MetadataImage) -> None:
        self.updates += 1


def put(value: str, key: str = "k", size: int = 0) -> Callable[[State, int], Decision[str]]:
    """Decide to write a value; the answer is the value before."""

    def decide(state: State, now_ms: int) -> Decision[str]:
        records = [CoordinatorRecord(key.encode(), value.encode() + b"x" * size)]
        return Decision(response=state.get(key, ""), records=records)

    return decide


def look(state: State, now_ms: int) -> Decision[State]:
    """Decide nothing, and answer the state decided on."""
    return Decision(response=state)


def fault(error: BaseException) -> None:
    raise AssertionError("a fault of our own") from error


def partition_on(
    log: ModelLog, *, timeout_ms: int = 5_000, on_fault: Callable[[BaseException], None] = fault
) -> CoordinatorPartition[State, KeyShard]:
    made: CoordinatorPartition[State, KeyShard] = CoordinatorPartition(
        KEY,
        log,
        KeyShard,
        LoopClock(),
        image=MetadataImage,
        codec=Codec.NONE,
        write_timeout_ms=timeout_ms,
        on_fault=on_fault,
    )
    log.on_moved = made.high_watermark_moved
    return made


async def loaded(log: ModelLog, **options: int) -> CoordinatorPartition[State, KeyShard]:
    """Return a partition that leads and has loaded its log."""
    partition = partition_on(log, **options)
    partition.lead(log.epoch)
    await asyncio.sleep(0.1)
    partition.require_active()
    return partition


def marker(producer: Producer, *, is_commit: bool) -> bytearray:
    """Return an end-of-transaction marker of coordinator epoch 1."""
    key, value = struct.pack(">hh", 0, int(is_commit)), struct.pack(">hi", 0, 1)
    return build_batch(
        [Record(value, key, 1)],
        producer_id=producer.producer_id,
        producer_epoch=producer.producer_epoch,
        is_transactional=True,
        is_control=True,
    )
