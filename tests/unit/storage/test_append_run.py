"""A run of batches leaves behind, and answers, what they do one by one: files, indexes, producers, errors."""

import random
from typing import Any

import pytest

from kvorum.protocol.compression import Codec
from kvorum.protocol.errors import ErrorCode, KafkaError
from kvorum.storage.append_run import JOINED_BYTES_MAX
from kvorum.storage.log import Log
from sim.disk import SimDisk
from tests.unit.storage.kit import (
    NOW_MS,
    StillClock,
    batch,
    idempotent,
    new_disk,
    open_test_log,
    read_all,
    small_config,
)

EPOCH = 3
CONFIGS: list[dict[str, Any]] = [
    {},
    {"segment_bytes": 400, "segment_ms": 50},
    {"segment_index_bytes": 60, "index_interval_bytes": 1},
    {"message_timestamp_type": "LogAppendTime"},
    {"cleanup_policy": frozenset({"compact"})},
]


class Producer:
    """What clients send: mostly in order, sometimes again, with a gap, or spoilt."""

    def __init__(self, chance: random.Random) -> None:
        self.chance = chance
        self.sequences = {7: 0, 8: 0}
        self.sent: list[bytes] = [bytes(idempotent(0, producer_id=9))]

    def batch(self, now_ms: int) -> bytes:
        chance = self.chance
        kind = chance.choice(
            ["plain", "plain", "next", "next", "next", "next", "again", "gap", "spoilt", "lz4", "large"]
        )
        producer_id = chance.choice([7, 8])
        if kind == "plain":
            return bytes(batch(*[b"x" * chance.randrange(40)] * chance.randrange(1, 4), timestamp=now_ms))
        if kind == "again":
            return chance.choice(self.sent)
        if kind == "gap":
            return bytes(idempotent(self.sequences[producer_id] + 5, producer_id=producer_id, timestamp=now_ms))
        if kind == "spoilt":
            data = batch(b"value", timestamp=now_ms)
            data[-1] ^= 1
            return bytes(data)
        if kind == "lz4":
            return bytes(batch(b"x" * 200, codec=Codec.LZ4, timestamp=now_ms))
        if kind == "large":
            return bytes(batch(b"x" * 2000, timestamp=now_ms))
        count = chance.randrange(1, 4)
        made = bytes(idempotent(self.sequences[producer_id], count, producer_id=producer_id, timestamp=now_ms))
        self.sequences[producer_id] += count
        self.sent = [*self.sent[-4:], made]
        return made


def one_by_one(log: Log, batches: list[bytes]) -> list[int | ErrorCode]:
    found: list[int | ErrorCode] = []
    for data in batches:
        try:
            found.append(log.append_as_leader(memoryview(bytearray(data)), EPOCH).first_offset)
        except KafkaError as error:
            found.append(error.code)
    return found


def in_runs(log: Log, batches: list[bytes]) -> list[int | ErrorCode]:
    found: list[int | ErrorCode] = []
    while len(found) < len(batches):
        rest = [memoryview(bytearray(data)) for data in batches[len(found) :]]
        found += log.append_run_as_leader(rest, EPOCH).base_offsets
        found += one_by_one(log, batches[len(found) : len(found) + 1])
    return found


def content(disk: SimDisk, folder: str) -> dict[str, bytes]:
    return {name: disk.read(f"{folder}/{name}") for name in disk.listdir(folder)}


@pytest.mark.parametrize("config", CONFIGS)
@pytest.mark.parametrize("seed", range(20))
def test_runs_have_the_same_result_as_single_appends(config: dict[str, Any], seed: int) -> None:
    chance = random.Random(seed)
    clocks = StillClock(), StillClock()
    disks = new_disk(), new_disk()
    made = small_config(**({"segment_bytes": 1500} | config))
    logs = [open_test_log(disk, made, clock=clock) for disk, clock in zip(disks, clocks, strict=True)]
    producer = Producer(chance)
    for _ in range(12):
        batches = [producer.batch(clocks[0].now_ms) for _ in range(chance.randrange(1, 12))]
        assert one_by_one(logs[0], batches) == in_runs(logs[1], batches)
        assert logs[0].log_end_offset == logs[1].log_end_offset
        assert read_all(logs[0]) == read_all(logs[1])
        for clock in clocks:
            clock.now_ms += 20
        for log in logs:
            log.flush()
        assert content(disks[0], logs[0].folder) == content(disks[1], logs[1].folder)
    for log in logs:
        log.close()
    assert content(disks[0], logs[0].folder) == content(disks[1], logs[1].folder)


def test_a_run_is_one_write_and_large_batches_are_not_copied_together(monkeypatch: pytest.MonkeyPatch) -> None:
    disk = new_disk()
    log = open_test_log(disk, small_config(segment_bytes=10_000_000, max_message_bytes=1_000_000))
    log.append_as_leader(batch(timestamp=NOW_MS), EPOCH)
    file = log._local.segments.active.file
    sizes: list[int] = []
    write = type(file).pwrite
    monkeypatch.setattr(
        type(file), "pwrite", lambda self, data, position: sizes.append(len(data)) or write(self, data, position)
    )
    small, large = batch(b"x" * 100, timestamp=NOW_MS), batch(b"x" * JOINED_BYTES_MAX, timestamp=NOW_MS)
    log.append_run_as_leader([memoryview(bytearray(small)) for _ in range(20)], EPOCH)
    assert sizes == [20 * len(small)]
    sizes.clear()
    log.append_run_as_leader([memoryview(bytearray(each)) for each in (small, large, large, small)], EPOCH)
    assert sizes == [len(small), len(large), len(large), len(small)]
    log.close()
