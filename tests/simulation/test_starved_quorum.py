"""A metadata quorum whose processes hardly get any CPU: it elects nobody meanwhile, and soon after.

Seen once on a machine with load 67, where the controllers had a lower priority than 67 other processes: no controller
was active for up to four minutes. A vote takes several turns of two processes, and each turn came later than the
election timeout; Raft promises progress only where messages are faster than that.
"""

import random

import pytest

from kvorum.quorum.raft.settings import RaftSettings
from sim.network import NetworkOptions
from sim.quorum import QuorumSimulation
from sim.quorum_options import SEGMENT_BYTES, Options
from sim.quorum_voter import SimVoter

TURN_S = 0.005
"""A process runs for so long, then others do."""
STARVED_S = 240.0
RECOVERED_S = 5.0
"""Some election timeouts of 0.4 to 0.8 s."""


def starved_world(seed: int, pause_s: float) -> QuorumSimulation:
    """Return three voters of which each runs for TURN_S about every `pause_s`, once they have elected a leader."""
    options = Options(
        voters=3,
        known_directories=True,
        network=NetworkOptions(slow=0.0),
        settings=RaftSettings(segment_bytes=SEGMENT_BYTES),
    )
    world = QuorumSimulation(seed, options)
    world.boot(load=False)
    world.leader()
    rng = random.Random(seed)

    def run(voter: SimVoter) -> None:
        world.loop.resume(voter.host)
        if world.loop.time() < end:
            world.loop.call_at_host(None, world.loop.time() + TURN_S, lambda: pause(voter))

    def pause(voter: SimVoter) -> None:
        voter.host.paused = True
        world.loop.call_at_host(None, world.loop.time() + pause_s * (0.5 + rng.random()), lambda: run(voter))

    end = world.loop.time() + STARVED_S
    for voter in world.voters.values():
        pause(voter)
    return world


def active_seconds(world: QuorumSimulation, seconds: float) -> float:
    """Run so long; return for how much of it some voter was active."""
    active, step_s = 0.0, 0.05
    for _ in range(round(seconds / step_s)):
        world.loop.run_for(step_s)
        active += step_s * any(voter.log is not None and voter.log.is_active() for voter in world.voters.values())
    return active


@pytest.mark.parametrize("seed", range(3))
def test_a_loop_later_than_the_election_timeout_elects_no_leader_and_then_one_soon(seed: int) -> None:
    world = starved_world(seed, pause_s=3.0)
    assert active_seconds(world, STARVED_S) < STARVED_S / 10
    world.leader(limit_s=RECOVERED_S)
    assert active_seconds(world, 10.0) > 9.0


@pytest.mark.parametrize("seed", range(3))
def test_a_loop_faster_than_the_timeout_keeps_a_leader(seed: int) -> None:
    world = starved_world(seed, pause_s=0.05)
    assert active_seconds(world, STARVED_S / 4) > STARVED_S / 4 * 0.9
