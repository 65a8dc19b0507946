"""What a leader refuses, and what it changes: a row for every check of Kafka's LogValidator."""

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvorum.protocol.batch_header import HEADER_SIZE, parse_header
from kvorum.protocol.compression import Codec, compress
from kvorum.protocol.errors import ErrorCode, KafkaError
from kvorum.protocol.records import Record, build_batch, check_crc, crc_of, decode_records, encode_records
from kvorum.storage.log_config import LogConfig
from kvorum.storage.producer_state import Origin
from kvorum.storage.validator import RecordValidationError, Validated, validate_produce, validate_replicated
from tests.unit.storage.kit import NOW_MS, batch

HOUR_MS = 3_600_000
COMPACTED = LogConfig(cleanup_policy=frozenset({"compact"}))
STAMPED = LogConfig(message_timestamp_type="LogAppendTime")


def changed(data: memoryview, *changes: tuple[int, bytes], with_crc: bool = True) -> memoryview:
    """A batch with bytes replaced, and a CRC that fits again."""
    copy = memoryview(bytearray(data))
    for position, value in changes:
        copy[position : position + len(value)] = value
    if with_crc:
        copy[17:21] = crc_of(copy, 0, len(copy)).to_bytes(4, "big")
    return copy


def int32(value: int) -> bytes:
    return value.to_bytes(4, "big", signed=True)


def with_payload(payload: bytes, count: int = 1, codec: Codec = Codec.NONE) -> memoryview:
    """A batch around any bytes."""
    head = bytearray(batch()[:HEADER_SIZE])
    head[8:12] = int32(HEADER_SIZE - 12 + len(payload))
    return changed(
        memoryview(bytes(head) + payload), (21, bytes([0, codec])), (23, int32(count - 1)), (57, int32(count))
    )


def refusal(records: memoryview, config: LogConfig | None = None, origin: Origin = Origin.CLIENT) -> KafkaError:
    with pytest.raises(KafkaError) as raised:
        validate_produce(records, config or LogConfig(), NOW_MS, origin)
    return raised.value


def accepted(records: memoryview, config: LogConfig | None = None, origin: Origin = Origin.CLIENT) -> Validated:
    found = validate_produce(records, config or LogConfig(), NOW_MS, origin)
    check_crc(found.view, 0, found.header)
    assert found.header == parse_header(found.view)
    return found


ONE = encode_records([Record(b"value", b"key", NOW_MS)], NOW_MS)


@pytest.mark.parametrize(
    ("records", "code"),
    [
        (memoryview(b""), ErrorCode.INVALID_RECORD),
        (memoryview(bytes(10)), ErrorCode.INVALID_RECORD),
        (memoryview(bytes(100)), ErrorCode.CORRUPT_MESSAGE),
        (memoryview(b"\xff" * 50), ErrorCode.CORRUPT_MESSAGE),
        (batch()[:-1], ErrorCode.INVALID_RECORD),
        (memoryview(bytes(batch()) * 2), ErrorCode.INVALID_RECORD),
        (changed(batch(), (16, b"\1")), ErrorCode.INVALID_RECORD),
        (changed(batch(), (16, b"\0")), ErrorCode.INVALID_RECORD),
        (changed(batch(), (16, b"\3")), ErrorCode.CORRUPT_MESSAGE),
        (changed(batch(), (7, b"\1")), ErrorCode.INVALID_RECORD),
        (changed(batch(), (70, b"x"), with_crc=False), ErrorCode.CORRUPT_MESSAGE),
        (changed(batch(), (23, int32(-1))), ErrorCode.INVALID_RECORD),
        (changed(batch(), (23, int32(1))), ErrorCode.INVALID_RECORD),
        (changed(batch(), (57, int32(0))), ErrorCode.INVALID_RECORD),
        (changed(batch(), (57, int32(-1))), ErrorCode.INVALID_RECORD),
        (changed(batch(), (57, int32(2))), ErrorCode.INVALID_RECORD),
        (changed(batch(), (23, int32(1)), (57, int32(2))), ErrorCode.INVALID_RECORD),
        (changed(batch(), (23, int32(2**31 - 2)), (57, int32(2**31 - 1))), ErrorCode.INVALID_RECORD),
        (changed(batch(), (22, b"\x20")), ErrorCode.INVALID_RECORD),
        (batch(producer_id=5, producer_epoch=0, base_sequence=-1), ErrorCode.INVALID_RECORD),
        (with_payload(b""), ErrorCode.INVALID_RECORD),
        (with_payload(ONE + b"\0"), ErrorCode.INVALID_RECORD),
        (with_payload(ONE[:-1]), ErrorCode.INVALID_RECORD),
        (with_payload(ONE, codec=Codec.GZIP), ErrorCode.INVALID_RECORD),
        (with_payload(compress(Codec.ZSTD, ONE)[:-1], codec=Codec.ZSTD), ErrorCode.INVALID_RECORD),
        (with_payload(compress(Codec.LZ4, ONE + b"\0"), codec=Codec.LZ4), ErrorCode.INVALID_RECORD),
        (changed(batch(), (22, b"\5")), ErrorCode.INVALID_RECORD),
        (batch(timestamp=NOW_MS + HOUR_MS + 1), ErrorCode.INVALID_TIMESTAMP),
    ],
    ids=[
        "nothing", "ten bytes", "zeros", "ones", "cut", "two batches", "magic 1", "magic 0", "magic 3", "base offset 1",
        "wrong crc", "last offset delta -1", "last offset delta 1", "count 0", "count -1", "count 2",
        "one record too few", "an absurd count", "control batch", "producer without a sequence", "no record",
        "a byte too many", "a byte too few", "no gzip", "zstd cut", "a byte too many inside lz4", "codec 5",
        "too far in the future",
    ],
)  # fmt: skip
def test_refusals(records: memoryview, code: ErrorCode) -> None:
    assert refusal(records).code is code


def test_a_good_batch_is_kept_byte_for_byte() -> None:
    for codec in Codec:
        sent = batch(b"one", b"two", codec=codec)
        before = bytes(sent)
        found = accepted(sent)
        assert bytes(found.view) == before
        assert found.max_timestamp == NOW_MS
        assert found.log_append_time_ms == -1


def test_a_partial_batch_behind_a_whole_one_is_cut_off() -> None:
    sent = bytes(batch())
    assert bytes(accepted(memoryview(sent + sent[:30])).view) == sent


def test_bytes_that_cannot_be_written_to_are_copied() -> None:
    sent = bytes(batch())
    found = accepted(memoryview(sent))
    assert not found.view.readonly
    assert bytes(found.view) == sent


def test_the_limits_are_those_of_the_topic() -> None:
    sent = batch(bytes(1000))
    assert refusal(sent, LogConfig(max_message_bytes=len(sent) - 1)).code is ErrorCode.MESSAGE_TOO_LARGE
    accepted(sent, LogConfig(max_message_bytes=len(sent)))
    assert refusal(sent, LogConfig(segment_bytes=len(sent) - 1)).code is ErrorCode.RECORD_LIST_TOO_LARGE


@pytest.mark.patches
def test_a_batch_that_inflates_without_end_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kvorum.storage.validator.DECOMPRESSED_SIZE_MAX", 10_000)
    assert refusal(batch(bytes(20_000), codec=Codec.GZIP)).code is ErrorCode.MESSAGE_TOO_LARGE


def test_a_wrong_max_timestamp_is_corrected() -> None:
    sent = changed(batch(timestamp=NOW_MS), (35, (NOW_MS + 10**9).to_bytes(8, "big")))
    assert accepted(sent).header.max_timestamp == NOW_MS


def test_a_producers_log_append_time_flag_is_taken_away() -> None:
    sent = changed(batch(timestamp=NOW_MS), (22, b"\x08"))
    assert not accepted(sent).header.is_log_append_time


def test_timestamps_are_checked_both_ways() -> None:
    config = LogConfig(message_timestamp_before_max_ms=1000, message_timestamp_after_max_ms=2000)
    for timestamp, code in (
        (NOW_MS - 1001, ErrorCode.INVALID_TIMESTAMP),
        (NOW_MS + 2001, ErrorCode.INVALID_TIMESTAMP),
        (NOW_MS - 1000, None),
        (NOW_MS + 2000, None),
        (-1, None),
    ):
        sent = batch(timestamp=timestamp)
        if code is None:
            assert accepted(sent, config).max_timestamp == timestamp
        else:
            assert refusal(sent, config).code is code


def test_a_timestamp_beyond_int64_is_refused() -> None:
    records = encode_records([Record(b"v", b"k", 2**62)], 0)
    sent = changed(with_payload(records), (27, (2**63 - 1).to_bytes(8, "big")))
    assert refusal(sent).code is ErrorCode.INVALID_TIMESTAMP


def test_the_bad_records_are_named() -> None:
    records = [Record(b"v", b"k", NOW_MS + (HOUR_MS * 2 if index in (1, 3) else 0)) for index in range(5)]
    error = refusal(memoryview(build_batch(records)))
    assert isinstance(error, RecordValidationError)
    assert error.code is ErrorCode.INVALID_TIMESTAMP
    assert [each.batch_index for each in error.record_errors] == [1, 3]


def test_compacted_topics_want_keys() -> None:
    sent = memoryview(build_batch([Record(b"v", key, NOW_MS) for key in (b"k", None, b"", None)]))
    accepted(memoryview(bytearray(sent)))
    error = refusal(sent, COMPACTED)
    assert isinstance(error, RecordValidationError)
    assert error.code is ErrorCode.INVALID_RECORD
    assert [each.batch_index for each in error.record_errors] == [1, 3]


def test_an_invalid_timestamp_outweighs_a_missing_key() -> None:
    records = [Record(b"v", None, NOW_MS), Record(b"v", b"k", NOW_MS + 2 * HOUR_MS)]
    error = refusal(memoryview(build_batch(records)), COMPACTED)
    assert isinstance(error, RecordValidationError)
    assert error.code is ErrorCode.INVALID_TIMESTAMP
    assert [each.batch_index for each in error.record_errors] == [0, 1]


def test_log_append_time_stamps_the_batch() -> None:
    for codec in Codec:
        found = accepted(batch(b"one", b"two", timestamp=5, codec=codec), STAMPED)
        assert found.header.is_log_append_time
        assert found.header.max_timestamp == found.max_timestamp == found.log_append_time_ms == NOW_MS
        assert [record.timestamp for record in decode_records(found.view)] == [NOW_MS] * 2


@pytest.mark.parametrize("target", ["uncompressed", "gzip", "snappy", "lz4", "zstd"])
@pytest.mark.parametrize("source", list(Codec))
def test_the_topics_codec_replaces_the_producers(source: Codec, target: str) -> None:
    sent = batch(b"one" * 100, b"two", codec=source, producer_id=3, producer_epoch=1, base_sequence=8)
    before, records = parse_header(sent), decode_records(sent)
    found = accepted(sent, LogConfig(compression_type=target))
    assert found.header.codec_id == (Codec.NONE if target == "uncompressed" else Codec[target.upper()])
    assert decode_records(found.view) == records
    assert found.header.fields()[9:] == before.fields()[9:]


NOT_SEQUENTIAL = encode_records([Record(b"a", b"k", NOW_MS, (), 0), Record(b"b", b"k", NOW_MS, (), 0)], NOW_MS, 0)


@pytest.mark.parametrize("codec", list(Codec))
def test_offset_deltas_that_do_not_count_up_are_never_stored(codec: Codec) -> None:
    """Plain ones are made to count up, compressed ones refused (Kafka stores the first and fails on the second)."""
    sent = with_payload(compress(codec, NOT_SEQUENTIAL), 2, codec)
    if codec is not Codec.NONE:
        assert refusal(memoryview(bytes(sent))).code is ErrorCode.INVALID_RECORD
    for config in [LogConfig(compression_type="zstd")] * (codec is not Codec.ZSTD) + [LogConfig()] * (not codec):
        found = accepted(memoryview(bytes(sent)), config)
        assert [(record.offset, record.value) for record in decode_records(found.view)] == [(0, b"a"), (1, b"b")]


def test_a_recompressed_batch_must_fit_too() -> None:
    sent = batch(bytes(5000), codec=Codec.ZSTD)
    config = LogConfig(compression_type="uncompressed", max_message_bytes=3000)
    assert refusal(sent, config).code is ErrorCode.MESSAGE_TOO_LARGE


def test_coordinators_may_write_control_batches() -> None:
    control = memoryview(
        build_batch([Record(bytes(6), bytes(4), NOW_MS)], is_control=True, producer_id=1, base_sequence=-1)
    )
    assert refusal(control).code is ErrorCode.INVALID_RECORD
    accepted(control, origin=Origin.COORDINATOR)


@given(st.binary(max_size=300))
def test_any_bytes_are_refused(data: bytes) -> None:
    assert refusal(memoryview(data)).code in (ErrorCode.INVALID_RECORD, ErrorCode.CORRUPT_MESSAGE)


@given(st.data(), st.sampled_from(list(Codec)))
def test_a_scrambled_batch_with_a_good_crc_is_accepted_whole_or_refused(data: st.DataObject, codec: Codec) -> None:
    sent = batch(b"one" * 20, b"two", b"three", codec=codec)
    changes = data.draw(
        st.lists(st.tuples(st.integers(21, len(sent) - 1), st.binary(min_size=1, max_size=1)), min_size=1, max_size=3)
    )
    scrambled = changed(sent, *changes)
    try:
        found = validate_produce(scrambled, LogConfig(), NOW_MS)
    except KafkaError:
        return
    check_crc(found.view, 0, found.header)
    records = decode_records(found.view)
    assert [record.offset for record in records] == list(range(found.header.records_count))
    assert found.header.max_timestamp == max(-1, *[record.timestamp for record in records])


def replicated(*base_offsets: int, epoch: int = 1) -> memoryview:
    return memoryview(b"".join(batch(base_offset=o, partition_leader_epoch=epoch) for o in base_offsets))


def test_replicated_batches_need_only_crc_and_order() -> None:
    assert [each.base_offset for each in validate_replicated(replicated(5, 6, 9), 5, None)] == [5, 6, 9]
    assert [each.base_offset for each in validate_replicated(replicated(5, 6)[:-1], 5, 1)] == [5]
    assert validate_replicated(memoryview(b""), 5, 1) == []


def test_a_batch_of_a_later_epoch_ends_the_appended_part() -> None:
    fetched = memoryview(bytes(replicated(5, epoch=1)) + bytes(replicated(6, epoch=2)) + bytes(replicated(7, epoch=1)))
    assert [each.base_offset for each in validate_replicated(fetched, 5, 1)] == [5]
    assert len(validate_replicated(fetched, 5, 2)) == 3


@pytest.mark.parametrize(
    ("make", "code"),
    [
        (lambda: replicated(4), ErrorCode.INVALID_RECORD),
        (lambda: replicated(6, 5), ErrorCode.INVALID_RECORD),
        (lambda: replicated(6, 6), ErrorCode.INVALID_RECORD),
        (lambda: changed(replicated(5), (70, b"\0"), with_crc=False), ErrorCode.CORRUPT_MESSAGE),
        (lambda: changed(replicated(5), (16, b"\1")), ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT),
    ],
    ids=["below the log end", "descending", "twice", "wrong crc", "old format"],
)
def test_batches_that_a_follower_refuses(make: Callable[[], memoryview], code: ErrorCode) -> None:
    with pytest.raises(KafkaError) as raised:
        validate_replicated(make(), 5, None)
    assert raised.value.code is code
