"""One partition's log: append, read, truncate, and the offsets that bound it (Kafka's UnifiedLog).

    log_start_offset <= last_stable_offset <= high_watermark <= log_end_offset recovery_point <= log_end_offset: records
    below are synced; a crash can lose only those after it

One task owns a log; nothing here suspends or locks. A failed write or sync makes the log unusable: the listener is
called (the log directory goes offline), and every later call raises KafkaError KAFKA_STORAGE_ERROR. Reads return
FileSlices of files that stay readable until file.delete.delay.ms after their deletion, or `close`. Times are wall
milliseconds.

An append never syncs: that would hold the event loop. If flush.messages requires it, `is_sync_due` is true after the
append, and the caller runs `LogManager.sync` before it responds, or before a follower confirms the records to its
leader.

Cost: an append is one write; a read at the end uses the tail ring; elsewhere it scans one index interval.
"""

from collections.abc import Callable, Sequence

from kvorum.protocol.batch_header import NO_SEQUENCE, NO_TIMESTAMP
from kvorum.protocol.errors import ErrorCode, KafkaError
from kvorum.protocol.parts import Part
from kvorum.protocol.records import patch_place
from kvorum.protocol.topic_partition import TopicPartition
from kvorum.protocol.uuids import ZERO_UUID, Uuid
from kvorum.runtime.clock import Clock
from kvorum.runtime.disk import Disk
from kvorum.storage.admission import admit
from kvorum.storage.append_run import RunInfo, append_run
from kvorum.storage.atomic_append import AtomicAppend
from kvorum.storage.disk_health import DiskHealth
from kvorum.storage.epoch_cache import EpochEndOffset
from kvorum.storage.local_log import LocalLog
from kvorum.storage.log_cleaning import LogCleaning
from kvorum.storage.log_config import LogConfig
from kvorum.storage.log_durability import LogDurability
from kvorum.storage.log_flush import FlushPlan
from kvorum.storage.log_producers import LogProducers
from kvorum.storage.log_read import NOTHING, ReadInfo, TimestampOffset
from kvorum.storage.log_retention import LogRetention
from kvorum.storage.log_types import PRODUCER_ID_EXPIRATION_MS, AppendInfo, LogParts
from kvorum.storage.producer_state import Origin
from kvorum.storage.tail import TailBudget
from kvorum.storage.txn_index import AbortedTransaction
from kvorum.storage.validator import validate_replicated
from kvorum.storage.verification import VerificationGuard


class Log:
    """The log of one partition in one folder. Made by `recovery.open_log`."""

    def __init__(
        self,
        disk: Disk,
        folder: str,
        partition: TopicPartition,
        config: LogConfig,
        clock: Clock,
        parts: LogParts,
        *,
        tail_budget: TailBudget,
        topic_id: Uuid = ZERO_UUID,
        producer_id_expiration_ms: int = PRODUCER_ID_EXPIRATION_MS,
        on_io_error: Callable[[Exception], None] | None = None,
    ) -> None:
        """Take over what recovery made. `on_io_error` is called once, when the disk fails under this log."""
        self.partition = partition
        self.topic_id = topic_id
        self.is_topic_id_durable = False  # LogManager.sync_topic_id makes it so, before the first record
        self.on_start_moved: Callable[[], None] | None = None
        """Called after each rise of the log start offset, on the event loop."""
        self.log_start_offset = parts.log_start_offset
        self.epoch_cache = parts.epoch_cache
        self.producer_state = parts.producer_state
        self._clock = clock
        self._config = config
        self._high_watermark = parts.log_start_offset
        self._health = DiskHealth(partition, on_io_error, clock)
        self.producers = LogProducers(parts.producer_state, parts.snapshots, clock, producer_id_expiration_ms)
        self._local = LocalLog(disk, folder, config, parts, tail_budget, self.producers.take_snapshot)
        self._appending = AtomicAppend(self._health, self._local, self.producers, self.epoch_cache, clock.wall_ms)
        self.retention = LogRetention(self._local, self.producers, self._health)
        self.cleaning = LogCleaning(self._local, parts.producer_state, parts.snapshots, self._health)
        self.durability = LogDurability(self._local, self.epoch_cache, parts.snapshots, self._health, clock)

    @property
    def failure(self) -> Exception | None:
        """Why the log is out of use, None while it is in use."""
        return self._health.failure

    @property
    def config(self) -> LogConfig:
        """The topic's configuration; set it when it changes."""
        return self._config

    @config.setter
    def config(self, config: LogConfig) -> None:
        self._config = self._local.config = config

    @property
    def folder(self) -> str:
        """The path of the folder."""
        return self._local.folder

    @property
    def log_end_offset(self) -> int:
        """The offset that the next record gets."""
        return self._local.log_end_offset

    @property
    def high_watermark(self) -> int:
        """One past the last offset known to be replicated; kept within the log's bounds when set."""
        return self._high_watermark

    @high_watermark.setter
    def high_watermark(self, offset: int) -> None:
        self._high_watermark = max(self.log_start_offset, min(offset, self._local.log_end_offset))
        self.producer_state.on_high_watermark(self._high_watermark)

    @property
    def last_stable_offset(self) -> int:
        """Upper bound of read_committed: the high watermark, or the first open transaction below it."""
        unstable = self.producer_state.first_unstable_offset
        if unstable is None:
            return self._high_watermark
        return min(max(unstable, self.log_start_offset), self._high_watermark)

    @property
    def recovery_point(self) -> int:
        """The offset below which everything is synced."""
        return self._local.sync_state.durable.recovery_point

    @property
    def latest_epoch(self) -> int | None:
        """The last leader epoch of the log."""
        return self.epoch_cache.latest_epoch

    @property
    def size(self) -> int:
        """Bytes of all segments."""
        return self._local.segments.size

    @property
    def segment_count(self) -> int:
        """Number of segments, the active one included."""
        return len(self._local.segments)

    @property
    def starts_within_segment(self) -> bool:
        """Whether the log start offset is above the first segment's base offset (not in the file name)."""
        return self.log_start_offset > self._local.segments.first.base_offset

    def assign_epoch_start_offset(self, leader_epoch: int, start_offset: int) -> None:
        """Note where an epoch starts: a new leader's first act, at its log end offset, before any write."""
        self.epoch_cache.assign(leader_epoch, start_offset)

    def end_offset_for_epoch(self, leader_epoch: int) -> EpochEndOffset:
        """Return the largest known epoch not above this one and its end offset; (-1, -1) when unknown."""
        return self.epoch_cache.end_offset_for(leader_epoch, self._local.log_end_offset)

    def maybe_increment_log_start_offset(self, offset: int) -> bool:
        """Raise the log start; return whether it moved. Raises KafkaError OFFSET_OUT_OF_RANGE above high watermark."""
        if offset > self._high_watermark:
            raise KafkaError(
                ErrorCode.OFFSET_OUT_OF_RANGE,
                f"log start offset {offset} would be above the high watermark {self._high_watermark}",
            )
        return self._raise_log_start(offset)

    def _raise_log_start(self, offset: int) -> bool:
        if offset <= self.log_start_offset:
            return False
        self.log_start_offset = offset
        self.epoch_cache.truncate_from_start(offset)
        if self.on_start_moved is not None:
            self.on_start_moved()
        return True

    def begin_verification(
        self, producer_id: int, producer_epoch: int, sequence: int = NO_SEQUENCE, supports_epoch_bump: bool = False
    ) -> VerificationGuard | None:
        """Return the guard for the first append of a transaction; None if it is open here. Raises KafkaError."""
        return self.producers.begin_verification(producer_id, producer_epoch, sequence, supports_epoch_bump)

    def append_as_leader(
        self,
        records: memoryview,
        leader_epoch: int,
        origin: Origin = Origin.CLIENT,
        guard: VerificationGuard | None = None,
        transaction_version: int = 0,
    ) -> AppendInfo:
        """Check a Produce's records, give them the next offsets, and write them. Patches `records` in place.

        `guard` opens the log to a transaction (see verification), `transaction_version` is a marker's.
        Raises KafkaError as validate_produce and ProducerState's checks do, or KAFKA_STORAGE_ERROR.
        """
        self._health.check()
        now_ms = self._clock.wall_ms()
        admitted = admit(records, self._config, self.producer_state, now_ms, origin, guard, transaction_version)
        if isinstance(admitted, AppendInfo):
            return admitted
        view, header, max_timestamp, append_time_ms = admitted
        base_offset = self._local.log_end_offset
        patch_place(view, 0, base_offset, leader_epoch)
        header.place(base_offset, leader_epoch)
        self.epoch_cache.assign(leader_epoch, base_offset)
        with self._appending:
            self._local.write(view, [header], now_ms)
            self.producers.note(self._local, header, view, 0)
        return AppendInfo(
            base_offset, header.last_offset, max_timestamp, append_time_ms, len(view), header.records_count
        )

    def append_run_as_leader(self, batches: Sequence[memoryview], leader_epoch: int) -> RunInfo:
        """Append clients' batches as append_as_leader does, with one write, up to the first out of the ordinary.

        No batch of a transaction may be among them. Raises KafkaError KAFKA_STORAGE_ERROR.
        """
        self._health.check()
        self.epoch_cache.assign(leader_epoch, self._local.log_end_offset)
        with self._appending:
            return append_run(batches, leader_epoch, self._clock.wall_ms(), self._config, self._local, self.producers)

    def append_as_follower(self, records: memoryview, leader_epoch: int | None = None) -> AppendInfo | None:
        """Write batches as the leader wrote them: only CRC and offsets are checked. None if no batch is complete.

        A batch of an epoch above `leader_epoch`, in which they were fetched, ends the append before it (KAFKA-18723).
        Raises KafkaError CORRUPT_MESSAGE (a bad CRC), INVALID_RECORD (offsets that are not contiguous),
        KAFKA_STORAGE_ERROR; nothing is written then.
        """
        self._health.check()
        headers = validate_replicated(records, self._local.log_end_offset, leader_epoch)
        if not headers:
            return None
        now_ms = self._clock.wall_ms()
        position = 0
        for group in self._local.groups(headers):
            view = records[position : position + sum([header.size for header in group])]
            with self._appending:
                for header in group:
                    if header.partition_leader_epoch >= 0:
                        self.epoch_cache.assign(header.partition_leader_epoch, header.base_offset)
                self._local.write(view, group, now_ms)
                place = 0
                for header in group:
                    self.producers.note(self._local, header, view, place)
                    place += header.size
            position += len(view)
        max_timestamp = max([header.max_timestamp for header in headers])
        count = sum([header.records_count for header in headers])
        return AppendInfo(headers[0].base_offset, headers[-1].last_offset, max_timestamp, NO_TIMESTAMP, position, count)

    def read(
        self, offset: int, max_bytes: int, upper_bound_offset: int | None = None, min_one_message: bool = True
    ) -> ReadInfo:
        """Return whole batches from the one that holds `offset`, all below the bound (default: the log end).

        At most `max_bytes`, but with `min_one_message` one batch at least, if there is one; see read_segments.
        Raises KafkaError OFFSET_OUT_OF_RANGE outside [log start, log end], KAFKA_STORAGE_ERROR.
        """
        self._health.check()
        end_offset = self._local.log_end_offset
        if not self.log_start_offset <= offset <= end_offset:
            raise KafkaError(
                ErrorCode.OFFSET_OUT_OF_RANGE,
                f"{self.partition} has offsets {self.log_start_offset} to {end_offset}, not {offset}",
            )
        bound = end_offset if upper_bound_offset is None else min(upper_bound_offset, end_offset)
        if offset >= bound:
            return NOTHING
        with self._health.access():
            return self._local.read(offset, max_bytes, bound, min_one_message)

    def aborted_transactions(self, offset: int, parts: Sequence[Part]) -> Sequence[AbortedTransaction]:
        """Return the aborted transactions that overlap the records read from `offset` on, by their markers."""
        if not parts or not self._local.has_aborted:
            return ()
        with self._health.access():
            return self._local.collect_aborted(offset, self._local.upper_bound_of(offset, parts))

    def offset_for_timestamp(self, timestamp: int) -> TimestampOffset | None:
        """Return the first record of at least this timestamp (ms), None if there is none."""
        with self._health.access():
            return self._local.find_timestamp(timestamp, self.log_start_offset)

    def offset_of_max_timestamp(self) -> TimestampOffset | None:
        """Return the first record with the greatest timestamp of the log, None in an empty log."""
        with self._health.access():
            return self._local.find_max_timestamp()

    def truncate_to(self, offset: int) -> bool:
        """Cut off every record from `offset` on, and the batch that holds it; return whether there was any.

        Durable when it returns. Raises KafkaError KAFKA_STORAGE_ERROR.
        """
        assert offset >= 0, "an offset is not negative"
        if offset >= self._local.log_end_offset:
            self.epoch_cache.truncate_from_end(offset)
            return False
        if offset < self._local.segments.first.base_offset:
            self.truncate_fully_and_start_at(offset)
            return True
        self.cleaning.before_cut(offset)
        with self._health.change():
            end_offset = self._local.truncate_to(offset, self._clock.wall_ms())
            self.epoch_cache.truncate_from_end(end_offset)
            self.log_start_offset = min(self.log_start_offset, end_offset)
            self.producers.rewind(self._local, end_offset)
        self.high_watermark = self._high_watermark
        return True

    def truncate_fully_and_start_at(self, offset: int) -> None:
        """Drop all records and restart the log at `offset`. Raises KafkaError KAFKA_STORAGE_ERROR."""
        self.cleaning.before_cut(offset)
        with self._health.change():
            # Before the rest: syncing the emptied folder makes the removal of the snapshots durable too. One that a
            # power loss restores would be treated as the state at `offset`.
            self.producers.begin_anew(offset)
            self._local.truncate_fully_and_start_at(offset, self._clock.wall_ms())
            self.epoch_cache.clear()
        self.log_start_offset = self._high_watermark = offset

    def roll(self) -> None:
        """Begin a new segment at the log end, unless the active one is empty. Raises KafkaError KAFKA_STORAGE_ERROR."""
        if self._local.segments.active.size:
            with self._health.access():
                self._local.roll(self._local.log_end_offset, self._clock.wall_ms())

    def delete_old_segments(self, now_ms: int) -> int:
        """Drop the segments that retention or the log start offset leaves behind; return how many. See LogRetention."""
        count = self.retention.delete_old(self.log_start_offset, self._high_watermark, now_ms)
        if count:
            self._raise_log_start(self._local.segments.first.base_offset)
        return count

    def purge_deleted(self, now_ms: int) -> None:
        """Remove the files of dropped segments whose file.delete.delay.ms is over, once the next flush allows it."""
        if self.durability.may_remove_files:
            self.retention.purge_deleted(now_ms)

    @property
    def is_sync_due(self) -> bool:
        """Whether flush.messages records, or more, are not synced: no append may be answered before they are."""
        return self.durability.is_sync_due

    @property
    def committable_end_offset(self) -> int:
        """Offset up to which this replica counts for the high watermark: log end, or synced end while a sync is due.

        It may decrease, by an append that makes a sync due or a new configuration; the high watermark never does.
        """
        return self.durability.committable_end_offset

    def begin_flush(self, *, include_active: bool = True) -> FlushPlan:
        """Collect the files to sync; run the plan (in a thread if need be), then call complete_flush."""
        return self.durability.begin(include_active)

    def complete_flush(self, plan: FlushPlan) -> None:
        """Advance the recovery point to the synced end of a plan; void if the log was truncated since."""
        self.durability.complete(plan)

    def abort_flush(self, plan: FlushPlan) -> None:
        """Return a plan that failed because of missing descriptors or memory: a later flush does all of it."""
        self.durability.abort(plan)

    def flush(self) -> None:
        """Sync everything up to the log end, here and now. Raises KafkaError KAFKA_STORAGE_ERROR."""
        self.durability.flush()

    def close(self) -> None:
        """Make everything durable so that the next open needs no recovery, and release the files.

        No flush plan may be under way. A failed log only releases its files. Raises KafkaError KAFKA_STORAGE_ERROR: the
        shutdown is then not clean.
        """
        try:
            if self.failure is None:
                assert not self._local.sync_state.is_flushing, "who closes a log has waited for its flush"
                with self._health.change():
                    self.producers.take_snapshot(self._local.log_end_offset)
                    self._local.settle()
                    self.epoch_cache.settle(self._local.segments.first.base_offset, self._local.log_end_offset)
                self.flush()
        finally:
            self.release()

    def abandon(self, error: Exception) -> None:
        """Stop using the log: it is deleted, or offline. Bytes that were read stay readable until `release`."""
        self._health.abandon(error)

    def moved_to(self, folder: str) -> None:
        """Go by the folder's new name: it was renamed under the log. No flush is under way."""
        self._local.moved_to(folder)
        self.producers.moved_to(folder)

    def release(self) -> None:
        """Close the files without further writes or syncs. Idempotent."""
        self._local.close()
