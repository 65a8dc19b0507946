"""Transactions from outside: torn ones, open ones, what was made of what was read, and money."""

from kvorum.chaos.history import Info, OperationValue
from tests.unit.chaos.checker.history_kit import History

IN, OUT = "orders-0", "orders-1"


def copied(source: int, made: int, offset: int) -> OperationValue:
    """The steps of a transaction that makes one record of another."""
    return [["send", OUT, made, offset], ["copy", "G", IN, source, OUT, made]]


def with_inputs(count: int = 3) -> History:
    history = History()
    for value in range(1, count + 1):
        history.send(value, value - 1)
    return history


def read_back(history: History, *outputs: tuple[int, int], inputs: int = 3, committed: int | None = None) -> History:
    """Final reads of both partitions, and the group's committed offset."""
    history.final(*[(value - 1, value) for value in range(1, inputs + 1)], at=IN)
    history.final(*outputs, at=OUT, process=91)
    return history.fetch(committed, at=IN, final=True) if committed is not None else history


# --- open and torn ----------------------------------------------------------------------------------------------------


def test_a_value_read_while_its_transaction_was_open_is_found() -> None:
    history = History().process(9, isolation="read_committed")
    op = history.begin(5, "txn", [["send", IN, 1]])
    history.poll((0, 1))
    ended = history.wait(1).t
    ok = type(history.events[-1])
    assert history.end(op, ok, [["send", IN, 1, 0]], committed=True, ended=ended).anomalies() == ["open-read"]


def test_a_value_that_was_polled_before_its_transaction_was_written_down_is_found_too() -> None:
    history = History().process(9, isolation="read_committed").poll((0, 1))
    assert "open-read" in history.txn([["send", IN, 1, 0]], open_for=1.0).anomalies()


def test_read_uncommitted_may_see_open_transactions_and_read_committed_ended_ones() -> None:
    history = History().process(9, isolation="read_uncommitted")
    op = history.begin(5, "txn", [["send", IN, 1]])
    history.poll((0, 1))
    ended = history.wait(1).t
    history.process(8, isolation="read_committed").poll((0, 1), process=8)
    ok = type(history.events[-1])
    assert history.end(op, ok, [["send", IN, 1, 0]], committed=True, ended=ended).anomalies() == []


def test_a_transaction_of_unknown_outcome_goes_either_way_but_wholly() -> None:
    both: OperationValue = [["send", IN, 1], ["send", OUT, 1]]
    for kind in (Info,):
        whole = History().txn(both, kind=kind, committed=None).final((0, 1), at=IN).final((0, 1), at=OUT, process=91)
        none = History().txn(both, kind=kind, committed=None).final(at=IN).final(at=OUT, process=91)
        torn = History().txn(both, kind=kind, committed=None).final((0, 1), at=IN).final(at=OUT, process=91)
        assert whole.anomalies() == none.anomalies() == []
        assert "torn-transaction" in torn.anomalies()


def test_a_lost_record_of_a_committed_transaction_is_found() -> None:
    history = History().txn([["send", IN, 1, 0], ["send", OUT, 2, 0]]).final((0, 1), at=IN).final(at=OUT, process=91)
    assert "torn-transaction" in history.anomalies()
    history = History().txn([["send", IN, 1, 0]]).final((1, 5), at=IN).send(5, 1)
    assert "lost-write" in history.anomalies()


def test_an_aborted_transaction_that_shows_is_found() -> None:
    history = History().txn([["send", IN, 1, 0]], committed=False).final((0, 1), at=IN)
    assert history.anomalies() == ["aborted-read"]
    assert History().txn([["send", IN, 1, 0]], committed=False).final(at=IN).anomalies() == []


def test_a_last_stable_offset_that_stays_behind_is_found() -> None:
    assert History().stable(3, 5).anomalies() == ["hanging-transaction"]
    assert History().stable(3, 5).stable(5, 5).anomalies() == []


# --- read, process, write ---------------------------------------------------------------------------------------------


def test_one_output_per_input_is_legal() -> None:
    history = with_inputs().txn(copied(1, 101, 0)).txn(copied(2, 102, 2)).txn(copied(3, 103, 4))
    for offset in (1, 2, 3):
        history.commit(offset, at=IN)
    assert read_back(history, (0, 101), (2, 102), (4, 103), committed=3).anomalies() == []


def test_an_input_made_twice_is_found() -> None:
    history = with_inputs(1).txn(copied(1, 101, 0)).txn(copied(1, 102, 2))
    assert read_back(history, (0, 101), (2, 102), inputs=1).anomalies() == ["processed-twice"]


def test_an_attempt_that_was_aborted_does_not_count() -> None:
    history = with_inputs(1).txn(copied(1, 101, 0), committed=False).txn(copied(1, 102, 2)).commit(1, at=IN)
    assert read_back(history, (2, 102), inputs=1, committed=1).anomalies() == []


def test_an_attempt_of_unknown_outcome_counts_if_it_shows() -> None:
    history = with_inputs(1).txn(copied(1, 101, 0), kind=Info, committed=None).txn(copied(1, 102, 2))
    assert "processed-twice" in read_back(history, (0, 101), (2, 102), inputs=1).anomalies()
    history = with_inputs(1).txn(copied(1, 101, 0), kind=Info, committed=None).txn(copied(1, 102, 2))
    assert read_back(history, (2, 102), inputs=1).anomalies() == []


def test_an_input_that_is_committed_and_not_made_is_found() -> None:
    history = with_inputs().txn(copied(1, 101, 0)).txn(copied(3, 103, 4)).commit(3, at=IN)
    (found,) = read_back(history, (0, 101), (4, 103), committed=3).check().violations
    assert found.anomaly == "never-processed" and found.values == [2]


def test_records_beyond_the_committed_offset_are_not_due_yet() -> None:
    history = with_inputs().txn(copied(1, 101, 0)).commit(1, at=IN)
    assert read_back(history, (0, 101), committed=1).anomalies() == []


def test_outputs_in_another_order_are_found() -> None:
    history = with_inputs(2).txn(copied(2, 102, 0)).txn(copied(1, 101, 2))
    assert read_back(history, (0, 102), (2, 101), inputs=2).anomalies() == ["copy-order"]


# --- money ------------------------------------------------------------------------------------------------------------


def transfer(amount: int, debit: tuple[int, int], credit: tuple[int, int]) -> OperationValue:
    return [
        ["send", IN, *debit],
        ["send", OUT, *credit],
        ["amount", IN, debit[0], -amount],
        ["amount", OUT, credit[0], amount],
    ]


def test_money_that_appears_or_vanishes_is_found() -> None:
    history = History().txn(transfer(7, (1, 0), (2, 0))).txn(transfer(5, (3, 2), (4, 2)), kind=Info, committed=None)
    history.final((0, 1), (2, 3), at=IN).final((0, 2), at=OUT, process=91)
    assert "bank-sum" in history.anomalies()


def test_complete_or_missing_transfers_keep_the_sum() -> None:
    history = History().txn(transfer(7, (1, 0), (2, 0))).txn(transfer(5, (3, 2), (4, 2)), committed=False)
    history.txn(transfer(9, (5, 4), (6, 4)), kind=Info, committed=None)
    assert history.final((0, 1), at=IN).final((0, 2), at=OUT, process=91).anomalies() == []


def test_the_sum_of_an_incomplete_read_is_not_judged() -> None:
    history = History().txn(transfer(7, (1, 0), (2, 0))).final((0, 1), at=IN)
    assert "bank-sum" not in history.anomalies()
