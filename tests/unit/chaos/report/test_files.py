"""The files of a run, from a history on disk; and the command that writes them."""

from pathlib import Path
from xml.etree import ElementTree

import pytest
from click.testing import CliRunner

from kvorum.chaos.checker import check
from kvorum.chaos.history import AnyEvent, HistoryWriter
from kvorum.chaos.report.files import write
from kvorum.cli.chaos.commands import chaos
from tests.unit.chaos.report.made_history import KILLS, Plan, made


def history(folder: Path, events: list[AnyEvent]) -> Path:
    path = folder / "history.jsonl"
    with HistoryWriter(path) as writer:
        for event in events:
            writer.write(event)
    return path


def test_a_run_gets_its_report_and_its_junit(tmp_path: Path) -> None:
    events = made(Plan(faults=KILLS, lost=3))
    folder = tmp_path / "new" / "run"
    write(folder, history(tmp_path, events), check(events), failures=["too slow"], seconds=99.0)
    assert "Violated" in (folder / "report.html").read_text()
    case = ElementTree.parse(folder / "junit.xml").getroot().find(".//testcase")
    assert case is not None and (case.get("name"), case.get("time")) == ("n-minus-one", "99.000")
    failure = case.find("failure")
    assert failure is not None and "expected: too slow" in (failure.text or "")


def test_a_history_without_its_end_is_an_error_for_ci(tmp_path: Path) -> None:
    events = made(Plan())[:-1]
    write(tmp_path, history(tmp_path, events), check(events))
    error = ElementTree.parse(tmp_path / "junit.xml").getroot().find(".//error")
    assert error is not None and "no finish event" in (error.get("message") or "")


@pytest.mark.parametrize(("lost", "reported"), [(0, "held"), (3, "violated")])
def test_the_command_writes_both_and_reports_the_outcome(lost: int, reported: str, tmp_path: Path) -> None:
    path = history(tmp_path, made(Plan(lost=lost)))
    page, junit = tmp_path / "out.html", tmp_path / "junit.xml"
    result = CliRunner().invoke(chaos, ["report", str(path), "-o", str(page), "--junit", str(junit)])
    assert result.exit_code == 0, result.output
    assert result.output == f"{page}: {reported}\n"
    assert page.read_text().startswith("<!doctype html>")
    assert len(ElementTree.parse(junit).getroot().findall(".//failure")) == (lost > 0)


def test_the_command_refuses_an_invalid_history(tmp_path: Path) -> None:
    path = tmp_path / "history.jsonl"
    path.write_text("this is no history\n")
    result = CliRunner().invoke(chaos, ["report", str(path), "-o", str(tmp_path / "out.html")])
    assert result.exit_code == 2
    assert "line 1" in result.output
    assert not (tmp_path / "out.html").exists()
