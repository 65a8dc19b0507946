"""Validation of a Produce on the leader before the append. Sans-IO (Kafka's LogValidator, UnifiedLog).

In Kafka's order: exactly one batch, of magic 2 (ProduceRequest.validateRecords); base offset 0; size within
max.message.bytes; CRC; offset range against record count; no control batch, no producer id without a sequence; then
every record inside. The bytes stay unchanged except for the max timestamp (with the CRC) if it is wrong or the topic
uses append time; a batch is rebuilt only for another codec or for offset deltas that are not consecutive.
"""

from dataclasses import replace
from typing import Final, NamedTuple

from kvorum.protocol.batch_header import (
    HEADER_SIZE,
    LOG_APPEND_TIME_FLAG,
    LOG_OVERHEAD,
    MAGIC,
    MAGIC_POSITION,
    NO_SEQUENCE,
    NO_TIMESTAMP,
    BatchHeader,
    parse_header,
)
from kvorum.protocol.compression import Codec, decompress
from kvorum.protocol.errors import ErrorCode, KafkaError
from kvorum.protocol.record_walk import Walk, walk
from kvorum.protocol.records import (
    DECOMPRESSED_SIZE_MAX,
    batches,
    build_batch,
    check_crc,
    codec_of,
    decode_records,
    next_batch_size,
    patch_times,
)
from kvorum.storage.log_config import INT64_MAX, LogConfig
from kvorum.storage.producer_replay import end_marker
from kvorum.storage.producer_state import Origin

RECORD_ERRORS_MAX: Final = 1000
"""Maximum of bad records of one batch in the answer; the batch is rejected as a whole in any case."""


class RecordError(NamedTuple):
    """One invalid record: its index in the batch and the error (KIP-467)."""

    batch_index: int
    message: str


class RecordValidationError(KafkaError):
    """Single records are to blame; the answer names them."""

    def __init__(self, code: ErrorCode, message: str, record_errors: list[RecordError]) -> None:
        """Keep the code for the whole batch and the invalid records."""
        super().__init__(code, message)
        self.record_errors = record_errors


class Validated(NamedTuple):
    """A batch fit to be appended: `view` is writable, `header` is as in the view, offsets not assigned yet."""

    view: memoryview
    header: BatchHeader
    max_timestamp: int
    log_append_time_ms: int
    """NO_TIMESTAMP unless the topic stamps its own."""


def validate_produce(records: memoryview, config: LogConfig, now_ms: int, origin: Origin = Origin.CLIENT) -> Validated:
    """Check the records of one partition in a Produce (or a coordinator's own write).

    Raises KafkaError: INVALID_RECORD, CORRUPT_MESSAGE, MESSAGE_TOO_LARGE, INVALID_TIMESTAMP; RecordValidationError if
    the records are known. `records` is patched in place if it is writable, else copied.
    """
    view, header = _only_batch(records)
    size = len(view)
    if origin is Origin.CLIENT and header.base_offset != 0:
        raise KafkaError(
            ErrorCode.INVALID_RECORD, f"the base offset of a batch sent should be 0, not {header.base_offset}"
        )
    _check_size(size, config)
    check_crc(view, 0, header)
    if origin is Origin.CLIENT:
        _check_client_header(header)
    if view.readonly:
        view = memoryview(bytearray(view))
    codec_id = header.codec_id
    codec = codec_of(header) if codec_id else Codec.NONE
    payload = bytes(view[HEADER_SIZE:])
    if codec_id:
        payload = decompress(codec, payload, DECOMPRESSED_SIZE_MAX)
    found = _walk(payload, header)
    max_timestamp = _check_records(view, header, found, config, now_ms)
    target = config.target_codec
    is_converted = target is not None and target is not codec and not header.is_control
    if codec_id and not is_converted and not found.is_sequential:
        raise KafkaError(ErrorCode.INVALID_RECORD, "the offset deltas of compressed records do not count up from 0")
    if is_converted or not found.is_sequential:
        return _rebuilt(view, header, codec if target is None else target, config, now_ms)
    if config.uses_log_append_time:
        patch_times(view, 0, size, True, now_ms)
        return Validated(view, parse_header(view), now_ms, now_ms)
    if header.max_timestamp != max_timestamp or header.attributes & LOG_APPEND_TIME_FLAG:
        patch_times(view, 0, size, False, max_timestamp)
        header = parse_header(view)
    return Validated(view, header, max_timestamp, NO_TIMESTAMP)


def validate_replicated(records: memoryview, log_end_offset: int, leader_epoch: int | None) -> list[BatchHeader]:
    """Return the headers of the whole batches that a follower may append; a partial one at the end is left out.

    Ends before a batch of an epoch above `leader_epoch` (if given). Raises KafkaError CORRUPT_MESSAGE (CRC),
    UNSUPPORTED_FOR_MESSAGE_FORMAT (an old format), INVALID_RECORD (offsets that do not ascend from the log end, or a
    control record that cannot be decoded).
    """
    headers: list[BatchHeader] = []
    next_offset = log_end_offset
    for position, header in batches(records):
        if leader_epoch is not None and header.partition_leader_epoch > leader_epoch:
            break
        check_crc(records, position, header)
        if header.base_offset < next_offset or header.last_offset_delta < 0 or header.next_offset > INT64_MAX:
            text = f"a batch of offsets {header.base_offset} to {header.last_offset} cannot follow {next_offset - 1}"
            raise KafkaError(ErrorCode.INVALID_RECORD, text)
        if header.records_count < 0:
            raise KafkaError(ErrorCode.INVALID_RECORD, f"a batch of {header.records_count} records")
        if header.is_control and header.has_producer_id:
            end_marker(records, position)  # it is decoded again after the write, when a rejection is no longer possible
        next_offset = header.next_offset
        headers.append(header)
    return headers


def _only_batch(records: memoryview) -> tuple[memoryview, BatchHeader]:
    """Return the one batch there is, and its header. Raises KafkaError INVALID_RECORD, CORRUPT_MESSAGE."""
    if len(records) >= HEADER_SIZE:
        header = parse_header(records)
        if header.batch_length + LOG_OVERHEAD == len(records) and header.magic == MAGIC:
            return records, header
    size = next_batch_size(records, 0)
    if not size:
        raise KafkaError(ErrorCode.INVALID_RECORD, "Produce must contain a complete record batch for each partition")
    if records[MAGIC_POSITION] != MAGIC:
        raise KafkaError(ErrorCode.INVALID_RECORD, "Produce must contain record batches of magic 2 only")
    if size != len(records) and next_batch_size(records, size):
        raise KafkaError(ErrorCode.INVALID_RECORD, "Produce must contain one record batch per partition")
    view = records[:size]
    return view, parse_header(view)


def _check_size(size: int, config: LogConfig) -> None:
    """Raise KafkaError MESSAGE_TOO_LARGE, or RECORD_LIST_TOO_LARGE if no segment of the log can contain the batch."""
    if size > config.max_message_bytes:
        raise KafkaError(
            ErrorCode.MESSAGE_TOO_LARGE, f"the batch has {size} bytes, max.message.bytes is {config.max_message_bytes}"
        )
    if size > config.segment_bytes:
        raise KafkaError(
            ErrorCode.RECORD_LIST_TOO_LARGE, f"the batch has {size} bytes, segment.bytes is {config.segment_bytes}"
        )


def _check_client_header(header: BatchHeader) -> None:
    """Check for errors that only clients make. Raises KafkaError INVALID_RECORD."""
    count = header.records_count
    if header.last_offset_delta < 0 or count <= 0 or header.last_offset_delta + 1 != count:
        raise KafkaError(
            ErrorCode.INVALID_RECORD, f"{count} records do not fit a last offset delta of {header.last_offset_delta}"
        )
    if header.is_control:
        raise KafkaError(ErrorCode.INVALID_RECORD, "clients are not allowed to write control records")
    if header.has_producer_id and header.base_sequence <= NO_SEQUENCE:
        raise KafkaError(ErrorCode.INVALID_RECORD, f"sequence number {header.base_sequence} with a producer id")


def _walk(payload: bytes, header: BatchHeader) -> Walk:
    """Walk the records. Raises KafkaError INVALID_RECORD."""
    # The smallest record has seven bytes, so the count is bounded by the size before any work.
    if not 0 < header.records_count <= len(payload):
        raise KafkaError(ErrorCode.INVALID_RECORD, f"{header.records_count} records in {len(payload)} bytes")
    try:
        return walk(payload, header.records_count)
    except ValueError as error:
        raise KafkaError(ErrorCode.INVALID_RECORD, str(error)) from error


def _check_records(view: memoryview, header: BatchHeader, found: Walk, config: LogConfig, now_ms: int) -> int:
    """Check keys and timestamps; return the max timestamp. Raises RecordValidationError.

    The extremes of the walk are checked first; only if they are invalid, each record is inspected to name invalid ones.
    """
    if header.attributes & LOG_APPEND_TIME_FLAG:
        low = high = header.max_timestamp
    else:
        low = header.base_timestamp + found.timestamp_delta_min
        high = header.base_timestamp + found.timestamp_delta_max
    needs_keys = found.has_null_key and config.is_compacted
    is_out_of_range = not config.uses_log_append_time and (
        high > INT64_MAX
        or low < -INT64_MAX
        or now_ms - low > config.message_timestamp_before_max_ms
        or high - now_ms > config.message_timestamp_after_max_ms
    )
    if needs_keys or is_out_of_range:
        _name_bad_records(view, config, now_ms)
    return max(high, NO_TIMESTAMP)


def _name_bad_records(view: memoryview, config: LogConfig, now_ms: int) -> None:
    """Raise RecordValidationError for the invalid records; return if there is none (a record without timestamp)."""
    errors: list[RecordError] = []
    has_invalid_timestamp = False
    earliest, latest = now_ms - config.message_timestamp_before_max_ms, now_ms + config.message_timestamp_after_max_ms
    for index, record in enumerate(decode_records(view)):
        if config.is_compacted and record.key is None:
            errors.append(RecordError(index, "Compacted topic cannot accept message without key"))
        elif not config.uses_log_append_time and not (
            record.timestamp == NO_TIMESTAMP or max(earliest, -INT64_MAX) <= record.timestamp <= min(latest, INT64_MAX)
        ):
            has_invalid_timestamp = True
            text = f"Timestamp {record.timestamp} is out of range: it should be within [{earliest}, {latest}]"
            errors.append(RecordError(index, text))
    if not errors:
        return
    if has_invalid_timestamp:
        text = "One or more records have been rejected due to invalid timestamp"
        raise RecordValidationError(ErrorCode.INVALID_TIMESTAMP, text, errors[:RECORD_ERRORS_MAX])
    text = f"One or more records have been rejected due to {len(errors)} record errors in total"
    raise RecordValidationError(ErrorCode.INVALID_RECORD, text, errors[:RECORD_ERRORS_MAX])


def _rebuilt(view: memoryview, header: BatchHeader, codec: Codec, config: LogConfig, now_ms: int) -> Validated:
    """Return the same records in another codec, with offset deltas that count up.

    Raises KafkaError MESSAGE_TOO_LARGE.
    """
    log_append_time_ms = now_ms if config.uses_log_append_time else None
    records = decode_records(view)
    if any(not -INT64_MAX <= record.timestamp <= INT64_MAX for record in records):
        # Only LogAppendTime lets these through: no reader sees the timestamps of the records then.
        records = [replace(record, timestamp=now_ms) for record in records]
    batch = build_batch(
        records,
        codec=codec,
        compression_level=config.compression_level(codec),
        producer_id=header.producer_id,
        producer_epoch=header.producer_epoch,
        base_sequence=header.base_sequence,
        is_transactional=header.is_transactional,
        log_append_time_ms=log_append_time_ms,
    )
    _check_size(len(batch), config)
    rebuilt = memoryview(batch)
    new_header = parse_header(rebuilt)
    stamp = NO_TIMESTAMP if log_append_time_ms is None else log_append_time_ms
    return Validated(rebuilt, new_header, new_header.max_timestamp, stamp)
