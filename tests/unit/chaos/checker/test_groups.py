"""Groups: who owns what when, and what becomes of committed offsets; what breaks each rule and what does not."""

from kvorum.chaos.history import Fail, Fault, Info
from tests.unit.chaos.checker.history_kit import History, P

Q = "orders-1"


# --- owners -----------------------------------------------------------------------------------------------------------


def test_two_owners_at_a_time_are_found() -> None:
    history = History().owns(1, P, generation=1).owns(2, P, generation=2)
    (found,) = history.check().violations
    assert found.anomaly == "two-owners" and found.partition == P and "process 1" in found.reason


def test_a_member_informed_of_a_revocation_owns_the_partition_no_more() -> None:
    assert History().owns(1, P, Q).owns(1, Q).owns(2, P).anomalies() == []


def test_an_owner_keeps_its_remaining_partitions() -> None:
    assert History().owns(1, P, Q).owns(1, Q, generation=2).owns(2, P, Q).anomalies() == ["two-owners"]


def test_the_dead_own_nothing() -> None:
    history = History().owns(1, P)
    history.begin(1, "crash", [])
    assert history.owns(2, P).anomalies() == []


def test_a_zombie_whose_session_could_have_ended_is_no_owner() -> None:
    assert History().owns(1, P, session=5.0).wait(5.0).owns(2, P).anomalies() == []


def test_accepted_requests_of_an_owner_renew_its_session() -> None:
    history = History().owns(1, P, session=5.0).wait(3.0).commit(10, process=1).wait(3.0).owns(2, P)
    assert history.anomalies() == ["two-owners"]


def test_a_commit_by_a_transaction_or_in_a_group_of_the_consumer_protocol_keeps_no_session_alive() -> None:
    history = History().owns(1, P, session=5.0).wait(3.0).txn([["offset", "G", P, 4]], process=1).wait(3.0)
    assert history.owns(2, P).anomalies() == []
    history = History().owns(1, P, session=5.0, protocol="consumer").wait(3.0).commit(10, process=1).wait(3.0)
    assert history.owns(2, P, protocol="consumer").anomalies() == []


def test_a_reported_contact_keeps_a_session_alive() -> None:
    history = History().owns(1, P, session=5.0).wait(6.0)
    assert history.owns(1, P, session=5.0, contact=5.0).owns(2, P).anomalies() == ["two-owners"]


def test_a_rebalance_continues_without_an_owner_that_did_not_join() -> None:
    history = History().owns(1, P, session=9.0, rebalance=5.0).wait(3.0).commit(10, process=1).wait(2.0)
    assert history.owns(2, P).anomalies() == []
    history = History().owns(1, P, session=9.0, rebalance=5.0).wait(3.0).commit(10, process=1).wait(1.0)
    (found,) = history.owns(2, P).check().violations
    assert found.anomaly == "two-owners" and "a rebalance" in found.reason


def test_an_owner_without_a_rebalance_response_is_not_removed_for_one() -> None:
    history = History().owns(1, P, session=9.0, rebalance=5.0).wait(6.0)
    assert history.owns(1, P, session=9.0, rebalance=5.0, contact=6.0).owns(2, P).anomalies() == ["two-owners"]


def test_a_commit_of_unknown_outcome_proves_no_contact() -> None:
    history = History().owns(1, P, session=5.0).wait(3.0).commit(10, process=1, kind=Info).wait(3.0)
    assert history.owns(2, P).anomalies() == []


def test_another_with_its_instance_id_replaces_a_static_member() -> None:
    assert History().owns(1, P, instance="one").owns(2, P, instance="one").anomalies() == []
    assert History().owns(1, P, instance="one").owns(2, P, instance="two").anomalies() == ["two-owners"]


def test_groups_do_not_share_owners() -> None:
    history = History().owns(1, P)
    history.events.append(type(history.events[-1])(t=history.tick(), process=2, group="H", partitions=[P], session=5.0))
    assert history.anomalies() == []


def test_a_group_whose_offsets_topic_was_elected_uncleanly_may_have_forgotten() -> None:
    history = History()
    history.begin(7, "admin", ["elect-leaders-unclean", "__consumer_offsets-0"])
    history.metadata(type="Topic", name="__consumer_offsets", topic_id="O")
    state = {"topic_id": "O", "partition_id": 0}
    history.metadata(type="Partition", replicas=[1, 2, 3], isr=[1], leader=1, leader_epoch=0, **state)
    history.owns(1, P, generation=5)
    history.metadata(type="PartitionChange", isr=[2], leader=2, leader_recovery_state=1, **state)
    assert history.owns(2, P, generation=1).excused() == ["two-owners"]


def test_a_zombie_may_apply_an_earlier_assignment_late() -> None:
    history = History().owns(1, session=2.0, contact=0.0).wait(9)
    history.owns(2, P, contact=9.0).owns(1, P, session=2.0)
    assert history.anomalies() == []
    assert history.owns(3, P).anomalies() == ["two-owners"]  # with the one that was asked in time


def test_a_member_that_applies_an_assignment_in_time_is_no_zombie() -> None:
    history = History().owns(1, session=20.0, contact=0.0).wait(9)
    assert history.owns(2, P, contact=9.0).owns(1, P, session=20.0).anomalies() == ["two-owners"]


def moved_coordinator(session: float, *, cut_off: bool) -> History:
    """A member was heard by a coordinator in whose place another had been elected."""
    history = History()
    history.metadata(type="Topic", name="__consumer_offsets", topic_id="O")
    state = {"topic_id": "O", "partition_id": 0}
    history.metadata(type="Partition", replicas=[1, 2, 3], isr=[1, 2], leader=1, leader_epoch=0, **state)
    if cut_off:  # to the end
        history.events.append(Fault(t=history.tick(), fault="isolate", id=1, phase="begin", targets=["node-1"]))
    history.metadata(type="PartitionChange", isr=[2], leader=2, **state)
    elected = history.events[-1].t
    history.wait(1.0)
    history.owns(1, P, session=session, contact=elected + 1.0)
    return history.wait(1.5).owns(2, P)


def test_a_deposed_coordinator_that_was_cut_off_does_not_renew_a_session() -> None:
    assert moved_coordinator(2.0, cut_off=True).excused() == ["two-owners"]
    assert moved_coordinator(2.0, cut_off=False).anomalies() == ["two-owners"]  # it knew
    assert moved_coordinator(9.0, cut_off=True).anomalies() == ["two-owners"]  # the session of the new one goes on, too


# --- generations ------------------------------------------------------------------------------------------------------


def test_a_commit_of_a_generation_that_is_over_is_found() -> None:
    history = History().owns(1, P, generation=1).wait(9).owns(2, P, generation=2)
    assert history.commit(10, process=1, generation=1).anomalies() == ["stale-commit"]


def test_a_commit_that_was_refused_or_began_before_does_no_harm() -> None:
    history = History().owns(1, P, generation=1).wait(9)
    op = history.begin_commit(10, process=1)
    history.owns(2, P, generation=2)
    history.end(op, type(history.commit(9, process=3).events[-1]), [["offset", "G", P, 10]], generation=1)
    assert history.commit(11, process=1, generation=1, kind=Fail).anomalies() == []


def test_a_member_epoch_of_the_consumer_protocol_belongs_to_one_member() -> None:
    history = History().owns(1, P, generation=3, protocol="consumer").owns(2, Q, generation=7, protocol="consumer")
    assert history.commit(10, process=1, generation=3).anomalies() == []


def test_a_transaction_of_a_generation_that_is_over_is_found() -> None:
    history = History().owns(1, P, generation=1).wait(9).owns(2, P, generation=2)
    history.txn([["offset", "G", P, 4]], process=1, generation=1)
    assert history.anomalies() == ["stale-commit"]


# --- offsets ----------------------------------------------------------------------------------------------------------


def test_the_last_commit_is_fetched() -> None:
    assert History().fetch(-1).commit(5).fetch(5).commit(7).fetch(7).anomalies() == []


def test_an_acknowledged_commit_that_a_fetch_does_not_know_is_lost() -> None:
    assert History().commit(5).commit(7).fetch(5).anomalies() == ["offset-lost"]
    assert History().commit(5).fetch(-1).anomalies() == ["offset-lost"]


def test_a_commit_of_unknown_outcome_may_take_effect_at_any_time() -> None:
    assert History().commit(5).commit(7, kind=Info).fetch(5).fetch(7).anomalies() == []
    assert History().commit(5, kind=Info).commit(7).fetch(5).anomalies() == []


def test_a_fetch_that_began_before_the_commit_ended_may_miss_it() -> None:
    history = History().commit(5)
    commit = history.begin_commit(7)
    fetch = history.begin(6, "offsets", [["offset", "G", P]])
    history.end(commit, type(history.events[2]), [["offset", "G", P, 7]])
    assert history.end(fetch, type(history.events[2]), [["offset", "G", P, 5]]).anomalies() == []


def test_a_committed_offset_without_a_commit_is_found() -> None:
    assert History().commit(5).fetch(6).anomalies() == ["unknown-offset"]


def test_offsets_of_an_aborted_transaction_are_found() -> None:
    history = History().commit(5).txn([["offset", "G", P, 9]], committed=False)
    assert history.fetch(9).anomalies() == ["aborted-offset"]


def test_a_refused_commit_that_took_effect_is_found() -> None:
    assert History().commit(5).commit(6, kind=Fail).fetch(6).anomalies() == ["aborted-offset"]


def test_offsets_of_an_open_transaction_are_found() -> None:
    history = History().commit(5)
    op = history.begin(5, "txn", [["offset", "G", P, 9]])
    history.fetch(9)
    ended = history.wait(1).t
    ok = type(history.events[2])
    assert history.end(op, ok, [["offset", "G", P, 9]], committed=True, ended=ended).anomalies() == ["open-offset"]


def test_a_committed_transactions_offsets_are_commits_like_others() -> None:
    history = History().commit(5).txn([["offset", "G", P, 9]], open_for=1.0)
    assert history.fetch(9).anomalies() == []
    assert history.fetch(5).anomalies() == ["offset-lost"]


def test_offsets_of_a_transaction_of_unknown_outcome_may_show_or_not() -> None:
    for shown in (5, 9):
        history = History().commit(5).txn([["offset", "G", P, 9]], kind=Info, committed=None)
        assert history.fetch(shown).anomalies() == []


def test_an_operation_without_completion_may_have_committed() -> None:
    history = History().commit(5)
    history.begin_commit(8)
    assert history.fetch(8).anomalies() == []


def test_committed_offsets_that_go_back_are_found() -> None:
    assert History().commit(7).commit(5).anomalies() == ["offset-regression"]
    assert History().commit(7).txn([["offset", "G", P, 5]]).anomalies() == ["offset-regression"]


def test_commits_of_one_time_have_no_order() -> None:
    history = History()
    early = history.begin_commit(5)
    history.commit(7)
    assert history.end(early, type(history.events[-1]), [["offset", "G", P, 5]]).anomalies() == []


def test_an_explicit_reset_may_decrease_the_offset() -> None:
    assert History().commit(7).commit(0, reset=True).commit(3).fetch(3).anomalies() == []
    history = History().commit(7).commit(0, reset=True).commit(3).commit(2)
    assert history.anomalies() == ["offset-regression"]


def test_an_aborted_transaction_does_not_change_the_register() -> None:
    history = History().commit(5).txn([["offset", "G", P, 9]], committed=False).commit(7).fetch(7)
    assert history.anomalies() == []
