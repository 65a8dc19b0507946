"""Mutants on real processes: every process of a node carries the mistake, and the checker finds what it does."""

from pathlib import Path

import pytest
from click.testing import CliRunner

from kvorum.chaos.faults.toxiproxy_binary import NoToxiproxy, find_or_build
from sim.mutants.__main__ import mutants
from sim.mutants.catalogue import MUTANTS
from sim.mutants.real import run_real
from sim.mutants.scenarios import CELLS, SHIPPED, scenario_of, scenarios_of


def anomalies_of(name: str, folder: Path) -> set[str]:
    outcome = run_real(name, folder)
    assert outcome.verdict is not None, outcome.could_not_run
    assert outcome.verdict.figures.acked > 0
    return {violation.anomaly for violation in outcome.verdict.violations}


@pytest.mark.patches
def test_records_acknowledged_before_the_isr_has_them_are_found_lost(tmp_path: Path) -> None:
    assert "lost-write" in anomalies_of("acknowledge-before-isr", tmp_path)


@pytest.mark.long
@pytest.mark.patches
def test_records_that_a_forgetful_leader_wrote_twice_are_found(tmp_path: Path) -> None:
    try:
        find_or_build()
    except NoToxiproxy as error:
        pytest.skip(str(error))
    assert "duplicate" in anomalies_of("forget-producer-state", tmp_path)


@pytest.mark.patches
@pytest.mark.parametrize(
    ("name", "anomaly"),
    [
        pytest.param("drop-before-in-sync", "lost-write", marks=pytest.mark.long),
        pytest.param("forget-aborted", "aborted-read", marks=pytest.mark.long),
        pytest.param("rebalance-without-waiting", "two-owners", marks=pytest.mark.long),
        pytest.param("vouch-for-a-lost-directory", "lost-write", marks=pytest.mark.long),
    ],
)
def test_mutants_of_coordinators_partitions_and_moves_are_found(name: str, anomaly: str, tmp_path: Path) -> None:
    assert anomaly in anomalies_of(name, tmp_path)


@pytest.mark.long
@pytest.mark.patches
def test_records_shown_above_a_followers_high_watermark_are_found(tmp_path: Path) -> None:
    try:
        find_or_build()
    except NoToxiproxy as error:
        pytest.skip(str(error))
    assert "inconsistent-offsets" in anomalies_of("show-above-high-watermark", tmp_path)


@pytest.mark.patches
def test_throttles_that_are_reported_and_not_kept_are_found(tmp_path: Path) -> None:
    outcome = run_real("tell-without-holding", tmp_path)
    assert not outcome.could_not_run
    assert any("5000 bytes per second" in failure for failure in outcome.failures), outcome.failures


@pytest.mark.parametrize("name", sorted(CELLS))
def test_each_scenario_is_whole_and_shows_a_mutant_there_is(name: str) -> None:
    scenario = scenario_of(name)
    assert name in MUTANTS and scenario.steps and scenario.expect.loss == "none"


@pytest.mark.parametrize("name", sorted(SHIPPED))
def test_each_shipped_scenario_of_a_mutant_exists(name: str) -> None:
    own = [scenario_of(name).name] if name in CELLS else []
    assert name in MUTANTS
    assert [scenario.name for scenario in scenarios_of(name)] == [*own, *SHIPPED[name]]


def test_the_command_lists_mutants_with_a_scenario() -> None:
    done = CliRunner().invoke(mutants, ["--real", "--only", "guard-off"])
    assert done.exit_code == 2 and "acknowledge-before-isr" in done.output
    both = CliRunner().invoke(mutants, ["--real", "--jobs", "2"])
    assert both.exit_code == 2
