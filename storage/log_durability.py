"""When a log must be synced, and the steps of it: flush.messages, flush.ms and a roll.

    is_sync_due          flush.messages: no response to an append before it is synced
    is_flush_ms_over     flush.ms: the delay of unsynced records has passed
    has unsynced segments: a roll left them to the next flush

Nothing here syncs by itself. `begin`, the plan's `run` and `complete` are a flush whose middle may leave the event loop
(see log_flush); `flush` is all three at once. Source: Kafka's UnifiedLog.append and UnifiedLog.flush.
"""

from kvorum.runtime.clock import Clock
from kvorum.runtime.disk import is_process_error
from kvorum.storage.disk_health import DiskHealth
from kvorum.storage.epoch_cache import EpochCache
from kvorum.storage.local_log import LocalLog
from kvorum.storage.log_flush import FlushPlan
from kvorum.storage.snapshots import Snapshots


class LogDurability:
    """Durability of one log. Times are wall milliseconds."""

    __slots__ = ("_clock", "_epoch_cache", "_health", "_last_flush_ms", "_local", "_snapshots", "_sync_state")

    def __init__(
        self, local: LocalLog, epoch_cache: EpochCache, snapshots: Snapshots, health: DiskHealth, clock: Clock
    ) -> None:
        """Begin as of now: flush.ms counts from here."""
        self._local = local
        self._sync_state = local.sync_state
        self._epoch_cache = epoch_cache
        self._snapshots = snapshots
        self._health = health
        self._clock = clock
        self._last_flush_ms = clock.wall_ms()

    @property
    def is_sync_due(self) -> bool:
        """Whether flush.messages records, or more, are not synced."""
        return self._local.log_end_offset - self._sync_state.synced_end_offset >= self._local.config.flush_messages

    @property
    def committable_end_offset(self) -> int:
        """The log end, but the synced end while a sync is due."""
        return self._sync_state.synced_end_offset if self.is_sync_due else self._local.log_end_offset

    def is_flush_due(self, now_ms: int) -> bool:
        """Return whether there is anything to sync: files of dropped segments wait for the leader epochs."""
        is_epoch_due = self._epoch_cache.is_dirty and self._local.has_dropped_files
        is_due = self._sync_state.has_unsynced_segments or self.is_flush_ms_over(now_ms) or self.is_sync_due
        return is_due or is_epoch_due

    @property
    def may_remove_files(self) -> bool:
        """Whether the leader epochs on disk have the log start; before, a crash would look like lost segments."""
        return not (self._epoch_cache.is_dirty or self._sync_state.is_flushing)

    def is_flush_ms_over(self, now_ms: int) -> bool:
        """Return whether records of the active segment wait for flush.ms already."""
        is_dirty = self._local.log_end_offset > self._sync_state.durable.recovery_point
        return is_dirty and now_ms - self._last_flush_ms >= self._local.config.flush_ms

    def begin(self, include_active: bool) -> FlushPlan:
        """Collect the files to sync. Raises KafkaError KAFKA_STORAGE_ERROR."""
        with self._health.access():
            text = self._epoch_cache.to_text() if self._epoch_cache.is_dirty else None
            end_offset = self._local.log_end_offset
            plan = self._sync_state.begin(end_offset, include_active, text, self._snapshots.unwritten())
            self._epoch_cache.is_dirty = False
            return plan

    def complete(self, plan: FlushPlan) -> None:
        """Advance the recovery point to the synced end of the plan; void if the log was truncated since."""
        with self._health.access():
            if self._sync_state.complete(plan):
                self._snapshots.on_written(plan.snapshots)
            else:
                self._snapshots.on_void(plan.snapshots)
                self._epoch_cache.is_dirty = True
            self._last_flush_ms = self._clock.wall_ms()

    def abort(self, plan: FlushPlan) -> None:
        """Take back a plan that failed and may be tried again: nothing counts as synced or written."""
        self._sync_state.abort(plan)
        self._snapshots.on_void(plan.snapshots)
        self._epoch_cache.is_dirty = True

    def flush(self) -> None:
        """Sync everything up to the log end, here and now. Raises KafkaError KAFKA_STORAGE_ERROR.

        While a plan is under way in a thread, the batches are synced and the recovery point stays for the plan to move.
        """
        if self._sync_state.is_flushing:
            with self._health.access():
                self._sync_state.sync_batches(self._local.log_end_offset)
            return
        plan = self.begin(include_active=True)
        with self._health.access():
            try:
                plan.run()
            except OSError as error:
                if is_process_error(error):
                    self.abort(plan)
                raise
        self.complete(plan)
