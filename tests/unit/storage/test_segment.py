"""Segments and their indexes: Kafka's bytes, look-ups against a full scan, damaged indexes."""

import bisect
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvorum.protocol.batch_header import BatchHeader, parse_header
from kvorum.storage.index import CorruptIndex, OffsetIndex, TimeIndex
from kvorum.storage.segment import CorruptSegment, Segment
from kvorum.storage.segment_creation import create_segment
from sim.disk import SimDisk
from tests.unit.storage.kit import NOW_MS, batch, new_disk

FOLDER = "/data/topic-0"


def new_segment(disk: SimDisk, base_offset: int = 100, interval: int = 200) -> Segment:
    disk.mkdir(FOLDER)
    return create_segment(disk, FOLDER, base_offset, interval, NOW_MS)


def reopened(disk: SimDisk, segment: Segment) -> Segment:
    return Segment(disk, FOLDER, segment.base_offset, size=segment.size, index_interval_bytes=200, created_ms=NOW_MS)


def filled(disk: SimDisk, count: int = 40, values: int = 2, gap: int = 0) -> tuple[Segment, list[BatchHeader]]:
    """Batches with rising timestamps, now and then one that is older; with a gap of offsets after each."""
    segment, offset, headers = new_segment(disk), 100, []
    for index in range(count):
        timestamp = NOW_MS + index * 10 - (35 if index % 7 == 6 else 0)
        data = batch(*[b"x" * 30] * values, base_offset=offset, timestamp=timestamp)
        headers.append(parse_header(data))
        segment.append(data, headers[-1:])
        offset = headers[-1].next_offset + gap
    return segment, headers


def test_offset_index_entries_are_kafkas_bytes() -> None:
    disk = new_disk()
    index = OffsetIndex("/data/00000000000000001000.index", 1000)
    index.append(1004, 0)
    index.append(1300, 4200)
    index.save(disk)
    assert disk.read(index.path) == struct.pack(">iiii", 4, 0, 300, 4200)
    index.append(1301, 8400)
    index.save(disk)
    assert disk.read(index.path) == struct.pack(">iiiiii", 4, 0, 300, 4200, 301, 8400)


def test_time_index_entries_are_kafkas_bytes() -> None:
    disk = new_disk()
    index = TimeIndex("/data/00000000000000001000.timeindex", 1000)
    index.maybe_append(NOW_MS, 1004)
    index.maybe_append(NOW_MS - 1, 1005)
    index.maybe_append(NOW_MS + 7, 1300)
    index.save(disk)
    assert disk.read(index.path) == struct.pack(">qiqi", NOW_MS, 4, NOW_MS + 7, 300)
    assert index.last == (NOW_MS + 7, 1300)


@given(st.lists(st.integers(1, 1000), max_size=30, unique=True), st.integers(0, 1100))
def test_a_look_up_finds_the_last_entry_not_behind(steps: list[int], offset: int) -> None:
    offsets = sorted(steps)
    index = OffsetIndex("/data/index", 0)
    for number, each in enumerate(offsets):
        index.append(each, number * 10)
    place = bisect.bisect_right(offsets, offset)
    assert index.lookup(offset) == (place - 1) * 10 * (place > 0)


@given(st.lists(st.integers(0, 100), min_size=1, max_size=30), st.lists(st.integers(0, 100), max_size=3))
def test_saved_indexes_are_loaded_after_any_truncations(offsets: list[int], cuts: list[int]) -> None:
    disk = new_disk()
    index, times = OffsetIndex("/data/index", 0), TimeIndex("/data/timeindex", 0)
    next_offset = 0
    for number, step in enumerate(offsets):
        next_offset += step + 1
        index.append(next_offset, next_offset * 7)
        times.maybe_append(next_offset * 3, next_offset)
        if number % 5 == 4:
            index.save(disk)
            times.save(disk)
            for cut in cuts:
                index.truncate_to(cut * 20)
                times.truncate_to(cut * 20)
            next_offset = max(next_offset if len(index) else 0, 0)
    index.save(disk)
    times.save(disk)
    loaded, loaded_times = OffsetIndex("/data/index", 0), TimeIndex("/data/timeindex", 0)
    loaded.load(disk, 1 << 30)
    loaded_times.load(disk)
    assert len(loaded) == len(index) and loaded_times.last == times.last
    assert all(loaded.lookup(offset) == index.lookup(offset) for offset in range(0, next_offset + 2, 3))


@pytest.mark.parametrize(
    "data",
    [b"1234567", struct.pack(">iiii", 5, 10, 5, 20), struct.pack(">iiii", 5, 10, 6, 10), struct.pack(">ii", 5, 1000),
     bytes(16), struct.pack(">ii", -1, 0)],
    ids=["odd size", "same offset", "same position", "behind the log", "zeros", "negative"],
)  # fmt: skip
def test_a_damaged_offset_index_is_noticed(data: bytes) -> None:
    disk = new_disk()
    disk.write_atomic("/data/index", data)
    with pytest.raises(CorruptIndex):
        OffsetIndex("/data/index", 0).load(disk, 1000)


@pytest.mark.parametrize("data", [b"1" * 11, bytes(24), struct.pack(">qiqi", 5, 1, 6, 1), struct.pack(">qi", 5, -1)])
def test_a_damaged_time_index_is_noticed(data: bytes) -> None:
    disk = new_disk()
    disk.write_atomic("/data/timeindex", data)
    with pytest.raises(CorruptIndex):
        TimeIndex("/data/timeindex", 0).load(disk)


@pytest.mark.parametrize("gap", [0, 3])
def test_every_offset_is_found(gap: int) -> None:
    """Also in a compacted segment, where the next batch behind a gap is the answer."""
    segment, headers = filled(new_disk(), gap=gap)
    for offset in range(95, headers[-1].next_offset + 5):
        wanted = next((header for header in headers if header.last_offset >= offset), None)
        found = segment.find_batch(offset)
        assert (found.header if found else None) == wanted


def test_a_look_up_reads_no_more_than_an_index_interval() -> None:
    disk = new_disk()
    segment, headers = filled(disk, count=200)
    for header in headers:
        before = disk.counts.get("pread", 0)
        segment.find_batch(header.base_offset)
        assert disk.counts["pread"] - before <= 2


@pytest.mark.parametrize(
    "damage",
    [
        lambda disk, segment: disk.remove(segment.path(".index")),
        lambda disk, segment: disk.remove(segment.path(".timeindex")),
        lambda disk, segment: disk.write_atomic(segment.path(".index"), b""),
        lambda disk, segment: disk.write_atomic(segment.path(".index"), bytes(64)),
        lambda disk, segment: disk.flip_bit(segment.path(".index"), 6),
        lambda disk, segment: disk.flip_bit(segment.path(".index"), 7, 3),
        lambda disk, segment: disk.flip_bit(segment.path(".index"), 3, 0),
    ],
    ids=["no index", "no time index", "empty", "zeros", "position far off", "position a bit off", "offset off"],
)
def test_a_missing_or_damaged_index_causes_no_error(damage: object) -> None:
    disk = new_disk()
    segment, headers = filled(disk)
    segment.save_indexes(with_last_timestamp=True)
    assert callable(damage)
    damage(disk, segment)
    again = reopened(disk, segment)
    for header in headers:
        found = again.find_batch(header.base_offset)
        assert found is not None and found.header == header
    assert again.max_timestamp == max(header.max_timestamp for header in headers)
    assert again.next_offset() == headers[-1].next_offset


def test_a_broken_chain_of_batches_is_noticed() -> None:
    disk = new_disk()
    segment, headers = filled(disk)
    segment.save_indexes()
    disk.flip_bit(segment.path(".log"), headers[0].size + 16)
    again = reopened(disk, segment)
    with pytest.raises(CorruptSegment):
        list(again.batches())


def test_the_largest_timestamp_survives_a_reopening() -> None:
    """With its last time index entry, as a clean close leaves it, and without, by a look at the batches behind it."""
    for with_last in (True, False):
        disk = new_disk()
        segment, headers = filled(disk, count=3)
        segment.save_indexes(with_last_timestamp=with_last)
        again = reopened(disk, segment)
        best = max(headers, key=lambda header: header.max_timestamp)
        assert (again.max_timestamp, again.offset_of_max_timestamp) == (best.max_timestamp, best.last_offset)


def test_an_empty_segment_is_as_old_as_its_file() -> None:
    disk = new_disk()
    segment = new_segment(disk)
    disk.modification_times[segment.path(".log")] = 1234
    assert segment.max_timestamp == -1
    assert segment.largest_timestamp == 1234
    assert segment.first_timestamp is None


@pytest.mark.parametrize("position", [0, 1, 17, 39])
def test_truncation_takes_the_batch_that_holds_the_offset(position: int) -> None:
    disk = new_disk()
    segment, headers = filled(disk)
    segment.save_indexes()
    removed = segment.truncate_to(headers[position].last_offset)
    assert removed == sum(header.size for header in headers[position:])
    assert [placed.header for placed in segment.batches()] == headers[:position]
    assert segment.file.size() == segment.size
    assert segment.max_timestamp == max([-1, *[header.max_timestamp for header in headers[:position]]])
    more = batch(base_offset=headers[position].base_offset, timestamp=NOW_MS + 10**6)
    segment.append(more, [parse_header(more)])
    segment.save_indexes()
    again = reopened(disk, segment)
    assert [placed.header for placed in again.batches()] == [*headers[:position], parse_header(more)]
    assert again.max_timestamp == NOW_MS + 10**6


def test_indexes_are_full_before_they_outgrow_their_limit() -> None:
    segment, _ = filled(new_disk(), count=30)
    entries = len(segment.offset_index)
    assert segment.index_room((entries + 1) * 12 + 12) == 1
    assert segment.index_room(entries * 8) <= 0


@pytest.mark.parametrize("next_batch", [{"base_offset": 100}, {"base_offset": 100 + 2**31}], ids=["back", "too far"])
def test_indexes_are_not_rebuilt_from_offsets_that_do_not_follow(next_batch: dict[str, int]) -> None:
    disk = new_disk()
    segment = new_segment(disk, interval=0)
    data = b"".join(bytes(batch(base_offset=offset)) for offset in (100, 101, next_batch["base_offset"]))
    segment.file.pwrite(data, 0)
    again = Segment(disk, FOLDER, 100, size=len(data), index_interval_bytes=0, created_ms=NOW_MS)
    with pytest.raises(CorruptSegment, match=r"cannot follow 101|no batch at"):
        again.rebuild_indexes()
