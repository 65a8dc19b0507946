"""`kvorum chaos check`: what it says of files that are histories, and of those that are hardly any."""

from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from kvorum.chaos.history import AnyEvent, Finish, HistoryWriter, Start
from kvorum.cli.main import main
from tests.unit.chaos.checker.history_kit import History


def check(folder: Path, *events: AnyEvent, more: str = "") -> Result:
    path = folder / "history.jsonl"
    with HistoryWriter(path) as writer:
        for event in events:
            writer.write(event)
    path.write_text(path.read_text() + more)
    return CliRunner().invoke(main, ["chaos", "check", str(path)])


def sound() -> list[AnyEvent]:
    return History().created().send(1, 0).final((0, 1)).events


def test_a_whole_history(tmp_path: Path) -> None:
    result = check(tmp_path, *sound(), Finish(t=9.0))
    assert result.exit_code == 0
    assert "no violation was found" in result.output and "it has no" not in result.output


def test_a_violation(tmp_path: Path) -> None:
    result = check(tmp_path, *History().created().send(1, 0).final().events, Finish(t=9.0))
    assert result.exit_code == 1 and "VIOLATION unseen" in result.output


@pytest.mark.parametrize("events", [[], [Start(t=0.0)], [Start(t=0.0), Finish(t=1.0)]])
def test_without_operations_there_is_nothing_to_judge(tmp_path: Path, events: list[AnyEvent]) -> None:
    for more in ("", '{"kind":"weather","t":1.0}\n'):
        result = check(tmp_path, *events, more=more)
        assert result.exit_code == 2
        assert "no completed operation" in result.output and "Verdict" not in result.output


def test_missing_parts_of_a_history_are_reported(tmp_path: Path) -> None:
    unfinished = check(tmp_path, *sound())
    assert unfinished.exit_code == 0 and "it has no finish" in unfinished.output
    headless = check(tmp_path, *sound()[1:], Finish(t=9.0))
    assert "it has no start" in headless.output and "it has no finish" not in headless.output
    assert "no line of a known kind" in check(tmp_path, more='{"kind":"weather","t":1.0}\n').output
