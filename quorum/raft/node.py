"""QuorumNode: one voter, driven by the running event loop; connects pysyncobj's core with journal, guard and peers.

    frame in -> handled at once (journal, responses held)+
    append   -> queued ----------------------------------+-> one tick soon: election, commit rule, apply, send
    timer    -> election deadline or heartbeat ----------+       -> group commit off the loop -> held frames out, tick

Everything runs on the loop; only fdatasync, snapshots and preallocation leave it (kvorum.runtime.blocking). An
exception in any of it, from a full disk to a state machine that refuses a batch, ends the node: `on_fatal` is called
once, nothing is sent or written any more, and the process is expected to exit.
"""

import asyncio
from collections.abc import Callable
from random import Random
from typing import Any

from kvorum.quorum.raft.applying import Applier
from kvorum.quorum.raft.core import LEADER, RaftCore
from kvorum.quorum.raft.elections import Elections
from kvorum.quorum.raft.follower import Follower
from kvorum.quorum.raft.greetings import Greetings
from kvorum.quorum.raft.group_commit import GroupCommit
from kvorum.quorum.raft.leader import NO_INDEX, Leader
from kvorum.quorum.raft.membership import Membership
from kvorum.quorum.raft.messages import (
    Ack,
    Append,
    Hello,
    Message,
    PreVote,
    PreVoteAnswer,
    SnapshotAck,
    SnapshotChunk,
    TimeoutNow,
    Vote,
    VoteAnswer,
    decode,
)
from kvorum.quorum.raft.observer import RaftObserver, Unobserved
from kvorum.quorum.raft.opening import Opened
from kvorum.quorum.raft.prevote import PreVotes
from kvorum.quorum.raft.replica import Outbox, RaftLink, Replica, StateMachine
from kvorum.quorum.raft.settings import RaftSettings
from kvorum.quorum.raft.snapshotting import Snapshotting
from kvorum.runtime.clock import Clock

TIMER_SLACK_S = 0.0005
"""pysyncobj compares deadlines strictly; a timer that fires on the dot would find nothing due."""


class QuorumNode:
    """See the module. Construct inside the running loop with the result of `opening.open_node`; then `start`."""

    core_class: type[RaftCore] = RaftCore

    def __init__(
        self,
        opened: Opened,
        *,
        link: RaftLink,
        machine: StateMachine,
        settings: RaftSettings,
        clock: Clock,
        rng: Random,
        on_fatal: Callable[[BaseException], None],
    ) -> None:
        """Start as a follower."""
        self._loop = asyncio.get_running_loop()
        self._on_fatal = on_fatal
        self._settings = settings
        self.halted = False
        self.observer: RaftObserver = Unobserved()
        self._tick_handle: asyncio.Handle | None = None
        self._timer: asyncio.Handle | None = None
        self._timer_due = 0.0  # kept here: uvloop's handle of a time that is over does not know it
        self._commit_notice: asyncio.TimerHandle | None = None
        self._queue: list[Callable[[int, int], bytes | None]] = []
        incarnation = rng.getrandbits(62)
        voters, journal = opened.voters, opened.journal
        self.node_id = voters.node_id
        self._seen_version = -1
        core = self.core_class(
            node_id=self.node_id,
            voter_ids=tuple(sorted(voters.ids)),
            journal=journal,
            hooks=self,
            settings=settings,
            rng=rng,
        )
        self.replica = Replica(
            core=core,
            journal=journal,
            snapshots=opened.snapshots,
            voters=voters,
            prevotes=PreVotes(self.node_id, settings, rng, leader_seen=self._loop.time()),
            outbox=Outbox(link, journal),
            settings=settings,
            clock=clock,
            machine=machine,
            wake=self.wake,
            fail=self.fail,
        )
        self.leader = Leader(self.replica, self.peer_ids)
        self.membership = Membership(self.replica, self.leader)
        self.snapshotting = Snapshotting(self.replica)
        self.group_commit = GroupCommit(self.replica, self.snapshotting, self._synced)
        self.applier = Applier(self.replica, self.leader, self.snapshotting)
        self.follower = Follower(self.replica, self.applier)
        self.elections = Elections(self.replica)
        self.greetings = Greetings(self.replica, self.leader, self.elections, incarnation)

    @property
    def peer_ids(self) -> tuple[int, ...]:
        """The other voters, in order."""
        return tuple(peer for peer in sorted(self.replica.voters.ids) if peer != self.node_id)

    def start(self) -> None:
        """Start to load the newest snapshot into the state machine, and to participate."""
        replica = self.replica
        if replica.snapshots.latest is not None:
            self.applier.load_latest()
        if replica.voters.others_needed == 0:
            # No other voter exists: a wait for an election timeout would gain nothing.
            replica.core.set_election_deadline(self._loop.time() - TIMER_SLACK_S)
        self.wake()

    def stop(self) -> None:
        """Stop participating.

        Entries in the journal that are not durable yet are left to the group commit in progress.
        """
        self.halted = True
        for handle in (self._tick_handle, self._timer, self._commit_notice):
            if handle is not None:
                handle.cancel()
        self.applier.stop()
        self.group_commit.stop()
        self.leader.end()
        self.membership.lost_leadership()
        queue, self._queue = self._queue, []
        for place in queue:
            place(0, self.replica.core.term())
        self.replica.machine.lost_leadership()

    def fail(self, error: BaseException) -> None:
        """End the node."""
        if not self.halted:
            self.stop()
            self._on_fatal(error)

    # The link.

    def connected(self, peer: int) -> None:
        """The connection to a peer is up; it begins with a Hello."""
        if self.halted:
            return
        self.elections.connected.add(peer)
        self.leader.peer(peer).connected = True
        self.greetings.connected(peer)
        if self.leader.first_index != NO_INDEX:
            self.leader.new_session(peer)
        self.wake()

    def disconnected(self, peer: int) -> None:
        """The connection to a peer is lost."""
        if self.halted:
            return
        self.replica.outbox.heard(peer)
        self.elections.connected.discard(peer)
        self.leader.peer(peer).connected = False
        self.leader.peer(peer).end_transfer()
        if peer not in self.replica.voters.ids:
            self.leader.forget(peer)

    def refused(self, peer: int) -> None:
        """A connection to the peer's own address (never a proxy's) was refused."""
        if not self.halted and peer == self.replica.core.leader_id() and not self.replica.core.is_leader():
            self.elections.leader_refused()

    def receive(self, peer: int, frame: bytes | memoryview) -> None:
        """Process a frame. Raises MalformedFrame: the link drops the connection."""
        if self.halted:
            return
        message = decode(frame)
        try:
            self._dispatch(peer, message)
        except Exception as error:
            self.fail(error)
        self.wake()

    def _dispatch(self, peer: int, message: Message) -> None:
        if isinstance(message, Hello):
            self.greetings.on_hello(peer, message)
            return
        if peer not in self.replica.voters.present:
            return
        if isinstance(message, Ack | SnapshotAck | PreVoteAnswer | VoteAnswer):
            self.replica.outbox.heard(peer)
        elections, core = self.elections, self.replica.core
        match message:
            case Append():
                elections.leader_heard()
                self.on_append(peer, message)
            case Ack() | SnapshotAck():
                self._on_answer(peer, message)
            case SnapshotChunk():
                elections.leader_heard()
                self.follower.on_chunk(peer, message)
            case PreVote():
                elections.on_prevote(peer, message)
            case PreVoteAnswer():
                elections.on_prevote_answer(peer, message)
            case Vote():
                elections.on_vote(peer, message)
            case VoteAnswer():
                elections.on_vote_answer(peer, message)
            case TimeoutNow():
                elections.on_timeout_now(peer, message)
        assert core.commit_index() <= self.replica.journal.last_index

    def on_append(self, peer: int, message: Append) -> None:
        """Process an Append."""
        self.follower.on_append(peer, message)

    def _on_answer(self, peer: int, message: Ack | SnapshotAck) -> None:
        core = self.replica.core
        if message.term > core.term():
            core.adopt_term(message.term)
        elif core.is_leader():
            self.on_answer(peer, message)

    def on_answer(self, peer: int, message: Ack | SnapshotAck) -> None:
        """Process a response, as the leader."""
        if isinstance(message, Ack):
            self.leader.on_ack(peer, message)
        else:
            self.leader.on_snapshot_ack(peer, message)

    def readmit(self, node_id: int, directory_id: bytes) -> None:
        """Pin a directory on behalf of an operator, if no leader can be elected (voters.py has the consequences)."""
        self.replica.voters.force(node_id, directory_id)
        self.replica.keep_voters()
        self.wake()

    # Driving.

    def submit(self, place: Callable[[int, int], bytes | None]) -> None:
        """Queue a command: `place(index, term)` is called with its position in the log and returns its bytes.

        Index 0 means that this node does not lead; then nothing is appended. None appends nothing.
        """
        self._queue.append(place)
        self.wake()

    def wake(self) -> None:
        """Tick soon; many calls make one tick."""
        if self._tick_handle is None and not self.halted:
            self._tick_handle = self._loop.call_soon(self._tick)

    def _tick(self) -> None:
        self._tick_handle = None
        if self.halted:
            return
        core, leader = self.replica.core, self.leader
        committed = core.commit_index()
        try:
            self._count_voters()
            core.tick()
            if core.is_leader():
                if core.last_applied() >= leader.first_index:
                    leader.propose_voters()
                if leader.reads.wanted:
                    leader.start_reads()
                    if self.replica.voters.others_needed == 0:
                        self.wake()
                if core.commit_index() != committed:
                    self._notice_commit()
            self.greetings.tell_news()
            self.group_commit.flush()
        except Exception as error:
            self.fail(error)
            return
        self._arm()

    def _count_voters(self) -> None:
        """Let pysyncobj count by the voter set that is in force now, and the link reach its members."""
        voters = self.replica.voters
        if voters.version == self._seen_version or not (voters.dynamic or self._seen_version >= 0):
            return
        self._seen_version = voters.version
        others = self.peer_ids
        for peer in others:
            self.leader.peer(peer)
        self.replica.core.set_voters(others, with_itself=voters.counts_itself)
        self.leader.recount()
        self.replica.outbox.reach(others, voters.endpoints)

    def _arm(self) -> None:
        """Set the timer to the next deadline; an earlier timer only causes an additional tick."""
        core = self.replica.core
        due = (core.heartbeat_due() if core.is_leader() else core.election_deadline()) + TIMER_SLACK_S
        if self._timer is not None:
            if self._timer_due <= due:
                return
            self._timer.cancel()
        self._timer, self._timer_due = self._loop.call_at(due, self._timer_fired), due

    def _timer_fired(self) -> None:
        self._timer = None
        self.replica.outbox.reset_silent(self._settings.link_silence_s)
        self.wake()

    def _notice_commit(self) -> None:
        if self._commit_notice is None and self.leader.peers:
            self._commit_notice = self._loop.call_later(self._settings.commit_notice_s, self._send_commit_notice)

    def _send_commit_notice(self) -> None:
        self._commit_notice = None
        if self.replica.core.is_leader() and not self.halted:
            self.leader.notify_commit()

    def _synced(self, seconds: float) -> None:
        self.observer.synced(seconds)

    # CoreHooks.

    def may_stand(self) -> bool:
        """See CoreHooks."""
        return self.elections.may_stand()

    def send_appends(self) -> None:
        """See CoreHooks."""
        self.leader.heartbeat()

    def send_message(self, node_id: int, message: dict[str, Any]) -> None:
        """See CoreHooks."""
        self.elections.send(node_id, message)

    def compact(self) -> None:
        """See CoreHooks."""
        if not self.applier.busy:
            self.snapshotting.maybe_start()

    def drain_appends(self) -> None:
        """See CoreHooks."""
        if not self._queue:
            return
        queue, self._queue = self._queue, []
        core, journal = self.replica.core, self.replica.journal
        index, term = journal.last_index, core.term()
        leading = core.is_leader()
        for place in queue:
            command = place(index + 1 if leading else 0, term)
            if command is not None:
                assert leading
                index += 1
                journal.add(command, index, term)
        if leading:
            self.leader.push()

    def apply_committed(self) -> None:
        """See CoreHooks."""
        self.applier.run()

    def state_changed(self, old: int, new: int) -> None:
        """See CoreHooks."""
        if old == LEADER:
            self.leader.end()
            self.membership.lost_leadership()
            self.replica.machine.lost_leadership()
        if new == LEADER:
            self.leader.begin()
        self.observer.role_changed(old, new)
