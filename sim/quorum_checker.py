"""Invariants of the metadata quorum, checked after each event of a simulation.

ConsistentCommittedData    no two nodes ever apply different batches at one offset; none is skipped or applied twice
MonotonicHighWatermark     it never decreases while a node runs
MonotonicEpoch             the term never decreases
SingleLeader               at most one node is ever leader of a term
LeaderCompleteness         a new active controller has applied everything acknowledged
MajorityReachedHighWatermark   a leader's commits are durable on a majority of the current voters
AcknowledgedIsKept         an acknowledged batch stays in the committed log at its offset
LinearizableRead           a read index is not below offsets acknowledged before the request for
OneVoteATerm               a directory votes for one candidate in a term, also after restarts
KeptTerm                   a directory never sends in an older term than one of its votes
TrueMatch                  a peer's log durably contains all that its leader assumes
StateIsReplay              a snapshot's state equals the replay of the committed log
LeaderLoadsNoSnapshot      a leader has all of the log: it loads only the snapshot it started with, before it is active
UpgradeIsKept              the upgrade to a dynamic quorum is committed, and no node ever reverts it
OneSetAtATime              no set of voters follows an uncommitted one: they may have separate majorities
OneChangeAtATime           each set of a dynamic quorum differs from the previous one by at most one directory
Convergence                after repair, one leader is active, all nodes are equal, and an append succeeds
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from hashlib import blake2b
from itertools import pairwise
from typing import Protocol

from kvorum.protocol.batch_header import parse_header
from kvorum.quorum.raft.journal import DurableJournal
from kvorum.quorum.raft.messages import Ack, PreVoteAnswer, Vote, VoteAnswer, decode
from kvorum.quorum.raft.voters import Voters
from sim.ledger import Violation

EMPTY_STATE = bytes(16)
PROMISING_TAGS = frozenset((2, 3, 4, 6))
"""PreVoteAnswer, Vote, VoteAnswer, Ack."""


def next_state(state: bytes, batch: bytes) -> bytes:
    """Return the state after a batch: a hash chain, the smallest deterministic state machine."""
    return blake2b(batch, digest_size=16, key=state).digest()


class VoterState(Protocol):
    """Interface of a voter for the checker."""

    node_id: int
    journals: dict[bytes, DurableJournal]


@dataclass(slots=True)
class CommittedBatch:
    """A batch that some node applied."""

    base_offset: int
    end_offset: int
    epoch: int
    digest: bytes
    state: bytes
    """The state behind it."""


@dataclass(slots=True)
class Checker:
    """See the module: it sees every node at once, as no node can."""

    log: list[CommittedBatch] = field(default_factory=list)
    end_offsets: dict[int, int] = field(default_factory=lambda: {0: 0})
    """End offset -> number of batches of `log` below it."""
    leaders: dict[int, tuple[int, bytes]] = field(default_factory=dict)
    votes: dict[tuple[bytes, int], int] = field(default_factory=dict)
    vote_terms: dict[bytes, int] = field(default_factory=dict)
    """Directory -> the highest term in which it gave a vote or took entries."""
    acked_digests: dict[int, bytes] = field(default_factory=dict)
    """Base offset -> digest of the batch as its author knows it."""
    acknowledged_end: int = 0
    committed_index: int = 0
    highest_commit: int = 0
    """The highest commit index that any node was ever at, whether it led or not."""
    upgraded_index: int = 0
    """Offset at which a static quorum was seen to be a committed dynamic one."""

    def apply(self, node_id: int, high_watermark: int, base_offset: int, epoch: int, batch: bytes) -> bytes:
        """Process a batch that a node applies; return the state after it."""
        if base_offset != high_watermark:
            raise Violation(
                "ConsistentCommittedData",
                f"node {node_id} applies offset {base_offset} at high watermark {high_watermark}",
            )
        place = self.end_offsets.get(base_offset)
        if place is None:
            raise Violation(
                "ConsistentCommittedData",
                f"node {node_id} applies at offset {base_offset}, in the middle of another's batch",
            )
        header = parse_header(batch)
        if (header.base_offset, header.partition_leader_epoch) != (base_offset, epoch):
            raise Violation(
                "ConsistentCommittedData",
                f"offset {base_offset}: the bytes say {header.base_offset}, {header.partition_leader_epoch}",
            )
        digest = blake2b(batch, digest_size=16).digest()
        if place < len(self.log):
            known = self.log[place]
            if (known.digest, known.epoch) != (digest, epoch):
                raise Violation(
                    "ConsistentCommittedData", f"node {node_id} applies another batch at offset {base_offset}"
                )
            return known.state
        state = next_state(self.state_at(base_offset), batch)
        self.log.append(CommittedBatch(base_offset, header.next_offset, epoch, digest, state))
        self.end_offsets[header.next_offset] = len(self.log)
        return state

    def state_at(self, offset: int) -> bytes:
        """Return the state of a node that applied everything below `offset`."""
        place = self.end_offsets.get(offset)
        if place is None:
            raise Violation("StateIsReplay", f"no batch ends at offset {offset}")
        return self.log[place - 1].state if place else EMPTY_STATE

    def load(self, node_id: int, end_offset: int, state: bytes) -> None:
        """A node takes a snapshot's state."""
        if self.state_at(end_offset) != state:
            raise Violation(
                "StateIsReplay", f"node {node_id} loads a snapshot to {end_offset} whose state no replay gives"
            )

    def leads(self, node_id: int, incarnation: bytes, epoch: int) -> None:
        """A node is leader of a term."""
        known = self.leaders.setdefault(epoch, (node_id, incarnation))
        if known[0] != node_id:
            raise Violation("SingleLeader", f"nodes {known[0]} and {node_id} both lead term {epoch}")

    def active(self, node_id: int, high_watermark: int) -> None:
        """A leader becomes active."""
        if high_watermark < self.acknowledged_end:
            raise Violation(
                "LeaderCompleteness",
                f"node {node_id} becomes active at {high_watermark}, acknowledged is up to {self.acknowledged_end}",
            )

    def check_acknowledgement(self, base_offset: int, end_offset: int, digest: bytes) -> None:
        """An append was acknowledged."""
        place = self.end_offsets.get(base_offset)
        if place is None or place >= len(self.log) or self.log[place].digest != digest:
            raise Violation(
                "AcknowledgedIsKept", f"offset {base_offset} is acknowledged, but another batch was applied there"
            )
        self.acked_digests[base_offset] = digest
        self.acknowledged_end = max(self.acknowledged_end, end_offset)

    def read(self, high_watermark: int, acknowledged_before: int) -> None:
        """A read index was given."""
        if high_watermark < acknowledged_before:
            raise Violation(
                "LinearizableRead",
                f"read index {high_watermark}, acknowledged before the request: {acknowledged_before}",
            )

    def check_commit(self, index: int, term: int, voters: Iterable[VoterState], agreed: dict[int, bytes]) -> None:
        """A leader's commit index moved."""
        if index <= self.committed_index:
            return
        self.committed_index = index
        holders = [voter.node_id for voter in voters if _holds(voter, index, term, agreed)]
        if len(holders) * 2 <= len(agreed):
            raise Violation(
                "MajorityReachedHighWatermark",
                f"index {index} of term {term} is committed, durable only on {holders} of {sorted(agreed)}",
            )

    def check_voter_sets(self, node_id: int, voters: Voters, commit_index: int) -> None:
        """Look at the sets of voters in a node's log that it has not applied."""
        self.highest_commit = max(self.highest_commit, commit_index)
        for older, newer in pairwise(voters.pending):
            if older.index > self.highest_commit:
                raise Violation(
                    "OneSetAtATime",
                    f"node {node_id} has voters {sorted(newer.voters)} at index {newer.index}, behind those at "
                    f"{older.index}, which are not known to be committed",
                )

    def check_upgrade(self, node_id: int, voters: Voters, commit_index: int, last_applied: int) -> None:
        """Look at a node's voters: those of a quorum that was static at first.

        Whether the upgrade is committed the node itself knows: a leader may commit and step down in one moment.
        """
        index = voters.state.voters_index if voters.state.dynamic and voters.state.endpoints else 0
        if not self.upgraded_index and index > commit_index:
            raise Violation("UpgradeIsKept", f"node {node_id} is upgraded by index {index}, which is not committed")
        self.upgraded_index = self.upgraded_index or index
        if not index and 0 < self.upgraded_index <= last_applied:
            raise Violation("UpgradeIsKept", f"node {node_id} at index {last_applied} is not upgraded")
        if voters.pending and voters.pending[-1].endpoints is not None:
            newest = voters.pending[-1].voters.items()
            before = voters.pending[-2].voters if len(voters.pending) > 1 else voters.committed or voters.state.pins
            if len(newest ^ before.items()) > 1:
                raise Violation("OneChangeAtATime", f"node {node_id}: from {before} to {dict(newest)}")

    def check_frame(self, directory_id: bytes, node_id: int, peer: int, frame: bytes) -> None:
        """Process a frame of a voter: check its vote and term. The tag is the second byte of the msgpack array."""
        if frame[2] not in PROMISING_TAGS:
            return
        message = decode(frame)
        if isinstance(message, PreVoteAnswer | Ack | Vote | VoteAnswer) and (
            message.term < self.vote_terms.get(directory_id, 0)
        ):
            raise Violation(
                "KeptTerm", f"node {node_id} is in term {message.term} after {self.vote_terms[directory_id]}"
            )
        match message:
            case Vote():
                self._check_vote(directory_id, node_id, message.term, node_id)
            case VoteAnswer(granted=True):
                self._check_vote(directory_id, node_id, message.term, peer)
            case Ack(matched=True):
                self.vote_terms[directory_id] = message.term

    def _check_vote(self, directory_id: bytes, node_id: int, term: int, candidate: int) -> None:
        self.vote_terms[directory_id] = term
        first = self.votes.setdefault((directory_id, term), candidate)
        if first != candidate:
            raise Violation("OneVoteATerm", f"node {node_id} votes for {first} and for {candidate} in term {term}")

    def check_match_index(
        self, leader: int, term: int, peer: int, index: int, index_term: int, journal: DurableJournal
    ) -> None:
        """A leader believes a peer to match up to an index."""
        if journal.getCurrentTerm() > term or index < journal.first_index:
            return
        if index > journal.durable_index or journal.term_at(index) != index_term:
            raise Violation(
                "TrueMatch", f"node {leader} believes node {peer} to hold index {index} of term {index_term}"
            )

    def final(self) -> None:
        """At the end: every acknowledged batch is in the log."""
        for offset, digest in self.acked_digests.items():
            if self.log[self.end_offsets[offset]].digest != digest:
                raise Violation("AcknowledgedIsKept", f"acknowledged batch at offset {offset} is lost")


def _holds(voter: VoterState, index: int, term: int, agreed: dict[int, bytes]) -> bool:
    journal = voter.journals.get(agreed.get(voter.node_id, b"?"))
    if journal is None:
        return False
    if index < journal.first_index:
        return True
    return index <= journal.durable_index and journal.term_at(index) == term
