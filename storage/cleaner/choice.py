"""Selects the next log to clean, and the range (Kafka's LogCleanerManager).

    0 ... clean ... first_dirty_offset ... cleanable ... end_offset ... must not change ... log end

Cleaning ends before the first segment of: the active one, one with the last stable offset in it or behind it, one with
a record of a transaction whose marker is not synced yet, one with a record younger than min.compaction.lag.ms, one that
is not synced yet itself (it is within a second or so). It ends at a producer snapshot. The dirtiest log is the one
whose cleanable bytes are the largest part of the bytes that its cleaning would keep and read.
"""

from dataclasses import dataclass

from kvorum.storage.cleaner.cleaner import Job
from kvorum.storage.cleaner.grouping import Source
from kvorum.storage.log import Log
from kvorum.storage.names import LOG_SUFFIX


@dataclass(frozen=True, slots=True, kw_only=True)
class Cleanable:
    """The cleanable part of a log. Offsets as in the module; sizes in bytes, times in ms."""

    log: Log
    first_dirty_offset: int
    end_offset: int
    clean_bytes: int
    cleanable_bytes: int
    overdue_ms: int
    """For how long a record has waited beyond max.compaction.lag.ms; 0 for none."""

    @property
    def total_bytes(self) -> int:
        """All that a cleaning would read."""
        return self.clean_bytes + self.cleanable_bytes

    @property
    def ratio(self) -> float:
        """The dirty share, 0 to 1."""
        return self.cleanable_bytes / self.total_bytes if self.total_bytes else 0.0

    @property
    def is_due(self) -> bool:
        """Whether it is dirty enough, or has waited long enough."""
        if self.overdue_ms > 0 and self.cleanable_bytes > 0:
            return True
        return self.ratio > self.log.config.min_cleanable_dirty_ratio


def look_at(log: Log, now_ms: int) -> Cleanable:
    """Return the cleanable part of a compacted log at this time (wall ms). Raises the errors of the log's reads."""
    first_dirty = first_dirty_offset(log)
    end_offset = _end_offset(log, first_dirty, now_ms)
    clean = cleanable = 0
    for segment in log.cleaning.segments:
        following = log.cleaning.segments.next_base(segment)
        if segment.base_offset < first_dirty:
            clean += segment.size
        is_dirty = following is not None and following > first_dirty
        if is_dirty and segment.base_offset < end_offset:
            cleanable += segment.size
    return Cleanable(
        log=log,
        first_dirty_offset=first_dirty,
        end_offset=end_offset,
        clean_bytes=clean,
        cleanable_bytes=cleanable,
        overdue_ms=_overdue_ms(log, first_dirty, now_ms),
    )


def first_dirty_offset(log: Log) -> int:
    """Return where the clean part ends; the log start where the checkpoint is of another log than this one is now."""
    cleaned = log.cleaning.cleaned_offset
    if cleaned is None or not log.log_start_offset <= cleaned <= log.log_end_offset:
        return log.log_start_offset
    return cleaned


def _end_offset(log: Log, first_dirty: int, now_ms: int) -> int:
    """Return the base offset of the first segment that must not change."""
    segments = log.cleaning.segments
    limit = min(log.last_stable_offset, segments.active.base_offset, log.cleaning.synced_base)
    undecided = log.producers.first_not_durably_ended(log.recovery_point)
    if undecided is not None:
        limit = min(limit, undecided)
    lag_ms = log.config.min_compaction_lag_ms
    if lag_ms > 0:
        for segment in segments.from_offset(first_dirty):
            if segment is segments.active or segment.base_offset >= limit:
                break
            if segment.largest_timestamp > now_ms - lag_ms:
                limit = segment.base_offset
                break
    end_offset = next(segments.from_offset(limit)).base_offset
    return log.cleaning.known_base(end_offset)


def _overdue_ms(log: Log, first_dirty: int, now_ms: int) -> int:
    """Return for how long the first record of a dirty segment has been older than max.compaction.lag.ms."""
    clean_until_ms = now_ms - log.config.max_compaction_lag_ms
    segments = log.cleaning.segments
    if clean_until_ms <= 0:
        return 0
    earliest = min(
        (
            timestamp
            for segment in segments.from_offset(first_dirty)
            if segment is not segments.active and (timestamp := segment.first_timestamp) is not None and timestamp > 0
        ),
        default=clean_until_ms,
    )
    return max(0, clean_until_ms - earliest)


def job_of(cleanable: Cleanable, now_ms: int) -> Job:
    """Return the log's data for a cleaning. Raises KafkaError KAFKA_STORAGE_ERROR."""
    log, segments = cleanable.log, cleanable.log.cleaning.segments
    sources: list[Source] = []
    position = 0
    for segment in segments:
        following = segments.next_base(segment)
        if following is None or segment.base_offset >= cleanable.end_offset:
            break
        sources.append(
            Source(
                base_offset=segment.base_offset,
                next_base=following,
                path=segment.path(LOG_SUFFIX),
                size=segment.size,
                has_txn_file=segment.has_txn_file,
            )
        )
        if segment.base_offset <= cleanable.first_dirty_offset < following:
            position = segment.start_position(cleanable.first_dirty_offset)
            segment.forget_indexes()
    first = sources[0].base_offset if sources else cleanable.end_offset
    return Job(
        folder=log.folder,
        sources=tuple(sources),
        first_dirty_offset=cleanable.first_dirty_offset,
        end_offset=cleanable.end_offset,
        first_dirty_position=position,
        aborted=tuple(log.cleaning.collect_aborted(first, cleanable.end_offset)),
        config=log.config,
        now_ms=now_ms,
    )
