"""Frames with every option of gzip, snappy, lz4 and zstd: none is accepted that Kafka's Java client cannot read.

The column JAVA was recorded from Apache Kafka 4.3.0 (DefaultRecordBatch.streamingIterator on a batch with the frame,
JDK 17; lz4-java 1.10.2, snappy-java 1.1.10.7, zstd-jni 1.5.6): whether a consumer reads the record in it.
"""

import struct
import zlib
from typing import Final

import cramjam
import pytest

from kvorum.protocol.compression import Codec, decompress
from kvorum.protocol.errors import ErrorCode, KafkaError

SMALL: Final = b"\x0e\x00\x00\x00\x01\x02v\x00"
"""One record without a key, with the value "v"."""
LARGE: Final = b"\xa8\x9e\x0c\x00\x00\x00\x01\x98\x9e\x0c" + b"0123456789" * 10_023 + b"012345\x00"
"""One record of 100,247 bytes: more than one block of 64 KiB."""
SKIPPABLE: Final = struct.pack("<II", 0x184D2A50, 3) + b"xyz"


def _gzip(
    data: bytes, flags: int = 0, extra: bytes = b"", method: int = 8, crc: int | None = None, size: int | None = None
) -> bytes:
    deflate = zlib.compressobj(6, zlib.DEFLATED, -15)
    trailer = struct.pack("<II", zlib.crc32(data) if crc is None else crc, len(data) if size is None else size)
    return (
        b"\x1f\x8b"
        + bytes([method, flags])
        + b"\0\0\0\0\0\xff"
        + extra
        + deflate.compress(data)
        + deflate.flush()
        + trailer
    )


def _header_crc(flags: int) -> bytes:
    return struct.pack("<H", zlib.crc32(b"\x1f\x8b\x08" + bytes([flags]) + b"\0\0\0\0\0\xff") & 0xFFFF)


def _snappy(data: bytes) -> bytes:
    return bytes(cramjam.snappy.compress_raw(data))


def _xerial(data: bytes, version: int = 1, compatible: int = 1, block_size: int = 32 * 1024) -> bytes:
    frame = b"\x82SNAPPY\0" + struct.pack(">ii", version, compatible)
    for start in range(0, len(data), block_size):
        block = _snappy(data[start : start + block_size])
        frame += struct.pack(">i", len(block)) + block
    return frame


def _rotate(number: int, bits: int) -> int:
    return (number << bits | number >> 32 - bits) & 0xFFFFFFFF


def _xxh32(data: bytes) -> int:
    """Return xxHash32 with seed 0 of fewer than 16 bytes."""
    assert len(data) < 16
    value = 374761393 + len(data)
    whole = len(data) // 4 * 4
    for (word,) in struct.iter_unpack("<I", data[:whole]):
        value = _rotate((value + word * 3266489917) & 0xFFFFFFFF, 17) * 668265263 & 0xFFFFFFFF
    for byte in data[whole:]:
        value = _rotate((value + byte * 374761393) & 0xFFFFFFFF, 11) * 2654435761 & 0xFFFFFFFF
    value = (value ^ value >> 15) * 2246822519 & 0xFFFFFFFF
    value = (value ^ value >> 13) * 3266489917 & 0xFFFFFFFF
    return value ^ value >> 16


def _lz4_block(block: bytes, is_stored: bool, checksum: int | None = None) -> bytes:
    packed = block if is_stored else bytes(cramjam.lz4.compress_block(block, store_size=False))
    frame = struct.pack("<I", len(packed) | is_stored << 31) + packed
    return frame if checksum is None else frame + struct.pack("<I", _xxh32(packed) ^ checksum)


def _lz4(
    data: bytes,
    flags: int = 0x60,
    sizes: int = 0x40,
    extra: bytes = b"",
    block_size: int = 64 * 1024,
    is_stored: bool = False,
    blocks: bytes | None = None,
    end: bytes = bytes(4),
    damage: int = 0,
    block_damage: int = 0,
) -> bytes:
    """Return a frame. `damage` and `block_damage` are XORed to the checksums of the header and of each block."""
    head = bytes([flags, sizes]) + extra
    frame = b"\x04\x22\x4d\x18" + head + bytes([_xxh32(head) >> 8 & 255 ^ damage])
    if blocks is None:
        for start in range(0, len(data), block_size):
            frame += _lz4_block(data[start : start + block_size], is_stored, block_damage if flags & 0x10 else None)
    else:
        frame += blocks
    return frame + end


def _between(block: bytes) -> bytes:
    """Return a frame with this block between two that hold a half of SMALL each."""
    return _lz4(b"", blocks=_lz4_block(SMALL[:4], True) + block + _lz4_block(SMALL[4:], True))


def _zstd(
    data: bytes,
    descriptor: int = 0,
    window: int = 20 - 10 << 3,
    extra: bytes = b"",
    block_size: int = 128 * 1024,
    kind: int = 0,
    end: bytes = b"",
) -> bytes:
    """Return a frame of raw blocks."""
    frame = b"\x28\xb5\x2f\xfd" + bytes([descriptor]) + (b"" if descriptor & 0x20 else bytes([window])) + extra
    for start in range(0, len(data) or 1, block_size):
        block = data[start : start + block_size]
        is_last = start + block_size >= len(data)
        frame += (len(block) << 3 | kind << 1 | is_last).to_bytes(3, "little") + block
    return frame + end


def _window(log: int, eighths: int = 0) -> bytes:
    return _zstd(SMALL, window=log - 10 << 3 | eighths)


CHECKSUM: Final = struct.pack("<I", _xxh32(SMALL))
XXH64: Final = bytes.fromhex("5926d489")
"""The low half of SMALL's xxHash64."""

READ: Final = True
FAILS: Final = False

BOTH_SIZES: Final[list[tuple[str, Codec, bytes, bool]]] = [
    row
    for size, data in (("small", SMALL), ("large", LARGE))
    for row in [
        (f"gzip, {size}", Codec.GZIP, _gzip(data), READ),
        (f"gzip in two members, {size}", Codec.GZIP, _gzip(data[:5]) + _gzip(data[5:]), READ),
        (f"snappy, raw, {size}", Codec.SNAPPY, _snappy(data), READ),
        (f"snappy, xerial, {size}", Codec.SNAPPY, _xerial(data), READ),
        (f"snappy, xerial, blocks of 1 MiB, {size}", Codec.SNAPPY, _xerial(data, block_size=1 << 20), READ),
        (f"lz4, independent blocks, {size}", Codec.LZ4, _lz4(data), READ),
        (f"lz4, independent stored blocks, {size}", Codec.LZ4, _lz4(data, is_stored=True), READ),
        (f"lz4, linked blocks, {size}", Codec.LZ4, _lz4(data, 0x40), FAILS),
        (f"lz4, linked stored blocks, {size}", Codec.LZ4, _lz4(data, 0x40, is_stored=True), FAILS),
        (f"lz4, a dictionary id, {size}", Codec.LZ4, _lz4(data, 0x61, extra=b"\1\0\0\0"), FAILS),
        (f"lz4, blocks of 4 MiB, {size}", Codec.LZ4, _lz4(data, sizes=0x70, block_size=1 << 22), READ),
        (f"lz4, content size, {size}", Codec.LZ4, _lz4(data, 0x68, extra=struct.pack("<Q", len(data))), READ),
        (f"lz4, two frames, {size}", Codec.LZ4, _lz4(data[:4]) + _lz4(data[4:]), FAILS),
        (f"zstd, {size}", Codec.ZSTD, bytes(cramjam.zstd.compress(data)), READ),
        (f"zstd, raw blocks, {size}", Codec.ZSTD, _zstd(data), READ),
        (f"zstd, content size, {size}", Codec.ZSTD, _zstd(data, 0x80, extra=struct.pack("<I", len(data))), READ),
        (f"zstd, one segment, {size}", Codec.ZSTD, _zstd(data, 0xA0, extra=struct.pack("<I", len(data))), READ),
        (f"zstd, two frames, {size}", Codec.ZSTD, _zstd(data[:4]) + _zstd(data[4:]), READ),
    ]
]
GZIP: Final = [
    ("name, comment, extra field", _gzip(SMALL, 0x1C, b"\x03\0abc" + b"name\0" + b"comment\0"), READ),
    ("text flag", _gzip(SMALL, 0x01), READ),
    ("header checksum", _gzip(SMALL, 0x02, _header_crc(0x02)), READ),
    ("wrong header checksum", _gzip(SMALL, 0x02, b"\0\1"), FAILS),
    ("another method", _gzip(SMALL, method=7), FAILS),
    ("wrong checksum", _gzip(SMALL, crc=1), FAILS),
    ("wrong size", _gzip(SMALL, size=1), FAILS),
    ("no trailer", _gzip(SMALL)[:-8], FAILS),
    ("half a trailer", _gzip(SMALL)[:-4], FAILS),
    ("an empty member first", _gzip(b"") + _gzip(SMALL), READ),
    ("an empty member last", _gzip(SMALL) + _gzip(b""), READ),
    ("zlib", zlib.compress(SMALL), FAILS),
    ("nothing", b"", FAILS),
]
SNAPPY: Final = [
    ("raw, then garbage", _snappy(SMALL) + b"garbage", FAILS),
    ("raw, without its length", _snappy(SMALL)[1:], FAILS),
    ("the framing format of Google", bytes(cramjam.snappy.compress(SMALL)), FAILS),
    ("xerial, version 2", _xerial(SMALL, 2), READ),
    ("xerial, version 0", _xerial(SMALL, 0, 0), READ),
    ("xerial, compatible with version 2", _xerial(SMALL, 1, 2), READ),
    ("xerial, an empty block last", _xerial(SMALL) + b"\0\0\0\1\0", READ),
    ("xerial, a length of 0", _xerial(SMALL) + bytes(4), FAILS),
    ("xerial, a length of -1", _xerial(SMALL) + b"\xff\xff\xff\xff", FAILS),
    ("xerial, a block that is cut", _xerial(SMALL) + b"\0\0\0\x64abc", FAILS),
    ("nothing", b"", FAILS),
]
LZ4: Final = [
    ("a dictionary id of 0", _lz4(SMALL, 0x61, extra=bytes(4)), FAILS),
    ("the reserved flag", _lz4(SMALL, 0x62), FAILS),
    ("version 0", _lz4(SMALL, 0x20), FAILS),
    ("version 2", _lz4(SMALL, 0xA0), FAILS),
    ("block checksums", _lz4(SMALL, 0x70), READ),
    ("wrong block checksums", _lz4(SMALL, 0x70, block_damage=1), FAILS),
    ("content checksum", _lz4(SMALL, 0x64, end=bytes(4) + CHECKSUM), READ),
    ("content checksum is missing", _lz4(SMALL, 0x64), FAILS),
    ("content checksum is cut", _lz4(SMALL, 0x64, end=bytes(4) + CHECKSUM[:2]), FAILS),
    ("content size of 0 (unknown)", _lz4(SMALL, 0x68, extra=bytes(8)), READ),
    ("wrong header checksum", _lz4(SMALL, damage=1), FAILS),
    ("no such block size", _lz4(SMALL, sizes=0x30), FAILS),
    ("reserved bits of the block size", _lz4(SMALL, sizes=0x41), FAILS),
    ("the upper reserved bit of the block size", _lz4(SMALL, sizes=0xC0), FAILS),
    ("a stored block above the announced size", _lz4(LARGE, block_size=1 << 17, is_stored=True), FAILS),
    ("a block above the announced size", _lz4(LARGE, block_size=1 << 17), FAILS),
    ("blocks of 3 bytes", _lz4(SMALL, block_size=3, is_stored=True), READ),
    ("an empty block first", _lz4(b"", blocks=b"\1\0\0\0\0" + _lz4_block(SMALL, False)), FAILS),
    (
        "an empty block between",
        _between(b"\1\0\0\0\0"),
        FAILS,
    ),
    (
        "an empty stored block between",
        _between(b"\0\0\0\x80"),
        FAILS,
    ),
    ("no end mark", _lz4(SMALL, end=b""), FAILS),
    ("half an end mark", _lz4(SMALL, end=b"\0\0"), FAILS),
    ("an empty frame first", _lz4(b"") + _lz4(SMALL), FAILS),
    ("a skippable frame first", SKIPPABLE + _lz4(SMALL), FAILS),
    ("the legacy frame", struct.pack("<I", 0x184C2102) + _lz4_block(SMALL, False), FAILS),
    ("a block without a frame", _lz4_block(SMALL, False)[4:], FAILS),
    ("nothing", b"", FAILS),
]
ZSTD: Final = [
    ("checksum", _zstd(SMALL, 0x04, end=XXH64), READ),
    ("wrong checksum", _zstd(SMALL, 0x04, end=b"abcd"), FAILS),
    ("checksum is missing", _zstd(SMALL, 0x04), FAILS),
    ("a dictionary id", _zstd(SMALL, 0x01, extra=b"\5"), FAILS),
    ("a dictionary id of two bytes", _zstd(SMALL, 0x02, extra=b"\5\0"), FAILS),
    ("a dictionary id of 0", _zstd(SMALL, 0x01, extra=b"\0"), READ),
    ("content size too large", _zstd(SMALL, 0x80, extra=struct.pack("<I", len(SMALL) + 1)), FAILS),
    ("content size too small", _zstd(SMALL, 0x80, extra=struct.pack("<I", len(SMALL) - 1)), FAILS),
    ("the reserved bit", _zstd(SMALL, 0x08), FAILS),
    ("the unused bit", _zstd(SMALL, 0x10), READ),
    ("a window of 1 KiB", _window(10), READ),
    ("a window of 128 MiB", _window(27), READ),
    ("a window of 144 MiB", _window(27, 1), FAILS),
    ("a window of 256 MiB", _window(28), FAILS),
    ("a window of 2 TiB", _window(41), FAILS),
    ("the reserved block type", _zstd(SMALL, kind=3), FAILS),
    ("an empty frame first", _zstd(b"") + _zstd(SMALL), READ),
    ("an empty frame last", _zstd(SMALL) + _zstd(b""), READ),
    ("a skippable frame first", SKIPPABLE + _zstd(SMALL), READ),
    ("a skippable frame last", _zstd(SMALL) + SKIPPABLE, READ),
    ("then garbage", _zstd(SMALL) + b"garbage garbage", FAILS),
    ("then a zero", _zstd(SMALL) + b"\0", FAILS),
    ("no last block", _zstd(LARGE + LARGE)[: -len(LARGE)], FAILS),
    ("the magic of zstd 0.7", b"\x27" + _zstd(SMALL)[1:], FAILS),
    ("no magic", _zstd(SMALL)[4:], FAILS),
    ("nothing", b"", FAILS),
]
FRAMES: Final = [
    *BOTH_SIZES,
    *((f"gzip, {name}", Codec.GZIP, frame, java) for name, frame, java in GZIP),
    *((f"snappy, {name}", Codec.SNAPPY, frame, java) for name, frame, java in SNAPPY),
    *((f"lz4, {name}", Codec.LZ4, frame, java) for name, frame, java in LZ4),
    *((f"zstd, {name}", Codec.ZSTD, frame, java) for name, frame, java in ZSTD),
]
STRICTER: Final = [
    # Java's readers are lenient with these. They are damaged or against the format's specification, and other
    # clients (librdkafka) do not read them, so they are refused.
    ("gzip, a reserved flag", Codec.GZIP, _gzip(SMALL, 0x20)),
    ("gzip, then garbage", Codec.GZIP, _gzip(SMALL) + b"garbage and more garbage than a header has"),
    ("gzip, then a zero", Codec.GZIP, _gzip(SMALL) + b"\0"),
    ("gzip, then a member that is cut", Codec.GZIP, _gzip(SMALL) + _gzip(b"more")[:14]),
    ("snappy, xerial, two streams", Codec.SNAPPY, _xerial(SMALL[:4]) + _xerial(SMALL[4:])),
    ("snappy, xerial, then a byte", Codec.SNAPPY, _xerial(SMALL) + b"\0"),
    ("lz4, wrong content checksum", Codec.LZ4, _lz4(SMALL, 0x64, end=bytes(4) + b"abcd")),
    ("lz4, wrong content size", Codec.LZ4, _lz4(SMALL, 0x68, extra=struct.pack("<Q", len(SMALL) + 1))),
    ("lz4, a stored empty block as end mark", Codec.LZ4, _lz4(SMALL, end=b"\0\0\0\x80")),
    ("lz4, an empty block last", Codec.LZ4, _lz4(b"", blocks=_lz4_block(SMALL, False) + b"\1\0\0\0\0")),
    ("lz4, an empty stored block last", Codec.LZ4, _lz4(SMALL, end=b"\0\0\0\x80" + bytes(4))),
    ("lz4, then garbage", Codec.LZ4, _lz4(SMALL) + b"garbage"),
    ("lz4, then an empty frame", Codec.LZ4, _lz4(SMALL) + _lz4(b"")),
    ("lz4, then a skippable frame", Codec.LZ4, _lz4(SMALL) + SKIPPABLE),
    ("zstd, then a skippable frame that is cut", Codec.ZSTD, _zstd(SMALL) + SKIPPABLE[:-1]),
    ("zstd, then a magic that is cut", Codec.ZSTD, _zstd(SMALL) + _zstd(SMALL)[:3]),
]


def _read(codec: Codec, frame: bytes) -> bytes | None:
    """Return the content, None for a frame that is refused. No record at all is refused by the record walk."""
    try:
        return decompress(codec, frame, 1 << 20) or None
    except KafkaError as error:
        assert error.code is ErrorCode.INVALID_RECORD
        return None


@pytest.mark.parametrize(("codec", "frame", "java"), [row[1:] for row in FRAMES], ids=[row[0] for row in FRAMES])
def test_a_frame_is_accepted_if_java_reads_it(codec: Codec, frame: bytes, java: bool) -> None:
    assert (_read(codec, frame) in (SMALL, LARGE)) == java


@pytest.mark.parametrize(("codec", "frame"), [row[1:] for row in STRICTER], ids=[row[0] for row in STRICTER])
def test_a_damaged_frame_is_refused_though_java_reads_it(codec: Codec, frame: bytes) -> None:
    assert _read(codec, frame) is None


def test_the_refusal_names_the_option() -> None:
    with pytest.raises(KafkaError, match="linked blocks; Kafka's clients read independent blocks only"):
        decompress(Codec.LZ4, _lz4(SMALL, 0x40), 1 << 20)
