"""One partition on this broker: its role, its log, its in-sync replicas. Sans-IO, handed a log.

    NONE ------make_leader-----> LEADING    any --mark_offline--> OFFLINE (its log directory failed)
    NONE -----make_follower----> FOLLOWING  any ----delete------> NONE
    LEADING <--make_follower / make_leader--> FOLLOWING

Invariants:
- epochs never go back: metadata of a lower partition epoch is skipped, one of the same epoch changes nothing;
- a leader's epoch is in the epoch cache, with the log end it began at (LESO), before anything else happens in it;
- a leader's high watermark never decreases, and advances only over the maximal ISR and while |ISR| >= the effective
  minimum; a follower's is the leader's, never above its own log end;
- at most one change of the ISR is in flight.

Effects on the outside are collected in `effects`, which the owner takes after each call. Changes of the ISR are decided
in isr_changes, reads in partition_reads; values for gauges are in health, the wait of DeleteRecords in low_watermark.
Source: kafka.cluster.Partition (KIP-101, 279, 320, 497, 841, 903, 966).
"""

from collections.abc import Callable, Sequence
from typing import TypeAlias

from kvorum.broker.replica.effects import Effects
from kvorum.broker.replica.follower_state import FollowerState
from kvorum.broker.replica.high_watermark import leader_high_watermark
from kvorum.broker.replica.isr import CommittedIsr, IsrState, PendingExpandIsr, PendingShrinkIsr
from kvorum.broker.replica.log_view import AppendInfo, ReplicaLog, RunInfo
from kvorum.broker.replica.types import (
    CLIENT_TERMS,
    NO_BROKER_EPOCH,
    NO_EPOCH,
    NO_LEADER,
    AppendTerms,
    Brokers,
    PartitionListener,
    Role,
)
from kvorum.broker.replica.watchers import Watchers
from kvorum.protocol.errors import ErrorCode, KafkaError
from kvorum.protocol.topic_partition import TopicPartition
from kvorum.protocol.uuids import Uuid
from kvorum.quorum.image.partition import PartitionRegistration

ACKS_ALL = -1
OFFSET_SIZE = 8
Isr: TypeAlias = frozenset[int]


class Partition:
    """A partition on this broker, as leader or follower. Times are monotonic milliseconds."""

    def __init__(
        self,
        *,
        topic_partition: TopicPartition,
        topic_id: Uuid,
        broker_id: int,
        brokers: Brokers,
        local_broker_epoch: Callable[[], int],
        replica_lag_time_ms_max: int,
    ) -> None:
        """Begin in role NONE, without a log. `local_broker_epoch` returns this broker's registration epoch."""
        self.topic_partition = topic_partition
        self.topic_id = topic_id
        self.broker_id = broker_id
        self.replica_lag_time_ms_max = replica_lag_time_ms_max
        self.role = Role.NONE
        self.log: ReplicaLog | None = None
        self.leader_id = NO_LEADER
        self.leader_epoch = NO_EPOCH
        self.partition_epoch = NO_EPOCH
        self.leader_epoch_start_offset: int | None = None
        """The log end when this broker was elected (LESO); None while it does not lead."""
        self.assigned_replicas: tuple[int, ...] = ()
        self.adding_replicas: tuple[int, ...] = ()
        self.removing_replicas: tuple[int, ...] = ()
        self.is_in_isr = False
        """Whether this broker is in the ISR, as the metadata that were taken over last have it."""
        self.is_complete = False
        """Whether it is in the ISR or eligible (KIP-966): then its log has all that is committed."""
        self.isr_state: IsrState = CommittedIsr(frozenset())
        self.followers: dict[int, FollowerState] = {}
        self.watches_low_watermark = False
        """Whether a request waits for the low watermark: it costs a walk over the followers per fetch."""
        self.effects: Effects | None = None
        self.brokers = brokers
        self.local_broker_epoch = local_broker_epoch
        self.watchers = Watchers()
        self._listeners: list[PartitionListener] = []

    # --- role ---------------------------------------------------------------------------------------------------

    def make_leader(self, registration: PartitionRegistration, log: ReplicaLog, now_ms: int) -> bool:
        """Become leader, or remain leader with a new ISR or assignment.

        Return whether a leader epoch began.

        Metadata that are not newer than the known ones (an answer to AlterPartition may have come first) are skipped
        completely: a proposal sent since then must stay in the maximal ISR.
        """
        if not self._is_news(registration):
            return False
        self.watchers.wake()
        is_new_epoch = registration.leader_epoch > self.leader_epoch or self.role is not Role.LEADING
        self._take_log(log)
        if is_new_epoch:
            start_offset = log.log_end_offset
            log.assign_epoch_start_offset(registration.leader_epoch, start_offset)
            self.leader_epoch_start_offset = start_offset
        self._take_assignment(registration)
        known = {} if is_new_epoch else self.followers
        self.followers = {each: known.get(each) or FollowerState(each) for each in registration.replicas}
        self.followers.pop(self.broker_id, None)
        if is_new_epoch:
            for follower in self.followers.values():
                follower.reset(now_ms=now_ms, is_in_isr=follower.broker_id in registration.isr)
        if not is_new_epoch:
            self._count_confirmed(registration)
        self.isr_state = CommittedIsr(frozenset(registration.isr))
        self.role = Role.LEADING
        self.leader_id = self.broker_id
        self.leader_epoch = registration.leader_epoch
        self.partition_epoch = registration.partition_epoch
        self.maybe_increment_leader_high_watermark(now_ms)
        if is_new_epoch:
            for listener in tuple(self._listeners):
                listener.on_become_leader(self.topic_partition, self.leader_epoch)
        return is_new_epoch

    def make_follower(self, registration: PartitionRegistration, log: ReplicaLog) -> bool:
        """Follow a leader (or wait for one). Return whether a new leader epoch began, so that the fetch restarts."""
        if not self._is_news(registration):
            return False
        self.watchers.wake()
        is_new_epoch = registration.leader_epoch > self.leader_epoch or self.role is not Role.FOLLOWING
        self._take_log(log)
        self._take_assignment(registration)
        self.role = Role.FOLLOWING
        self.leader_id = registration.leader
        self.leader_epoch = registration.leader_epoch
        self.partition_epoch = registration.partition_epoch
        self.leader_epoch_start_offset = None
        self.followers = {}
        self.isr_state = CommittedIsr(frozenset())
        if is_new_epoch:
            for listener in tuple(self._listeners):
                listener.on_become_follower(self.topic_partition, self.leader_epoch)
        return is_new_epoch

    def mark_offline(self) -> None:
        """Drop the log: its directory failed."""
        self._clear(Role.OFFLINE)
        listeners, self._listeners = self._listeners, []
        for listener in listeners:
            listener.on_failed(self.topic_partition)

    def delete(self) -> None:
        """Stop being a replica. The owner removes the log."""
        self._clear(Role.NONE)
        listeners, self._listeners = self._listeners, []
        for listener in listeners:
            listener.on_deleted(self.topic_partition)

    def add_listener(self, listener: PartitionListener) -> bool:
        """Report changes to `listener` from now on; False, without effect, if there is no usable log."""
        if self.log is None:
            return False
        self._listeners.append(listener)
        return True

    def remove_listener(self, listener: PartitionListener) -> None:
        """Remove the listener. Idempotent."""
        self._listeners = [each for each in self._listeners if each is not listener]

    def take_effects(self) -> Effects | None:
        """Return and clear the effects on the outside."""
        effects, self.effects = self.effects, None
        return effects

    def _is_news(self, registration: PartitionRegistration) -> bool:
        if self.role in (Role.NONE, Role.OFFLINE):
            return True
        if registration.partition_epoch == self.partition_epoch:
            assert registration.leader_epoch == self.leader_epoch, "one partition epoch, one leader epoch"
        return registration.partition_epoch > self.partition_epoch

    def _count_confirmed(self, registration: PartitionRegistration) -> None:
        """Count a proposed ISR change that is in the metadata now."""
        state = self.isr_state
        if isinstance(state, PendingExpandIsr) and state.new_in_sync_replica_id in registration.isr:
            self.add_effects().isr_expanded += 1
        elif isinstance(state, PendingShrinkIsr) and not state.out_of_sync_replica_ids.intersection(registration.isr):
            self.add_effects().isr_shrunk += 1

    def replace_log(self, log: ReplicaLog) -> None:
        """Replace the log by its copy in another directory. Only while the partition has a log."""
        assert self.log is not None and log.log_end_offset == self.log.log_end_offset, "a copy to the end"
        self._take_log(log)
        self.watchers.wake()

    def _take_log(self, log: ReplicaLog) -> None:
        self.log = log
        log.on_start_moved = self.watchers.wake

    def _take_assignment(self, registration: PartitionRegistration) -> None:
        self.assigned_replicas = registration.replicas
        self.adding_replicas = registration.adding_replicas
        self.removing_replicas = registration.removing_replicas
        self.is_in_isr = self.broker_id in registration.isr
        self.is_complete = self.is_in_isr or self.broker_id in registration.elr

    def _clear(self, role: Role) -> None:
        self.watchers.wake()
        self.role = role
        self.log = None
        self.leader_id = NO_LEADER
        self.leader_epoch_start_offset = None
        self.followers = {}
        self.isr_state = CommittedIsr(frozenset())
        self.assigned_replicas = self.adding_replicas = self.removing_replicas = ()
        self.is_in_isr = self.is_complete = False
        self.effects = None

    def add_effects(self) -> Effects:
        """Return the collector of effects on the outside."""
        if self.effects is None:
            self.effects = Effects()
        return self.effects

    # --- queries -------------------------------------------------------------------------------------------------

    @property
    def is_leader(self) -> bool:
        """Whether this broker leads."""
        return self.role is Role.LEADING

    @property
    def isr(self) -> Isr:
        """The ISR the controller last confirmed; empty unless leading."""
        return self.isr_state.isr

    @property
    def effective_min_isr(self) -> int:
        """min.insync.replicas, but never more than there are replicas (KIP-966)."""
        assert self.log is not None
        return min(self.log.config.min_insync_replicas, len(self.followers) + 1)

    def log_or_raise(self, current_leader_epoch: int, require_leader: bool) -> ReplicaLog:
        """Return the log, after the checks every request on a partition begins with, in Kafka's order.

        Raises:
            KafkaError: FENCED_LEADER_EPOCH, UNKNOWN_LEADER_EPOCH (the asker's epoch is behind or ahead of ours),
                NOT_LEADER_OR_FOLLOWER, KAFKA_STORAGE_ERROR (offline).
        """
        if current_leader_epoch >= 0 and current_leader_epoch != self.leader_epoch:
            if current_leader_epoch < self.leader_epoch:
                raise KafkaError(ErrorCode.FENCED_LEADER_EPOCH, f"the leader epoch is {self.leader_epoch}")
            raise KafkaError(ErrorCode.UNKNOWN_LEADER_EPOCH, f"the current leader epoch is {self.leader_epoch}")
        if self.role is Role.OFFLINE:
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, "the replica's log directory is offline")
        if self.log is None or (require_leader and self.role is not Role.LEADING):
            raise KafkaError(
                ErrorCode.NOT_LEADER_OR_FOLLOWER, f"this broker is not the leader of {self.topic_partition}"
            )
        return self.log

    # --- appends ---------------------------------------------------------------------------------------------------

    def append_records_to_leader(
        self, records: memoryview, required_acks: int, now_ms: int, terms: AppendTerms = CLIENT_TERMS
    ) -> AppendInfo:
        """Append records of a producer, or of a coordinator on this broker.

        Raises:
            KafkaError: NOT_LEADER_OR_FOLLOWER, KAFKA_STORAGE_ERROR; NOT_ENOUGH_REPLICAS if acks=all would wait for
                an ISR below its minimum (nothing was appended); the validation errors of the log.
        """
        log = self._log_to_append_to(required_acks)
        info = log.append_as_leader(records, self.leader_epoch, terms.origin, terms.guard, terms.transaction_version)
        self.watchers.wake()
        self.maybe_increment_leader_high_watermark(now_ms)
        return info

    def append_run_to_leader(self, batches: Sequence[memoryview], required_acks: int, now_ms: int) -> RunInfo:
        """Append client records like append_records_to_leader, up to the first batch that needs the general path.

        Raises the same KafkaErrors, except validation errors of records.
        """
        log = self._log_to_append_to(required_acks)
        info = log.append_run_as_leader(batches, self.leader_epoch)
        self.watchers.wake()
        self.maybe_increment_leader_high_watermark(now_ms)
        return info

    def _log_to_append_to(self, required_acks: int) -> ReplicaLog:
        log = self.log_or_raise(NO_EPOCH, require_leader=True)
        if required_acks == ACKS_ALL and len(self.isr_state.isr) < self.effective_min_isr:
            raise KafkaError(
                ErrorCode.NOT_ENOUGH_REPLICAS,
                f"The size of the current ISR {sorted(self.isr_state.isr)} is insufficient to satisfy the min.isr "
                f"requirement of {self.effective_min_isr} for partition {self.topic_partition}",
            )
        return log

    def check_enough_replicas_reach_offset(self, required_offset: int) -> ErrorCode | None:
        """Check a produce of acks=all: None to wait, else its outcome (NONE, or an error)."""
        if self.role is Role.OFFLINE:
            return ErrorCode.KAFKA_STORAGE_ERROR
        if self.role is not Role.LEADING or self.log is None:
            return ErrorCode.NOT_LEADER_OR_FOLLOWER
        if self.log.high_watermark < required_offset:
            return None
        if len(self.isr_state.maximal_isr) < self.effective_min_isr:
            return ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND
        return ErrorCode.NONE

    def append_records_to_follower(self, records: memoryview, leader_epoch: int) -> AppendInfo | None:
        """Append records from the leader of `leader_epoch`; this broker still follows in that epoch (assert).

        The leader's log may start inside a batch (DeleteRecords), a log file never: an empty log that would start there
        begins with the whole batch, and its log start offset follows the leader's afterwards. Raises KafkaError.
        """
        assert self.role is Role.FOLLOWING and self.log is not None and leader_epoch == self.leader_epoch
        log = self.log
        if log.log_start_offset == log.log_end_offset and len(records) >= OFFSET_SIZE:
            base_offset = int.from_bytes(records[:OFFSET_SIZE], "big", signed=True)
            if 0 <= base_offset < log.log_end_offset:
                log.truncate_fully_and_start_at(base_offset)
        info = log.append_as_follower(records, leader_epoch)
        self.watchers.wake()
        return info

    def update_follower_offsets(self, leader_high_watermark: int, leader_log_start_offset: int) -> bool:
        """Take over the leader's high watermark (it may go back) and log start. Return whether the first moved."""
        assert self.role is Role.FOLLOWING and self.log is not None
        log = self.log
        before = log.high_watermark
        log.high_watermark = max(log.log_start_offset, min(leader_high_watermark, log.log_end_offset))
        if leader_log_start_offset > log.log_start_offset:
            log.maybe_increment_log_start_offset(min(leader_log_start_offset, log.high_watermark))
        if log.high_watermark == before:
            return False
        self._tell_high_watermark()
        return True

    def is_isr_eligible(self, follower: FollowerState) -> bool:
        """Return whether the broker may be in an ISR: unfenced, not shutting down, of the incarnation that fetched."""
        broker_id = follower.broker_id
        if self.brokers.is_fenced(broker_id) or self.brokers.is_shutting_down(broker_id):
            return False
        fetched_epoch = follower.broker_epoch
        return fetched_epoch == NO_BROKER_EPOCH or (
            fetched_epoch is not None and fetched_epoch == self.brokers.broker_epoch(broker_id)
        )

    # --- the high watermark ---------------------------------------------------------------------------------------

    def maybe_increment_leader_high_watermark(self, now_ms: int) -> None:
        """Move the high watermark to where the maximal ISR and the minimum allow; never back. Leaders only."""
        log = self.log
        assert log is not None
        if len(self.isr_state.isr) < self.effective_min_isr:
            return
        if self.followers:
            new = leader_high_watermark(
                log.log_end_offset,
                self.followers.values(),
                self.isr_state.maximal_isr,
                now_ms,
                self.replica_lag_time_ms_max,
                self.is_isr_eligible,
            )
        else:
            new = log.log_end_offset
        new = min(new, log.committable_end_offset)
        if new > log.high_watermark:
            assert new <= log.log_end_offset, "nothing above the log end is committed"
            self.watchers.wake()
            log.high_watermark = new
            self.add_effects().high_watermark_moved = True
            self._tell_high_watermark()

    def _tell_high_watermark(self) -> None:
        if self._listeners:
            assert self.log is not None
            for listener in tuple(self._listeners):
                listener.on_high_watermark_moved(self.topic_partition, self.log.high_watermark)
