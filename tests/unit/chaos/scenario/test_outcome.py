"""Expectations held against verdicts that are made by hand."""

import pytest

from kvorum.chaos.checker import FaultFigures, Figures, PartitionFigures, Verdict, Violation
from kvorum.chaos.scenario.models import Expectation, Scenario, Step, Topic
from kvorum.chaos.scenario.outcome import Outcome, failed_expectations
from kvorum.chaos.scenario.schedule import Window
from kvorum.chaos.workload.recorder import AckedSend

EXPLAINED = Violation(anomaly="lost-write", partition="a-0", values=[1], count=1, story=[], reason="legal")


def scenario(**expect: object) -> Scenario:
    return Scenario(
        name="x", title="y", topics={"a": Topic(), "b": Topic()}, workload=(), expect=Expectation.model_validate(expect)
    )


def verdict(lost_a: int = 0, unavailable: float = 1.0, **more: object) -> Verdict:
    figures = Figures(
        acked=100,
        operations={"send": {"ok": 100, "info": 3, "fail": 2}},
        errors={"NOT_ENOUGH_REPLICAS": 2},
        lost=lost_a,
        partitions={"a-0": PartitionFigures(lost=lost_a, unavailable=unavailable), "b-0": PartitionFigures()},
        faults=[FaultFigures(id=1, fault="kill", targets=["n"], begin=5.0, end=8.0)],
    )
    return Verdict(violations=[], explained=[EXPLAINED] if lost_a else [], figures=figures)


ACKED = [AckedSend("a-0", t, t + 0.1, "all") for t in (1.0, 6.0, 7.0, 9.0)] + [AckedSend("b-0", 9.5, 9.6, "1")]


def lines(found: Verdict, windows: list[Window] | None = None, **expect: object) -> list[str]:
    return failed_expectations(scenario(**expect), found, ACKED, windows or [], True)


@pytest.mark.parametrize(
    ("expect", "lost", "reported"),
    [
        ({}, 0, None),
        ({"loss": "none"}, 3, "a: 3 acknowledged records are lost"),
        ({"loss": "explained"}, 3, None),
        ({"loss": "explained", "topics": {"a": "none"}}, 3, "a: 3 acknowledged"),
        ({"loss": "none", "topics": {"a*": "explained"}}, 3, None),
        ({"loss": "required"}, 0, "no acknowledged record was lost"),
        ({"loss": "required"}, 3, None),
        ({"loss": "none", "topics": {"a": "required"}}, 0, "a: no acknowledged record was lost"),
        ({"errors_not": ("NOT_ENOUGH_REPLICAS",)}, 0, "error NOT_ENOUGH_REPLICAS occurred"),
        ({"errors_not": ("UNKNOWN_SERVER_ERROR",)}, 0, None),
        ({"acked_min": 101}, 0, "100 sends were acknowledged, expected at least 101"),
        ({"acked_during_faults": 2}, 0, None),
        ({"acked_during_faults": 3}, 0, "2 sends were acknowledged during faults, expected 3"),
        ({"unavailable_max": 0.5}, 0, "unavailable for 1.00 s, the limit is 0.5"),
        ({"unavailable_min": 2}, 0, "no partition was unavailable for 2 s"),
        ({"failed_sends_max": 4}, 0, "5 sends failed or have an unknown result"),
        ({"errors": ("NOT_ENOUGH_REPLICAS",)}, 0, None),
        ({"errors": ("MESSAGE_TOO_LARGE",)}, 0, "error MESSAGE_TOO_LARGE did not occur"),
        ({"anomalies": ("lost-write",), "loss": "explained"}, 3, None),
        ({"anomalies": ("unseen",)}, 0, "no legal anomaly unseen was found"),
    ],
)
def test_expectations(expect: dict[str, object], lost: int, reported: str | None) -> None:
    found = lines(verdict(lost), **expect)
    assert (not found) if reported is None else (len(found) == 1 and reported in found[0]), found


def window(begin: float, end: float, acked: str) -> Window:
    step = Step.model_validate_json(f'{{"do": "window", "for": 1, "acked": {acked}}}')
    return Window(begin, end, step)


@pytest.mark.parametrize(
    ("begin", "end", "acked", "reported"),
    [
        (5.5, 7.5, '"some"', None),
        (5.5, 7.5, '"none"', "2 sends were acknowledged"),
        (2, 5, '"none"', None),
        (2, 5, '"some"', "no send was acknowledged"),
        (6.05, 7.05, '"none"', None),  # begun before, or answered after
        (9, 10, '{"a": "some", "b": "none"}', "b: 1 sends"),
        (9.2, 10, '{"a": "some"}', "a: no send"),
        (5, 6, '"any"', None),
    ],
)
def test_windows(begin: float, end: float, acked: str, reported: str | None) -> None:
    found = lines(verdict(), [window(begin, end, acked)])
    assert (not found) if reported is None else (len(found) == 1 and reported in found[0]), found


def test_a_schedule_that_injected_nothing_is_reported() -> None:
    found = verdict()
    found.figures.faults.clear()
    assert "no fault was injected" in lines(found)


def test_an_outcome_is_valid_only_as_a_whole() -> None:
    outcome = Outcome("x", 1, "folder")
    assert not outcome.valid
    outcome.verdict = verdict()
    assert outcome.valid and outcome.result().is_success
    outcome.failures.append("something")
    assert not outcome.valid and not outcome.result().is_success
