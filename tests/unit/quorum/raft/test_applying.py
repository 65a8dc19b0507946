"""State machines that need long for a batch or a snapshot: nothing else is applied meanwhile, all else goes on.

The simulated loop looks at timers (and the network) only when no callback is ready, so a busy node's next tick is made
a timer here; a real loop looks at both in each turn.
"""

import random
from collections.abc import Iterator
from typing import Any

import pytest

from kvorum.protocol.records import Record, build_batch
from kvorum.quorum.raft.applying import Applier
from kvorum.quorum.raft.follower import Follower
from kvorum.quorum.raft.log import SnapshotView
from kvorum.quorum.raft.node import QuorumNode
from kvorum.quorum.raft.settings import RaftSettings
from sim.network import NetworkOptions
from sim.quorum import QuorumSimulation
from sim.quorum_faults import run_seed
from sim.quorum_options import SEGMENT_BYTES, Options
from sim.quorum_voter import SimVoter

STEP_S = 0.002
TURN_S = 0.00001
SLOW_SEEDS = (*range(15), 28, 34, 35, 38, 45, 46, 47, 56)
"""In the latter a snapshot comes while another or a batch is under way, or a single voter leads before it has loaded
its own; both are rare."""


@pytest.fixture(autouse=True)
def _turns_for_others(monkeypatch: pytest.MonkeyPatch) -> None:
    wake = QuorumNode.wake

    def in_turn(node: QuorumNode) -> None:
        if node.applier.busy and node._tick_handle is None and not node.halted:
            node._tick_handle = node._loop.call_later(TURN_S, node._tick)
        else:
            wake(node)

    monkeypatch.setattr(QuorumNode, "wake", in_turn)


class Slow:
    """Makes every voter's listener take steps, one a tick, with time in between; counts what that led to."""

    def __init__(self, patch: pytest.MonkeyPatch, seed: int, steps_max: int) -> None:
        self.rng = random.Random(seed)
        self.steps_max = steps_max
        self.batches = self.loads = self.ticks_while_busy = self.deferred = 0
        take, load = SimVoter.on_batch_applied, SimVoter.on_snapshot_loaded
        run, go_on, when_idle = Applier.run, Applier._go_on, Applier.when_idle

        def batch(voter: SimVoter, *what: Any) -> Iterator[None]:
            self.batches += 1
            yield from self.steps()
            take(voter, *what)
            yield from self.steps()

        def snapshot(voter: SimVoter, view: Any) -> Iterator[None]:
            self.loads += 1
            load(voter, view)
            for _ in range(self.rng.randint(0, 10 * self.steps_max)):
                yield

        def lazily(applier: Applier) -> None:
            if applier.busy and self.rng.random() < 0.5:
                self.ticks_while_busy += 1
                replica = applier._replica
                replica.core._hooks._loop.call_later(STEP_S, replica.wake)
                return
            run(applier)

        def counted(applier: Applier, action: Any) -> None:
            self.deferred += 1
            when_idle(applier, action)

        patch.setattr(SimVoter, "on_batch_applied", batch)
        patch.setattr(SimVoter, "on_snapshot_loaded", snapshot)
        patch.setattr(Applier, "run", lazily)
        patch.setattr(Applier, "_go_on", lambda applier, work, _: go_on(applier, work, float("-inf")))
        patch.setattr(Applier, "when_idle", counted)

    def steps(self) -> Iterator[None]:
        if self.rng.random() < 0.2:
            for _ in range(self.rng.randint(0, self.steps_max)):
                yield


def test_seeds_hold_every_invariant_when_the_state_machine_is_slow(monkeypatch: pytest.MonkeyPatch) -> None:
    """Elections, snapshots of others, kills and commits come in the middle of batches and of loads."""
    slow, acked = Slow(monkeypatch, 1, steps_max=12), 0
    for seed in SLOW_SEEDS:
        slow.rng.seed(seed)
        acked += run_seed(seed).acked
    count = len(SLOW_SEEDS)
    assert acked > count * 50 and slow.loads > count and slow.ticks_while_busy > 1_000
    assert slow.deferred > 0, "a snapshot came while another or a batch was under way"


def world(voters: int, **settings: object) -> QuorumSimulation:
    figures = {"election_timeout_min_s": 0.3, "election_timeout_max_s": 0.6, "heartbeat_s": 0.09, **settings}
    options = Options(
        voters=voters,
        known_directories=True,
        network=NetworkOptions(slow=0.0),
        settings=RaftSettings(segment_bytes=SEGMENT_BYTES, **figures),  # type: ignore[arg-type]
    )
    made = QuorumSimulation(5, options)
    made.boot(load=False)
    return made


def append(made: QuorumSimulation, voter: SimVoter, count: int) -> None:
    for _ in range(count):
        batch = build_batch([Record(value=b"x", timestamp=5)])
        future = made.do(voter, lambda log, batch=batch: log.append(batch, log.log_end_offset, log.epoch))  # type: ignore[misc]
        assert made.loop.run_until(future.done, limit_s=5.0)
        future.result()


@pytest.fixture
def long_loads(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Each load takes 2,000 steps, each step half a millisecond of the loop's time; what happened, in order."""
    events: list[str] = []

    def slowly(voter: SimVoter, view: SnapshotView) -> Iterator[None]:
        events.append("begun")
        try:
            for _ in range(2_000):
                voter.world.loop._now += 0.0005
                yield
            voter.high_watermark = view.snapshot_id.end_offset
            voter.state = b"".join(view.chunks())[:16]
            events.append(f"loaded {voter.high_watermark}")
        finally:
            events.append("ended")

    monkeypatch.setattr(SimVoter, "on_snapshot_loaded", slowly)
    return events


def with_snapshot(made: QuorumSimulation) -> SimVoter:
    leader = made.leader()
    append(made, leader, 5)
    taken = made.do(leader, lambda log: log.take_snapshot())
    assert made.loop.run_until(taken.done, limit_s=5.0)
    return leader


def test_a_voter_is_not_active_before_its_snapshot_is_loaded(long_loads: list[str]) -> None:
    made = world(1)
    voter = with_snapshot(made)
    voter.kill()
    began = made.loop.time()
    voter.start()
    made.loop.run_for(0.1)
    assert voter.log is not None
    assert voter.log.node.replica.core.is_leader() and not voter.log.is_active(), "elected, and still loading"
    assert voter.log.high_watermark == 0 and long_loads == ["begun"]
    made.leader()
    assert made.loop.time() - began >= 1.0
    assert voter.log.high_watermark == voter.high_watermark == 5 and long_loads == ["begun", "loaded 5", "ended"]
    append(made, voter, 1)


def test_a_load_takes_turns_with_everything_else(long_loads: list[str]) -> None:
    """No callback of the loading process holds the loop longer than a slice and a step."""
    made = world(1)
    voter = with_snapshot(made)
    voter.kill()
    voter.start()
    last, longest = made.loop.time(), 0.0

    def watch() -> None:
        nonlocal last, longest
        longest = max(longest, made.loop.time() - last)
        last = made.loop.time()
        made.loop.call_later(0.0001, watch)

    made.loop.call_later(0.0001, watch)
    made.leader()
    assert "loaded 5" in long_loads
    assert longest <= RaftSettings().apply_slice_s + 0.001


def test_a_voter_that_stops_in_the_middle_of_a_load_lets_the_snapshot_go(long_loads: list[str]) -> None:
    made = world(1)
    voter = with_snapshot(made)
    voter.kill()
    voter.start()
    made.loop.run_for(0.1)
    made.do(voter, lambda log: log.stop())
    assert long_loads == ["begun", "ended"]
    made.loop.run_for(2.0)
    assert long_loads == ["begun", "ended"] and voter.high_watermark == 0


def test_a_fault_in_a_late_step_ends_the_node(monkeypatch: pytest.MonkeyPatch) -> None:
    made = world(1)
    voter = made.leader()

    def failing(*_: object) -> Iterator[None]:
        made.loop._now += 0.01
        yield
        raise ValueError("a record that cannot be")

    monkeypatch.setattr(SimVoter, "on_batch_applied", failing)
    future = made.do(voter, lambda log: log.append(build_batch([Record(value=b"x", timestamp=5)]), 0, log.epoch))
    with pytest.raises(ValueError, match="cannot be"):
        made.loop.run_for(1.0)
    made.loop.errors.clear()
    assert isinstance(voter.fatal, ValueError) and voter.log is not None and voter.log.node.halted
    assert future.done() and future.exception() is not None


def test_a_snapshot_during_other_work_waits(monkeypatch: pytest.MonkeyPatch, long_loads: list[str]) -> None:
    """A follower far behind is still loading its own old snapshot when the leader's newer one has arrived."""
    made = world(3, snapshot_bytes=2_000, retained_entries=0, chunk_bytes=1_000)
    leader = made.leader()
    append(made, leader, 40)
    assert made.loop.run_until(made.is_at_rest, limit_s=5.0)
    victim = next(voter for voter in made.voters.values() if voter is not leader)
    assert victim.log is not None and victim.log.log_start_offset > 0, "it has a snapshot of its own to load"
    victim.kill()
    append(made, leader, 60)
    waited: list[bool] = []
    arrived = Follower._arrived

    def noted(follower: Follower, *what: Any) -> None:
        waited.append(follower._applier.busy)
        arrived(follower, *what)

    monkeypatch.setattr(Follower, "_arrived", noted)
    victim.start()
    assert made.loop.run_until(made.is_at_rest, limit_s=20.0)
    made.check_errors()
    assert waited[0] is True and waited[-1] is False
    loaded = [int(event.removeprefix("loaded ")) for event in long_loads if event.startswith("loaded")]
    assert len(loaded) >= 2 and loaded == sorted(loaded)
    assert long_loads == ["begun", *(each for end in loaded for each in (f"loaded {end}", "ended", "begun"))][:-1]
    assert victim.high_watermark == 100
