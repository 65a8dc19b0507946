"""Appends several client batches with one write. Per-call overhead dominates small produce requests.

Each batch is validated as if it came alone, after the ones before it. The first one that needs more than an append
(rejected, or a duplicate) ends the run: the general path handles it and reports the reason.
"""

from collections.abc import Sequence
from typing import Final, NamedTuple

from kvorum.protocol.batch_header import NO_PRODUCER_ID, NO_TIMESTAMP, BatchHeader
from kvorum.protocol.errors import KafkaError
from kvorum.protocol.records import patch_place
from kvorum.runtime.disk import is_process_error
from kvorum.storage.admission import admit
from kvorum.storage.local_log import LocalLog
from kvorum.storage.log_config import LogConfig
from kvorum.storage.log_producers import LogProducers
from kvorum.storage.log_types import AppendInfo
from kvorum.storage.producer_state import Origin
from kvorum.storage.rolling import NO_ROOM

JOINED_BYTES_MAX: Final = 64 * 1024
"""Batches up to here are copied together; a larger write is not cheap, and a copy is not free."""


class RunInfo(NamedTuple):
    """The batches that were appended: the first ones of the given batches, possibly all."""

    base_offsets: list[int]
    """One per batch."""
    log_append_time_ms: int
    """NO_TIMESTAMP under CreateTime."""
    size: int
    records_count: int


def append_run(
    batches: Sequence[memoryview],
    leader_epoch: int,
    now_ms: int,
    config: LogConfig,
    local: LocalLog,
    producers: LogProducers,
) -> RunInfo:
    """Append the batches up to the first that is not simply to be appended. Patches them in place.

    Producers are noted before the write: where that fails, the log is not used again. Raises OSError, CorruptSegment.
    """
    base_offsets: list[int] = []
    append_time_ms, total, count = NO_TIMESTAMP, 0, 0
    next_offset = local.log_end_offset
    views: list[memoryview] = []
    headers: list[BatchHeader] = []
    waiting, room = 0, NO_ROOM
    for records in batches:
        try:
            admitted = admit(records, config, producers.state, now_ms, Origin.CLIENT, None, 0)
        except KafkaError:
            break
        if isinstance(admitted, AppendInfo):
            break
        view, header, _, append_time_ms = admitted
        size = len(view)
        header.place(next_offset, leader_epoch)
        if views and not (
            waiting + size <= room.size
            and len(views) < room.batches
            and header.last_offset <= room.last_offset
            and header.max_timestamp <= room.max_timestamp
        ):
            local.extend(_joined(views), headers)
            views, headers, waiting = [], [], 0
        if not views:
            try:
                local.roll_if_due(header, size, now_ms)  # before its producer is noted: the roll takes a snapshot
            except OSError as error:
                if base_offsets and is_process_error(error):
                    break  # those before it are appended
                raise
            room = local.room(now_ms, JOINED_BYTES_MAX)
        patch_place(view, 0, next_offset, leader_epoch)
        if header.producer_id > NO_PRODUCER_ID:
            producers.note(local, header, view, 0)
        views.append(view)
        headers.append(header)
        base_offsets.append(next_offset)
        waiting += size
        total += size
        count += header.records_count
        next_offset += header.last_offset_delta + 1
    if views:
        local.extend(_joined(views), headers)
    producers.state.end_offset = next_offset
    return RunInfo(base_offsets, append_time_ms, total, count)


def _joined(views: list[memoryview]) -> memoryview:
    return views[0] if len(views) == 1 else memoryview(b"".join(views))
