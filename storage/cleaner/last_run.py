"""Statistics of a cleaner's last run, for metrics and a log line."""

from dataclasses import dataclass, field

from kvorum.runtime.logs import get_logger
from kvorum.storage.cleaner.cleaner import CleanerStats
from kvorum.storage.log import Log

log = get_logger("storage")


@dataclass(slots=True)
class LastRun:
    """Statistics of a cleaner's last run, for the metrics."""

    stats: CleanerStats = field(default_factory=CleanerStats)
    seconds: float = 0.0
    overdue_ms: int = 0


def report(each: Log, from_offset: int, to_offset: int, last: LastRun) -> None:
    """Log the result of a cleaning at DEBUG: one line per cleaning of a log."""
    stats = last.stats
    log.debug(
        "log cleaned",
        partition=each.partition,
        dirty_from=from_offset,
        dirty_to=to_offset,
        bytes_read=stats.bytes_read,
        bytes_written=stats.bytes_written,
        records_read=stats.records_read,
        records_kept=stats.records_kept,
        buffer_utilization=round(stats.buffer_utilization, 3),
        seconds=round(last.seconds, 3),
    )
    if stats.invalid_records:
        log.warning("records without a key were dropped", partition=each.partition, records=stats.invalid_records)
