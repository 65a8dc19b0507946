"""The bytes of a log: its segments, written at the end, read anywhere, cut and rolled (Kafka's LocalLog).

Knows nothing of leaders, producers or high watermarks: `Log` does. `sync_state` knows the synced part. Everything here
raises OSError as the disk does, and CorruptSegment where bytes are no batches; after either the log is not used again.
"""

from collections.abc import Callable, Iterator, Sequence

from kvorum.protocol.batch_header import BatchHeader, parse_header
from kvorum.protocol.parts import FileSlice, Part, part_size
from kvorum.runtime import failpoints
from kvorum.runtime.disk import Disk
from kvorum.storage.cleaner.swap import take_place, withdraw
from kvorum.storage.deleted_files import DeletedFiles
from kvorum.storage.durable_length import DurableLength
from kvorum.storage.epoch_cache import EpochCache
from kvorum.storage.index import RELATIVE_OFFSET_MAX
from kvorum.storage.log_config import LogConfig
from kvorum.storage.log_flush import sync_names, write_epochs
from kvorum.storage.log_read import ReadInfo, TimestampOffset, find_max_timestamp, find_timestamp, read_segments
from kvorum.storage.log_types import LogParts
from kvorum.storage.rolling import Room, must_roll, room_in
from kvorum.storage.segment import Segment
from kvorum.storage.segment_creation import create_segment
from kvorum.storage.sync_state import SyncState
from kvorum.storage.tail import Tail, TailBudget
from kvorum.storage.txn_index import AbortedTransaction


class LocalLog:
    """Segments in one folder. `before_roll` is called with the base offset of each new segment but the first."""

    __slots__ = (
        "_before_roll",
        "_deleted",
        "_disk",
        "_tail",
        "_warm",
        "config",
        "folder",
        "has_aborted",
        "log_end_offset",
        "segments",
        "structure",
        "sync_state",
    )

    def __init__(
        self,
        disk: Disk,
        folder: str,
        config: LogConfig,
        parts: LogParts,
        tail_budget: TailBudget,
        before_roll: Callable[[int], None],
    ) -> None:
        """Take over segments whose content has been checked."""
        self._disk = disk
        self.folder = folder
        self.config = config
        self.segments = parts.segments
        self.log_end_offset = parts.log_end_offset
        self.has_aborted = any(segment.has_aborted_transactions for segment in parts.segments)
        """Whether any transaction may have been aborted here; otherwise no index is read."""
        self.sync_state = SyncState(disk, folder, parts.segments, parts.durable)
        self._tail = Tail(tail_budget)
        self._before_roll = before_roll
        self._deleted = DeletedFiles(disk)
        self.structure = 0
        """Number of truncations and removals of segments, without replacements by cleaned ones."""
        self._warm: Segment | None = None

    def groups(self, headers: list[BatchHeader]) -> Iterator[list[BatchHeader]]:
        """Split fetched batches into writes that fit into a segment each, by bytes and by offsets."""
        group: list[BatchHeader] = []
        size = self.segments.active.size
        for header in headers:
            if group and (
                size + header.size > self.config.segment_bytes
                or header.last_offset - group[0].base_offset > RELATIVE_OFFSET_MAX
            ):
                yield group
                group, size = [], self.segments.active.size
            group.append(header)
            size += header.size
        yield group

    def write(self, view: memoryview, headers: list[BatchHeader], now_ms: int) -> None:
        """Append batches at their final offsets, at or behind the log end; roll first if it is time."""
        assert headers[0].base_offset >= self.log_end_offset, "offsets ascend"
        last = headers[-1]
        if must_roll(self.segments.active, self.config, last, len(view), now_ms):
            self._roll_for(headers[0].base_offset, last, now_ms)
        self.extend(view, headers)

    def extend(self, view: memoryview, headers: list[BatchHeader]) -> None:
        """Append batches to the active segment, which has room for them."""
        active = self.segments.active
        position = active.size
        active.append(view, headers)
        self._tail.append(view, headers, active.file, position)
        self.log_end_offset = headers[-1].next_offset

    def room(self, now_ms: int, size_max: int) -> Room:
        """Return what `extend` may write in one piece; see rolling.room_in."""
        return room_in(self.segments.active, self.config, now_ms, size_max)

    def roll_if_due(self, header: BatchHeader, size: int, now_ms: int) -> None:
        """Roll if this batch, the next to be written, begins a new segment."""
        if must_roll(self.segments.active, self.config, header, size, now_ms):
            self._roll_for(header.base_offset, header, now_ms)

    def _roll_for(self, base_offset: int, last: BatchHeader, now_ms: int) -> None:
        """Begin the segment of a write: at the log end, unless that is too far below the write's last offset."""
        fits = last.last_offset - self.log_end_offset <= RELATIVE_OFFSET_MAX
        self.roll(self.log_end_offset if fits else base_offset, now_ms)

    def roll(self, base_offset: int, now_ms: int) -> None:
        """Begin a new segment. The unsynced part of the old one waits for the next flush."""
        failpoints.hit("log.roll.before")
        old = self.segments.active
        # First, so that a kill in between leaves no segment behind one that still has its zeros.
        old.trim()
        self._before_roll(base_offset)
        new = self._new_segment(base_offset, now_ms)
        if old.size == 0:
            # An empty segment rolls only when the next offset is too far above its base: nothing refers to it.
            self.segments.replace_active(new)
            self._delete([old], now_ms)
        else:
            try:
                old.save_indexes(with_last_timestamp=True)
            except OSError:
                new.close()
                raise
            old.forget_indexes()
            self.sync_state.indexes_saved(old)
            self.segments.add(new)
        failpoints.hit("log.roll.created")
        self.sync_state.has_new_names = True
        failpoints.hit("log.roll.after")

    def _new_segment(self, base_offset: int, now_ms: int) -> Segment:
        config = self.config
        return create_segment(
            self._disk, self.folder, base_offset, config.index_interval_bytes, now_ms, config.init_file_size
        )

    def read(self, offset: int, max_bytes: int, bound: int, min_one: bool) -> ReadInfo:
        """Return whole batches from the one that holds `offset` on, up to the bound; see read_segments."""
        parts = self._tail.read(offset, max_bytes, bound, min_one)
        if parts is not None:
            return ReadInfo(tuple(parts), sum([part_size(part) for part in parts]))
        return read_segments(self._from_offset_warm(offset), offset, max_bytes, bound, self.log_end_offset, min_one)

    def _from_offset_warm(self, offset: int) -> Iterator[Segment]:
        """Iterate over the segments from the one that covers this offset; the current one keeps its indexes."""
        for segment in self.segments.from_offset(offset):
            self._keep_warm(segment)
            yield segment

    def upper_bound_of(self, offset: int, parts: Sequence[Part]) -> int:
        """Return an offset after everything in `parts`, read from `offset` on: at most an index interval too high."""
        last = parts[-1]
        if not isinstance(last, FileSlice):
            return parse_header(last).next_offset
        for segment in self.segments.from_offset(offset):
            if segment.file is last.file:
                bound = segment.offset_index.offset_from(last.position + last.size)
                bound = self.segments.next_base(segment) if bound is None else bound
                return self.log_end_offset if bound is None else bound
        return self.log_end_offset

    def collect_aborted(self, start_offset: int, upper_bound_offset: int) -> list[AbortedTransaction]:
        """Return the aborted transactions with an offset in [start_offset, upper_bound_offset), by their markers.

        A marker may be far behind the records that it aborts: segments are searched until one shows that no more
        follow.
        """
        found: list[AbortedTransaction] = []
        for segment in self.segments.from_offset(start_offset):
            if segment.has_aborted_transactions:
                more, is_complete = segment.txn_index.collect_aborted(start_offset, upper_bound_offset)
                if segment is not self.segments.active and segment is not self._warm:
                    segment.forget_indexes()
                found += more
                if is_complete:
                    break
        return found

    def _keep_warm(self, segment: Segment) -> None:
        """Let one inactive segment at a time keep its indexes in memory."""
        if segment is self.segments.active or segment is self._warm:
            return
        if self._warm is not None and self._warm is not self.segments.active:
            self._warm.forget_indexes()
        self._warm = segment

    def find_timestamp(self, timestamp: int, start_offset: int) -> TimestampOffset | None:
        """Return the first record of at least this timestamp and offset."""
        for segment in self.segments:
            self._keep_warm(segment)
            if segment.size and segment.max_timestamp >= timestamp:
                found = find_timestamp(segment, timestamp, start_offset)
                if found is not None:
                    return found
        return None

    def find_max_timestamp(self) -> TimestampOffset | None:
        """Return the first record with the greatest timestamp."""
        best: Segment | None = None
        for segment in self.segments:
            if segment.size and (best is None or segment.max_timestamp > best.max_timestamp):
                best = segment
        return None if best is None else find_max_timestamp(best)

    def truncate_to(self, offset: int, now_ms: int) -> int:
        """Truncate everything from `offset` on, with the batch that contains it; return the new log end offset.

        Durable when it returns: first the recovery point is lowered, then names are removed, then the file is
        truncated. Otherwise old bytes could reappear after the next append.
        """
        self.sync_state.cut()
        self.structure += 1
        self._tail.clear()
        segments = [segment for segment in self.segments if segment.base_offset <= offset] or [self.segments.first]
        last = segments[-1]
        placed = last.find_batch(offset)
        end_offset = offset if placed is None else min(offset, placed.header.base_offset)
        position = last.size if placed is None else placed.position
        durable = self.sync_state.durable
        if end_offset < durable.recovery_point or last.base_offset < durable.segment_base_offset:
            left = DurableLength(min(end_offset, durable.recovery_point), last.base_offset, position)
            self.sync_state.record(left, sync=True)
        failpoints.hit("log.truncate.recorded")
        removed = self.segments.remove_above(offset)
        self.sync_state.forget(removed)
        if removed:
            self._delete(removed, now_ms)
            failpoints.hit("log.truncate.renamed")
            sync_names(self._disk, self.folder)
        last.truncate_to(offset)
        last.trim()  # bytes of a write that failed may follow the last whole batch
        if last.size == 0:
            last.created_ms = now_ms
        last.sync()
        self.sync_state.has_new_names = True  # snapshots are removed too: a later recovery point must not restore them
        self.log_end_offset = end_offset
        return end_offset

    def truncate_fully_and_start_at(self, offset: int, now_ms: int) -> None:
        """Drop everything and begin again, empty, at this offset."""
        self.sync_state.cut()
        self.structure += 1
        self._tail.clear()
        failpoints.hit("log.restart.before")
        self.sync_state.record(DurableLength(0, 0, 0), sync=True)
        failpoints.hit("log.restart.recorded")
        # From here on a crash makes recovery read everything that still exists, the leader epochs too.
        with self.sync_state.epochs_lock:
            write_epochs(self._disk, self.folder, EpochCache().to_text())
        failpoints.hit("log.restart.epochs")
        removed = list(self.segments)[::-1]
        self._delete(removed, now_ms)
        sync_names(self._disk, self.folder)
        failpoints.hit("log.restart.emptied")
        self.segments.replace_all(self._new_segment(offset, now_ms))
        self.sync_state.forget(removed)
        sync_names(self._disk, self.folder)
        failpoints.hit("log.restart.created")
        self.sync_state.record(DurableLength(offset, offset, 0), sync=True)
        failpoints.hit("log.restart.after")
        self.log_end_offset = offset

    def delete_oldest(self, count: int, now_ms: int) -> None:
        """Drop this number of segments at the start, not all."""
        self.structure += 1
        keep = list(self.segments)[count]
        removed = self.segments.remove_below(keep.base_offset)
        self.sync_state.forget(removed)
        self._delete(removed, now_ms)
        self.sync_state.has_new_names = True

    def replace_segments(self, old: Sequence[Segment], new: Segment, now_ms: int) -> None:
        """Replace segments by a cleaned one, which is durable under its name for the swap."""
        self.segments.replace(old, new)
        if self._warm in old:
            self._warm = None
        self.sync_state.forget(old)
        self._tail.clear()
        self._delete(list(old), now_ms)
        take_place(self._disk, self.folder, new.base_offset)
        self.sync_state.has_new_names = True

    def withdraw_offered(self) -> None:
        """Take back a cleaned segment that is offered and not swapped."""
        withdraw(self._disk, self.folder)

    def _delete(self, segments: list[Segment], now_ms: int) -> None:
        """Take segments away: renamed now, removed by `purge_deleted` after file.delete.delay.ms."""
        for segment in segments:
            failpoints.hit("log.delete.before")
            self._deleted.add(segment, now_ms + self.config.file_delete_delay_ms)

    def has_deleted_files(self, now_ms: int) -> bool:
        """Return whether the delay of any file has passed."""
        return self._deleted.is_due(now_ms)

    @property
    def has_dropped_files(self) -> bool:
        """Whether files of dropped segments wait for their removal."""
        return bool(self._deleted)

    def purge_deleted(self, now_ms: int) -> None:
        """Remove the files whose delay is over."""
        self._deleted.purge(now_ms)

    def moved_to(self, folder: str) -> None:
        """Go by the folder's new name. No flush is under way: its plan has the old one."""
        self.sync_state.moved_to(folder)
        self.folder = folder
        for segment in self.segments:
            segment.moved_to(folder)
        self._deleted.moved_to(folder)

    def settle(self) -> None:
        """Leave the active segment as a clean shutdown does: trimmed, its indexes whole; the next flush syncs it."""
        active = self.segments.active
        active.trim()
        active.save_indexes(with_last_timestamp=True)
        self.sync_state.indexes_saved(active)
        self.sync_state.has_new_names = self.sync_state.has_new_names or active.has_txn_file

    def close(self) -> None:
        """Release every file."""
        for segment in self.segments:
            segment.close()
        self._deleted.close()
