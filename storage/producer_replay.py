"""Bringing a producer state forward over batches of the log: just appended, or read back from disk."""

from collections.abc import Iterable
from typing import Final, NamedTuple

from kvorum.protocol.batch_header import BatchHeader
from kvorum.protocol.control import CONTROL_KEY, MARKER_VALUE, ControlType
from kvorum.protocol.errors import ErrorCode, KafkaError
from kvorum.protocol.records import decode_records
from kvorum.storage.index import CorruptIndex
from kvorum.storage.names import LOG_SUFFIX
from kvorum.storage.producer_state import CompletedTransaction, Origin, ProducerState
from kvorum.storage.segment import CorruptSegment, Segment
from kvorum.storage.segments import Segments
from kvorum.storage.snapshots import Snapshots
from kvorum.storage.txn_index import AbortedTransaction
from kvorum.storage.verification import VerificationGuard

OFFSET_MAX: Final = 2**63 - 1


class EndMarker(NamedTuple):
    """An end-of-transaction marker (EndTransactionMarker); `timestamp` in ms."""

    coordinator_epoch: int
    timestamp: int
    is_aborted: bool


def end_marker(view: memoryview, position: int) -> EndMarker | None:
    """Return the marker of a control batch, None if it is another kind of control batch (or was compacted to nothing).

    Raises KafkaError INVALID_RECORD, CORRUPT_MESSAGE where the record is no control record.
    """
    records = decode_records(view, position)
    if not records:
        return None
    key, value = records[0].key, records[0].value
    if key is None or len(key) < CONTROL_KEY.size:
        raise KafkaError(ErrorCode.INVALID_RECORD, "a control record needs a key of version and type")
    _, kind = CONTROL_KEY.unpack_from(key)
    if kind not in (ControlType.ABORT, ControlType.COMMIT):
        return None
    if value is None or len(value) < MARKER_VALUE.size:
        raise KafkaError(ErrorCode.INVALID_RECORD, "an end transaction marker needs its coordinator epoch")
    _, coordinator_epoch = MARKER_VALUE.unpack_from(value)
    return EndMarker(coordinator_epoch, records[0].timestamp, kind == ControlType.ABORT)


def check_producer(
    state: ProducerState,
    header: BatchHeader,
    view: memoryview,
    origin: Origin,
    guard: VerificationGuard | None,
    transaction_version: int,
) -> None:
    """Check a producer's batch, data or marker, before a leader writes it. Raises KafkaError as ProducerState does."""
    if header.is_transactional:
        state.check_verified(header, guard)
    if not header.is_control:
        state.check(header, origin)
    elif (marker := end_marker(view, 0)) is not None:
        state.check_marker(header, marker.coordinator_epoch, transaction_version)


def note_batch(
    state: ProducerState, header: BatchHeader, view: memoryview, position: int
) -> CompletedTransaction | None:
    """Take note of a batch at its final offsets; `view` has its bytes at `position`.

    Return the transaction that a marker ended. Raises KafkaError as end_marker.
    """
    if not header.is_control or not header.has_producer_id:
        state.append(header)
        return None
    marker = end_marker(view, position)
    if marker is None:
        state.end_offset = header.next_offset
        return None
    return state.append_marker(header, marker.coordinator_epoch, marker.timestamp, marker.is_aborted)


def index_aborted(segment: Segment, completed: CompletedTransaction | None) -> None:
    """Enter an aborted transaction into the index of the segment that holds its marker. Raises CorruptSegment."""
    if completed is None or not completed.is_aborted:
        return
    producer_id, first_offset, last_offset = completed.producer_id, completed.first_offset, completed.last_offset
    try:
        segment.txn_index.append(
            AbortedTransaction(producer_id, first_offset, last_offset, completed.last_stable_offset)
        )
    except CorruptIndex as error:
        raise CorruptSegment(str(error)) from error


def rebuild_txn_index(segment: Segment, state: ProducerState) -> None:
    """Rebuild and save a segment's transaction index, given the state before the segment's first offset.

    Raises OSError, CorruptSegment.
    """
    segment.begin_txn_rebuild()
    for position, header in segment.batches():
        index_aborted(segment, note_stored(state, segment, position, header))
    segment.save_indexes(sync=True)


def note_stored(
    state: ProducerState, segment: Segment, position: int, header: BatchHeader
) -> CompletedTransaction | None:
    """Process a batch of a segment; a marker is read completely. Raises OSError, CorruptSegment."""
    if not header.is_control or not header.has_producer_id:
        state.append(header)
        return None
    try:
        return note_batch(state, header, memoryview(segment.file.pread(header.size, position)), 0)
    except KafkaError as error:
        text = f"{segment.path(LOG_SUFFIX)} has no end marker at {position}: {error.message}"
        raise CorruptSegment(text) from error


def replay(state: ProducerState, segments: Iterable[Segment], end_offset: int) -> None:
    """Bring the state from its own end offset to `end_offset`, reading batch headers (and markers whole).

    Raises OSError, CorruptSegment.
    """
    for segment in segments:
        if state.end_offset >= end_offset or segment.base_offset >= end_offset:
            break
        if segment.size == 0:
            continue
        for position, header in segment.batches(segment.start_position(state.end_offset)):
            if header.last_offset < state.end_offset:
                continue
            if header.base_offset >= end_offset:
                break
            note_stored(state, segment, position, header)
    state.end_offset = end_offset


def restore_producers(
    state: ProducerState, snapshots: Snapshots, segments: Segments, end_offset: int, now_ms: int, expiration_ms: int
) -> None:
    """Make the state that of `end_offset`: the last readable snapshot before it, and the batches since.

    A damaged snapshot is removed and the one before it taken. Raises OSError, CorruptSegment.
    """
    state.clear(segments.first.base_offset)
    while (offset := snapshots.latest(end_offset)) is not None and offset >= segments.first.base_offset:
        try:
            state.load(snapshots.read(offset), offset, now_ms, expiration_ms)
            break
        except ValueError:
            snapshots.remove_if(offset, offset)
    replay(state, segments.from_offset(state.end_offset), end_offset)


def rewind_producers(
    state: ProducerState, snapshots: Snapshots, segments: Segments, end_offset: int, now_ms: int, expiration_ms: int
) -> None:
    """Restore the state of a truncated log at its new end. Raises the errors of restore_producers.

    Also without known producers: the transaction of an expired one may be open again, without the marker.
    """
    snapshots.remove_if(end_offset + 1, OFFSET_MAX)
    # A snapshot does not have the ended transactions that still wait for the high watermark.
    ended = state.ended_before(end_offset)
    restore_producers(state, snapshots, segments, end_offset, now_ms, expiration_ms)
    state.note_ended(ended)
