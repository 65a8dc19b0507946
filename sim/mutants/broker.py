"""Mistakes in a broker's replication: acknowledgements, ISR membership, truncation."""

import asyncio

from kvorum.broker.replica import future_copy, isr_changes, isr_manager, log_dir_moves, partition_reads
from kvorum.broker.replica.fetches import Fetches
from kvorum.broker.replica.follower_state import FollowerState
from kvorum.broker.replica.isr import (
    AlterPartitionAnswer,
    AlterPartitionProposal,
    PendingExpandIsr,
    PendingShrinkIsr,
)
from kvorum.broker.replica.log_dir_moves import CHUNK_BYTES, LogDirMoves
from kvorum.broker.replica.log_view import ReplicaLog
from kvorum.broker.replica.partition import Partition
from kvorum.broker.replica.types import NO_BROKER_EPOCH, FetchTarget, LogRead, Role
from kvorum.protocol.errors import ErrorCode, KafkaError
from kvorum.protocol.messages.alter_partition import BrokerState
from kvorum.protocol.schema import Message
from kvorum.quorum import forwarder
from kvorum.quorum.controller import alter_partition
from kvorum.quorum.controller.context import Context
from kvorum.quorum.image.partition import PartitionRegistration
from kvorum.runtime import blocking
from kvorum.storage import future_logs
from kvorum.storage.disk_health import DiskHealth
from kvorum.storage.log import Log
from kvorum.storage.log_read import ReadInfo
from kvorum.storage.log_types import AppendInfo
from sim.mutants.patches import Patches


def acknowledge_before_isr(patches: Patches) -> None:
    """A leader answers acks=all as soon as it has the records itself."""

    def at_once(self: Partition, required_offset: int) -> ErrorCode:
        return ErrorCode.NONE if self.role is Role.LEADING else ErrorCode.NOT_LEADER_OR_FOLLOWER

    patches.replace(Partition, "check_enough_replicas_reach_offset", at_once)


def truncate_to_high_watermark(patches: Patches) -> None:
    """A new follower cuts its log at its own high watermark, which lags (before KIP-101)."""
    make_follower = Partition.make_follower

    def cut(self: Partition, registration: PartitionRegistration, log: ReplicaLog) -> bool:
        is_new_epoch = make_follower(self, registration, log)
        if is_new_epoch:
            log.truncate_to(log.high_watermark)
        return is_new_epoch

    patches.replace(Partition, "make_follower", cut)


def forget_epoch_start_offset(patches: Patches) -> None:
    """A new leader lets followers into the ISR at its high watermark, which lags behind where its epoch began."""
    is_in_sync = isr_changes.is_in_sync

    def without_start(partition: Partition, follower: FollowerState, now_ms: int) -> bool:
        start, partition.leader_epoch_start_offset = partition.leader_epoch_start_offset, 0
        try:
            return is_in_sync(partition, follower, now_ms)
        finally:
            partition.leader_epoch_start_offset = start

    patches.replace(isr_changes, "is_in_sync", without_start)


def no_maximal_isr(patches: Patches) -> None:
    """While an ISR change is pending, the leader waits for the hoped-for ISR instead of the larger one."""

    def isr_before_join(self: PendingExpandIsr) -> frozenset[int]:
        return self.last_committed.isr

    def isr_after_leave(self: PendingShrinkIsr) -> frozenset[int]:
        return self.last_committed.isr - self.out_of_sync_replica_ids

    # A slot's place: the constructor still wants to set it.
    patches.replace(PendingExpandIsr, "maximal_isr", property(isr_before_join, lambda self, value: None))
    patches.replace(PendingShrinkIsr, "maximal_isr", property(isr_after_leave))


def ignore_broker_epoch(patches: Patches) -> None:
    """Fetches of a follower's earlier life count for the present one (before KIP-903)."""
    record = isr_changes.record_follower_fetch

    def of_any_life(
        partition: Partition,
        follower: FollowerState,
        *,
        fetch_offset: int,
        log_start_offset: int,
        leader_end_offset: int,
        broker_epoch: int,
        now_ms: int,
    ) -> None:
        record(
            partition,
            follower,
            fetch_offset=fetch_offset,
            log_start_offset=log_start_offset,
            leader_end_offset=leader_end_offset,
            broker_epoch=NO_BROKER_EPOCH,
            now_ms=now_ms,
        )

    def eligible(context: Context, members: list[BrokerState]) -> ErrorCode | None:
        unchecked = [BrokerState(broker_id=member.broker_id, broker_epoch=NO_BROKER_EPOCH) for member in members]
        return eligibility_error(context, unchecked)

    eligibility_error = alter_partition.eligibility_error
    patches.replace(partition_reads, "record_follower_fetch", of_any_life)
    patches.replace(alter_partition, "eligibility_error", eligible)


def forget_producer_state(patches: Patches) -> None:
    """A new leader knows nothing of what idempotent producers wrote before its time."""
    make_leader = Partition.make_leader

    def forgetful(self: Partition, registration: PartitionRegistration, log: ReplicaLog, now_ms: int) -> bool:
        is_new_epoch = make_leader(self, registration, log, now_ms)
        if is_new_epoch:
            log.producer_state.clear(log.log_end_offset)
        return is_new_epoch

    patches.replace(Partition, "make_leader", forgetful)


def ignore_min_isr(patches: Patches) -> None:
    """A leader acknowledges acks=all with only itself in sync, whatever min.insync.replicas is."""
    patches.replace(Partition, "effective_min_isr", property(lambda self: 1))


def keep_high_watermark_at_shrink(patches: Patches) -> None:
    """A leader does not look at its high watermark again once the ISR has shrunk (before KAFKA-13091)."""
    increment = Partition.maybe_increment_leader_high_watermark
    make_leader = Partition.make_leader
    complete = isr_changes.complete_alter_partition
    still: list[Partition] = []

    def unless_still(self: Partition, now_ms: int) -> None:
        if self not in still:
            increment(self, now_ms)

    def lead(self: Partition, registration: PartitionRegistration, log: ReplicaLog, now_ms: int) -> bool:
        if self.role is not Role.LEADING or registration.leader_epoch > self.leader_epoch:
            return make_leader(self, registration, log, now_ms)
        still.append(self)
        try:
            return make_leader(self, registration, log, now_ms)
        finally:
            still.remove(self)

    def complete_proposal(
        partition: Partition, proposal: AlterPartitionProposal, answer: AlterPartitionAnswer, now_ms: int
    ) -> None:
        still.append(partition)
        try:
            complete(partition, proposal, answer, now_ms)
        finally:
            still.remove(partition)

    patches.replace(Partition, "maybe_increment_leader_high_watermark", unless_still)
    patches.replace(Partition, "make_leader", lead)
    patches.replace(isr_manager, "complete_alter_partition", complete_proposal)


def join_below_min_isr(patches: Patches) -> None:
    """Under the minimum ISR a follower joins at the high watermark, which stops advancing (before KAFKA-19996)."""

    def at_high_watermark(partition: Partition, follower: FollowerState, now_ms: int) -> bool:
        assert partition.log is not None and partition.leader_epoch_start_offset is not None
        return follower.log_end_offset >= max(partition.log.high_watermark, partition.leader_epoch_start_offset)

    patches.replace(isr_changes, "is_in_sync", at_high_watermark)


def unreadable_above_high_watermark(patches: Patches) -> None:
    """A leader whose high watermark lags calls a consumer's place above it out of range (before KIP-207)."""
    read = partition_reads._read

    def strict(log: ReplicaLog, target: FetchTarget, max_bytes: int, min_one: bool, upper_bound: int) -> LogRead:
        if target.fetch_offset > upper_bound:
            raise KafkaError(ErrorCode.OFFSET_OUT_OF_RANGE, f"offset {target.fetch_offset} is above {upper_bound}")
        return read(log, target, max_bytes, min_one, upper_bound)

    patches.replace(partition_reads, "_read", strict)


def disk_error_unknown(patches: Patches) -> None:
    """An error of the disk is answered as UNKNOWN_SERVER_ERROR, which no producer may retry."""
    failed = DiskHealth.failed

    def unknown(self: DiskHealth, error: Exception) -> KafkaError:
        return KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, failed(self, error).message or "")

    patches.replace(DiskHealth, "failed", unknown)


def duplicate_at_log_end(patches: Patches) -> None:
    """A batch that was written before is answered with the log's end, not with its own offset (Redpanda #5356)."""
    append = Partition.append_records_to_leader

    def append_records(self: Partition, records: memoryview, required_acks: int, now_ms: int) -> AppendInfo:
        info = append(self, records, required_acks, now_ms)
        assert isinstance(info, AppendInfo) and self.log is not None
        if not info.is_duplicate:
            return info
        return info._replace(first_offset=self.log.log_end_offset)

    patches.replace(Partition, "append_records_to_leader", append_records)


def promote_too_early(patches: Patches) -> None:
    """The copy of a replica in another log directory takes its place while the newest records are missing."""

    def nearly(current: Log, future: Log, max_bytes: int) -> ReadInfo | None:
        end = current.log_end_offset - 3
        if future.log_end_offset >= end:
            return None
        found = current.read(future.log_end_offset, max_bytes, end)
        return found if found.parts else None

    catch_up = future_copy.catch_up

    def catch_up_early(current: Log, future: Log, bytes_max: int) -> bool:
        catch_up(current, future, bytes_max)
        return True

    def take_over(future: Log, current: Log) -> None:
        future.high_watermark = current.high_watermark

    def replace_log(self: Partition, log: ReplicaLog) -> None:
        self._take_log(log)

    patches.replace(future_copy, "read", nearly)
    patches.replace(future_copy, "catch_up", catch_up_early)
    patches.replace(log_dir_moves, "has_all", lambda current, future: True)
    patches.replace(future_logs, "_take_over", take_over)
    patches.replace(Partition, "replace_log", replace_log)


def hold_back_who_is_in_sync(patches: Patches) -> None:
    """The reassignment throttle also delays replicas that are in sync (KIP-73)."""

    def whoever_it_is(self: Fetches, partition: Partition, replica_id: int) -> bool:
        return self._quota.is_throttled(*partition.topic_partition)

    patches.replace(Fetches, "_is_throttled", whoever_it_is)


def read_before_quota(patches: Patches) -> None:
    """A chunk of a log is read for its copy in another log directory before it waits for the quota, appended after."""

    async def read_first(self: LogDirMoves, current: Log, future: Log) -> bool:
        async with self._slots:
            future_copy.align(current, future)
            found = future_copy.read(current, future, CHUNK_BYTES)
            if found is None:
                return False
            while (wait_ms := self.quota.wait_ms(self._clock.monotonic_ms())) > 0:  # noqa: ASYNC110  # time alone helps
                await asyncio.sleep(wait_ms / 1000)
            records = await blocking.run(asyncio.get_running_loop(), future_copy.joined, found.parts)
            future_copy.append(future, records)
            self.quota.note(len(records), self._clock.monotonic_ms())
            return True

    patches.replace(LogDirMoves, "_copy_some", read_first)


def answer_before_published(patches: Patches) -> None:
    """A broker answers a forwarded request as soon as the controller has committed its change."""

    def at_once(request: Message, wait_ms_max: int, elapsed_ms: int) -> int:
        return 0

    patches.replace(forwarder, "published_wait_ms", at_once)
