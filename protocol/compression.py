"""The four codecs of Kafka's record batches, as Java's clients and librdkafka read and write them. Sans-IO.

gzip is plain gzip. snappy is xerial's framing when Java or librdkafka write it, one raw block from some other clients:
both are read, xerial is written. lz4 is one lz4 frame. zstd is zstd frames.

No frame is accepted that Kafka's Java client cannot read, because its consumers would stop at the batch: see
`_lz4_bound` for lz4. The other codecs' libraries reject the same frames as Java's (test_frame_options.py has the
table).

A stream never inflates beyond its limit: the bound comes from the stream's block headers if the format has them, so no
memory is allocated because of a length alone, and otherwise from the size of the output buffer.
"""

from enum import IntEnum
from typing import Final

import cramjam
from typing_extensions import Buffer

from kvorum.protocol.errors import ErrorCode, KafkaError

XERIAL_MAGIC: Final = b"\x82SNAPPY\x00"
XERIAL_HEADER: Final = XERIAL_MAGIC + (1).to_bytes(4, "big") + (1).to_bytes(4, "big")
XERIAL_BLOCK_SIZE: Final = 32 * 1024
"""Block size of Java's writer."""

LZ4_MAGIC: Final = b"\x04\x22\x4d\x18"
LZ4_HEADER: Final = LZ4_MAGIC + b"\x60\x40\x82"
"""Independent blocks of at most 64 KiB, no checksums; 0x82 is the checksum of the two bytes before it. Kafka's own."""
LZ4_BLOCK_SIZE: Final = 64 * 1024
LZ4_UNCOMPRESSED_FLAG: Final = 0x80000000
LZ4_CONTENT_SIZE_FLAG: Final = 0x08
LZ4_BLOCK_CHECKSUM_FLAG: Final = 0x10
LZ4_CONTENT_CHECKSUM_FLAG: Final = 0x04
LZ4_INDEPENDENT_BLOCKS_FLAG: Final = 0x20
"""Not set: a block may refer to bytes of earlier blocks."""
LZ4_DICTIONARY_FLAG: Final = 0x01
LZ4_BLOCK_SIZES: Final = {4: 64 * 1024, 5: 256 * 1024, 6: 1024 * 1024, 7: 4 * 1024 * 1024}

ZSTD_MAGIC: Final = 0xFD2FB528
ZSTD_SKIPPABLE_MAGIC: Final = 0x184D2A50
ZSTD_BLOCK_SIZE_MAX: Final = 128 * 1024

GZIP_LEVEL: Final = 6
ZSTD_LEVEL: Final = 3
LZ4_LEVEL: Final = 9
"""Kafka's defaults (compression.gzip.level = -1 is zlib's 6)."""

GZIP_FIRST_GUESS_MIN: Final = 4096


class Codec(IntEnum):
    """The number in a batch's attributes."""

    NONE = 0
    GZIP = 1
    SNAPPY = 2
    LZ4 = 3
    ZSTD = 4


def compress(codec: Codec, data: bytes, level: int | None = None) -> bytes:
    """Return the data as Kafka's clients expect that codec. `level` None is Kafka's default; snappy has none."""
    match codec:
        case Codec.NONE:
            return data
        case Codec.GZIP:
            return bytes(cramjam.gzip.compress(data, GZIP_LEVEL if level is None or level < 0 else level))
        case Codec.SNAPPY:
            return _compress_xerial(data)
        case Codec.LZ4:
            return _compress_lz4(data, LZ4_LEVEL if level is None else level)
        case Codec.ZSTD:
            return bytes(cramjam.zstd.compress(data, ZSTD_LEVEL if level is None else level))


def decompress(codec: Codec, data: Buffer, size_max: int) -> bytes:
    """Return the decompressed bytes.

    Raises KafkaError INVALID_RECORD if the stream is not of that codec or is cut, MESSAGE_TOO_LARGE if it inflates
    beyond `size_max` bytes.
    """
    stream = bytes(data)
    try:
        match codec:
            case Codec.NONE:
                return stream
            case Codec.GZIP:
                return _decompress_gzip(stream, size_max)
            case Codec.SNAPPY:
                return _decompress_snappy(stream, size_max)
            case Codec.LZ4:
                return _decompress_bounded(cramjam.lz4, stream, _lz4_bound(stream), size_max)
            case Codec.ZSTD:
                return _decompress_bounded(cramjam.zstd, stream, _zstd_bound(stream), size_max)
    except (cramjam.DecompressionError, IndexError, ValueError) as error:
        raise KafkaError(
            ErrorCode.INVALID_RECORD, f"cannot decompress {codec.name.lower()} records: {error}"
        ) from error


def _too_large(size_max: int) -> KafkaError:
    """Return the error of a stream that inflates beyond its limit."""
    return KafkaError(ErrorCode.MESSAGE_TOO_LARGE, f"the records inflate beyond {size_max} bytes")


def _decompress_bounded(codec_module: object, stream: bytes, bound: int, size_max: int) -> bytes:
    """Inflate into a buffer of the lesser of the two sizes; zero pages cost nothing until written."""
    output = bytearray(min(bound, size_max))
    try:
        size: int = codec_module.decompress_into(stream, output)  # type: ignore[attr-defined]  # cramjam has no stubs
    except cramjam.DecompressionError as error:
        if bound > size_max and "whole buffer" in str(error):
            raise _too_large(size_max) from error
        raise
    return bytes(memoryview(output)[:size])


def _decompress_gzip(stream: bytes, size_max: int) -> bytes:
    """Inflate gzip: the trailer gives a size to try first, then the buffer grows up to the limit."""
    if len(stream) < 18:
        raise ValueError("shorter than gzip's header and trailer")
    size = max(int.from_bytes(stream[-4:], "little"), GZIP_FIRST_GUESS_MIN)
    while True:
        # Deflate cannot inflate more than 1032-fold: a lying trailer gets no larger buffer than that.
        size = min(size, size_max, len(stream) * 1032)
        try:
            return _decompress_bounded(cramjam.gzip, stream, size, size)
        except cramjam.DecompressionError as error:
            if "whole buffer" not in str(error) or size == len(stream) * 1032:
                raise
            if size == size_max:
                raise _too_large(size_max) from error
        size *= 4


def _compress_xerial(data: bytes) -> bytes:
    """Return xerial's stream: header, then blocks with their length before them."""
    output = bytearray(XERIAL_HEADER)
    for start in range(0, len(data), XERIAL_BLOCK_SIZE):
        block = bytes(cramjam.snappy.compress_raw(data[start : start + XERIAL_BLOCK_SIZE]))
        output += len(block).to_bytes(4, "big")
        output += block
    return bytes(output)


def _decompress_snappy(stream: bytes, size_max: int) -> bytes:
    """Return the content of xerial's stream or of one raw block."""
    if not stream.startswith(XERIAL_MAGIC):
        return _decompress_snappy_block(stream, size_max)
    if len(stream) < len(XERIAL_HEADER):
        raise ValueError("truncated xerial header")
    output: list[bytes] = []
    left = size_max
    position = len(XERIAL_HEADER)
    while position < len(stream):
        size = int.from_bytes(stream[position : position + 4], "big")
        position += 4
        if size == 0 or position + size > len(stream):
            raise ValueError("a xerial block exceeds the stream")
        output.append(_decompress_snappy_block(stream[position : position + size], left, size_max))
        left -= len(output[-1])
        position += size
    return b"".join(output)


def _decompress_snappy_block(block: bytes, left: int, size_max: int | None = None) -> bytes:
    """Return one raw block's content; its length precedes it, and a block cannot inflate more than 64-fold."""
    size: int = cramjam.snappy.decompress_raw_len(block)
    if size > len(block) * 64:
        raise ValueError("invalid size of a snappy block")
    if size > left:
        raise _too_large(left if size_max is None else size_max)
    return bytes(cramjam.snappy.decompress_raw(block))


def _compress_lz4(data: bytes, level: int) -> bytes:
    """Return an lz4 frame of independent blocks; a block that does not shrink is stored."""
    output = bytearray(LZ4_HEADER)
    for start in range(0, len(data), LZ4_BLOCK_SIZE):
        block = data[start : start + LZ4_BLOCK_SIZE]
        packed = bytes(
            cramjam.lz4.compress_block(block, mode="high_compression", compression=level, store_size=False)
            if level > 2
            else cramjam.lz4.compress_block(block, mode="default", store_size=False)
        )
        if len(packed) < len(block):
            output += len(packed).to_bytes(4, "little") + packed
        else:
            output += (len(block) | LZ4_UNCOMPRESSED_FLAG).to_bytes(4, "little") + block
    output += bytes(4)
    return bytes(output)


def _lz4_bound(stream: bytes) -> int:
    """Return the most that the frame's blocks can hold, by walking their headers. Raises IndexError, ValueError.

    Refuses frames that liblz4 reads and Kafka's Lz4BlockInputStream does not: linked blocks (KIP-57), a dictionary id,
    an empty block, anything behind the first frame.
    """
    if not stream.startswith(LZ4_MAGIC):
        raise ValueError("not an lz4 frame")
    flags = stream[4]
    if not flags & LZ4_INDEPENDENT_BLOCKS_FLAG:
        raise ValueError("the lz4 frame has linked blocks; Kafka's clients read independent blocks only")
    if flags & LZ4_DICTIONARY_FLAG:
        raise ValueError("the lz4 frame needs a dictionary")
    block_size = LZ4_BLOCK_SIZES.get((stream[5] >> 4) & 7)
    if block_size is None:
        raise ValueError("invalid lz4 block size")
    position = 7 + (8 if flags & LZ4_CONTENT_SIZE_FLAG else 0)
    checksum_size = 4 if flags & LZ4_BLOCK_CHECKSUM_FLAG else 0
    bound = 0
    while position + 4 <= len(stream):
        word = int.from_bytes(stream[position : position + 4], "little")
        position += 4
        if word == 0:
            position += 4 if flags & LZ4_CONTENT_CHECKSUM_FLAG else 0
            if position != len(stream):
                raise ValueError(f"{len(stream) - position} bytes follow the lz4 frame's end")
            return bound
        size = word & ~LZ4_UNCOMPRESSED_FLAG
        is_compressed = size == word
        if size == 0 or (size == 1 and is_compressed):  # a compressed block of one byte has no content
            raise ValueError("the lz4 frame has an empty block")
        bound += min(block_size, size * 255 if is_compressed else size)
        position += size + checksum_size
    raise ValueError("unterminated lz4 frame")


def _zstd_bound(stream: bytes) -> int:
    """Return the most that the frames' blocks can hold, by walking their headers. Raises IndexError, ValueError."""
    position = bound = 0
    while position < len(stream):
        magic = int.from_bytes(stream[position : position + 4], "little")
        if magic & 0xFFFFFFF0 == ZSTD_SKIPPABLE_MAGIC:
            position += 8 + int.from_bytes(stream[position + 4 : position + 8], "little")
            continue
        if magic != ZSTD_MAGIC:
            raise ValueError("not a zstd frame")
        frame, position = _zstd_frame_bound(stream, position + 4)
        bound += frame
    return bound


def _zstd_frame_bound(stream: bytes, position: int) -> tuple[int, int]:
    """Return (bound, position behind the frame); RFC 8878 section 3.1.1. Raises IndexError."""
    descriptor = stream[position]
    single_segment = descriptor >> 5 & 1
    dictionary_size = (0, 1, 2, 4)[descriptor & 3]
    content_size = (single_segment, 2, 4, 8)[descriptor >> 6]
    position += 1 + (1 - single_segment) + dictionary_size + content_size
    bound = 0
    while True:
        header = stream[position] | stream[position + 1] << 8 | stream[position + 2] << 16
        position += 3
        kind, size = header >> 1 & 3, header >> 3
        if kind == 3:
            raise ValueError("a reserved zstd block type")
        # Raw blocks have their declared size, a run-length block has its declared length, a compressed one is capped.
        bound += ZSTD_BLOCK_SIZE_MAX if kind == 2 else size
        position += 1 if kind == 1 else size
        if header & 1:
            return bound, position + (4 if descriptor & 4 else 0)
