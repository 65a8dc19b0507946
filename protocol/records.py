"""Record batches, format v2: checks, patches, decoding and building. Sans-IO, and the hot path.

A batch is 61 bytes of header (batch_header) and the records behind it, which may be compressed. The CRC-32C covers
everything from the attributes on, so `base_offset` and `partition_leader_epoch` (before it) may be patched in place
without touching it.

Source: Kafka's DefaultRecordBatch and DefaultRecord.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from struct import Struct
from typing import Final

from crc32c import crc32c

from kvorum.protocol.batch_header import (
    ATTRIBUTES_POSITION,
    CODEC_MASK,
    CONTROL_FLAG,
    CRC_POSITION,
    HEADER,
    HEADER_SIZE,
    LEGACY_BATCH_LENGTH_MIN,
    LOG_APPEND_TIME_FLAG,
    LOG_OVERHEAD,
    MAGIC,
    MAGIC_POSITION,
    NO_PARTITION_LEADER_EPOCH,
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    NO_SEQUENCE,
    NO_TIMESTAMP,
    TRANSACTIONAL_FLAG,
    BatchHeader,
    parse_header,
)
from kvorum.protocol.compression import Codec, compress, decompress
from kvorum.protocol.errors import ErrorCode, KafkaError
from kvorum.protocol.varints import append_varint, read_varint

DECOMPRESSED_SIZE_MAX: Final = 256 * 1024 * 1024
"""Maximum inflated size of a batch: 256 times the default max.message.bytes, far above that of valid data."""

_UINT32: Final = Struct(">I")
_PLACE: Final = Struct(">q4xi")
_TIMES: Final = Struct(">h4x8xq")


@dataclass(frozen=True, slots=True)
class Record:
    """One record. `offset` and `timestamp` (ms) are absolute; None is null; the order of headers is kept.

    A header key that is no UTF-8 keeps its bytes as surrogates.
    """

    value: bytes | None = None
    key: bytes | None = None
    timestamp: int = NO_TIMESTAMP
    headers: tuple[tuple[str, bytes | None], ...] = ()
    offset: int = -1


def next_batch_size(view: memoryview, position: int) -> int:
    """Return the size of the batch at `position`, or 0 where no whole batch follows.

    Raises KafkaError CORRUPT_MESSAGE for a length no batch can have, or a magic that Kafka never wrote.
    """
    remaining = len(view) - position
    if remaining < LOG_OVERHEAD:
        return 0
    batch_length = int.from_bytes(view[position + 8 : position + 12], "big", signed=True)
    if batch_length < LEGACY_BATCH_LENGTH_MIN:
        raise KafkaError(ErrorCode.CORRUPT_MESSAGE, f"batch length {batch_length} is too small")
    if remaining <= MAGIC_POSITION:
        return 0
    magic = view[position + MAGIC_POSITION]
    if magic > MAGIC:
        raise KafkaError(ErrorCode.CORRUPT_MESSAGE, f"unknown magic {magic}")
    size = batch_length + LOG_OVERHEAD
    if size > remaining:
        return 0
    if magic == MAGIC and size < HEADER_SIZE:
        raise KafkaError(ErrorCode.CORRUPT_MESSAGE, f"batch of {size} bytes is shorter than its header")
    return size


def batches(view: memoryview) -> Iterator[tuple[int, BatchHeader]]:
    """Yield (position, header) of each whole batch; a partial one at the end is left out, as Kafka does.

    Raises KafkaError CORRUPT_MESSAGE at an impossible length, UNSUPPORTED_FOR_MESSAGE_FORMAT at a batch older than v2.
    """
    position = 0
    while size := next_batch_size(view, position):
        if view[position + MAGIC_POSITION] != MAGIC:
            raise KafkaError(ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT, "only batches of magic 2 are supported")
        yield position, parse_header(view, position)
        position += size


def crc_of(view: memoryview, position: int, size: int) -> int:
    """Return the CRC-32C that the batch of `size` bytes at `position` should carry."""
    checksum: int = crc32c(view[position + ATTRIBUTES_POSITION : position + size])
    return checksum


def check_crc(view: memoryview, position: int, header: BatchHeader) -> None:
    """Raise KafkaError CORRUPT_MESSAGE unless the stored CRC is right."""
    computed = crc_of(view, position, header.batch_length + LOG_OVERHEAD)
    if computed != header.crc:
        raise KafkaError(ErrorCode.CORRUPT_MESSAGE, f"stored crc is {header.crc}, computed {computed}")


def patch_place(view: memoryview, position: int, base_offset: int, partition_leader_epoch: int) -> None:
    """Write base offset and leader epoch into the batch; both are outside the CRC. The view must be writable."""
    view[position : position + 8] = base_offset.to_bytes(8, "big")
    view[position + 12 : position + 16] = partition_leader_epoch.to_bytes(4, "big", signed=True)


def patch_times(view: memoryview, position: int, size: int, log_append_time: bool, max_timestamp: int) -> None:
    """Write timestamp type and max timestamp, and the CRC, which covers them. The view must be writable."""
    attributes = int.from_bytes(view[position + 21 : position + 23], "big", signed=True)
    attributes = attributes | LOG_APPEND_TIME_FLAG if log_append_time else attributes & ~LOG_APPEND_TIME_FLAG
    view[position + 21 : position + 23] = attributes.to_bytes(2, "big", signed=True)
    view[position + 35 : position + 43] = max_timestamp.to_bytes(8, "big", signed=True)
    _UINT32.pack_into(view, position + CRC_POSITION, crc_of(view, position, size))


def codec_of(header: BatchHeader) -> Codec:
    """Return the batch's codec. Raises KafkaError INVALID_RECORD for an invalid number."""
    try:
        return Codec(header.attributes & CODEC_MASK)
    except ValueError as error:
        raise KafkaError(ErrorCode.INVALID_RECORD, f"unknown compression type {header.codec_id}") from error


def records_bytes(
    view: memoryview, position: int, header: BatchHeader, decompressed_size_max: int = DECOMPRESSED_SIZE_MAX
) -> bytes:
    """Return the records of the batch, decompressed, in the form of the wire.

    Raises KafkaError INVALID_RECORD (unknown codec, not decompressible), MESSAGE_TOO_LARGE (inflates
    beyond the limit).
    """
    payload = view[position + HEADER_SIZE : position + header.batch_length + LOG_OVERHEAD]
    codec = codec_of(header)
    return bytes(payload) if codec is Codec.NONE else decompress(codec, payload, decompressed_size_max)


def decode_records(
    view: memoryview, position: int = 0, decompressed_size_max: int = DECOMPRESSED_SIZE_MAX
) -> list[Record]:
    """Return the records of the batch at `position`, with absolute offsets and timestamps.

    Raises KafkaError INVALID_RECORD where the records do not add up, and as records_bytes. Checks no CRC.
    """
    header = parse_header(view, position)
    data = records_bytes(view, position, header, decompressed_size_max)
    if header.records_count < 0 or header.records_count > len(data):
        raise KafkaError(ErrorCode.INVALID_RECORD, f"{header.records_count} records do not fit in {len(data)} bytes")
    found: list[Record] = []
    place = 0
    try:
        for _ in range(header.records_count):
            record, place = _decode_record(data, place, header)
            found.append(record)
    except (IndexError, ValueError) as error:
        raise KafkaError(ErrorCode.INVALID_RECORD, f"record {len(found)} cannot be decoded: {error}") from error
    if place != len(data):
        raise KafkaError(ErrorCode.INVALID_RECORD, f"{len(data) - place} bytes remain after the last record")
    return found


def _decode_record(data: bytes, place: int, header: BatchHeader) -> tuple[Record, int]:
    """Return one record and the place behind it. Raises IndexError or ValueError."""
    length, place = read_varint(data, place)
    end = place + length
    if length < 0 or end > len(data):
        raise ValueError("the record exceeds the batch")
    place += 1
    timestamp_delta, place = read_varint(data, place)
    offset_delta, place = read_varint(data, place)
    key, place = _decode_bytes(data, place, end)
    value, place = _decode_bytes(data, place, end)
    headers_count, place = read_varint(data, place)
    if headers_count < 0 or headers_count > end - place:
        raise ValueError(f"invalid number of headers {headers_count}")
    headers: list[tuple[str, bytes | None]] = []
    for _ in range(headers_count):
        name, place = _decode_bytes(data, place, end)
        if name is None:
            raise ValueError("a header without a key")
        content, place = _decode_bytes(data, place, end)
        headers.append((name.decode(errors="surrogateescape"), content))
    if place != end:
        raise ValueError(f"the record is {end - place} bytes longer than its fields")
    timestamp = header.max_timestamp if header.is_log_append_time else header.base_timestamp + timestamp_delta
    return Record(value, key, timestamp, tuple(headers), header.base_offset + offset_delta), end


def _decode_bytes(data: bytes, place: int, end: int) -> tuple[bytes | None, int]:
    """Return a length-prefixed value (None for a negative length) and the place behind it."""
    length, place = read_varint(data, place)
    if length < 0:
        return None, place
    if place + length > end:
        raise ValueError("a field exceeds its record")
    return data[place : place + length], place + length


def encode_records(records: Iterable[Record], base_timestamp: int, base_offset: int | None = None) -> bytes:
    """Return the records of a batch. Offset deltas count up from 0, or are those of the records."""
    encoded = bytearray()
    for index, record in enumerate(records):
        body = bytearray(1)
        append_varint(body, record.timestamp - base_timestamp)
        append_varint(body, index if base_offset is None else record.offset - base_offset)
        _append_bytes(body, record.key)
        _append_bytes(body, record.value)
        append_varint(body, len(record.headers))
        for name, content in record.headers:
            _append_bytes(body, name.encode(errors="surrogateescape"))
            _append_bytes(body, content)
        append_varint(encoded, len(body))
        encoded += body
    return bytes(encoded)


def _append_bytes(target: bytearray, value: bytes | None) -> None:
    """Append a length-prefixed value, -1 for None."""
    if value is None:
        target.append(1)
        return
    append_varint(target, len(value))
    target += value


def build_batch(
    records: Sequence[Record],
    *,
    base_offset: int = 0,
    partition_leader_epoch: int = NO_PARTITION_LEADER_EPOCH,
    codec: Codec = Codec.NONE,
    compression_level: int | None = None,
    producer_id: int = NO_PRODUCER_ID,
    producer_epoch: int = NO_PRODUCER_EPOCH,
    base_sequence: int = NO_SEQUENCE,
    is_transactional: bool = False,
    is_control: bool = False,
    log_append_time_ms: int | None = None,
    keep_offsets: bool = False,
) -> bytearray:
    """Return one batch of at least one record; equal arguments give equal bytes.

    Records get the offsets from `base_offset` on; with `keep_offsets` their own (ascending, the first is the base: the
    rest of a batch after compaction). `log_append_time_ms` marks the batch LogAppendTime. A record without
    timestamp keeps -1.
    """
    assert records, "a batch has a record"
    base_timestamp = records[0].timestamp
    first_offset = records[0].offset if keep_offsets else base_offset
    payload = encode_records(records, base_timestamp, first_offset if keep_offsets else None)
    if codec is not Codec.NONE:
        payload = compress(codec, payload, compression_level)
    attributes = int(codec)
    attributes |= TRANSACTIONAL_FLAG if is_transactional else 0
    attributes |= CONTROL_FLAG if is_control else 0
    max_timestamp = max(record.timestamp for record in records)
    if log_append_time_ms is not None:
        attributes |= LOG_APPEND_TIME_FLAG
        max_timestamp = log_append_time_ms
    batch = bytearray(HEADER_SIZE)
    HEADER.pack_into(
        batch,
        0,
        first_offset,
        HEADER_SIZE - LOG_OVERHEAD + len(payload),
        partition_leader_epoch,
        MAGIC,
        0,
        attributes,
        records[-1].offset - first_offset if keep_offsets else len(records) - 1,
        base_timestamp,
        max_timestamp,
        producer_id,
        producer_epoch,
        base_sequence,
        len(records),
    )
    batch += payload
    with memoryview(batch) as view:
        _UINT32.pack_into(view, CRC_POSITION, crc_of(view, 0, len(batch)))
    return batch


def rebuilt_batch(header: BatchHeader, payload: bytes) -> bytearray:
    """Return a batch of this header and these (compressed) records; length and CRC are computed."""
    batch = bytearray(HEADER_SIZE)
    HEADER.pack_into(batch, 0, *header.replaced(batch_length=HEADER_SIZE - LOG_OVERHEAD + len(payload), crc=0).fields())
    batch += payload
    with memoryview(batch) as view:
        _UINT32.pack_into(view, CRC_POSITION, crc_of(view, 0, len(batch)))
    return batch
