"""Controllers that come back with other addresses (UpdateRaftVoter), under simulation: the set says so in the end.

Production's QuorumPresence, in dynamic quorums and in such as are upgraded meanwhile; its mutant is the catalogue's.
"""

from collections import Counter

import pytest

from sim.quorum import QuorumSimulation
from sim.quorum_faults import QuorumRun, run_seed
from sim.quorum_options import address_change_options
from sim.quorum_presences import unknown_addresses

SEEDS = 20
CHUNK = 10


@pytest.mark.parametrize("first", range(0, SEEDS, CHUNK))
def test_seeds_hold_every_invariant_while_voters_move(first: int) -> None:
    acked, done = 0, Counter[str]()
    for seed in range(first, first + CHUNK):
        world = run_seed(seed, **address_change_options(seed))
        acked += world.acked
        done.update(world.faults)
    assert acked > 50 * CHUNK, "the load hardly got through: these seeds show little"
    assert done["move"] > CHUNK and done["update a voter"] > CHUNK // 2, done


def test_a_plan_replays_with_its_moves() -> None:
    first = QuorumRun(QuorumSimulation(3, None, **address_change_options(3)))
    first.run()
    again = QuorumRun.of_plan(first.plan)
    assert again.world.options.moves and "which move" in first.plan.options.text()
    again.run()
    assert again.world.faults == first.world.faults and again.world.acked == first.world.acked
    assert again.world.faults["move"] > 0


def test_a_set_that_has_a_voter_elsewhere_is_not_at_rest() -> None:
    world = QuorumSimulation(1, voters=3, initial=3, moves=True, known_directories=True)
    world.boot(load=False)
    leader = world.leader()
    assert leader.log is not None
    assert world.loop.run_until(world.is_at_rest, limit_s=10.0)
    assert unknown_addresses(world.controllers, leader.log) == []
    leader.moves += 1
    (reported,) = unknown_addresses(world.controllers, leader.log)
    assert reported.startswith(f"voter {leader.node_id} listens at") and not world.is_at_rest()
    world.loop.close()
