"""Before an election: pre-vote (KIP-996), stickiness to a live leader, and the short retry after a lost round. Sans-IO.

    quiet    -- deadline passed -->  asking: a round is out
    asking   -- majority grants -->  won: stand now (pysyncobj's election follows in the same tick)
    asking   -- gave way, or the retry time passed -->  asking again, a new round

A grant changes no durable state: neither the term nor the vote. It is given when the candidate's log is good enough and
this node also considers the leader dead: no heartbeat for the shortest election timeout, or its connection was
refused. Two simultaneous candidates would both win their round and split the vote; so a candidate grants only to a
longer log or, of equal logs, to a higher id, and then suspends its own round for a moment.
"""

from dataclasses import dataclass, field
from random import Random

from kvorum.quorum.raft.settings import RaftSettings


@dataclass(slots=True)
class PreVotes:
    """One node's side of pre-votes. Times are loop times in seconds."""

    node_id: int
    settings: RaftSettings
    rng: Random
    leader_seen: float
    """Time of the last message from a leader.

    A restarted node counts from its start: it may be loyal to a live leader.
    """
    refused: bool = False
    """The leader's own address has refused a connection since its last message."""
    round_id: int = 0
    granted: set[int] = field(default_factory=set)
    retry_at: float = 0.0
    won_until: float = 0.0
    gave_way_until: float = 0.0

    def heard_leader(self, now: float) -> None:
        """A leader of the current term spoke: any round is over."""
        self.leader_seen = now
        self.refused = False
        self.round_id = 0

    def leader_gone(self, now: float) -> bool:
        """Return whether this node considers the leader dead."""
        return self.refused or now - self.leader_seen >= self.settings.election_timeout_min_s

    def won(self, now: float) -> bool:
        """Return whether a round was won a moment ago."""
        return now < self.won_until

    def start_round(self, now: float) -> int:
        """Begin a round, and return its id; `retry_at` is when to begin the next."""
        self.round_id = self.rng.getrandbits(60) | 1
        self.granted = set()
        self.retry_at = now + self.short_delay()
        return self.round_id

    def short_delay(self) -> float:
        """Return a short random time."""
        longest = self.settings.retry_delay_max_s
        return longest * (0.2 + 0.8 * self.rng.random())

    def answer(self, peer: int, *, granted: bool, round_id: int, others_needed: int, now: float) -> bool:
        """Process the response of a counting peer; return whether the round is won by it."""
        if not granted or round_id != self.round_id or not self.round_id:
            return False
        self.granted.add(peer)
        if len(self.granted) < others_needed:
            return False
        self.round_id = 0
        self.won_until = now + self.settings.election_timeout_min_s / 2
        return True

    def standing(self) -> None:
        """The election has begun: the won round is used up."""
        self.won_until = 0.0
        self.round_id = 0

    def judge(
        self, peer: int, *, peer_log: tuple[int, int], own_log: tuple[int, int], now: float, is_leader: bool
    ) -> bool:
        """Return whether to grant a peer's pre-vote; logs are (last term, last index)."""
        if is_leader or peer_log < own_log or not self.leader_gone(now):
            return False
        asking = self.round_id != 0 or self.won(now)
        if asking and (peer_log, peer) < (own_log, self.node_id):
            return False
        self.round_id = 0
        self.won_until = 0.0
        self.gave_way_until = now + self.short_delay() + self.settings.retry_delay_max_s
        return True
