"""What the storage tests share: a clock that stands still, a disk in memory, logs and batches in one line."""

import random
from collections.abc import Iterable

from kvorum.protocol.compression import Codec
from kvorum.protocol.parts import FileSlice, Part
from kvorum.protocol.records import Record, batches, build_batch
from kvorum.protocol.topic_partition import TopicPartition
from kvorum.storage.log import Log
from kvorum.storage.log_config import LogConfig
from kvorum.storage.recovery import OpenOptions, open_log
from sim.disk import SimDisk

NOW_MS = 1_700_000_000_000
PARTITION = TopicPartition("topic", 0)
FOLDER = "/data/topic-0"


class StillClock:
    """A clock that moves when it is told to."""

    def __init__(self, now_ms: int = NOW_MS) -> None:
        self.now_ms = now_ms

    def monotonic_ms(self) -> int:
        return self.now_ms

    def wall_ms(self) -> int:
        return self.now_ms


def new_disk(seed: int = 1) -> SimDisk:
    """A disk whose folder for logs is there for good."""
    disk = SimDisk(random.Random(seed))
    disk.mkdir("/data")
    disk.sync_dir("")
    return disk


def small_config(**changes: object) -> LogConfig:
    """Segments of a few batches, an index entry for nearly every batch."""
    return LogConfig(**({"segment_bytes": 1000, "index_interval_bytes": 200} | changes))  # type: ignore[arg-type]


def open_test_log(disk: SimDisk, config: LogConfig | None = None, *, clock: StillClock | None = None,
                  options: OpenOptions | None = None) -> Log:  # fmt: skip
    return open_log(disk, FOLDER, PARTITION, config or small_config(), clock or StillClock(), options=options)


def batch(*values: bytes, timestamp: int = NOW_MS, codec: Codec = Codec.NONE, **fields: object) -> memoryview:
    """A batch as a client sends it, one record a value."""
    records = [Record(value, b"key", timestamp) for value in values or (b"value",)]
    return memoryview(build_batch(records, codec=codec, **fields))  # type: ignore[arg-type]


def idempotent(sequence: int, count: int = 1, producer_id: int = 7, epoch: int = 0, **fields: object) -> memoryview:
    """A batch of an idempotent producer."""
    values = [b"value-%d" % (sequence + index) for index in range(count)]
    return batch(*values, producer_id=producer_id, producer_epoch=epoch, base_sequence=sequence, **fields)


def filled(count: int = 30, disk: SimDisk | None = None, **config: object) -> Log:
    """Batches of 130 bytes and one record each, ten milliseconds apart; all replicated."""
    log = open_test_log(disk or new_disk(), small_config(**config))
    for index in range(count):
        log.append_as_leader(batch(b"x" * 55, timestamp=NOW_MS + index * 10), 0)
    log.high_watermark = log.log_end_offset
    return log


def part_bytes(part: Part) -> bytes:
    return part.file.pread(part.size, part.position) if isinstance(part, FileSlice) else bytes(part)


def joined(parts: Iterable[Part]) -> bytes:
    """The bytes a client would get."""
    return b"".join(map(part_bytes, parts))


def read_all(log: Log) -> bytes:
    """Every batch from the log start to the log end."""
    found = b""
    offset = log.log_start_offset
    while offset < log.log_end_offset:
        info = log.read(offset, 1 << 20)
        assert info.size, f"nothing at {offset}"
        data = joined(info.parts)
        assert len(data) == info.size
        found += data
        offset = end_of(data)
    return found


def end_of(data: bytes) -> int:
    """One past the last offset of whole batches."""
    end = -1
    for _, header in batches(memoryview(data)):
        end = header.next_offset
    return end
