"""Expectations held against events that are made by hand: ISR changes, late answers."""

import pytest

from kvorum.chaos.history import AnyEvent, Fail, Info, Invoke, Metadata, Ok, Process
from kvorum.chaos.scenario.event_rules import failed_event_rules, needs_events
from kvorum.chaos.scenario.models import Expectation, LateAnswers
from kvorum.chaos.workload.libraries import CHANNEL, CONFLUENT


def isrs(*found: list[int] | None) -> list[AnyEvent]:
    """A topic's records: its partition with the first ISR, then a change to each other one (None: of the leader)."""
    place = {"topic_id": "T", "partition_id": 0}
    records: list[dict[str, object]] = [{"type": "Topic", "topic_id": "T", "name": "orders"}]
    for number, isr in enumerate(found):
        kind = "PartitionChange" if number else "Partition"
        records.append({"type": kind, **place, **({"leader": 2} if isr is None else {"isr": isr})})
    return [Metadata(t=float(n), offset=n, record=record) for n, record in enumerate(records)]


@pytest.mark.parametrize(
    ("found", "changes"),
    [
        ([[1, 2]], 0),
        ([[1, 2], [2, 1]], 0),
        ([[1, 2], None, [1], [1]], 1),
        ([[1, 2], [1], [1, 2], [1]], 3),
    ],
)
def test_an_isr_that_changes_too_often_is_reported(found: list[list[int] | None], changes: int) -> None:
    events = isrs(*found)
    assert failed_event_rules(Expectation(isr_changes_max={"orders-0": changes}), events) == []
    if changes:
        (line,) = failed_event_rules(Expectation(isr_changes_max={"orders-0": changes - 1}), events)
        assert line == f"the ISR of orders-0 changed {changes} times, the limit is {changes - 1}"


def answered(
    client: str, answer: type[Ok] | type[Fail] | type[Info], error: str | None, seconds: float
) -> list[AnyEvent]:
    return [
        Process(t=0, process=1, client=client),
        Invoke(t=1, op=1, process=1, f="send"),
        answer(t=1 + seconds, op=1, process=1, f="send", error=error),
    ]


@pytest.mark.parametrize(
    ("events", "counts"),
    [
        (answered(CHANNEL, Ok, None, 6), True),
        (answered(CHANNEL, Info, "NOT_LEADER_OR_FOLLOWER", 6), True),
        (answered(CHANNEL, Fail, "NOT_ENOUGH_REPLICAS", 6), True),
        (answered(CHANNEL, Ok, None, 4), False),
        (answered(CHANNEL, Info, "REQUEST_TIMED_OUT", 6), False),
        (answered(CHANNEL, Info, "NETWORK_EXCEPTION", 6), False),
        (answered(CONFLUENT, Ok, None, 6), False),
    ],
)
def test_only_a_brokers_answer_to_a_single_attempt_proves_a_late_request(events: list[AnyEvent], counts: bool) -> None:
    found = failed_event_rules(Expectation(late_answers=LateAnswers(after=5)), events)
    assert found == ([] if counts else ["0 sends took 5 s or more, expected at least 1"])


def test_a_history_is_read_again_only_for_such_expectations() -> None:
    assert not needs_events(Expectation())
    assert needs_events(Expectation(isr_changes_max={"orders-0": 1}))
    assert needs_events(Expectation(late_answers=LateAnswers(after=5)))
