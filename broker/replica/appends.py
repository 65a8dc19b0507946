"""Produce and DeleteRecords on the partitions led here: act, then answer at once or park.

Source: ReplicaManager.appendRecords, appendToLocalLog, deleteRecords.
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType

from kvorum.broker.replica.delayed_delete_records import (
    INVALID_LOW_WATERMARK,
    DelayedDeleteRecords,
    DeleteRecordsDone,
    DeleteRecordsResults,
)
from kvorum.broker.replica.delayed_produce import DelayedProduce, ProduceDone, ProduceResults
from kvorum.broker.replica.figures import Figures
from kvorum.broker.replica.hosted import HostedPartitions, Outbox
from kvorum.broker.replica.log_view import RunInfo, SyncLogs
from kvorum.broker.replica.partition import ACKS_ALL
from kvorum.broker.replica.partition_reads import delete_records_on_leader
from kvorum.broker.replica.purgatory import Parked
from kvorum.broker.replica.tasks import spawn
from kvorum.broker.replica.types import CLIENT_TERMS, UNKNOWN_OFFSET, AppendTerms
from kvorum.protocol.errors import ErrorCode, KafkaError
from kvorum.protocol.messages.delete_records import DeleteRecordsPartitionResult
from kvorum.protocol.messages.produce import BatchIndexAndErrorMessage, PartitionProduceResponse
from kvorum.protocol.topic_partition import TopicPartition
from kvorum.storage.log_config import INT64_MAX
from kvorum.storage.producer_state import Origin
from kvorum.storage.validator import RecordValidationError
from kvorum.storage.verification import VerificationGuard

NO_ACKS = 0
RunDone = Callable[[RunInfo, PartitionProduceResponse], None]
VALID_ACKS = (ACKS_ALL, NO_ACKS, 1)
NO_TERMS: Mapping[TopicPartition, AppendTerms] = MappingProxyType({})
WITHOUT_LOG_START = frozenset(
    {
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.MESSAGE_TOO_LARGE,
        ErrorCode.RECORD_LIST_TOO_LARGE,
        ErrorCode.CORRUPT_MESSAGE,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.INVALID_TOPIC_EXCEPTION,
    }
)
"""Refusals that Kafka answers without the partition's log start offset."""


@dataclass(slots=True)
class _Appended:
    """One Produce request and its results so far."""

    timeout_ms: int
    required_acks: int
    on_done: ProduceDone
    results: ProduceResults = field(default_factory=dict)
    required_offsets: dict[TopicPartition, int] = field(default_factory=dict)
    """One past the last record, of each partition that took its records."""
    unsynced: list[TopicPartition] = field(default_factory=list)
    """Those of which flush.messages wants a sync first."""


@dataclass(slots=True)
class Appends:
    """Changes by producers and DeleteRecords. `_now_ms` is monotonic."""

    _hosted: HostedPartitions
    _outbox: Outbox
    _now_ms: Callable[[], int]
    _figures: Figures
    _sync: SyncLogs
    _on_parked: Callable[[], None]
    """Called when a produce waits for its replicas: there is a new deadline."""
    _syncing: set[asyncio.Task[None]] = field(default_factory=set)

    async def close(self) -> None:
        """Wait for the answers that wait for a sync."""
        if self._syncing:
            await asyncio.wait(tuple(self._syncing))

    def append_records(
        self,
        timeout_ms: int,
        required_acks: int,
        entries: Mapping[TopicPartition, memoryview],
        on_done: ProduceDone,
        terms: Mapping[TopicPartition, AppendTerms] = NO_TERMS,
    ) -> None:
        """Append to each partition and call `on_done` with a row for each: now, or when acks=all is fulfilled.

        With acks 0 or 1, or when all failed, `on_done` is called before this returns, and before any waiter is woken.
        With flush.messages the sync takes place off the loop, and everything after the append waits for it, as in
        Kafka: the high watermark, the response of acks 1, the time of acks all. acks 0 has no response.
        """
        if required_acks not in VALID_ACKS:
            on_done({key: refusal(key, ErrorCode.INVALID_REQUIRED_ACKS) for key in entries})
            return
        now_ms = self._now_ms()
        appended = _Appended(timeout_ms, required_acks, on_done)
        for key, records in entries.items():
            appended.results[key] = self._append(key, records, now_ms, appended, terms.get(key, CLIENT_TERMS))
        is_held = bool(appended.unsynced) and required_acks != NO_ACKS
        if not is_held:
            self._answer(appended, now_ms)
        if appended.unsynced:
            task = spawn("produce-sync", self._go_on_synced(appended, is_held))
            self._syncing.add(task)
            task.add_done_callback(self._syncing.discard)
        self._wake(appended)

    def append_run(
        self,
        timeout_ms: int,
        required_acks: int,
        key: TopicPartition,
        batches: Sequence[memoryview],
        on_done: RunDone,
    ) -> int:
        """Append client batches without transactions up to the first that needs the general path; return how many.

        Calls `on_done`, if any was appended, as append_records does: with the appended batches and the row of the last.
        Appends nothing if flush.messages is set or the append is not permitted: the general path handles these.
        """
        now_ms = self._now_ms()
        try:
            partition = self._hosted.current_or_raise(key)
            local = partition.log
            if local is None or local.config.flush_messages != INT64_MAX or required_acks not in VALID_ACKS:
                return 0
            run = partition.append_run_to_leader(batches, required_acks, now_ms)
        except KafkaError:
            return 0
        count = len(run.base_offsets)
        if count:
            self._figures.appended(key[0], run.size, run.records_count, count)
            row = PartitionProduceResponse(index=key[1], log_start_offset=local.log_start_offset)
            appended = _Appended(timeout_ms, required_acks, lambda results: on_done(run, results[key]), {key: row})
            appended.required_offsets[key] = local.log_end_offset
            self._answer(appended, now_ms)
            self._wake(appended)
        return count

    def append_as_coordinator(
        self,
        key: TopicPartition,
        batch: memoryview,
        leader_epoch: int,
        guard: VerificationGuard | None = None,
        transaction_version: int = 0,
    ) -> int:
        """Append one batch of a coordinator that lives on this partition, in its epoch; return the first offset.

        A transactional batch needs the guard of a verification (Verifications.verify) unless its transaction is open
        here already; a marker its transaction version. It requires as many in-sync replicas as acks=all, and is
        committed when the high watermark passes it. Raises KafkaError as append_records_to_leader, and
        NOT_LEADER_OR_FOLLOWER in any other epoch.
        """
        partition = self._hosted.current_or_raise(key)
        if partition.leader_epoch != leader_epoch:
            raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER, f"{key} is in leader epoch {partition.leader_epoch}")
        terms = AppendTerms(origin=Origin.COORDINATOR, guard=guard, transaction_version=transaction_version)
        info = partition.append_records_to_leader(batch, ACKS_ALL, self._now_ms(), terms)
        self._figures.appended(key[0], len(batch), info.records_count)
        appended = _Appended(0, ACKS_ALL, on_done=lambda results: None, required_offsets={key: info.last_offset + 1})
        if partition.log is not None and partition.log.is_sync_due:
            appended.unsynced.append(key)
            task = spawn("coordinator-sync", self._go_on_synced(appended, is_held=False))
            self._syncing.add(task)
            task.add_done_callback(self._syncing.discard)
        self._wake(appended)
        return info.first_offset

    def _answer(self, appended: _Appended, now_ms: int) -> None:
        """Answer, or park what waits for its records to be committed."""
        required_offsets = appended.required_offsets
        if appended.required_acks != ACKS_ALL or not required_offsets:
            appended.on_done(appended.results)
            return
        waiting = DelayedProduce(self._hosted, appended.results, dict(required_offsets), appended.on_done)
        if self._outbox.produces.park(waiting, tuple(required_offsets), now_ms + appended.timeout_ms) is not None:
            self._on_parked()

    def _wake(self, appended: _Appended) -> None:
        """Wake the waiters for log ends, and those affected by a new high watermark."""
        for key in appended.required_offsets:
            partition = self._hosted.by_name.get(key)
            if partition is not None:
                self._outbox.appended(partition)

    async def _go_on_synced(self, appended: _Appended, is_held: bool) -> None:
        """Sync the records, then complete the append."""
        for key in await self._sync(appended.unsynced):
            appended.results[key] = self._refused(key, self._why_lost(key))
            del appended.required_offsets[key]
        now_ms = self._now_ms()
        for key in appended.required_offsets:
            partition = self._hosted.by_name.get(key)
            if partition is not None and partition.is_leader:
                partition.maybe_increment_leader_high_watermark(now_ms)
        if is_held:
            self._answer(appended, now_ms)
        self._wake(appended)

    def _append(
        self,
        key: TopicPartition,
        records: memoryview,
        now_ms: int,
        appended: _Appended,
        terms: AppendTerms,
    ) -> PartitionProduceResponse:
        try:
            partition = self._hosted.current_or_raise(key)
            info = partition.append_records_to_leader(records, appended.required_acks, now_ms, terms)
        except RecordValidationError as invalid:
            row = self._refused(key, invalid)
            row.error_message = invalid.message
            row.record_errors = [
                BatchIndexAndErrorMessage(batch_index=each.batch_index, batch_index_error_message=each.message)
                for each in invalid.record_errors
            ]
            return row
        except KafkaError as error:
            return self._refused(key, error, len(records) if error.code is ErrorCode.MESSAGE_TOO_LARGE else 0)
        appended.required_offsets[key] = info.last_offset + 1
        self._figures.appended(key[0], len(records), info.records_count)
        local = partition.log
        assert local is not None, "it was appended to"
        if local.is_sync_due:
            appended.unsynced.append(key)
        return PartitionProduceResponse(
            index=key[1],
            base_offset=info.first_offset,
            log_append_time=info.log_append_time_ms,
            log_start_offset=local.log_start_offset,
        )

    def _refused(self, key: TopicPartition, error: KafkaError, size_too_large: int = 0) -> PartitionProduceResponse:
        self._figures.append_refused(key[0], size_too_large)
        row = refusal(key, error.code)
        if error.code not in WITHOUT_LOG_START:
            partition = self._hosted.by_name.get(key)
            if partition is not None and partition.log is not None and partition.is_leader:
                row.log_start_offset = partition.log.log_start_offset
        return row

    def _why_lost(self, key: TopicPartition) -> KafkaError:
        """Return why the sync of the records is unknown: the topic was deleted, or the disk failed."""
        try:
            self._hosted.current_or_raise(key)
        except KafkaError as error:
            return error
        return KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, f"{key} could not be synced")

    def delete_records(
        self, timeout_ms: int, offsets: Mapping[TopicPartition, int], on_done: DeleteRecordsDone
    ) -> Parked | None:
        """Increase log starts and call `on_done` with one row per partition once every live replica has followed."""
        results: DeleteRecordsResults = {}
        requested: dict[TopicPartition, int] = {}
        for key, offset in offsets.items():
            row = DeleteRecordsPartitionResult(partition_index=key[1], low_watermark=INVALID_LOW_WATERMARK)
            results[key] = row
            try:
                partition = self._hosted.partition_or_raise(key)
                requested[key], row.low_watermark = delete_records_on_leader(partition, offset)
            except KafkaError as error:
                row.error_code = error.code
        for key in results:
            self._hosted.watch_low_watermark(key)
        waiting = DelayedDeleteRecords(self._hosted, results, requested, on_done)
        return self._outbox.delete_records.park(waiting, tuple(requested), self._now_ms() + timeout_ms)


def refusal(key: TopicPartition, code: ErrorCode) -> PartitionProduceResponse:
    """Return the row of a partition without an append."""
    return PartitionProduceResponse(
        index=key[1],
        error_code=code,
        base_offset=UNKNOWN_OFFSET,
        log_start_offset=UNKNOWN_OFFSET,
    )
