"""The follower's side: Appends and snapshot chunks, checked against the log by the guard's rules; answers.

An answer is sent when its content is durable. Contradictions to committed entries are never resolved here: this log, or
the leader's, has lost committed entries (or an operator gave them up), and the node ends.
"""

import asyncio
from functools import partial

from kvorum.quorum.raft.applying import Applier
from kvorum.quorum.raft.commands import voters_of
from kvorum.quorum.raft.guard import judge_append, snapshot_is_useful
from kvorum.quorum.raft.log import WHAT_TO_DO
from kvorum.quorum.raft.messages import Ack, Append, SnapshotAck, SnapshotChunk
from kvorum.quorum.raft.replica import Replica
from kvorum.quorum.raft.snapshot import SnapshotMeta
from kvorum.runtime import blocking


class LogDiverged(Exception):
    """A leader's log contradicts committed entries: one of the two lost metadata, or was forced to give it up."""


class Follower:
    """See the module."""

    __slots__ = ("_applier", "_installing", "_replica")

    def __init__(self, replica: Replica, applier: Applier) -> None:
        """Serve one replica."""
        self._replica = replica
        self._applier = applier
        self._installing = False

    def _follow(self, peer: int, term: int, sequence: int) -> bool:
        """Accept the sender as leader; an outdated sender receives the current term."""
        replica = self._replica
        if term < replica.core.term():
            replica.outbox.send(peer, Ack(replica.core.term(), sequence, False, 0))
            return False
        replica.core.follow(peer, term)
        replica.prevotes.heard_leader(replica.now())
        return True

    def on_append(self, peer: int, message: Append) -> None:
        """Process entries, or a heartbeat."""
        if not self._follow(peer, message.term, message.sequence):
            return
        core, journal, voters = self._replica.core, self._replica.journal, self._replica.voters
        committed = core.commit_index()
        verdict = judge_append(
            message.previous_index,
            message.previous_term,
            [term for term, _ in message.entries],
            first_index=journal.first_index,
            last_index=journal.last_index,
            committed=committed,
            term_at=journal.term_at,
            first_index_of_term=journal.first_index_of_term,
        )
        if verdict.matched:
            if verdict.truncate_from is not None:
                self._must_be_above(verdict.truncate_from, committed, peer)
                journal.truncate_from(verdict.truncate_from)
                voters.truncated(verdict.truncate_from)
            index = message.previous_index + verdict.skip
            for term, command in message.entries[verdict.skip :]:
                index += 1
                journal.add(command, index, term)
                added = voters_of(command)
                if added is not None:
                    voters.added(index, *added)
            core.set_committed(min(message.commit_index, verdict.at))
        elif message.previous_index <= journal.last_index:
            self._must_be_above(message.previous_index, committed, peer)
        answer = Ack(message.term, message.sequence, verdict.matched, verdict.at)
        self._replica.outbox.send_durable(peer, answer)

    def _must_be_above(self, index: int, committed: int, leader: int) -> None:
        if index <= committed:
            reason = f"leader {leader} has another entry {index}; up to {committed} was committed here"
            raise LogDiverged(f"{reason}; {WHAT_TO_DO}")

    def on_chunk(self, peer: int, message: SnapshotChunk) -> None:
        """Process a chunk of a snapshot."""
        if not self._follow(peer, message.term, message.sequence):
            return
        replica, store = self._replica, self._replica.snapshots
        committed = replica.core.commit_index()
        useful = snapshot_is_useful(
            message.index, message.snapshot_term, committed=committed, term_at=replica.journal.term_at
        )
        if not useful:
            store.abandon()
            have = max(committed, message.index)
            replica.outbox.send_durable(peer, Ack(message.term, message.sequence, True, have))
            return
        position = message.file_size
        if not self._installing:
            identity = (message.index, message.snapshot_term, message.file_size)
            position = store.receive(*identity, message.position, message.data)
            if position == message.file_size:
                self._installing = True
                index, term = store.detach()
                work = blocking.run(asyncio.get_running_loop(), store.install, index, term)
                work.add_done_callback(partial(self._arrived, peer, message.term, message.sequence))
        answer = SnapshotAck(message.term, message.sequence, message.index, position)
        replica.outbox.send_durable(peer, answer)

    def _arrived(self, peer: int, term: int, sequence: int, work: asyncio.Future[SnapshotMeta]) -> None:
        """The snapshot is durable: make it the state, unless this node has got further meanwhile."""
        replica = self._replica
        error = work.exception()
        if error is not None:
            replica.fail(error)
            return
        if self._applier.busy:
            self._applier.when_idle(partial(self._arrived, peer, term, sequence, work))
            return
        self._installing = False
        meta = work.result()
        replica.snapshots.adopt(meta)
        if meta.index > replica.core.commit_index() and not replica.core.is_leader():
            try:
                self._install(meta)
            except Exception as failure:
                replica.fail(failure)
                return
        if replica.core.term() == term and not replica.core.is_leader():
            replica.outbox.send_durable(peer, Ack(term, sequence, True, replica.core.commit_index()))
        replica.wake()

    def _install(self, meta: SnapshotMeta) -> None:
        replica, journal = self._replica, self._replica.journal
        if journal.term_at(meta.index) != meta.term:
            journal.reset(meta.index, meta.term)
            replica.voters.truncated(0)
        replica.core.set_committed(meta.index)
        if replica.voters.applied(meta.index, dict(meta.voters), meta.endpoints):
            replica.keep_voters()
        assert replica.snapshots.latest == meta
        self._applier.load_latest()
