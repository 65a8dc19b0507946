"""What one process sees and sends in order: every rule, and what is allowed beside it."""

import pytest

from kvorum.chaos.history import Fail, Info, Ok
from tests.unit.chaos.checker.history_kit import History, P


def three() -> History:
    return History().created().send(1, 0).send(2, 1).send(3, 2)


def test_a_poll_that_skips_a_record_between_two_polls() -> None:
    history = three().poll((0, 1)).poll((2, 3)).poll((1, 2), process=8)
    verdict = history.check()
    assert [(v.anomaly, v.values) for v in verdict.violations] == [("poll-skip", [2])]
    assert any("process 9 continues with offset 2" in sentence for sentence in verdict.violations[0].story)


def test_a_poll_that_skips_a_record_within() -> None:
    assert three().poll((0, 1), (2, 3)).poll((1, 2), process=8).anomalies() == ["int-poll-skip"]


def test_a_skip_is_seen_even_if_the_record_shows_only_later() -> None:
    history = History().created().send(1, 0).send_info(2).send(3, 2).poll((0, 1), (2, 3))
    assert history.anomalies() == []  # offset 1 may be a control record
    assert history.poll((1, 2), process=8).anomalies() == ["int-poll-skip"]


def test_a_poll_that_goes_back() -> None:
    assert three().poll((0, 1), (1, 2)).poll((0, 1), (1, 2), (2, 3)).anomalies() == ["nonmonotonic-poll"]
    assert three().poll((0, 1), (1, 2)).poll((1, 2), (2, 3)).anomalies() == ["nonmonotonic-poll"]
    assert three().poll((0, 1), (2, 3), (1, 2)).anomalies() == ["int-nonmonotonic-poll", "int-poll-skip"]


def test_assign_keeps_the_positions_of_remaining_partitions_only() -> None:
    kept = three().assign(P).poll((0, 1), (1, 2)).assign(P, "orders-1").poll((0, 1))
    assert kept.anomalies() == ["nonmonotonic-poll"]
    forgotten = three().assign(P).poll((0, 1), (1, 2)).assign("orders-1").assign(P).poll((0, 1), (1, 2), (2, 3))
    assert forgotten.anomalies() == []


def test_assign_with_a_seek_starts_over() -> None:
    assert three().poll((0, 1), (1, 2)).assign(P, from_start=True).poll((0, 1), (1, 2), (2, 3)).anomalies() == []


def test_an_assign_of_unknown_outcome_forgets_and_a_refused_one_does_not() -> None:
    for kind, expected in ((Info, []), (Fail, ["nonmonotonic-poll"])):
        history = three().poll((0, 1), (1, 2))
        history.end(history.begin(9, "assign", ["orders-1"]), kind, ["orders-1"])
        assert history.poll((0, 1)).anomalies() == expected


@pytest.mark.parametrize("kind", [Fail, Info])
def test_a_poll_that_did_not_succeed_must_be_repeated(kind: type[Fail | Info]) -> None:
    rewound = three().poll((0, 1)).poll((1, 2), kind=kind).poll((1, 2), (2, 3))
    assert rewound.anomalies() == []
    went_on = three().poll((0, 1)).poll((1, 2), kind=kind).poll((2, 3)).poll((1, 2), process=8)
    assert went_on.anomalies() == ["poll-skip"]


def test_a_poll_that_did_not_succeed_is_still_compared() -> None:
    assert three().poll((0, 1), (1, 2)).poll((0, 1), kind=Fail).anomalies() == ["nonmonotonic-poll"]


def test_a_failed_transaction_must_rewind() -> None:
    aborted = [["poll", {P: [[1, 2]]}], ["send", "orders-1", 50, 0]]
    rewound = three().poll((0, 1), process=5).txn(aborted, kind=Fail).poll((1, 2), process=5)
    assert rewound.anomalies() == []
    went_on = three().poll((0, 1), process=5).txn(aborted, kind=Fail).poll((2, 3), process=5).poll((1, 2), process=8)
    assert went_on.anomalies() == ["poll-skip"]


def test_a_transaction_that_polls_twice_is_compared_within() -> None:
    history = three().txn([["poll", {P: [[0, 1]]}], ["poll", {P: [[2, 3]]}]]).poll((1, 2), process=8)
    assert history.anomalies() == ["int-poll-skip"]


def test_a_subscriber_may_skip_and_go_back_across_a_rebalance() -> None:
    history = three().subscribe(P).poll((0, 1)).poll((2, 3)).poll((1, 2), (2, 3)).check()
    assert history.valid
    assert history.figures.allowed == {"poll-skip": 1, "nonmonotonic-poll": 1}


def test_a_rebalance_within_a_poll_excuses_the_partitions_it_moved() -> None:
    assert three().poll((0, 1), (2, 3), rebalance=True).poll((1, 2), process=8).anomalies() == []


def test_places_are_those_of_a_process_and_a_partition() -> None:
    history = three().send(1, 0, at="orders-1").poll((0, 1), (1, 2)).poll((0, 1), process=8)
    assert history.poll((0, 1), at="orders-1").anomalies() == []


def test_after_an_unclean_election_a_reader_may_go_back() -> None:
    history = History(unclean=True).created(isr=(1,)).send(1, 0).send(2, 1).poll((0, 1), (1, 2))
    history.change(leader=2, isr=[2], leader_recovery_state=1).poll((0, 1))
    assert history.excused() == ["nonmonotonic-poll"]


def test_an_unclean_election_of_another_partition_excuses_nothing() -> None:
    history = History(unclean=True).created(isr=(1,)).created(partition=1).send(1, 0).send(2, 1).poll((0, 1), (1, 2))
    history.change(partition=1, leader=2, isr=[2], leader_recovery_state=1).poll((0, 1))
    assert history.anomalies() == ["nonmonotonic-poll"]


def test_sends_that_lie_in_another_order() -> None:
    history = History().created()
    one = history.begin(1, "send", [["send", P, 1]])
    two = history.begin(1, "send", [["send", P, 2]])
    history.end(two, Ok, [["send", P, 2, 0]]).end(one, Ok, [["send", P, 1, 1]])
    verdict = history.check()
    assert [(v.anomaly, v.values) for v in verdict.violations] == [("nonmonotonic-send", [2])]
    assert verdict.figures.reordered == 1


def test_a_send_of_unknown_outcome_keeps_its_place_in_the_order() -> None:
    history = History().created().send_info(1).send(2, 0).poll((0, 2), (1, 1))
    assert history.anomalies() == ["nonmonotonic-send"]


def test_without_idempotence_a_send_that_was_still_under_way_may_be_overtaken() -> None:
    history = History().created().process(1, idempotent=False).send_info(1).send(2, 0).poll((0, 2), (1, 1))
    assert history.excused() == ["nonmonotonic-send"]


def test_without_idempotence_an_answered_send_may_not_be_overtaken() -> None:
    history = History().created().process(1, idempotent=False).send(1, 5).send(2, 4)
    assert "nonmonotonic-send" in history.anomalies()


def test_sends_of_one_transaction_in_another_order() -> None:
    history = History().created().txn([["send", P, 1, 3], ["send", P, 2, 2]])
    assert history.anomalies() == ["int-nonmonotonic-send"]


def test_others_may_write_between_two_sends() -> None:
    verdict = History().txn([["send", P, 1, 0], ["send", P, 2, 5]]).send(3, 9).send(4, 12).check()
    assert verdict.valid
    assert verdict.figures.allowed == {"int-send-skip": 1, "send-skip": 1}


def test_refused_sends_have_no_order() -> None:
    assert History().send(1, 3).send_fail(2).send(3, 4).anomalies() == []


def test_assign_discards_the_send_order_of_removed_partitions() -> None:
    history = History()
    one = history.begin(1, "send", [["send", P, 1]])
    history.assign("orders-1", process=1)
    two = history.begin(1, "send", [["send", P, 2]])
    history.end(one, Ok, [["send", P, 1, 1]]).end(two, Ok, [["send", P, 2, 0]])
    assert history.anomalies() == []


def test_a_transaction_that_polls_its_own_values() -> None:
    steps = [["send", P, 1, 0], ["poll", {P: [[0, 1]]}]]
    assert History().txn(steps).anomalies() == ["precommitted-read"]
    uncommitted = History().process(5, isolation="read_uncommitted").txn(steps).check()
    assert uncommitted.valid and uncommitted.figures.allowed == {"precommitted-read": 1}
