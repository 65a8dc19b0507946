"""`kvorum chaos list` and `run`, as far as they come without a cluster."""

from pathlib import Path

import pytest
from click.testing import CliRunner

from kvorum.chaos.checker import Figures, Verdict, Violation
from kvorum.chaos.scenario.files import find, shipped_scenarios
from kvorum.chaos.scenario.outcome import Outcome
from kvorum.cli.chaos.run import command_line, exit_code
from kvorum.cli.main import main
from kvorum.cli.output import Exit
from kvorum.cluster.process.exits import Exit as NodeExit


def run(*words: str) -> tuple[int, str]:
    result = CliRunner().invoke(main, ["chaos", *words])
    return result.exit_code, result.output


def test_every_shipped_scenario_is_listed_with_its_title() -> None:
    code, output = run("list")
    names = {line.split()[0].partition("/")[0] for line in output.splitlines()[1:]}
    assert code == 0 and names == set(shipped_scenarios())


@pytest.mark.parametrize(
    ("words", "reported"),
    [
        (["run"], "give a scenario"),
        (["run", "frozen-leder"], "did you mean frozen-leader"),
        (["run", "load", "--kill-hook", "true"], "hooks need --bootstrap"),
        (["run", "load", "--duration", "0"], "0"),
        (["run", "load", "--junit", "/no/such/folder/junit.xml"], "there is no folder /no/such/folder"),
        (["run", "load", "--bootstrap", "nonsense"], "'nonsense' is not HOST:PORT"),
    ],
)
def test_an_invalid_scenario_has_exit_code_2(words: list[str], reported: str) -> None:
    code, output = run(*words)
    assert code == 2 and reported in output


def test_an_unreachable_cluster_is_one_line_before_the_run(tmp_path: Path) -> None:
    code, output = run("run", "load", "--bootstrap", "127.0.0.1:9", "--out", str(tmp_path / "out"), "--quiet")
    assert (code, output.count("\n")) == (Exit.UNREACHABLE, 1)
    assert "nothing listens on 127.0.0.1:9" in output


def test_results_that_cannot_be_written_end_the_command_before_the_run(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for option, target in (("--out", tmp_path / "file" / "out"), ("--junit", Path("/proc/junit.xml"))):
        code, output = run("run", "load", option, str(target))
        assert (code, output.count("\n"), str(target) in output) == (NodeExit.DATA_REFUSED, 1, True), output


@pytest.mark.parametrize(
    ("name", "scenario", "given", "command"),
    [
        ("matrix", "matrix/a", {}, "kvorum chaos run matrix/a --seed 3"),
        ("matrix/a", "matrix/a", {"--duration": 40.0}, "kvorum chaos run matrix/a --seed 3 --duration 40"),
        ("my dir/x.yaml", "mine/b", {}, "kvorum chaos run 'my dir/x.yaml/b' --seed 3"),
        ("x.yaml", "mine", {"--kill-hook": "k {id}"}, "kvorum chaos run x.yaml --seed 3 --kill-hook 'k {id}'"),
        ("x.yaml", "mine", {"--bootstrap": None}, "kvorum chaos run x.yaml --seed 3"),
    ],
)
def test_the_command_that_runs_it_again_is_the_one_that_was_typed(
    name: str, scenario: str, given: dict[str, object], command: str
) -> None:
    found = find("load")[0].model_copy(update={"name": scenario})
    assert command_line(name, found, 3, given) == command


def test_exit_codes() -> None:
    held = Outcome("a", 1, "f", verdict=Verdict(violations=[], explained=[], figures=Figures()))
    found = Violation(anomaly="lost-write", partition=None, values=[], count=1, story=[], reason="")
    violated = Outcome("b", 1, "f", verdict=Verdict(violations=[found], explained=[], figures=Figures()))
    missed = Outcome("c", 1, "f", verdict=held.verdict, failures=["too slow"])
    not_run = Outcome("d", 1, "f", could_not_run="no Toxiproxy")
    skipped = Outcome("e", 1, "f", skipped="not permitted")
    assert [exit_code(each) for each in ([held], [held, skipped], [held, violated], [missed], [not_run, held])] == [
        *(0, 0, 1, 1, 2),
    ]
    assert exit_code([not_run, violated]) == 1
