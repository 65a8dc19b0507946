"""Who joins and leaves the in-sync replicas, and what is made of the controller's answers, late, lost or repeated."""

import pytest

from kvorum.broker.replica.isr import AfterRefusal, AlterPartitionAnswer, CommittedIsr
from kvorum.broker.replica.isr_changes import (
    complete_alter_partition,
    fail_alter_partition,
    maybe_shrink_isr,
    out_of_sync_replicas,
)
from kvorum.broker.replica.partition import Partition
from kvorum.protocol.errors import ErrorCode, KafkaError
from tests.unit.broker.replica.replica_kit import (
    LAG_MS,
    ModelCluster,
    ModelLog,
    a_partition,
    batch,
    config,
    follower_fetch,
    granted,
    members,
    proposal_of,
    registration,
)


def leader_alone(
    records_count: int = 3, *, min_isr: int = 1, cluster: ModelCluster | None = None, leader_epoch: int = 5
) -> tuple[Partition, ModelLog]:
    """A leader whose ISR is itself, with two followers outside."""
    log = ModelLog(config(min_isr))
    partition = a_partition(cluster)
    partition.make_leader(registration(isr=(1,), leader_epoch=leader_epoch), log, 0)
    for _ in range(records_count):
        partition.append_records_to_leader(batch(b"x"), 1, 0)
    partition.take_effects()
    return partition, log


class TestJoining:
    def test_a_follower_at_the_high_watermark_is_proposed_with_its_broker_epoch(self) -> None:
        partition, _ = leader_alone()
        follower_fetch(partition, 2, 3, replica_epoch=102)
        proposal = proposal_of(partition)
        assert proposal.isr == ((1, 101), (2, 102))
        assert (proposal.leader_epoch, proposal.partition_epoch) == (5, 0)
        assert partition.isr == {1} and partition.isr_state.maximal_isr == {1, 2}

    def test_one_below_the_high_watermark_is_not(self) -> None:
        partition, _ = leader_alone()
        follower_fetch(partition, 2, 2)
        assert partition.effects is None

    def test_one_below_the_start_of_the_epoch_is_not_even_above_a_lagging_high_watermark(self) -> None:
        """Records below the epoch's start may be committed though this new leader does not know it yet."""
        log = ModelLog()
        for _ in range(3):
            log.append_as_leader(batch(b"x"), 0)
        partition = a_partition()
        partition.make_leader(registration(isr=(1, 3), leader_epoch=1), log, 0)
        assert log.high_watermark == 0
        follower_fetch(partition, 2, 2)
        assert partition.effects is None
        follower_fetch(partition, 2, 3)
        assert members(proposal_of(partition)) == [1, 2, 3]

    def test_positions_of_an_earlier_epoch_do_not_count(self) -> None:
        """Removed and added again in one change of the metadata, with an empty disk: the leader epoch has grown."""
        partition, log = leader_alone()
        follower_fetch(partition, 2, 3)
        proposal = proposal_of(partition)
        complete_alter_partition(partition, proposal, granted(proposal), 0)
        partition.make_leader(registration(isr=(1, 2), leader_epoch=6, partition_epoch=2), log, 0)
        partition.take_effects()
        partition.append_records_to_leader(batch(b"y"), 1, 0)
        assert log.high_watermark == 3
        follower_fetch(partition, 2, 0)
        assert partition.effects is None and log.high_watermark == 3
        partition.make_leader(registration(isr=(1,), leader_epoch=7, partition_epoch=3), log, 0)
        partition.take_effects()
        follower_fetch(partition, 2, 3)
        assert partition.effects is None, "4 is the start of this epoch"
        follower_fetch(partition, 2, 4)
        assert members(proposal_of(partition)) == [1, 2]

    def test_fetch_state_from_before_a_missed_leader_epoch_does_not_commit(self) -> None:
        """Epochs 5 and 7 are this broker's; in 6 another leader, of whom it never heard, cut the follower's log."""
        log = ModelLog()
        partition = a_partition()
        partition.make_leader(registration(isr=(1, 2), replicas=(1, 2), leader_epoch=5), log, 0)
        partition.append_records_to_leader(batch(b"a"), 1, 0)
        follower_fetch(partition, 2, 0)
        partition.append_records_to_leader(batch(b"b"), 1, 0)
        follower_fetch(partition, 2, 1)
        partition.followers[2].log_end_offset = 2
        partition.make_leader(registration(isr=(1, 2), replicas=(1, 2), leader_epoch=7, partition_epoch=2), log, 0)
        assert log.high_watermark == 1

    @pytest.mark.parametrize("state", ["fenced", "shutting down", "unknown", "another incarnation"])
    def test_one_that_is_not_eligible_is_not(self, state: str) -> None:
        cluster = ModelCluster()
        partition, _ = leader_alone(cluster=cluster)
        match state:
            case "fenced":
                cluster.fenced.add(2)
            case "shutting down":
                cluster.shutting_down.add(2)
            case "unknown":
                del cluster.epochs[2]
            case _:
                cluster.epochs[2] = 90  # the metadata has not caught up with the incarnation that fetches
        follower_fetch(partition, 2, 3, replica_epoch=102)
        assert partition.effects is None or partition.effects.proposal is None

    def test_a_fetch_of_an_earlier_incarnation_is_refused(self) -> None:
        cluster = ModelCluster()
        partition, _ = leader_alone(cluster=cluster)
        cluster.epochs[2] = 200
        with pytest.raises(KafkaError) as info:
            follower_fetch(partition, 2, 3, replica_epoch=102)
        assert info.value.code is ErrorCode.NOT_LEADER_OR_FOLLOWER
        assert partition.followers[2].log_end_offset == -1

    def test_under_the_minimum_it_must_really_have_caught_up(self) -> None:
        """KAFKA-19996: the high watermark stands still there, and one at it would flap in and out."""
        partition, log = leader_alone(10, min_isr=2)
        assert log.high_watermark == 0
        follower_fetch(partition, 2, 5, now_ms=LAG_MS + 1)
        assert partition.effects is None
        follower_fetch(partition, 2, 10, now_ms=LAG_MS + 2)
        assert members(proposal_of(partition)) == [1, 2]

    def test_only_one_change_is_in_flight(self) -> None:
        partition, _ = leader_alone()
        follower_fetch(partition, 2, 3)
        first = proposal_of(partition)
        follower_fetch(partition, 3, 3)
        assert partition.effects is None
        complete_alter_partition(partition, first, granted(first), 0)
        partition.take_effects()
        follower_fetch(partition, 3, 3)
        second = proposal_of(partition)
        assert (members(second), second.partition_epoch) == ([1, 2, 3], 1)


class TestMaximalIsr:
    def test_one_that_is_joining_holds_the_high_watermark_already(self) -> None:
        partition, log = leader_alone()
        follower_fetch(partition, 2, 3)
        partition.append_records_to_leader(batch(b"y"), 1, LAG_MS * 2)
        assert log.high_watermark == 3
        follower_fetch(partition, 2, 4, now_ms=LAG_MS * 2)
        assert log.high_watermark == 4

    def test_one_that_is_leaving_holds_it_still(self) -> None:
        log = ModelLog()
        partition = a_partition()
        partition.make_leader(registration(isr=(1, 2), replicas=(1, 2)), log, 0)
        partition.append_records_to_leader(batch(b"x"), 1, 0)
        maybe_shrink_isr(partition, LAG_MS + 1)
        proposal = proposal_of(partition)
        assert members(proposal) == [1]
        partition.append_records_to_leader(batch(b"y"), 1, LAG_MS + 1)
        assert log.high_watermark == 0

    def test_confirmed_by_the_metadata_it_lets_the_high_watermark_go_at_once(self) -> None:
        """KAFKA-13091: nobody fetches or appends any more, and yet acks must not hang.

        The answer alone is not enough: it may have overtaken a raise of min.insync.replicas, by which the controller
        counts who left as eligible (KIP-966), and what is committed without it would be lost with its election.
        """
        log = ModelLog()
        partition = a_partition()
        partition.make_leader(registration(isr=(1, 2), replicas=(1, 2)), log, 0)
        partition.append_records_to_leader(batch(b"x"), -1, 0)
        maybe_shrink_isr(partition, LAG_MS + 1)
        proposal = proposal_of(partition)
        complete_alter_partition(partition, proposal, granted(proposal), LAG_MS + 2)
        assert log.high_watermark == 0 and partition.isr_state.maximal_isr == {1, 2}
        confirmed = registration(isr=(1,), replicas=(1, 2), partition_epoch=proposal.partition_epoch + 1)
        partition.make_leader(confirmed, log, LAG_MS + 3)
        assert log.high_watermark == 1
        effects = partition.take_effects()
        assert effects is not None and effects.high_watermark_moved and effects.isr_shrunk == 1
        assert partition.check_enough_replicas_reach_offset(1) is ErrorCode.NONE


class TestLeaving:
    def test_a_follower_that_does_not_fetch_leaves_after_the_lag_time(self) -> None:
        log = ModelLog()
        partition = a_partition()
        partition.make_leader(registration(), log, 0)
        partition.append_records_to_leader(batch(b"x"), 1, 0)
        follower_fetch(partition, 3, 1, now_ms=10)
        assert out_of_sync_replicas(partition, LAG_MS) == set()
        assert out_of_sync_replicas(partition, LAG_MS + 1) == {2}

    def test_one_at_the_log_end_stays_however_long_nothing_happens(self) -> None:
        log = ModelLog()
        partition = a_partition()
        partition.make_leader(registration(isr=(1, 2), replicas=(1, 2)), log, 0)
        follower_fetch(partition, 2, 0, now_ms=5)
        assert out_of_sync_replicas(partition, LAG_MS * 100) == set()

    def test_a_slow_one_that_never_reaches_the_end_leaves(self) -> None:
        log = ModelLog()
        partition = a_partition()
        partition.make_leader(registration(isr=(1, 2), replicas=(1, 2)), log, 0)
        for step in range(1, 40):
            for _ in range(3):
                partition.append_records_to_leader(batch(b"x"), 1, step * 1000)
            follower_fetch(partition, 2, step, now_ms=step * 1000)
        assert out_of_sync_replicas(partition, 40_000) == {2}

    def test_one_that_always_reads_to_the_end_of_before_stays(self) -> None:
        """Small produces at a high rate: each fetch is behind, by less than one fetch."""
        log = ModelLog()
        partition = a_partition()
        partition.make_leader(registration(isr=(1, 2), replicas=(1, 2)), log, 0)
        end_before = 0
        for step in range(1, 80):
            partition.append_records_to_leader(batch(b"x"), 1, step * 1000)
            follower_fetch(partition, 2, end_before, now_ms=step * 1000)
            end_before = log.log_end_offset
        assert out_of_sync_replicas(partition, 80_000) == set()

    def test_all_laggards_leave_in_one_change_and_none_while_one_is_in_flight(self) -> None:
        log = ModelLog()
        partition = a_partition()
        partition.make_leader(registration(), log, 0)
        partition.append_records_to_leader(batch(b"x"), 1, 0)
        maybe_shrink_isr(partition, LAG_MS + 1)
        assert members(proposal_of(partition)) == [1]
        maybe_shrink_isr(partition, LAG_MS + 2)
        assert partition.effects is None

    def test_a_follower_proposes_nothing(self) -> None:
        partition = a_partition()
        partition.make_follower(registration(leader=2), ModelLog())
        maybe_shrink_isr(partition, LAG_MS * 10)
        assert partition.effects is None


ROLLED_BACK = [ErrorCode.INELIGIBLE_REPLICA, ErrorCode.OPERATION_NOT_ATTEMPTED]
AWAITED = [
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ErrorCode.UNKNOWN_TOPIC_ID,
    ErrorCode.FENCED_LEADER_EPOCH,
    ErrorCode.INVALID_UPDATE_VERSION,
    ErrorCode.INVALID_REQUEST,
    ErrorCode.NEW_LEADER_ELECTED,
]
RETRIED = [ErrorCode.NOT_CONTROLLER, ErrorCode.REQUEST_TIMED_OUT, ErrorCode.UNKNOWN_SERVER_ERROR]


class TestAnswers:
    @pytest.mark.parametrize("code", ROLLED_BACK)
    def test_certainly_not_applied_is_rolled_back(self, code: ErrorCode) -> None:
        partition, _ = leader_alone()
        follower_fetch(partition, 2, 3)
        proposal = proposal_of(partition)
        assert fail_alter_partition(partition, proposal, code, 0) is AfterRefusal.ROLL_BACK
        assert partition.isr_state == CommittedIsr(frozenset({1}))
        follower_fetch(partition, 2, 3)
        assert members(proposal_of(partition)) == [1, 2], "and tried again with the next fetch"

    def test_rolled_back_the_high_watermark_waits_no_longer(self) -> None:
        """Nobody appends or fetches any more, and yet acks must not hang."""
        cluster = ModelCluster()
        partition, log = leader_alone(cluster=cluster)
        follower_fetch(partition, 2, 3)
        proposal = proposal_of(partition)
        partition.append_records_to_leader(batch(b"y"), -1, LAG_MS)
        assert log.high_watermark == 3
        cluster.fenced.add(2)
        fail_alter_partition(partition, proposal, ErrorCode.INELIGIBLE_REPLICA, LAG_MS)
        assert log.high_watermark == 4
        effects = partition.take_effects()
        assert effects is not None and effects.high_watermark_moved

    @pytest.mark.parametrize("code", AWAITED)
    def test_an_unknown_isr_change_keeps_the_maximal_isr_until_the_metadata_arrive(self, code: ErrorCode) -> None:
        partition, log = leader_alone()
        follower_fetch(partition, 2, 3)
        proposal = proposal_of(partition)
        assert fail_alter_partition(partition, proposal, code, 0) is AfterRefusal.AWAIT_METADATA
        partition.append_records_to_leader(batch(b"y"), 1, LAG_MS * 3)
        assert log.high_watermark == 3, "2 may be in the ISR for all we know"
        partition.make_leader(registration(isr=(1,), leader_epoch=5, partition_epoch=4), log, LAG_MS * 3)
        assert log.high_watermark == 4

    @pytest.mark.parametrize("code", RETRIED)
    def test_anything_else_requests_the_same_again(self, code: ErrorCode) -> None:
        partition, _ = leader_alone()
        follower_fetch(partition, 2, 3)
        proposal = proposal_of(partition)
        assert fail_alter_partition(partition, proposal, code, 0) is AfterRefusal.RETRY
        assert partition.isr_state.maximal_isr == {1, 2}

    def test_an_answer_to_an_earlier_proposal_changes_nothing(self) -> None:
        partition, _ = leader_alone()
        follower_fetch(partition, 2, 3)
        old = proposal_of(partition)
        assert partition.log is not None
        partition.make_leader(registration(isr=(1,), leader_epoch=5, partition_epoch=3), partition.log, 0)
        follower_fetch(partition, 2, 3)
        new = proposal_of(partition)
        complete_alter_partition(partition, old, granted(old), 0)
        assert fail_alter_partition(partition, old, ErrorCode.INELIGIBLE_REPLICA, 0) is AfterRefusal.AWAIT_METADATA
        assert partition.isr_state.maximal_isr == {1, 2} and partition.isr == {1}
        complete_alter_partition(partition, new, granted(new), 0)
        complete_alter_partition(partition, new, granted(new), 0)
        assert partition.isr == {1, 2} and partition.partition_epoch == 4

    def test_an_answer_of_another_leader_epoch_or_an_older_partition_epoch_is_not_taken(self) -> None:
        partition, _ = leader_alone()
        follower_fetch(partition, 2, 3)
        proposal = proposal_of(partition)
        foreign = AlterPartitionAnswer(leader_id=1, leader_epoch=6, partition_epoch=1, isr=(1, 2))
        complete_alter_partition(partition, proposal, foreign, 0)
        stale = AlterPartitionAnswer(leader_id=1, leader_epoch=5, partition_epoch=-1, isr=(1, 2))
        complete_alter_partition(partition, proposal, stale, 0)
        assert partition.isr == {1}

    def test_nothing_changed_is_an_answer_too(self) -> None:
        """The same partition epoch: the controller had it so already."""
        partition, _ = leader_alone()
        follower_fetch(partition, 2, 3)
        proposal = proposal_of(partition)
        same = AlterPartitionAnswer(leader_id=1, leader_epoch=5, partition_epoch=0, isr=(1, 2))
        complete_alter_partition(partition, proposal, same, 0)
        assert partition.isr == {1, 2}


def test_isr_flaps_below_the_minimum_end() -> None:
    """A far-behind follower under the minimum ISR is neither proposed nor dropped again and again."""
    partition, log = leader_alone(100, min_isr=2)
    changes = 0
    for step in range(1, 100):
        now_ms = step * LAG_MS
        follower_fetch(partition, 2, step, now_ms=now_ms)
        maybe_shrink_isr(partition, now_ms + LAG_MS // 2)
        effects = partition.take_effects()
        if effects is not None and effects.proposal is not None:
            changes += 1
            complete_alter_partition(partition, effects.proposal, granted(effects.proposal), now_ms)
    assert changes == 0
    follower_fetch(partition, 2, 100, now_ms=100 * LAG_MS)
    proposal = proposal_of(partition)
    complete_alter_partition(partition, proposal, granted(proposal), 100 * LAG_MS)
    assert log.high_watermark == 100
