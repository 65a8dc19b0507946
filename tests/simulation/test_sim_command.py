"""`python -m sim`: seeds in, figures and stories out; a failing schedule is shrunk, saved and replayed."""

from functools import partial
from pathlib import Path

import msgspec
import pytest
from click.testing import CliRunner

from kvorum.broker.replica.partition import Partition
from kvorum.protocol.errors import ErrorCode
from kvorum.quorum.raft.replica import Outbox
from sim import campaign
from sim.__main__ import seeds_of, sim
from sim.campaign import (
    CLUSTER,
    QUORUM,
    Result,
    Tally,
    jobs_of,
    quorum_result,
    read_plan,
    run_campaign,
    run_one,
)
from sim.plan import from_json
from sim.quorum import QuorumSimulation
from sim.quorum_faults import QuorumRun
from sim.quorum_plan import QuorumPlan
from sim.shrink import shrink_quorum
from sim.unguarded import UnguardedLog


def acknowledge_at_once(partition: Partition, required_offset: int) -> ErrorCode:
    """Stand for a broker that answers acks=all before anybody has the records."""
    return ErrorCode.NONE


def test_a_few_seeds_of_both_kinds_end_with_their_figures() -> None:
    done = CliRunner().invoke(sim, ["--seeds", "1-2", "--seconds", "4", "--jobs", "1", "--kind", "all"])
    assert done.exit_code == 0, done.output
    assert "6 seeds" in done.output and "virtual h" in done.output and "0 violations" in done.output


def test_one_seed_is_reported_with_its_options() -> None:
    done = CliRunner().invoke(sim, ["--seed", "3", "--seconds", "4"])
    assert done.exit_code == 0, done.output
    assert "no violation" in done.output and "controllers and" in done.output and "min ISR" in done.output


def test_a_mistake_is_found_shrunk_reported_saved_and_replayed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """With a known mistake in the broker: the saved schedule fails alike, and passes once the mistake is gone."""
    monkeypatch.setattr(Partition, "check_enough_replicas_reach_offset", acknowledge_at_once)
    command = ["--seed", "2", "--seconds", "8", "--save", str(tmp_path)]
    done = CliRunner().invoke(sim, command)
    assert done.exit_code == 1, done.output
    assert "VIOLATION with seed 2" in done.output and "AcknowledgedIsCommitted" in done.output
    (saved,) = tmp_path.iterdir()
    assert not from_json(saved.read_bytes()).faults, "this mistake shows without any fault"
    again = CliRunner().invoke(sim, ["--schedule", str(saved)])
    assert again.exit_code == 1 and "AcknowledgedIsCommitted" in again.output
    monkeypatch.undo()
    assert CliRunner().invoke(sim, ["--schedule", str(saved)]).exit_code == 0


@pytest.mark.parametrize(("text", "wanted"), [("1-9", (1, 9)), ("7", (7, 7))])
def test_seeds_are_read_as_a_range_or_one(text: str, wanted: tuple[int, int]) -> None:
    assert seeds_of(text) == wanted


@pytest.mark.parametrize("text", ["x", "9-1", "-3", "1-x"])
def test_invalid_ranges_are_refused(text: str) -> None:
    done = CliRunner().invoke(sim, ["--seeds", text])
    assert done.exit_code == 2 and "A-B" in done.output


def test_a_campaign_ends_when_it_is_instructed_to(monkeypatch: pytest.MonkeyPatch) -> None:
    ran: list[tuple[str, int]] = []

    def one(job: tuple[str, int], **how: object) -> Result:
        ran.append(job)
        return Result(kind=job[0], seed=job[1], virtual_s=3600.0, cpu_s=1.0, acked=5, faults={"kill": 2}, losses=0)

    monkeypatch.setattr(campaign, "run_one", one)
    tally = Tally()

    def on_result(result: Result) -> bool:
        tally.add(result)
        return tally.seeds < 3

    run_campaign(jobs_of((CLUSTER, QUORUM), range(10)), on_result, workers=1)
    assert ran == [(CLUSTER, 0), (QUORUM, 0), (CLUSTER, 1)]
    assert "3 seeds" in tally.line() and "3.00 virtual h" in tally.line() and tally.faults_line() == "kill 6"


def test_seeds_of_voters_have_them_change_in_each_way() -> None:
    results = [campaign.run_one((campaign.VOTERS, seed)) for seed in (3, 4, 5)]
    assert [result.failure for result in results] == [None] * 3 and {result.kind for result in results} == {"voters"}
    reported = [result.options for result in results]
    assert all("voters at first" in each for each in reported)
    assert ["static until they are upgraded" in each for each in reported] == [False, True, False]
    assert ["which move" in each for each in reported] == [False, False, True]


def test_a_mistake_in_the_quorum_is_found_shrunk_reported_saved_and_replayed(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """With voters that answer before their journal is synced: the saved schedule fails alike, and passes without."""
    monkeypatch.setattr(campaign, "shrink_quorum", partial(shrink_quorum, runs_max=25))
    monkeypatch.setattr(Outbox, "send_durable", Outbox.send)
    command = ["--kind", "quorum", "--seed", "0", "--save", str(tmp_path)]
    done = CliRunner().invoke(sim, command)
    assert done.exit_code == 1, done.output
    assert "VIOLATION with seed 0 (quorum): Violation: TrueMatch" in done.output
    assert "voters, directories" in done.output and "leads term" in done.output
    (saved,) = tmp_path.iterdir()
    assert saved.name == "quorum-0.json"
    small = read_plan(saved.read_bytes())
    assert isinstance(small, QuorumPlan)
    whole = campaign.run_one((QUORUM, 0), shrinks=False)
    assert len(small.faults) <= len(read_plan(whole.schedule).faults) and small.seconds < 12.0
    again = CliRunner().invoke(sim, ["--schedule", str(saved)])
    assert again.exit_code == 1 and "TrueMatch" in again.output
    monkeypatch.undo()
    assert CliRunner().invoke(sim, ["--schedule", str(saved)]).exit_code == 0


@pytest.mark.parametrize("seed", [2, 5])
def test_a_quorum_seed_replayed_from_its_plan_does_the_same(seed: int) -> None:
    """Plans must hold all that happened: else what is shrunk is another run."""
    run = QuorumRun(QuorumSimulation(seed))
    run.run()
    assert run.plan.faults and run.world.acked
    plan = msgspec.json.decode(msgspec.json.encode(run.plan), type=QuorumPlan)
    again = QuorumRun.of_plan(plan)
    again.run()
    assert again.plan == run.plan == plan
    assert again.world.lines == run.world.lines and again.world.acked == run.world.acked
    assert again.world.checker.log[-1] == run.world.checker.log[-1]


def test_faults_that_do_not_matter_are_left_out_of_a_quorum_seed() -> None:
    """Without the guard against pysyncobj's faults of safety, whose story needs a killed leader and a cut."""
    fixed = {"log_class": UnguardedLog, "voters": 3, "wipes": False, "known_directories": True, "snapshots": False}
    whole = quorum_result(QuorumRun(QuorumSimulation(3, **fixed)), shrinks=False)
    small = quorum_result(QuorumRun(QuorumSimulation(3, **fixed)), shrinks=True)
    assert whole.failure and whole.failure == small.failure and "MonotonicHighWatermark" in whole.failure
    before, after = read_plan(whole.schedule), read_plan(small.schedule)
    assert isinstance(before, QuorumPlan) and isinstance(after, QuorumPlan)
    assert 0 < len(after.faults) < len(before.faults)
    assert any("kill node 3" in line for line in small.story)


def test_a_quorum_seed_that_fails_with_any_exception_is_a_result_too(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(world: QuorumSimulation) -> None:
        raise RuntimeError("broken")

    monkeypatch.setattr(QuorumSimulation, "heal", fail)
    result = run_one((QUORUM, 9), shrinks=False)
    assert result.failure == "RuntimeError: broken" and any("seed 9" in line for line in result.story)
    assert any("in fail" in line for line in result.story), "an exception is told with where it came from"


def test_invalid_schedules_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "wrong.json"
    path.write_text('{"kind": "quorum", "seed": "x"}')
    done = CliRunner().invoke(sim, ["--schedule", str(path)])
    assert done.exit_code == 2 and "not a saved schedule" in done.output
