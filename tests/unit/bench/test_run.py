"""The order of runs, and what becomes of one that fails."""

import contextlib
import signal
import time
from collections.abc import Iterator, Mapping
from typing import cast

import pytest

from bench.beds import Bed
from bench.results import MeasureResult
from bench.rows import Case, Figures, Measure, more
from bench.run import Plan, alternating, limited, run_measure
from bench.scale import Scale
from bench.stalled import StalledError
from bench.systems import System

ROW = more("what", "things/s", 1.0, 2.0)


class Fake:
    """A system of which nothing is asked but that it begins and ends."""

    def __init__(self, kind: str, message: list[str]) -> None:
        self.kind, self.message = kind, message

    def start(self) -> None:
        self.message.append(f"start {self.kind}")

    def wait_ready(self) -> None:
        pass

    def metrics_urls(self, role: str) -> list[str]:
        return []


@pytest.fixture
def message(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return what the systems were told, as it comes."""
    found: list[str] = []

    @contextlib.contextmanager
    def formatted(kind: str, count: int, settings: Mapping[str, str]) -> Iterator[System]:
        try:
            yield cast(System, Fake(kind, found))
        finally:
            found.append(f"end {kind}")

    monkeypatch.setattr("bench.run.formatted", formatted)
    monkeypatch.setattr("os.sync", lambda: None)
    return found


def ran(
    message: list[str], fails: str = "", *, rounds: int = 2, fresh: bool = False, **options: object
) -> MeasureResult:
    """Run a measure of one case that fails on one of the systems."""

    def run(bed: Bed) -> Figures:
        message.append(f"run {bed.kind}")
        if bed.kind == fails:
            raise StalledError("it stands still")
        return {ROW.what: float(len(message))}

    case = Case(name="case", rows=(ROW,), run=run, java=bool(options.get("without_java")))
    measure = Measure(name="measure", settings={}, cases=(case,), fresh=fresh)
    plan = Plan(kinds=("a", "b"), rounds=rounds, scale=Scale(0.1), **options)  # type: ignore[arg-type]
    return run_measure(measure, plan, lambda _line: None)


def test_the_systems_alternate_so_that_drift_falls_on_both() -> None:
    order = list(alternating(["a", "b"], 3))
    assert order == [(1, "a"), (1, "b"), (2, "b"), (2, "a"), (3, "a"), (3, "b")]


def test_both_are_warmed_up_and_stay_up(message: list[str]) -> None:
    found = ran(message)
    assert message == [
        *("start a", "run a", "start b", "run b"),
        *("run a", "run b", "run b", "run a"),
        *("end a", "end b"),
    ]
    assert found.rows[0].runs == {"a": [5.0, 8.0], "b": [6.0, 7.0]}
    assert not found.failures and found.facts["rounds"] == 2 and found.facts["scale"] == 0.1


def test_a_fresh_cluster_is_not_started_and_lasts_one_run(message: list[str]) -> None:
    ran(message, rounds=1, fresh=True)
    assert message == ["run a", "end a", "run b", "end b"]


def test_a_failed_system_gets_a_new_cluster_and_is_finally_skipped(message: list[str]) -> None:
    found = ran(message, "b", rounds=3)
    assert message.count("run b") == message.count("start b") == message.count("end b") == 2
    assert len(found.rows[0].runs["a"]) == 3 and "b" not in found.rows[0].runs
    assert found.failures[0] == "case, round 0, b: StalledError: it stands still" and len(found.failures) == 2


def test_measures_that_need_java_are_skipped_with_the_reason(message: list[str]) -> None:
    found = ran(message, without_java="there is none")
    assert not message and found.skipped == ["case: there is none"] and not found.failures


def test_a_run_that_does_not_end_is_ended() -> None:
    before = signal.getsignal(signal.SIGALRM)
    with pytest.raises(StalledError, match="no end"), limited(0.05):
        time.sleep(30)
    assert signal.getsignal(signal.SIGALRM) == before
