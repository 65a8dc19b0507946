"""A log's own rules: rolling, reading, offsets, retention, idempotence, configuration, a failing disk."""

import errno

import pytest

from kvorum.protocol.batch_header import parse_header
from kvorum.protocol.errors import ErrorCode, KafkaError
from kvorum.protocol.parts import FileSlice
from kvorum.protocol.records import Record, build_batch, decode_records
from kvorum.storage.log_config import LogConfig
from kvorum.storage.producer_state import Origin
from kvorum.storage.recovery import OpenOptions, open_log
from tests.unit.storage.kit import (
    FOLDER,
    NOW_MS,
    PARTITION,
    StillClock,
    batch,
    filled,
    idempotent,
    joined,
    new_disk,
    open_test_log,
    read_all,
    small_config,
)

DAY_MS = 86_400_000


def code_of(action: object, *arguments: object) -> ErrorCode:
    assert callable(action)
    with pytest.raises(KafkaError) as raised:
        action(*arguments)
    return raised.value.code


def test_offsets_are_assigned_in_order_and_returned() -> None:
    log = open_test_log(new_disk())
    first = log.append_as_leader(batch(b"a", b"b", b"c"), 3)
    second = log.append_as_leader(batch(b"d", timestamp=NOW_MS + 5), 3)
    assert (first.first_offset, first.last_offset, first.records_count) == (0, 2, 3)
    assert (second.first_offset, second.last_offset, second.max_timestamp) == (3, 3, NOW_MS + 5)
    data = memoryview(read_all(log))
    assert parse_header(data).partition_leader_epoch == 3
    assert [record.offset for record in decode_records(data)] == [0, 1, 2]
    assert log.latest_epoch == 3


def test_segments_roll_by_size() -> None:
    log = filled()
    assert log.segment_count == 5
    assert log.size == len(read_all(log))


def test_segments_roll_by_time_of_their_records() -> None:
    log = open_test_log(new_disk(), small_config(segment_bytes=10**6, segment_ms=1000))
    for timestamp in (0, 500, 1000, 1001, 1500, 2001, 2002):
        log.append_as_leader(batch(timestamp=NOW_MS + timestamp), 0)
    assert log.segment_count == 3


def test_segments_roll_by_the_clock_where_records_have_no_time() -> None:
    clock = StillClock()
    log = open_test_log(new_disk(), small_config(segment_bytes=10**6, segment_ms=1000), clock=clock)
    for _ in range(3):
        log.append_as_leader(batch(timestamp=-1), 0)
        clock.now_ms += 600
    assert log.segment_count == 2


def test_jitter_rolls_earlier_and_each_log_at_its_own_time() -> None:
    def count_until_roll(folder: str) -> int:
        config = small_config(segment_bytes=10**6, segment_ms=10_000, segment_jitter_ms=9_000)
        log = open_log(new_disk(), folder, PARTITION, config, StillClock())
        timestamp = NOW_MS
        while log.segment_count == 1:
            log.append_as_leader(batch(timestamp=timestamp), 0)
            timestamp += 100
        return timestamp - NOW_MS

    rolls = {count_until_roll(f"/data/topic-{number}") for number in range(20)}
    assert max(rolls) <= 10_200 and min(rolls) >= 1000
    assert len(rolls) > 10


def test_segments_roll_when_an_index_is_full() -> None:
    log = open_test_log(new_disk(), small_config(segment_bytes=10**6, segment_index_bytes=80, index_interval_bytes=0))
    for _ in range(40):
        log.append_as_leader(batch(), 0)
    assert log.segment_count > 3


@pytest.mark.parametrize("index_bytes", [4, 8, 12, 23, 24, 36])
@pytest.mark.parametrize("interval", [0, 4096])
def test_the_smallest_indexes_take_any_number_of_batches(index_bytes: int, interval: int) -> None:
    """As in Kafka 4.3.0, an index without room for an entry only means that a segment has one batch."""
    disk = new_disk()
    config = small_config(segment_bytes=10**6, segment_index_bytes=index_bytes, index_interval_bytes=interval)
    log = open_test_log(disk, config)
    for _ in range(5):
        log.append_as_leader(batch(), 0)
    log.append_run_as_leader([batch() for _ in range(5)], 0)
    fetched = b"".join(bytes(batch(base_offset=offset, partition_leader_epoch=0)) for offset in range(10, 15))
    log.append_as_follower(memoryview(fetched))
    log.roll()
    log.roll()
    if index_bytes < 24:
        assert log.segment_count == 12  # what is fetched goes to one segment
    content = read_all(log)
    log.close()
    again = open_test_log(disk, config)
    assert (again.log_end_offset, read_all(again)) == (15, content)
    assert again.truncate_to(3)
    again.append_as_leader(batch(), 0)
    assert again.log_end_offset == 4


def test_segments_roll_before_an_offset_no_longer_fits_an_index() -> None:
    log = open_test_log(new_disk(), small_config(segment_bytes=10**6))
    far = 2**31 + 50
    log.append_as_follower(batch(partition_leader_epoch=0))
    log.append_as_follower(batch(base_offset=far, partition_leader_epoch=0))
    assert log.segment_count == 2
    assert log.log_end_offset == far + 1
    assert parse_header(joined(log.read(5, 1000).parts)).base_offset == far


def test_an_empty_log_moves_to_where_its_first_batch_is() -> None:
    disk = new_disk()
    log = open_test_log(disk)
    log.append_as_follower(batch(base_offset=2**40, partition_leader_epoch=0))
    assert log.segment_count == 1
    assert joined(log.read(0, 1000).parts)
    again = open_test_log(disk)
    assert (again.log_start_offset, again.log_end_offset) == (2**40, 2**40 + 1)


def test_reading_outside_the_log_is_out_of_range() -> None:
    log = filled()
    log.maybe_increment_log_start_offset(5)
    for offset in (-1, 4, 31, 2**60):
        assert code_of(log.read, offset, 100) is ErrorCode.OFFSET_OUT_OF_RANGE
    assert log.read(30, 100).size == 0


def test_a_read_in_the_middle_of_a_batch_returns_the_whole_batch() -> None:
    log = open_test_log(new_disk())
    log.append_as_leader(batch(b"a", b"b", b"c"), 0)
    data = joined(log.read(1, 1).parts)
    assert [record.value for record in decode_records(memoryview(data))] == [b"a", b"b", b"c"]
    assert log.read(1, 1, min_one_message=False).size == 0
    assert log.read(1, 1000, 2).size == 0


def test_reads_at_the_end_need_no_disk_and_others_are_slices() -> None:
    disk = new_disk()
    log = open_test_log(disk, small_config(segment_bytes=10**7))
    for _ in range(400):
        log.append_as_leader(batch(b"x" * 100), 0)
    reads = disk.counts.get("pread", 0)
    tail = log.read(390, 10**6)
    assert disk.counts.get("pread", 0) == reads
    assert not any(isinstance(part, FileSlice) for part in tail.parts)
    [head] = log.read(0, 10**6).parts
    assert isinstance(head, FileSlice)
    assert joined([head]).endswith(joined(tail.parts))


def test_the_log_start_never_passes_the_high_watermark() -> None:
    log = filled()
    log.high_watermark = 10
    assert code_of(log.maybe_increment_log_start_offset, 11) is ErrorCode.OFFSET_OUT_OF_RANGE
    assert log.maybe_increment_log_start_offset(10)
    assert not log.maybe_increment_log_start_offset(9)
    assert log.starts_within_segment


def test_the_high_watermark_stays_within_the_log() -> None:
    log = filled()
    log.high_watermark = 99
    assert log.high_watermark == 30
    log.truncate_to(20)
    assert log.high_watermark == 20
    log.maybe_increment_log_start_offset(5)
    log.high_watermark = 0
    assert log.high_watermark == 5


@pytest.mark.parametrize(
    ("config", "start", "high_watermark", "left"),
    [
        ({"retention_ms": -1}, 0, 30, 5),
        ({"retention_ms": -1, "retention_bytes": 2000}, 0, 30, 3),
        ({"retention_ms": -1, "retention_bytes": 2000}, 0, 10, 4),
        ({"retention_ms": -1, "retention_bytes": 0}, 0, 30, 1),
        ({"retention_ms": 150}, 0, 30, 3),
        ({"retention_ms": 0}, 0, 30, 1),
        ({"retention_ms": 0}, 0, 0, 5),
        ({"retention_ms": -1}, 15, 30, 3),
        ({"retention_ms": -1}, 30, 30, 1),
        ({"retention_ms": 0, "cleanup_policy": frozenset({"compact"})}, 0, 30, 5),
        ({"retention_ms": 0, "cleanup_policy": frozenset({"compact", "delete"})}, 0, 30, 1),
        ({"retention_ms": 0, "cleanup_policy": frozenset({"compact"})}, 15, 30, 3),
    ],
)
def test_retention(config: dict[str, object], start: int, high_watermark: int, left: int) -> None:
    """Thirty batches, seven to a segment, at NOW to NOW + 290; the clock says NOW + 300."""
    log = filled(**config)
    log.high_watermark = high_watermark
    log.maybe_increment_log_start_offset(start)
    before = log.segment_count
    assert log.delete_old_segments(NOW_MS + 300) == before - left + (left == 1 and start != 30)
    assert log.segment_count == left
    assert log.log_end_offset == 30
    assert log.log_start_offset <= log.high_watermark


def test_deleted_files_stay_readable_for_a_while() -> None:
    disk = new_disk()
    filled(disk=disk)
    log = open_test_log(disk, small_config(retention_ms=0))
    log.high_watermark = log.log_end_offset
    [head] = log.read(0, 10**6).parts
    assert isinstance(head, FileSlice)
    log.delete_old_segments(NOW_MS + 10**9)
    assert joined([head])
    assert [name for name in disk.listdir(FOLDER) if name.endswith(".log.deleted")]
    assert not log.retention.has_deleted_files(NOW_MS + 10**9 + 59_999)
    log.flush()
    log.purge_deleted(NOW_MS + 10**9 + 60_000)
    assert not [name for name in disk.listdir(FOLDER) if name.endswith(".deleted")]


def test_a_duplicate_writes_nothing_and_gets_its_first_answer() -> None:
    log = open_test_log(new_disk())
    for sequence in (0, 2, 4):
        log.append_as_leader(idempotent(sequence, 2), 0)
    again = log.append_as_leader(idempotent(2, 2), 0)
    assert (again.first_offset, again.last_offset, again.is_duplicate) == (2, 3, True)
    assert again.log_append_time_ms == NOW_MS
    assert log.log_end_offset == 6


def test_producers_are_judged() -> None:
    log = open_test_log(new_disk())
    log.append_as_leader(idempotent(0, epoch=1), 0)
    assert code_of(log.append_as_leader, idempotent(5, epoch=1), 0) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert code_of(log.append_as_leader, idempotent(1, epoch=0), 0) is ErrorCode.INVALID_PRODUCER_EPOCH
    assert log.log_end_offset == 1


def test_a_retry_after_leadership_moved_is_a_duplicate_there_too() -> None:
    """The follower that has replicated the batch recognises it when it leads."""
    log = open_test_log(new_disk())
    log.append_as_follower(idempotent(0, 3, partition_leader_epoch=4))
    again = log.append_as_leader(idempotent(0, 3), 5)
    assert (again.first_offset, again.is_duplicate) == (0, True)


def test_a_truncated_batch_may_be_sent_again() -> None:
    log = open_test_log(new_disk())
    for sequence in range(6):
        log.append_as_leader(idempotent(sequence), 0)
    log.truncate_to(3)
    assert code_of(log.append_as_leader, idempotent(4), 1) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert log.append_as_leader(idempotent(3), 1).first_offset == 3


def marker(commit: bool, offset: int = 0) -> memoryview:
    record = Record((0).to_bytes(2, "big") + (3).to_bytes(4, "big"), bytes([0, 0, 0, commit]), NOW_MS)
    return memoryview(build_batch([record], is_control=True, is_transactional=True, producer_id=7, producer_epoch=0,
                                  base_offset=offset))  # fmt: skip


def test_an_open_transaction_holds_the_last_stable_offset_back() -> None:
    disk = new_disk()
    log = open_test_log(disk)
    log.append_as_leader(batch(), 0)
    log.append_as_leader(idempotent(0, is_transactional=True), 0, guard=log.begin_verification(7, 0, 0))
    log.append_as_leader(batch(), 0)
    log.high_watermark = 3
    assert log.last_stable_offset == 1
    log.append_as_leader(marker(True), 0, origin=Origin.COORDINATOR)
    log.high_watermark = 3
    assert log.last_stable_offset == 1
    log.high_watermark = 4
    assert log.last_stable_offset == 4
    assert open_test_log(disk).producer_state.first_undecided_offset is None
    log.truncate_to(3)
    log.high_watermark = 3
    assert log.last_stable_offset == 1


def test_log_append_time_is_answered() -> None:
    clock = StillClock(NOW_MS + 77)
    log = open_test_log(new_disk(), small_config(message_timestamp_type="LogAppendTime"), clock=clock)
    assert log.append_as_leader(idempotent(0, timestamp=5), 0).log_append_time_ms == NOW_MS + 77
    clock.now_ms += 10
    assert log.append_as_leader(idempotent(0, timestamp=5), 0).log_append_time_ms == NOW_MS + 77
    assert log.offset_of_max_timestamp() == (NOW_MS + 77, 0, 0)


def test_configuration_takes_effect_at_once() -> None:
    log = open_test_log(new_disk())
    log.append_as_leader(batch(b"x" * 100), 0)
    log.config = small_config(max_message_bytes=100)
    assert code_of(log.append_as_leader, batch(b"x" * 100), 0) is ErrorCode.MESSAGE_TOO_LARGE


@pytest.mark.parametrize("operation", ["pwrite", "open"])
def test_a_failed_write_gives_the_log_up(operation: str) -> None:
    failures: list[Exception] = []
    disk = new_disk()
    log = open_test_log(disk, options=OpenOptions(on_io_error=failures.append))
    while log.size + 130 < 1000:
        log.append_as_leader(batch(b"x" * 55), 0)
    end_offset = log.log_end_offset
    disk.fail(operation, errno.ENOSPC)
    with pytest.raises(KafkaError, match="KAFKA_STORAGE_ERROR") as raised:
        log.append_as_leader(batch(b"x" * 400), 0)
    assert len(failures) == 1
    assert raised.value.__cause__ is failures[0], "a controller could not tell a full disk from a broken invariant"
    more = batch(base_offset=end_offset)
    for action in (
        lambda: log.append_as_leader(batch(), 0),
        lambda: log.append_as_follower(more),
        lambda: log.read(0, 100),
        lambda: log.truncate_to(0),
        log.flush,
        log.roll,
    ):
        assert code_of(action) is ErrorCode.KAFKA_STORAGE_ERROR
    assert len(failures) == 1
    assert open_test_log(disk).log_end_offset == end_offset


def test_a_failed_sync_is_never_tried_again() -> None:
    disk = new_disk()
    log = open_test_log(disk)
    log.append_as_leader(batch(), 0)
    disk.fail("sync")
    assert code_of(log.flush) is ErrorCode.KAFKA_STORAGE_ERROR
    syncs = disk.counts["sync"]
    assert code_of(log.flush) is ErrorCode.KAFKA_STORAGE_ERROR
    assert (disk.counts["sync"], log.recovery_point) == (syncs, 0)


def test_a_refused_batch_leaves_no_trace() -> None:
    disk = new_disk()
    log = open_test_log(disk)
    log.append_as_leader(batch(), 0)
    before = (disk.bytes_written, log.epoch_cache.entries, log.producer_state.end_offset)
    broken = bytearray(idempotent(0))
    broken[70] ^= 1
    assert code_of(log.append_as_leader, memoryview(broken), 5) is ErrorCode.CORRUPT_MESSAGE
    bad_crc = bytearray(batch(base_offset=1))
    bad_crc[70] ^= 1
    assert code_of(log.append_as_follower, memoryview(bad_crc)) is ErrorCode.CORRUPT_MESSAGE
    assert (disk.bytes_written, log.epoch_cache.entries, log.producer_state.end_offset) == before


def test_expired_producers_are_forgotten() -> None:
    log = open_test_log(new_disk())
    log.append_as_leader(idempotent(0), 0)
    log.producers.expire(NOW_MS + DAY_MS - 1)
    assert log.producer_state.producers
    log.producers.expire(NOW_MS + DAY_MS)
    assert log.append_as_leader(idempotent(77), 0).first_offset == 1


def test_timestamps_are_found_across_segments() -> None:
    log = filled()
    for index in range(30):
        found = log.offset_for_timestamp(NOW_MS + index * 10 - 9)
        assert found == (NOW_MS + index * 10, index, 0)
    assert log.offset_for_timestamp(NOW_MS + 291) is None
    assert log.offset_of_max_timestamp() == (NOW_MS + 290, 29, 0)
    log.maybe_increment_log_start_offset(12)
    assert log.offset_for_timestamp(0) == (NOW_MS + 120, 12, 0)
    assert open_test_log(new_disk()).offset_of_max_timestamp() is None


def test_default_configuration_is_kafkas() -> None:
    assert LogConfig.from_overrides({}) == LogConfig()
