"""Selects the kept records of a batch and builds the batch without the others (Kafka's Cleaner.cleanInto, filterTo).

A record is kept if no later one of its key is in the offset map; a tombstone also until the batch's delete horizon,
which is set when a cleaner first meets it (now + delete.retention.ms, KIP-534); a record after the range of the map
always; one without a key or of an aborted transaction never. A marker is kept until its transaction has no records left
and its horizon has passed.

A batch without records is removed, or kept as an empty header if the header is needed: the last batch below the
cleaning's end of a known producer (its sequence number, or in a marker its epoch), and the last one of a new segment
(its offset).

Offsets, sequence numbers, leader epoch and timestamps of kept records never change; a batch that is kept completely
keeps its bytes. Sans-IO. The work is a generator: it yields after a number of records, and the caller may do other
things.
"""

from collections.abc import Generator, Iterator, Mapping
from enum import Enum
from typing import Final, NamedTuple

from typing_extensions import Buffer

from kvorum.protocol.batch_header import (
    CODEC_MASK,
    CONTROL_FLAG,
    DELETE_HORIZON_FLAG,
    LOG_APPEND_TIME_FLAG,
    NO_TIMESTAMP,
    TRANSACTIONAL_FLAG,
    BatchHeader,
)
from kvorum.protocol.compression import Codec, compress
from kvorum.protocol.errors import ErrorCode, KafkaError
from kvorum.protocol.records import codec_of, rebuilt_batch, records_bytes
from kvorum.storage.cleaner.offset_map import OffsetMap
from kvorum.storage.cleaner.record_scan import Scanned, scan, with_timestamp_delta
from kvorum.storage.cleaner.transactions import CleanedTransactions
from kvorum.storage.log_config import INT64_MAX
from kvorum.storage.producer_replay import end_marker
from kvorum.storage.txn_index import AbortedTransaction

RECORDS_PER_STEP: Final = 200
"""Between two yields: half a millisecond of a thread that holds the interpreter."""

Steps = Generator[int, None, "Buffer | None"]


class LastRecord(NamedTuple):
    """A producer's last offset at the end of a cleaning: that of its last data batch, or None."""

    last_data_offset: int | None
    producer_epoch: int


class Retention(Enum):
    """Treatment of a batch without retained records."""

    DELETE = "delete"
    KEEP_EMPTY = "keep empty"


class Verdict(NamedTuple):
    """Decision about a batch before its records are read."""

    discards_records: bool
    retention: Retention
    is_unneeded_marker: bool


def scanned(view: memoryview, header: BatchHeader) -> Iterator[tuple[bytes, list[Scanned]]]:
    """Yield a batch's records, one step at a time, with the buffer that contains them.

    Raises KafkaError INVALID_RECORD.
    """
    data = records_bytes(view, 0, header)
    for found in scanned_bytes(data, header.records_count):
        yield data, found


def scanned_bytes(data: bytes, count: int) -> Iterator[list[Scanned]]:
    """Yield the records of these bytes, one step at a time. Raises KafkaError INVALID_RECORD."""
    place = 0
    try:
        while count > 0:
            found = scan(data, place, min(count, RECORDS_PER_STEP))
            count -= len(found)
            place = found[-1][2]
            yield found
    except (IndexError, ValueError) as error:
        raise KafkaError(ErrorCode.INVALID_RECORD, f"a record cannot be decoded: {error}") from error
    if place != len(data):
        raise KafkaError(ErrorCode.INVALID_RECORD, f"{len(data) - place} bytes remain after the last record")


class BatchFilter:
    """Filter of one cleaning. Set `producers` again for each segment that is written."""

    __slots__ = (
        "_horizon_ms",
        "_now_ms",
        "_offset_map",
        "_transactions",
        "invalid_records",
        "kept_transactions",
        "producers",
        "records_kept",
        "records_read",
    )

    def __init__(
        self, offset_map: OffsetMap, transactions: CleanedTransactions, *, now_ms: int, delete_retention_ms: int
    ) -> None:
        """Start with a map of the dirty section; `now_ms` (wall) is that of the whole cleaning."""
        self._offset_map = offset_map
        self._transactions = transactions
        self._now_ms = now_ms
        horizon_ms = now_ms + delete_retention_ms
        self._horizon_ms = horizon_ms if horizon_ms <= INT64_MAX else None  # a time that no batch can have
        self.producers: Mapping[int, LastRecord] = {}
        self.kept_transactions: list[AbortedTransaction] = []
        """Entries for the transaction index of the segment that is written; its writer takes them out."""
        self.records_read = self.records_kept = self.invalid_records = 0

    def filtered(self, view: memoryview, header: BatchHeader, is_last: bool) -> Steps:
        """Return the bytes to write of a batch, None if it is dropped.

        `is_last`: of the segment that is written.

        Raises KafkaError INVALID_RECORD, MESSAGE_TOO_LARGE for unreadable records.
        """
        verdict = self._verdict(view, header, is_last)
        self.records_read += header.records_count
        if verdict.discards_records or not header.records_count:
            return empty_batch(header) if verdict.retention is Retention.KEEP_EMPTY else None
        if header.is_control:
            self.records_kept += header.records_count
            if verdict.is_unneeded_marker and header.delete_horizon_ms is None and self._horizon_ms is not None:
                return (yield from self._with_horizon(records_bytes(view, 0, header), header, self._horizon_ms))
            return view
        return (yield from self._data(view, header, verdict))

    def _verdict(self, view: memoryview, header: BatchHeader, is_last: bool) -> Verdict:
        """Decide on a batch by its header, and on a marker by its content."""
        if header.is_control:
            is_unneeded = self._is_unneeded_marker(view, header)
            horizon_ms = header.delete_horizon_ms
            discards = is_unneeded and horizon_ms is not None and horizon_ms <= self._now_ms
        else:
            is_unneeded = False
            discards = self._transactions.on_batch(header.last_offset, header.producer_id, header.is_transactional)
        keeps = is_last or (header.has_producer_id and self._is_last_of_producer(header))
        return Verdict(discards, Retention.KEEP_EMPTY if keeps else Retention.DELETE, is_unneeded)

    def _is_unneeded_marker(self, view: memoryview, header: BatchHeader) -> bool:
        if not header.records_count:
            self._transactions.on_empty_marker(header.last_offset)
            return True
        marker = end_marker(view, 0)
        if marker is None:
            return False
        if not marker.is_aborted:
            return self._transactions.on_commit(header.last_offset, header.producer_id)
        entry = self._transactions.on_abort(header.last_offset, header.producer_id)
        if entry is not None:
            self.kept_transactions.append(entry)
        return entry is None

    def _is_last_of_producer(self, header: BatchHeader) -> bool:
        last = self.producers.get(header.producer_id)
        if last is None:
            return False
        if last.last_data_offset is not None:
            return header.last_offset == last.last_data_offset
        return header.is_control and header.producer_epoch == last.producer_epoch

    def _data(self, view: memoryview, header: BatchHeader, verdict: Verdict) -> Steps:
        """Return a data batch with the records that stay."""
        base_offset, horizon_ms = header.base_offset, header.delete_horizon_ms
        covered = self._offset_map.latest_offset
        keeps_tombstones = horizon_ms is None or self._now_ms < horizon_ms
        look_up = self._offset_map.get
        kept = Kept()
        for data, records in scanned(view, header):
            for start, _, end, timestamp_delta, delta, key, has_value in records:
                if base_offset + delta <= covered:
                    if key is None:
                        self.invalid_records += 1
                        continue
                    if not (has_value or keeps_tombstones) or base_offset + delta < look_up(key):
                        continue
                kept.add(data, start, end, timestamp_delta, has_value)
            kept.end_run(data)
            yield 0
        self.records_kept += kept.count
        if not kept.count:
            return empty_batch(header) if verdict.retention is Retention.KEEP_EMPTY else None
        new_horizon_ms = self._horizon_ms if kept.has_tombstone and horizon_ms is None else None
        if kept.count == header.records_count and new_horizon_ms is None:
            return view
        left = header.replaced(records_count=kept.count)
        if not header.is_log_append_time:
            left = left.replaced(max_timestamp=max(header.base_timestamp + kept.timestamp_delta_max, NO_TIMESTAMP))
        payload = b"".join(kept.pieces)
        if new_horizon_ms is None:
            return packed(left, payload)
        return (yield from self._with_horizon(payload, left, new_horizon_ms))

    def _with_horizon(self, payload: bytes, header: BatchHeader, horizon_ms: int) -> Steps:
        """Return a batch of these records with the horizon as base timestamp; each record keeps its timestamp.

        If the delta of a timestamp to the horizon is not an int64, the batch gets no horizon.
        """
        shift = header.base_timestamp - horizon_ms
        pieces: list[bytes] = []
        for records in scanned_bytes(payload, header.records_count):
            if min([record[3] for record in records]) + shift < -INT64_MAX:
                return packed(header, payload)
            pieces += [with_timestamp_delta(payload, record, record[3] + shift) for record in records]
            yield 0
        flagged = header.replaced(attributes=header.attributes | DELETE_HORIZON_FLAG, base_timestamp=horizon_ms)
        return packed(flagged, b"".join(pieces))


class Kept:
    """The records of a batch that stay, as runs of bytes: of one that is kept nearly whole, that is a few."""

    __slots__ = ("_end", "_start", "count", "has_tombstone", "pieces", "timestamp_delta_max")

    def __init__(self) -> None:
        """Start without records."""
        self.pieces: list[bytes] = []
        self.count = 0
        self.has_tombstone = False
        self.timestamp_delta_max = -(2**63)
        self._start = self._end = 0

    def add(self, data: bytes, start: int, end: int, timestamp_delta: int, has_value: bool) -> None:
        """Keep the record at data[start:end]."""
        if start != self._end:
            self.end_run(data)
            self._start = start
        self._end = end
        self.count += 1
        if timestamp_delta > self.timestamp_delta_max:
            self.timestamp_delta_max = timestamp_delta
        if not has_value:
            self.has_tombstone = True

    def end_run(self, data: bytes) -> None:
        """Return the records kept since the last call."""
        if self._end > self._start:
            self.pieces.append(data[self._start : self._end])
        self._start = self._end


def packed(header: BatchHeader, payload: bytes) -> bytearray:
    """Return the batch of this header with these records, in the header's codec."""
    codec = codec_of(header)
    return rebuilt_batch(header, payload if codec is Codec.NONE else compress(codec, payload))


def empty_batch(header: BatchHeader) -> bytearray:
    """Return the header alone, as Kafka writes it: without codec, base timestamp and horizon."""
    kept_flags = LOG_APPEND_TIME_FLAG | TRANSACTIONAL_FLAG | CONTROL_FLAG
    assert not kept_flags & CODEC_MASK, "an empty batch is not compressed"
    return rebuilt_batch(
        header.replaced(attributes=header.attributes & kept_flags, base_timestamp=NO_TIMESTAMP, records_count=0), b""
    )
