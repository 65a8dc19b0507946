"""Makes a future log equal to its log, as a follower on the same broker.

Sans-IO, except for the two logs.

    align     truncate the copy where its epochs diverge from the log's, or restart it at the log's start
    read      the next batches of the log, None: the copy is complete
    append    the batches read, if the copy's end is unchanged

Truncations, leader changes and retention of the log need no special case: each step begins with `align`, as a
follower's fetch does (KIP-101, KIP-279). Batches are copied unchanged; epochs without records, and producer state
before the first record, are copied at the end (storage.future_logs). Source: Kafka's ReplicaAlterLogDirsThread.
"""

from typing import Final

from kvorum.broker.replica.follower import truncation_offset
from kvorum.protocol.parts import FileSlice, Part
from kvorum.storage.epoch_cache import UNDEFINED_EPOCH
from kvorum.storage.log import Log
from kvorum.storage.log_read import ReadInfo

OFFSET_SIZE: Final = 8


def align(current: Log, future: Log) -> None:
    """Make the copy a prefix of the log, empty if need be, with its start and high watermark. Raises KafkaError."""
    while (latest := future.latest_epoch) is not None:
        found = current.end_offset_for_epoch(latest)
        if found.epoch == latest and found.end_offset >= future.log_end_offset:
            break
        before = future.log_end_offset
        if found.epoch == UNDEFINED_EPOCH:
            future.truncate_fully_and_start_at(current.log_start_offset)
            break
        future.truncate_to(truncation_offset(future, found))
        if future.log_end_offset == before and future.latest_epoch == latest:
            future.truncate_fully_and_start_at(current.log_start_offset)
    if not current.log_start_offset <= future.log_end_offset <= current.log_end_offset:
        future.truncate_fully_and_start_at(current.log_start_offset)
    follow_marks(current, future)


def follow_marks(current: Log, future: Log) -> None:
    """Set the copy's high watermark and start to those of the log, within its range."""
    future.high_watermark = min(current.high_watermark, future.log_end_offset)
    if current.log_start_offset > future.log_start_offset:
        future.maybe_increment_log_start_offset(min(current.log_start_offset, future.high_watermark))


def read(current: Log, future: Log, max_bytes: int) -> ReadInfo | None:
    """Return the next batches for an aligned copy, None if it is complete. Raises KafkaError."""
    if future.log_end_offset >= current.log_end_offset:
        return None
    found = current.read(future.log_end_offset, max_bytes, current.log_end_offset)
    return found if found.size else None


def append(future: Log, records: memoryview) -> None:
    """Append records to the end of the copy. An empty copy begins with the complete batch that contains its start."""
    if future.log_start_offset == future.log_end_offset and len(records) >= OFFSET_SIZE:
        base_offset = int.from_bytes(records[:OFFSET_SIZE], "big", signed=True)
        if 0 <= base_offset < future.log_end_offset:
            future.truncate_fully_and_start_at(base_offset)
    future.append_as_follower(records)


def joined(parts: tuple[Part, ...]) -> memoryview:
    """Return the bytes read in one piece; file slices are read here: call it outside the event loop. Raises OSError."""
    pieces = [
        part.file.pread(part.size, part.position) if isinstance(part, FileSlice) else bytes(part) for part in parts
    ]
    return memoryview(pieces[0] if len(pieces) == 1 else b"".join(pieces))


def catch_up(current: Log, future: Log, bytes_max: int) -> bool:
    """Copy the missing part now, if it is not larger than this; return whether both end at one offset then.

    Raises KafkaError, OSError.
    """
    align(current, future)
    copied = 0
    while (found := read(current, future, bytes_max)) is not None:
        copied += found.size
        if copied > bytes_max:
            return False
        append(future, joined(found.parts))
    follow_marks(current, future)
    return future.log_end_offset == current.log_end_offset
