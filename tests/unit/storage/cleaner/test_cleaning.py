"""What a cleaning leaves of a log, case by case (KIP-58, KIP-534; Kafka's LogCleanerTest)."""

import errno

import pytest

from kvorum.protocol.batch_header import BatchHeader, parse_header
from kvorum.protocol.compression import Codec
from kvorum.protocol.records import Record, batches, build_batch, decode_records
from kvorum.storage.cleaner.batch_filter import BatchFilter
from kvorum.storage.cleaner.offset_map import SECRET_SIZE, SLOT_SIZE, OffsetMap
from kvorum.storage.cleaner.transactions import CleanedTransactions
from kvorum.storage.log import Log
from kvorum.storage.log_config import INT64_MAX, LogConfig
from kvorum.storage.log_read import SEGMENTS_PER_READ_MAX
from kvorum.storage.recovery import OpenOptions, open_log
from tests.unit.storage.cleaner.kit import (
    FOLDER,
    KEYS_MAX,
    PARTITION,
    Broker,
    compacted,
    end_transaction,
    names,
    offsets_of,
    put,
    records_of,
    values_of,
)
from tests.unit.storage.kit import NOW_MS, joined, read_all

A, B, C = b"a", b"b", b"c"


def headers_of(log: Log) -> list[BatchHeader]:
    return [header for _, header in batches(memoryview(read_all(log)))]


def test_the_last_record_of_each_key_stays_where_it_was() -> None:
    broker = Broker()
    for number in range(60):
        put(broker.log, (b"k%d" % (number % 7), b"v%d" % number), timestamp=NOW_MS + number)
    broker.settle()
    before = records_of(broker.log)
    assert broker.clean()
    assert records_of(broker.log) == before[-7:]
    assert broker.log.log_end_offset == 60


def test_records_in_the_active_segment_stay() -> None:
    broker = Broker()
    put(broker.log, (A, b"1"))
    broker.settle()
    put(broker.log, (A, b"2"), (A, b"3"))
    broker.log.high_watermark = 3
    broker.clean()
    assert offsets_of(broker.log) == [0, 1, 2]


def test_nothing_behind_the_high_watermark_is_cleaned_or_cleans() -> None:
    broker = Broker()
    put(broker.log, (A, b"1"), (B, b"1"))
    broker.log.roll()
    put(broker.log, (A, b"2"))
    broker.log.roll()
    put(broker.log, (B, b"2"))
    broker.log.roll()
    broker.log.high_watermark = 3
    assert broker.clean()
    assert offsets_of(broker.log) == [1, 2, 3]
    broker.log.high_watermark = 4
    assert broker.clean()
    assert offsets_of(broker.log) == [2, 3]


def test_segments_that_are_not_synced_wait() -> None:
    """Else a power cut could lose the record that made an earlier one go."""
    broker = Broker()
    put(broker.log, (A, b"1"))
    broker.settle()
    put(broker.log, (A, b"2"))
    broker.settle()
    assert not broker.loop.run_until_complete(broker.cleaner.clean_dirtiest())
    assert broker.clean()
    assert offsets_of(broker.log) == [1]


def test_small_segments_become_one() -> None:
    broker = Broker(compacted(segment_bytes=2000))
    for number in range(10):
        put(broker.log, (b"k%d" % number, b"v"))
        broker.settle()
    assert broker.log.segment_count == 11
    assert broker.clean()
    assert broker.log.segment_count == 2
    assert offsets_of(broker.log) == list(range(10))


@pytest.mark.parametrize("codec", list(Codec))
def test_a_batch_that_loses_records_keeps_all_else(codec: Codec) -> None:
    broker = Broker(compacted(segment_bytes=10_000))
    records = [
        Record(b"v%d" % number, key, NOW_MS + number * 1000, (("h", b"x" * 70), ("n", None)))
        for number, key in enumerate([A, B, A, C, b"x" * 200])
    ]
    batch = build_batch(records, codec=codec, base_offset=0, partition_leader_epoch=4, producer_id=9,
                        producer_epoch=2, base_sequence=17)  # fmt: skip
    broker.log.append_as_follower(memoryview(batch))
    put(broker.log, (b"x" * 200, b"later"))
    broker.settle()
    assert broker.clean()
    data = memoryview(read_all(broker.log))
    (first, header), *_ = batches(data)
    assert decode_records(data, first) == [
        Record(record.value, record.key, record.timestamp, record.headers, number)
        for number, record in enumerate(records)
        if number in (1, 2, 3)
    ]
    assert (header.base_offset, header.last_offset, header.partition_leader_epoch) == (0, 4, 4)
    assert (header.producer_id, header.producer_epoch, header.base_sequence, header.last_sequence) == (9, 2, 17, 21)
    assert (header.codec_id, header.max_timestamp, header.records_count) == (codec, NOW_MS + 3000, 3)


@pytest.mark.parametrize("codec", list(Codec))
def test_a_batch_that_loses_nothing_keeps_its_bytes(codec: Codec) -> None:
    broker = Broker(compacted(segment_bytes=10_000))
    put(broker.log, *[(b"k%d" % number, b"v" * 50) for number in range(20)], codec=codec)
    broker.settle()
    before = read_all(broker.log)
    assert broker.clean()
    assert read_all(broker.log) == before


def test_log_append_time_stays() -> None:
    broker = Broker(compacted(message_timestamp_type="LogAppendTime"))
    put(broker.log, (A, b"1"), (B, None), (A, b"2"), timestamp=5, log_append_time_ms=NOW_MS)
    put(broker.log, (C, b"1"), timestamp=6, log_append_time_ms=NOW_MS + 1)
    broker.settle()
    assert broker.clean()
    assert [(record.offset, record.timestamp) for record in records_of(broker.log)] == [
        (1, NOW_MS), (2, NOW_MS), (3, NOW_MS + 1)
    ]  # fmt: skip


def test_a_record_without_a_key_goes() -> None:
    """The topic was not compacted when it came."""
    broker = Broker()
    put(broker.log, (None, b"1"), (A, b"1"))
    put(broker.log, (None, b"2"))
    broker.settle()
    assert broker.clean()
    assert offsets_of(broker.log) == [1]


# Tombstones


def test_a_tombstone_stays_until_its_horizon_and_no_longer() -> None:
    broker = Broker(compacted(delete_retention_ms=1000))
    put(broker.log, (A, b"1"), (B, b"1"))
    put(broker.log, (A, None), timestamp=NOW_MS - 77)
    broker.settle()
    assert broker.clean()
    assert [tuple(record) for record in records_of(broker.log)] == [
        (1, B, b"1", NOW_MS), (2, A, None, NOW_MS - 77)
    ]  # fmt: skip
    assert [header.delete_horizon_ms for header in headers_of(broker.log)] == [None, NOW_MS + 1000]
    for later_ms, is_left in ((999, True), (1, False)):
        broker.clock.now_ms += later_ms
        put(broker.log, (C, b"%d" % later_ms))
        broker.settle()
        assert broker.clean()
        assert (A in values_of(broker.log)) is is_left
        assert headers_of(broker.log)[0].delete_horizon_ms is None
    assert values_of(broker.log) == {B: b"1", C: b"1"}


def test_a_tombstone_that_is_to_stay_for_ever_gets_no_horizon() -> None:
    """`delete.retention.ms` may be as large as a number gets: now and that is a time that no batch can say."""
    broker = Broker(compacted(delete_retention_ms=INT64_MAX))
    put(broker.log, (A, b"1"), (B, b"1"))
    put(broker.log, (A, None), timestamp=NOW_MS - 77)
    broker.settle()
    assert broker.clean()
    assert [tuple(record) for record in records_of(broker.log)] == [
        (1, B, b"1", NOW_MS), (2, A, None, NOW_MS - 77)
    ]  # fmt: skip
    assert [header.delete_horizon_ms for header in headers_of(broker.log)] == [None, None]


@pytest.mark.parametrize("timestamp", [-1, -2, -62_135_596_800_000, NOW_MS - INT64_MAX])
def test_records_without_a_time_or_from_before_1970_are_compacted(timestamp: int) -> None:
    """The delta from a horizon to the least timestamp is no int64: such a batch gets none."""
    broker = Broker(compacted(delete_retention_ms=1000, segment_bytes=10_000, index_interval_bytes=0))
    for number in range(20):
        put(broker.log, (A, b"%d" % number), (B, b"%d" % number), timestamp=timestamp)
    put(broker.log, (A, None), (B, b"last"), timestamp=timestamp)
    broker.settle()
    assert broker.clean()
    assert [tuple(record) for record in records_of(broker.log)] == [
        (40, A, None, timestamp), (41, B, b"last", timestamp)
    ]  # fmt: skip
    expected = None if timestamp == NOW_MS - INT64_MAX else NOW_MS + 1000
    assert [(each.max_timestamp, each.delete_horizon_ms) for each in headers_of(broker.log)] == [(-1, expected)]
    put(broker.log, (B, b"newer"), timestamp=timestamp)
    broker.settle()
    assert broker.clean()
    assert [tuple(record)[1:] for record in records_of(broker.log)] == [
        (A, None, timestamp), (B, b"newer", timestamp)
    ]  # fmt: skip


def test_the_horizon_of_a_batch_is_set_once() -> None:
    broker = Broker(compacted(delete_retention_ms=1000, segment_bytes=10_000))
    put(broker.log, (A, None), (B, b"1"))
    put(broker.log, (C, b"1"))
    broker.settle()
    assert broker.clean()
    broker.clock.now_ms += 500
    put(broker.log, (B, b"2"))
    broker.settle()
    assert broker.clean()
    first, *_ = headers_of(broker.log)
    assert (first.delete_horizon_ms, first.records_count) == (NOW_MS + 1000, 1)
    assert records_of(broker.log)[0] == (0, A, None, NOW_MS)


def test_a_tombstone_deletes_records_even_of_the_clean_part() -> None:
    broker = Broker(compacted(delete_retention_ms=0))
    put(broker.log, (A, b"1"), (B, b"1"))
    broker.settle()
    assert broker.clean()
    put(broker.log, (A, None))
    broker.settle()
    assert broker.clean()
    assert values_of(broker.log) == {B: b"1", A: None}
    put(broker.log, (C, b"1"))
    broker.settle()
    assert broker.clean()
    assert values_of(broker.log) == {B: b"1", C: b"1"}


# Producers


def producer(sequence: int, producer_id: int = 5, epoch: int = 0, **fields: object) -> dict[str, object]:
    return {"producer_id": producer_id, "producer_epoch": epoch, "base_sequence": sequence, **fields}


def test_the_last_batch_of_a_producer_stays_as_a_header() -> None:
    broker = Broker()
    for sequence in range(3):
        put(broker.log, (A, b"%d" % sequence), **producer(sequence))
    put(broker.log, (A, b"other"))
    broker.settle()
    assert broker.clean()
    assert offsets_of(broker.log) == [3]
    empty = headers_of(broker.log)[0]
    assert (empty.base_offset, empty.producer_id, empty.last_sequence, empty.records_count) == (2, 5, 2, 0)
    assert (empty.base_timestamp, empty.max_timestamp, empty.codec_id) == (-1, NOW_MS, 0)
    broker.disk.remove(f"{FOLDER}/00000000000000000004.snapshot")
    broker.kill()
    assert broker.log.producer_state.producers[5].last_sequence == 2


def test_the_batch_goes_once_the_producer_is_forgotten() -> None:
    broker = Broker()
    put(broker.log, (A, b"1"), **producer(0))
    put(broker.log, (A, b"2"))
    broker.settle()
    assert broker.clean()
    assert headers_of(broker.log)[0].producer_id == 5
    broker.log.producers.expire(NOW_MS + 10**9)
    put(broker.log, (B, b"1"))
    broker.settle()
    assert broker.clean()
    assert not any(header.has_producer_id for header in headers_of(broker.log))


# Transactions


def transaction(sequence: int, producer_id: int = 5) -> dict[str, object]:
    return producer(sequence, producer_id, is_transactional=True)


def test_aborted_records_go_and_delete_nothing() -> None:
    broker = Broker()
    put(broker.log, (A, b"committed"))
    put(broker.log, (A, b"aborted"), (B, b"aborted"), **transaction(0))
    end_transaction(broker.log, 5, is_commit=False)
    put(broker.log, (B, b"1"), **transaction(2))
    end_transaction(broker.log, 5, is_commit=True)
    broker.settle()
    assert broker.clean()
    assert values_of(broker.log) == {A: b"committed", B: b"1"}


def test_nothing_of_an_open_transaction_or_behind_it_is_cleaned() -> None:
    broker = Broker()
    put(broker.log, (A, b"1"))
    broker.settle()
    put(broker.log, (A, b"2"), **transaction(0))
    broker.settle()
    put(broker.log, (A, b"3"))
    broker.settle()
    broker.clean()
    assert offsets_of(broker.log) == [0, 1, 2]
    end_transaction(broker.log, 5, is_commit=True)
    broker.settle()
    assert broker.clean()
    assert offsets_of(broker.log) == [2]


def test_a_transaction_whose_marker_is_not_synced_supersedes_nothing_yet() -> None:
    """A power cut may take the marker, and what it committed may be aborted instead."""
    broker = Broker()
    put(broker.log, (A, b"old"))
    put(broker.log, (A, b"new"), **transaction(0))
    broker.settle()
    end_transaction(broker.log, 5, is_commit=True)
    broker.log.high_watermark = 3
    assert not broker.clean()
    broker.lose_power()
    assert offsets_of(broker.log) == [0, 1]
    end_transaction(broker.log, 5, is_commit=False)
    broker.settle()
    assert broker.clean()
    assert values_of(broker.log) == {A: b"old"}


def test_a_transaction_whose_marker_is_synced_supersedes() -> None:
    broker = Broker()
    put(broker.log, (A, b"old"))
    put(broker.log, (A, b"new"), **transaction(0))
    broker.settle()
    end_transaction(broker.log, 5, is_commit=True)
    broker.log.high_watermark = 3
    broker.log.flush()
    assert broker.clean()
    assert values_of(broker.log) == {A: b"new"}


def test_a_marker_that_was_cut_off_holds_nothing_up() -> None:
    broker = Broker()
    put(broker.log, (A, b"1"), **transaction(0))
    broker.log.roll()
    end_transaction(broker.log, 5, is_commit=True)
    broker.log.truncate_to(1)
    end_transaction(broker.log, 5, is_commit=True)
    put(broker.log, (A, b"2"))
    broker.settle()
    assert broker.clean()
    assert values_of(broker.log) == {A: b"2"}


def test_a_marker_stays_as_long_as_its_records_and_a_horizon_longer() -> None:
    broker = Broker(compacted(delete_retention_ms=1000, segment_bytes=10_000))
    put(broker.log, (A, b"1"), **transaction(0))
    end_transaction(broker.log, 5, is_commit=True)
    put(broker.log, (B, b"1"), **transaction(1))
    end_transaction(broker.log, 5, is_commit=True)
    broker.settle()
    assert broker.clean()

    def markers() -> list[tuple[int, int | None]]:
        return [(h.base_offset, h.delete_horizon_ms) for h in headers_of(broker.log) if h.is_control]

    assert markers() == [(1, None), (3, None)]
    put(broker.log, (A, b"2"))
    broker.settle()
    assert broker.clean()
    assert markers() == [(1, None), (3, None)], "the batch was still there when the marker was reached"
    put(broker.log, (C, b"1"))
    broker.settle()
    assert broker.clean()
    assert markers() == [(1, NOW_MS + 1000), (3, None)]
    broker.clock.now_ms += 1000
    put(broker.log, (C, b"2"))
    broker.settle()
    assert broker.clean()
    assert markers() == [(3, None)]


def test_the_index_of_aborted_transactions_lasts_as_long_as_their_batches() -> None:
    broker = Broker(compacted(delete_retention_ms=1000, segment_bytes=10_000))
    put(broker.log, (A, b"aborted"), **transaction(0))
    marker = end_transaction(broker.log, 5, is_commit=False)
    put(broker.log, (B, b"1"))
    broker.settle()
    assert broker.clean()
    assert broker.log.cleaning.collect_aborted(0, 9) == [(5, 0, marker, marker + 1)]
    assert headers_of(broker.log)[0].records_count == 0, "the last batch of its producer"
    broker.log.producers.expire(NOW_MS + 10**9)
    for number in range(2):
        put(broker.log, (C, b"%d" % number))
        broker.settle()
        assert broker.clean()
    assert broker.log.cleaning.collect_aborted(0, 9) == []
    assert values_of(broker.log) == {B: b"1", C: b"1"}


def test_the_last_marker_of_a_producer_without_batches_keeps_its_epoch() -> None:
    broker = Broker(compacted(delete_retention_ms=0, segment_bytes=10_000))
    end_transaction(broker.log, 5, is_commit=False, epoch=3)
    put(broker.log, (A, b"1"))
    for number in range(3):
        broker.settle()
        assert broker.clean()
        put(broker.log, (B, b"%d" % number))
    kept = [header for header in headers_of(broker.log) if header.is_control]
    assert [(header.producer_epoch, header.records_count) for header in kept] == [(3, 0)]


# Where a cleaning ends


def test_records_beyond_the_map_stay() -> None:
    """A tombstone whose horizon is past, too: what it deletes may lie behind the map as well, and would be back."""
    offset_map = OffsetMap(KEYS_MAX * SLOT_SIZE, bytes(SECRET_SIZE))
    offset_map.put(b"a", 3)
    offset_map.latest_offset = 3
    batch = build_batch([Record(None, b"a", NOW_MS), Record(b"v", b"b", NOW_MS)], base_offset=10)
    for now_ms in (NOW_MS, NOW_MS + 10_000):
        judge = BatchFilter(offset_map, CleanedTransactions(), now_ms=now_ms, delete_retention_ms=1000)
        steps = judge.filtered(memoryview(batch), parse_header(batch), False)
        with pytest.raises(StopIteration) as done:
            while True:
                next(steps)
        batch = bytearray(done.value.value)
        assert parse_header(batch).delete_horizon_ms == NOW_MS + 1000
        assert [record.offset for record in decode_records(memoryview(batch))] == [10, 11]


def test_a_full_map_cleans_up_to_there_and_continues_next_time() -> None:
    broker = Broker(compacted(segment_bytes=10_000), **{"log.cleaner.dedupe.buffer.size": 100 * SLOT_SIZE})
    keys = 500
    pairs = [(b"k%06d" % (number % keys), b"%d" % number) for number in range(2 * keys)]
    for start in range(0, len(pairs), 25):
        put(broker.log, *pairs[start : start + 25])
    broker.settle()
    reached = []
    while broker.clean():
        reached.append(broker.log.cleaning.cleaned_offset)
        assert values_of(broker.log) == dict(pairs)
    assert reached == [*range(90, 1000, 90), 1000]
    assert offsets_of(broker.log) == list(range(keys, 2 * keys))


def test_reads_handed_out_before_stay_valid_until_the_delay_is_over() -> None:
    broker = Broker(compacted(file_delete_delay_ms=1000))
    for number in range(60):
        put(broker.log, (A, b"%d" % number))
    broker.settle()
    broker.kill()
    broker.settle()
    before = broker.log.read(0, 400)
    data = joined(before.parts)
    assert broker.clean()
    assert joined(before.parts) == data
    assert names(broker.disk, [".log.deleted"])
    broker.loop.run_until_complete(broker.manager.purge_deleted(broker.clock.now_ms + 1000))
    assert not names(broker.disk, [".deleted"])
    assert offsets_of(broker.log) == [59]


def test_a_read_from_any_offset_finds_the_next_record_there_is() -> None:
    broker = Broker()
    for number in range(60):
        put(broker.log, (b"k%d" % (number % 7), b"v"))
    broker.settle()
    assert broker.clean()
    left = offsets_of(broker.log)

    def next_record(offset: int) -> int | None:
        while offset < 60:
            data = memoryview(joined(broker.log.read(offset, 1).parts))
            for at, header in batches(data):
                assert header.last_offset >= offset
                found = [record.offset for record in decode_records(data, at) if record.offset >= offset]
                if found:
                    return found[0]
                offset = header.next_offset
        return None

    for offset in range(60):
        assert next_record(offset) == min((each for each in left if each >= offset), default=None)


def dead_segments(count: int) -> Broker:
    """So many segments of which only the last one's header is left, and one with a record."""
    broker = Broker(compacted(segment_bytes=100))
    for number in range(count):
        put(broker.log, (A, b"%060d" % number))
    put(broker.log, (A, b"last"))
    broker.settle()
    assert broker.clean()
    assert [header.records_count for header in headers_of(broker.log)] == [0] * count + [1]
    assert broker.log.segment_count == count + 2
    return broker


def test_a_read_that_finds_headers_only_continues_to_the_next_records() -> None:
    """A client that gets an answer without records takes it for one that was too small (librdkafka), over and over."""
    broker = dead_segments(30)
    broker.kill()
    broker.log.high_watermark = 31
    for offset in range(31):
        data = memoryview(joined(broker.log.read(offset, 1000 * 1000).parts))
        assert [header.last_offset for _, header in batches(data)] == list(range(offset, 31))
    for max_bytes in (0, 1, 61, 100, 400):
        data = memoryview(joined(broker.log.read(0, max_bytes).parts))
        assert [header.records_count for _, header in batches(data)] == [0] * 30 + [1], "one record, whatever its size"
    one_less = broker.log.read(0, 61 * 30, min_one_message=False)
    assert [header.records_count for _, header in batches(memoryview(joined(one_less.parts)))] == [0] * 30


def test_a_read_over_headers_only_stops_at_its_bound() -> None:
    broker = dead_segments(30)
    broker.kill()
    data = memoryview(joined(broker.log.read(3, 1000 * 1000, upper_bound_offset=20).parts))
    assert [header.last_offset for _, header in batches(data)] == list(range(3, 20))


def test_a_read_is_limited_to_some_segments() -> None:
    broker = dead_segments(SEGMENTS_PER_READ_MAX + 10)
    broker.kill()
    assert len(broker.log.read(0, 1000 * 1000).parts) == SEGMENTS_PER_READ_MAX


def test_a_read_that_begins_with_a_record_ends_with_its_segment() -> None:
    """As Kafka's does."""
    broker = dead_segments(3)
    put(broker.log, (B, b"more"))
    broker.kill()
    data = memoryview(joined(broker.log.read(3, 1000 * 1000).parts))
    assert [header.last_offset for _, header in batches(data)] == [3]


def test_aborted_transactions_behind_headers_only_are_reported() -> None:
    broker = Broker(compacted(segment_bytes=100))
    put(broker.log, (A, b"%060d" % 0))
    put(broker.log, (A, b"%060d" % 1))
    broker.settle()
    assert broker.clean()
    put(broker.log, (B, b"aborted"), **transaction(0))
    end_transaction(broker.log, 5, is_commit=False)
    broker.log.roll()
    broker.log.high_watermark = 4
    broker.kill()
    broker.log.high_watermark = 4
    for offset, expected in ((0, False), (1, False), (2, True)):
        found = broker.log.aborted_transactions(offset, broker.log.read(offset, 1000).parts)
        assert bool(found) is expected, offset


def test_a_follower_of_a_cleaned_log_equals_its_leader() -> None:
    leader, follower = Broker(), Broker(seed=2)
    for number in range(60):
        put(leader.log, (b"k%d" % (number % 7), b"v%d" % number), **producer(number))
    leader.settle()
    assert leader.clean()
    while follower.log.log_end_offset < leader.log.log_end_offset:
        data = joined(leader.log.read(follower.log.log_end_offset, 500).parts)
        follower.log.append_as_follower(memoryview(bytearray(data)))
    assert read_all(follower.log) == read_all(leader.log)
    follower.kill()
    assert read_all(follower.log) == read_all(leader.log)
    assert follower.log.producer_state.producers[5].last_sequence == 59


@pytest.mark.parametrize("is_power_cut", [False, True])
def test_leader_epoch_starts_are_unchanged_by_cleaning(is_power_cut: bool) -> None:
    """A follower is told by that what of its own log it has to drop: its records there would outlive all others."""
    broker = Broker(compacted(segment_bytes=300))
    put(broker.log, (B, b"1"))
    for epoch in (2, 3, 4):
        broker.log.assign_epoch_start_offset(epoch, broker.log.log_end_offset)
        for number in range(10):
            put(broker.log, (A, b"%d" % number))
    ends = [broker.log.end_offset_for_epoch(epoch) for epoch in (1, 2, 3, 4)]
    assert ends == [(1, 1), (2, 11), (3, 21), (4, 31)]
    broker.settle()
    assert broker.clean()
    assert offsets_of(broker.log) == [0, 30]
    if is_power_cut:
        broker.lose_power()
    else:
        broker.kill()
    assert [broker.log.end_offset_for_epoch(epoch) for epoch in (1, 2, 3, 4)] == ends


def test_timestamps_of_remaining_records_are_found() -> None:
    broker = Broker()
    for number in range(60):
        put(broker.log, (b"k%d" % (number % 7), b"v"), timestamp=NOW_MS + number)
    broker.settle()
    assert broker.clean()
    found = broker.log.offset_for_timestamp(NOW_MS)
    assert found is not None and found.offset == 53
    greatest = broker.log.offset_of_max_timestamp()
    assert greatest is not None and greatest.offset == 59


def test_a_log_that_is_compacted_no_more_is_recovered_whole() -> None:
    """No segment ends before the next one begins: a gap is a loss, for a log whose policy is to delete."""
    broker = Broker(compacted(segment_bytes=300))
    for number in range(40):
        put(broker.log, (b"k%d" % (number // 10 if number % 10 else 0), b"v"))
    broker.settle()
    assert broker.clean()
    left = offsets_of(broker.log)
    config = LogConfig(segment_bytes=300, index_interval_bytes=200)
    broker.disk.kill()
    log = open_log(broker.disk, FOLDER, PARTITION, config, broker.clock, options=OpenOptions(recovery_point=0))
    assert offsets_of(log) == left
    assert log.log_end_offset == 40


def test_a_failing_disk_takes_the_directory_offline() -> None:
    broker = Broker()
    for number in range(60):
        put(broker.log, (A, b"%d" % number))
    broker.settle()
    broker.loop.run_until_complete(broker.manager.flush_dirty(broker.clock.now_ms))
    broker.disk.fail("sync", errno.EIO)
    assert not broker.clean()
    assert len(broker.offline) == 1
    assert not broker.cleaner.uncleanable
