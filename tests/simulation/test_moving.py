"""Moves between log directories in simulated clusters: drawn, carried out, held against what the replica had."""

from functools import partial
from random import Random

import msgspec
import pytest

from sim import invariants
from sim.directory_moves import KIND, RATE_KIND, REMOVED, add_directory_moves, add_move_throttles, cut_while_it_waits
from sim.draw import draw_plan
from sim.machine import SimProcess
from sim.mutants.catalogue import apply_mutant
from sim.plan import Fault, Options, Plan, draw_options, from_json, to_json
from sim.replica_state import ReplicaState, check_log_start
from sim.run import Outcome, run_plan


def stage() -> Options:
    """Three quiet brokers with two directories each, a topic of one partition on all, written to all the time."""
    options = draw_options(Random(4))
    load = msgspec.structs.replace(
        options.load, producers=[(-1, True)], consumers=1, every_s=0.05, admin_every_s=1000.0, burst_s=0.0
    )
    base: dict[str, object] = {
        **{"controllers": 1, "brokers": 3, "combined": False, "partitions": 1, "replication_factor": 3, "min_isr": 2},
        **{"delay_max_s": 0.001, "load": load, "fault_kinds": [KIND], "unclean": False, "log_dirs": 2},
    }
    return msgspec.structs.replace(options, **base)


def run(*others: Fault) -> Outcome:
    """Move the replica of every broker to and fro, each time to one directory and soon to the other."""
    faults = [
        Fault(at=round(1.0 + 0.4 * place + 0.1 * node, 3), kind=KIND, target=f"{node}:0", detail=str(1 + place % 2))
        for node in (1, 2, 3)
        for place in range(10)
    ]
    faults = sorted([*faults, *others], key=lambda fault: fault.at)
    return run_plan(Plan(seed=4, seconds=8.0, options=stage(), faults=faults))


def test_some_seeds_have_them_and_the_others_are_unchanged() -> None:
    plans = [(draw_plan(seed), draw_plan(seed, moves=False)) for seed in range(100)]
    having = [plan for plan, plain in plans if plan != plain]
    assert 8 < len(having) < 60
    for plan, plain in plans:
        if RATE_KIND not in plan.options.fault_kinds:
            assert [fault for fault in plan.faults if fault.kind != KIND] == plain.faults
    assert all(plan.options.log_dirs == 2 and from_json(to_json(plan)) == plan for plan in having)


def test_some_of_these_are_throttled_and_the_others_are_unchanged() -> None:
    rated = 0
    later = ("losses", "quotas", "racks", "throttles", "levels", "starts")
    draw = partial(draw_plan, **dict.fromkeys(later, False))
    for seed in range(100):
        whole, plain = draw(seed), draw(seed, moves=False)
        options, faults = add_directory_moves(
            Random(f"kvorum moves {seed}"), plain.options, plain.faults, plain.seconds
        )
        if (options, faults) == (whole.options, whole.faults):
            continue
        rated += 1
        assert KIND in options.fault_kinds and RATE_KIND in whole.options.fault_kinds
        assert all(fault in whole.faults for fault in faults)
    assert 4 < rated < 30
    assert add_move_throttles(Random(1), plain.options, [], 60.0, certain=True) == (plain.options, [])


def test_a_play_of_a_throttle_frees_the_moves_behind_the_end_of_the_cut() -> None:
    options = stage()
    for seed in range(50):
        rate, cut, *moves, freed = cut_while_it_waits(Random(seed), options, 1.0)
        assert int(rate.detail) > 0 and freed.detail == REMOVED and rate.kind == freed.kind == RATE_KIND
        assert rate.at < cut.at < moves[0].at < cut.at + cut.length < freed.at
        assert cut.length > options.session_timeout_ms / 1000, "another leads meanwhile"
        assert {move.target for move in moves} == {"1:0", "2:0", "3:0"}


def test_replicas_move_to_and_fro_under_load_with_kills_and_failing_disks(monkeypatch: pytest.MonkeyPatch) -> None:
    moves: list[str] = []

    def noted(process: SimProcess, name: str, before: ReplicaState, after: ReplicaState) -> None:
        moves.append(f"{process.name} {before.folder} {after.folder}")
        check_log_start(process, name, before, after)

    monkeypatch.setattr(invariants, "check_log_start", noted)
    outcome = run(
        Fault(at=2.0, kind="kill", target="1", length=0.3, role="broker"),
        Fault(at=3.1, kind="power", target="2", length=0.3, role="broker", detail="silent"),
        Fault(at=4.0, kind="disk_error", target="3", length=0.5, role="broker", detail="sync"),
    )
    assert outcome.kind is None, outcome.message
    assert len(moves) >= 10 and len({each.split()[0] for each in moves}) == 3, moves


def test_a_copy_that_takes_over_too_early_is_found() -> None:
    with apply_mutant("promote-too-early"):
        outcome = run()
    assert outcome.kind == "MoveKeepsAll", outcome.message
