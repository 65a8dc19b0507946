"""Kafka record batches at the edge of the metadata log: checked on receipt, placed at their offset.

Sans-IO. A metadata batch is one batch of format v2, uncompressed or not, with at least one record.
"""

from typing_extensions import Buffer

from kvorum.protocol.batch_header import HEADER_SIZE, MAGIC, BatchHeader, parse_header
from kvorum.protocol.errors import KafkaError
from kvorum.protocol.records import check_crc, patch_place
from kvorum.quorum.raft.log import COMMAND_BYTES_MAX, COMMAND_RECORDS_MAX, Dropped


def placed(batch: Buffer, base_offset: int, epoch: int) -> tuple[bytes, BatchHeader]:
    """Return a copy of the batch with base offset and leader epoch filled in, and its header.

    Raises Dropped for anything that is not exactly one sound batch within the limits.
    """
    data = bytearray(memoryview(batch).cast("B"))
    if not HEADER_SIZE <= len(data) <= COMMAND_BYTES_MAX:
        raise Dropped(f"a command of {len(data)} bytes: at least {HEADER_SIZE}, at most {COMMAND_BYTES_MAX}")
    header = parse_header(data)
    if header.magic != MAGIC or header.size != len(data):
        raise Dropped(f"not one record batch v2: magic {header.magic}, size {header.size} of {len(data)}")
    records = header.last_offset_delta + 1
    if header.records_count != records or not 0 < records <= COMMAND_RECORDS_MAX:
        raise Dropped(f"{header.records_count} records with last offset delta {header.last_offset_delta}")
    with memoryview(data) as view:
        try:
            check_crc(view, 0, header)
        except KafkaError as error:
            raise Dropped(str(error)) from error
        patch_place(view, 0, base_offset, epoch)
    return bytes(data), parse_header(data)
