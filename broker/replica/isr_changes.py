"""When a leader adds a follower to the ISR, when it removes one, and how it applies the controller's response. Sans-IO.

A follower joins when its log end is at least the high watermark *and* the start of the leader's epoch, by a fetch in
this epoch, of the incarnation that is registered, unfenced and not shutting down; under the minimum ISR the high
watermark does not advance and proves nothing, so it must really have caught up (KAFKA-19996). It leaves when it has not
caught up for replica.lag.time.max.ms. A proposal goes out through the partition's effects; see isr for the states.

Source: Partition.maybeExpandIsr, maybeShrinkIsr, handleAlterPartitionUpdate/Error (KIP-497, 841, 903).
"""

from kvorum.broker.replica.follower_state import FollowerState
from kvorum.broker.replica.health import is_under_min_isr
from kvorum.broker.replica.isr import (
    AfterRefusal,
    AlterPartitionAnswer,
    AlterPartitionProposal,
    CommittedIsr,
    PendingExpandIsr,
    PendingShrinkIsr,
    after_refusal,
)
from kvorum.broker.replica.low_watermark import low_watermark
from kvorum.broker.replica.partition import Partition
from kvorum.broker.replica.types import NO_BROKER_EPOCH, Role
from kvorum.protocol.errors import ErrorCode, KafkaError


def record_follower_fetch(
    partition: Partition,
    follower: FollowerState,
    *,
    fetch_offset: int,
    log_start_offset: int,
    leader_end_offset: int,
    broker_epoch: int,
    now_ms: int,
) -> None:
    """Take over a follower's fetch: its progress may expand the ISR and move the high or the low watermark.

    Raises:
        KafkaError: NOT_LEADER_OR_FOLLOWER for a fetch of an earlier incarnation of that broker.
    """
    known_epoch = partition.brokers.broker_epoch(follower.broker_id)
    if broker_epoch != NO_BROKER_EPOCH and known_epoch is not None and known_epoch > broker_epoch:
        raise KafkaError(
            ErrorCode.NOT_LEADER_OR_FOLLOWER,
            f"fetch with broker epoch {broker_epoch}, the registered epoch is {known_epoch}",
        )
    low_before = low_watermark(partition) if partition.watches_low_watermark else 0
    end_offset_before = follower.log_end_offset
    follower.update_fetch_state(
        fetch_offset=fetch_offset,
        log_start_offset=log_start_offset,
        now_ms=now_ms,
        leader_end_offset=leader_end_offset,
        broker_epoch=broker_epoch,
    )
    maybe_expand_isr(partition, follower, now_ms)
    if end_offset_before != fetch_offset:
        partition.maybe_increment_leader_high_watermark(now_ms)
    if partition.watches_low_watermark and low_watermark(partition) > low_before:
        partition.add_effects().low_watermark_moved = True


def maybe_expand_isr(partition: Partition, follower: FollowerState, now_ms: int) -> None:
    """Propose an ISR with this follower if it may join; from then on it counts for the high watermark."""
    state = partition.isr_state
    if not isinstance(state, CommittedIsr) or follower.broker_id in state.isr:
        return
    if not is_in_sync(partition, follower, now_ms) or not partition.is_isr_eligible(follower):
        return
    members = state.isr | {follower.broker_id}
    proposal = _proposal(partition, members)
    partition.isr_state = PendingExpandIsr(follower.broker_id, proposal, state, members)
    partition.add_effects().proposal = proposal


def is_in_sync(partition: Partition, follower: FollowerState, now_ms: int) -> bool:
    """Return whether a follower has all records that may be committed, by its fetch in this leader epoch.

    Below the epoch's start there may be committed records above our own high watermark, which lags after an election.
    """
    log, start_offset = partition.log, partition.leader_epoch_start_offset
    assert log is not None and start_offset is not None
    if follower.log_end_offset < max(log.high_watermark, start_offset):
        return False
    return not is_under_min_isr(partition) or follower.is_caught_up(
        log.log_end_offset, now_ms, partition.replica_lag_time_ms_max
    )


def out_of_sync_replicas(partition: Partition, now_ms: int) -> frozenset[int]:
    """Return the ISR members that have not caught up for the lag time; none while a change is in flight."""
    state = partition.isr_state
    if partition.role is not Role.LEADING or not isinstance(state, CommittedIsr):
        return frozenset()
    assert partition.log is not None
    end_offset, lag_ms = partition.log.log_end_offset, partition.replica_lag_time_ms_max
    return frozenset(
        broker_id
        for broker_id in state.isr
        if broker_id != partition.broker_id
        and (
            (follower := partition.followers.get(broker_id)) is None
            or not follower.is_caught_up(end_offset, now_ms, lag_ms)
        )
    )


def maybe_shrink_isr(partition: Partition, now_ms: int) -> None:
    """Propose an ISR without lagging replicas. Until the answer they count for the high watermark."""
    leaving = out_of_sync_replicas(partition, now_ms)
    if not leaving:
        return
    state = partition.isr_state
    assert isinstance(state, CommittedIsr)
    proposal = _proposal(partition, state.isr - leaving)
    partition.isr_state = PendingShrinkIsr(leaving, proposal, state)
    partition.add_effects().proposal = proposal


def _proposal(partition: Partition, members: frozenset[int]) -> AlterPartitionProposal:
    return AlterPartitionProposal(
        topic=partition.topic_partition.topic,
        topic_id=partition.topic_id,
        partition=partition.topic_partition.partition,
        leader_epoch=partition.leader_epoch,
        partition_epoch=partition.partition_epoch,
        isr=tuple((each, _epoch_of(partition, each)) for each in partition.assigned_replicas if each in members),
    )


def _epoch_of(partition: Partition, broker_id: int) -> int:
    """Return the epoch a member fetched with; one that has not fetched yet is the controller's to judge."""
    if broker_id == partition.broker_id:
        return partition.local_broker_epoch()
    follower = partition.followers.get(broker_id)
    return NO_BROKER_EPOCH if follower is None or follower.broker_epoch is None else follower.broker_epoch


def complete_alter_partition(
    partition: Partition, proposal: AlterPartitionProposal, answer: AlterPartitionAnswer, now_ms: int
) -> None:
    """Apply the controller's response to a proposal. Late, repeated and foreign responses are ignored.

    A confirmed shrink is applied by the metadata, not by the response: see isr.
    """
    state = partition.isr_state
    if not isinstance(state, PendingExpandIsr) or state.proposal is not proposal:
        return
    if answer.leader_epoch != partition.leader_epoch or answer.partition_epoch < partition.partition_epoch:
        return
    partition.watchers.wake()  # the answer may be without a member that rests, which has to join again
    partition.isr_state = CommittedIsr(frozenset(answer.isr))
    partition.partition_epoch = answer.partition_epoch
    partition.add_effects().isr_expanded += 1
    partition.maybe_increment_leader_high_watermark(now_ms)


def fail_alter_partition(
    partition: Partition, proposal: AlterPartitionProposal, error: ErrorCode, now_ms: int
) -> AfterRefusal:
    """Apply a rejection and return the consequence: roll back, wait for metadata, or send the same proposal again.

    After a roll back the high watermark does not wait for the member that was to join. The answer to an outdated
    proposal has no consequence.
    """
    state = partition.isr_state
    if isinstance(state, CommittedIsr) or state.proposal is not proposal:
        return AfterRefusal.AWAIT_METADATA
    verdict = after_refusal(error)
    if verdict is AfterRefusal.ROLL_BACK:
        partition.isr_state = state.last_committed
        partition.maybe_increment_leader_high_watermark(now_ms)
    return verdict
