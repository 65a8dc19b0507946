"""Sync state of one log's files, and the flush in progress.

    durable.recovery_point <= synced_end_offset <= log end
    indexes and names that the next flush has to sync: those of rolled, added, removed and renamed segments

A flush is begun here, run elsewhere (log_flush.FlushPlan), and completed here, unless the log was truncated since:
then the synced data may be removed, and the plan is void. All methods raise the disk's OSError.
"""

from collections.abc import Sequence

from kvorum.runtime import blocking
from kvorum.runtime.disk import Disk
from kvorum.storage import durable_length
from kvorum.storage.durable_length import DurableLength
from kvorum.storage.log_flush import FlushPlan
from kvorum.storage.names import INDEX_SUFFIX, TIME_INDEX_SUFFIX, TXN_INDEX_SUFFIX
from kvorum.storage.segment import Segment
from kvorum.storage.segments import Segments


class SyncState:
    """Sync state of one log. `durable`: contents of `durable-length`. `has_new_names`: the folder must be synced."""

    __slots__ = (
        "_disk",
        "_flushed_indexes",
        "_folder",
        "_generation",
        "_plan",
        "_segments",
        "_synced_end_offset",
        "_unsynced_indexes",
        "durable",
        "epochs_lock",
        "has_new_names",
    )

    def __init__(self, disk: Disk, folder: str, segments: Segments, durable: DurableLength) -> None:
        """Start with the synced end found by recovery."""
        self._disk = disk
        self._folder = folder
        self._segments = segments
        self.durable = durable
        self.epochs_lock = blocking.Lock()
        """See FlushPlan: its plans run in threads."""
        self.has_new_names = True
        self._unsynced_indexes: list[Segment] = []
        self._flushed_indexes: list[Segment] = []
        """Those of the plan under way."""
        self._synced_end_offset = durable.recovery_point
        self._generation = 0
        """Number of truncations."""
        self._plan: FlushPlan | None = None

    @property
    def synced_end_offset(self) -> int:
        """One past the last batch that is synced; at least the recovery point."""
        return max(self._synced_end_offset, self.durable.recovery_point)

    @property
    def has_unsynced_segments(self) -> bool:
        """Whether segments were rolled that are not synced yet."""
        return self.durable.segment_base_offset < self._segments.active.base_offset and len(self._segments) > 1

    @property
    def is_flushing(self) -> bool:
        """Whether a plan is under way."""
        return self._plan is not None

    def moved_to(self, folder: str) -> None:
        """Go by the folder's new name. No flush is under way: its plan has the old one."""
        assert self._plan is None, "who renames a folder has waited for its flush"
        self._folder = folder
        self.has_new_names = True

    def indexes_saved(self, segment: Segment) -> None:
        """A segment's indexes were written for good: the next flush syncs them."""
        self._unsynced_indexes.append(segment)

    def forget(self, removed: Sequence[Segment]) -> None:
        """Remove segments that no longer belong to the log."""
        self._unsynced_indexes = [segment for segment in self._unsynced_indexes if segment not in removed]

    def cut(self) -> None:
        """The log is about to be truncated: a plan in progress is void, and only `durable` is known to be synced."""
        self._generation += 1
        self._synced_end_offset = 0

    def record(self, durable: DurableLength, *, sync: bool) -> None:
        """Write the new durable state."""
        durable_length.write(self._disk, self._folder, durable, sync=sync)
        self.durable = durable

    def begin(
        self, log_end_offset: int, include_active: bool, epochs_text: str | None, snapshots: list[tuple[str, bytes]]
    ) -> FlushPlan:
        """Collect the files to sync: all segments, or all but the active one."""
        assert self._plan is None, "one flush at a time"
        active = self._segments.active
        unsynced = [each for each in self._unsynced() if include_active or each is not active]
        durable = self.durable
        if unsynced:
            durable = DurableLength(active.base_offset, active.base_offset, 0)
            if include_active:
                durable = DurableLength(log_end_offset, active.base_offset, active.size)
        suffixes = (INDEX_SUFFIX, TIME_INDEX_SUFFIX, TXN_INDEX_SUFFIX)
        generation = self._generation
        plan = self._plan = FlushPlan(
            disk=self._disk,
            folder=self._folder,
            files=[segment.file for segment in unsynced],
            index_paths=[segment.path(suffix) for segment in self._unsynced_indexes for suffix in suffixes],
            epochs_text=epochs_text,
            snapshots=snapshots,
            has_new_names=self.has_new_names,
            durable=durable,
            epochs_lock=self.epochs_lock,
            generation=generation,
            is_current=lambda: self._generation == generation,
        )
        self._flushed_indexes, self._unsynced_indexes = self._unsynced_indexes, []
        self.has_new_names = False
        return plan

    def complete(self, plan: FlushPlan) -> bool:
        """Record that a plan has run; return False if the log was truncated meanwhile, so that it is void."""
        assert plan is self._plan, "the plan that was begun"
        self._plan = None
        if plan.generation != self._generation:
            self.has_new_names = True
            return False
        if plan.durable > self.durable:
            self.record(plan.durable, sync=False)
        return True

    def abort(self, plan: FlushPlan) -> None:
        """Drop an incomplete plan: the next one syncs its files."""
        assert plan is self._plan, "the plan that was begun"
        self._plan = None
        self._unsynced_indexes = self._flushed_indexes + self._unsynced_indexes
        self.has_new_names = True

    def sync_batches(self, log_end_offset: int) -> None:
        """Sync all batches now, while a plan is under way; the recovery point has to wait for the plan."""
        for segment in self._unsynced():
            segment.sync()
        self._synced_end_offset = log_end_offset

    def _unsynced(self) -> list[Segment]:
        return list(self._segments.from_offset(self.durable.segment_base_offset))
