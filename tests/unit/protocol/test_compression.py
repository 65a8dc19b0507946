"""Codecs: round trips with other implementations, streams of unknown length, cut and scrambled ones, and bombs."""

import gzip

import cramjam
import pytest
from aiokafka.codec import gzip_decode, lz4_decode, lz4_encode, snappy_decode, snappy_encode, zstd_decode, zstd_encode
from hypothesis import given
from hypothesis import strategies as st

from kvorum.protocol.compression import LZ4_HEADER, XERIAL_HEADER, Codec, compress, decompress
from kvorum.protocol.errors import ErrorCode, KafkaError

LIMIT = 10_000_000
REAL_CODECS = [Codec.GZIP, Codec.SNAPPY, Codec.LZ4, Codec.ZSTD]
every_codec = pytest.mark.parametrize("codec", REAL_CODECS, ids=lambda codec: codec.name.lower())

payloads = st.binary(max_size=300) | st.builds(
    bytes.__mul__, st.binary(min_size=1, max_size=20), st.integers(0, 20_000)
)
THEIR_DECODERS = {Codec.GZIP: gzip_decode, Codec.SNAPPY: snappy_decode, Codec.LZ4: lz4_decode, Codec.ZSTD: zstd_decode}
THEIR_ENCODERS = {
    Codec.GZIP: gzip.compress,
    Codec.SNAPPY: snappy_encode,
    Codec.LZ4: lz4_encode,
    Codec.ZSTD: zstd_encode,
}


@given(payloads, st.sampled_from(list(Codec)))
def test_compressed_data_is_decompressed(data: bytes, codec: Codec) -> None:
    assert decompress(codec, compress(codec, data), LIMIT) == data


@given(payloads.filter(len), st.sampled_from(REAL_CODECS))
def test_another_implementation_decompresses_kvorums_data(data: bytes, codec: Codec) -> None:
    assert bytes(THEIR_DECODERS[codec](compress(codec, data))) == data


@given(payloads, st.sampled_from(REAL_CODECS))
def test_data_compressed_by_another_implementation_is_decompressed(data: bytes, codec: Codec) -> None:
    assert decompress(codec, THEIR_ENCODERS[codec](data), LIMIT) == data


def test_snappy_is_framed_as_java_writes_it() -> None:
    """xerial's header, then blocks of 32 KiB with their length."""
    stream = compress(Codec.SNAPPY, bytes(100_000))
    assert stream.startswith(XERIAL_HEADER)
    position, blocks = len(XERIAL_HEADER), 0
    while position < len(stream):
        size = int.from_bytes(stream[position : position + 4], "big")
        assert cramjam.snappy.decompress_raw_len(stream[position + 4 : position + 4 + size]) <= 32 * 1024
        position += 4 + size
        blocks += 1
    assert blocks == 4


def test_a_raw_snappy_block_is_read_too() -> None:
    assert decompress(Codec.SNAPPY, bytes(cramjam.snappy.compress_raw(b"abc" * 1000)), LIMIT) == b"abc" * 1000


def test_lz4_blocks_are_independent() -> None:
    """Java's reader refuses linked blocks; these are Kafka's own frame header bytes."""
    assert compress(Codec.LZ4, b"data").startswith(LZ4_HEADER)


def test_several_gzip_members_are_one_stream() -> None:
    assert decompress(Codec.GZIP, gzip.compress(b"one") + gzip.compress(b"two" * 5000), LIMIT) == b"one" + b"two" * 5000


def test_zstd_without_its_length_is_read() -> None:
    """As streaming writers leave it; skippable frames count for nothing."""
    compressor = cramjam.zstd.Compressor(level=3)
    compressor.compress(b"abc" * 100_000)
    stream = bytes(compressor.finish())
    skippable = (0x184D2A50).to_bytes(4, "little") + (3).to_bytes(4, "little") + b"xyz"
    assert decompress(Codec.ZSTD, skippable + stream, LIMIT) == b"abc" * 100_000


@every_codec
def test_a_stream_that_inflates_too_far_is_refused(codec: Codec) -> None:
    stream = compress(codec, bytes(3_000_000))
    assert decompress(codec, stream, 3_000_000) == bytes(3_000_000)
    with pytest.raises(KafkaError) as raised:
        decompress(codec, stream, 2_999_999)
    assert raised.value.code is ErrorCode.MESSAGE_TOO_LARGE


@every_codec
def test_a_cut_stream_is_refused(codec: Codec) -> None:
    stream = compress(codec, bytes(range(256)) * 500)
    for size in range(0, len(stream), max(1, len(stream) // 50)):
        if codec is Codec.SNAPPY and size == len(XERIAL_HEADER):
            continue  # whole, and empty
        with pytest.raises(KafkaError) as raised:
            decompress(codec, stream[:size], LIMIT)
        assert raised.value.code is ErrorCode.INVALID_RECORD


@given(st.sampled_from(REAL_CODECS), payloads, st.data())
def test_a_scrambled_stream_never_does_worse_than_be_refused(codec: Codec, data: bytes, draw: st.DataObject) -> None:
    stream = bytearray(compress(codec, data))
    for _ in range(draw.draw(st.integers(1, 3))):
        stream[draw.draw(st.integers(0, len(stream) - 1))] = draw.draw(st.integers(0, 255))
    try:
        assert len(decompress(codec, stream, 1_000_000)) <= 1_000_000
    except KafkaError as error:
        assert error.code in (ErrorCode.INVALID_RECORD, ErrorCode.MESSAGE_TOO_LARGE)


@every_codec
def test_garbage_is_refused(codec: Codec) -> None:
    for garbage in (b"", b"\0", b"\xff" * 100, bytes(100)):
        if codec is Codec.SNAPPY and garbage in (b"\0", b""):
            continue
        with pytest.raises(KafkaError):
            decompress(codec, garbage, LIMIT)


@pytest.mark.parametrize(
    ("codec", "level"), [(Codec.GZIP, 9), (Codec.GZIP, -1), (Codec.LZ4, 1), (Codec.LZ4, 17), (Codec.ZSTD, 22)]
)
def test_levels_are_taken(codec: Codec, level: int) -> None:
    data = bytes(range(256)) * 300
    assert decompress(codec, compress(codec, data, level), LIMIT) == data
