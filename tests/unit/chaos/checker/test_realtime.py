"""Appends in the order of time, whole transactions, and circular information flow."""

from hypothesis import given
from hypothesis import strategies as st

from kvorum.chaos.checker.cycles import knots
from kvorum.chaos.history import Info, Ok
from tests.unit.chaos.checker.history_kit import History, P


def test_a_send_must_follow_records_acknowledged_before_its_begin() -> None:
    verdict = History().created().send(1, 5, process=1).send(2, 4, process=2).check()
    assert [(v.anomaly, v.values) for v in verdict.violations] == [("realtime-order", [2])]


def test_sends_that_overlap_may_lie_in_any_order() -> None:
    history = History()
    one, two = history.begin(1, "send", [["send", P, 1]]), history.begin(2, "send", [["send", P, 2]])
    assert history.end(one, Ok, [["send", P, 1, 5]]).end(two, Ok, [["send", P, 2, 4]]).anomalies() == []


def test_an_unknown_outcome_before_an_acknowledged_record() -> None:
    history = History().send(1, 5).send_info(2, process=2).poll((4, 2), (5, 1))
    assert history.anomalies() == ["realtime-order"]


def test_an_unknown_outcome_may_land_late() -> None:
    assert History().send_info(2, process=2).send(1, 0).send(3, 2).poll((0, 1), (1, 2), (2, 3)).anomalies() == []


def test_polled_records_also_define_the_order() -> None:
    history = History().created().send_info(1, process=1).poll((3, 1)).send(2, 2, process=2).poll((2, 2), process=8)
    assert history.anomalies() == ["realtime-order"]


def test_order_across_an_unclean_election_is_explained() -> None:
    history = History(unclean=True).created(isr=(1,)).send(1, 0).send(2, 1, process=1)
    history.change(leader=2, isr=[2], leader_recovery_state=1).send(3, 1, process=2).final((0, 1), (1, 3))
    assert "realtime-order" in history.excused()


def test_a_read_record_may_be_resent_after_a_truncation() -> None:
    """Value 3 is read behind 1 and 2 before it is told; an unclean election cuts 2 and 3 off, and the retry takes 1."""

    def run(*, elected: bool) -> History:
        history = History(unclean=True, min_isr=1).created(isr=(1,)).send(1, 0).send(2, 1)
        op = history.begin(2, "send", [["send", P, 3]])
        history.poll((0, 1), (1, 2), (2, 3)).wait(5)
        if elected:
            history.change(leader=2, isr=[2], leader_recovery_state=1)
        return history.wait(5).end(op, Ok, [["send", P, 3, 1]]).final((0, 1), (1, 3))

    assert "realtime-order" not in run(elected=True).anomalies()
    assert "realtime-order" in run(elected=True).excused()
    assert "realtime-order" in run(elected=False).anomalies()


def test_a_committed_transaction_must_be_visible_whole() -> None:
    history = History().created().txn([["send", P, 1, 0], ["send", "orders-1", 2, 0]])
    history.send(3, 1, at="orders-1").final((0, 1)).final((1, 3), at="orders-1")
    verdict = history.check()
    assert sorted(v.anomaly for v in verdict.violations) == ["lost-write", "torn-transaction"]
    assert next(v for v in verdict.violations if v.anomaly == "torn-transaction").values == [2]


def test_a_transaction_of_unknown_outcome_is_visible_whole_or_not_at_all() -> None:
    def run(*second: tuple[int, int]) -> History:
        history = History().txn([["send", P, 1], ["send", "orders-1", 2]], kind=Info, committed=None)
        return history.send(3, 1, at="orders-1").final((0, 1)).final(*second, at="orders-1")

    assert run((0, 2), (1, 3)).anomalies() == []
    assert run((1, 3)).anomalies() == ["torn-transaction"]


def test_an_invisible_transaction_of_unknown_outcome_is_legal() -> None:
    history = History().txn([["send", P, 1], ["send", P, 2]], kind=Info, committed=None).send(3, 3)
    assert history.final((3, 3)).anomalies() == []


def test_one_visible_value_makes_the_others_of_an_unknown_transaction_lost() -> None:
    history = History().txn([["send", P, 1, 0], ["send", P, 2, 1]], kind=Info, committed=None).send(3, 3)
    assert history.final((0, 1), (3, 3)).anomalies() == ["int-poll-skip", "lost-write", "torn-transaction"]


def test_two_transactions_that_read_each_other() -> None:
    history = History().created()
    one = history.begin(1, "txn", [["send", P, 1], ["poll"]])
    two = history.begin(2, "txn", [["send", "orders-1", 2], ["poll"]])
    history.end(one, Ok, [["send", P, 1, 0], ["poll", {"orders-1": [[0, 2]]}]], committed=True)
    history.end(two, Ok, [["send", "orders-1", 2, 0], ["poll", {P: [[0, 1]]}]], committed=True)
    verdict = history.check()
    assert [v.anomaly for v in verdict.violations] == ["G1c"]
    assert "polled value" in verdict.violations[0].reason


def test_a_poll_of_a_record_sent_later() -> None:
    history = History().created().poll((0, 1)).send(1, 0)
    verdict = history.check()
    assert [v.anomaly for v in verdict.violations] == ["realtime-order", "G1c-realtime"]
    assert "started after op" in verdict.violations[1].reason


def test_information_that_travels_back_in_time_through_a_third() -> None:
    """Op 1 polls what op 3 sends, op 3 begins after op 2, op 2 polls what op 1 sends: each overlaps its neighbour."""
    history = History().created()
    one = history.begin(1, "txn", [["send", P, 1], ["poll"]])
    two = history.begin(2, "poll", [["poll"]])
    history.end(two, Ok, [["poll", {P: [[0, 1]]}]])
    three = history.begin(3, "send", [["send", "orders-1", 3]])
    history.end(one, Ok, [["send", P, 1, 0], ["poll", {"orders-1": [[0, 3]]}]], committed=True)
    history.end(three, Ok, [["send", "orders-1", 3, 0]])
    assert history.anomalies() == ["G1c-realtime"]


def test_a_poll_that_waits_for_a_send_is_no_circle() -> None:
    history = History().created()
    poll = history.begin(9, "poll", [["poll"]])
    send = history.begin(1, "send", [["send", P, 1]])
    assert history.end(poll, Ok, [["poll", {P: [[0, 1]]}]]).end(send, Ok, [["send", P, 1, 0]]).anomalies() == []


def test_an_unknown_outcome_has_no_real_time_order() -> None:
    history = History().created().send_info(1).poll((0, 1)).send(2, 1, process=2).poll((1, 2))
    assert history.anomalies() == []


def test_transactions_whose_writes_interleave_are_allowed() -> None:
    history = History().created()
    one = history.begin(1, "txn", [["send", P, 1], ["send", "orders-1", 2]])
    two = history.begin(2, "txn", [["send", P, 3], ["send", "orders-1", 4]])
    history.end(one, Ok, [["send", P, 1, 0], ["send", "orders-1", 2, 1]], committed=True)
    history.end(two, Ok, [["send", P, 3, 1], ["send", "orders-1", 4, 0]], committed=True)
    assert history.anomalies() == []
    verdict = history.check(ww=True)
    assert verdict.valid and [e.anomaly for e in verdict.explained] == ["G0"]


def test_reading_uncommitted_transactions_may_go_in_circles() -> None:
    history = History().process(1, isolation="read_uncommitted").process(2, isolation="read_uncommitted")
    one = history.begin(1, "txn", [["send", P, 1], ["poll"]])
    two = history.begin(2, "txn", [["send", "orders-1", 2], ["poll"]])
    history.end(one, Ok, [["send", P, 1, 0], ["poll", {"orders-1": [[0, 2]]}]], committed=True)
    history.end(two, Ok, [["send", "orders-1", 2, 0], ["poll", {P: [[0, 1]]}]], committed=True)
    assert history.anomalies() == []


@given(st.lists(st.lists(st.integers(0, 11), max_size=3), min_size=12, max_size=12))
def test_knots_are_the_nodes_that_reach_each_other(targets: list[list[int]]) -> None:
    reached = [set(edges) for edges in targets]
    for _ in targets:
        for one in reached:
            one |= {node for middle in list(one) for node in reached[middle]}
    expected = {frozenset(b for b in range(12) if b == a or (b in reached[a] and a in reached[b])) for a in range(12)}
    assert {frozenset(knot) for knot in knots(targets)} == {knot for knot in expected if len(knot) > 1}


def test_two_knots_are_distinguished() -> None:
    history = History().created()
    for first in (1, 3):
        one = history.begin(first, "txn", [["send", P, first], ["poll"]])
        two = history.begin(first + 1, "txn", [["send", "orders-1", first + 1], ["poll"]])
        theirs, mine = [["poll", {"orders-1": [[first, first + 1]]}]], [["poll", {P: [[first, first]]}]]
        history.end(one, Ok, [["send", P, first, first], *theirs], committed=True)
        history.end(two, Ok, [["send", "orders-1", first + 1, first], *mine], committed=True)
    found = [v for v in history.check().violations if v.anomaly == "G1c"]
    assert sum(v.count for v in found) == 2
