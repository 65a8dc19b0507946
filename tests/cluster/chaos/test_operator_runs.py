"""Shipped scenarios in which an operator changes a cluster that breaks: the verdict holds, the steps were done."""

from pathlib import Path

import pytest

from kvorum.chaos.history import Invoke, Metadata, Ok, read_history
from kvorum.chaos.scenario.files import find
from kvorum.chaos.scenario.outcome import Outcome
from kvorum.chaos.scenario.runner import Run


def run(name: str, folder: Path) -> Outcome:
    """Run one shipped scenario; it must hold."""
    (scenario,) = find(name)
    outcome = Run(scenario, folder, seed=1).run()
    assert not outcome.could_not_run, outcome.could_not_run
    assert outcome.verdict is not None
    reported = [
        f"{each.anomaly} in {each.partition}: {each.reason} {each.story}" for each in outcome.verdict.violations
    ]
    assert outcome.valid, [*outcome.failures, *reported]
    return outcome


def done(outcome: Outcome) -> list[str]:
    """Return what the scenario asked for itself and was answered, by its first word."""
    events = list(read_history(outcome.history))
    answered = {each.op for each in events if isinstance(each, Ok)}
    return [
        str(each.value[0]) for each in events if isinstance(each, Invoke) and each.f == "admin" and each.op in answered
    ]


def records(outcome: Outcome, kind: str) -> list[dict[str, object]]:
    """Return the records of a type in the metadata log."""
    found = [each.record for each in read_history(outcome.history) if isinstance(each, Metadata)]
    return [each for each in found if each.get("type") == kind]


@pytest.mark.long
def test_a_partition_moves_although_each_participant_is_killed(tmp_path: Path) -> None:
    outcome = run("reassign", tmp_path)
    assert done(outcome).count("reassign") == 4 and "cancel-reassignment" in done(outcome)
    assert sum(bool(each.get("removing_replicas")) for each in records(outcome, "PartitionChange")) >= 2


@pytest.mark.long
def test_a_broker_leaves_by_its_throttle_though_it_and_the_controller_die(tmp_path: Path) -> None:
    outcome = run("decommission", tmp_path)
    rates = [each.get("value") for each in records(outcome, "Config") if "throttled.rate" in str(each.get("name"))]
    assert "1000000" in rates and rates[-1] is None, "it is taken off when nothing is left"


@pytest.mark.long
def test_voters_leave_and_come_back_though_the_active_controller_dies_and_is_removed(tmp_path: Path) -> None:
    outcome = run("voters", tmp_path)
    assert done(outcome).count("remove-controller") == done(outcome).count("add-controller") == 2
    assert [each.get("level") for each in records(outcome, "Feature") if each.get("name") == "kraft.version"] == [1]


@pytest.mark.long
def test_levels_go_down_and_up_though_the_active_controller_dies_each_time(tmp_path: Path) -> None:
    outcome = run("features", tmp_path)
    levels = [each.get("level") for each in records(outcome, "Feature") if each.get("name") == "transaction.version"]
    assert levels[-4:] == [1, 2, 0, 2] and done(outcome).count("features") == 5
