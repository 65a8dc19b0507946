"""Record batches: bytes as Kafka writes them, round trips, and input that is cut or scrambled."""

import pytest
from aiokafka.record.default_records import DefaultRecordBatch, DefaultRecordBatchBuilder
from hypothesis import given
from hypothesis import strategies as st

from kvorum.protocol.batch_header import (
    CRC_POSITION,
    HEADER_SIZE,
    INT32_MAX,
    BatchHeader,
    increment_sequence,
    parse_header,
)
from kvorum.protocol.compression import Codec
from kvorum.protocol.errors import ErrorCode, KafkaError
from kvorum.protocol.records import Record, batches, build_batch, check_crc, decode_records, patch_place, patch_times
from kvorum.protocol.varints import append_varint, read_varint

maybe_bytes = st.none() | st.binary(max_size=200)
records = st.lists(
    st.builds(
        Record,
        value=maybe_bytes,
        key=maybe_bytes,
        timestamp=st.integers(-1, 2**45),
        headers=st.lists(st.tuples(st.text(max_size=10), maybe_bytes), max_size=3).map(tuple),
    ),
    min_size=1,
    max_size=20,
)
codecs = st.sampled_from(list(Codec))


def view(data: bytes | bytearray) -> memoryview:
    return memoryview(bytearray(data))


@given(records, codecs, st.integers(0, 2**60), st.integers(-1, 2**31 - 1))
def test_built_records_are_decoded(given_records: list[Record], codec: Codec, base_offset: int, epoch: int) -> None:
    data = view(build_batch(given_records, codec=codec, base_offset=base_offset, partition_leader_epoch=epoch))
    [(position, header)] = batches(data)
    assert (position, header.size, header.base_offset, header.partition_leader_epoch) == (
        0,
        len(data),
        base_offset,
        epoch,
    )
    assert header.records_count == len(given_records) == header.last_offset_delta + 1
    assert header.max_timestamp == max(record.timestamp for record in given_records)
    check_crc(data, 0, header)
    expected = [
        Record(each.value, each.key, each.timestamp, each.headers, base_offset + index)
        for index, each in enumerate(given_records)
    ]
    assert decode_records(data) == expected


@given(records)
def test_building_is_deterministic(given_records: list[Record]) -> None:
    assert build_batch(given_records, codec=Codec.GZIP) == build_batch(given_records, codec=Codec.GZIP)


@given(records, codecs)
def test_another_implementation_reads_our_batches(given_records: list[Record], codec: Codec) -> None:
    """aiokafka's reader stands for the clients."""
    data = bytes(build_batch(given_records, codec=codec, producer_id=5, producer_epoch=2, base_sequence=9))
    theirs = DefaultRecordBatch(data)
    assert theirs.validate_crc()
    assert (theirs.producer_id, theirs.producer_epoch, theirs.base_sequence) == (5, 2, 9)
    found = [(each.key, each.value, each.timestamp, tuple(each.headers)) for each in theirs]
    assert found == [(each.key, each.value, each.timestamp, each.headers) for each in given_records]


@given(records, codecs)
def test_we_read_the_batches_of_another_implementation(given_records: list[Record], codec: Codec) -> None:
    builder = DefaultRecordBatchBuilder(2, codec.value, 0, -1, -1, -1, 1 << 20)
    for index, each in enumerate(given_records):
        assert builder.append(index, each.timestamp, each.key, each.value, list(each.headers)) is not None
    data = view(builder.build())
    check_crc(data, 0, parse_header(data))
    found = decode_records(data)
    assert [(each.key, each.value, each.headers) for each in found] == [
        (each.key, each.value, each.headers) for each in given_records
    ]


def test_a_batch_has_exactly_the_bytes_that_kafka_writes() -> None:
    """The layout, by hand: one record of key k and value v at 1000 ms."""
    data = build_batch([Record(b"v", b"k", 1000)], base_offset=5, partition_leader_epoch=3)
    payload = bytes([14 + 2, 0, 0, 0, 2, ord("k"), 2, ord("v"), 0])
    expected = (5).to_bytes(8, "big") + (HEADER_SIZE - 12 + len(payload)).to_bytes(4, "big") + (3).to_bytes(4, "big")
    assert data[: CRC_POSITION - 1] == expected
    rest = bytes(2) + bytes(4) + (1000).to_bytes(8, "big") * 2 + b"\xff" * 8 + b"\xff" * 2 + b"\xff" * 4 + b"\0\0\0\1"
    assert data[16] == 2
    assert data[21:] == rest + payload


def test_flags_are_reported_from_the_attributes() -> None:
    plain = parse_header(build_batch([Record(b"v")]))
    assert not (plain.is_transactional or plain.is_control or plain.is_log_append_time or plain.has_producer_id)
    full = parse_header(
        build_batch([Record(b"v", timestamp=7)], codec=Codec.ZSTD, is_transactional=True, is_control=True,
                    log_append_time_ms=99, producer_id=0)
    )  # fmt: skip
    assert full.is_transactional and full.is_control and full.is_log_append_time and full.has_producer_id
    assert (full.codec_id, full.max_timestamp, full.base_timestamp) == (4, 99, 7)


def test_log_append_time_applies_to_every_record() -> None:
    data = view(build_batch([Record(b"a", timestamp=5), Record(b"b", timestamp=6)], log_append_time_ms=1234))
    assert [record.timestamp for record in decode_records(data)] == [1234, 1234]


def test_offsets_of_a_compacted_batch_are_kept() -> None:
    data = view(build_batch([Record(b"a", offset=10), Record(b"b", offset=17)], keep_offsets=True))
    header = parse_header(data)
    assert (header.base_offset, header.last_offset, header.next_offset, header.records_count) == (10, 17, 18, 2)
    assert [record.offset for record in decode_records(data)] == [10, 17]


def test_place_is_patched_without_touching_the_crc() -> None:
    data = view(build_batch([Record(b"v")]))
    before = parse_header(data)
    patch_place(data, 0, 2**40, 77)
    header = parse_header(data)
    assert (header.base_offset, header.partition_leader_epoch, header.crc) == (2**40, 77, before.crc)
    check_crc(data, 0, header)


@pytest.mark.parametrize("log_append_time", [True, False])
def test_patched_times_get_a_new_crc(log_append_time: bool) -> None:
    data = view(build_batch([Record(b"v", timestamp=1)], log_append_time_ms=None if log_append_time else 5))
    patch_times(data, 0, len(data), log_append_time, 4242)
    header = parse_header(data)
    assert (header.max_timestamp, header.is_log_append_time) == (4242, log_append_time)
    check_crc(data, 0, header)


def test_a_flipped_bit_anywhere_behind_the_crc_is_noticed() -> None:
    data = view(build_batch([Record(b"value", b"key", 5)]))
    for position in range(CRC_POSITION, len(data)):
        data[position] ^= 4
        with pytest.raises(KafkaError) as raised:
            check_crc(data, 0, parse_header(data))
        assert raised.value.code is ErrorCode.CORRUPT_MESSAGE
        data[position] ^= 4


def test_a_partial_batch_at_the_end_is_left_out() -> None:
    one, two = build_batch([Record(b"one")]), build_batch([Record(b"two")], base_offset=1)
    for cut in range(len(two)):
        assert [position for position, _ in batches(view(one + two[:cut]))] == [0]
    assert [position for position, _ in batches(view(one + two))] == [0, len(one)]


def damaged(position: int, value: bytes) -> memoryview:
    data = view(build_batch([Record(b"value")]))
    data[position : position + len(value)] = value
    return data


@pytest.mark.parametrize(
    ("data", "code"),
    [
        (damaged(8, (13).to_bytes(4, "big")), ErrorCode.CORRUPT_MESSAGE),
        (damaged(8, b"\xff\xff\xff\xff"), ErrorCode.CORRUPT_MESSAGE),
        (damaged(8, (HEADER_SIZE - 13).to_bytes(4, "big")), ErrorCode.CORRUPT_MESSAGE),
        (damaged(16, b"\x03"), ErrorCode.CORRUPT_MESSAGE),
        (damaged(16, b"\xff"), ErrorCode.CORRUPT_MESSAGE),
        (damaged(16, b"\x01"), ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT),
    ],
    ids=["too short for any format", "negative", "shorter than its header", "magic 3", "magic -1", "magic 1"],
)
def test_impossible_headers_are_refused(data: memoryview, code: ErrorCode) -> None:
    with pytest.raises(KafkaError) as raised:
        list(batches(data))
    assert raised.value.code is code


def test_a_length_beyond_the_buffer_is_a_partial_batch() -> None:
    assert list(batches(damaged(8, (2**31 - 1).to_bytes(4, "big")))) == []


@given(st.binary(max_size=400))
def test_any_bytes_are_batches_or_refused(data: bytes) -> None:
    try:
        found = list(batches(memoryview(data)))
    except KafkaError:
        return
    assert all(position + header.size <= len(data) for position, header in found)


@given(records, st.data())
def test_scrambled_records_are_decoded_or_refused(given_records: list[Record], data: st.DataObject) -> None:
    """Never another exception, never more records than the header says."""
    buffer = view(build_batch(given_records))
    for _ in range(data.draw(st.integers(1, 4))):
        buffer[data.draw(st.integers(HEADER_SIZE - 4, len(buffer) - 1))] = data.draw(st.integers(0, 255))
    try:
        found = decode_records(buffer)
    except KafkaError as error:
        assert error.code is ErrorCode.INVALID_RECORD
        return
    assert len(found) == parse_header(buffer).records_count


def test_a_count_beyond_the_bytes_is_refused_before_anything_is_read() -> None:
    data = view(build_batch([Record(b"v")]))
    data[57:61] = (2**31 - 1).to_bytes(4, "big")
    with pytest.raises(KafkaError) as raised:
        decode_records(data)
    assert raised.value.code is ErrorCode.INVALID_RECORD


def test_an_unknown_codec_is_refused() -> None:
    data = view(build_batch([Record(b"v")]))
    data[22] = 5
    with pytest.raises(KafkaError) as raised:
        decode_records(data)
    assert raised.value.code is ErrorCode.INVALID_RECORD


def test_a_header_key_that_is_no_text_keeps_its_bytes() -> None:
    data = build_batch([Record(b"v", headers=(("k\udcff", b"x"),))])
    [record] = decode_records(view(data))
    assert build_batch([record]) == data


@given(st.integers(-(2**63), 2**63 - 1))
def test_varints_round_trip(value: int) -> None:
    target = bytearray()
    append_varint(target, value)
    assert read_varint(bytes(target), 0) == (value, len(target))


@pytest.mark.parametrize(
    ("value", "encoded"), [(0, b"\0"), (-1, b"\1"), (1, b"\2"), (63, b"\x7e"), (-64, b"\x7f"), (64, b"\x80\1")]
)
def test_varints_are_zigzag(value: int, encoded: bytes) -> None:
    target = bytearray()
    append_varint(target, value)
    assert bytes(target) == encoded


@pytest.mark.parametrize(
    ("sequence", "increment", "expected"), [(0, 5, 5), (INT32_MAX, 1, 0), (INT32_MAX - 1, 3, 1), (0, -1, INT32_MAX)]
)
def test_sequences_wrap(sequence: int, increment: int, expected: int) -> None:
    assert increment_sequence(sequence, increment) == expected


def test_last_sequence_follows_the_last_offset_delta() -> None:
    header = parse_header(build_batch([Record(b"v")] * 3, producer_id=1, base_sequence=INT32_MAX))
    assert header.last_sequence == 1
    assert BatchHeader(*([0] * 11), -1, 1).last_sequence == -1
