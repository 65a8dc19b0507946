"""Snapshots: the same image gives the same bytes, and anything less than a whole snapshot is refused."""

import random
from collections.abc import Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kvorum.protocol.records import batches, decode_records
from kvorum.quorum.image import MetadataDelta, MetadataImage
from kvorum.quorum.raft.log import SnapshotId
from kvorum.quorum.records import MetadataRecord
from kvorum.quorum.snapshots import (
    SNAPSHOT_FOOTER,
    SNAPSHOT_HEADER,
    SnapshotDamaged,
    SnapshotFiles,
    checkpoint_name,
    decode_snapshot,
    encode_snapshot,
)
from sim.disk import PowerLoss, SimDisk
from tests.unit.quorum.runtime.runtime_kit import topic_record

ID = SnapshotId(end_offset=1234, epoch=7)


def image(count: int) -> MetadataImage:
    delta = MetadataDelta(MetadataImage())
    for number in range(count):
        delta.replay(topic_record(number))
    return delta.apply(1233, 7)


def content(count: int) -> bytes:
    return b"".join(encode_snapshot(image(count).to_records(), 7, 99))


def records(chunks: Iterator[bytes]) -> list[MetadataRecord]:
    return [record for _, found in decode_snapshot(chunks) for record in found]


@settings(deadline=None)
@given(count=st.sampled_from([0, 1, 499, 500, 501, 1200]), size=st.integers(1, 100_000))
def test_a_snapshot_is_read_for_any_division_into_chunks(count: int, size: int) -> None:
    data = content(count)
    size = max(size, len(data) // 200)
    chunks = (data[position : position + size] for position in range(0, len(data), size))
    assert records(chunks) == list(image(count).to_records())


def test_the_same_image_gives_the_same_bytes() -> None:
    assert content(50) == content(50)


def test_a_snapshot_is_framed_as_kafkas() -> None:
    data = memoryview(content(3))
    found = list(batches(data))
    assert [header.is_control for _, header in found] == [True, False, True]
    assert {header.partition_leader_epoch for _, header in found} == {7}
    assert [header.base_offset for _, header in found] == [0, 1, 4]
    first, last = (decode_records(data, found[place][0])[0] for place in (0, -1))
    assert first.key == bytes([0, 0, 0, SNAPSHOT_HEADER])
    assert first.value == bytes([0, 0]) + (99).to_bytes(8, "big") + b"\0"
    assert last.key == bytes([0, 0, 0, SNAPSHOT_FOOTER])
    assert last.value == b"\0\0\0"


@pytest.mark.parametrize("cut", [0, 1, 60, 100, 500, -1])
def test_a_snapshot_without_its_end_is_refused(cut: int) -> None:
    with pytest.raises(SnapshotDamaged):
        records(iter([content(20)[:cut]]))


@settings(deadline=None)
@given(position=st.integers(0, len(content(5)) - 1), bit=st.integers(0, 7))
def test_a_flipped_bit_is_found(position: int, bit: int) -> None:
    """But for those of a batch's epoch, which the CRC does not cover and nothing reads."""
    data = bytearray(content(5))
    data[position] ^= 1 << bit
    starts = [place for place, _ in batches(memoryview(content(5)))]
    if any(start + 12 <= position < start + 16 for start in starts):
        return
    with pytest.raises(SnapshotDamaged):
        records(iter([bytes(data)]))


def test_data_after_the_footer_is_refused() -> None:
    with pytest.raises(SnapshotDamaged, match="footer"):
        records(iter([content(1) + content(1)]))


def test_file_names_are_kafkas() -> None:
    assert checkpoint_name(ID) == "00000000000000001234-0000000007.checkpoint"


def files(disk: SimDisk) -> SnapshotFiles:
    disk.mkdir("/data")
    return SnapshotFiles(disk, "/data")


def test_a_snapshot_file_exists_whole_or_not_at_all() -> None:
    """The power fails after each number of steps in turn."""
    outcomes = set()
    for steps in range(20):
        disk = SimDisk(random.Random(steps))
        found = files(disk)
        disk.sync_dir("")
        disk.power(steps)
        try:
            found.write(ID, iter([content(20)[:1000], content(20)[1000:]]))
        except PowerLoss:
            outcomes.add("lost")
        else:
            outcomes.add("written")
        disk.crash()
        survivors = SnapshotFiles(disk, "/data")
        for survivor in survivors.ids():
            outcomes.add("survived")
            assert records(survivors.read(survivor)) == list(image(20).to_records())
    assert outcomes == {"lost", "written", "survived"}


def test_old_snapshots_are_deleted_and_half_written_ones_removed() -> None:
    disk = SimDisk(random.Random(1))
    found = files(disk)
    for end_offset in (10, 20, 30):
        found.write(SnapshotId(end_offset=end_offset, epoch=1), iter([content(1)]))
    with found.partial(ID) as part:
        part.append(b"half")
    assert [each.end_offset for each in found.ids()] == [10, 20, 30]
    assert found.delete_before(30) == 2
    assert [each.end_offset for each in found.ids()] == [30]
    disk.open("/data/00000000000000001234-0000000007.checkpoint.part", create=True).pwrite(b"half", 0)
    assert [each.end_offset for each in SnapshotFiles(disk, "/data").ids()] == [30]
    assert disk.listdir("/data") == [checkpoint_name(SnapshotId(end_offset=30, epoch=1))]
