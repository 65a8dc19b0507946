"""A static quorum that is upgraded to a dynamic one at some time (kraft.version 1), under simulation.

The same faults and checks as everywhere, wiped disks among them; an operator upgrades, adds and removes voters between
them. docs/decisions/0023 says which rule each mutant breaks.
"""

from collections import Counter
from collections.abc import Callable
from dataclasses import replace

import pytest

from kvorum.chaos.sim.ledger import Violation
from kvorum.chaos.sim.quorum import QuorumWorld
from kvorum.chaos.sim.quorum_faults import run_seed
from kvorum.quorum.raft import snapshotting
from kvorum.quorum.raft.membership import Membership
from kvorum.quorum.raft.voters import Endpoints, Voters, VoterSet

SEEDS = 30
CHUNK = 10
KEPT = (42, 15)
"""An upgrade is taken back, made anew, and voters come and go; a leader commits one and steps down in one moment."""
MUTANT_SEEDS_MAX = 80
Patch = Callable[[pytest.MonkeyPatch], None]

pytestmark = pytest.mark.sim


def run(seed: int) -> QuorumWorld:
    """Run a seed over three to five nodes; one to three of them are the static quorum's voters."""
    static = (1, 3, 3, 2)[seed % 4]
    return run_seed(seed, voters=3 + seed % 3, static=static, known_directories=seed % 5 < 3)


@pytest.mark.parametrize("first", range(0, SEEDS, CHUNK))
def test_seeds_hold_every_invariant_through_the_upgrade(first: int) -> None:
    acked, upgraded, done = 0, 0, Counter[str]()
    for seed in range(first, first + CHUNK):
        world = run(seed)
        acked += world.acked
        upgraded += world.checker.upgraded_index > 0
        done.update(world.faults)
    assert acked > 50 * CHUNK, "the load hardly got through: these seeds show little"
    assert upgraded >= CHUNK // 3 and done["refused UNSUPPORTED_VERSION"] > 0, done
    assert done["add a voter"] + done["remove a voter"] > CHUNK, done


@pytest.mark.parametrize("seed", KEPT)
def test_seeds_that_showed_something_are_kept(seed: int) -> None:
    run(seed)


def a_snapshot_forgets_the_upgrade(patch: pytest.MonkeyPatch) -> None:
    meta = snapshotting.SnapshotMeta
    patch.setattr(snapshotting, "SnapshotMeta", lambda **values: replace(meta(**values), endpoints=None))


def an_upgrade_counts_for_good_before_it_is_committed(patch: pytest.MonkeyPatch) -> None:
    added = Voters.added

    def at_once(self: Voters, index: int, voters: VoterSet, endpoints: Endpoints | None = None) -> None:
        added(self, index, voters, endpoints)
        if endpoints is not None and not self.state.dynamic:
            self.applied(index, voters, endpoints)

    patch.setattr(Voters, "added", at_once)


def an_upgrade_names_whatever_directories_are_there(patch: pytest.MonkeyPatch) -> None:
    """It would take in a voter that lost its disk, which is one as long as the swap is not committed."""

    def check(self: Membership) -> tuple[VoterSet, Endpoints]:
        self._check_leading()
        voters = self._replica.voters
        voters_now = {each: voters.present.get(each, found) for each, found in (voters.committed or {}).items()}
        voters_now.pop(voters.node_id, None)
        voters_now[voters.node_id] = voters.state.directory_id
        return voters_now, {each: [("CONTROLLER", f"controller-{each}", 9093)] for each in voters_now}

    patch.setattr(Membership, "check_upgrade", check)


def an_upgraded_quorum_takes_lost_voters_in_by_itself(patch: pytest.MonkeyPatch) -> None:
    proposal = Voters.proposal

    def by_itself(self: Voters, caught_up: set[int]) -> VoterSet | None:
        found = proposal(self, caught_up)
        if found is None and not self.pending and self.committed is not None:
            for peer in sorted(caught_up.intersection(self.committed)):
                if self.present.get(peer, self.committed[peer]) != self.committed[peer]:
                    return {**self.committed, peer: self.present[peer]}
        return found

    patch.setattr(Voters, "proposal", by_itself)


MUTANTS: tuple[tuple[Patch, int], ...] = (
    (a_snapshot_forgets_the_upgrade, 0),
    (an_upgrade_counts_for_good_before_it_is_committed, 0),
    (an_upgrade_names_whatever_directories_are_there, 273),
    (an_upgraded_quorum_takes_lost_voters_in_by_itself, 0),
)
"""And the seed to begin with: an upgrade that falls between the loss of a disk and its swap comes once in hundreds."""


@pytest.mark.parametrize(("mutant", "first"), MUTANTS, ids=lambda each: getattr(each, "__name__", None))
def test_a_mistake_in_the_upgrade_is_caught(mutant: Patch, first: int, monkeypatch: pytest.MonkeyPatch) -> None:
    run(first)
    mutant(monkeypatch)
    for seed in range(first, first + MUTANT_SEEDS_MAX):
        try:
            run(seed)
        except (Violation, AssertionError):
            return
    pytest.fail(f"{MUTANT_SEEDS_MAX} seeds saw nothing wrong")
