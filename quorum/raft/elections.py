"""Votes and pre-votes around pysyncobj's election: voters, responses, and retries.

pysyncobj decides by terms and logs. Additions: only voters that count (node id and directory), one vote each, loyalty
to a live leader unless it handed over itself, a pre-vote round before a new term, and explicit refusals so that a split
vote is retried within tens of milliseconds.
"""

from typing import Any

from kvorum.quorum.raft.core import CANDIDATE
from kvorum.quorum.raft.messages import PreVote, PreVoteAnswer, TimeoutNow, Vote, VoteAnswer
from kvorum.quorum.raft.replica import Replica

ROUNDS_BACKED_OFF = 4
"""The retry time doubles with each consecutive lost round, this number of times at most."""


class Elections:
    """See the module."""

    __slots__ = (
        "_answered",
        "_granted",
        "_refused",
        "_replica",
        "_rounds",
        "by_transfer",
        "connected",
        "silent",
    )

    def __init__(self, replica: Replica) -> None:
        """Serve one replica."""
        self._replica = replica
        self.connected: set[int] = set()
        self.by_transfer = False
        self.silent = False
        """The election deadline has passed: peers may not know this node, so Hello is due again."""
        self._granted: set[int] = set()
        self._refused: set[int] = set()
        self._rounds = 0
        self._answered = False

    def _others_needed(self) -> int:
        return self._replica.voters.others_needed

    def _connected_voters(self) -> set[int]:
        return self.connected.intersection(self._replica.voters.ids)

    def may_stand(self) -> bool:
        """The election deadline has passed (CoreHooks.may_stand)."""
        replica, now = self._replica, self._replica.now()
        core, prevotes = replica.core, replica.prevotes
        self.silent = True
        if not replica.voters.may_stand():
            # Its address may have changed: without a leader an observer requests the voters from the bootstrap servers.
            core.forget_leader()
            core.set_election_deadline(now + core.random_timeout())
            return False
        if core.transfer_pending() or self._others_needed() == 0 or prevotes.won(now):
            self.by_transfer = core.transfer_pending()
            prevotes.standing()
            self._granted, self._refused = set(), set()
            return True
        if now < prevotes.gave_way_until:
            core.set_election_deadline(prevotes.gave_way_until)
            return False
        if len(self._connected_voters()) < self._others_needed():
            core.set_election_deadline(now + core.random_timeout())
            return False
        self._start_round(now)
        return False

    def _start_round(self, now: float) -> None:
        replica = self._replica
        round_id = replica.prevotes.start_round(now)
        backed_off = (replica.prevotes.retry_at - now) * (1 << min(self._rounds, ROUNDS_BACKED_OFF))
        self._rounds += 1
        replica.core.set_election_deadline(now + backed_off)
        last_term, last_index = replica.last_log()
        message = PreVote(replica.core.term() + 1, round_id, last_index, last_term)
        for peer in sorted(self._connected_voters()):
            replica.outbox.ask(peer, message)

    def leader_heard(self) -> None:
        """There is a leader: start with short retries next time."""
        self._rounds = 0

    def leader_refused(self) -> None:
        """The leader's own address refused a connection: treat it as dead, start a pre-vote soon."""
        replica = self._replica
        replica.prevotes.refused = True
        soon = replica.now() + replica.settings.hint_delay_max_s * replica.prevotes.rng.random()
        if soon < replica.core.election_deadline():
            replica.core.set_election_deadline(soon)
        replica.wake()

    def on_prevote(self, peer: int, message: PreVote) -> None:
        """Answer a pre-vote."""
        replica = self._replica
        eligible = replica.voters.may_grant(peer) and message.term > replica.core.term()
        granted = eligible and replica.prevotes.judge(
            peer,
            peer_log=(message.last_term, message.last_index),
            own_log=replica.last_log(),
            now=replica.now(),
            is_leader=replica.core.is_leader(),
        )
        replica.outbox.send(peer, PreVoteAnswer(replica.core.term(), message.round_id, granted))

    def on_prevote_answer(self, peer: int, message: PreVoteAnswer) -> None:
        """Process the response to a pre-vote."""
        replica = self._replica
        if not replica.voters.counts(peer):
            return
        if message.term > replica.core.term():
            replica.core.adopt_term(message.term)
            return
        won = replica.prevotes.answer(
            peer,
            granted=message.granted,
            round_id=message.round_id,
            others_needed=self._others_needed(),
            now=replica.now(),
        )
        if won and not replica.core.is_leader():
            replica.core.set_election_deadline(replica.now() - 1e-6)

    def on_vote(self, peer: int, message: Vote) -> None:
        """Answer a candidate."""
        replica = self._replica
        core, voters = replica.core, replica.voters
        known = voters.may_grant(peer) and message.directory_id == voters.present[peer]
        loyal = not message.transfer and (core.is_leader() or not replica.prevotes.leader_gone(replica.now()))
        self._answered = False
        if known and not (loyal and message.term > core.term()):
            core.receive(
                peer,
                {
                    "type": "request_vote",
                    "term": message.term,
                    "last_log_index": message.last_index,
                    "last_log_term": message.last_term,
                },
            )
        if not self._answered:
            replica.outbox.send_durable(peer, VoteAnswer(core.term(), False, voters.state.directory_id))

    def on_vote_answer(self, peer: int, message: VoteAnswer) -> None:
        """Count a vote, once; try again soon if the election is lost."""
        replica = self._replica
        core, voters = replica.core, replica.voters
        if not voters.counts(peer) or message.directory_id != voters.present[peer]:
            return
        if message.term > core.term():
            core.adopt_term(message.term)
            return
        if message.term != core.term() or core.role() != CANDIDATE or peer in self._granted:
            return
        if message.granted:
            self._granted.add(peer)
            core.receive(peer, {"type": "response_vote", "term": message.term})
            return
        self._refused.add(peer)
        open_answers = len(self._connected_voters() - self._refused - self._granted)
        if len(self._granted) + open_answers < self._others_needed():
            soon = replica.now() + replica.prevotes.short_delay()
            core.set_election_deadline(min(core.election_deadline(), soon))

    def on_timeout_now(self, peer: int, message: TimeoutNow) -> None:
        """The leader transfers leadership: start an election at once."""
        if self._replica.core.leader_id() == peer and message.term == self._replica.core.term():
            self._replica.core.receive(peer, {"type": "timeout_now", "term": message.term})

    def send(self, peer: int, message: dict[str, Any]) -> None:
        """Send pysyncobj's vote messages (CoreHooks.send_message), each once its promise is durable."""
        replica = self._replica
        directory_id = replica.voters.state.directory_id
        kind = message["type"]
        assert kind in ("request_vote", "response_vote"), kind
        if kind == "response_vote":
            self._answered = True
            replica.outbox.send_durable(peer, VoteAnswer(message["term"], True, directory_id))
            return
        last_index, last_term = message["last_log_index"], message["last_log_term"]
        vote = Vote(message["term"], last_index, last_term, self.by_transfer, directory_id)
        replica.outbox.send_durable(peer, vote)
