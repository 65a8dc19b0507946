"""A quorum whose voters come and go (KIP-853) under simulation: the same checks, and mistakes that must show.

Kills, cuts, pauses, wipes and handing over of leadership come between an operator's changes, two of them at a time as
often as not; their mutants are the catalogue's (sim.mutants.voters).
"""

from collections import Counter

import pytest

from sim.quorum import QuorumSimulation
from sim.quorum_faults import run_seed
from sim.quorum_options import membership_options

SEEDS = 30
CHUNK = 10
KEPT = (14, 15, 21, 1069, 1149)
"""A voter that did not know yet that it is one did not vote; the leader that was being removed did not stand, though it
alone had that entry: nobody could be elected."""


def run(seed: int) -> QuorumSimulation:
    """Run a seed over three to five nodes, one to three of which vote at first."""
    return run_seed(seed, **membership_options(seed))


@pytest.mark.parametrize("first", range(0, SEEDS, CHUNK))
def test_seeds_hold_every_invariant_while_voters_come_and_go(first: int) -> None:
    acked, done = 0, Counter[str]()
    for seed in range(first, first + CHUNK):
        world = run(seed)
        acked += world.acked
        done.update(world.faults)
    assert acked > 50 * CHUNK, "the load hardly got through: these seeds show little"
    assert done["add a voter"] > CHUNK and done["remove a voter"] > CHUNK, done
    assert done["refused REQUEST_TIMED_OUT"] > CHUNK, "hardly a change met another"


@pytest.mark.parametrize("seed", KEPT)
def test_seeds_that_failed_once_are_kept(seed: int) -> None:
    run(seed)
