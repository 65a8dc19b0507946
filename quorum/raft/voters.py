"""Set of voters: node ids are configured, the directory of each is agreed.

Sans-IO.

A controller that lost its directory must not vote or acknowledge as if it still had it: committed metadata that only
the lost log and one dead voter held would be overwritten. So a voter is a (node id, directory id); a quorum is a
majority of the *configured ids*, and an id whose present directory is not the agreed one is like a dead voter: it is
replicated to, and its votes and responses do not count.

*First boot.* Only node ids are known then. Each node pins, durably, the directory it first sees behind each id, and
sends its pins in Hello. A node may become a candidate and vote once it has pinned all ids and every other voter has
pinned its directory: so every member of the first majority had pinned every other one, and a later node with a new
directory for an old id is rejected by each of them that still has its disk. (First boot therefore needs all voters
once, or directory ids given at format time.) The first leader commits its pins as the VOTERS command; from then on that
is the voter set.

*Re-admission.* A leader, with a quorum that does not count the wiped node, lets it catch up as an observer and appends
a VOTERS command with the new directory id. An id counts only with a directory that agrees with the committed set *and*
with every VOTERS command in the log after it. So the swap itself is committed without it, under neither identity: any
later majority shares a member other than the swapped id with that commit, and that member's log has the swap. (It is
one step where Raft would remove and add, and safe for the same reason.) In the term of the swap the new directory
cannot vote twice, since a follower's vote goes to the leader it accepts (RaftCore.follow). The counting node
(candidate, leader) must know a set to be committed; a voting node uses the newest set in its log. A leader proposes
only when the command before is committed, so of several in a log only the newest may be uncommitted: it and the one
before decide.

*Membership* (kraft.version 1, KIP-853, docs/decisions/0023). The ids themselves change: a MEMBERS command names ids,
directories and endpoints, and the newest one in the log is in force at once, committed or not, for who counts and for
how many make a majority. One id comes or goes at a time, and never while the command before is uncommitted or the
leader's term has committed nothing: any two majorities of sets that can be in force together share a voter. A directory
is never replaced in one step: a voter that lost its disk is removed and added. A node in no set follows as an observer.
A voter grants its vote to the better log, also to an unknown id, and even if it is in no set that it knows; a candidate
counts by its own log's set. An append is never rejected because of its sender's membership.

*Upgrade* (kraft.version 0 to 1). The first MEMBERS command behind VOTERS ones: the very set that is committed, with
endpoints, and nothing else changes with it. Under it the same directories of the same ids make a majority, so a node
counts alike before and after it, and the entry may be taken back like any other: a node is dynamic as long as it is in
its log, for good (`state.dynamic`) once it is committed. A node that has it grants votes as above; one that does not
have it grants too, to a candidate that has it: the later sets may need a vote from a node that only knows the static
one.

*By force.* Without a leader an operator may pin a directory at a surviving voter (`kvorum quorum readmit`): entries
that only the lost logs had are given up. The pin is sent in Hello to the affected node, which then may vote.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

import msgspec

DIRECTORY_ID_SIZE = 16
KRAFT_VERSION_MAX = 1
"""The highest kraft.version that this software knows."""
STATE_TAG = 1
DYNAMIC_FIELDS = 2
"""The last fields of StoredState, which a static quorum has not."""

VoterSet = dict[int, bytes]
"""{node id: directory id}, all configured ids."""

Endpoint = tuple[str, str, int]
"""Listener name, host, port."""
Endpoints = dict[int, list[Endpoint]]
"""Endpoints of each voter of a dynamic quorum, the default listener first."""


def address_at(endpoints: Sequence[Endpoint], listener: str) -> tuple[str, int] | None:
    """Return the address of a voter at a listener, None without it."""
    return next(((host, port) for name, host, port in endpoints if name == listener), None)


def dial_address(endpoints: Sequence[Endpoint], listener: str) -> tuple[str, int] | None:
    """Return the address of a voter at a listener, else at its default one."""
    return address_at(endpoints, listener) or (endpoints[0][1:] if endpoints else None)


@dataclass(frozen=True, slots=True)
class Pending:
    """A set in the log that is not applied yet; `endpoints` is None in a static quorum."""

    index: int
    voters: VoterSet
    endpoints: Endpoints | None = None


class StoredState(msgspec.Struct, array_like=True, tag=STATE_TAG):
    """State in a node's journal besides the log: its identity, and pinned directories."""

    cluster_id: str
    node_id: int
    directory_id: bytes
    voter_ids: list[int]
    pins: dict[int, bytes]
    ready: bool
    forced: list[int]
    voters: dict[int, bytes]
    """The newest voter set known to be committed; empty before there is one."""
    voters_index: int
    dynamic: bool = False
    """kraft.version 1, committed or formatted: the ids may change. `voter_ids` are the initial ones then, none where it
    began as observer."""
    endpoints: Endpoints = {}
    """Endpoints of `voters`, before there are any of the initial ones; empty in a static quorum."""


def encode_state(state: StoredState) -> bytes:
    """Return the bytes for the journal; a static quorum's are those that earlier versions wrote."""
    if state.dynamic:
        return msgspec.msgpack.encode(state)
    return msgspec.msgpack.encode((STATE_TAG, *msgspec.structs.astuple(state)[:-DYNAMIC_FIELDS]))


def decode_state(data: bytes) -> StoredState:
    """Return the stored state. Raises msgspec.MsgspecError."""
    return msgspec.msgpack.decode(data, type=StoredState)


@dataclass(frozen=True, slots=True)
class PeerInfo:
    """Contents of a peer's newest Hello besides its directory."""

    kraft_version_max: int = 0
    """The highest kraft.version that its software knows."""
    endpoints: tuple[Endpoint, ...] = ()
    """Its endpoints, the default listener first."""
    dynamic: bool = False
    """Whether its log has a dynamic quorum's voter set."""


UNKNOWN_PEER = PeerInfo()


@dataclass(slots=True)
class Voters:
    """One node's view of the voters. `state` must be made durable whenever a method returns True."""

    state: StoredState
    pending: list[Pending] = field(default_factory=list)
    """VOTERS and MEMBERS commands in the log that are not applied yet."""
    present: dict[int, bytes] = field(default_factory=dict)
    """The directory behind each peer's connection, by its Hello."""
    accepted_by: set[int] = field(default_factory=set)
    """Peers that have pinned this node's directory."""
    version: int = 0
    """Increases with every possible change of `pins()`."""
    listens_at: list[Endpoint] = field(default_factory=list)
    """This node's own endpoints, the default listener first; set by its host."""
    peer_infos: dict[int, PeerInfo] = field(default_factory=dict)
    """By peer, as `present`."""

    @property
    def node_id(self) -> int:
        """This node."""
        return self.state.node_id

    @property
    def committed(self) -> VoterSet | None:
        """The newest VOTERS command known to be committed (applied here once, or a snapshot's)."""
        return self.state.voters or None

    @property
    def dynamic(self) -> bool:
        """Whether the ids may change (kraft.version 1): committed, or by an upgrade in this log that may yet go."""
        return self.state.dynamic or any(each.endpoints is not None for each in self.pending)

    @property
    def in_force(self) -> VoterSet:
        """The newest set of a dynamic quorum: in this log, committed or not, else the initial one."""
        if self.pending:
            return self.pending[-1].voters
        return self.state.pins if self.committed is None else self.committed

    @property
    def endpoints(self) -> Endpoints:
        """Endpoints of the voters of `in_force`."""
        newest = self.pending[-1].endpoints if self.pending else None
        return self.state.endpoints if newest is None else newest

    @property
    def ids(self) -> list[int]:
        """The ids that make up the quorum now, in order."""
        return sorted(self.in_force) if self.dynamic else self.state.voter_ids

    @property
    def majority(self) -> int:
        """Size of a majority of `ids`."""
        return len(self.ids) // 2 + 1

    @property
    def others_needed(self) -> int:
        """Number of other voters in a majority with this node; a leader that is being removed does not count itself."""
        return self.majority - (1 if self.counts_itself else 0)

    @property
    def counts_itself(self) -> bool:
        """Whether this node's id is one of the quorum."""
        return not self.dynamic or self.node_id in self.in_force

    def agreed(self, node_id: int) -> bytes | None:
        """Return the directory that counts for an id, None if there is none (unknown, or in the middle of a change)."""
        if node_id in self.state.forced:
            return self.state.pins.get(node_id)
        base = self.state.pins if self.committed is None else self.committed
        sets = [base, *(each.voters for each in self.pending)][-2:]
        if self.dynamic:
            return self.in_force.get(node_id)
        directory = sets[0].get(node_id)
        return directory if sets[-1].get(node_id) == directory else None

    def counts(self, peer: int) -> bool:
        """Return whether a peer's responses and votes count, by its present directory."""
        directory = self.present.get(peer)
        return directory is not None and directory == self.agreed(peer)

    def newest(self, node_id: int) -> bytes | None:
        """Return the directory that the newest voter set in the log names, committed or not."""
        if node_id in self.state.forced or not self.pending:
            return self.agreed(node_id)
        return self.pending[-1].voters.get(node_id)

    def may_vote(self) -> bool:
        """Return whether this node itself may vote.

        A set that is in its log is enough: a candidate counts the vote only if it knows the set to be committed. In a
        dynamic quorum it votes even if none of its sets names it: the candidate may have one that does, and could not
        be elected otherwise; the vote counts only there.
        """
        if self.dynamic:
            return True
        if self.committed is None and not self.state.ready:
            return False
        return self.newest(self.node_id) == self.state.directory_id

    def may_stand(self) -> bool:
        """Return whether this node may become a candidate: it counts itself, so it must know that it counts.

        A voter whose uncommitted removal is in its log may be a candidate too, without its own vote: of two, the
        remaining ones may lack that entry, and could not be elected (Ongaro's dissertation, 4.2.2).
        """
        known = bool(self.in_force) if self.dynamic else self.may_vote()
        return known and (self.agreed(self.node_id) == self.state.directory_id or self._is_outgoing())

    def _is_outgoing(self) -> bool:
        """Return whether the newest set is not committed and leaves this node out, which was a voter before."""
        if not self.dynamic or not self.pending or self.counts_itself:
            return False
        before = self.pending[-2].voters if len(self.pending) > 1 else self.committed or self.state.pins
        return before.get(self.node_id) == self.state.directory_id

    def may_grant(self, peer: int) -> bool:
        """Return whether this node may vote for a peer, according to voter sets; the logs are compared in addition.

        A candidate whose log has a dynamic set uses that one: this node's, which may be older, does not matter.
        """
        if self.peer_infos.get(peer, UNKNOWN_PEER).dynamic:
            return peer in self.present
        return self.may_vote() and self.may_lead(peer)

    def may_lead(self, peer: int) -> bool:
        """Return whether a peer may get this node's vote, by the newest set in this node's log.

        In a dynamic quorum that set may be older than the peer's: the log that is compared decides alone.
        """
        directory = self.present.get(peer)
        if self.dynamic:
            return directory is not None
        return directory is not None and directory == self.newest(peer)

    def hello(self, peer: int, directory_id: bytes, pins: VoterSet, forced: list[int]) -> bool:
        """Process a peer's Hello. Returns whether `state` changed."""
        state, before = self.state, (dict(self.state.pins), self.state.ready)
        self.version += 1
        self.present[peer] = directory_id
        if self.dynamic or peer not in state.voter_ids:
            return False  # pins are used by a static quorum's voters only
        if self.committed is None and peer not in state.pins:
            state.pins[peer] = directory_id
        if pins.get(self.node_id) == state.directory_id:
            self.accepted_by.add(peer)
            if self.committed is None and not state.ready and self.node_id in forced:
                state.pins = {**state.pins, **pins}
                state.ready = True
        else:
            self.accepted_by.discard(peer)
        self.see_ready()
        return (state.pins, state.ready) != before

    def see_ready(self) -> None:
        """Record the end of the first boot's agreement: all are pinned, and all have pinned this node."""
        state = self.state
        if self.committed is None and set(state.pins) == set(state.voter_ids):
            state.ready = state.ready or self.accepted_by == set(state.voter_ids) - {state.node_id}

    def gone(self, peer: int) -> None:
        """Forget a peer's connection."""
        self.present.pop(peer, None)
        self.peer_infos.pop(peer, None)

    def pins(self) -> VoterSet:
        """Return this node's view of each directory, for its Hello."""
        return {node_id: agreed for node_id in self.ids if (agreed := self.agreed(node_id)) is not None}

    def force(self, node_id: int, directory_id: bytes) -> None:
        """Pin a directory on an operator's request. The caller makes `state` durable and informs the peers."""
        assert len(directory_id) == DIRECTORY_ID_SIZE and node_id in self.ids
        self.version += 1
        forced = {each: self.state.pins[each] for each in self.state.forced}
        self.state.pins = {**(self.committed or self.state.pins), **forced, node_id: directory_id}
        if node_id not in self.state.forced:
            self.state.forced.append(node_id)

    def added(self, index: int, voters: VoterSet, endpoints: Endpoints | None = None) -> None:
        """Record a VOTERS or MEMBERS command that entered the log."""
        self.version += 1
        if index > self.state.voters_index:
            assert endpoints is not None or not self.endpoints, "a dynamic quorum never becomes a static one again"
            self.pending.append(Pending(index, voters, endpoints))

    def truncated(self, index: int) -> None:
        """Record that the log from `index` on was truncated."""
        self.version += 1
        while self.pending and self.pending[-1].index >= index:
            self.pending.pop()

    def applied(self, index: int, voters: VoterSet, endpoints: Endpoints | None = None) -> bool:
        """Apply a committed set (a command applied, or a snapshot's). Returns whether `state` changed."""
        state = self.state
        self.version += 1
        self.pending = [item for item in self.pending if item.index > index]
        if index <= state.voters_index or not voters:
            return False
        state.voters, state.voters_index, state.ready = voters, index, True
        state.dynamic = state.dynamic or endpoints is not None
        state.endpoints = endpoints or {}
        state.forced = [node_id for node_id in state.forced if voters.get(node_id) != state.pins[node_id]]
        state.pins = {**voters, **{node_id: state.pins[node_id] for node_id in state.forced}}
        return True

    def proposal(self, caught_up: set[int]) -> VoterSet | None:
        """Leader: return the voter set to append next, or None: the first one, a forced one, or one re-admission.

        `caught_up` are peers whose log is as long as this one's. One change at a time: never while one is pending.
        """
        if self.pending:
            return None
        pins = self.state.pins
        if self.committed is None:
            return dict(pins) if set(pins) == set(self.state.voter_ids) else None
        for node_id in self.state.forced:
            return {**self.committed, node_id: pins[node_id]}
        if self.dynamic:
            return None
        for peer in sorted(caught_up.intersection(self.committed)):
            directory = self.present.get(peer)
            if directory is not None and directory != self.committed.get(peer):
                return {**self.committed, peer: directory}
        return None
