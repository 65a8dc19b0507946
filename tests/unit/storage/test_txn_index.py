"""The transaction index: Kafka's bytes, what is refused, what a read is told, cuts, and Kafka's own reader."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from kvorum.runtime.disk import OsDisk
from kvorum.storage.index import CorruptIndex
from kvorum.storage.names import TXN_INDEX_SUFFIX
from kvorum.storage.recovery import open_log
from kvorum.storage.txn_index import ENTRY_SIZE, AbortedTransaction, TransactionIndex
from tests.unit.storage.kit import FOLDER, PARTITION, StillClock, batch, new_disk, small_config
from tests.unit.storage.txn_kit import append_verified, end, transactional

PATH = f"{FOLDER}/00000000000000000010{TXN_INDEX_SUFFIX}"
ENTRIES = [
    AbortedTransaction(1, 10, 14, 11),
    AbortedTransaction(2, 11, 16, 17),
    AbortedTransaction(1, 18, 25, 20),
    AbortedTransaction(3, 20, 30, 31),
]


def an_index() -> TransactionIndex:
    index = TransactionIndex(PATH, 10)
    for entry in ENTRIES:
        index.append(entry)
    return index


def test_entries_are_kafkas() -> None:
    """AbortedTxn by hand: version 0, producer id, first offset, last offset, last stable offset, big-endian."""
    disk = new_disk()
    disk.mkdir(FOLDER)
    index = TransactionIndex(PATH, 10)
    index.append(AbortedTransaction(258, 3, 12, 13))
    index.save(disk)
    words = (258).to_bytes(8, "big") + (3).to_bytes(8, "big") + (12).to_bytes(8, "big") + (13).to_bytes(8, "big")
    assert disk.read(PATH) == b"\0\0" + words
    assert ENTRY_SIZE == 34


def test_there_is_no_file_without_an_entry_and_none_is_left_behind_in_one() -> None:
    disk = new_disk()
    disk.mkdir(FOLDER)
    TransactionIndex(PATH, 10).save(disk)
    assert not disk.exists(PATH)
    index = an_index()
    index.save(disk)
    index.truncate_to(0)
    index.save(disk)
    assert disk.read(PATH) == b""
    disk.open(PATH).pwrite(b"x" * 40, 0)
    TransactionIndex(PATH, 10, has_file=True).save(disk)
    assert disk.read(PATH) == b""


def test_saved_entries_are_loaded_and_only_new_ones_are_written() -> None:
    disk = new_disk()
    disk.mkdir(FOLDER)
    index = an_index()
    index.save(disk)
    written = disk.bytes_written
    index.save(disk)
    assert disk.bytes_written == written and index.is_saved
    index.append(AbortedTransaction(9, 31, 32, 33))
    assert not index.is_saved
    index.save(disk)
    assert disk.bytes_written == written + ENTRY_SIZE
    index.truncate_to(30)
    index.append(AbortedTransaction(8, 28, 29, 30))
    index.save(disk)
    loaded = TransactionIndex(PATH, 10)
    loaded.load(disk)
    assert loaded.entries == index.entries == [*ENTRIES[:3], AbortedTransaction(8, 28, 29, 30)]


@pytest.mark.parametrize(
    ("fetch_offset", "bound", "producers", "is_complete"),
    [
        (10, 11, [1], True),
        (10, 12, [1, 2], True),
        (14, 15, [1, 2], True),
        (15, 17, [2], True),
        (17, 18, [], True),
        (17, 19, [1], True),
        (20, 25, [1, 3], True),
        (26, 40, [3], False),
        (31, 32, [], False),
        (0, 10, [], True),
    ],
)
def test_a_read_gets_the_transactions_that_overlap_it(
    fetch_offset: int, bound: int, producers: list[int], is_complete: bool
) -> None:
    found, complete = an_index().collect_aborted(fetch_offset, bound)
    assert ([each.producer_id for each in found], complete) == (producers, is_complete)


@pytest.mark.parametrize("offset", range(9, 33))
def test_a_cut_takes_the_markers_behind_it(offset: int) -> None:
    index = an_index()
    index.truncate_to(offset)
    assert index.entries == [entry for entry in ENTRIES if entry.last_offset < offset]


@pytest.mark.parametrize(
    "damage",
    [
        lambda data: data[:-1],
        lambda data: b"\0\1" + data[2:],
        lambda data: data[:18] + (9).to_bytes(8, "big") + data[26:],
        lambda data: data[ENTRY_SIZE:] + data[:ENTRY_SIZE],
        lambda data: data[:26] + (16).to_bytes(8, "big") + data[34:],
        lambda data: data + bytes(ENTRY_SIZE),
        lambda data: data[:2] + b"\xff" * 8 + data[10:],
    ],
)
def test_a_damaged_file_is_refused(damage) -> None:  # type: ignore[no-untyped-def]
    disk = new_disk()
    disk.mkdir(FOLDER)
    index = an_index()
    index.save(disk)
    data = damage(disk.read(PATH))
    disk.write_atomic(PATH, data)
    with pytest.raises(CorruptIndex):
        TransactionIndex(PATH, 10).load(disk)


def test_kafka_dump_log_reads_it(tmp_path: Path) -> None:
    """DumpLogSegments of Apache Kafka's jars (KVORUM_KAFKA_JARS) prints our entries and finds our markers well."""
    jars = os.environ.get("KVORUM_KAFKA_JARS")
    if jars is None or shutil.which("java") is None:
        pytest.skip("needs java, and Apache Kafka's jars in KVORUM_KAFKA_JARS")
    folder = f"{tmp_path}/topic-0"
    log = open_log(OsDisk(), folder, PARTITION, small_config(segment_bytes=1 << 20), StillClock())
    append_verified(log, transactional(b"a", b"b"))
    append_verified(log, transactional(b"c", producer_id=8), producer_id=8)
    log.append_as_leader(batch(), 0)
    assert end(log, commit=False, coordinator_epoch=5) == 4
    assert end(log, commit=True, producer_id=8) == 5
    append_verified(log, transactional(b"d", sequence=2), sequence=2)
    assert end(log, commit=False, coordinator_epoch=5) == 7
    log.close()
    files = [f"{folder}/{0:020d}{suffix}" for suffix in (TXN_INDEX_SUFFIX, ".log")]
    done = subprocess.run(
        ["java", "-cp", f"{jars}/*", "org.apache.kafka.tools.DumpLogSegments", "--deep-iteration",
         "--files", ",".join(files)],
        capture_output=True, text=True, check=True, timeout=60,
    )  # fmt: skip
    assert "version: 0 producerId: 7 firstOffset: 0 lastOffset: 4 lastStableOffset: 2" in done.stdout
    assert "version: 0 producerId: 7 firstOffset: 6 lastOffset: 7 lastStableOffset: 8" in done.stdout
    assert done.stdout.count("endTxnMarker: ABORT coordinatorEpoch: 5") == 2
    assert done.stdout.count("endTxnMarker: COMMIT coordinatorEpoch: 1") == 1
    assert "isvalid: false" not in done.stdout
