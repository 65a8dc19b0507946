"""A broker's compacted logs on a disk in memory, cleaned when the test says so."""

import random
from collections.abc import Iterable
from typing import NamedTuple

from kvorum.protocol.control import marker
from kvorum.protocol.records import Record, batches, build_batch, decode_records
from kvorum.protocol.topic_partition import TopicPartition
from kvorum.runtime.config import Settings
from kvorum.storage.log import Log
from kvorum.storage.log_config import LogConfig
from kvorum.storage.log_manager import LogManager
from sim.loop import SimLoop
from tests.unit.storage.kit import NOW_MS, StillClock, new_disk, read_all, small_config
from tests.unit.storage.test_log_manager import TOPIC_ID

PARTITION = TopicPartition("topic", 0)
FOLDER = "/data/logs/topic-0"
CHECKPOINT = "/data/logs/cleaner-offset-checkpoint"
KEYS_MAX = 1000


def compacted(**changes: object) -> LogConfig:
    """A policy under which whatever can be cleaned is."""
    fields = {"cleanup_policy": frozenset({"compact"}), "min_cleanable_dirty_ratio": 0.0, "segment_bytes": 600}
    return small_config(**(fields | changes))


class Kept(NamedTuple):
    """A record as a consumer sees it."""

    offset: int
    key: bytes | None
    value: bytes | None
    timestamp: int


class Broker:
    """Its logs over several lives, one directory. Everything runs in virtual time."""

    def __init__(self, config: LogConfig | None = None, seed: int = 1, **settings: object) -> None:
        self.disk = new_disk(seed)
        self.disk.mkdir("/data/logs")
        self.disk.sync_dir("/data")
        self.clock = StillClock()
        self.config = config or compacted()
        self.seed = seed
        self.settings = Settings.of({"log.dirs": "/data/logs", "node.id": 1, **settings})
        self.offline: list[Exception] = []
        self.start()

    def start(self) -> None:
        """Begin a life, in a loop that knows nothing of the one before."""
        self.loop = SimLoop(random.Random(self.seed))
        self.manager = LogManager(
            self.disk,
            self.clock,
            self.settings,
            topic_config=lambda _: self.config,
            on_offline=lambda _, error: self.offline.append(error),
        )
        self.loop.run_until_complete(self.manager.start())
        self.cleaner = self.manager.make_cleaner(self.settings, random.Random(7))
        self.log = self.manager.get_or_create(PARTITION, TOPIC_ID)

    def kill(self) -> None:
        """kill -9, and start again."""
        self.disk.kill()
        self.start()

    def lose_power(self) -> None:
        """Lose what was not synced, and start again."""
        self.disk.crash()
        self.start()

    def clean(self) -> bool:
        """Sync what was rolled, and clean once."""
        self.loop.run_until_complete(self.manager.flush_dirty(self.clock.now_ms))
        return self.loop.run_until_complete(self.cleaner.clean_dirtiest())

    def use(self, config: LogConfig) -> None:
        """Change the topic's configuration."""
        self.config = config
        self.manager.update_topic_config(PARTITION.topic, config)

    def settle(self, log: Log | None = None) -> None:
        """Have everything committed, and a new segment begun."""
        log = log or self.log
        log.high_watermark = log.log_end_offset
        log.roll()


def put(log: Log, *pairs: tuple[bytes | None, bytes | None], timestamp: int = NOW_MS, **fields: object) -> int:
    """Append a batch of (key, value) as a leader's copy has it; return its base offset."""
    offset = log.log_end_offset
    records = [Record(value, key, timestamp) for key, value in pairs]
    epoch = max(log.latest_epoch or 0, 1)
    data = build_batch(records, base_offset=offset, partition_leader_epoch=epoch, **fields)  # type: ignore[arg-type]
    log.append_as_follower(memoryview(data))
    return offset


def filled(broker: Broker, log: Log | None = None, *, count: int = 60, keys: int = 5, start: int = 0) -> Log:
    """So many records, committed, rolled and synced."""
    log = log or broker.log
    for number in range(start, start + count):
        put(log, (b"k%d" % (number % keys), b"v%d" % number), timestamp=broker.clock.now_ms)
    broker.settle(log)
    broker.loop.run_until_complete(broker.manager.flush_dirty(broker.clock.now_ms))
    return log


def end_transaction(log: Log, producer_id: int, is_commit: bool, epoch: int = 0, timestamp: int = NOW_MS) -> int:
    """Append a marker; return its offset."""
    offset = log.log_end_offset
    data = bytearray(marker(producer_id, epoch, is_commit=is_commit, coordinator_epoch=0, timestamp=timestamp))
    data[0:8] = offset.to_bytes(8, "big")
    data[12:16] = max(log.latest_epoch or 0, 1).to_bytes(4, "big")
    log.append_as_follower(memoryview(data))
    return offset


def records_of(log: Log) -> list[Kept]:
    """Every data record there is, in order."""
    data = memoryview(read_all(log))
    found: list[Kept] = []
    for position, header in batches(data):
        if not header.is_control:
            found += [Kept(r.offset, r.key, r.value, r.timestamp) for r in decode_records(data, position)]
    return found


def values_of(log: Log) -> dict[bytes | None, bytes | None]:
    """What a reader of the whole log knows in the end."""
    return {record.key: record.value for record in records_of(log)}


def offsets_of(log: Log) -> list[int]:
    return [record.offset for record in records_of(log)]


def names(disk: object, suffixes: Iterable[str]) -> list[str]:
    """Files of the log's folder that end so."""
    return [name for name in disk.listdir(FOLDER) if name.endswith(tuple(suffixes))]  # type: ignore[attr-defined]
