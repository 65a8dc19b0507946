"""Segments that a log may drop, oldest first (Kafka's UnifiedLog.deleteOldSegments). Decides only."""

from collections.abc import Callable

from kvorum.storage.log_config import LogConfig
from kvorum.storage.segment import Segment
from kvorum.storage.segments import Segments

NO_LIMIT = -1


def deletable_count(
    segments: Segments, config: LogConfig, log_start_offset: int, high_watermark: int, log_end_offset: int, now_ms: int
) -> int:
    """Return the number of oldest segments to drop; all of them only if the active one may be dropped too.

    By log start offset always; by size and time under cleanup.policy=delete. Never above the high
    watermark.
    """

    def count(breached: Callable[[Segment, int | None], bool]) -> int:
        found = 0
        for segment in segments:
            following = segments.next_base(segment)
            end_offset = log_end_offset if following is None else following
            is_empty_active = following is None and segment.size == 0
            if is_empty_active or end_offset > high_watermark or not breached(segment, following):
                break
            found += 1
        return found

    def before_log_start(_: Segment, following: int | None) -> bool:
        return following is not None and following <= log_start_offset

    def too_old(segment: Segment, _: int | None) -> bool:
        return now_ms - segment.largest_timestamp > config.retention_ms

    most = count(before_log_start)
    if not config.is_deleted:
        return most
    if config.retention_ms > NO_LIMIT:
        most = max(most, count(too_old))
    if config.retention_bytes > NO_LIMIT:
        surplus = segments.size - config.retention_bytes

        def too_many_bytes(segment: Segment, _: int | None) -> bool:
            nonlocal surplus
            if surplus - segment.size < 0:
                return False
            surplus -= segment.size
            return True

        if surplus >= 0:
            most = max(most, count(too_many_bytes))
    return most
