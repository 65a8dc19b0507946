"""Retention: removal of whole segments at the log start, and of their files after file.delete.delay.ms.

storage.retention selects the segments. A segment that may have a producer's last records is kept until a durable
snapshot contains them: `is_waiting`, retried after the next flush. Source: Kafka's UnifiedLog.deleteOldSegments.
"""

from kvorum.storage.disk_health import DiskHealth
from kvorum.storage.local_log import LocalLog
from kvorum.storage.log_producers import LogProducers
from kvorum.storage.retention import deletable_count


class LogRetention:
    """Retention of one log. Raises KafkaError KAFKA_STORAGE_ERROR. Times are wall milliseconds."""

    __slots__ = ("_health", "_local", "_producers", "is_waiting")

    def __init__(self, local: LocalLog, producers: LogProducers, health: DiskHealth) -> None:
        """Start without waiting files."""
        self._local = local
        self._producers = producers
        self._health = health
        self.is_waiting = False

    def delete_old(self, log_start_offset: int, high_watermark: int, now_ms: int) -> int:
        """Drop the segments that retention or the log start offset leaves behind; return how many.

        The log start offset is then the first one's base at least: that is the caller's to see to.
        """
        with self._health.access():
            local = self._local
            end_offset = local.log_end_offset
            count = deletable_count(local.segments, local.config, log_start_offset, high_watermark, end_offset, now_ms)
            if count == len(local.segments):
                local.roll(end_offset, now_ms)
            segments, wanted = list(local.segments), count
            while count and not self._producers.are_durably_known_at(segments[count].base_offset):
                count -= 1
            self.is_waiting = count < wanted
            if count:
                local.delete_oldest(count, now_ms)
                self._producers.forget_below(local.segments.first.base_offset)
            return count

    def has_deleted_files(self, now_ms: int) -> bool:
        """Return whether files of dropped segments are due for removal."""
        return self._local.has_deleted_files(now_ms)

    def purge_deleted(self, now_ms: int) -> None:
        """Remove the files of dropped segments whose file.delete.delay.ms is over."""
        with self._health.access():
            self._local.purge_deleted(now_ms)
