"""The cleaner's view of a log, and its only change: segments replaced by a cleaned one.

`structure` counts truncations and removals of segments by others. A cleaning that began at another count is void: its
driver checks before each step, and must not call `replace`.
"""

from collections.abc import Callable, Sequence

from kvorum.runtime import failpoints
from kvorum.storage.cleaner.batch_filter import LastRecord
from kvorum.storage.disk_health import DiskHealth
from kvorum.storage.local_log import LocalLog
from kvorum.storage.producer_state import ProducerState, decode_snapshot
from kvorum.storage.segment import Segment
from kvorum.storage.segments import Segments
from kvorum.storage.snapshots import Snapshots
from kvorum.storage.txn_index import AbortedTransaction


class LogCleaning:
    """Cleaning state of one log. `cleaned_offset`: below it the log is clean, None if never cleaned (checkpoint)."""

    __slots__ = (
        "_health",
        "_local",
        "_producers",
        "_snapshots",
        "cleaned_offset",
        "is_in_progress",
        "is_offered",
        "on_cut",
    )

    def __init__(self, local: LocalLog, producers: ProducerState, snapshots: Snapshots, health: DiskHealth) -> None:
        """Begin as never cleaned."""
        self._local = local
        self._producers = producers
        self._snapshots = snapshots
        self._health = health
        self.cleaned_offset: int | None = None
        self.is_in_progress = False
        """Set while the log is being cleaned: retention waits meanwhile."""
        self.is_offered = False
        """Set while a cleaned segment is durable as the coming one, and not yet swapped."""
        self.on_cut: Callable[[], None] | None = None
        """Called before a cut below `cleaned_offset` is made: the checkpoint on disk must not outlive it."""

    @property
    def segments(self) -> Segments:
        """The segments, the active one included."""
        return self._local.segments

    @property
    def structure(self) -> int:
        """See the module."""
        return self._local.structure

    @property
    def synced_base(self) -> int:
        """The base offset below which every segment is synced whole: others are left alone until they are."""
        return self._local.sync_state.durable.segment_base_offset

    def known_base(self, offset: int) -> int:
        """Return the last segment start at or before this one for which a producer snapshot exists.

        Every segment has one from its roll or its recovery, except one whose snapshot was damaged. The first segment's
        start if there is none.
        """
        for segment in reversed(list(self.segments)):
            base_offset = segment.base_offset
            if base_offset <= offset and self._snapshots.latest(base_offset) == base_offset:
                return base_offset
        return self.segments.first.base_offset

    def read_last_records(self, offset: int) -> dict[int, LastRecord]:
        """Return the last batch of each producer before a segment's start, from the snapshot there.

        Call it outside the event loop. Raises OSError (the log was truncated meanwhile), ValueError for a damaged
        snapshot.
        """
        found: dict[int, LastRecord] = {}
        for entry in decode_snapshot(self._snapshots.read(offset)):
            last_data_offset = entry.batches[-1].last_offset if entry.batches else None
            found[entry.producer_id] = LastRecord(last_data_offset, entry.producer_epoch)
        return found

    def forget_snapshot(self, offset: int) -> None:
        """Remove a damaged one: the log is cleaned up to the one before."""
        with self._health.access():
            self._snapshots.remove_if(offset, offset)

    def still_known(self, records: dict[int, LastRecord]) -> dict[int, LastRecord]:
        """Return those of producers that have not expired."""
        return {producer_id: last for producer_id, last in records.items() if producer_id in self._producers.producers}

    def before_cut(self, offset: int) -> None:
        """Take note that everything from `offset` on is about to go: nothing of a cleaning may bring it back."""
        with self._health.change():
            if self.is_offered:
                self._local.withdraw_offered()
                self.is_offered = False
            if self.cleaned_offset is not None and offset < self.cleaned_offset:
                self.cleaned_offset = offset
                if self.on_cut is not None:
                    self.on_cut()

    def collect_aborted(self, start_offset: int, upper_bound_offset: int) -> list[AbortedTransaction]:
        """Return the aborted transactions with an offset in [start_offset, upper_bound_offset)."""
        if not self._local.has_aborted:
            return []
        with self._health.access():
            return self._local.collect_aborted(start_offset, upper_bound_offset)

    def replace(self, old: Sequence[Segment], new: Segment, now_ms: int) -> None:
        """Replace neighbouring segments by an offered one that was made from them. Old files are removed later.

        Raises KafkaError KAFKA_STORAGE_ERROR.
        """
        assert self.is_offered, "it is durable under its name for the swap"
        with self._health.change():
            failpoints.hit("cleaner.replace.before")
            self._local.replace_segments(old, new, now_ms)
            self.is_offered = False
            for merged in old[1:]:
                self._snapshots.remove_if(merged.base_offset, merged.base_offset)
            failpoints.hit("cleaner.replace.after")
