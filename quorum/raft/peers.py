"""A leader's state of one peer: its progress, frames in flight, and which responses are valid. Sans-IO.

probing      one Append at a time, until one matches
streaming    as many as the window allows, each behind the last
transfer     the peer lacks removed entries: pieces of the snapshot instead, then probing again
"""

from collections import deque
from dataclasses import dataclass, field
from typing import NamedTuple

from kvorum.quorum.raft.guard import AckFilter
from kvorum.quorum.raft.snapshot import Snapshot

SENT_MAX = 4096
"""Heartbeats that a connected peer never answers are forgotten beyond this."""


class Sent(NamedTuple):
    """An Append or chunk that has no answer yet."""

    sequence: int
    at: float
    size: int


@dataclass(slots=True)
class Transfer:
    """A snapshot that is being sent to a peer."""

    snapshot: Snapshot
    position: int = 0


@dataclass(slots=True)
class Peer:
    """See the module. Indexes are Raft's; times are loop times in seconds."""

    node_id: int
    connected: bool = False
    incarnation: int | None = None
    next_index: int = 1
    match_index: int = 0
    probing: bool = True
    filter: AckFilter = field(default_factory=AckFilter)
    sent: deque[Sent] = field(default_factory=deque)
    sent_bytes: int = 0
    sent_commit: int = 0
    transfer: Transfer | None = None
    answered_at: float = float("-inf")
    followed_at: float = float("-inf")
    """Send time of the newest message with a response in this term: it follows this leader at least since then."""
    answered_wall_ms: int = -1
    caught_up_wall_ms: int = -1

    def begin(self, last_index: int, last_sequence: int) -> None:
        """Start over: a new term of this leader, or a new life (or connection) of the peer."""
        self.next_index = last_index + 1
        self.match_index = 0
        self.probing = True
        self.filter.new_session(last_sequence)
        self.forget_sent()
        self.sent_commit = 0
        self.followed_at = float("-inf")
        self.end_transfer()

    def note_sent(self, sequence: int, now: float, size: int) -> None:
        """Store a sent frame."""
        self.sent.append(Sent(sequence, now, size))
        self.sent_bytes += size
        if len(self.sent) > SENT_MAX:
            self.sent_bytes -= self.sent.popleft().size

    def forget_sent(self) -> None:
        """Ignore the send times of all frames so far."""
        self.sent.clear()
        self.sent_bytes = 0

    def answered(self, sequence: int) -> float | None:
        """Remove the frames that a response completes (links are ordered); return that number's send time, if known."""
        at = None
        while self.sent and self.sent[0].sequence <= sequence:
            sent = self.sent.popleft()
            self.sent_bytes -= sent.size
            if sent.sequence == sequence:
                at = sent.at
        return at

    def end_transfer(self) -> None:
        """Stop sending a snapshot."""
        if self.transfer is not None:
            self.transfer.snapshot.close()
            self.transfer = None
