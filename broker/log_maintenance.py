"""Periodic work on logs: syncs, retention, removals, checkpoints, cleaning (Kafka's LogManager.startup).

Retention drops what compaction leaves of a log with both policies: by the clock, and after each cleaning of that log.
"""

from collections.abc import Callable

from kvorum.broker.replica.housekeeping import PeriodicTasks
from kvorum.runtime.clock import Clock
from kvorum.runtime.config import Settings
from kvorum.storage.cleaner.manager import LogCleaner
from kvorum.storage.log_manager import LogManager

FLUSH_INTERVAL_MS = 1_000
"""Interval between checks for due syncs: a rolled segment waits no longer, flush.ms is as precise."""
PURGE_INTERVAL_MS = 5_000
"""Interval of deletions: files are deleted at most this much later than file.delete.delay.ms."""


class LogMaintenance:
    """Runs them until closed."""

    __slots__ = ("_clock", "_logs", "_settings", "_tasks", "cleaner")

    def __init__(
        self, logs: LogManager, settings: Callable[[], Settings], clock: Clock, cleaner: LogCleaner | None = None
    ) -> None:
        """Do nothing before `start`. `settings` returns the current ones; intervals are read at the start."""
        self.cleaner = cleaner
        self._logs = logs
        self._settings = settings
        self._clock = clock
        self._tasks = PeriodicTasks()

    def start(self) -> None:
        """Begin."""
        every, interval = self._tasks.every, self._settings().int
        every(FLUSH_INTERVAL_MS, "log-flush", lambda: self._logs.flush_dirty(self._clock.wall_ms()))
        every(PURGE_INTERVAL_MS, "log-purge", lambda: self._logs.purge_deleted(self._clock.wall_ms()))
        every(interval("log.retention.check.interval.ms"), "log-retention", self._apply_retention)
        every(interval("producer.id.expiration.check.interval.ms"), "producer-expiration", self._expire_producers)
        points = interval("log.flush.offset.checkpoint.interval.ms")
        every(points, "recovery-point-checkpoint", self._logs.checkpoint_recovery_points)
        starts = interval("log.flush.start.offset.checkpoint.interval.ms")
        every(starts, "log-start-checkpoint", self._logs.checkpoint_log_start_offsets)
        if self.cleaner is not None and self._settings().bool("log.cleaner.enable"):
            self.cleaner.start()

    async def close(self) -> None:
        """Stop, and wait for running tasks."""
        if self.cleaner is not None:
            await self.cleaner.close()
        await self._tasks.close()

    def _apply_retention(self) -> None:
        self._logs.apply_retention(self._clock.wall_ms())

    def _expire_producers(self) -> None:
        """Forget idle producers, by the present producer.id.expiration.ms."""
        expiration_ms = self._settings().int("producer.id.expiration.ms")
        for each in self._logs.logs():
            each.producers.expiration_ms = expiration_ms
        self._logs.expire_producers(self._clock.wall_ms())
