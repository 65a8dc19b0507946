"""Known protocol mistakes: the simulation finds each with the seed given here, and finds nothing without it."""

from pathlib import Path

import pytest
from click.testing import CliRunner

from kvorum.broker.replica.partition import Partition
from kvorum.quorum.raft.journal import DurableJournal
from kvorum.runtime.disk import OsDisk
from sim.mutants import hunt as hunting
from sim.mutants.__main__ import mutants
from sim.mutants.catalogue import ALL, CLUSTER, DIRECTED, MUTANTS, QUORUM, SIMULATED, UNIT, Mutant, apply_mutant
from sim.mutants.child import VARIABLE, main
from sim.mutants.controller import WITHHELD_WRITES, BufferFile
from sim.mutants.hunt import hunt, hunt_named, passes
from sim.mutants.patches import PatchError, Patches

TRIES = 4
"""Seeds from the first known one on: whatever changes the load moves what a seed finds."""

SENTINELS = {
    *("acknowledge-before-isr", "no-maximal-isr", "ignore-broker-epoch", "accept-stale-partition-epoch"),
    *("acknowledge-metadata-before-commit", "journal-without-sync", "answer-before-durable", "guard-off"),
    *("leave-proofs-unchecked", "serve-unauthenticated-requests"),
}
"""The mutants of the default run; the others are long."""


@pytest.mark.parametrize(
    "mutant",
    [pytest.param(MUTANTS[name], id=name, marks=() if name in SENTINELS else pytest.mark.long) for name in SIMULATED],
)
def test_the_simulation_catches_it_and_not_the_code_as_it_is(mutant: Mutant) -> None:
    result = hunt(mutant, range(mutant.first, mutant.first + TRIES))
    assert result.caught_by is not None and result.seeds is not None
    seed = mutant.first + result.seeds - 1
    assert passes(mutant, seed), f"seed {seed} fails without the mistake too: it shows nothing"


@pytest.mark.parametrize(
    "mutant",
    [
        pytest.param(mutant, id=mutant.name, marks=() if mutant.name in SENTINELS else pytest.mark.long)
        for mutant in ALL
        if mutant.means == UNIT
    ],
)
def test_its_unit_test_catches_it_by_an_assertion(mutant: Mutant) -> None:
    found = hunt(mutant, range(1, 2)).caught_by
    assert found is not None, f"{mutant.witness} passes with the mistake"
    assert ": assert " in found or ": Failed: DID NOT RAISE" in found or ": AssertionError: " in found


def test_each_mutant_has_a_name_and_a_description() -> None:
    assert len(ALL) == len(MUTANTS) >= 12
    assert all(mutant.wrong.endswith(".") for mutant in ALL)


@pytest.mark.parametrize("mutant", ALL, ids=lambda mutant: mutant.name)
def test_leaving_puts_everything_back(mutant: Mutant) -> None:
    patches = Patches()
    with patches:
        mutant.apply(patches)
        replaced = [(owner, name, before, vars(owner)[name]) for owner, name, before in patches._before]
    assert replaced
    for owner, name, before, mutated_value in replaced:
        assert vars(owner)[name] is before is not mutated_value


def test_a_mutant_whose_target_is_gone_fails_loudly(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(Partition, "effective_min_isr")
    with pytest.raises(PatchError, match=r"Partition has no effective_min_isr"), apply_mutant("ignore-min-isr"):
        pass


def test_a_target_that_is_only_inherited_counts_as_gone() -> None:
    class Child(Partition):
        pass

    with pytest.raises(PatchError), Patches() as patches:
        patches.replace(Child, "make_leader", None)


def test_the_command_prints_the_table_and_fails_where_one_is_missed() -> None:
    done = CliRunner().invoke(mutants, ["--only", "guard-off", "--seeds", "1"])
    assert done.exit_code == 0 and "1 of 1 caught" in done.output and "quorum simulation" in done.output
    missed = CliRunner().invoke(mutants, ["--only", "read-without-round", "--seeds", "1", "--first", "1"])
    assert missed.exit_code == 1 and "NOT CAUGHT" in missed.output and "0 of 1 caught" in missed.output
    unknown = CliRunner().invoke(mutants, ["--only", "nonsense"])
    assert unknown.exit_code == 2 and "guard-off" in unknown.output


def test_the_command_looks_for_several_at_once_and_reports_them_in_order() -> None:
    names = ["guard-off", "answer-before-durable"]
    wanted = [word for name in names for word in ("--only", name)]
    done = CliRunner().invoke(mutants, [*wanted, "--seeds", "1", "--jobs", "2"])
    assert done.exit_code == 0 and "2 of 2 caught" in done.stdout
    assert done.stdout.index(names[0]) < done.stdout.index(names[1])


def test_directed_plans_give_way_to_drawn_ones_where_only_the_swarm_is_wanted(monkeypatch: pytest.MonkeyPatch) -> None:
    looked: list[str] = []

    def seen(mutant: Mutant, seed: int) -> str:
        looked.append(mutant.means)
        return "Found"

    monkeypatch.setattr(hunting, "FINDERS", {DIRECTED: seen, CLUSTER: seen, QUORUM: seen})
    for name in ("ignore-broker-epoch", "guard-off"):
        assert hunt_named(name, seeds=1).seeds == hunt_named(name, seeds=1, swarm=True).seeds == 1
    assert looked == [DIRECTED, CLUSTER, QUORUM, QUORUM]


def test_a_process_of_its_own_may_carry_a_form_of_the_mutant_that_shows_there() -> None:
    plain = DurableJournal.write
    with apply_mutant("journal-without-sync"):
        simulated = DurableJournal.write
    with apply_mutant("journal-without-sync", real=True):
        real = DurableJournal.write
    assert len({plain, simulated, real}) == 3 and DurableJournal.write is plain


def test_a_journal_that_is_not_synced_keeps_its_newest_writes_to_itself(tmp_path: Path) -> None:
    path = str(tmp_path / "journal")
    file = BufferFile(OsDisk().open(path, create=True))
    for number in range(WITHHELD_WRITES + 2):
        file.pwrite(bytes([number + 1]), number)
        file.sync()
    assert Path(path).read_bytes() == b"\1\2"
    file.close()
    assert Path(path).read_bytes() == bytes(range(1, WITHHELD_WRITES + 3))


def test_a_process_with_an_unknown_mutant_does_not_start(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv(VARIABLE, "nonsense")
    assert main(["broker", "--config", "none", "--dir", "none"]) == 64
    assert "ignore-min-isr" in capsys.readouterr().err
