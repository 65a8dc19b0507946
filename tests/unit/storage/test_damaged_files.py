"""Damaged files at a start: whatever the bytes are, a log is opened, or its directory goes offline with a reason."""

import random
import struct

import pytest
from crc32c import crc32c

from kvorum.protocol.errors import KafkaError
from kvorum.protocol.records import decode_records
from kvorum.storage.log import Log
from kvorum.storage.names import join
from kvorum.storage.recovery import LogDirectoryError, OpenOptions
from sim.disk import SimDisk
from tests.unit.storage.kit import FOLDER, NOW_MS, batch, idempotent, new_disk, open_test_log, small_config
from tests.unit.storage.txn_kit import append_verified, end, transactional

SEEDS = 15
EXTREMES = (0, 1, -1, 2**15 - 1, 2**31 - 1, 2**31, 2**32 - 1, 2**63 - 1, -(2**63), NOW_MS)
HEADER_FIELDS = {0: 8, 8: 4, 12: 4, 16: 1, 21: 2, 23: 4, 27: 8, 35: 8, 43: 8, 51: 2, 53: 4, 57: 4}
"""{position of a field: its size in bytes}."""
CONFIG = small_config(segment_bytes=1000, index_interval_bytes=0)


def written() -> tuple[SimDisk, Log]:
    """A log with each kind of file: batches of all kinds, several segments and epochs, closed."""
    disk = new_disk()
    log = open_test_log(disk, CONFIG)
    for number in range(6):
        log.append_as_leader(batch(b"x" * 55, timestamp=NOW_MS + number), number // 2)
        log.append_as_leader(idempotent(number, producer_id=8), number // 2)
        append_verified(log, transactional(b"t", sequence=number), sequence=number)
        end(log, commit=number % 2 == 0)
    log.high_watermark = log.log_end_offset
    log.close()
    return disk, log


def damaged(data: bytes, chance: random.Random) -> bytes:
    """Return the bytes of a file with one fault of those that disks, people and older versions make."""
    content = bytearray(data)
    match chance.randrange(7):
        case 0:
            return b""
        case 1:
            del content[chance.randrange(len(content) + 1) :]
        case 2:
            content += chance.randbytes(chance.randrange(1, 200))
        case 3:
            return chance.randbytes(chance.randrange(1, 300))
        case 4 if content:
            first = chance.randrange(len(content))
            content[first : first + 20] = bytes(len(content[first : first + 20]))
        case 5:
            content += content[: chance.randrange(len(content) + 1)]
        case _ if content:
            for _ in range(chance.randrange(1, 4)):
                content[chance.randrange(len(content))] ^= 1 << chance.randrange(8)
    return bytes(content)


def with_extreme_header(data: bytes, chance: random.Random) -> bytes:
    """Return a segment with an extreme value in a field of one batch whose checksum is right all the same."""
    content = bytearray(data)
    starts, position = [], 0
    while position + 61 <= len(content):
        starts.append(position)
        position += 12 + int.from_bytes(content[position + 8 : position + 12], "big")
    if not starts:
        return damaged(data, chance)
    start = chance.choice(starts)
    end_position = start + 12 + int.from_bytes(content[start + 8 : start + 12], "big")
    place, size = chance.choice(list(HEADER_FIELDS.items()))
    value = chance.choice(EXTREMES) & (1 << 8 * size) - 1
    content[start + place : start + place + size] = value.to_bytes(size, "big")
    struct.pack_into(">I", content, start + 17, crc32c(bytes(content[start + 21 : end_position])))
    return bytes(content)


def cases() -> list[tuple[str, bool]]:
    disk, _ = written()
    kinds = {name.partition(".")[2] or name for name in disk.listdir(FOLDER)}
    assert kinds >= {"log", "index", "timeindex", "txnindex", "snapshot", "durable-length", "leader-epoch-checkpoint"}
    return [(kind, is_clean) for kind in sorted(kinds) for is_clean in (True, False)]


def use(log: Log) -> None:
    """Read everything in every way, cut, append; a log may be given up, but nothing unexpected is raised."""
    try:
        offset = log.log_start_offset
        while offset < log.log_end_offset:
            info = log.read(offset, 1 << 16)
            log.aborted_transactions(offset, info.parts)
            if not info.parts:
                break
            for part in info.parts:
                data = part if isinstance(part, memoryview) else memoryview(part.file.pread(part.size, part.position))  # type: ignore[union-attr]
                offset = max(offset + 1, decode_records(data)[-1].offset + 1)
    except (KafkaError, IndexError):
        pass  # a client's trouble: these bytes are not looked into by the broker
    for action in (
        lambda: log.offset_for_timestamp(0),
        log.offset_of_max_timestamp,
        lambda: log.truncate_to(max(log.log_end_offset - 2, log.log_start_offset)),
        lambda: log.append_as_leader(batch(), 9),
        log.flush,
        log.roll,
        lambda: log.delete_old_segments(NOW_MS * 2),
        log.close,
    ):
        try:
            action()
        except KafkaError:
            continue


@pytest.mark.parametrize(("kind", "is_clean"), cases())
def test_a_damaged_file_never_ends_in_an_unexpected_error(kind: str, is_clean: bool) -> None:
    opened = 0
    for seed in range(SEEDS):
        chance = random.Random(f"{kind} {is_clean} {seed}")
        disk, log = written()
        name = chance.choice([each for each in disk.listdir(FOLDER) if (each.partition(".")[2] or each) == kind])
        path = join(FOLDER, name)
        change = with_extreme_header if kind == "log" and chance.random() < 0.6 else damaged
        disk.write_atomic(path, change(disk.read(path), chance))
        recovery_point = chance.choice([0, log.log_end_offset]) if not is_clean else log.log_end_offset
        options = OpenOptions(is_clean=is_clean, recovery_point=recovery_point)
        try:
            found = open_test_log(disk, CONFIG, options=options)
        except (LogDirectoryError, KafkaError, OSError):
            continue
        except Exception as error:
            raise AssertionError(f"seed {seed} of {name}") from error
        opened += 1
        try:
            use(found)
        except Exception as error:
            raise AssertionError(f"seed {seed} of {name}") from error
    assert opened or kind == "log"
