"""Roles, epochs, appends and watermarks of one partition."""

import pytest

from kvorum.broker.replica.health import is_under_min_isr, is_under_replicated
from kvorum.broker.replica.isr_changes import complete_alter_partition
from kvorum.broker.replica.types import Role
from kvorum.protocol.errors import ErrorCode, KafkaError
from tests.unit.broker.replica.replica_kit import (
    KEY,
    ModelCluster,
    ModelLog,
    Noted,
    a_partition,
    batch,
    config,
    follower_fetch,
    granted,
    proposal_of,
    registration,
)


def code_of(info: pytest.ExceptionInfo[KafkaError]) -> ErrorCode:
    return info.value.code


def test_a_new_leader_notes_the_start_of_its_epoch_before_any_write() -> None:
    log = ModelLog()
    log.append_as_leader(batch(b"a", b"b"), 3)
    partition = a_partition()
    assert partition.make_leader(registration(leader_epoch=5), log, 0)
    assert log.epoch_cache.entries[-1] == (5, 2)
    assert partition.leader_epoch_start_offset == 2
    assert partition.role is Role.LEADING


def test_back_to_back_elections_without_writes_leave_the_newest_epoch_at_the_log_end() -> None:
    log = ModelLog()
    log.append_as_leader(batch(b"a"), 0)
    partition = a_partition()
    for epoch in (1, 2, 3):
        partition.make_leader(registration(leader_epoch=epoch, partition_epoch=epoch), log, 0)
    assert log.epoch_cache.entries == [(0, 0), (3, 1)]
    # A follower with uncommitted records of epoch 2 is told where epoch 0 ended, so it cuts them.
    assert log.end_offset_for_epoch(2) == (0, 1)


def test_metadata_of_an_older_partition_epoch_is_skipped() -> None:
    log = ModelLog()
    partition = a_partition()
    partition.make_leader(registration(leader_epoch=5, partition_epoch=7), log, 0)
    assert not partition.make_leader(registration(isr=(1,), leader_epoch=5, partition_epoch=6), log, 0)
    assert not partition.make_follower(registration(leader=2, leader_epoch=4, partition_epoch=6), log)
    assert partition.role is Role.LEADING and partition.isr == {1, 2, 3}


def test_metadata_already_known_from_an_answer_does_not_undo_a_newer_proposal() -> None:
    """The answer to AlterPartition comes before the delta; who was proposed since must stay in the maximal ISR."""
    log = ModelLog()
    partition = a_partition()
    partition.make_leader(registration(isr=(1,), replicas=(1, 2, 3)), log, 0)
    partition.append_records_to_leader(batch(b"a"), 1, 0)
    follower_fetch(partition, 2, 1)
    first = proposal_of(partition)
    complete_alter_partition(partition, first, granted(first), 0)
    follower_fetch(partition, 3, 1)
    assert proposal_of(partition) is not None
    assert not partition.make_leader(registration(isr=(1, 2), replicas=(1, 2, 3), partition_epoch=1), log, 0)
    assert partition.isr_state.maximal_isr == {1, 2, 3}


def test_a_change_of_the_isr_within_an_epoch_keeps_what_followers_reported() -> None:
    log = ModelLog()
    partition = a_partition()
    partition.make_leader(registration(), log, 0)
    partition.append_records_to_leader(batch(b"a"), 1, 0)
    follower_fetch(partition, 2, 1)
    assert not partition.make_leader(registration(isr=(1, 2), partition_epoch=1), log, 0)
    assert partition.followers[2].log_end_offset == 1
    assert log.high_watermark == 1, "3 no longer holds it back"


def test_a_broker_that_leads_again_forgets_what_its_followers_reported_before() -> None:
    log = ModelLog()
    partition = a_partition()
    partition.make_leader(registration(), log, 0)
    partition.append_records_to_leader(batch(b"a"), 1, 0)
    follower_fetch(partition, 2, 1)
    partition.make_follower(registration(leader=2, leader_epoch=1, partition_epoch=1), log)
    partition.make_leader(registration(leader_epoch=2, partition_epoch=2), log, 0)
    assert partition.followers[2].log_end_offset == -1
    assert log.high_watermark == 0


@pytest.mark.parametrize(
    ("epoch", "code"), [(4, ErrorCode.FENCED_LEADER_EPOCH), (6, ErrorCode.UNKNOWN_LEADER_EPOCH), (5, None), (-1, None)]
)
def test_requests_of_another_leader_epoch_get_an_error(epoch: int, code: ErrorCode | None) -> None:
    partition = a_partition()
    partition.make_leader(registration(leader_epoch=5), ModelLog(), 0)
    if code is None:
        assert partition.log_or_raise(epoch, require_leader=True) is partition.log
        return
    with pytest.raises(KafkaError) as info:
        partition.log_or_raise(epoch, require_leader=True)
    assert code_of(info) is code


def test_a_follower_takes_no_produce() -> None:
    partition = a_partition()
    partition.make_follower(registration(leader=2), ModelLog())
    with pytest.raises(KafkaError) as info:
        partition.append_records_to_leader(batch(b"a"), 1, 0)
    assert code_of(info) is ErrorCode.NOT_LEADER_OR_FOLLOWER


def test_an_offline_replica_is_a_storage_error() -> None:
    partition = a_partition()
    partition.make_leader(registration(), ModelLog(), 0)
    partition.mark_offline()
    with pytest.raises(KafkaError) as info:
        partition.append_records_to_leader(batch(b"a"), 1, 0)
    assert code_of(info) is ErrorCode.KAFKA_STORAGE_ERROR
    assert partition.check_enough_replicas_reach_offset(1) is ErrorCode.KAFKA_STORAGE_ERROR


class TestMinInsyncReplicas:
    def test_acks_all_below_the_minimum_is_refused_before_anything_is_appended(self) -> None:
        log = ModelLog(config(2))
        partition = a_partition()
        partition.make_leader(registration(isr=(1,)), log, 0)
        with pytest.raises(KafkaError) as info:
            partition.append_records_to_leader(batch(b"a"), -1, 0)
        assert code_of(info) is ErrorCode.NOT_ENOUGH_REPLICAS
        assert log.log_end_offset == 0

    def test_the_minimum_is_never_more_than_there_are_replicas(self) -> None:
        log = ModelLog(config(3))
        partition = a_partition()
        partition.make_leader(registration(isr=(1,), replicas=(1,)), log, 0)
        partition.append_records_to_leader(batch(b"a"), -1, 0)
        assert log.high_watermark == 1
        assert not is_under_min_isr(partition)

    def test_the_high_watermark_does_not_advance_below_min_isr_even_for_acks_1(self) -> None:
        log = ModelLog(config(2))
        partition = a_partition()
        partition.make_leader(registration(isr=(1,)), log, 0)
        partition.append_records_to_leader(batch(b"a"), 1, 0)
        assert log.high_watermark == 0
        assert is_under_min_isr(partition)

    def test_records_committed_before_the_isr_shrank_below_it_are_reported(self) -> None:
        log = ModelLog(config(2))
        partition = a_partition()
        partition.make_leader(registration(), log, 0)
        partition.append_records_to_leader(batch(b"a"), -1, 0)
        follower_fetch(partition, 2, 1)
        follower_fetch(partition, 3, 1)
        assert partition.check_enough_replicas_reach_offset(1) is ErrorCode.NONE
        partition.make_leader(registration(isr=(1,), partition_epoch=1), log, 0)
        assert partition.check_enough_replicas_reach_offset(1) is ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND

    def test_a_new_minimum_counts_at_once(self) -> None:
        log = ModelLog(config(1))
        partition = a_partition()
        partition.make_leader(registration(isr=(1,)), log, 0)
        partition.append_records_to_leader(batch(b"a"), -1, 0)
        log.config = config(2)
        with pytest.raises(KafkaError) as info:
            partition.append_records_to_leader(batch(b"a"), -1, 0)
        assert code_of(info) is ErrorCode.NOT_ENOUGH_REPLICAS


class TestHighWatermark:
    def test_it_is_the_least_log_end_of_the_isr(self) -> None:
        log = ModelLog()
        partition = a_partition()
        partition.make_leader(registration(), log, 0)
        for value in (b"a", b"b", b"c"):
            partition.append_records_to_leader(batch(value), 1, 0)
        follower_fetch(partition, 2, 3)
        assert log.high_watermark == 0
        follower_fetch(partition, 3, 1)
        assert log.high_watermark == 1
        follower_fetch(partition, 3, 2)
        assert log.high_watermark == 2
        assert partition.effects is not None and partition.effects.high_watermark_moved

    def test_it_never_goes_back_on_a_leader(self) -> None:
        """A follower that was truncated by an earlier leader asks for less than is committed."""
        log = ModelLog()
        partition = a_partition()
        partition.make_leader(registration(), log, 0)
        partition.append_records_to_leader(batch(b"a"), 1, 0)
        follower_fetch(partition, 2, 1)
        follower_fetch(partition, 3, 1)
        follower_fetch(partition, 3, 0)
        assert log.high_watermark == 1

    def test_a_lagging_replica_outside_the_isr_does_not_hold_it(self) -> None:
        log = ModelLog()
        partition = a_partition()
        partition.make_leader(registration(isr=(1, 2)), log, 0)
        partition.append_records_to_leader(batch(b"a"), 1, 0)
        follower_fetch(partition, 2, 1)
        follower_fetch(partition, 3, 0)
        partition.append_records_to_leader(batch(b"b"), 1, 0)
        follower_fetch(partition, 2, 2)
        assert partition.isr_state.maximal_isr == {1, 2}
        assert log.high_watermark == 2

    def test_one_about_to_join_the_isr_is_waited_for(self) -> None:
        """Else, with a leader alone in the ISR, the high watermark runs ahead and nobody ever reaches it."""
        log = ModelLog()
        cluster = ModelCluster()
        partition = a_partition(cluster)
        partition.make_leader(registration(isr=(1,), replicas=(1, 2)), log, 0)
        cluster.shutting_down = {2}
        follower_fetch(partition, 2, 0, now_ms=10)
        assert partition.isr_state.maximal_isr == {1}
        cluster.shutting_down = set()
        partition.append_records_to_leader(batch(b"a"), 1, 11)
        assert log.high_watermark == 0
        follower_fetch(partition, 2, 1, now_ms=12)
        assert log.high_watermark == 1

    def test_one_that_may_not_join_is_not_waited_for(self) -> None:
        log = ModelLog()
        cluster = ModelCluster(fenced={2})
        partition = a_partition(cluster)
        partition.make_leader(registration(isr=(1,), replicas=(1, 2)), log, 0)
        follower_fetch(partition, 2, 0, now_ms=10)
        partition.append_records_to_leader(batch(b"a"), 1, 11)
        assert log.high_watermark == 1

    def test_a_followers_high_watermark_is_the_leaders_within_its_log_and_may_decrease(self) -> None:
        log = ModelLog()
        partition = a_partition(broker_id=2)
        partition.make_follower(registration(), log)
        source = ModelLog()
        source.append_as_leader(batch(b"a", b"b"), 0)
        partition.append_records_to_follower(memoryview(source.batches[0]), 0)
        assert partition.update_follower_offsets(9, 0)
        assert log.high_watermark == 2
        assert partition.update_follower_offsets(1, 0)
        assert log.high_watermark == 1
        assert not partition.update_follower_offsets(1, 0)


class TestListeners:
    def test_they_hear_of_leadership_high_watermark_and_the_end(self) -> None:
        log = ModelLog()
        partition = a_partition()
        noted = Noted()
        assert not partition.add_listener(noted), "there is no replica yet"
        partition.make_leader(registration(isr=(1,), replicas=(1,)), log, 0)
        assert partition.add_listener(noted)
        partition.append_records_to_leader(batch(b"a"), 1, 0)
        partition.make_follower(registration(leader=2, leader_epoch=1, partition_epoch=1), log)
        partition.make_leader(registration(leader_epoch=2, partition_epoch=2), log, 0)
        partition.delete()
        assert noted.heard == [
            ("high watermark", KEY, 1),
            ("follower", KEY, 1),
            ("leader", KEY, 2),
            ("deleted", KEY),
        ]

    def test_a_failed_log_is_the_last_they_hear(self) -> None:
        partition = a_partition()
        partition.make_leader(registration(), ModelLog(), 0)
        noted = Noted()
        partition.add_listener(noted)
        partition.mark_offline()
        partition.delete()
        assert noted.heard == [("failed", KEY)]

    def test_a_removed_listener_is_not_called(self) -> None:
        partition = a_partition()
        partition.make_leader(registration(isr=(1,), replicas=(1,)), ModelLog(), 0)
        noted = Noted()
        partition.add_listener(noted)
        partition.remove_listener(noted)
        partition.append_records_to_leader(batch(b"a"), 1, 0)
        assert noted.heard == []


def test_a_follower_whose_empty_log_starts_inside_a_batch_takes_the_whole_batch() -> None:
    """DeleteRecords moved the leader's start into the middle of a batch; the follower was reset to that start."""
    source = ModelLog()
    source.append_as_leader(batch(b"a", b"b", b"c"), 0)
    log = ModelLog()
    log.truncate_fully_and_start_at(1)
    partition = a_partition(broker_id=2)
    partition.make_follower(registration(), log)
    partition.append_records_to_follower(memoryview(source.batches[0]), 0)
    partition.update_follower_offsets(3, 1)
    assert (log.log_start_offset, log.log_end_offset, log.high_watermark) == (1, 3, 3)


def test_under_replication_does_not_count_replicas_that_are_being_added() -> None:
    partition = a_partition()
    log = ModelLog()
    partition.make_leader(registration(isr=(1, 2), replicas=(1, 2, 3), adding=(3,)), log, 0)
    assert not is_under_replicated(partition)
    partition.make_leader(registration(isr=(1,), replicas=(1, 2, 3), adding=(3,), partition_epoch=1), log, 0)
    assert is_under_replicated(partition)
