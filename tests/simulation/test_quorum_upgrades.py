"""A static quorum that is upgraded to a dynamic one at some time (kraft.version 1), under simulation.

The same faults and checks as everywhere, wiped disks among them; an operator upgrades, adds and removes voters between
them. Their mutants are the catalogue's (sim.mutants.voters).
"""

from collections import Counter

import pytest

from sim.quorum import QuorumSimulation
from sim.quorum_faults import run_seed
from sim.quorum_options import upgrade_options

SEEDS = 30
CHUNK = 10
KEPT = (42, 15)
"""An upgrade is taken back, made anew, and voters come and go; a leader commits one and steps down in one moment."""


def run(seed: int) -> QuorumSimulation:
    """Run a seed over three to five nodes; one to three of them are the static quorum's voters."""
    return run_seed(seed, **upgrade_options(seed))


@pytest.mark.parametrize("first", range(0, SEEDS, CHUNK))
def test_seeds_hold_every_invariant_through_the_upgrade(first: int) -> None:
    acked, became, done = 0, 0, Counter[str]()
    for seed in range(first, first + CHUNK):
        world = run(seed)
        acked += world.acked
        became += world.checker.upgraded_index > 0
        done.update(world.faults)
    assert acked > 50 * CHUNK, "the load hardly got through: these seeds show little"
    assert became >= CHUNK // 3 and done["refused UNSUPPORTED_VERSION"] > 0, done
    assert done["add a voter"] + done["remove a voter"] > CHUNK, done


@pytest.mark.parametrize("seed", KEPT)
def test_seeds_that_showed_something_are_kept(seed: int) -> None:
    run(seed)
