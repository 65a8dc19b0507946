"""One partition's log: append, read, truncate, and the offsets that bound it (Kafka's UnifiedLog).

    log_start_offset <= last_stable_offset <= high_watermark <= log_end_offset
    recovery_point <= log_end_offset: what is below is synced; a crash can cost only what is behind

One task owns a log; nothing here suspends or locks. A failed write or sync makes the log unusable: the listener is told
(the log directory goes offline), and every later call raises KafkaError KAFKA_STORAGE_ERROR. Reads return FileSlices of
files that stay readable until file.delete.delay.ms after their deletion, or `close`. Times are wall milliseconds, from
the clock unless a caller has read it already.

Cost: an append is one write; a read at the end is a look into the tail ring; elsewhere it scans one index interval.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

from kvorum.protocol.errors import ErrorCode, KafkaError
from kvorum.protocol.records import NO_TIMESTAMP, BatchHeader, patch_place
from kvorum.protocol.uuids import ZERO_UUID, Uuid
from kvorum.runtime.clock import Clock
from kvorum.runtime.disk import Disk
from kvorum.storage.admission import admit
from kvorum.storage.durable_length import DurableLength
from kvorum.storage.epoch_cache import EpochEndOffset
from kvorum.storage.local_log import LocalLog
from kvorum.storage.log_config import LogConfig
from kvorum.storage.log_flush import FlushPlan
from kvorum.storage.log_read import NOTHING, ReadInfo, TimestampOffset
from kvorum.storage.log_types import PRODUCER_ID_EXPIRATION_MS, AppendInfo, LogParts
from kvorum.storage.names import TopicPartition
from kvorum.storage.producer_replay import note_batch, restore_producers
from kvorum.storage.producer_state import Origin
from kvorum.storage.retention import deletable_count
from kvorum.storage.segment import CorruptSegment
from kvorum.storage.tail import TailBudget
from kvorum.storage.validator import validate_replicated

OFFSET_MAX: Final = 2**63 - 1


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
        self.log_start_offset = parts.log_start_offset
        self.epoch_cache = parts.epoch_cache
        self.producer_state = parts.producer_state
        self.producer_id_expiration_ms = producer_id_expiration_ms
        self.failure: Exception | None = None
        self.last_flush_ms = clock.wall_ms()
        self._clock = clock
        self._config = config
        self._high_watermark = parts.log_start_offset
        self._snapshots = parts.snapshots
        self._on_io_error = on_io_error
        self._local = LocalLog(
            disk, folder, config, parts.segments, parts.log_end_offset, parts.durable, tail_budget, self._take_snapshot
        )

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
        """Where read_committed ends: the high watermark, or the first open transaction below it."""
        unstable = self.producer_state.first_unstable_offset
        if unstable is None:
            return self._high_watermark
        return min(max(unstable, self.log_start_offset), self._high_watermark)

    @property
    def recovery_point(self) -> int:
        """The offset below which everything is synced."""
        return self._local.durable.recovery_point

    @property
    def durable_length(self) -> DurableLength:
        """What is synced, by segment and size; also in the folder's `durable-length` file."""
        return self._local.durable

    @property
    def latest_epoch(self) -> int | None:
        """The last leader epoch the log knows of."""
        return self.epoch_cache.latest_epoch

    @property
    def size(self) -> int:
        """Bytes of all segments."""
        return self._local.segments.size

    @property
    def segment_count(self) -> int:
        """How many segments there are, the active one included."""
        return len(self._local.segments)

    @property
    def starts_within_segment(self) -> bool:
        """Whether the log start offset is above the first segment's base offset, whose name does not tell it then."""
        return self.log_start_offset > self._local.segments.first.base_offset

    def assign_epoch_start_offset(self, leader_epoch: int, start_offset: int) -> None:
        """Note where an epoch starts: a new leader's first act, at its log end offset, before any write."""
        self.epoch_cache.assign(leader_epoch, start_offset)

    def end_offset_for_epoch(self, leader_epoch: int) -> EpochEndOffset:
        """Return the largest known epoch not above this one and its end offset; (-1, -1) when unknown."""
        return self.epoch_cache.end_offset_for(leader_epoch, self._local.log_end_offset)

    def maybe_increment_log_start_offset(self, offset: int) -> bool:
        """Raise the log start offset; return whether it moved.

        Raises KafkaError OFFSET_OUT_OF_RANGE above the high watermark.
        """
        if offset > self._high_watermark:
            raise KafkaError(
                ErrorCode.OFFSET_OUT_OF_RANGE,
                f"log start offset {offset} would be above the high watermark {self._high_watermark}",
            )
        if offset <= self.log_start_offset:
            return False
        self.log_start_offset = offset
        self.epoch_cache.truncate_from_start(offset)
        return True

    def append_as_leader(
        self, records: memoryview, leader_epoch: int, now_ms: int | None = None, origin: Origin = Origin.CLIENT
    ) -> AppendInfo:
        """Check a Produce's records, give them the next offsets, and write them. Patches `records` in place.

        Raises KafkaError as validate_produce and ProducerState.check do, or KAFKA_STORAGE_ERROR.
        """
        self._check_usable()
        now_ms = self._clock.wall_ms() if now_ms is None else now_ms
        admitted = admit(records, self._config, self.producer_state, now_ms, origin)
        if isinstance(admitted, AppendInfo):
            return admitted
        view, header, max_timestamp, append_time_ms = admitted
        base_offset = self._local.log_end_offset
        patch_place(view, 0, base_offset, leader_epoch)
        header = header._replace(base_offset=base_offset, partition_leader_epoch=leader_epoch)
        self.epoch_cache.assign(leader_epoch, base_offset)
        self._write(view, [header], now_ms)
        note_batch(self.producer_state, header, view, 0)
        self._maybe_flush()
        return AppendInfo(
            base_offset, header.last_offset, max_timestamp, append_time_ms, len(view), header.records_count
        )

    def append_as_follower(self, records: memoryview, leader_epoch: int | None = None) -> AppendInfo | None:
        """Write batches as the leader wrote them: CRC and offsets are checked, nothing else. None if none is whole.

        A batch of an epoch above `leader_epoch`, in which they were fetched, ends the append before it (KAFKA-18723).
        Raises KafkaError CORRUPT_MESSAGE (a bad CRC), INVALID_RECORD (offsets that do not follow on),
        KAFKA_STORAGE_ERROR; nothing is written then.
        """
        self._check_usable()
        headers = validate_replicated(records, self._local.log_end_offset, leader_epoch)
        if not headers:
            return None
        now_ms = self._clock.wall_ms()
        position = 0
        for group in self._local.groups(headers):
            view = records[position : position + sum([header.size for header in group])]
            for header in group:
                if header.partition_leader_epoch >= 0:
                    self.epoch_cache.assign(header.partition_leader_epoch, header.base_offset)
            self._write(view, group, now_ms)
            place = 0
            for header in group:
                note_batch(self.producer_state, header, view, place)
                place += header.size
            position += place
        self._maybe_flush()
        max_timestamp = max([header.max_timestamp for header in headers])
        count = sum([header.records_count for header in headers])
        return AppendInfo(headers[0].base_offset, headers[-1].last_offset, max_timestamp, NO_TIMESTAMP, position, count)

    def _write(self, view: memoryview, headers: list[BatchHeader], now_ms: int) -> None:
        """Write at the end. Raises KafkaError KAFKA_STORAGE_ERROR."""
        try:
            self._local.write(view, headers, now_ms)
        except (OSError, CorruptSegment) as error:
            raise self._failed(error) from error

    def _maybe_flush(self) -> None:
        """Honour flush.messages: Kafka too syncs before it answers then."""
        if self._local.log_end_offset - self._local.synced_end_offset >= self._config.flush_messages:
            self.flush()

    def read(
        self, offset: int, max_bytes: int, upper_bound_offset: int | None = None, min_one_message: bool = True
    ) -> ReadInfo:
        """Return whole batches from the one that holds `offset`, all below the bound (default: the log end).

        At most `max_bytes`, but with `min_one_message` one batch at least, if there is one. Ends at the segment's end.
        Raises KafkaError OFFSET_OUT_OF_RANGE outside [log start, log end], KAFKA_STORAGE_ERROR.
        """
        self._check_usable()
        end_offset = self._local.log_end_offset
        if not self.log_start_offset <= offset <= end_offset:
            raise KafkaError(
                ErrorCode.OFFSET_OUT_OF_RANGE,
                f"{self.partition} has offsets {self.log_start_offset} to {end_offset}, not {offset}",
            )
        bound = end_offset if upper_bound_offset is None else min(upper_bound_offset, end_offset)
        if offset >= bound:
            return NOTHING
        try:
            return self._local.read(offset, max_bytes, bound, min_one_message)
        except (OSError, CorruptSegment) as error:
            raise self._failed(error) from error

    def offset_for_timestamp(self, timestamp: int) -> TimestampOffset | None:
        """Return the first record of at least this timestamp (ms), None if there is none."""
        with self._disk_access():
            return self._local.find_timestamp(timestamp, self.log_start_offset)

    def offset_of_max_timestamp(self) -> TimestampOffset | None:
        """Return the first record with the greatest timestamp of the log, None in an empty log."""
        with self._disk_access():
            return self._local.find_max_timestamp()

    def truncate_to(self, offset: int) -> bool:
        """Cut off every record from `offset` on; return whether there was any. Durable when it returns.

        A batch that holds `offset` in its middle goes whole. Raises KafkaError KAFKA_STORAGE_ERROR.
        """
        assert offset >= 0, "an offset is not negative"
        if offset >= self._local.log_end_offset:
            self.epoch_cache.truncate_from_end(offset)
            return False
        if offset < self._local.segments.first.base_offset:
            self.truncate_fully_and_start_at(offset)
            return True
        with self._disk_access():
            end_offset = self._local.truncate_to(offset, self._clock.wall_ms())
            self.epoch_cache.truncate_from_end(end_offset)
            self.log_start_offset = min(self.log_start_offset, end_offset)
            self._snapshots.remove_if(end_offset + 1, OFFSET_MAX)
            self._reload_producers(end_offset)
        self.high_watermark = self._high_watermark
        return True

    def truncate_fully_and_start_at(self, offset: int) -> None:
        """Drop all records and begin anew at `offset`. Raises KafkaError KAFKA_STORAGE_ERROR."""
        with self._disk_access():
            self._local.truncate_fully_and_start_at(offset, self._clock.wall_ms())
            self.epoch_cache.clear()
            self._snapshots.remove_if(0, OFFSET_MAX)
            self.producer_state.clear(offset)
        self.log_start_offset = self._high_watermark = offset

    def _reload_producers(self, end_offset: int) -> None:
        """Bring the producer state back to an earlier offset: the last snapshot before it, and the batches since."""
        if not self.producer_state.producers:
            self.producer_state.clear(end_offset)
            return
        now_ms, expiration_ms = self._clock.wall_ms(), self.producer_id_expiration_ms
        restore_producers(self.producer_state, self._snapshots, self._local.segments, end_offset, now_ms, expiration_ms)

    def _take_snapshot(self, base_offset: int) -> None:
        """Keep the producer state as it is at a new segment's base offset; it is written with the next flush."""
        self.producer_state.end_offset = base_offset
        self._snapshots.take(base_offset, self.producer_state.to_snapshot())

    def roll(self) -> None:
        """Begin a new segment at the log end, unless the active one is empty. Raises KafkaError KAFKA_STORAGE_ERROR."""
        if self._local.segments.active.size:
            with self._disk_access():
                self._local.roll(self._local.log_end_offset, self._clock.wall_ms())

    def delete_old_segments(self, now_ms: int) -> int:
        """Drop the segments that retention or the log start offset leaves behind; return how many."""
        with self._disk_access():
            local, config = self._local, self._config
            count = deletable_count(
                local.segments, config, self.log_start_offset, self._high_watermark, local.log_end_offset, now_ms
            )
            if count:
                local.delete_oldest(count, now_ms)
                first = local.segments.first.base_offset
                if first > self.log_start_offset:
                    self.log_start_offset = first
                    self.epoch_cache.truncate_from_start(first)
                self._snapshots.remove_if(0, first - 1)
            return count

    def has_deleted_files(self, now_ms: int) -> bool:
        """Tell whether files of dropped segments are due to go."""
        return self._local.has_deleted_files(now_ms)

    def purge_deleted(self, now_ms: int) -> None:
        """Remove the files of dropped segments whose file.delete.delay.ms is over."""
        with self._disk_access():
            self._local.purge_deleted(now_ms)

    def remove_expired_producers(self, now_ms: int) -> None:
        """Forget producers idle for producer.id.expiration.ms."""
        self.producer_state.expire(now_ms, self.producer_id_expiration_ms)

    def is_flush_due(self, now_ms: int) -> bool:
        """Tell whether there is something to sync: rolled segments, or records older than flush.ms."""
        return self._local.has_unsynced_segments or self.is_flush_ms_over(now_ms)

    def is_flush_ms_over(self, now_ms: int) -> bool:
        """Tell whether records of the active segment wait for flush.ms already."""
        is_dirty = self._local.log_end_offset > self._local.durable.recovery_point
        return is_dirty and now_ms - self.last_flush_ms >= self._config.flush_ms

    def begin_flush(self, *, include_active: bool = True) -> FlushPlan:
        """Collect what is to be synced; run the plan (in a thread if need be), then call complete_flush."""
        with self._disk_access():
            text = self.epoch_cache.to_text() if self.epoch_cache.is_dirty else None
            plan = self._local.begin_flush(include_active, text, self._snapshots.unwritten())
            self.epoch_cache.is_dirty = False
            return plan

    def complete_flush(self, plan: FlushPlan) -> None:
        """Advance the recovery point to what a plan that ran has synced; void if the log was cut since."""
        with self._disk_access():
            if not self._local.complete_flush(plan):
                self.epoch_cache.is_dirty = True
            self._snapshots.on_written(plan.snapshots)
            self.last_flush_ms = self._clock.wall_ms()

    def flush(self) -> None:
        """Sync everything up to the log end, at once. Raises KafkaError KAFKA_STORAGE_ERROR.

        While a plan is under way in a thread, the batches are synced and the recovery point stays for the plan to move.
        """
        if self._local.is_flushing:
            with self._disk_access():
                self._local.sync_batches()
            return
        plan = self.begin_flush()
        with self._disk_access():
            plan.run()
        self.complete_flush(plan)

    def close(self) -> None:
        """Make everything durable so that the next open needs no recovery, and release the files.

        No flush plan may be under way. A failed log only releases its files. Raises KafkaError KAFKA_STORAGE_ERROR: the
        shutdown is then not clean.
        """
        try:
            if self.failure is None:
                assert not self._local.is_flushing, "who closes a log has waited for its flush"
                with self._disk_access():
                    self._take_snapshot(self._local.log_end_offset)
                    self._local.save_indexes()
                self.flush()
        finally:
            self.release()

    def abandon(self, error: Exception) -> None:
        """Use the log no more: it is deleted, or its directory is offline.

        What was read stays readable until `release`.
        """
        if self.failure is None:
            self.failure = error

    def release(self) -> None:
        """Close the files without a word more to the disk. Idempotent."""
        self._local.close()

    def _check_usable(self) -> None:
        """Raise KafkaError KAFKA_STORAGE_ERROR once the disk has failed under the log."""
        if self.failure is not None:
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, f"the log directory of {self.partition} is offline")

    @contextmanager
    def _disk_access(self) -> Iterator[None]:
        """Turn what the disk raises into KAFKA_STORAGE_ERROR, and give the log up."""
        self._check_usable()
        try:
            yield
        except (OSError, CorruptSegment) as error:
            raise self._failed(error) from error

    def _failed(self, error: Exception) -> KafkaError:
        """Give the log up, tell the listener; return what to raise."""
        is_news = self.failure is None
        self.failure = error
        if is_news and self._on_io_error is not None:
            self._on_io_error(error)
        return KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, f"{self.partition}: {error}")
