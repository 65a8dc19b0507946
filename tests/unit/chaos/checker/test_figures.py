"""The figures: counts, gaps, waits, lag, faults."""

import pytest

from kvorum.chaos.checker.pace import BUCKETS_MAX, WIDTH_MIN, PaceCounter
from kvorum.chaos.checker.verdict import FaultFigures
from kvorum.chaos.history import Finish, Invoke, Ok
from kvorum.chaos.report.gaps import Gap, worst_gap
from tests.unit.chaos.checker.history_kit import History, P


def test_counts() -> None:
    history = History().process(1, client="one").process(9, client="two")
    history.send(1, 0).send_info(2).send_fail(3).poll((0, 1)).final((0, 1))
    figures = history.check().figures
    assert figures.operations == {
        "assign": {"ok": 1},
        "poll": {"ok": 2},
        "send": {"ok": 1, "info": 1, "fail": 1},
    }
    assert figures.clients == {"one": {"ok": 1, "info": 1, "fail": 1}, "two": {"ok": 1}, "unknown": {"ok": 2}}
    assert figures.errors == {"REQUEST_TIMED_OUT": 1, "NOT_ENOUGH_REPLICAS": 1}
    assert (figures.sends, figures.acked, figures.records_read, figures.lost) == (3, 1, 2, 0)


def test_how_operations_ended_over_time() -> None:
    pace = History().send(1, 0).wait(2).send_info(2).wait(1).send_fail(3).check().figures.pace
    assert pace is not None and len(pace.ok) == len(pace.fail) == len(pace.info)
    assert [pace.ok.index(1), pace.info.index(1), pace.fail.index(1)] == [
        pytest.approx(t / pace.width, abs=1) for t in (0.2, 2.4, 3.6)
    ]


def test_a_long_run_has_wider_buckets_with_the_same_total() -> None:
    paced = PaceCounter()
    for second in range(1_000):
        paced.take(float(second), "ok")
    paced.take(0.0, "fail")  # what comes late is counted where it belongs
    pace = paced.pace()
    assert pace.width > WIDTH_MIN and 1_000 / pace.width <= BUCKETS_MAX
    assert sum(pace.ok) == 1_000 and pace.fail[0] == 1 and len(pace.ok) == len(pace.fail) == len(pace.info)
    assert max(pace.ok) <= pace.width + 1, "each in its own time"


def test_the_longest_gap_between_acknowledgements() -> None:
    history = History().send(1, 0)  # answered at 0.2
    history.send(1, 0, at="orders-1").wait(3).send(2, 1, at="orders-1").wait(1).send(2, 1)
    figures = history.check().figures
    assert figures.longest_gap == pytest.approx(3.2) and figures.longest_gap_at == pytest.approx(0.4)
    assert figures.partitions[P].longest_gap == pytest.approx(4.6)
    assert figures.partitions["orders-1"].longest_gap == pytest.approx(3.2)


def test_sends_without_responses_are_a_gap() -> None:
    history = History().send(1, 0).wait(5).send_info(2)
    assert history.check().figures.longest_gap == pytest.approx(5.1)


def test_a_quiet_producer_is_no_unavailability() -> None:
    figures = History().send(1, 0).wait(5).send(2, 1).check().figures
    assert figures.partitions[P].longest_gap == pytest.approx(5.2)
    assert figures.partitions[P].unavailable == pytest.approx(0.1)


def test_a_clients_way_to_its_first_acknowledgement_is_no_unavailability() -> None:
    history = History()
    first = history.begin(1, "send", [["send", P, 1]])
    history.wait(2).end(first, Ok, [["send", P, 1, 0]]).send(2, 1)
    assert history.check().figures.partitions[P].unavailable == pytest.approx(0.1)


def test_the_start_of_two_concurrent_clients_is_no_gap() -> None:
    history = History()
    first = history.begin(1, "send", [["send", P, 1]])
    second = history.begin(2, "send", [["send", P, 2]])
    history.wait(2).end(second, Ok, [["send", P, 2, 0]]).end(first, Ok, [["send", P, 1, 1]])
    assert history.check().figures.partitions[P].unavailable < 1


def test_but_one_that_never_gets_there_was_let_down_all_the_time() -> None:
    history = History().send(1, 0, at="orders-1")
    history.begin(2, "send", [["send", P, 1]])
    history.wait(8).poll((0, 1), at="orders-1")
    assert history.check().figures.partitions[P].unavailable > 8


def test_a_client_that_starts_during_unavailability_waits_with_the_partition() -> None:
    history = History().send(1, 0)
    late = history.begin(2, "send", [["send", P, 2]])
    history.wait(3).end(late, Ok, [["send", P, 2, 1]])
    assert history.check().figures.partitions[P].unavailable > 3


def test_refused_and_unknown_sends_are_waiting() -> None:
    history = History().send(1, 0).wait(5).send_fail(2).wait(1).send_info(3).wait(1).send(4, 1)
    assert history.check().figures.partitions[P].unavailable == pytest.approx(2.5)


def test_a_send_that_hangs_to_the_end_is_waiting() -> None:
    history = History().send(1, 0)
    history.begin(1, "send", [["send", P, 2]])
    history.wait(8).poll((0, 1))
    assert history.check().figures.partitions[P].unavailable == pytest.approx(8.2)


def test_a_fault_and_its_unavailability() -> None:
    history = History().send(1, 0)
    hanging = history.begin(1, "send", [["send", P, 2]])
    history.fault("kill", "node-1", seconds=2)  # 0.4 to 2.5
    history.end(hanging, Ok, [["send", P, 2, 1]]).send(3, 2)  # answered at 2.6 and 2.8
    figures = history.check().figures
    (fault,) = figures.faults
    assert (fault.fault, fault.targets, fault.begin, fault.end) == ("kill", ["node-1"], 0.4, 2.5)
    assert fault.first_ack == pytest.approx(2.4)  # the send that hung had begun before
    assert fault.unavailable == pytest.approx(2.2) and fault.unavailable_partition == P
    assert figures.faults_by_kind == {"kill": 1}


def test_a_fault_that_costs_nothing() -> None:
    figures = History().send(1, 0).fault("kill", "node-3", seconds=2).send(2, 1).check().figures
    assert figures.faults[0].unavailable == 0.0


def test_real_time_lag_is_how_long_a_record_was_known_before_a_poll_that_misses_it() -> None:
    history = History().send(1, 0).send(2, 1)  # known at 0.2 and 0.4
    history.poll((0, 1)).wait(2).poll().poll((1, 2)).poll()
    verdict = history.check()
    # The first poll, from 0.5, missed what had been known since 0.4; the second, from 2.7, did so as well.
    assert verdict.figures.lag_max == pytest.approx(2.3)
    assert verdict.figures.lag_by_process == {9: pytest.approx(2.3)}
    assert verdict.figures.partitions[P].lag_max == pytest.approx(2.3)


def test_a_consumer_that_sees_everything_has_no_lag() -> None:
    assert History().send(1, 0).poll((0, 1)).send(2, 1).poll((1, 2)).poll().check().figures.lag_max == 0.0


def test_the_duration_goes_from_the_first_event_to_the_last() -> None:
    history = History().send(1, 0).wait(9)
    history.events.append(Finish(t=history.tick()))
    assert history.check().figures.duration == pytest.approx(9.3)


def test_a_completion_without_invocation_is_taken() -> None:
    history = History().send(1, 0).send(2, 1).poll((0, 1), (1, 2))
    history.events = [event for event in history.events if not isinstance(event, Invoke)]
    verdict = history.check()
    assert verdict.valid and verdict.figures.acked == 2


def test_an_empty_history() -> None:
    history = History()
    history.events.clear()
    assert history.check().valid


def test_the_worst_gap_is_one_under_a_fault_and_not_the_cold_start() -> None:
    history = History().send(1, 0)
    slow = history.begin(1, "send", [["send", P, 2]])
    history.wait(3).end(slow, Ok, [["send", P, 2, 1]])  # no fault yet
    figures = history.check().figures
    assert figures.partitions[P].unavailable > 3 and worst_gap(figures) == Gap(None, 0.0, 0.0)
    figures.faults = [
        FaultFigures(id=1, fault="kill", targets=["node-1"], begin=6.0, unavailable=0.2, unavailable_partition="a-0"),
        FaultFigures(
            id=2,
            fault="kill",
            targets=["node-2"],
            begin=9.0,
            unavailable=0.4,
            unavailable_partition=P,
            unavailable_at=9.1,
        ),
    ]
    assert worst_gap(figures) == Gap(P, 0.4, 9.1)
