"""The records of a fetched piece of log that a consumer would see. Sans-IO.

Markers are not records. Read committed, what aborted transactions wrote is left out, by the list that comes with the
piece: from its first offset on a producer's transactional batches do not count until its abort marker. Source: Kafka's
CompletedFetch.nextFetchedRecord, consumeAbortedTransactionsUpTo.
"""

from collections.abc import Sequence
from typing import NamedTuple

from kvorum.protocol.control import CONTROL_KEY, ControlType
from kvorum.protocol.messages.fetch import AbortedTransaction
from kvorum.protocol.records import Record, batches, check_crc, decode_records

DECOMPRESSED_BYTES_MAX = 64 * 1024 * 1024
"""Limit of one batch, and about of one piece: the rest is left for the next Fetch."""


class VisibleRecords(NamedTuple):
    """Records in order, and the next offset after the piece, even without visible records."""

    records: list[Record]
    next_offset: int
    size: int
    """Bytes of keys and values, decompressed, including records before the offset in the same batch."""


def visible(piece: bytes, from_offset: int, aborted: Sequence[AbortedTransaction] | None) -> VisibleRecords:
    """Return the records from an offset on; `aborted` None: all are visible (read uncommitted).

    Raises KafkaError: CORRUPT_MESSAGE, INVALID_RECORD, MESSAGE_TOO_LARGE. Blocks for microseconds per record.
    """
    starts = sorted(aborted or (), key=lambda each: each.first_offset, reverse=True)
    open_aborted: set[int] = set()
    found: list[Record] = []
    next_offset, size = from_offset, 0
    with memoryview(piece) as view:
        for position, header in batches(view):
            if size >= DECOMPRESSED_BYTES_MAX:
                break
            last_offset = header.base_offset + header.last_offset_delta
            next_offset = max(next_offset, last_offset + 1)
            while starts and starts[-1].first_offset <= last_offset:
                open_aborted.add(starts.pop().producer_id)
            if header.is_control:
                if aborted is not None and is_abort(view, position):
                    open_aborted.discard(header.producer_id)
                continue
            if last_offset < from_offset or (header.is_transactional and header.producer_id in open_aborted):
                continue
            check_crc(view, position, header)
            records = decode_records(view, position, DECOMPRESSED_BYTES_MAX)
            size += sum(len(record.key or b"") + len(record.value or b"") for record in records)
            found += [record for record in records if record.offset >= from_offset]
    return VisibleRecords(found, next_offset, size)


def is_abort(view: memoryview, position: int) -> bool:
    """Return whether a control batch is the marker of an aborted transaction."""
    key = decode_records(view, position, DECOMPRESSED_BYTES_MAX)[0].key or b""
    return len(key) >= CONTROL_KEY.size and CONTROL_KEY.unpack_from(key)[1] == ControlType.ABORT
