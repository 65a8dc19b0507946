"""Contradictions in a log: offsets with two values, duplicates, aborted reads, values from nowhere."""

from kvorum.chaos.history import Fail, Info, Ok
from tests.unit.chaos.checker.history_kit import History, P


def test_a_plain_history_is_valid_and_holes_are_no_gaps() -> None:
    history = History().created().send(1, 0).send(2, 2).send(3, 7)  # control records lie between
    history.poll((0, 1), (2, 2), (7, 3)).final((0, 1), (2, 2), (7, 3))
    verdict = history.check()
    assert verdict.valid and not verdict.explained
    assert verdict.figures.acked == 3 and verdict.figures.final_reads


def test_two_polls_that_see_different_values_at_one_offset() -> None:
    history = History().created().send(1, 0).send_info(2).send_info(3, process=2)
    history.poll((0, 1), (1, 2), process=8).poll((0, 1), (1, 3), process=9)
    verdict = history.check()
    assert [v.anomaly for v in verdict.violations] == ["inconsistent-offsets"]
    assert verdict.violations[0].partition == P and "offset 1 has 2 values: 2, 3" in verdict.violations[0].reason


def test_a_failed_poll_counts_as_evidence_too() -> None:
    history = History().send(1, 0).send(2, 1).poll((0, 2), kind=Fail)
    assert "inconsistent-offsets" in history.anomalies()


def test_an_offset_acknowledged_to_two_sends() -> None:
    history = History().created()
    one, two = history.begin(1, "send", [["send", P, 1]]), history.begin(2, "send", [["send", P, 2]])
    history.end(one, Ok, [["send", P, 1, 5]]).end(two, Ok, [["send", P, 2, 5]])
    assert history.anomalies() == ["acked-twice", "inconsistent-offsets"]


def test_the_offset_of_an_unknown_outcome_counts_only_once_it_must_have_committed() -> None:
    history = History().send(1, 0)
    op = history.begin(2, "send", [["send", P, 2]])
    history.end(op, Info, [["send", P, 2, 0]])
    assert history.anomalies() == []
    history.poll((0, 2))
    assert "inconsistent-offsets" in history.anomalies()


def test_a_value_at_two_offsets() -> None:
    history = History().created().send(1, 0).poll((0, 1), (1, 1)).final((0, 1), (1, 1))
    verdict = history.check()
    assert [v.anomaly for v in verdict.violations] == ["duplicate"]
    assert verdict.violations[0].values == [1] and verdict.figures.duplicated == 1


def test_a_value_polled_where_it_was_not_acknowledged() -> None:
    assert "duplicate" in History().send(1, 0).poll((3, 1)).anomalies()


def test_a_producer_without_idempotence_may_duplicate() -> None:
    history = History().created().process(1, idempotent=False).send(1, 1).poll((0, 1), (1, 1))
    assert history.excused() == ["duplicate"]
    assert history.check().figures.duplicated == 1


def test_one_value_polled_by_many_at_one_offset_is_no_duplicate() -> None:
    history = History().send(1, 0).poll((0, 1), process=7).poll((0, 1), process=8).poll((0, 1), kind=Info)
    assert history.anomalies() == []


def test_a_refused_value_that_is_polled() -> None:
    verdict = History().send(1, 0).send_fail(2).poll((0, 1), (1, 2)).check()
    assert [v.anomaly for v in verdict.violations] == ["aborted-read"]
    assert any("failed: NOT_ENOUGH_REPLICAS" in sentence for sentence in verdict.violations[0].story)


def test_a_refused_value_that_only_a_failed_poll_returned_is_no_aborted_read() -> None:
    assert "aborted-read" not in History().send_fail(2).poll((0, 2), kind=Fail).anomalies()


def test_an_aborted_transaction_may_be_seen_at_read_uncommitted_only() -> None:
    aborted = [["send", P, 4, 1]]
    seen = History().process(9, isolation="read_uncommitted").send(3, 0).txn(aborted, kind=Fail).poll((0, 3), (1, 4))
    assert seen.anomalies() == []
    seen = History().process(9, isolation="read_committed").send(3, 0).txn(aborted, kind=Fail).poll((0, 3), (1, 4))
    assert seen.anomalies() == ["aborted-read"]


def test_a_transaction_that_ended_by_its_own_abort_must_not_be_seen() -> None:
    history = History().txn([["send", P, 4, 1]], kind=Ok, committed=False).poll((1, 4))
    assert history.anomalies() == ["aborted-read"]


def test_aborted_records_are_gaps_at_read_committed() -> None:
    history = (
        History().process(8, isolation="read_uncommitted").send(1, 0).txn([["send", P, 4, 1]], kind=Fail).send(2, 3)
    )
    history.poll((0, 1), (1, 4), (3, 2), process=8).poll((0, 1), (3, 2), process=9).final((0, 1), (3, 2))
    assert history.anomalies() == []


def test_a_value_that_was_never_sent() -> None:
    verdict = History().send(1, 0).poll((0, 1), (1, 77)).check()
    assert [(v.anomaly, v.values) for v in verdict.violations] == [("unknown-value", [77])]


def test_the_value_of_an_operation_without_completion_is_known() -> None:
    history = History().send(1, 0)
    history.begin(2, "send", [["send", P, 2]])
    assert history.poll((0, 1), (1, 2)).final((0, 1), (1, 2)).anomalies() == []


def test_two_records_of_one_leader_epoch_at_one_offset_are_never_legal() -> None:
    history = History(unclean=True).created(isr=(1,)).send(1, 0).send(2, 1).poll((0, 1, 0), (1, 2, 0), process=8)
    history.change(leader=2, isr=[2], leader_recovery_state=1).send(3, 1)
    assert "inconsistent-offsets" in history.poll((1, 3, 0), process=7).anomalies()


def test_after_an_unclean_election_an_offset_may_hold_another_value() -> None:
    history = History(unclean=True).created(isr=(1,)).send(1, 0).send(2, 1).poll((0, 1, 0), (1, 2, 0), process=8)
    history.change(leader=2, isr=[2], leader_recovery_state=1).send(3, 1).final((0, 1, 0), (1, 3, 1))
    assert set(history.excused()) == {
        "acked-twice",
        "inconsistent-offsets",
        "lost-write",
        "nonmonotonic-send",
        "realtime-order",
    }
