"""Converts metadata records to record batches of the metadata log, and back.

Sans-IO. A batch is one atomic change of the image. A change beyond the limits of one command of the log becomes several
batches between transaction markers (KIP-868); it is never visible in part.
"""

from collections.abc import Iterator, Sequence
from typing import Final

from kvorum.protocol.batch_header import BatchHeader
from kvorum.protocol.records import Record, batches, build_batch, check_crc, decode_records
from kvorum.quorum.image import split_into_batches
from kvorum.quorum.raft.log import COMMAND_BYTES_MAX, COMMAND_RECORDS_MAX
from kvorum.quorum.records import MetadataRecord, UnknownRecord, decode, encode
from kvorum.quorum.steps import Steps, finish, pieces

METADATA_TOPIC: Final = "__cluster_metadata"
METADATA_PARTITION: Final = 0
METADATA_FOLDER: Final = f"{METADATA_TOPIC}-{METADATA_PARTITION}"

RECORD_OVERHEAD_MAX: Final = 36
"""Bytes around a record's value in a batch: lengths and deltas as varints, attributes, counts of key and headers."""
BATCH_RECORDS_MAX: Final = 500
"""Records of one batch: a broker decodes it without a pause, in some 4 ms. (A command could hold 10,000.)"""
BATCH_BYTES_MAX: Final = COMMAND_BYTES_MAX - RECORD_OVERHEAD_MAX * COMMAND_RECORDS_MAX - 4096
"""Encoded values of one batch: the size of a command without record framing and a page for headers."""


def encode_batches(
    records: Sequence[MetadataRecord],
    timestamp_ms: int,
    *,
    name: str = "",
    records_max: int = BATCH_RECORDS_MAX,
    bytes_max: int = BATCH_BYTES_MAX,
) -> list[bytes]:
    """Return the batches of one atomic change, in order; more than one only if the limits require it.

    `name` is noted where a transaction begins. Base offsets and leader epochs are left for the log to fill in.
    """
    return finish(encoded_batches(records, timestamp_ms, name=name, records_max=records_max, bytes_max=bytes_max))


def encoded_batches(
    records: Sequence[MetadataRecord],
    timestamp_ms: int,
    *,
    name: str = "",
    records_max: int = BATCH_RECORDS_MAX,
    bytes_max: int = BATCH_BYTES_MAX,
) -> Steps[list[bytes]]:
    """As encode_batches, in steps."""
    values: list[bytes] = []
    for piece in pieces(records):
        values += map(encode, piece)
        yield
    found: list[bytes] = []
    for batch in split_into_batches(values, records_max, bytes_max, name):
        found.append(bytes(build_batch([Record(value=value, timestamp=timestamp_ms) for value in batch])))
        yield
    return found


def decode_batch(view: memoryview, position: int, header: BatchHeader) -> list[MetadataRecord]:
    """Return the metadata records of the batch at `position`; a control batch has none.

    Checks the CRC. Raises KafkaError (CORRUPT_MESSAGE and the like) and UnknownRecord: the node must stop.
    """
    check_crc(view, position, header)
    if header.is_control:
        return []
    found: list[MetadataRecord] = []
    for record in decode_records(view, position):
        if record.value is None:
            raise UnknownRecord(f"offset {record.offset} of {METADATA_TOPIC} has no value")
        found.append(decode(record.value))
    return found


def decode_batches(view: memoryview) -> Iterator[tuple[int, BatchHeader, list[MetadataRecord]]]:
    """Yield (position, header, records) of each whole batch. Raises as decode_batch."""
    for position, header in batches(view):
        yield position, header, decode_batch(view, position, header)
