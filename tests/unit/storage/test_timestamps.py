"""Records without a timestamp (-1) or from before 1970 are stored, indexed, found, kept and recovered as by Kafka."""

import pytest

from kvorum.protocol.batch_header import NO_TIMESTAMP, parse_header
from kvorum.protocol.errors import ErrorCode, KafkaError
from kvorum.protocol.records import Record, build_batch, decode_records, encode_records, rebuilt_batch
from kvorum.storage.log import Log
from kvorum.storage.recovery import OpenOptions
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

GO_ZERO_TIME_MS = -62_135_596_800_000
BEFORE_1970 = [NO_TIMESTAMP, -2, GO_ZERO_TIME_MS, NOW_MS - (2**63 - 1)]
COUNT = 60
INTERVAL = {"index_interval_bytes": 200, "segment_bytes": 100_000}


def appended(log: Log, timestamp: int, how: str) -> Log:
    """Append COUNT batches of one record, which is many index intervals."""
    for index in range(COUNT):
        data = batch(b"x" * 55, timestamp=timestamp)
        match how:
            case "leader":
                log.append_as_leader(data, 0)
            case "run":
                assert len(log.append_run_as_leader([data], 0).base_offsets) == 1
            case _:
                log.append_as_follower(batch(b"x" * 55, timestamp=timestamp, base_offset=index))
    log.high_watermark = log.log_end_offset
    return log


@pytest.mark.parametrize("timestamp", BEFORE_1970)
@pytest.mark.parametrize("how", ["leader", "run", "follower"])
@pytest.mark.parametrize("segment_bytes", [1000, 100_000], ids=["many segments", "one segment"])
def test_they_are_appended_without_end_and_recovered(timestamp: int, how: str, segment_bytes: int) -> None:
    disk = new_disk()
    config = small_config(**INTERVAL | {"segment_bytes": segment_bytes})
    log = appended(open_test_log(disk, config), timestamp, how)
    content = read_all(log)
    log.flush()
    recovered = open_test_log(disk, config)
    assert (recovered.log_end_offset, read_all(recovered)) == (COUNT, content)
    recovered.append_as_leader(batch(timestamp=timestamp), 0)
    recovered.close()
    trusted = open_test_log(disk, config, options=OpenOptions(is_clean=True, recovery_point=COUNT + 1))
    assert trusted.log_end_offset == COUNT + 1
    assert trusted.truncate_to(COUNT // 2)
    trusted.append_as_leader(batch(timestamp=timestamp), 0)
    assert trusted.log_end_offset == COUNT // 2 + 1


@pytest.mark.parametrize("timestamp", BEFORE_1970)
def test_they_have_no_time_index_entries(timestamp: int) -> None:
    disk = new_disk()
    log = appended(open_test_log(disk, small_config(**INTERVAL)), timestamp, "leader")
    log.close()
    assert disk.read(f"{log.folder}/00000000000000000000.timeindex") == b""
    assert len(disk.read(f"{log.folder}/00000000000000000000.index")) > 8 * 10


def test_they_are_not_found_by_time_but_later_records_are() -> None:
    log = appended(open_test_log(new_disk(), small_config()), NO_TIMESTAMP, "leader")
    assert log.offset_for_timestamp(0) is None
    log.append_as_leader(batch(timestamp=NOW_MS), 3)
    assert log.offset_for_timestamp(0) == (NOW_MS, COUNT, 3)
    assert log.offset_of_max_timestamp() == (NOW_MS, COUNT, 3)


def test_the_greatest_timestamp_of_records_without_any_is_that_of_the_first() -> None:
    log = appended(open_test_log(new_disk(), small_config()), NO_TIMESTAMP, "leader")
    assert log.offset_of_max_timestamp() == (NO_TIMESTAMP, 0, 0)


def test_a_batch_from_before_1970_has_no_timestamp() -> None:
    """Kafka's validator begins with -1 when it looks for the greatest timestamp of a batch."""
    log = open_test_log(new_disk())
    info = log.append_as_leader(batch(timestamp=GO_ZERO_TIME_MS), 0)
    assert info.max_timestamp == NO_TIMESTAMP
    assert log.offset_of_max_timestamp() is None
    assert decode_records(memoryview(read_all(log)))[0].timestamp == GO_ZERO_TIME_MS


def test_retention_goes_by_the_file_where_records_have_no_time() -> None:
    clock = StillClock()
    disk = new_disk()
    log = appended(open_test_log(disk, small_config(retention_ms=10_000), clock=clock), NO_TIMESTAMP, "leader")
    written_ms = disk.modified_ms(f"{log.folder}/00000000000000000000.log")
    segments = log.segment_count
    assert segments > 3
    assert log.delete_old_segments(written_ms + 10_000) == 0
    assert log.delete_old_segments(written_ms + 20_000) == segments
    assert log.log_start_offset == COUNT


def test_log_append_time_gives_them_a_time() -> None:
    log = open_test_log(new_disk(), small_config(message_timestamp_type="LogAppendTime"))
    appended(log, NO_TIMESTAMP, "leader")
    assert log.offset_for_timestamp(NOW_MS) == (NOW_MS, 0, 0)


def test_log_append_time_takes_timestamps_beyond_int64() -> None:
    """The timestamps of the records count for nothing then; a rebuilt batch must still be encodable."""
    log = open_test_log(new_disk(), small_config(message_timestamp_type="LogAppendTime", compression_type="gzip"))
    records = [Record(b"v", b"k", 5), Record(b"v", b"k", -5)]
    header = parse_header(build_batch(records)).replaced(base_timestamp=2**63 - 1, max_timestamp=0)
    sent = rebuilt_batch(header, encode_records(records, base_timestamp=0))
    info = log.append_as_leader(memoryview(sent), 0)
    assert info.log_append_time_ms == NOW_MS
    assert log.offset_for_timestamp(NOW_MS) == (NOW_MS, 0, 0)


def test_a_producer_without_timestamps_is_still_idempotent() -> None:
    disk = new_disk()
    log = open_test_log(disk)
    for sequence in range(5):
        log.append_as_leader(idempotent(sequence, timestamp=NO_TIMESTAMP), 0)
    assert log.append_as_leader(idempotent(4, timestamp=NO_TIMESTAMP), 0).is_duplicate
    with pytest.raises(KafkaError) as failed:
        log.append_as_leader(idempotent(9, timestamp=NO_TIMESTAMP), 0)
    assert failed.value.code is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_a_fetched_batch_may_be_further_ahead_than_a_segment_reaches() -> None:
    """Compaction leaves such gaps: each side of one fetch goes to a segment of its own."""
    disk = new_disk()
    log = open_test_log(disk, small_config(segment_bytes=10**6, index_interval_bytes=0))
    far = [0, 1, 2**31 + 5, 2**31 + 6, 2**33]
    fetched = b"".join(bytes(batch(base_offset=offset, partition_leader_epoch=0)) for offset in far)
    log.append_as_follower(memoryview(fetched))
    assert (log.segment_count, log.log_end_offset) == (3, 2**33 + 1)
    log.flush()
    options = OpenOptions(recovery_point=2**33 + 1)
    compacted = small_config(cleanup_policy=frozenset({"compact"}))
    assert open_test_log(disk, compacted, options=options).log_end_offset == 2**33 + 1
