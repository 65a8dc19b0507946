"""Mistakes in changes of the quorum's voters (KIP-853): docs/decisions/0023 has the rule that each of them breaks.

They are searched in quorums whose voters change, or that are upgraded at some time (quorum_options).
"""

import asyncio
from dataclasses import replace

from kvorum.cluster.local.quorum_presence import QuorumPresence
from kvorum.quorum.raft import snapshotting
from kvorum.quorum.raft.core import RaftCore
from kvorum.quorum.raft.membership import Membership
from kvorum.quorum.raft.snapshot import SnapshotMeta
from kvorum.quorum.raft.voters import Endpoints, Voters, VoterSet
from sim.mutants.patches import Patches


def change_before_committed(patches: Patches) -> None:
    """A voter is added or removed while the last change is not committed: two sets may have separate majorities."""
    patches.replace(Membership, "_check_ready", lambda self, verb: None)


def count_a_removed_leader(patches: Patches) -> None:
    """A leader that is being removed counts itself in the majority of those that stay."""
    count = RaftCore.set_voters

    def with_itself(self: RaftCore, others: list[int], *, with_itself: bool) -> None:
        count(self, others, with_itself=True)

    patches.replace(RaftCore, "set_voters", with_itself)


def count_a_lost_voter(patches: Patches) -> None:
    """A voter that lost its disk counts as the one it was."""
    patches.replace(Voters, "counts", lambda self, peer: peer in self.present)
    patches.replace(Voters, "may_stand", lambda self: bool(self.in_force))


def use_a_set_when_committed(patches: Patches) -> None:
    """A set of voters is in force only when it is committed, not from when it is in the log."""
    patches.replace(Voters, "in_force", property(lambda self: self.committed or self.state.pins))
    patches.replace(Voters, "agreed", lambda self, node_id: self.in_force.get(node_id))


def forget_the_upgrade(patches: Patches) -> None:
    """A snapshot lacks the upgrade of the quorum to a dynamic one."""

    def without(**values: object) -> SnapshotMeta:
        return replace(SnapshotMeta(**values), endpoints=None)  # type: ignore[arg-type]  # by name

    patches.replace(snapshotting, "SnapshotMeta", without)


def upgrade_at_once(patches: Patches) -> None:
    """An upgrade to a dynamic quorum counts for good before it is committed."""
    added = Voters.added

    def at_once(self: Voters, index: int, voters: VoterSet, endpoints: Endpoints | None = None) -> None:
        added(self, index, voters, endpoints)
        if endpoints is not None and not self.state.dynamic:
            self.applied(index, voters, endpoints)

    patches.replace(Voters, "added", at_once)


def upgrade_whoever_is_there(patches: Patches) -> None:
    """An upgrade names any directories, also of a voter whose lost disk is not replaced yet."""

    def check(self: Membership) -> tuple[VoterSet, Endpoints]:
        self._check_leading()
        voters = self._replica.voters
        found = {each: voters.present.get(each, known) for each, known in (voters.committed or {}).items()}
        found.pop(voters.node_id, None)
        found[voters.node_id] = voters.state.directory_id
        return found, {each: [("CONTROLLER", f"controller-{each}", 9093)] for each in found}

    patches.replace(Membership, "check_upgrade", check)


def take_lost_voters_in(patches: Patches) -> None:
    """An upgraded quorum automatically readmits voters that lost their disks, as a static one does."""
    proposal = Voters.proposal

    def by_itself(self: Voters, caught_up: set[int]) -> VoterSet | None:
        found = proposal(self, caught_up)
        if found is None and not self.pending and self.committed is not None:
            for peer in sorted(caught_up.intersection(self.committed)):
                if self.present.get(peer, self.committed[peer]) != self.committed[peer]:
                    return {**self.committed, peer: self.present[peer]}
        return found

    patches.replace(Voters, "proposal", by_itself)


def look_for_itself_once(patches: Patches) -> None:
    """A controller that the voters had where it is, or did not have at all, does not look again."""
    is_known = QuorumPresence._is_known

    async def wait_until_known(self: QuorumPresence) -> bool:
        known = await is_known(self)
        if known:
            await asyncio.get_running_loop().create_future()
        return known

    patches.replace(QuorumPresence, "_is_known", wait_until_known)
