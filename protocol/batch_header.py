"""The header of a record batch, format v2: 61 bytes, decoded. Sans-IO, and read many times a batch.

    position  0 base_offset int64            23 last_offset_delta int32
              8 batch_length int32           27 base_timestamp int64 (ms)
             12 partition_leader_epoch int32 35 max_timestamp int64 (ms)
             16 magic int8 (2)               43 producer_id int64
             17 crc uint32                   51 producer_epoch int16
             21 attributes int16             53 base_sequence int32
                                             57 records_count int32

`batch_length` counts from position 12. Attributes: bits 0-2 codec, 3 timestamp type (1 = LogAppendTime), 4
transactional, 5 control, 6 delete horizon. Source: Kafka's DefaultRecordBatch.
"""

from struct import Struct
from typing import Final

from typing_extensions import Buffer

HEADER_SIZE: Final = 61
LOG_OVERHEAD: Final = 12
"""Bytes before what `batch_length` counts."""
MAGIC: Final = 2
MAGIC_POSITION: Final = 16
CRC_POSITION: Final = 17
ATTRIBUTES_POSITION: Final = 21
LEGACY_BATCH_LENGTH_MIN: Final = 14
"""The lowest `batch_length` of any format (message v0); less is invalid (Kafka: RECORD_OVERHEAD_V0)."""
CODEC_MASK: Final = 0x07
LOG_APPEND_TIME_FLAG: Final = 0x08
TRANSACTIONAL_FLAG: Final = 0x10
CONTROL_FLAG: Final = 0x20
DELETE_HORIZON_FLAG: Final = 0x40
NO_TIMESTAMP: Final = -1
NO_PRODUCER_ID: Final = -1
NO_PRODUCER_EPOCH: Final = -1
NO_SEQUENCE: Final = -1
NO_PARTITION_LEADER_EPOCH: Final = -1
INT32_MAX: Final = 2**31 - 1

HEADER: Final = Struct(">qiibIhiqqqhii")


FIELDS: Final = (
    "base_offset",
    "batch_length",
    "partition_leader_epoch",
    "magic",
    "crc",
    "attributes",
    "last_offset_delta",
    "base_timestamp",
    "max_timestamp",
    "producer_id",
    "producer_epoch",
    "base_sequence",
    "records_count",
)
"""A header's, in the order of the bytes."""


class BatchHeader:
    """The 61 bytes, decoded. They are read many times per batch, which a named tuple would make expensive.

    Offsets are those in the bytes: relative to zero before a leader assigned them (`place`).
    """

    __slots__ = FIELDS

    def __init__(
        self,
        base_offset: int,
        batch_length: int,
        partition_leader_epoch: int,
        magic: int,
        crc: int,
        attributes: int,
        last_offset_delta: int,
        base_timestamp: int,
        max_timestamp: int,
        producer_id: int,
        producer_epoch: int,
        base_sequence: int,
        records_count: int,
    ) -> None:
        """Store the fields, in the order of the bytes."""
        self.base_offset = base_offset
        self.batch_length = batch_length
        self.partition_leader_epoch = partition_leader_epoch
        self.magic = magic
        self.crc = crc
        self.attributes = attributes
        self.last_offset_delta = last_offset_delta
        self.base_timestamp = base_timestamp
        self.max_timestamp = max_timestamp
        self.producer_id = producer_id
        self.producer_epoch = producer_epoch
        self.base_sequence = base_sequence
        self.records_count = records_count

    def __eq__(self, other: object) -> bool:
        """Return whether all fields are equal."""
        return isinstance(other, BatchHeader) and self.fields() == other.fields()

    def __repr__(self) -> str:
        """Show the fields."""
        return f"BatchHeader{self.fields()}"

    def fields(self) -> tuple[int, ...]:
        """Return the fields, in the order of the bytes."""
        return tuple([getattr(self, name) for name in FIELDS])

    def replaced(self, **changes: int) -> "BatchHeader":
        """Return another with some fields changed."""
        return BatchHeader(**(dict(zip(FIELDS, self.fields(), strict=True)) | changes))

    def place(self, base_offset: int, leader_epoch: int) -> None:
        """Set the offsets and the epoch that the bytes have been given."""
        self.base_offset = base_offset
        self.partition_leader_epoch = leader_epoch

    @property
    def size(self) -> int:
        """Bytes of the whole batch, header included."""
        return self.batch_length + LOG_OVERHEAD

    @property
    def last_offset(self) -> int:
        """The offset of the batch's last record (present or compacted away)."""
        return self.base_offset + self.last_offset_delta

    @property
    def next_offset(self) -> int:
        """One past `last_offset`."""
        return self.base_offset + self.last_offset_delta + 1

    @property
    def codec_id(self) -> int:
        """The codec's number as sent; not every number is a Codec."""
        return self.attributes & CODEC_MASK

    @property
    def is_log_append_time(self) -> bool:
        """Whether `max_timestamp` is the timestamp of every record."""
        return bool(self.attributes & LOG_APPEND_TIME_FLAG)

    @property
    def is_transactional(self) -> bool:
        """Whether the batch belongs to a transaction."""
        return bool(self.attributes & TRANSACTIONAL_FLAG)

    @property
    def is_control(self) -> bool:
        """Whether the records are control records (transaction markers and the like)."""
        return bool(self.attributes & CONTROL_FLAG)

    @property
    def delete_horizon_ms(self) -> int | None:
        """When tombstones and markers in it may go (ms, wall): the base timestamp, once a cleaner set it (KIP-534)."""
        return self.base_timestamp if self.attributes & DELETE_HORIZON_FLAG else None

    @property
    def has_producer_id(self) -> bool:
        """Whether an idempotent or transactional producer wrote it."""
        return self.producer_id > NO_PRODUCER_ID

    @property
    def last_sequence(self) -> int:
        """The sequence number of the last record, which wraps from 2^31 - 1 to 0; NO_SEQUENCE if there is none."""
        if self.base_sequence == NO_SEQUENCE:
            return NO_SEQUENCE
        return increment_sequence(self.base_sequence, self.last_offset_delta)


def increment_sequence(sequence: int, increment: int) -> int:
    """Return a later sequence number, with Kafka's wrap from 2^31 - 1 to 0."""
    return (sequence + increment) & INT32_MAX


def parse_header(view: Buffer, position: int = 0) -> BatchHeader:
    """Decode the header at `position`.

    Cheap: checks only that there are 61 bytes (assert: the caller's error).
    """
    # Not by a star: compiled, this way is a plain call.
    first, length, epoch, magic, crc, flags, delta, base_ms, max_ms, producer, producer_epoch, sequence, count = (
        HEADER.unpack_from(view, position)
    )
    return BatchHeader(
        first, length, epoch, magic, crc, flags, delta, base_ms, max_ms, producer, producer_epoch, sequence, count
    )
