"""The leading side: entries and snapshots out to each peer, answers in, reads, the voter set, transfer of leadership.

Everything here runs only while this node leads; `begin` and `end` bracket it. Flow control: a window of bytes and
Appends a peer; heartbeats always pass, and one whose previous entry the peer lacks reveals any loss.
"""

from collections.abc import Callable
from typing import Final

from kvorum.quorum.raft.commands import voters_command
from kvorum.quorum.raft.messages import Ack, Append, SnapshotAck, SnapshotChunk, TimeoutNow
from kvorum.quorum.raft.peers import Peer, Transfer
from kvorum.quorum.raft.reads import ReadRounds
from kvorum.quorum.raft.replica import Replica
from kvorum.quorum.raft.voters import Endpoints, VoterSet

NO_INDEX: Final = 0


class Leader:
    """See the module."""

    def __init__(self, replica: Replica, peer_ids: tuple[int, ...]) -> None:
        """Start without leadership."""
        self._replica = replica
        self.peers = {peer: Peer(peer) for peer in peer_ids}
        self.reads = ReadRounds()
        self.sequence = 0
        self.first_index = NO_INDEX
        """The index of this term's first entry (the no-op) while leading."""
        self.transfer_to: int | None = None
        self.on_voters_committed: Callable[[int], None] | None = None
        """Called with the index of each voter set that is committed while this node leads."""

    def peer(self, peer_id: int) -> Peer:
        """Return the state of a peer, a voter or an observer."""
        found = self.peers.get(peer_id)
        if found is None:
            found = self.peers[peer_id] = Peer(peer_id)
            found.begin(self._replica.journal.last_index, self.sequence)
        return found

    def forget(self, peer_id: int) -> None:
        """Remove an observer."""
        peer = self.peers.pop(peer_id, None)
        if peer is not None:
            peer.end_transfer()

    def begin(self) -> None:
        """Take over; the no-op entry is added right after this."""
        replica = self._replica
        self.first_index = replica.journal.last_index + 1
        self.transfer_to = None
        for peer in self.peers.values():
            peer.begin(replica.journal.last_index, self.sequence)

    def end(self) -> None:
        """Stop leading."""
        self.first_index = NO_INDEX
        self.transfer_to = None
        for peer in self.peers.values():
            peer.end_transfer()

    def new_session(self, peer_id: int) -> None:
        """A peer's process or connection is new: frames in flight are lost."""
        self.peer(peer_id).begin(self._replica.journal.last_index, self.sequence)
        self.recount()

    def recount(self) -> None:
        """Update pysyncobj's counts for the current voters."""
        core, voters = self._replica.core, self._replica.voters
        for peer_id, peer in self.peers.items():
            counted = voters.counts(peer_id)
            core.set_match(peer_id, peer.match_index if counted else 0)
            if not counted:
                core.forget_response(peer_id)
            elif voters.dynamic:
                core.set_last_response(peer_id, peer.followed_at)

    # Out.

    def heartbeat(self) -> None:
        """Send each peer its missing entries; without any, a heartbeat."""
        replica = self._replica
        replica.core.set_heartbeat_due(replica.now() + replica.settings.heartbeat_s)
        for peer in self.peers.values():
            self._send(peer, heartbeat=True)

    def push(self) -> None:
        """Send each peer its missing entries, within the windows."""
        for peer in self.peers.values():
            self._send(peer, heartbeat=False)

    def notify_commit(self) -> None:
        """Send peers a commit index that they do not have yet."""
        committed = self._replica.core.commit_index()
        for peer in self.peers.values():
            if peer.sent_commit < committed:
                self._send(peer, heartbeat=True)

    def _send(self, peer: Peer, *, heartbeat: bool) -> None:
        replica, journal = self._replica, self._replica.journal
        if not peer.connected or peer.node_id not in replica.voters.present:
            return
        if peer.next_index <= journal.first_index:
            self._send_snapshot(peer, heartbeat=heartbeat)
            return
        settings, done = replica.settings, False
        while peer.next_index <= journal.last_index and (not peer.probing or not peer.sent):
            if peer.sent_bytes >= settings.window_bytes or len(peer.sent) >= settings.window_count:
                break
            entries = journal.entries(peer.next_index, settings.append_bytes)
            self._append(peer, [(term, command) for command, _, term in entries])
            peer.next_index += len(entries)
            done = True
        if heartbeat and not done:
            self._append(peer, [])

    def _append(self, peer: Peer, entries: list[tuple[int, bytes]]) -> None:
        replica = self._replica
        previous = peer.next_index - 1
        previous_term = replica.journal.term_at(previous)
        assert previous_term is not None
        self.sequence += 1
        committed = replica.core.commit_index()
        message = Append(replica.core.term(), self.sequence, committed, previous, previous_term, entries)
        peer.note_sent(self.sequence, replica.now(), sum(len(command) for _, command in entries))
        peer.sent_commit = committed
        replica.outbox.ask(peer.node_id, message)

    def _send_snapshot(self, peer: Peer, *, heartbeat: bool) -> None:
        replica = self._replica
        if peer.transfer is None:
            snapshot = replica.snapshots.open_latest()
            assert snapshot is not None, "a log that begins later has a snapshot before it"
            peer.transfer = Transfer(snapshot)
        transfer, done = peer.transfer, False
        while transfer.position < transfer.snapshot.file_size and len(peer.sent) < replica.settings.chunk_window:
            data = transfer.snapshot.read_file(transfer.position, replica.settings.chunk_bytes)
            self._chunk(peer, transfer, data)
            transfer.position += len(data)
            done = True
        if heartbeat and not done:
            self._chunk(peer, transfer, b"")

    def _chunk(self, peer: Peer, transfer: Transfer, data: bytes) -> None:
        replica, meta = self._replica, transfer.snapshot.meta
        self.sequence += 1
        committed = replica.core.commit_index()
        message = SnapshotChunk(
            replica.core.term(),
            self.sequence,
            committed,
            meta.index,
            meta.term,
            transfer.position,
            transfer.snapshot.file_size,
            data,
        )
        peer.note_sent(self.sequence, replica.now(), len(data))
        replica.outbox.ask(peer.node_id, message)

    # In.

    def _believed(self, peer: Peer, term: int, sequence: int) -> bool:
        """Filter an answer, and take from it that the peer followed this leader when it was sent."""
        replica = self._replica
        if not peer.filter.accepts(term, sequence, current_term=replica.core.term()):
            return False
        sent_at = peer.answered(sequence)
        peer.answered_at = replica.now()
        peer.answered_wall_ms = replica.clock.wall_ms()
        if sent_at is not None:
            peer.followed_at = max(peer.followed_at, sent_at)
        if replica.voters.counts(peer.node_id):
            if sent_at is not None:
                replica.core.set_last_response(peer.node_id, sent_at)
            self.reads.answered(peer.node_id, sequence, others_needed=replica.voters.others_needed)
        return True

    def on_ack(self, peer_id: int, ack: Ack) -> None:
        """Process the response to an Append."""
        peer, replica = self.peer(peer_id), self._replica
        if not self._believed(peer, ack.term, ack.sequence):
            return
        if ack.matched:
            self._matched(peer, ack.index)
        elif peer.filter.may_rewind(ack.sequence):
            peer.end_transfer()
            peer.next_index = max(peer.match_index + 1, min(ack.index, replica.journal.last_index + 1))
            peer.probing = True
            peer.filter.rewound(self.sequence)
            peer.forget_sent()
        self._send(peer, heartbeat=not ack.matched)

    def _matched(self, peer: Peer, index: int) -> None:
        replica = self._replica
        last = replica.journal.last_index
        assert index <= last, "a peer cannot have matched what this leader never had"
        peer.probing = False
        if index > peer.match_index:
            peer.match_index = index
            if replica.voters.counts(peer.node_id):
                replica.core.set_match(peer.node_id, index)
        if index >= peer.next_index:
            peer.next_index = index + 1
        if peer.transfer is not None and index >= peer.transfer.snapshot.meta.index:
            peer.end_transfer()
            peer.forget_sent()
        if index == last:
            peer.caught_up_wall_ms = peer.answered_wall_ms
            if peer.node_id == self.transfer_to:
                self._hand_over(peer)

    def on_snapshot_ack(self, peer_id: int, ack: SnapshotAck) -> None:
        """Process the response to a chunk of a snapshot."""
        peer = self.peer(peer_id)
        if not self._believed(peer, ack.term, ack.sequence):
            return
        transfer = peer.transfer
        if transfer is None or transfer.snapshot.meta.index != ack.index:
            return
        if transfer.position != ack.position and not peer.sent:
            transfer.position = ack.position
        self._send(peer, heartbeat=False)

    # Reads, voters, transfer.

    def start_reads(self) -> None:
        """Begin a round for waiting reads, if this term's first entry is (to be) committed by it."""
        replica = self._replica
        index = max(replica.core.commit_index(), self.first_index)
        self.reads.start(sequence=self.sequence, commit_index=index, alone=replica.voters.others_needed == 0)
        self.heartbeat()

    def answered_majority(self, now: float) -> bool:
        """Return whether a majority, this node included, followed this leader within the check-quorum timeout."""
        replica = self._replica
        since = now - replica.settings.check_quorum_timeout_s
        voters = replica.voters
        counted = voters.ids if voters.dynamic else self.peers
        recent = sum(1 for peer in counted if replica.core.last_response(peer) > since)
        return recent >= voters.others_needed

    def propose_voters(self) -> None:
        """Append a VOTERS command if the voter set should change."""
        replica = self._replica
        last = replica.journal.last_index
        caught_up = {peer.node_id for peer in self.peers.values() if peer.match_index == last}
        proposal = replica.voters.proposal(caught_up)
        if proposal is not None:
            self.append_voters(proposal, dict(replica.voters.state.endpoints) if replica.voters.dynamic else None)

    def append_voters(self, voters: VoterSet, endpoints: Endpoints | None) -> int:
        """Append a voter set, which is in force from now on; return its index."""
        replica = self._replica
        index = replica.journal.last_index + 1
        replica.journal.add(voters_command(voters, endpoints), index, replica.core.term())
        replica.voters.added(index, voters, endpoints)
        self.recount()
        self.push()
        return index

    def voters_committed(self, index: int) -> None:
        """The voter set of an entry is committed. A leader outside the set hands over and stops."""
        replica = self._replica
        if self.on_voters_committed is not None:
            self.on_voters_committed(index)
        if not replica.voters.counts_itself:
            self.notify_commit()
            self.start_transfer()
            replica.core.step_down()

    def start_transfer(self) -> bool:
        """Choose the voter that is furthest and hand over as soon as it has everything; False without one."""
        voters = self._replica.voters
        candidates = [peer for peer in self.peers.values() if peer.connected and voters.counts(peer.node_id)]
        if not candidates:
            return False
        best = max(candidates, key=lambda peer: (peer.match_index, peer.node_id))
        self.transfer_to = best.node_id
        if best.match_index == self._replica.journal.last_index:
            self._hand_over(best)
        return True

    def _hand_over(self, peer: Peer) -> None:
        self._replica.outbox.send(peer.node_id, TimeoutNow(self._replica.core.term()))
