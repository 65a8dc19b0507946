"""Scenarios of security on real processes, and that each of them fails with what it guards against."""

from pathlib import Path

import pytest

from kvorum.chaos.faults.toxiproxy_binary import NoToxiproxy, find_or_build
from kvorum.chaos.scenario.files import find
from kvorum.chaos.scenario.outcome import Outcome
from kvorum.chaos.scenario.runner import Run
from sim.mutants.real import run_real

SEED = 1
SCENARIOS = (
    *("secure-n-minus-one/rf3-min2", "secure-n-minus-one/rf3-min3", "secure-n-minus-one/controller"),
    *("cert-rotation-under-load/all-at-once", "cert-rotation-under-load/one-by-one"),
    *("expired-cert/running", "expired-cert/restart", "reauth-under-failover"),
    *("jwks-unreachable/running", "jwks-unreachable/restart"),
)


@pytest.fixture(scope="module", autouse=True)
def toxiproxy() -> None:
    """Without the server no link can be cut; it says why."""
    try:
        find_or_build()
    except NoToxiproxy as error:
        pytest.skip(str(error))


def test_this_list_has_every_cell() -> None:
    names = {name.partition("/")[0] for name in SCENARIOS}
    assert sorted(cell.name for name in names for cell in find(name)) == sorted(SCENARIOS)


@pytest.mark.long
@pytest.mark.parametrize("name", SCENARIOS)
def test_no_acknowledged_record_is_lost_or_repeated(name: str, tmp_path: Path) -> None:
    (scenario,) = find(name)
    outcome = Run(scenario, tmp_path, SEED).run()
    assert outcome.valid, failures_of(outcome)
    assert outcome.verdict is not None
    figures = outcome.verdict.figures
    assert figures.acked >= 500 and figures.final_reads and not figures.lost


def failures_of(outcome: Outcome) -> list[str]:
    """Return all that a run has found."""
    assert not outcome.could_not_run, outcome.could_not_run
    violations = [] if outcome.verdict is None else outcome.verdict.violations
    return [*outcome.failures, *(f"{each.anomaly} in {each.partition}: {each.reason}" for each in violations)]


@pytest.mark.long
@pytest.mark.parametrize(
    ("name", "config", "reason"),
    [
        (
            "cert-rotation-under-load/all-at-once",
            {"kvorum.ssl.reload.interval.ms": "0"},
            "with the certificate of its file: it serves another one",
        ),
        (
            "reauth-under-failover",
            {"connections.max.reauth.ms": "0"},
            "successful_reauthentication_total of at least 20: 0",
        ),
    ],
)
def test_a_cluster_without_the_feature_is_found(name: str, config: dict[str, str], reason: str, tmp_path: Path) -> None:
    (scenario,) = find(name)
    cluster = scenario.cluster.model_copy(update={"configs": {**scenario.cluster.configs, **config}})
    found = failures_of(Run(scenario.model_copy(update={"cluster": cluster}), tmp_path, SEED).run())
    assert any(reason in each for each in found), found


@pytest.mark.long
@pytest.mark.patches
@pytest.mark.parametrize(
    ("mutant", "name", "reason"),
    [
        ("ignore-min-isr", "secure-n-minus-one/rf3-min3", "(with one node dead), expected none"),
        ("accept-expired-certificates", "expired-cert/running", "with at most 2 in sync"),
        ("forget-keys-of-issuers", "jwks-unreachable/running", "unavailable"),
    ],
)
def test_a_mutant_is_found(mutant: str, name: str, reason: str, tmp_path: Path) -> None:
    (scenario,) = find(name)
    found = failures_of(run_real(mutant, tmp_path, scenario=scenario))
    assert any(reason in each for each in found), found
