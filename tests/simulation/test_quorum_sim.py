"""The metadata quorum under simulation: production classes, virtual time, lossy disks, cut links.

A failing seed is named in the failure and replays with `run_seed(SEED)`; put it into KEPT then.
"""

import os

import pytest

from sim.quorum_checker import Violation
from sim.quorum_faults import run_seed
from sim.unguarded import UnguardedLog

SEEDS = 100
CHUNK = 20
FIRST = int(os.environ.get("KVORUM_SIM_FIRST_SEED", "0"))
KEPT = (7, 123, 505, 620, 672)
"""Seeds that found something once: lost Hellos, a re-admitted voter that could not vote, faults of the checker."""


@pytest.mark.parametrize("first", range(FIRST, FIRST + SEEDS, CHUNK))
def test_seeds_hold_every_invariant_and_converge(first: int) -> None:
    acked = sum(run_seed(seed).acked for seed in range(first, first + CHUNK))
    assert acked > 50 * CHUNK, "the load hardly got through: these seeds show little"


@pytest.mark.parametrize("seed", KEPT)
def test_seeds_that_failed_once_are_kept(seed: int) -> None:
    run_seed(seed)


def test_the_same_seed_does_the_same_again() -> None:
    def trace(seed: int) -> tuple[object, ...]:
        world = run_seed(seed)
        return world.loop.events, world.acked, world.loop.time(), world.faults, world.checker.log[-1].state

    assert trace(11) == trace(11)
    assert trace(11) != trace(12)


def test_without_the_guard_the_same_seeds_find_pysyncobjs_safety_bugs(caplog: pytest.LogCaptureFixture) -> None:
    """A matching Append cuts the tail off: acknowledged entries go, commit indexes go back, majorities shrink."""
    caplog.set_level("CRITICAL", logger="pysyncobj.syncobj")
    found = set()
    for seed in range(60):
        try:
            run_seed(seed, log_class=UnguardedLog, voters=3, wipes=False, known_directories=True, snapshots=False)
        except Violation as violation:
            found.add(" ".join(word for word in str(violation).split() if word.isalpha())[:40])
    assert any("went back" in what for what in found), found
    assert any("durable only on" in what for what in found), found
    assert "truncating already-applied log entries" in caplog.text
