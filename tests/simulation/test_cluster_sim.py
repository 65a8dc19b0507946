"""Whole clusters under simulation: production's brokers and controllers, virtual time, faults; and known mistakes.

A failing seed is named in the failure; `python -m sim --seed SEED` tells its story. Put its shrunk schedule (`--save`)
into tests/simulation/seeds, where it is replayed for ever.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from sim.campaign import plan_result, read_plan
from sim.draw import draw_plan
from sim.run import run_plan

SEEDS = 8
CHUNK = 4
SECONDS = 40.0
FIRST = int(os.environ.get("KVORUM_SIM_FIRST_SEED", "0"))
KEPT = sorted(Path(__file__).with_name("seeds").glob("*.json"))
TRACE = """
from sim.draw import draw_plan
from sim.run import run_plan
for seed in (7, 53):
    print(run_plan(draw_plan(seed, 15.0)).trace)
"""


@pytest.mark.parametrize("first", range(FIRST, FIRST + SEEDS, CHUNK))
def test_seeds_hold_every_invariant_and_converge(first: int) -> None:
    """The load must have got through and faults must have come: a seed in which nothing happens shows nothing."""
    acked = faults = 0
    for seed in range(first, first + CHUNK):
        outcome = run_plan(draw_plan(seed, SECONDS))
        assert outcome.kind is None, f"python -m sim --seed {seed} --seconds {SECONDS:g}: {outcome.message}"
        acked += outcome.counts.get("send ok", 0)
        faults += sum(outcome.faults.values())
    assert acked > 50 * CHUNK
    assert faults > 5 * CHUNK


@pytest.mark.long
@pytest.mark.parametrize("path", KEPT, ids=lambda path: path.stem)
def test_schedules_that_failed_once_are_kept(path: Path) -> None:
    result = plan_result(read_plan(path.read_bytes()))
    assert result.failure is None, f"python -m sim --schedule {path}: {result.failure}"


def test_the_same_seed_does_the_same_in_any_process() -> None:
    """Two processes with different hash seeds: neither the order of sets nor addresses may steer anything.

    Both have groups and transactions, of either protocol; one or another has each of what is drawn beside a
    seed's faults: quotas, racks, reassignments, throttles, levels, moves, what is asked of brokers, lost directories.
    """
    traces = []
    for hash_seed in ("1", "2"):
        environment = {**os.environ, "PYTHONHASHSEED": hash_seed}
        command = [sys.executable, "-c", TRACE]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300)
        assert done.returncode == 0, done.stderr
        traces.append(done.stdout.split())
    assert traces[0] == traces[1]
    assert len(set(traces[0])) == 2
