"""Opens a log: trusts it after a clean shutdown, else checks for damage by a crash (Kafka's LogLoader).

Below the recovery point everything was synced. The segments from the one that contains it are read batch by batch (CRC,
offsets), truncated at the first bad batch, and their indexes, leader epochs and producer state rebuilt.

Damage that a crash cannot explain is reported to `on_damage`, and the log is repaired as after a crash: files that
differ from the record of a clean shutdown (closed_logs), or a truncation below the recovery point. If that loses synced
records, the log is marked first (damage), so that no replica that still has them is truncated to this one.

Runs off the event loop; changes only its own folder.
"""

from collections.abc import Callable
from dataclasses import dataclass

from kvorum.protocol.errors import KafkaError
from kvorum.protocol.topic_partition import TopicPartition
from kvorum.protocol.uuids import ZERO_UUID, Uuid
from kvorum.runtime import failpoints
from kvorum.runtime.clock import Clock
from kvorum.runtime.disk import Disk
from kvorum.storage import durable_length
from kvorum.storage.cleaner.swap import settle
from kvorum.storage.closed_logs import ClosedLog, LogFiles, describe_files
from kvorum.storage.damage import Damage, Lack, read_lack, write_lack
from kvorum.storage.deleted_files import leftover_segments, remove_leftovers
from kvorum.storage.durable_length import DurableLength
from kvorum.storage.epoch_cache import EpochCache
from kvorum.storage.log import Log
from kvorum.storage.log_config import LogConfig
from kvorum.storage.log_flush import sync_names, write_epochs
from kvorum.storage.log_folder import (
    assign_epochs,
    checked_end,
    find_broken,
    find_segments,
    lacks_first_epoch,
    new_parts,
    read_epochs,
    repair_segment,
)
from kvorum.storage.log_types import PRODUCER_ID_EXPIRATION_MS, LogParts
from kvorum.storage.names import (
    INDEX_SUFFIX,
    LOG_SUFFIX,
    OFFSET_MAX,
    SNAPSHOT_SUFFIX,
    TIME_INDEX_SUFFIX,
    TXN_INDEX_SUFFIX,
)
from kvorum.storage.producer_replay import index_aborted, note_batch, rebuild_txn_index, restore_producers
from kvorum.storage.producer_state import ProducerState
from kvorum.storage.segment import CorruptSegment, Segment
from kvorum.storage.segment_check import valid_batches
from kvorum.storage.segment_creation import create_segment
from kvorum.storage.segments import Segments
from kvorum.storage.snapshots import Snapshots, write_snapshots
from kvorum.storage.tail import TailBudget


class LogDirectoryError(Exception):
    """A log that cannot be opened. Its directory must be taken offline."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenOptions:
    """The directory's knowledge of a log besides its folder's contents."""

    recovery_point: int = 0
    log_start_offset: int = 0
    is_clean: bool = False
    """The directory was shut down cleanly, so nothing needs to be checked."""
    topic_id: Uuid = ZERO_UUID
    producer_id_expiration_ms: int = PRODUCER_ID_EXPIRATION_MS
    on_io_error: Callable[[Exception], None] | None = None
    closed: ClosedLog | None = None
    """Record of the clean shutdown."""
    recorded_end: int = 0
    """The log had records up to this offset, by the checkpoints, if it has no segment at all."""
    cleaned_offset: int = 0
    """Below it a compacted log may have gaps between segments (those that Kafka cleaned)."""
    on_damage: Callable[[Damage], None] = lambda damage: None


def open_log(
    disk: Disk,
    folder: str,
    partition: TopicPartition,
    config: LogConfig,
    clock: Clock,
    *,
    tail_budget: TailBudget | None = None,
    options: OpenOptions | None = None,
) -> Log:
    """Open the log in this folder, or begin a new one there. Raises LogDirectoryError, OSError."""
    options = options or OpenOptions()
    try:
        parts = _load(disk, folder, config, clock, options)
    except CorruptSegment as error:
        raise LogDirectoryError(f"{folder}: {error}") from error
    return Log(
        disk,
        folder,
        partition,
        config,
        clock,
        parts,
        tail_budget=TailBudget() if tail_budget is None else tail_budget,
        topic_id=options.topic_id,
        producer_id_expiration_ms=options.producer_id_expiration_ms,
        on_io_error=options.on_io_error,
    )


def _load(disk: Disk, folder: str, config: LogConfig, clock: Clock, options: OpenOptions) -> LogParts:
    """Return the content of the folder, repaired if necessary. Raises LogDirectoryError, CorruptSegment, OSError."""
    disk.mkdir(folder)
    settle(disk, folder)
    parts = _load_parts(disk, folder, config, clock, options)
    # Last: the dropped segments explain the start of the log, until the leader epochs on disk are written.
    remove_leftovers(disk, folder)
    return parts


def _load_parts(disk: Disk, folder: str, config: LogConfig, clock: Clock, options: OpenOptions) -> LogParts:
    if (lack := read_lack(disk, folder)) is not Lack.NOTHING:
        options.on_damage(Damage("an earlier start found that synced records are missing", lack))
    closed = options.closed if options.is_clean else None
    files = None if closed is None or closed.files is None else describe_files(disk, folder)
    found = find_segments(disk, folder, config, clock)
    if not found:
        end_offset = options.recorded_end if closed is None else closed.log_end_offset
        if end_offset > options.log_start_offset:
            write_lack(disk, folder, Lack.END)
            options.on_damage(Damage(f"it has no segment, but had records up to offset {end_offset}", Lack.END))
        return new_parts(disk, folder, config, clock, options.log_start_offset)

    def begin() -> _Loading:
        segments = find_segments(disk, folder, config, clock)
        return _Loading(disk, folder, config, clock, options, segments, Snapshots(disk, folder))

    durable = durable_length.read(disk, folder)
    recovery_point = unsynced_from = options.recovery_point
    if durable is not None:
        recovery_point = min(recovery_point, durable.recovery_point)
        unsynced_from = min(recovery_point, durable.segment_base_offset)
    loading = _Loading(disk, folder, config, clock, options, found, Snapshots(disk, folder))
    if options.is_clean:
        try:
            if closed is not None:
                loading.compare(closed, files)
            loading.trust()
            return loading.parts()
        except CorruptSegment as error:
            options.on_damage(Damage(str(error), Lack.NOTHING))
        loading = begin()
        if closed is not None:
            recovery_point, unsynced_from = closed.log_end_offset, found[-1].base_offset
            if files is not None:
                loading.txn_indexes_gone = closed.missing_txn_indexes(files)
                gone = closed.missing_segments(files.segments)
                if gone and gone[0] < found[-1].base_offset:
                    loading.note_lack(f"the segments {gone} are missing", Lack.SEGMENTS)
    loading.recover(recovery_point, unsynced_from)
    return loading.parts()


class _Loading:
    """One opening in progress."""

    def __init__(
        self,
        disk: Disk,
        folder: str,
        config: LogConfig,
        clock: Clock,
        options: OpenOptions,
        segments: list[Segment],
        snapshots: Snapshots,
    ) -> None:
        epochs = read_epochs(disk, folder)
        self.disk = disk
        self.folder = folder
        self.config = config
        self.options = options
        self.now_ms = clock.wall_ms()
        self.segments = Segments(segments)
        self.snapshots = snapshots
        self.has_epochs = epochs is not None
        self.epochs = epochs or EpochCache()
        self.saved_epochs = self.epochs.entries
        self.producers = ProducerState()
        self.log_end_offset = 0
        self.durable = DurableLength(0, 0, 0)
        self.txn_indexes_gone: frozenset[int] = frozenset()
        """The segments whose transaction index must be rebuilt."""

    def compare(self, closed: ClosedLog, files: LogFiles | None) -> None:
        """Compare the folder with the record of a clean shutdown, and the newest batches with their CRC.

        Changes nothing. Raises CorruptSegment with the first difference.
        """
        if files is not None and files != closed.files:
            raise CorruptSegment(f"{self.folder} has other files, or of other sizes, than at the last clean shutdown")
        end_offset = checked_end(self.segments.active, self.segments.active.start_position(OFFSET_MAX))
        if end_offset != closed.log_end_offset:
            raise CorruptSegment(f"{self.folder} ends at offset {end_offset}, not {closed.log_end_offset}")

    def trust(self) -> None:
        """Accept everything unchecked. Raises CorruptSegment where the active segment's chain of batches breaks."""
        active = self.segments.active
        self.log_end_offset = active.next_offset()
        self.snapshots.remove_if(self.log_end_offset + 1, OFFSET_MAX)
        self._restore_producers(self.log_end_offset)
        self._check_txn_indexes(list(self.segments))
        self._settle_epochs()
        self.durable = DurableLength(self.log_end_offset, active.base_offset, active.size)

    def recover(self, recovery_point: int, unsynced_from: int) -> None:
        """Check and truncate from `unsynced_from` on, at most the recovery point; the rest is synced.

        It is less if the segment before the recovery point was not synced to its end: its batches are durable, but not
        the trimming of the preallocated space after them. Raises LogDirectoryError, OSError.
        """
        failpoints.hit("log.recover.before")
        # Producer state before the first segment is known only from the snapshot at its start.
        self.snapshots.remove_if(max(recovery_point, self.segments.first.base_offset) + 1, OFFSET_MAX)
        unchecked = list(self.segments.from_offset(unsynced_from))
        first_offset = unchecked[0].base_offset
        self.epochs.truncate_from_end(first_offset)
        gaps_below = self.options.cleaned_offset if self.config.is_compacted else 0
        self._check_start()
        broken = find_broken(self.disk, self.segments, first_offset, gaps_below=gaps_below)
        if broken:
            bases = [each.base_offset for each in broken]
            self.note_lack(f"records are missing in or behind the segments {bases}", Lack.SEGMENTS)
        for each in broken:
            repair_segment(each)
        self._restore_producers(first_offset)
        self.log_end_offset = first_offset
        self._check_txn_indexes([each for each in self.segments if each.base_offset < first_offset])
        is_cut = False
        for segment in unchecked:
            has_gap = segment is not unchecked[0] and segment.base_offset != self.log_end_offset
            is_compacted = self.config.is_compacted and segment.base_offset <= recovery_point
            if has_gap and (is_cut or not is_compacted):
                # After a truncation without a gap nothing is missing: only preallocated zeros were removed. Only
                # synced segments are compacted (and our own cleaner leaves no gap): others are lost tails.
                is_cut = True
                continue
            is_cut = self._recover_segment(segment, recovery_point)
        # A clean end below the recovery point is a loss too: synced batches are missing.
        if self.log_end_offset < recovery_point and first_offset < recovery_point:
            self._note_short_end(recovery_point)
        self._drop_above(self.log_end_offset)
        self._settle_epochs()
        active = self.segments.active
        self.durable = DurableLength(self.log_end_offset, active.base_offset, active.size)
        sync_names(self.disk, self.folder)
        durable_length.write(self.disk, self.folder, self.durable, sync=False)
        failpoints.hit("log.recover.after")

    def _check_start(self) -> None:
        """Record a lack if segments at the start are missing that retention did not drop.

        The leader epochs on disk begin at the log start. They are written before the files of a dropped segment are
        removed (LogRemoval.purge), which have the suffix `.deleted` until then.
        """
        base_offset = self.segments.first.base_offset
        if not self.saved_epochs:
            return
        start = max(self.saved_epochs[0].start_offset, self.options.log_start_offset)
        if start < base_offset and not any(each < base_offset for each in leftover_segments(self.disk, self.folder)):
            text = f"the log began at offset {start}, the segments below offset {base_offset} are missing"
            self.note_lack(text, Lack.SEGMENTS)

    def note_lack(self, problem: str, lack: Lack) -> None:
        """Mark the log, durably: synced records are missing. The first mark is kept."""
        if read_lack(self.disk, self.folder) is Lack.NOTHING:
            write_lack(self.disk, self.folder, lack)
            self.options.on_damage(Damage(problem, lack))

    def _note_short_end(self, recovery_point: int) -> None:
        text = f"records up to offset {recovery_point} were synced, those from {self.log_end_offset} on are missing"
        self.note_lack(text, Lack.END)

    def _recover_segment(self, segment: Segment, recovery_point: int) -> bool:
        """Check a segment's batches and rebuild its indexes; return whether it was truncated."""
        segment.begin_rebuild()
        segment.begin_txn_rebuild()
        self.log_end_offset = max(self.log_end_offset, segment.base_offset)
        self.producers.end_offset = self.log_end_offset
        self._ensure_snapshot(segment)
        valid_size = 0
        for (position, header), view in valid_batches(segment):
            try:
                index_aborted(segment, note_batch(self.producers, header, view, 0))
            except KafkaError:
                break
            segment.index_batch(position, header)
            if header.partition_leader_epoch >= 0:
                self.epochs.assign(header.partition_leader_epoch, header.base_offset)
            valid_size = position + header.size
            self.log_end_offset = header.next_offset
        is_cut = valid_size < segment.file.size()
        if is_cut:
            # If nothing is missing, only preallocated zeros are removed.
            if self.log_end_offset < min(recovery_point, self.segments.next_base(segment) or recovery_point):
                self._note_short_end(recovery_point)
            failpoints.hit("log.recover.cut.before")
            segment.file.truncate(valid_size)
            failpoints.hit("log.recover.cut.after")
        segment.size = valid_size
        segment.sync()
        segment.save_indexes(with_last_timestamp=True, sync=True)
        failpoints.hit("log.recover.segment.after")
        return is_cut

    def _ensure_snapshot(self, segment: Segment) -> None:
        """Write a snapshot at a segment's start, as at a roll, durable before any later sync counts.

        The cleaner removes the batches below it of a producer with later writes: after a power loss or a truncation of
        these, only the snapshot has them.
        """
        base_offset = segment.base_offset
        if segment is not self.segments.first and self.snapshots.latest(base_offset) != base_offset:
            self.snapshots.take(base_offset, self.producers.to_snapshot())
            written = self.snapshots.unwritten()
            write_snapshots(self.disk, written)
            self.snapshots.on_written(written)

    def _check_txn_indexes(self, segments: list[Segment]) -> None:
        """Rebuild damaged transaction indexes: a missing entry would expose aborted records.

        Those of the trusted segments; recovery rebuilds the others in any case.
        """
        is_changed = False
        for segment in segments:
            if not segment.has_txn_file and segment.base_offset not in self.txn_indexes_gone:
                continue
            end_offset = self.segments.next_base(segment) or self.log_end_offset
            try:
                last_offset = segment.txn_index.last_offset
            except CorruptSegment:
                last_offset = end_offset
            is_gone = segment.base_offset in self.txn_indexes_gone
            if is_gone or (last_offset is not None and last_offset >= end_offset):
                state = ProducerState()
                expiration_ms = self.options.producer_id_expiration_ms
                restore_producers(state, self.snapshots, self.segments, segment.base_offset, self.now_ms, expiration_ms)
                rebuild_txn_index(segment, state)
                is_changed = True
            segment.forget_indexes()
        if is_changed:
            sync_names(self.disk, self.folder)

    def _drop_above(self, end_offset: int) -> None:
        """Remove the segments after the truncation, the last one first, so that the rest is always a prefix."""
        keep = [segment for segment in self.segments if segment.base_offset <= end_offset]
        for segment in list(self.segments)[len(keep) :][::-1]:
            segment.close()
            for suffix in (INDEX_SUFFIX, TIME_INDEX_SUFFIX, TXN_INDEX_SUFFIX, LOG_SUFFIX):
                self.disk.remove(segment.path(suffix))
                failpoints.hit("log.recover.drop.removed")
        self.segments = Segments(keep)

    def _restore_producers(self, end_offset: int) -> None:
        restore_producers(
            self.producers,
            self.snapshots,
            self.segments,
            end_offset,
            self.now_ms,
            self.options.producer_id_expiration_ms,
        )

    def _settle_epochs(self) -> None:
        """Complete the leader epochs, and save them: the next recovery begins behind the batches they come from."""
        start = max(self.options.log_start_offset, self.segments.first.base_offset)
        if not self.has_epochs or lacks_first_epoch(self.segments, self.epochs, start):
            assign_epochs(self.segments, self.epochs)
        self.epochs.refine(self.saved_epochs)
        self.epochs.truncate_from_end(self.log_end_offset)
        if self.segments.first.base_offset == self.log_end_offset:
            self.epochs.keep_last(self.saved_epochs, self.log_end_offset)
        if not self.has_epochs or self.epochs.entries != self.saved_epochs:
            write_epochs(self.disk, self.folder, self.epochs.to_text())
        self.epochs.is_dirty = False

    def parts(self) -> LogParts:
        """Return the parts for a Log; a log that ends before its start is restarted there."""
        start = max(self.options.log_start_offset, self.segments.first.base_offset)
        if self.log_end_offset < start:
            self._begin_anew(start)
        self.epochs.truncate_from_start(start)
        if self.epochs.is_dirty:
            write_epochs(self.disk, self.folder, self.epochs.to_text())
            self.epochs.is_dirty = False
        return LogParts(
            self.segments, start, self.log_end_offset, self.durable, self.epochs, self.producers, self.snapshots
        )

    def _begin_anew(self, offset: int) -> None:
        """Replace all segments by an empty one at this offset, because they are all below the log start."""
        durable_length.write(self.disk, self.folder, DurableLength(0, 0, 0), sync=True)
        self.epochs.clear()
        write_epochs(self.disk, self.folder, self.epochs.to_text())
        self.epochs.is_dirty = False
        segments, config = list(self.segments), self.config
        for segment in segments[::-1]:
            segment.close()
            for suffix in (INDEX_SUFFIX, TIME_INDEX_SUFFIX, TXN_INDEX_SUFFIX, LOG_SUFFIX, SNAPSHOT_SUFFIX):
                self.disk.remove(segment.path(suffix))
                failpoints.hit("log.recover.anew.removed")
        created_ms, interval = segments[-1].created_ms, config.index_interval_bytes
        begun = create_segment(self.disk, self.folder, offset, interval, created_ms, config.init_file_size)
        self.segments = Segments([begun])
        self.snapshots.remove_if(0, OFFSET_MAX)
        self.producers.clear(offset)
        self.log_end_offset = offset
        self.durable = DurableLength(offset, offset, 0)
        sync_names(self.disk, self.folder)
        durable_length.write(self.disk, self.folder, self.durable, sync=True)
