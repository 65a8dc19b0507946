"""Tables, JSON and JUnit: one row, object or case for each run, with the verdict's numbers."""

import json
from pathlib import Path
from xml.etree import ElementTree

import pytest

from kvorum.chaos.checker import Figures, Verdict, Violation, check
from kvorum.chaos.report.junit import write_junit
from kvorum.chaos.report.labels import Outcome
from kvorum.chaos.report.results import MutantResult, ScenarioResult
from kvorum.chaos.report.tables import mutant_table, mutants_json, scenario_table
from tests.unit.chaos.report.made_history import KILLS, Plan, made

LOST = check(made(Plan(faults=KILLS, lost=12)))
CLEAN = check(made(Plan(faults=KILLS)))
RESULTS = [
    ScenarioResult(scenario="n-minus-one", verdict=CLEAN, seconds=61.5, seed=7),
    ScenarioResult(scenario="mutant", verdict=LOST, seconds=60.0, history="runs/0002/history.jsonl"),
    ScenarioResult(scenario="unclean-on", verdict=CLEAN, failures=("no acknowledged record was lost",)),
    ScenarioResult(scenario="kill-all", could_not_run="no broker came up within 30 s"),
    ScenarioResult(scenario="packet-loss", skipped="network namespaces are not permitted here"),
]
MUTANTS = [
    MutantResult(name="ack_before_isr", wrong="acknowledges before the ISR has it", caught_by="simulation", seeds=3),
    MutantResult(name="guard_off", wrong="a voter forgets its vote", caught_by="chaos: wiped-broker", seconds=41.2),
    MutantResult(name="other", wrong="nothing much"),
]


def test_outcomes_by_available_data() -> None:
    assert [result.outcome for result in RESULTS] == [
        Outcome.HELD,
        Outcome.VIOLATED,
        Outcome.MISSED,
        Outcome.COULD_NOT_RUN,
        Outcome.SKIPPED,
    ]
    assert [result.is_success for result in RESULTS] == [True, False, False, False, True]
    broken = ScenarioResult(scenario="x", verdict=LOST, failures=("y",), could_not_run="z")
    assert broken.outcome == Outcome.VIOLATED, "what was seen broken is broken"
    assert ScenarioResult(scenario="x").outcome == Outcome.COULD_NOT_RUN


def test_the_scenario_table_has_the_verdicts_numbers() -> None:
    lines = scenario_table(RESULTS).splitlines()
    assert lines[0].split("  ")[0] == "SCENARIO" and lines[0].endswith("VERDICT")
    columns = [" ".join(line.split()) for line in lines]
    kinds = "2 kill, 1 freeze, 1 pause, 1 latency, 1 black_hole"
    assert columns[1] == f"n-minus-one {kinds} 6,736 6,705 0 0 0 1.8 s held"
    assert columns[2] == f"mutant {kinds} 6,736 6,705 12 0 0 1.8 s VIOLATED: lost-write, int-poll-skip"
    assert columns[3].endswith("MISSED: no acknowledged record was lost")
    assert columns[4].endswith("could not run: no broker came up within 30 s")
    assert columns[5].endswith("skipped: network namespaces are not permitted here")
    assert lines[-1] == "1 of 5 held, 1 skipped"


def test_legal_losses_are_reported_beside_all() -> None:
    figures = Figures(operations={"send": {"ok": 9}}, acked=9, lost=4, lost_legally=4)
    verdict = Verdict(violations=[], explained=[], figures=figures)
    assert "4 (4 explained)" in scenario_table([ScenarioResult(scenario="unclean-on", verdict=verdict)])


def test_the_mutant_table_lists_missed_mutants() -> None:
    lines = mutant_table(MUTANTS).splitlines()
    assert [" ".join(line.split()) for line in lines[1:4]] == [
        "ack_before_isr acknowledges before the ISR has it simulation 3 seeds",
        "guard_off a voter forgets its vote chaos: wiped-broker 41.2 s",
        "other nothing much NOT CAUGHT -",
    ]
    assert lines[-1] == "2 of 3 caught"


def test_empty_tables_are_tables() -> None:
    assert scenario_table([]).splitlines()[-1] == "0 of 0 held"
    assert mutant_table([]).splitlines()[-1] == "0 of 0 caught"


def test_json_has_numbers_as_numbers() -> None:
    mutants = json.loads(mutants_json(MUTANTS))
    assert [each["caught"] for each in mutants] == [True, True, False]


def test_junit_counts_match_its_content(tmp_path: Path) -> None:
    path = tmp_path / "junit.xml"
    write_junit(path, RESULTS)
    suites = ElementTree.parse(path).getroot()
    suite = suites[0]
    assert (suites.tag, suite.tag) == ("testsuites", "testsuite")
    for element in (suites, suite):
        assert {name: element.get(name) for name in ("tests", "failures", "errors", "skipped")} == {
            "tests": "5",
            "failures": "2",
            "errors": "1",
            "skipped": "1",
        }
        assert float(element.get("time") or "x") == pytest.approx(121.5)
    cases = suite.findall("testcase")
    assert [case.get("name") for case in cases] == [result.scenario for result in RESULTS]
    assert all(case.get("classname") and float(case.get("time") or "x") >= 0 for case in cases)
    found = [{child.tag for child in case} - {"system-out"} for case in cases]
    assert found == [set(), {"failure"}, {"failure"}, {"error"}, {"skipped"}]


def test_a_failures_text_is_its_first_stories(tmp_path: Path) -> None:
    path = tmp_path / "junit.xml"
    write_junit(path, RESULTS)
    failure = ElementTree.parse(path).getroot().find(".//testcase[@name='mutant']/failure")
    assert failure is not None and failure.text is not None
    assert failure.get("type") == "lost-write"
    assert "an acknowledged record is lost (orders-0)" in (failure.get("message") or "")
    for violation in LOST.violations:
        assert all(sentence in failure.text for sentence in violation.story)
    assert failure.text.endswith("history: runs/0002/history.jsonl")


def test_junit_is_valid_xml_for_any_story(tmp_path: Path) -> None:
    odd = Violation(
        anomaly="lost-write",
        partition="a<b>&\x00",
        values=[1],
        count=1,
        story=["\x1b[31m ]]> \ud800 </failure>"],
        reason='"quoted" & <wild>',
    )
    verdict = Verdict(violations=[odd], explained=[], figures=Figures(operations={"send": {"ok": 1}}))
    path = tmp_path / "junit.xml"
    write_junit(path, [ScenarioResult(scenario="x\x07", verdict=verdict)])
    failure = ElementTree.parse(path).getroot().find(".//failure")
    assert failure is not None and failure.text is not None
    assert '"quoted" & <wild>' in (failure.get("message") or "")
    assert "]]>" in failure.text and "</failure>" in failure.text
